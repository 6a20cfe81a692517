"""Counts of a person's visits: against a loop over visits."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from nextloc_metrics.analysis import VisitCounts
from strategies import examples

NAMES = ["ann", "bob", "cid"]
VISITS = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 5)), min_size=1)
QUERIES = st.lists(st.tuples(st.sampled_from([*NAMES, "dan"]), st.integers(-1, 6)), min_size=1)


def keys_by_loops(visits: list[Any], user: str, last: int | None) -> list[tuple[int, ...]]:
    """What orders the locations 0 to 6: moves from `last`, the person's visits, everybody's."""
    own = [place for name, place in visits if name == user]
    moves = list(itertools.pairwise(own))
    return [
        (
            moves.count((last, location)),
            own.count(location),
            sum(place == location for _, place in visits),
        )
        for location in range(7)
    ]


@examples(100)
@given(VISITS, QUERIES, st.booleans())
def test_scores_order_locations_as_a_loop_does(
    visits: list[Any], queries: list[Any], has_last: bool
) -> None:
    """Both what is above and what is tied, for any history and any query."""
    users, places = zip(*visits, strict=True)
    counts = VisitCounts(places, users, num_locations=7)
    who, last = zip(*queries, strict=True)
    scores = counts.scores(who, last=last if has_last else None)
    for row, (user, before) in zip(scores.tolist(), queries, strict=True):
        keys = keys_by_loops(visits, user, before if has_last else None)
        assert [sorted(set(row)).index(x) for x in row] == [
            sorted(set(keys)).index(x) for x in keys
        ]


def test_users_are_integers_or_text() -> None:
    """A person is the same by number and by its text."""
    visits, numbers = [2, 0, 2, 1, 1, 0, 1], np.array([0, 0, 0, 1, 1, 0, 1])
    first = VisitCounts(visits, np.array(["ann", "bob"])[numbers], num_locations=3)
    other = VisitCounts(visits, numbers, num_locations=3)
    expected = first.scores(["ann", "bob"], [0, -1])
    for who in ([0, 1], torch.tensor([0, 1]), ["0", "1"]):
        assert torch.equal(other.scores(who, torch.tensor([0, -1])), expected)
    assert first.scores([], last=[]).shape == (0, 3)
