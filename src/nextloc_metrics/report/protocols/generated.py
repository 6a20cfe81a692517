"""The evaluations of generated mobility that other codebases make, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from nextloc_metrics import mobility
from nextloc_metrics.core.display.page import Result
from nextloc_metrics.core.display.table import Table
from nextloc_metrics.core.queries.arrays import Array, as_tensor, begins
from nextloc_metrics.core.queries.checks import is_integer
from nextloc_metrics.core.queries.messages import describe
from nextloc_metrics.geography import Locations
from nextloc_metrics.mobility.generated.trajectories import Integers, Numbers, Trajectories
from nextloc_metrics.report.protocols.protocol import Source

#: the quantities, in the order of MoveSim's code
QUANTITIES = ("distance", "radius", "duration", "daily locations", "G-rank", "I-rank")

_SLOTS = 48


@dataclass(frozen=True)
class GeneratedProtocol:
    """A codebase's divergences between real and generated days, in nats.

    A histogram has `bins` + 1 edges in the codebases' intention; `numpy.arange` leaves out the last
    edge, so the last bin is missing, and values in it and above do not count.

    Attributes:
        name: a short name.
        source: the source code that it follows.
        bins: the number of bins of distances and radii.
        max_distance: the end of the bins of distances, squared degrees; None for the largest
            distance of both sets, rounded down.
        max_radius: the end of the bins of radii, squared degrees: `max_distance`, its square, or
            the largest radius of both sets, rounded down.
        counts_last_stay: whether the last stay of a day counts.
        ranks: the number of locations in the rank curves: of all days, and within days.
        curve: whether the curve within days is compared as it is, or by a histogram of its values.
        counts_ids: whether the ids of the most visited locations are among the shares.
        added: what is added to the sum of counts, and to each share.
    """

    name: str
    source: Source
    bins: int = 10_000
    max_distance: float | None = 247.3
    max_radius: Literal["distance", "squared", "largest"] = "squared"
    counts_last_stay: bool = False
    ranks: tuple[int, int] = (100, 100)
    curve: bool = False
    counts_ids: bool = False
    added: tuple[float, float] = (1e-14, 0.0)

    def evaluate(self, generated: Array, real: Array, coordinates: Array) -> dict[str, float]:
        """Return the values that the code would print, by the names in `QUANTITIES`.

        NaN stands for a value that the code does not print because it stops with an error. Days are
        ids of locations from 0 on, integer `[M, 48]` and `[N, 48]`, and `coordinates` latitude and
        longitude of each id, degrees `[C, 2]`.

        Raises:
            ValueError: shapes are wrong, an id has no coordinates, or locations are fewer than
                ranks.

        Example:
            >>> import torch
            >>> from nextloc_metrics import protocols
            >>> at_home = torch.zeros(10, 48, dtype=torch.int64)
            >>> places = torch.arange(200.0).view(100, 2) / 100
            >>> found = protocols.movesim().evaluate(at_home, at_home, places)
            >>> found["distance"], found["duration"]  # no stay is counted
            (0.0, nan)
        """
        degrees, named = _read_coordinates(coordinates), {"generated": generated, "real": real}
        sets = [_read_days(name, days, len(degrees)) for name, days in named.items()]
        if len(degrees) < self.ranks[0]:
            raise ValueError(
                f"`coordinates` must have at least {self.ranks[0]} locations for {self.name}, got "
                f"{len(degrees)}."
            )
        places = [degrees[days] for days in sets]
        jumps = [(np.diff(points, axis=1) ** 2).sum(2) for points in places]
        end = None if self.max_radius == "largest" else self.max_distance
        end = end and end ** (2 if self.max_radius == "squared" else 1)
        radii = [_radii(points) for points in places]
        values = [self._compare(jumps, self.max_distance), self._compare(radii, end)]
        counts = self._duration, self._daily, self._of_all, self._within
        values += [self._diverge([count(days) for days in sets]) for count in counts]
        return dict(zip(QUANTITIES, values, strict=True))

    def _duration(self, days: Integers) -> Any:
        ends = np.ones(days.shape, dtype=bool)
        ends[:, :-1] = days[:, 1:] != days[:, :-1]
        rows, columns = ends.nonzero()
        before = np.append(-1, columns[:-1])
        before[begins(rows)] = -1
        stays = (columns - before)[(columns < _SLOTS - 1) | self.counts_last_stay]
        if self.counts_last_stay:
            return _histogram(stays, 1, _SLOTS + 1, _SLOTS)
        return _histogram(stays / _SLOTS, 0, 1, _SLOTS)

    def _daily(self, days: Integers) -> Any:
        numbers = 1 + (np.diff(np.sort(days, 1), axis=1) != 0).sum(1)
        return _histogram(numbers / _SLOTS, 0, 1, _SLOTS)

    def _of_all(self, days: Integers) -> Any:
        visits = np.bincount(days.ravel(), minlength=self.ranks[0]) / days.size
        order = np.argsort(-visits, kind="stable")[: self.ranks[0]]
        values = np.append(visits[order], order if self.counts_ids else [])
        return _histogram(values, 0, 1, self.ranks[0])

    def _within(self, days: Integers) -> Any:
        curve = np.zeros((len(days), max(self.ranks[1], _SLOTS)))
        for row, day in zip(curve, days, strict=True):
            counts = np.unique(day, return_counts=True)[1]
            row[: len(counts)] = -np.sort(-counts) / _SLOTS
        mean = curve[:, : self.ranks[1]].mean(0)
        mean /= mean.sum()
        return mean if self.curve else _histogram(mean, 0, 1, self.ranks[1])

    def _compare(self, values: Sequence[Numbers], end: float | None) -> float:
        """Compare distances or radii; NaN where the code stops as the end is rounded down to 0."""
        end = int(max(one.max() for one in values)) if end is None else end
        if not end:
            return np.nan
        return self._diverge([_histogram(one, 0, end, self.bins) for one in values])

    def _diverge(self, histograms: Sequence[Any]) -> float:
        of_sum, of_share = self.added
        p, q = (one / (one.sum() + of_sum) + of_share for one in histograms)
        middle = (p + q) / 2
        return (_entropy(p, middle) + _entropy(q, middle)) / 2


def _radii(points: Numbers) -> Any:
    at = np.ascontiguousarray(points.transpose(2, 0, 1))
    apart = at - at.mean(2, keepdims=True)
    return (apart[0] ** 2 + apart[1] ** 2).mean(1)


def _histogram(values: Any, low: float, high: float, bins: int) -> Any:
    """Return the counts of the bins between `arange`'s edges, which do not reach `high`."""
    return np.histogram(values, np.arange(low, high, float(high - low) / bins))[0]


