"""Evaluations of generated mobility, against the files that they follow, and in plain loops."""

from __future__ import annotations

import ast
import contextlib
import io
import math
import warnings
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.stats

import protocol_originals as originals
from nextloc_metrics import protocols

FILES = {
    "movesim": ("FIBLAB+MoveSim", "code/evaluations.py"),
    "pategail": ("tsinghua-fib-lab+PateGail", "utils/evaluations.py"),
    "sec_movesim": ("VictorRubio98+Sec-MoveSim", "code/evaluations.py"),
}

ORDERS = {
    "movesim": ("distance", "radius", "duration", "daily locations", "G-rank", "I-rank"),
    "pategail": ("distance", "daily locations", "radius", "G-rank", "I-rank", "duration"),
    "sec_movesim": ("distance", "radius", "duration", "daily locations", "G-rank", "I-rank"),
}

BY_NAME = pytest.mark.parametrize("name", FILES)


def days(seed: int, number: int, locations: int = 130, spread: float = 6.0) -> tuple[Any, Any]:
    """Days of 48 ids that often stay, and coordinates several degrees apart."""
    draw = np.random.RandomState(seed)
    found = np.zeros((number, 48), dtype=np.int64)
    for row in found:
        home = draw.randint(locations)
        for slot in range(48):
            stays = slot and draw.rand() < 0.7
            row[slot] = (
                row[slot - 1] if stays else (home if draw.rand() < 0.5 else draw.randint(locations))
            )
    coordinates = np.random.RandomState(99).rand(locations, 2) * spread + [30, 100]
    return found, coordinates


def profile(name: str) -> Any:
    """The profile of a name."""
    return getattr(protocols, name)()


@BY_NAME
@pytest.mark.parametrize("seed", range(3))
def test_the_files_print_these_values(name: str, seed: int) -> None:
    """The classes of the file, run as they stand, return the profile's values."""
    (real, coordinates), (generated, _) = days(seed, 40), days(seed + 50, 30)
    found = profile(name).evaluate(generated, real, coordinates)
    printed = run_original(name, real, generated, coordinates)
    assert found == pytest.approx(printed, rel=1e-9, abs=1e-12, nan_ok=True)


def test_movesim_on_its_own_sample() -> None:
    """Days of GeoLife that come with MoveSim: 200 that it trains on, and 150 that it tests on."""
    folder = originals.clone(FILES["movesim"][0]) / "data" / "geolife"
    real, generated = (
        np.loadtxt(folder / file, dtype=np.int64, max_rows=rows)
        for file, rows in (("test.data", 150), ("real.data", 200))
    )
    coordinates = np.loadtxt(folder / "gps")
    for name in FILES:
        found = profile(name).evaluate(generated, real, coordinates)
        printed = run_original(name, real, generated, coordinates)
        assert found == pytest.approx(printed, rel=1e-9, abs=1e-12, nan_ok=True), name


def run_original(name: str, real: Any, generated: Any, coordinates: Any) -> dict[str, float]:
    """The values of the classes of a file, run as they stand."""
    repository, path = FILES[name]
    text = (originals.clone(repository) / path).read_text(encoding="utf-8-sig")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a backslash in a text
        tree = ast.parse(text)
    names: dict[str, Any] = {"Counter": Counter, "scipy": scipy, "asin": math.asin}
    originals.load(tree, ["EvalUtils", "CollectiveEval", "IndividualEval"], names)
    code = names["IndividualEval"].__new__(names["IndividualEval"])
    code.X, code.Y = coordinates.T.tolist()
    code.max_locs, code.max_distance = len(coordinates), profile(name).max_distance
    given = (real, generated, real) if name == "pategail" else (real, generated)
    with contextlib.redirect_stdout(io.StringIO()):
        return dict(zip(ORDERS[name], code.get_individual_jsds(*given), strict=False))


