"""Whole movements: trajectories.

A room for each: a record of what is compared, and formulas on it. This wing imports `metrics`,
`geography` and `core`. Begin with `trajectories.pairs`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nextloc_metrics.mobility import trajectories as trajectories
else:
    from nextloc_metrics.core.lazy import import_when_asked

    __getattr__, __dir__ = import_when_asked(__name__)
