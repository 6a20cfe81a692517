"""The parts of an evaluation, in the order of a page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from nextloc_metrics import analysis
from nextloc_metrics.analysis.f1_intervals import has_jackknife
from nextloc_metrics.core.display.page import show_meanings, show_sentence
from nextloc_metrics.core.display.reading import Reading
from nextloc_metrics.core.metric.collection import RankingCollection
from nextloc_metrics.core.metric.grouped import Average, Grouped
from nextloc_metrics.core.metric.mean import MeanMetric
from nextloc_metrics.core.metric.ranking_metric import RankingMetric
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
from nextloc_metrics.report.by_group import queries_of_deciles
from nextloc_metrics.report.evaluation_metrics import ClusteredGroups, answer_shares
from nextloc_metrics.report.location_answers import LocationAnswers
from nextloc_metrics.report.pages.sections import (
    show_deciles,
    show_distances,
    show_groups,
    show_headline,
    show_probabilities,
    show_ties,
)
from nextloc_metrics.report.part import Feed, Part, Parts, Row
from nextloc_metrics.report.setting import CONFIDENCE, Setting, make_headline

# The kind of groups that the targets are; no name of a user's groups begins so.
TARGET = "\0target"

# The collection of counts of answers, for the interval of F1.
LEFT_OUT = "left out"

# The parts of rows beside those of the model.
AMONG_ANSWERED = "among answered"
CHANCE = "chance"
BASELINE = "most frequent"


class InnerPart(Part):
    """A part that is shown with the first table or by a picture: it has no table of its own."""

    def values(self, counted: Any) -> Mapping[str, Any]:
        """Return the values beside those of the first table, by metric."""
        return {}

    def rows(self, counted: Any, table: Mapping[str, Reading]) -> Iterator[Row]:
        for name, value in self.values(counted).items():
            reading = table.get(name, Reading(math.nan, None, is_fraction=False))
            yield Row(self.title, name, "", reading._replace(value=float(value), bounds=None))

    def sections(self, evaluation: Any) -> dict[str, str]:
        return {}


class TablePart(InnerPart):
    """A part whose values are rows of the first table."""

    title = "value"
    _is_in_table: ClassVar[bool] = True
    name: ClassVar[str]  # of the collection

    def make(self, known: Setting, rows: Parts) -> Parts:
        return {self.name: self._of_table(known)}

    def _of_table(self, known: Setting) -> RankingCollection:
        raise NotImplementedError

    def rows(self, counted: Any, table: Mapping[str, Reading]) -> Iterator[Row]:
        for name, _ in counted.parts[self.name].named_members():
            if name in table:
                yield Row(self.title, name, "", table[name])


class HeadlinePart(TablePart):
    """The metrics of ranks and decisions."""

    name = ""

    def _of_table(self, known: Setting) -> RankingCollection:
        ranked, _ = _own_of(known)
        options = known.num_locations, known.k, known.measures, ranked
        return make_headline(*options, if_one_target="leave out", locations=known.locations)

    def sections(self, evaluation: Any) -> dict[str, str]:
        counted = evaluation._counted
        columns, level = evaluation.columns, counted.setting.confidence_level
        shown = [(name, metric) for name, metric in counted.rows() if name in evaluation.values]
        return {
            "Result": show_sentence(evaluation._sentence())
            + show_headline(columns, evaluation.table, evaluation.skill, level)
            + show_meanings(shown)
        }


class GroupsPart(Part):
    """The means of each group, and those of clusters, from which intervals follow."""

    def make(self, known: Setting, rows: Parts) -> Parts:
        cluster, means = known.cluster, _means(rows)

        def grouped(kind: str, average: Average | None = None) -> RankingCollection:
            # the number of groups grows with those that are counted
            make: Any = partial(Grouped, num_groups=1, by=kind, average=average)
            if average is None and cluster not in (None, kind):
                make = partial(ClusteredGroups, num_groups=1, by=kind, cluster=cluster)
            return RankingCollection({key: make(x) for key, x in means.items()})

        parts = {f"by {kind}": grouped(kind) for kind in known.groups}
        return parts if cluster is None else {**parts, "cluster": grouped(cluster, "queries")}

    def rows(self, counted: Any, table: Mapping[str, Reading]) -> Iterator[Row]:
        for kind in counted.kinds:
            for _, *columns in counted.columns_of(kind):
                for group, metric, value, low, high, number in zip(*columns, strict=True):
                    reading = table[metric]._replace(value=value, bounds=(low, high), number=number)
                    yield Row(f"by {kind}", metric, group, reading)

    def sections(self, evaluation: Any) -> dict[str, str]:
        counted, found = evaluation._counted, {}
        for kind, table in evaluation.groups.items():
            notes, level = counted.note_intervals(kind), counted.setting.confidence_level
            members = counted.parts[f"by {kind}"]
            found[f"By {kind}"] = show_groups(kind, notes, members, table, level)
        return found


class LeftOutPart(InnerPart):
    """The counts of answers from which the intervals of F1 are read."""

    def make(self, known: Setting, rows: Parts) -> Parts:
        cluster, every = known.cluster, rows.values()
        members: list[Any] = [row for part in every for row in part.named_members()]
        found = {
            name: LocationAnswers(metric=one, cluster=cluster)
            for name, one in members
            if isinstance(one, LocationTally) and has_jackknife(one)
        }
        return {LEFT_OUT: RankingCollection(found)}


class MapPart(InnerPart):
    """The accuracy at each location, for the map of a page."""

    def applies(self, known: Setting) -> bool:
        return known.locations is not None and known.num_locations is not None

    def make(self, known: Setting, rows: Parts) -> Parts:
        number = len(known.locations or ())
        by_location = Grouped(AccuracyAtK(1), number, by=TARGET)
        return {"map": RankingCollection({"acc_at_1": by_location})}

    def groups(self, batch: Batch) -> dict[str, Tensor]:
        return {TARGET: batch.target}

    def sections(self, evaluation: Any) -> dict[str, str]:
        counted = evaluation._counted
        by_location, locations = counted.parts["map"]["acc_at_1"], counted.setting.locations
        return {"Distance": show_distances(by_location, locations, counted.headline)}


class DecilesPart(Part):
    """The metrics by popularity of the target."""

    title = "By popularity of the target"

    def applies(self, known: Setting) -> bool:
        return known.bins is not None

    def make(self, known: Setting, rows: Parts) -> Parts:
        assert known.bins is not None  # it applies
        made = decile_metrics(known.bins, k=max(known.k))
        if cluster := known.cluster:
            made = made.clustered(1, by=cluster)  # which grows with the groups
        return {"deciles": made}

    def sections(self, evaluation: Any) -> dict[str, str]:
        counted, table = evaluation._counted, evaluation.deciles
        assert table is not None
        notes, level = counted.note_intervals(), counted.setting.confidence_level
        deciles = counted.parts["deciles"]
        numbers = list(queries_of_deciles(deciles).values())
        return {self.title: show_deciles(deciles, numbers, table, notes, level)}


class ProbabilitiesPart(TablePart):
    """The metrics of probabilities, or of the confidence of lists."""

    name = "probabilities"

    def applies(self, known: Setting) -> bool:
        return bool(known.probabilities)

    def _of_table(self, known: Setting) -> RankingCollection:
        given: Any = known.probabilities
        if given == CONFIDENCE:
            return confidence_metrics()
        return probability_metrics(given=given, locations=known.locations)

    def sections(self, evaluation: Any) -> dict[str, str]:
        counted = evaluation._counted
        metrics, level = counted.parts[self.name], counted.setting.confidence_level
        return {"Probabilities": show_probabilities(metrics, level)}


class FurtherPart(TablePart):
    """The user's metrics that do not read ranks alone."""

    name = "own"

    def _of_table(self, known: Setting) -> RankingCollection:
        _, others = _own_of(known)
        return RankingCollection({name: metric.clone() for name, metric in others.items()})


