"""The metrics of flows, each a formula on the sums of days or of pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.metric.annotated_options import Computed, PositiveNumber
from nextloc_metrics.core.queries.checks import check_choice, check_number
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.mobility.flows.metric import (
    DailyMetric,
    FlowDay,
    FlowMetric,
    FlowSums,
    Of,
    Per,
    add,
    fixed_root,
    share,
)
from nextloc_metrics.mobility.flows.pairs import MOST, STEP, FlowPairs


def _check_divisor(name: str, value: Any) -> Any:
    kinds = Literal["std", "mean"]
    return check_choice(name, value, kinds) if isinstance(value, str) else check_number(name, value)


class _MeanSquare(DailyMetric):
    """Metrics of the mean of the squared differences."""

    def square(self, sums: FlowSums) -> Fraction | None:
        squares = sums.predicted_squares + sums.true_squares - 2 * sums.products
        return sums.mean(squares, 2 * STEP)


class FlowRMSE(_MeanSquare):
    """Root mean square error of the counts of all pairs, in trips.

    Args:
        of: which pairs: `"all"`, `"diagonal"`, those of a cell with itself, or `"others"`.
        per: `"day"` for the root of each day, and then the mean over days, whose interval takes
            days as independent; `"all"` for one root over the pairs of all days.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics.mobility.flows import FlowRMSE
        >>> days = tensor([[[5, 0], [0, 3]], [[0, 0], [0, 0]]]), tensor([[[1, 0], [0, 3]]] * 2)
        >>> FlowRMSE()(*days), FlowRMSE(per="all")(*days)  # (2 + root(10/4)) / 2, root(26/8)
        (tensor(1.7906), tensor(1.8028))
    """

    unit = "trips"

    of: Computed[Of] = "all"
    per: Computed[Per] = "day"


class FlowNRMSE(_MeanSquare):
    """`FlowRMSE`, divided by a number or a statistic of the true counts; NaN where that is 0.

    Args:
        by: `"std"`, the population standard deviation of the true counts of these pairs on all
            days, zeros too; `"mean"`, their mean; or a number, such as the decimal .0176.
        of: which pairs, as for `FlowRMSE`.
        per: as for `FlowRMSE`; the interval takes the divisor, one for all days, as known.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics.mobility.flows import FlowNRMSE
        >>> FlowNRMSE()(tensor([[1, 0], [0, 1]]), tensor([[1, 0], [0, 3]]))  # 1 / root(10/4 - 1)
        tensor(0.8165)

    Source: of one matrix, by `"std"`: CommutingODGen (Rong et al., NeurIPS 2024).
    """

    by: Computed[Annotated[Literal["std", "mean"] | float, _check_divisor]] = "std"
    of: Computed[Of] = "all"
    per: Computed[Per] = "day"

    def scale(self, days: Sequence[FlowDay]) -> Fraction | None:
        if not isinstance(self.by, str):
            return Fraction(str(self.by)) ** 2
        total = add(sums[self.of] for _, sums in days)
        mean, squares = total.mean(total.true), total.mean(total.true_squares, 2 * STEP)
        if mean is None or squares is None:
            return None
        return mean * mean if self.by == "mean" else squares - mean * mean


class CombinedNRMSE(_MeanSquare):
    """The score of the HuMob Challenge 2026: the mean of the NRMSE of the diagonal and the others.

    Each is a `FlowNRMSE` by a number: the RMSE of each day, averaged over days, and divided.

    Args:
        diagonal: the divisor for pairs of a cell with itself.
        others: the divisor for the other pairs.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics.mobility.flows import CombinedNRMSE
        >>> score = CombinedNRMSE(4.0, 0.5)
        >>> score(tensor([[3, 0], [0, 2]]), tensor([[1, 1], [1, 0]]))  # (2 / 4 + 1 / 0.5) / 2
        tensor(1.2500)
    """

    per = "day"

    diagonal: Computed[PositiveNumber] = 26.57
    others: Computed[PositiveNumber] = 0.0176

    def of_day(self, day: FlowDay) -> Fraction | None:
        divisors = {"diagonal": self.diagonal, "others": self.others}
        squares = {which: self.square(day[1][which]) for which in divisors}
        parts = [
            fixed_root(x) / Fraction(str(divisors[which])) / 2
            for which, x in squares.items()
            if x is not None
        ]
        return sum(parts, Fraction(0)) if len(parts) == 2 else None  # one cell has no others


class FlowMAE(DailyMetric):
    """Mean absolute error of the counts of all pairs, in trips.

    Args:
        of: which pairs, as for `FlowRMSE`.
        per: `"day"` for the mean of the errors of days, `"all"` for that over the pairs of all
            days; they differ if days have different numbers of cells.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics.mobility.flows import FlowMAE
        >>> FlowMAE()(tensor([[5, 0], [0, 3]]), tensor([[1, 2], [0, 3]]))  # (4 + 2) / 4
        tensor(1.5000)
    """

    unit = "trips"

    of: Computed[Of] = "all"
    per: Computed[Per] = "day"

    def square(self, sums: FlowSums) -> Fraction | None:
        off = sums.mean(sums.predicted + sums.true - 2 * sums.least)
        return off and off * off


class CommonPartOfCommuters(DailyMetric):
    """Common part of commuters: 2 sum min(p, t) / (sum p + sum t), 0 to 1; NaN without a trip.

    Args:
        of: which pairs, as for `FlowRMSE`.
        per: `"all"` for the sums over all days; `"day"` for the mean of the values of the days
            that have a trip.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics.mobility.flows import CommonPartOfCommuters
        >>> cpc = CommonPartOfCommuters()
        >>> cpc(tensor([[5, 0], [0, 3]]), tensor([[1, 4], [0, 3]]))  # 2 (1 + 3) / (8 + 8)
        tensor(0.5000)

    Source: Gargiulo, Lenormand, Huet and Baqueiro Espinosa, "Commuting network models: getting the
    essentials", JASSS 2012.
    """

    label = "CPC"
    higher_is_better = True
    plot_upper_bound = 1.0
    largest_value = 1.0

    of: Computed[Of] = "all"
    per: Computed[Per] = "all"

    def square(self, sums: FlowSums) -> Fraction | None:
        common = share(2 * sums.least, sums.predicted + sums.true)
        return common and common * common


class FlowCorrelation(DailyMetric):
    """Pearson's correlation of predicted and true counts over all pairs of all days, -1 to 1.

    It is NaN where one side is constant.

    Args:
        of: which pairs, as for `FlowRMSE`.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics.mobility.flows import FlowCorrelation
        >>> FlowCorrelation()(tensor([[2, 0], [0, 0]]), tensor([[0, 3], [0, 0]]))
        tensor(-0.3333)
    """

    higher_is_better = True
    plot_lower_bound = -1.0

    of: Computed[Of] = "all"

    def square(self, sums: FlowSums) -> Fraction | None:
        number, p, t = sums.pairs, sums.predicted, sums.true
        both = number * sums.products - p * t
        spread = (number * sums.predicted_squares - p * p) * (number * sums.true_squares - t * t)
        return share(both * abs(both), spread)


class FlowJSD(FlowMetric):
    """Jensen-Shannon divergence of the shares of trips, of all days together, 0 to 1 bit.

    It is NaN if one side has no trip. The state grows with the pairs that are stored.

    Args:
        of: shares of `"pairs"`, `"origins"` or `"destinations"`.
        root: return the root, the Jensen-Shannon distance, as SciPy's `jensenshannon` does.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics.mobility.flows import FlowJSD
        >>> FlowJSD()(tensor([[1, 1], [0, 0]]), tensor([[3, 0], [0, 0]]))  # (1/2, 1/2) and (1, 0)
        tensor(0.3113)
    """

    of: Computed[Literal["pairs", "origins", "destinations"]] = "pairs"
    root: Computed[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.unit = "" if self.root else "bits"

    def empty_tally(self) -> Tensor:
        return torch.zeros(0, 3, dtype=torch.int64)

    def tally(self, record: FlowPairs) -> Any:
        """Return the summand of the state: predicted and true trips by pair; days by name."""
        pairs = np.stack([record.origin * MOST + record.destination, *record.counts])
        days = np.zeros((3, len(record.days)), dtype=np.int64)
        days[0], days[1] = record.days + _DAYS, 1
        return self._summand(torch.from_numpy(np.concatenate([pairs, days], 1).T))

    def _columns(self, of_days: bool) -> Any:
        state = self.state.cpu().numpy()
        return state[(state[:, 0] >= _DAYS - 1) == of_days].T

    def days_held(self) -> list[int]:
        days, number, _ = self._columns(of_days=True)
        held: list[int] = np.repeat(days - _DAYS, number).tolist()
        return held

    def compute(self) -> Tensor:
        self._check_days()
        if (number := len(self.days_held())) > _MOST_DAYS:
            raise OverflowError(
                f"{short(self)} adds at most 2^16 days, got {number}; call `reset()` between "
                "evaluations."
            )
        pair, *counts = self._columns(of_days=False)
        if self.of != "pairs":
            ends = pair // MOST if self.of == "origins" else pair % MOST
            code = np.unique(ends, return_inverse=True)[1]
            # whole trips and the rest, which float64 adds exactly
            parts = [[np.bincount(code, y) for y in divmod(x, 1 << STEP)] for x in counts]
            counts = [whole * (1 << STEP) + rest for whole, rest in parts]
        value = _jensen_shannon(*(x.astype(np.float64) for x in counts))
        return torch.tensor(value ** (0.5 if self.root else 1), dtype=torch.float64, device="cpu")


_DAYS = (1 << 62) + 1  # the number of day 0; those of pairs are lower
_MOST_DAYS = 1 << 16  # as many counts of 2^31 are 2^63 steps


def _jensen_shannon(predicted: Any, true: Any) -> float:
    totals = predicted.sum(), true.sum()
    if not all(totals):
        return math.nan
    some = (predicted > 0) | (true > 0)
    p, t = predicted[some] / totals[0], true[some] / totals[1]
    terms = [x * np.log2(np.where(x > 0, 2 * x, p + t) / (p + t)) for x in (p, t)]
    return float(np.clip((terms[0] + terms[1]).sum() / 2, 0, 1))
