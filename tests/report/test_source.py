"""A `Source`: what it says of its rows before they are counted, and that it reads them alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nextloc_metrics import protocols, report

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
parquet = pytest.importorskip("pyarrow.parquet")

LISTS = {"preds": [[7, 3], [5, 7]], "target": [3, 5], "user": [1, 2]}
NAMES = {"preds": [["Zoo", "Bar"], ["Bar"]], "target": ["Bar", "Zoo"]}
ITEMS = {"user": [1, 1, 2], "item": [7, 3, 5], "score": [0.5, 0.9, 0.1]}
TRUTH = {"user": [1, 2], "item": [7, 5]}
TEXTS = {"preds": ['["Zoo", "Mars"]', "no idea"], "target": ["Zoo", "Bar"]}


def of(columns: Any, **named: Any) -> report.Source:
    """A source of a table in memory."""
    return report.Source(pa.table(columns), **named)


def arrays_of(folder: Path) -> report.Source:
    """A source of scores in a file of arrays."""
    scores = np.array([[0.25, 0.5, 0.0], [0.5, 0.0, 0.25]])
    np.savez(folder / "scores.npz", preds=scores, labels=np.array([0, 2]))
    return report.Source(folder / "scores.npz", target="labels")


def lists_of(folder: Path) -> report.Source:
    """A source of lists in a file, and of their targets in another."""
    np.save(folder / "lists.npy", np.array(LISTS["preds"]))
    np.save(folder / "targets.npy", np.array(LISTS["target"]))
    return report.Source(folder / "lists.npy", truth=folder / "targets.npy")


def run_of(folder: Path) -> report.Source:
    """A source of a run and of its judgements."""
    (folder / "a.run").write_text("q1 Q0 Zoo 1 0.9 x\nq1 Q0 Bar 2 0.5 x\n", "utf-8")
    (folder / "qrels").write_text("q1 0 Bar 1\n", "utf-8")
    return report.Source(folder / "a.run", truth=folder / "qrels")


# Each form: its source, what a row is, what ids are, the first query, and the MRR of both queries.
FORMS: dict[str, tuple[Callable[[Path], report.Source], str, str, dict[str, Any], float]] = {
    "lists": (
        lambda _: of(LISTS), "lists of ids in 'preds', one id in 'target'", "integers",
        {"preds": [7, 3], "target": 3}, (1 / 2 + 1) / 2,
    ),
    "several targets": (
        lambda _: of({"preds": [[7, 3], [5, 7]], "target": [[3, 9], [5]]}),
        "lists of ids in 'preds', several ids in 'target'", "integers",
        {"preds": [7, 3], "target": [3, 9]}, (1 / 2 + 1) / 2,
    ),
    "scores": (
        lambda _: of({"s": [[0.25, 0.5, 0.0], [0.5, 0.0, 0.25]], "target": [0, 2]}, preds="s"),
        "scores of 3 locations in 's', one id in 'target'", "integers",
        {"preds": [0.25, 0.5, 0.0], "target": 0}, (1 / 2 + 1 / 2) / 2,
    ),
    "wide": (
        lambda _: of({"p_1": [7, 5], "p_2": [3, 7], "target": [3, 5]}, preds="p_*"),
        "an id per rank in 'p_*', one id in 'target'", "integers",
        {"preds": [7, 3], "target": 3}, (1 / 2 + 1) / 2,
    ),
    "items and truth": (
        lambda _: of(ITEMS, truth=pa.table(TRUTH), query="user", item="item", score="score"),
        "items in 'item', ordered by 'score', one id in 'item'", "integers",
        {"preds": [3, 7], "target": 7}, (1 / 2 + 1) / 2,
    ),
    "names": (
        lambda _: of(NAMES), "lists of ids in 'preds', one id in 'target'", "names",
        {"preds": ["Zoo", "Bar"], "target": "Bar"}, (1 / 2 + 0) / 2,
    ),
    "vocabulary": (
        lambda _: of(NAMES, vocabulary=["Bar", "Zoo"]),
        "lists of ids in 'preds', one id in 'target'", "of the vocabulary",
        {"preds": ["Zoo", "Bar"], "target": "Bar"}, (1 / 2 + 0) / 2,
    ),
    "arrays": (
        arrays_of, "scores of 3 locations in 'preds', one id in 'labels'", "integers",
        {"preds": [0.25, 0.5, 0.0], "target": 0}, (1 / 2 + 1 / 2) / 2,
    ),
    "arrays of lists": (
        lists_of, "lists of ids in 'preds', one id in 'target'", "integers",
        {"preds": [7, 3], "target": 3}, (1 / 2 + 1) / 2,
    ),
    "run": (
        run_of, "lists of ids in 'preds', several ids in 'target'", "names",
        {"preds": ["Zoo", "Bar"], "target": ["Bar"]}, 1 / 2,
    ),
    "text of a language model": (
        lambda _: of(TEXTS, answers={"form": "json"}, vocabulary=["Bar", "Zoo"]),
        "texts of a language model in 'preds', one id in 'target'", "of the vocabulary",
        {"preds": ["Zoo", "not in the vocabulary"], "target": "Zoo"}, (1 + 0) / 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_description_says_how_rows_are_evaluated(form: str, tmp_path: Path) -> None:
    """The form, the ids and the first query are what `evaluate` then counts."""
    make, what, ids, first, mrr = FORMS[form]
    source = make(tmp_path)
    said = source.describe()
    assert (said.form, said.ids, dict(said.first)) == (what, ids, first)
    found = report.evaluate(source, measures=["mrr"]).values["mrr"]
    assert found == pytest.approx(mrr)


def test_a_description_is_printed_with_a_line_for_each_attribute() -> None:
    """Also of columns that have no role, and of a number of rows that reading would tell."""
    named: Any = {"truth": pa.table(TRUTH), "query": "user", "item": "item", "score": "score"}
    said = of({**ITEMS, "hour": [7, 8, 9]}, **named).describe()
    roles = {"user": "query", "item": "item", "score": "score", "hour": ""}
    assert dict(said.columns) == roles
    assert str(said).splitlines() == [
        "form     items in 'item', ordered by 'score', one id in 'item'",
        "ids      integers",
        "columns  'user' query, 'item' item, 'score' score, 'hour' not used",
        "row 0    preds [3, 7], target 7",
        "rows     3",
    ]


def test_a_truth_with_a_column_of_targets_is_described_by_it() -> None:
    """The column of the items is that of the targets only where no other is."""
    truth = pa.table({"user": [1, 2], "target": [7, 5], "item": [0, 0]})
    said = of(ITEMS, truth=truth, query="user", item="item", score="score").describe()
    assert said.form.endswith("one id in 'target'")


@pytest.mark.parametrize("is_stream", [False, True])
def test_an_empty_table_has_no_first_row(is_stream: bool) -> None:
    """Its columns have types, so the form is known; the warning is that of `evaluate`."""
    empty = pa.table(LISTS).slice(0, 0)
    source = report.Source(empty.to_reader() if is_stream else empty)
    with pytest.warns(UserWarning, match="should hold rows, got none"):
        said = source.describe()
    assert (said.form, dict(said.first), said.num_rows) == (
        "lists of ids in 'preds', one id in 'target'", {}, 0
    )  # fmt: skip
    assert "row 0    none\n" in str(said)


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("columns", [LISTS, NAMES], ids=["integers", "names"])
def test_a_stream_is_evaluated_after_it_was_described(columns: Any, size: int) -> None:
    """With the same values as one that was not, whatever part of it was read."""
    table = pa.table(columns)
    expected = report.evaluate(table.to_reader(size), k=1)
    source = report.Source(table.to_reader(size))
    said = [source.describe(), source.describe()]
    found = report.evaluate(source, k=1)
    assert said[0] == said[1]
    assert said[0].first == report.Source(table).describe().first
    assert (found.values, found.card) == (expected.values, expected.card)
    assert found.card["queries"] == len(table)


@pytest.mark.parametrize("form", [".parquet", ".csv", ".jsonl"])
def test_rows_are_counted_where_a_file_says_their_number(form: str, tmp_path: Path) -> None:
    """Parquet does, of all its files; text is not read to its end for it."""
    for number in range(2):
        path, frame = tmp_path / f"{number}{form}", pd.DataFrame(LISTS)
        if form == ".parquet":
            parquet.write_table(pa.table(LISTS), path, row_group_size=1)
        elif form == ".csv":
            frame.to_csv(path, index=False)
        else:
            frame.to_json(path, orient="records", lines=True)
    said = report.Source(tmp_path).describe()
    assert said.num_rows == (4 if form == ".parquet" else None)
    assert str(said).splitlines()[-1].split(maxsplit=1)[1] == (
        "4" if form == ".parquet" else "known after reading"
    )


@pytest.mark.parametrize(
    ("named", "truth"),
    [
        ({"preds": "lists"}, None),
        ({"target": "label"}, None),
        ({"query": "uid"}, {"user": [1, 2], "target": [3, 5]}),
        ({"query": "user", "target": "label"}, {"user": [1, 2], "target": [3, 5]}),
    ],
)
def test_an_unknown_column_is_the_same_error(named: Any, truth: Any) -> None:
    """In a description and in an evaluation, also one of another table."""
    source = of(LISTS, truth=None if truth is None else pa.table(truth), **named)
    said = []
    for read in (source.describe, lambda: report.evaluate(source), lambda: report.read(source)):
        with pytest.raises(ValueError, match="must have the columns") as error:
            read()
        said.append(str(error.value))
    assert len({*said}) == 1


def test_score_explains_and_writes_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    """It prints the description with exit code 0, also beside options of output."""
    testing = pytest.importorskip("click.testing")
    from command import main

    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"answers": ["[7, 3]", "[5]"], "target": [3, 5]}).to_csv("a.csv", index=False)
    words = ["score", "a.csv", "--preds", "answers", "--explain", "--k", "1"]
    written = ["--save", "a.npz", "--out", "a.html", "--group", "user", "--group-table", "g.csv"]
    for more in ([], written):
        shown = testing.CliRunner().invoke(main, [*words, *more])
        assert (shown.exit_code, shown.stderr) == (0, "")
        assert shown.stdout == f"{report.Source('a.csv', preds='answers').describe()}\n"
        assert [x.name for x in tmp_path.iterdir()] == ["a.csv"]
    wrong = testing.CliRunner().invoke(main, ["score", "a.csv", "--explain"])
    assert wrong.exit_code == 1
    assert "'preds'" in wrong.stderr


def test_a_source_is_frozen(tmp_path: Path) -> None:
    """Nothing is read before it is used, and no field is set."""
    source = report.Source(tmp_path / "later.csv")
    with pytest.raises(FrozenInstanceError):
        source.preds = "answers"  # type: ignore[misc]
    with pytest.raises(FileNotFoundError, match="must be an existing file"):
        source.describe()
    (tmp_path / "later.csv").write_text("preds,target\n[3],3\n", "utf-8")
    assert report.evaluate(source, k=1).values["acc_at_1"] == 1


def test_a_source_stands_for_its_rows_in_each_function(tmp_path: Path) -> None:
    """`evaluate`, `read` and the bare rows; an array beside it is refused."""
    for number, rows in enumerate((LISTS, NAMES)):
        path = tmp_path / f"{number}.jsonl"
        pd.DataFrame(rows).to_json(path, orient="records", lines=True)
        source = report.Source(path)
        assert report.evaluate(source, k=1).values == report.evaluate(path, k=1).values
        assert report.read(source).preds.tolist() == report.read(path).preds.tolist()
    with pytest.raises(TypeError, match=r"`target` must be None .* `report.Source\(rows, target="):
        report.evaluate(source, [3, 5])
    with pytest.raises(TypeError, match=r"`mask` must name columns where predictions are a table"):
        report.evaluate(source, mask=np.array([True, False]))


def _two_sources(tmp_path: Path) -> dict[str, report.Source]:
    """Two models of the same queries in other orders, with users."""
    rows = {"id": [1, 2, 3, 4], "target": [3, 5, 9, 1], "user": ["a", "a", "b", "c"]}
    good = pd.DataFrame({**rows, "preds": [[x, 0] for x in rows["target"]]})
    bad = pd.DataFrame({**rows, "preds": [[0, x] for x in rows["target"]]})[::-1]
    bad.to_parquet(tmp_path / "bad.parquet")
    return {"bad": report.Source(tmp_path / "bad.parquet"), "good": report.Source(good)}


def test_sources_are_compared_by_a_key_of_queries(tmp_path: Path) -> None:
    """As their arrays are; without the key, other orders are an error."""
    sources = _two_sources(tmp_path)
    found = report.compare(sources, key="id", users="user", k=1)
    target = [1, 9, 5, 3]
    arrays = {"bad": [[0, x] for x in target], "good": [[x, 0] for x in target]}
    expected = report.compare(arrays, target, users=["c", "b", "a", "a"], k=1)
    assert str(found) == str(expected)
    assert found.card == expected.card
    with pytest.raises(ValueError, match="must equal the targets of bad, row by row"):
        report.compare(sources)
    with pytest.raises(TypeError, match="`target` must be None beside sources"):
        report.compare(sources, target)
    bare = {"bad": str(tmp_path / "bad.parquet"), "good": sources["good"].rows}
    assert str(report.compare(bare, key="id", users="user", k=1)) == str(expected)
    with pytest.raises(TypeError, match="every model must be a `Source` if one is, got list"):
        report.compare({**sources, "third": arrays["good"]})


def test_what_does_not_fit_in_a_compared_table_is_counted() -> None:
    """On the card, and by model."""
    truth = pd.DataFrame({"q": [1, 2, 3], "target": [7, 3, 5]})
    lists = pd.DataFrame({"q": [1, 2], "preds": [[7, 1], [1, 3]]})
    every = pd.DataFrame({"q": [1, 2, 3], "preds": [[7, 1], [1, 2], [5, 1]]})
    sources = {
        name: report.Source(rows, truth=truth, query="q")
        for name, rows in {"some": lists, "every": every}.items()
    }
    found = report.compare(sources, k=1)
    assert found.counts == {"some": {"missing": 1}}
    assert found.card["missing some"] == 1
    assert found.values["some"]["mrr"] == pytest.approx((1 + 1 / 2 + 0) / 3)


def test_sources_are_audited(tmp_path: Path) -> None:
    """One, or several by a key of queries, with the users of a column."""
    scores = [[0.1, 0.7, 0.2] * 40, [0.4, 0.3, 0.2] * 40]
    frame = pd.DataFrame({"id": [1, 2], "preds": scores, "target": [1, 0], "user": ["a", "b"]})
    expected = protocols.audit({"one": scores, "two": scores}, [1, 0], ["a", "b"], k=1, seed=3)
    sources = {"one": report.Source(frame), "two": report.Source(frame[::-1])}
    assert str(protocols.audit(sources, users="user", k=1, seed=3, key="id")) == str(expected)
    alone = protocols.audit(report.Source(frame), users="user", k=1, seed=3)
    assert str(alone) == str(protocols.audit(scores, [1, 0], ["a", "b"], k=1, seed=3))
    with pytest.raises(TypeError, match="`target` must be given with scores, got None"):
        protocols.audit(scores)


def test_workers_are_for_tables() -> None:
    """Beside arrays they would do nothing."""
    with pytest.raises(TypeError, match="`workers` must be 1 with arrays, got 2"):
        report.evaluate([[1, 2]], [1], workers=2)


def test_an_unknown_field_is_named_with_the_nearest() -> None:
    """And an argument of `evaluate` with its place."""
    with pytest.raises(TypeError, match="Source has no option `querry`; use `query`"):
        report.Source("a.csv", querry="user")
    with pytest.raises(TypeError, match="`groups`; pass `groups` to what takes the `Source`"):
        report.Source("a.csv", groups=["user"])
