"""Several independent answers of one model to each query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nextloc_metrics.core.queries.answers import Answers
from nextloc_metrics.core.queries.arrays import Array, as_tensor
from nextloc_metrics.core.queries.messages import short


class Draws:
    """Independent answers of one model to each query, such as samples of a language model.

    They are not the beams of one search, which depend on another, nor runs, whose training has an
    effect on all queries.

    Args:
        draws: S predictions of the same N queries, each as for `evaluate`; or an array `[N, S, K]`
            of lists, or `[N, S]` of single ids.

    Raises:
        ValueError: there is no draw, or an array has another shape.

    Example:
        >>> draws = Draws([[[3], [1]], [[3], [2]]])  # two draws of two queries
        >>> draws, len(draws)
        (Draws(2 draws), 2)
    """

    def __init__(self, draws: Sequence[Array] | Array) -> None:
        given: Any = draws
        if not isinstance(given, (list, tuple)):
            array = as_tensor("draws", given)
            array = array[..., None] if array.ndim == 2 else array
            if array.ndim != 3:
                raise ValueError(
                    "`draws` must be a list of predictions, or an array [N, S] or [N, S, K], got "
                    f"{short(tuple(array.shape))}."
                )
            given = list(array.unbind(1))
        if not len(given):
            raise ValueError("`draws` must hold at least one draw per query, got none.")
        self.draws: list[Any] = list(given)

    def __len__(self) -> int:
        return len(self.draws)

    def __repr__(self) -> str:
        return f"Draws({len(self)} draw{'s' * (len(self) > 1)})"


def read_runs(name: str, given: Any) -> list[Draws]:
    """Return the runs of a model: of a list of predictions several, of anything else one."""
    several = isinstance(given, (list, tuple)) and bool(given) and _is_run(given[0])
    runs = [
        one if isinstance(one, Draws) else Draws([one]) for one in (given if several else [given])
    ]
    if len({len(run) for run in runs}) > 1:
        raise ValueError(
            f"`models[{name!r}]` must have equal numbers of draws in all runs, got "
            f"{short([len(run) for run in runs])}."
        )
    return runs


def _is_run(one: Any) -> bool:
    """Return whether an element of a list is predictions of all queries, and not of one."""
    if isinstance(one, Draws | Answers):
        return True
    if hasattr(one, "shape"):
        return len(one.shape) == 2
    first = one[0] if isinstance(one, (list, tuple)) and one else None
    return isinstance(first, (list, tuple)) or getattr(first, "shape", ()) != ()
