"""Whether rows have the counts of a saved evaluation: count them again, and compare integers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nextloc_metrics.core.queries.messages import describe, short
from nextloc_metrics.core.version import __version__
from nextloc_metrics.report.arrays import evaluate
from nextloc_metrics.report.evaluation import Evaluation
from nextloc_metrics.report.evaluation_counts import Counted
from nextloc_metrics.report.setting import CONFIDENCE, EXEMPT, check_metrics
from nextloc_metrics.report.table_evaluation import evaluate_table

# Integers of one metric that a line shows.
_SHOWN = 4


@dataclass(frozen=True)
class Verification:
    """What differs between a saved evaluation and rows; `print` shows it, or "equal".

    Attributes:
        differences: other options, the version, other numbers of queries, then each metric whose
            sums differ, with both values; empty if all are equal.
    """

    differences: list[str]

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not self.differences

    def __str__(self) -> str:
        return "\n".join(self.differences or ["equal"])


def verify(saved: str | Path | Evaluation, rows: Any, **reading: Any) -> Verification:
    """Count rows again with the options of a saved evaluation, and say which sums differ.

    Sums are integers, so equal rows give equal sums on every machine. The table of `truth` is given
    again, and its columns are those of the file. What a file has as a digest is given again, and
    checked by it: `bins`, `locations`, `train_counts`, `vocabulary` and `history`; so are `metrics`
    and how `answers` are read.

    Args:
        saved: a file that `Evaluation.save` wrote, or an evaluation.
        rows: a table as for `evaluate_table`; or a dict of the arrays of `evaluate`, such as
            `{"preds": preds, "target": target}`; or an evaluation.
        reading: further arguments of `evaluate_table` or `evaluate`, also in place of an option or
            a column that the file names.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is cut, was changed or is another one, or rows cannot be counted.

    Example:
        >>> from nextloc_metrics import report
        >>> e = report.evaluate([[3, 5], [4, 2]], [3, 2], k=1, num_locations=9)
        >>> print(report.verify(e, {"preds": [[3, 5], [4, 2]], "target": [3, 2]}))
        equal
        >>> found = report.verify(e, {"preds": [[5, 3], [4, 2]], "target": [3, 2]})
        >>> print(found.differences[0])  # 0 of 2, and of squares, in 2^-32
        acc_at_1: 0, 0; saved 4294967296, 4294967296
    """
    if isinstance(saved, Evaluation):
        known = saved._counted
    else:
        known = Counted.load(Path(saved), check_metrics(reading.get("metrics")))
    if isinstance(rows, Mapping):
        rows = evaluate(**{**options_of(known), **reading, **rows})
    elif not isinstance(rows, Evaluation):
        rows = evaluate_table(rows, **{**options_of(known), **columns_of(known), **reading})
    return compare_counts(known, rows._counted)


def options_of(counted: Counted) -> dict[str, Any]:
    """Return the options of `evaluate` that a file holds as they were given."""
    setting = counted.setting
    names = ("cluster", "confidence_level", "k", "km", "measures")
    given = setting.probabilities in ("", CONFIDENCE)
    return {
        **{name: getattr(setting, name) for name in names},
        "num_locations": setting.known_locations,
        "exempt_target": setting.exclude == EXEMPT,
        "given": None if given else setting.probabilities,
        "about": setting.about or None,
    }


def columns_of(counted: Counted) -> dict[str, Any]:
    """Return the columns that were read, and how, as arguments of `evaluate_table`."""
    return {**counted.columns, "groups": counted.setting.groups}


def compare_counts(saved: Counted, found: Counted) -> Verification:
    """Compare counts of rows with those that were saved."""
    lines, number = [], __version__
    settings = vars(found.setting), vars(saved.setting)
    pairs = {name: (settings[0][name], old) for name, old in settings[1].items()}
    cards: list[Any] = [{**x.card, "longest list": x.longest} for x in (found, saved)]
    pairs |= {x: (cards[0].get(x, 0), cards[1].get(x, 0)) for x in {**cards[1], **cards[0]}}
    for kind, names in saved.labels.items():
        new = found.labels.get(kind)
        pairs[f"groups by {kind}"] = (new and new.names, names.names)
    lines += [f"{x}: {short(a)}; saved {short(b)}" for x, (a, b) in pairs.items() if a != b]
    states = found._members()
    for name, member in saved._members().items():
        if name not in states:  # as another option has said
            continue
        title, a, b = name.lstrip("/"), states[name].state, member.state
        if a.shape != b.shape:
            lines.append(f"{title}: {describe(a)}; saved {describe(b)}")
        elif (other := (a != b)).any():
            texts = [", ".join(map(str, x[other].tolist()[:_SHOWN])) for x in (a, b)]
            more = f" and {count - _SHOWN:,} more" if (count := int(other.sum())) > _SHOWN else ""
            lines.append(f"{title}: {texts[0]}; saved {texts[1]}{more}")
    if lines and saved.made_by not in ("", number):
        lines.insert(0, f"version: {number}; saved {saved.made_by}")
    return Verification(lines)
