"""Several models on the same queries, in one call."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.analysis import Predictability
from nextloc_metrics.analysis.comparison import Pair, Test, check_options, pair_up
from nextloc_metrics.analysis.contrast import UserSums, contrast, sum_by
from nextloc_metrics.analysis.f1_intervals import (
    Exchange,
    answers_of,
    has_jackknife,
    jackknife,
)
from nextloc_metrics.core.display.reading import Reading
from nextloc_metrics.core.means import exact
from nextloc_metrics.core.metric.collection import RankingCollection
from nextloc_metrics.core.metric.collection_values import readings_of
from nextloc_metrics.core.metric.grouped import Average, Grouped
from nextloc_metrics.core.metric.joint_update import Plan
from nextloc_metrics.core.metric.mean import MeanMetric
from nextloc_metrics.core.queries.arrays import Array
from nextloc_metrics.core.queries.batch import ArrayRows, Batch, read_rows
from nextloc_metrics.core.queries.checks import as_number, check_choice, check_named
from nextloc_metrics.core.queries.draws import read_runs
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.core.ranking.ranking import Ranking
from nextloc_metrics.metrics.location_f1 import LocationTally
from nextloc_metrics.report.comparisons import (
    Against,
    Asked,
    ByPair,
    Comparisons,
    Family,
    decide_pairs,
    detectable_range,
    find_letters,
    p_text,
    pairs_of,
    tabulate,
)
from nextloc_metrics.report.evaluation_options import SharedOptions, with_options
from nextloc_metrics.report.history import History, rows_of
from nextloc_metrics.report.part import Part
from nextloc_metrics.report.setting import (
    check_cluster,
    check_metrics,
    count_locations,
    decoding_in,
    digest,
    make_headline,
    write_about,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

# With fewer runs, the variance of runs is known badly.
_FEW_RUNS = 5


@with_options(SharedOptions)
def compare(
    models: Mapping[str, Any],
    target: Array,
    *,
    mask: Array | None = None,
    groups: Mapping[str, Array] | None = None,
    exclude: Array | None = None,
    test: Test = "permutation",
    against: Against = "first",
    average: Average = "queries",
    family: Family | None = None,
    margin: float | None = None,
    deterministic: Sequence[str] = (),
    history: History | None = None,
    times: Array | None = None,
    last: Array | None = None,
    seed: int = 0,
    **options: Unpack[SharedOptions],
) -> Comparisons:
    """Compare the predictions of several models for the same queries.

    With several runs of a model, its value is their mean, and intervals and p-values, of Student's
    t, are for the method and not for these runs: see `analysis.contrast.contrast`. Otherwise
    p-values are those of `analysis.compare`, exact or with so many random signs that the smallest
    which Holm's method needs has ten below it; with too many queries for that, Student's t. For F1
    the answers of two models are exchanged by user, or by query, and F1 is computed again.

    Args:
        models: predictions as for `evaluate`, by model name; a list of them for several runs; or
            [`Draws`][nextloc_metrics.report.Draws], alone or in a list of runs.
        groups: as for `evaluate`, as are `target`, `mask` and `exclude`; only those of `cluster`
            matter, which test and intervals then take as independent.
        test: as for `analysis.compare`, like `seed`; `"bootstrap"` has no test of F1.
        against: `"first"` compares each model with the first; `"all"` compares all pairs.
        average: `"groups"` for means of the means of each group `cluster`, such as its users, so
            that each counts as much: another value, with its own intervals and tests; F1 has none.
        family: the tests that Holm's method corrects together: `"metric"`, those of each metric, or
            `"all"`. None is `"metric"` for all pairs and `"all"` against the first. Tests of the
            same scores count once: with `k=1` and lists of one id, accuracy and MRR are one.
        margin: adds p-values of non-inferiority and equivalence within this difference, corrected
            in the same families.
        deterministic: the models whose single run has no variance, beside models of several runs.
        history: the locations, users and maybe times of the visits before, or an
            [`analysis.VisitCounts`][nextloc_metrics.analysis.VisitCounts]. It adds models that
            count them: "most visited of the user", "at this hour" with `times`, "Markov" with
            `last`, and "fitted counts" after `fit`. Users are named as in the groups `cluster`, or
            else `"user"`. One model is then enough.
        times: the local time of each query, as for `VisitCounts.scores`.
        last: the location before each query, as there.
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
    about: Any = options["about"] or {}
    cluster = options["cluster"]
    how = test, options["confidence_level"], as_number(seed), family, margin
    asked = Asked(*how, against, average, cluster)
    asked = _check_options(asked, deterministic, about, [str(x) for x in models])
    runs = {str(name): read_runs(str(name), given) for name, given in models.items()}
    if len(runs) + (history is not None) < 2:
        raise ValueError(f"`models` must hold at least two models, got {short(list(runs))}.")
    if several := [x for x in map(str, deterministic) if len(runs[x]) > 1]:
        raise ValueError(f"`deterministic` must be models of one run, got {short(several)}.")
    first = next(iter(runs))
    whole = read_rows(Batch(runs[first][0].draws[0], target, mask, groups, exclude))
    check_cluster(cluster, whole.groups)
    kinds = {} if cluster is None else {cluster: whole.kinds[cluster]}
    rows = {
        name: [[read_rows(Batch(x, target, mask, kinds, exclude)) for x in run.draws] for run in of]
        for name, of in runs.items()
    }
    if history is not None and not isinstance(history, Predictability):
        by, size = cluster or "user", options["num_locations"]
        counts = rows_of(history, whole, by, size, times, last)
        rows |= {name: [[replace(one, kinds=kinds)]] for name, one in counts.items()}
        deterministic = [*deterministic, *counts]
    found = {name: _Method(of, average, test, options) for name, of in rows.items()}
    if not (sizes := _sizes_of(found))[0]:
        raise ValueError("`target` must hold at least one query that counts, got none to compare.")
    texts = {name: write_about(about[name]) for name in runs if name in about}
    result = _summarize(found, asked, sizes, _note_runs(found, deterministic), texts)
    result._targets = digest(whole.target)
    return result


