"""The parts of an evaluation: the collections of metrics that are counted, and what each ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, get_args

import torch
from torch import Tensor

from nextloc_metrics import analysis
from nextloc_metrics.analysis.f1_intervals import has_jackknife
from nextloc_metrics.core.metric.collection import RankingCollection
from nextloc_metrics.core.metric.grouped import Average, Grouped, Weighted
from nextloc_metrics.core.metric.mean import MeanMetric
from nextloc_metrics.core.metric.ranking_metric import RankingMetric
from nextloc_metrics.core.queries.answers import ANSWERED, UNSEEN
from nextloc_metrics.core.queries.batch import Batch, GroupLabels
from nextloc_metrics.core.queries.record import Records
from nextloc_metrics.core.ranking.ranking import Ranking, Ties
from nextloc_metrics.geography import Locations
from nextloc_metrics.metrics.at_k import AccuracyAtK
from nextloc_metrics.metrics.location_f1 import LocationTally
from nextloc_metrics.metrics.presets import (
    confidence_metrics,
    decile_metrics,
    likelihood_metrics,
    probability_metrics,
)
from nextloc_metrics.report.answers import answer_shares
from nextloc_metrics.report.clustered import ClusteredGroups
from nextloc_metrics.report.location_answers import LocationAnswers
from nextloc_metrics.report.setting import CONFIDENCE, Data, Setting, check_free, make_headline

# The parts of `make_rows`.
ROWS = ("", "probabilities", "own", "answers")

# The kind of groups that the targets are; no name of a user's groups begins so.
TARGET = "\0target"

# Counts of answers, for the interval of F1.
LEFT_OUT = "left out"

# The references: a ranking by the training visits of all users, and its accuracy for each user.
BASELINE = "most frequent"
BASELINE_BY_USER = "most frequent, by user"

# The same values of the queries that have an answer.
AMONG_ANSWERED = "among answered"

# The reference of probabilities: the training visits, plus one for each location.
FREQUENCIES = "training frequencies"

#: Collections of metrics by name; none where a part does not apply.
Parts = dict[str, RankingCollection]


class Known(NamedTuple):
    """What decides which parts an evaluation has."""

    setting: Setting
    labels: Mapping[str, GroupLabels]
    data: Data


class Ranked(NamedTuple):
    """Parts that rank the same: predictions, the answers among them, or one row for all queries."""

    parts: Parts
    row: Tensor | None = None

    def in_place_of(self, batch: Batch, records: Records) -> Batch:
        """Return the queries of a batch with what is ranked here, without confidences."""
        if self.row is not None:
            scores = self.row.expand(len(batch.target), -1)
            return replace(batch, preds=scores, confidence=None)
        ranking: Ranking = records[Ranking]
        answered = ranking.queries.extra["answer"][:, 0] == ANSWERED
        return replace(batch, mask=answered & ranking.counted, confidence=None)


def rank(known: Known) -> list[Ranked]:
    """Return all parts: first those of the predictions, then the references."""
    rows = make_rows(known.setting, known.data)
    of_model = dict(rows)
    for make in OF_MODEL:
        of_model |= make(known, rows)
    return [Ranked(of_model), *_make_references(known, rows[""])]


def make_rows(setting: Setting, data: Data) -> dict[str, RankingCollection]:
    """Make the metrics that have a row in the table of all queries, by part.

    With weights, each mean of scores is a weighted one, and other metrics are left out.
    """
    own = data.metrics
    ranked = {x: y for x, y in own.items() if y.record is Ranking and not y.needs.scores}
    others: Any = {x: y.clone() for x, y in own.items() if x not in ranked}
    options = setting.num_locations, setting.k, setting.measures, ranked
    likely = answered = RankingCollection({})
    if setting.probabilities == CONFIDENCE:
        likely = confidence_metrics()
    elif setting.probabilities:
        likely = probability_metrics(given=setting.probabilities, locations=data.locations)
    if setting.answers:
        answered = answer_shares(setting.k, UNSEEN not in setting.answers)
    parts = {
        "": make_headline(*options, locations=data.locations, km=setting.km),
        "probabilities": likely,
        "own": RankingCollection(others),
        "answers": answered,
    }
    if setting.is_weighted:
        parts = {name: _weigh(part) for name, part in parts.items()}
    for name, further in {"probabilities": own, "": others, "answers": own}.items():
        check_free(parts[name], further)
    return parts


def _weigh(metrics: RankingCollection) -> RankingCollection:
    """Return the weighted means of a collection's means of scores, without its other metrics."""
    means = {name: x for name, x in metrics.named_members() if isinstance(x, MeanMetric)}
    return RankingCollection({name: Weighted(x) for name, x in means.items() if x._averages_scores})


def _make_ties(known: Known, rows: Parts) -> Parts:
    """Make the rows with tied relevant locations last, and first."""
    orders = [ties for ties in get_args(Ties) if ties != "expected"]
    made = {of: {x: _with_ties(y, of) for x, y in _means(rows).items()} for of in orders}
    return {of: RankingCollection({x: y for x, y in x.items() if y}) for of, x in made.items()}


