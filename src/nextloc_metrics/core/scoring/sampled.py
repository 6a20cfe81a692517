"""Ranks among sampled candidates: their probabilities, and estimates from them.

A target with rank R among n candidates has rank r among itself and m sampled ones.

Sources: W. Krichene and S. Rendle, "On sampled metrics for item recommendation", KDD 2020; A. P.
Dempster, N. M. Laird and D. B. Rubin, "Maximum likelihood from incomplete data via the EM
algorithm", Journal of the Royal Statistical Society B 39, 1977.
"""

import math
from typing import Literal

import torch
from torch import Tensor

Sampling = Literal["without replacement", "with replacement"]

#: steps of expectation maximisation; a choice that smooths the distribution of ranks
STEPS = 50

# The weight of the variance in the bias-variance estimator, as in its paper.
_GAMMA = 0.01


def rank_probabilities(num_sampled: int, num_candidates: int, sampling: Sampling) -> Tensor:
    """Return P(r | R), float64 `[n, m + 1]`, for the ranks R from 1 and r from 1."""
    others, size = (torch.tensor(float(one)).double() for one in (num_candidates - 1, num_sampled))
    above = torch.arange(num_candidates).double()[:, None]
    drawn = torch.arange(num_sampled + 1).double()
    if sampling == "with replacement":
        ways = torch.special.xlogy(drawn, above) + torch.special.xlogy(size - drawn, others - above)
        logarithm = ways + _log_choose(size, drawn) - size * others.log()
    else:
        ways = _log_choose(above, drawn) + _log_choose(others - above, size - drawn)
        logarithm = ways - _log_choose(others, size)
    probabilities: Tensor = logarithm.exp()
    return probabilities


def maximise(shares: Tensor, given: Tensor, steps: int) -> Tensor:
    """Return p(R) by expectation maximisation, float64 `[B, n]`, from shares of r, `[B, m + 1]`."""
    p = shares.new_full((len(shares), len(given)), 1 / len(given))
    for _ in range(steps):
        p = p * ((shares / (p @ given).clamp(min=1e-300)) @ given.T)
    return p


def least_error(given: Tensor, scores: Tensor) -> Tensor:
    """Return the x(r) of the bias-variance estimator, float64 `[m + 1]`.

    It minimises the sum over R of (E[x(r) | R] - M(R))^2 + gamma Var[x(r) | R]. A rank r that
    cannot occur has 0.
    """
    matrix = (1 - _GAMMA) * given.T @ given + _GAMMA * given.sum(0).clamp(min=1e-12).diag()
    solution: Tensor = torch.linalg.solve(matrix, given.T @ scores)
    return solution


def _log_choose(n: Tensor, k: Tensor) -> Tensor:
    """Return the logarithm of the number of choices of k from n, -inf if there is none."""
    ways = torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma((n - k).clamp(min=0) + 1)
    return ways.masked_fill(k > n, -math.inf)
