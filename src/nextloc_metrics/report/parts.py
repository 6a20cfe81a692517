"""The collections of metrics that an evaluation counts, by name, and which predictions they get."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from nextloc_metrics import analysis
from nextloc_metrics.analysis.f1_intervals import has_jackknife
from nextloc_metrics.core.base.collection import RankingCollection
from nextloc_metrics.core.base.grouped import ClusteredGroups, Grouped
from nextloc_metrics.core.base.mean import MeanMetric
from nextloc_metrics.core.base.ranking_metric import RankingMetric
from nextloc_metrics.core.queries.answers import ANSWERED, UNSEEN
from nextloc_metrics.core.queries.batch import Batch
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
from nextloc_metrics.report.internal_metrics import (
    LocationAnswers,
    accuracy_by_decile,
    answer_shares,
)
from nextloc_metrics.report.part import Feed, Parts
from nextloc_metrics.report.setting import CONFIDENCE, Setting, make_headline

# The kind of groups where each target is a group; no name of a user's groups begins so.
TARGET = "\0target"

# The collection that counts equal answers, for the intervals of F1.
LEFT_OUT = "left out"

# The collections for two orders of ties, and those that get other predictions.
BOUNDS: tuple[Ties, ...] = ("optimistic", "pessimistic")
AMONG_ANSWERED = "among answered"
CHANCE = "chance"
BASELINE = "most frequent"
FREQUENCIES = "training frequencies"


def make_table(setting: Setting) -> Parts:
    """Return the collections whose metrics are the rows of the first table."""
    further_metrics, probabilities = setting.further_metrics, cast("Any", setting.probabilities)
    ranked = {x: y for x, y in further_metrics.items() if y.record is Ranking}
    options: Any = {"locations": setting.locations, "if_one_target": "leave out"}
    collections = {
        "": make_headline(
            setting.num_ids, setting.has_several, setting.k, setting.measures, ranked, **options
        )
    }
    if probabilities == CONFIDENCE:
        collections["probabilities"] = confidence_metrics()
    elif probabilities:
        collections["probabilities"] = probability_metrics(
            given=probabilities, locations=setting.locations
        )
    others: dict[str, Any] = {x: y.clone() for x, y in further_metrics.items() if x not in ranked}
    collections["own"] = RankingCollection(others)
    if setting.answers:
        collections["answers"] = answer_shares(setting.k, UNSEEN not in setting.answers)
    return collections


def rows_of(table: Parts) -> list[tuple[str, Any]]:
    """Return name and metric of each row of the first table."""
    return [row for collection in table.values() for row in collection.named_members()]


def make_beside(setting: Setting, table: Parts) -> Parts:
    """Return the collections beside the first table that count the model's predictions.

    They count groups, clusters, answers for the intervals of F1, bounds over ties, the accuracy at
    each location for a map, and deciles. Sums of groups are by key.
    """
    rows = rows_of(table)
    means = {name: x for name, x in rows if isinstance(x, MeanMetric) and x.is_mean}
    cluster, members_of = setting.cluster, dict[str, dict[str, Any]]()
    for kind in setting.groups:
        make: Any = partial(Grouped, by=kind)
        if cluster not in (None, kind):
            make = partial(ClusteredGroups, by=kind, cluster=cluster)
        members_of[f"by {kind}"] = {name: make(x) for name, x in means.items()}
    if cluster is not None:
        make = partial(Grouped, by=cluster, average="queries")
        members_of["cluster"] = {name: make(x) for name, x in means.items()}
    members_of[LEFT_OUT] = {
        name: LocationAnswers(metric=x, cluster=cluster)
        for name, x in rows
        if isinstance(x, LocationTally) and has_jackknife(x)
    }
    for ties in BOUNDS:
        members_of[ties] = {
            name: type(x)(**{**x.options, "ties": ties})
            for name, x in means.items()
            if _has_ties(x)
        }
    if setting.locations is not None:
        members_of["map"] = {"acc_at_1": Grouped(AccuracyAtK(1), len(setting.locations), by=TARGET)}
    parts = {name: RankingCollection(members) for name, members in members_of.items()}
    if setting.bins is not None:
        deciles = decile_metrics(setting.bins, k=max(setting.k))
        if setting.has_decile_accuracy:
            first = accuracy_by_decile(setting.bins, setting.k)
            deciles = RankingCollection(dict([*first.named_members(), *deciles.named_members()]))
        parts["deciles"] = deciles.clustered(by=cluster) if cluster else deciles
    return parts


def make_references(setting: Setting, table: Parts) -> Iterator[tuple[Feed, Parts]]:
    """Yield a feed of other predictions, and the collections that count them.

    These are the answered queries alone; a random ranking, where queries differ in their
    candidates; and the training visits. Their likelihood adds one visit to each location.
    """
    headline, counts, places = table[""], setting.train_counts, setting.locations
    if setting.answers:
        yield _keep_answered, {AMONG_ANSWERED: deepcopy(headline)}
    if setting.candidates is not None and setting.chance_varies:
        yield _feed_of(torch.zeros(1, setting.candidates), places), {CHANCE: deepcopy(headline)}
    if counts is not None:
        yield _feed_of(analysis.most_frequent(counts, 1), places), {BASELINE: deepcopy(headline)}
        if setting.probabilities not in ("", CONFIDENCE):
            smoothed = (counts.double() + 1)[None]
            likelihood = likelihood_metrics(given="probabilities")
            yield _feed_of(smoothed / smoothed.sum(), None), {FREQUENCIES: likelihood}


def _feed_of(row: Tensor, locations: Locations | None) -> Feed:
    """Return the feed of one row of scores for all queries, -inf for ids without coordinates."""
    if locations is not None:
        missing = locations.missing()[: row.shape[1]].nonzero()[:, 0]
        row = row.index_fill(1, missing, -torch.inf)
    return partial(_rank_row, row)


def _rank_row(row: Tensor, batch: Batch, records: Records) -> Batch:
    return replace(batch, preds=row.expand(len(batch.target), -1), confidence=None, scores=None)


def _keep_answered(batch: Batch, records: Records) -> Batch:
    ranking: Ranking = records[Ranking]
    answered = ranking.queries.extra["answer"][:, 0] == ANSWERED
    return replace(batch, mask=answered & ranking.counted, confidence=None)


def _has_ties(metric: Any) -> bool:
    """Return whether a metric averages over ties, so that other `ties` are bounds of its value."""
    is_expected = isinstance(metric, RankingMetric) and metric.averages_ties
    return is_expected and hasattr(type(metric).__init__, "hands_on")
