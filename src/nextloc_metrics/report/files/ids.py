"""Ids in the cells of a column: real lists, single ids, or text that holds either."""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from nextloc_metrics.report.files.cells import (
    SHORT,
    WHOLE,
    CellKind,
    CellReading,
    Cells,
    WrongTypeError,
    as_numpy,
    convert,
    filtered,
    is_list,
    is_odd,
    is_text,
    of_nested,
    plain,
    whole_of,
)
from nextloc_metrics.report.files.opening import pa, pc

_LIST = rf"^\[ *(?:{SHORT}(?: *, *{SHORT})*)? *\]$"
_FLOAT = r"-?(?:[0-9]{1,15}|[0-9]{1,15}\.[0-9]+(?:[eE][+-]?[0-9]{1,2})?)"
_FLOATS = rf"^\[ *{_FLOAT}(?: *, *{_FLOAT})* *\]$"
_WORDS = r'^\[ *"[^"\\]*"(?: *, *"[^"\\]*")* *\]$'
_SEVERAL = re.compile(r"[0-9]+([,;|\s]+[0-9]+)+")
# Lists as NumPy prints them, and as Python prints tuples.
_PRINTED = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_NAME = r"(?:'[^',]*'|\"[^\",]*\")"
_NUMBERS = rf"^\s*\[\s*{_PRINTED}(?:\s+{_PRINTED})+\s*\]\s*$"
_NAMES = rf"^\s*\[\s*{_NAME}(?:\s+{_NAME})+\s*\]\s*$"
_ITEM = rf"(?:{_PRINTED}|'[^']*'|\"[^\"]*\")"
_TUPLE = rf"^\s*\(\s*(?:{_ITEM}\s*(?:,\s*{_ITEM}\s*)*,?)?\s*\)\s*$"


def is_written_as_list(cell: Any) -> bool:
    """Return whether a cell is a list, or text that begins as one."""
    return str(cell).lstrip()[:1] in ("[", "(")


def read_cells(column: Any, how: CellReading) -> Cells:
    """Read an Arrow array; a `WrongTypeError` if its type has no ids."""
    column = plain(column)
    if is_list(column.type):
        valid = as_numpy(column.is_valid())
        values, wrong = convert(plain(column.flatten()), how)
        lengths = as_numpy(pc.list_value_length(column).fill_null(0)).astype(np.int64)
        return Cells(values, lengths, ~valid).without(wrong)
    if is_text(column.type):
        return _read_text_cells(column, how)
    if how.kind == "scores" and len(column):
        raise WrongTypeError(f"rows of scores, got {column.type}")
    values, wrong = convert(column, how)
    none = np.zeros(len(column), bool)
    return Cells(values, np.ones(len(column), np.int64), none, none).without(wrong)


def _read_text_cells(column: Any, how: CellReading) -> Cells:
    bad = as_numpy(column.is_null())
    text = column.fill_null("")
    if not len(text):
        return _single(text, how)
    easy = words = listed = np.zeros(len(text), bool)
    if how.may_be_list:
        easy = as_numpy(pc.match_substring_regex(text, _FLOATS if how.kind == "scores" else _LIST))
        if how.kind == "text" and not easy.all():
            words = as_numpy(pc.match_substring_regex(text, _WORDS))
            words = words & ~as_numpy(pc.match_substring(text, '.0"'))  # may be 7.0
        if not (easy | words).all():
            text = pc.if_else(pc.invert(pa.array(easy | words)), printed(text, how.tuples), text)
        listed = as_numpy(pc.starts_with(pc.utf8_ltrim_whitespace(text), "[")) & ~easy & ~words
    found = []
    single = ~(easy | words | listed)
    reads = (easy, _easy), (words, _words), (listed, _read_python_cells), (single, _single)
    for mask, read in reads:
        if mask.any():
            found.append((mask, read(text if mask.all() else filtered(text, mask), how)))
    cells = found[0][1] if len(found) == 1 else _interleave(found, how.kind)
    return Cells(cells.values, cells.lengths, cells.bad | bad, cells.lists)


def _pieces(text: Any, separator: str) -> tuple[Any, Any]:
    """Return text between separators, and the number of pieces of each; empty text has none."""
    pieces = pc.split_pattern(text, separator)
    tokens, lengths = pieces.flatten(), as_numpy(pc.list_value_length(pieces)).astype(np.int64)
    empty = as_numpy(pc.equal(text, ""))
    if empty.any():
        tokens = filtered(tokens, ~np.repeat(empty, lengths))
        lengths[empty] = 0
    return tokens, lengths


