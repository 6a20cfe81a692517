"""Metrics of confidence, from one histogram: calibration, and accuracy if only sure ones answer."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Literal, NamedTuple

import torch
from torch import Tensor

from nextloc_metrics.core.base.annotated_options import Computed, Positive
from nextloc_metrics.core.base.distribution_metric import DistributionMean, DistributionMetric
from nextloc_metrics.core.distribution.distribution import Distribution, DistributionNeeds
from nextloc_metrics.core.means import exact
from nextloc_metrics.core.queries.checks import check_part

#: the number of cells of the histogram of confidences; 10, 15, 20, 25 and 100 divide it
NUM_CELLS = 50_400

# The relative distance from one float64 number to the next.
_ROUNDING = 2.0**-52

Norm = Literal["l1", "l2", "max"]


class Reliability(NamedTuple):
    """The numbers of a reliability diagram, one per bin, float64 `[bins]`.

    Attributes:
        number: the number of queries.
        confidence: the mean confidence, NaN for an empty bin.
        accuracy: the share of correct answers, NaN for an empty bin.
        low: the lower edge of the bin, which is not in it.
        high: the upper edge, which is.
    """

    number: Tensor
    confidence: Tensor
    accuracy: Tensor
    low: Tensor
    high: Tensor


class ConfidenceTally(DistributionMetric):
    """Base class of the metrics of confidence, which share one histogram.

    The confidence c of a query is the probability of its best candidate, and it is correct if this
    is the target; of tied best candidates each is the answer equally often, so a query may be half
    correct. A row with NaN or infinity counts as sure and wrong. With lists of ids, `update` needs
    `confidence`, of the first id; an empty list is an answer of confidence 0, and wrong.

    The state is an integer histogram with 50,400 cells of equal width (i - 1, i] / 50,400: queries,
    correct ones, and their sum of confidences. Queries of one cell count as equally sure.
    """

    shared_state = "ConfidenceTally"

    @property
    def needs(self) -> DistributionNeeds:
        return replace(super().needs, likelihood=False)

    def empty_state(self) -> Tensor:
        """Return zeros: queries, correct ones, and the sum of confidences of each cell."""
        return torch.zeros(NUM_CELLS, 3, dtype=torch.int64)

    def tally(self, record: Distribution) -> Tensor:
        confidence = record.confidence
        counted = record.counted.to(confidence.device)
        # a confidence that is above an edge only because of rounding counts as on the edge
        cells = (confidence * (NUM_CELLS * (1 - _ROUNDING))).ceil().long() - 1
        columns = [torch.ones_like(cells), *map(exact.to_fixed_point, (record.correct, confidence))]
        rows = torch.stack(columns, 1) * counted[:, None]
        empty = rows.new_zeros(NUM_CELLS, 3)
        return empty.index_add_(0, cells.clamp(0, NUM_CELLS - 1), rows).to(record.device)

    @property
    def num_queries(self) -> int:
        return int(self.state[:, 0].sum())

    def _cells(self) -> Tensor:
        """Return the queries, correct ones and summed confidence of each cell, float64 `[3, C]`."""
        exact.check_overflow(self.state[:, 0].sum())
        # a sum of 2^31 ones overflows to -2^63, of which the absolute value is right
        number, correct, confidence = exact.float64(self.state.cpu()).abs().unbind(1)
        return torch.stack([number, correct / exact.ONE, confidence / exact.ONE])

    def _value(self, value: float) -> Tensor:
        return torch.tensor(value, dtype=torch.float64, device="cpu")


class CalibrationError(ConfidenceTally):
    r"""Calibration error: how far the confidence of the answers is from their accuracy.

    For bins b of queries by confidence, with n_b of n queries, gap_b = accuracy_b - confidence_b:

    | `norm` | value |
    |---|---|
    | `"l1"` | sum of n_b / n x abs(gap_b): the expected calibration error (ECE) |
    | `"l2"` | square root of the sum of n_b / n x gap_b^2 |
    | `"max"` | the largest abs(gap_b): the maximum calibration error (MCE) |

    Bins have equal width, as in Guo et al. The value depends on their number, and for few queries
    it is too high: compare models on the same queries and bins. What confidence and a correct
    answer are:
    [`ConfidenceTally`][nextloc_metrics.metrics.confidence.ConfidenceTally].

    Args:
        bins: the number of bins, a divisor of 50,400, such as 10, 15, 20 or 100.
        norm: how gaps are summed.

    Example:
        >>> from torch import tensor
        >>> error = CalibrationError(given="probabilities")
        >>> error.update(tensor([[0.75, 0.25], [0.75, 0.25]]), tensor([0, 1]))
        >>> error.compute()  # half of them are correct
        tensor(0.2500)

    Source: C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On calibration of modern neural
    networks", ICML 2017.
    """

    shared_state = "ConfidenceTally"
    higher_is_better = False

    bins: Computed[Positive] = 15
    norm: Computed[Norm] = "l1"

    def __post_init__(self) -> None:
        super().__post_init__()
        if NUM_CELLS % self.bins:
            raise ValueError(
                f"`bins` must divide {NUM_CELLS:,}, such as 10, 15, 20 or 100, got {self.bins}."
            )
        name = {"l1": "ECE", "l2": "RMS calibration error", "max": "MCE"}[self.norm]
        self.label = f"{name}, {self.bins} bins"

    def reliability(self) -> Reliability:
        """Return the bins, over all processes."""
        return self._of_all_processes(self._bins)

    def _bins(self) -> Reliability:
        number, correct, confidence = self._cells().view(3, self.bins, -1).sum(2)
        edges = torch.arange(self.bins + 1, device=number.device).double() / self.bins
        return Reliability(number, confidence / number, correct / number, edges[:-1], edges[1:])

    def compute(self) -> Tensor:
        bins = self._bins()
        used = bins.number > 0
        number, gap = bins.number[used], (bins.accuracy - bins.confidence)[used].abs()
        if not len(number):
            return self._value(math.nan)
        if self.norm == "max":
            return self._value(float(gap.max()))
        mean = (number * gap ** (2 if self.norm == "l2" else 1)).sum() / number.sum()
        return self._value(float(mean.sqrt() if self.norm == "l2" else mean))


class _Selective(ConfidenceTally):
    """Base class of metrics that answer only the queries with the highest confidence.

    Equally sure queries are answered in random order: the expected number of errors counts.
    """

    def curve(self) -> tuple[Tensor, Tensor]:
        """Return coverages and risks at the end of each cell with a query, over all processes."""
        number, wrong, before, wrong_before = self._of_all_processes(self._levels)
        answered = before + number
        return answered / number.sum(), (wrong_before + wrong) / answered

    def _levels(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return queries and errors of cells with queries, highest first, and of cells above."""
        number, correct, _ = self._cells().flip(1)
        number, correct = number[number > 0], correct[number > 0]
        wrong = (number - correct).clamp(min=0)
        return number, wrong, number.cumsum(0) - number, wrong.cumsum(0) - wrong


