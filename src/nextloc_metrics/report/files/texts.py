"""Forms of lists in text: each reads a text to the items of its list, or to an outcome.

A form is linear in the text; what may be meant in two ways is unreadable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from string import ascii_lowercase
from typing import Any, TypeAlias

from nextloc_metrics.core.queries.answers import CUT, UNREADABLE
from nextloc_metrics.core.queries.messages import short

#: what a form makes of a text: its items, an outcome, or `NO_LIST`
Items: TypeAlias = "list[Any] | int"
Knows: TypeAlias = Callable[[str], bool]

NO_LIST = -1

# JSON and Python ----------------------------------------------------------------------------------


class _Object(list[Any]):
    """The pairs of an object: a key may stand twice."""


_decoder: Any = json.JSONDecoder(object_pairs_hook=_Object, strict=False)
_scan = _decoder.scan_once
_BRACKET = re.compile(r"[\[{]")
_OBJECT = re.compile(r"\{\s*[\"'}]")  # any other brace is prose
_DOUBLE = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_QUOTED = rf"{_DOUBLE}|'[^'\\]*(?:\\.[^'\\]*)*'"
_TOKEN = re.compile(rf"\s*(?:({_QUOTED})|([-+.\w]+)|([\[\]{{}},:]))", re.DOTALL)
_ESCAPE = re.compile(r"\\x([0-9a-fA-F]{2})|\\.|\"", re.DOTALL)
_CONSTANTS = {"True": "true", "False": "false", "None": "null"}
_DEEPEST = 100


def by_json(key: str | None, take: str | None, text: str) -> Items:
    """Read the list of a text in JSON or of Python, or that of one key."""
    lists: list[Any] = []
    at = 0
    while (bracket := _BRACKET.search(text, at)) is not None:
        at = bracket.start()
        if bracket[0] == "{" and not _OBJECT.match(text, at):
            at += 1
            continue
        try:
            value, at = _scan(text, at)
        except (StopIteration, ValueError, RecursionError):
            written = _as_json(text, at)
            if isinstance(written, int):
                return written
            try:
                value = json.loads(written[0], object_pairs_hook=_Object, strict=False)
            except (ValueError, RecursionError):
                return UNREADABLE
            at = written[1]
        if type(value) is list and key is None:
            lists.append(value)
        else:
            lists += _lists_in(value, key)
    return _choose(lists, take)


def _choose(lists: Sequence[list[Any]], take: str | None) -> Items:
    """Return the one list, the last, or any if all are equal."""
    if len(lists) == 1 or (lists and take):
        return lists[-1]
    if not lists:
        return NO_LIST
    first = [*map(str, lists[0])]
    return lists[0] if all([*map(str, x)] == first for x in lists) else UNREADABLE


def _lists_in(value: Any, key: str | None) -> list[Any]:
    """Return the lists in an object and in the objects in it, of all keys or of one."""
    waiting, lists = [("", value)], []
    while waiting:
        name, one = waiting.pop()
        if type(one) is _Object:
            waiting += one[::-1]
        elif type(one) is list and key in (None, name):
            lists.append(one)
    return lists


def _as_json(text: str, at: int) -> tuple[str, int] | int:
    """Write what begins at a bracket in JSON, with its end in the text; or return an outcome.

    Python has other quotes and constants, and a comma may stand before the end. What is none of
    either is left for JSON to refuse.
    """
    parts, opened, before = [""], [""], ""
    while token := _TOKEN.match(text, at):
        at = token.end()
        string, word, mark = token.groups()
        now = "" if mark else "quoted" if string else "word"
        if before and now and "quoted" in (before, now):  # a quote within quotes
            return UNREADABLE
        before = now
        if string is not None:
            parts.append(_string_in_json(string))
        elif word is not None:
            parts.append(_CONSTANTS.get(word, word))
        else:
            if mark in "]}":
                opened.pop()
                if parts[-1] == "," and parts[-2] not in ("[", "{", ","):
                    parts.pop()
            elif mark in "[{":
                opened.append(mark)
            parts.append(mark)
            if len(opened) == 1:
                return "".join(parts), at
            if len(opened) > _DEEPEST:
                return UNREADABLE
    rest = text[at:].lstrip()[:1]
    is_end = not rest or (rest in "\"'" and not before)  # within a name, if it is a quote
    return CUT if is_end and "[" in opened else UNREADABLE


def _string_in_json(token: str) -> str:
    """Write a quoted text in JSON."""
    is_json = token[0] == '"' and "\\x" not in token
    return token if is_json else f'"{_ESCAPE.sub(_escape_in_json, token[1:-1])}"'


def _escape_in_json(found: re.Match[str]) -> str:
    if found[1]:
        return f"\\u00{found[1]}"
    # JSON reads `\/` as `/`, Python does not
    return {"\\'": "'", '"': '\\"', "\\/": "\\?"}.get(found[0], found[0])


# Lines, fields, patterns, codes -------------------------------------------------------------------

_MARK = re.compile(r"([ \t]*)(?:\(?([0-9]{1,9})[.)](?![.)])|([-*+•])(?=[ \t]))[ \t]*(?=\S)")
# What no name has that is written without quotes: the end of a sentence, or the marks of a form.
_PROSE = re.compile(r"[.:;!?…](?:\s|$)|[\u3002\uff01\uff1a\uff1b\uff1f]|[\[\]{}`\"]|^'")
_FIELD = re.compile(rf"[^\S\n]*(?:({_DOUBLE})[^\S\n]*|([^,\n]*))(,|\n|\Z)", re.DOTALL)


def by_lines(knows: Knows, take: str | None, text: str) -> Items:
    """Read a numbered or bulleted list, or names of one line each."""
    plain: list[str] = []
    lists: list[list[str]] = []
    style: tuple[str, str] | None = None
    number = 0
    for line in text.replace("\r", "\n").split("\n"):
        name = line.strip()
        mark = None if knows(name) else _MARK.match(line)
        if mark is None:
            if name and not name.startswith("```"):
                plain.append(name)
                style = None if style and style[1] else style
            continue
        if line[mark.end() - 1] in ".)" and line[mark.end()].isdigit():  # or a number such as 1.5
            return UNREADABLE
        found = (mark[1], mark[3] or "")
        follows = bool(mark[3]) or int(mark[2]) == number + 1
        if found != style or not follows:
            if mark[2] and int(mark[2]) > 1:  # what stands before is missing
                return UNREADABLE
            lists.append([])
        style, number = found, int(mark[2] or 0)
        lists[-1].append(line[mark.end() :].strip())
    if not lists:
        return _without_quotes(knows, plain, True) if plain else NO_LIST
    if any(map(knows, plain)):
        return UNREADABLE
    chosen = _choose(lists, take)
    return chosen if isinstance(chosen, int) else _without_quotes(knows, chosen, False)


def by_commas(knows: Knows, text: str) -> Items:
    """Read names between commas or newlines."""
    names: list[str] = []
    text = text.replace("\r", "\n")
    at, before = 0, "\n"
    while before and (field := _FIELD.match(text, at)):
        at = field.end()
        name = field[1] or field[2].strip()
        if name and not name.startswith("```"):
            names.append(name)
        elif not name and field[3] == ",":  # nothing between two commas
            return UNREADABLE
        before = field[3]
    return _without_quotes(knows, names, True) if names else NO_LIST


def _without_quotes(knows: Knows, names: Sequence[str], may_be_prose: bool) -> Items:
    """Return names without the quotes around them; an outcome if one looks like prose."""
    found = []
    for name in names:
        if not knows(name):
            if re.fullmatch(_QUOTED, name, re.DOTALL):
                try:
                    name = json.loads(_string_in_json(name), strict=False)
                except ValueError:
                    return UNREADABLE
            elif may_be_prose and _PROSE.search(name):
                return NO_LIST
        found.append(name)
    return found


def by_pattern(pattern: re.Pattern[str], text: str) -> Items:
    """Read what the group of a pattern finds."""
    names: list[Any] = [found[1] for found in pattern.finditer(text)]
    return (UNREADABLE if None in names else names) if names else NO_LIST


# levels in alphabetical order
_CODE = re.compile("(?=<[a-z]_[0-9]+>)" + "".join(f"(?:<{x}_[0-9]+>)?" for x in ascii_lowercase))
_BETWEEN = re.compile(r"[\s,;|\"'\[\]0-9.)*-]*")
_CUT_CODE = re.compile(r"<(?:[a-z](?:_[0-9]*)?)?$")


def by_codes(take: str | None, text: str) -> Items:
    """Read codes; prose between two begins another list."""
    if _CUT_CODE.search(text[-30:]):
        return CUT
    lists: list[list[str]] = []
    end = 0
    for code in _CODE.finditer(text):
        if not lists or not _BETWEEN.fullmatch(text, end, code.start()):
            lists.append([])
        lists[-1].append(code[0])
        end = code.end()
    return _choose(lists, take)


def by_function(function: Callable[[str], Any], text: str) -> Items:
    """Read what a function returns."""
    found = function(text)
    if found is None:
        return NO_LIST
    if isinstance(found, list | tuple) and all(type(x) in (str, int) for x in found):
        return list(found)
    raise TypeError(
        f"`form` must be a function that returns a list of text or integers, got {short(found)}."
    )
