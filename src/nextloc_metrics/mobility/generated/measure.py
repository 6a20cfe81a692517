"""The base of all measures: two histograms, generated and real, that add up, and their floor."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.display.style import import_pyplot
from nextloc_metrics.core.metric.mean import RecordMetric
from nextloc_metrics.core.queries.arrays import Array
from nextloc_metrics.core.queries.batch import Batch
from nextloc_metrics.core.queries.hashing import BUCKETS
from nextloc_metrics.core.queries.messages import describe, short
from nextloc_metrics.core.queries.record import Queries, Record, Records
from nextloc_metrics.mobility.generated.floors import Floor, find_floor
from nextloc_metrics.mobility.generated.pictures import Axis, draw_cells
from nextloc_metrics.mobility.generated.trajectories import (
    Integers,
    Numbers,
    Trajectories,
    read_trajectories,
)

Distance = Literal["jsd", "ks", "wasserstein"]


def _check_base(name: str, value: Any) -> Any:
    if value != "e" and (isinstance(value, bool) or value != 2):
        raise ValueError(f'`{name}` must be 2 or "e", got {short(value)}.')
    return value


Base = Annotated[Literal[2, "e"], _check_base]
AnySet: TypeAlias = Array | Trajectories | Record | Records | None

#: the names of comparisons in tables
TITLES = {"jsd": "JSD", "ks": "KS", "wasserstein": "W1", "cpc": "CPC"}


class WithFloor(NamedTuple):
    """The value of a measure with its floor."""

    value: float  #: NaN without data
    floor: Floor
    reason: str  #: why the value is NaN; empty if it is not
    generated: int  #: the number of generated trajectories
    real: int  #: the number of real trajectories


@dataclass(eq=False)
class TrajectorySets(Record):
    """Generated and real trajectories, any number of each: what measures read; no queries.

    Attributes:
        sets: one or both, with the part of each trajectory, int64 `[N]`: 0 for a generated one, and
            1 + the bucket of the user for a real one.
    """

    sets: list[tuple[Trajectories, Integers]]
    queries = Queries(torch.Size([0]), torch.zeros(0, dtype=torch.bool))

    @staticmethod
    def batch(preds: Any, target: Any) -> Batch:
        """Return what a plan reads of the arguments of an update."""
        if isinstance(preds, Record | Records):
            return Batch(preds, target)
        if preds is None and target is None:
            raise ValueError("`preds` or `target` must be given, got None for both.")
        sets = []
        if (generated := read_trajectories("preds", preds)) is not None:
            sets.append((generated, np.zeros(generated.num, dtype=np.int64)))
        if (real := read_trajectories("target", target)) is not None:
            sets.append((real, 1 + real.bucket))
        return Batch(TrajectorySets(sets), None)


class Measure(RecordMetric):
    """The difference of a quantity's distribution between generated and real trajectories.

    `update` adds the quantity of generated trajectories, `preds`, and of real ones, `target`, to
    two histograms of integers. There may be any number of each, and none belongs to another one.
    `compute` compares the histograms; `floor` compares real users with other real users.

    Nothing is added to the counts. Without generated or without real values the value is NaN, and
    a warning says which are missing.

    A comparison is `"jsd"`, the Jensen-Shannon divergence (not its root), 0 to 1 bit; `"ks"`, the
    Kolmogorov-Smirnov distance, 0 to 1; or `"wasserstein"`, the Wasserstein-1 distance in the
    quantity's unit, with the values of a cell at its middle.

    A subclass declares the comparisons that it has as its option `comparison`, and `base`, of the
    logarithm of the divergence, 2 or `"e"`; its maximum is then 1 or ln 2.
    """

    record = TrajectorySets
    _without_ids = "trajectories", "; pad points with -1"
    higher_is_better = False
    plot_upper_bound = None

    #: the quantity in tables and pictures, and its unit
    title = ""
    quantity_unit = ""

    #: options, which each measure declares behind its own
    comparison = "jsd"
    base = cast(Base, 2)

    def __post_init__(self) -> None:
        super().__post_init__()
        units = {"jsd": "bits" if self.base == 2 else "nats", "wasserstein": self.quantity_unit}
        self.unit = units.get(self.comparison, "")

    def update(  # type: ignore[override]  # there are no queries
        self, preds: AnySet = None, target: AnySet = None
    ) -> None:
        """Add generated trajectories `preds`, real trajectories `target`, or both.

        Each is an array of points, `[N, L, 2]` or ids `[N, L]`, or `Trajectories`, which also have
        times and users.
        """
        self._plan.update(TrajectorySets.batch(preds, target), count=False)

    def read(  # type: ignore[override]  # there are no queries
        self, preds: AnySet = None, target: AnySet = None
    ) -> TrajectorySets:
        """Return the record of the arguments of `update`."""
        found: TrajectorySets = self._plan.read(TrajectorySets.batch(preds, target))[self.record]
        return found

    def _check(self, record: TrajectorySets) -> None:
        """Do nothing: trajectories are read on the CPU, whatever the device of the state."""

    def tally(self, record: TrajectorySets) -> Any:
        """Return the summand of the state."""
        first, *others = (self._summand(self._count_all(*one)) for one in record.sets)
        return sum(others, first)

    def add(self, tally: Tensor) -> None:
        """Add the `state` of a measure with the same options that counted other trajectories."""
        if tally.dtype != torch.int64 or tally.shape[1:] != self.state.shape[1:]:
            raise ValueError(
                f"`tally` must be a state of {short(self)}, {describe(self.state)}, got "
                f"{describe(tally)}."
            )
        self._plan.add([self._summand(tally)], count=True)

    @abstractmethod
    def _count_all(self, trajectories: Trajectories, part: Integers) -> Tensor:
        """Return the state of these trajectories alone."""

    @abstractmethod
    def histograms(self) -> tuple[Any, Callable[[Any], Any]]:
        """Return generated counts `[K]`, and a function from bool `[S, 64]` to real `[S, K]`."""

    @abstractmethod
    def sizes(self) -> Integers:
        """Return the number of trajectories of each part, int64 `[65]`."""

    def compare(self, first: Any, other: Any) -> Numbers:
        """Compare counts `[..., K]` with counts `[..., K]`."""
        if self.comparison == "jsd":
            return jensen_shannon(first, other, math.e if self.base == "e" else 2.0)
        if self.comparison == "ks":
            return kolmogorov_smirnov(first, other)
        return wasserstein(first, other, self.places())

    def places(self) -> Numbers:
        """Return where the values of each cell stand, float64 `[K]`, for `"wasserstein"`."""
        raise NotImplementedError

    def compute(self) -> Tensor:
        value, reason = self._difference()
        if self._update_count and reason:
            warnings.warn(f"{short(self)} is NaN: {reason}.", stacklevel=2)
        return torch.tensor(value, dtype=torch.float64, device="cpu")

    def _difference(self) -> tuple[float, str]:
        sets = dict(zip(("generated", "real"), self._both(), strict=True))
        if empty := [name for name, counts in sets.items() if not np.asarray(counts).sum()]:
            return math.nan, f"there is no {' and no '.join(empty)} value"
        return float(self.compare(*sets.values())), ""

    def result(self) -> WithFloor:
        """Return the value, its floor, and the numbers of trajectories, without a warning."""

        def read() -> WithFloor:
            sizes = self.sizes()
            value, reason = self._difference()
            return WithFloor(value, self._floor(), reason, int(sizes[0]), int(sizes[1:].sum()))

        return self._of_all_processes(read)

    def _both(self) -> tuple[Any, Any]:
        generated, halves = self.histograms()
        return generated, halves(np.ones((1, BUCKETS), dtype=bool))[0]

    def floor(self) -> Floor:
        """Return what a perfect generator would score, with the range of 95 % of random halves.

        The real users are divided 200 times at random, into a set about as large as the generated
        one, at most half, and the others; the two are compared as `compute` does. Users stand in 64
        buckets by a hash, and a bucket goes into one set whole.

        Halves are smaller than the sets that `compute` compares, so their values are brought to the
        sets' sizes: for n and m trajectories a divergence goes with 1/n + 1/m, and the other two
        distances with its root. Values of ranks and flows go with a power of it that is found from
        sets half as large.

        Example:
            >>> from nextloc_metrics.mobility.generated import DailyLocations, Trajectories
            >>> metric = DailyLocations()
            >>> real = Trajectories([[1, 2, 3], [1, 2, -1]] * 50, users=range(100))
            >>> metric.update([[1, 1, 1]] * 100, real)
            >>> metric.compute()  # bits
            tensor(1.)
            >>> metric.floor().value < 0.02
            True
        """
        return self._of_all_processes(self._floor)

    def _floor(self) -> Floor:
        sizes, (_, halves) = self.sizes(), self.histograms()
        most = self.largest(halves(np.ones((1, BUCKETS), dtype=bool))[0])
        return find_floor(sizes[1:], int(sizes[0]), halves, self.compare, self.power, most)

    def largest(self, real: Any) -> float:
        """Return the largest value of two sets with values in the cells of the real ones only.

        It is that of sets with all their values in the cells that are farthest apart.
        """
        cells = np.flatnonzero(real)
        if self.higher_is_better or not len(cells):
            return 1.0
        ends = np.zeros((2, len(real)))
        ends[[0, 1], cells[[0, -1]]] = 1
        return float(self.compare(*ends))

    @property
    def power(self) -> float | None:
        """The power of 1/n by which differences of samples of n fall; None if it is found."""
        return 1.0 if self.comparison == "jsd" else 0.5

    def distributions(self) -> tuple[Numbers, Numbers]:
        """Return the shares of each cell, generated and real, float64 `[K]`, of all processes."""
        generated, real = self._of_all_processes(self._both)
        return shares(generated), shares(real)

    def band(self) -> Numbers:
        """Return the range of 95 % of random halves of the real users for each cell, `[2, K]`."""

        def read() -> Any:
            sizes = self.sizes()
            found: list[Any] = []

            def keep(first: Any, other: Any) -> Any:
                found.append(shares(first))
                return np.zeros(len(first))

            find_floor(sizes[1:], int(sizes[0]), self.histograms()[1], keep, 0)
            return np.quantile(found[0], [0.025, 0.975], axis=0) if found else None

        return self._of_all_processes(read)

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Draw both distributions, with the value and the floor; `val` is not used.

        Raises:
            ModuleNotFoundError: matplotlib is not installed.
        """
        import_pyplot()
        generated, real = self.distributions()
        return draw_cells(generated, real, self.band(), self.axis(), self.headline(), ax)

    def axis(self) -> Axis:
        """Return what the cells are, for pictures."""
        return Axis(self.title)

    def headline(self) -> str:
        """Return the value with its floor in one line."""
        value, floor, reason, *_ = self.result()
        unit = f" {self.unit}" if self.unit else ""
        if reason:
            return f"{TITLES[self.comparison]} -: {reason}"
        beside = f"{floor.value:.4g} ({floor.low:.4g} to {floor.high:.4g})"
        beside = floor.reason or f"{'ceiling' if self.higher_is_better else 'floor'} {beside}"
        return f"{TITLES[self.comparison]} {value:.4g}{unit}, {beside}"


