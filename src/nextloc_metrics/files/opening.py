"""Which files there are, and their bytes, unpacked."""

from __future__ import annotations

import bz2
import glob
import gzip
import lzma
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from nextloc_metrics.arguments.messages import clip, extra, short

RUNS = (".run", ".trec")
TEXT = (".csv", ".tsv", ".jsonl", ".ndjson", ".json")
ARROW = (".arrow", ".feather", ".ipc", ".arrows")
_NUMPY = (".npy", ".npz")
SUFFIXES = (*_NUMPY, *TEXT, ".parquet", *ARROW, *RUNS)
_OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_PACKED = (".gz", ".bz2", ".xz", ".zst", ".lz4")


def need_arrow() -> Any:
    """Return the module `pyarrow`, or raise an `ImportError` that names the extra that has it."""
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        raise ImportError(f"tables and files need pyarrow; {extra('cli')}.") from error
    return pyarrow


def suffix_of(file: str | Path) -> str:
    """Return the suffix of a file, without the suffix of a compression."""
    path = Path(file)
    return (Path(path.stem) if path.suffix in _PACKED else path).suffix


def find_files(source: Any) -> list[str]:
    """List the files of a path, a folder, a pattern, an address such as s3://, or several of them.

    Files of a folder are in the order of their names; names that begin with `_` or `.` are not
    read. No file is a `FileNotFoundError`; several kinds, an unknown one, or one file twice, also
    by a link, a `ValueError`.
    """
    several = source if isinstance(source, list | tuple) else [source]
    files = [file for one in several for file in _files_of(os.fspath(one))]
    seen: dict[str, str] = {}
    for file in files:
        real = file if "://" in file else os.path.realpath(file)
        if real in seen:
            raise ValueError(
                f"`path` must be distinct files, got {file} after {seen[real]}, which "
                "is the same; leave one out, as its rows would count twice."
            )
        seen[real] = file
    if not files:
        raise FileNotFoundError(f"`path` must be an existing file of predictions, got {source}.")
    kinds = {suffix_of(file) for file in files}
    if len(kinds) > 1 or not kinds <= {*SUFFIXES}:
        raise ValueError(
            f"`path` must be files of one kind, {', '.join(SUFFIXES)}, got {short(sorted(kinds))}."
        )
    return files


def _files_of(path: str) -> list[str]:
    is_pattern = any(c in path for c in "*?[")
    if "://" in path:
        system, inside = _file_system(path)
        if is_pattern:
            found = system.glob(inside)
        else:
            found = [inside] if system.isfile(inside) else []
            if system.isdir(inside):
                found = [x for x in system.find(inside) if _is_data(x[len(inside) :])]
        names = sorted(map(str, found))
        head = path.partition("://")[0]
        return [name if "://" in name else f"{head}://{name}" for name in names]
    given = Path(path)
    if given.is_dir():
        inner = [x for x in given.rglob("*") if x.is_file()]
        return [str(x) for x in sorted(inner) if _is_data(str(x.relative_to(given)))]
    if given.exists():
        return [path]
    return sorted(filter(os.path.isfile, glob.glob(path, recursive=True))) if is_pattern else []


def _is_data(name: str) -> bool:
    """Return whether a file of a folder holds rows: engines write `_SUCCESS` and `.crc` too."""
    return suffix_of(name) in SUFFIXES and not any(x[:1] in ("_", ".") for x in Path(name).parts)


def _file_system(url: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
        from fsspec.implementations.arrow import ArrowFSWrapper
    except ModuleNotFoundError as error:
        raise ImportError(f"addresses such as {clip(url)} need fsspec; {extra('cli')}.") from error
    try:
        system, path = url_to_fs(url)
    except ImportError:  # fsspec knows the protocol, but its package is missing
        from pyarrow.fs import FileSystem

        inner, path = FileSystem.from_uri(url)
        return ArrowFSWrapper(inner), path
    return system, str(path)


@contextmanager
def open_bytes(file: str) -> Iterator[Any]:
    """Open the bytes of a file, unpacked."""
    with ExitStack() as opened:
        if "://" in file:
            system, path = _file_system(file)
            raw = opened.enter_context(system.open(path, "rb"))
        else:
            raw = opened.enter_context(open(file, "rb"))
        packed = Path(file).suffix
        if packed in (".zst", ".lz4"):
            kind = "zstd" if packed == ".zst" else "lz4"
            yield opened.enter_context(need_arrow().CompressedInputStream(raw, kind))
        elif packed in _OPENERS:
            yield opened.enter_context(_OPENERS[packed](raw))
        else:
            yield raw
