"""The scores of single queries, kept where models are to be compared."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torchmetrics.utilities.data import dim_zero_cat
from torchmetrics.utilities.distributed import gather_all_tensors

from nextloc_metrics import exact
from nextloc_metrics.arrays import Array, as_tensor
from nextloc_metrics.base import BaseMetric
from nextloc_metrics.checks import is_integer
from nextloc_metrics.messages import describe, short
from nextloc_metrics.metric import RankingMetric
from nextloc_metrics.ranking import Ranking


class QueryScores(NamedTuple):
    """Queries by their ids, and their scores.

    Attributes:
        ids: int64 `[N]`, each once, in rising order.
        scores: float64 `[N]`.
    """

    ids: Tensor
    scores: Tensor


def gather_rows(rows: Tensor, group: Any = None) -> list[Tensor]:
    """Gather the rows of all processes, of which some may have none."""
    rows = rows.long().reshape(-1, 2)  # TorchMetrics stands in a float of its own for no rows
    return gather_all_tensors(rows, group)


class PerQueryScores(BaseMetric):
    """The score of every query, beside the mean: what comparing two models needs.

    Every query has an id of your choice, such as its row in the test set: the same for all models,
    and different on all processes. Processes are put together by `compute`; an id that several
    have, as where a sampler repeats rows, counts once. A query that the metric leaves out has no
    score. The memory needed is 16 bytes per query.

    Args:
        metric: the metric whose scores are kept; it is not updated itself.
        kwargs: TorchMetrics' own keyword arguments.

    Raises:
        TypeError: `metric` is no mean of a score.
        ValueError: in `update`, the ids do not fit the queries; there or in `compute`, an id has
            two different scores.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import MRR, PerQueryScores
        >>> by_query = PerQueryScores(MRR())
        >>> scores, target = tensor([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1]]), tensor([2, 0])
        >>> by_query.update(scores, target, query_ids=tensor([8, 7]))
        >>> by_query.compute()
        QueryScores(ids=tensor([7, 8]), scores=tensor([1.0000, 0.5000], dtype=torch.float64))
    """

    is_differentiable = False
    full_state_update = False
    higher_is_better = None
    plot_lower_bound = 0.0
    plot_upper_bound = 1.0
    plot_legend_name = "query"

    def __init__(self, metric: RankingMetric, **kwargs: Any) -> None:
        if not isinstance(metric, RankingMetric):
            raise TypeError(f"`metric` must be a RankingMetric, got {short(metric)}.")
        if not metric.averages_scores:
            raise TypeError(f"`metric` must be the mean of a score, and {short(metric)} is not.")
        super().__init__(**{"dist_sync_fn": gather_rows, **kwargs})
        self.metric = metric
        # of the metric's name, so that a MetricCollection merges none that keep other scores
        self.state_name = f"PerQueryScores({metric.state_name})"
        self.add_state(self.state_name, [], dist_reduce_fx="cat")

    def update(
        self,
        preds: Array | Ranking,
        target: Array | None = None,
        mask: Array | None = None,
        query_ids: Array | None = None,
        *,
        exclude: Array | None = None,
        exempt_target: bool = False,
    ) -> None:
        """Add a batch of queries.

        Args:
            preds: as for `RankingMetric.update`.
            target: as for `RankingMetric.update`.
            mask: as for `RankingMetric.update`.
            query_ids: integer, one per query; what is left out is not looked at.
            exclude: as for `RankingMetric.update`.
            exempt_target: as for `RankingMetric.update`.
        """
        ranking = self.metric.rank(
            preds, target, mask, exclude=exclude, exempt_target=exempt_target
        )
        rows = self._score(ranking, query_ids)
        getattr(self, self.state_name).append(rows)

    @torch.jit.unused
    def forward(
        self,
        preds: Array | Ranking,
        target: Array | None = None,
        mask: Array | None = None,
        query_ids: Array | None = None,
        *,
        exclude: Array | None = None,
        exempt_target: bool = False,
    ) -> Any:
        """Add a batch of queries and return their own scores."""
        ranking = self.metric.rank(
            preds, target, mask, exclude=exclude, exempt_target=exempt_target
        )
        self._score(ranking, query_ids)
        return super().forward(ranking, query_ids=query_ids)

    def compute(self) -> QueryScores:
        """Return the ids of all processes' queries in rising order, and their scores."""
        kept = getattr(self, self.state_name)
        none = torch.empty(0, 2, dtype=torch.int64, device=self.device)
        rows = _distinct(dim_zero_cat(kept) if len(kept) else none)
        return QueryScores(rows[:, 0], exact.float64(rows[:, 1]) / exact.ONE)

    @property
    def plot_label(self) -> str:
        """That of the metric."""
        return self.metric.plot_label

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Draw how many queries have which score, or their range at several steps.

        Arguments and result are those of `RankingMetric.plot`.
        """
        from nextloc_metrics.report import plotting

        return plotting.plot_metric(self, val, ax)

    def set_dtype(self, dst_type: str | torch.dtype) -> "PerQueryScores":
        """Keep the integers of the state, whatever dtype is asked for."""
        return self

    @property
    def num_queries(self) -> int:
        """How many scores this process keeps, those of an id in several batches included."""
        return sum(len(rows) for rows in getattr(self, self.state_name))

    def _score(self, ranking: Ranking, query_ids: Array | None) -> Tensor:
        """Return the ids and fixed-point scores of what counts."""
        self.metric.check(ranking)
        if query_ids is not None:
            query_ids = as_tensor("query_ids", query_ids, ranking.device)
        if query_ids is None or not is_integer(query_ids) or query_ids.shape != ranking.shape:
            raise ValueError(
                f"`query_ids` must be integers of shape {short(ranking.shape)}, one id per query, "
                f"such as its row in the test set, got {describe(query_ids)}."
            )
        scores, counted = self.metric.score_queries(ranking)
        fixed = exact.to_fixed_point(scores)
        rows = torch.stack([query_ids.reshape(-1).long().to(fixed.device), fixed], 1)
        return _distinct(rows[counted]).to(ranking.device)

    def __repr__(self) -> str:
        return f"PerQueryScores({self.metric!r})"


def _distinct(rows: Tensor) -> Tensor:
    """Sort rows of ids and scores, each once, and raise where an id has two scores."""
    rows = torch.unique(rows, dim=0)
    ids, fixed = rows.unbind(1)
    twice = (ids[1:] == ids[:-1]).nonzero()
    if len(twice):
        first = int(twice[0])
        scores = [round(score / exact.ONE, 6) for score in fixed[first : first + 2].tolist()]
        raise ValueError(
            f"`query_ids` must name each query once, and query {int(ids[first])} has the scores "
            f"{scores[0]} and {scores[1]}; leave repeated rows out by `mask`."
        )
    return rows
