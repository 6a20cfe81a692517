"""Locations of a town, and their distances by scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics.pairwise import haversine_distances

from nextloc_metrics.geography import Locations
from oracles.sequences import RADIUS


def locations_of_a_town(number: int = 40, seed: int = 0) -> tuple[Any, Any, Locations]:
    """Locations within some km; two have equal coordinates, and one is far away."""
    generator = np.random.default_rng(seed)
    latitude, longitude = generator.normal([[40.7], [-74]], 0.02, (2, number))
    latitude[1], longitude[1] = latitude[0], longitude[0]
    latitude[2], longitude[2] = -latitude[3], longitude[3] + 180
    return latitude, longitude, Locations(latitude, longitude)


def haversine(latitude: Any, longitude: Any) -> Any:
    """All distances in km, by scikit-learn."""
    return RADIUS * haversine_distances(np.radians(np.stack([latitude, longitude], 1)))
