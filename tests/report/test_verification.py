"""A saved evaluation is counted again from rows: equal to the bit, or each sum that differs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nextloc_metrics import report
from nextloc_metrics.geography import Locations

ONE = 1 << 32  # a score of 1 in units of 2^-32
LISTS = [[3, 5, 1], [4, 2, 0], [1, 3, 2], [0, 4, 5]]
TARGET = [3, 2, 4, 0]
USERS = ["ann", "bob", "ann", "cid"]
ROWS: dict[str, Any] = {"preds": LISTS, "target": TARGET, "groups": {"user": USERS}}
OPTIONS: dict[str, Any] = {"k": 2, "num_locations": 6, "cluster": "user"}


def table(path: Path, preds: list[list[int]] = LISTS, users: list[str] = USERS) -> Path:
    """Write rows with other names of columns than the usual ones."""
    rows = zip(preds, TARGET, users, strict=True)
    names = ("answer", "truth", "who")
    lines = (json.dumps(dict(zip(names, x, strict=True))) + "\n" for x in rows)
    path.write_text("".join(lines), encoding="utf-8")
    return path


def evaluate(path: Path, **options: Any) -> report.Evaluation:
    """Evaluate a table of `table`."""
    return report.evaluate_table(
        path, preds="answer", target="truth", cluster="who", k=2, **options
    )


@pytest.mark.slow
def test_a_table_is_read_by_the_columns_that_were_saved(tmp_path: Path) -> None:
    """Rows in another order are equal; an answer that was changed changes its sums alone."""
    evaluate(table(tmp_path / "a.jsonl")).save(tmp_path / "counts.npz")
    assert report.verify(tmp_path / "counts.npz", tmp_path / "a.jsonl").equal
    back = [x[::-1] for x in (LISTS, TARGET, USERS)]
    lines = zip(*back, strict=True)
    names = ("answer", "truth", "who")
    text = "".join(json.dumps(dict(zip(names, x, strict=True))) + "\n" for x in lines)
    (tmp_path / "b.jsonl").write_text(text, encoding="utf-8")
    assert str(report.verify(tmp_path / "counts.npz", tmp_path / "b.jsonl")) == "equal"
    other = table(tmp_path / "c.jsonl", [[5, 3, 1], *LISTS[1:]])
    found = report.verify(tmp_path / "counts.npz", other)
    assert not found.equal
    # 1/2 + 1/2 + 0 + 1 and the squares, and 1 + 1/2 + 0 + 1; the hits among two stay
    of_mrr = f"mrr: {2 * ONE}, {3 * ONE // 2}; saved {5 * ONE // 2}, {9 * ONE // 4}"
    assert of_mrr in found.differences
    assert not [x for x in found.differences if x.startswith("acc_at_2")]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"k": 1}, "k: (1,); saved (2,)"),
        ({"num_locations": 7}, "num_locations: 7; saved 6"),
        ({"preds": LISTS[:3], "target": TARGET[:3], "groups": {"user": USERS[:3]}}, "queries: 3; "),
        ({"groups": {"user": ["ann", "bob", "ann", "dan"]}}, "groups by user: ('ann', 'bob', 'dan"),
        ({"about": "greedy"}, "about: 'greedy'; saved ''"),
    ],
)
def test_what_is_another_option_is_named_first(change: dict[str, Any], said: str) -> None:
    """Options, the number of queries and groups come before sums."""
    saved = report.evaluate(**ROWS, **OPTIONS)
    assert report.verify(saved, ROWS).equal
    assert report.verify(saved, report.evaluate(**ROWS, **OPTIONS)).equal
    found = report.verify(saved, {**ROWS, **change})
    assert found.differences[0].startswith(said)


def given_again() -> dict[str, tuple[Any, Any]]:
    """What a file has as a digest, and another such object."""
    counts, places = [5, 0, 3, 1, 1, 2], Locations.from_plane(range(6), range(6))
    visits = report_history()
    return {
        "train_counts": (counts, [5, 0, 3, 1, 1, 3]),
        "locations": (places, Locations.from_plane(range(6), [0] * 6)),
        "history": (visits, report_history(1)),
        "vocabulary": ([*"abcdef"], [*"abcdeg"]),
    }


def report_history(shift: int = 0) -> Any:
    """The limits of three users."""
    from nextloc_metrics.analysis import predictability

    places = [(x * x + shift * (x % 2)) % 5 for x in range(300)]
    return predictability(places, [["ann", "bob", "cid"][x % 3] for x in range(300)])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["train_counts", "locations", "history", "vocabulary"])
def test_what_stands_as_a_digest_is_given_again(name: str, tmp_path: Path) -> None:
    """The same object is equal; another one, or none, is named first."""
    own, other = given_again()[name]
    report.evaluate(**ROWS, **OPTIONS, **{name: own}).save(tmp_path / "counts.npz")
    verify: Callable[..., Any] = report.verify
    assert verify(tmp_path / "counts.npz", ROWS, **{name: own}).equal
    for given in ({name: other}, {}):
        found = verify(tmp_path / "counts.npz", ROWS, **given)
        assert any(x.startswith(f"{name}: ") for x in found.differences[:2])


def test_another_version_is_named_if_sums_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums that are equal are equal by any version; of others, the version is said first."""
    saved = tmp_path / "counts.npz"
    monkeypatch.setattr("nextloc_metrics.report.evaluation_counts.__version__", "9.9")
    report.evaluate(**ROWS, **OPTIONS).save(saved)
    assert report.verify(saved, ROWS).equal
    found = report.verify(saved, {**ROWS, "preds": LISTS[::-1]})
    assert found.differences[0].startswith("version: ")
    assert found.differences[0].endswith("; saved 9.9")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["scores", "several", "weights", "probabilities"])
def test_every_kind_of_rows(kind: str, tmp_path: Path) -> None:
    """Scores, several relevant ids, weights and probabilities are counted again as they were."""
    generator = np.random.default_rng(0)
    scores = generator.random((30, 6)).astype(np.float32)
    rows: dict[str, Any] = {"preds": scores, "target": generator.integers(0, 6, 30)}
    options: dict[str, Any] = {"k": [1, 3], "exempt_target": True}
    if kind == "several":
        rows["target"] = np.array([[x, (x + 1) % 6] for x in rows["target"]])
    if kind == "weights":
        rows["weights"] = generator.random(30) + 1
    if kind == "probabilities":
        options["given"] = "logits"
    rows["exclude"] = [[5]] * 30
    report.evaluate(**rows, **options).save(tmp_path / "counts.npz")
    assert report.verify(tmp_path / "counts.npz", rows).equal
    last = {**rows, "preds": np.concatenate([scores[:-1], -scores[-1:]])}
    assert not report.verify(tmp_path / "counts.npz", last).equal
