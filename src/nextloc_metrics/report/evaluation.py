"""One call from predictions to the numbers that a paper reports, and to how they came about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, get_args

from torch import Tensor

from nextloc_metrics import analysis
from nextloc_metrics.arrays import Array, as_tensor
from nextloc_metrics.collection import RankingCollection
from nextloc_metrics.families.grouped import Average, Grouped
from nextloc_metrics.families.popularity import PopularityBins
from nextloc_metrics.intervals import check_confidence
from nextloc_metrics.metric import RankingMetric
from nextloc_metrics.plan import Plan
from nextloc_metrics.presets import decile_metrics
from nextloc_metrics.ranking import Ranking
from nextloc_metrics.record import Ties
from nextloc_metrics.report.data import Kind, check_cluster, make_headline, read_data
from nextloc_metrics.report.readings import Reading, read_results
from nextloc_metrics.report.tables import Table, of_readings

Interval = tuple[float, float]


@dataclass(repr=False)
class Evaluation:
    """What `evaluate` has found; `print` it for the headline.

    Attributes:
        values: every metric's value, a fraction.
        intervals: the bounds around every mean of scores.
        chance: the expected value for a random ranking, where all candidates are ranked.
        baseline: the values of ranking everybody by the visits in the training data.
        skill: how far a value is on the way from that baseline to perfect.
        ties: the values where tied relevant locations come last, and where they come first.
        groups: of every kind of groups, the values, intervals and sizes as a table.
        deciles: the decile metrics, as a table.
        card: how the numbers came about: a dict of what was counted, and of what was left out.
        table: the headline.
    """

    values: dict[str, float]
    intervals: dict[str, Interval]
    card: dict[str, Any]
    table: Table
    chance: dict[str, float] = field(default_factory=dict)
    baseline: dict[str, float] = field(default_factory=dict)
    skill: dict[str, float] = field(default_factory=dict)
    ties: dict[str, Interval] = field(default_factory=dict)
    groups: dict[str, Table] = field(default_factory=dict)
    deciles: Table | None = None

    def to_pandas(self) -> Any:
        """Return the headline as a `pandas.DataFrame`, a row for every metric."""
        return self.table.to_pandas()

    def to_markdown(self) -> str:
        """Write the headline, every table, and the card for a page in Markdown."""
        parts = [self.table.to_markdown()]
        parts += [f"By {name}:\n\n{table.to_markdown()}" for name, table in self.groups.items()]
        if self.deciles is not None:
            parts.append(f"By popularity of the target:\n\n{self.deciles.to_markdown()}")
        rows = [[name.replace("_", " "), _written(value)] for name, value in self.card.items()]
        return "\n\n".join([*parts, Table(["protocol", ""], rows).to_markdown()])

    def __repr__(self) -> str:
        lines = [f"{name.replace('_', ' ')}: {_written(x)}" for name, x in self.card.items()]
        return "\n".join([str(self.table), *lines])


def evaluate(
    preds: Array,
    target: Array,
    *,
    k: int | Sequence[int] = (1, 5, 10),
    mask: Array | None = None,
    groups: Mapping[str, Array] | None = None,
    cluster: str | None = None,
    bins: PopularityBins | None = None,
    train_counts: Array | None = None,
    exclude: Array | None = None,
    exempt_target: bool = False,
    num_locations: int | None = None,
    confidence: float = 0.95,
) -> Evaluation:
    """Evaluate predictions: headline with intervals, chance, groups, deciles, ties, protocol.

    They are read in chunks, so that a memory-mapped array of scores is never in memory whole.

    Args:
        preds: floating `[N, C]`, scores of all candidates; or integer `[N, K]`, lists of ids.
        target: integer `[N]`, one relevant location per query, or `[N, M]`, several.
        k: the cut-offs.
        mask: bool `[N]`, False leaves a query out.
        groups: by name, every query's group, numbers or text: `{"user": users}`.
        cluster: of which of these groups the queries depend on each other; intervals are then
            those of groups drawn at random, and of queries otherwise.
        bins: every location's popularity bin, for the decile metrics; None makes ten of
            `train_counts`, where these are given.
        train_counts: integer `[C]`, the visits of every location in the training data.
        exclude: as for `RankingMetric.update`.
        exempt_target: as for `RankingMetric.update`.
        num_locations: how many ids there are; None for the candidates of scores, and for lists the
            largest target, which leaves weighted F1 the same.
        confidence: how often the intervals hold the true mean.

    Raises:
        TypeError: an argument cannot be read.
        ValueError: shapes do not fit, a value is out of range, or `cluster` names no groups.

    Example:
        >>> import numpy as np
        >>> from nextloc_metrics import report
        >>> scores = np.array([[0.1, 0.7, 0.2], [0.4, 0.3, 0.3], [0.2, 0.2, 0.6], [0.5, 0.4, 0.1]])
        >>> e = report.evaluate(scores, [1, 1, 2, 0], k=1, groups={"user": ["a", "a", "b", "b"]})
        >>> e.values["acc_at_1"], e.chance["acc_at_1"]
        (0.75, 0.3333333333333333)
        >>> e.groups["user"]
        percent        value    95 % interval  queries
        acc_at_1, a    50.00    9.45 -  90.55        2
        acc_at_1, b   100.00   34.24 - 100.00        2
        mrr, a         70.83   20.27 -  95.87        2
        mrr, b        100.00   34.24 - 100.00        2
        ndcg_at_1, a   50.00    9.45 -  90.55        2
        ndcg_at_1, b  100.00   34.24 - 100.00        2
        4 queries counted
    """
    check_confidence(confidence)
    data = read_data(preds, target, groups, {"mask": mask, "exclude": exclude})
    check_cluster(cluster, data)
    counts = None if train_counts is None else as_tensor("train_counts", train_counts)
    if bins is None and counts is not None:
        bins = PopularityBins.from_counts(counts)
    headline = make_headline(data, num_locations, counts, k)
    parts = {"": headline} | _parts(headline, data.kinds, cluster)
    if bins is not None:
        parts["deciles"] = decile_metrics(bins, k=k if isinstance(k, int) else max(k))
    plan = Plan([member for part in parts.values() for _, member in part.named_members()])
    baseline = None if counts is None else deepcopy(headline)
    card = _Card(data.is_scores, num_locations, counts)
    for batch in data.chunks():
        ranking = plan.rank(
            batch.preds,
            batch.target,
            batch.options.get("mask"),
            batch.groups or None,
            batch.options.get("exclude"),
            exempt_target,
        )
        for part in parts.values():
            part.update(ranking)
        card.add(batch.preds, batch.target, ranking)
        if baseline is not None and counts is not None:
            scores = analysis.most_frequent(counts, len(batch.target))
            baseline.update(scores, batch.target, **batch.options, exempt_target=exempt_target)
    chance = {}
    if data.is_scores and data.target.ndim == 1:  # every query has one relevant location
        chance = analysis.chance(headline, data.width)
    written = card.as_dict(data.width if data.is_scores else None, cluster, confidence)
    return _evaluation(parts, chance, baseline, written, confidence)


def _parts(
    headline: RankingCollection, kinds: Mapping[str, Kind], cluster: str | None
) -> dict[str, RankingCollection]:
    """Make what is counted beside the headline, of the same means of scores."""
    means = {
        name: member
        for name, member in headline.named_members()
        if isinstance(member, RankingMetric) and member.averages_scores
    }

    def grouped(name: str, average: Average | None = None) -> RankingCollection:
        labels = kinds[name].labels
        return RankingCollection(
            {key: Grouped(x, average=average, by=name, labels=labels) for key, x in means.items()}
        )

    parts = {
        ties: RankingCollection({name: _with_ties(x, ties) for name, x in means.items()})
        for ties in get_args(Ties)
        if ties != "expected"
    }
    parts |= {f"by {name}": grouped(name) for name, kind in kinds.items() if len(kind.labels)}
    if cluster is not None and len(kinds[cluster].labels):
        parts["cluster"] = grouped(cluster, "queries")
    return parts


def _with_ties(metric: RankingMetric, ties: Ties) -> RankingMetric:
    options = {name: getattr(metric, name) for name in metric._options if name != "ties"}
    return type(metric)(**options, ties=ties)


class _Card:
    """Counts how many queries there are of every kind that a reader should know of."""

    def __init__(self, is_scores: bool, num_locations: int | None, counts: Tensor | None) -> None:
        self.is_scores, self.num_locations, self.train_counts = is_scores, num_locations, counts
        self.counts: Counter[str] = Counter()

    def add(self, preds: Tensor, target: Tensor, ranking: Ranking) -> None:
        """Count in one batch."""
        counted = ranking.counted
        self.counts["queries"] += len(ranking)
        self.counts["left_out"] += int((~counted).sum())
        self.counts["without_target"] += int((counted & (ranking.num_relevant == 0)).sum())
        self.counts["tied"] += int(((ranking.tied > 1).any(1) & counted).sum())
        if self.train_counts is not None:
            known = (target >= 0) & (target < len(self.train_counts))
            unseen = known & (self.train_counts[target.clamp(0, len(self.train_counts) - 1)] == 0)
            rows = (unseen | (target >= len(self.train_counts))).reshape(len(ranking), -1).any(1)
            self.counts["unseen_targets"] += int((rows & counted).sum())
        if self.is_scores:
            self.counts["rows_with_nan"] += int((preds.isnan().any(1) & counted).sum())
            constant = (preds == preds[:, :1]).all(1) & counted
            self.counts["constant_rows"] += int(constant.sum())
        else:
            in_order = preds.sort(dim=1).values
            repeated = (in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0)
            self.counts["lists_with_repeats"] += int((repeated.any(1) & counted).sum())
            self.counts["short_lists"] += int(((preds < 0).any(1) & counted).sum())
            if self.num_locations is not None:
                invented = (preds >= self.num_locations).any(1) & counted
                self.counts["lists_with_other_ids"] += int(invented.sum())

    def as_dict(
        self, candidates: int | None, cluster: str | None, confidence: float
    ) -> dict[str, Any]:
        """Return the card."""
        queries = self.counts["queries"]
        dirt = {name: number for name, number in self.counts.items() if name != "queries"}
        return {
            "queries": queries,
            "candidates": candidates,
            **dirt,
            "averaged_over": "queries",
            "intervals": f"{100 * confidence:g} %, queries independent"
            if cluster is None
            else f"{100 * confidence:g} %, clustered by {cluster}",
            "ties": "expected value over random orders",
        }


def _evaluation(
    parts: Mapping[str, RankingCollection],
    chance: dict[str, float],
    baseline: RankingCollection | None,
    card: dict[str, Any],
    confidence: float,
) -> Evaluation:
    """Read what was counted."""
    headline = parts[""]
    results = headline.results(confidence)
    if "cluster" in parts:
        intervals = parts["cluster"].results(confidence).intervals
        results = results._replace(intervals={**results.intervals, **intervals})
    values = {name: float(value) for name, value in results.values.items()}
    columns = {"value": read_results(headline, results, False, False)}
    if chance:
        columns["chance"] = _column(columns["value"], chance)
    simple: dict[str, float] = {}
    if baseline is not None:
        simple = {name: float(value) for name, value in baseline.compute().items()}
        columns["most frequent"] = _column(columns["value"], simple)
    bounds = [parts[ties].compute() for ties in ("pessimistic", "optimistic")]
    groups = {
        name.removeprefix("by "): part.table(intervals=True, confidence=confidence)
        for name, part in parts.items()
        if name.startswith("by ")
    }
    return Evaluation(
        values=values,
        intervals={
            name: (float(low), float(high)) for name, (low, high) in results.intervals.items()
        },
        card=card,
        table=of_readings(columns, confidence),
        chance=chance,
        baseline=simple,
        skill={name: analysis.skill(values[name], x) for name, x in simple.items()},
        ties={name: (float(bounds[0][name]), float(bounds[1][name])) for name in bounds[0]},
        groups=groups,
        deciles=parts["deciles"].table() if "deciles" in parts else None,
    )


def _column(readings: Mapping[str, Reading], values: Mapping[str, float]) -> dict[str, Reading]:
    return {
        name: reading._replace(value=values[name], bounds=None)
        for name, reading in readings.items()
        if name in values
    }


def _written(value: Any) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
