"""Measures of visited locations: shares by rank, of all and within users, and flows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.display.style import import_pyplot
from nextloc_metrics.core.means import exact
from nextloc_metrics.core.means.exact import sort_rows
from nextloc_metrics.core.metric.annotated_options import Computed, Positive
from nextloc_metrics.core.metric.keyed import KeyedMetric
from nextloc_metrics.core.queries.arrays import begins
from nextloc_metrics.core.queries.hashing import BUCKETS
from nextloc_metrics.mobility.generated.measure import Base, DenseMeasure, Distance, Measure, shares
from nextloc_metrics.mobility.generated.pictures import Axis, draw_flows
from nextloc_metrics.mobility.generated.trajectories import Integers, Numbers, Trajectories

_RANKS = 100

CellNumbers: TypeAlias = tuple[Integers, Integers, Integers]


class UserVisitFrequency(DenseMeasure):
    """User visit frequency: the share of a trajectory's points at its most visited locations.

    A trajectory's locations are ranked by their number of points. The share of each rank is
    averaged over trajectories, and the last cell holds all further ranks. Shares are summed in
    steps of 2^-32. Give each user's points as one trajectory to compare users.

    Args:
        ranks: the number of ranks with a cell of their own.

    Example:
        >>> from nextloc_metrics.mobility.generated import UserVisitFrequency
        >>> metric = UserVisitFrequency(ranks=2, comparison="ks")
        >>> metric.update([[1, 1, 1, 2]], [[8, 9, 8, 9]])  # 3/4 and 1/4, against 1/2 and 1/2
        >>> metric.compute()
        tensor(0.2500)

    Source: the rank curve of González, Hidalgo and Barabási, Nature 2008.
    """

    title = "visits by a user's rank"
    quantity_unit = "ranks"

    ranks: Positive = _RANKS
    comparison: Computed[Distance] = "jsd"
    base: Computed[Base] = 2

    @property
    def num_cells(self) -> int:
        return self.ranks + 1

    def axis(self) -> Axis:
        return Axis("rank", ranks=True)

    def places(self) -> Numbers:
        return np.arange(1.0, self.num_cells + 1)

    def histograms(self) -> tuple[Any, Callable[[Any], Any]]:
        exact.check_overflow(self.state[:, -1])
        return super().histograms()

    def count(self, trajectories: Trajectories, part: Integers) -> Integers:
        order = np.lexsort([trajectories.places, trajectories.row])
        row, place = trajectories.row[order], trajectories.places[order]
        is_new = begins(row, place)
        row = row[is_new]
        visits = np.diff(np.append(is_new.nonzero()[0], len(place)))
        by_rank = np.lexsort([-visits, row])
        row, visits = row[by_rank], visits[by_rank]
        rank = np.arange(len(row)) - np.searchsorted(row, row)
        lengths = np.diff(trajectories.starts)
        share = np.rint(visits / lengths[row] * exact.ONE).astype(np.int64)
        found = np.zeros((1 + BUCKETS, self.num_cells), dtype=np.int64)
        np.add.at(found, (part[row], np.minimum(rank, self.ranks)), share)
        return found


class SparseMeasure(Measure, KeyedMetric):
    """A measure with a cell for each location or flow that occurs.

    The state is a list of one int64 tensor `[E, 4]`: part, two numbers of the cell, and the count;
    part is 0 for generated and 1 + bucket for real trajectories. The first number is -1 where the
    count is that of trajectories. Its memory grows with the cells that occur.
    """

    _num_keys = 3

    def empty_tally(self) -> Tensor:
        return torch.zeros(0, 4, dtype=torch.int64)

    @property
    def power(self) -> float | None:
        return None

    def _count_all(self, trajectories: Trajectories, part: Integers) -> Tensor:
        parts, first, other = self.cells(trajectories, part)
        one, none = np.ones(len(parts), dtype=np.int64), np.full(len(part), -1)
        found = np.column_stack([parts, first, other, one])
        sizes = np.column_stack([part, none, none, np.ones(len(part), dtype=np.int64)])
        return torch.from_numpy(np.concatenate([found, sizes]))

    @abstractmethod
    def cells(self, trajectories: Trajectories, part: Integers) -> CellNumbers:
        """Return the part and the two numbers of the cell of each visit or flow."""

    def histograms(self) -> tuple[Any, Callable[[Any], Any]]:
        entries = self.state.cpu().numpy()
        entries = entries[entries[:, 1] >= 0]
        order, is_first = sort_rows(entries[:, 1:3])
        cell, number = np.zeros(len(entries), dtype=np.int64), int(is_first.sum())
        cell[order] = is_first.cumsum() - 1
        part, count = entries[:, 0], entries[:, 3]
        own = part == 0
        generated = np.bincount(cell[own], weights=count[own], minlength=number)
        bucket, cell, count = part[~own] - 1, cell[~own], count[~own]

        def halves(mask: Any) -> Any:
            return np.stack(
                [np.bincount(cell, weights=count * one[bucket], minlength=number) for one in mask]
            )

        return generated, halves

    def sizes(self) -> Integers:
        entries = self.state.cpu().numpy()
        entries = entries[entries[:, 1] < 0]
        weights = np.bincount(entries[:, 0], weights=entries[:, 3], minlength=1 + BUCKETS)
        return weights.astype(np.int64)


class VisitFrequency(SparseMeasure):
    """Visit frequency: the share of all points at the most visited locations, by rank.

    Each set's locations are ranked by its own number of points, so the curves are compared, not
    the locations. The last cell holds all further ranks. Points must be ids.

    Args:
        ranks: the number of ranks with a cell of their own.

    Example:
        >>> from nextloc_metrics.mobility.generated import VisitFrequency
        >>> metric = VisitFrequency(ranks=2, comparison="ks")
        >>> metric.update([[1, 1, 1, 2]], [[8, 9, 8, 9]])  # 3/4 and 1/4, against 1/2 and 1/2
        >>> metric.compute()
        tensor(0.2500)
    """

    title = "visits by rank"
    quantity_unit = "ranks"

    ranks: Computed[Positive] = _RANKS
    comparison: Computed[Distance] = "jsd"
    base: Computed[Base] = 2

    def axis(self) -> Axis:
        return Axis("rank", ranks=True)

    def places(self) -> Numbers:
        return np.arange(1.0, self.ranks + 2)

    def cells(self, trajectories: Trajectories, part: Integers) -> CellNumbers:
        ids = trajectories.need_ids(self)
        return part[trajectories.row], ids, np.zeros_like(ids)

    def histograms(self) -> tuple[Any, Callable[[Any], Any]]:
        generated, halves = super().histograms()
        return self._by_rank(generated), lambda mask: self._by_rank(halves(mask))

    def _by_rank(self, counts: Any) -> Any:
        falling = -np.sort(-counts, -1)
        found = np.zeros((*counts.shape[:-1], self.ranks + 1))
        found[..., : min(counts.shape[-1], self.ranks)] = falling[..., : self.ranks]
        found[..., -1] = falling[..., self.ranks :].sum(-1)
        return found


class Flows(SparseMeasure):
    """Flows: the share of moves from each origin to each destination. Points must be ids.

    A move is from a point to the next one of a trajectory at another location.

    Args:
        comparison: `"cpc"`, the common part of commuters: the sum over flows of the smaller of the
            two shares, from 0 to 1, higher is better. It equals 2 sum min(a, b) / (sum a + sum b)
            of the counts where both sets have equally many moves. Or `"jsd"`.
        itself: whether successive points at one location are a move, too.

    The floor of `"cpc"` is a ceiling: the part that real users have in common with others.

    Example:
        >>> from nextloc_metrics.mobility.generated import Flows
        >>> metric = Flows()
        >>> metric.update([[1, 2, 1]], [[1, 2, 3]])  # 1-2 and 2-1, against 1-2 and 2-3
        >>> metric.compute()
        tensor(0.5000)

    Source: Lenormand, Bassolas and Ramasco, "Systematic comparison of trip distribution laws and
    models", Journal of Transport Geography 2016.
    """

    title = "flows"

    comparison: Computed[Literal["cpc", "jsd"]] = "cpc"
    base: Computed[Base] = 2
    _: KW_ONLY
    itself: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        # `Metric` lets no one set it
        vars(self)["higher_is_better"] = self.comparison == "cpc"

    def cells(self, trajectories: Trajectories, part: Integers) -> CellNumbers:
        ids = trajectories.need_ids(self)
        moves = trajectories.follows
        if not self.itself:
            moves = moves & (ids[1:] != ids[:-1])
        return part[trajectories.row[1:][moves]], ids[:-1][moves], ids[1:][moves]

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        import_pyplot()
        return draw_flows(*self.distributions(), self.headline(), ax)

    def compare(self, first: Any, other: Any) -> Numbers:
        if self.comparison == "cpc":
            common: Numbers = np.minimum(shares(first), shares(other)).sum(-1)
            return common
        return super().compare(first, other)
