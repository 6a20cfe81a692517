"""The one table of the files that are read: the suffix of each, and what reads it."""

from __future__ import annotations

#: what reads a file: `array_files`, one of the readers of tables in `sources`, or `nested`
READERS = {
    ".npy": "arrays",
    ".npz": "arrays",
    ".pt": "arrays",
    ".pth": "arrays",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".arrows": "arrow",
    ".run": "run",
    ".trec": "run",
}
SUFFIXES = tuple(READERS)


def read_by(*readers: str) -> tuple[str, ...]:
    """Return the suffixes of the files that these read."""
    return tuple(suffix for suffix, reader in READERS.items() if reader in readers)


RUNS, ARRAYS, JSON = read_by("run"), read_by("arrays"), read_by("json")
#: files whose targets are in another file
APART = (".npy", *RUNS)
