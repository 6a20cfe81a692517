"""Groups of queries that explain an accuracy: staying put, and moving."""

from __future__ import annotations

from torch import Tensor

from nextloc_metrics.core.queries.arrays import Array, as_tensor
from nextloc_metrics.core.queries.checks import is_integer
from nextloc_metrics.core.queries.messages import describe


def moved(previous: Array, target: Array) -> Tensor:
    """Return which queries move, int64: 1 to another location, 0 for those that stay.

    Use the result as groups, `groups={"moved": moved(previous, target)}`, of
    `Grouped(metric, 2, by="moved")`. Much of an accuracy is that of queries that stay. A query
    without a previous location has -1, which `Grouped` refuses: leave it out with `mask`.

    Args:
        previous: integer `[...]`, the location of the visit before; -1 for none.
        target: integer in the same shape, or `[..., M]`, several padded with -1: a query stays if
            `previous` is one of them.

    Raises:
        ValueError: the arguments are not integers, or their shapes do not fit.

    Example:
        >>> moved([5, 5, -1], [5, 7, 7])
        tensor([ 0,  1, -1])

    Source: A. Cuttone, S. Lehmann and M. C. González, "Understanding predictability and exploration
    in human mobility", EPJ Data Science 7, 2018.
    """
    before = as_tensor("previous", previous)
    relevant = as_tensor("target", target, before.device)
    several = relevant if relevant.ndim > before.ndim else relevant[..., None]
    if not (is_integer(before) and is_integer(relevant)) or several.shape[:-1] != before.shape:
        raise ValueError(
            "`previous` and `target` must be integers, one or several targets for each previous "
            f"location, got {describe(before)} and {describe(relevant)}."
        )
    stays = (several == before[..., None]).any(-1)
    return (~stays).long().masked_fill(before < 0, -1)