def _entropy(p: Numbers, q: Numbers) -> float:
    """Return the relative entropy of what is first divided by its sum; NaN if that is 0."""
    if not p.sum() or not q.sum():
        return np.nan
    p, q = p / p.sum(), q / q.sum()
    own = p > 0
    return float((p[own] * np.log(p[own] / q[own])).sum())


def _read_days(name: str, days: Array, locations: int) -> Integers:
    found = as_tensor(name, days).detach().cpu()
    if found.ndim != 2 or found.shape[1] != _SLOTS or not len(found) or not is_integer(found):
        raise ValueError(f"`{name}` must be integer days [N, {_SLOTS}], got {describe(found)}.")
    if int(found.min()) < 0 or int(found.max()) >= locations:
        wrong = int(found.max() if found.min() >= 0 else found.min())
        raise ValueError(f"`{name}` must be ids from 0 to {locations - 1}, got {wrong}.")
    return found.long().numpy()


def _read_coordinates(coordinates: Array) -> Numbers:
    found = as_tensor("coordinates", coordinates).detach().cpu().double()
    if found.ndim != 2 or found.shape[1] != 2 or not found.isfinite().all():
        raise ValueError(f"`coordinates` must be finite degrees [C, 2], got {describe(found)}.")
    return found.numpy()


def movesim(max_distance: float = 247.3) -> GeneratedProtocol:
    """MoveSim: squared degrees in 10,000 bins; the last stay of a day does not count.

    G-rank and I-rank are histograms of the shares of the first 100 ranks. `max_distance` is the
    constant of the data set in the code: 247.3 for GeoLife, 2.088 for its mobile data.
    """
    paper = "Feng et al., Learning to Simulate Human Mobility, KDD 2020"
    code = "FIBLAB/MoveSim@93e6837fa318a9e5a3966f5267accfb303ed8bb6"
    lines = "code/evaluations.py L38-53, L82-96, L193-238, L283-335, L346-385"
    return GeneratedProtocol("movesim", Source(paper, code, lines), max_distance=max_distance)


