"""Tables of values: aligned text, HTML, Markdown, LaTeX, CSV, JSON, a data frame."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from html import escape
from itertools import chain, repeat
from typing import Any

from nextloc_metrics.core.display.reading import Models, Reading, footnotes_of
from nextloc_metrics.core.queries.messages import short

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "†": r"\textdagger{}",
    "±": r"$\pm$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}

# Marks after values, which a note explains.
_MARKS = ("*", "†", "~", "!")

# Characters that end a line, that a terminal does not print, or that turn the direction of text.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")

# What a spreadsheet reads as a formula; a number is none.
_FORMULA = re.compile(r"[=+\-@\t\r](?![\d.]*$)")


def one_line(text: str) -> str:
    r"""Return the text with escapes such as `\n` for line breaks and control characters."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def write_facts(card: Mapping[str, Any]) -> dict[str, str]:
    """Return the facts of a card as text, by name; None is left out."""
    return {
        name: f"{value:,}" if isinstance(value, int) else one_line(str(value))
        for name, value in card.items()
        if value is not None
    }


def in_percent(fraction: float) -> str:
    """Write a fraction in percent."""
    return "-" if math.isnan(fraction) else f"{100 * fraction:.2f}"


def csv_cell(value: Any) -> Any:
    """Return a cell of a CSV file: empty for NaN, and `'` before what looks like a formula."""
    if isinstance(value, str) and _FORMULA.match(value):
        return f"'{value}"
    return "" if _is_nan(value) else value


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def _latex_cells(cells: Sequence[str]) -> list[str]:
    """Write a name and its numbers, with en dashes in ranges and for no value, and minus signs."""
    name, *others = (_latex(cell.strip()) for cell in cells)
    dashed = (re.sub(r"(?<=\d) *- *(?=\d)|^-$", "--", x) for x in others)
    written = [name, *(re.sub(r"(?<![\w-])-(?=\d)", "$-$", x) for x in dashed)]
    return written if name else [x and rf"\scriptsize {x}" for x in written]


def markdown(text: str) -> str:
    """Return the text with what Markdown reads as its own escaped."""
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", text)


def check_metrics_of(metrics: Sequence[str], known: Sequence[str]) -> None:
    """Raise an error if a name is not one of a table's metrics, or if there is none."""
    if isinstance(metrics, str) or not metrics or not {*metrics} <= {*known}:
        raise ValueError(
            f"`metrics` must be a list of {short(list(dict.fromkeys(known)))}, got "
            f"{short(metrics)}."
        )


