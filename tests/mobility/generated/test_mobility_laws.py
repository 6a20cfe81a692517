"""What every measure promises: sums, order, processes, checkpoints, floors, errors."""

from __future__ import annotations

import copy
import io
import math
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import distributed_workers as work
from mobility.generated.mobility_workers import evaluate
from mobility.generated.test_measures import padded, rows_of_ids, rows_of_points
from nextloc_metrics import MRR
from nextloc_metrics.geography import Locations
from nextloc_metrics.mobility import generated
from nextloc_metrics.mobility.generated import (
    Measure,
    MobilityCollection,
    Trajectories,
    mobility_metrics,
)
from nextloc_metrics.mobility.generated.floors import find_floor

PLACES = Locations(np.linspace(40, 41, 8), np.linspace(-74, -73, 8) ** 1)


def measures() -> dict[str, Measure]:
    """One of each measure, for ids with times."""
    return mobility_metrics("ids", times=True, locations=PLACES, ranks=4).measures()


def test_all_measures_are_here() -> None:
    """Every public measure is tested by these laws."""
    kinds = {type(one).__name__ for one in measures().values()}
    public = {
        name
        for name in generated.__all__
        if isinstance(getattr(generated, name), type)
        and issubclass(getattr(generated, name), Measure)
    }
    assert public - {"Measure"} == kinds


NAMES = pytest.mark.parametrize("name", measures())


def part(rows: list[list[int]], users: list[int]) -> Trajectories:
    """Rows with a point every seven hours."""
    return Trajectories(rows, step=7.0, users=users)


@NAMES
def test_any_split_and_order_gives_the_same_state(name: str) -> None:
    """Batches of any size, in any order, of both sets or one, add up to equal bits."""
    draw = np.random.RandomState(0)
    whole, divided = measures()[name], measures()[name]
    sets = [rows_of_ids(0), rows_of_ids(9, 41)]
    whole.update(*(part(rows, list(range(len(rows)))) for rows in sets))
    batches = []
    for which, rows in enumerate(sets):
        order = draw.permutation(len(rows))
        ends = sorted(draw.randint(0, len(rows), 4))
        for chosen in np.split(order, ends):
            own = part([rows[i] for i in chosen], [int(i) for i in chosen])
            batches.append((own, None) if which == 0 else (None, own))
    for i in draw.permutation(len(batches)):
        divided.update(*batches[i])
    assert torch.equal(whole.state, divided.state)
    assert torch.equal(whole.compute(), divided.compute())
    assert whole.floor() == divided.floor()


def test_padding_and_the_other_rows_change_no_bit() -> None:
    """Coordinates give equal states for any width of padding, and row by row, without users."""
    rows = rows_of_points(3, 50, 0.1)
    for name in ("JumpLength", "TravelDistance", "RadiusOfGyration", "DailyLocations"):
        states = []
        for batches in ([rows], [rows[i : i + 1] for i in range(len(rows))]):
            metric = getattr(generated, name)()
            for number, batch in enumerate(batches):
                width = max(map(len, batch)) + number % 3
                metric.update(target=padded(batch, width))
            states.append(metric.state)
        assert torch.equal(*states), name


@NAMES
def test_states_add_up_over_processes(name: str) -> None:
    """The sum that processes make, or the entries that they gather, give one process' value."""
    rows = rows_of_ids(1), rows_of_ids(2)
    users = list(range(30))
    whole, first, other = (measures()[name] for _ in range(3))
    whole.update(*(part(one, users) for one in rows))
    first.update(part(rows[0], users), part(rows[1][:7], users[:7]))
    other.update(None, part(rows[1][7:], users[7:]))
    (key,) = first.metric_state
    states = [vars(one)[key] for one in (first, other)]
    if isinstance(states[0], Tensor):
        setattr(first, key, states[0] + states[1])
    else:
        setattr(first, key, first._reductions[key]([*states[0], *states[1]]))
    assert torch.equal(whole.state, first.state)
    first._computed = None
    assert torch.equal(whole.compute(), first.compute())


