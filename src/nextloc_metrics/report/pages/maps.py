"""The map of where a model is right."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nextloc_metrics.core.display.style import Scale, add_note, make_axes, style
from nextloc_metrics.core.metric.grouped import Grouped
from nextloc_metrics.geography import Locations

# More locations than this are drawn as hexagons.
MOST_DOTS = 1000

# Dark to light in grey as well, and the same to the colour-blind.
_COLORS = "viridis"


@style()
def error_map(by_location: Grouped, locations: Locations, *, ax: Any = None) -> Any:
    """Draw where a model is right: the value and the number of queries at each target location.

    Up to a thousand locations are drawn as dots, whose area is the number of queries. More are
    drawn as hexagons, whose value is the mean over the queries there. The map is to scale.

    Args:
        by_location: the metric grouped by the target's location, such as
            `Grouped(AccuracyAtK(1), num_locations)` with the targets as `groups`.
        locations: the coordinates.

    Raises:
        ValueError: the numbers of groups and of locations differ, there is no query, or a
            location with a query has NaN as coordinates.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import AccuracyAtK, Grouped, plotting
        >>> from nextloc_metrics.geography import Locations
        >>> by_location = Grouped(AccuracyAtK(1), 2)
        >>> by_location.update(tensor([[0, 1], [0, 1]]), [0, 1], groups=[0, 1])
        >>> figure, axes = plotting.error_map(by_location, Locations([40.7, 40.8], [-74.0, -73.9]))
        >>> len(axes.collections[0].get_offsets())  # a dot for each location
        2
    """
    if by_location.num_groups != len(locations):
        raise ValueError(
            f"`by_location` must have a group for each of the {len(locations)} locations, got "
            f"{by_location.num_groups}."
        )
    numbers = torch.as_tensor(by_location._numbers()[0]).double().cpu()
    seen = numbers > 0
    if not seen.any():
        raise ValueError("`by_location` must have counted a query, got none.")
    if (wrong := seen & locations.missing().cpu()).any():
        raise ValueError(
            "`locations` must have coordinates for each location with a query, got NaN for "
            f"location {int(wrong.nonzero()[0])}."
        )
    values = by_location.compute().double().cpu()
    points = locations.project().cpu()[seen]
    figure, axes = make_axes(ax, 5.2, 4.4)
    metric = by_location.metric
    scale = Scale(metric.label, metric.plot_lower_bound, metric.plot_upper_bound)
    if int(seen.sum()) > MOST_DOTS:
        drawn = _draw_hexagons(axes, points, values[seen], numbers[seen])
        add_note(axes, "a hexagon is the mean over its queries")
    else:
        most = int(numbers.max())
        sizes = 4 + 200 * numbers[seen] / most
        drawn = axes.scatter(
            *points.T.numpy(),
            s=sizes.numpy(),
            c=values[seen].numpy(),
            cmap=_COLORS,
            edgecolors="black",
            linewidths=0.3,
        )
        counts = drawn.legend_elements("sizes", 3, "{x:,g}", lambda size: (size - 4) * most / 200)
        axes.legend(*counts, title="queries", loc="upper left", bbox_to_anchor=(1, 1))
    drawn.set_clim(scale.lower, scale.upper)
    axes.set(aspect="equal", xlabel="km to the east", ylabel="km to the north")
    scale.label(figure.colorbar(drawn, ax=axes, shrink=0.8).ax.yaxis)
    return figure, axes


def _draw_hexagons(axes: Any, points: Tensor, values: Tensor, numbers: Tensor) -> Any:
    low, high = points.amin(0).tolist(), points.amax(0).tolist()
    options = {"gridsize": 45, "extent": (low[0], high[0], low[1], high[1]), "linewidths": 0.2}
    x, y = points.T.numpy()

    def total(weights: Tensor) -> Any:
        return axes.hexbin(x, y, C=weights.numpy(), reduce_C_function=sum, **options)

    queries = total(numbers)
    drawn = total(numbers * values)
    drawn.set_array(drawn.get_array() / queries.get_array())
    queries.remove()
    drawn.set_cmap(_COLORS)
    return drawn
