"""Predictions and truth in two tables, of two kinds of files: the values of plain Python.

A law in random tables: rows in any order, queries that are missing and others that nobody asked,
tied scores, repeated items, gaps between ranks, several targets, grades, keys of one column or two,
keys and ids that are numbers, text, or text that looks like numbers.
"""

from __future__ import annotations

import random
import warnings
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hostile_plain import MEASURES as OF_ORACLE

from hostile.test_hostile_forms import CONTAINERS, Rows
from metric_entries import score_of
from oracles import ranks
from table_calls import evaluate_table

MEASURES = ["acc@1", "acc@3", "mrr", "precision@3", "recall@3", "ndcg@3"]
WRITTEN = {"numbers": int, "text": "loc {}".format, "digits": "0{}".format}

#: A query's items, best first, in blocks that are tied; None is a gap between ranks.
Blocks = list[list[int | None]]


def query_of(blocks: Blocks, grades: dict[int, float]) -> ranks.Query:
    """A query as the oracle takes it; an item that occurs again is not found again."""
    seen: set[int | None] = set()
    found = []
    for block in blocks:
        found.append(tuple(0.0 if x in seen else grades.get(x, 0.0) for x in block))  # type: ignore[arg-type]
        seen.update(block)
    missing = tuple(grade for x, grade in grades.items() if grade > 0 and x not in seen)
    return ranks.Query(tuple(found), missing, sum(map(len, blocks)), is_list=True)


def expected(asked: dict[Any, dict[int, float]], ranked: dict[Any, Blocks]) -> dict[str, float]:
    """The mean over queries, of which those without a relevant item score 0."""
    queries = [query_of(ranked.get(key, []), grades) for key, grades in asked.items()]
    found = {}
    for name in (x.replace("@", "_at_") for x in MEASURES):
        metric, k = OF_ORACLE[name]
        found[name] = score_of(metric).of_queries(queries, k=k, empty_target_action="neg")
    return found


def columns(draw: random.Random, names: list[str], rows: list[tuple[Any, ...]]) -> Rows:
    """Rows in any order, as columns."""
    draw.shuffle(rows)
    return {x: list(y) for x, y in zip(names, zip(*rows, strict=True), strict=True)}


def once(blocks: Blocks) -> Blocks:
    """Keep each item of a query at its best score."""
    seen: set[int | None] = set()
    found = []
    for block in blocks:
        found.append([x for x in dict.fromkeys(block) if x not in seen])
        seen.update(block)
    return [block for block in found if block]


def blocks_of(draw: random.Random, form: str) -> Blocks:
    """Items of a query; some repeat, and ranks may have gaps."""
    items: list[int | None] = [*draw.sample(range(9), draw.randint(1, 6))]
    kind = draw.choice(["plain", "repeats", "gaps" if form == "rank" else "plain"])
    if kind == "repeats":
        items.insert(draw.randint(1, len(items)), items[0])
    if kind == "gaps":
        items.insert(draw.randrange(len(items)), None)
    return [[x] for x in items]


def rows_of(form: str, key: Any, blocks: Blocks, first: int, name: Any) -> list[tuple[Any, ...]]:
    """The rows of a query: a list, or a row per item with its rank or score."""
    if form == "list":
        return [(*key, [name(x) for block in blocks for x in block])]
    if form == "score":
        return [(*key, name(x), 1 - i / 8) for i, block in enumerate(blocks) for x in block]
    ranks = enumerate((x for block in blocks for x in block), first)
    return [(*key, name(x), rank) for rank, x in ranks if x is not None]


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(x, marks=pytest.mark.extra) for x in range(1, 6))]
)
@pytest.mark.parametrize(
    ("form", "container"), list(zip(["score", "rank", "list"] * 2, CONTAINERS, strict=True))
)
def test_two_tables_have_the_values_of_plain_python(
    form: str, container: str, seed: int, tmp_path: Path
) -> None:
    """The table of the truth is of any kind, and so are keys and ids."""
    draw = random.Random(f"{form} {container} {seed}")
    query = draw.choice([["user"], ["user", "day"]])
    key_of, name = (WRITTEN[draw.choice([*WRITTEN])] for _ in range(2))
    keys = [(user, day)[: len(query)] for user in range(9) for day in range(2 * len(query) - 1)]
    keys = list(dict.fromkeys(keys))
    draw.shuffle(keys)
    asked = {x: dict.fromkeys(draw.sample(range(9), draw.randint(1, 3)), 1.0) for x in keys[:-3]}
    has_grades, is_tied = draw.random() < 0.5, form == "score" and draw.random() < 0.5
    if has_grades:
        asked = {
            x: {y: draw.choice([1.0, 2.0, 0.5, 0.0]) for y in found} for x, found in asked.items()
        }
    ranked = {x: blocks_of(draw, form) for x in keys[2:]}
    if is_tied:
        for key, blocks in ranked.items():
            items = [x for block in blocks for x in block]
            cut = groupby(items, key=lambda _: draw.random() < 0.5)
            ranked[key] = [list(block) for _, block in cut]
    written = {x: (key_of(x[0]), *x[1:]) for x in keys}
    first = draw.randint(0, 1)
    rows = [row for x, y in ranked.items() for row in rows_of(form, written[x], y, first, name)]
    truth = [
        (*written[x], name(y), grade) for x, found in asked.items() for y, grade in found.items()
    ]
    by = {"score": ["item", "score"], "rank": ["item", "rank"], "list": ["preds"]}[form]
    named: dict[str, Any] = {} if form == "list" else {"item": "item", by[1]: by[1]}
    if has_grades:
        named["grade"] = "grade"
    write, write_truth = CONTAINERS[container], CONTAINERS[draw.choice([*CONTAINERS])]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "a cut-off of `measures` should be at most")
        found = evaluate_table(
            write(columns(draw, [*query, *by], rows), tmp_path / "rows"),
            truth=write_truth(
                columns(draw, [*query, "target", "grade"], truth), tmp_path / "truth"
            ),
            query=query,
            groups=["user"],
            measures=MEASURES,
            num_locations=9,
            **named,
        )
    if form == "score":  # an item counts once, and its other rows take no rank
        ranked = {key: once(blocks) for key, blocks in ranked.items()}
    assert found.values == pytest.approx(expected(asked, ranked), abs=1e-9)
    of_users: dict[str, dict[str, float]] = {}
    for one in found.group_records():
        of_users.setdefault(one["group"], {})[one["metric"]] = one["value"]
    for user in {key[0] for key in asked}:
        own = {key: grades for key, grades in asked.items() if key[0] == user}
        assert of_users[str(key_of(user))] == pytest.approx(expected(own, ranked), abs=1e-9)
    assert found.card["missing"] == 2
    assert found.card["without_truth"] == 3
    assert found.card["several_targets"] == sum(
        sum(grade > 0 for grade in x.values()) > 1 for x in asked.values()
    )