@pytest.mark.slow
@pytest.mark.parametrize("without", ["real rows", "an update"])
def test_processes_equal_one(without: str) -> None:
    """Two processes of a gloo group have the values and floors of one, whatever the other lacks."""
    coordinates = np.linspace(40, 41, 8).tolist(), np.linspace(-74, -73, 8).tolist()
    users = list(range(30))
    made, real = rows_of_ids(1), rows_of_ids(2)
    whole = [[(made, users), (real, users)]]
    parts: list[Any] = [
        [(made[:11], users[:11]), (real, users)],
        [(made[11:], users[11:]), ([], [])],
    ]
    if without == "an update":
        parts = [*whole, []]
    expected = evaluate(0, whole, coordinates)
    for found in work.run(evaluate, 2, parts, coordinates):
        assert found == expected


@NAMES
def test_a_measure_survives_copies_and_checkpoints(name: str) -> None:
    """Pickle, deepcopy, state_dict and reset keep or clear the state."""
    metric = measures()[name]
    metric.persistent(True)
    metric.update(part(rows_of_ids(1), list(range(30))), part(rows_of_ids(2), list(range(30))))
    value, state = metric.compute(), metric.state
    for made in (pickle.loads(pickle.dumps(metric)), copy.deepcopy(metric)):
        assert torch.equal(made.state, state)
        assert torch.equal(made.compute(), value)
    stored = io.BytesIO()
    torch.save(metric.state_dict(), stored)
    stored.seek(0)
    fresh = measures()[name]
    fresh.persistent(True)
    fresh.load_state_dict(torch.load(stored))
    assert torch.equal(fresh.compute(), value)
    metric.reset()
    assert not metric.state.any()


@NAMES
def test_forward_returns_the_value_of_the_batch(name: str) -> None:
    """`forward` has the batch's value, and adds it."""
    users = list(range(30))
    first = part(rows_of_ids(1), users), part(rows_of_ids(2), users)
    other = part(rows_of_ids(3), users), part(rows_of_ids(4), users)
    metric, alone, both = (measures()[name] for _ in range(3))
    alone.update(*other)
    for batch in (first, other):
        both.update(*batch)
    metric.update(*first)
    assert torch.equal(metric(*other), alone.compute())
    assert torch.equal(metric.state, both.state)


@NAMES
def test_one_empty_side_is_nan_with_a_reason(name: str) -> None:
    """The value is NaN, with a warning, and the reason says which side has no value."""
    metric = measures()[name]
    metric.update(part(rows_of_ids(1), list(range(30))), Trajectories([], step=7.0))
    with pytest.warns(UserWarning, match="there is no real value"):
        assert metric.compute().isnan()
    assert metric.result().reason == "there is no real value"
    assert metric.result().floor.reason == "there is no real trajectory"
    assert np.isnan(metric.floor().value)
    metric = measures()[name]
    metric.update(target=part(rows_of_ids(1), list(range(30))))
    with pytest.warns(UserWarning, match="there is no generated value"):
        assert metric.compute().isnan()
    assert metric.result().reason == "there is no generated value"


def test_the_same_users_without_names() -> None:
    """Without users, rows stand in buckets by their content, equal in every batch and process."""
    rows = rows_of_ids(1, 400)
    given = Trajectories(rows)
    assert (given.bucket == Trajectories(rows[::-1]).bucket[::-1]).all()
    assert len(set(given.bucket)) == 64
    names = Trajectories(rows, users=[f"user {i}" for i in range(400)])
    numbers = Trajectories(rows, users=range(400))
    for one in (names, numbers):
        counts = np.bincount(one.bucket, minlength=64)
        assert counts.max() < 4 * 400 / 64