def pategail(max_distance: float = 2101.45) -> GeneratedProtocol:
    """PateGail: MoveSim's file with 1,000 bins, the last stay, and 1e-10 added to each share.

    Radii, in squared degrees, end where distances do. G-rank counts the ids of the 50 most visited
    locations among their shares: `get_topk_visits` returns both. I-rank is the curve of 20 ranks.
    """
    paper = (
        "Wang et al., PateGail: A Privacy-Preserving Mobility Trajectory Generator with "
        "Imitation Learning, AAAI 2023"
    )
    code = "tsinghua-fib-lab/PateGail@0c79f0cebfc6111987a3d9633c1421e2a4d26b44"
    lines = "utils/evaluations.py L41-54, L91-104, L193-247, L296-422, L455-466"
    return GeneratedProtocol(
        "pategail",
        Source(paper, code, lines),
        bins=1000,
        max_distance=max_distance,
        max_radius="distance",
        counts_last_stay=True,
        ranks=(50, 20),
        curve=True,
        counts_ids=True,
        added=(1e-10, 1e-10),
    )


def sec_movesim() -> GeneratedProtocol:
    """Sec-MoveSim: MoveSim's file, whose bins end at the largest value of both sets, rounded down.

    Where that is 0, as for a city, the code stops with an error.
    """
    code = "VictorRubio98/Sec-MoveSim@0f7b4704113eb9389858cfa0421720aa32798d5f"
    lines = "code/evaluations.py L41-56, L91-105, L197-250, L299-366"
    source = Source("a private variant of MoveSim", code, lines)
    return GeneratedProtocol("sec_movesim", source, max_distance=None, max_radius="largest")


@dataclass(repr=False)
class GeneratedAudit(Result):
    """The result of `audit_generated`; `print` shows it as a table.

    `values` has those of each protocol and quantity, and `exact` the value and the floor of this
    library's measure of each quantity, in nats.
    """

    title: ClassVar[str] = "Generated mobility under the protocols of other codebases"

    values: dict[str, dict[str, float]]
    exact: dict[str, tuple[float, float]]

    @property
    def table(self) -> Table:
        """One row per quantity, one column per protocol."""
        header = ["JSD (nats)", *self.values, "nextloc_metrics", "floor"]
        rows, records = [], []
        for quantity in QUANTITIES:
            numbers = [one[quantity] for one in self.values.values()] + [*self.exact[quantity]]
            rows.append([quantity, *("-" if x != x else f"{x:.4g}" for x in numbers)])
            records.append(dict(zip(header, [quantity, *numbers], strict=True)))
        notes = [
            "-: the code stops with an error, or has no value",
            "floor: what other real days score by nextloc_metrics",
        ]
        return Table(header, rows, notes, records)


def audit_generated(
    generated: Array, real: Array, coordinates: Array, users: Array | None = None
) -> GeneratedAudit:
    """Compare one pair of sets under every protocol, beside this library's measures.

    The measures have their default cells. They differ from the codebases' in what they measure:
    km for squared degrees, curves for histograms of shares, all stays and all cells. The arguments
    are as for `GeneratedProtocol.evaluate`, with at least 100 locations; `users`, integers or text
    `[N]`, are those of the real days, for the floor.

    Example:
        >>> import torch
        >>> from nextloc_metrics import protocols
        >>> slots = torch.arange(480).view(10, 48)
        >>> generated, real = slots // 4 % 100, slots // 8 % 100  # stays of 2 and of 4 hours
        >>> places = torch.arange(200.0).view(100, 2) / 10
        >>> audit = protocols.audit_generated(generated, real, places)
        >>> {name: round(one["duration"], 3) for name, one in audit.values.items()}
        {'movesim': 0.693, 'pategail': 0.693, 'sec_movesim': 0.693}
        >>> value, floor = audit.exact["duration"]
        >>> round(value, 3), floor  # all real stays have 4 hours
        (0.693, 0.0)
    """
    degrees = _read_coordinates(coordinates)
    every = (movesim(), pategail(), sec_movesim())
    values = {one.name: one.evaluate(generated, real, degrees) for one in every}
    sets = Trajectories(generated, step=0.5), Trajectories(real, step=0.5, users=users)
    locations = Locations(*degrees.T)
    measures = {
        "distance": mobility.generated.JumpLength(base="e", locations=locations),
        "radius": mobility.generated.RadiusOfGyration(base="e", locations=locations),
        "duration": mobility.generated.StayDuration(base="e"),
        "daily locations": mobility.generated.DailyLocations(base="e"),
        "G-rank": mobility.generated.VisitFrequency(base="e"),
        "I-rank": mobility.generated.UserVisitFrequency(base="e"),
    }
    exact = {}
    for name, measure in measures.items():
        measure.update(*sets)
        found = measure.result()
        exact[name] = found.value, found.floor.value
    return GeneratedAudit(values, exact)
