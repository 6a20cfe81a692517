"""Counts of a person's visits: against a loop over visits, and what `fit` may read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nextloc_metrics import AccuracyAtK
from nextloc_metrics.analysis import VisitCounts
from strategies import examples

OPTIONS = st.fixed_dictionaries(
    {
        "hours": st.sampled_from([math.inf, 2.0, 0.7]),
        "weekday": st.sampled_from([1.0, 0.5, 0.0]),
        "half_life": st.sampled_from([math.inf, 3.0, 0.01]),
        "moves": st.sampled_from([0, 2, math.inf]),
        "all_moves": st.booleans(),
    }
)
# hours of a few days around a weekend, many of them equal
TIMES = st.integers(-30, 80).map(lambda hour: 1800 * hour)
NAMES = ["ann", "bob", "cid"]
VISITS = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 5), TIMES), min_size=1)
QUERIES = st.lists(
    st.tuples(st.sampled_from([*NAMES, "dan"]), st.integers(-1, 6), TIMES), min_size=1
)


def keys_by_loops(
    visits: list[Any], query: Any, option: Any, has_times: bool, has_last: bool
) -> list[tuple[float, ...]]:
    """What orders the locations 0 to 6: of each the sums over all visits, one by one."""
    user, last, now = query
    histories = {name: [x for x in visits if x[0] == name] for name in NAMES}
    if has_times:
        histories = {name: sorted(of, key=lambda x: x[2]) for name, of in histories.items()}
    own = histories.get(user, [])
    found: list[tuple[float, ...]] = []
    for location in range(7):
        moved = counted = 0
        for number, (_, place, when) in enumerate(own):
            if place != location:
                continue
            factors = [2 ** (-(len(own) - 1 - number) / option["half_life"])]
            if has_times:
                a, b = (pd.Timestamp(x, unit="s") for x in (when, now))
                apart = abs(a.hour - b.hour)
                same_kind = (a.weekday() >= 5) == (b.weekday() >= 5)
                step = 0 if a.weekday() == b.weekday() else 1 if same_kind else 2
                close = 2 ** (-min(apart, 24 - apart) / option["hours"])
                factors.append(close * option["weekday"] ** step)
            weight = math.prod(round(2**14 * x) for x in factors)
            counted += weight
            if has_last and number and own[number - 1][1] == last:
                moved += weight
        first = (moved, counted)
        if option["moves"] < math.inf:
            first = (counted + option["moves"] * moved, 0)
        plain = sum(x[1] == location for x in own)
        everybody = sum(x[1] == location for x in visits)
        all_moves = 0
        if option["all_moves"] and has_last:
            all_moves = sum(
                of[i - 1][1] == last and of[i][1] == location
                for of in histories.values()
                for i in range(1, len(of))
            )
        found.append((*first, plain, all_moves, everybody))
    return found


@pytest.mark.slow
@examples(60)
@given(VISITS, QUERIES, OPTIONS, st.booleans(), st.booleans())
def test_scores_order_locations_as_a_loop_does(
    visits: list[Any], queries: list[Any], option: Any, has_times: bool, has_last: bool
) -> None:
    """Both what is above and what is tied, for any history, any options and any query."""
    users, places, times = zip(*visits, strict=True)
    counts = VisitCounts(places, users, times if has_times else None, num_locations=7)
    for name, value in option.items():
        setattr(counts, name, value)
    who, last, now = zip(*queries, strict=True)
    scores = counts.scores(who, now if has_times else None, last if has_last else None)
    for row, query in zip(scores.tolist(), queries, strict=True):
        keys = keys_by_loops(visits, query, option, has_times, has_last)
        assert [sorted(set(row)).index(x) for x in row] == [
            sorted(set(keys)).index(x) for x in keys
        ]


def habit() -> tuple[Any, Any, Any]:
    """Two people, each first often at 2, and then at 0 in the morning and at 1 in the evening."""
    hours = np.random.default_rng(0).choice([8, 20], 60)
    visits = np.where(np.arange(60) < 24, 2, hours == 20)
    times = 3600 * (hours + 24 * np.arange(60))
    return np.tile(visits, 2), np.repeat(["ann", "bob"], 60), np.tile(times, 2)


def test_fit_finds_hours_and_recency_and_is_deterministic() -> None:
    """Plain counts predict 2, what `fit` chooses the place of the hour; it returns the object."""
    visits, users, times = habit()
    counts = VisitCounts(visits, users, times, num_locations=3)
    assert counts.scores(["ann"]).argmax() == 2
    assert counts.fit() is counts
    hours = np.array([8, 20, 20]) * 3600
    assert counts.scores(["ann"] * 3, hours).argmax(1).tolist() == [0, 1, 1]
    order = np.random.default_rng(0).permutation(120)
    for rows in (slice(None), order):
        again = VisitCounts(visits[rows], users[rows], times[rows], num_locations=3)
        assert repr(again.fit()) == repr(counts)


def test_fit_predicts_the_last_quarter_from_the_visits_before() -> None:
    """What it chooses is right more often there than plain counts."""
    visits, users, times = habit()
    late = np.tile(np.arange(60) >= 45, 2)
    counts = VisitCounts(visits[~late], users[~late], times[~late], num_locations=3)
    chosen = VisitCounts(visits, users, times, num_locations=3).fit()
    last = np.roll(visits, 1)[late]
    hits = []
    for option in ({"hours": math.inf, "moves": 0}, vars(chosen)):
        for name in ("hours", "weekday", "half_life", "moves", "all_moves"):
            setattr(counts, name, option.get(name, getattr(VisitCounts, name)))
        scores = counts.scores(users[late], times[late], last)
        hits.append(float(AccuracyAtK(1)(scores, torch.from_numpy(visits[late]))))
    assert hits == [0, 1]


@pytest.mark.parametrize(("number", "late"), [(7, 1), (11, 2), (12, 3), (15, 3)])
def test_fit_predicts_a_quarter_of_the_visits_rounded_down(number: int, late: int) -> None:
    """Only the first visit of the part is a move that was seen before it, and only just before."""
    visits = [*[0] * (number - late - 2), 1, 1, 1, *range(2, 1 + late)]
    fitted = VisitCounts(visits, ["ann"] * number, num_locations=9).fit()
    assert fitted.moves > 0
    with pytest.raises(ValueError, match=r"must hold 4 visits of one person"):
        VisitCounts([0, 1, 1], ["ann"] * 3, num_locations=2).fit()


def test_times_are_dates_or_seconds_and_users_integers_or_text() -> None:
    """The same order for each of them; a person is the same by number and by its text."""
    visits, users, times = habit()
    numbers = np.unique(users, return_inverse=True)[1]
    dates = pd.Series(times.astype("datetime64[s]")).astype("datetime64[ns]")
    first = VisitCounts(visits, users, times, num_locations=3)
    other = VisitCounts(visits, numbers, dates, num_locations=3)
    now = np.array([9 * 3600, 21 * 3600])
    expected = first.scores(["ann", "bob"], now, [0, -1])
    for who in ([0, 1], torch.tensor([0, 1]), ["0", "1"]):
        found = other.scores(who, now.astype("datetime64[s]"), torch.tensor([0, -1]))
        assert torch.equal(found, expected)


@pytest.mark.slow
def test_many_queries_in_parts_are_the_same() -> None:
    """A query has the scores that it has alone, whatever stands beside it."""
    rng = np.random.default_rng(0)
    visits, users = rng.integers(0, 40, 6000), rng.integers(0, 3, 6000)
    counts = VisitCounts(visits, users, num_locations=40)
    who, last = rng.integers(0, 4, 1500), rng.integers(-1, 40, 1500)
    found = counts.scores(who, last=last)  # about 2^21.5 pairs of a query and a visit
    for row in (0, 700, 1499):
        alone = counts.scores(who[row : row + 1], last=last[row : row + 1])
        assert torch.equal(found[row], alone[0])
    assert counts.scores([], last=[]).shape == (0, 40)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"visits": [0, 3]}, ValueError, r"`visits` must be below `num_locations`, 3, got 3"),
        ({"visits": [], "users": []}, ValueError, "at least one visit"),
        ({"users": ["ann"]}, ValueError, "one entry per check-in"),
        ({"times": [0.5, 1.0]}, TypeError, "`times` must be datetime64 .* got ndarray float64"),
        ({"times": [1]}, ValueError, "`times` must be one row .* 2 users"),
        ({"times": np.array(["NaT", "2024-01-01"], "datetime64[s]")}, TypeError, "NaT"),
        ({"num_locations": 0}, ValueError, "`num_locations` must be a positive integer"),
    ],
)
def test_wrong_histories_are_refused(wrong: Any, error: Any, message: str) -> None:
    """The message names the argument, the rule and the value."""
    arguments = {"visits": [0, 1], "users": ["ann", "bob"], "num_locations": 3, **wrong}
    with pytest.raises(error, match=message):
        VisitCounts(**arguments)


def test_wrong_queries_are_refused() -> None:
    """Ids out of range, other lengths, times without those of the visits, and too few to fit."""
    counts = VisitCounts([0, 1], ["ann", "bob"], num_locations=3)
    with pytest.raises(ValueError, match=r"`last` must be below `num_locations`, 3, or -1, got 3"):
        counts.scores(["ann"], last=[3])
    with pytest.raises(ValueError, match=r"`last` must be one location for each of the 1 queries"):
        counts.scores(["ann"], last=[1, 2])
    with pytest.raises(TypeError, match=r"`users` must be one row of integers or text"):
        counts.scores([0.5])
    with pytest.raises(ValueError, match=r"`times` of queries need those of the visits"):
        counts.scores(["ann"], [0])
    with pytest.raises(ValueError, match=r"must hold 4 visits of one person"):
        counts.fit()
