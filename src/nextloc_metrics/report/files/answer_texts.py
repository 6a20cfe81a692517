"""Answers of a language model in text: each becomes a list of ids, or an outcome without one."""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from hashlib import blake2b
from typing import Any, Literal, TypeAlias

import numpy as np
import torch

from nextloc_metrics.core.queries.answers import NAMES, UNSEEN, Answers
from nextloc_metrics.core.queries.arrays import pad_rows
from nextloc_metrics.core.queries.checks import check_bool, check_choice, check_positive, or_none
from nextloc_metrics.core.queries.hashing import unknown_numbers
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.report.files import texts as forms

Take = Literal["last"]
TextForm: TypeAlias = "str | re.Pattern[str]"

_ACCENTS = re.compile("[\u0300-\u036f]")


@dataclass(eq=False, repr=False)
class Reader:
    """How texts are read; `read_answers` describes the arguments. It can be pickled."""

    ids: Any
    form: TextForm = "json"
    key: str | None = None
    k: int | None = None
    take: Take | None = None
    after: str | None = None
    fold: bool = False

    def __post_init__(self) -> None:
        names, self._numbers = _names_of(self.ids), dict[str, int]()
        or_none(check_positive)("k", self.k)
        or_none(partial(check_choice, choices=Take))("take", self.take)
        for name, value in {"key": self.key, "after": self.after}.items():
            if value is not None and not (isinstance(value, str) and value):
                raise ValueError(f"`{name}` must be None or text, got {short(value)}.")
        self._as_name = fold_name if check_bool("fold", self.fold) else str
        for number, name in enumerate(names):
            if (first := self._numbers.setdefault(self._as_name(name), number)) != number:
                same = f"{short(names[first])} and {short(name)}" if self.fold else short(name)
                raise ValueError(f"`ids` must be distinct names, got {same} twice.")
        self._read, title = self._make_form(names)
        shown = {x: getattr(self, x) for x in ("key", "take", "k", "after", "fold")}
        digest = blake2b("\n".join(map(repr, names)).encode(), digest_size=4).hexdigest()
        options = [f"{name}={value!r}" for name, value in shown.items() if value]
        self.rule = "; ".join([title, *options, f"{len(names):,} ids ({digest})", UNSEEN])

    def _make_form(self, names: Sequence[str]) -> tuple[Callable[[str], forms.Items], str]:
        """Return the function that reads a text, and its name for the card."""
        form, knows, title = self.form, self._knows, str(self.form)
        reads: dict[str, Callable[[str], forms.Items]] = {
            "json": partial(forms.by_json, self.key, self.take),
            "lines": partial(forms.by_lines, knows, self.take),
            "separated": partial(forms.by_commas, knows),
        }
        rule = f"one of {', '.join(reads)}, or `pattern=...`"
        if isinstance(form, re.Pattern) or title.startswith("pattern="):
            pattern = _pattern_of(form if isinstance(form, re.Pattern) else title[8:])
            title, rule = f"pattern={pattern.pattern}", "a pattern with one group, the id"
            reads = {title: partial(forms.by_pattern, pattern)} if pattern.groups == 1 else {}
        odd = [x for x in names if x != x.strip() or {*"\r\n"} & {*x}]
        if self.key is not None and title != "json":
            rule = "'json' with `key`"
        elif self.take is not None and title not in ("json", "lines"):
            rule = "'json' or 'lines' with `take`"
        elif odd and title in ("lines", "separated"):
            rule = f"'json' for ids such as {short(odd[0])}"
        elif title in reads:
            return reads[title], title
        raise ValueError(f"`form` must be {rule}, got {short(title)}.")

    def _knows(self, name: str) -> bool:
        return self._as_name(name) in self._numbers

    def read(self, texts: Iterable[Any]) -> Answers:
        """Read texts; None and NaN are missing texts."""
        numbers, size = self._numbers, len(self._numbers)
        flat, lengths, outcomes = array("q"), array("q"), array("q")
        invented: dict[str, int] = {}
        for row, text in enumerate(texts):
            is_missing = text is None or type(text).__name__ == "NAType" or text != text
            if not is_missing and not isinstance(text, str):
                raise TypeError(f"`texts` must hold text or None, got {short(text)} in row {row}.")
            items = self._read_one("" if is_missing else str(text))
            outcome, items = (items, []) if isinstance(items, str) else ("answered", items)
            outcomes.append(NAMES.index(outcome))
            lengths.append(len(items))
            for name in map(self._as_name, items[: self.k]):
                number = numbers.get(name)
                if number is None:
                    number = invented.setdefault(name, size + len(invented))
                flat.append(number)
        # a name that is no id has a hash as its number, which does not depend on other texts
        final_numbers = np.concatenate([np.arange(size), unknown_numbers(invented, size)])
        num_items = np.array(lengths, np.int64)
        num_ranked = num_items.clip(0, self.k)
        width = max(1, int(num_ranked.max(initial=0)))
        preds = pad_rows(final_numbers[np.array(flat, np.int64)], num_ranked, -1, width)
        read = [torch.from_numpy(x) for x in (preds, np.array(outcomes, np.int64), num_items)]
        return Answers(read[0], read[1], read[2], size, self.rule)

    def _read_one(self, text: str) -> forms.Items:
        """Return the names in a text, or its outcome."""
        has_mark = self.after is None or self.after in text
        text = text.rpartition(self.after)[2] if self.after else text
        items = self._read(text) if has_mark else forms.NO_LIST
        if items == forms.NO_LIST:
            return forms.UNREADABLE if text.strip() else "empty"
        is_clean = isinstance(items, str) or {*map(type, items)} <= {str, int}
        return (items or "empty") if is_clean else forms.UNREADABLE


