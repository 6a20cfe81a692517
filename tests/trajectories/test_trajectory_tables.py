"""Rows of users, days and slots, joined into pairs of trajectories."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest
import torch

from nextloc_metrics import Grouped
from nextloc_metrics.trajectories import GeoBLEU, MeanPointError, from_table
from oracles.sequences import geo_bleu

COLUMNS = ["uid", "d", "t", "x", "y"]


def make_tables(seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Predicted and true rows of 4 users and 3 days, in different orders."""
    random = np.random.default_rng(seed)
    rows = [
        (user, day, slot)
        for user in (3, 5, 11, 20)
        for day in (60, 61, 64)
        for slot in sorted(random.choice(48, random.integers(1, 9), replace=False))
    ]
    keys = np.array(rows)
    tables = [
        pd.DataFrame(
            np.concatenate([keys, random.integers(1, 10, (len(keys), 2))], axis=1), columns=COLUMNS
        )
        for _ in range(2)
    ]
    mixed = tables[0].iloc[random.permutation(len(keys))]
    return mixed.reset_index(drop=True), tables[1]


def by_loops(preds: pd.DataFrame, target: pd.DataFrame) -> dict[Any, tuple[Any, Any, Any]]:
    """For each user and day the slots, and predicted and true points in their order."""
    found = {}
    for key, rows in target.sort_values("t").groupby(["uid", "d"]):
        of_day = {(r.uid, r.d, r.t): [r.x, r.y] for r in preds.itertuples()}
        points = [of_day[(*key, slot)] for slot in rows["t"] if (*key, slot) in of_day]
        found[key] = rows["t"].tolist(), points, rows[["x", "y"]].to_numpy().tolist()
    return found


def test_days_are_those_of_plain_loops() -> None:
    """One query for each user and day, its points in the order of slots."""
    preds, target = make_tables()
    found = from_table(preds, target)
    wanted = by_loops(preds, target)
    assert len(found.preds) == len(wanted) == 12
    for query, ((user, day), (slots, predicted, true)) in enumerate(wanted.items()):
        number = len(true)
        assert found.users[int(found.groups["user"][query])] == user
        assert found.groups["day"][query] == day
        assert found.slots[query, :number].tolist() == slots
        assert found.preds[query, :number].tolist() == predicted
        assert found.target[query, :number].tolist() == true
        assert found.target[query, number:].isnan().all()
        assert (found.slots[query, number:] == -1).all()
    assert (found.num_users, found.num_missing, found.num_extra, found.num_repeated) == (4, 0, 0, 0)


def test_the_challenges_mean_is_over_days_then_users() -> None:
    """As `calc_geobleu_single` of each user, and then the mean."""
    preds, target = make_tables(1)
    found = from_table(preds, target)
    metric = Grouped(GeoBLEU.as_of(2025), found.num_users, by="user", average="groups")
    metric.update(found.preds, found.target, groups=found.groups)
    users: dict[Any, list[float]] = {}
    for (user, _), (_, predicted, true) in by_loops(preds, target).items():
        users.setdefault(user, []).append(geo_bleu(predicted, true))
    wanted = np.mean([np.mean(days) for days in users.values()])
    assert float(metric.compute()) == pytest.approx(wanted, rel=1e-6)


def test_all_kinds_of_tables_are_read_alike() -> None:
    """pandas, polars, Arrow, a mapping, an array and a tensor; users may be text."""
    preds, target = make_tables()
    wanted = from_table(preds, target)
    for convert in (
        polars.from_pandas,
        pyarrow.Table.from_pandas,
        lambda frame: frame.to_dict("list"),
        lambda frame: frame.to_numpy(),
        lambda frame: torch.from_numpy(frame.to_numpy()),
    ):
        found = from_table(convert(preds), convert(target))
        for name in ("preds", "target"):
            torch.testing.assert_close(
                getattr(found, name), getattr(wanted, name), rtol=0, atol=0, equal_nan=True
            )
        assert found.users == wanted.users
    text = [frame.assign(uid=[f"u{uid:02}" for uid in frame["uid"]]) for frame in (preds, target)]
    found = from_table(*text)
    assert found.users == ["u03", "u05", "u11", "u20"]
    assert torch.equal(found.groups["user"], wanted.groups["user"])
    renamed = [frame.rename(columns={"uid": "user", "x": "lat"}) for frame in (preds, target)]
    assert from_table(*renamed, user="user", x="lat").users == wanted.users


def test_rows_that_do_not_fit_are_named() -> None:
    """A missing, an extra and a repeated row, each with user, day and slot."""
    preds, target = make_tables()
    row = target.iloc[5]
    name = f"user '{row.uid}', day {row.d}, slot {row.t}"
    fewer = preds[(preds[["uid", "d", "t"]] != row[["uid", "d", "t"]]).any(axis=1)]
    for message, arguments in (
        (f"`preds` must have a row for each row of `target`, got none for {name}", (fewer, target)),
        (f"`target` must have a row for each row of `preds`, got none for {name}", (preds, fewer)),
        (
            f"`target` must have one row .* two for {name}",
            (preds, pd.concat([target, row.to_frame().T])),
        ),
        (
            f"`preds` must have one row .* two for {name}",
            (pd.concat([preds, row.to_frame().T]), target),
        ),
    ):
        with pytest.raises(ValueError, match=message):
            from_table(*arguments)


def test_rows_that_do_not_fit_are_counted() -> None:
    """The prediction gets shorter, or empty, and each day stays a query."""
    preds, target = make_tables()
    preds = preds.sort_values(["uid", "d", "t"])
    first_day = (preds["uid"] == 3) & (preds["d"] == 60)
    row = preds[~first_day].iloc[2]
    gone = first_day | (preds.index == preds[~first_day].index[2])
    other_user = row.to_frame().T.assign(uid=4)
    repeated = preds[~gone].iloc[[0]].assign(x=99)
    changed = pd.concat([preds[~gone], repeated, other_user])
    twice = pd.concat([target, target[3:5].assign(x=99)])
    found = from_table(changed, twice, on_missing="count")
    assert found.num_repeated == 1 + 2
    assert not (found.target == 99).any()
    found = from_table(changed, target, on_missing="count")
    assert found.num_missing == int(gone.sum())
    assert (found.num_extra, found.num_repeated) == (1, 1)
    assert found.preds[0].isnan().all()
    assert found.users == [3, 5, 11, 20]
    assert not (found.preds == 99).any()
    assert len(found.preds) == 12
    metric = GeoBLEU()
    metric.update(found.preds, found.target)
    assert metric.num_queries == 12
    with pytest.raises(ValueError, match="`preds` must have as many points as `target`"):
        MeanPointError().update(found.preds, found.target)
