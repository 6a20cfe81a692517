"""Finds files, opens their bytes, unpacked, and defines the parts in which rows are read."""

from __future__ import annotations

import csv
import difflib
import glob
import gzip
import io
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from nextloc_metrics.core.queries.messages import as_row, clip, describe, extra, short
from nextloc_metrics.report.files.suffixes import SUFFIXES

_PACKED = (".gz", ".zst")


class Lazy:
    """A module of pyarrow, imported when it is used; an `ImportError` names the extra."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):  # doctests and copies ask for such names
            raise AttributeError(attribute)
        try:  # an import takes a lock, also of a module that is there
            module = sys.modules.get(self._name) or import_module(self._name)
        except ModuleNotFoundError as error:
            raise ImportError(f"tables and files need pyarrow; {extra('cli')}.") from error
        return getattr(module, attribute)


pa, pc = Lazy("pyarrow"), Lazy("pyarrow.compute")


def suffix_of(file: str | Path) -> str:
    """Return the suffix of a file, without the suffix of a compression."""
    path = Path(file)
    return (Path(path.stem) if path.suffix in _PACKED else path).suffix


def kind_of_files(source: Any) -> str:
    """Return the suffix of the files of a path, a pattern or a folder; "" for anything else."""
    paths = source if isinstance(source, list | tuple) else [source]
    if not paths or not isinstance(paths[0], str | os.PathLike):
        return ""
    return suffix_of(find_files(source)[0])


def truth_file(rows: Any, truth: Any, what: str) -> str:
    """Return the file of targets that belongs to a file without targets; raise if it is missing."""
    if "://" not in str(truth) and not Path(truth).exists():
        raise ValueError(
            f"`truth` must be the file of the {what} of {rows}, got {short(truth)}, no file."
        )
    return str(truth)


def delimiter_of(file: str) -> str:
    """Return the character between the cells of a file of text."""
    return "\t" if suffix_of(file) == ".tsv" else ","


def find_files(source: Any) -> list[str]:
    """List the files of a path, a folder, a pattern, an address such as s3://, or several of them.

    Files of a folder are in the order of their names, without those that begin with `_` or `.`. A
    `FileNotFoundError` is raised if there is no file, and a `ValueError` for several kinds of
    files, an unknown kind, or one file twice, also by a link.
    """
    several = source if isinstance(source, list | tuple) else [source]
    others = [x for x in several if not isinstance(x, str | os.PathLike)]
    if others:
        raise TypeError(
            f"`path` must be a path or several, got {describe(others[0])}; tables in memory "
            "are for `report.evaluate`."
        )
    files = [file for path in several for file in _files_of(os.fspath(path))]
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
    """Return the files of one path, folder, pattern or address."""
    is_pattern = any(c in path for c in "*?[")
    if "://" in path:
        system, inside = file_system(path)
        if is_pattern:
            files = system.glob(inside)
        else:
            files = [inside] if system.isfile(inside) else []
            if system.isdir(inside):
                files = [x for x in system.find(inside) if _is_data(x[len(inside) :])]
        names = sorted(map(str, files))
        head = path.partition("://")[0]
        return [name if "://" in name else f"{head}://{name}" for name in names]
    named = Path(path)
    if named.is_dir():
        inner = [x for x in named.rglob("*") if x.is_file()]
        files = [str(x) for x in sorted(inner) if _is_data(str(x.relative_to(named)))]
        return _of_saved(path, files) if any(x.name == "state.json" for x in inner) else files
    if named.exists():
        return [path]
    return sorted(filter(os.path.isfile, glob.glob(path, recursive=True))) if is_pattern else []


def _of_saved(path: str, files: Sequence[str]) -> list[str]:
    """Return the files of rows in a folder that Hugging Face's `save_to_disk` wrote."""
    splits = sorted({str(Path(x).parent) for x in files if Path(x).name == "state.json"})
    if len(splits) > 1:
        names = short([Path(x).name for x in splits])
        raise ValueError(
            f"`path` must be one split of {clip(path)}, got {names}; pass {splits[-1]}."
        )
    return [x for x in files if suffix_of(x) == ".arrow" and str(Path(x).parent) == splits[0]]


