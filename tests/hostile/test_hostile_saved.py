"""The law for saved counts: what was cut or changed is refused."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hostile_law import attempt, compares_with_oracle, contents, quiet
from hypothesis import strategies as st

from nextloc_metrics import report

Draw = Callable[[st.SearchStrategy[Any]], Any]
USERS = st.lists(st.sampled_from(["a", "b", "01", "é", ""]), min_size=1, max_size=5)


def saved_of(users: list[str], cluster: str | None) -> bytes:
    """Return the counts of a list per user."""
    evaluator = report.Evaluator(k=(1, 3), num_locations=5, cluster=cluster)
    lists = [[number, 4 - number] for number in range(len(users))]
    evaluator.update(lists, [0] * len(users), groups={"user": users})
    return evaluator.to_bytes()


@st.composite
def broken(draw: Draw, dirty: bool) -> tuple[bytes, bytes]:
    """Draw counts, and the same bytes, as they are, cut, with a bit changed, or with more."""
    data = saved_of(draw(USERS), draw(st.sampled_from([None, "user"])))
    if not dirty:
        return data, data
    how = draw(st.sampled_from(["cut", "bit", "bit", "more"]))
    at = draw(st.integers(0, len(data) - 1))
    if how == "cut":
        return data, data[:at]
    if how == "more":
        return data, data + draw(st.binary(min_size=1, max_size=30))
    bit = 1 << draw(st.integers(0, 7))
    return data, data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]


@compares_with_oracle(6, lambda dirty: (broken(dirty), st.booleans()))
def test_changed_bytes(both: tuple[bytes, bytes], by_file: bool) -> bool:
    """Bytes are read to the same bytes; those that were changed are refused, or say the same."""
    data, other = both
    found = attempt(lambda: read(other, by_file))
    if isinstance(found, Exception):
        assert other != data, f"what was saved is refused: {found}"
        return False
    if other:  # a file without bytes has no counts
        assert found == (read(data, by_file=True) if by_file else data.hex())
    return bool(other)


def read(data: bytes, by_file: bool) -> str:
    """Return all numbers of counts, from bytes or from a file."""
    if not by_file:
        evaluator = report.Evaluator.from_bytes(data)
        return evaluator.to_bytes().hex()
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "part.npz"
        path.write_bytes(data)
        before = contents(Path(name))
        try:
            with quiet():
                return report.merge([path]).to_markdown()
        finally:
            assert contents(Path(name)) == before
