"""Files of predictions: NumPy, tables and TREC runs, read into arguments of `evaluate`.

No file is unpickled, and no row is left out silently: a cell that is not readable is counted, or
raises an error that names the file, the row and the value.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from nextloc_metrics.arguments.arrays import as_tensor
from nextloc_metrics.arguments.checks import check_choice, is_integer
from nextloc_metrics.arguments.messages import clip, describe, short
from nextloc_metrics.files.ids import OnError, Words, check_ids, read_lists, read_targets
from nextloc_metrics.files.trec import open_text, read_trec, write_trec

_RUNS = (".run", ".trec")
_KINDS = (".npy", ".npz", ".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", *_RUNS)


@dataclass
class Predictions:
    """The content of a file of predictions.

    Attributes:
        preds: scores `[N, C]`, memory-mapped if the file allows it, or lists of ids `[N, K]`.
        target: the relevant ids, int64 `[N]` or `[N, M]`.
        groups: the columns named in `groups`, by name.
        missed: the number of unreadable answers, which count as misses.
        vocabulary: the text of each id, if ids are text.
    """

    preds: Any
    target: Tensor
    groups: dict[str, Any]
    missed: int = 0
    vocabulary: tuple[str, ...] | None = None

    def to_trec(
        self,
        run: str | Path,
        qrels: str | Path,
        name: str = "nextloc-metrics",
        force: bool = False,
    ) -> None:
        """Write a run and its judgements in the format of trec_eval.

        Queries are numbered from 0. For scores, the best 1,000 candidates of each query are
        written. A repeated id of a list is written once, at its first rank.

        Args:
            run: the file for the answers.
            qrels: the file for the relevant ids.
            name: the name of the run, its last column.
            force: overwrite existing files.

        Raises:
            FileExistsError: a file exists, and `force` is False.
            ValueError: an id holds a space.
        """
        for path in map(Path, (run, qrels)):
            if path.exists() and not force:
                raise FileExistsError(f"{path} exists; overwrite it with `force=True`.")
        write_trec(self.preds, self.target, self.vocabulary, Path(run), Path(qrels), name)


def read(
    path: str | Path,
    *,
    preds: str = "preds",
    target: str = "target",
    groups: Sequence[str] = (),
    targets: str | Path | None = None,
    padding: Sequence[int] = (),
    vocabulary: Sequence[str] | None = None,
    on_error: OnError = "raise",
) -> Predictions:
    r"""Read predictions and targets.

    In a table, a list is an array or text such as `"[3, 5]"` or `"3 5"`. Ids are numbers, such as
    `"373.0"`, or text, which gets numbers by a vocabulary.

    Args:
        path: `.npy` of scores or lists, `.npz`, `.csv`, `.tsv`, `.jsonl`, `.json` or `.parquet`;
            a folder of these or a pattern such as `"part-*.parquet"`, in the order of names; or
            `.run` or `.trec`, a TREC run.
        preds: the column of the predictions, or the array in `.npz`.
        target: the column of the relevant ids, or the array in `.npz`.
        groups: the columns of groups.
        targets: the file of the relevant ids: `.npy` for a `.npy` of predictions, and the
            judgements ("qrels") for a run.
        padding: negative numbers that pad lists, in addition to -1.
        vocabulary: the text of each id, for the same numbers in several files; None takes the
            targets in alphabetical order. A target must be in the vocabulary; an answer that is not
            gets the next number, and is a miss.
        on_error: `"raise"`, an unreadable answer is an error; `"miss"`, it counts as a miss.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the format is unknown, a column is missing, or a row is not readable.

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
            raise ValueError(f"`path` must be one NumPy file without groups, got {short(path)}.")
        found = _check_arrays(files[0], _read_numpy(files[0], preds, target, groups, targets))
        if found.preds.dtype.kind in "iu":
            checked = check_ids(str(files[0]), found.preds, padding, on_error)
            found.preds, found.missed = checked
        return found
    name, is_run = str(path), suffix_of(files[0]) in _RUNS
    if is_run:
        if targets is None or len(files) > 1 or groups:
            raise ValueError(
                "`targets` must name the judgements of one run, without groups, got "
                f"{short(targets)} for {short(path)}."
            )
        table: dict[str, Any] = dict(
            zip([preds, target], read_trec(files[0], Path(targets)), strict=True)
        )
    else:
        table = _read_tables(files, [preds, target, *groups])
    # if predictions are real lists, target text without brackets is one id, commas included
    is_one = any(isinstance(cell, list | np.ndarray) for cell in table[preds][:1])
    words = Words.of(vocabulary, table[target], is_one, padding)
    relevant = read_targets(name, table[target], padding, words, is_one, may_be_empty=is_run)
    lists, missed = read_lists(name, table[preds], padding, words, on_error)
    kept = {group: table[group] for group in groups}
    known = None if words is None else tuple(words.numbers)
    return Predictions(lists, relevant, kept, missed, known)


def _files(path: str | Path) -> list[Path]:
    """List the files of a path, a folder or a pattern."""
    given = Path(path)
    if given.is_dir():
        files = [x for x in sorted(given.iterdir()) if suffix_of(x) in _KINDS]
    elif given.exists():
        files = [given]
    else:
        files = sorted(given.parent.glob(given.name)) if any(c in given.name for c in "*?[") else []
    if not files:
        raise FileNotFoundError(f"`path` must be an existing file of predictions, got {path}.")
    kinds = {suffix_of(file) for file in files}
    if len(kinds) > 1 or not kinds <= {*_KINDS}:
        raise ValueError(
            f"`path` must be files of one kind, {', '.join(_KINDS)}, got {short(sorted(kinds))}."
        )
    return files


