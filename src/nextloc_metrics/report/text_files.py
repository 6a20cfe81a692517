"""What evaluations read from files besides predictions: visits, coordinates, words, days."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from nextloc_metrics.arguments.messages import short
from nextloc_metrics.files.memory import load_array
from nextloc_metrics.files.opening import find_files, need_arrow
from nextloc_metrics.files.predictions import join_column
from nextloc_metrics.files.sources import Files
from nextloc_metrics.geography import Locations
from nextloc_metrics.report.points import read_names, read_numbers


def read_counts(path: Path) -> Any:
    """Read the visits of each id, int64 `[C]`."""
    if path.suffix == ".npy":
        return load_array(path)
    lines = _read_text(path).split()
    wrong = next((line for line in lines if not _is_count(line)), None)
    if wrong is not None or not lines:
        raise ValueError(
            f"{path} must hold one integer per line, from 0 to 2^63 - 1, got {short(wrong)}."
        )
    return np.array(lines, dtype=np.int64)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20 and int(text) < 2**63


def read_coordinates(path: Path) -> Locations:
    """Read latitude and longitude of each id; no value is NaN, of an id that is no location."""
    if path.suffix == ".npy":
        table = load_array(path)
        if table.ndim != 2 or table.shape[1] != 2:
            raise ValueError(
                f"{path} must hold latitude and longitude, [C, 2], got {short(table)}."
            )
        return Locations(table[:, 0], table[:, 1])
    names = ["latitude", "longitude"]
    parts = []
    for part in Files(find_files(path)).parts(names):
        latitude, longitude = (read_numbers(part, name, may_miss=True)[0] for name in names)
        if len(half := np.flatnonzero(np.isnan(latitude) != np.isnan(longitude))):
            raise ValueError(
                f"{part.place(half[0])} must have both `latitude` and `longitude`, or neither."
            )
        parts.append((latitude, longitude))
    if not any(len(latitude) for latitude, _ in parts):
        raise ValueError(f"{path} must hold at least one location, got no rows.")
    return Locations(*map(np.concatenate, zip(*parts, strict=True)))


def read_words(vocabulary: Path) -> list[str]:
    """Read the text of each id, one per line."""
    lines = re.split("\r?\n", _read_text(vocabulary))
    return lines if lines[-1] else lines[:-1]


def read_days(rows: Any, user: str, day: str, slot: str, x: str, y: str) -> Any:
    """Read a file of rows, a table with these columns, or CSV without a header: uid, d, t, x, y.

    Anything but a path is returned unchanged.
    """
    if not isinstance(rows, str | os.PathLike):
        return rows
    source = Files(find_files(rows), unnamed=("uid", "d", "t", "x", "y"))
    found: dict[str, list[Any]] = {name: [] for name in (user, day, slot, x, y)}
    for part in source.parts(list(found)):
        for name, values in found.items():
            if name == user:
                users, pa = read_names(part, name), need_arrow()
                values.append(pa.array(users, pa.string() if users.dtype == object else None))
                continue
            numbers, is_date = read_numbers(part, name)
            if is_date:
                raise ValueError(f"column `{name}` must be numbers, got dates in {part.file}.")
            values.append(numbers)
    names = found.pop(user)
    joined = {name: np.concatenate(values or [np.zeros(0)]) for name, values in found.items()}
    return {user: join_column(names, source.untyped) if names else joined[day], **joined}


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be text in UTF-8, and is not: {error}.") from error
