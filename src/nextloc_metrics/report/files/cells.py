"""What the cells of a column hold: the keys of ids, or scores, each alone or in lists.

This is the one place that types cells. Each id has a key, as in `core.queries.keys`: an integer is
its own key, and the key of other text is a hash. So no cell depends on another one. Cells of CSV
and JSON have no types; there, text that looks like a missing value or like a number in another form
than the usual one is no id.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np

from nextloc_metrics.core.queries.keys import LIMIT, hashed_keys, keys_of_texts, read_keys
from nextloc_metrics.core.queries.messages import as_column, short
from nextloc_metrics.report.files.opening import FilePart, pa, pc
from nextloc_metrics.report.files.texts import scan_python
from nextloc_metrics.report.files.wrong_tables import not_ids

OnError = Literal["raise", "miss"]

# Integers of 64 bits have up to 19 digits; 18 always fit. pandas writes integers beside a missing
# value as 373.0, which is exact up to 2^53.
_SHORT = r"(?:0|-?[1-9][0-9]{0,17})"
_WHOLE = re.compile(r"(0|-?[1-9][0-9]*)(\.0)?")
# Texts of CSV for a missing or infinite value. They are no ids, unless a vocabulary has them.
MISSING = frozenset(
    ("nan", "NaN", "NAN", "inf", "Inf", "INF", "infinity", "Infinity", "None", "null", "NULL", "NA",
     "N/A", "<NA>", "NaT")
)  # fmt: skip
# Expressions of Arrow. Digits such as 01 may be a name; a number in any other form is no name.
_DIGITS = "^(?:[0-9]+|-[1-9][0-9]*)$"
_SPACE = r"[\s\pZ\x{85}]*"
_NUMBER = r"[+-]?(?:\p{Nd}+\.?\p{Nd}*|\.\p{Nd}+)(?:[eE][+-]?\p{Nd}+)?"
_QUOTED = r"\s+\".*\""  # a space before it makes a quote part of the cell
_NUL = r"(?s:[^\x00]*\x00.*)"
_OBJECT = r"(?s:\{\s*(?:[\"'].*)?\})"  # an object of JSON, or a dict of Python, in text
_PADDED = f"{_SPACE}(?:{_NUMBER}|[+-]?(?:{'|'.join(sorted(MISSING))})){_SPACE}"
_SUSPECT = f"^(?:{_QUOTED}|{_NUL}|{_OBJECT}|{_PADDED})$"


#: what to do about a number below zero
PADDING = (
    "leave out numbers that pad lists, such as -100, with `answers={'padding': -100}`, or count "
    "the whole answer as a miss with `on_error='miss'`"
)


class _WrongTypeError(ValueError):
    """A column has a type that cannot hold ids."""


class CellReading(NamedTuple):
    """How cells are read.

    Attributes:
        are_scores: whether cells hold scores instead of ids.
        untyped: whether all cells are text, as in CSV and JSON, so that `7` may be a number.
        separator: the mark between ids in text without brackets; None reads such text as one id.
        may_be_list: whether text that begins with `[` is a list.
        accepted: texts that are ids of CSV and JSON although they look like numbers or gaps.
        reads_tuples: whether text such as `(1, 2)` is a list; it is a name if targets look so.
        pads: negative integers that pad; in a column of text with a type, others are names.
        are_keys: whether integers are keys already.
        texts: a dict that gets the text of each key that is a hash; None collects no texts.
        only_zeros: whether it gets the texts of ids with zeros in front alone.
    """

    are_scores: bool = False
    untyped: bool = False
    separator: str | None = None
    may_be_list: bool = True
    accepted: frozenset[str] = frozenset()
    reads_tuples: bool = False
    pads: frozenset[int] = frozenset([-1])
    are_keys: bool = False
    texts: dict[int, str] | None = None
    only_zeros: bool = False

    def name(self, keys: Any, texts: Any) -> None:
        """Note the texts of keys that are hashes; `texts` are Arrow's."""
        if self.texts is not None:
            if self.only_zeros:
                known = pa.array(np.fromiter(self.texts, np.int64, len(self.texts)))
                is_new = pc.invert(pc.is_in(pa.array(keys, pa.int64()), known))
                is_new = pc.and_(is_new, pc.match_substring_regex(texts, "^0[0-9]+$"))
                keys, texts = keys[as_numpy(is_new)], filtered(texts, as_numpy(is_new))
            for key, text in zip(keys.tolist(), texts.to_pylist(), strict=True):
                if key >= LIMIT and self.texts.setdefault(key, text) != text:
                    raise ValueError(
                        f"ids must have different keys, got {short(self.texts[key])} and "
                        f"{short(text)} with one key; write one of them otherwise."
                    )