def suffix_of(file: Path) -> str:
    """Return the suffix of a file, without the suffix of a compression."""
    packed = {".gz", ".zst", ".bz2", ".xz"}
    return (Path(file.stem) if file.suffix in packed else file).suffix


def _read_numpy(
    file: Path, preds: str, target: str, groups: Sequence[str], targets: str | Path | None
) -> Predictions:
    """Read arrays; a `.npy` of predictions is memory-mapped."""
    if file.suffix == ".npy":
        if targets is None:
            raise ValueError(f"`targets` must name the .npy file of the relevant ids for {file}.")
        scores = np.load(file, mmap_mode="r", allow_pickle=False)
        relevant = as_tensor("targets", np.load(targets, allow_pickle=False))
        return Predictions(scores, relevant, {})
    with np.load(file, allow_pickle=False) as packed:
        _check_columns(file, packed.files, [preds, target, *groups])
        kept = {group: packed[group] for group in groups}
        return Predictions(packed[preds], as_tensor(target, packed[target]), kept)


def _check_arrays(file: Path, found: Predictions) -> Predictions:
    """Check shapes and dtypes; integers `[N]` are lists of one id each."""
    answers, relevant, name = found.preds, found.target, clip(str(file))
    if answers.ndim == 1 and answers.dtype.kind in "iu":
        found.preds = answers = answers[:, None]
    if answers.ndim != 2 or answers.dtype.kind not in "iuf":
        raise ValueError(
            f"the predictions in {name} must be scores [N, C] or lists of ids [N, K], got "
            f"{describe(answers)}."
        )
    if relevant.ndim not in (1, 2) or not is_integer(relevant) or len(relevant) != len(answers):
        raise ValueError(
            f"the targets of {name} must be ids [N] or [N, M], one row for each of the "
            f"{len(answers)} predictions, got {describe(relevant)}."
        )
    for group, values in found.groups.items():
        if values.shape[:1] != answers.shape[:1]:
            raise ValueError(
                f"`{group}` in {name} must have one value for each of the {len(answers)} "
                f"predictions, got {describe(values)}."
            )
    return found


def _read_tables(files: Sequence[Path], names: Sequence[str]) -> dict[str, Any]:
    """Read columns of tables, and concatenate the tables."""
    names = list(dict.fromkeys(names))
    read = _read_parquet if suffix_of(files[0]) == ".parquet" else _read_text
    parts = []
    for file in files:
        try:
            part, have = read(file, names)
        except Exception as error:
            raise ValueError(f"`path` must be readable, and {file} is not: {error}") from error
        _check_columns(file, have, names)
        parts.append(part)
    return {name: _join([part[name] for part in parts]) for name in names}


def _join(parts: Sequence[Any]) -> Any:
    """Concatenate the parts of a column."""
    import pandas

    if not all(isinstance(part, np.ndarray) for part in parts):
        return pandas.concat(
            [pandas.Series(list(x)) if isinstance(x, np.ndarray) else x for x in parts],
            ignore_index=True,
        )
    width = max(part.shape[1] for part in parts)
    rows = np.full((sum(map(len, parts)), width), -1, np.int64)
    start = 0
    for part in parts:
        rows[start : start + len(part), : part.shape[1]] = part
        start += len(part)
    return rows


def _read_text(file: Path, names: Sequence[str]) -> tuple[Any, list[str]]:
    """Read columns of CSV or JSON; return also the names of all columns."""
    import pandas

    kind = suffix_of(file)
    if kind in (".csv", ".tsv"):
        # an empty cell is an empty list, and ids keep their digits
        separator = "\t" if kind == ".tsv" else ","
        table = pandas.read_csv(file, sep=separator, keep_default_na=False, dtype=str)
    else:
        # unlike pandas, json keeps text: "01" does not become 1, nor a date a timestamp
        with open_text(file) as opened:
            lines = (line for line in opened if line.strip())
            rows = json.load(opened) if kind == ".json" else list(map(json.loads, lines))
        table = pandas.DataFrame(rows, dtype=object).infer_objects()
    have = list(table.columns)
    return table[[name for name in names if name in have]], have


def _read_parquet(file: Path, names: Sequence[str]) -> tuple[Any, list[str]]:
    """Read columns of Parquet in batches; return also the names of all columns."""
    from pyarrow.parquet import ParquetFile

    opened = ParquetFile(file)
    have = opened.schema_arrow.names
    known = [name for name in names if name in have]
    batches = list(opened.iter_batches(columns=known))
    if not batches:
        table = opened.read(columns=known)
        return {name: _of_arrow(table[name].combine_chunks()) for name in known}, have
    return {name: _join([_of_arrow(batch[name]) for batch in batches]) for name in known}, have


def _of_arrow(column: Any) -> Any:
    """Return lists of integers as rows padded with -1, and other columns as pandas objects."""
    from pyarrow import types

    kind = column.type
    is_list = types.is_list(kind) or types.is_large_list(kind)
    if not is_list or not types.is_integer(kind.value_type) or column.null_count:
        return column.to_pandas(integer_object_nulls=True)
    # avoid one Python object per row: there may be millions of rows
    values, lengths = column.flatten(), np.asarray(column.value_lengths(), np.int64)
    if values.null_count:
        import pandas

        return pandas.Series(column.to_pylist())
    rows = np.full((len(lengths), int(lengths.max(initial=0))), -1, np.int64)
    rows[np.arange(rows.shape[1]) < lengths[:, None]] = values
    return rows


def _check_columns(file: Path, have: Sequence[str], need: Sequence[str]) -> None:
    missing = [name for name in need if name not in have]
    if missing:
        raise ValueError(f"{file} must have the columns {short(missing)}, got {short(list(have))}.")