def _check_options(
    asked: Asked, deterministic: Sequence[str], about: Any, names: Sequence[str]
) -> Asked:
    """Return how models are tested, or raise if it cannot be."""
    if asked.average == "groups" and not asked.cluster:
        raise ValueError("`average='groups'` needs a `cluster`, such as 'user', got None.")
    if not isinstance(about, Mapping) or not about.keys() <= set(names):
        raise ValueError(
            f"`about` must have a text for models, by their names {short(names)}, got "
            f"{short(about)}."
        )
    margin = as_number(asked.margin)
    if margin is not None and not 0 < margin < 1:
        raise ValueError(f"`margin` must be a fraction above 0, got {short(asked.margin)}.")
    if isinstance(deterministic, str) or not {str(x) for x in deterministic} <= set(names):
        raise ValueError(
            f"`deterministic` must be a list of names of `models`, {short(names)}, got "
            f"{short(deterministic)}."
        )
    check_options(asked.test, asked.confidence_level, asked.seed)
    check_choice("against", asked.against, Against)
    check_choice("average", asked.average, Average)
    usual: Family = "metric" if asked.against == "all" else "all"
    family = check_choice("family", usual if asked.family is None else asked.family, Family)
    return asked._replace(family=family, margin=margin)


def _headline_of(rows: ArrayRows, options: SharedOptions) -> RankingCollection:
    number = count_locations(rows, options["num_locations"], None)
    own: dict[str, Any] = check_metrics(options["metrics"])
    for metric in own.values():
        if isinstance(metric, Part) or metric.unit or metric.largest_value != 1:
            raise ValueError(
                f"`metrics` of a comparison must be fractions, got {short(metric)}; `evaluate` "
                "takes those with a unit."
            )
    return make_headline(number, options["k"], options["measures"], own)


def _sizes_of(models: Mapping[str, _Method]) -> tuple[int, int]:
    kind = next(iter(models.values())).kind
    counted = np.any([kept for of in models.values() for _, kept in of.scores.values()], axis=0)
    number = 0 if kind is None else len(torch.unique(kind.numbers[torch.from_numpy(counted)]))
    return int(counted.sum()), number