def _easy(text: Any, how: CellReading) -> Cells:
    tokens, lengths = _pieces(pc.ascii_trim(text, "[ ]"), ",")
    tokens = pc.ascii_trim_whitespace(tokens)
    if how.kind == "text":
        return Cells(tokens, lengths)
    kind = pa.float64() if how.kind == "scores" else pa.int64()
    return Cells(as_numpy(tokens.cast(kind)), lengths)


def _words(text: Any, how: CellReading) -> Cells:
    pieces = pc.split_pattern_regex(pc.ascii_trim(text, "[ ]"), '" *, *"')
    lengths = as_numpy(pc.list_value_length(pieces)).astype(np.int64)
    return Cells(pc.ascii_trim(pieces.flatten(), '"'), lengths)


def printed(text: Any, tuples: bool = False) -> Any:
    """Write lists as NumPy prints them, and tuples, with brackets and commas."""
    if pc.any(are := pc.match_substring_regex(text, _NUMBERS)).as_py():
        inside = pc.ascii_trim_whitespace(pc.ascii_trim(text, " []\t\r\n"))
        items = pc.replace_substring_regex(inside, r"\s+", ", ")
        text = pc.if_else(are, pc.binary_join_element_wise("[", items, "]", ""), text)
    if pc.any(are := pc.match_substring_regex(text, _NAMES)).as_py():
        items = pc.replace_substring_regex(text, r"(['\"])\s+(['\"])", r"\1, \2")
        text = pc.if_else(are, items, text)
    if tuples and pc.any(are := has_tuples(text)).as_py():
        inside = pc.ascii_trim(text, " ,()\t\r\n")
        text = pc.if_else(are, pc.binary_join_element_wise("[", inside, "]", ""), text)
    return text


def has_tuples(text: Any) -> Any:
    """Return which of Arrow text is a tuple of Python."""
    return pc.match_substring_regex(text, _TUPLE)


def _single(text: Any, how: CellReading) -> Cells:
    """Take each text as one id, or split it at the separator; empty text of CSV is no id."""
    if how.kind == "scores":
        none = np.zeros(len(text), np.int64)
        return Cells(np.zeros(0), none, none == 0, none > 0)
    tokens, lengths = text, np.ones(len(text), np.int64)
    if how.separator is not None:
        tokens, lengths = _pieces(text, how.separator)
        how = how._replace(is_loose=True)
    elif how.is_loose and not (is_id := as_numpy(pc.not_equal(text, ""))).all():
        tokens, lengths = filtered(text, is_id), is_id.astype(np.int64)
    values, wrong = convert(tokens, how)
    return Cells(values, lengths, lists=lengths > 1).without(wrong)


def _interleave(parts: Sequence[tuple[Any, Cells]], kind: CellKind) -> Cells:
    """Put cells that were read in groups in the order of the rows."""
    cells, rows = [x for _, x in parts], [np.flatnonzero(mask) for mask, _ in parts]
    order = np.concatenate(rows).argsort()
    of_rows = ([x.lengths for x in cells], [x.bad for x in cells], [x.lists for x in cells])
    found = [np.concatenate(x)[order] for x in of_rows]
    of_values = [row[x.rows] for row, x in zip(rows, cells, strict=True)]
    order, values = np.concatenate(of_values).argsort(kind="stable"), [x.values for x in cells]
    if kind == "text":
        return Cells(pa.concat_arrays(values).take(pa.array(order)), *found)
    return Cells(np.concatenate(values)[order], *found)


def _read_python_cells(text: Any, how: CellReading) -> Cells:
    lists = map(_literal, text.to_pylist())
    cells = [None if x is None else [_typed(token, how) for token in x] for x in lists]
    bad = np.array([cell is None or None in cell for cell in cells])
    kept = [[] if cell is None or wrong else cell for cell, wrong in zip(cells, bad, strict=True)]
    flat, lengths = [x for cell in kept for x in cell], np.array([*map(len, kept)], np.int64)
    if how.kind == "text":
        return Cells(pa.array(flat, pa.string()), lengths, bad)
    return Cells(np.array(flat, np.float64 if how.kind == "scores" else np.int64), lengths, bad)


