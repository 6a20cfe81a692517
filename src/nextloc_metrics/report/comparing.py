"""Several models on the same queries: they are read, counted, tested in pairs, and shown.

`compare` checks the options and reads the rows of all models, and `_count_model` counts them. Then
`_test_models` pairs their scores, tests the pairs, and makes the table and the card.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.analysis.comparison import Pair, check_options, pair_up
from nextloc_metrics.analysis.contrast import UserSums, contrast, sum_by
from nextloc_metrics.analysis.f1_intervals import Exchange, answers_of, has_jackknife, jackknife
from nextloc_metrics.core.display.reading import Reading
from nextloc_metrics.core.means import exact
from nextloc_metrics.core.metric.collection import RankingCollection
from nextloc_metrics.core.metric.collection_values import readings_of
from nextloc_metrics.core.metric.grouped import Grouped
from nextloc_metrics.core.metric.joint_update import Plan
from nextloc_metrics.core.metric.mean import MeanMetric
from nextloc_metrics.core.queries.arrays import Array
from nextloc_metrics.core.queries.batch import ArrayRows, Batch, read_rows
from nextloc_metrics.core.queries.checks import as_number, check_choice, check_named
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.core.queries.runs import read_runs
from nextloc_metrics.core.ranking.ranking import Ranking
from nextloc_metrics.metrics.location_f1 import LocationTally
from nextloc_metrics.report.comparisons import (
    Against,
    Asked,
    ByPair,
    Comparisons,
    decide_pairs,
    find_letters,
    p_text,
    pairs_of,
    tabulate,
)
from nextloc_metrics.report.evaluation_options import SharedOptions, with_options
from nextloc_metrics.report.part import Part
from nextloc_metrics.report.setting import (
    check_cluster,
    check_metrics,
    count_locations,
    decoding_in,
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
    against: Against = "first",
    seed: int = 0,
    **options: Unpack[SharedOptions],
) -> Comparisons:
    """Compare the predictions of several models for the same queries.

    With several runs of a model, its value is their mean, and intervals and p-values, of Student's
    t, are for the method and not for these runs: see `analysis.contrast.contrast`. Otherwise
    p-values are those of `analysis.compare`, exact or with so many random signs that the smallest
    which Holm's method needs has ten below it; with too many queries for that, Student's t. For F1
    the answers of two models are exchanged by user, or by query, and F1 is computed again, or p is
    Student's t where that takes too long. The card says which.

    Args:
        models: predictions as for `evaluate`, by model name; a list of them for several runs.
        groups: as for `evaluate`, as are `target`, `mask` and `exclude`; only those of `cluster`
            matter, which test and intervals then take as independent.
        against: `"first"` compares each model with the first, and Holm's method corrects all tests
            together; `"all"` compares all pairs, and it corrects those of each metric. Tests of the
            same scores count once: with `k=1` and lists of one id, accuracy and MRR are one.
        seed: as for `analysis.compare`.
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
    asked = Asked(options["confidence_level"], as_number(seed), against, cluster)
    _check_options(asked, about, [str(x) for x in models])
    runs = {str(name): read_runs(given) for name, given in models.items()}
    if len(runs) < 2:
        raise ValueError(f"`models` must hold at least two models, got {short(list(runs))}.")
    first = next(iter(runs))
    whole = read_rows(Batch(runs[first][0], target, mask, groups, exclude))
    check_cluster(cluster, whole.groups)
    kinds = {} if cluster is None else {cluster: whole.kinds[cluster]}
    rows = {
        name: [read_rows(Batch(run, target, mask, kinds, exclude)) for run in of]
        for name, of in runs.items()
    }
    counted = {name: _count_model(of, asked, options) for name, of in rows.items()}
    texts = {name: write_about(about[name]) for name in runs if name in about}
    return _test_models(counted, asked, texts, _note_runs(counted))


def _check_options(asked: Asked, about: Any, names: Sequence[str]) -> None:
    """Raise unless models can be tested so."""
    if not isinstance(about, Mapping) or not about.keys() <= set(names):
        raise ValueError(
            f"`about` must have a text for models, by their names {short(names)}, got "
            f"{short(about)}."
        )
    check_options(asked.confidence_level, asked.seed)
    check_choice("against", asked.against, Against)


class _CountedRun(NamedTuple):
    """What is kept of one run of a model."""

    metrics: RankingCollection  #: with their counts
    scores: dict[str, tuple[Tensor, Tensor]]  #: by metric, in 2^-32, and whether a query counts
    target: Tensor  #: of each query; where F1 is tested, -1 if it is left out
    decided: Tensor  #: the location that is decided for, where F1 is tested


