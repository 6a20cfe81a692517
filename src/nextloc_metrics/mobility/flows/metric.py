"""The base of the metrics of flows: exact sums of each day, kept as a table of days."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY
from fractions import Fraction
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.means import exact, intervals
from nextloc_metrics.core.metric.annotated_options import Positive
from nextloc_metrics.core.metric.keyed import KeyedMetric
from nextloc_metrics.core.queries.arrays import Array
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.core.queries.record import Record, Records
from nextloc_metrics.mobility.flows.pairs import STEP, FlowPairs

Of = Literal["all", "diagonal", "others"]
Per = Literal["day", "all"]

_WORD = 62  # bits of the lower of the two words of a sum
_ROWS = 1 << 20  # so many products of 16-bit limbs sum to 2^52, which float64 holds
# adds limbs to 1, the predicted count, the true one and the smaller one
_LIMBS = np.zeros((4, 10), dtype=object)
_LIMBS[0, 0] = 1
_LIMBS[1:, 1:] = np.kron(np.eye(3, dtype=int), np.array([1 << 0, 1 << 16, 1 << 32]))


class FlowSums(NamedTuple):
    """Exact sums over pairs, in steps of 2^-16, and of 2^-32 for squares and products."""

    pairs: int  #: the number of pairs, also those that are stored nowhere
    predicted: int
    true: int
    least: int  #: of the smaller of the two counts
    predicted_squares: int
    true_squares: int
    products: int

    def mean(self, total: int, bits: int = STEP) -> Fraction | None:
        """Return a sum in steps of 2^-`bits` over the number of pairs."""
        return share(total, self.pairs << bits)


#: The sums of one day by `Of`, behind its name, which is -1 for none.
FlowDay: TypeAlias = tuple[int, dict[str, FlowSums]]


def add(sums: Iterable[FlowSums]) -> FlowSums:
    """Return the sums over the pairs of all."""
    return FlowSums(*map(sum, zip((0,) * 7, *sums, strict=True)))


def share(up: int, down: int) -> Fraction | None:
    """Return a quotient; None without a divisor."""
    return Fraction(up, down) if down else None


class FlowMetric(KeyedMetric):
    """Base class of the metrics of flows: `update` takes whole days.

    Args:
        num_cells: the number of cells that each day must have; None takes any number.
        options: the options of a subclass.
    """

    record = FlowPairs
    higher_is_better = False
    largest_value = math.inf
    full_state_update = True  # or `forward` would not see a day that comes again
    _without_ids = "flows", ""

    _: KW_ONLY
    num_cells: Positive | None = None
    plot_upper_bound: float | None = None

    def update(  # type: ignore[override]  # there are no queries
        self, preds: Array | Record | Records, target: Array | None = None, days: Any = None
    ) -> None:
        """Add whole days.

        Args:
            preds: predicted counts from 0 to 2^31, `[O, O]` from each origin to each destination
                of one day, or `[D, O, O]`; or `FlowPairs`, alone.
            target: the true counts, in the same shape.
            days: the name of each day, integers from 0, `[D]`. A day that comes again is an error;
                without names each matrix is one more day.
        """
        self._plan.update(FlowPairs.batch(preds, target, days), count=False)

    def read(  # type: ignore[override]  # there are no queries
        self, preds: Array | Record | Records, target: Array | None = None, days: Any = None
    ) -> FlowPairs:
        """Return the record of the arguments of `update`."""
        found: FlowPairs = self._plan.read(FlowPairs.batch(preds, target, days))[self.record]
        return found

    def _check(self, record: FlowPairs) -> None:
        if self.num_cells not in (None, record.num_cells):
            raise ValueError(
                f"`preds` must have the {self.num_cells} cells of {short(self)}, got "
                f"{record.num_cells}."
            )
        self._check_days(record.days)

    def _check_days(self, more: Sequence[int] = ()) -> None:
        """Raise if a named day comes again, in an update or from another process."""
        names, numbers = np.unique([*self.days_held(), *more], return_counts=True)
        if (again := (numbers > 1) & (names >= 0)).any():
            raise ValueError(
                f"`days` must name each day once, got {int(names[again.argmax()])} again; pass "
                "all rows of a day in one update, in one process."
            )

    @abstractmethod
    def days_held(self) -> list[int]:
        """Return the name of each day that this process has added; -1 for none."""


class DailyMetric(FlowMetric):
    """Base class of formulas on exact sums of days, which share one state.

    The state is a list of one int64 tensor, a row for each different day: the number of cells, the
    name, twelve sums of two words each, and how many days are so. A subclass defines `square`, the
    square of the value, which is computed in integers and rounded once, to float64. With an option
    `per` that is `"day"`, the value is the mean of the values of days, each in steps of 2^-32,
    without the days that have none; else the sums of all days are added first.

    Args:
        options: the options of a subclass.
    """

    _num_keys = 26
    of, per = "all", "all"  # options of some

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Share the state: only `compute` differs."""
        super().__init_subclass__(**kwargs)
        cls._counted_as = "FlowDays"

    def empty_tally(self) -> Tensor:
        return torch.zeros(0, self._num_keys + 1, dtype=torch.int64)

    def tally(self, record: FlowPairs) -> Any:
        """Return the summand of the state."""
        bounds = np.searchsorted(record.day, np.arange(len(record.days) + 1))
        is_diagonal = record.origin == record.destination
        rows = []
        for day, *ends in zip(record.days.tolist(), bounds[:-1], bounds[1:], strict=True):
            of_day, counts = is_diagonal[slice(*ends)], record.counts[:, slice(*ends)]
            sums = [x for part in (of_day, ~of_day) for x in _sum(*counts[:, part])]
            words = [word for x in sums for word in divmod(x, 1 << _WORD)]
            rows.append([record.num_cells, day + 1, *words, 1])
        tensor = torch.tensor(rows, dtype=torch.int64)
        return self._summand(tensor.reshape(-1, self._num_keys + 1))

    def days_held(self) -> list[int]:
        state = self.state.cpu().numpy()
        days: list[int] = np.repeat(state[:, 1] - 1, state[:, -1]).tolist()
        return days

    def days(self) -> list[FlowDay]:
        """Return the exact sums of each day that this process has added, by name."""
        found: list[FlowDay] = []
        for cells, day, *words, number in self.state.tolist():
            sums = [(x << _WORD) + y for x, y in zip(words[::2], words[1::2], strict=True)]
            parts = FlowSums(cells, *sums[:6]), FlowSums(cells * (cells - 1), *sums[6:])
            by_part = dict(zip(("diagonal", "others", "all"), (*parts, add(parts)), strict=True))
            found += [(day - 1, by_part)] * number
        return sorted(found, key=lambda day: day[0])

    @abstractmethod
    def square(self, sums: FlowSums) -> Fraction | None:
        """Return the square of the value, with its sign; None where there is no value."""

    def scale(self, days: Sequence[FlowDay]) -> Fraction | None:
        """Return the square of the number by which values are divided; None for none."""
        return Fraction(1)

    def of_day(self, day: FlowDay) -> Fraction | None:
        """Return the value of a day before it is divided, in steps of 2^-32; None for none."""
        square = self.square(day[1][self.of])
        return None if square is None else fixed_root(square)

    def value_of(self, days: Sequence[FlowDay]) -> float:
        """Return the value of some days, float64; NaN without one."""
        if self.per == "all":
            square = self.square(add(sums[self.of] for _, sums in days))
        else:
            known = [x for x in map(self.of_day, days) if x is not None]
            mean = sum(known, Fraction(0)) / len(known) if known else None
            square = None if mean is None else mean * abs(mean)
        return root(square, self.scale(days))

    def values_by_day(self) -> list[tuple[int, float]]:
        """Return the name and the value of each day, all divided by the number of all days."""
        days, scale = self.days(), self.scale(self.days())
        values = [(day[0], self.of_day(day)) for day in days]
        return [(name, root(None if x is None else x * abs(x), scale)) for name, x in values]

    def compute(self) -> Tensor:
        self._check_days()
        return torch.tensor(self.value_of(self.days()), dtype=torch.float64, device="cpu")

    @property
    def _averages_scores(self) -> bool:
        return self.per == "day"

    def _estimate(self) -> intervals.Estimate:
        """Estimate the mean over days; the number by which values are divided is taken as known."""
        if not self._averages_scores:
            return super()._estimate()
        known = [x for _, x in self.values_by_day() if not math.isnan(x)]
        values = torch.tensor(known, dtype=torch.float64, device="cpu")
        counted = torch.ones_like(values, dtype=torch.bool)
        return intervals.of_queries(exact.tally(values, counted, self._is_bounded))


