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

from nextloc_metrics.arguments.messages import clip, describe
from nextloc_metrics.arguments.outputs import new_file
from nextloc_metrics.base.mean import MeanMetric, RecordMetric
from nextloc_metrics.geography import DistanceError
from nextloc_metrics.means import exact
from nextloc_metrics.metrics.confidence import ConfidenceTally
from nextloc_metrics.metrics.deciles import DecileKForRecall, DecileScore
from nextloc_metrics.metrics.location_f1 import LocationF1
from nextloc_metrics.report.clustered import ClusteredGroups
from nextloc_metrics.report.data import is_ours, names_of

# Version of the files that `write` makes.
_VERSION = 3

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
    """Read what `write` wrote.

    Raises:
        OSError: the file cannot be opened.
        ValueError: the file is cut, was changed, or is another file.
    """
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


def check_card(card: Mapping[str, int]) -> None:
    """Raise if the numbers of the card are no numbers of queries."""
    queries = card["queries"]
    for name, number in card.items():
        most = exact.MOST_QUERIES if name in ("queries", "broken_answers") else queries
        if type(number) is not int or not 0 <= number <= most:
            raise ValueError(f"`{clip(name)}` of its card is {clip(repr(number))}")


def check_length(longest: Any) -> int:
    """Return the length of the longest list, or raise if it is none."""
    if type(longest) is not int or longest < 0:
        raise ValueError(f"its longest list is {clip(repr(longest))}")
    return longest


def check_state(name: str, member: Any, state: Tensor, queries: int, num_clusters: int = 0) -> None:
    """Raise if a state cannot come from `queries` queries.

    Args:
        name: the name of the state, for the message.
        member: the metric of the state.
        state: the state.
        queries: the number of queries that were added.
        num_clusters: the number of clusters.
    """
    expected, is_keyed = member.state, isinstance(member, ClusteredGroups)
    if state.dtype != expected.dtype or state.shape[is_keyed:] != expected.shape[is_keyed:]:
        raise ValueError(f"{clip(name)} is {describe(state)} and not {describe(expected)}")
    counts, most, fits = state, queries, True
    if is_keyed:
        counts = state[:, 3]
        fits = check_sums(state[:, 1:], queries)
        fits = fits and member.check_keys(state[:, 0], num_clusters)
    elif isinstance(member, LocationF1):
        hits, decisions, support = state.unbind()
        totals = int(decisions.sum()), int(support.sum())
        fits = bool((hits <= decisions.minimum(support)).all())
        fits = fits and totals[0] <= totals[1] <= queries
    elif isinstance(member, DistanceError):
        counts = state[2:]
        fits = check_sums(state[:3], queries) and bool(state[5:].sum() == state[2])
    elif isinstance(member, ConfidenceTally):
        counts = state[:, 0]
        fits = bool(counts.sum() <= queries) and bool((state[:, 1:] >= 0).all())
        fits = fits and bool((state[:, 1:] <= counts[:, None] * exact.ONE).all())
    elif isinstance(member, DecileKForRecall):
        fits = bool((state.sum(1) <= queries).all())
    elif isinstance(member, DecileScore) or _is_mean(member):
        counts = state[..., 2]
        fits = check_sums(state, queries)
    elif not is_ours(member):
        return  # its numbers may be any
    else:  # counts of predictions, of which a query has many
        most = int(state.max())
    if not fits or bool((counts < 0).any()) or bool((counts > most).any()):
        raise ValueError(f"the counts of {clip(name)} are out of bounds")


def _is_mean(member: Any) -> bool:
    return bool(member._averages_scores or (isinstance(member, MeanMetric) and is_ours(member)))


def check_sums(state: Tensor, queries: int) -> bool:
    """Return whether the sums of states `[..., 3 or 7]` fit their numbers of scores."""
    total, squares, count, *rest = state.unbind(-1)
    if exact.is_weighted(state):
        return bool((state >= 0).all() & (count <= queries).all())
    if rest:
        *wholes, infinite = rest
        fractions = torch.stack([total, squares]) <= count * exact.ONE
        return bool(
            fractions.all()
            & (infinite <= count).all()
            & (count <= queries).all()
            & (torch.stack([total, squares, count, *wholes, infinite]) >= 0).all()
        )
    return bool(
        ((squares >= 0) & (squares <= total) & (count >= 0) & (count <= queries)).all()
        and (total <= count * exact.ONE).all()
    )
