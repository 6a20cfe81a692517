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
from nextloc_metrics.report.files.columns import read_texts
from nextloc_metrics.report.files.opening import FilePart
from nextloc_metrics.report.files.texts import by_json

# Cells that tell whether a column holds answers.
_SEEN = 1000
_MARK = re.compile(r"\s*[|;,]\s*")  # between names that are joined to one


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
                f"`queries` must have a row for each answer, got none for {len(unknown):,} of "
                f"them, the first with the `key` {short(unknown[0])}; leave the rows of such "
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
    column = part.columns[preds][:_SEEN]
    targets = cells_of(part.columns[target][:_SEEN])
    known = {str(y) for x in targets for y in (x if isinstance(x, list) else [x])}
    if separator is None:
        _check_joined(part, preds, cells_of(column), known)
    cells = [x for x in cells_of(column) if isinstance(x, str) and x.strip() and x not in known]
    answers = [x for x in cells if _is_answer(x.strip(), separator)]
    if 2 * len(answers) > len(cells):
        raise ValueError(
            f"`preds` must be lists of ids, and {len(answers):,} of the first {len(cells):,} cells "
            f"of {preds!r} in {part.file} hold answers in text, such as {short(answers[0])}; read "
            "them with `answers`."
        )


def _check_joined(part: FilePart, preds: str, cells: Sequence[Any], known: Set[str]) -> None:
    """Raise if most cells are one text without a target, and of several names, some of targets."""
    are_lists = bool(cells) and isinstance(cells[0], list)
    cells = [x[0] if isinstance(x, list) and len(x) == 1 else x for x in cells]
    joined = [x for x in cells if isinstance(x, str) and x[:1] != "[" and _MARK.search(x)]
    if 2 * len(joined) <= len(cells) or any(isinstance(x, list) or x in known for x in cells):
        return
    mark = _MARK.findall(joined[0])[0]
    if known.isdisjoint(y.strip("()\"'") for x in joined for y in x.split(mark)):
        return
    remedy = f"pass `separator={mark!r}`"
    if joined[0][0] == "(" and joined[0][-1] == ")":
        remedy = "they are tuples of Python: write lists, such as ['Home', 'Cafe']"
    elif are_lists:
        remedy = "write each as an item of its own, such as ['Home', 'Cafe']"
    raise ValueError(
        f"`preds` must be lists of ids, and no target is among those of {preds!r} in {part.file}, "
        f"but several stand in one text, such as {short(joined[0])}; {remedy}."
    )


def _is_answer(text: str, separator: str | None) -> bool:
    """Return whether there is a fence, an object, a list in prose, or several lines."""
    if text[0] == "[" and text[-1] == "]":
        return False
    is_marked = text[0] == "{" or "```" in text or ("\n" in text and separator is None)
    return is_marked or isinstance(by_json(None, "last", text), list)
