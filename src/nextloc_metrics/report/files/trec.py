"""A TREC run and its judgements ("qrels") as tables with a row per item."""

from __future__ import annotations

import io
import re
from collections import defaultdict
from typing import Any

import torch

from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.report.files.opening import open_bytes, pa


def read_trec(run: str, qrels: str) -> tuple[Any, Any]:
    """Return the table of a run, ranked as trec_eval does, and that of its judgements."""
    scores = _read(run, "query Q0 id rank score name", 4)
    grades = _read(qrels, "query 0 id grade", 3)
    if scores and grades and not scores.keys() & grades.keys():
        raise ValueError(f"{run} must have a query of {qrels}, got {short([*scores])}.")
    both = [item for table in (scores, grades) for items in table.values() for item in items]
    whole = all(re.fullmatch("0|[1-9][0-9]{0,17}", x) for x in both)
    for items in scores.values():
        order = sorted([(score, item) for item, score in items.items()], reverse=True)
        items.update({item: rank for rank, (_, item) in enumerate(order, 1)})
    return _table(scores, "rank", whole), _table(grades, "grade", whole)


def _table(found: dict[str, dict[str, float]], name: str, whole: bool) -> Any:
    rows = [(query, int(x) if whole else x, y) for query in found for x, y in found[query].items()]
    kinds = {"query": pa.string(), "item": pa.int64() if whole else pa.string(), name: pa.float64()}
    columns = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds.values())]
    return pa.table(columns, [*kinds])


def _read(path: str, columns: str, at: int) -> dict[str, dict[str, float]]:
    """Return the scores or grades of each query's items; `#` begins a comment of judgements."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    row, is_run, number = 0, at == 4, len(columns.split())
    with open_bytes(path) as file, io.TextIOWrapper(file, "utf-8-sig") as lines:
        try:
            for row, line in enumerate(lines, 1):  # noqa: B007 - an error has it
                cells = line.split(maxsplit=5 if is_run else -1)
                if not cells or (line[0] == "#" and not is_run):
                    continue
                if len(cells) != number:
                    raise ValueError(f"got {short(line.strip())}")
                text = cells[at] if cells[at].isascii() and "_" not in cells[at] else "nan"
                value = torch.tensor(float(text), dtype=torch.float64).float().item()
                items, item = found[cells[0]], cells[2]
                if value != value or (item in items and (is_run or items[item] != value)):
                    raise ValueError(f"got {short(line.strip())}")
                items[item] = value
        except (OSError, ValueError, EOFError) as error:
            rule = f"be `{columns}` in UTF-8, each id once per query"
            raise ValueError(f"line {row} of {path} must {rule}: {error}.") from error
    return found
