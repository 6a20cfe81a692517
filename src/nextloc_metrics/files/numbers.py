"""The number of each id: itself, or its position in a vocabulary."""

from __future__ import annotations

from collections.abc import Sequence, Set
from copy import copy
from typing import Any

import numpy as np

from nextloc_metrics.arguments.messages import short
from nextloc_metrics.arguments.siphash import UNKNOWN, unknown_numbers
from nextloc_metrics.files.ids import CellKind, Cells
from nextloc_metrics.files.opening import need_arrow

# Targets up to this id are dense; above it, ids are sparse if the largest is more than four times
# the number of distinct targets.
DENSE = 1 << 20
# Different unknown ids that have numbers of their own; the numbers of more are hashes.
_KNOWN = UNKNOWN


class Survey:
    """What one pass over the targets finds; `has_several` if a row has not exactly one id."""

    def __init__(self, kind: CellKind, padding: Set[int], keeps: bool) -> None:
        self.num_rows: int | None = 0
        self.has_several = False
        self._kind, self._keeps = kind, keeps
        self._pads = padding
        self._small, self._large = np.zeros(DENSE, bool), np.zeros(0, np.int64)
        self._words: Any = None

    @classmethod
    def unknown(cls, has_several: bool) -> Survey:
        """Make the survey of targets that are not read."""
        survey = cls("integers", frozenset(), False)
        survey.num_rows, survey.has_several = None, has_several
        return survey

    def add(self, cells: Cells) -> None:
        """Add some rows."""
        assert self.num_rows is not None
        self.num_rows += len(cells.lengths)
        lengths, values = cells.lengths[~cells.bad], cells.values
        self.has_several |= bool((lengths != 1).any())
        if self._kind == "text":
            pads = need_arrow().array(list(map(str, self._pads)), need_arrow().string())
            is_pad = _is_in(values, pads)
        else:
            is_pad = np.isin(values, list(self._pads)) if len(values) and values.min() < 0 else None
        if is_pad is not None and is_pad.any():
            # a list of nothing but padding has no relevant id
            self.has_several |= bool(cells.lists[cells.rows[is_pad]].any())
        if not self._keeps:
            return
        if self._kind == "text":
            values = values.filter(need_arrow().array(~is_pad)).unique()
            both = values if self._words is None else _joined(self._words, values).unique()
            self._words = both
            return
        values = values[values >= 0]
        is_small = values < DENSE
        self._small[values[is_small]] = True
        if not is_small.all():
            self._large = np.unique(np.concatenate([self._large, values[~is_small]]))

    @property
    def size(self) -> int | None:
        """One more than the largest target; None if no target was read."""
        if self.num_rows is None:
            return None
        if len(self._large):
            return int(self._large[-1]) + 1
        found = np.flatnonzero(self._small)
        return int(found[-1]) + 1 if len(found) else 1

    @property
    def vocabulary(self) -> list[str | int] | None:
        """The distinct targets in rising order, if they are text or sparse."""
        if not self._keeps or self.num_rows is None:
            return None
        if self._kind == "text":
            return [] if self._words is None else sorted(self._words.to_pylist())
        distinct = int(self._small.sum()) + len(self._large)
        if not len(self._large) or self._large[-1] <= 4 * distinct + DENSE:
            return None
        return [*np.flatnonzero(self._small).tolist(), *self._large.tolist()]


