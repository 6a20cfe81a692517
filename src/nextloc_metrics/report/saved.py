"""Files of counts: text and integers with a checksum; they hold no pickled code."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from hashlib import blake2b
from io import SEEK_END, BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.arguments.messages import clip, describe, short
from nextloc_metrics.arguments.outputs import new_file
from nextloc_metrics.base.mean import RecordMetric
from nextloc_metrics.means import exact
from nextloc_metrics.report.data import names_of

# Version of the files that `write` makes.
_VERSION = 4

# Bytes that all compressed arrays of a file take; of more, none is compressed. What a file unpacks
# to is therefore at most this and its own size.
_MOST_INFLATED = 1 << 28

# Bytes before the numbers of an array, at most.
_OF_ARRAY = 1 << 10


def write(
    path: Path | BytesIO,
    header: Mapping[str, Any],
    arrays: Mapping[str, Tensor],
    force: bool = False,
) -> None:
    """Write a header and arrays to a file, as `new_file`, or to bytes."""
    values: dict[str, Any] = {name: array.numpy() for name, array in arrays.items()}
    text = json.dumps({"version": _VERSION, "arrays": forms(values), **header})
    values |= {"header": np.array(text), "checksum": np.array(checksum(text, values))}
    if isinstance(path, BytesIO):
        np.savez(path, **values)
        return
    if path.suffix != ".npz":
        raise ValueError(f"`path` must end with .npz, got {short(path.name)}; a page is `to_html`.")
    is_large = sum(array.nbytes + _OF_ARRAY for array in values.values()) > _MOST_INFLATED
    with new_file(path, force) as file:
        (np.savez if is_large else np.savez_compressed)(file, **values)


def forms(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return dtype and shape of arrays, as a header announces them."""
    return {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}


def checksum(header: str, arrays: Mapping[str, Any]) -> str:
    """Return a hash of the header and of the arrays with their names, dtypes and shapes."""
    found = blake2b(header.encode(), digest_size=16)
    for name, array in sorted(arrays.items()):
        found.update(repr((name, array.dtype.str, array.shape)).encode())
        found.update(array.tobytes())
    return found.hexdigest()


def read(path: Path | BytesIO) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read what `write` wrote; a ValueError if it is cut, was changed, or is something else."""
    opened: Any = nullcontext(path) if isinstance(path, BytesIO) else path.open("rb")
    with opened as file, refused(path):
        if not zipfile.is_zipfile(file):
            raise ValueError("it is cut, or no .npz file")
        with zipfile.ZipFile(file) as packed:
            entries = {entry.filename: entry for entry in packed.infolist()}
            _check_sizes(packed.infolist(), file.seek(0, SEEK_END))
            if "header.npy" not in entries:
                raise ValueError("it has no header")
            text = str(_unpack(packed, entries.pop("header.npy")))
            header = json.loads(text)
            if header["version"] != _VERSION:
                raise ValueError(
                    f"it has version {header['version']} and this release reads {_VERSION}"
                )
            known = str(_unpack(packed, entries.pop("checksum.npy")))
            announced = {f"{name}.npy": form for name, form in header.pop("arrays").items()}
            if announced.keys() != entries.keys():
                raise ValueError("its arrays are not those of its header")
            arrays = {
                name.removesuffix(".npy"): _unpack(packed, entry, announced[name])
                for name, entry in entries.items()
            }
        if checksum(text, arrays) != known:
            raise ValueError("its checksum shows that it was changed")
        return header, {name: torch.from_numpy(array) for name, array in arrays.items()}


def _check_sizes(entries: Sequence[zipfile.ZipInfo], length: int) -> None:
    """Raise unless all entries lie within a file of this length, and unpack to what they may."""
    stored = [entry for entry in entries if entry.compress_type == zipfile.ZIP_STORED]
    deflated = [entry for entry in entries if entry.compress_type == zipfile.ZIP_DEFLATED]
    if (
        len(stored) + len(deflated) != len({entry.filename for entry in entries})
        or any(entry.file_size != entry.compress_size for entry in stored)
        or sum(entry.compress_size for entry in entries) > length
    ):
        raise ValueError("its sizes are not those of its arrays")
    if (size := sum(entry.file_size for entry in deflated)) > _MOST_INFLATED:
        raise ValueError(f"it would unpack to {size:,} bytes")


def _unpack(packed: zipfile.ZipFile, entry: zipfile.ZipInfo, form: Any = None) -> Any:
    """Return the array of an entry, or raise before it is unpacked if it has another form.

    Without `form` it is a text.
    """
    with packed.open(entry) as file:
        version = np.lib.format.read_magic(file)
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        size = file.tell() + dtype.itemsize * math.prod(shape)
        is_text = dtype.kind == "U" and not shape
        is_known = is_text if form is None else form == [dtype.str, list(shape)]
        if version != (1, 0) or not is_known or entry.file_size != size:
            raise ValueError(f"{clip(entry.filename)} is not what its header announces")
        file.seek(0)
        return np.lib.format.read_array(file, allow_pickle=False)


@contextmanager
def refused(path: Path | BytesIO) -> Iterator[None]:
    """Raise a ValueError that names the file if reading its content fails in any way."""
    try:
        yield
    except Exception as error:
        own = isinstance(error, ValueError) and "pickle" not in str(error)
        name = "`data`" if isinstance(path, BytesIO) else path
        reason = str(error) if own else f"reading it failed with {type(error).__name__}"
        raise ValueError(
            f"{name} must be a file that `Evaluation.save` wrote, but {clip(reason)}; "
            "save the evaluation again."
        ) from error


def check_metrics(
    path: Path | BytesIO, header: Mapping[str, Any], metrics: Mapping[str, RecordMetric]
) -> None:
    """Raise if a file is that of an evaluation with other further metrics."""
    with refused(path):
        known = tuple(header["setting" if "setting" in header else "options"]["metrics"])
    own = names_of(metrics)
    if known != own:
        has, got = (
            clip(str(next((x for x in some if x not in others), "none")))
            for some, others in ((known, own), (own, known))
        )
        name = "`data`" if isinstance(path, BytesIO) else path
        raise ValueError(
            f"{name} has counts of `metrics` {has}, got {got}; pass the same `metrics` to read it."
        )


def check_card(card: Mapping[str, int], longest: Any) -> None:
    """Raise if the numbers of the card are no numbers of queries, or the longest list no length."""
    queries = card["queries"]
    for name, number in card.items():
        most = exact.MOST_QUERIES if name in ("queries", "broken_answers") else queries
        most = 1 << 62 if name.startswith("positions_") else most
        if type(number) is not int or not 0 <= number <= most:
            raise ValueError(f"`{clip(name)}` of its card is {clip(repr(number))}")
    if type(longest) is not int or longest < 0:
        raise ValueError(f"its longest list is {clip(repr(longest))}")


def check_state(name: str, member: RecordMetric, state: Tensor, queries: int) -> None:
    """Raise if the state of a name cannot come from `queries` queries of a metric."""
    expected = member.state
    fits = expected.shape[:1] in ((0,), state.shape[:1])  # as many rows, or keys that come as such
    if state.dtype != expected.dtype or state.shape[1:] != expected.shape[1:] or not fits:
        raise ValueError(f"{clip(name)} is {describe(state)} and not {describe(expected)}")
    if not member._check_state(state, queries):
        raise ValueError(f"the counts of {clip(name)} are out of bounds")
