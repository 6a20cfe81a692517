"""Who has been where before: plain loops over check-ins, and metrics by these groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from inner import NewDecision
from nextloc_metrics import (
    AccuracyAtK,
    Ranking,
    Visits,
    exploration_metrics,
    previously_visited,
)
from strategies import state_name

CHECK_INS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=30)


def users_and_locations(rows: list[tuple[int, int]]) -> tuple[Any, Any]:
    """Users and locations as arrays."""
    both = np.array(rows, np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


@given(CHECK_INS, CHECK_INS)
def test_previous_visits_are_those_of_a_loop(rows: list[Any], past: list[Any]) -> None:
    """Visits before each check-in, or in a history, equal those of a loop; users may be text."""
    user, location = users_and_locations(rows)
    expected = [row in rows[:number] for number, row in enumerate(rows)]
    assert previously_visited(user, location).tolist() == expected
    names = [f"user {one}" for one in user]
    assert previously_visited(names, location).tolist() == expected
    in_past = [row in past for row in rows]
    assert previously_visited(user, location, history=users_and_locations(past)).tolist() == in_past
    visits = Visits(user, location)
    numbers = torch.arange(len(rows)).repeat_interleave(6)
    places = torch.arange(-1, 5).repeat(len(rows))
    wanted = [
        (int(user[number]), int(place)) in rows[:number]
        for number, place in zip(numbers.tolist(), places.tolist(), strict=True)
    ]
    assert visits.before(numbers, places).tolist() == wanted


def test_exploration_metrics_are_those_of_the_parts() -> None:
    """Accuracies on returns and explorations, shares, and new decisions equal those of parts."""
    generator = np.random.default_rng(0)
    user, location = generator.integers(0, 5, 200), generator.integers(0, 12, 200)
    rows = np.arange(100, 200)
    scores = torch.from_numpy(generator.normal(size=(100, 12)))
    scores[3, 2] = torch.nan  # decides nothing
    visited = previously_visited(user, location)
    metrics = exploration_metrics(k=(1, 3), visits=Visits(user, location), prefix="test/")
    for part in np.split(np.arange(100), 3 * [0] + [40]):
        groups = {"visited": visited[rows[part]], "check_in": rows[part]}
        metrics.update(scores[part], location[rows[part]], groups=groups)
    found = {name: float(value) for name, value in metrics.compute().items()}
    target, is_return = torch.from_numpy(location[rows]), visited[rows]
    assert found["test/exploration_share"] == pytest.approx(1 - is_return.double().mean())
    for k in (1, 3):
        for name, group in (("returns", is_return), ("explorations", ~is_return)):
            expected = AccuracyAtK(k)(scores, target, mask=group)
            assert found[f"test/acc_on_{name}_at_{k}"] == float(expected)
    best = [None if row.isnan().any() else int(row.argmax()) for row in scores]
    pairs = list(zip(user.tolist(), location.tolist(), strict=True))
    is_new = torch.tensor(
        [
            one is not None and (int(user[row]), one) not in pairs[:row]
            for row, one in zip(rows.tolist(), best, strict=True)
        ]
    )
    assert found["test/new_on_returns"] == pytest.approx(is_new[is_return].double().mean())
    assert found["test/new_on_explorations"] == pytest.approx(is_new[~is_return].double().mean())
    low, high = metrics["acc_on_returns_at_1"].interval()
    assert low < found["test/acc_on_returns_at_1"] < high


def test_what_is_masked_is_not_looked_at() -> None:
    """Masked queries may have numbers of check-ins that are out of range."""
    metric = NewDecision(Visits([0], [0]))
    ranking = metric.read(torch.eye(2), torch.tensor([0, 1]), mask=torch.tensor([True, False]))
    metric.update(ranking.with_groups({"check_in": torch.tensor([0, 99])}))
    assert int(metric.state[2]) == 1


def test_histories_tell_states_apart() -> None:
    """Metrics of other check-ins are never merged."""
    names = {state_name(NewDecision(Visits(*rows))) for rows in (([0], [0]), ([0], [1]), ([], []))}
    assert len(names) == 3
    assert repr(NewDecision(Visits([0], [0]))).startswith("NewDecision(visits=")


def ranking() -> Ranking:
    """One query without groups."""
    return Ranking.from_scores(torch.eye(2)[:1], torch.tensor([0]), top=1)


def test_a_history_may_have_other_integers() -> None:
    """Users and history may have different integer dtypes."""
    users, history = np.array([1, 2], np.uint8), (np.array([1, 2]), [5, 5])
    assert previously_visited(users, [5, 6], history=history).tolist() == [True, False]
