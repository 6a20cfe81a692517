"""The edges of a histogram's cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextloc_metrics.arguments.arrays import Array, as_tensor
from nextloc_metrics.arguments.checks import check_number, check_positive
from nextloc_metrics.arguments.messages import describe, short

Edges = NDArray[np.float64]


def log_edges(low: float, high: float, per_decade: int = 10) -> Edges:
    """Return edges from `low` to at least `high`, `per_decade` to each power of ten.

    Example:
        >>> from nextloc_metrics import mobility
        >>> mobility.log_edges(0.1, 100, per_decade=1)
        array([  0.1,   1. ,  10. , 100. ])
    """
    low, high = check_number("low", low), check_number("high", high)
    per_decade = check_positive("per_decade", per_decade)
    if high <= low:
        raise ValueError(f"`high` must be above `low`, got {short(high)} and {short(low)}.")
    number = int(np.ceil(np.round(np.log10(high / low) * per_decade, 9)))
    # exact at whole powers of ten of `low`
    powers: Edges = np.power(10.0, np.arange(number + 1) / per_decade)
    return low * powers


def quantile_edges(values: Any, cells: int) -> Edges:
    """Return edges that divide values into at most `cells` equal shares; repeats are left out."""
    cells = check_positive("cells", cells)
    if not len(values):
        raise ValueError("`real` must hold at least one value of the measure, got none.")
    shares = np.arange(cells + 1) / cells
    found = np.unique(np.quantile(values, shares, method="inverted_cdf"))
    # the highest value would else be the first one above all cells
    return np.append(found[:-1] if len(found) > 1 else found, np.nextafter(found[-1], np.inf))


def read_edges(name: str, edges: Array | Sequence[float]) -> Edges:
    """Return edges as a read-only array; raise unless they are finite and rise."""
    found = as_tensor(name, edges).detach().cpu()
    if found.ndim != 1 or len(found) < 2 or found.is_complex():
        raise ValueError(f"`{name}` must be at least two numbers, got {describe(found)}.")
    array: Edges = found.double().numpy().copy()
    if not np.isfinite(array).all() or (np.diff(array) <= 0).any():
        raise ValueError(f"`{name}` must be finite and rise, got {short(array.tolist())}.")
    array.flags.writeable = False
    return array


def cell_of(values: Any, edges: Edges) -> NDArray[np.int64]:
    """Return the cell of each value: 0 below all edges, then [edge, next edge), then above."""
    found: NDArray[np.int64] = np.searchsorted(edges, values, side="right").astype(np.int64)
    return found


def middles(edges: Edges) -> Edges:
    """Return where the values of each cell stand: its middle, or the outermost edge."""
    found: Edges = np.concatenate([edges[:1], (edges[1:] + edges[:-1]) / 2, edges[-1:]])
    return found
