"""Pictures of two distributions, generated and real, with the range of random halves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nextloc_metrics.core.display.style import COLORS, DASHES, add_legend, make_axes, style

# The range of the halves, the largest number of ticks, of ranks that are drawn as steps, of flows.
_BAND, _TICKS, _FLOWS = "0.82", 8, 5000
# Ticks stand at every so many edges, so that those of ten to a power of ten are at the powers.
_STEPS = [x * 10**power for power in range(9) for x in (1, 2, 3, 5)]
_HALVES = "random halves of real users, 95 %"


class Axis(NamedTuple):
    """The cells of a picture: where each begins, and the ends of the last one."""

    label: str  #: what the cells are of
    edges: Sequence[str] = ()  #: the text of the edges between cells
    ranks: bool = False  #: whether cells are ranks, drawn on logarithmic axes


@style()
def draw_cells(generated: Any, real: Any, band: Any, axis: Axis, title: str, ax: Any) -> Any:
    """Draw the share of each cell: steps, and for ranks lines on logarithmic axes."""
    figure, axes = make_axes(ax)
    number = len(real)
    shade: dict[str, Any] = {"color": _BAND, "linewidth": 0, "label": _HALVES}
    looks = (("real", real, COLORS[3], "-"), ("generated", generated, COLORS[2], DASHES[1]))
    if axis.ranks:
        at = np.arange(1, number + 1)
        if band is not None:
            axes.fill_between(at, *band, **shade)
        for name, shares, color, dash in looks:
            axes.plot(at[:-1], shares[:-1], color=color, linestyle=dash, label=name)
            rest = {"color": color, "fillstyle": "none", "linestyle": "none"}
            axes.plot(at[-1:], shares[-1:], marker="s", **rest)
        axes.set(xscale="log", yscale="log", xlabel=f"{axis.label} (square: the rest)")
        _write_plainly(axes.xaxis, axes.yaxis)
    else:
        ends = np.arange(number + 1)
        if band is not None:
            low, high = (np.append(side, side[-1:]) for side in band)
            axes.fill_between(ends, low, high, step="post", **shade)
        for name, shares, color, dash in looks:
            axes.stairs(shares, ends, color=color, linestyle=dash, label=name, linewidth=1.4)
        axes.set_xlim(0, number)
        axes.set_ylim(0, 1.3 * axes.get_ylim()[1])  # room for the legend
        every = next(x for x in _STEPS if x * _TICKS >= len(axis.edges))
        shown = range(0, len(axis.edges), every)
        offset = (number + 1 - len(axis.edges)) // 2
        axes.set_xticks([x + offset for x in shown], [axis.edges[x] for x in shown])
        axes.set_xlabel(axis.label)
    axes.set_ylabel("share")
    axes.set_title(title, loc="left", fontsize=8)
    add_legend(axes)
    return figure, axes


@style()
def draw_flows(generated: Any, real: Any, title: str, ax: Any) -> Any:
    """Draw a dot for each of the largest flows: its real and its generated share."""
    figure, axes = make_axes(ax, 4.2, 4.2)
    largest = np.argsort(-(generated + real), kind="stable")[:_FLOWS]
    shares = np.stack([real[largest], generated[largest]])
    known = shares[shares > 0]
    least, most = (float(known.min()), float(known.max())) if len(known) else (0.1, 1.0)
    shares = np.where(shares > 0, shares, least / 3)
    axes.plot(*shares, "o", color=COLORS[0], markersize=2.5, alpha=0.4)
    axes.plot([least, most], [least, most], color="0.5", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="share of moves, real (leftmost: 0)")
    axes.set_ylabel("share of moves, generated (lowest: 0)")
    _write_plainly(axes.xaxis, axes.yaxis)
    axes.set_title(title, loc="left", fontsize=8)
    return figure, axes


def _write_plainly(*of: Any) -> None:
    """Write powers of ten as numbers."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    for axis in of:
        axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axis.set_minor_formatter(NullFormatter())