class _CountedModel(NamedTuple):
    """What is kept of a model with R runs of the N queries."""

    runs: list[_CountedRun]
    members: list[tuple[str, Any]]  #: the metrics by name, without counts
    f1: dict[str, LocationTally]  #: those whose difference is tested by exchanged answers
    scores: dict[str, tuple[Any, Any]]  #: `[R, N]`, and which queries count
    clusters: Tensor | None  #: the number of each query's cluster

    @property
    def text(self) -> str:
        """The number of runs, if there are several."""
        return f"{len(self.runs)} runs" if len(self.runs) > 1 else ""

    def clusters_of(self, kept: Any) -> Tensor | None:
        """Return the number of the cluster of each query that is kept; None without clusters."""
        return None if self.clusters is None else self.clusters[torch.from_numpy(kept)]


def _count_model(rows: Sequence[ArrayRows], asked: Asked, options: SharedOptions) -> _CountedModel:
    """Count all runs."""
    members = _headline_of(rows[0], options).named_members()
    f1 = {x: y for x, y in members if isinstance(y, LocationTally) and has_jackknife(y)}
    runs = [_count_run(one, f1, asked, options) for one in rows]
    scores: dict[str, tuple[Any, Any]] = {}
    for key in runs[0].scores:
        units, kept = map(torch.stack, zip(*(one.scores[key] for one in runs), strict=True))
        scores[key] = units.numpy(), kept.all(0).numpy()
    kind = rows[0].kinds.get(asked.cluster or "")
    clusters = None if kind is None else kind.numbers
    return _CountedModel(runs, members, f1, scores, clusters)


def _headline_of(rows: ArrayRows, options: SharedOptions) -> RankingCollection:
    """Make the metrics of the table, or raise if one cannot be compared."""
    number = count_locations(rows, options["num_locations"], None)
    own: dict[str, Any] = check_metrics(options["metrics"])
    for metric in own.values():
        if isinstance(metric, Part) or metric.unit or metric.largest_value != 1:
            raise ValueError(
                f"`metrics` of a comparison must be fractions, got {short(metric)}; `evaluate` "
                "takes those with a unit."
            )
    return make_headline(number, options["k"], options["measures"], own)


def _count_run(
    rows: ArrayRows, f1: dict[str, LocationTally], asked: Asked, options: SharedOptions
) -> _CountedRun:
    """Count all queries, and score each of them by each metric."""
    members: dict[str, Any] = dict(_headline_of(rows, options).named_members())
    means = {x: y for x, y in members.items() if isinstance(y, MeanMetric) and y._averages_scores}
    kind = rows.kinds.get(asked.cluster or "")
    if kind is not None and len(kind.labels):
        by: Any = {"by": asked.cluster, "labels": kind.labels, "average": "queries"}
        members |= {key: Grouped(metric, **by) for key, metric in means.items()}
    metrics, plan = RankingCollection(members), Plan([*members.values(), *means.values()])
    scores: dict[str, list[Tensor]] = {key: [] for key in means}  # NaN if a query is left out
    answers: list[Tensor] = []
    for batch in rows.chunks():
        kinds: Any = batch.groups
        groups = {name: of.numbers for name, of in kinds.items()} or None
        records = plan.read(replace(batch, groups=groups, exempt_target=options["exempt_target"]))
        metrics.update(records)
        for key, metric in means.items():
            of_batch, counted = metric._score_queries(records[metric.record])
            scores[key].append(of_batch.masked_fill(~counted, torch.nan))
        if f1:
            ranking: Ranking = records[Ranking]
            answers.append(torch.stack([ranking.relevant[:, 0], ranking.best]))
    joined = {key: torch.cat(of) for key, of in scores.items()}
    found = {key: (exact.to_fixed_point(of), ~of.isnan()) for key, of in joined.items()}
    target, decided = torch.cat(answers, 1) if answers else (rows.target, rows.target)
    clusters = torch.arange(len(target)) if kind is None else kind.numbers
    for key, of_f1 in f1.items():
        found[key] = _units_of_f1(of_f1, target, decided, clusters), target >= 0
    return _CountedRun(metrics, found, target, decided)


def _units_of_f1(
    metric: LocationTally, target: Tensor, decided: Tensor, clusters: Tensor
) -> Tensor:
    """Return what each cluster adds to F1, at its first query: it is summed by cluster."""
    found = jackknife(metric, answers_of(target, decided, clusters, merge=False), True)
    kept = (target >= 0).nonzero()[:, 0]
    first = torch.from_numpy(np.unique(clusters[kept].numpy(), return_index=True)[1])
    return torch.zeros_like(target).index_add_(0, kept[first], found.units())


def _note_runs(models: Mapping[str, _CountedModel]) -> list[str]:
    """Say whose runs are missing, or few, if any model has several."""
    numbers = {name: len(model.runs) for name, model in models.items()}
    several = [number for number in numbers.values() if number > 1]
    if not several:
        return []
    single = [name for name, number in numbers.items() if number == 1]
    notes = [f"{name}: one run: its runs' variance is not in this interval" for name in single]
    return [*notes, *(["few runs: intervals are rough"] if min(several) < _FEW_RUNS else [])]


