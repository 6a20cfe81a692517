"""An evaluation in parts: any batches, order and tree of merges give the same bits."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextloc_metrics import report
from nextloc_metrics.arguments.batch import Batch
from nextloc_metrics.geography import Locations
from strategies import examples

NUMBER = 60
WORDS = [f"user {number}" for number in range(14)]
OPTIONS: dict[str, Any] = {"k": (1, 3), "cluster": "user"}
MORE: dict[str, Any] = {
    "train_counts": np.arange(9),
    "locations": Locations.from_metres(range(0, 9000, 1000), range(9)),
}


def rows_of(form: str, chosen: Any = slice(None)) -> dict[str, Any]:
    """Dirty predictions: repeats, padding, ties, ids that are no location, masked queries."""
    generator = np.random.default_rng(7)
    lists = generator.integers(-1, 12, (NUMBER, 5))
    scores = generator.integers(0, 3, (NUMBER, 9)).astype(np.float32)
    scores[3], scores[4, 2] = np.nan, -np.inf
    user = np.array(WORDS)[np.sort(generator.integers(0, len(WORDS), NUMBER))]
    rows = {
        "preds": lists if form == "lists" else scores,
        "target": generator.integers(0, 9, NUMBER),
        "mask": generator.random(NUMBER) < 0.9,
    }
    hour = generator.integers(0, 24, NUMBER)
    groups = {"user": user[chosen], "hour": hour[chosen]}
    return {**{name: values[chosen] for name, values in rows.items()}, "groups": groups}


def evaluator_of(form: str, *parts: Any, **options: Any) -> report.Evaluator:
    """An evaluator of some rows, a batch for each part."""
    evaluator = report.Evaluator(num_locations=9, **OPTIONS, **options)
    for part in parts:
        evaluator.add(Batch(**rows_of(form, part)))
    return evaluator


def whole(form: str, **options: Any) -> str:
    """All numbers of the evaluation at once."""
    return report.evaluate(**rows_of(form), num_locations=9, **OPTIONS, **options).to_markdown()


@pytest.mark.parametrize("form", ["lists", "scores"])
@given(
    order=st.permutations(range(NUMBER)),
    cuts=st.lists(st.integers(0, NUMBER), max_size=3),
    data=st.data(),
)
@examples(5)
def test_any_tree_of_parts_gives_the_same_bits(
    form: str, order: list[int], cuts: list[int], data: Any
) -> None:
    """Batches in any order, some empty, merged in any order, as bytes in between."""
    parts = [np.array(order[a:b], int) for a, b in pairwise([0, *sorted(cuts), NUMBER])]
    evaluators = [evaluator_of(form, part) for part in parts]
    while len(evaluators) > 1:
        first = evaluators.pop(data.draw(st.integers(0, len(evaluators) - 1)))
        other = evaluators.pop(data.draw(st.integers(0, len(evaluators) - 1)))
        evaluators.append(report.Evaluator.from_bytes(first.to_bytes()).merge(other))
    one_by_one = evaluator_of(form, *parts)
    assert evaluators[0].to_bytes() == one_by_one.to_bytes() == evaluator_of(form, order).to_bytes()
    assert one_by_one.result().to_markdown() == whole(form)


@pytest.mark.parametrize("form", ["lists", "scores"])
def test_parts_with_references_and_a_map(form: str) -> None:
    """Training counts, deciles, distances and the accuracy of each location add up too."""
    first, other = evaluator_of(form, range(20), **MORE), evaluator_of(form, range(20, 60), **MORE)
    merged = report.Evaluator.from_bytes(other.to_bytes()).merge(first)
    assert merged.to_bytes() == evaluator_of(form, range(60), **MORE).to_bytes()
    assert merged.result().to_markdown() == whole(form, **MORE)


def test_an_empty_evaluator_adds_nothing() -> None:
    """Before and after a merge; alone it has no result."""
    full, empty = evaluator_of("lists", range(9)), report.Evaluator()
    before = full.to_bytes()
    assert full.merge(report.Evaluator.from_bytes(empty.to_bytes())).to_bytes() == before
    assert empty.merge(full).to_bytes() == before
    nothing = evaluator_of("lists", [])  # a batch without rows
    assert report.Evaluator.from_bytes(nothing.to_bytes()).merge(full).to_bytes() == before
    with pytest.raises(ValueError, match="`add` must be called before `result`"):
        report.Evaluator().result()


def test_a_refused_batch_changes_nothing() -> None:
    """Neither counts nor groups, where the last query is wrong."""
    evaluator = evaluator_of("lists", range(20))
    before = evaluator.to_bytes()
    wrong = rows_of("lists", range(20, 40))
    wrong["target"][-1], wrong["mask"][-1] = 9, True
    with pytest.raises(ValueError, match="`target`"):
        evaluator.add(Batch(**wrong))
    with pytest.raises(ValueError, match=r"`groups` must be \('user', 'hour'\) in every batch"):
        evaluator.add(Batch(**{**rows_of("lists", range(3)), "groups": None}))
    assert evaluator.to_bytes() == before
    evaluator.add(Batch(**rows_of("lists", range(20, NUMBER))))
    assert evaluator.result().to_markdown() == whole("lists")


def test_other_options_are_not_merged() -> None:
    """Counts at another k do not add up."""
    other = report.Evaluator(num_locations=9, **{**OPTIONS, "k": 2})
    other.add(Batch(**rows_of("lists")))
    with pytest.raises(ValueError, match="shards must agree on `k`"):
        evaluator_of("lists", range(9)).merge(other)


def test_lists_need_the_number_of_locations() -> None:
    """The largest target is not known before the last batch."""
    with pytest.raises(ValueError, match="`num_locations` must be given for lists of ids"):
        report.Evaluator().add(Batch([[1, 2]], [1]))


def test_changed_bytes_are_refused() -> None:
    """Cut or with another byte."""
    data = evaluator_of("lists", range(9)).to_bytes()
    for wrong in (data[:-9], data[:200] + bytes([data[200] ^ 1]) + data[201:], b"none"):
        with pytest.raises(ValueError, match="`data` must be"):
            report.Evaluator.from_bytes(wrong)