def _make_groups(known: Known, rows: Parts) -> Parts:
    """Make the means of each group, and those of clusters, from which intervals follow."""
    labels, cluster, means = known.labels, known.setting.cluster, _means(rows)

    def grouped(kind: str, average: Average | None = None) -> RankingCollection:
        make: Any = partial(Grouped, average=average, by=kind, labels=labels[kind])
        if average is None and cluster not in (None, kind):
            clusters: Any = {"cluster": cluster, "num_clusters": len(labels[cluster])}
            make = partial(ClusteredGroups, by=kind, labels=labels[kind], **clusters)
        return RankingCollection({key: make(x) for key, x in means.items()})

    parts = {f"by {kind}": grouped(kind) for kind, names in labels.items() if len(names)}
    if cluster is not None and len(labels[cluster]):
        parts["cluster"] = grouped(cluster, "queries")
    return parts


def _make_left_out(known: Known, rows: Parts) -> Parts:
    """Make the counts for the interval of F1, for each row that has one."""
    cluster, members = known.setting.cluster, [x for y in rows.values() for x in y.named_members()]
    if cluster is not None and not len(known.labels[cluster]):
        return {}
    tallies = {name: x for name, x in members if isinstance(x, LocationTally) and has_jackknife(x)}
    found = {name: LocationAnswers(metric=x, cluster=cluster) for name, x in tallies.items()}
    return {LEFT_OUT: RankingCollection(found)} if found else {}


def _make_map(known: Known, rows: Parts) -> Parts:
    """Make the accuracy at each location, for the map of a page."""
    locations, setting = known.data.locations, known.setting
    if locations is None or setting.num_locations is None or setting.is_weighted:
        return {}
    by_location = Grouped(AccuracyAtK(1), len(locations), by=TARGET)
    return {"map": RankingCollection({"acc_at_1": by_location})}


def _make_deciles(known: Known, rows: Parts) -> Parts:
    """Make the metrics by popularity of the target."""
    bins, setting = known.data.bins, known.setting
    if bins is None or setting.is_weighted:
        return {}
    made, cluster = decile_metrics(bins, k=max(setting.k)), setting.cluster
    if cluster:
        made = made.clustered(max(1, len(known.labels[cluster])), by=cluster)
    return {"deciles": made}


def _make_ceiling(known: Known, rows: Parts, name: str = "ceiling") -> Parts:
    """Make the accuracy of each user, if users have limits."""
    kind, setting = known.setting.by_user, known.setting
    if known.data.limits is None or not len(known.labels.get(kind, ())):
        return {}
    metric: Any = Weighted(AccuracyAtK(1)) if setting.is_weighted else AccuracyAtK(1)
    by_user = Grouped(metric, average="groups", by=kind, labels=known.labels[kind])
    return {name: RankingCollection({"acc_at_1": by_user})}


#: What makes the parts beside the rows of the table, in the order of files.
OF_MODEL: tuple[Callable[[Known, Parts], Parts], ...] = (
    _make_ties,
    _make_groups,
    _make_left_out,
    _make_map,
    _make_deciles,
    _make_ceiling,
)


def _make_references(known: Known, headline: RankingCollection) -> list[Ranked]:
    """Make the same metrics of other rankings: by training visits, by chance, of the answered."""
    setting, counts, locations = known.setting, known.data.train_counts, known.data.locations
    found = []
    if counts is not None:
        row = _without_missing(analysis.most_frequent(counts, 1), locations)
        by_user = _make_ceiling(known, {}, BASELINE_BY_USER)
        found.append(Ranked({BASELINE: deepcopy(headline), **by_user}, row))
    if setting.chance_varies and setting.candidates is not None:
        row = _without_missing(torch.zeros(1, setting.candidates), locations)
        found.append(Ranked({"chance": deepcopy(headline)}, row))
    if setting.answers:
        found.append(Ranked({AMONG_ANSWERED: deepcopy(headline)}))
    is_likely = setting.probabilities not in ("", CONFIDENCE)
    if counts is not None and is_likely and not setting.is_weighted:
        smoothed = counts.double() + 1
        likely = {FREQUENCIES: likelihood_metrics(given="probabilities")}
        found.append(Ranked(likely, (smoothed / smoothed.sum())[None]))
    return found


def _without_missing(row: Tensor, locations: Locations | None) -> Tensor:
    """Exclude ids without coordinates, such as padding, which are no candidates."""
    if locations is None:
        return row
    missing = locations.missing()[: row.shape[1]].nonzero()[:, 0]
    return row.index_fill(1, missing, -torch.inf)


def _means(rows: Parts) -> dict[str, Any]:
    """Return the metrics of rows that average scores."""
    members = [member for part in rows.values() for member in part.named_members()]
    return {name: x for name, x in members if isinstance(x, MeanMetric) and x._averages_scores}


def _with_ties(metric: Any, ties: Ties) -> Any:
    """Return a metric of this library with other ties; None for one that reads none."""
    if isinstance(metric, Weighted):
        found = _with_ties(metric.metric, ties)
        return Weighted(found) if found else None
    if not isinstance(metric, RankingMetric) or not metric._is_ours or metric._of_decision:
        return None
    options = {name: getattr(metric, name) for name in metric._options if name != "ties"}
    return type(metric)(**options, ties=ties)
