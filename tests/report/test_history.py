"""Acc@1 between chance and the limit of predictability, as means over users, by `history`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.stats

from nextloc_metrics import analysis, report
from nextloc_metrics.report.history import Ceiling

DRAW = np.random.default_rng(0)
SIZES = {"ann": 200, "bob": 150, "cid": 120, "dan": 30, "eve": 140}
VISITS = DRAW.integers(0, 64, sum(SIZES.values())) // 8
OWNERS = np.repeat(list(SIZES), list(SIZES.values()))
# "dan" has few visits, "eve" has no query that counts, and "fay" has no history
USERS = np.repeat(["ann", "bob", "cid", "dan", "eve", "fay"], [30, 20, 10, 10, 5, 5])
SCORES = DRAW.integers(0, 20, (80, 8)).astype(np.float32)
TARGET = DRAW.integers(0, 8, 80)
SCORES[:30, 0] += 20 * (TARGET[:30] == 0)
MASK = USERS != "eve"
COUNTS = np.array([5, 9, 9, 1, 0, 2, 3, 4])
KEPT = ["ann", "bob", "cid"]


def evaluate(**options: Any) -> Ceiling:
    """The ceiling of the evaluation of the scores."""
    arguments: dict[str, Any] = {
        "k": 1, "groups": {"user": USERS}, "mask": MASK, "train_counts": COUNTS,
        "history": (VISITS, OWNERS), **options,
    }  # fmt: skip
    found = report.evaluate(arguments.pop("preds", SCORES), TARGET, **arguments).ceiling
    assert found is not None
    return found


def of_users(scores: Any, excluded: Any = None) -> list[float]:
    """The accuracies of the users who count, in loops; of tied best ones each counts its share."""
    means = []
    for user in KEPT:
        hits = []
        for row in np.flatnonzero(user == USERS):
            own = scores[row].copy()
            if excluded is not None:
                own[excluded[row]] = -np.inf
            best = np.flatnonzero(own == own.max())
            hits.append((TARGET[row] in best) / len(best))
        means.append(float(np.mean(hits)))
    return means


def test_rows_are_means_over_the_same_users() -> None:
    """Chance, most frequent, model and limits: of users with visits enough, and a query."""
    found = evaluate()
    frequent = of_users(np.tile(COUNTS.astype(float), (80, 1)))
    model = of_users(SCORES)
    limits = analysis.predictability(VISITS, OWNERS)
    assert list(found.rows) == [
        "chance", "most frequent", "model", "limit of shuffled visits", "limit"
    ]  # fmt: skip
    expected = [1 / 8, np.mean(frequent), np.mean(model)]
    expected += [float(column[:3].mean()) for column in (limits.shuffled, limits.limit)]
    values = [row.value for row in found.rows.values()]
    assert values == pytest.approx(expected, abs=1e-6)
    assert found.limits.few_visits.tolist() == [False] * 3 + [True] * 2
    share = (values[2] - values[1]) / (values[4] - values[1])
    assert found.share == pytest.approx(share)
    to_shuffled = (values[2] - values[1]) / (values[3] - values[1])
    assert f"limit: {100 * share:.0f} %; to the limit of shuffled visits: " in str(found.table)
    assert f"shuffled visits: {100 * to_shuffled:.0f} %" in str(found.table)
    assert "mean over 3 users; 2 users left out" in str(found.table)


def test_intervals_are_those_of_users() -> None:
    """As wide as Student's, and the confidence level is that of the evaluation."""
    found = evaluate(confidence_level=0.5)
    shuffled = analysis.predictability(VISITS, OWNERS).shuffled[:3]
    half = scipy.stats.t.ppf(0.75, 2) * float(shuffled.std()) / 3**0.5
    bounds = found.rows["limit of shuffled visits"].bounds
    assert bounds is not None
    assert bounds[1] - bounds[0] == pytest.approx(2 * half, rel=0.01)
    assert "50 % interval" in str(found.table)


def test_excluded_candidates_are_left_out_of_all_rows() -> None:
    """The baseline has them, too; chance then depends on the query and is left out."""
    excluded = (TARGET[:, None] + np.array([1, 3])) % 8
    found = evaluate(exclude=excluded)
    frequent = of_users(np.tile(COUNTS.astype(float), (80, 1)), excluded)
    assert found.rows["most frequent"].value == pytest.approx(np.mean(frequent), abs=1e-6)
    assert found.rows["model"].value == pytest.approx(np.mean(of_users(SCORES, excluded)), abs=1e-6)
    assert "chance" not in found.rows


