"""Pictures of two distributions, generated and real, with the range of random halves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nextloc_metrics.display.style import COLORS, DASHES, add_legend, make_axes, style

# The range of the halves, the largest number of ticks, of ranks that are drawn as steps, of flows.
_BAND, _TICKS, _FLOWS = "0.82", 8, 5000


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
    looks = (("real", real, COLORS[3], "-"), ("generated", generated, COLORS[2], DASHES[1]))
    if axis.ranks:
        at = np.arange(1, number + 1)
        if band is not None:
            axes.fill_between(at, *band, color=_BAND, label="random halves, 95 %", linewidth=0)
        for name, shares, color, dash in looks:
            axes.plot(at[:-1], shares[:-1], color=color, linestyle=dash, label=name)
            rest = {"color": color, "fillstyle": "none", "linestyle": "none"}
            axes.plot(at[-1:], shares[-1:], marker="s", **rest)
        axes.set_xscale("log")
        axes.set_yscale("symlog", linthresh=1e-4)
        axes.set_ylim(0, 1.1)
        axes.set_xlabel(f"{axis.label} (square: the rest)")
    else:
        ends = np.arange(number + 1)
        if band is not None:
            low, high = (np.append(side, side[-1:]) for side in band)
            axes.fill_between(
                ends, low, high, step="post", color=_BAND, label="random halves, 95 %", linewidth=0
            )
        for name, shares, color, dash in looks:
            axes.stairs(shares, ends, color=color, linestyle=dash, label=name, linewidth=1.4)
        axes.set_xlim(0, number)
        axes.set_ylim(bottom=0)
        every = max(1, -(-len(axis.edges) // _TICKS))
        shown = range(0, len(axis.edges), every)
        offset = (number + 1 - len(axis.edges)) // 2
        axes.set_xticks([x + offset for x in shown], [axis.edges[x] for x in shown])
        axes.set_xlabel(axis.label)
    axes.set_ylabel("share")
    axes.set_title(title, loc="left")
    add_legend(axes)
    return figure, axes


@style()
def draw_flows(generated: Any, real: Any, title: str, ax: Any) -> Any:
    """Draw a dot for each of the largest flows: its real and its generated share."""
    figure, axes = make_axes(ax, 4.2, 4.2)
    largest = np.argsort(-(generated + real), kind="stable")[:_FLOWS]
    axes.plot(real[largest], generated[largest], "o", color=COLORS[0], markersize=2.5, alpha=0.4)
    most = max(float(np.nanmax(real)), float(np.nanmax(generated))) if len(real) else 1.0
    axes.plot([0, most], [0, most], color="0.5", linewidth=0.8)
    least = min((x[x > 0].min() for x in (real, generated) if (x > 0).any()), default=1e-3)
    for scale, limit in ((axes.set_xscale, axes.set_xlim), (axes.set_yscale, axes.set_ylim)):
        scale("symlog", linthresh=float(least))
        limit(-float(least) / 5, 1.3 * most)
    axes.set_xlabel("share of moves, real")
    axes.set_ylabel("share of moves, generated")
    axes.set_title(title, loc="left")
    return figure, axes
