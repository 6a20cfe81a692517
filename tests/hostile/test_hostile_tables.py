"""The law for tables of predictions, through each public door."""

from __future__ import annotations

import json
import math
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hostile_law import attempt, compares_with_oracle, contents, found_of, quiet
from hostile_plain import CUTS, Found, same
from hostile_tables import Table, csv_tables, json_tables, typed_tables, unpacked
from hypothesis import event
from hypothesis import strategies as st

from command import main
from nextloc_metrics import report
from table_calls import evaluate_table, read_table

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("pandas")

FORMATS = csv_tables, json_tables, typed_tables
DOORS = ("table", "read", "command")


def options_of(table: Table) -> dict[str, Any]:
    """Return the arguments that say how a table is to be read."""
    how = table.how
    named = {x: how.columns[x] for x in ("mask", "exclude") if x in how.columns}
    return {
        **named,
        "groups": list(how.groups),
        "answers": {"separator": how.separator},
        "on_error": "miss" if how.miss else "raise",
    }


def by_python(table: Table, source: Any, door: str) -> Found:
    """Evaluate a table by `evaluate`, or by `read` and `evaluate`."""
    options = options_of(table)
    if door == "table":
        return found_of(evaluate_table(source, k=CUTS, **options))
    read = read_table(source, **options)
    beside = {"groups": read.groups, "mask": read.mask, "exclude": read.exclude}
    found = found_of(report.evaluate(read.preds, read.target, k=CUTS, **beside))
    return replace(found, broken=read.missed if table.how.miss else 0)


def by_command(table: Table, source: str, folder: Path) -> Found | Exception:
    """Evaluate a table by the command line, which writes its counts and values."""
    options = options_of(table)
    command = ["score", source, "--k", "1,3", "--format", "json", "--on-error", options["on_error"]]
    command += [
        x for name in ("mask", "exclude") if name in options for x in (f"--{name}", options[name])
    ]
    if table.how.separator is not None:
        command += ["--answers", f"separator={table.how.separator}"]
    command += [x for name in table.how.groups for x in ("--group", name)]
    command += ["--save", str(folder / "out.npz"), "--out", str(folder / "out.json")]
    before = contents(folder)
    shown = CliRunner().invoke(main, command)
    if shown.exit_code:
        assert isinstance(shown.exception, SystemExit), shown.exception
        assert contents(folder) == before, "an error has left files"
        return ValueError(shown.stderr)
    made = contents(folder)
    assert set(made) - set(before) == {"out.npz", "out.json"}
    read = json.loads(made["out.json"])
    groups = {
        (kind, group): (
            next(iter(values.values()))["queries"],
            {name: _number(x["value"]) for name, x in values.items()},
        )
        for kind, of_kind in read.get("groups", {}).items()
        for group, values in of_kind.items()
    }
    card = read["card"]
    values = {x: _number(y["value"]) for x, y in read.items() if x not in ("card", "groups")}
    with quiet():
        assert report.merge([folder / "out.npz"]).card["queries"] == card["queries"]
    return Found(values, groups, card["queries"], card.get("broken_answers", 0))


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def check(table: Table, door: str) -> bool:
    """Hold one table and one door to the law; return whether values were compared."""
    expected = table.expected()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        for file, data in table.files:
            (folder / "in" / file).write_bytes(data)
        found = _through(table, door, folder)
    event(f"{door}: {'refused' if isinstance(found, Exception) else 'read'}")
    if isinstance(found, Exception):
        assert table.dirt, f"a clean table is refused: {found}"
        _check_message(table, door, str(found))
        return False
    assert any(same(found, x) for x in expected), (
        f"{table.dirt or 'clean'}: got {found}, expected {expected or 'an error'}"
    )
    return True


def _through(table: Table, door: str, folder: Path) -> Found | Exception:
    inside = folder / "in"
    files = [inside / file for file, _ in table.files]
    if table.twice:
        files.append(files[0])
    source: Any = files if len(files) > 1 else files[0] if files else table.frame
    if table.frame is not None or table.twice:  # the command reads the folder
        door = "table"
    if door == "command":
        one = str(files[0]) if len(files) == 1 else str(inside)
        return by_command(table, one, folder)
    before = contents(folder)
    found = attempt(lambda: by_python(table, source, door))
    assert contents(folder) == before
    return found


def _check_message(table: Table, door: str, message: str) -> None:
    """Check that a message names the file, and the row or line if one cannot be read."""
    if table.files:
        assert any(word in message for word in ("part ", "`")), message
    if table.row is None or door != "table":  # the command counts lines, and arrays have no files
        return
    file, row = table.row
    if row == 0:  # the first row of a file may say what the others have to be
        return
    place = f"row {row}"
    if ".jsonl" in file:  # a line that is no record has no row
        lines = unpacked(file, dict(table.files)[file]).splitlines()
        place += f"|line {[i for i, line in enumerate(lines, 1) if line.strip()][row]}"
    assert re.search(rf"\b({place})\b", message), f"expected {place} of {file}: {message}"


@compares_with_oracle(8, lambda dirty: (csv_tables(dirty), st.sampled_from(DOORS)))
def test_csv(table: Table, door: str) -> bool:
    """CSV and TSV as pandas, `csv` and people write them."""
    return check(table, door)


@compares_with_oracle(8, lambda dirty: (json_tables(dirty), st.sampled_from(DOORS)))
def test_json(table: Table, door: str) -> bool:
    """JSON lines and JSON."""
    return check(table, door)


@compares_with_oracle(16, lambda dirty: (typed_tables(dirty), st.sampled_from(DOORS)))
def test_typed(table: Table, door: str) -> bool:
    """Parquet, Arrow files and streams, and frames of pandas, polars and Arrow."""
    return check(table, door)


@pytest.mark.extra  # takes many tables
@compares_with_oracle(
    150, lambda dirty: (st.one_of([x(dirty) for x in FORMATS]), st.sampled_from(DOORS))
)
def test_many_tables(table: Table, door: str) -> bool:
    """Of all formats, with what is rarely drawn."""
    return check(table, door)
