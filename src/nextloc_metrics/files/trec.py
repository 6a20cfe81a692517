"""Reading and writing runs and relevance judgements ("qrels") in the TREC format."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nextloc_metrics.arguments.outputs import new_file

_OPENED: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}

# Number of candidates per query in a run that is made from scores, as usual in TREC.
_DEPTH = 1000


def read_trec(run: Path, qrels: Path) -> tuple[list[list[str]], list[list[str]], list[list[float]]]:
    """Return the answers of each query, best first, the relevant ids as text, and their grades.

    Queries are in the order of the judgements, then of the run. A query without an answer has an
    empty list, and a query without a judgement has no relevant id. Answers are sorted by score,
    equal scores by id in falling order, as in trec_eval, which keeps scores as float32; the column
    of ranks is not read.
    """
    relevant: dict[str, dict[str, float]] = {}
    for row, (query, _, document, grade) in _lines(qrels, "query 0 id grade"):
        found = relevant.setdefault(query, {})
        if (number := _number(qrels, row, grade)) > 0:
            found.setdefault(document, number)
    answers: dict[str, list[tuple[float, str]]] = {query: [] for query in relevant}
    for row, (query, _, document, _, score, _) in _lines(run, "query Q0 id rank score name"):
        answers.setdefault(query, []).append((_single(_number(run, row, score)), document))
    lists = [[document for _, document in sorted(x, reverse=True)] for x in answers.values()]
    found_of = [relevant.get(query, {}) for query in answers]
    return lists, [list(x) for x in found_of], [list(x.values()) for x in found_of]


def open_text(path: Path) -> Any:
    """Open a text file, compressed or not, with or without a byte order mark."""
    return _OPENED.get(path.suffix, open)(path, "rt", encoding="utf-8-sig")


def _lines(path: Path, columns: str) -> Iterator[tuple[int, list[str]]]:
    """Split lines into columns, and number the lines from 1."""
    with open_text(path) as file:
        for row, line in enumerate(file, 1):
            cells = line.split()
            if cells and len(cells) != len(columns.split()):
                raise ValueError(f"line {row} of {path} must be `{columns}`, got {line.strip()!r}.")
            if cells:
                yield row, cells


def _number(path: Path, row: int, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if number != number:
        raise ValueError(f"line {row} of {path} must hold a number, got {text!r}.")
    return number


def _single(score: float) -> float:
    """Round to float32; a larger score is infinite."""
    return float(torch.tensor(score, dtype=torch.float64).float())


def write_trec(
    preds: Any,
    target: Tensor,
    vocabulary: Sequence[str | int] | None,
    run: Path,
    qrels: Path,
    name: str,
    force: bool,
) -> None:
    """Write lists of ids, or the best candidates by score, and the relevant ids."""
    preds = torch.as_tensor(preds)
    if preds.is_floating_point():
        scores, ids = preds.nan_to_num(nan=-torch.inf).topk(min(_DEPTH, preds.shape[1]))
        ids = ids.masked_fill(scores == -torch.inf, -1)
    else:
        ids = preds
        scores = torch.arange(ids.shape[1], 0, -1).expand(ids.shape)

    def word(number: int) -> str:
        text = str(number if vocabulary is None else vocabulary[number])
        if len(text.split()) != 1:
            raise ValueError(f"ids in a run must hold no spaces, got {text!r}.")
        return text

    if run.resolve() == qrels.resolve():
        raise ValueError(f"`run` and `qrels` must be two files, got {run} for both.")
    with new_file(run, force, text=True) as file, new_file(qrels, force, text=True) as judgements:
        for query, row in enumerate(zip(ids.tolist(), scores.tolist(), strict=True)):
            seen: set[int] = set()
            for rank, (number, score) in enumerate(zip(*row, strict=True), 1):
                if number >= 0 and number not in seen:  # a run must not repeat an id
                    file.write(f"{query} Q0 {word(number)} {rank} {score!r} {name}\n")
                    seen.add(number)
        for query, numbers in enumerate(target.reshape(len(target), -1).tolist()):
            judgements.writelines(
                f"{query} 0 {word(number)} 1\n" for number in numbers if number >= 0
            )