class Numbering:
    """The numbers of ids: by `vocabulary`, or integers as they are; ids in `padding` are none."""

    def __init__(
        self, kind: CellKind, vocabulary: Sequence[str | int] | None, padding: Set[int]
    ) -> None:
        self.kind, self.size = kind, None if vocabulary is None else len(vocabulary)
        self.others: dict[Any, int] = {}
        self._most = _KNOWN
        self._pads: Any = np.array(sorted(padding), np.int64)
        self._has_more = len(padding) > 1
        if vocabulary is None:
            return
        if len(set(vocabulary)) < len(vocabulary):
            seen: set[Any] = set()
            twice = next(x for x in vocabulary if x in seen or seen.add(x))  # type: ignore[func-returns-value]
            raise ValueError(f"`vocabulary` must hold distinct ids, got {short(twice)} twice.")
        other = next((x for x in vocabulary if isinstance(x, str) != (kind == "text")), None)
        if other is not None:
            raise TypeError(
                f"`vocabulary` must be all text or all integers, got {short(other)} in it."
            )
        if kind == "text":
            pa = need_arrow()
            self._ids = pa.array(vocabulary, pa.string())
            self._pads = pa.array(sorted({*map(str, padding)} - set(vocabulary)), pa.string())
        else:
            ids = np.array(vocabulary, np.int64)
            self._order = np.argsort(ids, kind="stable")
            self._ids = ids[self._order]

    def hashed(self) -> Numbering:
        """Return numbers that do not depend on the order of ids: of unknown ids, their hashes."""
        numbers = copy(self)
        numbers.others, numbers._most = {}, 0
        return numbers

    def answers(self, values: Any) -> tuple[Any, Any]:
        """Return the number of each id, and which of them are wrong, or None."""
        if self.size is None:
            if self._has_more:
                values = np.where(np.isin(values, self._pads), -1, values)
            return values, values < -1 if len(values) and values.min() < -1 else None
        numbers, unknown = self._known(values)
        if not len(unknown):
            return numbers, None
        wrong = np.zeros(len(numbers), bool)
        if self.kind == "text":
            others = values.take(need_arrow().array(unknown)).to_pylist()
        else:
            wrong[unknown] = values[unknown] < 0
            others = values[unknown].tolist()
        numbers[unknown] = self._others_of(others)
        return numbers, wrong if wrong.any() else None

    def targets(self, values: Any) -> tuple[Any, Any]:
        """Return the number of each id; one that is not in the vocabulary is wrong."""
        if self.size is None:
            return self.answers(values)
        numbers, unknown = self._known(values)
        wrong = np.zeros(len(numbers), bool)
        wrong[unknown] = True
        return numbers, wrong

    def _known(self, values: Any) -> tuple[Any, Any]:
        """Return numbers, -1 for padding, and the positions of ids that have none."""
        if self.kind == "text":
            import pyarrow.compute as pc

            found = pc.index_in(values.cast(self._ids.type), self._ids)  # of only empty lists: null
            missing = found.is_null().to_numpy(zero_copy_only=False)
            numbers = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
            if not missing.any():
                return numbers, np.zeros(0, np.int64)
            return numbers, np.flatnonzero(missing & ~_is_in(values, self._pads))
        if not len(self._ids):
            numbers = np.full(len(values), -1)
            return numbers, np.flatnonzero(~np.isin(values, self._pads))
        slots = np.searchsorted(self._ids, values).clip(max=len(self._ids) - 1)
        hit = self._ids[slots] == values
        numbers = np.where(hit, self._order[slots], -1)
        return numbers, np.flatnonzero(~hit & ~np.isin(values, self._pads))

    def _others_of(self, values: Sequence[Any]) -> Any:
        """Return the numbers of ids that are not in the vocabulary: the next, or their hashes."""
        assert self.size is not None
        new = [x for x in dict.fromkeys(values) if x not in self.others]
        hashed = new[max(0, self._most - len(self.others)) :]
        for value in new[: len(new) - len(hashed)]:
            self.others[value] = self.size + len(self.others)
        far = dict(zip(hashed, unknown_numbers(map(str, hashed), self.size).tolist(), strict=True))
        return [self.others[x] if x in self.others else far[x] for x in values]


def _is_in(values: Any, among: Any) -> Any:
    import pyarrow.compute as pc

    return pc.is_in(values, among).to_numpy(zero_copy_only=False)


def _joined(first: Any, second: Any) -> Any:
    return need_arrow().concat_arrays([first, second])
