"""What a metric reads of a record: one value, merged over metrics, checked by the record."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import or_

from nextloc_metrics.core.queries.checks import check_bool, check_from_zero, check_positive, or_none


@dataclass(frozen=True)
class Needs:
    """What a metric reads of a record beyond the ranks; `a | b` serves both metrics.

    Attributes:
        top: the number of first ranks whose candidates are read.
        depth: the number of first ranks in which relevant locations are looked for; None for all.
        length: whether the number of ranked candidates is read.
        within: the number of first ranks whose candidates are counted, which takes their ids or the
            scores of all candidates.

    Example:
        >>> Needs(top=3, depth=3) | Needs(length=True, depth=5)
        Needs(top=3, depth=5, length=True, within=0)
    """

    top: int = 0
    depth: int | None = None
    length: bool = False
    within: int = 0

    def __post_init__(self) -> None:
        """Raise if a value is wrong; NumPy integers become Python's."""
        for name in ("top", "within"):
            object.__setattr__(self, name, check_from_zero(name, getattr(self, name)))
        check_bool("length", self.length)
        object.__setattr__(self, "depth", or_none(check_positive)("depth", self.depth))

    def __or__(self, other: Needs) -> Needs:
        return Needs(
            max(self.top, other.top),
            None if None in (self.depth, other.depth) else max(self.depth, other.depth),  # type: ignore[type-var]
            self.length or other.length,
            max(self.within, other.within),
        )

    @property
    def only_ranks(self) -> bool:
        """Whether nothing but ranks of relevant locations is read."""
        return not (self.top or self.within)


def merge_needs(needs: Iterable[Needs]) -> Needs:
    """Return the needs of several metrics."""
    found = list(needs)
    return reduce(or_, found) if found else Needs()
