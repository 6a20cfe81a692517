"""The parts of a record that a metric reads, as one value; values of several metrics are merged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import or_

from nextloc_metrics.core.queries.checks import (
    Check,
    check_bool,
    check_from_zero,
    check_positive,
    or_none,
)


@dataclass(frozen=True)
class Needs:
    """The parts of a record that a metric reads beyond the ranks; `a | b` is for two metrics.

    Attributes:
        top: the number of first ranks whose candidates are read.
        depth: the number of first ranks in which relevant locations are looked for; None for all.
        length: whether the number of ranked candidates is read.
        within: the number of first ranks whose candidates are counted, by their ids or the scores
            of all candidates.
        groups: whether a score or tally reads `record.groups`.
        target: whether the relevant locations are read; if not, `update(preds)` takes no target.

    Example:
        >>> Needs(top=3, depth=3) | Needs(length=True, depth=5)
        Needs(top=3, depth=5, length=True, within=0, groups=False, target=True)
    """

    top: int = 0
    depth: int | None = None
    length: bool = False
    within: int = 0
    groups: bool = False
    target: bool = True

    def __post_init__(self) -> None:
        """Raise if a value is wrong; NumPy integers become Python's."""
        for name, check in _CHECKS.items():
            if (value := getattr(self, name)) is not getattr(type(self), name):  # no default
                object.__setattr__(self, name, check(name, value))

    def __or__(self, other: Needs) -> Needs:
        return Needs(
            max(self.top, other.top),
            None if None in (self.depth, other.depth) else max(self.depth, other.depth),  # type: ignore[type-var]
            self.length or other.length,
            max(self.within, other.within),
            self.groups or other.groups,
            self.target or other.target,
        )

    @property
    def only_ranks(self) -> bool:
        """Whether nothing but ranks of relevant locations is read."""
        return not (self.top or self.within)


_CHECKS: dict[str, Check] = {
    **dict.fromkeys(("top", "within"), check_from_zero),
    **dict.fromkeys(("length", "groups", "target"), check_bool),
    "depth": or_none(check_positive),
}


def merge_needs(needs: Iterable[Needs]) -> Needs:
    """Return the needs of several metrics."""
    distinct = list(needs)
    if {*map(type, distinct)} == {Needs}:  # the needs of a user's record may have no hash
        distinct = [*dict.fromkeys(distinct)]
    return reduce(or_, distinct) if distinct else Needs()
