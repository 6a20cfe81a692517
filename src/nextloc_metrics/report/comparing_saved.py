"""The comparison of two evaluations of different queries, such as those of two days.

The interval of the difference follows from those of the two values (Newcombe's method 10, MOVER):
their lengths from value to end add up as errors do, of which those of users in both evaluations are
correlated. The correlation is that of what each user adds to the two values, 0 for other users.

Sources: R. G. Newcombe, "Interval estimation for the difference between independent proportions",
Statistics in Medicine 17, 1998; G. Y. Zou, "Toward using confidence intervals to compare
correlations", Psychological Methods 12, 2007.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

from nextloc_metrics.analysis.comparison import Comparison
from nextloc_metrics.core.means import exact
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.report.card import cut_by_lists, join_cards, join_notes, mark_cuts
from nextloc_metrics.report.comparisons import ByPair, Comparisons
from nextloc_metrics.report.evaluation import Evaluation
from nextloc_metrics.report.evaluation_counts import Counted
from nextloc_metrics.report.setting import check_metrics

#: An evaluation, or a file that `Evaluation.save` wrote.
SAVED = (str, Path, Evaluation)


def compare_saved(given: Mapping[str, Any], metrics: Any, level: float) -> Comparisons:
    """Compare two evaluations, by name."""
    if len(given) != 2 or not all(isinstance(x, SAVED) for x in given.values()):
        raise ValueError(
            f"`models` must be two evaluations, or files of them, got {short(dict(given))}."
        )
    own = check_metrics(metrics)
    read = [
        copy(x._counted) if isinstance(x, Evaluation) else Counted.load(Path(x), own)
        for x in given.values()
    ]
    (a, b), (before, after), by = read, given, read[0].sampled_by
    if a.ids & b.ids:
        raise ValueError(
            f"every evaluation must be compared once, got the same evaluation in {before} and "
            f"{after}; leave one of them out."
        )
    for one in read:
        one.setting = replace(one.setting, confidence_level=level)
    found_cuts = {
        name: cut_by_lists(one.rows(), one.setting, one.card, one.longest)
        for name, one in zip(given, read, strict=True)
    }
    readings = (Evaluation(x).columns["value"] for x in read)
    columns = mark_cuts(dict(zip(given, readings, strict=True)), found_cuts)
    first, second = columns[before], columns[after]
    is_shared = by and by == b.sampled_by
    shared = len(a.names[by].keys() & b.names[by].keys()) if is_shared else 0
    found, queries = {}, [one.card["queries"] for one in read]
    for key in [key for key in first if key in second]:
        old, new = first[key], second[key]
        if old.bounds is not None and new.bounds is not None:
            if math.isnan(sum(old.bounds + new.bounds)):
                continue  # too few users for an interval
            alike = _correlation(*(_errors(key, by, one) for one in read)) if shared else 0.0
            ends = []
            for i in (0, 1):  # to the lower end, and to the upper one
                up, down = abs(new.bounds[i] - new.value), abs(old.bounds[1 - i] - old.value)
                ends.append(math.sqrt(max(0.0, up * up + down * down - 2 * alike * up * down)))
            apart = new.value - old.value
            numbers = apart, apart - ends[0], apart + ends[1], math.nan, math.nan, sum(queries)
            found[key] = Comparison(*numbers, level, p_from="t")
    sample = f"by {by} ({shared:,} in both), F1 as independent" if shared else "independent"
    sizes = f"{before}: {queries[0]:,} queries, {after}: {queries[1]:,} queries"
    columns = {name: {x: of[x] for x in found} for name, of in columns.items()}
    said = dict(zip(given, read, strict=True))
    of_lists = join_notes({name: one.note_lists() for name, one in said.items()})
    doubts = join_notes({name: _doubts(one) for name, one in said.items()})
    differing = _differing(said)
    card = {
        "queries": sum(queries),
        "intervals": f"{sample}, not corrected",
        "p": "no tests",
        **join_cards({name: _facts(one) for name, one in said.items()}),
        **({"lists": "; ".join(of_lists)} if of_lists else {}),
        **({"notes": "; ".join(differing)} if differing else {}),
    }
    pair, untested = (before, after), dict.fromkeys(found, math.nan)
    tests = ByPair({pair: found}), ByPair({pair: untested})
    notes = [sizes, f"intervals of differences: {sample}", *of_lists, *differing, *doubts]
    members = [x for x in a.rows() if x[0] in found]
    stds: dict[str, dict[str, float]] = {before: {}, after: {}}
    return Comparisons(*tests, {}, {}, columns, card, level, notes, members, stds)


# What the card of a comparison says itself.
_SAID = ("queries", "averaged_over", "intervals", "ties")

# What two evaluations may differ in so that their values are not those of one protocol.
_PROTOCOL = ("candidates", "exclude", "answers", "cluster", "given")


def _facts(counted: Counted) -> dict[str, Any]:
    """Return what the card of an evaluation says beside what that of a comparison says."""
    return {x: y for x, y in counted.describe().items() if x not in (*_SAID, "candidates")}


def _doubts(counted: Counted) -> list[str]:
    """Return what the card of an evaluation doubts of values and intervals, as notes."""
    doubts: dict[str, list[str]] = {}
    for name, text in counted.doubts().items():
        doubts.setdefault(text, []).append(name.replace("_", " ", 2))
    return [f"{', '.join(names)}: {text}" for text, names in doubts.items()]


def _differing(evaluations: Mapping[str, Counted]) -> list[str]:
    """Say in what the protocols of two evaluations differ."""
    found = []
    for name in _PROTOCOL:
        values = {x: getattr(one.setting, name) or "none" for x, one in evaluations.items()}
        if len({*values.values()}) > 1:
            each = (f"{value} in {x}" for x, value in values.items())
            found.append(f"{name}: {', '.join(each)}")
    return found


def _errors(key: str, by: str, counted: Counted) -> dict[str, float]:
    """Return what each group adds to the error of a value; nothing of F1, which is no mean."""
    grouped: Any = dict(counted.parts[f"by {by}"].named_members()).get(key)
    if grouped is None:
        return {}
    means, _, sizes = exact.moments(grouped._sums)
    off = (means - exact.mean(grouped._sums.sum(0))) * sizes / (sizes.sum() - sizes)
    return dict(zip(counted.labels[by].names, off.nan_to_num(0, 0, 0).tolist(), strict=True))


def _correlation(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    """Return the correlation of errors, of which each group has one or none."""
    squares = math.fsum(x * x for x in a.values()) * math.fsum(x * x for x in b.values())
    both = math.fsum(a[name] * b[name] for name in a.keys() & b.keys())
    return both / math.sqrt(squares) if squares else 0.0