class AnswerSharesPart(TablePart):
    """How many answers of a language model were read."""

    name = "answers"

    def applies(self, known: Setting) -> bool:
        return bool(known.answers)

    def _of_table(self, known: Setting) -> RankingCollection:
        return answer_shares(known.k, UNSEEN not in known.answers)


class ReferencePart(InnerPart):
    """The metrics of the first table for another ranking: columns beside the model's values."""

    def make(self, known: Setting, rows: Parts) -> Parts:
        return {self.title: deepcopy(rows[""])}

    def values(self, counted: Any) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        for collection in counted.made[self].values():
            found |= collection.compute()
        return found


class TiesPart(ReferencePart):
    """The rows with tied relevant locations last, or first."""

    def __init__(self, ties: Ties) -> None:
        self.title = self.ties = ties

    def make(self, known: Setting, rows: Parts) -> Parts:
        made = {name: _with_ties(one, self.ties) for name, one in _means(rows).items()}
        return {self.ties: RankingCollection({name: one for name, one in made.items() if one})}

    def sections(self, evaluation: Any) -> dict[str, str]:
        return {"Ties": show_ties(evaluation.values, evaluation.ties)}


class AmongAnsweredPart(ReferencePart):
    """The values of the queries that have an answer."""

    title = AMONG_ANSWERED

    def applies(self, known: Setting) -> bool:
        return bool(known.answers)

    def feed(self, known: Setting) -> Feed:
        return _keep_answered

    def values(self, counted: Any) -> Mapping[str, Any]:
        found: Mapping[str, Any] = counted.parts[self.title].results(None).values
        return found


