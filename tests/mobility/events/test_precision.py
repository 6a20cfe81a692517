"""Mean average precision over time and maximal F, beside plain Python."""

from __future__ import annotations

import math
from functools import partial
from itertools import permutations
from typing import Any

import pytest
import torch

from mobility.events.events_oracle import average_precision, cases, max_f, mean_over_places
from mobility.events.test_transport import record_of
from nextloc_metrics.mobility.events import EventMAP, EventMaxF, EventPairs

PLACES = 3
LIMITS = [(None, None), (3.0, None), (2.25, 3)]


def compare(seed: int, number: int, scored: bool) -> None:
    """Compare values of small sets of sequences, with all averages and extremes."""
    thresholds = (0.5, 0.0, 1.75, math.inf)
    for i in range(number):
        dataset = list(cases(1000 * seed + i, 4, PLACES, scored=scored))
        pairs = record_of(dataset)
        horizon, first = LIMITS[i % len(LIMITS)]
        chosen = thresholds[: 1 + i % 4]
        for average in ("present", "all", "weighted"):
            given = dataset, PLACES, chosen, horizon, average
            options: Any = {"average": average, "num_places": PLACES, "first": first}
            metric = EventMAP(horizon, list(chosen), **options)
            metric.update(pairs)
            wanted = mean_over_places(*given, average_precision, first)
            assert float(metric.compute()) == pytest.approx(wanted, abs=1e-6, nan_ok=True)
            for found, order in zip(metric.extremes(), ("low", "high"), strict=True):
                value = partial(average_precision, order=order)
                wanted = mean_over_places(*given, value, first)
                assert float(found) == pytest.approx(wanted, abs=1e-6, nan_ok=True)
            best = EventMaxF(horizon, list(chosen), **options)
            best.update(pairs)
            wanted = mean_over_places(*given, max_f, first)
            assert float(best.compute()) == pytest.approx(wanted, abs=1e-6, nan_ok=True)


@pytest.mark.slow
@pytest.mark.parametrize("scored", [True, False])
def test_values_are_those_of_plain_python(scored: bool) -> None:
    """Of small sets of sequences, matched there by augmenting paths."""
    compare(1 + scored, 20, scored)


@pytest.mark.extra
@pytest.mark.parametrize("scored", [True, False])
def test_values_are_those_of_plain_python_for_thousands_of_sequences(scored: bool) -> None:
    """With other seeds."""
    compare(3 + scored, 300, scored)


def test_ties_count_as_the_mean_over_their_orders() -> None:
    """Of all 120 orders of five predictions with one score, two of which are matched."""
    metric = EventMAP(None, [0.5])
    metric.update([([1.0, 2.0, 3.0, 4.0, 5.0], [0] * 5)], [([1.0, 2.0], [0, 0])])
    matched = [True, True, False, False, False]
    orders = list(permutations(matched))
    values = [
        sum(sum(order[: i + 1]) / (i + 1) for i in range(5) if order[i]) / 2 for order in orders
    ]
    assert float(metric.compute()) == pytest.approx(sum(values) / len(values), rel=1e-6)
    assert [float(x) for x in metric.extremes()] == pytest.approx([min(values), max(values)])


def test_bins_keep_a_histogram_of_bounded_size() -> None:
    """Scores of one bin are tied: the value is that of the scores rounded; extremes contain it."""
    torch.manual_seed(1)
    times, true = torch.rand(40, 8) * 10, torch.rand(40, 6) * 10
    scores, places = torch.rand(40, 8, 2), torch.randint(2, (40, 6))
    scores[0, 0, 0], scores[1, 1, 1] = 1.0, math.nan
    exact = EventMAP(10.0, [1.0])
    exact.update((times, scores), (true, places))
    edges = [0.25, 0.5, 0.75]
    found = []
    for bins in (4, edges):
        binned = EventMAP(10.0, [1.0], bins=bins)
        binned.update((times, scores), (true, places))
        # of two places true events, and four bins and NaN, matched or not; the number of sequences
        assert len(binned.state) <= 2 * (1 + 5 * 2) + 1
        low, high = binned.extremes()
        assert low <= binned.compute() <= high
        assert low <= exact.compute() <= high
        found.append(binned.compute())
    assert found[0] == found[1]
    assert len(exact.state) > 500
    assert EventMAP(10.0, [1.0], bins=[0.5])._state_name != EventMAP(10.0, [1.0])._state_name


def test_a_place_whose_predictions_are_all_matched() -> None:
    """It has 1 by the formula, and 0 in HoTPP's code; F there is of the matched events."""
    sides = [([1.0, 2.0], [0, 1])], [([1.0, 9.0, 9.5], [0, 1, 1])]
    for average, theirs in (("present", 0.0), ("weighted", 0.0), ("all", 0.0)):
        options: Any = {"average": average, "num_places": 4}
        share = {"present": 2, "weighted": 3, "all": 4}[average]
        assert float(EventMAP(10.0, [1.0], **options)(*sides)) == pytest.approx(1 / share)
        assert float(EventMAP(10.0, [1.0], as_hotpp=True, **options)(*sides)) == theirs
    one = [([1.0, 5.0], [0, 0])], [([1.0, 9.0], [0, 0])]
    assert float(EventMaxF(10.0, [1.0])(*one)) == pytest.approx(2 / 4)
    assert float(EventMaxF(10.0, [1.0], as_hotpp=True)(*one)) == pytest.approx(2 / 3)


def test_classes_with_equal_options_share_a_state() -> None:
    """Averages are of `compute` only."""
    names = {
        EventMAP(5.0, [1.0])._state_name,
        EventMaxF(5.0, [1.0], average="weighted")._state_name,
        EventMAP(5.0, [1.0], average="all", num_places=7, as_hotpp=True)._state_name,
    }
    assert len(names) == 1
    assert EventMAP(6.0, [1.0])._state_name not in names


def test_a_label_names_another_average() -> None:
    """The usual average has no name."""
    usual, weighted = (EventMAP(5.0, [1.0], average=x).label for x in ("present", "weighted"))
    assert weighted == f"{usual}, weighted"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"thresholds": [1.0] * 63}, "`thresholds` must be a list of 1 to 62 numbers"),
        ({"thresholds": [1.0, -1.0]}, "`thresholds\\[1\\]` must be a finite number of at least 0"),
        ({"bins": [0.5, 0.5]}, "`bins` must be None, a number of bins"),
        ({"bins": [[0.5], [0.7]]}, "`bins` must be None, a number of bins"),
        ({"average": "all"}, "`num_places` must be given"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    """With their name and rule."""
    with pytest.raises(ValueError, match=message):
        EventMAP(**({"horizon": 1.0, "thresholds": [1.0]} | options))


def test_a_place_beyond_their_number_is_refused() -> None:
    """Of predictions, of scores and of true events."""
    metric = EventMAP(1.0, [1.0], num_places=2)
    for sides in (([2], [0]), ([0], [2]), ([[0.1, 0.2, 0.3]], [0])):
        pairs = EventPairs(*[[([0.5], x)] for x in sides])
        with pytest.raises(ValueError, match=r"`num_places` .* must be above every place, got 2"):
            metric.update(pairs)
    assert metric.num_queries == 0
