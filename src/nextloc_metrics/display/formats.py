"""Tables in Markdown, LaTeX, HTML, CSV and JSON, with special characters escaped."""

import csv
import io
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import Any

TextRow = Sequence[str]
Bold = Collection[tuple[int, int]]

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


def in_percent(fraction: float, sign: str = "") -> str:
    """Write a fraction in percent, or with the sign `"+"` a difference in percentage points."""
    return "-" if math.isnan(fraction) else f"{100 * fraction:{sign}.2f}"


def to_markdown(header: TextRow, rows: Sequence[TextRow], notes: TextRow, bold: Bold) -> str:
    """Return a Markdown table, with the notes below it."""

    def line(cells: TextRow, row: int | None = None) -> str:
        written = [markdown(cell.strip()) for cell in cells]
        if row is not None:
            written = [f"**{x}**" if (row, i) in bold else x for i, x in enumerate(written)]
        return f"| {' | '.join(written)} |"

    sides = line(["@", *["#"] * (len(header) - 1)]).replace("@", ":---").replace(r"\#", "---:")
    table = [line(header), sides, *(line(cells, row) for row, cells in enumerate(rows))]
    return "\n".join([*table, *([""] if notes else []), *(f"{markdown(x)}  " for x in notes)])


def to_latex(header: TextRow, rows: Sequence[TextRow], notes: TextRow, bold: Bold) -> str:
    """Return a LaTeX `tabular` with booktabs rules, with the notes as its last rows."""
    lines = [rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}", r"\toprule"]
    lines.append(" & ".join(map(_latex, header)) + r" \\")
    lines.append(r"\midrule")
    for row, cells in enumerate(rows):
        written = [_latex(cell.strip()) for cell in cells]
        written = [rf"\textbf{{{x}}}" if (row, i) in bold else x for i, x in enumerate(written)]
        lines.append(" & ".join(written) + r" \\")
    lines.append(r"\bottomrule")
    full_row = rf"\multicolumn{{{len(header)}}}{{l}}"
    lines += [rf"{full_row}{{\footnotesize {_latex(note)}}} \\" for note in notes]
    return "\n".join([*lines, r"\end{tabular}"])


def to_html(header: TextRow, rows: Sequence[TextRow], notes: TextRow, bold: Bold) -> str:
    """Return an HTML table, with the notes as its caption."""

    def line(tag: str, cells: TextRow, row: int = -1) -> str:
        written = []
        for i, cell in enumerate(cells):
            text = escape(cell)
            text = f"<b>{text}</b>" if (row, i) in bold else text
            side = "right" if i else "left"
            written.append(f'<{tag} style="text-align: {side}">{text}</{tag}>')
        return f"<tr>{''.join(written)}</tr>"

    body = "".join(line("td", cells, row) for row, cells in enumerate(rows))
    head = line("th", header)
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