def _typed(token: Any, how: CellReading) -> Any:
    """Return an item of a list in text as an id or a score; None if it is none.

    The text 7 and the number 7 are the same, and 7.0 is 7, as pandas writes it beside a gap.
    """
    kind = type(token)
    if how.kind == "scores":
        return token if kind is float or (kind is int and abs(token) < 2**53) else None
    is_name = kind is str and (how.known is None or token[-2:] != ".0" or token in how.known)
    if how.kind == "text" and (is_name or kind is int):
        return str(token)
    whole = whole_of(str(token)) if kind in (str, int, float) else None
    if how.kind == "integers":
        return whole
    if whole is None or (kind is float and how.known is None):
        return token if kind is str else None
    return str(whole)


def split(cell: Any, how: CellReading) -> list[Any] | None:
    """Return the ids of a cell as they are; None if it is missing or a broken list."""
    if isinstance(cell, list):
        return cell
    if not isinstance(cell, str):
        return None if cell is None else [cell]
    if how.may_be_list and cell.lstrip().startswith("["):
        return _literal(cell)
    if not cell and (how.is_loose or how.separator is not None):
        return []
    return [cell] if how.separator is None else cell.split(how.separator)


def _literal(text: str) -> list[Any] | None:
    """Read a list in JSON or as a Python literal; None if it is neither."""
    tries = [text] if '"' in text or "\\" in text else [text, text.replace("'", '"')]
    for one in tries:
        try:
            found = json.loads(one)
        except (ValueError, RecursionError):
            continue
        return found if isinstance(found, list) else None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = ast.literal_eval(text.strip())
        tokens = [*tokenize.generate_tokens(io.StringIO(text.strip()).readline)]
    except (ValueError, SyntaxError, RecursionError, MemoryError, tokenize.TokenError):
        return None
    # Python joins 'a' 'b', which is how NumPy prints two ids
    texts = (tokenize.STRING, tokenize.STRING)
    joined = texts in pairwise(x.type for x in tokens)
    odd = any(x.type == tokenize.NUMBER and re.search("[_xXoObBjJ]", x.string) for x in tokens)
    return found if isinstance(found, list) and not (joined or odd) else None


def are_words(column: Any, bad: Any, how: CellReading) -> bool | None:
    """Return whether a cell of text that cannot be read as integers holds a name.

    None if they only hold several numbers each, such as `3,4`: the names of cells of a grid, or
    beside integers, ids that are not separated.
    """
    cells = column.filter(pa.array(bad)).to_pylist()
    tokens = [x for cell in cells for x in split(cell, how) or [] if isinstance(x, str)]
    if not tokens:
        return False
    read = zip(tokens, is_odd(pa.array(tokens)), strict=True)
    words = [x for x, odd in read if not odd and not WHOLE.fullmatch(x)]
    if words and all(map(_SEVERAL.fullmatch, words)):
        return None
    return bool(words)


def remedy(cell: Any, how: CellReading) -> str:
    """Return what to do about a cell that cannot be read, for the end of a message."""
    items = [cell] if isinstance(cell, dict) else split(cell, how) or []
    if nested := next((x for x in items if isinstance(x, dict | list | tuple)), None):
        return of_nested(isinstance(nested, dict))
    if isinstance(cell, str) and "\0" in cell:
        return "write it without NUL"
    if isinstance(cell, str) and cell.lstrip().startswith("["):
        return (
            "text that begins with [ must be a list in JSON or of Python, as `.tolist()` makes it, "
            "and not what NumPy has cut; the answers of a language model are read with `answers`"
        )
    if isinstance(cell, str) and how.kind == "integers":
        marks = [mark for mark in (",", ";", "|", "\t", " ") if mark in cell.strip("(){} ")]
        if marks and any(x.isdecimal() for x in cell.split(marks[0])):
            return f"if it is several ids, write `[3, 5]` or pass `separator={marks[0]!r}`"
    if isinstance(cell, str) and how.known is not None and is_odd(pa.array([cell]))[0]:
        return (
            "write a number as digits, and leave rows without a target out; a name that looks like "
            "this must be among the ids of `vocabulary`"
        )
    return (
        "leave out numbers that pad lists, such as -100, with `padding=-100`, or count the whole "
        "answer as a miss with `on_error='miss'`"
    )
