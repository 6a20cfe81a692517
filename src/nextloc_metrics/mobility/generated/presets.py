"""All measures at once, each beside its floor, and the table of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from torch import Tensor

from nextloc_metrics.core.display.table import Table
from nextloc_metrics.core.metric.base import unchanged_by_errors
from nextloc_metrics.core.metric.collection import SummedCollection
from nextloc_metrics.core.queries.arrays import Array
from nextloc_metrics.core.queries.checks import check_bool, check_choice
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.geography.locations import Locations, Units
from nextloc_metrics.mobility.generated.floors import Floor
from nextloc_metrics.mobility.generated.frequencies import Flows, UserVisitFrequency, VisitFrequency
from nextloc_metrics.mobility.generated.histograms import (
    DailyLocations,
    HourOfDay,
    JumpLength,
    RadiusOfGyration,
    StayDuration,
    TravelDistance,
)
from nextloc_metrics.mobility.generated.measure import (
    TITLES,
    AnySet,
    Base,
    Measure,
    TrajectorySets,
    WithFloor,
)


class MobilityCollection(SummedCollection):
    """A `MetricCollection` of measures: it reads trajectories once, and shows every floor.

    `compute` has the key `{name}_floor` beside each `{name}`. An update that raises changes no
    member. The arguments are those of `RankingCollection`.
    """

    _holds = Measure

    def update(self, preds: AnySet = None, target: AnySet = None) -> None:  # type: ignore[override]
        """Add generated trajectories `preds`, real trajectories `target`, or both."""
        self.update_with(TrajectorySets.batch(preds, target))

    def forward(self, preds: AnySet = None, target: AnySet = None) -> dict[str, Any]:
        """Add trajectories, and return the values of these alone."""
        return self.forward_with(TrajectorySets.batch(preds, target))

    def tallies(self) -> dict[str, Tensor]:
        """Return the state of each measure: integers, which add up."""
        return {name: measure.state for name, measure in self.measures().items()}

    def add(self, tallies: Mapping[str, Tensor]) -> None:
        """Add the `tallies` of a collection made alike that counted other trajectories."""
        measures = self.measures()
        if tallies.keys() != measures.keys():
            raise ValueError(
                f"`tallies` must be of the measures {short(list(measures))}, got "
                f"{short(list(tallies))}."
            )
        with unchanged_by_errors(measures.values()):
            for name, measure in measures.items():
                measure.add(tallies[name])

    def compute(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        with self.summed_at_once():
            for name, measure in self.measures().items():
                value = values[self._set_name(name)] = measure.compute()
                floor = value.new_tensor(measure.floor().value)
                values[self._set_name(f"{name}_floor")] = floor
        return values

    def measures(self) -> dict[str, Measure]:
        """Return the members by name."""
        return dict(self.named_members())  # type: ignore[arg-type]

    def floors(self) -> dict[str, Floor]:
        """Return the floor of each measure, with the range of 95 % of random halves."""
        return {self._set_name(name): one.floor() for name, one in self.measures().items()}

    def table(self) -> Table:  # type: ignore[override]  # floors stand in place of intervals
        """Return a table of all values, each with its floor.

        The column `times` is the value over its floor: 1 for a perfect generator.
        """
        rows, records = [], []
        notes: dict[str, None] = {}
        for name, measure in self.measures().items():
            found, key = measure.result(), self._set_name(name)
            sizes = f"{found.generated:,} generated and {found.real:,} real trajectories"
            notes[sizes] = None
            row, record = _row(key, measure, found)
            rows.append(row)
            records.append(record)
            if reason := found.reason or found.floor.reason:
                notes[f"{key}: {reason}"] = None
            if measure.higher_is_better:
                notes[f"{key}: higher is better; a perfect generator reaches the floor"] = None
        header = ["measure", "comparison", "value", "floor", "95 % of halves", "times"]
        return Table(header, rows, list(notes), records)

    def plot(self, val: Any = None, ax: Any = None, together: bool = False) -> Any:
        """Draw both distributions of every measure; returns a list of figures with their axes.

        Args:
            val: not used.
            ax: a sequence of axes, one for each measure; None makes figures.
            together: not available.
        """
        if check_bool("together", together):
            raise ValueError("`together` must be False, as measures have different axes, got True.")
        found = []
        for number, (name, measure) in enumerate(self.measures().items()):
            figure, axes = measure.plot(ax=None if ax is None else ax[number])
            value = axes.get_title(loc="left")
            axes.set_title(f"{self._set_name(name)}\n{value}", loc="left", fontsize=8)
            found.append((figure, axes))
        return found


def _row(key: str, measure: Measure, found: WithFloor) -> tuple[list[str], dict[str, Any]]:
    """Return the cells of a row, and its record."""
    known = found.floor.value > 0 and not found.reason and not measure.higher_is_better
    numbers = {"value": found.value, "floor": found.floor.value}
    numbers |= {"low": found.floor.low, "high": found.floor.high}
    value, floor, low, high = ("-" if x != x else f"{x:.4g}" for x in numbers.values())
    times = found.value / found.floor.value if known else math.nan
    shown = f"{times:,.0f}" if times > 100 else f"{times:.3g}" if known else "-"
    unit = f" ({measure.unit})" if measure.unit else ""
    cells = [key, f"{TITLES[measure.comparison]}{unit}", value, floor, f"{low} - {high}", shown]
    of = {"measure": key, "comparison": measure.comparison, "unit": measure.unit}
    return cells, {**of, **numbers, "times": times}


def mobility_metrics(
    points: Literal["coordinates", "ids"],
    *,
    times: bool = False,
    units: Units = "degrees",
    locations: Locations | None = None,
    comparison: Literal["jsd", "ks", "wasserstein"] = "jsd",
    base: Base = 2,
    edges: Mapping[str, Array] | None = None,
    ranks: int = 100,
    prefix: str | None = None,
    postfix: str | None = None,
) -> MobilityCollection:
    """Return all measures that trajectories of a form allow.

    | measure | needs |
    |---|---|
    | `jump_length`, `travel_distance`, `radius_of_gyration` | coordinates, or `locations` for ids |
    | `stay_duration`, `hour_of_day` | times |
    | `daily_locations`, `user_visit_frequency` | |
    | `visit_frequency`, `flows` | ids |

    Args:
        points: what trajectories are made of.
        times: whether they have times, or a `step`.
        units: of coordinates.
        locations: the coordinates of ids.
        comparison: of all measures but flows, which are compared by the common part of commuters;
            hours have the divergence in place of `"ks"`.
        base: of the logarithm of the divergence.
        edges: the edges of cells, by name of the measure, instead of the default ones.
        ranks: the number of ranks of visit frequencies.
        prefix: text before every key, such as `"val/"`.
        postfix: text after every key.

    Example:
        >>> from nextloc_metrics.mobility.generated import mobility_metrics
        >>> metrics = mobility_metrics("ids")
        >>> users = [[1, 2, 1, user] for user in range(100)]
        >>> metrics.update([[1, 1, 1, 1]] * 100, users)
        >>> metrics.table()
        measure               comparison   value      floor         95 % of halves  times
        daily_locations       JSD (bits)       1   0.004993            0 - 0.01056    200
        visit_frequency       JSD (bits)  0.3093   0.003089     1.93e-05 - 0.01058    100
        user_visit_frequency  JSD (bits)  0.3093  3.169e-05  1.326e-05 - 5.443e-05  9,761
        flows                        CPC       -     0.6685        0.6673 - 0.6696      -
        100 generated and 100 real trajectories
        flows: there is no generated value
        flows: higher is better; a perfect generator reaches the floor
    """
    check_choice("points", points, Literal["coordinates", "ids"])
    check_bool("times", times)
    own: dict[str, Any] = dict(edges or {})
    how: dict[str, Any] = {"comparison": comparison, "base": base}
    made: dict[str, Any] = {}
    if points == "coordinates" or locations is not None:
        for name, kind in (
            ("jump_length", JumpLength),
            ("travel_distance", TravelDistance),
            ("radius_of_gyration", RadiusOfGyration),
        ):
            made[name] = kind(own.pop(name, None), units=units, locations=locations, **how)
    if times:
        made["stay_duration"] = StayDuration(own.pop("stay_duration", None), **how)
    made["daily_locations"] = DailyLocations(own.pop("daily_locations", None), **how)
    if points == "ids":
        made["visit_frequency"] = VisitFrequency(ranks, **how)
    made["user_visit_frequency"] = UserVisitFrequency(ranks, **how)
    if times:
        of_hours = {**how, "comparison": "jsd" if comparison == "ks" else comparison}
        made["hour_of_day"] = HourOfDay(**of_hours)
    if points == "ids":
        made["flows"] = Flows(base=base)
    if own:
        raise ValueError(
            f"`edges` must be of measures with edges that are made here, got {short(sorted(own))}."
        )
    return MobilityCollection(made, prefix=prefix, postfix=postfix)
