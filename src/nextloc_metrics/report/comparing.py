"""Several models on the same queries, in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nextloc_metrics.arrays import Array
from nextloc_metrics.collection import RankingCollection
from nextloc_metrics.comparison import Comparison, Test
from nextloc_metrics.comparison import compare as compare_scores
from nextloc_metrics.messages import short
from nextloc_metrics.metric import RankingMetric
from nextloc_metrics.report.data import (
    Data,
    check_cluster,
    count_locations,
    make_headline,
    read_data,
)
from nextloc_metrics.report.tables import Table, side_by_side


@dataclass(repr=False)
class Comparisons:
    """The result of `compare`; `print` shows it as a table.

    Attributes:
        values: the values of each model, as fractions.
        comparisons: for each model but the first, its comparison with the first, by metric; a
            positive difference is in favour of this model.
        table: the values side by side, with marks of significance if there are two models.
    """

    values: dict[str, dict[str, float]]
    comparisons: dict[str, dict[str, Comparison]]
    table: Table

    def __repr__(self) -> str:
        lines = [
            f"{model}, {name}: {found!r}"
            for model, of_metrics in self.comparisons.items()
            for name, found in of_metrics.items()
        ]
        return "\n".join([str(self.table), *lines])


def compare(
    models: Mapping[str, Array],
    target: Array,
    *,
    k: int | Sequence[int] = (1, 5, 10),
    mask: Array | None = None,
    groups: Mapping[str, Array] | None = None,
    cluster: str | None = None,
    exclude: Array | None = None,
    exempt_target: bool = False,
    num_locations: int | None = None,
    confidence: float = 0.95,
    test: Test = "permutation",
    seed: int = 0,
) -> Comparisons:
    """Compare the predictions of several models for the same queries.

    Args:
        models: predictions as for `evaluate`, by model name; each is compared with the first.
        target: as for `evaluate`.
        k: as for `evaluate`.
        mask: as for `evaluate`.
        groups: as for `evaluate`.
        cluster: the key of the groups whose queries are not independent; test and intervals then
            take groups, not queries, as independent.
        exclude: as for `evaluate`.
        exempt_target: as for `evaluate`.
        num_locations: as for `evaluate`.
        confidence: the confidence level of the intervals.
        test: as for `analysis.compare`.
        seed: the seed of the random numbers.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: there are fewer than two models, shapes do not fit, or `cluster` is not a key
            of `groups`.

    Example:
        >>> from nextloc_metrics import report
        >>> target = [3, 5, 9, 1, 2, 8]
        >>> good, bad = [[x, 0] for x in target], [[0, x] for x in target]
        >>> found = report.compare({"bad": bad, "good": good}, target, k=1)
        >>> found.comparisons["good"]["mrr"].difference
        0.5
        >>> found.table
        percent      bad     good
        acc_at_1    0.00  100.00*
        mrr        50.00  100.00*
        ndcg_at_1   0.00  100.00*
        f1          0.00  100.00
        6 queries counted
        * p < 0.05, ** p < 0.01, *** p < 0.001
    """
    if len(models) < 2:
        raise ValueError(f"`models` must hold at least two models, got {short(list(models))}.")
    first, *others = models
    options = {"mask": mask, "exclude": exclude}
    read = {
        name: read_data(preds, target, groups if name == first else None, options)
        for name, preds in models.items()
    }
    check_cluster(cluster, read[first])
    collections = {
        name: make_headline(count_locations(data, num_locations, None), k)
        for name, data in read.items()
    }
    scores = {
        name: _score_queries(collections[name], data, exempt_target) for name, data in read.items()
    }
    clusters = None if cluster is None else read[first].kinds[cluster].numbers

    def against_first(name: str, key: str) -> Comparison:
        pair = torch.stack([scores[model][key] for model in (name, first)])
        kept = ~pair.isnan().any(0)
        groups = None if clusters is None else clusters[kept]
        a, b = pair[:, kept]
        return compare_scores(a, b, test=test, groups=groups, confidence=confidence, seed=seed)

    comparisons = {
        name: {key: against_first(name, key) for key in scores[first]} for name in others
    }
    marks = comparisons[others[0]] if len(others) == 1 else None
    return Comparisons(
        {
            name: {key: float(x) for key, x in c.compute().items()}
            for name, c in collections.items()
        },
        comparisons,
        side_by_side(collections, comparisons=marks),
    )


def _score_queries(
    collection: RankingCollection, data: Data, exempt_target: bool
) -> dict[str, Tensor]:
    """Update a collection, and return the scores of queries by metric, NaN if left out."""
    scores: dict[str, list[Tensor]] = {}
    for batch in data.chunks():
        ranking = collection.rank(
            batch.preds, batch.target, **batch.options, exempt_target=exempt_target
        )
        collection.update(ranking)
        for key, member in collection.named_members():
            if isinstance(member, RankingMetric) and member.averages_scores:
                found, counted = member.score_queries(ranking)
                scores.setdefault(key, []).append(found.masked_fill(~counted, torch.nan))
    return {key: torch.cat(found) for key, found in scores.items()}
