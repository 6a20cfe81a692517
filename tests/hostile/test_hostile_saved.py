"""The law for saved counts: what was cut or changed is refused."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hostile_batches import Work, works
from hostile_law import attempt, contents, quiet, tried
from hypothesis import given
from hypothesis import strategies as st

from nextloc_metrics import report

Draw = Callable[[st.SearchStrategy[Any]], Any]
clean = works(odd=("",), names=("a", "b", "01", "é", ""))


def saved_of(work: Work) -> bytes:
    """Return the counts of all batches."""
    evaluator = report.Evaluator(**work.options)
    for part in work.parts:
        evaluator.add(part.batch)
    return evaluator.to_bytes()


@st.composite
def broken(draw: Draw) -> tuple[bytes, bytes]:
    """Draw counts, and the same bytes cut, with a bit changed, or with more behind them."""
    data = saved_of(draw(clean))
    how = draw(st.sampled_from(["cut", "bit", "bit", "more"]))
    at = draw(st.integers(0, len(data) - 1))
    if how == "cut":
        return data, data[:at]
    if how == "more":
        return data, data + draw(st.binary(min_size=1, max_size=30))
    bit = 1 << draw(st.integers(0, 7))
    return data, data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]


@tried(5)
@given(broken(), st.booleans())
def test_changed_bytes(both: tuple[bytes, bytes], by_file: bool) -> None:
    """Bytes that were changed are refused, or say what they said."""
    data, other = both
    found = attempt(lambda: read(other, by_file))
    if not isinstance(found, Exception):
        assert not other or found == read(data, by_file)


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