def _test_models(
    models: Mapping[str, _CountedModel],
    asked: Asked,
    about: Mapping[str, str],
    warned: Sequence[str],
) -> Comparisons:
    """Test all pairs, compute the values, and make the table and the card."""
    queries, groups = _count_queries(models)
    if not queries:
        raise ValueError("`target` must hold at least one query that counts, got none to compare.")
    names, level = pairs_of([*models], asked.against), asked.confidence_level
    decided = decide_pairs({(a, b): _pair_models(models[a], models[b]) for a, b in names}, asked)
    columns = {name: _read_values(model, level) for name, model in models.items()}
    values = {name: {key: x.value for key, x in of.items()} for name, of in columns.items()}
    found = {x: {key: one.found for key, one in of.items()} for x, of in decided.pairs.items()}
    corrected = {
        x: {key: one.corrected for key, one in of.items()} for x, of in decided.pairs.items()
    }
    marks = find_letters(columns, corrected, asked.level) if asked.against == "all" else {}
    clusters = f"clustered by {asked.cluster} ({groups:,} groups)" if asked.cluster else ""
    most = max(decided.num_tests.values())
    of_each = " of each metric" if asked.against == "all" else ""
    runs = [f"{name} {model.text}" for name, model in models.items() if model.text]
    card = {
        "queries": queries,
        "averaged_over": "queries",
        "intervals": f"{100 * level:g} %, {clusters or 'queries independent'}, not corrected",
        "p": f"two-sided {p_text(decided)}",
        "corrected_p": f"Holm's method for {most} test{'s' * (most > 1)}{of_each}",
        **({"runs": ", ".join(runs)} if runs else {}),
        "ties": "expected value over random orders",
        **{f"about {name}": text for name, text in about.items()},
        **({"notes": "; ".join(warned)} if warned else {}),
    }
    decoded = [f"{name} {of}" for name, text in about.items() if (of := decoding_in(text))]
    notes = [
        *([f"decoding: {', '.join(decoded)}"] if decoded else []),
        f"{queries:,} queries, {p_text(decided, with_signs=False)} {clusters}".rstrip(),
        f"corrected p: {card['corrected_p']}; intervals are not corrected",
        *warned,
    ]
    table = tabulate(values, decided, asked, notes)
    members = next(iter(models.values())).members
    tests = decided.num_tests, marks, columns, card, level, members
    return Comparisons(values, ByPair(found), ByPair(corrected), table, *tests)


def _count_queries(models: Mapping[str, _CountedModel]) -> tuple[int, int]:
    """Return the number of queries that count for a metric of a model, and of their clusters."""
    first = next(iter(models.values()))
    kept = np.any([kept for of in models.values() for _, kept in of.scores.values()], axis=0)
    clusters = first.clusters_of(kept)
    return int(kept.sum()), 0 if clusters is None else len(torch.unique(clusters))


def _pair_models(first: _CountedModel, second: _CountedModel) -> dict[str, Pair]:
    """Pair the scores of two models by metric, with those of the queries that count for both."""
    pairs = {}
    for key, (b, kept_b) in second.scores.items():
        a, kept_a = first.scores[key]
        kept = kept_a & kept_b
        groups = second.clusters_of(kept)
        pairs[key] = pair_up((b[:, kept], a[:, kept]), groups, 1 / exact.ONE)
    is_single = len(first.runs) == len(second.runs) == 1
    for key, metric in second.f1.items():
        target = second.runs[0].target
        kept, exchange = target >= 0, None
        if is_single:
            decided = first.runs[0].decided[kept], second.runs[0].decided[kept]
            groups = second.clusters_of(kept.numpy())
            exchange = Exchange(metric, target[kept], decided, groups)
        theirs, ours = (
            torch.stack([x.decided == x.target for x in of.runs])[:, kept].double().mean(0)
            for of in (first, second)
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


def _read_values(model: _CountedModel, confidence_level: float) -> dict[str, Reading]:
    """Return the values with their intervals: means over runs."""
    first, *others = (readings_of(run.metrics, confidence_level) for run in model.runs)
    if others:
        return {
            key: one._replace(
                value=math.fsum([one.value, *(x[key].value for x in others)]) / len(model.runs),
                bounds=_interval_of(model, key, confidence_level) if key in model.scores else None,
            )
            for key, one in first.items()
        }
    (run,) = model.runs
    for key, metric in model.f1.items():
        answers = answers_of(run.target, run.decided, model.clusters)
        found = jackknife(metric, answers, model.clusters is not None).estimate()
        low, high = map(float, found.interval(confidence_level))
        first[key] = first[key]._replace(bounds=(low, high))
    return first


def _interval_of(model: _CountedModel, key: str, confidence_level: float) -> tuple[float, float]:
    """Return the interval of the mean over runs of a metric that scores queries."""
    units, kept = model.scores[key]
    sums, sizes = sum_by(model.clusters_of(kept), units[:, kept])
    found = contrast([UserSums(sums)], sizes, 1 / exact.ONE).estimate()
    low, high = found.interval(confidence_level)
    return float(low), float(high)
