"""Where the relevant locations landed: all that a ranking metric needs to know of a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from nextloc_metrics import backends
from nextloc_metrics.backends import must_not_sync
from nextloc_metrics.counting import find_places, mark_unretrieved, survey
from nextloc_metrics.embeddings import survey_products
from nextloc_metrics.first_places import (
    FirstPlaces,
    first_places_of_lists,
    first_places_of_scores,
    look_up,
)
from nextloc_metrics.messages import describe, got, short
from nextloc_metrics.places import UNLISTED, UNRETRIEVED
from nextloc_metrics.reading import Relevant, gain_dtype, is_integer, read_target
from nextloc_metrics.sharding import exchange_scores, sum_over_processes

Made = TypeVar("Made")
Ties = Literal["expected", "optimistic", "pessimistic"]
Sorted = tuple[Tensor, Tensor]  #: values, and where they were

# Visit counts `[N, C]` mistaken for lists of ids are wide and repeat a few small numbers.
_WIDEST_UNQUESTIONED_LIST = 64

# Behind all ranks where relevant locations are put in order.
_BEYOND = 1 << 39

# Up to here an id is looked for at one place after the other; beyond, by a search in sorted lists.
_SHORT_LIST = 32


@dataclass(eq=False, repr=False)
class Ranking:
    r"""Where the relevant locations of a batch of queries landed, in four integers each.

    For a relevant location, `above` candidates are scored strictly higher and `tied` ones (itself
    included) exactly as high; of these, `relevant_above` and `relevant_tied` are relevant too.
    Every ranking metric, ties included, is a function of these numbers, and the scores can go.

    Make one with [`from_scores`][nextloc_metrics.Ranking.from_scores] or
    [`from_lists`][nextloc_metrics.Ranking.from_lists] and hand it to any number of metrics:
    `metric.update(ranking)`. `ranking[rows]` keeps some of the queries, `len(ranking)` counts them.

    A relevant location that is missing from a list, or whose score is NaN or -inf, is
    *unretrieved*: `above` is `UNRETRIEVED` (2^62), `tied` and `relevant_tied` are 1, and it is in
    nobody's `relevant_above`. A NaN among the other candidates counts as above.

    Attributes:
        above: int64 `[N, M]`, M the most relevant locations that a query has; of those beyond
            `depth`, some or all may be left out. The columns of a query run from the best place to
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
        depth: how many of the first places were looked at; None for all.
        most_relevant: a bound on `num_relevant`; where it is None, M is that bound.
        ignore_index: the id that was never relevant.
        first: the candidates on the first places, where `top` asked for them; read them by
            `first_places` and `best`.
        groups: int64 `[N]`, every query's group, where given.
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
    first: FirstPlaces | None = None
    groups: Tensor | None = None
    grades: Tensor | None = None
    depth: int | None = None
    most_relevant: int | None = None

    @classmethod
    def from_scores(
        cls,
        preds: Tensor,
        target: Tensor,
        mask: Tensor | None = None,
        *,
        ignore_index: int | None = None,
        validate_args: bool = True,
        top: int = 0,
        depth: int | None = None,
        best_only: bool = False,
    ) -> Ranking:
        """Rank by the scores of all candidates.

        Args:
            preds: floating `[..., C]`. Any real numbers: only their order matters.
            target: the relevant locations. Integer `[...]`, one id a query; integer `[..., M]`,
                ids padded with -1; bool `[..., C]`; or floating `[..., C]`, graded (relevant
                where > 0). The dtype decides which form is meant, never the values.
            mask: bool `[...]`; nothing is looked at where False.
            ignore_index: an id that is never relevant; a query all of whose ids are ignored is
                left out.
            validate_args: read the target's values and raise where they are out of range. The
                device then waits for the check.
            top: how many of the first places to keep by id.
            depth: how many of the first places matter; None for all. Relevant locations beyond may
                be left unretrieved or out, which is faster where queries have several.
            best_only: with `top=1`, keep `best` and no `first_places`, which takes less time.

        Raises:
            TypeError: `preds` is not floating, or `target` is complex.
            ValueError: shapes do not fit, there is no candidate, or a value is out of range.

        Example:
            >>> from torch import tensor
            >>> ranking = Ranking.from_scores(tensor([[0.1, 0.7, 0.7, 0.9]]), tensor([2]))
            >>> ranking
            Ranking(above=[[1]], tied=[[2]], relevant_above=[[0]], relevant_tied=[[1]])
        """
        if not isinstance(preds, Tensor) or not preds.is_floating_point():
            raise TypeError(
                "`preds` must be a floating tensor of scores, "
                + got(
                    "preds",
                    preds,
                    "pass integer scores as `.float()`, lists of ids to `Ranking.from_lists`",
                )
                + "."
            )
        _check_places(top, depth, best_only)
        _check_candidates(preds)
        num_candidates = preds.shape[-1]
        relevant = read_target(
            preds,
            target,
            mask,
            num_candidates=num_candidates,
            ignore_index=ignore_index,
            validate_args=validate_args,
        )
        scores = _comparable(preds).reshape(-1, num_candidates)
        if relevant.most == 1 or must_not_sync(scores):
            depth = None  # to count all of them costs as little
        number = _places_to_find(top, best_only)
        ids, above, tied, first = find_places(scores, relevant, depth, number)
        return cls.from_places(
            relevant,
            above,
            tied,
            ids,
            shape=preds.shape[:-1],
            num_candidates=num_candidates,
            ignore_index=ignore_index,
            depth=depth,
            first=_keep(first, top),
        )

    @classmethod
    def from_embeddings(
        cls,
        queries: Tensor,
        table: Tensor,
        target: Tensor,
        mask: Tensor | None = None,
        *,
        bias: Tensor | None = None,
        chunk_size: int | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        top: int = 0,
        best_only: bool = False,
    ) -> Ranking:
        """Rank by the dot products of queries and candidates, never all of them in memory.

        The places are those of the full scores up to floating-point rounding of the products. Equal
        rows of `table` (with equal `bias`) tie exactly.

        Args:
            queries: floating `[..., D]`.
            table: floating `[C, D]`, a row for every candidate.
            target: as in `from_scores`.
            mask: bool `[...]`; nothing is looked at where False.
            bias: floating `[C]`, added to the candidates' scores.
            chunk_size: how many candidates are scored at once; None for a size that suits the
                number of queries. The memory needed is that of their scores, and 24 bytes per
                candidate.
            ignore_index: an id that is never relevant.
            validate_args: read the target's values and raise where they are out of range.
            top: how many of the first places to keep by id.
            best_only: with `top=1`, keep `best` and no `first_places`, which takes less time.

        Raises:
            TypeError: `queries` or `table` is not floating, or `target` is complex.
            ValueError: shapes or dtypes do not fit, or a value of `target` is out of range.

        Example:
            >>> from torch import tensor
            >>> queries, table = tensor([[1.0, 0.0]]), tensor([[0.2, 1.0], [0.9, 0.0], [0.5, 0.5]])
            >>> Ranking.from_embeddings(queries, table, tensor([2]))
            Ranking(above=[[1]], tied=[[1]], relevant_above=[[0]], relevant_tied=[[1]])
        """
        _check_places(top, best_only=best_only)
        number = _places_to_find(top, best_only)
        _check_embeddings(queries, table, bias, chunk_size)
        relevant = read_target(
            queries,
            target,
            mask,
            num_candidates=len(table),
            ignore_index=ignore_index,
            validate_args=validate_args,
        )
        flat = queries.detach().reshape(-1, table.shape[1])
        own, above, tied, found = survey_products(
            flat,
            table.detach(),
            None if bias is None else bias.detach(),
            relevant.ids,
            chunk_size,
            number,
        )
        return cls.from_places(
            relevant,
            *mark_unretrieved(own, above, tied),
            shape=queries.shape[:-1],
            num_candidates=len(table),
            ignore_index=ignore_index,
            first=None if found is None else _keep(first_places_of_scores(found, number), top),
        )

    @classmethod
    def from_sharded_scores(
        cls,
        local_scores: Tensor,
        target: Tensor,
        offset: int,
        mask: Tensor | None = None,
        *,
        process_group: Any = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        top: int = 0,
        best_only: bool = False,
    ) -> Ranking:
        """Rank by scores whose candidates are spread over processes.

        Every process calls it with the same queries and its own slice of the candidates; every
        one gets the places among all of them, after two small collectives. To count each query
        once, update a metric on every process with the queries it owns: `ranking[rows]`.

        Args:
            local_scores: floating `[..., C_local]`, the scores of the candidates from `offset` on.
            target: integer `[...]` or `[..., M]`, ids among all candidates, as in `from_scores`.
            offset: the id of this process' first candidate.
            mask: bool `[...]`; nothing is looked at where False.
            process_group: the processes among which the candidates are spread; None for all.
            ignore_index: an id that is never relevant.
            validate_args: read the values and raise where they are out of range.
            top: how many of the first places to keep by id.
            best_only: with `top=1`, keep `best` and no `first_places`, which takes less time.

        Raises:
            TypeError: `local_scores` is not floating, or `target` no integer tensor.
            ValueError: shapes do not fit, a value of `target` is out of range, or the slices of the
                processes overlap or leave a gap.
        """
        _check_places(top, best_only=best_only)
        number = _places_to_find(top, best_only)
        if not isinstance(local_scores, Tensor) or not local_scores.is_floating_point():
            raise TypeError(
                "`local_scores` must be a floating tensor of scores, "
                f"{got('local_scores', local_scores)}."
            )
        if type(offset) is not int or offset < 0:
            raise ValueError(f"`offset` must be an integer of at least 0, got {short(offset)}.")
        if not isinstance(target, Tensor) or not is_integer(target):
            raise TypeError(f"`target` must be an integer tensor of ids, {got('target', target)}.")
        relevant = read_target(
            local_scores,
            target,
            mask,
            num_candidates=None,
            ignore_index=ignore_index,
            validate_args=validate_args,
        )
        num_local = local_scores.shape[-1]
        scores = _comparable(local_scores).reshape(len(relevant.ids), num_local)
        if num_local == 0:
            scores = scores.new_full((len(scores), 1), -torch.inf)  # above and tied with nothing
        own, known, num_candidates, found = exchange_scores(
            scores, num_local, relevant.ids, offset, number, process_group
        )
        if validate_args and bool(((relevant.ids >= 0) & ~known).any()):
            raise ValueError(
                f"`target` must hold ids below the {num_candidates} candidates of all processes, "
                f"got {int(relevant.ids.masked_fill(known, -1).max())}."
            )
        own = own.masked_fill(~known, torch.nan)
        above, tied, _ = survey(scores, own, find_best=False)
        above, tied = sum_over_processes(torch.stack([above, tied]), process_group)
        return cls.from_places(
            relevant,
            *mark_unretrieved(own, above, tied),
            shape=local_scores.shape[:-1],
            num_candidates=num_candidates,
            ignore_index=ignore_index,
            first=None if found is None else _keep(first_places_of_scores(found, number), top),
        )

    @classmethod
    def from_lists(
        cls,
        preds: Tensor,
        target: Tensor,
        mask: Tensor | None = None,
        *,
        ignore_index: int | None = None,
        validate_args: bool = True,
        top: int = 0,
        depth: int | None = None,
        best_only: bool = False,
    ) -> Ranking:
        """Rank by lists of candidate ids, best first.

        An id that a list repeats counts at its first place and keeps the others' places.

        Args:
            preds: integer `[..., K]`, ids padded with -1.
            target: as in `from_scores`; bool and floating relevance is `[..., C]`, whatever K is.
            mask: bool `[...]`; nothing is looked at where False.
            ignore_index: an id that is never relevant.
            validate_args: read the values and raise where they are out of range.
            top: how many of the first places to keep by id.
            depth: how many of the first places matter; None for all.
            best_only: taken for the sake of `from_scores`; lists keep their first ids anyway.

        Raises:
            TypeError: `preds` is not an integer tensor, or `target` is complex.
            ValueError: shapes do not fit, a value is out of range, or `preds` looks like visit
                counts rather than ids.

        Example:
            >>> from torch import tensor
            >>> Ranking.from_lists(tensor([[7, 7, 3, -1]]), tensor([[3, 5]]))
            Ranking(above=[[2, UNRETRIEVED]], tied=[[1, 1]], relevant_above=[[0, 0]],
                    relevant_tied=[[1, 1]])
        """
        if not isinstance(preds, Tensor) or not is_integer(preds):
            raise TypeError(f"`preds` must be an integer tensor of ids, {got('preds', preds)}.")
        _check_places(top, depth, best_only)
        _check_candidates(preds)
        relevant = read_target(
            preds,
            target,
            mask,
            num_candidates=None,
            ignore_index=ignore_index,
            validate_args=validate_args,
        )
        lists = preds.reshape(-1, preds.shape[-1]).long().contiguous()
        near = lists[:, :depth]
        by_id = near.sort(dim=1, stable=True) if near.shape[1] > _SHORT_LIST else None
        if validate_args:
            _check_lists(lists, relevant.counted, by_id if near.shape == lists.shape else None)
        above = _places_in_lists(near, by_id, relevant.ids)
        return cls.from_places(
            relevant,
            above,
            torch.ones_like(above),
            shape=preds.shape[:-1],
            depth=depth,
            ignore_index=ignore_index,
            first=first_places_of_lists(lists, top) if top else None,
        )

    @classmethod
    def from_predictions(cls, preds: Tensor, target: Tensor, *args: Any, **kwargs: Any) -> Ranking:
        """Rank by scores where `preds` is floating, by lists of ids where it is integer."""
        if not isinstance(preds, Tensor):
            raise TypeError(f"`preds` must be a tensor of scores or of ids, {got('preds', preds)}.")
        form = cls.from_lists if is_integer(preds) else cls.from_scores
        return form(preds, target, *args, **kwargs)

    @classmethod
    def from_places(
        cls,
        relevant: Relevant,
        above: Tensor,
        tied: Tensor,
        ids: Tensor | None = None,
        **kwargs: Any,
    ) -> Ranking:
        """Put the columns in the order of their places; equal places then stand together.

        They are those of these relevant ones, `ids`, where some were left out.
        """
        most, grades = relevant.most, relevant.grades
        ids = relevant.ids if ids is None else ids
        if above.shape[1] == 1:
            relevant_above, relevant_tied = torch.zeros_like(above), torch.ones_like(above)
        else:
            ranks, backend = above.clamp(max=_BEYOND), backends.choose(above)
            if grades is None:
                order = backend.argsort(ranks + (ids < 0))  # padding behind what is unretrieved
            else:
                by_grade = grades.argsort(dim=1, descending=True, stable=True)
                order = by_grade.gather(1, backend.argsort(ranks.gather(1, by_grade)))
                grades = grades.gather(1, order)
            above, tied, ids = (x.gather(1, order) for x in (above, tied, ids))
            relevant_above, relevant_tied = _among_relevant(above)
        return cls(
            above,
            tied,
            relevant_above,
            relevant_tied,
            relevant=ids,
            num_relevant=relevant.number,
            counted=relevant.counted,
            grades=grades,
            most_relevant=most if most > ids.shape[1] else None,
            **kwargs,
        )

    def break_ties(self, ties: Ties) -> Ranking:
        """Return the ranking in which no two candidates are tied.

        Args:
            ties: `"optimistic"` puts a block's relevant locations first, by falling gain;
                `"pessimistic"` last, by rising gain; `"expected"` leaves the blocks: the scores
                are then expectations over a random order of the tied candidates.

        Raises:
            ValueError: `ties` is none of these.

        Example:
            >>> from torch import tensor
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
        inside = (column - self.relevant_above).masked_fill(~retrieved, 0)  # place within the block
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

    def with_groups(self, groups: Tensor | None) -> Ranking:
        """Return the ranking with a group for every query; `Grouped` metrics need one.

        Args:
            groups: integer, in the shape of the queries; None leaves the ranking as it is.

        Raises:
            ValueError: `groups` is no integer tensor of that shape.
        """
        if groups is None:
            return self
        if not isinstance(groups, Tensor) or not is_integer(groups) or groups.shape != self.shape:
            raise ValueError(
                f"`groups` must be an integer tensor of shape {short(self.shape)}, one group a "
                f"query, {got('groups', groups)}."
            )
        if groups.device != self.device:
            raise ValueError(
                f"`groups` must be on the device of the scores, {self.device}, got "
                f"{groups.device}; move it with `.to(device)`."
            )
        return replace(self, groups=groups.reshape(-1).to(torch.int64, copy=True))

    def first_places(self, top: int) -> FirstPlaces:
        """Return the candidates on the first `top` places.

        They are the same whatever the ranking kept beyond them.

        Raises:
            ValueError: fewer than `top` places were kept.

        Example:
            >>> from torch import tensor
            >>> scores = tensor([[0.1, 0.7, 0.2], [0.4, 0.2, 0.4]])
            >>> ranking = Ranking.from_scores(scores, tensor([1, 0]), top=2)
            >>> ranking.first_places(2).ids
            tensor([[1, 2],
                    [0, 2]])
            >>> ranking.first_places(1).ids  # a tie for the first place
            tensor([[ 1],
                    [-1]])
            >>> ranking.best  # of tied ones the lowest id
            tensor([1, 0])
        """
        if self.first is None or self.first.top < top:
            kept = 0 if self.first is None else self.first.top
            raise ValueError(
                f"the first {top} places are needed, and this Ranking kept {kept}; "
                f"make it with `top={top}`."
            )
        first = self.first
        if first.top == top:
            return first
        return first.cut(top)

    @property
    def best(self) -> Tensor:
        """The best candidate of every query, int64 `[N]`, of tied ones the lowest id.

        -1 where a row of scores has a NaN or nothing above -inf, or a list is empty.

        Raises:
            ValueError: the ranking was made without `top`.
        """
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
            >>> scores = tensor([[0.1, 0.7, 0.2], [0.4, 0.2, 0.4]])
            >>> ranking = Ranking.from_scores(scores, tensor([[2, -1], [1, 0]]))
            >>> ranking.look_up(tensor([5.0, 6.0, 7.0]), fill=0.0)  # from the best place on
            tensor([[7., 0.],
                    [5., 6.]])
        """
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

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> Ranking:
        """Move the tensors to a device."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def __getitem__(self, rows: Any) -> Ranking:
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
        places = ", ".join(
            f"{name}={getattr(self, name).tolist()}"
            for name in ("above", "tied", "relevant_above", "relevant_tied")
        )
        return f"Ranking({places})".replace(str(UNRETRIEVED), "UNRETRIEVED")

    def _map(self, function: Callable[[Tensor], Tensor]) -> Ranking:
        first = None if self.first is None else _map_tensors(self.first, function)
        return replace(_map_tensors(self, function), first=first)


Record = TypeVar("Record", FirstPlaces, Ranking)


def _map_tensors(record: Record, function: Callable[[Tensor], Tensor]) -> Record:
    changed: dict[str, Any] = {}
    for each in fields(record):
        if isinstance(value := getattr(record, each.name), Tensor):
            changed[each.name] = function(value)
    return replace(record, **changed)


def _comparable(scores: Tensor) -> Tensor:
    """Return scores that can be compared, which 8-bit floats can't, as plain memory."""
    return (scores.float() if scores.element_size() == 1 else scores).detach().resolve_neg()


