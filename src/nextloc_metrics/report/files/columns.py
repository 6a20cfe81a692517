"""Columns of ids, their widths, types and numbers, and columns of groups, masks and confidences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.queries.arrays import as_tensor, pad_rows
from nextloc_metrics.core.queries.keys import LIMIT, Grouping, hashed_keys, name_keys, read_keys
from nextloc_metrics.core.queries.messages import as_column, short, wrong_cell
from nextloc_metrics.report.files import texts as forms
from nextloc_metrics.report.files.cells import (
    CellReading,
    Cells,
    OnError,
    as_numpy,
    is_list,
    is_text,
    keys_of_arrow,
    plain,
    split,
    with_commas,
    without_empty,
)
from nextloc_metrics.report.files.opening import FilePart, pa, pc

#: the id of a missing target that counts as a miss: no id of 18 digits is larger, also as text
MISSING_TARGET = 10**18 - 1

# How many first cells tell how answers are written, and the marks that may join several names in
# one text. NUL is no such mark: some names end with it.
_SEEN = 1000
_MARKS = [*map(re.compile, (r"\s*[|;,]\s*", r"\s*[^\w\s|;,\0]+\s*", r"\s+", r"_+"))]
_QUOTES = "()\"' "
# The most times that padding may multiply the number of values.
_PADDED = 4


def pad(cells: Cells) -> Tensor:
    """Return lists of keys, padded with -1 to the longest."""
    width = max(1, int(cells.lengths.max(initial=0)))
    if (cells.lengths == width).all():
        return as_tensor("preds", cells.values.reshape(-1, width))
    return torch.from_numpy(pad_rows(cells.values, cells.lengths, -1, width))


def cut(columns: Sequence[Any], values: int) -> list[slice]:
    """Cut rows into pieces of about `values` values; with padding, at most four times as many."""
    lengths = np.stack([_lengths(column) for column in columns]).max(0)
    step = max(1, values // max(1, int(lengths.mean()) if len(lengths) else 1))
    pieces, start = [], 0
    while start < len(lengths):
        number = min(step, len(lengths) - start)
        while number > 1 and number * lengths[start : start + number].max() > _PADDED * values:
            number //= 2
        pieces.append(slice(start, start + number))
        start += number
    return pieces


def _lengths(column: Any) -> Any:
    """Return how many values each cell has; for text, this is an estimate."""
    column = plain(column)
    if not is_list(column.type) and not is_text(column.type):
        return np.ones(len(column), np.int64)
    count = pc.list_value_length if is_list(column.type) else pc.binary_length
    sizes = count(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return sizes if is_list(column.type) else sizes // 4


def with_missing(
    vocabulary: Sequence[str | int] | None, on_missing: OnError
) -> Sequence[str | int] | None:
    """Return a vocabulary, to which the id of a missing target is added if it is a miss."""
    if vocabulary is None or on_missing == "raise":
        return vocabulary
    are_text = any(isinstance(x, str) for x in vocabulary)
    return [*vocabulary, str(MISSING_TARGET) if are_text else MISSING_TARGET]


def gaps_of(padding: Iterable[int], on_missing: OnError) -> Set[str]:
    """Return the texts of a missing target that counts as a miss; none if it is an error."""
    return {"", "-1", *map(str, padding)} if on_missing == "miss" else frozenset()


def fill_gaps(column: Any, gaps: Set[str]) -> Any:
    """Write the id of a missing target where a cell is null, NaN or one of `gaps`."""
    column, types = plain(column), pa.types
    if types.is_floating(column.type):  # pandas writes integers beside a gap as floats
        column = pc.if_else(pc.is_nan(column), None, column)
        with suppress(pa.ArrowInvalid):
            column = column.cast(pa.int64())
    elif types.is_integer(column.type) or types.is_null(column.type):
        column = column.cast(pa.int64())
    kind, missing, missing_id = column.type, column.is_null(), str(MISSING_TARGET)
    if is_text(kind) or types.is_integer(kind):
        marks = [x for x in gaps if x or is_text(kind)]
        missing = pc.or_(missing, pc.is_in(column, pa.array(marks, pa.string()).cast(kind)))
    elif not is_list(kind):
        return column
    filled = pa.array([[missing_id]] if is_list(kind) else [missing_id]).cast(kind)[0]
    return pc.if_else(missing, filled, column)


def miss_unmet(batch: Any) -> None:
    """Make queries whose grades are all 0 score 0: remove their one target from the predictions."""
    unmet = (batch.grades <= 0).all(1)
    if not unmet.any():
        return
    preds, relevant = batch.preds[unmet], batch.target[unmet, :1]
    if preds.is_floating_point():
        preds = preds.scatter(1, relevant, -torch.inf)
    else:
        preds = preds.masked_fill(preds == relevant, -1)
    batch.preds = batch.preds.index_put((unmet,), preds)
    batch.grades[unmet, 0] = 1


def kind_of(column: Any) -> str:
    """Return whether the ids of a typed column are text or integers."""
    kind = column.type.value_type if hasattr(column.type, "value_type") else column.type
    kind = kind.value_type if hasattr(kind, "value_type") else kind
    return "text" if is_text(kind) else "integers"


def width_of_most(parts: Sequence[FilePart], name: str, separator: str | None) -> int | None:
    """Return the number of scores of most lists in a column; None if most are lists of ids.

    If there are as many lists of ids as of scores, the first list decides.
    """
    reading, numbers = CellReading(are_scores=True, separator=separator), Counter[int | None]()
    for column in (part.columns[name] for part in parts):
        if is_list(column.type):
            is_float = pa.types.is_floating(column.type.value_type)
            numbers.update(
                _lengths(column.drop_null()).tolist() if is_float else [None] * len(column)
            )
        for cell in with_commas(plain(column)).to_pylist() if is_text(column.type) else ():
            is_listed = isinstance(cell, str) and cell.lstrip()[:1] == "["
            if items := split(cell, reading) if is_listed else None:
                numbers[len(items) if any(isinstance(x, float) for x in items) else None] += 1
    scores = {width: number for width, number in numbers.items() if width is not None}
    balance = numbers[None] - sum(scores.values())
    if not scores or balance > 0 or (not balance and None in [*numbers][:1]):
        return None
    usual = max(scores, key=lambda width: (scores[width] * (width > 0), width))
    if usual == 0:
        raise ValueError(f"{parts[0].file} must hold scores in {as_column(name)}, got empty lists.")
    return usual


def check_no_answers(part: FilePart, preds: str, target: str, separator: str | None) -> None:
    """Raise if most cells of text are answers in prose, or hold several names that a mark joins."""
    cells = [part.columns[x][:_SEEN].to_pylist() for x in (preds, target)]
    reading = CellReading(untyped=True)
    lists, relevant = ([x for cell in column if (x := split(cell, reading))] for column in cells)
    targets = {str(x) for cell in relevant for x in cell}
    texts = [x for x in cells[0] if isinstance(x, str) and x.strip() and x not in targets]
    marks = "```|^{|\n" if separator is None else "```|^{"  # a fence, an object, several lines
    answers = [
        x
        for x in map(str.strip, texts)
        if not (x[0] == "[" and x[-1] == "]")
        and (re.search(marks, x) or isinstance(forms.by_json(None, "last", x), list))
    ]
    may_be_joined = not any(len(x) > 1 or str(x[0]) in targets for x in lists)
    names = [x for (x, *_) in lists if isinstance(x, str) and may_be_joined and separator is None]
    # Where targets are numbers, a later check refuses each cell by itself; `0744` is text.
    are_numbers = all(x.isdigit() and not x[:-1].startswith("0") for x in targets)
    for mark in _MARKS[: 1 if are_numbers else None]:
        parts = [(x, mark.split(x.strip(_QUOTES))) for x in names]
        joined = [x for x, y in parts if y[1:] and targets & {z.strip(_QUOTES) for z in y}]
        if 2 * len(joined) > len(lists):
            between = mark.findall(joined[0].strip(_QUOTES))[0].strip("'\"")
            raise ValueError(
                f"`preds` must be lists of ids, and no target is among those of {preds!r} in "
                f"{part.file}, but several stand in one text, such as {short(joined[0])}; pass "
                f"`answers={{'separator': {between!r}}}`, write each as an item of its own, such "
                "as ['Home', 'Cafe'], or read the answers of a language model with `answers`."
            )
        if 2 * len(answers) > len(texts):
            raise ValueError(
                f"`preds` must be lists of ids, and {len(answers):,} of the first {len(texts):,} "
                f"cells of {preds!r} in {part.file} hold answers in text, such as "
                f"{short(answers[0])}; read them with `answers`."
            )


_TRUE = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


def names_of_groups(groups: Sequence[str]) -> tuple[str, ...]:
    """Return the distinct names of columns of groups; raise for one name that is not in a list."""
    if isinstance(groups, str):
        raise TypeError(
            f"`groups` must be a list of columns, got {short(groups)}; use [{groups!r}]."
        )
    return tuple(dict.fromkeys(groups))


def read_group(part: FilePart, name: str, untyped: bool) -> Grouping:
    """Read the keys of groups, which are text, integers or dates; raise for a missing value.

    An empty cell of CSV, whose columns are untyped, is missing, as in all other tables.
    """
    column = plain(part.columns[name])
    kind, types = column.type, pa.types
    if untyped and is_text(kind):
        column = without_empty(column)
    if column.null_count:
        place = part.place(column.is_null().index(True).as_py())
        raise wrong_cell(place, "a group", name, "none", "fill the value")
    if types.is_temporal(kind):
        column = column.cast(pa.string())
    elif types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not types.is_integer(kind) and not is_text(kind) and len(column):
        raise TypeError(
            f"{as_column(name)} in {part.file} must hold groups, integers or text, got {kind}; "
            "convert them to text."
        )
    if types.is_integer(column.type):
        return read_keys(name, column.to_numpy(zero_copy_only=False))
    if not len(column):
        return read_keys(name, [])
    encoded = column.dictionary_encode()  # each text is hashed once
    texts = encoded.dictionary
    keys = keys_of_arrow(texts)
    return Grouping(
        torch.from_numpy(keys[as_numpy(encoded.indices)]), name_keys(keys, as_numpy(texts))
    )


def read_mask(part: FilePart, name: str) -> Tensor:
    """Read true and false, or 1 and 0, bool `[N]`; raise for a value that is neither."""
    cells = part.columns[name].to_pylist()
    mask = [_TRUE.get(str(cell).strip().lower()) for cell in cells]
    if None in mask:
        raise _unfit(part, name, mask.index(None), "true, false, 1 or 0")
    return torch.tensor(mask, dtype=torch.bool)


def read_confidence(part: FilePart, name: str, mask: Tensor | None) -> Tensor:
    """Read numbers from 0 to 1, float64 `[N]`; raise for another value that is not masked."""
    cells = part.columns[name].to_pylist()
    confidences = torch.tensor([_number(cell) for cell in cells], dtype=torch.float64)
    wrong = ~((confidences >= 0) & (confidences <= 1))
    if mask is not None:
        wrong &= mask
    if wrong.any():
        raise _unfit(part, name, int(wrong.nonzero()[0]), "a confidence from 0 to 1")
    return confidences


def _unfit(part: FilePart, name: str, row: int, rule: str) -> ValueError:
    """Return the error of a cell that breaks a rule."""
    got = short(part.columns[name][row].as_py())
    return ValueError(f"{part.place(row)} must hold {rule} in {as_column(name)}, got {got}.")


def _number(cell: Any) -> float:
    """Return a cell as a number, or NaN; `1_0` and digits beyond ASCII are no numbers here."""
    if isinstance(cell, str) and (not cell.isascii() or "_" in cell):
        return float("nan")
    try:
        return float(cell)
    except (TypeError, ValueError):
        return float("nan")


class Numbers:
    """The numbers that metrics read for keys: padding is -1, and other ids keep their keys.

    With a vocabulary, the number of an id is its position there. An answer that is not in it gets a
    hash, far above all positions; `texts`, if it is a dict, gets the id of each hash. With
    `num_locations`, a missing target gets this number, and the numbers from it on rise by one.
    """

    def __init__(
        self, vocabulary: Sequence[str | int] | None, padding: Iterable[int],
        texts: dict[int, str] | None = None, num_locations: int | None = None,
    ) -> None:  # fmt: skip
        self._missing = num_locations
        self.size = None if vocabulary is None else len(vocabulary)
        self._pads, self._texts = np.array(sorted(padding)), texts
        if vocabulary is None:
            return
        if len(set(vocabulary)) < len(vocabulary):
            twice = Counter(vocabulary).most_common(1)[0][0]
            raise ValueError(f"`vocabulary` must hold distinct ids, got {short(twice)} twice.")
        if len({isinstance(x, str) for x in vocabulary}) > 1:
            other = next(
                x for x in vocabulary if isinstance(x, str) != isinstance(vocabulary[0], str)
            )
            raise TypeError(
                f"`vocabulary` must be all text or all integers, got {short(other)} in it."
            )
        keys = (
            read_keys("vocabulary", list(vocabulary)).keys.numpy()
            if vocabulary
            else np.zeros(0, int)
        )
        self._numbers = keys.argsort()
        self._keys = keys[self._numbers]

    def answers(self, keys: Any) -> tuple[Any, Any]:
        """Return the number of each key, -1 for padding, and which keys are no ids."""
        if self.size is None:
            if len(self._pads) > 1:
                keys = np.where(np.isin(keys, self._pads), -1, keys)
            if self._missing is not None:
                others = np.where(keys >= self._missing, keys + 1, keys)
                keys = np.where(keys == MISSING_TARGET, self._missing, others)
            return keys, keys < -1
        positions, is_listed = self._positions(keys)
        is_pad = np.isin(keys, self._pads) & ~is_listed
        others = np.where(keys >= LIMIT, keys, hashed_keys(keys))
        numbers = np.where(is_listed, positions, np.where(is_pad, -1, others))
        if self._texts is not None:
            hashed = (numbers >= LIMIT) & (keys < LIMIT)
            ids = map(str, keys[hashed].tolist())
            self._texts.update(zip(numbers[hashed].tolist(), ids, strict=True))
        return numbers, (keys < 0) & ~is_listed & ~is_pad

    def targets(self, keys: Any) -> tuple[Any, Any]:
        """Return the number of each key, and which keys are wrong or not in the vocabulary."""
        numbers, wrong = self.answers(keys)
        return numbers, wrong | (numbers >= LIMIT) if self.size is not None else wrong

    def _positions(self, keys: Any) -> tuple[Any, Any]:
        """Return the position of each key in the vocabulary, and which keys are in it."""
        if not len(self._keys):
            return np.zeros(len(keys), np.int64), np.zeros(len(keys), bool)
        nearest = np.searchsorted(self._keys, keys).clip(max=len(self._keys) - 1)
        return self._numbers[nearest], self._keys[nearest] == keys
