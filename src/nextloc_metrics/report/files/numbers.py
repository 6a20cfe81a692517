"""The number of each id: itself, or its position in a vocabulary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from copy import copy
from typing import Any

import numpy as np

from nextloc_metrics.core.queries.hashing import unknown_numbers
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.report.files.cells import CellKind, as_numpy, filtered
from nextloc_metrics.report.files.opening import pa, pc

# Targets up to this id are dense; above it, ids are sparse if the largest is more than four times
# the number of distinct targets.
DENSE = 1 << 20


class Numbering:
    """The numbers of ids: by `vocabulary`, or integers as they are; ids in `padding` are none."""

    def __init__(
        self, kind: CellKind, vocabulary: Sequence[str | int] | None, padding: Set[int]
    ) -> None:
        self._kind, self._size = kind, None if vocabulary is None else len(vocabulary)
        self._padding, self._is_hashed = sorted(padding), False
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
        self._ids, self._pads = (arrow_ids(kind, x) for x in (vocabulary, padding))

    @property
    def others(self) -> list[Any]:
        """The ids of answers so far that are not in the vocabulary, in the order of numbers."""
        return [] if self._size is None else self._ids[self._size :].to_pylist()

    def hashed(self) -> Numbering:
        """Return numbers that do not depend on the order of ids: of unknown ids, their hashes."""
        numbers = copy(self)
        numbers._is_hashed = True
        return numbers

    def answers(self, values: Any) -> tuple[Any, Any]:
        """Return the number of each id, and which of them are wrong, or None."""
        if self._size is None:
            if len(self._padding) > 1:
                values = np.where(np.isin(values, self._padding), -1, values)
            return values, values < -1 if len(values) and values.min() < -1 else None
        ids, numbers, unknown = self._known(values)
        wrong = unknown & (values < 0) if self._kind == "integers" else None
        if wrong is not None:
            unknown &= ~wrong
        if unknown.any():
            new = filtered(ids, unknown)
            if self._is_hashed:
                each = new.dictionary_encode()
                found = unknown_numbers(map(str, each.dictionary.to_pylist()), self._size)
                numbers[unknown] = found[as_numpy(each.indices)]
            else:
                self._ids = pa.concat_arrays([self._ids, new.unique()])
                numbers[unknown] = as_numpy(pc.index_in(new, self._ids))
        return numbers, wrong

    def targets(self, values: Any) -> tuple[Any, Any]:
        """Return the number of each id; one that is not in the vocabulary is wrong."""
        if self._size is None:
            return self.answers(values)
        _, numbers, unknown = self._known(values)
        return numbers, unknown | (numbers >= self._size)

    def _known(self, values: Any) -> tuple[Any, Any, Any]:
        """Return ids, their numbers, -1 for those without, and which are in no way known."""
        ids = arrow_ids(self._kind, values)
        numbers = as_numpy(pc.index_in(ids, self._ids).fill_null(-1)).astype(np.int64)
        unknown = numbers < 0
        if unknown.any():
            unknown &= ~as_numpy(pc.is_in(ids, self._pads))
        return ids, numbers, unknown


def arrow_ids(kind: CellKind, values: Any) -> Any:
    """Return ids as an Arrow array of text, or of integers."""
    if isinstance(values, pa.Array):
        return values.cast(pa.string())  # of only empty lists: null
    if kind == "text":
        return pa.array([*map(str, values)], pa.string())
    return pa.array(values if isinstance(values, np.ndarray) else [*values], pa.int64())
