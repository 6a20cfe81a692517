"""Tables of points, and all numbers of their comparison."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from nextloc_metrics.report import MobilityEvaluation

COLUMNS: Any = {
    "trajectory": "day",
    "location": "place",
    "time": "time",
    "time_unit": "s",
    "user": "user",
}


def points(seed: int, number: int = 60) -> pd.DataFrame:
    """Points of users' days, which stand together, sorted by time; no time occurs twice in one."""
    draw = np.random.RandomState(seed)
    lengths = draw.randint(1, 9, number)
    day = np.repeat(draw.permutation(number), lengths)
    place = draw.randint(0, 12, len(day)) * draw.randint(0, 2, len(day))
    time = [np.sort(draw.choice(86_400, n, replace=False)) for n in lengths]
    return pd.DataFrame(
        {
            "day": [f"day {i}" for i in day],
            "place": [f"café {i}" for i in place],
            "latitude": 40 + 0.01 * place,
            "longitude": -74 + 0.02 * place % 3,
            "time": np.concatenate(time),
            "user": day % 10 + 10**18 * 7,
        }
    )


def mixed(seed: int) -> pd.DataFrame:
    """The same points in any order."""
    return points(seed).sample(frac=1, random_state=3, ignore_index=True)


def shown(result: MobilityEvaluation) -> dict[str, Any]:
    """All numbers as text, a float in its shortest exact form, and the counts."""
    found = {name: one.tolist() for name, one in result.metrics.tallies().items()}
    return {**result.card, "values": repr(result.values), "floors": repr(result.floors), **found}
