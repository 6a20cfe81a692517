"""Ids and scores in the cells of a column: real lists, single ids, or text that holds either."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from nextloc_metrics.report.files.opening import pa, pc
from nextloc_metrics.report.files.texts import scan_python
from nextloc_metrics.report.files.wrong_tables import not_ids

OnError = Literal["raise", "miss"]
CellKind = Literal["integers", "text", "scores"]

# Integers of 64 bits have up to 19 digits; 18 always fit. pandas writes integers beside a missing
# value as 373.0, which is exact up to 2^53.
SHORT = r"(?:0|-?[1-9][0-9]{0,17})"
WHOLE = re.compile(r"(0|-?[1-9][0-9]*)(\.0)?")
# What CSV has where a value is missing or infinite: no target, unless a vocabulary has it.
MISSING = frozenset(
    ("nan", "NaN", "NAN", "inf", "Inf", "INF", "infinity", "Infinity", "None", "null", "NULL", "NA",
     "N/A", "<NA>", "NaT")
)  # fmt: skip
# Arrow's expressions: digits such as 01 may be a name; any other way to write a number is none.
_DIGITS = "^(?:[0-9]+|-[1-9][0-9]*)$"
_SPACE = r"[\s\pZ\x{85}]*"
_NUMBER = r"[+-]?(?:\p{Nd}+\.?\p{Nd}*|\.\p{Nd}+)(?:[eE][+-]?\p{Nd}+)?"
_QUOTED = r"\s+\".*\""  # a space before it makes a quote part of the cell
_NUL = r"(?s:[^\x00]*\x00.*)"
_OBJECT = r"(?s:\{\s*(?:[\"'].*)?\})"  # of JSON, whose values are text here, or of Python
_PADDED = f"{_SPACE}(?:{_NUMBER}|[+-]?(?:{'|'.join(sorted(MISSING))})){_SPACE}"
_ODD = f"^(?:{_QUOTED}|{_NUL}|{_OBJECT}|{_PADDED})$"


PADDING = "leave out numbers that pad lists, such as -100, with `padding=-100`, or count the whole "
PADDING += "answer as a miss with `on_error='miss'`"


class WrongTypeError(ValueError):
    """A column has a type that cannot hold ids."""


class CellReading(NamedTuple):
    """How cells are read.

    Attributes:
        kind: what they hold.
        is_loose: whether text may be a number and a number text, as in CSV or with a vocabulary.
        separator: what separates the ids of text without brackets; None takes it as one id.
        may_be_list: whether text that begins with `[` is a list.
        known: for CSV, whose values have no types, names that are ids although they look like a
            number or a missing value; None takes text of any kind byte for byte.
        tuples: whether `(1, 2)` is a list; where targets are written so, it is a name.
    """

    kind: CellKind
    is_loose: bool = False
    separator: str | None = None
    may_be_list: bool = True
    known: frozenset[str] | None = None
    tuples: bool = False


@dataclass(eq=False)
class Cells:
    """The values of all cells, one after the other.

    `values` are an int64 or float array, or Arrow text, and `lengths` the numbers of each cell. A
    cell that cannot be read is `bad` and has no values; `lists` marks lists.
    """

    values: Any
    lengths: Any
    bad: Any = field(default=None)
    lists: Any = field(default=None)

    def __post_init__(self) -> None:
        if self.bad is None:
            self.bad = np.zeros(len(self.lengths), bool)
        if self.lists is None:
            self.lists = np.ones(len(self.lengths), bool)

    @property
    def rows(self) -> Any:
        """The cell of each value."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    def numbered(self, numbers: Any, wrong: Any) -> Cells:
        """Return the cells with the number of each value; a wrong value makes its cell bad."""
        return replace(self, values=numbers).without(wrong)

    def without(self, wrong: Any) -> Cells:
        """Make the cells bad that hold a wrong value, and drop the values of bad cells."""
        if not wrong.any():
            return self
        rows, bad = self.rows, self.bad.copy()
        bad[rows[wrong]] = True
        keep = ~bad[rows]
        is_array = isinstance(self.values, np.ndarray)
        values = self.values[keep] if is_array else filtered(self.values, keep)
        return Cells(values, np.where(bad, 0, self.lengths), bad, self.lists)


