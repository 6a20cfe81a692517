"""Values by decile of the target: accuracy in full lists first, and what a decile's size fixes."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from command import main
from inner import saved
from nextloc_metrics import (
    DecileCoverage,
    DecileNDCG,
    PopularityBins,
    RankingCollection,
    decile_metrics,
    plotting,
    report,
)

VISITS = np.array([0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 3, 4, 4, 15, 25, 25])
BINS = PopularityBins.from_counts(VISITS)
OF = BINS.bin_of.numpy()


def table_of(e: Any) -> dict[str, dict[str, str]]:
    """The cells of the table of deciles, by decile and column."""
    header = [x.removesuffix(" (%)") for x in e.deciles.header]
    rows = [[x.strip() for x in row] for row in e.deciles.rows]
    return {row[0]: dict(zip(header, row, strict=True)) for row in rows}


def test_a_model_that_puts_the_popular_location_last_has_no_accuracy_there() -> None:
    """Its decile holds one location: all is 1 within it, and the full list has it last."""
    scores = np.tile(np.arange(6.0), (3, 1))
    scores[:, 0] = -5
    e = report.evaluate(scores, [0, 0, 0], k=1, train_counts=[1000, 1, 1, 1, 1, 1])
    assert e.deciles is not None
    assert e.deciles.header[1:3] == ("acc_at_1 (%)", "95 % interval")
    cells = table_of(e)["10"]
    assert (cells["acc_at_1"], cells["95 % interval"]) == ("0.00", "0.00 - 56.15")  # Wilson's
    fixed = {name: cells[name] for name in cells if cells[name].endswith("†")}
    assert fixed == {
        "ndcg_at_1": "100.00†", "precision_at_1": "100.00†", "k_for_recall_50": "1†",
        "coverage_at_1": "100.00†",
    }  # fmt: skip
    assert (cells["queries"], cells["locations"]) == ("3", "1")
    assert "coverage_at_1 of all deciles: 100.00 %†" in e.deciles.notes
    assert any(x.startswith("† fixed by the number of locations") for x in e.deciles.notes)


def expected_hit(row: Any, relevant: list[int], k: int) -> float:
    """The share of orders of tied candidates in which one of the relevant is within rank k."""
    best = max(relevant, key=lambda x: row[x])
    above, tied = (row > row[best]).sum(), (row == row[best]).sum()
    others, ranks = tied - sum(row[x] == row[best] for x in relevant), max(0, k - above)
    none = 1.0
    for i in range(min(ranks, tied)):
        none *= (others - i) / (tied - i)
    return 1 - none


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("cluster", [None, "user"])
def test_accuracy_by_decile_is_that_of_the_queries_with_a_target_in_it(
    several: bool, cluster: str | None
) -> None:
    """Ties count by expectation; of several targets, those in the decile are relevant."""
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 7, (80, 19)).astype(np.float32)
    target = np.stack([rng.permutation(19)[: 1 + several] for _ in range(80)])
    users = [f"u{x}" for x in rng.integers(0, 9, 80)]
    options: dict[str, Any] = {"k": (1, 5), "train_counts": VISITS, "cluster": cluster}
    given = target if several else target[:, 0]
    e = report.evaluate(scores, given, groups={"user": users}, **options)
    assert e.deciles is not None
    values = {record["metric"]: record for record in e.deciles.records}
    for k, decile in product((1, 5), range(11)):
        hits = [
            expected_hit(row, own, k)
            for row, ids in zip(scores, target, strict=True)
            if (own := [x for x in ids.tolist() if OF[x] == decile])
        ]
        record = values[f"acc_at_{k}_decile_{f'{decile:02}' if decile else 'unmapped'}"]
        mean = np.mean(hits) if hits else np.nan
        assert record["value"] == pytest.approx(mean, nan_ok=True)
        assert np.isnan(mean) or record["low"] <= mean <= record["high"]
        assert record["locations"] == (decile == OF).sum()
        assert table_of(e)[str(decile or "unmapped")]["queries"] == str(len(hits))
    parts = [x for x in e.rows() if x["metric"].startswith("acc_at_5_decile_")]
    assert len(parts) == 11


@pytest.mark.parametrize("k", [1, 2, 4, 30])
def test_daggers_are_on_the_values_that_the_best_and_the_worst_model_share(k: int) -> None:
    """One query for each location, which is first in its list, or last; no other value has one."""
    target = np.arange(len(VISITS))
    best = np.eye(len(VISITS))
    both = [report.evaluate(x, target, k=k, train_counts=VISITS) for x in (best, 1 - best)]
    good, bad = map(table_of, both)
    within = [x for x in good["1"] if x.startswith(("ndcg", "precision", "k_for", "coverage"))]
    assert len(within) == 4
    for decile, cells in good.items():
        for name, cell in cells.items():
            is_fixed = name in within and cell.strip("†") == bad[decile][name].strip("†") != "-"
            assert cell.endswith("†") == is_fixed, (decile, name, cell, bad[decile][name])
            assert bad[decile][name].endswith("†") == is_fixed


def test_every_format_has_accuracy_daggers_and_note(tmp_path: Path) -> None:
    """Text, Markdown, LaTeX, HTML, CSV, JSON, the page, and what the shell prints."""
    rng = np.random.default_rng(1)
    scores, target = rng.random((50, 19)), np.arange(50) % 19
    e = report.evaluate(scores, target, k=(1, 4), train_counts=VISITS)
    table = e.deciles
    assert table is not None
    says, title = "fixed by the number of locations", "ranks within the decile"
    for text in (str(table), table.to_markdown(), table._repr_html_(), e.to_html()):
        assert f"† {says}" in text
        assert "ranks in full lists; others: ranks within the decile" in text.replace("\\", "")
    assert r"100.00\textdagger{}" in table.to_latex()
    assert all(x in table.to_csv() for x in ("acc_at_1_decile_01,", says, "locations,note"))
    of_json = json.loads(table.to_json())
    assert says in of_json["ndcg_at_4_decile_04"]["note"]
    assert of_json["acc_at_1_decile_04"]["note"] == ""
    for text in (e.to_html(), e.to_markdown().replace("\\", "")):
        assert f"accuracy in full lists, others at {title}" in text
    np.savez(tmp_path / "s.npz", preds=scores, target=target)
    np.save(tmp_path / "c.npy", VISITS)
    command = ["score", f"{tmp_path}/s.npz", "--k", "1,4", "--train-counts", f"{tmp_path}/c.npy"]
    shown = CliRunner().invoke(main, command).stdout
    assert f"accuracy in full lists, others at {title}\n{table}" in shown
    found = json.loads(CliRunner().invoke(main, [*command, "--format", "json"]).stdout)
    assert found["deciles"] == of_json
    noted = CliRunner().invoke(main, [*command, "--format", "csv"]).stderr
    assert "leaves out the values by decile" in noted


def drawn(figure: Any) -> str:
    """All text of a figure."""
    figure.draw_without_rendering()
    return "\n".join(x.get_text() for x in figure.findobj(lambda x: hasattr(x, "get_text")))


def test_pictures_say_whose_ranks_and_which_values_are_fixed() -> None:
    """The axis says that ranks are within the decile; names of fixed values have a dagger."""
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(1)
    scores, target = rng.random((50, 19)), np.arange(50) % 19
    alone = {x: DecileNDCG(BINS, 2, scope=x) for x in ("within", "all")}
    coverage = {f"k={k}": DecileCoverage(BINS, k) for k in (1, 5)}
    preset = decile_metrics(BINS, 2)
    for metric in (*alone.values(), *coverage.values(), preset):
        metric.update(scores, target)
    sizes = {decile: int((decile == OF).sum()) for decile in range(1, 11)}
    for figure in (plotting.by_group(alone["within"])[0], alone["within"].plot()[0]):
        text = drawn(figure)
        assert "NDCG@2, ranks within the decile" in text
        assert "† fixed by the number" in text.replace("\n", " ")
        names = {x.partition(" ")[0] for x in text.splitlines()}
        for decile, size in sizes.items():
            assert (f"{decile}†" in names, str(decile) in names) == (size == 1, size != 1)
    text = drawn(plotting.by_group(alone["all"])[0])
    assert "†" not in text
    assert "within the decile" not in text
    names = {x.partition(" ")[0] for x in drawn(plotting.by_group(coverage)[0]).splitlines()}
    few = {x for x, size in sizes.items() if 1 <= size <= 5}  # those without any have no value
    assert {x for x in sizes if f"{x}†" in names} == few
    text = drawn(plotting.side_by_side({"a": preset})[0])
    assert "ndcg_at_2_decile_04†" in text
    assert "prediction_share_at_2_decile_04\n" in text
    assert "† fixed by the number" in text.replace("\n", " ")
    assert "100.00†" in str(RankingCollection({"ndcg": alone["within"]}).table())


def test_a_file_without_the_accuracy_by_decile_is_read_and_not_added_to_others(
    tmp_path: Path,
) -> None:
    """Files of 0.6.0 lack it; the other values are as they were, and a merge with new ones says."""
    rng = np.random.default_rng(2)
    scores, target = rng.random((30, 19)), rng.integers(0, 19, 30)
    e, path = report.evaluate(scores, target, k=2, train_counts=VISITS), tmp_path / "new.npz"
    e.save(path)
    header, arrays = saved.read(path)
    del header["setting"]["has_decile_accuracy"], header["version"]
    kept = {x: y for x, y in arrays.items() if not x.startswith("deciles/acc_at_")}
    saved.write(tmp_path / "old.npz", header, kept)
    old = report.merge([tmp_path / "old.npz"])
    assert old.deciles is not None
    assert e.deciles is not None
    theirs = {record["metric"]: record for record in old.deciles.records}
    ours = {record["metric"]: record for record in e.deciles.records}
    assert str(theirs) == str({x: y for x, y in ours.items() if not x.startswith("acc_at_")})
    other = report.evaluate(scores[:9], target[:9], k=2, train_counts=VISITS)
    with pytest.raises(ValueError, match=r"agree on `has_decile_accuracy`, got False in .*old"):
        report.merge([tmp_path / "old.npz", other])
