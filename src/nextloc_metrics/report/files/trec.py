"""Reading and writing runs and relevance judgements ("qrels") in the TREC format."""

from __future__ import annotations

import io
import lzma
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nextloc_metrics.core.outputs import new_file
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.report.files.opening import ExplainedError, open_bytes

# Number of candidates per query in a run that is made from scores, as usual in TREC.
_DEPTH = 1000


class TrecQueries(NamedTuple):
    """The queries of a run and its judgements: first those that are judged, then the others."""

    answers: list[list[str]]  #: best first; empty for a query without results
    relevant: list[list[str]]  #: the ids whose grade is above 0
    grades: list[list[float]]  #: those of `relevant`
    num_judged: int  #: the queries that have a judgement, if only of 0


def read_trec(run: Path, qrels: Path) -> TrecQueries:
    """Read the answers of each query, the relevant ids as text, and their grades.

    Answers are sorted by score,
    equal scores by id in falling order, as in trec_eval, which keeps scores as float32; the column
    of ranks is not read.
    """
    relevant: dict[str, dict[str, float]] = {}
    for row, (query, _, document, grade) in _lines(qrels, "query 0 id grade"):
        found = relevant.setdefault(query, {})
        number = _number(qrels, row, grade)
        if found.setdefault(document, number) != number:
            raise ValueError(
                f"line {row} of {qrels} must have the grade of the lines before, "
                f"{found[document]:g}, for document {short(document)} of query {short(query)}, "
                f"got {number:g}."
            )
    answers: dict[str, dict[str, float]] = {query: {} for query in relevant}
    for row, (query, _, document, _, score, _) in _lines(run, "query Q0 id rank score name"):
        ranked = answers.setdefault(query, {})
        if document in ranked:
            raise ValueError(
                f"line {row} of {run} must hold a document once per query, got {short(document)} "
                f"again for query {short(query)}."
            )
        exact = torch.tensor(_number(run, row, score), dtype=torch.float64)
        ranked[document] = exact.float().item()  # a score beyond float32 is infinite
    lists = [sorted(x, key=lambda one: (x[one], one), reverse=True) for x in answers.values()]
    judged = [relevant.get(query, {}) for query in answers]
    found_of = [{x: grade for x, grade in found.items() if grade > 0} for found in judged]
    ids, grades = [list(x) for x in found_of], [list(x.values()) for x in found_of]
    return TrecQueries(lists, ids, grades, len(relevant))


def _lines(path: Path, columns: str) -> Iterator[tuple[int, list[str]]]:
    """Split lines into columns, and number the lines from 1.

    The name of a run may hold spaces; a line of judgements that begins with `#` is a comment.
    """
    number = len(columns.split())
    row = 0
    try:
        with open_bytes(str(path)) as file, io.TextIOWrapper(file, "utf-8-sig") as lines:
            for row, line in enumerate(lines, 1):
                cells = line.split(maxsplit=number - 1 if number == 6 else -1)
                if number == 4 and line.startswith("#"):
                    continue
                if cells and len(cells) != number:
                    raise ExplainedError(
                        f"line {row} of {path} must be {columns!r}, got {short(line.strip())}."
                    )
                if cells:
                    yield row, cells
    except ExplainedError as error:
        raise ValueError(str(error)) from None
    except FileNotFoundError:
        raise
    except (OSError, ValueError, EOFError, lzma.LZMAError) as error:
        raise ValueError(
            f"{path} must be text in UTF-8, and is not after line {row}: {error}."
        ) from error


def _number(path: Path, row: int, text: str) -> float:
    try:  # Python reads `1_0` and other digits, too
        number = float(text if text.isascii() and "_" not in text else "nan")
    except ValueError:
        number = float("nan")
    if number != number:
        raise ValueError(f"line {row} of {path} must hold a number, got {text!r}.")
    return number


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