def _is_data(name: str) -> bool:
    """Return whether a file of a folder holds rows; Spark also writes `_SUCCESS` and `.crc`."""
    return suffix_of(name) in SUFFIXES and not any(x[:1] in ("_", ".") for x in Path(name).parts)


def file_system(url: str) -> tuple[Any, str]:
    """Return the file system of an address, and the path there."""
    from fsspec.core import url_to_fs  # PyTorch needs it, so that it is there

    system, path = url_to_fs(url)
    return system, str(path)


@contextmanager
def open_bytes(file: str) -> Iterator[Any]:
    """Open a file to read its bytes, unpacked."""
    with ExitStack() as opened:
        if "://" in file:
            system, path = file_system(file)
            raw = opened.enter_context(system.open(path, "rb"))
        else:
            raw = opened.enter_context(open(file, "rb"))
        if Path(file).suffix == ".gz":  # a stream of Arrow could not seek, as Parquet needs
            yield opened.enter_context(gzip.open(raw))
        elif Path(file).suffix == ".zst":
            yield opened.enter_context(pa.CompressedInputStream(raw, "zstd"))
        else:
            yield raw


class FilePart(NamedTuple):
    """Some rows of one file: their numbers in the file, from 0, and their columns, of Arrow."""

    file: str
    rows: Sequence[int]
    columns: dict[str, Any]

    def place(self, position: int) -> str:
        """Return where the row at a position is, for messages."""
        return place(self.file, self.rows[position])


def as_arrow(array: Any) -> Any:
    """Return an array as an Arrow column of its rows, without a copy if it is contiguous."""
    flat = pa.array(array.reshape(-1))
    if array.ndim == 1:
        return flat
    width = array.size // max(1, len(array))
    return pa.LargeListArray.from_arrays(np.arange(len(array) + 1) * width, flat)


def place(file: str, row: int) -> str:
    """Return where a row is, for messages: its number from 0, and in files of text its line."""
    try:
        with open_bytes(file) as opened:
            line = _line(opened, file, row)
    except (OSError, ValueError, EOFError, csv.Error, StopIteration):
        line = 0
    return f"{as_row(row, line)} of {file}"


def _line(opened: Any, file: str, row: int) -> int:
    """Return the line where a row begins; 0 if the file has no lines."""
    kind = suffix_of(file)
    if kind in (".jsonl", ".ndjson"):
        return next(islice((n for n, x in enumerate(opened, 1) if x.strip()), row, None))
    if kind not in (".csv", ".tsv"):
        return 0
    with io.TextIOWrapper(opened, "utf-8-sig", newline="") as text:
        reader, start = csv.reader(text, delimiter=delimiter_of(file)), 1
        for cells in reader:
            row -= bool(cells)
            if row == -2:  # the header is row -1
                return start
            start = reader.line_num + 1
    return 0


def check_lines(file: str, opened: Any, longest: int) -> None:
    """Raise for a line that is so long that DuckDB would drop it silently at the end of a file.

    DuckDB does so with a last line that is longer than its buffer, of 16 times `longest` bytes.
    """
    if Path(file).suffix in _PACKED:
        with open_bytes(file) as reopened:  # a stream that is unpacked cannot go back
            _check_lines(file, reopened, longest)
    elif opened.seek(0, os.SEEK_END) >= 15 * longest:
        opened.seek(-longest - 2, os.SEEK_END)
        if not re.search(rb"[\r\n]", opened.read().rstrip(b"\r\n")):
            opened.seek(0)
            _check_lines(file, opened, longest)


