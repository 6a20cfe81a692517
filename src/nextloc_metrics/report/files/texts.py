"""The forms of lists in text. A form reads the list of a text, or an outcome that says why not.

Each form takes time linear in the text. A text that may mean two lists is unreadable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

#: the result of reading a text: the items of its list, an outcome, or `NO_LIST`
Items: TypeAlias = "list[Any] | str"
Knows: TypeAlias = Callable[[str], bool]

NO_LIST, CUT, UNREADABLE, OBJECTS = "", "cut", "unreadable", "objects"


class _Object(list[Any]):
    """The pairs of key and value of an object, in which a key may occur twice."""


_decoder: Any = json.JSONDecoder(object_pairs_hook=_Object, strict=False)
_scan, _decode = _decoder.scan_once, _decoder.decode
_BRACKET = re.compile(r"\[|\{(?=\s*[\"'}])")  # any other brace is part of prose
_DOUBLE = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_QUOTED = rf"{_DOUBLE}|'[^'\\]*(?:\\.[^'\\]*)*'"
_TOKEN = re.compile(rf"\s*(?:({_QUOTED})|([-+.\w]+)|([\[\]{{}},:]))", re.DOTALL)
_ESCAPE = re.compile(r"\\x([0-9a-fA-F]{2})|\\.|\"", re.DOTALL)
_AS_JSON = {"\\'": "'", '"': '\\"', "\\/": "\\?"}  # JSON reads `\/` as `/`, Python does not
_CONSTANTS = {"True": "true", "False": "false", "None": "null"}
_DEEPEST = 100


def by_json(key: str | None, take: str | None, text: str) -> Items:
    """Read the list of a text in JSON or of Python, or the list that is the value of a key.

    If items are objects, the key may be one of their fields: the list then has its values.
    """
    keyed_lists = _lists_in(text)
    if isinstance(keyed_lists, str):
        return keyed_lists
    lists = [items if key is None else _of_key(key, name, items) for name, items in keyed_lists]
    chosen = _choose([x for x in lists if x is not None], take)
    of_objects = chosen if chosen != NO_LIST else _choose([items for _, items in keyed_lists], take)
    are_objects = not isinstance(of_objects, str) and {*map(type, of_objects)} == {_Object}
    return OBJECTS if are_objects else chosen


def _lists_in(text: str) -> list[tuple[str, list[Any]]] | str:
    """Return the lists of a text, each with its key, or an outcome."""
    lists: list[tuple[str, list[Any]]] = []
    at = 0
    while bracket := _BRACKET.search(text, at):
        try:
            value, at = _scan(text, bracket.start())
        except (StopIteration, ValueError, RecursionError):
            value, at = scan_python(text, bracket.start())
        if isinstance(value, str):
            return value
        waiting = [("", value)]
        while waiting:
            name, inner = waiting.pop()
            if type(inner) is _Object:
                waiting += inner[::-1]
            elif type(inner) is list:
                lists.append((name, inner))
    return lists


def _of_key(key: str, name: str, items: list[Any]) -> list[Any] | None:
    """Return a list if it has this key, or the fields of this key of its items; else None.

    The field of an item that has no such field, or two, is None, which is no name.
    """
    fields = [[y for x, y in item if x == key] for item in items if type(item) is _Object]
    if any(fields) and len(fields) == len(items):
        return [x[0] if len(x) == 1 else None for x in fields]
    return items if name == key else None


def _choose(lists: Sequence[list[Any]], take: str | None) -> Items:
    """Return the last list if `take` says so, or else the one that all lists are equal to."""
    if not lists:
        return NO_LIST
    is_clear = take or all([*map(str, x)] == [*map(str, lists[0])] for x in lists[1:])
    return lists[-1 if take else 0] if is_clear else UNREADABLE


def scan_python(text: str, at: int) -> tuple[Any, int]:
    """Return the list or object that begins at a bracket, or an outcome, and where it ends.

    Quotes, constants and a last comma of Python become those of JSON, token by token.
    """
    in_json, opened = [""], [""]
    kind = 0  # the last token is quoted text (1), a number or word (2) or a mark (3)
    while token := _TOKEN.match(text, at):
        at, kind_before, kind = token.end(), kind, token.lastindex or 0
        part = token[kind]
        if kind in (1, 2) and kind_before in (1, 2):  # a comma is missing, or an escape
            return UNREADABLE, at
        if part in ("]", "}"):
            opened.pop()
            if in_json[-1] == "," and in_json[-2] not in ("[", "{", ","):
                in_json.pop()
        elif part in ("[", "{"):
            opened.append(part)
        in_json.append(_string_in_json(part) if kind == 1 else _CONSTANTS.get(part, part))
        if not 1 < len(opened) <= _DEEPEST:  # the list is closed, or too deep to be read
            try:
                return _decode("".join(in_json)), at
            except (ValueError, RecursionError):
                return UNREADABLE, at
    rest = text[at:].lstrip()[:1]
    is_end = not rest or (rest in "\"'" and kind == 3)  # the text may end within a quoted name
    return CUT if is_end and "[" in opened else UNREADABLE, at


def _string_in_json(token: str) -> str:
    """Write a quoted text in JSON."""
    if token[0] == '"' and "\\x" not in token:
        return token
    return f'"{_ESCAPE.sub(_escape, token[1:-1])}"'


def _escape(found: re.Match[str]) -> str:
    """Write an escape of Python in JSON; in an unknown escape, the backslash is a character."""
    if found[1]:
        return f"\\u00{found[1]}"
    is_known = found[0][-1] in "\"'\\/abfnrtuvxNU01234567\n"
    return _AS_JSON.get(found[0], found[0]) if is_known else f"\\{found[0]}"


_MARK = re.compile(r"([ \t]*)(?:\(?([0-9]{1,9})[.)](?![.)])|([-*+•])(?=[ \t]))[ \t]*(?=\S)")
# A name without quotes never has these: the end of a sentence, or the marks of another form.
_PROSE = re.compile(r"[.:;!?…](?:\s|$)|[\u3002\uff01\uff1a\uff1b\uff1f]|[\[\]{}`\"]|^'")
# Marks of Markdown around a whole name; those of the second kind may be a part of the name.
_STRONG = re.compile(r"(\*\*\*?|``?)(?!\s)((?:(?!\1).)+)(?<!\s)\1")
_SLANTED = re.compile(r"(\*|__?)(?!\s)((?:(?!\1).)+)(?<!\s)\1")
_FIELD = re.compile(rf"[^\S\n]*(?:({_DOUBLE})[^\S\n]*|([^,\n]*))(,|\n|\Z)", re.DOTALL)


def by_lines(knows: Knows, take: str | None, text: str) -> Items:
    """Read a numbered or bulleted list, or one name per line."""
    plain: list[str] = []
    lists: list[list[str]] = []
    style, number = "none", 0
    for line in text.replace("\r", "\n").split("\n"):
        name = _unmarked(knows, line.strip())
        line = line[: len(line) - len(line.lstrip())] + name
        if knows(name) or not (mark := _MARK.match(line)):
            if name and not name.startswith("```"):
                plain.append(name)
                style = "none" if style.strip() else style  # a numbered list may go on after it
            continue
        name = _unmarked(knows, line[mark.end() :].strip())
        if line[mark.end() - 1] in ".)" and name[0].isdigit():  # it may be a number such as 1.5
            return UNREADABLE
        indent, count, bullet = mark.groups("")
        if style != indent + bullet or not (bullet or int(count) == number + 1):
            if count and int(count) > 1:  # the items before this one are missing
                return UNREADABLE
            lists.append([])
        style, number = indent + bullet, int(count or 0)
        lists[-1].append(name)
    if not lists:
        return _without_quotes(knows, plain, True)
    chosen = UNREADABLE if any(map(knows, plain)) else _choose(lists, take)
    return chosen if isinstance(chosen, str) else _without_quotes(knows, chosen, False)


def _unmarked(knows: Knows, name: str) -> str:
    """Return a name without the bold or backticks of Markdown; without italics if it is an id."""
    while not knows(name):
        if strong := _STRONG.fullmatch(name):
            name = strong[2]
        elif (slanted := _SLANTED.fullmatch(name)) and knows(slanted[2]):
            name = slanted[2]
        else:
            break
    return name


def by_commas(knows: Knows, text: str) -> Items:
    """Read names between commas or newlines."""
    names: list[str] = []
    for quoted, bare, end in _FIELD.findall(text.replace("\r", "\n")):
        name = quoted or _unmarked(knows, bare.strip())
        if name and not name.startswith("```"):
            names.append(name)
        elif not name and end == ",":  # there is nothing between two commas
            return UNREADABLE
    return _without_quotes(knows, names, True)


def _without_quotes(knows: Knows, names: Sequence[str], may_be_prose: bool) -> Items:
    """Return names without the quotes around them; an outcome if one looks like prose."""
    unquoted = []
    for name in names:
        if not knows(name) and re.fullmatch(_QUOTED, name, re.DOTALL):
            try:
                name = _decode(_string_in_json(name))
            except ValueError:
                return UNREADABLE
        elif may_be_prose and not knows(name) and _PROSE.search(name):
            return NO_LIST
        unquoted.append(name)
    return unquoted or NO_LIST


def by_pattern(pattern: re.Pattern[str], text: str) -> Items:
    """Read the texts that the group of a pattern matches."""
    return [found[1] for found in pattern.finditer(text)] or NO_LIST
