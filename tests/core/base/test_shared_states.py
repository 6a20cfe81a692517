"""Which metrics share a state: those that update alike, and no others, in any collection."""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from torchmetrics import MetricCollection

from metric_entries import (
    CASES,
    EACH_LOCATION,
    ENTRIES,
)
from metric_tester import LOCATIONS, Case
from strategies import batch, same, state_name, updated


def may_merge(one: Case, other: Case) -> bool:
    """Whether two metrics update alike, so that torchmetrics may well share their state."""
    shared = one.entry.state and one.entry.state == other.entry.state
    if not shared and one.name != other.name:
        return False
    read_by_compute = {*one.entry.computed, *other.entry.computed}
    return all(
        one.options.get(option) == other.options.get(option)
        for option in {*one.options, *other.options} - read_by_compute
    )


def test_states_have_one_name_exactly_where_metrics_update_alike() -> None:
    """Others could be merged, and lose their counts; without it a state is counted twice."""
    names = {str(case): state_name(case.make()) for case in CASES}
    for one, other in itertools.combinations(CASES, 2):
        is_shared = names[str(one)] == names[str(other)]
        assert is_shared == may_merge(one, other), (str(one), str(other))


# Every pair of classes is side by side below, and in one way every pair of options.
ALL = {f"m{i}": case for i, case in enumerate([*CASES, Case(ENTRIES["LocationF1"], EACH_LOCATION)])}
PAIRED = list({case.name: m for m, case in ALL.items()}.values())


def only_misses() -> tuple[Tensor, ...]:
    """Every relevant location is scored -inf; id 2 so that no `ignore_index` leaves it out."""
    preds = torch.zeros(4, LOCATIONS)
    preds[:, 2] = -math.inf
    return preds, torch.full((4,), 2), torch.ones(4, dtype=torch.bool)


def only_hits() -> tuple[Tensor, ...]:
    """Every relevant location is scored best."""
    preds = torch.zeros(4, LOCATIONS)
    preds[:, 2] = 1.0
    return preds, torch.full((4,), 2), torch.ones(4, dtype=torch.bool)


def nothing_counted() -> tuple[Tensor, ...]:
    """Every query is masked."""
    return torch.zeros(4, LOCATIONS), torch.full((4,), 2), torch.zeros(4, dtype=torch.bool)


FIRST_BATCHES = [only_misses, only_hits, nothing_counted]


@cache
def batches_after(first: int) -> list[tuple[Tensor, ...]]:
    """One of the first batches, and two others that are the same in every test."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(20)
        return [FIRST_BATCHES[first](), batch(), batch()]


@cache
def alone(name: str, first: int) -> list[Tensor]:
    """The values of one metric by itself after each of these batches, computed once."""
    metric = ALL[name].make()
    return [updated(metric, *data).compute() for data in batches_after(first)]


@cache
def alone_on(name: str, first: int, number: int) -> Tensor:
    """The value of one of these batches by itself."""
    if not number:
        return alone(name, first)[0]
    return updated(ALL[name].make(), *batches_after(first)[number]).compute()  # type: ignore[no-any-return]


WAYS: list[Any] = [
    pytest.param(x, n, marks=pytest.mark.slow) for x, n in (("all", 0), ("update", 1))
]
# what is called between updates: the groups that share a state were found in the first of them
WAYS += [("forward", 2), ("clone", 0), ("compute", 1), ("reset", 2), ("values", 2)]


@pytest.mark.parametrize(
    ("path", "first"),
    WAYS,
    ids=lambda x: x if isinstance(x, str) else ("misses", "hits", "nothing")[x],
)
def test_all_metrics_in_one_plain_collection(path: str, first: int) -> None:
    """Every pair at once, of all, of classes or of a third; whatever the first batch and way."""
    # torchmetrics compares all pairs again after each that it merges: the time grows by the cube
    names = sorted({"all": [*ALL], "update": PAIRED}.get(path, PAIRED[::3]))
    together = MetricCollection({name: ALL[name].make() for name in names})
    if path == "reset":
        together.update(*batch())
        together.compute()
        together.reset()
    for number, data in enumerate(batches_after(first)):
        if path == "forward":
            values = together(*data)
            of_others = first if number == 0 else 0  # which are the same after every first one
            expected = {name: alone_on(name, of_others, number) for name in names}
            assert same(dict(sorted(values.items())), expected)
        else:
            together.update(*data)
        if path == "clone":
            together = together.clone()
        if path == "compute":
            together.compute()
        if path == "values":
            assert len([metric.compute() for metric in together.values()]) == len(names)
    expected = {name: alone(name, first)[-1] for name in names}
    assert same(dict(sorted(together.compute().items())), expected)
