"""Pictures of trajectories: the error over the day, and single days on a map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from nextloc_metrics.display.lines import draw_lines
from nextloc_metrics.display.style import (
    Scale,
    add_legend,
    import_pyplot,
    looks,
    make_axes,
    number_by_integers,
    style,
)


@style()
def draw_errors(errors: Mapping[int, float], unit: str, ax: Any = None) -> Any:
    """Draw the mean distance of the predicted points of each slot of a day."""
    figure, axes = make_axes(ax)
    draw_lines({"": (list(errors), list(errors.values()))}, axes)
    axes.set_xlabel("slot of the day")
    number_by_integers(axes.xaxis)
    Scale(f"mean point error ({unit})", 0, None).finish(axes, "y", from_lowest=True)
    return figure, axes


@style()
def draw_days(days: Sequence[tuple[str, Tensor, Tensor]], by_degrees: bool) -> Any:
    """Draw predicted and true points of some days side by side, each to its own scale.

    Args:
        days: a title, the predicted points `[L, 2]` and the true points `[M, 2]`.
        by_degrees: whether points are latitude and longitude.
    """
    figure, row = import_pyplot().subplots(
        1, len(days), figsize=(2.9 * len(days), 3.2), layout="constrained", squeeze=False
    )
    for axes, (title, *sequences) in zip(row[0], days, strict=True):
        found = looks(["true", "predicted"])
        for points, (name, look) in zip(reversed(sequences), found.items(), strict=True):
            y, x = points.T.tolist() if by_degrees else points.flip(1).T.tolist()
            axes.plot(x, y, color=look.color, linestyle=look.dash, marker=look.marker, label=name)
        if by_degrees:  # a degree of longitude is shorter than one of latitude
            latitude = sequences[1][:, 0].deg2rad().mean()
            axes.set_aspect(1 / max(float(latitude.cos()), 0.01), adjustable="datalim")
        else:
            axes.set_aspect("equal", adjustable="datalim")
        axes.set_title(title)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(True)
    add_legend(row[0][0])
    return figure, row[0]
