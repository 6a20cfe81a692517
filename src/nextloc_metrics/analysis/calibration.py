"""Two numbers that calibration data gives: a threshold of prediction sets, and a temperature."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from nextloc_metrics.core.means.exact import part_of
from nextloc_metrics.core.queries.arrays import Array, as_tensor
from nextloc_metrics.core.queries.checks import check_candidates, check_share, is_integer
from nextloc_metrics.core.queries.messages import describe
from nextloc_metrics.core.ranking.target import counted_by

# Logits that are converted at once, few enough for a processor's cache.
_AT_ONCE = 1 << 16

# Logits of the sample that gives the first guess.
_SAMPLE = 1 << 21

# Of the best inverse temperature, relative: a step of Newton's method that is smaller is the last,
# as its error is about its square; and a bracket that is narrower.
_LAST_STEP, _PRECISION = 1e-7, 1e-10


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
    minimum, which Newton's method finds within a bracket. Fit it on validation data: on the test
    data it looks too good.

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
    scores, own, highest = _read_logits(logits, target, mask)
    lowest = scores.amin()
    if lowest == -math.inf:
        lowest = scores.masked_fill(scores == -math.inf, 0).amin()
    # a power of two, by which logits are divided exactly
    scale = 2.0 ** min(1023, math.frexp(max(-float(lowest), float(highest.max())))[1])
    rows = scores, own.double() / scale, highest.double() / scale
    if why := _without_root(rows, scale):
        raise ValueError(why)
    step = -(-scores.numel() // _SAMPLE)
    sample = [tensor[::step] for tensor in rows]
    guess = 1.0 if step == 1 or _without_root(sample, scale) else _find_root(sample, scale, 1.0)
    return scale / _find_root(rows, scale, guess)


def _without_root(rows: Sequence[Tensor], scale: float) -> str | None:
    """Return why no temperature is best, None if one is."""
    _, own, highest = rows
    if _slopes(rows, scale, 0.0)[0] >= 0:
        return (
            "`logits` must be higher for the targets than by chance, or the temperature is "
            "infinite; check the order of the candidates."
        )
    if bool((highest <= own).all()):
        return (
            "`logits` must not be highest for every target, or the temperature is 0; fit it on "
            "validation data."
        )
    return None


def _find_root(rows: Sequence[Tensor], scale: float, inverse: float) -> float:
    """Return the inverse temperature at which the slope is 0, from a guess.

    By Newton's method; where it leaves the bracket, by doubling and bisection.
    """
    low, high = 0.0, math.inf
    while True:
        slope, curvature = _slopes(rows, scale, inverse)
        low, high = (inverse, high) if slope < 0 else (low, inverse)
        step = slope / curvature if curvature > 0 else math.inf
        if abs(step) <= _LAST_STEP * inverse:
            return inverse - step
        if high <= low * (1 + _PRECISION):
            return math.sqrt(low * high)
        inverse -= step
        if not low < inverse < high:
            inverse = 2 * low if high == math.inf else math.sqrt(low * high) or high / 2


def _read_logits(logits: Array, target: Array, mask: Array | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return the logits that count `[n, C]`, and of each query the target's and the highest."""
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
    highest = scores.amax(1, keepdim=True)  # NaN if there is one
    if not bool((own.isfinite() & highest.isfinite()).all()):
        raise ValueError(
            "`logits` must be finite, or -inf for candidates other than the target; leave queries "
            "with impossible targets out with `mask`."
        )
    return scores, own, highest


def _slopes(rows: Sequence[Tensor], scale: float, inverse: float) -> tuple[float, float]:
    """Return the first and second derivative of the summed negative log-likelihood.

    They are those by the inverse temperature, of logits / scale: the sums over queries of the
    expected logit minus the target's, and of its variance.
    """
    slope = curvature = 0.0
    at_once = max(1, _AT_ONCE // rows[0].shape[1])
    for part, own, highest in zip(*(torch.split(x, at_once) for x in rows), strict=True):
        above = (part.double() / scale).sub_(own)
        # not 0, which times -inf is NaN
        weight = (above - (highest - own)).mul_(inverse or 2.0**-1000).exp_()
        above.clamp_(min=-2)  # -inf, whose weight is 0
        total = weight.sum(1)
        mean = weight.mul_(above).sum(1) / total
        slope += float(mean.sum())
        curvature += float((weight.mul_(above).sum(1) / total - mean * mean).sum())
    return slope, curvature
