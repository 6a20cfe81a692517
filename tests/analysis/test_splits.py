"""The checks of a split, against loops over rows, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextloc_metrics.analysis import SplitCheck, check_split
from strategies import examples

ROWS = st.lists(
    st.tuples(st.sampled_from(["ann", "bob", "cid"]), st.integers(3, 6), st.integers(0, 4)),
    min_size=1,
)


def check(train: list[Any], test: list[Any], **options: Any) -> SplitCheck:
    """Check rows of user, location and time."""
    names = ["user", "location", "time"]
    return check_split(
        pd.DataFrame(train, columns=names), pd.DataFrame(test, columns=names), **options
    )


@examples(20)
@given(ROWS, ROWS, st.randoms(use_true_random=False))
def test_findings_are_those_of_loops(train: list[Any], test: list[Any], random: Any) -> None:
    """Each row by itself, from what each finding says."""
    inputs = [[random.choice([-1, 3, 4]) for _ in range(2)] for _ in test]
    users, places = {x[0] for x in train}, {x[1] for x in train}
    sizes = {user: sum(x[0] == user for x in test) for user in ("ann", "bob", "cid")}
    busiest = max(sizes, key=lambda user: sizes[user])
    expected: dict[str, list[bool]] = {
        "in train": [x in train for x in test],
        "before the user's last training row": [
            any(y[0] == x[0] and y[2] > x[2] for y in train) for x in test
        ],
        "before anybody's last training row": [any(y[2] > x[2] for y in train) for x in test],
        "unseen user": [x[0] not in users for x in test],
        "unseen location": [x[1] not in places for x in test],
        "new to the user": [
            x[0] in users and x[1] in places and (x[0], x[1]) not in {y[:2] for y in train}
            for x in test
        ],
        "in its own input": [x[1] in of for x, of in zip(test, inputs, strict=True)],
        "repeated": [
            any(test[j][:2] == x[:2] and inputs[j] == inputs[i] for j in range(i))
            for i, x in enumerate(test)
        ],
        "of the busiest user": [x[0] == busiest for x in test],
    }
    found = check(train, test, queries=inputs)
    assert list(found.findings) == list(expected)
    for name, holds in expected.items():
        one, rows = found.findings[name], np.flatnonzero(holds)
        assert (one.number, one.share) == (len(rows), len(rows) / len(test))
        assert list(one.rows) == rows[:5].tolist()
    effective = len(test) ** 2 / sum(n**2 for n in sizes.values())
    assert found.card["effective_users"] == round(effective, 1)
    assert found.card["test_users"] == len({x[0] for x in test})
    plain = check(train, test).findings["repeated"]
    assert plain.number == len(test) - len(set(test))


def test_times_may_be_dates_or_text_and_columns_have_other_names() -> None:
    """The findings are the same; without times those that need them are absent."""
    train, test = [("ann", 1, 5), ("bob", 2, 9)], [("ann", 1, 4), ("bob", 2, 9), ("cid", 1, 12)]
    expected = check(train, test).findings
    assert expected["before the user's last training row"].number == 1
    for make in (lambda x: f"2024-01-{x:02}", lambda x: pd.Timestamp(2024, 1, x)):
        parts = [
            {"who": [x[0] for x in of], "where": [str(x[1]) for x in of], "t": [*map(make, when)]}
            for of in (train, test)
            for when in [[x[2] for x in of]]
        ]
        assert check_split(*parts, user="who", location="where", time="t").findings == expected
    without = check_split(*parts, user="who", location="where", time=None).findings
    assert list(without) == [
        "unseen user", "unseen location", "new to the user", "of the busiest user"
    ]  # fmt: skip


def test_the_table_names_rows_and_says_what_they_mean() -> None:
    """Findings without a row have no sentence; the page has the card."""
    found = check([("ann", 1, 5)], [("ann", 1, 5), ("ann", 2, 6)])
    text = str(found)
    assert "in train: the same user, location and time is a training row" in text
    assert "unseen user: the person" not in text
    assert "test rows: 2" in text
    assert found.table.records[0] == {"finding": "in train", "rows": 1, "share": 0.5, "first": (0,)}
    assert "<h2>Protocol</h2>" in found.to_html()


def test_wrong_tables_are_refused() -> None:
    """Missing values, other types, no rows, and inputs that are no lists of ids."""
    rows = [("ann", 1, 5)]
    with pytest.raises(ValueError, match=r"`time` of `test` must have no missing value.* row 0"):
        check(rows, [("ann", 1, None)])
    with pytest.raises(TypeError, match="`user` must hold values of one type"):
        check([("ann", 1, 5), (1, 1, 5)], rows)
    with pytest.raises(ValueError, match="one or more rows"):
        check(rows, [])
    with pytest.raises(ValueError, match="`queries` must have a list of ids for each of the 1"):
        check(rows, rows, queries=[[1], [2]])
    with pytest.raises(ValueError, match=r"`train` .* column .person., got .* name columns"):
        check(rows, rows, user="person")
    with pytest.raises(ValueError, match=r"`train` must be .* got str 'train.csv'"):
        check_split("train.csv", "test.csv")


@pytest.mark.parametrize("ones", [["1.0", "2"], [1.0, 2.0], [1, 2], ["1", "2.00"]])
@pytest.mark.parametrize("others", [["1", "2"], [1, 2]])
def test_whole_numbers_are_equal_however_they_are_written(ones: Any, others: Any) -> None:
    """As integers, floats or text; pandas writes floats where a value was missing once."""
    train, test = ({"user": x, "location": x, "time": [3, 4]} for x in (ones, others))
    found = check_split(train, test).findings
    assert (found["in train"].number, found["unseen user"].number) == (2, 0)


def test_text_that_is_no_number_makes_text_of_all() -> None:
    """A leading zero tells ids apart; text beside numbers is refused with an example of each."""
    train = {"user": ["01", "2"], "location": ["a", "b"], "time": [1, 2]}
    test = {"user": ["1", "2"], "location": ["a", "b"], "time": [1, 2]}
    assert check_split(train, test).findings["unseen user"].rows == (0,)
    with pytest.raises(TypeError, match=r"`user` must .* got text '01' and number '1'; convert"):
        check_split(train, {**test, "user": [1, 2]})


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("2024-01-01 09:00", "2024-01-01T09:00:00.000"),
        ("2024-01-01T11:30:00+02:30", "2024-01-01 09:00Z"),
        ("2024-01-01 09:00", np.datetime64("2024-01-01T09:00")),
        ("9", 9.0),
    ],
)
def test_instants_are_compared_not_their_text(text: str, other: Any) -> None:
    """Two spellings of one instant are the same visit."""
    train, test = ({"user": [1], "location": [2], "time": np.array([x])} for x in (text, other))
    assert check_split(train, test).findings["in train"].number == 1


@pytest.mark.parametrize("wrong", ["9:00", "1/9/2024", "2024-01-01 09:00Z"])
def test_other_text_is_no_time(wrong: str) -> None:
    """It would be sorted as text: 9:00 after 10:00; an offset in some rows says no instant."""
    train = {"user": [1, 1], "location": [2, 2], "time": ["2024-01-01 10:00", wrong]}
    with pytest.raises(ValueError, match=r"`time` must be numbers, dates, or text of .* ISO 8601"):
        check_split(train, train)


def test_the_largest_integers_are_told_apart() -> None:
    """Numbers at both ends of int64, and beyond the integers of floating numbers."""
    far = np.array([-(2**63), 2**63 - 1, 2**63 - 2, 2**53, 2**53 + 1])
    train = {"user": far, "location": far[::-1].copy(), "time": far}
    test = {"user": far, "location": far[::-1] - (np.arange(5) == 1), "time": far}
    inputs = np.stack([test["location"], far], 1)
    found = check_split(train, test, queries=inputs).findings
    assert found["in train"].rows == (0, 2, 3, 4)
    assert found["unseen location"].rows == (1,)
    assert found["repeated"].number == found["unseen user"].number == 0
    twice = {name: np.tile(column, 2) for name, column in test.items()}
    assert check_split(train, twice).findings["repeated"].rows == (5, 6, 7, 8, 9)