def _sum(predicted: Any, true: Any) -> list[int]:
    """Return the sums of `FlowSums` behind the number of pairs."""
    total: Any = np.zeros((4, 4), dtype=object)
    for start in range(0, len(true), _ROWS):
        p, t = predicted[start : start + _ROWS], true[start : start + _ROWS]
        limbs = [x >> shift & 0xFFFF for x in (p, t, np.minimum(p, t)) for shift in (0, 16, 32)]
        rows = np.stack([np.ones_like(p), *limbs]).astype(np.float64)
        products = (rows @ rows.T).astype(np.int64).astype(object)  # exact
        total = total + _LIMBS @ products @ _LIMBS.T
    return [int(total[at]) for at in ((0, 1), (0, 2), (0, 3), (1, 1), (2, 2), (1, 2))]


def fixed_root(square: Fraction) -> Fraction:
    """Return the root of a fraction, with its sign, in steps of 2^-32."""
    nearest = (math.isqrt((abs(square.numerator) << 66) // square.denominator) + 1) // 2
    return Fraction(nearest if square >= 0 else -nearest, exact.ONE)


def root(square: Fraction | None, scale: Fraction | None) -> float:
    """Return the float64 nearest to the root of square / scale, with its sign; NaN without one."""
    if square is None or not scale:
        return math.nan
    ratio = abs(square) / scale
    up, down = ratio.numerator, ratio.denominator
    shift = max(0, 70 + (down.bit_length() - up.bit_length()) // 2)
    whole = math.isqrt((up << 2 * shift) // down)
    # of 69 bits or more; one behind them breaks a tie of float64 as the bits left out would
    inexact = whole * whole * down != up << 2 * shift
    return math.copysign(math.ldexp(whole << 1 | inexact, -shift - 1), square)