def _among_relevant(above: Tensor) -> tuple[Tensor, Tensor]:
    """Count how many of the relevant locations in a row are above, and tied with, each of them."""
    retrieved = above < UNRETRIEVED
    most = above.shape[1]
    if len(above) and not must_not_sync(above):
        most = int(retrieved.sum(1).max())
    relevant_above, relevant_tied = torch.zeros_like(above), torch.ones_like(above)
    places = above[:, :most].contiguous()
    first = torch.searchsorted(places, places)
    behind = torch.searchsorted(places, places, right=True)
    relevant_above[:, :most] = first.masked_fill(~retrieved[:, :most], 0)
    relevant_tied[:, :most] = (behind - first).masked_fill(~retrieved[:, :most], 1)
    return relevant_above, relevant_tied


def _places_in_lists(lists: Tensor, by_id: Sorted | None, ids: Tensor) -> Tensor:
    """Find the first place of ids `[N, M]` in lists `[N, K]`, UNRETRIEVED where they are not."""
    if by_id is None:
        return backends.choose(lists).find(lists, ids)
    wanted = ids.masked_fill(ids < 0, UNLISTED)
    length = lists.shape[1]
    in_order, place_of = by_id  # of repeats, the first place comes first
    slot = torch.searchsorted(in_order, wanted).clamp(max=length - 1)
    found = in_order.gather(1, slot) == wanted
    return place_of.gather(1, slot).masked_fill(~found, UNRETRIEVED)


