"""The temperature that calibration data gives."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from nextloc_metrics.core.queries.arrays import Array, as_tensor
from nextloc_metrics.core.queries.checks import check_candidates, is_integer
from nextloc_metrics.core.queries.messages import describe
from nextloc_metrics.core.ranking.target import counted_by

# Logits that are converted at once, few enough for a processor's cache.
_AT_ONCE = 1 << 16

# Newton's method ends at a smaller step than the first, as its error is then about the step's
# square, or at a narrower bracket than the second; both are relative to the inverse temperature.
_LAST_STEP, _PRECISION = 1e-7, 1e-10


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
    scores, target_logits, highest = _read_logits(logits, target, mask)
    lowest = scores.amin()
    if lowest == -math.inf:
        lowest = scores.masked_fill(scores == -math.inf, 0).amin()
    # dividing logits by a power of two is exact
    scale = 2.0 ** min(1023, math.frexp(max(-float(lowest), float(highest.max())))[1])
    rows = scores, target_logits.double() / scale, highest.double() / scale
    if _slopes(rows, scale, 0.0)[0] >= 0:
        raise ValueError(
            "`logits` must be higher for the targets than by chance, or the temperature is "
            "infinite; check the order of the candidates."
        )
    if bool((highest <= target_logits).all()):
        raise ValueError(
            "`logits` must not be highest for every target, or the temperature is 0; fit it on "
            "validation data."
        )
    # where a step of Newton's method leaves the bracket, the bracket is doubled or halved instead
    low, high, inverse = 0.0, math.inf, 1.0
    while True:
        slope, curvature = _slopes(rows, scale, inverse)
        low, high = (inverse, high) if slope < 0 else (low, inverse)
        step = slope / curvature if curvature > 0 else math.inf
        if abs(step) <= _LAST_STEP * inverse:
            return scale / (inverse - step)
        if high <= low * (1 + _PRECISION):
            return scale / math.sqrt(low * high)
        inverse -= step
        if not low < inverse < high:
            inverse = 2 * low if high == math.inf else math.sqrt(low * high) or high / 2


def _read_logits(logits: Array, target: Array, mask: Array | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return the logits of counted queries, `[n, C]`, those of their targets, and the highest."""
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
    target_logits = scores.gather(1, targets.long()[:, None])
    highest = scores.amax(1, keepdim=True)  # NaN if a logit is NaN
    if not bool((target_logits.isfinite() & highest.isfinite()).all()):
        raise ValueError(
            "`logits` must be finite, or -inf for candidates other than the target; leave queries "
            "with impossible targets out with `mask`."
        )
    return scores, target_logits, highest


def _slopes(rows: Sequence[Tensor], scale: float, inverse: float) -> tuple[float, float]:
    """Return the first and second derivative of the summed negative log-likelihood.

    They are derivatives by the inverse temperature of logits / scale: the sums over queries of the
    expected logit minus the target's, and of the variance of the logit.
    """
    slope = curvature = 0.0
    at_once = max(1, _AT_ONCE // rows[0].shape[1])
    for part, target_logits, highest in zip(*(torch.split(x, at_once) for x in rows), strict=True):
        above = (part.double() / scale).sub_(target_logits)
        # the factor must not be 0, because 0 times -inf is NaN
        weight = (above - (highest - target_logits)).mul_(inverse or 2.0**-1000).exp_()
        above.clamp_(min=-2)  # else a -inf times its weight 0 would be NaN
        total = weight.sum(1)
        mean = weight.mul_(above).sum(1) / total
        slope += float(mean.sum())
        curvature += float((weight.mul_(above).sum(1) / total - mean * mean).sum())
    return slope, curvature
