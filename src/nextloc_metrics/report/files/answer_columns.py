"""Columns of answers of a language model: beside the targets, or in another file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from inspect import signature
from typing import Any

import torch

from nextloc_metrics.core.queries.answers import Answers
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.report.files.answers import Reader, cells_of
from nextloc_metrics.report.files.cells import CellReading
from nextloc_metrics.report.files.columns import read_texts
from nextloc_metrics.report.files.ids import split
from nextloc_metrics.report.files.opening import FilePart
from nextloc_metrics.report.files.texts import by_json

# Cells that tell whether a column holds answers.
_SEEN = 1000
# What stands between names that are joined to one, and around them.
_MARKS = [*map(re.compile, (r"\s*[|;,]\s*", r"\s*[^\w\s|;,]+\s*", r"\s+", r"_+"))]
_QUOTES = "()\"' "


class AnswerColumn:
    """Answers that stand in the column of predictions, read as `read_answers` reads them."""

    def __init__(self, ids: Any, options: Mapping[str, Any]) -> None:
        known = [*signature(Reader).parameters][1:]
        given = options if isinstance(options, Mapping) else [options]
        if wrong := [name for name in given if name not in known]:
            raise TypeError(
                f"`answers` must be a dict of options of `read_answers`, of {', '.join(known)}, "
                f"got {short(wrong[0])}."
            )
        self._reader = Reader(ids, **options)

    def answers(self, part: FilePart, name: str) -> Answers:
        """Return the answers to the queries of some rows."""
        cells = cells_of(part.columns[name])
        for row, cell in enumerate(cells):
            if cell is not None and not isinstance(cell, str):
                raise TypeError(
                    f"{part.place(row)} must hold text in `{name}`, got {short(cell)}; `answers` "
                    "is for text, and lists are read without it."
                )
        return self._reader.read(cells)


class JoinedAnswers(AnswerColumn):
    """Answers `name` in the first of two tables; a column of both, `key`, has the queries."""

    def __init__(
        self, ids: Any, options: Mapping[str, Any], name: str, key: str, *tables: Iterable[FilePart]
    ) -> None:
        super().__init__(ids, options)
        self._rows: dict[str, int] = {}
        asked: dict[str, int] = {}
        (answers, queries), answers_of = tables, super().answers
        read = [answers_of(part, name) for part in _number(answers, key, self._rows)]
        for _ in _number(queries, key, asked):
            pass
        if unknown := [one for one in self._rows if one not in asked]:
            raise ValueError(
                f"`truth` must have a row for each answer, got none for {len(unknown):,} of "
                f"them, the first with {short(unknown[0])} in `{key}`; leave the rows of such "
                "answers out, or add the queries."
            )
        self._answers = Answers.cat([*read, self._reader.read([])])

    def answers(self, part: FilePart, name: str) -> Answers:
        rows = [self._rows.get(key, -1) for key in read_texts(part, name)]
        return self._answers.at(torch.tensor(rows, dtype=torch.int64))


def _number(parts: Iterable[FilePart], key: str, rows: dict[str, int]) -> Iterator[FilePart]:
    """Yield the parts with the keys of their rows numbered, or raise for one that is there."""
    for part in parts:
        for row, one in enumerate(read_texts(part, key)):
            if one in rows:
                raise ValueError(
                    f"the column `{key}` must have each key once, got {short(one)} again in "
                    f"{part.place(row)}."
                )
            rows[one] = len(rows)
        yield part


def check_no_answers(part: FilePart, preds: str, target: str, separator: str | None) -> None:
    """Raise if most cells of a column of text hold text around a list, several lines or names."""
    answers, targets = (_ids_of(cells_of(part.columns[x][:_SEEN])) for x in (preds, target))
    known = {str(x) for cell in targets for x in cell}
    if separator is None:
        _check_joined(part, preds, answers, known, _MARKS[0])
    texts = (x for x in cells_of(part.columns[preds][:_SEEN]) if isinstance(x, str))
    cells = [x for x in texts if x.strip() and x not in known]
    found = [x for x in cells if _is_answer(x.strip(), separator)]
    if 2 * len(found) > len(cells):
        raise ValueError(
            f"`preds` must be lists of ids, and {len(found):,} of the first {len(cells):,} cells "
            f"of {preds!r} in {part.file} hold answers in text, such as {short(found[0])}; read "
            "them with `answers`."
        )
    are_names = not all(map(str.isdigit, known))  # beside numbers, each cell is refused by itself
    for mark in _MARKS[1:] if separator is None and are_names else ():
        _check_joined(part, preds, answers, known, mark)


def _ids_of(cells: Sequence[Any]) -> list[list[Any]]:
    """Return the ids of each cell that has some; of a list in text, too."""
    found = (split(cell, CellReading("text", is_loose=True)) for cell in cells)
    return [x for x in found if x]


def _check_joined(
    part: FilePart, preds: str, cells: Sequence[list[Any]], known: Set[str], mark: re.Pattern[str]
) -> None:
    """Raise if no cell has a target, and most are one text that has a target between marks."""
    if any(len(x) > 1 or str(x[0]) in known for x in cells):
        return
    texts = [x for (x,) in cells if isinstance(x, str)]
    parts = ((x, [y.strip(_QUOTES) for y in mark.split(x.strip(_QUOTES))]) for x in texts)
    joined = [x for x, ids in parts if len(ids) > 1 and not known.isdisjoint(ids)]
    if 2 * len(joined) <= len(cells):
        return
    first, between = joined[0], mark.findall(joined[0].strip(_QUOTES))[0].strip("'\"")
    remedy = f"pass `separator={between!r}`"
    if first[0] == "(" and first[-1] == ")":
        remedy = "they are tuples of Python: write lists, such as ['Home', 'Cafe']"
    elif first not in cells_of(part.columns[preds][:_SEEN]):
        remedy = "write each as an item of its own, such as ['Home', 'Cafe']"
    elif not between.strip():
        remedy += ", or read the answers of a language model with `answers`"
    raise ValueError(
        f"`preds` must be lists of ids, and no target is among those of {preds!r} in {part.file}, "
        f"but several stand in one text, such as {short(first)}; {remedy}."
    )


def _is_answer(text: str, separator: str | None) -> bool:
    """Return whether there is a fence, an object, a list in prose, or several lines."""
    if text[0] == "[" and text[-1] == "]":
        return False
    is_marked = text[0] == "{" or "```" in text or ("\n" in text and separator is None)
    return is_marked or isinstance(by_json(None, "last", text), list)
