"""The metrics of flows: beside plain Python, and the laws of days, order and processes."""

from __future__ import annotations

import copy
import io
import math
import os
import pickle
import re
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import distributed_workers as work
from mobility.flows import flow_oracle as oracle
from mobility.flows.flow_workers import evaluate, members
from nextloc_metrics import flows
from nextloc_metrics.core.metric.base import unrounded
from nextloc_metrics.mobility.flows import FlowCollection, FlowPairs, flow_metrics


def values(metrics: FlowCollection) -> dict[str, float]:
    """All values, float64; without a day they are NaN, with a warning."""
    with unrounded(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The ``compute`` method")
        return {name: float(x) for name, x in metrics.compute().items()}


def draw_count(draw: Any, kind: int) -> float:
    """A count: whole, a multiple of 2^-16, any float, or huge."""
    if kind == 0:
        return float(draw.randint(0, 4))
    if kind == 1:
        return draw.randint(0, 1 << 20) / (1 << 16)
    if kind == 2:
        return float(draw.rand() * 10 ** draw.uniform(-6, 6))
    return float(draw.randint(1 << 30, (1 << 31) + 1))


def draw_days(draw: Any) -> list[oracle.Day]:
    """From none to five days of few cells; some sides are empty, equal or constant."""
    days: list[oracle.Day] = []
    cells, fixed = draw.randint(1, 5), draw.rand() < 0.8
    kind = draw.randint(0, 4)
    for _ in range(draw.randint(0, 6)):
        cells = cells if fixed else draw.randint(1, 5)
        sides: list[dict[tuple[int, int], float]] = []
        for _ in range(2):
            share = draw.choice([0, 0.2, 0.7, 1])
            constant = draw.rand() < 0.1
            sides.append(
                {
                    (o, d): 3.0 if constant else draw_count(draw, kind)
                    for o in range(cells)
                    for d in range(cells)
                    if constant or draw.rand() < share
                }
            )
        if draw.rand() < 0.1:
            sides[0] = sides[1]
        days.append((sides[0], sides[1], cells))
    return days


def matrix(counts: oracle.Counts, cells: int) -> np.ndarray[Any, Any]:
    """Counts as a matrix."""
    found = np.zeros((cells, cells))
    for at, count in counts.items():
        found[at] = count
    return found


def add_days(metrics: Any, days: list[oracle.Day], first: int | None = None) -> None:
    """Add days, one by one."""
    for number, (predicted, true, cells) in enumerate(days):
        names = None if first is None else [first + number]
        metrics.update(matrix(predicted, cells), matrix(true, cells)[None][0], names)


def compare(days: list[oracle.Day], found: dict[str, float]) -> None:
    """Equal bits, but for the divergences, which have logarithms."""
    expected = oracle.all_values(days)
    assert found.keys() == expected.keys()
    for name, value in found.items():
        if name.startswith("jsd"):
            # the root of a divergence that is 0 but for rounding is about 1e-8
            close = {"abs": 1e-7 if name.endswith("True") else 1e-13, "rel": 1e-9}
            assert value == pytest.approx(expected[name], nan_ok=True, **close), (name, days)
        else:
            assert np.array_equal(value, expected[name], equal_nan=True), (name, days)


CASES = 2000 if os.environ.get("HYPOTHESIS_PROFILE") == "new" else 200


@pytest.mark.parametrize(
    ("seed", "cases"), [(0, 12), pytest.param(1, CASES, marks=pytest.mark.extra)]
)
def test_values_are_those_of_plain_python(seed: int, cases: int) -> None:
    """Random days have the bits of fractions and decimals, rounded once."""
    draw, metrics = np.random.RandomState(seed), FlowCollection(members())
    for _ in range(cases):
        days = draw_days(draw)
        metrics.reset()
        add_days(metrics, days)
        compare(days, values(metrics))


def draw_table(draw: Any, days: list[int], cells: int, rows: int = 40) -> dict[str, Any]:
    """Rows of these days in any order, some of one pair."""
    return {
        "day": np.array([*days, *draw.choice(days, rows)]),
        "origin": draw.randint(0, cells, rows + len(days)),
        "destination": draw.randint(0, cells, rows + len(days)),
        "count": draw.randint(0, 9, rows + len(days)) / 2,
    }


def as_counts(table: dict[str, Any], day: int) -> dict[tuple[int, int], float]:
    """The added rows of a day."""
    found: dict[tuple[int, int], float] = {}
    for name, origin, destination, count in zip(*table.values(), strict=True):
        if name == day:
            key = int(origin), int(destination)
            found[key] = found.get(key, 0) + float(count)
    return found


@pytest.mark.parametrize("form", [str, int, "mixed"])
@pytest.mark.parametrize("listed", [True, False])
def test_zones_are_compared_by_name(form: Any, listed: bool) -> None:
    """All pairs of the listed zones, or of those that occur on either side, are compared."""
    draw = np.random.RandomState(7)
    names = draw.choice(90_000, 12, replace=False) + 1000
    days = [3, 4]
    tables = [draw_table(draw, days, 10, 6) for _ in range(2)]
    named = []
    for number, table in enumerate(tables):
        is_text = form is str or (form == "mixed" and number)
        ends = {x: names[table[x]].tolist() for x in ("origin", "destination")}
        named.append({**table, **{x: [*map(str, y)] if is_text else y for x, y in ends.items()}})
    occur = {x for table in named for y in ("origin", "destination") for x in map(int, table[y])}
    cells = sorted(names.tolist() if listed else occur)
    zones = [str(x) if form is str else x for x in draw.permutation(cells)] if listed else None
    found = FlowPairs.from_tables(*named, zones=zones)
    assert found.num_cells == len(cells) == (12 if listed else len(occur))
    expected = [
        tuple(
            {
                tuple(cells.index(names[x]) for x in pair): count
                for pair, count in as_counts(table, day).items()
            }
            for table in tables
        )
        for day in days
    ]
    metrics = FlowCollection(members())
    metrics.update(found)
    compare([(*sides, len(cells)) for sides in expected], values(metrics))


def test_a_number_of_cells_most_of_which_never_occur_is_a_warning() -> None:
    """It says by what factor the mean errors shrink."""
    true = {"day": [0] * 4, "origin": [36001, 36001, 36005, 36005],
            "destination": [36001, 36005, 36001, 36005], "count": [100, 10, 20, 50]}  # fmt: skip
    rows = {**true, "count": [110, 30, 30, 60]}, true
    found = [float(m(FlowPairs.from_tables(*rows))) for m in (flows.FlowRMSE(), flows.FlowMAE())]
    assert found == pytest.approx([math.sqrt((100 + 400 + 100 + 100) / 4), 50 / 4])
    with pytest.warns(
        UserWarning, match="only 2 cells occur.* RMSE is 5.6e-05 times, and MAE 3.1e"
    ):
        pairs = FlowPairs.from_tables(*rows, num_cells=36006)
    assert float(flows.FlowRMSE()(pairs)) == pytest.approx(found[0] * 2 / 36006)
    assert float(flows.FlowMAE()(pairs)) == pytest.approx(found[1] * (2 / 36006) ** 2, abs=2**-33)


def cut(table: Any, chosen: Any) -> dict[str, Any]:
    """Some rows of a table."""
    return {name: column[chosen] for name, column in table.items()}


@pytest.mark.parametrize("seed", range(2))
def test_any_split_by_day_and_any_order_give_the_same_bits(seed: int) -> None:
    """Rows in any order, days in any updates and both forms of input have one state."""
    draw, cells, days = np.random.RandomState(seed), 4, [3, 0, 20240201, 7]
    tables = [draw_table(draw, days, cells) for _ in range(2)]
    whole, by_day, matrices = (FlowCollection(members()) for _ in range(3))
    whole.update(FlowPairs.from_tables(*tables, num_cells=cells))
    for part in np.split(draw.permutation(days), [draw.randint(1, 4)]):
        kept = [draw.permutation(np.flatnonzero(np.isin(x["day"], part))) for x in tables]
        sides = [cut(x, y) for x, y in zip(tables, kept, strict=True)]
        by_day.update(FlowPairs.from_tables(*sides, num_cells=cells))
    counted = [(as_counts(tables[0], x), as_counts(tables[1], x), cells) for x in days]
    arrays = [np.stack([matrix(x[side], cells) for x in counted]) for side in (0, 1)]
    matrices.update(torch.tensor(arrays[0]), arrays[1].tolist(), days)
    for other in (by_day, matrices):
        for name, member in whole.named_members():
            assert torch.equal(member.state, dict(other.named_members())[name].state), name
        assert values(other) == values(whole)
    compare(counted, values(whole))


@pytest.mark.slow
def test_processes_have_the_values_of_one() -> None:
    """Days that are divided among three processes, one of them without a day."""
    draw = np.random.RandomState(1)
    days: list[Any] = [(*draw.randint(0, 5, (2, 3, 3)), [x]) for x in range(6)]
    days += [(*draw.randint(0, 5, (2, 3, 3)),)]
    expected = evaluate(0, [days])
    assert work.run(evaluate, 3, [days[:2], [], days[2:]]) == [expected] * 3


@pytest.mark.slow
def test_a_day_of_two_processes_is_an_error() -> None:
    """It cannot be known which rows of it are in which."""
    day = [[[1, 0], [0, 1]], [[1, 0], [2, 1]], [5]]
    with pytest.raises(Exception, match="must name each day once, got 5 again"):
        work.run(evaluate, 2, [[day], [day]])


def test_equal_days_without_names_all_count() -> None:
    """Two days of the same counts are two days, and the state holds them once."""
    metric = flows.FlowRMSE()
    for _ in range(2):
        metric.update([[1, 0], [0, 0]], [[0, 0], [0, 0]])
    metric.update([[0, 0], [0, 0]], [[0, 0], [0, 0]])
    assert metric.state.shape == (2, 27)
    assert float(metric.compute()) == pytest.approx(1 / 3)  # root(1/4), twice, and 0


OTHERS = {flows.FlowRMSE: flows.FlowJSD, flows.FlowJSD: flows.FlowRMSE}


@pytest.mark.parametrize("metric", [flows.FlowRMSE(), flows.FlowJSD()])
def test_a_named_day_comes_once(metric: Any) -> None:
    """A second update with a day is refused, by `forward` too, and changes nothing."""
    day = torch.eye(2)
    metric.update(day, 2 * day, days=[4])
    state = metric.state
    for add in (metric.update, metric.forward):
        with pytest.raises(ValueError, match="`days` must name each day once, got 4 again"):
            add(day, day, days=[4])
        assert torch.equal(metric.state, state)
    assert metric.days_held() == [4]
    both = FlowCollection({"one": metric.clone(), "other": OTHERS[type(metric)]()})
    with pytest.raises(ValueError, match="got 4 again"):
        both.update(day, day, days=[4])
    assert not dict(both.named_members())["other"].state.any()


def test_days_of_one_side() -> None:
    """They are errors, days without trips on the other side, or no days."""
    true = {"day": [1, 2], "origin": [0, 0], "destination": [0, 1], "count": [3, 2]}
    one = {name: column[:1] for name, column in true.items()}
    for sides, name in (((one, true), "predicted"), ((true, one), "true")):
        with pytest.raises(ValueError, match=f"`{name}` must have rows on each day, got none"):
            FlowPairs.from_tables(*sides, num_cells=2)
        for kind, error in (("zero", 0.5), ("skip", 0.0)):  # (0 + root(4 / 4)) / 2
            pairs = FlowPairs.from_tables(*sides, num_cells=2, missing_days=kind)
            assert float(flows.FlowRMSE()(pairs)) == error


NAN, INF = math.nan, math.inf
TRUE: Any = {"day": [8, 9], "origin": [0, 1], "destination": [1, 0], "count": [1.0, 2.0]}
PLACES: Any = {"day": [8], "ox": [99], "oy": [4], "dx": [3], "dy": [5], "count": [1]}


def tables(**changed: Any) -> Any:
    """Read tables of which a column of the predicted one is changed."""
    return FlowPairs.from_tables({**TRUE, **changed}, TRUE, num_cells=2)


def zones(names: Any = None, **changed: Any) -> Any:
    """Read a table of zones by name, of which columns of the predicted one are changed."""
    true = {"day": [8], "origin": ["a"], "destination": ["b"], "count": [1]}
    return FlowPairs.from_tables({**true, **changed}, true, zones=names)


BOX = ((3, 4), (0, 5))
FIRST: Any = [[1, NAN], [0, 0]]
OTHER: Any = [[0, 0], [-2, 0]]

WRONG: list[tuple[Any, str]] = [
    (lambda: tables(count=[1, NAN]),
     "`predicted` must hold counts from 0 to 2^31, got nan for the pair (1, 0) on day 9"),
    (lambda: tables(count=[-1, 1]), "got -1 for the pair (0, 1) on day 8"),
    (lambda: tables(count=[1, INF]), "got inf for the pair (1, 0) on day 9"),
    (lambda: tables(count=[1, 2**31 + 1]), "counts from 0 to 2^31, got 2.14748e+09"),
    (lambda: tables(day=[8, -1]), "`predicted['day']` must be integers from 0"),
    (lambda: tables(origin=[0, 1.5]), "`predicted['origin']` must be integers"),
    (lambda: tables(origin=[0, 2]), "cells from 0 to 1, got the pair (2, 0) on day 9"),
    (lambda: tables(destination=[0, -1]), "got the pair (1, -1) on day 9"),
    (lambda: tables(count=[1]), "columns of one length"),
    (lambda: FlowPairs.from_tables({}, TRUE, num_cells=2), "a table with a column 'day'"),
    (lambda: FlowPairs.from_tables(TRUE, TRUE, num_cells=2, box=BOX), "only one of `num_cells`"),
    (lambda: FlowPairs.from_tables(PLACES, PLACES), "or `ox`, `oy`, `dx` and `dy` with a `box`"),
    (lambda: zones(["a"]), "`predicted['destination']` must be among `zones`, got 'b'"),
    (lambda: zones(count=[NAN]), "got nan for the pair (a, b) on day 8"),
    (lambda: zones(day=[8, 8], origin=["a"] * 2, destination=["b"] * 2, count=[2**31, 1]),
     "at most 2^31 in all rows of a pair, got more for the pair (a, b) on day 8"),
    (lambda: FlowPairs.from_tables(*[{x: [] for x in TRUE}] * 2), "`zones` must be given for"),
    (lambda: FlowPairs.from_tables(TRUE, TRUE, num_cells=0), "`num_cells` must be a positive"),
    (lambda: FlowPairs.from_tables(TRUE, TRUE, num_cells=2**31 + 1), "at most 2^31 cells"),
    (lambda: FlowPairs.from_tables(PLACES, PLACES, box=BOX[:1]), "`box` must be ((x, x), (y"),
    (lambda: FlowPairs.from_tables({**PLACES, "count": [NAN]}, PLACES, box=BOX),
     "got nan for the pair (99, 4, 3, 5) on day 8"),
    (lambda: flows.FlowRMSE()(FIRST, [[0, 0], [0, 0]], days=[7]),
     "`preds` must hold counts from 0 to 2^31, got nan for the pair (0, 1) on day 7"),
    (lambda: flows.FlowRMSE()([[0, 0], [0, 0]], OTHER),
     "`target` must hold counts from 0 to 2^31, got -2 for the pair (1, 0) on day 0"),
    (lambda: flows.FlowRMSE()([[1, 2]], [[1, 2]]), "must be counts [O, O] or [D, O, O]"),
    (lambda: flows.FlowRMSE()(torch.ones(2, 2), torch.ones(3, 3)), "must be counts [O, O] or"),
    (lambda: flows.FlowRMSE()(torch.ones(2, 2), torch.ones(2, 2), [1, 2]), "each of 1 days once"),
    (lambda: flows.FlowRMSE()(*torch.ones(2, 2, 2, 2), [1, 1]), "each of 2 days once"),
    (lambda: flows.FlowRMSE()(tables(), torch.ones(2, 2)), "`FlowPairs` must be passed alone"),
    (lambda: flows.FlowRMSE(num_cells=3)(tables()), "FlowRMSE(num_cells=3), got 2"),
    (lambda: flow_metrics.as_of(2025), "`year` must be 2026, got 2025"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_errors_name_argument_rule_and_value(number: int) -> None:
    """NaN and negative counts are refused with their day and pair, and the rest by name."""
    call, text = WRONG[number]
    with pytest.raises(ValueError, match=re.escape(text)):
        call()


def test_zones_are_no_floats() -> None:
    """They are integers or text; a float has several texts."""
    with pytest.raises(TypeError, match=r"origin.*must be integers or text, got float64"):
        zones(origin=[0.5])


def test_rows_of_one_pair_are_added_up_to_the_largest_count() -> None:
    """2^31 in all is right, and more is refused, also where the sum would leave 64 bits."""
    most = 2.0**31
    full = {"day": [1, 1], "origin": [0, 0], "destination": [0, 0], "count": [most / 2] * 2}
    pairs = FlowPairs.from_tables(full, full, num_cells=1)
    assert pairs.counts.tolist() == [[2**47]] * 2
    for rows in (3, 1 << 16, (1 << 17) + 1):
        many = {name: np.zeros(rows, int) for name in full} | {"count": np.full(rows, most / 2)}
        with pytest.raises(ValueError, match="at most 2\\^31 in all rows of a pair, got more"):
            FlowPairs.from_tables(many, many, num_cells=1)


def test_counts_are_rounded_half_to_even() -> None:
    """Multiples of 2^-16 are exact, and others move a daily RMSE by at most 2^-17 per side."""
    halves = [[2.0**-17, 3 * 2.0**-17], [0.1, 7]]
    pairs = flows.FlowRMSE().read(halves, [[1, 2], [3, 4]])
    assert pairs.counts[0].tolist() == [0, 2, round(0.1 * 2**16), 7 << 16]
    assert pairs.rounded == 1
    assert flows.FlowRMSE().read([[1, 2], [3, 4]], halves).rounded == 1
    assert flows.FlowRMSE().read(halves, halves).rounded == 2
    assert flows.FlowRMSE().read(*[[[1, 2], [3, 4]]] * 2).rounded == 0
    draw = np.random.RandomState(0)
    given = draw.rand(50, 50) * 3, draw.randint(0, 3, (50, 50))
    with unrounded():
        value = float(flows.FlowRMSE()(*given))
    assert abs(value - np.sqrt(np.mean((given[0] - given[1]) ** 2))) <= 2**-17


def test_intervals_take_days_as_independent() -> None:
    """Student's t of the days' values; the divisor is taken as known; sums have none."""
    draw = np.random.RandomState(2)
    p, t = draw.poisson(2, (7, 5, 5)), draw.poisson(2, (7, 5, 5))
    roots = np.sqrt(((p - t) ** 2).mean((1, 2)))
    half = stats.t.ppf(0.975, 6) * roots.std(ddof=1) / np.sqrt(7)
    for metric, scale in ((flows.FlowRMSE(), 1.0), (flows.FlowNRMSE(), t.std())):
        metric.update(p, t)
        with unrounded():
            low, high = metric.interval()
        assert [float(low), float(high)] == pytest.approx(
            [(roots.mean() - half) / scale, (roots.mean() + half) / scale], rel=1e-6
        )
        by_day = sorted(x for _, x in metric.values_by_day())
        assert by_day == pytest.approx(sorted(roots / scale), rel=1e-9)
    with pytest.raises(TypeError, match="has no standard error"):
        flows.FlowRMSE(per="all").interval()


@pytest.mark.parametrize("name", ["rmse all day", "jsd pairs False"])
def test_a_metric_survives_copies_and_checkpoints(name: str) -> None:
    """Pickle, deepcopy and state_dict keep the days."""
    metric = members()[name]
    metric.persistent(True)
    metric.update(torch.eye(3), torch.ones(3, 3), [4])
    stored = io.BytesIO()
    torch.save(metric.state_dict(), stored)
    fresh = members()[name]
    fresh.persistent(True)
    fresh.load_state_dict(torch.load(io.BytesIO(stored.getvalue())))
    for made in (pickle.loads(pickle.dumps(metric)), copy.deepcopy(metric), fresh):
        assert torch.equal(made.state, metric.state)
        assert torch.equal(made.compute(), metric.compute())
        with pytest.raises(ValueError, match="got 4 again"):
            made.update(torch.eye(3), torch.ones(3, 3), [4])
    metric.reset()
    assert metric.days_held() == []


def test_days_share_one_state() -> None:
    """A collection adds days once for all formulas on them, and once for the divergences."""
    metrics = FlowCollection(members())
    metrics.update(torch.eye(3), torch.ones(3, 3))
    assert len(metrics.compute_groups) == 2


@pytest.mark.slow
def test_thirty_days_of_many_pairs() -> None:
    """Of 100,000 stored pairs on each side and day, as dense matrices in NumPy have it."""
    draw, cells, rows = np.random.RandomState(0), 1476, 3_000_000
    ends = {name: draw.randint(0, cells, rows) for name in ("origin", "destination")}
    table = {"day": np.repeat(np.arange(30), 100_000), **ends}
    sides = [{**table, "count": draw.poisson(2, rows) / 4} for _ in range(2)]
    metrics = flow_metrics()
    metrics.update(FlowPairs.from_tables(*sides, num_cells=cells))
    pairs = (ends["origin"] * cells + ends["destination"]).reshape(30, -1)
    off = (sides[0]["count"] - sides[1]["count"]).reshape(30, -1)
    days = [np.bincount(x, y, cells**2) for x, y in zip(pairs, off, strict=True)]
    values = metrics.compute()
    assert values["rmse"] == pytest.approx(np.mean([np.sqrt((x**2).mean()) for x in days]))
    assert values["mae"] == pytest.approx(np.mean([np.abs(x).mean() for x in days]))
