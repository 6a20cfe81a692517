"""The scores of single queries, for the comparison of models."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torchmetrics.utilities.data import dim_zero_cat
from torchmetrics.utilities.distributed import gather_all_tensors

from nextloc_metrics.core.base.fixes import BaseMetric
from nextloc_metrics.core.base.mean import MeanMetric, check_mean
from nextloc_metrics.core.base.metric import HOST_OPTIONS
from nextloc_metrics.core.base.plan import check
from nextloc_metrics.core.means import exact
from nextloc_metrics.core.queries.arrays import Array, as_tensor
from nextloc_metrics.core.queries.checks import is_integer
from nextloc_metrics.core.queries.messages import describe, short
from nextloc_metrics.core.queries.record import Record


class QueryScores(NamedTuple):
    """Distinct ids of queries in rising order, `ids` int64 `[N]`, and `scores` float64 `[N]`."""

    ids: Tensor
    scores: Tensor


def gather_rows(rows: Tensor, group: Any = None) -> list[Tensor]:
    """Gather the rows of all processes; a process may have no rows."""
    rows = rows.long().reshape(-1, 2)  # TorchMetrics passes an empty float tensor for no rows
    return gather_all_tensors(rows, group)


class PerQueryScores(BaseMetric):
    """The score of each query by `metric` instead of the mean, to compare two models.

    Each query has an id of your choice, such as its row in the test set: the same id for all
    models, and different ids on different processes. `compute` joins the processes; an id that
    several processes hold, because a sampler repeats rows, counts once, and an id with two
    different scores is an error. A query that the metric leaves out has no score.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import MRR
        >>> by_query = PerQueryScores(MRR())
        >>> scores, target = tensor([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1]]), tensor([2, 0])
        >>> by_query.update(scores, target, query_ids=tensor([8, 7]))
        >>> by_query.compute()
        QueryScores(ids=tensor([7, 8]), scores=tensor([1.0000, 0.5000], dtype=torch.float64))
    """

    is_differentiable = False
    full_state_update = False
    higher_is_better = None

    def __init__(self, metric: MeanMetric, **kwargs: Any) -> None:
        check_mean("metric", metric)
        inherited = {name: getattr(metric, name) for name in HOST_OPTIONS}
        super().__init__(**{"dist_sync_fn": gather_rows, **inherited, **kwargs})
        self.metric = metric
        # the metric is in the name, so a MetricCollection does not share states of other scores
        self._state_name = f"PerQueryScores({metric._state_name})"
        self.add_state(self._state_name, [], dist_reduce_fx="cat")

    def update(
        self,
        preds: Array | Record,
        target: Array | None = None,
        mask: Array | None = None,
        query_ids: Array | None = None,
        *,
        exclude: Array | None = None,
        exempt_target: bool = False,
    ) -> None:
        """Add a batch of queries; see `RankingMetric.update`.

        `query_ids` are integers in the shape of the queries, not read where a query is left out.
        """
        record = self.metric.read(preds, target, mask, exclude=exclude, exempt_target=exempt_target)
        getattr(self, self._state_name).append(self._score(record, query_ids))

    def compute(self) -> QueryScores:
        kept = getattr(self, self._state_name)
        none = torch.empty(0, 2, dtype=torch.int64, device=self.device)
        rows = _distinct(dim_zero_cat(kept) if len(kept) else none)
        return QueryScores(rows[:, 0], exact.kept(rows[:, 1]))

    @property
    def num_queries(self) -> int:
        """The number of scores that this process keeps; an id in two batches counts twice."""
        return sum(len(rows) for rows in getattr(self, self._state_name))

    def _score(self, record: Record, query_ids: Array | None) -> Tensor:
        """Return ids and fixed-point scores of the queries that count, int64 `[N, 2]`."""
        check(self.metric, record)
        if query_ids is not None:
            query_ids = as_tensor("query_ids", query_ids, record.device)
        if query_ids is None or not is_integer(query_ids) or query_ids.shape != record.shape:
            raise ValueError(
                f"`query_ids` must be integers of shape {short(record.shape)}, one id per query, "
                f"such as its row in the test set, got {describe(query_ids)}."
            )
        scores, counted = self.metric.scores_of(record)
        fixed = exact.keep(scores, self.metric._is_bounded)
        rows = torch.stack([query_ids.reshape(-1).long().to(fixed.device), fixed], 1)
        return _distinct(rows[counted]).to(record.device)

    def __repr__(self) -> str:
        return f"PerQueryScores({self.metric!r})"


def _distinct(rows: Tensor) -> Tensor:
    """Return distinct rows of ids and scores in order; raise if an id has two scores."""
    rows = torch.unique(rows, dim=0)
    ids, fixed = rows.unbind(1)
    twice = (ids[1:] == ids[:-1]).nonzero()
    if len(twice):
        first = int(twice[0])
        scores = [round(score, 6) for score in exact.kept(fixed[first : first + 2]).tolist()]
        raise ValueError(
            f"`query_ids` must name each query once, got id {int(ids[first])} with the scores "
            f"{scores[0]} and {scores[1]}; leave repeated rows out with `mask`."
        )
    return rows
