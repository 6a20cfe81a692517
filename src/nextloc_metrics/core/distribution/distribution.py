"""The record of probabilities: the numbers that metrics read of a row of scores and its target."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nextloc_metrics.core import backends
from nextloc_metrics.core.distribution.given import Given
from nextloc_metrics.core.queries.arrays import as_tensor
from nextloc_metrics.core.queries.batch import Batch
from nextloc_metrics.core.queries.checks import check_candidates, is_integer
from nextloc_metrics.core.queries.messages import describe, short
from nextloc_metrics.core.queries.record import Queries, Record
from nextloc_metrics.core.ranking.forms import leave_out, read_exclude
from nextloc_metrics.core.ranking.target import Relevant, read_target


@dataclass(frozen=True)
class DistributionNeeds:
    """The parts of a `Distribution` that a metric reads; `a | b` is for two metrics."""

    given: Given | None = None
    temperature: float = 1.0
    likelihood: bool = True  #: whether more is read than the confidence
    scores: bool = False  #: whether the scores of all candidates are kept
    groups: bool = False  #: whether a score or tally reads `record.groups`

    def __or__(self, other: DistributionNeeds) -> DistributionNeeds:
        """Return the needs of both metrics, or raise if they read scores in different ways."""
        for name in ("given", "temperature"):
            first, second = getattr(self, name), getattr(other, name)
            if first != second:
                raise ValueError(
                    f"`{name}` must be equal for all metrics of probabilities in a collection, got "
                    f"{short(first)} and {short(second)}; use two collections."
                )
        wanted = {
            name: getattr(self, name) or getattr(other, name)
            for name in ("likelihood", "scores", "groups")
        }
        return replace(self, **wanted)


# How far from 1 a sum may be: the sum of probabilities, and of scores that may be probabilities.
_DECLARED, _SIMILAR = 1e-3, 1e-4

# How many scores are converted at once: few enough for a processor's cache; enough for a device.
_AT_ONCE, _AT_ONCE_ON_DEVICES = 1 << 16, 1 << 22


@dataclass(eq=False)
class Distribution(Record):
    """The probabilities of a batch of queries: five numbers per query, float64 `[N]`.

    A row that is no distribution, with NaN, infinity or nothing above -infinity, counts as the
    worst of all: the target has the probability 0, and a wrong candidate the probability 1.
    For lists of ids only `confidence` and `correct` are known.

    Attributes:
        queries: which queries count, and their groups.
        target: int64 `[N]`, the relevant candidate.
        answered: whether there is an answer: a list with an id, or a row that is a distribution.
        confidence: the probability of the best candidate.
        correct: the probability that the target is the best candidate, with ties broken at random.
        own: the probability of the target.
        log_target: log of the target's probability; -infinity for a probability of 0.
        squares: the sum of all squared probabilities.
        scores: the scores of all candidates, floating `[N, C]`, if a metric reads them.
        needs: how scores are read.
        num_candidates: C.
    """

    queries: Queries
    target: Tensor
    answered: Tensor
    confidence: Tensor
    correct: Tensor
    own: Tensor | None = None
    log_target: Tensor | None = None
    squares: Tensor | None = None
    scores: Tensor | None = None
    needs: DistributionNeeds = DistributionNeeds()
    num_candidates: int | None = None

    @classmethod
    def read(cls, batch: Batch, needs: DistributionNeeds) -> Distribution:
        if is_integer(batch.preds):
            check_candidates(batch.preds, batch.target)
            return cls._of_lists(batch)
        batch.check_scores()
        if batch.confidence is not None:
            raise ValueError(
                "`confidence` is read with lists of ids only, as scores tell it, got "
                f"{short(batch.confidence)}; omit it."
            )
        number = batch.preds.shape[-1]
        relevant = _read_one(batch, number)
        scores = batch.preds.detach().resolve_neg().reshape(-1, number)
        if scores.device.type == "mps":  # MPS has no float64
            scores = scores.cpu()
        target = relevant.ids[:, 0].clamp(min=0, max=number - 1).to(scores.device)
        counted = relevant.counted.to(scores.device) & (relevant.ids[:, 0] >= 0).to(scores.device)
        if batch.validate_args:
            _check_given(scores, counted, needs.given)
        excluded = read_exclude(batch, relevant, number)
        if excluded is not None:
            scores = leave_out(scores, excluded.to(scores.device))
        score = scores.gather(1, target[:, None])
        above, tied, first = backends.choose(scores).survey(scores, score, find_best=True)
        assert first is not None
        target_share, confidence, squares = _summarized(scores, target, needs)
        broken = ~(confidence > 0)
        if needs.given == "probabilities":
            log_target = target_share.log()
        else:  # it is finite even if the probability is too small for a float
            apart = score.double() - scores.gather(1, first[:, None]).double()
            log_target = apart[:, 0] / needs.temperature + confidence.log()
        device = batch.preds.device
        return cls(
            Queries(batch.preds.shape[:-1], counted.to(device)),
            target=target.to(device),
            answered=~broken,
            confidence=confidence.clamp(max=1).masked_fill(broken, 1),
            correct=((above == 0).double() / tied.clamp(min=1))[:, 0].masked_fill(broken, 0),
            own=target_share.clamp(max=1).masked_fill(broken, 0),
            log_target=log_target.clamp(max=0).masked_fill(broken, -torch.inf),
            squares=squares.clamp(max=1).masked_fill(broken, 1),
            scores=scores if needs.scores else None,
            needs=needs,
            num_candidates=number,
        )

    @classmethod
    def _of_lists(cls, batch: Batch) -> Distribution:
        """Read the first id of each list and its confidence; an empty list has no answer."""
        if batch.confidence is None:
            raise ValueError(
                "`confidence` must be given with lists of ids, one number in [0, 1] per query, "
                "for metrics of probabilities, got None; or pass the scores of all candidates."
            )
        relevant = _read_one(batch, None)
        confidence = as_tensor("confidence", batch.confidence, batch.preds.device)
        queries = batch.preds.shape[:-1]
        is_number = confidence.is_floating_point() or is_integer(confidence)
        if not is_number or confidence.shape != queries:
            raise ValueError(
                f"`confidence` must be numbers of shape {short(queries)}, one per query, "
                f"got {describe(confidence)}."
            )
        confidence = confidence.detach().reshape(-1).double()
        first = batch.preds[..., 0].reshape(-1)
        counted = relevant.counted & (relevant.ids[:, 0] >= 0)
        wrong = (counted & ~((confidence >= 0) & (confidence <= 1))).nonzero()
        if batch.validate_args and len(wrong):
            row = int(wrong[0])
            raise ValueError(
                f"`confidence` must be in [0, 1], got {float(confidence[row])} for query {row}."
            )
        answered = first >= 0
        correct = (first == relevant.ids[:, 0]) & answered
        return cls(
            Queries(queries, counted),
            target=relevant.ids[:, 0].clamp(min=0),
            answered=answered,
            confidence=confidence.nan_to_num(nan=1.0).clamp(0, 1).where(answered, 0),
            correct=correct.double(),
        )

    def require(self, needs: DistributionNeeds, reader: object) -> None:
        if needs.likelihood and self.log_target is None:
            raise ValueError(
                f"{short(reader)} needs the scores of all candidates, and lists of ids hold only "
                "the confidence of the answer."
            )
        if needs.scores and self.scores is None:
            raise ValueError(
                f"this Distribution does not hold the scores that {short(reader)} reads; make it "
                "by `read` of this metric, or of a collection with it."
            )

    def all_probabilities(self) -> Iterator[Tensor]:
        """Yield the probabilities of all candidates, floating `[n, C]`; NaN in a broken row."""
        assert self.scores is not None  # `require` has passed
        for part in torch.split(self.scores, _rows_at_once(self.scores)):
            yield _shares(part, self.needs)


def _rows_at_once(scores: Tensor) -> int:
    elements = _AT_ONCE if scores.is_cpu else _AT_ONCE_ON_DEVICES
    return max(1, elements // scores.shape[1])


def _widened(scores: Tensor) -> Tensor:
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def _shares(scores: Tensor, needs: DistributionNeeds) -> Tensor:
    """Return the probabilities of all candidates, at least float32; NaN for a broken row."""
    values = _widened(scores)
    if needs.given == "probabilities":
        values = values.clamp(min=0)
        return values.div_(values.sum(1, keepdim=True))
    if needs.temperature != 1:
        values = (values - values.amax(1, keepdim=True)).div_(needs.temperature)
    return values.softmax(1)


def _summarized(scores: Tensor, target: Tensor, needs: DistributionNeeds) -> Tensor:
    """Return the target's probability, the highest one and the sum of squares, float64 `[3, N]`."""
    parts, rows = [], _rows_at_once(scores)
    for part, targets in zip(torch.split(scores, rows), torch.split(target, rows), strict=True):
        shares = _shares(part, needs)
        share, highest = shares.gather(1, targets[:, None])[:, 0], shares.amax(1)
        parts.append(torch.stack([share, highest, shares.square_().sum(1)]).double())
    return torch.cat(parts, 1)


