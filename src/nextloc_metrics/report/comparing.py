"""Several models on the same queries, in one call."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nextloc_metrics.analysis.comparison import Comparison, Test, holm
from nextloc_metrics.analysis.comparison import compare as compare_scores
from nextloc_metrics.arguments.arrays import Array
from nextloc_metrics.arguments.checks import check_named
from nextloc_metrics.arguments.messages import short
from nextloc_metrics.arguments.rows import ArrayRows, read_rows
from nextloc_metrics.base.collection import RankingCollection
from nextloc_metrics.base.ranking_metric import RankingMetric
from nextloc_metrics.display.table import Table
from nextloc_metrics.ranking import Ranking
from nextloc_metrics.report.data import (
    check_cluster,
    count_locations,
    make_headline,
)


@dataclass(repr=False)
class Comparisons:
    """The result of `compare`; `print` shows it as a table.

    Attributes:
        values: the values of each model, as fractions.
        comparisons: for each model but the first, its comparison with the first, by metric; a
            positive difference is in favour of this model.
        corrected: the p-values of `comparisons`, corrected for their number by Holm's method.
        table: for each metric and model, both values, difference, interval and both p-values.
    """

    values: dict[str, dict[str, float]]
    comparisons: dict[str, dict[str, Comparison]]
    corrected: dict[str, dict[str, float]]
    table: Table

    def __repr__(self) -> str:
        return str(self.table)


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

    The tests of all models and metrics are one family; Holm's method corrects their p-values.

    Args:
        models: predictions as for `evaluate`, by model name; each is compared with the first.
        groups: as for `evaluate`, as are `target`, `k`, `mask`, `exclude`, `exempt_target`,
            `num_locations` and `confidence`; only those of `cluster` matter.
        cluster: the key of the groups whose queries are not independent; test and intervals then
            take groups, not queries, as independent.
        test: as for `analysis.compare`, like `seed`.

    Raises:
        ValueError: there are fewer than two models, shapes do not fit, or `cluster` is not a key
            of `groups`.

    Example:
        >>> from nextloc_metrics import report
        >>> target = [3, 5, 9, 1, 2, 8]
        >>> good, bad = [[x, 0] for x in target], [[0, x] for x in target]
        >>> found = report.compare({"bad": bad, "good": good}, target, k=1)
        >>> found.comparisons["good"]["mrr"].difference
        0.5
    """
    check_named("models", models, '{"gru": preds, "lstm": others}')
    models = {str(name): preds for name, preds in models.items()}
    if len(models) < 2:
        raise ValueError(f"`models` must hold at least two models, got {short(list(models))}.")
    first, *others = models
    read = {
        name: read_rows(preds, target, groups if name == first else None, mask, exclude)
        for name, preds in models.items()
    }
    check_cluster(cluster, read[first].groups)
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
    values = {
        name: {key: float(x) for key, x in c.compute().items()} for name, c in collections.items()
    }
    p_values = [one.p_value for of_metrics in comparisons.values() for one in of_metrics.values()]
    in_order = iter(holm(p_values))
    corrected = {name: {key: next(in_order) for key in of} for name, of in comparisons.items()}
    counted = torch.stack([~x.isnan() for of in scores.values() for x in of.values()]).any(0)
    units = f"{int(counted.sum()):,} queries, {test} test"
    if clusters is not None:
        units += f" clustered by {cluster} ({len(torch.unique(clusters[counted])):,} groups)"
    notes = [units, f"corrected p: Holm's method for {len(p_values)} tests"]
    table = _tabulate(values, comparisons, corrected, confidence, notes)
    return Comparisons(values, comparisons, corrected, table)


def _tabulate(
    values: Mapping[str, Mapping[str, float]],
    comparisons: Mapping[str, Mapping[str, Comparison]],
    corrected: Mapping[str, Mapping[str, float]],
    confidence: float,
    notes: Sequence[str],
) -> Table:
    first = next(iter(values))
    interval = f"{100 * confidence:g} % interval"
    header = ["percent", first, "value", "difference", interval, "p", "corrected p"]
    names = ["metric", "first", "value", "difference", "low", "high", "p", "corrected p"]
    rows, records = [], []
    for key, base in values[first].items():
        for name, of_metrics in comparisons.items():
            value = values[name][key]
            change, tested = value - base, [math.nan] * 4
            if key in of_metrics:
                one = of_metrics[key]
                change = one.difference
                tested = [one.low, one.high, one.p_value, corrected[name][key]]
            low, high, *p_values = tested
            title = f"{key}, {name}"
            ends = "-" if math.isnan(low) else f"{_points(low)} to {_points(high)}"
            texts = [_points(base, ""), _points(value, ""), _points(change), ends]
            rows.append([title, *texts, *map(_p_value, p_values)])
            records.append(dict(zip(names, [title, base, value, change, *tested], strict=True)))
    return Table(header, rows, notes, records)


def _points(fraction: float, sign: str = "+") -> str:
    """Write a fraction in percent, or a difference in percentage points."""
    return "-" if math.isnan(fraction) else f"{100 * fraction:{sign}.2f}"


def _p_value(p: float) -> str:
    return "-" if math.isnan(p) else "<0.0001" if p < 0.0001 else f"{p:.4f}"


def _score_queries(
    collection: RankingCollection, rows: ArrayRows, exempt_target: bool
) -> dict[str, Tensor]:
    """Update a collection, and return the scores of queries by metric, NaN if left out."""
    scores: dict[str, list[Tensor]] = {}
    for batch in rows.chunks():
        given = replace(batch, groups=None, exempt_target=exempt_target)
        ranking = collection.plan.read(given)[Ranking]
        collection.update(ranking)
        for key, member in collection.named_members():
            if isinstance(member, RankingMetric) and member.averages_scores:
                found, counted = member.score_queries(ranking)
                scores.setdefault(key, []).append(found.masked_fill(~counted, torch.nan))
    return {key: torch.cat(found) for key, found in scores.items()}