def test_movesim_in_loops() -> None:
    """Each of MoveSim's values, from its definition in plain loops."""
    (real, coordinates), (generated, _) = days(1, 25), days(2, 35)
    end = 247.3
    values: dict[str, list[list[float]]] = {}
    for rows in (real, generated):
        found: dict[str, list[float]] = {name: [] for name in ORDERS["movesim"]}
        every: Counter[int] = Counter()
        curves = []
        for row in rows:
            points = [coordinates[i] for i in row]
            for a, b in zip(points[1:], points[:-1], strict=True):
                found["distance"].append((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2)
            centre = np.mean(points, axis=0)
            squares = [(x - centre[0]) ** 2 + (y - centre[1]) ** 2 for x, y in points]
            found["radius"].append(float(np.mean(squares)))
            length = 1
            for a, b in pairwise(row):
                if a == b:
                    length += 1
                else:
                    found["duration"].append(length / 48)
                    length = 1
            found["daily locations"].append(len(set(row)) / 48)
            every.update(row.tolist())
            top = [n / 48 for _, n in Counter(row.tolist()).most_common(100)]
            curves.append(top + [0.0] * (100 - len(top)))
        total = sum(every.values())
        top = [n / total for _, n in every.most_common(100)]
        found["G-rank"] = top + [0.0] * (100 - len(top))
        mean = np.mean(curves, axis=0)
        found["I-rank"] = list(mean / mean.sum())
        for name, own in found.items():
            values.setdefault(name, []).append(own)
    edges = {
        "distance": (end, 10_000), "radius": (end**2, 10_000), "duration": (1, 48),
        "daily locations": (1, 48), "G-rank": (1, 100), "I-rank": (1, 100),
    }  # fmt: skip
    expected = {}
    for name, (first, other) in values.items():
        high, bins = edges[name]
        shares = []
        for own in (first, other):
            counts = np.histogram(own, np.arange(0, high, high / bins))[0]
            shares.append(counts / counts.sum())
        middle = (shares[0] + shares[1]) / 2
        expected[name] = sum(scipy.stats.entropy(p, middle) for p in shares) / 2
    found = protocols.movesim().evaluate(generated, real, coordinates)
    assert found == pytest.approx(expected, rel=1e-9)


def test_what_the_histograms_lose() -> None:
    """The last bin is missing: 48 places in a day, and a stay of a day, are not counted."""
    _, coordinates = days(1, 1)
    everywhere = np.tile(np.arange(48), (5, 1))
    at_home = np.zeros((5, 48), dtype=np.int64)
    found = protocols.movesim().evaluate(at_home, everywhere, coordinates)
    assert math.isnan(found["daily locations"])
    assert math.isnan(found["duration"])
    last = protocols.pategail().evaluate(at_home, everywhere, coordinates)
    assert last["duration"] == pytest.approx(math.log(2), abs=1e-6)


def test_one_pair_of_sets_has_many_numbers() -> None:
    """The audit has each protocol's values, and this library's with their floor, in nats."""
    (real, coordinates), (generated, _) = days(1, 60), days(2, 60)
    audit = protocols.audit_generated(generated, real, coordinates, users=np.arange(60) // 2)
    for name in FILES:
        own = profile(name).evaluate(generated, real, coordinates)
        assert audit.values[name] == pytest.approx(own, nan_ok=True)
    assert all(0 <= value <= math.log(2) for value, _ in audit.exact.values())
    assert all(floor > 0 for _, floor in audit.exact.values())
    assert len(audit.table.rows) == 6
    different = {round(one["distance"], 6) for one in audit.values.values()}
    assert len(different) == 3


def test_a_city_stops_the_code() -> None:
    """Where squared degrees stay below 1, the end of the bins rounds down to 0."""
    (real, coordinates), (generated, _) = days(1, 9, spread=0.2), days(2, 9)
    found = protocols.sec_movesim().evaluate(generated, real, coordinates)
    assert math.isnan(found["distance"])
    assert math.isnan(found["radius"])
    assert not math.isnan(found["duration"])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"real": np.zeros((3, 47), dtype=int)}, "`real` must be integer days"),
        ({"generated": np.full((3, 48), 130)}, "`generated` must be ids from 0 to 129, got 130"),
        ({"coordinates": np.zeros((130, 3))}, "`coordinates` must be finite degrees"),
        ({"coordinates": np.zeros((60, 2))}, "`generated` must be ids from 0 to 59"),
    ],
)
def test_errors_name_the_argument(change: dict[str, Any], text: str) -> None:
    """Days of another length, and ids without coordinates, are refused."""
    (real, coordinates), (generated, _) = days(1, 3), days(2, 3)
    real = np.minimum(real, 59)
    given = {"real": real, "generated": generated, "coordinates": coordinates, **change}
    with pytest.raises(ValueError, match=text):
        protocols.movesim().evaluate(**given)
