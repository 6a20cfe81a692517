"""Metrics of probabilities: log-likelihood, perplexity, Brier score."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, Any

import torch
from torch import Tensor

from nextloc_metrics.core.base.annotated_options import Computed
from nextloc_metrics.core.base.distribution_metric import DistributionMean
from nextloc_metrics.core.distribution.distribution import Distribution
from nextloc_metrics.core.means import exact, intervals
from nextloc_metrics.core.queries.checks import check_number, check_share
from nextloc_metrics.core.queries.messages import short


def _check_base(name: str, value: object) -> Any:
    if check_number(name, value) <= 1:
        raise ValueError(f"`{name}` must be a number above 1, got {short(value)}.")
    return value


_Share = Annotated[float, partial(check_share, example=1e-12)]


class NegativeLogLikelihood(DistributionMean):
    r"""Negative log-likelihood: the mean of -log p(target), the cross-entropy of the model.

    For logits s it is log(sum of exp(s_i)) - s_target, which is finite for logits that differ by up
    to 2^31. A target of probability 0 or with a logit that is lower by more, such as one that a
    model masks, or a row with NaN or infinity, has the score infinity: the mean is then infinite,
    and `num_impossible` counts these queries. The unit is nats, or bits for `base=2`.

    Args:
        base: the base of the logarithm; None for e.
        floor: the least probability of a target, such as 1e-12; None for none. The value then says
            as much about the floor as about the model if some targets are impossible.

    Example:
        >>> from torch import tensor
        >>> nll = NegativeLogLikelihood(base=2, given="probabilities")
        >>> nll.update(tensor([[0.5, 0.25, 0.25], [0.125, 0.875, 0.0]]), tensor([0, 0]))
        >>> nll.compute()  # (1 + 3) / 2 bits
        tensor(2.)

    Source: I. J. Good, "Rational decisions", Journal of the Royal Statistical Society B 14, 1952.
    """

    largest_value = math.inf
    higher_is_better = False
    plot_upper_bound = None
    label = "negative log-likelihood"
    unit = "nats"
    shared_state = "NegativeLogLikelihood"

    base: Computed[Annotated[float, _check_base] | None] = None
    floor: _Share | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.base is not None:
            self.score_factor = 1 / math.log(self.base)
            self.unit = "bits" if self.base == 2 else ""
        if self.floor is not None:
            self.label += f", p >= {self.floor:g}"

    @property
    def num_impossible(self) -> int:
        """The number of queries in this process whose target has the probability 0."""
        return int(self.state[-1])

    def score(self, record: Distribution) -> Tensor:
        assert record.log_target is not None  # `check` has passed
        loss = -record.log_target
        loss = loss.masked_fill(loss > exact.HIGHEST_FINITE, torch.inf)
        return loss if self.floor is None else loss.clamp(max=-math.log(self.floor))


class Perplexity(NegativeLogLikelihood):
    r"""Perplexity: exp of the negative log-likelihood, from 1 upwards.

    It is the number of equally likely candidates among which a model that is as sure would choose.
    It shares its state with [`NegativeLogLikelihood`][nextloc_metrics.NegativeLogLikelihood], whose
    conventions and `floor` it has. Its interval is that of the log-likelihood, exponentiated. It is
    no mean of scores, so it cannot be grouped: group the log-likelihood instead.

    Example:
        >>> from torch import tensor
        >>> perplexity = Perplexity(given="probabilities")
        >>> perplexity.update(tensor([[0.5, 0.25, 0.25], [0.125, 0.875, 0.0]]), tensor([0, 0]))
        >>> perplexity.compute()  # 2 to the power of 2 bits
        tensor(4.)

    Source: F. Jelinek, R. L. Mercer, L. R. Bahl and J. K. Baker, "Perplexity - a measure of the
    difficulty of speech recognition tasks", JASA 62, 1977.
    """

    label = "perplexity"
    unit = ""
    shared_state = "NegativeLogLikelihood"
    is_mean = False
    set_by_init = frozenset({"base"})

    floor: _Share | None = None

    # This constructor is written by hand because the class has no option `base`.
    def __init__(self, floor: float | None = None, **kwargs: Any) -> None:
        super().__init__(base=None, floor=floor, **kwargs)

    def compute(self) -> Tensor:
        return exact.moments(self.state)[0].exp()

    def estimate(self) -> intervals.Estimate:
        return super().estimate()._replace(link=torch.exp)


class BrierScore(DistributionMean):
    r"""Brier score: the mean squared distance of the probabilities to the truth, from 0 to 2.

    For each query it is the sum over candidates of (p_i - y_i)^2, where y is 1 for the target and
    0 otherwise: 1 - 2 p(target) + the sum of all p_i^2. scikit-learn's `brier_score_loss` of
    several classes is the same; of two classes it is half of it by default. A row with NaN or
    infinity has the score 2.

    Args:
        normalized: divide by 2, for a value from 0 to 1.

    Example:
        >>> from torch import tensor
        >>> brier = BrierScore(given="probabilities")
        >>> brier.update(tensor([[0.5, 0.25, 0.25]]), tensor([0]))
        >>> brier.compute()  # 0.25 + 0.0625 + 0.0625
        tensor(0.3750)

    Source: G. W. Brier, "Verification of forecasts expressed in terms of probability", Monthly
    Weather Review 78, 1950.
    """

    higher_is_better = False
    plot_upper_bound = None

    normalized: Computed[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.largest_value = 1.0 if self.normalized else 2.0

    def score(self, record: Distribution) -> Tensor:
        assert record.own is not None  # `check` has passed
        assert record.squares is not None
        return ((1 - 2 * record.own + record.squares) / 2).clamp(0, 1)