class DenseMeasure(Measure):
    """A measure with a fixed number of cells: the state is int64 `[65, K + 1]`.

    Row 0 is generated, the others are the 64 buckets of real users. The last column counts
    trajectories.
    """

    @property
    @abstractmethod
    def num_cells(self) -> int:
        """The number K of cells."""

    @abstractmethod
    def count(self, trajectories: Trajectories, part: Integers) -> Integers:
        """Return the counts of each part and cell, int64 `[65, K]`."""

    def empty_tally(self) -> Tensor:
        return torch.zeros(1 + BUCKETS, self.num_cells + 1, dtype=torch.int64)

    def _count_all(self, trajectories: Trajectories, part: Integers) -> Tensor:
        number = np.bincount(part, minlength=1 + BUCKETS)
        return torch.from_numpy(np.column_stack([self.count(trajectories, part), number]))

    def histograms(self) -> tuple[Any, Callable[[Any], Any]]:
        # without a sign: 2^31 shares of 1 sum to 2^63
        counts = self.state[:, :-1].cpu().numpy().view(np.uint64)
        real = counts[1:].astype(np.float64)
        return counts[0], lambda mask: mask.astype(np.float64) @ real

    def sizes(self) -> Integers:
        return self.state[:, -1].cpu().numpy()


def count_cells(part: Integers, cell: Integers, num_cells: int) -> Integers:
    """Return how often each cell occurs in each part, int64 `[65, K]`."""
    found = np.bincount(part * num_cells + cell, minlength=(1 + BUCKETS) * num_cells)
    return found.reshape(1 + BUCKETS, num_cells)