def _check_lines(file: str, opened: Any, longest: int) -> None:
    lines, length = 1, 0
    while chunk := opened.read(longest):
        length = 0 if b"\n" in chunk or b"\r" in chunk else length + len(chunk)
        if length >= longest:
            raise ValueError(
                f"line {lines:,} of {file} must have at most {longest:,} bytes, got more; "
                "store only the best ids of each row."
            )
        lines += chunk.count(b"\n")


#: a function of the names of all columns of a file that returns those to read, or None for none
Choose: TypeAlias = Callable[[Sequence[str]], list[str] | None]


class RowSource:
    """A table that yields its rows in parts.

    Attributes:
        untyped: whether all values are text, as in CSV and JSON, so that `7` may be a number.
        is_joined: whether the rows were joined, or their lists made of columns.
        has_gaps: whether an empty cell of CSV beside the ids is a gap already.
        keyed: the columns whose integers are keys already.
    """

    files: list[str]
    have: Sequence[str] = ()  #: the names of all columns, once a part was read
    keyed: frozenset[str] = frozenset()
    untyped = is_joined = has_gaps = False

    @property
    def first_with_name(self) -> Any:
        """The first column with a name, or the first one, of a table with a column per rank."""
        return None

    def parts(self, columns: Sequence[str]) -> Iterator[FilePart]:
        """Yield the rows; raise if a column is missing or repeated, or a file is unreadable."""
        raise NotImplementedError


# Usual names of the columns of a table with one item per row; a score is preferred to a rank.
_ITEM = re.compile(
    r"(item|iid|location|poi|venue|place|product|article|doc)s?(_?id)?$", re.IGNORECASE
)
_ORDERS = {
    "score": re.compile(r"(score|prediction|probability|prob|est|rating)$", re.IGNORECASE),
    "rank": re.compile(r"(rank|position)$", re.IGNORECASE),
}


def _hint_of_items(have: Sequence[str]) -> str:
    """Return a hint which columns to name if they look like those of one item per row, or ""."""
    bare = {name: name.partition(":")[0] for name in have}  # RecBole writes `score:float`
    items = [name for name, x in bare.items() if _ITEM.match(x)]
    for role, kind in _ORDERS.items():
        order_columns = [name for name, x in bare.items() if kind.match(x)]
        order_columns.sort(key=lambda name: "rating" in name.lower())  # last: it may be the truth
        if order_columns and (items or order_columns[0].lower() in _ORDERS):
            item, order = f"item={items[0]!r}" if items else "item", f"{role}={order_columns[0]!r}"
            return f"; if a row is one item, name `truth`, `query`, `{item}` and `{order}`."
    return ""


def check_columns(file: str, have: Sequence[str], need: Sequence[str]) -> None:
    """Raise if a column is missing or occurs twice; the message has similar names."""
    missing = [name for name in need if name not in have]
    if missing:
        like = [near for x in missing for near in difflib.get_close_matches(x, have, 1, 0.5)]
        answers = [x for x in have if x.lower() in ("answer", "answers")] if not like else []
        hint = f"; did you mean {', '.join(map(repr, like))}?" if like else "."
        marks = [x for x in ";|\t," if len(have) == 1 and x in have[0]]
        if marks:
            hint = f"; cells are separated by commas, in .tsv by tabs, and not by {marks[0]!r}."
        elif "preds" in missing and answers:
            hint = f"; if {answers[0]!r} holds the answers of a language model, use `answers`."
        elif "preds" in missing and (of_items := _hint_of_items(have)):
            near = difflib.get_close_matches("preds", have, 1, 0.5)
            hint = of_items if all(repr(x) in of_items for x in near) else hint
        raise ValueError(
            f"{file} must have the columns {short(missing)}, got {short(list(have))}{hint}"
        )
    twice = [name for name, number in Counter(have).items() if number > 1 and name in need]
    if twice:
        raise ValueError(
            f"{file} must have every column once, got {short(twice[0])} "
            f"{have.count(twice[0])} times; rename or drop one of them."
        )
