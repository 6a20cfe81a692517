"""Tables of predictions as people's tools write them, and what is in them.

Each strategy draws rows, writes them in a format, and breaks at most one thing: its *dirt*. A table
without dirt must be read; one with dirt may be refused, and may never be read as something else.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from hostile_plain import (
    Found,
    Meaning,
    Policy,
    RefusedError,
    evaluate,
    flat,
    queries_of,
    read_csv,
    read_json,
)
from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]
Cells = dict[str, Any]

INTEGERS: list[Any] = [0, 1, 2, 3, 7, 10]
SPARSE: list[Any] = [5, 10**12, 2**53, 2**53 + 1, 2**63 - 1]
WORDS: list[Any] = [
    "home", "O'Hare, Chicago", 'the "Zoo"', "é", "日本", "a b", "x\ny", "home ", "-",
]  # fmt: skip
PLAIN: list[Any] = ["home", "work", "é", "gym"]
NUL: list[Any] = ["a", "a\0", "\0", "b", ""]
SCORES = [0.0, 0.1, 0.25, 0.5, 0.5, 0.9, -1.5, 1e-9]
ODD_SCORES = [float("nan"), float("inf"), -float("inf"), *SCORES]
NAMES = [
    "a", "b", "", "nan", "None", "1", "01", "x,y", 'q"r', "l\nm", "\u202eabc", " a", "é",
    "\u2028",
]  # fmt: skip
WRITTEN = [name for name in NAMES if name]  # an empty cell of CSV or JSON is no group
COLUMNS = ["user", "größe", "a b", "mrr", "x,y"]

# What replaces a target, or an answer, of CSV; `{}` is the right one.
TARGETS = [
    "nan", "NaN", "None", "null", "NULL", "NA", "inf", "true", "", "+{}", "0{}", " {}", "{} ",
]  # fmt: skip
TARGETS += ["1_0", "1e0", "1.5", "-1", "-5", "\uff13", "9223372036854775808", "3,4", "{}.00"]
ANSWERS = ["", "nan", "[1, 2", "[1, None]", "[1, nan]", "[1.5, 2]", "{{1, 2}}"]
ANSWERS += [
    '["1", 2]', "[+1]", "[01]", "[1,,2]", "[1, 2,]", "[[1, 2]]", "[-5]", "[...]", "[1.0, 2]",
]  # fmt: skip
ANSWERS += ["[9223372036854775808]", "[True]", "\ufeff[1, 2]", "[1, 2] "]
# The same of JSON, and of tables with types that can hold it.
JSON_TARGETS: list[Any] = [None, "3", 2.0, 1.5, True, -5, 2**63, "nan", [], [3], {"a": 1}]
JSON_ANSWERS: list[Any] = [None, [None, 1], ["1", 2], "[1, 2]", [[1]]]
JSON_ANSWERS += [3, "x", [True], [-5], [2**63], {"a": 1}, [10**30]]
ROWS_OF_SCORES: list[Any] = [None, [], [0.5], [0.5] * 9, [1, 0, 1], "x", ["0.5"], [None] * 3]


@dataclass(frozen=True)
class Table:
    """A table of predictions that was written.

    Attributes:
        files: the name and the bytes of each file; a frame in memory has none.
        how: how its cells are to be read.
        dirt: what is wrong with it; nothing if it is "".
        cells: the rows, if they cannot be read from the bytes by a plain reader.
        frame: the table in memory, or None.
        row: the file and the number in it of the only row that cannot be read, if there is one.
        twice: whether the first file is named twice.
        policies: the ways to read it that are right.
    """

    files: tuple[tuple[str, bytes], ...]
    how: Meaning
    dirt: str = ""
    cells: tuple[Cells, ...] | None = None
    frame: Any = field(default=None, repr=False)
    row: tuple[str, int] | None = None
    twice: bool = False
    policies: tuple[Policy, ...] = ("strict", "loose")

    def expected(self) -> list[Found]:
        """Return the values that are right; none if the table must be refused."""
        found = []
        for policy in self.policies:
            with contextlib.suppress(RefusedError):
                rows = self.rows_by(policy)
                if self.twice:
                    continue
                for how in self.readings(rows):
                    if policy == "text" and how.candidates is not None:
                        continue  # candidates are numbers
                    with contextlib.suppress(RefusedError):
                        found.append(evaluate(queries_of(rows, how, policy), how))
        return found

    def readings(self, rows: Sequence[Cells]) -> Iterator[Meaning]:
        """Yield how answers can be read; several ways if they do not say which one is odd."""
        yield self.how
        if self.dirt not in ("answer", "float") or self.how.source == "typed":
            return
        lists = [_list_of(row.get("preds")) for row in rows]
        widths = Counter(len(x) for x in lists if any(isinstance(y, float) for y in x))
        if self.how.candidates is None:  # lists of one length are scores if one has a float
            if self.how.kind == "text" or len({*map(len, filter(None, lists))}) > 1:
                return
        elif 2 * widths.total() <= sum(map(bool, lists)):
            yield replace(self.how, candidates=None)
        for width, number in widths.items():
            if number == max(widths.values()):
                yield replace(self.how, candidates=width)

    def rows_by(self, policy: Policy) -> Sequence[Cells]:
        if self.cells is not None:
            return self.cells
        needed = [*self.how.columns.values(), *self.how.groups]
        rows: list[Cells] = []
        for name, data in self.files:
            data = unpacked(name, data)
            data = flat(data) if policy == "loose" else data
            if ".json" in name:
                rows += read_json(data, needed, ".jsonl" in name)
            else:
                rows += read_csv(data, "\t" if ".tsv" in name else ",", needed)
        return rows


def _list_of(cell: Any) -> list[Any]:
    """Return a list, also of JSON in text; an empty one for anything else."""
    with contextlib.suppress(ValueError):
        cell = json.loads(cell) if isinstance(cell, str) else cell
    return cell if isinstance(cell, list) else []


def unpacked(name: str, data: bytes) -> bytes:
    """Return the bytes of a file, which gzip may hold."""
    try:
        return gzip.decompress(data) if name.endswith(".gz") else data
    except (OSError, EOFError) as error:
        raise RefusedError(str(error)) from error


@dataclass
class Rows:
    """Rows that were drawn, by role or group, before they are written."""

    kind: str
    rows: list[Cells]
    several: bool
    groups: list[str]
    width: int | None
    sizes: list[int]

    @property
    def roles(self) -> list[str]:
        """Every role and group."""
        return list(self.rows[0])

    def meaning(self, source: Any, miss: bool) -> Meaning:
        """Return how the rows are to be read."""
        columns = {x: x for x in self.roles if x not in self.groups}
        kind = "text" if self.kind in ("words", "plain", "nul") else "integers"
        return Meaning(source, kind, self.width, columns, tuple(self.groups), miss=miss)

    def parts(self, rows: Sequence[Any]) -> list[Sequence[Any]]:
        """Divide rows into those of each file."""
        ends = np.cumsum(self.sizes).tolist()
        return [rows[end - size : end] for end, size in zip(ends, self.sizes, strict=True)]

    def place(self, row: int, names: Sequence[str]) -> tuple[str, int]:
        """Return the file of a row and its number there."""
        for name, size in zip(names, self.sizes, strict=True):
            if row < size:
                return name, row
            row -= size
        raise IndexError

    def may_be_scores(self, at: int, answer: str) -> bool:
        """Whether an answer with a float is the first one, and the others may be the odd ones."""
        has_float = "." in answer or "nan" in answer
        return has_float and not any(row["preds"] for row in self.rows[:at])


IDS = {"integers": INTEGERS, "sparse": SPARSE, "words": WORDS, "plain": PLAIN, "nul": NUL}


@st.composite
def rows(draw: Draw, kinds: Sequence[str], names: Sequence[str], parts: int = 3) -> Rows:
    """Draw rows of predictions and what is beside them."""
    kind = draw(st.sampled_from(kinds))
    width = draw(st.integers(3, 4)) if kind == "scores" else None
    several = draw(st.booleans())
    groups = draw(st.lists(st.sampled_from(COLUMNS), max_size=2, unique=True))
    beside = draw(st.sets(st.sampled_from(["mask", "exclude"]), max_size=1))
    ids: list[Any] = list(range(width)) if width else IDS[kind]
    score = st.sampled_from(draw(st.sampled_from([SCORES, ODD_SCORES])))

    def row(number: int) -> Cells:
        target: Any = draw(st.sampled_from(ids))
        if several:
            most = draw(st.integers(0, 3)) if number else 2  # one row has two relevant ids
            target = draw(st.lists(st.sampled_from(ids), min_size=most, max_size=most, unique=True))
        if width:
            preds = draw(st.lists(score, min_size=width, max_size=width))
        else:
            preds = draw(st.lists(st.sampled_from(ids), max_size=4))
        found = {"preds": preds, "target": target}
        found |= {name: draw(st.sampled_from(names)) for name in groups}
        if "mask" in beside:
            found["mask"] = draw(st.booleans())
        if "exclude" in beside:
            relevant = target if several else [target]
            free = [x for x in ids if x not in relevant]
            excluded = st.lists(st.sampled_from(free), max_size=2, unique=True)
            found["exclude"] = draw(excluded) if free else []
        return found

    made = [row(i) for i in range(draw(st.integers(1, 6)))]
    if kind == "integers" and draw(st.integers(0, 9)) == 9:
        made[-1]["preds"] = list(range(200))
    order = draw(st.permutations(made))
    cuts = sorted(draw(st.lists(st.integers(0, len(made)), max_size=parts - 1)))
    sizes = np.diff([0, *cuts, len(made)]).tolist()
    return Rows(kind, list(order), several, groups, width, sizes)


# CSV ---------------------------------------------------------------------------------------------


@dataclass
class _Style:
    """How a tool writes CSV."""

    delimiter: str
    end: str
    quotes_all: bool
    lists: str
    mark: bytes
    floats: bool
    tail: str
    separator: str | None

    def cell(self, role: str, value: Any, groups: Sequence[str]) -> str:
        """Write a value as the text of a cell."""
        if role == "mask":
            return str(value) if self.lists == "repr" else str(value).lower()
        if isinstance(value, list):
            if self.separator is not None:
                return self.separator.join(map(str, value))
            return repr(value) if self.lists == "repr" else json.dumps(value)
        if role == "target" and self.floats and abs(value) < 2**53:
            return f"{value}.0"
        return str(value)

    def line(self, cells: Sequence[str], after: str = "") -> str:
        """Write a line; `after` follows each delimiter."""
        return (self.delimiter + after).join(map(self.quoted, cells)) + self.end

    def quoted(self, cell: str) -> str:
        """Quote a cell if it must be, or always."""
        if not self.quotes_all and not {*cell} & {self.delimiter, '"', "\n", "\r"}:
            return cell
        return '"' + cell.replace('"', '""') + '"'


@st.composite
def _styles(draw: Draw, made: Rows) -> _Style:
    bare = made.width is None and made.kind in ("integers", "plain") and draw(st.booleans())
    odd = made.width is not None and any(
        x != x or abs(x) == float("inf") for row in made.rows for x in row["preds"]
    )
    may_be_floats = made.kind in ("integers", "sparse", "scores") and not made.several
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    return _Style(
        draw(st.sampled_from([",", "\t"])),
        end,
        draw(st.booleans()),
        "json" if odd else draw(st.sampled_from(["json", "repr"])),
        draw(st.sampled_from([b"", b"\xef\xbb\xbf"])),
        may_be_floats and draw(st.booleans()),
        draw(st.sampled_from(["", end, "cut"])),
        draw(st.sampled_from([" ", ";", "||"])) if bare and not made.several else None,
    )


OF_LINES = ["quote", "more", "fewer", "all more", "header twice", "header again", "spaces"]
OF_LINES += ["encoding", "cut", "twice", "beside"]


@st.composite
def csv_tables(draw: Draw, dirty: bool) -> Table:
    """Draw a table of CSV or TSV."""
    made = draw(rows(["integers", "integers", "sparse", "words", "plain", "scores"], WRITTEN))
    style = draw(_styles(made))
    roles, names = made.roles, made.groups
    grid = [[style.cell(x, row[x], names) for x in roles] for row in made.rows]
    dirt = draw(_dirt(dirty, ["target", "answer", *OF_LINES]))
    at = draw(st.integers(0, len(grid) - 1))
    policies: tuple[Policy, ...] = ("strict", "loose")
    if dirt in ("target", "answer"):
        new = draw(_odd_cell(dirt, made, grid[at][roles.index("target")]))
        grid[at][roles.index("target" if dirt == "target" else "preds")] = new
        if new[:1] == "0" or new in ("1_0", "true"):
            policies = (*policies, "text")
        others = [row["target"] for i, row in enumerate(made.rows) if i != at]
        if new == "3,4" and all(x == [] for x in others):  # a name where no number is
            policies = (*policies, "text")
    if dirt == "beside":
        _break_beside(draw, roles, names, grid[at])
    if dirt == "header again":
        grid[at] = list(roles)
    lines, header = _lines(draw, style, dirt, roles, grid, at)
    head = style.line(header, " " if dirt == "spaces" and draw(st.booleans()) else "")
    texts = [head + "".join(part) for part in made.parts(lines)]
    if style.tail == "cut":
        texts = [text.removesuffix(style.end) for text in texts]
    else:
        texts = [text + style.tail for text in texts]
    data = [style.mark + text.encode() for text in texts]
    if dirt == "encoding":
        code = draw(st.sampled_from(["utf-16", "latin-1", "cp037"]))
        data = [text.encode(code, "replace") for text in texts]
    kind = ".tsv" if style.delimiter == "\t" else ".csv"
    how = replace(made.meaning("csv", draw(st.booleans())), separator=style.separator)
    table = _files(draw, data, kind, how, dirt)
    is_cell = dirt in ("target", "answer", "beside")
    if dirt == "answer" and made.may_be_scores(at, new):
        is_cell = False
    place = made.place(at, [name for name, _ in table.files]) if is_cell else None
    return replace(table, row=place, policies=policies)


@st.composite
def _odd_cell(draw: Draw, dirt: str, made: Rows, target: str) -> str:
    if dirt == "target":
        # before a list, these make a word
        among = [x for x in TARGETS if not (made.several and x in ("+{}", "0{}"))]
        return str(draw(st.sampled_from(among))).format(target.removesuffix(".0"))
    if made.width:
        cells = [json.dumps(x) for x in ROWS_OF_SCORES]
        return draw(
            st.sampled_from([*cells, "[nan, 0.5, 0.1]", "[0.5 0.1 0.2]", "[0.5, 0.1, 0.2", ""])
        )
    return str(draw(st.sampled_from(ANSWERS))).format()


def _break_beside(
    draw: Draw, roles: Sequence[str], groups: Sequence[str], cells: list[str]
) -> None:
    """Replace a mask, excluded ids or groups by something else, if there are any."""
    odd = {"mask": ["maybe", "", "2", "nan"], "exclude": ["[1, x]", "[-5]", "[1", "x"]}
    odd |= {name: [""] for name in groups}
    for role in odd.keys() & {*roles}:
        cells[roles.index(role)] = draw(st.sampled_from(odd[role]))


def _lines(
    draw: Draw, style: _Style, dirt: str, roles: list[str], grid: list[list[str]], at: int
) -> tuple[list[str], list[str]]:
    """Write the rows as lines, with what is wrong in lines; return them and the header."""
    after = " " if dirt == "spaces" else ""
    header = list(roles)
    if dirt == "header twice":
        header.append(draw(st.sampled_from(roles)))
        grid = [[*row, draw(st.sampled_from(row))] for row in grid]
    if dirt == "all more":
        grid = [[*row, "9"] for row in grid]
    lines = [style.line(row, after) for row in grid]
    if dirt == "more":
        lines[at] = style.line([*grid[at], "9"])
    elif dirt == "fewer":
        lines[at] = style.line(grid[at][:-1])
    elif dirt == "quote":
        column = len(roles) - 1 if draw(st.booleans()) else draw(st.integers(0, len(roles) - 1))
        cells = list(map(style.quoted, grid[at]))
        cells[column] = '"' + grid[at][column]
        lines[at] = style.delimiter.join(cells) + style.end
    return lines, header


def _dirt(dirty: bool, usual: Sequence[str]) -> st.SearchStrategy[str]:
    """Return what draws what is wrong, or nothing."""
    return st.sampled_from(usual) if dirty else st.just("")


def _files(draw: Draw, data: list[bytes], kind: str, how: Meaning, dirt: str) -> Table:
    """Name the files, pack them or not, and cut one of them or name it twice."""
    packed = draw(st.integers(0, 4)) == 0
    if packed:
        data = [gzip.compress(x, 1, mtime=0) for x in data]
    if dirt == "cut":
        last = max(range(len(data)), key=lambda i: len(data[i]))
        data[last] = data[last][: draw(st.integers(0, len(data[last]) - 1))]
    ends = kind + (".gz" if packed else "")
    return Table(
        tuple((f"part {i}{ends}", x) for i, x in enumerate(data)), how, dirt, twice=dirt == "twice"
    )


# JSON --------------------------------------------------------------------------------------------

OF_RECORDS = ["line", "key twice", "no key", "no object", "deep", "cut", "twice", "null group"]


@st.composite
def json_tables(draw: Draw, dirty: bool) -> Table:
    """Draw a table of JSON lines, or of JSON."""
    kinds = ["integers", "integers", "sparse", "words", "nul", "scores"]
    made = draw(rows(kinds, [*WRITTEN, "a\0", "\x000"]))
    is_lines = draw(st.integers(0, 3)) > 0
    # Arrow reads what follows the first 4,096 bytes
    pad = "y" * draw(st.sampled_from([0, 2000])) if is_lines else ""
    dirt = draw(_dirt(dirty, ["target", "answer", "answer", "float", "float", *OF_RECORDS]))
    at = draw(st.integers(0, len(made.rows) - 1))
    if pad and draw(st.booleans()):
        made.rows = made.rows * 2
        made.sizes[-1] += len(made.rows) // 2
    records = [{**row, "pad": pad} if pad else dict(row) for row in made.rows]
    if dirt == "float" and made.kind != "integers":
        dirt = "answer"
    if dirt in ("target", "answer", "float"):
        _replace_value(draw, dirt, made, records[at])
    elif dirt == "null group":
        records[at].update(dict.fromkeys(made.groups, draw(st.sampled_from([None, ""]))))
    elif dirt == "no key":
        del records[at][draw(st.sampled_from(made.roles))]
    dump = json.JSONEncoder(ensure_ascii=draw(st.booleans())).encode
    lines = [dump(x) for x in records]
    if dirt == "line":
        lines[at] = lines[at][: draw(st.integers(1, len(lines[at]) - 1))]
    elif dirt == "key twice":
        lines[at] = lines[at][:-1] + ', "target": 3}'
    elif dirt == "no object":
        lines[at] = draw(st.sampled_from(["[1]", "1", "null", '"x"']))
    elif dirt == "deep":
        lines[at] = lines[at][:-1] + ', "deep": ' + "[" * 3000 + "]" * 3000 + "}"
    end = draw(st.sampled_from(["\n", "\r\n", "\n\n"]))
    mark = draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
    data = []
    for part in made.parts(lines):
        text = end.join(part) if is_lines else "[" + f",{end}".join(part) + "]"
        data.append((mark if part else b"") + text.encode())
    how = made.meaning("json", draw(st.booleans()))
    if made.kind == "nul":  # empty text, and text with NUL, is no id in a file without types
        dirt = dirt or "nul"
    table = _files(draw, data, ".jsonl" if is_lines else ".json", how, dirt)
    is_row = is_lines and dirt in ("target", "answer", "float", "null group", "line", "key twice")
    is_row &= made.kind != "nul"  # another row may be refused
    if dirt in ("answer", "float") and made.may_be_scores(at, repr(records[at]["preds"])):
        is_row = False
    policies: tuple[Policy, ...] = ("strict", "loose")
    if all(i == at or row["target"] == [] for i, row in enumerate(made.rows)):
        policies = (*policies, "text")  # a target of text is then no odd one
    place = made.place(at, [name for name, _ in table.files]) if is_row else None
    return replace(table, row=place, policies=policies)


def _replace_value(draw: Draw, dirt: str, made: Rows, record: Cells) -> None:
    if dirt == "target":
        record["target"] = draw(st.sampled_from(JSON_TARGETS))
        record.update({"exclude": []} if "exclude" in record else {})  # none is the new target
    elif dirt == "float":
        record["preds"] = draw(st.sampled_from([[2.5, 1], [2.0, 1], [1.0]]))
    else:
        record["preds"] = draw(st.sampled_from(ROWS_OF_SCORES if made.width else JSON_ANSWERS))


# Tables with types -------------------------------------------------------------------------------

OF_TYPES = ["null target", "null answer", "null in answer", "width", "null group", "floats", "runs"]
OF_TYPES += ["cut", "twice"]
NO_FILES = ["pandas", "polars", "arrow"]


@st.composite
def typed_tables(draw: Draw, dirty: bool) -> Table:
    """Draw a table of Parquet or Arrow, in files or in memory, or a frame."""
    made = draw(rows(["integers", "sparse", "words", "nul", "scores", "scores"], [*NAMES, "a\0"]))
    form = draw(st.sampled_from([".parquet", ".parquet", ".arrow", ".arrows", *NO_FILES]))
    dirt = draw(_dirt(dirty, OF_TYPES))
    at = draw(st.integers(0, len(made.rows) - 1))
    types = _types(draw, made)
    cells = [dict(row) for row in made.rows]
    if made.width:
        for row in cells:
            row["preds"] = [
                float(x) for x in np.array(row["preds"], types["preds"].to_pandas_dtype())
            ]
        types["preds"] = pa.list_(types["preds"])
    _break_typed(draw, dirt, made, cells[at], types)
    parts = [_arrow(draw, part, types, dirt) for part in made.parts(cells)]
    how = made.meaning("typed", draw(st.booleans()))
    if form in NO_FILES:
        if dirt in ("cut", "twice") or (form == "pandas" and dirt == "runs"):
            dirt = ""
        whole = pa.concat_tables(parts)
        row = ("Table" if form == "arrow" else "DataFrame", at) if "answer" in dirt else None
        return Table((), how, dirt, tuple(cells), _frame(draw, whole, form, made), row)
    written = [_bytes(draw, part, form) for part in parts]
    table = replace(_files(draw, written, form, how, dirt), cells=tuple(cells))
    if dirt == "cut":
        table = replace(table, cells=_left(table, form, cells), how=how)
    is_row = dirt in OF_TYPES[:5]
    return replace(table, row=made.place(at, [name for name, _ in table.files]) if is_row else None)


def _types(draw: Draw, made: Rows) -> dict[str, Any]:
    """Draw the type of each column."""
    integers = [pa.int64()] if made.kind == "sparse" else [pa.int64(), pa.int32(), pa.uint8()]
    ids = pa.string() if made.kind in ("words", "nul") else draw(st.sampled_from(integers))
    lists = draw(st.sampled_from([pa.list_, pa.large_list]))
    types: dict[str, Any] = {"preds": lists(ids), "target": ids, "exclude": lists(ids)}
    if made.width:
        types["preds"] = draw(st.sampled_from([pa.float64(), pa.float32(), pa.float16()]))
        types["exclude"] = lists(pa.int64())
    if made.several:
        types["target"] = lists(ids)
    types |= {"mask": pa.bool_()}
    texts = [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
    types |= {name: draw(st.sampled_from(texts)) for name in made.groups}
    return {name: types[name] for name in made.roles}


def _break_typed(draw: Draw, dirt: str, made: Rows, row: Cells, types: dict[str, Any]) -> None:
    if dirt == "null target":
        row["target"] = None
    elif dirt == "null answer":
        row["preds"] = None
    elif dirt == "null in answer":
        row["preds"] = [*row["preds"][:-1], None]
    elif dirt == "width" and made.width and len(made.rows) > 2:  # of two, either may be the odd one
        row["preds"] = draw(st.sampled_from([[], [0.5], [0.5] * 9]))
    elif dirt == "null group":
        row.update(dict.fromkeys(made.groups))
    elif dirt == "floats" and made.kind == "integers" and not made.several:
        types["target"] = pa.float64()


def _arrow(draw: Draw, cells: Sequence[Cells], types: dict[str, Any], dirt: str) -> Any:
    """Make a table of some rows; its groups or targets may be runs of equal values."""
    columns = {}
    for name, kind in types.items():
        values = [None if row[name] is None else _half(row[name], kind) for row in cells]
        column = pa.array(values, kind)
        if dirt == "runs" and not pa.types.is_nested(kind) and not pa.types.is_dictionary(kind):
            ends = pa.array(range(1, len(cells) + 1), pa.int32())
            column = pa.RunEndEncodedArray.from_arrays(ends, column)
        columns[name] = column
    return pa.table(columns)


def _half(value: Any, kind: Any) -> Any:
    """Return scores of half precision as Arrow takes them."""
    if kind == pa.list_(pa.float16()):
        return [None if x is None else np.float16(x) for x in value]
    return value


def _bytes(draw: Draw, table: Any, form: str) -> bytes:
    file = io.BytesIO()
    if form == ".parquet":
        if any(pa.types.is_run_end_encoded(x) for x in table.schema.types):
            form = ".arrow"
        else:
            pq.write_table(table, file, row_group_size=draw(st.integers(1, 8)))
            return file.getvalue()
    new = pa.ipc.new_file if form == ".arrow" else pa.ipc.new_stream
    with new(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=draw(st.integers(1, 8)))
    return file.getvalue()


def _left(table: Table, form: str, cells: Sequence[Cells]) -> tuple[Cells, ...]:
    """Return the rows of a stream that was cut between two batches, or refuse the table."""
    left = 0
    if form == ".arrows":
        try:
            for name, data in table.files:
                left += pa.ipc.open_stream(unpacked(name, data)).read_all().num_rows
        except (OSError, ValueError, RefusedError):
            return ({},)  # a row without cells is refused below
        return tuple(cells[:left]) if left == len(cells) else ({},)
    return ({},)


def _frame(draw: Draw, table: Any, form: str, made: Rows) -> Any:
    """Return the table in memory, as one of the libraries holds it."""
    if form == "arrow":
        return table
    if form == "polars":
        import polars

        unknown = pa.float16(), pa.list_(pa.float16())
        if any(x in unknown or pa.types.is_run_end_encoded(x) for x in table.schema.types):
            return table
        return polars.from_arrow(table)
    frame = pd.DataFrame(
        {x: pd.Series(table[x].to_pylist(), dtype=object) for x in table.schema.names}
    )
    if draw(st.booleans()):
        frame["preds"] = [
            x if x is None or None in x else np.array(x, float if made.width else object)
            for x in frame["preds"]
        ]
    return frame.infer_objects()
