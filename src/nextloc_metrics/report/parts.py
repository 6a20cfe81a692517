"""What an evaluation counts: collections of metrics by name, and what each of them ranks."""

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

# The kind of groups that the targets are; no name of a user's groups begins so.
TARGET = "\0target"

# The collection of counts of answers, for the interval of F1.
LEFT_OUT = "left out"

# The collections for ties in two orders, and those of other rankings.
BOUNDS: tuple[Ties, ...] = ("optimistic", "pessimistic")
AMONG_ANSWERED = "among answered"
CHANCE = "chance"
BASELINE = "most frequent"
FREQUENCIES = "training frequencies"


def make_table(known: Setting) -> Parts:
    """Return the collections whose metrics are the rows of the first table."""
    own, given = known.further_metrics, cast("Any", known.probabilities)
    ranked = {x: y for x, y in own.items() if y.record is Ranking}
    options: Any = {"locations": known.locations, "if_one_target": "leave out"}
    found = {
        "": make_headline(
            known.num_ids, known.has_several, known.k, known.measures, ranked, **options
        )
    }
    if given == CONFIDENCE:
        found["probabilities"] = confidence_metrics()
    elif given:
        found["probabilities"] = probability_metrics(given=given, locations=known.locations)
    others: dict[str, Any] = {x: y.clone() for x, y in own.items() if x not in ranked}
    found["own"] = RankingCollection(others)
    if known.answers:
        found["answers"] = answer_shares(known.k, UNSEEN not in known.answers)
    return found


def make_beside(known: Setting, table: Parts) -> Parts:
    """Return what is counted of the model's predictions beside the first table.

    These are groups, clusters, answers for the interval of F1, bounds over ties, the accuracy at
    each location for a map, and deciles. The sums of groups are by key.
    """
    members: list[tuple[str, Any]] = [row for of in table.values() for row in of.named_members()]
    means = {name: x for name, x in members if isinstance(x, MeanMetric) and x.is_mean}
    cluster, found = known.cluster, dict[str, dict[str, Any]]()
    for kind in known.groups:
        make: Any = partial(Grouped, by=kind)
        if cluster not in (None, kind):
            make = partial(ClusteredGroups, by=kind, cluster=cluster)
        found[f"by {kind}"] = {name: make(x) for name, x in means.items()}
    if cluster is not None:
        make = partial(Grouped, by=cluster, average="queries")
        found["cluster"] = {name: make(x) for name, x in means.items()}
    found[LEFT_OUT] = {
        name: LocationAnswers(metric=x, cluster=cluster)
        for name, x in members
        if isinstance(x, LocationTally) and has_jackknife(x)
    }
    for ties in BOUNDS:
        found[ties] = {
            name: type(x)(**{**x.options, "ties": ties})
            for name, x in means.items()
            if _has_ties(x)
        }
    if known.locations is not None:
        found["map"] = {"acc_at_1": Grouped(AccuracyAtK(1), len(known.locations), by=TARGET)}
    parts = {name: RankingCollection(of) for name, of in found.items()}
    if known.bins is not None:
        deciles = decile_metrics(known.bins, k=max(known.k))
        if known.has_decile_accuracy:
            first = accuracy_by_decile(known.bins, known.k)
            deciles = RankingCollection(dict([*first.named_members(), *deciles.named_members()]))
        parts["deciles"] = deciles.clustered(by=cluster) if cluster else deciles
    return parts


def make_references(known: Setting, table: Parts) -> Iterator[tuple[Feed, Parts]]:
    """Yield what is ranked in place of the model's predictions, and the collections that count it.

    The queries with an answer; a random ranking, where queries differ in their candidates; and the
    training visits of all users, whose likelihood has one more visit to each location.
    """
    headline, counts, places = table[""], known.train_counts, known.locations
    if known.answers:
        yield _keep_answered, {AMONG_ANSWERED: deepcopy(headline)}
    if known.candidates is not None and known.chance_varies:
        yield _of_row(torch.zeros(1, known.candidates), places), {CHANCE: deepcopy(headline)}
    if counts is not None:
        yield _of_row(analysis.most_frequent(counts, 1), places), {BASELINE: deepcopy(headline)}
        if known.probabilities not in ("", CONFIDENCE):
            smoothed = (counts.double() + 1)[None]
            likely = likelihood_metrics(given="probabilities")
            yield _of_row(smoothed / smoothed.sum(), None), {FREQUENCIES: likely}


def _of_row(row: Tensor, locations: Locations | None) -> Feed:
    """Return what ranks all queries by one row of scores, without confidences.

    Ids without coordinates, such as padding, are no candidates.
    """
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
    """Whether other `ties` of a metric are bounds of its score, an expectation over ties."""
    is_expected = isinstance(metric, RankingMetric) and metric.averages_ties
    return is_expected and hasattr(type(metric).__init__, "hands_on")
