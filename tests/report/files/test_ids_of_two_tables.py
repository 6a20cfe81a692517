"""Ids of two tables meet as keys, or an error says why they cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from doors import evaluated

ITEMS: dict[str, Any] = {"query": "u", "item": "item", "score": "s"}
LISTS: dict[str, Any] = {"query": "u"}


def frames(items: list[Any], target: list[Any]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two items of each of two queries, the first one best, and the truth."""
    rows = {"u": [1, 1, 2, 2], "item": items, "s": [0.9, 0.1, 0.9, 0.1]}
    return pd.DataFrame(rows), pd.DataFrame({"u": [1, 2], "target": target})


def as_files(folder: Path, *tables: pd.DataFrame) -> list[Path]:
    """Write tables to CSV."""
    paths = [folder / f"{i}.csv" for i in range(len(tables))]
    for table, path in zip(tables, paths, strict=True):
        table.to_csv(path, index=False)
    return paths


def test_zeros_in_front_are_no_misses_in_silence(tmp_path: Path) -> None:
    """The item 0030 does not meet the target 30: in CSV, and as text beside integers."""
    rows, truth = frames(["0030", "5", "7", "0030"], [30, 7])
    files = as_files(tmp_path, rows, truth)
    with pytest.raises(ValueError, match=r"line 2, row 0 of .*0\.csv must hold an integer.*'0030'"):
        evaluated(files[0], truth=files[1], **ITEMS)
    found = evaluated(files[0], truth=files[1], **ITEMS, on_error="miss")
    assert (found.values["acc_at_1"], found.values["mrr"]) == (0.5, 0.5)
    with pytest.raises(
        ValueError, match=r"got text such as '0030' in `item`.* integers such as 30"
    ):
        evaluated(rows, truth=truth, **ITEMS)
    lists = pd.DataFrame({"u": [1, 2], "preds": [["0030"], ["7"]]})
    with pytest.raises(ValueError, match=r"got text such as its lists in `preds`.* such as 30"):
        evaluated(lists, truth=truth, **LISTS)


def test_a_name_beside_integers_is_a_name_where_a_target_is_one(tmp_path: Path) -> None:
    """Each id is read by itself; a name among the targets makes no integer a name."""
    rows, truth = frames(["home", "7", "7", "home"], ["home", 7])
    files = as_files(tmp_path, rows, truth)
    assert evaluated(files[0], truth=files[1], **ITEMS).values["acc_at_1"] == 1


@pytest.mark.parametrize("target", [2**63, 2**64 + 5, -(2**62)])
def test_far_integers_are_ids(target: int, tmp_path: Path) -> None:
    """Those that are beyond 64 bits, too; one below 0 is none."""
    rows, truth = frames([target, 5, 7, 5], [target, 7])
    files = as_files(tmp_path, rows, truth)
    if target < 0:
        with pytest.raises(ValueError, match=rf"line 2, row 0 of .* must hold .*'{target}'"):
            evaluated(files[0], truth=files[1], **ITEMS)
        return
    assert evaluated(files[0], truth=files[1], **ITEMS).values["acc_at_1"] == 1


def test_a_missing_target_beside_integers_of_a_vocabulary() -> None:
    """The items are positions in the vocabulary, and another item is a miss that keeps its rank."""
    rows, truth = frames([40, 7, 9, 5], [7, 5])
    found = evaluated(rows, truth=truth, **ITEMS, vocabulary=[5, 7, 9])
    assert found.values["mrr"] == 0.5
    assert found.card["lists_with_other_ids"] == 1
    truth.loc[0, "target"] = None
    found = evaluated(rows, truth=truth, **ITEMS, vocabulary=[5, 7, 9], on_missing="miss")
    assert found.values["mrr"] == 0.25
    assert found.card["missing_targets"] == 1