def _summarize(
    models: Mapping[str, _Method],
    asked: Asked,
    sizes: tuple[int, int],
    warned: Sequence[str],
    about: Mapping[str, str],
) -> Comparisons:
    """Test all pairs, compute the values, and make the table and the card."""
    names = pairs_of([*models], asked.against)
    decided = decide_pairs({(a, b): models[b].pair(models[a]) for a, b in names}, asked)
    level, (queries, number) = asked.confidence_level, sizes
    columns = {name: model.read(level) for name, model in models.items()}
    values = {name: {key: x.value for key, x in of.items()} for name, of in columns.items()}
    clusters, averaged = "", "queries"
    if asked.cluster is not None:
        clusters = f"clustered by {asked.cluster} ({number:,} groups)"
        if asked.average == "groups":
            averaged = f"the means of {number:,} groups by {asked.cluster}"
    numbers = set(decided.num_tests.values())
    of_each = " of each metric" if asked.family == "metric" else ""
    runs = {name: model.text for name, model in models.items() if model.text}
    card = {
        "queries": queries,
        "averaged_over": averaged,
        "intervals": f"{100 * level:g} %, {clusters or 'queries independent'}, not corrected",
        "p": p_text(decided, asked),
        "corrected_p": f"Holm's method for {max(numbers)} test{'s' * (max(numbers) > 1)}{of_each}",
        **({"runs": ", ".join(f"{name} {text}" for name, text in runs.items())} if runs else {}),
        "detectable_difference": detectable_range(decided, asked),
        "ties": "expected value over random orders",
        **{f"about {name}": text for name, text in about.items()},
    }
    decoded = {name: decoding for name, text in about.items() if (decoding := decoding_in(text))}
    notes = [
        *([f"decoding: {', '.join(f'{x} {y}' for x, y in decoded.items())}"] if decoded else []),
        f"{queries:,} queries, {asked.test} test {clusters}".rstrip(),
        *([f"means over {averaged}"] if asked.average == "groups" else []),
        f"corrected p: {card['corrected_p']}; intervals are not corrected",
        f"detectable: {card['detectable_difference']}",
        *warned,
    ]
    if warned:
        card["notes"] = "; ".join(warned)
    table = tabulate(values, decided, asked, notes)
    found = {x: {key: one.found for key, one in of.items()} for x, of in decided.pairs.items()}
    corrected = {
        x: {key: one.corrected for key, one in of.items()} for x, of in decided.pairs.items()
    }
    marks = find_letters(columns, corrected, asked.level) if asked.against == "all" else {}
    members = next(iter(models.values())).members
    tests = decided.num_tests, marks, columns, card, level, members
    return Comparisons(values, ByPair(found), ByPair(corrected), table, *tests)


def _note_runs(models: Mapping[str, _Method], deterministic: Sequence[str]) -> list[str]:
    """Say whose runs are missing, or few, if any model has several."""
    numbers = {name: model.num_runs for name, model in models.items()}
    several = [number for number in numbers.values() if number > 1]
    if not several:
        return []
    fixed = set(map(str, deterministic))
    single = [name for name, number in numbers.items() if number == 1 and name not in fixed]
    missing = "one run: its runs' variance is not in this interval"
    notes = [f"{name}: {missing}" for name in single]
    return [*notes, *(["few runs: intervals are rough"] if min(several) < _FEW_RUNS else [])]


