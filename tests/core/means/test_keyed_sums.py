"""Sums by key are those of a dict, however entries are divided and wherever keys lie."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from inner import NO_KEY, sort_rows
from nextloc_metrics.base import KeyedSums
from strategies import examples

FAR = st.sampled_from([0, 1, 2, 5, -1, 2**62, 2**63 - 1, -(2**63) + 1, NO_KEY])
NEAR = st.integers(0, 6)


def entries(num_keys: int, numbers: st.SearchStrategy[int]) -> Any:
    """Lists of entries: a key of so many numbers, and two summands."""
    entry = st.tuples(*[numbers] * num_keys, st.integers(-9, 9), st.integers(0, 2**40))
    return st.tuples(st.just(num_keys), st.lists(st.lists(entry, max_size=9), max_size=4))


def rows_of(part: Any, num_keys: int) -> torch.Tensor:
    """Entries as a tensor."""
    return torch.tensor(part, dtype=torch.int64).reshape(-1, num_keys + 2)


@examples(40)
@example((1, [[(-(2**62), 1, 2)], [(-1, 3, 4)], [(-1, 5, 6), (7, 0, 0)]]), False)
@example((1, [[(3, 1, 2)], [(NO_KEY, 3, 4)] * 3]), True)
@given(
    st.one_of(entries(1, NEAR), entries(1, FAR), entries(3, NEAR), entries(3, FAR)), st.booleans()
)
def test_sums_by_key_are_those_of_a_dict(drawn: Any, is_merged: bool) -> None:
    """Merged at once, added to a state one after the other, and added to each other first.

    With `is_merged`, a state is merged as soon as it has as many new entries as merged ones.
    """
    num_keys, parts = drawn
    sums: tuple[Counter[Any], Counter[Any]] = Counter(), Counter()
    for part in parts:
        for entry in part:
            for number, total in enumerate(sums):
                total[entry[:num_keys]] += entry[num_keys + number]
    keys = sorted({entry[:num_keys] for part in parts for entry in part if entry[0] != NO_KEY})
    expected = rows_of([[*key, sums[0][key], sums[1][key]] for key in keys], num_keys)
    empty = rows_of([], num_keys)
    several = [KeyedSums([rows_of(part, num_keys)], num_keys) for part in parts]
    state: list[torch.Tensor] = []
    few = 0 if is_merged else KeyedSums.sorted_at_once
    with patch.object(KeyedSums, "sorted_at_once", few):
        for one in several:
            state = one.append_to(state)
    together = sum(several, KeyedSums([empty], num_keys))
    assert torch.equal(together.merge(), expected)
    assert torch.equal(KeyedSums([empty, *state], num_keys).merge(), expected)
    assert all(len(one) >= 2 * len(other) for one, other in pairwise(state[1:]))
    assert torch.equal(KeyedSums(together.append_to([]), num_keys).merge(), expected)


@pytest.mark.parametrize("different", [1 << 18, 8], ids=["new keys", "few keys"])
def test_an_entry_is_merged_about_as_often_as_the_state_doubles(
    monkeypatch: Any, different: int
) -> None:
    """256 updates sort an entry about twice, and hold at most twice as many as there are keys.

    Fewer than 2^15 entries are not sorted at all.
    """
    sorted_entries: list[int] = []

    def count(keys: Any) -> Any:
        sorted_entries.append(len(keys))
        return sort_rows(keys)

    monkeypatch.setattr("nextloc_metrics.core.means.keyed_sums.sort_rows", count)
    state: list[torch.Tensor] = []
    for number in range(256):
        keys = torch.arange(1024 * number, 1024 * (number + 1)) % different
        state = KeyedSums([torch.stack([keys, torch.ones_like(keys)], 1)], 1).append_to(state)
        assert len(state) <= 9
        assert sum(map(len, state)) <= 2 * max(min(different, 1024 * (number + 1)), 1 << 15)
        assert number > 30 or not sorted_entries
    assert sum(sorted_entries) <= 2 * 256 * 1024
    total = KeyedSums(state, 1).merge()
    assert total.tolist() == [[x, 256 * 1024 // different] for x in range(different)]
