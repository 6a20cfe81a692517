"""The mean of one model, or the difference of two, with the variance of users and of runs.

Scores are integers, and they are summed by user: nothing else is needed here.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.analysis.significance import satterthwaite
from nextloc_metrics.core.means.intervals import (
    Estimate,
    Few,
    FewGroups,
    cluster_variance,
    observed_freedom,
)

# Sums of scores fit int64 up to this; a score has up to 32 bits.
_MOST = 1 << 62


class Contrast(NamedTuple):
    """A mean, or a difference of means, with its variance; see `contrast`."""

    mean: float
    variance: float
    freedom: float
    sums: Sequence[Any]  #: each model's sums by user, int64 `[U]`, in whole units
    sizes: Any  #: the number of queries of each user, int64 `[U]`
    per_score: int  #: the units of a score's rounding
    few: Few = ()  #: for a mean: how many users have a hit, or a miss, if few do

    def estimate(self) -> Estimate:
        """Return the contrast as the mean of scores in [0, 1]."""
        total = float(self.sizes.sum())
        of_hits = self.mean * (1 - self.mean)  # the variance of scores that are 0 or 1
        is_between = self.variance * total > 2.0**-30 and 0 < self.mean < 1
        num_effective = total * total / float((self.sizes.astype(np.float64) ** 2).sum())
        effective = of_hits / self.variance if is_between else num_effective
        numbers = self.mean, math.sqrt(self.variance), effective, self.freedom
        mean, error, size, freedom = (torch.tensor(x, dtype=torch.float64) for x in numbers)
        return Estimate(mean, error, size, freedom, few=self.few if is_between else ())


def contrast(models: Sequence[Any], sizes: Any, unit: float) -> Contrast:
    r"""Return the mean of one model, or the mean of the first minus that of the second.

    The variance is V_user + max(V_run - V_both, 0). V_user is between users, of the mean over runs;
    V_run is the variance of the runs' values over their number R; V_both is that of the residuals
    of users and runs, which V_user and V_run both hold. V_run and V_both are sums over the models,
    whose runs are not paired. The degrees of freedom are Satterthwaite's over the parts, or 1.

    Args:
        models: for one model or two, the sums of each user's scores by run, int64 `[R, U]`.
        sizes: the number of queries of each user, int64 `[U]`.
        unit: the value of one unit of a sum.

    Sources: S. R. Searle, G. Casella and C. E. McCulloch, "Variance components", 1992; F. E.
    Satterthwaite, Biometrics Bulletin 2, 1946; S. L. Hillis, "A comparison of denominator degrees
    of freedom methods for multiple observer ROC analysis", Statistics in Medicine 26, 2007.
    """
    whole = math.lcm(*map(len, models))
    total = int(sizes.sum())
    if (total * whole) << 32 > _MOST:
        raise ValueError(
            f"`models` must have at most {_MOST >> 32:,} queries times runs, got "
            f"{total:,} x {whole:,}; give all models as many runs."
        )
    by_model = [x[0] if whole == 1 else x.sum(0) * (whole // len(x)) for x in models]
    sums = by_model[0] - by_model[1] if len(by_model) > 1 else by_model[0]
    mean = int(sums.sum()) * (unit / whole) / total
    rows, run, both, changes = [(sums * (unit / whole) - mean * sizes)[None]], 0.0, 0.0, 0
    repeated = [x for x in models if len(x) > 1]
    for sums_of_runs in repeated:
        runs = len(sums_of_runs)
        scale = unit / runs
        off = sums_of_runs * runs - sums_of_runs.sum(0)  # integers: the order of runs has no effect
        run_means = off.sum(1) / total
        rows.append((off - run_means[:, None] * sizes) * scale)
        run += math.fsum((run_means * scale) ** 2) / (runs * (runs - 1))
        changes += runs - 1
    deviations = torch.from_numpy(np.concatenate(rows))
    variances, user_freedom = cluster_variance(deviations, torch.from_numpy(sizes).double())
    (users, *residuals), freedom = variances.tolist(), float(user_freedom)
    few: Few = ()
    if len(models) == 1 and users:  # the mean of one model is treated as in `of_clusters`
        shares, numbers = torch.from_numpy(sums * (unit / whole) / sizes), torch.from_numpy(sizes)
        freedom = float(observed_freedom(shares, numbers.double(), user_freedom))
        few = FewGroups.of(numbers.double(), shares > 0, shares < 1)
    for runs in map(len, repeated):
        both += math.fsum(residuals[:runs]) / (runs * (runs - 1))
        residuals = residuals[runs:]
    if run > both:
        parts = [(users, freedom), (run, changes), (-both, changes * freedom)]
        users, freedom = users + run - both, max(1.0, satterthwaite(parts))
    return Contrast(mean, users, freedom, by_model, sizes, whole, few)


def sum_by(groups: Tensor | None, units: Any) -> tuple[Any, Any]:
    """Sum the columns of `units`, int64 `[R, N]`, by group; return also the groups' sizes."""
    if groups is None:
        return units, np.ones(units.shape[1], dtype=np.int64)
    _, group, sizes = np.unique(groups.numpy(), return_inverse=True, return_counts=True)
    sums = torch.zeros(len(units), len(sizes), dtype=torch.int64)
    sums.index_add_(1, torch.from_numpy(group.reshape(-1)), torch.from_numpy(units))
    return sums.numpy(), sizes.astype(np.int64)
