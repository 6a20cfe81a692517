"""The law for saved counts: what was cut, changed or forged is refused, and takes no memory."""

from __future__ import annotations

import io
import json
import tempfile
import tracemalloc
import zipfile
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest
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


def checksum(header: str, arrays: dict[str, Any]) -> str:
    """Return the checksum that files of counts have."""
    found = blake2b(header.encode(), digest_size=16)
    for name, array in sorted(arrays.items()):
        found.update(repr((name, array.dtype.str, array.shape)).encode())
        found.update(array.tobytes())
    return found.hexdigest()


def packed(header: str, arrays: dict[str, Any]) -> bytes:
    """Return a file of counts with the right checksum."""
    file = io.BytesIO()
    members = {**arrays, "header": np.array(header), "checksum": np.array(checksum(header, arrays))}
    np.savez(file, **members)
    return file.getvalue()


ODD: list[Any] = [None, -1, 2**70, 1e308, "", "x", [], {}, True, [[]], "\0", [1, 1]]


@st.composite
def forged(draw: Draw) -> bytes:
    """Draw counts of which one number or name was replaced, with the right checksum."""
    with np.load(io.BytesIO(saved_of(draw(clean)))) as opened:
        arrays: dict[str, Any] = {name: opened[name] for name in opened.files}
    header = json.loads(str(arrays.pop("header")))
    arrays.pop("checksum")
    if draw(st.booleans()):
        place = header
        while True:
            key = draw(st.sampled_from(sorted(place)))
            if not isinstance(place[key], dict) or not place[key] or draw(st.booleans()):
                break
            place = place[key]
        place[key] = draw(st.sampled_from(ODD))
        if draw(st.integers(0, 5)) == 0:
            del place[key]
    else:
        name = draw(st.sampled_from(sorted(arrays)))
        array = arrays[name]
        changes: list[Any] = [array[:0], array.astype("f8"), array.reshape(-1), -array - 1]
        changes += [np.concatenate([array, array]), array + 2**62, array.astype("U5")]
        arrays[name] = draw(st.sampled_from(changes))
    return packed(json.dumps(header), arrays)


@pytest.mark.slow
@tried(5)
@given(forged())
def test_forged_counts(data: bytes) -> None:
    """Counts that no evaluation makes are refused by an error of ours, or give a result."""
    evaluator = attempt(lambda: report.Evaluator.from_bytes(data))
    if not isinstance(evaluator, Exception):
        attempt(evaluator.result)


@pytest.mark.slow  # traces memory
@pytest.mark.parametrize("member", ["x", "header", "checksum"])
def test_a_small_file_does_not_fill_the_memory(member: str, tmp_path: Path) -> None:
    """Members that say more than a file can hold are refused before they are unpacked."""
    zeros = io.BytesIO()
    np.save(zeros, np.zeros(1 << 25, np.int8))
    e = report.evaluate([[1]], [1], k=1)
    e.save(tmp_path / "real.npz")
    with np.load(tmp_path / "real.npz") as real:
        members = {name: real[name] for name in real.files}
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, array in members.items():
            small = io.BytesIO()
            np.save(small, array)
            if name != member:
                file.writestr(f"{name}.npy", small.getvalue())
        file.writestr(f"{member}.npy", zeros.getvalue())
    del zeros
    for call in (
        lambda: report.merge([path]),
        lambda: report.Evaluator.from_bytes(path.read_bytes()),
    ):
        tracemalloc.start()
        found = attempt(call)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert isinstance(found, ValueError)
        assert peak < 16 << 20, f"{peak:,} bytes for a file of {path.stat().st_size:,}"