def plain(column: Any) -> Any:
    """Return an Arrow array as values: no dictionary, runs, extension, chunks or views of text."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    if pa.types.is_dictionary(column.type):
        column = plain(column.dictionary).take(column.indices)
    if is_text(column.type) and not pa.types.is_string(column.type):
        column = column.cast(pa.string())
    return column


def is_list(kind: Any) -> bool:
    """Return whether an Arrow type is a list."""
    return bool(pa.types.is_nested(kind)) and hasattr(kind, "value_type")


def is_text(kind: Any) -> bool:
    """Return whether an Arrow type is text."""
    types = pa.types
    views = getattr(types, "is_string_view", types.is_string)
    return bool(types.is_string(kind) or types.is_large_string(kind) or views(kind))


def as_numpy(array: Any) -> Any:
    """Return an Arrow array as one of NumPy."""
    return array.to_numpy(zero_copy_only=False)


def filtered(values: Any, keep: Any) -> Any:
    """Return the values that a mask of NumPy keeps."""
    return values.filter(pa.array(keep))


def convert(values: Any, how: CellReading) -> tuple[Any, Any]:
    """Convert Arrow values to what cells hold; return also which of them are wrong."""
    types, missing = pa.types, as_numpy(values.is_null())
    if types.is_null(values.type):
        wanted = {"scores": pa.float64(), "text": pa.string(), "integers": pa.int64()}
        values = values.cast(wanted[how.kind])
    kind, is_integer = values.type, types.is_integer(values.type)
    if how.kind == "scores" and (types.is_floating(kind) or (is_integer and how.is_loose)):
        return as_numpy(values if types.is_float32(kind) else values.cast(pa.float64())), missing
    if is_integer and how.kind == "integers":
        numbers = as_numpy(values.fill_null(0))
        is_large = numbers >= 2**63 if types.is_uint64(kind) else False
        return numbers.astype(np.int64, copy=False), missing | is_large
    if is_text(kind) and how.kind == "text":
        return (values, missing) if how.known is None else _names(values, how.known)
    if is_text(kind) and how.kind == "integers" and how.is_loose:
        return integers_of(values.fill_null(""))
    if is_integer and how.kind == "text" and how.is_loose:
        return values.cast(pa.string()), missing
    if how.kind != "scores" and (is_integer or is_text(kind)):
        raise WrongTypeError(
            f"{how.kind} as in the rows before, or as the targets, got {kind}; write both as text, "
            "which keeps zeros in front (`dtype=str`), or both as integers"
        )
    raise WrongTypeError(
        f"{how.kind} as in the rows before, or as the targets, got {kind}; floats are scores "
        "(as are ids that pandas keeps beside NaN: convert them with `astype('Int64')`), and "
        "objects, lists and times are no ids"
    )


def integers_of(text: Any) -> tuple[Any, Any]:
    """Read Arrow text as integers; return also which of it are none."""
    matched = pc.match_substring_regex(text, f"^{SHORT}$")
    numbers = as_numpy(pc.if_else(matched, text, "0").cast(pa.int64())).copy()
    wrong = ~as_numpy(matched)
    for i in np.flatnonzero(wrong):
        if (number := whole_of(text[i].as_py())) is not None:
            numbers[i], wrong[i] = number, False
    return numbers, wrong


def is_odd(text: Any) -> Any:
    """Return which of Arrow text looks like a number, but not of digits alone, or like a gap."""
    found = pc.match_substring_regex(text, _ODD)
    if pc.any(found).as_py():
        found = pc.and_not(found, pc.match_substring_regex(text, _DIGITS))
    return as_numpy(found)


def _names(text: Any, known: frozenset[str]) -> tuple[Any, Any]:
    """Write 7.0 as 7, as for integers; return also which text is no id."""
    odd, wrong = is_odd(text), np.zeros(len(text), bool)
    if not odd.any():
        return text, wrong
    written = text.to_pylist()
    for i in np.flatnonzero(odd):
        if written[i] not in known:
            number = whole_of(written[i])
            written[i], wrong[i] = str(number), number is None
    return pa.array(written, text.type), wrong


def whole_of(text: str) -> int | None:
    """Return an integer that fits in 64 bits, and in a float if it was written as one."""
    found = WHOLE.fullmatch(text)
    if found is None or len(text) > 21:
        return None
    number = int(found[1])
    most = 2**53 if found[2] else 2**63
    return number if -most <= number < most else None


_LIST = rf"^\[ *(?:{SHORT}(?: *, *{SHORT})*)? *\]$"
_FLOAT = r"-?(?:[0-9]{1,15}|[0-9]{1,15}\.[0-9]+(?:[eE][+-]?[0-9]{1,2})?)"
_FLOATS = rf"^\[ *{_FLOAT}(?: *, *{_FLOAT})* *\]$"
_WORDS = r'^\[ *"[^"\\]*"(?: *, *"[^"\\]*")* *\]$'
_ZEROS = re.compile(r"0[0-9]+")  # as no integer is written
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
        valid, items = as_numpy(column.is_valid()), plain(column.flatten())
        first = items.drop_null()[:1].to_pylist() if pa.types.is_nested(items.type) else []
        if nested := "".join(map(not_ids, first)):
            nested += _FIELD * ("objects" in nested)
            raise WrongTypeError(f"ids of locations, got {column.type}; {nested}")
        values, wrong = convert(items, how)
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
    """Read a list in JSON or as Python and NumPy write it; None if it is none."""
    bare = '"' not in text and "\\" not in text
    for one in [text, text.replace("'", '"')] if bare else [text]:
        try:
            found = json.loads(one)
        except (ValueError, RecursionError):
            continue
        return found if isinstance(found, list) else None
    text = text.strip()
    if bare and "'" not in text:  # .5 and 1. of NumPy
        text = re.sub(r"(?<![\w.])\.(?=\d)", "0.", re.sub(r"(?<=\d)\.(?![\d.])", ".0", text))
    found, end = scan_python(text, 0)
    return found if type(found) is list and end == len(text) else None


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


_FIELD = ", or name their field, `answers={'key': 'id'}`"


def remedy(cell: Any, how: CellReading) -> str:
    """Return what to do about a cell that cannot be read, for the end of a message."""
    is_object = isinstance(cell, dict) or re.fullmatch(_OBJECT, str(cell))
    items = [{"": cell}] if is_object else split(cell, how) or []
    if isinstance(cell, str) and re.match(r"\s*\[\s*\(", cell):  # tuples of Python
        items = [("", "")]
    if nested := next(filter(None, map(not_ids, items)), ""):
        return nested + _FIELD * ("objects" in nested)
    if how.kind == "integers" and any(_ZEROS.fullmatch(str(x)) for x in items):
        return (
            "ids of text have zeros in front, which the integers of the other column have lost; "
            "read their table as text, such as `pandas.read_csv(path, dtype=str)`"
        )
    if isinstance(cell, str) and "\0" in cell:
        return "write it without NUL"
    if isinstance(cell, str) and cell.lstrip().startswith("["):
        return (
            "text that begins with [ must be a list in JSON or of Python, as `.tolist()` makes it, "
            "and not what NumPy has cut; the answers of a language model are read with `answers`"
        )
    if isinstance(cell, str) and how.kind == "integers":
        marks = [mark for mark in (",", ";", "|", "\t", " ") if mark in cell.strip("(){} ")]
        if marks and marks[0] != how.separator and any(x.isdecimal() for x in cell.split(marks[0])):
            return f"if it is several ids, write `[3, 5]` or pass `separator={marks[0]!r}`"
    if isinstance(cell, str) and how.known is not None and is_odd(pa.array([cell]))[0]:
        return (
            "write a number as digits, and leave rows without a target out; a name that looks like "
            "this must be among the ids of `vocabulary`"
        )
    return PADDING
