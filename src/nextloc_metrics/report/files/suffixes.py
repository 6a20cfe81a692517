"""The one table of the kinds of files that are read, by suffix."""

from __future__ import annotations

#: the reader of each kind: `array_files`, a reader of tables in `sources`, or `nested` for runs
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
    """Return the suffixes of the files that these readers read."""
    return tuple(suffix for suffix, reader in READERS.items() if reader in readers)


RUNS, ARRAYS, JSON = read_by("run"), read_by("arrays"), read_by("json")
#: files whose targets are in another file
APART = (".npy", *RUNS)