def _check_lists(lists: Tensor, counted: Tensor, by_id: Sorted | None) -> None:
    if not lists.numel():
        return
    lowest = int(lists.amin())
    if lowest < -1:
        lowest = int(lists.masked_fill(~counted[:, None], 0).amin())
    if lowest < -1:
        raise ValueError(f"`preds` must hold ids of at least 0 (-1 pads), got {lowest}.")
    if lists.shape[1] > _WIDEST_UNQUESTIONED_LIST:
        in_order, _ = by_id or lists.sort(dim=1)
        written = in_order >= 0
        repeats = int(((in_order[:, 1:] == in_order[:, :-1]) & written[:, 1:]).sum())
        entries = int(written.sum())
        if 2 * repeats > entries:
            raise ValueError(
                f"integer `preds` must be lists of ids, best first, but {repeats} of the {entries} "
                "entries repeat an id of their list, as visit counts do; pass scores as `.float()`."
            )


def _check_embeddings(
    queries: Tensor, table: Tensor, bias: Tensor | None, chunk_size: int | None
) -> None:
    for name, value in (("queries", queries), ("table", table)):
        if not isinstance(value, Tensor) or not value.is_floating_point():
            raise TypeError(f"`{name}` must be a floating tensor, {got(name, value)}.")
    if table.ndim != 2 or queries.ndim == 0 or queries.shape[-1] != table.shape[1]:
        raise ValueError(
            "`queries` [..., D] and `table` [C, D] must agree on D, "
            f"got {describe(queries)} and {describe(table)}."
        )
    if queries.dtype != table.dtype or not len(table):
        raise ValueError(
            "`queries` and `table` must have one dtype and `table` at least one row, "
            f"got {describe(queries)} and {describe(table)}."
        )
    if bias is not None and (not isinstance(bias, Tensor) or bias.shape != table.shape[:1]):
        raise ValueError(f"`bias` must have shape ({len(table)},), {got('bias', bias)}.")
    if chunk_size is not None and (type(chunk_size) is not int or chunk_size < 1):
        raise ValueError(f"`chunk_size` must be a positive integer, got {short(chunk_size)}.")


def _places_to_find(top: int, best_only: bool) -> int:
    """Return how many first places to look for: a tie for the first is seen by the second."""
    return 2 if top == 1 and not best_only else top


def _keep(first: FirstPlaces | None, top: int) -> FirstPlaces | None:
    return first if first is None or first.top <= top else first.cut(top)


def _check_places(top: int, depth: int | None = None, best_only: bool = False) -> None:
    if type(top) is not int or top < 0:
        raise ValueError(f"`top` must be an integer of at least 0, got {short(top)}.")
    if depth is not None and (type(depth) is not int or depth < 1):
        raise ValueError(f"`depth` must be None or a positive integer, got {short(depth)}.")
    if not isinstance(best_only, bool):
        raise ValueError(f"`best_only` must be True or False, got {short(best_only)}.")


def _check_candidates(preds: Tensor) -> None:
    if preds.layout != torch.strided:
        raise TypeError(
            f"`preds` must be a dense tensor, got layout {preds.layout}; pass `preds.to_dense()`."
        )
    if preds.ndim == 0 or preds.shape[-1] == 0:
        raise ValueError(
            "`preds` must hold at least one candidate in its last dimension, "
            f"got {describe(preds)}."
        )
