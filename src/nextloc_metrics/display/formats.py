"""Tables in Markdown, LaTeX, HTML, CSV and JSON, with special characters escaped."""

import csv
import io
import json
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from html import escape
from typing import Any

TextRow = Sequence[str]
Bold = Collection[tuple[int, int]]
Writer = Callable[[str], str]

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "†": r"\textdagger{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}

# Characters that end a line, that a terminal does not print, or that turn the direction of text.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")

# What a spreadsheet reads as a formula; a number is none.
_FORMULA = re.compile(r"[=+\-@\t\r](?![\d.]*$)")


def one_line(text: str) -> str:
    r"""Return the text with escapes such as `\n` for line breaks and control characters."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def write_fact(value: Any) -> str:
    """Return a value of a card as text."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else one_line(str(value))


def in_percent(fraction: float, sign: str = "") -> str:
    """Write a fraction in percent, or with the sign `"+"` a difference in percentage points."""
    return "-" if math.isnan(fraction) else f"{100 * fraction:{sign}.2f}"


def _write(rows: Sequence[TextRow], bold: Bold, write: Writer, mark: Writer) -> list[list[str]]:
    """Write all cells, and mark those in bold."""
    return [
        [mark(write(cell)) if (row, i) in bold else write(cell) for i, cell in enumerate(cells)]
        for row, cells in enumerate(rows)
    ]


def to_markdown(header: TextRow, rows: Sequence[TextRow], notes: TextRow, bold: Bold) -> str:
    """Return a Markdown table, with the notes below it."""
    body = _write(rows, bold, lambda cell: markdown(cell.strip()), "**{}**".format)
    sides = [":---", *["---:"] * (len(header) - 1)]
    lines = [[markdown(title.strip()) for title in header], sides, *body]
    table = [f"| {' | '.join(cells)} |" for cells in lines]
    return "\n".join([*table, *([""] if notes else []), *(f"{markdown(x)}  " for x in notes)])


def to_latex(header: TextRow, rows: Sequence[TextRow], notes: TextRow, bold: Bold) -> str:
    """Return a LaTeX `tabular` with booktabs rules, with the notes as its last rows."""
    body = _write(rows, bold, lambda cell: _latex(cell.strip()), r"\textbf{{{}}}".format)
    head, *lines = (" & ".join(cells) + r" \\" for cells in (map(_latex, header), *body))
    start = rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}"
    full_row = rf"\multicolumn{{{len(header)}}}{{l}}"
    below = [rf"{full_row}{{\footnotesize {_latex(note)}}} \\" for note in notes]
    rules = r"\toprule", r"\midrule", r"\bottomrule"
    parts = [start, rules[0], head, rules[1], *lines, rules[2], *below, r"\end{tabular}"]
    return "\n".join(parts)


def to_html(header: TextRow, rows: Sequence[TextRow], notes: TextRow, bold: Bold) -> str:
    """Return an HTML table, with the notes as its caption."""

    def line(tag: str, cells: TextRow) -> str:
        sides = ["left", *["right"] * (len(cells) - 1)]
        written = [
            f'<{tag} style="text-align: {side}">{cell}</{tag}>'
            for side, cell in zip(sides, cells, strict=True)
        ]
        return f"<tr>{''.join(written)}</tr>"

    body = "".join(line("td", cells) for cells in _write(rows, bold, escape, "<b>{}</b>".format))
    head = line("th", [*map(escape, header)])
    below = "<br>".join(map(escape, notes))
    caption = f'<caption style="caption-side: bottom">{below}</caption>' if notes else ""
    return f"<table>{caption}<thead>{head}</thead><tbody>{body}</tbody></table>"


def to_csv(records: Sequence[Mapping[str, Any]]) -> str:
    """Return comma-separated values; NaN is an empty cell, and no text is a formula."""
    names = list(dict.fromkeys(name for record in records for name in record))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(csv_cell, names))
    writer.writerows([csv_cell(record.get(name, "")) for name in names] for record in records)
    return text.getvalue()


def csv_cell(value: Any) -> Any:
    """Return a cell of a CSV file: empty for NaN, and `'` before what looks like a formula."""
    if isinstance(value, str) and _FORMULA.match(value):
        return f"'{value}"
    return "" if _is_nan(value) else value


def to_json(records: Sequence[Mapping[str, Any]]) -> str:
    """Return JSON with one object per row, by the first cell of the row; NaN is null."""
    rows = {}
    for record in records:
        (_, name), *cells = record.items()
        rows[str(name)] = {key: None if _is_nan(x) else x for key, x in cells}
    return json.dumps(rows, indent=2, ensure_ascii=False)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def markdown(text: str) -> str:
    """Return the text with what Markdown reads as its own escaped."""
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", text)
