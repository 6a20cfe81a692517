"""Tables of values: aligned text, HTML, Markdown, LaTeX, CSV, JSON, a data frame."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

from nextloc_metrics.arguments.messages import short
from nextloc_metrics.display import formats
from nextloc_metrics.display.reading import Models, Reading


class Table:
    r"""A table of text, aligned by `print` and shown as HTML in a notebook.

    Args:
        header: the titles of the columns.
        rows: the cells of each row, one per column.
        notes: lines below the rows.
        records: the numbers of each row, by column name, or a function that returns them when they
            are read; None for the text of the cells.
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
        records: Sequence[Mapping[str, Any]] | Callable[[], list[dict[str, Any]]] | None = None,
        bold: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.header = tuple(map(formats.one_line, header))
        self.rows = tuple(tuple(map(formats.one_line, row)) for row in rows)
        self.notes = tuple(map(formats.one_line, notes))
        self.bold = frozenset(bold)
        texts = [dict(zip(header, row, strict=True)) for row in rows]
        self._records = texts if records is None else records

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """The numbers of each row, by column name."""
        found = self._records() if callable(self._records) else self._records
        return [dict(record) for record in found]

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
        """Return the numbers, unrounded and as fractions, as a `pandas.DataFrame`."""
        import pandas

        frame = pandas.DataFrame(self.records)
        return frame.set_index(frame.columns[0]) if len(frame.columns) else frame

    def _repr_html_(self) -> str:
        return formats.to_html(self.header, self.rows, self.notes, self.bold)


def of_readings(
    models: Models,
    confidence_level: float | None,
    notes: Sequence[str] = (),
    marks: Mapping[str, Mapping[str, str]] | None = None,
    percent: bool = True,
) -> Table:
    """Make a table of values, one row per name and one column per model.

    `confidence_level` is the level of the intervals, None for none; `marks` are texts after values;
    `percent` writes fractions as percent.
    """
    marks = marks or {}
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
        if confidence_level is not None and any(x and x.bounds for x in found):
            title = f"{100 * confidence_level:g} % interval"
            columns.append([title, *_intervals(found, percent)])
    sizes = [_sizes(name, models) for name in names]
    if any(sizes):
        columns.append(["queries", *sizes])
    header, *rows = zip(*columns, strict=True)
    return Table(header, rows, notes, _records(names, titles, models), bold)


def _records(names: Sequence[str], titles: Mapping[str, str], models: Models) -> list[Any]:
    """Return the numbers of each row, by the names of columns, which must differ."""
    measured = [x for x in models.values() if any(y.bounds or y.number for y in x.values())]
    alone = len(models) == 1 or len(measured) == 1
    records = []
    for name in names:
        cells: list[tuple[str, Any]] = [("metric", titles[name])]
        for model, readings in models.items():
            of, one = "" if alone else f"{model} ", readings.get(name)
            cells.append((str(model), one.value if one else math.nan))
            if one and one.bounds is not None:
                cells += zip((f"{of}low", f"{of}high"), one.bounds, strict=True)
            if one and one.number is not None:
                cells.append((f"{of}queries", one.number))
        counted = Counter(column for column, _ in cells)
        if twice := [column for column, number in counted.items() if number > 1]:
            raise ValueError(
                "`models` must not have the name of another column of the table, got "
                f"{short(twice[0])}; rename the model."
            )
        records.append(dict(cells))
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
