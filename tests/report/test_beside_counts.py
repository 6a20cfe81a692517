"""Counts of a person's visits as models beside others, by `history`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from nextloc_metrics import analysis, report
from nextloc_metrics.analysis import VisitCounts

DRAW = np.random.default_rng(0)
VISITS, OWNERS = DRAW.integers(0, 64, 500) // 8, DRAW.choice(["ann", "bob", "cid"], 500)
TIMES = np.sort(DRAW.integers(0, 10**7, 500))
USERS = DRAW.choice(["ann", "bob", "cid", "dan"], 90)
SCORES = DRAW.integers(0, 9, (90, 8)).astype(np.float32)
TARGET, LAST = DRAW.integers(0, 8, (2, 90))
NOW = DRAW.integers(10**7, 2 * 10**7, 90)
MASK = np.arange(90) % 7 > 0
ROWS = ["most visited of the user", "at this hour", "Markov"]
GIVEN: dict[str, Any] = {
    "mask": MASK, "groups": {"user": USERS}, "cluster": "user", "k": (1, 3),
    "confidence_level": 0.9,
}  # fmt: skip


def by_scores() -> dict[str, Any]:
    """The same models with all scores in memory."""
    counts = VisitCounts(VISITS, OWNERS, TIMES, num_locations=8)
    return {
        "most visited of the user": counts.scores(USERS),
        "at this hour": counts.scores(USERS, NOW),
        "Markov": counts.scores(USERS, last=LAST),
    }


@pytest.mark.slow
@pytest.mark.usefixtures("blank_pictures")
def test_rows_are_those_of_models_with_these_scores() -> None:
    """Values, paired differences and p-values; `evaluate` has them beside its own result."""
    given = {**GIVEN, "exclude": (TARGET[:, None] + [1, 2]) % 8}
    expected = report.compare({"model": SCORES, **by_scores()}, TARGET, **given)
    beside: dict[str, Any] = {"history": (VISITS, OWNERS, TIMES), "times": NOW, "last": LAST}
    found = report.compare({"model": SCORES}, TARGET, **beside, **given)
    assert list(found.values) == ["model", *ROWS]
    assert found.values == expected.values
    assert found.comparisons == expected.comparisons
    assert str(found.table) == str(expected.table)
    whole = report.evaluate(SCORES, TARGET, **beside, **given)
    assert whole.counts is not None
    assert str(whole.counts.table) == str(expected.table)
    assert whole.values == report.evaluate(SCORES, TARGET, **given).values
    assert report.merge([whole]).counts is None  # paired differences are not counts that add up
    page = whole.to_html()
    for text in (str(whole), whole.to_markdown(), page):
        assert "at this hour" in text
    assert "Beside counts of visits" in page


def test_rows_without_times_or_last_are_left_out_and_fitted_ones_added() -> None:
    """What a query does not say is not guessed; a fitted object is one more model."""
    pair = report.compare({"model": SCORES}, TARGET, history=(VISITS, OWNERS), **GIVEN)
    assert list(pair.values) == ["model", ROWS[0]]
    fitted = VisitCounts(VISITS, OWNERS, TIMES, num_locations=8)
    fitted.hours, fitted.moves = 0.5, 2
    beside: dict[str, Any] = {"history": fitted, "times": NOW, "last": LAST}
    runs = report.compare({"model": [SCORES, SCORES[:, ::-1].copy()]}, TARGET, **beside, **GIVEN)
    assert list(runs.values) == ["model", *ROWS, "fitted counts"]
    assert "runs' variance is not" not in str(runs)  # counts are deterministic
    scores = by_scores() | {"fitted counts": fitted.scores(USERS, NOW, LAST)}
    expected = report.compare(scores, TARGET, **GIVEN)
    assert {name: runs.values[name] for name in scores} == expected.values
    assert fitted.hours == 0.5


def test_lists_have_as_many_candidates_as_visits_and_targets_name() -> None:
    """A list has no number of candidates; all pairs may be asked for; users may be numbers."""
    lists = np.argsort(-SCORES, axis=1)[:, :3]
    numbers, owners = (np.unique(x, return_inverse=True)[1] for x in (USERS, OWNERS))
    given = {**GIVEN, "groups": {"user": numbers}, "against": "all"}
    found = report.compare({"llm": lists}, TARGET, history=(VISITS, owners), last=LAST, **given)
    scores = {name: by_scores()[name] for name in ("most visited of the user", "Markov")}
    expected = report.compare({"llm": lists, **scores}, TARGET, **given)
    assert found.values == expected.values
    assert len(found.pairs) == 3


def test_a_table_has_no_rows_of_counts() -> None:
    """It keeps no queries; the message names what does."""
    remedy = "counts of visits are rows of `evaluate`, for what `report.read` returns"
    for name in ("times", "last"):
        with pytest.raises(TypeError, match=f"evaluate_table has no option `{name}`; {remedy}"):
            report.evaluate_table("x.csv", **{name: "hour"})


@pytest.mark.slow
def test_a_ceiling_has_the_visits_of_counts_in_the_order_of_time() -> None:
    """Three forms of one history have the same limits; limits alone have no counts."""
    order = DRAW.permutation(500)
    shuffled = (VISITS[order], OWNERS[order], TIMES[order])
    counts = VisitCounts(*shuffled, num_locations=8)
    limits = analysis.predictability(VISITS, OWNERS)
    options: dict[str, Any] = {"groups": {"user": USERS}, "k": 1}
    for history in ((VISITS, OWNERS), shuffled, counts, limits):
        found = report.evaluate(SCORES, TARGET, history=history, **options)
        assert found.ceiling is not None
        assert torch.equal(found.ceiling.limits.limit, limits.limit)
        assert (found.counts is None) == (history is limits)


def test_wrong_histories_name_what_to_change() -> None:
    """The users of the queries, the number of candidates, and ids that are none of them."""
    with pytest.raises(ValueError, match=r"`groups` must have the key 'user'.*got \['hour'\]"):
        report.compare({"m": SCORES}, TARGET, groups={"hour": NOW}, history=(VISITS, OWNERS))
    counts = VisitCounts(VISITS, OWNERS, num_locations=9)
    with pytest.raises(ValueError, match="must count visits to the 8 candidates, got 9"):
        report.compare({"m": SCORES}, TARGET, history=counts, groups={"user": USERS})
    with pytest.raises(ValueError, match="must be below `num_locations`, 8, got 8"):
        report.compare({"m": SCORES}, TARGET, history=([8], ["ann"]), groups={"user": USERS})


@pytest.mark.parametrize("left_out", ["no rows", "masked"])
def test_nothing_that_counts(left_out: str) -> None:
    """There is nothing to compare: `evaluate` has no such rows, and `compare` says so."""
    kept = slice(0 if left_out == "no rows" else 3)
    target = TARGET[kept]
    given: dict[str, Any] = {"groups": {"user": GIVEN["groups"]["user"][kept]}, "k": 1}
    given["mask"] = np.zeros(len(target), bool) if left_out == "masked" else None
    history = (VISITS, OWNERS, TIMES)
    e = report.evaluate(SCORES[kept], target, history=history, cluster="user", **given)
    assert e.counts is None
    assert np.isnan(e.values["mrr"])
    assert "Beside counts" not in e.to_html()
    with pytest.raises(ValueError, match="`target` must hold at least one query that counts, got"):
        report.compare({"a": SCORES[kept], "b": -SCORES[kept]}, target, cluster="user", **given)
