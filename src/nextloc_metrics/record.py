"""The record of where the relevant locations landed, and of the candidates that came first."""

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

#: an id that no list holds, not even as padding
UNLISTED = -1 << 63


@dataclass(eq=False)
class TopCandidates:
    """The first candidates of a batch of queries.

    `ids` holds -1 where no candidate is certain, and as an index -1 is the last row of a table:
    [`look_up`][nextloc_metrics.record.TopCandidates.look_up] reads a table safely.

    Attributes:
        top: how many were asked for; 0 where the best candidate alone was.
        retrieved: int64 `[N]`, how many of them hold a candidate; of the first rank where `top`
            is 0.
        best: int64 `[N]`, the best candidate, of tied ones the lowest id; -1 where a row of scores
            has a NaN or nothing above -inf, or a list is empty.
        ids: int64 `[N, T]`, T = min(top, C), best first, -1 where there is none; of tied
            candidates the lowest id first. A block of tied candidates that crosses rank `top` is
            left out whole; so for `top=1` any tie for rank 1. A candidate scored NaN is
            in front of all others.
        above: int64 `[N, T]`, how many candidates are above each of these.
    """

    top: int
    retrieved: Tensor
    best: Tensor
    ids: Tensor
    above: Tensor

    @property
    def known(self) -> Tensor:
        """Which of the ranks hold one certain candidate, bool `[N, T]`: no tie, no NaN."""
        is_nan = (self.best < 0)[:, None] & (self.above == 0)
        return (self.ids >= 0) & ~is_nan

    def look_up(self, table: Tensor, fill: float) -> Tensor:
        """Return the rows of a table that belong to the candidates, such as their coordinates.

        Args:
            table: `[C, ...]`, a row for every location.
            fill: what stands where the candidate is not `known`, or its id is not in the table.

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
        """Keep the first `top` ranks; a tied block that crosses rank `top` goes whole."""
        ids, above = self.ids[:, :top], self.above[:, :top]
        if self.above.shape[1] > top:
            ids = ids.masked_fill(above == self.above[:, top : top + 1], -1)
        return TopCandidates(top, self.retrieved.clamp(max=top), self.best, ids, above)


def look_up(table: Tensor, ids: Tensor, known: Tensor, fill: float) -> Tensor:
    """Return the rows of a table, and the fill value where an id is not known or not in it."""
    if not isinstance(table, Tensor) or table.ndim == 0:
        raise TypeError(
            f"`table` must be a tensor with a row for every location, {got('table', table)}."
        )
    table = table.to(ids.device)
    known = known & (ids < len(table))
    if not len(table):
        return table.new_full((*ids.shape, *table.shape[1:]), fill)
    rows = table[torch.where(known, ids, 0)]
    return rows.masked_fill(~known.view(*ids.shape, *[1] * (table.ndim - 1)), fill)


@dataclass(eq=False, repr=False)
class Ranks:
    """Where the relevant locations of a batch of queries landed, in four integers each.

    For a relevant location, `above` candidates are scored strictly higher and `tied` ones (itself
    included) exactly as high; of these, `relevant_above` and `relevant_tied` are relevant too.

    A relevant location that is missing from a list, or whose score is NaN or -inf, is
    *unretrieved*: `above` is `UNRETRIEVED` (2^62), `tied` and `relevant_tied` are 1, and it is in
    nobody's `relevant_above`. A NaN among the other candidates counts as above.

    Attributes:
        above: int64 `[N, M]`, M the most relevant locations that a query has; of those beyond
            `depth`, some or all may be left out. The columns of a query run from the best rank to
            the worst, among equals from the highest gain to the lowest; padding comes last and
            looks like an unretrieved location of gain 0.
        tied: int64 `[N, M]`, at least 1.
        relevant_above: int64 `[N, M]`.
        relevant_tied: int64 `[N, M]`, at least 1.
        relevant: int64 `[N, M]`, the ids of the relevant locations, -1 for padding.
        num_relevant: int64 `[N]`, unretrieved ones included.
        counted: bool `[N]`, False for queries left out by `mask` or `ignore_index`.
        shape: the shape of the queries, `preds.shape[:-1]`.
        num_candidates: C for scores, None for lists.
        grades: float64 `[N, M]` (float32 on devices without float64), the graded relevance; None
            where all relevant locations count alike.
        depth: how many of the first ranks were looked at; None for all.
        most_relevant: a bound on `num_relevant`; where it is None, M is that bound.
        ignore_index: the id that was never relevant.
        first: the first candidates, where `top` asked for them; read them by
            `top_candidates` and `best`.
        groups: int64 `[N]`, every query's group, by the name of the kind of groups; "" for groups
            without a name.
        has_ids: whether `relevant` holds ids, and not the numbers of given ranks.
        scores: floating `[N, C]`, the scores of all candidates, where `keep_scores` asked for them.
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
            ties: `"optimistic"` puts a block's relevant locations first, by falling gain;
                `"pessimistic"` last, by rising gain; `"expected"` leaves the blocks: the scores
                are then expectations over a random order of the tied candidates.

        Raises:
            ValueError: `ties` is none of these.

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
            groups: integer, in the shape of the queries; or several of these by name, such as
                `{"user": users, "hour": hours}`. None leaves the ranking as it is.

        Raises:
            ValueError: they are no integers of that shape.
        """
        if groups is None:
            return self
        named = groups if isinstance(groups, Mapping) else {"": groups}
        return replace(self, groups={name: self._read_groups(x) for name, x in named.items()})

    def group_of(self, by: str | None) -> Tensor:
        """Return every query's group, int64 `[N]`, of one kind.

        Args:
            by: the name of the kind; None where there is one kind only. `"step"`, where no such
                groups were given, is the index in the last dimension of the queries.

        Raises:
            ValueError: no such groups were given, or several; or there is no last dimension to
                number the steps by.
        """
        if by == "step" and not self.groups.keys() & {"step", ""}:
            return self._steps()
        if not self.groups:
            raise ValueError("`groups` must be given, one per query, to update a Grouped metric.")
        if by is None and len(self.groups) > 1:
            raise ValueError(
                f"`groups` has several kinds, {short(list(self.groups))}; name the one that is "
                "meant by `Grouped(..., by=...)`."
            )
        found = self.groups.get(by or "", self.groups.get(""))
        if found is None and by is None:
            (found,) = self.groups.values()
        if found is None:
            raise ValueError(
                f"`groups` must hold {by!r}, as `Grouped(..., by={by!r})` asks for, got "
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
        """Return the first k candidates.

        They are the same whatever the ranking kept beyond them.

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
            >>> ranking.best  # of tied ones the lowest id
            tensor([1, 0])
        """
        self._check_ids()
        if self.first is None or self.first.top < k:
            kept = 0 if self.first is None else self.first.top
            raise ValueError(
                f"the first {k} candidates are needed, and this Ranking kept {kept}; "
                f"make it with `top={k}`."
            )
        return self.first if self.first.top == k else self.first.cut(k)

    @property
    def best(self) -> Tensor:
        """The best candidate of every query, int64 `[N]`, of tied ones the lowest id.

        -1 where a row of scores has a NaN or nothing above -inf, or a list is empty.

        Raises:
            ValueError: the ranking was made without `top`.
        """
        self._check_ids()
        if self.first is None:
            raise ValueError(
                "the best candidate is needed, and this Ranking did not keep it; make it with "
                "`top=1`."
            )
        return self.first.best

    def look_up(self, table: Tensor, fill: float) -> Tensor:
        """Return the rows of a table that belong to the relevant locations.

        `table[ranking.relevant]` would take the last row for padding, whose id is -1.

        Args:
            table: `[C, ...]`, a row for every location.
            fill: what stands for padding, and for an id of a list that is not in the table.

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
            >>> ranking.look_up(tensor([5.0, 6.0, 7.0]), fill=0.0)  # from the best on
            tensor([[7., 0.],
                    [5., 6.]])
        """
        self._check_ids()
        found = look_up(table, self.relevant, self.relevant >= 0, fill)
        if self.num_candidates is not None and len(table) < self.num_candidates:
            raise ValueError(
                f"`table` must have a row for each of the {self.num_candidates} candidates, got "
                f"{len(table)} rows."
            )
        return found

    @property
    def gains(self) -> Tensor:
        """What the relevant locations of the columns are worth: their grades, or 1; 0 for padding.

        To count all that a query has, those beyond `depth` included, take `num_relevant`.
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
        """Return the number of queries, those left out included."""
        return self.num_relevant.shape[0]

    def __repr__(self) -> str:
        ranks = ", ".join(
            f"{name}={getattr(self, name).tolist()}"
            for name in ("above", "tied", "relevant_above", "relevant_tied")
        )
        return f"{type(self).__name__}({ranks})".replace(str(UNRETRIEVED), "UNRETRIEVED")

    def _check_ids(self) -> None:
        if not self.has_ids:
            raise ValueError(
                "ids of candidates are needed, and a Ranking of given ranks has none; make it of "
                "scores or of lists."
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
