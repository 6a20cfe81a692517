"""Tables of values: aligned text, HTML, Markdown, LaTeX, CSV, JSON, a data frame."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import torch

import nextloc_metrics.report.formats as formats
from nextloc_metrics.collection import Results, SummedCollection
from nextloc_metrics.comparison import Comparison
from nextloc_metrics.messages import short
from nextloc_metrics.report.readings import Reading, read_results

# Marks of significance, by p-value.
_MARKS = {0.001: "***", 0.01: "**", 0.05: "*"}

Models = Mapping[str, Mapping[str, Reading]]


class Table:
    r"""A table of text, aligned by `print` and shown as HTML in a notebook.

    Args:
        header: the titles of the columns.
        rows: the cells of each row, one per column.
        notes: lines below the rows.
        records: the numbers of each row, by column name; None for the text of the cells.
        bold: the cells in bold, as (row, column).

    Example:
        >>> table = Table(["percent", "value"], [["acc_at_1", "22.58"], ["mrr", "-"]])
        >>> table
        percent   value
        acc_at_1  22.58
        mrr           -
        >>> print(table.to_markdown())
        | percent | value |
        | :--- | ---: |
        | acc\_at\_1 | 22.58 |
        | mrr | - |
    """

    def __init__(
        self,
        header: Sequence[str],
        rows: Sequence[Sequence[str]],
        notes: Sequence[str] = (),
        records: Sequence[Mapping[str, Any]] | None = None,
        bold: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.header = tuple(map(formats.one_line, header))
        self.rows = tuple(tuple(map(formats.one_line, row)) for row in rows)
        self.notes = tuple(map(formats.one_line, notes))
        self.bold = frozenset(bold)
        texts = [dict(zip(header, row, strict=True)) for row in rows]
        self.records = texts if records is None else [dict(record) for record in records]

    def __str__(self) -> str:
        """Return aligned text: the first column left, the others right."""
        lines = [self.header, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = [
            "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip()
            for line in lines
        ]
        return "\n".join([*text, *self.notes])

    __repr__ = __str__

    def to_markdown(self) -> str:
        """Return the table as Markdown."""
        return formats.to_markdown(self.header, self.rows, self.notes, self.bold)

    def to_latex(self) -> str:
        """Return a LaTeX `tabular` for the package booktabs; the best value is bold."""
        return formats.to_latex(self.header, self.rows, self.notes, self.bold)

    def to_csv(self) -> str:
        """Return the numbers, unrounded and as fractions, as comma-separated values."""
        return formats.to_csv(self.records)

    def to_json(self) -> str:
        """Return the numbers, unrounded and as fractions, as JSON; null without data."""
        return formats.to_json(self.records)

    def to_pandas(self) -> Any:
        """Return the numbers, unrounded and as fractions, as a `pandas.DataFrame`.

        Raises:
            ModuleNotFoundError: pandas is not installed.
        """
        import pandas

        frame = pandas.DataFrame(self.records)
        return frame.set_index(frame.columns[0]) if len(frame.columns) else frame

    def _repr_html_(self) -> str:
        return formats.to_html(self.header, self.rows, self.notes, self.bold)


def side_by_side(
    models: Mapping[str, SummedCollection],
    *,
    percent: bool = True,
    intervals: bool = False,
    confidence: float = 0.95,
    comparisons: Mapping[str, Comparison] | None = None,
) -> Table:
    """Make a table of the collections of several models, one column per model.

    It sums states over processes, as `compute` does: call it on all processes.

    Args:
        models: collections by model name; members with equal names, without prefix, share a row.
        percent: whether to write fractions as percent.
        intervals: whether to add a column with the interval of each mean of scores.
        confidence: the confidence level of the intervals.
        comparisons: for two models, results of `analysis.compare` by the names of rows; they mark
            the values of the last model by significance.

    Raises:
        ValueError: there are comparisons and not two models, a comparison has no row, or a model
            has the name of another column, such as `"metric"`.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import MRR, AccuracyAtK, RankingCollection, tables
        >>> first = RankingCollection({"acc_at_1": AccuracyAtK(1), "mrr": MRR()})
        >>> second = first.clone()
        >>> first.update(tensor([[0, 1], [1, 0]]), tensor([0, 0]))  # ranks 1 and 2
        >>> second.update(tensor([[1, 0], [1, 0]]), tensor([0, 0]))  # rank 2, twice
        >>> tables.side_by_side({"first": first, "second": second})
        percent   first  second
        acc_at_1  50.00    0.00
        mrr       75.00   50.00
        2 queries counted
    """
    known = confidence if intervals else None
    found = {name: model.results(known) for name, model in models.items()}
    readings = {
        name: read_results(model, found[name], keep_base=True, by_group=True)
        for name, model in models.items()
    }
    marks = {name: _mark(comparison) for name, comparison in (comparisons or {}).items()}
    rows = set(chain.from_iterable(readings.values()))
    if comparisons and (len(models) != 2 or not set(marks) <= rows):
        raise ValueError(
            "`comparisons` must name rows of a table of two models, got "
            f"{short(sorted(set(marks) - rows) or list(models))}."
        )
    last = list(models)[-1] if marks else ""
    return _lay_out(readings, percent, known, _notes(found, marks), {last: marks})


def of_collection(
    collection: SummedCollection,
    percent: bool,
    confidence: float | None,
    notes: Sequence[str] = (),
) -> Table:
    """Make a table of one collection, with further notes; see `RankingCollection.table`."""
    results = collection.results(confidence)
    readings = read_results(collection, results, keep_base=False, by_group=True)
    below = [*_notes({"": results}, {}), *notes]
    return _lay_out({"value": readings}, percent, confidence, below, {})


def of_readings(
    columns: Models, confidence: float, notes: Sequence[str], marks: Mapping[str, Mapping[str, str]]
) -> Table:
    """Make a table of the values of one model with intervals, and of reference values.

    Args:
        columns: the values, by the title of the column and the name of the row.
        confidence: the confidence level of the intervals.
        notes: lines below the rows.
        marks: text after values, by the title of the column and the name of the row.
    """
    return _lay_out(columns, True, confidence, notes, marks)


def _lay_out(
    models: Models,
    percent: bool,
    confidence: float | None,
    notes: Sequence[str],
    marks: Mapping[str, Mapping[str, str]],
) -> Table:
    """Make a table of readings, one row per name and one column per model."""
    names = list(dict.fromkeys(chain.from_iterable(models.values())))
    first = {name: next(x[name] for x in models.values() if name in x) for name in names}
    titles = {name: reading.title(name) for name, reading in first.items()}
    columns = [
        ["percent" if percent else "fraction"]
        + [titles[name] + _unit(reading, percent) for name, reading in first.items()]
    ]
    bold: list[tuple[int, int]] = []
    for model, readings in models.items():
        found = [readings.get(name) for name in names]
        ends = [marks.get(model, {}).get(name, "") for name in names]
        texts = ["" if x is None else _number(x, x.value, percent) for x in found]
        width = max(map(len, ends), default=0)
        columns.append(
            [str(model), *(text + end.ljust(width) for text, end in zip(texts, ends, strict=True))]
        )
        best = [i for i, name in enumerate(names) if _is_best(model, name, models)]
        bold += [(i, len(columns) - 1) for i in best]
        if confidence is not None and any(x and x.bounds for x in found):
            title = f"{100 * confidence:g} % interval"
            columns.append([title, *_intervals(found, percent)])
    sizes = [_sizes(name, models) for name in names]
    if any(sizes):
        columns.append(["queries", *sizes])
    header, *rows = zip(*columns, strict=True)
    return Table(header, rows, notes, _records(names, titles, models), bold)


def _records(names: Sequence[str], titles: Mapping[str, str], models: Models) -> list[Any]:
    """Return the numbers of each row, by the names of columns, which must differ."""
    records = []
    measured = [x for x in models.values() if any(y.bounds or y.number for y in x.values())]
    alone = len(models) == 1 or len(measured) == 1
    columns = ["metric"]
    for model, readings in models.items():
        of, ones = "" if alone else f"{model} ", readings.values()
        columns.append(str(model))
        columns += [f"{of}{end}" for end in ("low", "high") if any(x.bounds for x in ones)]
        columns += [f"{of}queries"] * any(x.number is not None for x in ones)
    if twice := [column for column, number in Counter(columns).items() if number > 1]:
        raise ValueError(
            f"`models` must not have the name of another column of the table, got {short(twice[0])}"
            "; rename the model."
        )
    for name in names:
        record: dict[str, Any] = {"metric": titles[name]}
        for model, readings in models.items():
            if (one := readings.get(name)) is None:
                record[str(model)] = math.nan
                continue
            record[str(model)] = one.value
            of = "" if alone else f"{model} "
            if one.bounds is not None:
                record |= dict(zip((f"{of}low", f"{of}high"), one.bounds, strict=True))
            if one.number is not None:
                record[f"{of}queries"] = one.number
        records.append(record)
    return records


def _is_best(model: str, name: str, models: Models) -> bool:
    """Return whether a model has the best value among several models."""
    values = {of: x[name] for of, x in models.items() if name in x}
    known = [one.value for one in values.values() if one.value == one.value]
    if len(models) == 1 or model not in values or values[model].value not in known:
        return False
    higher = values[model].higher_is_better
    return higher is not None and values[model].value == (max(known) if higher else min(known))


def _sizes(name: str, models: Models) -> str:
    """Return the number of queries of a group; if models differ, the number for each."""
    found = [x[name].number for x in models.values() if name in x]
    return " / ".join(dict.fromkeys(f"{number:,}" for number in found if number is not None))


def _notes(found: Mapping[str, Results], marks: Mapping[str, str]) -> list[str]:
    """Return notes with the number of queries, for each model if models differ."""
    notes = {}
    for model, results in found.items():
        numbers = sorted({int(torch.as_tensor(x).sum()) for x in results.numbers.values()})
        if not numbers:
            continue
        most = " to ".join(f"{number:,}" for number in dict.fromkeys([numbers[0], numbers[-1]]))
        note = f"{most} {'query' if numbers[-1] == 1 else 'queries'} counted"
        if results.undecided:
            note += f", {results.undecided:,} of them undecided (F1)"
        notes[model] = note
    lines = list(dict.fromkeys(notes.values()))
    if len(lines) > 1:
        lines = [f"{model}: {note}" for model, note in notes.items()]
    if any(marks.values()):
        levels = ", ".join(f"{mark} p < {level:g}" for level, mark in reversed(_MARKS.items()))
        lines.append(levels)
    return lines


def _mark(comparison: Comparison) -> str:
    return next((mark for level, mark in _MARKS.items() if comparison.p_value < level), "")


def _unit(reading: Reading, percent: bool) -> str:
    if not percent or reading.is_fraction:
        return ""
    return f" ({reading.unit or 'not %'})"


def _number(reading: Reading, value: float, percent: bool) -> str:
    if math.isnan(value):
        return "-"
    if not reading.is_fraction:
        return f"{value:.6g}"
    return f"{100 * value:.2f}" if percent else f"{value:.4f}"


def _intervals(readings: Sequence[Reading | None], percent: bool) -> list[str]:
    """Return intervals as text, aligned at the dash."""
    ends = [
        tuple(_number(reading, end, percent) for end in reading.bounds)
        if reading is not None and reading.bounds is not None
        else None
        for reading in readings
    ]
    width = max((len(end) for pair in ends if pair for end in pair), default=0)
    return ["" if pair is None else " - ".join(end.rjust(width) for end in pair) for pair in ends]
