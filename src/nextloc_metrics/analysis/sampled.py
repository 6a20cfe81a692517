"""Metrics of all candidates, estimated from ranks among sampled candidates."""

from __future__ import annotations

import math
import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.display.page import Result
from nextloc_metrics.core.display.table import Table
from nextloc_metrics.core.metric.ranking_metric import LARGEST_STATE, RankingMetric
from nextloc_metrics.core.queries.arrays import Array, as_tensor
from nextloc_metrics.core.queries.checks import as_number, check_choice, check_positive, is_integer
from nextloc_metrics.core.queries.messages import describe, short
from nextloc_metrics.core.scoring import sampled
from nextloc_metrics.metrics.sampled import SampledRanks

Method = Literal["em", "bias-variance", "rescaled"]

# Two methods differ much if the smaller value is less than this part of the larger one.
_ALIKE = 0.8


class Estimated(NamedTuple):
    """The estimate of one method, `value`, with its `standard_error`."""

    value: float
    standard_error: float


@dataclass(frozen=True, repr=False)
class Corrected(Result):
    """A metric of all candidates, estimated from sampled ones; see `correct_sampled`.

    Attributes:
        value: the estimate of the chosen method.
        standard_error: its standard error by bootstrap. It does not contain the bias.
        naive: the metric of the ranks in the sample, which is not an estimate of the same value.
        methods: the estimates of all methods.
    """

    title: ClassVar[str] = "Corrected for sampled candidates"

    value: float
    standard_error: float
    naive: float
    methods: dict[str, Estimated]

    @property
    def table(self) -> Table:
        """The estimate, those of all methods, and the naive value, as fractions."""
        header = ["fraction", "value", "standard error"]
        of = {"corrected": Estimated(self.value, self.standard_error), **self.methods}
        rows = [[name, f"{x.value:.4f}", f"{x.standard_error:.4f}"] for name, x in of.items()]
        records = [{"estimate": name, **x._asdict()} for name, x in of.items()]
        naive = {"estimate": "naive", "value": self.naive, "standard_error": math.nan}
        return Table(header, [*rows, ["naive", f"{self.naive:.4f}", "-"]], (), [*records, naive])


def correct_sampled(
    ranks: SampledRanks | Array,
    num_sampled: int,
    num_candidates: int,
    metric: RankingMetric,
    method: Method = "em",
    *,
    sampling: sampled.Sampling = "without replacement",
    groups: Array | None = None,
    steps: int = sampled.STEPS,
    num_resamples: int = 100,
    seed: int = 0,
) -> Corrected:
    r"""Estimate a metric of all candidates from ranks among sampled candidates.

    If the target has rank R among n candidates and m of the others are sampled uniformly, its rank
    r in the sample is 1 plus a number with a hypergeometric distribution (m draws from n - 1, of
    which R - 1 are above), or with replacement a binomial one (m draws, probability
    (R - 1)/(n - 1)). Let P(r | R) be its probability, h(r) the share of queries with rank r, and
    M(R) the score of rank R.

    - `"em"`: the sum over R of p(R) M(R). Expectation maximisation finds p from h, begun with equal
      p(R).
    - `"bias-variance"`: the sum over r of h(r) x(r). Of all x it has the least squared bias plus
      0.01 times the variance, summed over R.
    - `"rescaled"`: the sum over r of h(r) M(1 + (r - 1)(n - 1)/m), with the rank rounded.

    All are biased: the sample does not tell apart ranks that are much smaller than n/m. A warning
    says so if k < (n - 1)/m, or if the first two methods differ by more than a fifth. The number of
    steps of `"em"` is a choice, not derived: few steps smooth p, and many fit the noise of h. Rank
    all candidates if you can.

    Args:
        ranks: a `SampledRanks`, or the rank of each query's target among itself and the sample,
            integers from 1 to m + 1, `[N]`.
        num_sampled: m, the number of sampled candidates, without the target.
        num_candidates: n, the number of all candidates, with the target.
        metric: a metric of one relevant location per query, such as `AccuracyAtK(10)`; it is not
            updated.
        method: the method of `value`; `methods` has all three.
        sampling: how the candidates were drawn, uniformly from all but the target.
        groups: integers `[N]`, the user of each query, if `ranks` are integers: the bootstrap then
            resamples users instead of queries.
        steps: the number of steps of `"em"`.
        num_resamples: the number of bootstrap resamples.
        seed: the seed of the bootstrap.

    Raises:
        TypeError: `ranks` or `metric` has another type.
        ValueError: there is no query, or an option is out of range; also candidates that were
            drawn by popularity or by distance.

    Example:
        >>> from nextloc_metrics import AccuracyAtK
        >>> ranks = [1] * 40 + [2] * 30 + [3] * 20 + [5] * 10  # among 10 of 39 others
        >>> found = correct_sampled(ranks, 10, 40, AccuracyAtK(4))
        >>> f"{found.naive:.2f}, corrected {found.value:.2f} +- {found.standard_error:.2f}"
        '0.90, corrected 0.55 +- 0.10'

    Sources: W. Krichene and S. Rendle, "On sampled metrics for item recommendation", KDD 2020; for
    expectation maximisation, A. P. Dempster, N. M. Laird and D. B. Rubin, "Maximum likelihood from
    incomplete data via the EM algorithm", Journal of the Royal Statistical Society B 39, 1977.
    """
    num_sampled = check_positive("num_sampled", num_sampled, LARGEST_STATE)
    num_candidates = check_positive("num_candidates", num_candidates, LARGEST_STATE)
    steps = check_positive("steps", steps)
    num_resamples, seed = check_positive("num_resamples", num_resamples), as_number(seed)
    check_choice("method", method, Method)
    _check_sampling(sampling, num_sampled, num_candidates)
    if type(seed) is not int or not 0 <= seed < 2**63:
        raise ValueError(f"`seed` must be an integer from 0 to 2^63 - 1, got {short(seed)}.")
    counts = _counts(ranks, num_sampled, groups)  # a row per query, user, or rank
    drawn = _resample(counts, groups is not None, num_resamples, seed)
    shares = torch.cat([counts.sum(0, keepdim=True), drawn])
    shares = shares / shares.sum(1, keepdim=True)
    scores = _scores(metric, max(num_candidates, num_sampled + 1))
    naive, scores = float(shares[0] @ scores[: num_sampled + 1]), scores[:num_candidates]
    given = sampled.rank_probabilities(num_sampled, num_candidates, sampling)
    scaled = torch.arange(num_sampled + 1) * ((num_candidates - 1) / num_sampled)
    found = {
        "em": sampled.maximise(shares, given, steps) @ scores,
        "bias-variance": shares @ sampled.least_error(given, scores),
        "rescaled": shares @ scores[scaled.round().long()],
    }
    methods = {name: Estimated(float(one[0]), float(one[1:].std())) for name, one in found.items()}
    _warn(methods, getattr(metric, "k", None), (num_candidates - 1) / num_sampled)
    return Corrected(*methods[method], naive=naive, methods=methods)


