"""Files of counts: text and integers with a checksum; they hold no pickled code."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.base.metric import RecordMetric
from nextloc_metrics.core.new_file import new_file
from nextloc_metrics.core.queries.messages import clip, describe, short
from nextloc_metrics.report.setting import OwnMetrics, names_of

# The version of the files that `write` makes.
_VERSION = 9

#: the version of the files of release 0.6, in which groups have numbers; `read` reads them, too
NUMBERED = 8


def write(
    path: Path | BytesIO,
    header: Mapping[str, Any],
    arrays: Mapping[str, Tensor],
    force: bool = False,
) -> None:
    """Write a header and arrays to a file, whole or not at all, or to bytes."""
    values: dict[str, Any] = {name: array.numpy() for name, array in arrays.items()}
    text = json.dumps({"version": _VERSION, **header})
    values |= {"header": np.array(text), "checksum": np.array(checksum(text, values))}
    if isinstance(path, BytesIO):
        np.savez(path, **values)
        return
    if path.suffix != ".npz":
        raise ValueError(f"`path` must end with .npz, got {short(path.name)}; a page is `to_html`.")
    with new_file(path, force) as file:
        np.savez_compressed(file, **values)


def checksum(header: str, arrays: Mapping[str, Any]) -> str:
    """Return a hash of the header and of the arrays with their names, dtypes and shapes."""
    digest = blake2b(header.encode(), digest_size=16)
    for name, array in sorted(arrays.items()):
        digest.update(repr((name, array.dtype.str, array.shape)).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def is_saved(path: str) -> bool:
    """Return whether a file is one that `write` wrote."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as file:
        return {"header.npy", "checksum.npy"} <= {*file.namelist()}


def read(path: Path | BytesIO) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read what `write` wrote; raise if it is cut, was changed, or is something else."""
    opened: Any = nullcontext(path) if isinstance(path, BytesIO) else path.open("rb")
    with opened as file, refused(path):
        if not zipfile.is_zipfile(file):
            raise ValueError("it is cut, or no .npz file")
        file.seek(0)
        with np.load(file, allow_pickle=False) as packed:
            arrays = dict(packed)
        if "header" not in arrays:
            raise ValueError("it has no header")
        text, expected = str(arrays.pop("header")), str(arrays.pop("checksum"))
        header = json.loads(text)
        if header["version"] not in (_VERSION, NUMBERED):
            raise ValueError(
                f"another release wrote it: it has version {header['version']}, and this release "
                f"reads {_VERSION}"
            )
        if checksum(text, arrays) != expected:
            raise ValueError("its checksum shows that it was changed")
        return header, {name: torch.from_numpy(array) for name, array in arrays.items()}


@contextmanager
def refused(path: Path | BytesIO) -> Iterator[None]:
    """Raise a ValueError that names the file if reading its content fails in any way."""
    try:
        yield
    except Exception as error:
        is_reason = isinstance(error, ValueError) and "pickle" not in str(error)
        name = "`data`" if isinstance(path, BytesIO) else path
        reason = str(error) if is_reason else f"reading it failed with {type(error).__name__}"
        raise ValueError(
            f"{name} must be a file that `Evaluation.save` wrote, but {clip(reason)}; "
            "save the evaluation again."
        ) from error


def check_metrics(path: Path | BytesIO, header: Mapping[str, Any], metrics: OwnMetrics) -> None:
    """Raise if the evaluation in a file has other further metrics."""
    with refused(path):
        held = tuple(header["setting"]["metrics"])
    passed = names_of(metrics)
    if held != passed:
        has, got = (
            clip(str(next((x for x in first if x not in second), "none")))
            for first, second in ((held, passed), (passed, held))
        )
        name = "`data`" if isinstance(path, BytesIO) else path
        raise ValueError(
            f"{name} has counts of `metrics` {has}, got {got}; pass the same `metrics` to read it."
        )


def check_state(name: str, member: RecordMetric, state: Tensor) -> None:
    """Raise if a state does not fit its metric, as when the class was edited after saving."""
    expected = member.state
    fits = expected.shape[:1] in ((0,), state.shape[:1])  # a state by key has any number of rows
    if state.dtype != expected.dtype or state.shape[1:] != expected.shape[1:] or not fits:
        raise ValueError(f"{clip(name)} is {describe(state)} and not {describe(expected)}")