def shares(counts: Any) -> Numbers:
    """Return counts as shares of their sum; NaN if the sum is 0."""
    total = counts.sum(-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        return counts / np.where(total > 0, total, np.nan)  # type: ignore[no-any-return]


def jensen_shannon(first: Any, other: Any, base: float = 2.0) -> Numbers:
    """Return the Jensen-Shannon divergence, the square of SciPy's `jensenshannon`."""
    p, q = shares(first), shares(other)
    middle = (p + q) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = [np.where(x > 0, x * np.log(x / middle), 0 * x) for x in (p, q)]
    total: Numbers = (terms[0] + terms[1]).sum(-1) / (2 * math.log(base))
    # rounding leaves the range by a last digit
    return total.clip(0, math.log(2) / math.log(base))


def kolmogorov_smirnov(first: Any, other: Any) -> Numbers:
    """Return the largest difference of the cumulative shares."""
    largest: Numbers = np.abs(_gap(first, other)).max(-1)
    return largest


def wasserstein(first: Any, other: Any, at: Numbers) -> Numbers:
    """Return the Wasserstein-1 distance of values that stand at `at`, `[K]`."""
    gap = _gap(first, other)[..., :-1]
    area: Numbers = (np.abs(gap) * np.diff(at)).sum(-1)
    return area


def circular_wasserstein(first: Any, other: Any) -> Numbers:
    """Return the Wasserstein-1 distance on a circle of K cells, in cells."""
    gap = _gap(first, other)
    middle = np.sort(gap, -1)[..., gap.shape[-1] // 2]
    area: Numbers = np.abs(gap - middle[..., None]).sum(-1)
    return area


def _gap(first: Any, other: Any) -> Numbers:
    return np.cumsum(shares(first) - shares(other), -1)
