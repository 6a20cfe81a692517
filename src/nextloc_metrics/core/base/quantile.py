"""The mean of a score over queries, or a quantile of it."""

from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from nextloc_metrics.core.base.mean import MeanMetric
from nextloc_metrics.core.means import histogram
from nextloc_metrics.core.queries.checks import check_statistic

Statistic = Annotated[Literal["mean", "median"] | float, check_statistic]


class QuantileMetric(MeanMetric):
    """A mean of scores, or by an option `statistic` a quantile of a histogram of them."""

    _steps = 1  #: of the histogram, in one unit of a score

    @property
    def _share(self) -> float | None:
        """The share of queries that do not exceed the quantile; None for the mean."""
        statistic = self._options["statistic"]
        return {"mean": None, "median": 0.5}.get(statistic, statistic)

    @property
    def _statistic_name(self) -> str:
        statistic = self._options.get("statistic", self._share)
        return statistic if isinstance(statistic, str) else f"{statistic:g} quantile"

    @property
    def _averages_scores(self) -> bool:
        return self._share is None

    @property
    def _scored(self) -> MeanMetric | None:
        own = type(self).tally is QuantileMetric.tally
        return self if own and self._averages_scores else None

    def empty_tally(self) -> Tensor:
        return super().empty_tally() if self._averages_scores else histogram.empty()

    def tally(self, record: Any) -> Tensor:
        if self._averages_scores:
            return super().tally(record)
        scores, counted = self._score_queries(record)
        return histogram.tally(scores * self._steps, counted).to(record.device)

    def compute(self) -> Tensor:
        """Return the mean, or the quantile in float64; NaN without a query."""
        if self._share is None:
            return super().compute()
        value = histogram.quantile(self.state, self._share) / self._steps
        return torch.tensor(value, dtype=torch.float64, device="cpu")

    @property
    def num_queries(self) -> int:
        return int(self.state[2] if self._averages_scores else self.state.sum())