def reader_of(ids: Any, options: Any) -> Reader:
    """Return the reader of the answers of a table; `options` are those of `read_answers`."""
    names = [x.name for x in fields(Reader)][1:]
    named = options if isinstance(options, Mapping) else [options]
    if wrong := [short(x) for x in named if x not in names]:
        raise TypeError(
            f"`answers` must be a dict of options of `read_answers`, of {', '.join(names)}, or of "
            f"`separator` and `padding` of lists alone, got {wrong[0]}."
        )
    if ids is None:
        raise ValueError("`answers` needs `vocabulary`, got None.")
    return Reader(ids, **options)


def read_answers(
    texts: Any,
    *,
    ids: Any,
    form: TextForm = "json",
    key: str | None = None,
    k: int | None = None,
    take: Take | None = None,
    after: str | None = None,
    fold: bool = False,
) -> Answers:
    r"""Read the answers of a language model, text, as lists of ids, each with an outcome.

    The outcome of an answer is the first that holds: `missing`, it has no row (see `Answers.at`);
    `empty`, it has no text, or a list without items; `answered`; `cut`, the text ends inside a
    list; `objects`, the items of its list are objects, of which `key` names no field, and shares
    count it as unreadable; `unreadable`. All but `answered` count 0 in every metric. A name that is
    no id is *invented*, a name that stood before is *repeated*; both keep their ranks.

    | `form` | reads |
    |---|---|
    | `"json"` | a list, or an object with one, in JSON or of Python, also fenced or in prose |
    | `"lines"` | a numbered or bulleted list, in prose or not; without marks, a name per line |
    | `"separated"` | names between commas or newlines, but for those within double quotes |
    | `r"pattern=id (\d+)"`, or `re.compile(...)` | what its group finds, in this order |

    In lines and between commas, names may be in bold or backticks of Markdown. Of several lists in
    a text all must be equal, unless `take` or `after` says which one is meant; a text that a form
    may read in two ways is unreadable. Names are text or whole numbers, and are compared exactly; a
    list with null, true, a fraction or a list in it is unreadable. Without marks or quotes, a line
    or field that is no id and looks like a sentence makes the text unreadable. A list of lines, of
    fields or of a pattern has no end, so it is never `cut`.

    Args:
        texts: the texts, `[N]`; None is no text.
        ids: the name of each id, text or integers, `[C]`.
        form: how lists are written, as in the table.
        key: for `"json"`, the key whose list is read, or the field of its items that is the name,
            as in `[{"id": 5, "why": "near"}]`; other lists are then none.
        k: how many items are ranked; more are counted only.
        take: `"last"`, the last of several lists.
        after: the text, such as `"</think>"`, after whose last occurrence the answer begins; a text
            without it is unreadable.
        fold: compare names without their case, accents and spaces around and between words.

    Raises:
        TypeError, ValueError: an option is wrong, ids are not distinct, or the form cannot.

    Example:
        >>> from nextloc_metrics import report
        >>> texts = ['I think ["Home", "Mars"].', '{"prediction": ["Cafe"]}', '["Ca', "Who knows?"]
        >>> answers = report.read_answers(texts, ids=["Cafe", "Home"])
        >>> answers.outcomes
        ['answered', 'answered', 'cut', 'unreadable']
        >>> answers.preds[:2].tolist()  # Mars is invented: its number, from 2 on, is of its name
        [[1, 514334405338], [0, -1]]
        >>> report.evaluate(answers, [1, 1, 0, 0], k=1).values["acc_at_1"]
        0.25
    """
    if isinstance(texts, str):
        raise TypeError(f"`texts` must be one text per answer, got {short(texts)}.")
    return Reader(ids, form, key, k, take, after, fold).read(_cells_of(texts))


def _cells_of(column: Any) -> list[Any]:
    """Return the cells of a column, such as of pandas or Arrow, as Python values."""
    to_list = getattr(column, "to_pylist", getattr(column, "tolist", None))
    return list(column if to_list is None else to_list())


def _names_of(ids: Any) -> list[str]:
    """Return the ids as text."""
    listed = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    wrong = [ids] if isinstance(ids, str) or not listed else []
    if wrong := wrong + [x for x in listed if type(x) not in (str, int)]:
        raise TypeError(f"`ids` must be the names of ids, text or integers, got {short(wrong[0])}.")
    return [str(x) for x in listed]


def _pattern_of(pattern: Any) -> re.Pattern[str]:
    """Return a compiled pattern; raise if it is none."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(
            f"`form` must be a pattern of `re`, got {short(pattern)}: {error}."
        ) from error


def fold_name(name: str | int) -> str:
    """Return a name without case, accents and further spaces, composed (NFC)."""
    bare = _ACCENTS.sub("", unicodedata.normalize("NFD", str(name).casefold()))
    return unicodedata.normalize("NFC", " ".join(bare.split()))
