"""The public doors to files of predictions, and one table in every form."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

from nextloc_metrics import report
from table_calls import evaluate_table, read_table

PACKED = [".csv.gz", ".csv.zst", ".jsonl.gz", ".jsonl.zst"]
FILES = [".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".npz", *PACKED]
FILES += [".arrow", ".feather", ".ipc", ".arrows"]
FRAMES = ["arrow", "pandas", "polars", "stream"]


def evaluated(rows: Any, **options: Any) -> report.Evaluation:
    """Evaluate a file or a table: the only place of these tests that knows how."""
    return evaluate_table(rows, **{"k": 1, **_with_answers(options)})


def read_all(rows: Any, **options: Any) -> report.Predictions:
    """Read a file or a table, with the options of `evaluated`."""
    return read_table(rows, **_with_answers(options))


def _with_answers(options: dict[str, Any]) -> dict[str, Any]:
    """Return options in which the separator and the padding of lists are `answers`."""
    answers = {x: options.pop(x) for x in ("separator", "padding") if x in options}
    return {**options, "answers": answers} if answers else options


def run(*arguments: str) -> Any:
    """Run the command as a shell would."""
    from click.testing import CliRunner

    from command import main

    return CliRunner().invoke(main, [*arguments])


def written_file(content: str, folder: Path) -> Path:
    """Write JSON lines, or CSV, whose header is added if it has none; no line end is changed."""
    kind = "jsonl" if content.lstrip("\ufeff\n")[:1] == "{" else "csv"
    if kind == "csv" and "target" not in content:
        content = f"preds,target\n{content}"
    (folder / f"a.{kind}").write_bytes(content.encode())
    return folder / f"a.{kind}"


def records(*rows: Mapping[str, Any]) -> str:
    """Write rows as JSON lines."""
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)


def table_in_form(columns: Any, form: str, folder: Path) -> Any:
    """Write columns as a file of one format, or return them as a frame or a stream."""
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    path = folder / f"a{form}"
    if form in FRAMES:
        polars = pytest.importorskip("polars") if form == "polars" else None
        makers = {"pandas": _frame, "stream": pa.Table.to_reader, "arrow": lambda x: x}
        return polars.from_arrow(table) if polars else makers[form](table)
    if form == ".parquet":
        parquet.write_table(table, path, row_group_size=1000)
    elif form in (".arrow", ".feather", ".ipc", ".arrows"):
        new = ipc.new_stream if form == ".arrows" else ipc.new_file
        with new(path, table.schema) as writer:
            writer.write(table)
    elif form == ".npz":
        np.savez(path, **{x: _padded(y) for x, y in table.to_pydict().items()})
    else:
        _, kind, packed = f"{form}.".split(".", 3)[:3]
        rows = table.to_pylist()
        text = _csv(table.column_names, rows, "\t" if kind == "tsv" else ",")
        if "json" in kind:
            text = json.dumps(rows) if kind == "json" else records(*rows)
        pack = {"gz": gzip.compress, "zst": lambda x: pa.compress(x, "zstd", asbytes=True)}
        path.write_bytes(pack.get(packed, bytes)(text.encode()))
    return path


def _frame(table: Any) -> Any:
    columns = {x: pd.Series(y, dtype=object) for x, y in table.to_pydict().items()}
    return pd.DataFrame(columns).infer_objects()


def _csv(names: Sequence[str], rows: Sequence[Mapping[str, Any]], mark: str) -> str:
    file = io.StringIO(newline="")
    lines = [[json.dumps(x) if isinstance(x, list | bool) else x for x in y.values()] for y in rows]
    csv.writer(file, delimiter=mark, lineterminator="\n").writerows([names, *lines])
    return file.getvalue()


def _padded(column: Sequence[Any]) -> Any:
    if not isinstance(column[0], list):
        return np.array(column)
    width = max(map(len, column))
    return np.array([[*x, *[-1] * (width - len(x))] for x in column])


#: an id of text beside numbers
NAME = "name"


def ids_read(path: Any, **options: Any) -> tuple[list[Any], list[Any], int]:
    """Return lists and targets as ids without padding, and the number of broken answers."""
    found = read_all(path, **options)
    words = found.vocabulary or range(1 << 62)  # names beside numbers have larger ones
    lists, targets = (
        [
            [words[x] if x < 1 << 62 else NAME for x in row if x >= 0]
            for row in numbers.reshape(len(numbers), -1).tolist()
        ]
        for numbers in (found.preds, found.target)
    )
    return lists, targets if found.target.ndim == 2 else [x for (x,) in targets], found.missed


def check_read(
    rows: Any, lists: Sequence[Any], targets: Sequence[Any], missed: int = 0, **options: Any
) -> None:
    """Check the ids that are read, and their mean reciprocal rank by plain Python."""
    if isinstance(rows, str | Path | list):
        assert ids_read(rows, **options) == (lists, targets, missed)
    ranks = []
    for answer, target in zip(lists, targets, strict=True):
        relevant = target if isinstance(target, list) else [target]
        hits = [rank for rank, x in enumerate(answer, 1) if x in relevant]
        ranks += [1 / hits[0] if hits else 0.0] if relevant else []
    found = evaluated(rows, measures=["mrr"], **options)
    assert found.values["mrr"] == pytest.approx(np.mean(ranks))
    assert found.card.get("broken_answers", 0) == missed


def check_refused(rows: Any, *says: str, at: int | None = None, **options: Any) -> None:
    """Check that each door refuses rows; the message has these words, and the row by its number."""
    doors: list[Any] = [evaluated, read_all] if isinstance(rows, str | Path | list) else [evaluated]
    for door in doors:
        with pytest.raises(ValueError, match=r" (must|should|cannot|needs?) ") as error:
            door(rows, **options)
        message = str(error.value)
        assert all(re.search(x, message) for x in says), message
        if at is not None:  # lines of a file are counted from 1, and the header is one
            line = at + (1 if "json" in str(rows) else 2)
            assert re.search(rf"\b(row {at}|line {line})\b", message), message
