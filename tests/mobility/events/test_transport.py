"""The transport of events, their counts and the next event, beside plain Python and SciPy."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch

from mobility.events.events_oracle import Case, cases, count_difference, cut, place_of, transport
from nextloc_metrics import backends
from nextloc_metrics.core.backends import proof
from nextloc_metrics.core.backends.events import NEVER, NO_TIME, Moments
from nextloc_metrics.core.backends.reference import Reference
from nextloc_metrics.functional import event_transport
from nextloc_metrics.mobility.events import (
    EventCountDifference,
    EventMAP,
    EventMaxF,
    EventPairs,
    EventTimeError,
    EventTransport,
    NextEventAccuracy,
)


def record_of(dataset: list[Case]) -> EventPairs:
    """The record of sequences."""
    predicted, true, start = zip(*dataset, strict=True)
    return EventPairs(list(predicted), list(true), list(start))


def scores_of(metric: Any, pairs: EventPairs) -> list[float]:
    """The score of each sequence; NaN where it does not count."""
    scores, counted = metric._score_queries(pairs)
    return scores.masked_fill(~counted, math.nan).tolist()


COSTS = [(1.0, 1.0), (0.75, 2.5), (4.0, 0.25), (0.0, 3.0), (100.0, 100.0)]
LIMITS = [(None, None), (3.0, None), (None, 2), (2.25, 3)]


@pytest.mark.parametrize("scored", [True, False])
def test_the_cost_is_that_of_the_best_assignment_in_the_square(scored: bool) -> None:
    """Of SciPy, for many pairs of sequences, costs, horizons and first events."""
    dataset = list(cases(1 + scored, 100, scored=scored))
    pairs = record_of(dataset)
    for insert, delete in COSTS:
        for horizon, first in LIMITS:
            metric = EventTransport(insert, delete, horizon=horizon, first=first)
            wanted = [transport(x, insert, delete, horizon, first) for x in dataset]
            assert scores_of(metric, pairs) == wanted


@pytest.mark.parametrize(("horizon", "first"), LIMITS)
def test_counts_and_the_next_event_are_those_of_plain_python(horizon: Any, first: Any) -> None:
    """Differences of counts, errors of times, with a limit and without, and accuracy."""
    dataset = [*cases(3, 150, scored=False), *cases(4, 1, scored=False)]
    pairs = record_of(dataset)
    options = {"horizon": horizon, "first": first}
    found = scores_of(EventCountDifference(**options), pairs)
    assert found == [count_difference(x, horizon, first) for x in dataset]
    for limit in (None, 1.5):
        wanted = []
        hits = []
        for case in dataset:
            predicted, true = cut(case, horizon, first)
            near = bool(predicted and true) and math.isfinite(predicted[0][0])
            apart = abs(predicted[0][0] - true[0][0]) if near else math.inf
            wanted.append(min(apart, limit or math.inf) if true else math.nan)
            hit = bool(predicted and true) and place_of(predicted[0][1]) == true[0][1]
            hits.append(float(hit) if true else math.nan)
        found = scores_of(EventTimeError(limit=limit, **options), pairs)
        torch.testing.assert_close(torch.tensor(found), torch.tensor(wanted), equal_nan=True)
        accuracy = torch.tensor(scores_of(NextEventAccuracy(**options), pairs))
        torch.testing.assert_close(accuracy, torch.tensor(hits), equal_nan=True)


ALL = [
    NextEventAccuracy(horizon=5.0),
    EventTimeError(horizon=5.0),
    EventCountDifference(horizon=5.0, first=1),
    EventTransport(1.0, 1.0, horizon=5.0, first=1),
    EventMAP(horizon=5.0, thresholds=[1.0], first=1),
    EventMaxF(horizon=5.0, thresholds=[1.0], first=1),
]


@pytest.mark.parametrize("metric", ALL, ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("scored", [True, False])
def test_the_order_of_the_rows_has_no_effect(metric: Any, scored: bool) -> None:
    """The first events are those with the lowest times, among those before the horizon."""
    times, places, scores = [9.0, 1.0, 2.0], [3, 1, 0], torch.eye(4)[[3, 1, 0]]
    wanted: set[tuple[float, ...]] = set()
    for order in itertools.permutations(range(3)):
        of = [times[i] for i in order], [places[i] for i in order]
        predicted = (of[0], scores[list(order)]) if scored else of
        true = ([t + 0.5 for t in of[0]], of[1])
        wanted.add((float(metric([predicted], [true])), float(metric([predicted], [true]))))
        metric.reset()
    perfect = {"NextEventAccuracy": 1.0, "EventMAP": 1.0, "EventMaxF": 1.0}
    error = 0.0 if isinstance(metric, EventCountDifference) else 0.5
    assert wanted == {(perfect.get(type(metric).__name__, error),) * 2}


def test_times_are_read_only_where_the_metric_needs_them() -> None:
    """A place is right without a time; without any, the order given is that of time."""
    unknown, true = [([math.nan, math.nan], [7, 8])], [([1.0, 2.0], [7, 8])]
    assert NextEventAccuracy()(unknown, true) == 1.0
    assert EventCountDifference()(unknown, true) == 0.0
    assert EventCountDifference(first=1)(unknown, true) == 0.0
    assert EventTimeError(limit=9.0)(unknown, true) == 9.0
    assert EventTransport(1.0, 1.0)(unknown, true) == 4.0


def test_an_event_without_a_time_is_behind_the_one_before_it() -> None:
    """So it is after the horizon if that one is."""
    pairs = EventPairs([([8.0, math.nan, 1.0, math.nan], [0, 1, 2, 3])], [([1.0], [2])])
    assert pairs.predicted.places.tolist() == [[2, 3, 0, 1]]
    assert pairs.predicted.cut(None, pairs.end(5.0)).places.tolist() == [[2, 3, -2, -2]]


def test_mean_absolute_and_root_mean_square_errors_share_a_state() -> None:
    """Errors of 1 and 7: the mean is 4, the root of the mean square 5; one state."""
    sides = [([2.0], [7]), ([9.0], [8])], [([1.0], [7]), ([2.0], [9])]
    mean, root = EventTimeError(), EventTimeError("rmse")
    assert mean._state_name == root._state_name
    assert (float(mean(*sides)), float(root(*sides))) == (4.0, 5.0)
    with pytest.raises(TypeError, match="no standard error"):
        root.standard_error()
    low, high = mean.interval()
    assert low < 4 < high


@pytest.mark.slow
def test_both_backends_give_the_same_integers() -> None:
    """Transport and matching in C and in Python, for random moments of extreme times."""
    torch.manual_seed(0)
    if "cpu" in backends.available() and backends.available()["cpu"]:
        pytest.skip("no C backend")
    cpu = backends._make("cpu")
    assert proof.passes(cpu, "aligns")
    for scale in (1, 1 << 40, 1 << 57):
        times = [torch.randint(-60, 60, (100, n)) * scale for n in (7, 9)]
        for side in times:
            for odd in (NO_TIME, NEVER):
                side[torch.rand(side.shape) < 0.05] = odd
        moments = Moments(*times, *(torch.randint(-2, 3, x.shape) for x in times))
        for most in (0, 4 * scale, 30 * min(scale, 1 << 40)):
            assert torch.equal(*[x.transport(moments, most) for x in (cpu, Reference())])
        scores = torch.randint(-3, 3, (100, 7, 2)).double()
        for odd_score in (math.nan, -math.inf, math.inf):
            scores[torch.rand(scores.shape) < 0.1] = odd_score
        limits = [0, 2 * scale, 9 * scale, (1 << 64) - 1]
        for given in (None, scores):
            matched = [x.match_events(moments, given, limits) for x in (cpu, Reference())]
            assert torch.equal(*matched)
            assert (matched[0] > 0).any()


def test_distant_times_do_not_overflow() -> None:
    """Of the whole range; a pair dearer than both costs is not made."""
    far = 2.0**31 - 1
    transport = EventTransport(1e8, 2e8)
    assert float(transport([([-far], [1])], [([far], [1])])) == 3e8
    assert float(EventTimeError()([([-far / 2], [1])], [([far / 2], [1])])) == 2.0**31


FORMS: list[Any] = [
    [([1.0, 3.0], [0, 1]), ([], [])],
    (torch.tensor([[1.0, 3.0], [0.0, 0.0]]), torch.tensor([[0, 1], [5, 5]]), [2, 0]),
    [([1.0, 3.0], [[2.0, 2.0], [0.0, 1.0]]), ([], [])],
    (torch.tensor([[1, 3], [9, 9]]), torch.tensor([[[2.0, 2], [0, 1]]] * 2), torch.tensor([2, 0])),
]


@pytest.mark.parametrize("predicted", FORMS, ids=range(4))
def test_all_forms_are_read_alike(predicted: Any) -> None:
    """Lists or padded tensors, of places or of scores, whose first best is the place."""
    true = (torch.tensor([[1.5], [2.0]]), torch.tensor([[0], [1]]))
    assert (
        float(event_transport(predicted, true, insert_cost=3.0, delete_cost=1.0)) == (1.5 + 3) / 2
    )
    each = event_transport(predicted, true, insert_cost=3.0, delete_cost=1.0, reduction="none")
    assert each.tolist() == [1.5, 3.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"predicted": [([1.0], [0])]}, "`predicted` and `true` must have the same sequences"),
        (
            {"predicted": [([1.0, 2.0], [0]), ([], [])]},
            "`predicted` must have a place for each time, .* in sequence 0",
        ),
        (
            {"predicted": [([1.0], [0]), ([1.0], [[0.5]])]},
            "or scores of the same places, .* in sequence 1",
        ),
        ({"predicted": [([1.0], [0]), ([3e9], [0])]}, "between -2\\^31 and 2\\^31"),
        ({"predicted": [[1.0], [2.0]]}, "`predicted` must be a list"),
        ({"predicted": (torch.ones(2, 1), torch.ones(2, 1, dtype=torch.int64), [1, 2])}, "lengths"),
        ({"predicted": (torch.ones(2, 1), torch.ones(2, 1))}, "`predicted` must be a list"),
        (
            {"true": [([math.nan], [0]), ([], [])]},
            "`true` must have times .* got nan",
        ),
        (
            {"true": [([], []), ([1.0], [-1])]},
            "places from 0, got -1 in sequence 1",
        ),
        ({"true": [([1.0], [[0.5]]), ([], [])]}, "true events have places"),
        ({"start": [0.0]}, "`start` must be a number, or one for each of 2"),
        ({"start": math.nan}, "`start` must have times between"),
        ({"mask": [True]}, "`mask` must be a bool tensor"),
    ],
)
def test_wrong_events_are_refused(change: dict[str, Any], message: str) -> None:
    """And leave the state as it was."""
    given = {"predicted": [([1.0], [0]), ([], [])], "true": [([1.0], [0]), ([], [])]}
    metric = EventTransport(1.0, 1.0)
    metric.update(given["predicted"], given["true"])
    before = metric.state
    arguments = given | change
    with pytest.raises((TypeError, ValueError), match=message):
        metric.update(arguments.pop("predicted"), arguments.pop("true"), **arguments)
    assert torch.equal(metric.state, before)


def test_a_sequence_that_is_masked_out_is_not_read() -> None:
    """Whatever stands there."""
    metric = EventTransport(1.0, 1.0)
    sides = [([1.0], [0]), ([9e99], [0])], [([1.5], [0]), ([math.nan], [-5])]
    metric.update(*sides, mask=[True, False], start=[0.0, math.nan])
    assert (float(metric.compute()), metric.num_queries) == (0.5, 1)


@pytest.mark.parametrize("place", [-1, -2, -7])
def test_an_id_below_zero_is_an_event_without_a_place(place: int) -> None:
    """Whatever the id, it is deleted and one too many; behind the lengths there is no event."""
    times, places = torch.tensor([[1.0, 2.0]]), torch.tensor([[place, place]])
    sides = (times, places, [1]), [([1.0], [3])]
    assert float(EventTransport(2.0, 0.5)(*sides)) == 2.5
    assert float(EventCountDifference()(*sides)) == 2
    assert EventPairs(*sides).predicted.lengths.tolist() == [1]


def test_costs_that_may_overflow_are_refused() -> None:
    """All events of a sequence without partner must cost less than 2^31."""
    metric = EventTransport(1e9, 1.0)
    with pytest.raises(ValueError, match="must cost less than 2\\^31 for all events"):
        metric.update([([], [])], [([1.0, 2.0, 3.0], [0, 0, 0])])
    with pytest.raises(ValueError, match="`ignore_index` must be None for events"):
        EventTransport(1.0, 1.0, ignore_index=3)
    with pytest.raises(ValueError, match="`target` must be given"):
        metric.update([([], [])])
