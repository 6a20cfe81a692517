"""Files of predictions: NumPy, CSV, JSON lines and Parquet, read into what `evaluate` takes.

Nothing is unpickled, and nothing is left out silently: what cannot be read is an error that names
the file, the row and the value, or is counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.arrays import as_tensor
from nextloc_metrics.checks import check_choice
from nextloc_metrics.messages import short

OnError = Literal["raise", "miss"]

_TABLES = {
    ".csv": "read_csv",
    ".tsv": "read_csv",
    ".jsonl": "read_json",
    ".ndjson": "read_json",
    ".json": "read_json",
    ".parquet": "read_parquet",
}

# Between the ids of a list that is written as text.
_BETWEEN = re.compile(r"[\s,;|]+")


@dataclass
class Predictions:
    """What a file holds.

    Attributes:
        preds: scores `[N, C]`, memory-mapped where the file allows it, or lists of ids `[N, K]`.
        target: the relevant ids, int64 `[N]` or `[N, M]`.
        groups: the columns that were asked for, by name.
        missed: how many answers could not be read and count as misses.
        vocabulary: the text of every id, where ids are text.
    """

    preds: Any
    target: Tensor
    groups: dict[str, Any]
    missed: int = 0
    vocabulary: tuple[str, ...] | None = None


def read(
    path: str | Path,
    *,
    preds: str = "preds",
    target: str = "target",
    groups: Sequence[str] = (),
    targets: str | Path | None = None,
    padding: Sequence[int] = (),
    on_error: OnError = "raise",
) -> Predictions:
    r"""Read predictions and what was relevant.

    In a table, a list is an array or text such as `"[3, 5]"` or `"3 5"`; ids are numbers, `"373.0"`
    included, or text, which gets a vocabulary.

    Args:
        path: `.npy` of scores or lists, `.npz`, `.csv`, `.tsv`, `.jsonl`, `.json` or `.parquet`;
            a folder or a pattern such as `"part-*.parquet"` of these, in the order of names.
        preds: the name of the column, or of the array in `.npz`.
        target: the same of what was relevant.
        groups: names of columns of groups.
        targets: a `.npy` of what was relevant, for a `.npy` of predictions.
        padding: other negative numbers than -1 that stand for nothing.
        on_error: `"miss"` counts an answer that cannot be read as one without a hit.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a file is of another kind, has no such column, or a row cannot be read.

    Example:
        >>> import pathlib, tempfile
        >>> from nextloc_metrics import report
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "answers.csv"
        >>> _ = path.write_text('preds,target,user\n"[7, 3]",3,ann\n"[5]",5,bob\n')
        >>> found = report.read(path, groups=["user"])
        >>> found.preds.tolist(), found.target.tolist(), list(found.groups["user"])
        ([[7, 3], [5, -1]], [3, 5], ['ann', 'bob'])
    """
    check_choice("on_error", on_error, OnError)
    files = _files(path)
    if files[0].suffix in (".npy", ".npz"):
        if len(files) > 1 or (groups and files[0].suffix == ".npy"):
            raise ValueError(f"`path` must be one file of NumPy without groups, got {short(path)}.")
        found = _read_numpy(files[0], preds, target, groups, targets)
        if found.preds.dtype.kind in "iu":
            checked = _check_ids(str(files[0]), found.preds, padding, on_error)
            found.preds, found.missed = checked
        return found
    table = _read_tables(files, [preds, target, *groups])
    name = str(path)
    relevant, vocabulary = _read_targets(name, table[target], table[preds], padding)
    lists, missed = _read_lists(name, table[preds], vocabulary, padding, on_error)
    kept = {group: table[group] for group in groups}
    words = None if vocabulary is None else tuple(vocabulary)
    return Predictions(lists, relevant, kept, missed, words)


def _files(path: str | Path) -> list[Path]:
    """List the files of a path, a folder or a pattern."""
    whole = Path(path)
    if whole.is_dir():
        files = [x for x in sorted(whole.iterdir()) if _suffix(x) in (*_TABLES, ".npy", ".npz")]
    elif whole.exists():
        files = [whole]
    else:
        files = sorted(whole.parent.glob(whole.name)) if any(c in whole.name for c in "*?[") else []
    if not files:
        raise FileNotFoundError(f"`path` must be a file of predictions, and {path} is none.")
    kinds = {_suffix(file) for file in files}
    if len(kinds) > 1 or not kinds <= {*_TABLES, ".npy", ".npz"}:
        raise ValueError(
            "`path` must be files of one kind, .npy, .npz, .csv, .tsv, .jsonl, .json or .parquet, "
            f"got {short(sorted(kinds))}."
        )
    return files


def _suffix(file: Path) -> str:
    """Return what kind of file it is; it may be compressed."""
    packed = {".gz", ".zst", ".bz2", ".xz"}
    return (Path(file.stem) if file.suffix in packed else file).suffix


def _read_numpy(
    file: Path, preds: str, target: str, groups: Sequence[str], targets: str | Path | None
) -> Predictions:
    """Read arrays; one that is not packed stays on the disk."""
    if file.suffix == ".npy":
        if targets is None:
            raise ValueError(f"`targets` must name a .npy of what was relevant beside {file}.")
        scores = np.load(file, mmap_mode="r", allow_pickle=False)
        relevant = as_tensor("targets", np.load(targets, allow_pickle=False))
        return Predictions(scores, relevant, {})
    with np.load(file, allow_pickle=False) as packed:
        _check_columns(file, packed.files, [preds, target, *groups])
        kept = {group: packed[group] for group in groups}
        return Predictions(packed[preds], as_tensor(target, packed[target]), kept)


def _check_ids(file: str, ids: Any, padding: Sequence[int], on_error: OnError) -> tuple[Any, int]:
    """Replace padding in ids `[N, K]` by -1, and count broken rows: other negative ids."""
    ids = np.where(np.isin(ids, list(padding)), -1, ids)
    broken = (ids < -1).any(1)
    if broken.any() and on_error == "raise":
        row = int(np.flatnonzero(broken)[0])
        raise _broken(file, row, ids[row].tolist())
    ids[broken] = -1
    return ids, int(broken.sum())


def _read_tables(files: Iterable[Path], columns: Sequence[str]) -> Any:
    """Read columns of tables, one table below the other."""
    import pandas  # type: ignore[import-untyped]

    parts = []
    for file in files:
        kind = _suffix(file)
        options: dict[str, Any] = {}
        if _TABLES[kind] == "read_csv":
            # an empty cell is an empty list, and ids keep their digits
            options = {
                "keep_default_na": False,
                "dtype": str,
                "sep": "\t" if kind == ".tsv" else ",",
            }
        if kind in (".jsonl", ".ndjson"):
            options = {"lines": True}
        try:
            part = getattr(pandas, _TABLES[kind])(file, **options)
        except Exception as error:
            raise ValueError(f"`path` must be readable, and {file} is not: {error}") from error
        _check_columns(file, list(part.columns), columns)
        parts.append(part[list(columns)])
    return pandas.concat(parts, ignore_index=True)


def _check_columns(file: Path, have: Sequence[str], need: Sequence[str]) -> None:
    missing = [name for name in need if name not in have]
    if missing:
        raise ValueError(f"{file} must have {short(missing)}, got {short(list(have))}.")


def _read_targets(
    file: str, column: Any, answers: Any, padding: Sequence[int]
) -> tuple[Tensor, dict[str, int] | None]:
    """Read what was relevant, and make a vocabulary where that is text."""
    if (whole := _integers(column)) is not None and bool((whole >= 0).any(1).all()):
        return (whole[:, 0] if whole.shape[1] == 1 else whole), None
    rows = [_tokens(cell) for cell in column]
    vocabulary = None
    if any(_is_text(token) for row in rows for token in row):
        words = {str(x) for row in rows for x in row}
        words |= {str(x) for cell in answers for x in _tokens(cell)}
        vocabulary = {word: number for number, word in enumerate(sorted(words))}
    lists = []
    for row, tokens in enumerate(rows):
        numbers = _number(tokens, padding, vocabulary)
        if not numbers:
            raise _broken(file, row, column.iloc[row])
        lists.append(numbers)
    target = as_tensor("target", lists)
    return (target[:, 0] if target.shape[1:] == (1,) else target).long(), vocabulary


def _read_lists(
    file: str,
    column: Any,
    vocabulary: dict[str, int] | None,
    padding: Sequence[int],
    on_error: OnError,
) -> tuple[Tensor, int]:
    """Read lists of ids, padded with -1, and how many were broken."""
    whole = None if vocabulary is not None else _integers(column)
    if whole is not None:
        ids, missed = _check_ids(file, whole.numpy(), padding, on_error)
        return as_tensor("preds", ids), missed
    lists, missed = [], 0
    for row, cell in enumerate(column):
        numbers = _number(_tokens(cell), padding, vocabulary)
        if numbers is None or _is_missing(cell):
            if on_error == "raise":
                raise _broken(file, row, cell)
            numbers, missed = [], missed + 1
        lists.append(numbers)
    made = as_tensor("preds", lists) if lists else torch.zeros(0, 1, dtype=torch.int64)
    return (made if made.shape[1] else torch.full((len(made), 1), -1)), missed


def _integers(column: Any) -> Tensor | None:
    """Return a column of integers, or of arrays of them, int64 `[N, M]`; None for any other."""
    if not len(column):
        return None
    if column.dtype.kind not in "iu":
        for cell in column:
            if not (isinstance(cell, np.ndarray) and cell.dtype.kind in "iu"):
                return None
    found = as_tensor("preds", column).long().reshape(len(column), -1)
    return found if found.shape[1] else None


def _tokens(cell: Any) -> list[Any]:
    """Part a cell into ids, as numbers or as text."""
    if isinstance(cell, str):
        text = cell.strip().strip("[](){}")
        return [token.strip("'\" ") for token in _BETWEEN.split(text) if token.strip("'\" ")]
    if isinstance(cell, np.ndarray | list | tuple):
        return list(cell)
    return [] if _is_missing(cell) else [cell]


def _number(
    tokens: Sequence[Any], padding: Sequence[int], vocabulary: Mapping[str, int] | None
) -> list[int] | None:
    """Return ids, -1 for padding; None where a token is none."""
    if vocabulary is not None:
        return [vocabulary[str(token)] for token in tokens]
    numbers = []
    for token in tokens:
        number = _whole(token)
        if number is None or (number < -1 and number not in padding):
            return None
        numbers.append(-1 if number in padding else number)
    return numbers


def _whole(token: Any) -> int | None:
    """Return a whole number, written as a float maybe; None for anything else."""
    if _is_text(token) or not float(token).is_integer():
        return None
    # digits are read as they are: a float holds 53 bits of them
    is_float = isinstance(token, str) and not token.lstrip("+-").isdecimal()
    return int(float(token)) if is_float else int(token)


def _is_text(token: Any) -> bool:
    """Tell whether a token is no number at all."""
    try:
        float(token)
    except (TypeError, ValueError):
        return True
    return False


def _is_missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and cell != cell)


def _broken(file: str, row: int, value: Any) -> ValueError:
    return ValueError(
        f"row {row} of {file} must hold ids of locations, got {short(value)}; `padding=` names "
        "numbers that stand for nothing, and `on_error='miss'` counts broken answers as misses."
    )
