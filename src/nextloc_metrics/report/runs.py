"""One run of a model of `compare`: the scores of its queries, its values, and its notes.

`count_run` reads predictions, and `join_runs` makes a model of several runs.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.analysis.contrast import contrast, sum_by
from nextloc_metrics.analysis.f1_intervals import Jackknife, answers_of, has_jackknife, jackknife
from nextloc_metrics.core.base.collection import RankingCollection
from nextloc_metrics.core.base.mean import MeanMetric
from nextloc_metrics.core.base.plan import Plan
from nextloc_metrics.core.base.scores import ScoreTable
from nextloc_metrics.core.display.reading import Reading
from nextloc_metrics.core.means import exact, intervals
from nextloc_metrics.core.queries.batch import ArrayRows
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.core.ranking.needs import Needs
from nextloc_metrics.core.ranking.ranking import Ranking
from nextloc_metrics.core.results.results import readings_of
from nextloc_metrics.metrics.location_f1 import LocationTally
from nextloc_metrics.report.card import count_rows, cut_by_lists, few_hits, note_lists
from nextloc_metrics.report.options import Options
from nextloc_metrics.report.part import Part
from nextloc_metrics.report.setting import Form, Setting, check_metrics, make_headline


class Model(NamedTuple):
    """The scores and values of a model with R runs of N queries."""

    columns: dict[str, Reading]  #: the values, means over runs, by metric
    members: list[tuple[str, Any]]  #: the metrics by name
    scores: dict[str, Any]  #: float64 `[R, N]`; NaN if a query is left out
    clusters: Tensor | None  #: the number of each query's cluster
    unit: float = 1 / exact.ONE  #: scores are rounded to multiples of it
    errors: Any = 0.0  #: rounding errors of scores that were passed, float64 `[N]`
    f1: Mapping[str, LocationTally] = {}  #: metrics that are tested by exchanged answers
    target: Any = None  #: the target of each query; where F1 is tested, -1 if it is left out
    decided: Sequence[Tensor] = ()  #: the decisions of each run, where F1 is tested
    stds: Mapping[str, float] = {}  #: the standard deviation of values over runs, by metric
    card: Mapping[str, Any] = {}  #: counts of queries, and notes on doubtful intervals
    notes: Sequence[str] = ()  #: notes on the length of lists
    cuts: Mapping[str, str] = {}  #: why metrics depend on the length of lists: `cut_by_lists`

    def clusters_of(self, kept: Any) -> Tensor | None:
        """Return the number of the cluster of each query that is kept; None without clusters."""
        return None if self.clusters is None else self.clusters[torch.from_numpy(kept)]


class Measures:
    """The metrics of runs of one form, their plan, and the setting that cards depend on."""

    def __init__(self, form: Form, options: Options) -> None:
        further_metrics: dict[str, Any] = check_metrics(options.metrics)
        _check_fractions("metrics", further_metrics)
        number = options.num_locations or form.candidates
        headline = make_headline(
            number, form.has_several, options.k, options.measures, further_metrics
        )
        self.members = members = dict[str, Any](headline.named_members())
        _check_fractions("measures", members)
        self.f1 = {
            x: y for x, y in members.items() if isinstance(y, LocationTally) and has_jackknife(y)
        }
        self.means = {x: y for x, y in members.items() if isinstance(y, MeanMetric) and y.is_mean}
        self.others = RankingCollection({x: y for x, y in members.items() if x not in self.means})
        self.plan = Plan([*members.values()])
        self.plan.needs[Ranking] |= Needs()  # the card needs all ranks
        setting = Setting.read(replace(options, metrics=None))
        self.setting = replace(setting, metrics=further_metrics, form=form)


def count_run(
    rows: ArrayRows, clusters: Tensor | None, options: Options, by_form: dict[Form, Measures]
) -> Model:
    """Score each query of one run by each metric, and update the metrics that are no means.

    Runs of one form share their metrics, which are made for the first of them.
    """
    level, form = options.confidence_level, Form.of(rows)
    if form not in by_form:
        by_form[form] = Measures(form, options)
    measures, card, longest = by_form[form], Counter[str](), 0
    measures.others.reset()
    parts: dict[str, list[Tensor]] = {key: [] for key in measures.means}
    answers: list[Tensor] = []
    for batch in rows.chunks():
        batch = replace(batch, groups=None, exempt_target=options.exempt_target).read()
        records = measures.plan.read(batch)
        ranking: Ranking = records[Ranking]
        counts, longest_of_batch = count_rows(measures.setting, batch, ranking)
        card.update(counts)
        longest = max(longest, longest_of_batch)
        measures.others.update(records)
        for key, scores_of_batch in _score_queries(records, measures.means):
            parts[key].append(scores_of_batch)
        if measures.f1:
            answers.append(torch.stack([ranking.relevant[:, 0], ranking.best]))
    scores = {key: torch.cat(x) for key, x in parts.items()}
    columns = readings_of(measures.others, level)
    of_lists = measures.setting, card, longest
    doubts: dict[str, str] = {}  # notes on values for which few groups have hits
    all_sums = sums_of(torch.stack([*scores.values()]), clusters)
    for (key, metric), sums in zip(measures.means.items(), all_sums, strict=True):
        estimate, better = mean_of(sums), metric.higher_is_better
        bounds = ends_of(estimate, level)
        columns[key] = Reading(float(estimate.mean), bounds, True, higher_is_better=better)
        if options.cluster is not None and (text := few_hits(sums, estimate, options.cluster)):
            doubts[f"interval_of_{key}"] = text
    beside: dict[str, Any] = {
        "card": {name: number for name, number in card.items() if name != "queries"} | doubts,
        "notes": note_lists(*of_lists, measures.members),
        "cuts": cut_by_lists(measures.members.items(), *of_lists),
    }
    columns = {name: columns[name] for name in measures.members}
    model = Model(columns, [*measures.members.items()], {}, clusters, **beside)
    target, decided = torch.cat(answers, 1) if answers else (rows.target, rows.target)
    return _with_f1(model, scores, measures.f1, (target, decided), level)


def _score_queries(
    records: Mapping[Any, Any], means: Mapping[str, MeanMetric]
) -> Iterator[tuple[str, Tensor]]:
    """Yield each metric with its scores of the queries of a batch; NaN if a query is left out."""
    for kind, record in records.items():
        table = ScoreTable(record)
        of_kind = {key: metric for key, metric in means.items() if metric.record is kind}
        table.add({metric._score_name: metric for metric in of_kind.values()})
        for key, metric in of_kind.items():
            scores, counted = table.of(metric._score_name)
            yield key, scores.clamp(0, 1).masked_fill(~counted, torch.nan)


def _with_f1(
    model: Model, scores: dict[str, Tensor], f1: Mapping[str, LocationTally],
    answers: tuple[Tensor, Tensor], level: float,
) -> Model:  # fmt: skip
    """Return the model with the scores, and with intervals and shares of F1."""
    target, decided = answers
    clusters = torch.arange(len(target)) if model.clusters is None else model.clusters
    for key, metric in f1.items():
        by_cluster = jackknife(metric, answers_of(target, decided, clusters, merge=False), True)
        jackknifed = by_cluster
        if model.clusters is None:  # equal answers are left out once, and counted as often
            jackknifed = jackknife(metric, answers_of(target, decided), False)
        bounds = ends_of(jackknifed.estimate(), level)
        model.columns[key] = model.columns[key]._replace(bounds=bounds)
        scores[key] = _shares_of_f1(by_cluster, target, clusters)
    cells = {x: y[None].numpy() for x, y in scores.items()}
    return model._replace(scores=cells, f1=f1, target=target, decided=[decided])


def _check_fractions(name: str, metrics: Mapping[str, Any]) -> None:
    """Raise for a metric whose scores are not in [0, 1], as comparisons need."""
    for metric in metrics.values():
        if isinstance(metric, Part) or metric.unit or metric.largest_value != 1:
            raise ValueError(
                f"`{name}` of a comparison must be fractions, got {short(metric)}; `evaluate` "
                "takes those with a unit."
            )


def ends_of(estimate: intervals.Estimate, level: float) -> tuple[float, float]:
    """Return the bounds of the interval."""
    low, high = estimate.interval(level)
    return float(low), float(high)


def _shares_of_f1(by_cluster: Jackknife, target: Tensor, clusters: Tensor) -> Tensor:
    """Return a score of each query: its first query has the share of a cluster in F1, others 0."""
    kept = (target >= 0).nonzero()[:, 0]
    first = torch.from_numpy(np.unique(clusters[kept].numpy(), return_index=True)[1])
    shares = torch.zeros(len(target), dtype=torch.float64).masked_fill_(target < 0, torch.nan)
    return shares.index_copy_(0, kept[first], by_cluster.shares())


def join_runs(runs: Sequence[Model], level: float) -> Model:
    """Return a model of several runs: values are means over them, with standard deviations."""
    if len(runs) == 1:
        return runs[0]
    first, decided = runs[0], [x for run in runs for x in run.decided]
    scores = {x: np.concatenate([run.scores[x] for run in runs]) for x in first.scores}
    columns, stds = dict[str, Reading](), dict[str, float]()
    for key, reading in first.columns.items():
        values, bounds = [run.columns[key].value for run in runs], None
        if key in scores:
            kept = ~np.isnan(scores[key]).any(0)
            units = np.floor(scores[key][:, kept] / first.unit + 0.5).astype(np.int64)
            sums, sizes = sum_by(first.clusters_of(kept), units)
            estimate = contrast([sums], sizes, first.unit).estimate()
            if key in first.f1:  # if a run has no interval, 0 is NaN; shares are no hits
                zero = 0 * sum(sum(run.columns[key].bounds or ()) for run in runs)
                estimate = estimate._replace(few=(), effective=estimate.effective + zero)
            bounds = ends_of(estimate, level)
        columns[key] = reading._replace(value=math.fsum(values) / len(runs), bounds=bounds)
        stds[key] = statistics.stdev(values)
    card, notes, cuts = Counter[str](), dict[str, None](), dict[str, str]()
    for run in runs:
        card.update({x: y for x, y in run.card.items() if isinstance(y, int)})
        notes |= dict.fromkeys(run.notes)
        cuts |= run.cuts
    beside: Any = {"card": card, "notes": [*notes], "cuts": cuts}
    return first._replace(columns=columns, scores=scores, decided=decided, stds=stds, **beside)


def sums_of(scores: Tensor, clusters: Tensor | None) -> Tensor:
    """Return the sums of scores, float64 `[..., N]`, by cluster or of all; NaN is left out."""
    kept = ~scores.isnan()
    if clusters is None:
        return exact.tally(scores, kept)
    return exact.tally_by(clusters, int(clusters.max()) + 1, scores, kept)


def mean_of(sums: Tensor) -> intervals.Estimate:
    """Return the mean of scores, of their sums from `sums_of`, as metrics compute it."""
    return intervals.of_queries(sums) if sums.ndim == 1 else intervals.of_clusters(sums)
