"""The comparison of several models on the same queries.

`compare` makes a `Model` of each: of predictions by `runs.count_run`, of scores of queries by
`_score_models`. Then `_test_models` tests pairs of models, by `analysis.comparison`, and makes the
result, `Comparisons`, which has the tables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.analysis.comparison import Comparison, Pair, PairNames, decide_family, pair_up
from nextloc_metrics.analysis.f1_intervals import Exchange
from nextloc_metrics.analysis.significance import level_of
from nextloc_metrics.core.display.reading import Reading
from nextloc_metrics.core.means import intervals
from nextloc_metrics.core.queries.answers import Answers
from nextloc_metrics.core.queries.arrays import Array
from nextloc_metrics.core.queries.batch import Batch, read_rows
from nextloc_metrics.core.queries.checks import as_number, check_choice, check_named
from nextloc_metrics.core.queries.messages import describe, short
from nextloc_metrics.core.queries.scored_lists import ScoredLists
from nextloc_metrics.metrics.per_query import PerQueryScores, QueryScores
from nextloc_metrics.report.card import join_cards, join_notes, mark_cuts
from nextloc_metrics.report.comparisons import ByPair, Comparisons, find_letters, note_runs, p_text
from nextloc_metrics.report.files.predictions import check_sources, read_same
from nextloc_metrics.report.files.sources import is_pandas
from nextloc_metrics.report.files.table_source import TableSource
from nextloc_metrics.report.options import Options, refuses_unknown
from nextloc_metrics.report.runs import (
    Measures,
    Model,
    count_run,
    ends_of,
    join_runs,
    mean_of,
    sums_of,
)
from nextloc_metrics.report.saved import is_saved
from nextloc_metrics.report.saved_comparisons import SAVED, compare_saved
from nextloc_metrics.report.setting import (
    Form,
    check_cluster,
    check_kinds,
    cluster_of_table,
    with_users,
)
from nextloc_metrics.report.source import Source

if TYPE_CHECKING:
    from nextloc_metrics.report.options import Metrics

Against = Literal["first", "all"]

# The counts of the card that are the same for all models.
_OF_QUERIES = ("left_out", "without_target")

# A score that is passed may have a rounding error of so many units of its last place.
_ROUNDED = 4
# Such scores are rounded to so many bits of the highest one.
_BITS = 32


@refuses_unknown
def compare(
    models: Mapping[str, Any],
    target: Array | None = None,
    *,
    mask: Array | None = None,
    groups: Mapping[str, Array] | Sequence[str] | None = None,
    users: Array | str | None = None,
    exclude: Array | None = None,
    against: Against = "first",
    seed: int = 0,
    key: str | None = None,
    k: int | Sequence[int] = (1, 5, 10),
    measures: Sequence[Any] = (),
    metrics: Metrics | None = None,
    num_locations: int | None = None,
    cluster: str | None = None,
    exempt_target: bool = False,
    confidence_level: float = 0.95,
) -> Comparisons:
    """Compare several models by their predictions, or scores, of the same queries.

    If two models are equal, the sign of each query's difference (each group's of `cluster`) is
    random. The p-value is the share of all sign assignments, or of random ones, whose mean is at
    least as far from 0 as the observed mean; for F1 the answers of two models are exchanged. Where
    that takes too long, and for several runs of a model, whose value is their mean, p is Student's
    t. The interval is the paired t interval, clustered, or wider where few queries differ. A single
    query, or group, has no interval and no p-value: they are NaN.

    Args:
        models: predictions as for `evaluate`, by model name; a list of them for several runs. Or,
            without `target`, a [`Source`][nextloc_metrics.report.Source] of each, or its rows, of
            the same queries, where `groups` and `users` name columns. Or scores of queries: a
            `PerQueryScores`, the result of its `compute`, or a floating tensor `[N]`, which are the
            metric `score`, and higher ones are better. Or two evaluations of different queries, or
            files of them: differences have intervals, by their `cluster` if it has groups in both,
            and no p-values.
        groups: as for `evaluate`, as are `target`, `mask` and `exclude`; only those of `cluster`
            matter, which test and intervals then take as independent. For a `PerQueryScores` they
            are in the order of ascending ids.
        users: short for `groups={"user": users}, cluster="user"`.
        against: `"first"` compares each model with the first, and Holm's method corrects all tests
            together; `"all"` compares all pairs, and it corrects those of each metric. Tests of the
            same scores count once: with `k=1` and lists of one id, accuracy and MRR are one.
        seed: the seed of the random signs.
        key: of sources, a column that names a query, as rows may be in any order; without it, they
            are joined by the columns `query`, or must be in the same order.
        k: this option and those that follow are described in
            [`Options`][nextloc_metrics.report.Options]. Those for scores are `cluster` and
            `confidence_level`, those for evaluations `metrics` and `confidence_level`.

    Raises:
        TypeError: without `target`, a model is no scores of queries.
        ValueError: there are fewer than two models, shapes or ids do not fit, or `cluster` is not a
            key of `groups`.

    Example:
        >>> from nextloc_metrics import report
        >>> target = [3, 5, 9, 1, 2, 8]
        >>> good, bad = [[x, 0] for x in target], [[0, x] for x in target]
        >>> found = report.compare({"bad": bad, "good": good}, target, k=1)
        >>> found.comparisons["good"]["mrr"].difference
        0.5
        >>> from torch import tensor
        >>> before, after = tensor([0.5, 0.5, 0.0, 0.5, 0.25]), tensor([1.0, 1.0, 0.5, 1.0, 0.5])
        >>> report.compare({"before": before, "after": after}).comparisons["after"]["score"]
        Comparison(difference +0.4500, 95 % interval +0.1689 to +0.5888, p = 0.0625,
                   d_z = +4.025, 5 queries)

    Sources: R. A. Fisher, "The design of experiments", 1935; M. D. Smucker, J. Allan and
    B. Carterette, "A comparison of statistical significance tests for information retrieval
    evaluation", CIKM 2007.
    """
    check_named("models", models, '{"gru": preds, "lstm": others}')
    inputs = {str(name): model for name, model in models.items()}
    level, counts = confidence_level, dict[str, dict[str, int]]()
    intervals.check_confidence_level(level)
    seed = as_number(seed)
    if type(seed) is not int or not 0 <= seed < 2**63:
        raise ValueError(f"`seed` must be an integer from 0 to 2^63 - 1, got {short(seed)}.")
    check_choice("against", against, Against)
    if target is None:
        inputs = {name: Source(x) if is_table(x) else x for name, x in inputs.items()}
    are_tables = any(isinstance(x, TableSource) for x in inputs.values())
    check_kinds({"users": users}, are_tables)
    if are_tables:
        users, cluster = None, cluster_of_table(users, cluster)
        check_sources(inputs, target=target, mask=mask, exclude=exclude)
        inputs, target, groups, counts = _read_sources(inputs, cluster, key)
    groups, cluster = with_users(users, groups, cluster)
    options = Options(k, measures, metrics, num_locations, cluster, exempt_target, level)
    if len(inputs) < 2:
        raise ValueError(f"`models` must hold at least two models, got {short(list(inputs))}.")
    if target is None and any(isinstance(x, SAVED) for x in inputs.values()):
        return compare_saved(inputs, metrics, level)
    if target is None:
        if mask is not None or exclude is not None or measures or metrics:
            raise ValueError("`mask`, `exclude`, `measures` and `metrics` need predictions.")
        scored = _score_models(inputs, groups, cluster, level)  # type: ignore[arg-type]
    else:
        beside = {"target": target, "mask": mask, "groups": groups, "exclude": exclude}
        scored = _count_models(inputs, beside, options)
    comparisons = _test_models(scored, cluster, against, level, seed)
    comparisons.counts = {name: numbers for name, numbers in counts.items() if numbers}
    for name, numbers in comparisons.counts.items():
        comparisons.card |= {f"{what} {name}": number for what, number in numbers.items()}
    return comparisons


def _count_models(
    inputs: Mapping[str, Any], beside: Mapping[str, Any], options: Options
) -> dict[str, Model]:
    """Count the runs of models; `beside` has the arrays that all of them share."""
    runs_of = {name: _read_runs(model) for name, model in inputs.items()}
    whole = read_rows(Batch(next(iter(runs_of.values()))[0], **beside))
    cluster = options.cluster
    check_cluster(cluster, whole.groups)
    kinds = {} if cluster is None else {cluster: whole.kinds[cluster]}
    rows_of = {
        name: [read_rows(Batch(run, **{**beside, "groups": kinds})) for run in runs]
        for name, runs in runs_of.items()
    }
    clusters = _number(kinds[cluster].keys) if cluster else None
    by_form: dict[Form, Measures] = {}
    return {
        name: join_runs(
            [count_run(run, clusters, options, by_form) for run in runs], options.confidence_level
        )
        for name, runs in rows_of.items()
    }


def is_table(model: Any) -> bool:
    """Return whether a model without a target is a table, and no evaluation or scores."""
    if isinstance(model, str | PathLike):
        return not (Path(model).suffix == ".npz" and is_saved(str(model)))
    is_frame = hasattr(model, "__arrow_c_stream__") or is_pandas(model)
    return is_frame and len(getattr(model, "shape", (0, 0))) == 2  # a column is scores


def _read_sources(sources: Mapping[str, Any], cluster: str | None, key: str | None) -> Any:
    """Return predictions, the target, groups of `cluster`, and counts above 0, by source."""
    tables = read_same(sources, [] if cluster is None else [cluster], key)
    first = next(iter(tables.values()))
    if first.grades is not None:
        raise ValueError(
            "`truth` must have no grades for `compare`; write each query's ids as a list."
        )
    groups = None if cluster is None else {cluster: first.groups[cluster]}
    counts = {name: {x: n for x, n in table.card.items() if n} for name, table in tables.items()}
    return {name: table.preds for name, table in tables.items()}, first.target, groups, counts


def _number(keys: Tensor) -> Tensor:
    """Number different keys from 0 in rising order."""
    numbers: Tensor = torch.unique(keys, return_inverse=True)[1]
    return numbers


def _read_runs(model: Any) -> list[Any]:
    """Return the runs of a model: several if it is a list of predictions, or else one."""
    several = isinstance(model, (list, tuple)) and bool(model) and _is_run(model[0])
    return list(model) if several else [model]


def _is_run(element: Any) -> bool:
    """Return whether an element of a list is predictions of all queries, and not of one query."""
    if isinstance(element, Answers | ScoredLists):
        return True
    if hasattr(element, "shape"):
        return len(element.shape) in (2, 3)
    first = element[0] if isinstance(element, (list, tuple)) and element else None
    return isinstance(first, (list, tuple)) or getattr(first, "shape", ()) != ()


def _score_models(
    models: Mapping[str, Any], groups: Mapping[str, Array] | None, cluster: str | None, level: float
) -> dict[str, Model]:
    """Make models of scores of queries."""
    read = {name: _read_scores(name, scores) for name, scores in models.items()}
    ids, first = next(iter(read.values()))
    for other, scores in read.values():
        if scores.shape != first.shape or not torch.equal(ids, other):
            raise ValueError(
                "`models` must have scores of the same queries, got "
                f"{describe(first)} and {describe(scores)}, or different ids."
            )
    all_scores = torch.stack([scores.double() for _, scores in read.values()])
    if not len(first):
        raise ValueError("`models` must have scores of at least one query, got none.")
    if len(wrong := (~all_scores.isfinite()).any(0).nonzero()):
        raise ValueError(
            "`models` must have finite scores, got NaN or infinity for query "
            f"{int(wrong[0])}; leave it out of all."
        )
    rows = torch.zeros(len(first), 1, dtype=torch.int64)
    kinds = read_rows(Batch(rows, rows[:, 0], groups=groups)).kinds
    check_cluster(cluster, tuple(kinds))
    clusters = _number(kinds[cluster].keys) if cluster else None
    mantissa, exponent = math.frexp(float(all_scores.abs().max()))
    unit = 2.0 ** (exponent - (mantissa == 0.5) - _BITS)
    is_fraction = bool(((all_scores >= 0) & (all_scores <= 1)).all())
    models_by_name = {}
    for (name, (_, as_passed)), scores in zip(read.items(), all_scores, strict=True):
        reading = Reading(float(scores.mean()), None, is_fraction)
        if is_fraction:
            estimate = mean_of(sums_of(scores, clusters))
            reading = reading._replace(value=float(estimate.mean), bounds=ends_of(estimate, level))
        last_place = torch.finfo(as_passed.dtype).eps if as_passed.is_floating_point() else 0.0
        errors = _ROUNDED * last_place * scores.abs().numpy()
        members = [("score", getattr(models[name], "metric", None))]
        cells = {"score": scores[None].numpy()}
        models_by_name[name] = Model({"score": reading}, members, cells, clusters, unit, errors)
    return models_by_name


def _read_scores(name: str, scores: Any) -> tuple[Tensor, Tensor]:
    """Return the ids of queries, if there are any, and their scores."""
    ids = torch.zeros(0, dtype=torch.int64)
    if isinstance(scores, PerQueryScores):
        scores = scores.compute()
    if isinstance(scores, QueryScores):
        ids, scores = (tensor.reshape(-1).cpu() for tensor in scores)  # one query has scalars
    if not isinstance(scores, Tensor) or scores.ndim != 1:
        raise TypeError(
            f"`models` must be predictions with a `target`, or each a PerQueryScores, the result "
            f"of its `compute`, or a tensor [N], got {describe(scores)} for {short(name)}."
        )
    return ids, scores.detach().cpu()


def _test_models(
    models: Mapping[str, Model], cluster: str | None, against: Against, level: float, seed: int
) -> Comparisons:
    """Test all pairs of models, and make the result, whose card says how they were tested."""
    first, is_all = next(iter(models)), against == "all"
    scores = [x for model in models.values() for x in model.scores.values()]
    kept = np.any([~np.isnan(x).any(0) for x in scores], axis=0)
    if not kept.any():
        raise ValueError("`target` must hold at least one query that counts, got none to compare.")
    names = [x for x in combinations(models, 2) if is_all or x[0] == first]
    shared: dict[bytes, Any] = {}
    pairs = {(a, b): _pair_models(models[a], models[b], shared) for a, b in names}
    keys = [*models[first].scores]
    families = [[key] for key in keys] if is_all else [keys]
    comparisons, corrected, num_tests, draws = _test_families(pairs, families, level, seed)
    cuts = {name: model.cuts for name, model in models.items()}
    columns = mark_cuts({name: model.columns for name, model in models.items()}, cuts)
    marks = find_letters(columns, corrected, level_of(level)) if is_all else {}
    queries, groups = int(kept.sum()), models[first].clusters_of(kept)
    clusters = ""
    if groups is not None:
        clusters = f"clustered by {cluster} ({len(torch.unique(groups)):,} groups)"
    runs = {name: len(model.scores[keys[0]]) for name, model in models.items()}
    several = [f"{name} {x} runs" for name, x in runs.items() if x > 1]
    notes_of_runs, f1 = note_runs(runs), [*models[first].f1]
    most_tests = max(num_tests.values())
    notes_of_lists = join_notes({name: model.notes for name, model in models.items()})
    card = {
        "queries": queries,
        "averaged_over": "queries",
        "intervals": f"{100 * level:g} %, {clusters or 'queries independent'}, not corrected",
        "p": f"two-sided {p_text(comparisons, f1, draws)}",
        "corrected_p": f"Holm's method for {most_tests} test{'s' * (most_tests > 1)}"
        + " of each metric" * is_all,
        **({"runs": ", ".join(several)} if several else {}),
        **({} if models[first].target is None else {"ties": "expected value over random orders"}),
        **join_cards({name: model.card for name, model in models.items()}, _OF_QUERIES),
        **({"lists": "; ".join(notes_of_lists)} if notes_of_lists else {}),
        **({"notes": "; ".join(notes_of_runs)} if notes_of_runs else {}),
    }
    notes = [
        f"{queries:,} queries, {p_text(comparisons, f1)} {clusters}".rstrip(),
        f"corrected p: {card['corrected_p']}; intervals are not corrected",
        *notes_of_lists,
        *notes_of_runs,
    ]
    shown = ByPair(comparisons), ByPair(corrected), num_tests, marks, columns, card
    stds = {name: dict(model.stds) for name, model in models.items()}
    return Comparisons(*shown, level, notes, models[first].members, stds)


def _test_families(
    pairs: Mapping[PairNames, Mapping[str, Pair]], families: Sequence[Sequence[str]],
    level: float, seed: int,
) -> tuple[Any, Any, dict[str, int], int]:  # fmt: skip
    """Test each family; return tests, corrected p-values, numbers of tests, and the most draws."""
    comparisons: dict[PairNames, dict[str, Comparison]] = {x: {} for x in pairs}
    corrected: dict[PairNames, dict[str, float]] = {x: {} for x in pairs}
    num_tests, draws = dict[str, int](), 0
    for keys in families:
        family = {(x, key): by_metric[key] for x, by_metric in pairs.items() for key in keys}
        tests, number, most_draws = decide_family(family, level, seed)
        for (x, key), (comparison, p_value) in tests.items():
            comparisons[x][key], corrected[x][key] = comparison, p_value
        num_tests |= dict.fromkeys(keys, number)
        draws = max(draws, most_draws)
    return comparisons, corrected, num_tests, draws


def _pair_models(first: Model, second: Model, shared: dict[bytes, Any]) -> dict[str, Pair]:
    """Pair scores of two models by metric, for queries of both; `shared` stores equal sums once."""
    pairs = {}
    for key, b in second.scores.items():
        a = first.scores[key]
        kept = ~(np.isnan(a).any(0) | np.isnan(b).any(0))
        errors = first.errors + second.errors
        pair = pair_up(a[:, kept], b[:, kept], second.clusters_of(kept), second.unit, errors)
        sums = [shared.setdefault(x.tobytes(), x) for x in pair.contrast.sums]
        contrast, rows = pair.contrast._replace(sums=sums), hash((key, kept.tobytes()))
        pair = pair._replace(contrast=contrast, rows=rows)
        if key in second.f1:
            counted = torch.from_numpy(kept)
            decided = [[x[counted] for x in model.decided] for model in (first, second)]
            target, exchange = second.target[counted], None
            if not pair.has_runs:
                both = decided[0][0], decided[1][0]
                exchange = Exchange(second.f1[key], target, both, second.clusters_of(kept))
            is_right = (torch.stack([x == target for x in runs]) for runs in decided)
            share, other_share = (x.double().mean(0) for x in is_right)  # of runs that hit
            wins, losses = int((other_share > share).sum()), int((other_share < share).sum())
            pair = pair._replace(wins=wins, losses=losses, size=1.0, exchange=exchange)
            pair = pair._replace(effect_size=math.nan)
        pairs[key] = pair
    return pairs
