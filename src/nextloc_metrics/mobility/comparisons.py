"""How far two histograms are apart. Every function takes counts `[..., K]` and returns `[...]`."""

from __future__ import annotations

from typing import Any

import numpy as np

from nextloc_metrics.mobility.trajectories import Numbers


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
    total = (terms[0] + terms[1]).sum(-1) / (2 * np.log(base))
    return np.maximum(total, 0)  # type: ignore[no-any-return]


def kolmogorov_smirnov(first: Any, other: Any) -> Numbers:
    """Return the largest difference of the cumulative shares."""
    return np.abs(_gap(first, other)).max(-1)  # type: ignore[no-any-return]


def wasserstein(first: Any, other: Any, at: Numbers) -> Numbers:
    """Return the Wasserstein-1 distance of values that stand at `at`, `[K]`."""
    gap = _gap(first, other)[..., :-1]
    return (np.abs(gap) * np.diff(at)).sum(-1)  # type: ignore[no-any-return]


def circular_wasserstein(first: Any, other: Any) -> Numbers:
    """Return the Wasserstein-1 distance on a circle of K cells, in cells."""
    gap = _gap(first, other)
    middle = np.sort(gap, -1)[..., gap.shape[-1] // 2]
    return np.abs(gap - middle[..., None]).sum(-1)  # type: ignore[no-any-return]


def common_part(first: Any, other: Any) -> Numbers:
    """Return the sum of the smaller shares: the common part of commuters."""
    return np.minimum(shares(first), shares(other)).sum(-1)  # type: ignore[no-any-return]


def _gap(first: Any, other: Any) -> Numbers:
    return np.cumsum(shares(first) - shares(other), -1)