def test_equal_content_stands_in_one_bucket() -> None:
    """Without users, times tell equal places apart, and -0.0 is 0.0."""
    moments = np.arange(1000)[:, None]
    times = Trajectories([[1]] * 1000, moments, time_unit="s")
    assert len(set(times.bucket)) == 64
    buckets = []
    for zero in (0.0, -0.0):
        points = np.full((1000, 1, 2), zero)
        points[:, 0, 1] = moments[:, 0]
        given = Trajectories(points, np.full((1000, 1), zero), time_unit="s")
        buckets.append(given.bucket)
    assert len(set(buckets[0])) == 64
    assert (buckets[0] == buckets[1]).all()
    both = Trajectories([[[0.0, 1.0], [-0.0, 1.0]]])
    assert generated.DailyLocations().values(both)[0].tolist() == [1]


def test_locations_are_told_apart() -> None:
    """One `Trajectories` has the jumps of the locations that each measure has."""
    given = Trajectories([[0, 1]])
    for degrees in (1.0, 2.0):
        metric = generated.JumpLength(locations=Locations([0.0, 0.0], [0.0, degrees]))
        fresh = metric.values(Trajectories([[0, 1]]))[0]
        assert metric.values(given)[0] == fresh == pytest.approx(111.195 * degrees, rel=1e-4)


def test_longitudes_have_two_ways_to_be_written() -> None:
    """Up to 360 degrees east, the same places as west of Greenwich; no more."""
    east, west = (generated.JumpLength() for _ in range(2))
    east.update([[[10.0, 181.0], [20.0, 350.0], [30.0, 360.0]]])
    west.update([[[10.0, -179.0], [20.0, -10.0], [30.0, 0.0]]])
    assert torch.equal(east.state, west.state)
    with pytest.raises(ValueError, match="longitude must be degrees from -180 to 360, got"):
        east.update([[[10.0, 360.5]]])


