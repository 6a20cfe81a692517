"""Several models on the same queries, in one call."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from nextloc_metrics.analysis.comparison import Comparison, Test
from nextloc_metrics.analysis.comparison import compare as compare_scores
from nextloc_metrics.analysis.significance import holm
from nextloc_metrics.arguments.arrays import Array
from nextloc_metrics.arguments.batch import ArrayRows, Batch, Grouping, read_rows
from nextloc_metrics.arguments.checks import check_named
from nextloc_metrics.arguments.messages import short
from nextloc_metrics.base.collection import RankingCollection
from nextloc_metrics.base.grouped import Grouped
from nextloc_metrics.base.mean import MeanMetric
from nextloc_metrics.base.plan import Plan
from nextloc_metrics.base.readings import read_results
from nextloc_metrics.display.page import Result, show_meanings, show_table
from nextloc_metrics.display.reading import Reading
from nextloc_metrics.display.table import Table, in_percent, of_readings
from nextloc_metrics.pages.sections import show_differences, show_values
from nextloc_metrics.report.data import (
    check_cluster,
    check_metrics,
    count_locations,
    make_headline,
)
from nextloc_metrics.report.options import SharedOptions, takes

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(repr=False)
class Comparisons(Result):
    """The result of `compare`; `print` shows it as a table.

    Attributes:
        values: the values of each model, as fractions.
        comparisons: for each model but the first, its comparison with the first, by metric; a
            positive difference is in favour of this model.
        corrected: the p-values of `comparisons`, corrected for their number by Holm's method.
        table: for each metric and model, both values, difference, interval and both p-values.
        columns: the values of each model with their intervals, by metric.
        card: the number of queries, and how intervals and p-values were computed.
    """

    title: ClassVar[str] = "Comparison"

    values: dict[str, dict[str, float]]
    comparisons: dict[str, dict[str, Comparison]]
    corrected: dict[str, dict[str, float]]
    table: Table
    columns: dict[str, dict[str, Reading]] = field(default_factory=dict)
    card: dict[str, Any] = field(default_factory=dict)
    _confidence: float = 0.95
    _members: Sequence[tuple[str, Any]] = ()

    def sections(self) -> dict[str, str]:
        level = self._confidence
        values = of_readings(self.columns, level, ["bold: the best value"])
        first = next(iter(self.columns))
        return {
            "Result": show_values(self.columns, values, level)
            + show_differences(first, self._differences(), level)
            + show_table(self._table_of_differences())
            + show_meanings(self._members)
        }

    def _table_of_differences(self) -> Table:
        """Return the differences of the table; rows of two models need no name of a model."""
        first, *others = self.columns
        names = [x[0] for x in self.table.rows] if len(others) > 1 else self.values[first]
        rows = [[name, *row[3:]] for name, row in zip(names, self.table.rows, strict=True)]
        return Table(["percentage points", *self.table.header[3:]], rows, self.table.notes)

    def _differences(self) -> dict[str, dict[str, Reading]]:
        """Return the differences from the first model with their intervals, by metric."""
        first, *others = self.columns.values()
        found = {}
        for (name, tested), readings in zip(self.comparisons.items(), others, strict=True):
            found[name] = {
                key: one._replace(value=one.value - first[key].value, bounds=None)
                for key, one in readings.items()
            }
            for key, one in tested.items():
                bounds = None if math.isnan(one.low) else (one.low, one.high)
                found[name][key] = found[name][key]._replace(value=one.difference, bounds=bounds)
        return found


@takes(SharedOptions)
def compare(
    models: Mapping[str, Array],
    target: Array,
    *,
    mask: Array | None = None,
    groups: Mapping[str, Array] | None = None,
    exclude: Array | None = None,
    test: Test = "permutation",
    seed: int = 0,
    **options: Unpack[SharedOptions],
) -> Comparisons:
    """Compare the predictions of several models for the same queries.

    The tests of all models and metrics are one family; Holm's method corrects their p-values.

    Args:
        models: predictions as for `evaluate`, by model name; each is compared with the first.
        groups: as for `evaluate`, as are `target`, `mask` and `exclude`; only those of `cluster`
            matter, which test and intervals then take as independent.
        test: as for `analysis.compare`, like `seed`.
        options: those of [`SharedOptions`][nextloc_metrics.report.SharedOptions].

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
    cluster, confidence_level = options["cluster"], options["confidence_level"]
    check_cluster(cluster, read[first].groups)
    kind = None if cluster is None else read[first].kinds[cluster]
    counted = {
        name: _Model(_headline_of(data, options), cluster, kind) for name, data in read.items()
    }
    exempt = options["exempt_target"]
    scores = {name: counted[name].score(data, exempt) for name, data in read.items()}

    def against_first(name: str, key: str) -> Comparison:
        pair = torch.stack([scores[model][key] for model in (first, name)])
        kept = ~pair.isnan().any(0)
        groups = None if kind is None else kind.numbers[kept]
        a, b = pair[:, kept]
        return compare_scores(
            a, b, test=test, groups=groups, confidence_level=confidence_level, seed=seed
        )

    comparisons = {
        name: {key: against_first(name, key) for key in scores[first]} for name in others
    }
    sample = _count_sample(scores, cluster, kind)
    return _summarize(counted, comparisons, sample, confidence_level, f"{test} test")