class AURC(_Selective):
    r"""Area under the risk-coverage curve: the mean risk of answering only when sure.

    It is the mean of the risks at the coverages j / n of n queries, for j = 1 to n. The risk is the
    share of wrong answers among the j most confident; of equally sure ones (those of one cell of
    the state) their expected number, as in random order. Lower is better; a model that is as often
    wrong at any confidence has its error rate as area.

    Example:
        >>> from torch import tensor
        >>> area = AURC(given="probabilities")
        >>> area.update(tensor([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]]), tensor([0, 1, 0]))
        >>> area.compute()  # (0 + 1/2 + 1/3) / 3
        tensor(0.2778)

    Source: Y. Geifman, G. Uziel and R. El-Yaniv, "Bias-reduced uncertainty estimation for deep
    neural classifiers", ICLR 2019.
    """

    shared_state = "ConfidenceTally"
    higher_is_better = False

    def compute(self) -> Tensor:
        number, wrong, before, wrong_before = self._levels()
        # the risk at j = before + i is rate + (wrong_before - rate x before) / j
        rate = wrong / number
        harmonic = torch.digamma(before + number + 1) - torch.digamma(before + 1)
        area = float((wrong + (wrong_before - rate * before) * harmonic).sum())
        n = float(number.sum())
        return self._value(area / n if n else math.nan)


class AccuracyAtCoverage(_Selective):
    r"""Accuracy of the most confident answers: of the share `coverage` of all queries.

    The ceil(coverage x n) most confident of n queries are answered.

    Args:
        coverage: the share of queries that are answered, above 0 and at most 1.

    Example:
        >>> from torch import tensor
        >>> accuracy = AccuracyAtCoverage(0.5, given="probabilities")
        >>> preds = tensor([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]])
        >>> accuracy.update(preds, tensor([0, 1, 0, 0]))
        >>> accuracy.compute()  # of 0.9 and 0.8
        tensor(0.5000)

    Source: R. El-Yaniv and Y. Wiener, "On the foundations of noise-free selective classification",
    JMLR 11, 2010.
    """

    shared_state = "ConfidenceTally"
    coverage: Computed[Annotated[float, check_part]]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.label = f"accuracy at {100 * self.coverage:g} % coverage"

    def compute(self) -> Tensor:
        number, wrong, before, wrong_before = self._levels()
        if not len(number):
            return self._value(math.nan)
        answered = max(1.0, math.ceil(exact.part_of(int(number.sum()), self.coverage)))
        last = int(torch.searchsorted(before + number, answered))
        share = (answered - before[last]) / number[last]
        return self._value(1 - float(wrong_before[last] + share * wrong[last]) / answered)


class AnsweredShare(DistributionMean):
    r"""The share of queries with an answer: a list that holds an id, or scores without NaN.

    The others count as wrong in every other metric but `AnsweredAccuracy`.

    Example:
        >>> from torch import tensor
        >>> share = AnsweredShare()
        >>> share.update(tensor([[3], [-1]]), tensor([3, 4]), confidence=tensor([0.9, 0.0]))
        >>> share.compute()
        tensor(0.5000)
    """

    @property
    def needs(self) -> DistributionNeeds:
        return replace(super().needs, likelihood=False)

    def score(self, record: Distribution) -> Tensor | tuple[Tensor, Tensor]:
        return record.answered.double()


class AnsweredAccuracy(AnsweredShare):
    r"""The accuracy of the queries that have an answer, see `AnsweredShare`.

    Read it beside [`AnsweredShare`][nextloc_metrics.AnsweredShare]: a model can raise it by not
    answering.

    Example:
        >>> from torch import tensor
        >>> accuracy = AnsweredAccuracy()
        >>> accuracy.update(tensor([[3], [-1]]), tensor([3, 4]), confidence=tensor([0.9, 0.0]))
        >>> accuracy.compute()
        tensor(1.)
    """

    def score(self, record: Distribution) -> tuple[Tensor, Tensor]:
        return record.correct, record.counted.to(record.answered.device) & record.answered