@dataclass(eq=False)
class Cells:
    """The values of all cells, one after the other.

    `values` are keys, int64, or scores, and `lengths` how many of them each cell has. A cell that
    cannot be read is `bad` and has no values; `lists` tells which cells are lists.
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
        """The number of the cell that each value is in."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    def numbered(self, numbers: Any, wrong: Any) -> Cells:
        """Return the cells with the number of each value; a wrong value makes its cell bad."""
        return replace(self, values=numbers).without(wrong)

    def without(self, wrong: Any) -> Cells:
        """Return the cells where each that holds a wrong value is bad and has no values."""
        if not wrong.any():
            return self
        rows, bad = self.rows, self.bad.copy()
        bad[rows[wrong]] = True
        keep = ~bad[rows]
        return Cells(self.values[keep], np.where(bad, 0, self.lengths), bad, self.lists)


def _unwrapped(column: Any) -> Any:
    """Return an Arrow array without chunks, extension and runs."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    return column


def undecoded(column: Any) -> Any:
    """Return an Arrow array without chunks, extension and runs; it may be a dictionary of text."""
    column = _unwrapped(column)
    is_dictionary = pa.types.is_dictionary(column.type)
    return plain(column) if is_dictionary and not is_text(column.type.value_type) else column


def plain(column: Any) -> Any:
    """Return an Arrow array as values: no dictionary, runs, extension, chunks or views of text."""
    column = _unwrapped(column)
    if pa.types.is_dictionary(column.type):
        column = plain(column.dictionary).take(column.indices)
    if is_text(column.type) and not pa.types.is_string(column.type):
        column = column.cast(pa.string())
    return column


def without_empty(text: Any) -> Any:
    """Return Arrow text with a gap in place of each "", as an empty cell of CSV is missing."""
    # not by `if_else`, which is wrong in pyarrow 18 for a slice of text
    return pc.replace_with_mask(text, pc.equal(text, ""), pa.scalar(None, text.type))


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


def convert(values: Any, reading: CellReading) -> tuple[Any, Any]:
    """Return the keys or scores of Arrow values, and which of the values are wrong."""
    types, missing = pa.types, as_numpy(values.is_null())
    if types.is_null(values.type):
        values = values.cast(pa.float64() if reading.are_scores else pa.int64())
    kind = values.type
    is_integer = types.is_integer(kind)
    if reading.are_scores and (types.is_floating(kind) or (is_integer and reading.untyped)):
        return as_numpy(values if types.is_float32(kind) else values.cast(pa.float64())), missing
    if is_integer and not reading.are_scores:
        numbers = as_numpy(values.fill_null(0))
        if reading.are_keys:
            return numbers, missing
        keys_of_numbers, names = read_keys("ids", numbers)
        reading.name(np.array([*names]), pa.array([*names.values()], pa.string()))
        keys = keys_of_numbers.numpy()
        if numbers.min(initial=0) < -LIMIT:  # a hash would make an id of a negative number
            keys = np.where(numbers < -LIMIT, -2, keys)
        return keys, missing
    kind_of_value = kind.value_type if types.is_dictionary(kind) else kind
    if is_text(kind_of_value) and not reading.are_scores:
        keys, wrong = keys_of_text(values, reading)
        return keys, wrong | missing
    raise _WrongTypeError(
        f"{'scores' if reading.are_scores else 'ids'}, text or integers, got {kind}; floats are "
        "scores (as are ids that pandas keeps beside NaN: convert them with `astype('Int64')`), "
        "and objects, lists and times are no ids"
    )


def keys_of_arrow(text: Any) -> Any:
    """Return the key of each text of an Arrow array without gaps."""
    if not len(text):
        return np.zeros(0, np.int64)
    _, ends, data = text.buffers()
    ends = np.frombuffer(ends, np.int32)[text.offset :][: len(text) + 1]
    return keys_of_texts(np.frombuffer(data or b"", np.uint8), ends)


def keys_of_text(text: Any, reading: CellReading, in_list: bool = False) -> tuple[Any, Any]:
    """Return the keys of text, and which texts are no ids; in a list, suspect text is a name."""
    encoded = text if pa.types.is_dictionary(text.type) else text.dictionary_encode()
    distinct = plain(encoded.dictionary)
    keys = _keys_of_distinct(distinct, reading, True)
    wrong = np.zeros(len(keys), bool)
    if reading.untyped and not in_list:
        for i in np.flatnonzero(is_suspect(distinct)):
            if (written := distinct[i].as_py()) not in reading.accepted:
                number = integer_of(written)
                keys[i], wrong[i] = (0, True) if number is None else (number, False)
    reading.name(keys, distinct)
    if not len(keys):
        keys, wrong = np.zeros(1, np.int64), np.zeros(1, bool)
    at = as_numpy(encoded.indices.fill_null(0)).astype(np.int64)
    return keys[at], wrong[at]


def _keys_of_distinct(text: Any, reading: CellReading, are_names: Any) -> Any:
    """Return the key of each text; in a typed column, numbers below 0 that do not pad are names."""
    keys = keys_of_arrow(text)
    if not reading.untyped:
        is_name = (keys < 0) & ~np.isin(keys, [*reading.pads]) & are_names
        keys = np.where(is_name, hashed_keys(keys), keys)
    elif (keys >= LIMIT).any():  # a hash would make an id of a negative number
        is_low = as_numpy(pc.match_substring_regex(text, r"^-[1-9][0-9]{18,}(?:\.0)?$"))
        keys[is_low & (keys >= LIMIT)] = -2
    return keys


def integers_of(text: Any) -> tuple[Any, Any]:
    """Read Arrow text as integers; return also which texts are no integers."""
    matched = pc.match_substring_regex(text, f"^{_SHORT}$")
    numbers = as_numpy(pc.if_else(matched, text, "0").cast(pa.int64())).copy()
    wrong = ~as_numpy(matched)
    for i in np.flatnonzero(wrong):
        if (number := integer_of(text[i].as_py())) is not None:
            numbers[i], wrong[i] = number, False
    return numbers, wrong


def is_suspect(text: Any) -> Any:
    """Return which texts look like a gap, or like a number that is not written in digits alone."""
    are_suspect = pc.match_substring_regex(text, _SUSPECT)
    if pc.any(are_suspect).as_py():
        are_suspect = pc.and_not(are_suspect, pc.match_substring_regex(text, _DIGITS))
    return as_numpy(are_suspect)


def integer_of(text: str) -> int | None:
    """Return the integer of a text; None if it does not fit in 64 bits, or `7.0` in a float."""
    match = _WHOLE.fullmatch(text)
    if match is None or len(text) > 21:
        return None
    number = int(match[1])
    limit = 2**53 if match[2] else 2**63
    return number if -limit <= number < limit else None


_LIST = rf"^\[ *(?:{_SHORT}(?: *, *{_SHORT})*)? *\]$"
_FLOAT = r"-?(?:[0-9]{1,15}|[0-9]{1,15}\.[0-9]+(?:[eE][+-]?[0-9]{1,2})?)"
_FLOATS = rf"^\[ *{_FLOAT}(?: *, *{_FLOAT})* *\]$"
_WORDS = r'^\[ *"[^"\\]*"(?: *, *"[^"\\]*")* *\]$'
_SINGLE = _WORDS.replace('"', "'").replace("[^'", "[^'\"")  # the same in single quotes
#: such a target is the name of a cell of a grid; beside integers, it is several ids in one text
SEVERAL = re.compile(r"[0-9]+([,;|\s]+[0-9]+)+")
#: an id with zeros in front: no integer is written so
ZEROS = re.compile(r"0[0-9]+")
_FROM_ZERO = re.compile(r"0|[1-9][0-9]*")
#: an integer in its usual form
INTEGER = re.compile(r"0|-?[1-9][0-9]*")
# Lists as NumPy prints them, and tuples as Python prints them.
_PRINTED = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_NAME = r"(?:'[^',]*'|\"[^\",]*\")"
_NUMBERS = rf"^\s*\[\s*{_PRINTED}(?:\s+{_PRINTED})+\s*\]\s*$"
_NAMES = rf"^\s*\[\s*{_NAME}(?:\s+{_NAME})+\s*\]\s*$"
_ITEM = rf"(?:{_PRINTED}|'[^']*'|\"[^\"]*\")"
_TUPLE = rf"^\s*\(\s*(?:{_ITEM}\s*(?:,\s*{_ITEM}\s*)*,?)?\s*\)\s*$"


def is_written_as_list(cell: Any) -> bool:
    """Return whether a cell is a list, or text that begins as one."""
    return str(cell).lstrip()[:1] in ("[", "(")


def holds_lists(text: Any) -> bool:
    """Return whether any cell of Arrow text begins as a list."""
    return bool(pc.any(pc.match_substring_regex(text, rf"^{_SPACE}[\[(]")).as_py())


def read_cells(part: FilePart, name: str, reading: CellReading, values: Any = None) -> Cells:
    """Read a column, or `values` in its place; raise if its type is one that ids never have."""
    try:
        return _read_cells(undecoded(part.columns[name] if values is None else values), reading)
    except _WrongTypeError as error:
        raise ValueError(f"{as_column(name)} in {part.file} must hold {error}.") from None


def _read_cells(column: Any, reading: CellReading) -> Cells:
    """Read a column by its Arrow type: lists, text, or single values."""
    if is_list(column.type):
        valid, items = as_numpy(column.is_valid()), undecoded(column.flatten())
        first = items.drop_null()[:1].to_pylist() if pa.types.is_nested(items.type) else []
        if nested := "".join(map(not_ids, first)):
            nested += _FIELD * ("objects" in nested)
            raise _WrongTypeError(f"ids of locations, got {column.type}; {nested}")
        values, wrong = convert(items, reading)
        lengths = as_numpy(pc.list_value_length(column).fill_null(0)).astype(np.int64)
        return Cells(values, lengths, ~valid).without(wrong)
    column = plain(column)
    if is_text(column.type):
        return _read_text_cells(column, reading)
    if reading.are_scores and len(column):
        raise _WrongTypeError(f"rows of scores, got {column.type}")
    values, wrong = convert(column, reading)
    none = np.zeros(len(column), bool)
    return Cells(values, np.ones(len(column), np.int64), none, none).without(wrong)


def _read_text_cells(column: Any, reading: CellReading) -> Cells:
    """Read each cell of text in the way of its form: a list of one of three kinds, or one id."""
    is_null, text = as_numpy(column.is_null()), column.fill_null("")
    if not len(text):
        return _read_single_ids(text, reading)
    text, is_plain, is_quoted, is_other = _find_lists(text, reading)
    masks = is_plain, is_quoted, is_other, ~(is_plain | is_quoted | is_other)
    readers = _read_plain_lists, _read_quoted_lists, _read_other_lists, _read_single_ids
    read_parts = [
        (mask, read(text if mask.all() else filtered(text, mask), reading))
        for mask, read in zip(masks, readers, strict=True)
        if mask.any()
    ]
    cells = read_parts[0][1] if len(read_parts) == 1 else _interleave(read_parts)
    return Cells(cells.values, cells.lengths, cells.bad | is_null, cells.lists)


def _find_lists(text: Any, reading: CellReading) -> tuple[Any, Any, Any, Any]:
    """Return the text, whose lists have commas now, and which cells are lists of each kind.

    Arrow reads plain lists, which hold numbers alone, and lists of texts in the quotes of JSON;
    Python reads other lists.
    """
    none = np.zeros(len(text), bool)
    if not reading.may_be_list or not holds_lists(text):
        return text, none, none, none
    is_quoted = none
    is_plain = as_numpy(pc.match_substring_regex(text, _FLOATS if reading.are_scores else _LIST))
    if not reading.are_scores and not is_plain.all():
        is_quoted = as_numpy(pc.match_substring_regex(text, _WORDS))
    if not (is_plain | is_quoted).all():
        is_rest = pc.invert(pa.array(is_plain | is_quoted))
        text = pc.if_else(is_rest, with_commas(text, reading.reads_tuples), text)
        if not reading.are_scores:
            in_json = pc.replace_substring(text, "'", '"')
            text = pc.if_else(pc.match_substring_regex(text, _SINGLE), in_json, text)
            is_quoted = as_numpy(pc.match_substring_regex(text, _WORDS))
    # an item such as "7.0" may be the integer 7, which only the reading in Python finds out
    is_quoted = is_quoted & ~as_numpy(pc.match_substring(text, '.0"'))
    is_list = as_numpy(pc.starts_with(pc.utf8_ltrim_whitespace(text), "["))
    return text, is_plain, is_quoted, is_list & ~is_plain & ~is_quoted


def _pieces(text: Any, separator: str) -> tuple[Any, Any]:
    """Split texts at a separator; return all pieces, and how many each text has: "" has none."""
    pieces = pc.split_pattern(text, separator)
    tokens, lengths = pieces.flatten(), as_numpy(pc.list_value_length(pieces)).astype(np.int64)
    empty = as_numpy(pc.equal(text, ""))
    if empty.any():
        tokens = filtered(tokens, ~np.repeat(empty, lengths))
        lengths[empty] = 0
    return tokens, lengths


def _read_plain_lists(text: Any, reading: CellReading) -> Cells:
    """Read lists that hold numbers alone."""
    tokens, lengths = _pieces(pc.ascii_trim(text, "[ ]"), ",")
    kind = pa.float64() if reading.are_scores else pa.int64()
    return Cells(as_numpy(pc.ascii_trim_whitespace(tokens).cast(kind)), lengths)


def _read_quoted_lists(text: Any, reading: CellReading) -> Cells:
    """Read lists of texts in double quotes: every second piece of a cell is within quotes."""
    pieces = pc.split_pattern(text, '"')
    number = as_numpy(pc.list_value_length(pieces)).astype(np.int64)
    position = np.arange(number.sum()) - np.repeat(number.cumsum() - number, number)
    quoted = filtered(pieces.flatten(), position % 2 == 1)
    keys, _ = keys_of_text(quoted, reading, in_list=True)
    return Cells(keys, number // 2)


def with_commas(text: Any, reads_tuples: bool = False) -> Any:
    """Write commas into lists that NumPy printed without them, and tuples as lists."""
    if pc.any(are := pc.match_substring_regex(text, _NUMBERS)).as_py():
        inside = pc.ascii_trim_whitespace(pc.ascii_trim(text, " []\t\r\n"))
        items = pc.replace_substring_regex(inside, r"\s+", ", ")
        text = pc.if_else(are, pc.binary_join_element_wise("[", items, "]", ""), text)
    if pc.any(are := pc.match_substring_regex(text, _NAMES)).as_py():
        items = pc.replace_substring_regex(text, r"(['\"])\s+(['\"])", r"\1, \2")
        text = pc.if_else(are, items, text)
    if reads_tuples and pc.any(are := has_tuples(text)).as_py():
        inside = pc.ascii_trim(text, " ,()\t\r\n")
        text = pc.if_else(are, pc.binary_join_element_wise("[", inside, "]", ""), text)
    return text


def has_tuples(text: Any) -> Any:
    """Return which texts are tuples as Python prints them."""
    return pc.match_substring_regex(text, _TUPLE)


def _read_single_ids(text: Any, reading: CellReading) -> Cells:
    """Read each text as one id, or split it at the separator; empty text of CSV is no id."""
    if reading.are_scores:
        none = np.zeros(len(text), np.int64)
        return Cells(np.zeros(0), none, none == 0, none > 0)
    tokens, lengths = text, np.ones(len(text), np.int64)
    if reading.separator is not None:
        tokens, lengths = _pieces(text, reading.separator)
    elif reading.untyped and not (is_id := as_numpy(pc.not_equal(text, ""))).all():
        tokens, lengths = filtered(text, is_id), is_id.astype(np.int64)
    values, wrong = convert(tokens, reading)
    # two separators side by side, as in "7  3", leave an empty piece, which is no id
    if reading.separator is not None and "" not in reading.accepted:
        wrong = wrong | as_numpy(pc.equal(tokens, ""))
    return Cells(values, lengths, lists=lengths > 1).without(wrong)


def _interleave(parts: Sequence[tuple[Any, Cells]]) -> Cells:
    """Put cells that were read in groups in the order of the rows."""
    cells, rows = [x for _, x in parts], [np.flatnonzero(mask) for mask, _ in parts]
    order = np.concatenate(rows).argsort()
    lengths, bad, lists = (
        np.concatenate([getattr(x, name) for x in cells])[order]
        for name in ("lengths", "bad", "lists")
    )
    row_of_value = np.concatenate([row[x.rows] for row, x in zip(rows, cells, strict=True)])
    values = np.concatenate([x.values for x in cells])
    return Cells(values[row_of_value.argsort(kind="stable")], lengths, bad, lists)


def _read_other_lists(text: Any, reading: CellReading) -> Cells:
    """Read lists that may hold items of several types, one by one in Python."""
    lists = [*map(_parsed_list, text.to_pylist())]
    read: Callable[[Any], Any] = _score_of
    if not reading.are_scores:  # keys have the type, as Python takes 1, True and 1.0 for equal
        items = chain.from_iterable(x or () for x in lists)
        keys = _keys_of_items({(type(x), str(x)): x for x in items}, reading)
        read = lambda item: keys.get((type(item), str(item)))  # noqa: E731
    cells = [None if x is None else [*map(read, x)] for x in lists]
    bad = np.array([cell is None or None in cell for cell in cells])
    kept = [[] if cell is None or wrong else cell for cell, wrong in zip(cells, bad, strict=True)]
    flat, lengths = [x for cell in kept for x in cell], np.array([*map(len, kept)], np.int64)
    return Cells(np.array(flat, np.float64 if reading.are_scores else np.int64), lengths, bad)


def _score_of(token: Any) -> float | None:
    """Return an item of a list in text if it is a score; None if it is no score."""
    is_score = type(token) is float or (type(token) is int and abs(token) < 2**53)
    return token if is_score else None


def _keys_of_items(items: dict[Any, Any], reading: CellReading) -> dict[Any, int]:
    """Return the keys of items that are ids; 7.0 is the id 7, but typed text "7.0" is a name."""
    keys: dict[Any, int] = {}
    texts: dict[Any, str] = {}
    for name, item in items.items():
        is_text = type(item) is str
        number = None
        if type(item) is float or (is_text and reading.untyped and item[-2:] == ".0"):
            number = None if item in reading.accepted else integer_of(str(item))
        if number is not None:
            keys[name] = number
        elif is_text or type(item) is int:
            with suppress(UnicodeEncodeError):  # JSON can escape half of a character: no id
                str(item).encode()
                texts[name] = str(item)
    are_names = np.array([kind is str for kind, _ in texts], bool)
    distinct = pa.array([*texts.values()], pa.string())
    read = _keys_of_distinct(distinct, reading, are_names)
    reading.name(read, distinct)
    return keys | dict(zip(texts, read.tolist(), strict=True))


def split(cell: Any, reading: CellReading) -> list[Any] | None:
    """Return the ids of a cell, not yet typed; None if it is missing or a broken list."""
    if isinstance(cell, list):
        return cell
    if not isinstance(cell, str):
        return None if cell is None else [cell]
    if reading.may_be_list and cell.lstrip().startswith("["):
        return _parsed_list(cell)
    if not cell and (reading.untyped or reading.separator is not None):
        return []
    return [cell] if reading.separator is None else cell.split(reading.separator)


def _parsed_list(text: str) -> list[Any] | None:
    """Read a list in JSON or as Python and NumPy write it; None if the text is no list."""
    may_have_single_quotes = '"' not in text and "\\" not in text
    for written in [text, text.replace("'", '"')] if may_have_single_quotes else [text]:
        try:
            value = json.loads(written)
        except (ValueError, RecursionError):
            continue
        return value if isinstance(value, list) else None
    text = text.strip()
    if may_have_single_quotes and "'" not in text:  # NumPy writes .5 and 1.
        text = re.sub(r"(?<![\w.])\.(?=\d)", "0.", re.sub(r"(?<=\d)\.(?![\d.])", ".0", text))
    value, end = scan_python(text, 0)
    return value if type(value) is list and end == len(text) else None


def names_in(cell: Any, reading: CellReading) -> list[str]:
    """Return the ids of a cell of text that are not integers."""
    tokens = [x for x in split(cell, reading) or [] if isinstance(x, str)]
    integer = _WHOLE if reading.untyped else _FROM_ZERO
    return [x for x in tokens if not integer.fullmatch(x)]


_FIELD = ", or name their field, `answers={'key': 'id'}`"


def remedy(cell: Any, reading: CellReading, otherwise: str = PADDING) -> str:
    """Return what to do about a cell that cannot be read, for the end of a message."""
    is_object = isinstance(cell, dict) or re.fullmatch(_OBJECT, str(cell))
    items = [{"": cell}] if is_object else split(cell, reading) or []
    if isinstance(cell, str) and re.match(r"\s*\[\s*\(", cell):  # tuples of Python
        items = [("", "")]
    if nested := next(filter(None, map(not_ids, items)), ""):
        return nested + _FIELD * ("objects" in nested)
    if any(ZEROS.fullmatch(str(x)) for x in items):
        return (
            "ids of text have zeros in front; if the integers of the other column have lost them, "
            "read their table as text, such as `pandas.read_csv(path, dtype=str)`, and else "
            f"{otherwise}"
        )
    if isinstance(cell, str) and "\0" in cell:
        return "write it without NUL"
    if reading.separator is not None and "" in items:
        return "write one separator between two ids, and none before the first or after the last"
    if isinstance(cell, str) and cell.lstrip().startswith("[") and split(cell, reading) is None:
        return (
            "text that begins with [ must be a list in JSON or of Python, as `.tolist()` makes it, "
            "and not what NumPy has cut; the answers of a language model are read with `answers`"
        )
    if isinstance(cell, str) and not is_written_as_list(cell):
        marks = [mark for mark in (",", ";", "|", "\t", " ") if mark in cell.strip("(){} ")]
        mark = marks[0] if marks else reading.separator
        if mark != reading.separator and any(x.isdecimal() for x in cell.split(mark)):
            return (
                f"if it is several ids, write `[3, 5]` or pass `answers={{'separator': {mark!r}}}`"
            )
    if isinstance(cell, str) and reading.untyped and is_suspect(pa.array([cell]))[0]:
        return (
            "write a number as digits, and leave rows without a target out; a name that looks like "
            "this must be among the ids of `vocabulary`"
        )
    return otherwise
