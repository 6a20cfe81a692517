"""Integers below zero, names after many integers, and what an error advises."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from table_forms import evaluated

from nextloc_metrics import report


def lines(folder: Path, *rows: tuple[Any, Any]) -> Path:
    """Write predictions and targets as JSON lines."""
    path = folder / "a.jsonl"
    text = "".join(json.dumps({"preds": x, "target": y}) + "\n" for x, y in rows)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("id_", [-7, "-7", -(2**62) - 5, str(-(10**20))])
def test_an_integer_below_zero_is_no_id(id_: Any, tmp_path: Path) -> None:
    """Neither as a number nor in quotes, however far it is below zero."""
    for rows in ([([id_, 3], 3), ([3], 3)], [([3], id_), ([3], 3)]):
        with pytest.raises(ValueError, match=r"line 1, row 0 of .* must hold ids of locations"):
            evaluated(lines(tmp_path, *rows))


def test_text_of_a_column_with_a_type_is_a_name() -> None:
    """In real lists, and in lists that are written as text."""
    for preds in ([["-7", "a"], ["b"]], ["['-7', 'a']", "['b']"], ['["-7", "a"]', '["b"]']):
        found = evaluated(pd.DataFrame({"preds": preds, "target": ["-7", "a"]}))
        assert found.values["acc_at_1"] == 0.5


@pytest.mark.parametrize("name", ["7.0", "-7", "abc"])
def test_a_name_in_a_list_of_text_beside_integers_is_named(name: str) -> None:
    """The column of answers is text with lists, and that of the targets has integers."""
    rows = pd.DataFrame({"preds": [f"['{name}', 3]", "[3]"], "target": [3, 3]})
    with pytest.raises(
        ValueError, match=r"row 0 of DataFrame must hold ids of locations in `preds`"
    ):
        evaluated(rows)


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_name_behind_many_integers_is_a_name(workers: int, tmp_path: Path) -> None:
    """The number of locations is not used beside text, wherever the first name stands."""
    path = lines(tmp_path, *[([3], 3)] * 1500, (["Zoo"], "Zoo"))
    other = lines(tmp_path, *[([3], 4)] * 3)
    other.rename(tmp_path / "b.jsonl")
    lines(tmp_path, *[([3], 3)] * 1500, (["Zoo"], "Zoo"))
    for options in ({}, {"num_locations": 10}):
        found = evaluated([tmp_path / "b.jsonl", path], workers=workers, **options)
        assert found.values["acc_at_1"] == pytest.approx(1501 / 1504)
    words = [*map(str, range(5)), "Zoo"]
    assert evaluated(path, vocabulary=words).values["acc_at_1"] == 1


@pytest.mark.parametrize(("rows", "says", "not_said"), [
    ([(["a"], 3), ([3], 3)], "count names as misses", "must be a list"),
    ([([-7], 3), ([3], 3)], "'padding': -100", "must be a list"),
    ([([3], -7), ([3], 3)], "an id is 0 or more", "on_error"),
])  # fmt: skip
def test_the_remedy_fits_the_cell(
    rows: list[tuple[Any, Any]], says: str, not_said: str, tmp_path: Path
) -> None:
    """A list that can be read is not called another thing."""
    with pytest.raises(ValueError, match=says) as error:
        evaluated(lines(tmp_path, *rows))
    assert not_said not in str(error.value)


@pytest.mark.parametrize("cell", ["['-5', 7]", "['-5', '7']", "-5"])
def test_a_name_below_zero_is_what_it_is_written_as(cell: str, tmp_path: Path) -> None:
    """In a column of text with a type it is a name, alone and in lists of one kind or of two."""
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"preds": [cell], "target": ["b"]}), path)
    assert (report.read(path).vocabulary or ())[:2] == ("b", "-5")


@pytest.mark.parametrize(("target", "is_written"), [([3, 5], False), ([[3], [5, 3]], True)])
def test_a_stream_with_integers_as_targets_is_not_written_to_the_disk(
    target: list[Any], is_written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only targets that may be several are read again."""
    table = pa.table({"preds": [[3, 5], [3, 5]], "target": target})
    expected = evaluated(table).values
    written: list[Any] = []
    folder = tempfile.TemporaryDirectory

    def note(*args: Any, **options: Any) -> Any:
        written.append(args)
        return folder(*args, **options)

    monkeypatch.setattr(tempfile, "TemporaryDirectory", note)
    assert evaluated(table.to_reader()).values == expected
    assert bool(written) == is_written
