"""Answers of a language model in text: each becomes a list of ids, or why it has none."""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, Literal, TypeAlias

import numpy as np
import torch

from nextloc_metrics.core.queries.answers import (
    ANSWERED,
    EMPTY,
    REFUSED,
    UNREADABLE,
    UNSEEN,
    Answers,
)
from nextloc_metrics.core.queries.arrays import pad_rows
from nextloc_metrics.core.queries.checks import check_bool, check_choice, check_positive
from nextloc_metrics.core.queries.hashing import unknown_numbers
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.report.files.sources import gigabytes, memory
from nextloc_metrics.report.files.texts import (
    NO_LIST,
    Items,
    by_codes,
    by_commas,
    by_function,
    by_json,
    by_lines,
    by_pattern,
)

Take = Literal["last"]
TextForm: TypeAlias = "str | re.Pattern[str] | Callable[[str], Sequence[str | int] | None]"

_NAMES = ({str}, {int}, {str, int})


class Reader:
    """How texts are read; `read_answers` describes the arguments. It can be pickled."""

    def __init__(
        self,
        ids: Any,
        form: TextForm = "json",
        key: str | None = None,
        k: int | None = None,
        take: Take | None = None,
        after: str | None = None,
        refusals: Sequence[str] = (),
        fold: bool = False,
    ) -> None:
        names = _names_of(ids)
        self.k = None if k is None else check_positive("k", k)
        if take is not None:
            check_choice("take", take, Take)
        for name, value in {"key": key, "after": after}.items():
            if value is not None and not (isinstance(value, str) and value):
                raise ValueError(f"`{name}` must be text, got {short(value)}.")
        if isinstance(refusals, str):
            raise TypeError(f"`refusals` must be a list of patterns, got {short(refusals)}.")
        self._refusals = [_pattern_of("refusals", one) for one in refusals]
        self._fold = fold_name if check_bool("fold", fold) else None
        self._after, self._numbers = after, NameNumbers(names, self._fold)
        self._form, title = self._make_form(form, names, key, take)
        options: dict[str, Any] = {"key": key, "take": take, "k": k, "after": after, "fold": fold}
        options["refusals"] = [one.pattern for one in self._refusals]
        digest = blake2b("\n".join(map(repr, names)).encode(), digest_size=4).hexdigest()
        shown = [f"{name}={value!r}" for name, value in options.items() if value]
        self.rule = "; ".join([title, *shown, f"{len(names):,} ids ({digest})", UNSEEN])

    def _make_form(
        self, form: TextForm, names: Sequence[str], key: str | None, take: Take | None
    ) -> tuple[Callable[[str], Items], str]:
        """Return what reads a text, and its name for the card."""
        knows = self._numbers.knows
        # what reads a text, the options that it has, and what no name may have
        rows: dict[str, tuple[Callable[[str], Items], str, str]] = {
            "json": (partial(by_json, key, take), "key take", ""),
            "lines": (partial(by_lines, knows, take), "take", "\r\n"),
            "separated": (partial(by_commas, knows), "", "\r\n"),
            "codes": (partial(by_codes, take), "take", ""),
        }
        title = form if isinstance(form, str) else getattr(form, "__qualname__", repr(form))
        if isinstance(form, re.Pattern) or title.startswith("pattern="):
            pattern = _pattern_of("form", form if isinstance(form, re.Pattern) else title[8:])
            title = f"pattern={pattern.pattern}"
            if pattern.groups != 1:
                raise ValueError(f"`form` must be a pattern with one group, the id, got {title!r}.")
            rows[title] = partial(by_pattern, pattern), "", ""
        elif callable(form):
            rows[title] = partial(by_function, form), "", ""
        elif title not in rows:
            raise ValueError(
                f"`form` must be one of {', '.join(rows)}, `pattern=...` or a function, got "
                f"{short(form)}; `auto` proposes one."
            )
        reads, options, marks = rows[title]
        for name, value in {"key": key, "take": take}.items():
            if value is not None and name not in options:
                raise ValueError(
                    f"`{name}` must be None for the form {title!r}, got {short(value)}; choose a "
                    "list by `pattern=...`, or `after`."
                )
        if wrong := [x for x in names if marks and (set(marks) & set(x) or x != x.strip())]:
            raise ValueError(
                f"`form` must be one that can write all ids, and {title!r} cannot write "
                f"{short(wrong[0])}; use 'json'."
            )
        return reads, title

    def read(self, texts: Sequence[Any]) -> Answers:
        """Read texts; None, or NaN, is no text."""
        numbers, form, fold = self._numbers, self._form, self._fold
        most, after, number_of = self.k, self._after, self._numbers.get
        flat, lengths, outcomes = array("q"), array("q"), bytearray()
        for row, text in enumerate(texts):
            if type(text) is not str:
                text = _text_of(row, text)
            found: Items = NO_LIST
            if after is None:
                found = form(text)
            elif (at := text.rfind(after)) >= 0:
                text = text[at + len(after) :]
                found = form(text)
            if not isinstance(found, int):
                if set(map(type, found)) in _NAMES:
                    outcomes.append(ANSWERED)
                    lengths.append(len(found))
                    kept = found if most is None else found[:most]
                    kept = kept if fold is None else [fold(str(x)) for x in kept]
                    known: list[Any] = [*map(number_of, kept)]
                    flat.fromlist([numbers[x] for x in kept] if None in known else known)
                    continue
                found = UNREADABLE if found else EMPTY
            if found == NO_LIST:
                refused = any(one.search(text) for one in self._refusals)
                found = EMPTY if not text.strip() else REFUSED if refused else UNREADABLE
            outcomes.append(found)
            lengths.append(0)
        ids, others = np.array(flat, np.int64), numbers.forget()
        if others:  # numbers that do not depend on the other texts
            is_other = ids >= numbers.size
            far = unknown_numbers(others, numbers.size)
            ids[is_other] = far[ids[is_other] - numbers.size]
        of_all = np.array(lengths, np.int64)
        ranked = of_all if most is None else of_all.clip(max=most)
        width = max(1, int(ranked.max(initial=0)))
        if (size := 8 * width * len(ranked)) > memory():
            raise ValueError(
                "`texts` must be lists that fit into memory when all are padded to the longest, "
                f"of {width} ids, got {gigabytes(size)}; pass `k`."
            )
        preds = pad_rows(ids, ranked, -1, width)
        outcome = np.frombuffer(outcomes, np.uint8).astype(np.int64)
        read = [torch.from_numpy(x) for x in (preds, outcome, of_all)]
        return Answers(read[0], read[1], read[2], numbers.size, self.rule)


