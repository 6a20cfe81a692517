"""Two numbers that calibration data gives: a threshold of prediction sets, and a temperature."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nextloc_metrics.arguments.arrays import Array, as_tensor
from nextloc_metrics.arguments.checks import check_candidates, check_share, is_integer
from nextloc_metrics.arguments.messages import describe
from nextloc_metrics.means.exact import part_of
from nextloc_metrics.ranking.target import counted_by

# Logits that are converted at once.
_AT_ONCE = 1 << 20

# Of the best inverse temperature, relative.
_PRECISION = 1e-10


def conformal_threshold(scores: Array, alpha: float, groups: Array | None = None) -> Tensor:
    r"""Return the threshold of prediction sets that hold the target with probability 1 - alpha.

    The scores of n calibration queries say how badly the model's probabilities fit their target,
    such as 1 - p(target). The threshold is the ceil((n + 1) (1 - alpha))-th smallest of them. A new
    query that is exchangeable with them scores at most the threshold with a probability between
    1 - alpha and, without ties, 1 - alpha + 1 / (n + 1). For scores 1 - p, the set of a query is
    all candidates with p >= 1 - threshold: `SetCoverage(threshold=1 - threshold)` measures it.

    Queries of one user are not exchangeable with those of another. Calibrate on other users than
    you test on, and look at the coverage by user.

    Args:
        scores: floating `[N]`, the scores of the calibration queries.
        alpha: the accepted share of misses, between 0 and 1.
        groups: integer `[N]`, the group of each query; each group then has its own threshold.

    Returns:
        float64, a scalar; with `groups` `[G]`, for the groups 0 to the largest one, NaN for a group
        without queries.

    Raises:
        ValueError: there are too few queries for this `alpha`: at least 1 / alpha - 1 are needed.

    Example:
        >>> from torch import tensor
        >>> conformal_threshold(tensor([0.1, 0.4, 0.2, 0.9]), alpha=0.25)  # the 4th of 4
        tensor(0.9000, dtype=torch.float64)

    Source: V. Vovk, A. Gammerman and G. Shafer, "Algorithmic learning in a random world", 2005.
    """
    alpha = check_share("alpha", alpha, 0.1)
    values = as_tensor("scores", scores).detach().cpu()
    if values.ndim != 1 or not values.is_floating_point() or bool(values.isnan().any()):
        raise ValueError(
            f"`scores` must be floating numbers [N] without NaN, got {describe(values)}."
        )
    if groups is None:
        return _threshold(values.double(), alpha, "")
    numbers = as_tensor("groups", groups).cpu()
    if not is_integer(numbers) or numbers.shape != values.shape or bool((numbers < 0).any()):
        raise ValueError(
            f"`groups` must be integers of at least 0, one for each of the {len(values)} scores, "
            f"got {describe(numbers)}."
        )
    found = torch.full((int(numbers.max()) + 1 if len(numbers) else 0,), math.nan).double()
    for group in torch.unique(numbers).tolist():
        found[group] = _threshold(values[numbers == group].double(), alpha, f" in group {group}")
    return found


def _threshold(scores: Tensor, alpha: float, where: str) -> Tensor:
    wanted = math.ceil(part_of(len(scores) + 1, 1 - alpha))
    if wanted > len(scores):
        raise ValueError(
            f"`scores` must hold at least {math.ceil(1 / alpha - 1 - 1e-9)} queries for `alpha` "
            f"{alpha:g}, got {len(scores)}{where}; take more, or a larger `alpha`."
        )
    return scores.sort().values[wanted - 1]


def fit_temperature(logits: Array, target: Array, mask: Array | None = None) -> float:
    r"""Return the temperature that makes logits most likely, for `temperature` of the metrics.

    It minimises the negative log-likelihood of softmax(logits / T). The derivative by 1 / T, the
    mean over queries of the expected logit minus the target's, rises with 1 / T, so there is one
    minimum, which bisection finds. Fit it on validation data: on the test data it looks too good.

    Args:
        logits: floating `[N, C]`.
        target: integer `[N]`, the relevant candidates.
        mask: bool `[N]`; False leaves a query out, such as one with an unseen target. Nothing of it
            is read.

    Raises:
        ValueError: there is no minimum: the targets have no higher logits than chance (the
            temperature would be infinite), or every target has the highest logit (it would be 0);
            or a logit is NaN or infinite, or a target's is -infinity.

    Example:
        >>> from torch import tensor
        >>> logits = tensor([[4.0, 0.0]]).expand(4, 2)
        >>> temperature = fit_temperature(logits, tensor([0, 0, 0, 1]))
        >>> round(temperature, 4)  # 3 of 4 are 0: 4 / T must be log(3)
        3.641

    Source: C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On calibration of modern neural
    networks", ICML 2017.
    """
    scores, own = _read_logits(logits, target, mask)
    # a power of two, by which logits are divided exactly
    largest = float(scores.masked_fill(scores == -math.inf, 0).abs().max())
    scale = 2.0 ** min(1023, math.frexp(largest)[1])
    if _slope(scores, own, scale, 0.0) >= 0:
        raise ValueError(
            "`logits` must be higher for the targets than by chance, or the temperature is "
            "infinite; check the order of the candidates."
        )
    if bool((scores.amax(1, keepdim=True) <= own).all()):
        raise ValueError(
            "`logits` must not be highest for every target, or the temperature is 0; fit it on "
            "validation data."
        )
    low = high = 1.0
    while _slope(scores, own, scale, low) >= 0:
        low /= 2
    while _slope(scores, own, scale, high) < 0:
        high *= 2
    while high / low > 1 + _PRECISION:
        middle = math.sqrt(low * high)
        if _slope(scores, own, scale, middle) < 0:
            low = middle
        else:
            high = middle
    return scale / math.sqrt(low * high)


def _read_logits(logits: Array, target: Array, mask: Array | None) -> tuple[Tensor, Tensor]:
    """Return the logits of the queries that count `[n, C]`, and those of their targets `[n, 1]`."""
    scores = as_tensor("logits", logits).detach()
    targets = as_tensor("target", target, scores.device)
    check_candidates(scores, targets)
    if scores.ndim != 2 or not scores.is_floating_point():
        raise ValueError(f"`logits` must be floating [N, C], got {describe(scores)}.")
    if not is_integer(targets) or targets.shape != scores.shape[:1]:
        raise ValueError(
            f"`target` must be one integer for each of the {len(scores)} rows, got "
            f"{describe(targets)}."
        )
    if mask is not None:
        counted = counted_by(as_tensor("mask", mask, scores.device), targets.shape, scores.device)
        scores, targets = scores[counted], targets[counted]
    if not len(targets):
        raise ValueError("`target` must have at least one query that counts, got none.")
    if int(targets.min()) < 0 or int(targets.max()) >= scores.shape[1]:
        raise ValueError(
            f"`target` must be from 0 to {scores.shape[1] - 1}, got {int(targets.min())} to "
            f"{int(targets.max())}; leave queries with unseen targets out with `mask`."
        )
    own = scores.gather(1, targets.long()[:, None])
    if not bool(own.isfinite().all()) or not bool((scores < math.inf).all()):
        raise ValueError(
            "`logits` must be finite, or -inf for candidates other than the target; leave queries "
            "with impossible targets out with `mask`."
        )
    return scores, own


def _slope(scores: Tensor, own: Tensor, scale: float, inverse: float) -> float:
    """Return the derivative of the summed negative log-likelihood by the inverse temperature.

    It is the sum of how much the expected logit, of scores / scale, exceeds that of the target.
    """
    at_once, total = max(1, _AT_ONCE // scores.shape[1]), 0.0
    for part, mine in zip(torch.split(scores, at_once), torch.split(own, at_once), strict=True):
        logits = part.double() / scale
        impossible = logits == -torch.inf
        share = (logits.masked_fill(impossible, 0) * inverse).masked_fill(impossible, -torch.inf)
        above = logits - mine.double() / scale
        total += float((share.softmax(1) * above.masked_fill(impossible, 0)).sum(1).sum())
    return total
