"""The usual metrics of trajectories in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nextloc_metrics.core.base.collection import RankingCollection
from nextloc_metrics.core.queries.checks import check_bool, check_separator
from nextloc_metrics.core.queries.messages import describe
from nextloc_metrics.geography.locations import Locations, Units
from nextloc_metrics.trajectories.errors import MeanPointError, PointErrorAt
from nextloc_metrics.trajectories.geobleu import GeoBLEU
from nextloc_metrics.trajectories.metric import PairMetric
from nextloc_metrics.trajectories.warping import DTW


def trajectory_metrics(
    *,
    units: Units = "cells",
    locations: Locations | None = None,
    n: int = 5,
    beta: float = 0.5,
    scale: float = 1.0,
    steps: Sequence[int] = (),
    aligned: bool = True,
    separator: str = "_at_",
    prefix: str | None = None,
    **kwargs: Any,
) -> RankingCollection:
    """Return the usual metrics of trajectories, which read each batch once.

    They are `geo_bleu` and `dtw`, and for sequences of equal length `mean_point_error`,
    `last_point_error`, and `point_error_at_1` and so on for `steps`.

    Args:
        units: that of [`PairMetric`][nextloc_metrics.trajectories.PairMetric].
        locations: the same.
        n: that of [`GeoBLEU`][nextloc_metrics.trajectories.GeoBLEU], as are `beta` and
            `scale`.
        steps: the steps whose errors are averaged, such as 1, 2 and 3.
        aligned: whether all predictions are as long as their targets, which the errors of points
            need.
        separator: what stands between a name and its step.
        prefix: text before every name.
        kwargs: `validate_args`, and TorchMetrics' own keyword arguments.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics.trajectories import trajectory_metrics
        >>> metrics = trajectory_metrics(steps=[1])
        >>> metrics.update(tensor([[[0.0, 0.0], [3.0, 4.0]]]), tensor([[[0.0, 1.0], [0.0, 0.0]]]))
        >>> metrics.table()
        metric                        value
        geo_bleu (%)                  16.70
        dtw (cells)                       6
        mean_point_error (cells)          3
        last_point_error (cells)          5
        point_error_at_1 (cells)          1
        1 query counted
    """
    check_separator(separator)
    check_bool("aligned", aligned)
    if not isinstance(steps, Sequence) or isinstance(steps, str):
        raise TypeError(
            f"`steps` must be a list of integers, such as [1, -1], got {describe(steps)}."
        )
    options = {"units": units, "locations": locations, **kwargs}
    members: dict[str, PairMetric] = {
        "geo_bleu": GeoBLEU(n, beta, scale, **options),
        "dtw": DTW(**options),
    }
    if aligned:
        members["mean_point_error"] = MeanPointError(**options)
        members["last_point_error"] = PointErrorAt(-1, **options)
        for step in steps:
            members[f"point_error{separator}{step}"] = PointErrorAt(step, **options)
    elif steps:
        raise ValueError("`steps` must be empty unless `aligned` is True.")
    return RankingCollection(members, prefix=prefix)