def read_answers(
    texts: Any,
    *,
    ids: Any,
    form: TextForm = "json",
    key: str | None = None,
    k: int | None = None,
    take: Take | None = None,
    after: str | None = None,
    refusals: Sequence[str] = (),
    fold: bool = False,
) -> Answers:
    r"""Read the answers of a language model, text, as lists of ids, each with an outcome.

    The outcome of an answer is the first that holds: `missing`, it has no row (see `Answers.at`);
    `empty`, it has no text, or a list without items; `answered`; `cut`, the text ends inside a
    list; `refused`, it has no list, and a pattern of `refusals` is found; `unreadable`. All but
    `answered` count 0 in every metric. A name that is no id is *invented*, a name that stood before
    is *repeated*; both keep their ranks.

    | `form` | reads |
    |---|---|
    | `"json"` | a list, or an object with one, in JSON or of Python, also fenced or in prose |
    | `"lines"` | a numbered or bulleted list, in prose or not; without marks, a name per line |
    | `"separated"` | names between commas or newlines, but for those within double quotes |
    | `"codes"` | codes such as `<a_12><b_3>`, each a name |
    | `r"pattern=id (\d+)"`, or `re.compile(...)` | what its group finds, in this order |
    | a function | a list of names, or None, that it returns for a text |
    | `"auto"` | none: it prints how many of the first 1,000 texts each form reads |

    Of several lists in a text all must be equal, unless `take` or `after` says which one is meant;
    a text that a form may read in two ways is unreadable. Names are text or whole numbers, and are
    compared exactly; a list with null, true, a fraction or a list in it is unreadable. Without
    marks or quotes, a line or field that is no id and looks like a sentence makes the text
    unreadable. A list of lines, of fields or of a pattern has no end, so it is never `cut`.

    Args:
        texts: the texts, `[N]`; None is no text.
        ids: the name of each id, text or integers, `[C]`.
        form: how lists are written, as in the table.
        key: for `"json"`, the key whose list is read; other lists are then none.
        k: how many items are ranked; more are counted only.
        take: `"last"`, the last of several lists.
        after: the text, such as `"</think>"`, after whose last occurrence the answer begins; a text
            without it is unreadable.
        refusals: patterns (`re`) of texts that refuse to answer.
        fold: compare names without their case, accents and spaces around and between words.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: an option is out of range, ids are not distinct, or the form cannot write one.

    Example:
        >>> from nextloc_metrics import report
        >>> texts = ['I think ["Home", "Mars"].', '{"prediction": ["Cafe"]}', '["Ca', "Who knows?"]
        >>> answers = report.read_answers(texts, ids=["Cafe", "Home"])
        >>> answers.outcomes
        ['answered', 'answered', 'cut', 'unreadable']
        >>> answers.preds[:2].tolist()  # Mars is invented: its number, from 2 on, is of its name
        [[1, 988618839715], [0, -1]]
        >>> report.evaluate(answers, [1, 1, 0, 0], k=1).values["acc_at_1"]
        0.25
    """
    if isinstance(texts, str):
        raise TypeError(f"`texts` must be one text per answer, got {short(texts)}.")
    texts = cells_of(texts)
    options: dict[str, Any] = {"k": k, "after": after, "refusals": refusals, "fold": fold}
    if form == "auto":
        print(propose(texts[:1000], ids, **options))
        form, texts = "json", []
    return Reader(ids, form, key, take=take, **options).read(texts)