def _read_one(batch: Batch, number: int | None) -> Relevant:
    """Read the target of each query; raise if a query has several."""
    if not batch.has_ids or batch.target.shape != batch.preds.shape[:-1]:
        raise ValueError(
            "`target` must be one id per query for metrics of probabilities, integers of shape "
            f"{short(batch.preds.shape[:-1])}, got {describe(batch.target)}."
        )
    return read_target(batch, number)


def _check_given(scores: Tensor, counted: Tensor, given: Given | None) -> None:
    """Raise if rows are not of the kind `given`, or may be of two kinds and none is given."""
    if given == "logits":
        return
    slack = (_SIMILAR if given is None else _DECLARED) + _rounding(scores)
    highest = scores.amax(1)
    checked = counted & highest.isfinite()
    if given is None:
        checked &= (highest > 0) & (highest <= 1)
    for rows in torch.split(checked.nonzero()[:, 0], _rows_at_once(scores)):
        values = _widened(scores[rows])
        if given == "log_probabilities":
            values = values.exp_()
        total = values.sum(1)
        are_probabilities = (values.amin(1) >= 0) & ((total - 1).abs() <= slack)
        wrong = are_probabilities if given is None else ~are_probabilities
        if not wrong.any():
            continue
        row, first = int(rows[wrong][0]), float(total[wrong][0])
        if given is None:
            raise ValueError(
                "`given` must say what scores are that may be probabilities or logits, got None "
                f"for query {row}, whose scores are in [0, 1] and sum to {first:.6g}; pass "
                "`given='probabilities'` or `given='logits'` to the metrics."
            )
        what = "exp(`preds`)" if given == "log_probabilities" else "`preds`"
        raise ValueError(
            f"{what} must be in [0, 1] and sum to 1 for `given={given!r}`, got the sum "
            f"{first:.6g} for query {row}; normalise it, or pass `given='logits'`."
        )


def _rounding(scores: Tensor) -> float:
    """Return how far rounding to the dtype moves the sum of C probabilities, or of exp of logs.

    With unit roundoff u, rounding changes each p by up to u p, and each log p by up to u |log p|;
    the mean of |log p| is the entropy, at most log C. A p that is subnormal changes by up to half
    of the smallest number.
    """
    number, of_dtype = scores.shape[1], torch.finfo(scores.dtype)
    return of_dtype.eps / 2 * (1 + math.log(number) + number * of_dtype.tiny)
