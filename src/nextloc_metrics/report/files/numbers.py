"""The number of each id: itself, or its position in a vocabulary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from copy import copy
from typing import Any

import numpy as np

from nextloc_metrics.core.queries.hashing import UNKNOWN, unknown_numbers
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.report.files.cells import CellKind, Cells
from nextloc_metrics.report.files.opening import pa, pc

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
        self._kind, self._keeps, self._padding = kind, keeps, padding
        self._ids: Any = None

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
        ids = _arrow(self._kind, cells.values)
        new, pads = ids.unique(), _arrow(self._kind, self._padding)
        self.has_several |= bool((cells.lengths[~cells.bad] != 1).any())
        if (is_pad := _is_in(new, pads)).any():
            # a list of nothing but padding has no relevant id
            self.has_several |= bool(cells.lists[cells.rows[_is_in(ids, pads)]].any())
            new = new.filter(pa.array(~is_pad))
        if self._keeps:
            self._ids = new if self._ids is None else pa.concat_arrays([self._ids, new]).unique()

    def _numbers(self) -> Any:
        """Return the distinct integers from 0 on, in rising order."""
        found = np.zeros(0, np.int64) if self._ids is None else self._ids.to_numpy()
        return np.sort(found[found >= 0])

    @property
    def size(self) -> int | None:
        """One more than the largest target; None if no target was read."""
        return None if self.num_rows is None else int(self._numbers().max(initial=0)) + 1

    @property
    def vocabulary(self) -> list[str | int] | None:
        """The distinct targets in rising order, if they are text or sparse."""
        if not self._keeps or self.num_rows is None:
            return None
        if self._kind == "text":
            return [] if self._ids is None else sorted(self._ids.to_pylist())
        ids = self._numbers()
        return ids.tolist() if ids.max(initial=0) > 4 * len(ids) + DENSE else None


class Numbering:
    """The numbers of ids: by `vocabulary`, or integers as they are; ids in `padding` are none."""

    def __init__(
        self, kind: CellKind, vocabulary: Sequence[str | int] | None, padding: Set[int]
    ) -> None:
        self.kind, self.size = kind, None if vocabulary is None else len(vocabulary)
        self.others: dict[Any, int] = {}
        self._most, self._padding = _KNOWN, sorted(padding)
        if vocabulary is None:
            return
        if len(set(vocabulary)) < len(vocabulary):
            twice = Counter(vocabulary).most_common(1)[0][0]
            raise ValueError(f"`vocabulary` must hold distinct ids, got {short(twice)} twice.")
        other = next((x for x in vocabulary if isinstance(x, str) != (kind == "text")), None)
        if other is not None:
            raise TypeError(
                f"`vocabulary` must be all text or all integers, got {short(other)} in it."
            )
        self._ids, self._pads = (_arrow(kind, x) for x in (vocabulary, padding))

    def hashed(self) -> Numbering:
        """Return numbers that do not depend on the order of ids: of unknown ids, their hashes."""
        numbers = copy(self)
        numbers.others, numbers._most = {}, 0
        return numbers

    def answers(self, values: Any) -> tuple[Any, Any]:
        """Return the number of each id, and which of them are wrong, or None."""
        if self.size is None:
            if len(self._padding) > 1:
                values = np.where(np.isin(values, self._padding), -1, values)
            return values, values < -1 if len(values) and values.min() < -1 else None
        ids, numbers, unknown = self._known(values)
        if not unknown.any():
            return numbers, None
        wrong = unknown & (values < 0) if self.kind == "integers" else None
        numbers[unknown] = self._others_of(ids.filter(pa.array(unknown)).to_pylist())
        return numbers, wrong

    def targets(self, values: Any) -> tuple[Any, Any]:
        """Return the number of each id; one that is not in the vocabulary is wrong."""
        return self.answers(values) if self.size is None else self._known(values)[1:]

    def _known(self, values: Any) -> tuple[Any, Any, Any]:
        """Return ids, their numbers, -1 for those without, and which are in no way known."""
        ids = _arrow(self.kind, values)
        numbers = pc.index_in(ids, self._ids).fill_null(-1)
        numbers = numbers.to_numpy(zero_copy_only=False).astype(np.int64)
        unknown = numbers < 0
        if unknown.any():
            unknown &= ~_is_in(ids, self._pads)
        return ids, numbers, unknown

    def _others_of(self, values: Sequence[Any]) -> Any:
        """Return the numbers of ids that are not in the vocabulary: the next, or their hashes."""
        assert self.size is not None
        new = [x for x in dict.fromkeys(values) if x not in self.others]
        hashed = new[max(0, self._most - len(self.others)) :]
        for value in new[: len(new) - len(hashed)]:
            self.others[value] = self.size + len(self.others)
        far = dict(zip(hashed, unknown_numbers(map(str, hashed), self.size).tolist(), strict=True))
        return [self.others[x] if x in self.others else far[x] for x in values]


def _arrow(kind: CellKind, values: Any) -> Any:
    """Return ids as an Arrow array of text, or of integers."""
    if isinstance(values, pa.Array):
        return values.cast(pa.string())  # of only empty lists: null
    if kind == "text":
        return pa.array([*map(str, values)], pa.string())
    return pa.array(values if isinstance(values, np.ndarray) else [*values], pa.int64())


def _is_in(values: Any, among: Any) -> Any:
    return pc.is_in(values, among).to_numpy(zero_copy_only=False)