def cells_of(column: Any) -> list[Any]:
    """Return the cells of a column, such as of pandas or Arrow, as Python values."""
    to_list = getattr(column, "to_pylist", getattr(column, "tolist", None))
    return list(column if to_list is None else to_list())


def propose(texts: Sequence[Any], ids: Any, **options: Any) -> str:
    """Return how many of the texts each form reads, and how many of these have an id."""
    lines = [f"of the first {len(texts):,} answers"]
    for form in ("json", "lines", "separated", "codes"):
        try:
            found = Reader(ids, form, **options).read(texts)
        except ValueError as error:
            lines.append(f"{form}: {error}")
            continue
        has_id = ((found.preds >= 0) & (found.preds < found.num_ids)).any(1)
        read = int((found.outcome == ANSWERED).sum())
        lines.append(f"{form}: reads {read:,}, {int(has_id.sum()):,} with an id of `ids`")
    return "\n".join(lines)


class NameNumbers(dict[Any, int]):
    """The number of each name or whole number; the next for what is no id, until `forget`."""

    def __init__(self, names: Sequence[str], fold: Callable[[str], str] | None) -> None:
        for number, name in enumerate(names):
            first = self.setdefault(name if fold is None else fold(name), number)
            if first != number:
                same = f"{short(names[first])} and {short(name)}" if fold else short(name)
                raise ValueError(f"`ids` must be distinct names, got {same} twice.")
        self.size, self._fold = len(names), fold
        self._others: list[str] = []
        self.update({int(x): n for x, n in [*self.items()] if _WHOLE.fullmatch(x)})

    def __missing__(self, name: Any) -> int:
        if type(name) is int:
            return self[str(name)]
        self._others.append(name)
        number = self[name] = self.size + len(self._others) - 1
        return number

    def knows(self, name: str) -> bool:
        """Return whether a name is that of an id."""
        return self.get(name if self._fold is None else self._fold(name), self.size) < self.size

    def forget(self) -> list[str]:
        """Forget the names that are no ids, and return them in the order of their numbers."""
        others, self._others = self._others, []
        for name in others:
            del self[name]
        return others


def _names_of(ids: Any) -> list[str]:
    """Return the ids as text."""
    found = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    wrong = [ids] if isinstance(ids, str) or not found else []
    if wrong := wrong + [x for x in found if type(x) not in (str, int)]:
        raise TypeError(f"`ids` must be the names of ids, text or integers, got {short(wrong[0])}.")
    return [str(x) for x in found]


def _pattern_of(name: str, pattern: Any) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, TypeError) as error:
        raise ValueError(
            f"`{name}` must be a pattern of `re`, got {short(pattern)}: {error}."
        ) from error


def _text_of(row: int, text: Any) -> str:
    """Return the text of a cell, empty for None, NaN or NA, or raise if it is something else."""
    if isinstance(text, str):
        return str(text)
    if text is None or type(text).__name__ == "NAType" or text != text:
        return ""
    raise TypeError(f"`texts` must hold text or None, got {short(text)} in row {row}.")


_WHOLE = re.compile("0|-?[1-9][0-9]{0,17}")
_ACCENTS = re.compile("[\u0300-\u036f]")


def fold_name(name: str) -> str:
    """Return a name without case, accents and further spaces, composed (NFC)."""
    bare = _ACCENTS.sub("", unicodedata.normalize("NFD", name.casefold()))
    return unicodedata.normalize("NFC", " ".join(bare.split()))
