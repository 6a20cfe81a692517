"""What a cell is: each row of the table in `docs/files.md` is read as the page says."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from table_forms import evaluated, written_file

WORDS = "the id|a name|no id|missing|an error|several ids|a list|a score"


class Form(NamedTuple):
    """A form of tables: how a table is made of two rows, and how it holds ids."""

    table: Callable[[list[tuple[Any, Any]], Path], Any]
    id_: Callable[[int], Any]
    one: Callable[[int], Any]  # a list of one id
    answer: Callable[[Any], Any]  # a cell as an answer
    named: Callable[[Any], Any]  # an answer that is the name of a target


def _csv(rows: list[tuple[Any, Any]], folder: Path) -> Path:
    file = io.StringIO(newline="")
    csv.writer(file, lineterminator="\n").writerows([("preds", "target"), *rows])
    return written_file(file.getvalue(), folder)


def _json(rows: list[tuple[Any, Any]], folder: Path) -> Path:
    return written_file("\n".join(f'{{"preds": {x}, "target": {y}}}' for x, y in rows), folder)


def _typed(preds: Any, target: Any) -> Callable[[list[tuple[Any, Any]], Path], Any]:
    def table(rows: list[tuple[Any, Any]], _: Path) -> Any:
        answers, targets = zip(*rows, strict=True)
        return pa.table({"preds": pa.array(answers, preds), "target": pa.array(targets, target)})

    return table


def _same(cell: Any) -> Any:
    return cell


def _listed(cell: Any) -> list[Any]:
    return [cell]


def lists_of(kind: Any, target: Any = None) -> Form:
    """Lists of a type beside targets of it, or of another one."""
    target = target or kind
    id_, one = IDS.get(target, int), IDS.get(kind, int)
    return Form(_typed(pa.list_(kind), target), id_, lambda x: [one(x)], _listed, _listed)


TEXT, INTEGERS, FLOATS, BOOLS = pa.string(), pa.int64(), pa.float64(), pa.bool_()
OBJECTS = pa.struct({"id": INTEGERS})
#: by type that is no number, how it holds an id
IDS: dict[Any, Callable[[int], Any]] = {TEXT: str, BOOLS: bool, OBJECTS: lambda x: {"id": x}}
CSV = Form(_csv, str, "[{}]".format, _same, lambda x: json.dumps([x]))
JSON = Form(_json, str, "[{}]".format, _same, "[{}]".format)
# lists that are written as text, beside text
AS_TEXT = Form(_typed(TEXT, TEXT), str, "[{}]".format, _same, _same)
TEXTS = (AS_TEXT, lists_of(TEXT))

FAR = 2**64
LISTS = ["[7, 3]", "['7', '3']", "[7 3]"]
ODD = ["+1", "1e3", "7.5"]


def each(forms: Any, cells: list[Any], **options: Any) -> list[tuple[Form, Any, dict[str, Any]]]:
    """Each cell in each form, which is looked for as `id_`, of a list the second id; 7 if none."""
    forms = [forms] if isinstance(forms, Form) else forms
    return [(form, cell, options) for form in forms for cell in cells]


#: By row of the page: cells of CSV and JSON, and of columns with a type.
CELLS: dict[str, tuple[list[Any], list[Any]]] = {
    f"`7`, `{FAR}`": (
        each(CSV, ["7"]) + each(JSON, ["7", '"7"'])
        + each(CSV, [f"{FAR}"], id_=FAR) + each(JSON, [f"{FAR}", f'"{FAR}"'], id_=FAR),
        each(TEXTS, ["7"]) + each(lists_of(INTEGERS), [7]) + each(TEXTS, [f"{FAR}"], id_=FAR)
        + each(lists_of(pa.uint64()), [FAR - 1], id_=FAR - 1),
    ),
    "`7.0`": (
        each(CSV, ["7.0"]) + each(JSON, ["7.0", '"7.0"']),
        each(TEXTS, ["7.0"]) + each(lists_of(INTEGERS, FLOATS), [7.0], of="target")
        + each(lists_of(FLOATS, INTEGERS), [7.0], of="answer", id_=0),
    ),
    "`Zoo`, `007`": (
        each(CSV, ["Zoo", "007"]) + each(JSON, ['"Zoo"', '"007"']), each(TEXTS, ["Zoo", "007"]),
    ),
    "`-7`": (
        each(CSV, ["-7"]) + each(JSON, ["-7", '"-7"']),
        each(TEXTS, ["-7"]) + each(lists_of(INTEGERS), [-7]),
    ),
    "`-1`; -100 with `--answers padding=-100`": (
        each(CSV, ["-1"]) + each(JSON, ["-1", '"-1"'])
        + each(CSV, ["-100"], padding=-100) + each(JSON, ["-100", '"-100"'], padding=-100),
        each(TEXTS, ["-1"]) + each(TEXTS, ["-100"], padding=-100)
        + each(lists_of(INTEGERS), [-1]) + each(lists_of(INTEGERS), [-100], padding=-100),
    ),
    "empty": (each(CSV, [""]) + each(JSON, ['""']), each(TEXTS, [""])),
    "`null`": (each(JSON, ["null"]), each([*TEXTS, lists_of(INTEGERS)], [None])),
    "`nan`, `None`": (
        each(CSV, ["nan", "None"]) + each(JSON, ['"nan"', '"None"', "NaN"]),
        each(TEXTS, ["nan", "None"]) + each(lists_of(INTEGERS, FLOATS), [math.nan], of="target"),
    ),
    "`+1`, `1e3`, `7.5` as text": (
        each(CSV, ODD) + each(JSON, [f'"{x}"' for x in ODD]), each(TEXTS, ODD),
    ),
    '`true`, `7.5`, `{"id": 7}` in JSON': (
        each(JSON, ["true", "7.5", '{"id": 7}']),
        each(lists_of(INTEGERS, FLOATS), [7.5], of="target")
        + each(lists_of(INTEGERS, BOOLS), [True], of="target")
        + each(lists_of(BOOLS, INTEGERS), [True], of="answer")
        + each(lists_of(INTEGERS, OBJECTS), [{"id": 7}], of="target")
        + each(lists_of(OBJECTS, INTEGERS), [{"id": 7}], of="answer"),
    ),
    "`[7, 3]`, `['7', '3']`, `[7 3]`": (
        each(CSV, LISTS, id_=3) + each(JSON, ["[7, 3]", *map(json.dumps, LISTS)], id_=3),
        each(AS_TEXT, LISTS, id_=3) + each(lists_of(TEXT), LISTS),
    ),
    "`(7, 3)`": (
        each(CSV, ["(7, 3)"], id_=3) + each(JSON, ['"(7, 3)"'], id_=3),
        each(AS_TEXT, ["(7, 3)"], id_=3),
    ),
    "`[gone]`": (each(CSV, ["[gone]"]) + each(JSON, ['"[gone]"']), each(AS_TEXT, ["[gone]"])),
}  # fmt: skip


class Reading:
    """A cell below a row with a hit, and what it is in the words of the page."""

    def __init__(
        self, folder: Path, form: Form, cell: Any, id_: int = 7, padding: int = -1
    ) -> None:
        self.folder, self.form, self.cell = folder, form, cell
        self.first = form.one(id_), form.id_(id_)
        self.options = {} if padding == -1 else {"padding": padding}

    def read(self, answer: Any, target: Any, **options: Any) -> Any:
        """Evaluate both rows; None if the second one is an error."""
        rows = self.form.table([self.first, (answer, target)], self.folder)
        try:
            return evaluated(rows, **self.options, **options)
        except ValueError as error:
            if not re.search("`(preds|target)`", str(error)):
                raise
            return None

    def target(self) -> str:
        """What the cell is as a target."""
        found = self.read(self.first[0], self.cell)
        if found is None:
            found = self.read(self.first[0], self.cell, on_missing="miss")
            return "missing" if found and found.card.get("missing_targets") else "an error"
        if "mrr" not in found.values:  # but mrr_at_1, beside recall
            return "several ids"
        return "the id" if found.values["mrr"] == 1 else self.name() or "read as another id"

    def answer(self) -> str:
        """What it is as an answer."""
        answer, target = self.form.answer(self.cell), self.first[1]
        found = self.read(answer, target)
        if found is None:
            found = self.read(answer, target, on_error="miss")
            return "an error" if found is None or found.card["broken_answers"] else "a name"
        if found.card["candidates"]:
            return "a score"
        ranks = {1.0: "the id", 3 / 4: "a list"}
        return ranks.get(found.values["mrr"]) or self.name() or "no id"

    def name(self) -> str:
        """Whether the same text is a hit."""
        found = self.read(self.form.named(self.cell), self.cell)
        return "a name" if found and found.values["mrr"] == 1 else ""


@pytest.fixture
def said(repository: Path) -> dict[str, list[str]]:
    """By the first cell of a row of the page: what a target is, an answer, and a typed value."""
    page = (repository / "docs" / "files.md").read_text("utf-8")
    table = page.partition("### What a cell is\n")[2].strip().partition("\n\n")[0]
    rows = (line[2:-2].split(" | ") for line in table.split("\n")[2:])
    return {first: others for first, *others in rows}


def test_the_page_has_these_rows(said: dict[str, list[str]]) -> None:
    """No row of the page is without cells."""
    assert [*said] == [*CELLS]


@pytest.mark.filterwarnings("ignore:The .* have the id '007', and")  # the other cells have 7
@pytest.mark.slow
@pytest.mark.parametrize("row", CELLS)
def test_a_cell_is_what_the_page_says(row: str, said: dict[str, list[str]], tmp_path: Path) -> None:
    """As a target and as an answer, in CSV and JSON; and in columns with types."""
    target, answer, typed = (set(re.findall(WORDS, says)) for says in said[row])
    if "alike" in said[row][2]:
        typed |= target | answer
    texts, columns = CELLS[row]
    for form, cell, options in texts:
        reading = Reading(tmp_path, form, cell, **options)
        assert ({reading.target()}, {reading.answer()}) == (target, answer), cell
    found = set[str]()
    for form, cell, options in columns:
        kept = {x: y for x, y in options.items() if x != "of"}
        reading = Reading(tmp_path, form, cell, **kept)
        of = options.get("of", "target answer").split()
        found |= {getattr(reading, x)() for x in of}
    assert found == typed


def test_what_the_page_says_below_the_table(tmp_path: Path) -> None:
    """Of names among integers, of floats in lists, and of ids that a vocabulary lists."""

    def reciprocal(*rows: tuple[str, str], **options: Any) -> float:
        """Return that of the rank of the last row, below hits."""
        found = evaluated(_json([*rows], tmp_path), **options)
        assert (found.card.get("broken_answers", 0), found.card["candidates"]) == (0, None)
        return float(found.values["mrr"] * len(rows) - len(rows) + 1)

    assert reciprocal(("[7]", "7"), ('["Zoo", 7]', "7"), on_error="miss") == 1 / 2
    assert reciprocal(("[7]", "7"), ("[3]", "3"), ("[3, 7.0]", "7")) == 1 / 2
    assert reciprocal(('["a"]', '"a"'), ('["1e3", "b"]', '"b"')) == 1 / 2
    found = evaluated(_json([("[0.2, 7.0]", "1"), ("[0, 1]", "0")], tmp_path))
    assert (found.values["acc_at_1"], found.card["candidates"]) == (1 / 2, 2)
    words = ["nan", "1e3", "-7", "a"]
    rows = [(f'"{x}"', f'"{x}"') for x in words]
    assert evaluated(_json(rows, tmp_path), vocabulary=words).values["acc_at_1"] == 1


@pytest.mark.parametrize("cell", [" 3", "3 ", "7  3", " 7 3 "])
@pytest.mark.parametrize("column", ["preds", "target"])
def test_an_empty_piece_of_split_text_is_an_error(cell: str, column: str, tmp_path: Path) -> None:
    """It would be a second target, or an answer that takes a rank."""
    path = tmp_path / "split.csv"
    row = {"preds": "3", "target": "3", column: cell}
    path.write_text(f"preds,target\n{row['preds']},{row['target']}\nb a,a\n", "utf-8")
    remedy = "write one separator between two ids, and none before the first or after the last"
    with pytest.raises(ValueError, match=rf"row 0 .* in `{column}`, .*; {remedy}"):
        evaluated(path, answers={"separator": " "})
