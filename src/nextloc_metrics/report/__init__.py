"""An evaluation in one call, models side by side, the HTML page.

It imports `files`, `analysis`, `protocols` and `trajectories`. Begin with `evaluation.evaluate`.
`contents` has the names; nothing is imported before one of them is asked for.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nextloc_metrics.report.contents import *  # noqa: F403 - all of them
else:
    from nextloc_metrics.arguments.lazy import hand_on

    __getattr__, __dir__ = hand_on(__name__)