def _scores(metric: RankingMetric, num_candidates: int) -> Tensor:
    """Return the scores of all ranks, float64 `[n]`."""
    with suppress(TypeError):  # it reads more than ranks
        if isinstance(metric, RankingMetric):
            return torch.cat(list(metric._scores_of_ranks(num_candidates)))
    raise TypeError(
        "`metric` must be a mean of scores of ranks, such as AccuracyAtK(10), got "
        f"{describe(metric)}."
    )


def _check_sampling(sampling: sampled.Sampling, num_sampled: int, num_candidates: int) -> None:
    known = get_args(sampled.Sampling)
    if not isinstance(sampling, str) or sampling not in known:
        raise ValueError(
            f"`sampling` must be one of {known}, got {short(sampling)}: the rank in a "
            "sample by popularity or distance does not tell how many of all candidates are above; "
            "rank all candidates instead."
        )
    if num_candidates < 2 or (sampling == "without replacement" and num_sampled >= num_candidates):
        raise ValueError(
            f"`num_candidates` must be above `num_sampled`, {num_sampled}, and at least 2, got "
            f"{num_candidates}."
        )


def _counts(ranks: SampledRanks | Array, num_sampled: int, groups: Array | None) -> Tensor:
    """Return how often each rank occurs, float64 `[rows, m + 1]`: in all, or in each group."""
    if isinstance(ranks, SampledRanks):
        if ranks.num_sampled != num_sampled:
            raise ValueError(
                f"`num_sampled` must be that of `ranks`, {ranks.num_sampled}, got {num_sampled}."
            )
        if groups is not None:
            raise ValueError("`groups` must be None for a SampledRanks, which has no queries.")
        counts = ranks.counts.cpu()
        if not float(counts.sum()):
            raise ValueError(f"`ranks` must have counted a query, got {short(ranks)} without one.")
        return counts[None]
    found = as_tensor("ranks", ranks).cpu()
    if not is_integer(found) or found.ndim != 1 or not len(found):
        raise ValueError(f"`ranks` must be one row of integers, got {describe(found)}.")
    lowest, highest = (int(bound) for bound in found.aminmax())
    if lowest < 1 or highest > num_sampled + 1:
        raise ValueError(
            f"`ranks` must be from 1 to `num_sampled` + 1, {num_sampled + 1}, got "
            f"{lowest if lowest < 1 else highest}."
        )
    if groups is None:
        return torch.bincount(found - 1, minlength=num_sampled + 1).double()[None]
    users = as_tensor("groups", groups).cpu()
    if not is_integer(users) or users.shape != found.shape:
        raise ValueError(
            f"`groups` must be integers, one per query, [{len(found)}], got {describe(users)}."
        )
    distinct, number = torch.unique(users, return_inverse=True)
    cells = number * (num_sampled + 1) + found.long() - 1
    width = len(distinct) * (num_sampled + 1)
    return torch.bincount(cells, minlength=width).view(len(distinct), -1).double()


def _resample(counts: Tensor, by_group: bool, num_resamples: int, seed: int) -> Tensor:
    """Return counts of bootstrap resamples of the groups, or of the queries, `[B, m + 1]`."""
    rng = np.random.default_rng(seed)
    number = len(counts) if by_group else round(float(counts.sum()))
    if number < 2:  # one has no spread
        return counts.new_full((num_resamples, counts.shape[1]), math.nan)
    shares = np.full(number, 1 / number) if by_group else (counts[0] / counts.sum()).numpy()
    drawn = torch.from_numpy(rng.multinomial(number, shares, size=num_resamples)).double()
    return drawn @ counts if by_group else drawn


def _warn(methods: dict[str, Estimated], k: int | None, spacing: float) -> None:
    """Warn if the sample does not resolve the first k ranks, or if methods differ much."""
    one, other = methods["em"], methods["bias-variance"]
    problems = []
    if (k or 1) < spacing:
        problems.append(
            f"neighbouring ranks in the sample are {spacing:.0f} ranks apart among all candidates, "
            f"and the metric depends on {'the first' if k is None else f'the first {k}'}"
        )
    if min(one.value, other.value) < _ALIKE * max(one.value, other.value):
        problems.append(
            f"two methods differ: {one.value:.4f} by expectation maximisation, {other.value:.4f} "
            "by the bias-variance estimator"
        )
    if problems:
        warnings.warn(
            f"the corrected value is uncertain: {'; '.join(problems)}. Rank all candidates if you "
            "can.",
            stacklevel=3,
        )
