"""Metrics of trajectories against other libraries: geobleu and dtaidistance."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from nextloc_metrics.trajectories import DTW, GeoBLEU, PairMetric
from oracles.sequences import Points, padded, walks

SIZES = [(1, 1), (1, 4), (4, 1), (2, 2), (5, 5), (5, 8), (8, 5), (12, 12), (48, 48)]

# Values of yahoojapan/geobleu, `calc_geobleu_orig(..., beta=0.5)` and `calc_dtw_orig(...,
# scale_factor=2.)` of `geobleu/seq_eval.py`: at commit 55e5599, with `max_n=3`, and at commit
# d9efb0f, after 3afb63c, with `max_n=5`.
GEO_BLEU = {
    2023: [
        *(0.3269218953517579, 0.018315638888734182, 0.6065306597126334, 0.18102475165202556),
        *(0.17519626433481136, 0.11432909984386104, 0.2483912883910019, 0.21149623958060781),
        0.22265359739324786,
    ],
    2025: [
        *(0.3269218953517579, 0.018315638888734182, 0.15163266492815836, 0.18102475165202556),
        *(0.02288480194843734, 0.03453349299637956, 0.027303523137496743, 0.08426016962977875),
        0.08996477265479945,
    ],
}
DTW_KM = {
    2023: [
        *(1.118033988749895, 2.0615528128088303, 5.00194845656608, 2.58113883008419),
        *(6.033509936172545, 5.231420369957075, 7.7118343526817155, 11.760725631642915),
        43.072449172484575,
    ],
    2025: [
        *(1.118033988749895, 5.760725631642915, 5.00194845656608, 2.699172818834085),
        *(7.15154392492244, 8.415654779058515, 8.829868341431611, 12.87875962039281),
        44.190483161234475,
    ],
}


def points(size: int, seed: int) -> Points:
    """Points on a grid, with repeats."""
    return [((7 * i + 3 * seed) % 5 + i // 4, (i * i + seed) % 6) for i in range(size)]


def scores(metric: PairMetric, pairs: list[tuple[Points, Points]]) -> Any:
    """The score of each pair."""
    record = metric.read(padded([p for p, _ in pairs]), padded([t for _, t in pairs]))
    return metric.scores_of(record)[0].numpy()


@pytest.mark.parametrize("year", [2023, 2025])
def test_the_challenges_values(year: Any) -> None:
    """`as_of` gives the values of geobleu before and after its change of May 2025."""
    pairs = [(points(rows, 1), points(columns, 2)) for rows, columns in SIZES]
    # With AVX-512, NumPy 1 rounds `exp` otherwise. Many n-grams of the longest pair are equally
    # near but for rounding, which then decides otherwise which of them are matched.
    size = len(SIZES) - (np.lib.NumpyVersion(np.__version__) < "2.0.0")
    found = scores(GeoBLEU.as_of(year), pairs)
    np.testing.assert_allclose(found[:size], GEO_BLEU[year][:size], atol=1e-12)
    np.testing.assert_allclose(scores(DTW.as_of(year), pairs), DTW_KM[year], rtol=1e-12)


def test_geobleu_where_it_is_installed() -> None:
    """The installed version, on walks over a plane and a grid.

    On a grid, products of the same factors in another order are equal but for rounding. Their order
    depends on the last bit of NumPy's exponential, so few pairs may be matched otherwise.
    """
    geobleu = imported("geobleu")
    pairs = walks(60, 24, seed=8)
    wanted = [geobleu.calc_geobleu_orig(p, t, max_n=5, beta=0.5) for p, t in pairs]
    found = scores(GeoBLEU.as_of(2025), pairs)
    assert (np.abs(found - wanted) < 1e-12).mean() > 0.95
    np.testing.assert_allclose(found[::3], wanted[::3], atol=1e-12)  # on a plane
    wanted = [geobleu.calc_dtw_orig(p, t, scale_factor=2.0) for p, t in pairs]
    np.testing.assert_allclose(scores(DTW.as_of(2025), pairs), wanted, rtol=1e-12)


def test_dtaidistance() -> None:
    """Dynamic time warping of walks on a line; a window there is one wider."""
    dtw = imported("dtaidistance.dtw")
    for equal, window, there in ((False, None, None), (True, 2, 3)):
        walked = walks(40, 20, seed=9, equal=equal)
        pairs = [([(x, 0.0) for x, _ in p], [(x, 0.0) for x, _ in t]) for p, t in walked]
        lines = [[np.array([x for x, _ in points]) for points in pair] for pair in walked]
        wanted = [dtw.distance(p, t, window=there, inner_dist="euclidean") for p, t in lines]
        np.testing.assert_allclose(
            scores(DTW(window=window), pairs), wanted, rtol=1e-12, atol=1e-12
        )


def imported(name: str) -> ModuleType:
    """A library, or a skip where it is not installed."""
    pytest.importorskip(name.split(".")[0], reason=f"needs {name}, which is not installed")
    return importlib.import_module(name)