class _Method:
    """The runs of one model, each with one or several draws."""

    def __init__(
        self,
        rows: Sequence[Sequence[ArrayRows]],
        average: Average,
        test: Test,
        options: SharedOptions,
    ) -> None:
        self.num_runs, self.draws, self.average = len(rows), len(rows[0]), average
        self.kind = rows[0][0].kinds.get(options["cluster"] or "")
        self.members = _headline_of(rows[0][0], options).named_members()
        of_f1 = self.members if average == "queries" and test == "permutation" else ()
        self.of_f1 = {x: y for x, y in of_f1 if isinstance(y, LocationTally) and has_jackknife(y)}
        self.target = rows[0][0].target
        self.decided: list[Tensor] = []  # of each run and draw, for F1
        self.models: list[RankingCollection] = []
        self.scores: dict[str, tuple[Any, Any]] = {}  # in 2^-32 `[R, N]`, and which count
        found = [self._count(one, options) for one in chain.from_iterable(rows)]
        for key in found[0]:
            each = torch.stack([scores[key] for scores in found])
            units = exact.to_fixed_point(each).reshape(self.num_runs, self.draws, -1).sum(1)
            self.scores[key] = units.numpy(), ~each.isnan().any(0).numpy()
        for key, metric in self.of_f1.items():
            each = torch.stack([self._added(metric, decided) for decided in self.decided])
            units = each.reshape(self.num_runs, self.draws, -1).sum(1)
            self.scores[key] = units.numpy(), (self.target >= 0).numpy()

    def _added(self, metric: LocationTally, decided: Tensor) -> Tensor:
        """Return what each user adds to F1, at the user's first query: it is summed by user."""
        units = torch.arange(len(decided)) if self.kind is None else self.kind.numbers
        found = jackknife(metric, answers_of(self.target, decided, units, merge=False), True)
        kept = (self.target >= 0).nonzero()[:, 0]
        first = torch.from_numpy(np.unique(units[kept].numpy(), return_index=True)[1])
        return torch.zeros_like(self.target).index_add_(0, kept[first], found.units())

    def _count(self, rows: ArrayRows, options: SharedOptions) -> dict[str, Tensor]:
        """Count all queries, and return the scores of queries by metric, NaN if left out."""
        members: dict[str, Any] = dict(_headline_of(rows, options).named_members())
        means = {
            key: member
            for key, member in members.items()
            if isinstance(member, MeanMetric) and member._averages_scores
        }
        if self.kind is not None and len(self.kind.labels):
            by: Any = {"by": options["cluster"], "labels": self.kind.labels}
            grouped = {key: Grouped(x, average=self.average, **by) for key, x in means.items()}
            members |= grouped
        self.models.append(RankingCollection(members))
        plan = Plan([*members.values(), *means.values()])
        scores: dict[str, list[Tensor]] = {}
        answers: list[Tensor] = []
        for batch in rows.chunks():
            kinds: Any = batch.groups
            groups = {name: kind.numbers for name, kind in kinds.items()} or None
            given = replace(batch, groups=groups, exempt_target=options["exempt_target"])
            records = plan.read(given)
            self.models[-1].update(records)
            if self.of_f1:
                ranking: Ranking = records[Ranking]
                answers.append(torch.stack([ranking.relevant[:, 0], ranking.best]))
            for key, member in means.items():
                of_batch, counted = member._score_queries(records[member.record])
                scores.setdefault(key, []).append(of_batch.masked_fill(~counted, torch.nan))
        if answers:
            self.target, decided = torch.cat(answers, 1)
            self.decided.append(decided)
        return {key: torch.cat(of) for key, of in scores.items()}

    @property
    def text(self) -> str:
        """The numbers of runs and draws, if there are several."""
        runs = f"{self.num_runs} runs" if self.num_runs > 1 else ""
        draws = f"{self.draws} draws" if self.draws > 1 else ""
        return " of ".join(filter(None, (runs, draws)))

    def pair(self, first: Any) -> dict[str, Pair]:
        """Pair the scores of another model with those of this one, by metric."""
        pairs = {}
        for key, (b, kept) in self.scores.items():
            a, other = first.scores[key]
            kept = kept & other
            groups = None if self.kind is None else self.kind.numbers[torch.from_numpy(kept)]
            units, as_means = (b[:, kept], a[:, kept]), self.average == "groups"
            draws = self.draws, first.draws
            pairs[key] = pair_up(units, draws, groups, 1 / exact.ONE, as_means)
        is_single = self.num_runs == first.num_runs == self.draws == first.draws == 1
        for key, metric in self.of_f1.items():
            kept, exchange = self.target >= 0, None
            if is_single:
                groups = None if self.kind is None else self.kind.numbers[kept]
                decided = first.decided[0][kept], self.decided[0][kept]
                exchange = Exchange(metric, self.target[kept], decided, groups)
            ours, theirs = (
                torch.stack([x == one.target for x in one.decided])[:, kept].double().mean(0)
                for one in (self, first)
            )
            pairs[key] = pairs[key]._replace(
                has_runs=not is_single,
                effect_size=math.nan,
                wins=int((ours > theirs).sum()),
                losses=int((ours < theirs).sum()),
                size=1.0,
                exchange=exchange,
            )
        return pairs

    def read(self, confidence_level: float) -> dict[str, Reading]:
        """Return the values with their intervals: means over runs and draws."""
        readings = [readings_of(model, confidence_level) for model in self.models]
        if len(readings) == 1:
            groups = None if self.kind is None else self.kind.numbers
            for key, metric in self.of_f1.items():
                answers = answers_of(self.target, self.decided[0], groups)
                found = jackknife(metric, answers, groups is not None).estimate()
                low, high = map(float, found.interval(confidence_level))
                readings[0][key] = readings[0][key]._replace(bounds=(low, high))
            return readings[0]
        return {
            key: one._replace(
                value=math.fsum(x[key].value for x in readings) / len(readings),
                bounds=self._bounds(key, confidence_level) if key in self.scores else None,
            )
            for key, one in readings[0].items()
        }

    def _bounds(self, key: str, confidence_level: float) -> tuple[float, float]:
        units, kept = self.scores[key]
        groups = None if self.kind is None else self.kind.numbers[torch.from_numpy(kept)]
        sums, sizes = sum_by(groups, units[:, kept], self.average == "groups")
        found = contrast([UserSums(sums, self.draws)], sizes, 1 / exact.ONE).estimate()
        low, high = found.interval(confidence_level)
        return float(low), float(high)
