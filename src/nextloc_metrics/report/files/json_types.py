"""Which types of JSON a column refuses: its cells become text, and a boolean would be a name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nextloc_metrics.core.queries.messages import clip, wrong_cell
from nextloc_metrics.report.files.database import quoted
from nextloc_metrics.report.files.opening import FilePart

# What a column holds, with the types that it refuses. A group may be a boolean. An answer is not
# refused here, as `on_error` says what it is; a boolean becomes a list of one, which is unreadable.
_REFUSED: dict[str, tuple[str, ...]] = {
    "an id": ("BOOLEAN", "OBJECT", "ARRAY"),
    "ids of locations": ("BOOLEAN", "OBJECT"),
    "a group": ("OBJECT", "ARRAY"),
    "answers": (),
}
_OF_IDS = ("an id", "ids of locations")
_WHOLE = r"-?[0-9]+(\.0)?"


def text_of(cell: str, holds: str | None) -> str:
    """Return SQL of a value of JSON as text; strings lose their quotes."""
    text = f"{cell}::VARCHAR"
    other = f"WHEN 'BOOLEAN' THEN '[' || {text} || ']' " if holds == "answers" else ""
    return f"CASE json_type({cell}) WHEN 'VARCHAR' THEN {cell}->>'$' {other}ELSE {text} END"


def is_refused(cells: Sequence[str], names: Sequence[str], holds: Mapping[str, str]) -> str:
    """Return SQL of the number of the first column that refuses its value of a row, or NULL."""
    cases = ["CASE"]
    for i, (cell, what) in enumerate(zip(cells, map(holds.get, names), strict=True)):
        if what is None:
            continue
        cases += [f"WHEN json_type({cell}) = {quoted(x)} THEN {i}" for x in _REFUSED[what]]
        if what in _OF_IDS:
            is_whole = f"regexp_full_match({cell}::VARCHAR, '{_WHOLE}')"
            cases.append(f"WHEN json_type({cell}) = 'DOUBLE' AND NOT {is_whole} THEN {i}")
    return " ".join([*cases, "END"]) if len(cases) > 1 else "NULL"


def refusal(part: FilePart, row: int, name: str, holds: Mapping[str, str]) -> ValueError:
    """Return the error of the value of a row, which is text here."""
    what, got = holds[name], clip(part.columns[name][row].as_py())
    lists = " lists," if "ARRAY" in _REFUSED[what] else ""
    why = f"booleans,{lists} objects and fractions are no ids; " if what in _OF_IDS else ""
    return wrong_cell(part.place(row), what, clip(name), got, f"{why}write text or whole numbers")
