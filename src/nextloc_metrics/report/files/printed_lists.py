"""Lists in text as NumPy and Python print them: `[1 2 3]` and `(1, 2)` become `[1, 2, 3]`."""

from __future__ import annotations

from typing import Any

from nextloc_metrics.report.files.columns import is_text_column
from nextloc_metrics.report.files.ids import plain
from nextloc_metrics.report.files.opening import FilePart, pa, pc

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_QUOTED = r"(?:'[^',]*'|\"[^\",]*\")"
_NUMBERS = rf"^\s*\[\s*{_NUMBER}(?:\s+{_NUMBER})+\s*\]\s*$"
_NAMES = rf"^\s*\[\s*{_QUOTED}(?:\s+{_QUOTED})+\s*\]\s*$"
_ITEM = rf"(?:{_NUMBER}|'[^']*'|\"[^\"]*\")"
_TUPLE = rf"^\s*\(\s*{_ITEM}\s*(?:,\s*{_ITEM}\s*)*,?\s*\)\s*$"


def with_commas(part: FilePart, preds: str, target: str) -> FilePart:
    """Write printed lists of two columns with brackets and commas.

    Tuples are lists in predictions alone, and only where no target is one: pairs such as `(3, 5)`
    may be names, of the cells of a grid.
    """
    found = dict(part.columns)
    for name in {preds, target} & found.keys():
        if is_text_column(column := found[name]):
            found[name] = column = _of_numpy(column)
            if name == preds and not _has_tuples(found.get(target)) and _has_tuples(column):
                inside = pc.ascii_trim(column, " ,()\t\r\n")
                lists = pc.binary_join_element_wise("[", inside, "]", "")
                column = pc.if_else(pc.match_substring_regex(column, _TUPLE), lists, column)
                found[name] = column
    return part._replace(columns=found)


def _of_numpy(column: Any) -> Any:
    """Put commas between the items of what NumPy prints."""
    column = pa.array(column) if isinstance(column, list) else plain(column)
    if pc.any(are := pc.match_substring_regex(column, _NUMBERS)).as_py():
        inside = pc.ascii_trim_whitespace(pc.ascii_trim(column, " []\t\r\n"))
        items = pc.replace_substring_regex(inside, r"\s+", ", ")
        column = pc.if_else(are, pc.binary_join_element_wise("[", items, "]", ""), column)
    if pc.any(are := pc.match_substring_regex(column, _NAMES)).as_py():
        items = pc.replace_substring_regex(column, r"(['\"])\s+(['\"])", r"\1, \2")
        column = pc.if_else(are, items, column)
    return column


def _has_tuples(column: Any) -> bool:
    is_text = column is not None and is_text_column(column) and not isinstance(column, list)
    return is_text and pc.any(pc.match_substring_regex(column, _TUPLE)).as_py() is True