def test_halves_are_as_large_as_the_generated_set() -> None:
    """With 30 generated trajectories and 960 real ones, about 30 are compared with the others."""
    seen = []

    def halves(mask: Any) -> Any:
        seen.append((mask @ sizes).mean())
        return np.ones((len(mask), 2))

    sizes = np.full(64, 1000 // 64)
    find_floor(sizes, 30, halves, lambda first, _: np.ones(len(first)), 1.0)
    assert seen == pytest.approx([30, sizes.sum() - 30])
    seen.clear()
    find_floor(sizes, 3000, halves, lambda first, _: np.ones(len(first)), 1.0)
    assert seen == pytest.approx([sizes.sum() / 2] * 2)


def test_one_user_stands_in_one_bucket() -> None:
    """All trajectories of a user go to the same half."""
    given = Trajectories(rows_of_ids(1, 400), users=[i % 20 for i in range(400)])
    assert len(set(zip(given.bucket, np.arange(400) % 20, strict=True))) == 20


def perfect(seed: int, users: int) -> Trajectories:
    """Users, each with a typical number of locations a day, and four days of it."""
    draw = np.random.RandomState(seed)
    typical = draw.randint(2, 12, users)
    days = np.minimum(draw.poisson(typical, (4, users)) + 1, 24).T.reshape(-1)
    rows = np.where(np.arange(24) < days[:, None], np.arange(24), -1)
    return Trajectories(rows, users=np.repeat(np.arange(users), 4))


@pytest.mark.parametrize(
    ("comparison", "made", "real"),
    [
        ("ks", 60, 600),
        ("wasserstein", 900, 300),
        pytest.param("jsd", 300, 300, marks=pytest.mark.slow),
        pytest.param("jsd", 900, 300, marks=pytest.mark.slow),
    ],
)
def test_the_floor_is_what_a_perfect_generator_scores(
    comparison: Any, made: int, real: int
) -> None:
    """The mean value of other users from the same world is near the mean floor, at their sizes."""
    values, floors = [], []
    for seed in range(25):
        metric = generated.DailyLocations(comparison=comparison)
        metric.update(perfect(seed, made), perfect(1000 + seed, real))
        values.append(float(metric.compute()))
        floors.append(metric.floor())
    assert np.mean([x.value for x in floors]) == pytest.approx(np.mean(values), rel=0.2)
    inside = [x.low <= value <= x.high for x, value in zip(floors, values, strict=True)]
    assert np.mean(inside) >= 0.7


@pytest.mark.parametrize(
    ("made", "real"), [pytest.param(300, 300, marks=pytest.mark.slow), (100, 400)]
)
def test_the_ceiling_of_flows_is_what_a_perfect_generator_scores(made: int, real: int) -> None:
    """The common part of rare flows depends on the numbers of users; its ceiling follows."""
    values, ceilings, uncorrected = [], [], []
    for seed in range(12):
        metric = generated.Flows()
        metric.update(commuters(seed, made), commuters(1000 + seed, real))
        values.append(float(metric.compute()))
        ceilings.append(metric.floor().value)
        first = np.random.RandomState(seed).rand(real) < min(made / real, 0.5)
        halves = generated.Flows()
        halves.update(commuters(1000 + seed, real, first), commuters(1000 + seed, real, ~first))
        uncorrected.append(float(halves.compute()))
    assert np.mean(ceilings) == pytest.approx(np.mean(values), rel=0.1)
    if made == real:
        assert np.mean(uncorrected) < 0.9 * np.mean(values)


def commuters(seed: int, users: int, chosen: Any = slice(None)) -> Trajectories:
    """Ten places of each user, rare ones by Zipf's law."""
    places = np.minimum(np.random.RandomState(seed).zipf(1.5, (users, 10)), 300)
    return Trajectories(places[chosen], users=np.arange(users)[chosen])


@pytest.mark.filterwarnings("ignore:.*is NaN.*:UserWarning")
@pytest.mark.parametrize("comparison", ["jsd", "ks", "wasserstein"])
def test_a_floor_is_no_larger_than_any_value(comparison: Any) -> None:
    """Few trajectories, whose halves differ more: ln 2 nats, 1, or the width of what is real."""
    for seed in range(5):
        metrics = mobility_metrics(
            "ids", times=True, locations=PLACES, ranks=4, comparison=comparison, base="e"
        )
        draw = np.random.RandomState(seed)
        habits = [draw.randint(0, 8, draw.randint(1, 6)).tolist() for _ in range(2)]
        users = draw.randint(0, 2, 5).tolist()
        metrics.update(part(habits[:1], [0]), part([habits[user] for user in users], users))
        for name, measure in metrics.measures().items():
            most = {"jsd": math.log(2), "ks": 1.0, "cpc": 1.0, "wasserstein": 12.0}[
                measure.comparison
            ]
            if measure.comparison == "wasserstein" and name != "hour_of_day":
                real = measure.distributions()[1]
                if not np.isnan(real).any():
                    most = float(np.ptp(measure.places()[real > 0]))
            floor = measure.floor()
            assert not max(floor[:3]) > most, (seed, name, floor, most)


def test_the_largest_distance_on_the_circle() -> None:
    """The floor of two hours that are real is no larger than the shorter way between them."""
    metric = generated.HourOfDay("wasserstein")
    real = Trajectories([[1]] * 5, [[1], [1], [22], [22], [22]], [0, 0, 1, 1, 1], time_unit="h")
    metric.update(Trajectories([[1]], [[5]], time_unit="h"), real)
    assert metric.floor()[:3] == (3, 3, 3)


def test_a_sum_of_shares_that_may_overflow_is_an_error() -> None:
    """2^31 trajectories are counted exactly, as means count as many scores, and no more."""
    metric = generated.UserVisitFrequency(2, "ks")
    metric.update([[1, 2]], [[3, 3]])
    tally = metric.state * 2**31
    metric.reset()
    metric.add(tally)
    assert metric.compute() == 0.5
    assert metric.distributions()[1].tolist() == [1, 0, 0]
    metric.update([[1, 2]])
    for call in (metric.compute, metric.floor, metric.result, metric.distributions, metric.band):
        with pytest.raises(OverflowError, match="= 2147483648 scores exactly"):
            call()


def test_names_of_locations_change_nothing() -> None:
    """Flows and ranks are equal for any ids, also as large as integers can be."""
    rows = [rows_of_ids(1), rows_of_ids(2)]
    renamed = [[[(7 - x) * 10**18 for x in row] for row in one] for one in rows]
    for measure in (generated.Flows, generated.VisitFrequency, generated.UserVisitFrequency):
        metric, other = measure(), measure()
        metric.update(*(Trajectories(one, users=range(30)) for one in rows))
        other.update(*(Trajectories(one, users=range(30)) for one in renamed))
        assert torch.equal(metric.compute(), other.compute())
        assert metric.floor() == pytest.approx(other.floor())


def test_a_floor_needs_users() -> None:
    """One user has no halves."""
    metric = generated.DailyLocations()
    metric.update([[1, 2]], Trajectories([[1, 2], [3, 4]], users=[5, 5]))
    assert "at least two" in metric.floor().reason


@pytest.mark.extra
def test_the_floor_of_real_data_falls_as_one_over_n(data: Path) -> None:
    """On check-ins of New York, half of the users have twice the floor."""
    file = data / "nyc_with_coordinates" / "check_ins.npz"
    if not file.is_file():
        pytest.skip("needs ../shared/data/nyc_with_coordinates/check_ins.npz")
    with np.load(file) as packed:
        stored = dict(packed)
    user, location, hours = stored["user"], stored["location"] - 1, stored["minute"] // 60
    locations = Locations(stored["latitude"], stored["longitude"])
    edges = generated.log_edges(0.1, 100, 3)  # km
    draw, numbers = np.random.RandomState(0), [250, 500, 1000]
    found: dict[str, list[float]] = {"jump_length": [], "daily_locations": [], "radius": []}
    for number in numbers:
        floors = []
        for _ in range(8):
            own = np.isin(user, draw.permutation(np.unique(user))[:number])
            one, at, when = user[own], location[own], hours[own]
            days = Trajectories.from_columns(
                one * 10_000 + when // 24, at, when, one, time_unit="h"
            )
            whole = Trajectories.from_columns(one, at, when, one, time_unit="h")
            floors.append(
                [
                    floor_of(generated.JumpLength(edges, locations=locations), days),
                    floor_of(generated.DailyLocations(np.arange(1, 8) + 0.5), days),
                    floor_of(generated.RadiusOfGyration(edges, locations=locations), whole),
                ]
            )
        for name, floor in zip(found, np.mean(floors, axis=0), strict=True):
            found[name].append(floor)
    for name, falling in found.items():
        slope = np.polyfit(np.log(numbers), np.log(falling), 1)[0]
        assert -1.1 < slope < -0.75, (name, falling)


def floor_of(metric: Measure, real: Trajectories) -> float:
    """The floor of real trajectories, for a generated set of their size."""
    metric.update(real, real)
    return metric.floor().value


# The preset -------------------------------------------------------------------------------------


def test_the_table_shows_every_floor() -> None:
    """Each row has a value, a floor and its range; a NaN has a note."""
    metrics = mobility_metrics("ids", times=True, locations=PLACES, ranks=4, prefix="val/")
    users = list(range(30))
    metrics.update(part([[1, 1]] * 30, users), part(rows_of_ids(2), users))
    table = metrics.table()
    assert [record["measure"] for record in table.records] == [f"val/{x}" for x in measures()]
    for row, record in zip(table.rows, table.records, strict=True):
        assert "-" not in row[3:4], row
        assert record["low"] <= record["floor"] <= record["high"]
    assert any("flows: there is no generated value" in note for note in table.notes)
    assert "30 generated and 30 real trajectories" in table.notes
    metrics.update(part([[1, 2, 3]] * 30, users))
    flows = metrics.table().records[-1]
    assert flows["measure"] == "val/flows"
    assert not np.isnan([flows["value"], flows["floor"]]).any()
    assert np.isnan(flows["times"])  # higher is better


@pytest.mark.filterwarnings("ignore:.*is NaN.*:UserWarning")
def test_the_preset_computes_floors_beside_values() -> None:
    """`compute` has both, and they are those of the measures."""
    metrics = mobility_metrics("coordinates", units="km")
    metrics.update(padded(rows_of_points(1)), padded(rows_of_points(2)))
    values = metrics.compute()
    alone = generated.RadiusOfGyration(units="km")
    alone.update(padded(rows_of_points(1)), padded(rows_of_points(2)))
    assert torch.equal(values["radius_of_gyration"], alone.compute())
    assert float(values["radius_of_gyration_floor"]) == pytest.approx(alone.floor().value)
    assert list(values) == [
        f"{name}{end}"
        for name in ("jump_length", "travel_distance", "radius_of_gyration", "daily_locations",
                     "user_visit_frequency")
        for end in ("", "_floor")
    ]  # fmt: skip


def test_a_collection_counts_once() -> None:
    """Comparisons of one quantity share a state, and `forward` has the batch's values."""
    kinds = ("jsd", "ks", "wasserstein")
    together = MobilityCollection({kind: generated.JumpLength(comparison=kind) for kind in kinds})
    alone = {kind: generated.JumpLength(comparison=kind) for kind in kinds}
    first, second = ([padded(rows_of_points(seed + x)) for x in (0, 5)] for seed in (1, 2))
    together.update(*first)
    values = together(*second)
    for kind, metric in alone.items():
        metric.update(metric.read(*first))
        assert torch.equal(values[kind], metric(*second))
        assert torch.equal(together.measures()[kind].state, metric.state)
        assert torch.equal(together.compute()[kind], metric.compute())
    assert list(together.compute_groups.values()) == [list(kinds)]
    before = together.measures()["jsd"].state
    with pytest.raises(ValueError, match="latitude must be degrees"):
        together([[[91.0, 0.0]]])
    assert torch.equal(together.measures()["jsd"].state, before)
    with pytest.raises(TypeError, match=r"MobilityCollection holds `Measure`s .* only, got MRR"):
        together.add_metrics({"mrr": MRR()})  # type: ignore[dict-item]


def test_an_error_changes_no_member() -> None:
    """A batch that one member refuses updates none."""
    metrics = mobility_metrics("ids", times=True)
    users = list(range(30))
    metrics.update(part(rows_of_ids(1), users), part(rows_of_ids(2), users))
    before = {name: one.state for name, one in metrics.measures().items()}
    with pytest.raises(ValueError, match="times must be given"):
        metrics.update(rows_of_ids(3))
    for name, one in metrics.measures().items():
        assert torch.equal(one.state, before[name])


def test_pictures_are_drawn() -> None:
    """Every measure draws its two distributions, with the floor in the title."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    metrics = mobility_metrics("ids", times=True, locations=PLACES, ranks=4)
    users = list(range(30))
    metrics.update(part(rows_of_ids(1), users), part(rows_of_ids(2), users))
    drawn = metrics.plot()
    assert len(drawn) == len(measures())
    for figure, axes in drawn:
        assert "floor" in axes.get_title("left") or "ceiling" in axes.get_title("left")
        pyplot.close(figure)


# Errors -----------------------------------------------------------------------------------------

NAN = float("nan")


def hours(times: Any, **options: Any) -> Trajectories:
    """Two points at these hours."""
    return Trajectories([[1, 2]], times, time_unit="h", **options)


WRONG: list[tuple[Any, type[Exception], str]] = [
    (lambda: generated.JumpLength([1]), ValueError, "`edges` must be at least two numbers"),
    (lambda: generated.JumpLength([2, 1]), ValueError, "`edges` must be finite and rise"),
    (lambda: generated.JumpLength([1, NAN]), ValueError, "`edges` must be finite and rise"),
    (lambda: generated.JumpLength(comparison="kl"), ValueError, "`comparison` must be one of"),
    (lambda: generated.HourOfDay(comparison="ks"), ValueError, "`comparison` must be one of"),
    (lambda: generated.JumpLength(base=10), ValueError, "`base` must be 2"),
    (lambda: generated.JumpLength(units="miles"), ValueError, "`units` must be one of"),
    (
        lambda: generated.JumpLength(units="cells"),
        ValueError,
        "pass ids of cells, with `locations=",
    ),
    (lambda: generated.StayDuration(censored="no"), ValueError, "`censored` must be one of"),
    (lambda: generated.Flows(ignore_index=3), ValueError, "`ignore_index` must be None"),
    (lambda: generated.VisitFrequency(0), ValueError, "`ranks` must be a positive integer"),
    (lambda: generated.DailyLocations().update(), ValueError, "`preds` or `target` must be given"),
    (lambda: generated.DailyLocations().update([[1.5, 2.5]]), TypeError, "`preds` must be coord"),
    (lambda: generated.DailyLocations().update(target=[[-2]]), ValueError, "`target` must be ids"),
    (lambda: generated.JumpLength().update([[[1.0, NAN]]]), ValueError, "both coordinates"),
    (
        lambda: generated.JumpLength().update([[[91.0, 0.0]]]),
        ValueError,
        "latitude must be degrees",
    ),
    (lambda: generated.JumpLength().update([[1, 2]]), TypeError, "`locations` must be given"),
    (lambda: generated.JumpLength(locations=PLACES).update([[8]]), ValueError, "from 0 to 7"),
    (lambda: generated.JumpLength(locations=PLACES).update([[[1.0, 1.0]]]), TypeError, "leave out"),
    (lambda: generated.Flows().update([[[1.0, 1.0]]]), TypeError, "must be ids of locations"),
    (lambda: generated.StayDuration().update([[1, 2]]), ValueError, "times must be given"),
    (lambda: hours([[2, 1]]), ValueError, "must not decrease"),
    (lambda: hours([[2.0, NAN]]), ValueError, "must be finite"),
    (lambda: hours(np.array([["2020-01-01", "NaT"]], "M8[s]")), ValueError, "must be finite"),
    (lambda: hours([[2]]), ValueError, "one for each point"),
    (lambda: hours([[2, 3]], step=1), ValueError, "`step` must be None"),
    (lambda: Trajectories([[1]], step=1, time_unit="h"), ValueError, "`time_unit` must be None"),
    (lambda: Trajectories([[1]], [[2]], time_unit="d"), ValueError, "`time_unit` must be one of"),
    (lambda: Trajectories([[1]], [[2]]), ValueError, "one of ('s', 'min', 'h') for times that are"),
    (lambda: Trajectories.from_columns([1], [1], [2]), ValueError, "for times that are numbers"),
    (lambda: Trajectories([[1, 2]], users=[1.5]), ValueError, "`users` must be 1 integers"),
    (lambda: Trajectories([[1, 2]], users=[1, 2]), ValueError, "`users` must be 1 integers"),
    (
        lambda: Trajectories.from_columns([1, 1], [3, 4], users=["a", "b"]),
        ValueError,
        "one user for all points",
    ),
    (lambda: generated.JumpLength.edges_from([]), ValueError, "at least one value"),
    (lambda: generated.log_edges(2, 1), ValueError, "`high` must be above"),
    (
        lambda: mobility_metrics("coordinates", edges={"flows": [1, 2]}),
        ValueError,
        "`edges` must be of measures",
    ),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_errors_name_argument_rule_and_value(number: int) -> None:
    """A wrong argument is refused with its name."""
    call, kind, text = WRONG[number]
    with pytest.raises(kind, match=re.escape(text)):
        call()
