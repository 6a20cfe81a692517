"""What a partition adds to an evaluation: its targets first, then its counts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

#: Parts that one task merges.
FAN_IN = 8

#: Turns a partition, a `pyarrow.Table`, into a part. Rows that cannot be read make a part too.
Count: TypeAlias = Callable[[Any], bytes]
#: Makes one part of several, in any order.
Merge: TypeAlias = Callable[[Sequence[bytes]], bytes]

# An error is a part: each engine raises errors of its own, and tries what failed again.
_COUNTS, _ERROR = b"+", b"-"
_ERRORS = {error.__name__: error for error in (TypeError, ValueError)}


def count_part(table: Any, count: Count) -> bytes:
    """Return the part of a partition, a table or a data frame; empty without rows."""
    return _guarded(lambda: count(_as_table(table))) if len(table) else b""


def merge_parts(parts: Sequence[bytes], merge: Merge) -> bytes:
    """Merge parts; of several errors, the first in alphabetical order, whatever came first."""
    full = [part for part in parts if part]
    if errors := [part for part in full if part.startswith(_ERROR)]:
        return min(errors)
    if len(full) < 2:
        return b"".join(full)
    return _guarded(lambda: merge([part[1:] for part in full]))


def open_part(part: bytes) -> bytes:
    """Return what `count` and `merge` made of all rows, or raise their error."""
    if part.startswith(_ERROR):
        name, message = json.loads(part[1:])
        raise _ERRORS[name](message)
    return part[1:]


def _guarded(make: Callable[[], bytes]) -> bytes:
    try:
        return _COUNTS + make()
    except tuple(_ERRORS.values()) as error:
        name = next(name for name, kind in _ERRORS.items() if isinstance(error, kind))
        return _ERROR + json.dumps([name, str(error)]).encode()


def _as_table(partition: Any) -> Any:
    import pyarrow as pa

    if isinstance(partition, pa.Table):
        return partition
    return pa.Table.from_pandas(partition, preserve_index=False)
