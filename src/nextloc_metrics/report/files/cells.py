"""The values of cells: what a column holds, as integers, text or scores, and what is none."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from nextloc_metrics.report.files.opening import pa, pc

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
_ODD = f"^(?:{_QUOTED}|{_NUL}|{_SPACE}(?:{_NUMBER}|[+-]?(?:{'|'.join(sorted(MISSING))})){_SPACE})$"


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
        if wrong is None or not wrong.any():
            return self
        rows = self.rows
        bad = self.bad.copy()
        bad[rows[wrong]] = True
        values = self.values
        values = (
            values[~bad[rows]] if isinstance(values, np.ndarray) else filtered(values, ~bad[rows])
        )
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
    """Convert Arrow values to what cells hold; return also which of them are wrong, or None."""
    types, missing = pa.types, as_numpy(values.is_null()) if values.null_count else None
    if types.is_null(values.type):
        wanted = {"scores": pa.float64(), "text": pa.string(), "integers": pa.int64()}
        values = values.cast(wanted[how.kind])
    kind = values.type
    if how.kind == "scores":
        if types.is_floating(kind) or (types.is_integer(kind) and how.is_loose):
            cast = values.cast(pa.float32()) if types.is_float16(kind) else values
            cast = cast.cast(pa.float64()) if types.is_integer(kind) else cast
            return as_numpy(cast), missing
        raise WrongTypeError(f"scores as in the rows before, got {kind}")
    if types.is_integer(kind) and how.kind == "integers":
        numbers = as_numpy(values.fill_null(0))
        if types.is_uint64(kind):
            large = numbers >= 2**63
            missing = large if missing is None else missing | large
        return numbers.astype(np.int64, copy=False), missing
    if is_text(kind) and how.kind == "text":
        return (values, missing) if how.known is None else _names(values, how.known)
    if is_text(kind) and how.is_loose:
        return integers_of(values.fill_null(""))
    if types.is_integer(kind) and how.is_loose:
        return values.cast(pa.string()), missing
    remedy = ""
    if types.is_floating(kind):
        remedy = "; floats are scores, so cast ids to int64 where they are made"
    elif types.is_nested(kind):
        remedy = f"; {of_nested(types.is_struct(kind))}"
    elif types.is_integer(kind) or is_text(kind):
        remedy = "; targets and predictions must be of one type"
    raise WrongTypeError(f"ids, {how.kind} as the targets, got {kind}{remedy}")


def integers_of(text: Any) -> tuple[Any, Any]:
    """Read Arrow text as integers; return also which of it are none, or None."""
    matched = pc.match_substring_regex(text, f"^{SHORT}$")
    ok = as_numpy(matched)
    if ok.all():
        return as_numpy(text.cast(pa.int64())), None
    numbers, wrong = np.zeros(len(text), np.int64), ~ok
    numbers[ok] = as_numpy(text.filter(matched).cast(pa.int64()))
    for i in np.flatnonzero(wrong):
        number = whole_of(text[i].as_py())
        if number is not None:
            numbers[i], wrong[i] = number, False
    return numbers, wrong


def is_odd(text: Any) -> Any:
    """Return which of Arrow text looks like a number, but not of digits alone, or like a gap."""
    found = pc.match_substring_regex(text, _ODD)
    if pc.any(found).as_py():
        found = pc.and_not(found, pc.match_substring_regex(text, _DIGITS))
    return as_numpy(found)


def _names(text: Any, known: frozenset[str]) -> tuple[Any, Any]:
    """Write 7.0 as 7, as for integers; return also which text is no id, or None."""
    odd = is_odd(text)
    if not odd.any():
        return text, None
    wrong, written = np.zeros(len(text), bool), text.to_pylist()
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


def of_nested(are_objects: bool) -> str:
    """Return what to do about items that are objects or lists."""
    what = "objects" if are_objects else "lists"
    return (
        f"the items are {what}, not ids; write one list for each query, the ids alone and best "
        "first, such as ['Cafe', 'Zoo']"
    )
