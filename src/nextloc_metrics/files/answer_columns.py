"""Columns of answers of a language model: beside the targets, or in another file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import torch

from nextloc_metrics.arguments.answers import Answers
from nextloc_metrics.arguments.messages import short
from nextloc_metrics.files.answers import Reader
from nextloc_metrics.files.columns import read_group
from nextloc_metrics.files.opening import Part
from nextloc_metrics.files.texts import by_json

# Cells that tell whether a column holds answers.
_SEEN = 1000


class AnswerColumn:
    """Answers that stand in the column of predictions, read as `read_answers` reads them."""

    def __init__(self, ids: Any, options: Mapping[str, Any]) -> None:
        self._reader = Reader(ids, **options)

    def answers(self, part: Part, name: str) -> Answers:
        """Return the answers of the rows."""
        cells = cells_of(part.columns[name])
        for row, cell in enumerate(cells):
            if cell is not None and not isinstance(cell, str):
                raise TypeError(
                    f"{part.place(row)} must hold text in `{name}`, got {short(cell)}; `answers` "
                    "is for text, and lists are read without it."
                )
        return self._reader.read(cells)


class JoinedAnswers:
    """Answers in another table than the queries; both have a column of keys.

    Args:
        parts: the parts of the table of answers.
        name: the column of answers.
        key: the column of keys.
        queries: the parts of the table of queries.
        column: what reads the answers.
    """

    def __init__(
        self,
        parts: Iterable[Part],
        name: str,
        key: str,
        queries: Iterable[Part],
        column: AnswerColumn,
    ) -> None:
        read = [column.answers(Part("", (), {name: []}), name)]
        rows: dict[str, int] = {}
        for part in parts:
            read.append(column.answers(part, name))
            _number(part, key, rows)
        asked: dict[str, int] = {}
        for part in queries:
            _number(part, key, asked)
        if unknown := rows.keys() - asked.keys():
            first = min(unknown, key=rows.__getitem__)
            raise ValueError(
                f"`queries` must have a row for each answer, got none for {len(unknown):,} of "
                f"them, the first with the `key` {short(first)}; leave the rows of such answers "
                "out, or add the queries."
            )
        self._rows, self._answers = rows, Answers.cat(read)

    def answers(self, part: Part, name: str) -> Answers:
        """Return the answers to the keys in a column."""
        rows = [self._rows.get(key, -1) for key in _keys(part, name)]
        return self._answers.at(torch.tensor(rows, dtype=torch.int64))


#: what makes answers of a column
AnswersOf: TypeAlias = "AnswerColumn | JoinedAnswers"


def _number(part: Part, key: str, rows: dict[str, int]) -> None:
    """Number the keys of some rows, or raise for one that is there."""
    for row, name in enumerate(_keys(part, key)):
        if name in rows:
            raise ValueError(
                f"the column `{key}` must have each key once, got {short(name)} again in "
                f"{part.place(row)}."
            )
        rows[name] = len(rows)


def _keys(part: Part, key: str) -> list[str]:
    kind = read_group(part.file, key, part.rows, part.columns[key])
    return [kind.labels.names[x] for x in kind.numbers.tolist()]


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
    has_lines = "\n" in text and separator is None
    return (
        has_lines
        or "```" in text
        or text[0] == "{"
        or isinstance(by_json(None, "last", text), list)
    )


def cells_of(column: Any) -> list[Any]:
    """Return the cells of a column as Python values."""
    if isinstance(column, list):
        return column
    found: list[Any] = column.to_pylist() if hasattr(column, "to_pylist") else column.tolist()
    return found
