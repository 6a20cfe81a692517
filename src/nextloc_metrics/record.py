"""The data of a ranking: the ranks of the relevant locations, and the first candidates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import torch
from torch import Tensor

from nextloc_metrics.arrays import Array, as_tensor
from nextloc_metrics.checks import is_integer
from nextloc_metrics.messages import describe, got, short

if TYPE_CHECKING:
    from typing_extensions import Self

Ties = Literal["expected", "optimistic", "pessimistic"]

#: `above` of a relevant location that the model does not retrieve: beyond every cut-off `k`
UNRETRIEVED = 1 << 62

#: an id that is in no list, also not as padding
UNLISTED = -1 << 63


@dataclass(eq=False)
class TopCandidates:
    """The first candidates of a batch of queries.

    `ids` holds -1 where no candidate is certain. As an index, -1 is the last row of a table: use
    [`look_up`][nextloc_metrics.record.TopCandidates.look_up] to read a table.

    Attributes:
        top: the number of first ranks; 0 if only `best` was kept.
        retrieved: int64 `[N]`, the number of first ranks that have a candidate; of rank 1 if `top`
            is 0.
        best: int64 `[N]`, the best candidate, the lowest id of tied ones; -1 where a row of scores
            has a NaN or nothing above -inf, or a list is empty.
        ids: int64 `[N, T]`, T = min(top, C), best first, tied ones by id, -1 for none. A tied
            block that crosses rank `top` is dropped; for `top=1` so is any tie for rank 1. A
            candidate scored NaN comes first.
        above: int64 `[N, T]`, the number of candidates above each candidate.
    """

    top: int
    retrieved: Tensor
    best: Tensor
    ids: Tensor
    above: Tensor

    @property
    def known(self) -> Tensor:
        """Which of `ids` are certain candidates, bool `[N, T]`: not -1, and not scored NaN."""
        is_nan = (self.best < 0)[:, None] & (self.above == 0)
        return (self.ids >= 0) & ~is_nan

    def look_up(self, table: Tensor, fill: float) -> Tensor:
        """Return the candidates' rows of a table, such as their coordinates.

        Args:
            table: `[C, ...]`, one row per location.
            fill: the value where the candidate is not `known`, or its id is not in the table.

        Returns:
            `[N, T, ...]`.

        Raises:
            TypeError: `table` is not a tensor of at least one dimension.

        Example:
            >>> from torch import tensor
            >>> from nextloc_metrics import Ranking
            >>> scores = tensor([[0.1, 0.7, 0.2], [0.4, 0.2, 0.4]])  # the second has a tie
            >>> ranking = Ranking.from_scores(scores, tensor([1, 0]), top=1)
            >>> ranking.top_candidates(1).look_up(tensor([5.0, 6.0, 7.0]), fill=float("nan"))
            tensor([[6.],
                    [nan]])
        """
        return look_up(table, self.ids, self.known, fill)

    def cut(self, top: int) -> TopCandidates:
        """Keep the first `top` ranks; drop a tied block that crosses rank `top`."""
        ids, above = self.ids[:, :top], self.above[:, :top]
        if self.above.shape[1] > top:
            ids = ids.masked_fill(above == self.above[:, top : top + 1], -1)
        return TopCandidates(top, self.retrieved.clamp(max=top), self.best, ids, above)


def look_up(table: Tensor, ids: Tensor, known: Tensor, fill: float) -> Tensor:
    """Return rows of a table, and `fill` where an id is not known or not in the table."""
    if not isinstance(table, Tensor) or table.ndim == 0:
        raise TypeError(
            f"`table` must be a tensor with one row per location, {got('table', table)}."
        )
    table = table.to(ids.device)
    known = known & (ids < len(table))
    if not len(table):
        return table.new_full((*ids.shape, *table.shape[1:]), fill)
    rows = table[torch.where(known, ids, 0)]
    return rows.masked_fill(~known.view(*ids.shape, *[1] * (table.ndim - 1)), fill)


class NotInRankingError(ValueError):
    """A score reads groups or ids that its ranking does not hold."""


@dataclass(eq=False, repr=False)
class Ranks:
    """The ranks of the relevant locations of a batch of queries: four integers per location.

    For a relevant location, `above` candidates have a strictly higher score and `tied` candidates
    (itself included) an equal score; `relevant_above` and `relevant_tied` count the relevant ones.

    A relevant location that is missing from a list, or scored NaN or -inf, is *unretrieved*:
    `above` is `UNRETRIEVED` (2^62), `tied` and `relevant_tied` are 1, and no `relevant_above`
    counts it. A NaN among the other candidates counts as above.

    Attributes:
        above: int64 `[N, M]`, M the largest number of relevant locations per query; some or all
            beyond `depth` may be missing. The columns of a query are sorted by rank, equal ranks
            by descending gain; padding comes last and equals an unretrieved location of gain 0.
        tied: int64 `[N, M]`, at least 1.
        relevant_above: int64 `[N, M]`.
        relevant_tied: int64 `[N, M]`, at least 1.
        relevant: int64 `[N, M]`, the ids of the relevant locations, -1 for padding.
        num_relevant: int64 `[N]`, unretrieved ones included.
        counted: bool `[N]`, False for queries skipped by `mask` or `ignore_index`.
        shape: the shape of the queries, `preds.shape[:-1]`.
        num_candidates: C for scores, None for lists.
        grades: float64 `[N, M]` (float32 on devices without float64), the graded relevance; None
            without grades.
        depth: the number of first ranks that were read; None for all.
        most_relevant: a bound on `num_relevant`; if None, M is the bound.
        ignore_index: the id that is never relevant.
        first: the first candidates, kept with `top`; read `top_candidates` and `best` instead.
        groups: int64 `[N]`, the group of every query, by name of the kind of groups; "" for groups
            without a name.
        has_ids: whether `relevant` holds ids; False for given ranks.
        scores: floating `[N, C]`, the scores of all candidates, kept with `keep_scores`.
    """

    above: Tensor
    tied: Tensor
    relevant_above: Tensor
    relevant_tied: Tensor
    relevant: Tensor
    num_relevant: Tensor
    counted: Tensor
    shape: torch.Size
    num_candidates: int | None = None
    ignore_index: int | None = None
    first: TopCandidates | None = None
    groups: dict[str, Tensor] = field(default_factory=dict)
    grades: Tensor | None = None
    depth: int | None = None
    most_relevant: int | None = None
    has_ids: bool = True
    scores: Tensor | None = None

    def break_ties(self, ties: Ties) -> Self:
        """Return the ranking in which no two candidates are tied.

        Args:
            ties: `"optimistic"` puts a block's relevant locations first, by descending gain;
                `"pessimistic"` last, by ascending gain; `"expected"` keeps the blocks: scores
                are then expectations over a random order of the tied candidates.

        Raises:
            ValueError: `ties` has another value.

        Example:
            >>> from torch import tensor
            >>> from nextloc_metrics import Ranking
            >>> Ranking.from_scores(tensor([[0.1, 0.7, 0.7, 0.9]]), tensor([2])).break_ties(
            ...     "pessimistic"
            ... )
            Ranking(above=[[2]], tied=[[1]], relevant_above=[[0]], relevant_tied=[[1]])
        """
        if isinstance(ties, str) and ties == "expected":
            return self
        if not isinstance(ties, str) or ties not in ("optimistic", "pessimistic"):
            raise ValueError(
                f"`ties` must be 'expected', 'optimistic' or 'pessimistic', got {short(ties)}."
            )
        retrieved = self.above < UNRETRIEVED
        column = torch.arange(self.above.shape[1], device=self.above.device).expand_as(self.above)
        inside = (column - self.relevant_above).masked_fill(~retrieved, 0)  # rank within the block
        above = self.above + inside
        relevant, grades = self.relevant, self.grades
        if ties == "pessimistic":
            above = above + (self.tied - self.relevant_tied)
            mirrored = 2 * self.relevant_above + self.relevant_tied - 1 - column
            mirrored = torch.where(retrieved, mirrored, column)
            relevant = relevant.gather(1, mirrored)
            grades = None if grades is None else grades.gather(1, mirrored)
        return replace(
            self,
            above=above,
            tied=torch.ones_like(above),
            relevant_above=column.masked_fill(~retrieved, 0),
            relevant_tied=torch.ones_like(above),
            relevant=relevant,
            grades=grades,
        )

    def with_groups(self, groups: Array | Mapping[str, Array] | None) -> Self:
        """Return the ranking with a group for every query; `Grouped` metrics need one.

        Args:
            groups: integer, in the shape of the queries; or several kinds by name, such as
                `{"user": users, "hour": hours}`. None changes nothing.

        Raises:
            ValueError: `groups` are not integers of that shape.
        """
        if groups is None:
            return self
        named = groups if isinstance(groups, Mapping) else {"": groups}
        return replace(self, groups={name: self._read_groups(x) for name, x in named.items()})

    def group_of(self, by: str | None) -> Tensor:
        """Return the group of every query for one kind of groups, int64 `[N]`.

        Args:
            by: the name of the kind; None if there is only one. `"step"` without groups of that
                name is the index in the last dimension of the queries.

        Raises:
            ValueError: no groups of this kind were given, `by` is None with several kinds, or the
                queries have no dimension of steps.
        """
        if by == "step" and not self.groups.keys() & {"step", ""}:
            return self._steps()
        if not self.groups:
            raise NotInRankingError(
                "`groups` must be given, one per query, to update a Grouped metric."
            )
        if by is None and len(self.groups) > 1:
            raise ValueError(
                f"`groups` has several kinds, {short(list(self.groups))}; choose one with "
                "`Grouped(..., by=...)`."
            )
        found = self.groups.get(by or "", self.groups.get(""))
        if found is None and by is None:
            (found,) = self.groups.values()
        if found is None:
            raise ValueError(
                f"`groups` must hold the key {by!r} for `Grouped(..., by={by!r})`, got "
                f"{short(list(self.groups))}."
            )
        return found

    def _steps(self) -> Tensor:
        """Return every query's index in the last dimension of the queries, int64 `[N]`."""
        if len(self.shape) < 2:
            raise ValueError(
                "`preds` must be scores [N, T, C] or lists [N, T, K] to be grouped by step, got "
                f"queries of shape {short(self.shape)}; or pass `groups={{'step': ...}}`."
            )
        return torch.arange(self.shape[-1], device=self.device).expand(self.shape).flatten()

    def _read_groups(self, groups: Array) -> Tensor:
        groups = as_tensor("groups", groups, self.device)
        if groups.dtype == torch.bool:
            groups = groups.long()
        if not is_integer(groups) or groups.shape != self.shape:
            raise ValueError(
                f"`groups` must be integers of shape {short(self.shape)}, one group per query, got "
                f"{describe(groups)}."
            )
        if groups.device != self.device:
            raise ValueError(
                f"`groups` must be on the device of the scores, {self.device}, got "
                f"{groups.device}; move it with `.to(device)`."
            )
        return groups.reshape(-1).to(torch.int64, copy=True)

    def top_candidates(self, k: int) -> TopCandidates:
        """Return the first k candidates; they do not depend on the ranking's `top`.

        Raises:
            ValueError: fewer than k candidates were kept.

        Example:
            >>> from torch import tensor
            >>> from nextloc_metrics import Ranking
            >>> scores = tensor([[0.1, 0.7, 0.2], [0.4, 0.2, 0.4]])
            >>> ranking = Ranking.from_scores(scores, tensor([1, 0]), top=2)
            >>> ranking.top_candidates(2).ids
            tensor([[1, 2],
                    [0, 2]])
            >>> ranking.top_candidates(1).ids  # a tie for rank 1
            tensor([[ 1],
                    [-1]])
            >>> ranking.best  # the lowest id of tied ones
            tensor([1, 0])
        """
        self._check_ids()
        if self.first is None or self.first.top < k:
            kept = 0 if self.first is None else self.first.top
            raise ValueError(
                f"the first {k} candidates are needed, but this Ranking kept {kept}; "
                f"make it with `top={k}`."
            )
        return self.first if self.first.top == k else self.first.cut(k)

    @property
    def best(self) -> Tensor:
        """The best candidate of every query, int64 `[N]`, the lowest id of tied ones.

        -1 where a row of scores has a NaN or nothing above -inf, or a list is empty.

        Raises:
            ValueError: the ranking was made without `top`.
        """
        self._check_ids()
        if self.first is None:
            raise ValueError(
                "the best candidate is needed, but this Ranking did not keep it; make it with "
                "`top=1`."
            )
        return self.first.best

    def look_up(self, table: Tensor, fill: float) -> Tensor:
        """Return the relevant locations' rows of a table.

        Indexing with `table[ranking.relevant]` is wrong: padding, -1, reads the last row.

        Args:
            table: `[C, ...]`, one row per location.
            fill: the value for padding, and for an id of a list that is not in the table.

        Returns:
            `[N, M, ...]`.

        Raises:
            TypeError: `table` is not a tensor of at least one dimension.
            ValueError: `table` has fewer rows than there are candidates.

        Example:
            >>> from torch import tensor
            >>> from nextloc_metrics import Ranking
            >>> scores = tensor([[0.1, 0.7, 0.2], [0.4, 0.2, 0.4]])
            >>> ranking = Ranking.from_scores(scores, tensor([[2, -1], [1, 0]]))
            >>> ranking.look_up(tensor([5.0, 6.0, 7.0]), fill=0.0)  # best rank first
            tensor([[7., 0.],
                    [5., 6.]])
        """
        self._check_ids()
        found = look_up(table, self.relevant, self.relevant >= 0, fill)
        if self.num_candidates is not None and len(table) < self.num_candidates:
            raise ValueError(
                f"`table` must have one row for each of the {self.num_candidates} candidates, got "
                f"{len(table)} rows."
            )
        return found

    @property
    def gains(self) -> Tensor:
        """The gains of the columns: the grades, or 1 for relevant locations; 0 for padding.

        Locations beyond `depth` may be missing; `num_relevant` counts all.
        """
        if self.grades is not None:
            return self.grades
        return (self.relevant >= 0).to(gain_dtype(self.device))

    @property
    def answerable(self) -> Tensor:
        """Which queries count and have a relevant location, bool `[N]`."""
        return self.counted & (self.num_relevant > 0)

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""
        return self.above.device

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> Self:
        """Move the tensors to a device."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def __getitem__(self, rows: Any) -> Self:
        """Keep some of the queries: a slice, a bool mask or ids of rows."""
        if isinstance(rows, int):
            if not -len(self) <= rows < len(self):
                raise IndexError(f"there are {len(self)} queries, got row {rows}.")
            rows = slice(rows, rows + 1 or None)
        kept = self._map(lambda tensor: tensor[rows])
        return replace(kept, shape=kept.num_relevant.shape)

    def __len__(self) -> int:
        """Return the number of queries, skipped ones included."""
        return self.num_relevant.shape[0]

    def __repr__(self) -> str:
        ranks = ", ".join(
            f"{name}={getattr(self, name).tolist()}"
            for name in ("above", "tied", "relevant_above", "relevant_tied")
        )
        return f"{type(self).__name__}({ranks})".replace(str(UNRETRIEVED), "UNRETRIEVED")

    def _check_ids(self) -> None:
        if not self.has_ids:
            raise NotInRankingError(
                "ids of candidates are needed, but a Ranking from ranks has none; make it from "
                "scores or lists."
            )

    def _map(self, function: Callable[[Tensor], Tensor]) -> Self:
        first = None if self.first is None else _map_tensors(self.first, function)
        return replace(_map_tensors(self, function), first=first)


Record = TypeVar("Record", bound="TopCandidates | Ranks")


def _map_tensors(record: Record, function: Callable[[Tensor], Tensor]) -> Record:
    changed: dict[str, Any] = {}
    for each in fields(record):
        value = getattr(record, each.name)
        if isinstance(value, Tensor):
            changed[each.name] = function(value)
        elif isinstance(value, dict):
            changed[each.name] = {name: function(tensor) for name, tensor in value.items()}
    return replace(record, **changed)


def gain_dtype(device: torch.device) -> torch.dtype:
    """Return the widest floating dtype of a device."""
    return torch.float32 if device.type == "mps" else torch.float64
