"""What options of the command line read from files: visits, coordinates, words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nextloc_metrics.arguments.messages import short
from nextloc_metrics.files.memory import load_array
from nextloc_metrics.geography import Locations


def read_counts(path: Path) -> Any:
    """Read the visits of each id, int64 `[C]`."""
    if path.suffix == ".npy":
        return load_array(path)
    lines = _read_text(path).split()
    wrong = next((line for line in lines if not line.isdecimal()), None)
    if wrong is not None or not lines:
        raise ValueError(f"{path} must hold one integer per line, got {short(wrong)}.")
    return np.array(lines, dtype=np.int64)


def read_coordinates(path: Path) -> Locations:
    """Read latitude and longitude of each id."""
    if path.suffix == ".npy":
        table = load_array(path)
        if table.ndim != 2 or table.shape[1] != 2:
            raise ValueError(
                f"{path} must hold latitude and longitude, [C, 2], got {short(table)}."
            )
        return Locations(table[:, 0], table[:, 1])
    import pandas

    try:
        frame = pandas.read_csv(path)
    except ValueError as error:  # also pandas' own, and text that is not UTF-8
        raise ValueError(
            f"{path} must be CSV with a header, and cannot be read: {error}"
        ) from error
    missing = {"latitude", "longitude"} - {*frame.columns}
    if missing:
        raise ValueError(
            f"{path} must have the columns {short(sorted(missing))}, got {short([*frame.columns])}."
        )
    return Locations(frame["latitude"].to_numpy(), frame["longitude"].to_numpy())


def read_words(vocabulary: Path | None) -> list[str] | None:
    """Read the text of each id, one per line."""
    return None if vocabulary is None else _read_text(vocabulary).splitlines()


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be text in UTF-8, and is not: {error}.") from error