class Table:
    r"""A table of text, aligned by `print` and shown as HTML in a notebook.

    Args:
        header: the titles of the columns.
        rows: the cells of each row, one per column.
        notes: lines below the rows; one that begins with a mark is left out if no cell has it.
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
        self.header = tuple(map(one_line, header))
        self.rows = tuple(tuple(map(one_line, row)) for row in rows)
        cells = "".join(chain.from_iterable(self.rows))
        kept = (note for note in notes if note[:1] not in _MARKS or note[:1] in cells)
        self.notes = tuple(map(one_line, kept))
        self.bold = frozenset(bold)
        texts = [dict(zip(header, row, strict=True)) for row in rows]
        self._records = texts if records is None else records

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """The numbers of each row, by column name."""
        records = self._records() if callable(self._records) else self._records
        return [dict(record) for record in records]

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

    def _cells(self, write: Callable[[str], str], mark: Callable[[str], str]) -> list[list[str]]:
        """Write the cells of all rows, and mark those in bold."""
        return [
            [mark(write(x)) if (row, i) in self.bold else write(x) for i, x in enumerate(cells)]
            for row, cells in enumerate(self.rows)
        ]

    def of_metrics(self, metrics: Sequence[str] | None) -> Table:
        """Return the table with the rows of these metrics, in this order; None for all."""
        if metrics is None:
            return self
        names = [row[0].split(",")[0] for row in self.rows]
        check_metrics_of(metrics, names)
        kept = [i for name in metrics for i, x in enumerate(names) if x == name]
        bold = [(row, column) for row, i in enumerate(kept) for x, column in self.bold if x == i]
        records = [self.records[i] for i in kept]
        return Table(self.header, [self.rows[i] for i in kept], self.notes, records, bold)

    def to_markdown(self) -> str:
        """Return the table as Markdown, with the notes below it."""
        body = self._cells(lambda cell: markdown(cell.strip()), "**{}**".format)
        head = [markdown(title.strip()) for title in self.header]
        sides = [":---", *["---:"] * (len(head) - 1)]
        table = [f"| {' | '.join(cells)} |" for cells in (head, sides, *body)]
        notes = [f"{markdown(note)}  " for note in self.notes]
        return "\n".join([*table, *([""] if notes else []), *notes])

    def to_latex(self) -> str:
        r"""Return a LaTeX table for the package booktabs, in small type; the best value is bold.

        The notes stand below it in a block of its width. A row without a name belongs to the row
        above it and has smaller type.
        """
        rows = [_latex_cells(row) for row in self.rows]
        for row, column in self.bold:
            rows[row][column] = rf"\textbf{{{rows[row][column]}}}"
        written = (" & ".join(x) + r" \\" for x in (map(_latex, self.header), *rows))
        # commands before a row, such as \\, would read its first [ or * as their own
        head, *lines = (re.sub(r"^[\[*]", r"{\g<0>}", line) for line in written)
        pairs = zip([*rows[:1], *rows], rows, strict=False)
        spaces = [r"\addlinespace " * (bool(row[0]) > bool(above[0])) for above, row in pairs]
        lines = [space + line for space, line in zip(spaces, lines, strict=True)]
        columns = "l" + "r" * (len(self.header) - 1)
        return "\n".join(
            [
                r"{\small\setlength{\tabcolsep}{3pt}%",
                rf"\sbox0{{\begin{{tabular}}{{@{{}}{columns}@{{}}}}",
                *(r"\toprule", head, r"\midrule", *lines, r"\bottomrule"),
                r"\end{tabular}}%",
                r"\ifdim\wd0<12em\wd0=12em\fi",
                r"\begin{minipage}{\wd0}",
                r"\usebox0\par\smallskip\footnotesize\raggedright",
                *(_latex(note) + r"\par" for note in self.notes),
                r"\end{minipage}}",
            ]
        )

    def to_csv(self) -> str:
        """Return the numbers, unrounded and as fractions, as comma-separated values."""
        names = list(dict.fromkeys(name for record in self.records for name in record))
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(map(csv_cell, names))
        for record in self.records:
            writer.writerow([csv_cell(record.get(name, "")) for name in names])
        return text.getvalue()

    def to_json(self) -> str:
        """Return the numbers, unrounded and as fractions, as JSON; null without data."""
        numbers = {}
        for record in self.records:
            (_, name), *cells = record.items()
            numbers[str(name)] = {key: None if _is_nan(x) else x for key, x in cells}
        return json.dumps(numbers, indent=2, ensure_ascii=False)

    def to_pandas(self) -> Any:
        """Return the numbers, unrounded and as fractions, as a `pandas.DataFrame`."""
        import pandas

        frame = pandas.DataFrame(self.records)
        return frame.set_index(frame.columns[0]) if len(frame.columns) else frame

    def _repr_html_(self) -> str:
        def line(tag: str, cells: Iterable[str]) -> str:
            sides = chain(["left"], repeat("right"))
            both = zip(sides, cells, strict=False)
            written = (f'<{tag} style="text-align: {side}">{x}</{tag}>' for side, x in both)
            return f"<tr>{''.join(written)}</tr>"

        body = "".join(line("td", cells) for cells in self._cells(escape, "<b>{}</b>".format))
        head = line("th", map(escape, self.header))
        below = "<br>".join(map(escape, self.notes))
        caption = f'<caption style="caption-side: bottom">{below}</caption>' if self.notes else ""
        return f"<table>{caption}<thead>{head}</thead><tbody>{body}</tbody></table>"


def of_readings(
    models: Models,
    confidence_level: float | None,
    notes: Sequence[str] = (),
    marks: Mapping[str, Mapping[str, str]] | None = None,
    percent: bool = True,
) -> Table:
    """Make a table of values, one row per name and one column per model.

    `confidence_level` is the level of the intervals, None for none; `marks` are texts after values;
    `percent` writes fractions as percent. The header says so if all values are fractions, else each
    row has its unit.
    """
    marks = marks or {}
    names = list(dict.fromkeys(chain.from_iterable(models.values())))
    first = {name: next(x[name] for x in models.values() if name in x) for name in names}
    titles = {name: reading.title(name) for name, reading in first.items()}
    mixed = not all(reading.is_fraction for reading in first.values())
    head = "metric" if mixed else "percent" if percent else "fraction"
    units = {name: _unit(reading, percent) if mixed else "" for name, reading in first.items()}
    columns = [[head, *(titles[name] + units[name] for name in names)]]
    bold: list[tuple[int, int]] = []
    for model, readings in models.items():
        shown = [readings.get(name) for name in names]
        ends = [
            marks.get(model, {}).get(name, "") or (x.dagger if x else "")
            for name, x in zip(names, shown, strict=True)
        ]
        texts = ["" if x is None else write_number(x, x.value, percent) for x in shown]
        width = max(map(len, ends), default=0)
        columns.append(
            [str(model), *(text + end.ljust(width) for text, end in zip(texts, ends, strict=True))]
        )
        best = [i for i, name in enumerate(names) if _is_best(model, name, models)]
        bold += [(i, len(columns) - 1) for i in best]
        if confidence_level is not None and any(x and x.bounds for x in shown):
            title = f"{100 * confidence_level:g} % interval"
            columns.append([title, *_intervals(shown, percent)])
    sizes = [_sizes(name, models) for name in names]
    if any(sizes):
        columns.append(["queries", *sizes])
    header, *rows = zip(*columns, strict=True)
    below = [*footnotes_of(one for of in models.values() for one in of.values()), *notes]
    return Table(header, rows, below, _records(names, titles, models), bold)


def across(
    rows: Models,
    confidence_level: float,
    notes: Sequence[str],
    records: Callable[[], list[dict[str, Any]]],
    numbers: Mapping[str, Mapping[str, int]],
) -> Table:
    """Make a table with a row per name and a column per metric, with the number of queries.

    The first metric has its intervals. `numbers` are further columns, which some rows may lack.
    """
    first = next(iter(rows.values()), {})
    mixed = not all(one.is_fraction for one in first.values())
    header, columns = ["" if mixed else "percent"], [[*rows]]
    for i, name in enumerate(first):
        shown = [of[name] for of in rows.values()]
        header.append(name + (_unit(shown[0], True) if mixed else ""))
        columns.append(_marked(shown))
        if i == 0 and any(one.bounds for one in shown):
            header.append(f"{100 * confidence_level:g} % interval")
            columns.append(_intervals(shown, True))
    header.append("queries")
    sizes = ([of[x].number for x in [*first][:1]] for of in rows.values())
    columns.append(["".join(f"{x:,}" for x in of if x is not None) for of in sizes])
    for title, of_rows in numbers.items():
        header.append(title)
        columns.append([f"{of_rows[name]:,}" if name in of_rows else "" for name in rows])
    below = [*footnotes_of(one for of in rows.values() for one in of.values()), *notes]
    return Table(header, [*zip(*columns, strict=True)], below, records)


def _marked(readings: Sequence[Reading]) -> list[str]:
    """Write values in percent with their daggers; a value without one has a space instead."""
    width = max((len(one.dagger) for one in readings), default=0)
    return [write_number(one, one.value) + one.dagger.ljust(width) for one in readings]


def _records(names: Sequence[str], titles: Mapping[str, str], models: Models) -> list[Any]:
    """Return the numbers of each row, by the names of columns, which must differ."""
    measured = [x for x in models.values() if any(y.bounds or y.number for y in x.values())]
    alone = len(models) == 1 or len(measured) == 1
    records = []
    for name in names:
        cells: list[tuple[str, Any]] = [("metric", titles[name])]
        for model, readings in models.items():
            prefix, reading = "" if alone else f"{model} ", readings.get(name)
            cells.append((str(model), reading.value if reading else math.nan))
            if reading and reading.bounds is not None:
                cells += zip((f"{prefix}low", f"{prefix}high"), reading.bounds, strict=True)
            if reading and reading.number is not None:
                cells.append((f"{prefix}queries", reading.number))
        counted = Counter(column for column, _ in cells)
        if twice := [column for column, number in counted.items() if number > 1]:
            raise ValueError(
                "`models` must not have the name of another column of the table, got "
                f"{short(twice[0])}; rename the model."
            )
        records.append(dict(cells))
    return records


def _is_best(model: str, name: str, models: Models) -> bool:
    values = {other: x[name] for other, x in models.items() if name in x}
    present = [one.value for one in values.values() if one.value == one.value]
    if len(present) < 2 or model not in values or values[model].value not in present:
        return False
    higher = values[model].higher_is_better
    return higher is not None and values[model].value == (max(present) if higher else min(present))


def _sizes(name: str, models: Models) -> str:
    """Return the number of queries of a group; if models differ, the number for each."""
    numbers = [x[name].number for x in models.values() if name in x]
    return " / ".join(dict.fromkeys(f"{number:,}" for number in numbers if number is not None))


def _unit(reading: Reading, percent: bool) -> str:
    unit = ("%" if percent else "") if reading.is_fraction else reading.unit
    return f" ({unit})" if unit else ""


def write_number(reading: Reading, value: float, percent: bool = True, sign: str = "") -> str:
    """Write a value of a reading, or a difference of values with the sign `"+"`."""
    if math.isnan(value):
        return "-"
    if not reading.is_fraction:
        return f"{value:{sign}.6g}"
    return f"{100 * value:{sign}.2f}" if percent else f"{value:{sign}.4f}"


def _intervals(readings: Sequence[Reading | None], percent: bool) -> list[str]:
    """Return intervals as text, aligned at the dash; a value without an interval has a dash."""
    ends = [
        [write_number(x, end, percent) for end in x.bounds or ()] if x else [] for x in readings
    ]
    width = max((len(end) for pair in ends for end in pair), default=0)
    texts = [" - ".join(end.rjust(width) for end in pair) for pair in ends]
    lacking = [x is not None and x.lacks_interval for x in readings]
    return ["-" if lacks else text for lacks, text in zip(lacking, texts, strict=True)]
