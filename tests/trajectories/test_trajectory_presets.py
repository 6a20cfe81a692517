"""Every argument of a preset of trajectories reaches the metrics that it is for, and no other."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from nextloc_metrics.geography import Locations
from nextloc_metrics.trajectories import DTW, GeoBLEU, trajectory_metrics

PLACES = Locations([1.0, 2.0], [3.0, 4.0])

# A call with all members.
PAIRS: Any = {"steps": [2]}

OF_DISTANCE = {
    "geo_bleu", "dtw", "mean_point_error", "last_point_error", "point_error_at_2",
}  # fmt: skip

# For each preset: an argument, a value that is not the default, the other arguments, and what the
# value changes: which members have it as an option of that name; or members by name, written as
# `repr` writes them, or None for one that is gone.
TABLE: dict[Any, list[tuple[str, Any, dict[str, Any], Any]]] = {
    trajectory_metrics: [
        ("units", "degrees", PAIRS, OF_DISTANCE),
        ("locations", PLACES, PAIRS, OF_DISTANCE),
        ("n", 3, PAIRS, {"geo_bleu"}),
        ("beta", 0.25, PAIRS, {"geo_bleu"}),
        ("scale", 2.0, PAIRS, {"geo_bleu"}),
        ("steps", [4], {}, {"point_error_at_4": "PointErrorAt(step=4)"}),
        ("aligned", False, {}, dict.fromkeys(["mean_point_error", "last_point_error"])),
        (
            "separator",
            "@",
            PAIRS,
            {"point_error@2": "PointErrorAt(step=2)", "point_error_at_2": None},
        ),
        ("prefix", "val/", {"aligned": False}, "val/{}"),
        ("validate_args", False, {**PAIRS, "locations": PLACES}, OF_DISTANCE),
    ],
    GeoBLEU.as_of: [
        *(
            ("year", year, {"year": 2025}, {"": "GeoBLEU(n=3, divisor='matched')"})
            for year in (2023, 2024)
        ),
        (
            "units",
            "degrees",
            {"year": 2024},
            {"": "GeoBLEU(n=3, divisor='matched', units='degrees')"},
        ),
        ("units", "degrees", {"year": 2025}, {"": "GeoBLEU(units='degrees')"}),
    ],
    DTW.as_of: [
        *(
            ("year", year, {"year": 2025}, {"": "DTW(scale=2.0, free_start=True)"})
            for year in (2023, 2024)
        ),
        ("window", 3, {"year": 2025}, {"": "DTW(scale=2.0, window=3)"}),
        ("window", 3, {"year": 2023}, {"": "DTW(scale=2.0, window=3, free_start=True)"}),
    ],
}

ROWS = [(preset, *row) for preset, rows in TABLE.items() for row in rows]


@pytest.mark.parametrize("preset", TABLE, ids=lambda preset: preset.__qualname__)
def test_every_argument_is_in_the_table(preset: Any) -> None:
    """An argument that is added needs a row; other keyword arguments have one, too."""
    tried = {argument for argument, *_ in TABLE[preset]}
    own = inspect.signature(preset).parameters.keys()
    assert own - {"kwargs"} <= tried
    assert bool(tried - own) == ("kwargs" in own)


def members(found: Any) -> dict[str, Any]:
    """The members of a collection by name, or a metric."""
    return dict(found.items(keep_base=False)) if hasattr(found, "items") else {"": found}


@pytest.mark.parametrize(
    ("preset", "argument", "value", "others", "expected"),
    ROWS,
    ids=[f"{preset.__qualname__}-{argument}-{i}" for i, (preset, argument, *_) in enumerate(ROWS)],
)
def test_another_value_is_seen(
    preset: Any, argument: str, value: Any, others: dict[str, Any], expected: Any
) -> None:
    """The members that it is for have the value, and all others are as before."""
    before, found = (members(preset(**x)) for x in (others, {**others, argument: value}))
    reprs, written = ({name: repr(x) for name, x in one.items()} for one in (before, found))
    if isinstance(expected, str):
        assert written == {expected.format(name): text for name, text in reprs.items()}
        return
    for name in reprs.keys() | written.keys():
        same = written.get(name) == reprs.get(name)
        assert same == (name not in expected), name
    if isinstance(expected, dict):
        assert {name: written.get(name) for name in expected} == expected
        return
    for name in expected:
        assert np.array_equal(getattr(found[name], argument, value), value), name
