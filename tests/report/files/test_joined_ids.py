"""Ids that were joined wrongly are read rightly, refused or warned of: no misses in silence."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from nextloc_metrics.report import Source, evaluate

pytestmark = pytest.mark.slow  # the hostile laws read files, too, and take less

LISTS = {
    "letters": [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]],
    "names": [["Old Town", "b c", "c"], ["b c", "c", "Old Town"], ["c", "Old Town", "b c"]],
    "numbers": [[1, 2, 3], [2, 3, 1], [3, 1, 2]],
    "zeros": [["0744", "0568", "01"], ["0568", "01", "0744"], ["01", "0744", "0568"]],
}
MARKS = [" ", "|", ",", ";", "/", "\t", " | ", ", ", "\n", "::", "-", " > ", "+", "_", " and "]
WAYS: dict[str, Any] = {
    "text": lambda ids, mark: mark.join(ids),
    "quoted": lambda ids, mark: mark.join(f"'{x}'" for x in ids),
    "brackets": lambda ids, mark: f"[{mark.join(ids)}]",
    "one item": lambda ids, mark: f"['{mark.join(ids)}']",
    "one item of JSON": lambda ids, mark: f'["{mark.join(ids)}"]',
    "items": lambda ids, mark: "[" + mark.join(f"'{x}'" for x in ids) + "]",
    "items of JSON": lambda ids, mark: "[" + mark.join(f'"{x}"' for x in ids) + "]",
    "tuple": lambda ids, mark: "(" + mark.join(f"'{x}'" for x in ids) + ")",
    "set": lambda ids, mark: "{" + mark.join(ids) + "}",
}


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mark", MARKS)
def test_no_joined_ids_are_misses_in_silence(
    mark: str, way: str, kind: str, tmp_path: Path
) -> None:
    """The first id of each list is the target: MRR is 1, or there is an error or a warning."""
    lists = 4 * LISTS[kind]
    cells = [WAYS[way]([*map(str, x)], mark) for x in lists]
    table = pd.DataFrame({"preds": cells, "target": [x[0] for x in lists]})
    table.to_csv(tmp_path / "lists.csv", index=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value = evaluate(tmp_path / "lists.csv", k=1).values["mrr"]
        except ValueError:
            return
    assert value == 1.0 or "is the target of any query" in str(caught[0].message)


@pytest.mark.parametrize("mark", [" ", "|", "/", "-", "_", " > "])
def test_items_of_arrow_are_not_split(mark: str) -> None:
    """Lists of one text in a typed table have no cell that a separator could split."""
    lists = 4 * LISTS["letters"]
    table = pd.DataFrame({"preds": [[mark.join(x)] for x in lists]})
    table["target"] = [x[0] for x in lists]
    with pytest.raises(ValueError, match="write each as an item of its own"):
        evaluate(table, k=1)


def test_names_with_marks_are_ids(tmp_path: Path) -> None:
    """Single answers such as `b c` beside a target `c` are ids if any of them is a target."""
    answers = ["b c", "Old Town", "a-c", "c/d", "Old Town", "b c", "c", "e_c", "f c", "g c"]
    targets = ["b c", "c", "c", "c", "b c", "Old Town", "b c", "c", "c", "c"]
    pd.DataFrame({"preds": answers, "target": targets}).to_csv(tmp_path / "a.csv", index=False)
    assert evaluate(tmp_path / "a.csv", k=1).values["acc_at_1"] == 0.1


@pytest.mark.parametrize("container", ["csv", "pandas"])
def test_ids_of_two_systems_are_warned_of(container: str, tmp_path: Path) -> None:
    """`loc_3` is not `p3`; if one id of any list is the target of a query, there is no warning."""
    table: Any = pd.DataFrame({"preds": [["loc_1", f"loc_{x}"] for x in range(12)]})
    table["target"] = [f"p{x}" for x in range(12)]
    for number in (12, 9):  # of few queries, all may be misses
        found: Any = table[:number]
        if container == "csv":
            found.to_csv(tmp_path / "a.csv", index=False)
            found = tmp_path / "a.csv"
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert evaluate(found, k=1).values["mrr"] == 0
        said = [str(x.message) for x in caught]
        assert any("No id of 12 lists" in x and "loc_0" in x for x in said) == (number == 12)
    table.at[3, "preds"] = ["loc_1", "p0"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert evaluate(table, k=1).values["mrr"] == 0


def test_items_of_another_table_are_warned_of() -> None:
    """So are items whose targets lie apart."""
    rows = pd.DataFrame({"user": range(12), "item": [f"loc_{x}" for x in range(12)], "rank": 1})
    truth = pd.DataFrame({"user": range(12), "item": [str(x) for x in range(12)]})
    with pytest.warns(UserWarning, match="No id of 12 lists is the target of any query"):
        evaluate(Source(rows, truth=truth, query="user", item="item", rank="rank"), k=1)


def test_nul_joins_no_ids() -> None:
    """A name that ends with NUL is a wrong answer, as nobody separates names so."""
    table = pd.DataFrame({"preds": [["a\0"]], "target": [["a", "\0"]]})
    assert evaluate(Source(table), k=1).values["hit_rate_at_1"] == 0.0
