"""The comparison of two evaluations of different queries, such as those of two days.

The interval of the difference is made of the intervals of the two values (Newcombe's method 10,
MOVER): the distances from a value to the ends of its interval add up as errors do. Errors of users
that are in both evaluations are correlated; this is the correlation of what users add to values.

Sources: R. G. Newcombe, "Interval estimation for the difference between independent proportions",
Statistics in Medicine 17, 1998; G. Y. Zou, "Toward using confidence intervals to compare
correlations", Psychological Methods 12, 2007.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from nextloc_metrics.analysis.comparison import Comparison
from nextloc_metrics.core.display.reading import Reading
from nextloc_metrics.core.means import exact
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.report.card import cut_by_lists, join_cards, join_notes, mark_cuts
from nextloc_metrics.report.comparisons import ByPair, Comparisons
from nextloc_metrics.report.counts import Counted
from nextloc_metrics.report.evaluation import Evaluation
from nextloc_metrics.report.setting import check_metrics

#: An evaluation, or a file that `Evaluation.save` wrote.
SAVED = (str, Path, Evaluation)

_NONE = (math.nan, math.nan)


def compare_saved(evaluations: Mapping[str, Any], metrics: Any, level: float) -> Comparisons:
    """Compare two evaluations; the mapping has their names."""
    if len(evaluations) != 2 or not all(isinstance(x, SAVED) for x in evaluations.values()):
        raise ValueError(
            f"`models` must be two evaluations, or files of them, got {short(dict(evaluations))}."
        )
    read = _read(evaluations, metrics, level)
    (before, a), (after, b) = read.items()
    cuts = {x: cut_by_lists(y.rows(), y.setting, y.card, y.longest) for x, y in read.items()}
    columns = mark_cuts({x: Evaluation(y).columns["value"] for x, y in read.items()}, cuts)
    cluster = a.cluster
    is_shared = cluster and cluster == b.cluster
    keys = [{*x.keys_of(cluster).tolist()} for x in (a, b)] if is_shared else []
    shared = len(set.intersection(*keys)) if keys else 0
    differences, queries = {}, [one.card["queries"] for one in read.values()]
    for key, old in columns[before].items():
        new = columns[after].get(key)
        if new is None:
            continue
        bounds = *(old.bounds or _NONE), *(new.bounds or _NONE)
        if not math.isnan(sum(bounds)):  # bounds are NaN where too few groups have a hit
            errors = [_errors(key, cluster, x) for x in read.values()] if shared else []
            correlation = _correlation(*errors) if shared else 0.0
            numbers = *_difference(old, new, correlation), math.nan, math.nan, sum(queries)
            differences[key] = Comparison(*numbers, level, p_from="t")
    skipped = [x for x in dict.fromkeys(chain(*columns.values())) if x not in differences]
    sample = f"by {cluster} ({shared:,} in both), F1 as independent" if shared else "independent"
    sizes = f"{before}: {queries[0]:,} queries, {after}: {queries[1]:,} queries"
    columns = {name: {x: y[x] for x in differences} for name, y in columns.items()}
    card = {"queries": sum(queries), "intervals": f"{sample}, not corrected", "p": "no tests"}
    facts, notes = _facts_and_notes(read)
    if skipped:
        notes.append(f"not in both, or without an interval: {', '.join(skipped)}")
    pair, untested = (before, after), dict.fromkeys(differences, math.nan)
    tests = ByPair({pair: differences}), ByPair({pair: untested})
    notes = [sizes, f"intervals of differences: {sample}", *notes]
    members = [x for x in a.rows() if x[0] in differences]
    stds: dict[str, dict[str, float]] = {before: {}, after: {}}
    return Comparisons(*tests, {}, {}, columns, card | facts, level, notes, members, stds)


def _read(evaluations: Mapping[str, Any], metrics: Any, level: float) -> dict[str, Counted]:
    """Return the counts of two evaluations, or raise if they have one in common."""
    further_metrics = check_metrics(metrics)
    read = {
        name: copy(x._counted)
        if isinstance(x, Evaluation)
        else Counted.load(Path(x), further_metrics)
        for name, x in evaluations.items()
    }
    (before, a), (after, b) = read.items()
    if a.ids & b.ids:
        raise ValueError(
            f"every evaluation must be compared once, got the same evaluation in {before} and "
            f"{after}; leave one of them out."
        )
    for counted in read.values():
        counted.setting = replace(counted.setting, confidence_level=level)
    return read


def _difference(old: Reading, new: Reading, correlation: float) -> tuple[float, float, float]:
    """Return the difference of two values and its interval; the errors have a correlation."""
    assert old.bounds is not None
    assert new.bounds is not None
    lengths = []
    for i in (0, 1):  # the distance to the lower end, and to the upper one
        a, b = abs(new.bounds[i] - new.value), abs(old.bounds[1 - i] - old.value)
        lengths.append(math.sqrt(max(0.0, a * a + b * b - 2 * correlation * a * b)))
    difference = new.value - old.value
    return difference, difference - lengths[0], difference + lengths[1]


def _facts_and_notes(read: Mapping[str, Counted]) -> tuple[dict[str, Any], list[str]]:
    """Return facts for the card of a comparison and notes, both of its evaluations."""
    of_lists = join_notes({name: counted.note_lists() for name, counted in read.items()})
    doubts = join_notes({name: _doubts(counted) for name, counted in read.items()})
    differing = _differing(read)
    card = join_cards({name: _facts(counted) for name, counted in read.items()})
    card |= {"lists": "; ".join(of_lists)} if of_lists else {}
    card |= {"notes": "; ".join(differing)} if differing else {}
    return card, [*of_lists, *differing, *doubts]


# Facts that the card of a comparison has itself.
_SAID = ("queries", "averaged_over", "intervals", "ties")

# If two evaluations differ in one of these, a note says so: their protocols are not the same.
_PROTOCOL = ("candidates", "exclude", "answers", "cluster", "given")


def _facts(counted: Counted) -> dict[str, Any]:
    """Return the facts on the card of an evaluation that the card of a comparison lacks."""
    return {x: y for x, y in counted.describe().items() if x not in (*_SAID, "candidates")}


def _doubts(counted: Counted) -> list[str]:
    """Return the notes of an evaluation on doubtful values and intervals; equal ones are one."""
    doubts: dict[str, list[str]] = {}
    for name, text in counted.doubts().items():
        doubts.setdefault(text, []).append(name.replace("_", " ", 2))
    return [f"{', '.join(names)}: {text}" for text, names in doubts.items()]


def _differing(evaluations: Mapping[str, Counted]) -> list[str]:
    """Return notes that say how the protocols of two evaluations differ."""
    texts = []
    for name in (*_PROTOCOL, "target"):
        values = {x: _protocol_of(counted, name) for x, counted in evaluations.items()}
        if len({*values.values()}) > 1:
            each = (f"{value} in {x}" for x, value in values.items())
            texts.append(f"{name}: {', '.join(each)}")
    return texts


def _protocol_of(counted: Counted, name: str) -> Any:
    if name == "target":
        form = counted.setting.form
        return "several ids" if form is not None and form.has_several else "one id"
    return getattr(counted.setting, name) or "none"


def _errors(key: str, cluster: str, counted: Counted) -> dict[int, float]:
    """Return what each group adds to the error of a value; {} for F1, which is no mean."""
    grouped: Any = dict(counted.parts[f"by {cluster}"].named_members()).get(key)
    if grouped is None:
        return {}
    means, _, sizes = exact.moments(grouped.group_sums)
    mean = exact.moments(grouped.group_sums.sum(0))[0]
    errors = ((means - mean) * sizes / (sizes.sum() - sizes)).nan_to_num(0, 0, 0)
    return dict(zip(grouped.groups.tolist(), errors.tolist(), strict=True))


def _correlation(a: Mapping[int, float], b: Mapping[int, float]) -> float:
    """Return the correlation of the errors of groups; a group may be in one evaluation only."""
    squares = math.fsum(x * x for x in a.values()) * math.fsum(x * x for x in b.values())
    both = math.fsum(a[name] * b[name] for name in a.keys() & b.keys())
    return both / math.sqrt(squares) if squares else 0.0