def _headline_of(rows: ArrayRows, options: SharedOptions) -> RankingCollection:
    number = count_locations(rows, options["num_locations"], None)
    own = check_metrics(options["metrics"])
    for metric in own.values():
        if metric.unit or metric.largest_value != 1:
            raise ValueError(
                f"`metrics` of a comparison must be fractions, got {short(metric)}; `evaluate` "
                "takes those with a unit."
            )
    return make_headline(number, options["k"], measures=options["measures"], metrics=own)


def _summarize(
    models: Mapping[str, _Model],
    comparisons: dict[str, dict[str, Comparison]],
    sample: _Sample,
    confidence_level: float,
    test: str,
) -> Comparisons:
    """Compute the values, correct the p-values, and make the table and the card."""
    columns = {name: model.read(confidence_level) for name, model in models.items()}
    values = {name: {key: x.value for key, x in of.items()} for name, of in columns.items()}
    p_values = [one.p_value for of_metrics in comparisons.values() for one in of_metrics.values()]
    in_order = iter(holm(p_values))
    corrected = {name: {key: next(in_order) for key in of} for name, of in comparisons.items()}
    card = {
        "queries": sample.queries,
        "averaged_over": "queries",
        "intervals": f"{100 * confidence_level:g} %, {sample.clusters or 'queries independent'}",
        "p": f"two-sided {test}",
        "corrected_p": f"Holm's method for {len(p_values)} tests",
        "ties": "expected value over random orders",
    }
    notes = [
        f"{sample.queries:,} queries, {test} {sample.clusters}".rstrip(),
        f"corrected p: {card['corrected_p']}",
    ]
    table = _tabulate(values, comparisons, corrected, confidence_level, notes)
    members = next(iter(models.values())).metrics.named_members()
    return Comparisons(
        values, comparisons, corrected, table, columns, card, confidence_level, members
    )


def _tabulate(
    values: Mapping[str, Mapping[str, float]],
    comparisons: Mapping[str, Mapping[str, Comparison]],
    corrected: Mapping[str, Mapping[str, float]],
    confidence_level: float,
    notes: Sequence[str],
) -> Table:
    first = next(iter(values))
    interval = f"{100 * confidence_level:g} % interval"
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
            ends = "-"
            if not math.isnan(low):
                ends = f"{in_percent(low, '+')} to {in_percent(high, '+')}"
            texts = [in_percent(base), in_percent(value), in_percent(change, "+"), ends]
            rows.append([title, *texts, *map(_p_value, p_values)])
            records.append(dict(zip(names, [title, base, value, change, *tested], strict=True)))
    return Table(header, rows, notes, records)


def _p_value(p: float) -> str:
    return "-" if math.isnan(p) else "<0.0001" if p < 0.0001 else f"{p:.4f}"


class _Sample(NamedTuple):
    """What is independent: the number of queries, and a text on their clusters, if any."""

    queries: int
    clusters: str


def _count_sample(
    scores: Mapping[str, Mapping[str, Tensor]], cluster: str | None, kind: Grouping | None
) -> _Sample:
    """Count the queries that any model scored, and their clusters."""
    counted = torch.stack([~x.isnan() for of in scores.values() for x in of.values()]).any(0)
    if kind is None:
        return _Sample(int(counted.sum()), "")
    number = len(torch.unique(kind.numbers[counted]))
    return _Sample(int(counted.sum()), f"clustered by {cluster} ({number:,} groups)")


class _Model:
    """The metrics of one model, and those of the clusters, whose intervals replace theirs."""

    def __init__(
        self, metrics: RankingCollection, cluster: str | None, kind: Grouping | None
    ) -> None:
        self.metrics = metrics
        self.means = {
            key: member
            for key, member in metrics.named_members()
            if isinstance(member, MeanMetric) and member._averages_scores
        }
        clustered: dict[str, Grouped] = {}
        self.numbers: dict[str, Tensor] = {}
        if cluster is not None and kind is not None and len(kind.labels):
            self.numbers = {cluster: kind.numbers}
            clustered = {
                key: Grouped(member, average="queries", by=cluster, labels=kind.labels)
                for key, member in self.means.items()
            }
        self.clustered = RankingCollection(clustered) if clustered else None

    def score(self, rows: ArrayRows, exempt_target: bool) -> dict[str, Tensor]:
        """Count all queries, and return the scores of queries by metric, NaN if left out."""
        scores: dict[str, list[Tensor]] = {}
        collections = [self.metrics, *([] if self.clustered is None else [self.clustered])]
        plan = Plan([member for one in collections for _, member in one.named_members()])
        start = 0
        for batch in rows.chunks():
            end = start + len(batch.target)
            groups = {name: numbers[start:end] for name, numbers in self.numbers.items()}
            given = replace(batch, groups=groups or None, exempt_target=exempt_target)
            start, records = end, plan.read(given)
            plan.update(Batch(records, None), count=True)
            for key, member in self.means.items():
                found, counted = member._score_queries(records[member.record])
                scores.setdefault(key, []).append(found.masked_fill(~counted, torch.nan))
        return {key: torch.cat(found) for key, found in scores.items()}

    def read(self, confidence_level: float) -> dict[str, Reading]:
        """Return the values with their intervals, clustered if there are clusters."""
        results = self.metrics.results(confidence_level)
        if self.clustered is not None:
            clustered = self.clustered.results(confidence_level).intervals
            results = results._replace(intervals={**results.intervals, **clustered})
        return read_results(self.metrics, results, keep_base=False, by_group=False)
