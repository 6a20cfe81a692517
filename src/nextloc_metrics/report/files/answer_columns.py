"""Columns of answers of a language model: beside the targets, or in another file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from inspect import signature
from typing import Any

import torch

from nextloc_metrics.core.queries.answers import Answers
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.report.files.answers import Reader, cells_of
from nextloc_metrics.report.files.columns import read_texts
from nextloc_metrics.report.files.opening import Part
from nextloc_metrics.report.files.texts import by_json

# Cells that tell whether a column holds answers.
_SEEN = 1000


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

    def answers(self, part: Part, name: str) -> Answers:
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
        self, ids: Any, options: Mapping[str, Any], name: str, key: str, *tables: Iterable[Part]
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
                f"`queries` must have a row for each answer, got none for {len(unknown):,} of "
                f"them, the first with the `key` {short(unknown[0])}; leave the rows of such "
                "answers out, or add the queries."
            )
        self._answers = Answers.cat([*read, self._reader.read([])])

    def answers(self, part: Part, name: str) -> Answers:
        rows = [self._rows.get(key, -1) for key in read_texts(part, name)]
        return self._answers.at(torch.tensor(rows, dtype=torch.int64))


def _number(parts: Iterable[Part], key: str, rows: dict[str, int]) -> Iterator[Part]:
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


def check_no_answers(part: Part, preds: str, target: str, separator: str | None) -> None:
    """Raise if most cells of a column of text hold text around a list, or several lines."""
    column = part.columns[preds][:_SEEN]
    known = {str(x) for x in cells_of(part.columns[target][:_SEEN])}
    cells = [x for x in cells_of(column) if isinstance(x, str) and x.strip() and x not in known]
    answers = [x for x in cells if _is_answer(x.strip(), separator)]
    if 2 * len(answers) > len(cells):
        raise ValueError(
            f"`preds` must be lists of ids, and {len(answers):,} of the first {len(cells):,} cells "
            f"of {preds!r} in {part.file} hold answers in text, such as {short(answers[0])}; read "
            "them with `answers`."
        )


def _is_answer(text: str, separator: str | None) -> bool:
    """Return whether there is a fence, an object, a list in prose, or several lines."""
    if text[0] == "[" and text[-1] == "]":
        return False
    is_marked = text[0] == "{" or "```" in text or ("\n" in text and separator is None)
    return is_marked or isinstance(by_json(None, "last", text), list)