def test_lists_and_other_names_of_users() -> None:
    """Lists have no chance level; users may be numbers, named by `cluster`."""
    lists = np.argsort(-SCORES, axis=1, kind="stable")[:, :3]
    numbers = np.unique(USERS, return_inverse=True)[1]
    owners = np.unique([*SIZES, "fay"], return_inverse=True)[1]
    of_visits = np.repeat(owners[:5], list(SIZES.values()))
    found = evaluate(
        preds=lists,
        train_counts=None,
        groups={"person": numbers, "user": numbers % 2},
        cluster="person",
        history=(VISITS, of_visits),
        num_locations=8,
    )
    assert list(found.rows) == ["model", "limit of shuffled visits", "limit"]
    first = np.eye(8)[lists[:, 0]]
    assert found.rows["model"].value == pytest.approx(np.mean(of_users(first)), abs=1e-6)
    assert found.share == found.rows["model"].value / found.rows["limit"].value


@pytest.mark.usefixtures("blank_pictures")
def test_the_ceiling_is_shown_beside_the_headline() -> None:
    """In text, in Markdown, and on the page; never a limit without that of shuffled visits."""
    arguments: dict[str, Any] = {"k": 1, "groups": {"user": USERS}}
    found = report.evaluate(SCORES, TARGET, history=(VISITS, OWNERS), **arguments)
    plain = report.evaluate(SCORES, TARGET, **arguments)
    assert plain.ceiling is None
    page = found.to_html()
    for text in (repr(found), found.to_markdown(), page):
        assert "limit of shuffled visits" in text
        assert "way from the baseline" in text
    assert "How far from the ceiling" in page
    for text in (repr(plain), plain.to_markdown()):
        assert "limit" not in text
    assert found.values == plain.values


def test_shards_are_merged_bit_for_bit(tmp_path: Path) -> None:
    """Of files, of evaluators and of all queries at once; users are in several shards."""
    whole = evaluate()
    parts = []
    for first in range(3):
        rows = slice(first, None, 3)
        parts.append(
            report.evaluate(
                SCORES[rows],
                TARGET[rows],
                k=1,
                groups={"user": USERS[rows]},
                mask=MASK[rows],
                train_counts=COUNTS,
                history=(VISITS, OWNERS),
            )
        )
        parts[-1].save(tmp_path / f"{first}.npz")
    for merged in (report.merge(parts), report.merge(sorted(tmp_path.iterdir()))):
        assert merged.ceiling is not None
        assert merged.ceiling.rows == whole.rows
        assert str(merged.ceiling.table) == str(whole.table)
        assert merged.ceiling.limits.users == whole.limits.users


def test_limits_may_be_given_with_other_options() -> None:
    """What `predictability` returned, for a table as for arrays; shards must agree on them."""
    limits = analysis.predictability(VISITS, OWNERS, stays=False, min_visits=50)
    found = evaluate(history=limits)
    assert found.rows["limit"].value == pytest.approx(float(limits.limit[:3].mean()), abs=1e-9)
    table = pa.table(
        {"preds": SCORES.argsort(1)[:, ::-1].tolist(), "target": TARGET, "user": USERS}
    )
    options: dict[str, Any] = {"groups": ["user"], "num_locations": 8, "k": 1}
    one = report.evaluate_table(table, history=limits, **options)
    other = report.evaluate_table(table, history=(VISITS, OWNERS), **options)
    assert one.ceiling is not None
    assert other.ceiling is not None
    assert one.ceiling.rows["limit"] != other.ceiling.rows["limit"]
    with pytest.raises(ValueError, match=r"agree on `history`.*; pass the same `history`"):
        report.merge([one, other])


def test_a_ceiling_prints_its_table_and_says_that_there_is_no_limit() -> None:
    """Without users with enough visits rows are NaN, and a note stands for the share."""
    assert str(evaluate()).splitlines()[0].startswith("percent")
    short = evaluate(history=(VISITS[:50], OWNERS[:50]))
    assert np.isnan([short.rows["model"].value, short.rows["limit"].value]).all()
    assert str(short).splitlines()[-1] == "no limit: no user has enough visits and a query"
    assert "nan %" not in str(short)


def test_what_is_no_history_is_refused_with_the_remedy() -> None:
    """A data frame has to be taken apart, and limits need the users of the queries."""
    with pytest.raises(TypeError, match=r"`history` must be \(visits, users\)"):
        report.evaluate(SCORES, TARGET, history={"user": OWNERS}, groups={"user": USERS})
    with pytest.raises(ValueError, match=r"got \[\]; pass `groups=\{'user': users\}`"):
        report.evaluate(SCORES, TARGET, history=(VISITS, OWNERS))


def test_what_made_the_predictions_is_said_beside_a_history() -> None:
    """`about` of one evaluation is no text for each model, as counts of visits are beside it."""
    given: Any = {"k": 1, "groups": {"user": ["ann", "ann"]}, "history": ([1, 2, 1], ["ann"] * 3)}
    scores = np.array([[0.1, 0.7, 0.2], [0.4, 0.3, 0.3]])
    found = report.evaluate(scores, [1, 2], about={"decoding": "free"}, **given)
    assert found.card["about"] == "decoding: free"
    assert found.counts is not None