class ChancePart(ReferencePart):
    """The expected values of a random ranking: counted where queries differ in their candidates."""

    title = CHANCE

    def applies(self, known: Setting) -> bool:
        return known.candidates is not None

    def make(self, known: Setting, rows: Parts) -> Parts:
        return super().make(known, rows) if known.chance_varies else {}

    def feed(self, known: Setting) -> Feed:
        return _of_row(torch.zeros(1, known.candidates or 1), known.locations)

    def values(self, counted: Any) -> Mapping[str, Any]:
        number = counted.setting.candidates or 1
        values: Mapping[str, Any] = analysis.chance(counted.headline, number)
        if counted.setting.chance_varies:  # metrics of decisions have no chance level
            found = counted.parts[self.title].compute()
            values = {name: found[name] for name in values}
        if counted.setting.probabilities:
            equal = {"nll": math.log(number), "perplexity": float(number), "brier": 1 - 1 / number}
            values = {**values, **equal}
        return values


class MostFrequentPart(ReferencePart):
    """The ranking by the training visits of all users."""

    title = BASELINE

    def applies(self, known: Setting) -> bool:
        return known.train_counts is not None

    def feed(self, known: Setting) -> Feed:
        assert known.train_counts is not None
        return _of_row(analysis.most_frequent(known.train_counts, 1), known.locations)


class TrainingFrequenciesPart(ReferencePart):
    """The likelihood of the training visits, plus one for each location."""

    title = BASELINE
    name = "training frequencies"

    def applies(self, known: Setting) -> bool:
        is_likely = known.probabilities not in ("", CONFIDENCE)
        has_counts = known.train_counts is not None
        return is_likely and has_counts

    def make(self, known: Setting, rows: Parts) -> Parts:
        return {self.name: likelihood_metrics(given="probabilities")}

    def feed(self, known: Setting) -> Feed:
        assert known.train_counts is not None
        smoothed = known.train_counts.double() + 1
        return _of_row((smoothed / smoothed.sum())[None], None)


#: All parts, in the order of a page; those of the user's own follow.
PARTS: tuple[Part, ...] = (
    HeadlinePart(),
    GroupsPart(),
    LeftOutPart(),
    MapPart(),
    DecilesPart(),
    ProbabilitiesPart(),
    FurtherPart(),
    AnswerSharesPart(),
    TiesPart("optimistic"),
    TiesPart("pessimistic"),
    AmongAnsweredPart(),
    ChancePart(),
    MostFrequentPart(),
    TrainingFrequenciesPart(),
)


def _of_row(row: Tensor, locations: Locations | None) -> Feed:
    """Return what ranks all queries by one row of scores, without confidences.

    Ids without coordinates, such as padding, are no candidates.
    """
    if locations is not None:
        missing = locations.missing()[: row.shape[1]].nonzero()[:, 0]
        row = row.index_fill(1, missing, -torch.inf)
    return partial(_rank_row, row)


def _rank_row(row: Tensor, batch: Batch, records: Records) -> Batch:
    return replace(batch, preds=row.expand(len(batch.target), -1), confidence=None)


def _keep_answered(batch: Batch, records: Records) -> Batch:
    ranking: Ranking = records[Ranking]
    answered = ranking.queries.extra["answer"][:, 0] == ANSWERED
    return replace(batch, mask=answered & ranking.counted, confidence=None)


def _own_of(known: Setting) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the user's metrics of ranks, and the other ones."""
    own = known.metrics
    ranked = {x: y for x, y in own.items() if y.record is Ranking and not y.needs.scores}
    return ranked, {x: y for x, y in own.items() if x not in ranked}


def _means(rows: Parts) -> dict[str, Any]:
    """Return the metrics of rows that average scores."""
    members = [member for part in rows.values() for member in part.named_members()]
    return {name: x for name, x in members if isinstance(x, MeanMetric) and x._averages_scores}


def _with_ties(metric: Any, ties: Ties) -> Any:
    """Return a metric of this library with other ties; None for one that reads none."""
    if not isinstance(metric, RankingMetric) or not metric._is_ours or metric._reads_ids:
        return None
    options = {name: getattr(metric, name) for name in metric._options if name != "ties"}
    return type(metric)(**options, ties=ties)
