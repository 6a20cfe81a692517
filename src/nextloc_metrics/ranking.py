"""The ranks of the relevant locations: everything that a metric needs from a batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nextloc_metrics.arrays import Array, as_tensor, read_batch
from nextloc_metrics.backends import must_not_sync
from nextloc_metrics.checks import as_int, check_candidates, is_integer
from nextloc_metrics.counting import (
    comparable,
    find_in_lists,
    find_ranks,
    flat_lists,
    mark_unretrieved,
    order_columns,
)
from nextloc_metrics.exclusion import (
    find_ranks_without,
    leave_out,
    read_exclude,
    remove_from_lists,
)
from nextloc_metrics.given_ranks import check_blocks, read_ranks
from nextloc_metrics.messages import describe, got, short
from nextloc_metrics.reading import Relevant, read_target
from nextloc_metrics.record import Ranks
from nextloc_metrics.sources import check_embeddings, survey_products, survey_shards
from nextloc_metrics.top_candidates import (
    candidates_of_lists,
    candidates_of_scores,
    check_top,
    keep_first,
    number_to_find,
)


class Ranking(Ranks):
    """The ranks of the relevant locations of a batch of queries: four integers per location.

    Every ranking metric, ties included, is a function of these integers; the scores can be freed.

    Make a ranking with [`from_scores`][nextloc_metrics.Ranking.from_scores] or
    [`from_lists`][nextloc_metrics.Ranking.from_lists] and pass it to any number of metrics:
    `metric.update(ranking)`. `ranking[rows]` selects queries, `len(ranking)` counts them.
    [`Ranks`][nextloc_metrics.record.Ranks] describes the attributes.
    """

    @classmethod
    def from_scores(
        cls,
        preds: Array,
        target: Array,
        mask: Array | None = None,
        *,
        ignore_index: int | None = None,
        validate_args: bool = True,
        top: int = 0,
        depth: int | None = None,
        best_only: bool = False,
        keep_scores: bool = False,
        exclude: Array | None = None,
        exempt_target: bool = False,
    ) -> Ranking:
        """Rank by the scores of all candidates.

        Args:
            preds: floating `[..., C]`, one score per candidate; only their order matters. `...` is
                the shape of the queries, such as `[N]` or `[N, T]`.
            target: the relevant locations. Integer `[...]`, one id per query; integer `[..., M]`,
                ids padded with -1; bool `[..., C]`; or floating `[..., C]`, graded (relevant
                where > 0). The form follows from dtype and shape, never from the values.
            mask: bool `[...]`; False skips the query, and its target is not read.
            ignore_index: an id that is never relevant; a query with only ignored ids is skipped.
            validate_args: read the target's values and raise where they are out of range. The
                check waits for the device.
            top: the number of first ranks whose candidate ids are kept.
            depth: the number of first ranks that are read; None for all. Relevant locations beyond
                may be missing, which is faster for several per query.
            best_only: with `top=1`, keep `best` but no `top_candidates`, which is faster.
            keep_scores: keep the scores, without a copy, for `geography.AccuracyWithin`.
            exclude: candidates that are not ranked, such as visited locations: integer
                `[..., E]`, ids padded with -1; or bool `[..., C]`.
            exempt_target: rank a relevant location that is in `exclude` instead of raising.

        Raises:
            TypeError: `preds` is not floating, or `target` is complex.
            ValueError: shapes do not match, there is no candidate, or a value is out of range.

        Example:
            >>> from torch import tensor
            >>> ranking = Ranking.from_scores(tensor([[0.1, 0.7, 0.7, 0.9]]), tensor([2]))
            >>> ranking
            Ranking(above=[[1]], tied=[[2]], relevant_above=[[0]], relevant_tied=[[1]])
        """
        preds, target, mask = read_batch(preds, target, mask)
        if not preds.is_floating_point():
            raise TypeError(
                "`preds` must be a floating tensor of scores, got "
                f"{describe(preds)}; pass integer scores as `.float()`, and lists of ids to "
                "`Ranking.from_lists`."
            )
        top, depth = check_top(top, depth, best_only)
        check_candidates(preds)
        num_candidates = preds.shape[-1]
        relevant = read_target(
            preds,
            target,
            mask,
            num_candidates=num_candidates,
            ignore_index=ignore_index,
            validate_args=validate_args,
        )
        scores = comparable(preds).reshape(-1, num_candidates)
        if relevant.most == 1 or must_not_sync(scores) or exclude is not None:
            depth = None  # counting all ranks is as fast here
        number = number_to_find(top, best_only)
        excluded = read_exclude(
            exclude, preds.shape[:-1], relevant, num_candidates, exempt_target, validate_args
        )
        if excluded is None:
            ids, above, tied, first = find_ranks(scores, relevant, depth, number)
        else:
            ids, above, tied, first = find_ranks_without(scores, relevant, excluded, number)
            scores = leave_out(scores, excluded) if keep_scores else scores
        return cls.from_relevant(
            relevant,
            above,
            tied,
            ids,
            shape=preds.shape[:-1],
            num_candidates=num_candidates,
            ignore_index=ignore_index,
            depth=depth,
            first=keep_first(first, top),
            scores=scores if keep_scores else None,
        )

    @classmethod
    def from_embeddings(
        cls,
        queries: Tensor,
        table: Tensor,
        target: Array,
        mask: Array | None = None,
        *,
        bias: Tensor | None = None,
        chunk_size: int | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        top: int = 0,
        best_only: bool = False,
        exclude: Array | None = None,
        exempt_target: bool = False,
    ) -> Ranking:
        """Rank by the dot products of queries and candidates, in chunks that fit into memory.

        The ranks equal those of the full scores up to floating-point rounding of the products.
        Equal rows of `table` (with equal `bias`) tie exactly.

        Args:
            queries: floating `[..., D]`.
            table: floating `[C, D]`, one row per candidate.
            target: as in `from_scores`.
            mask: as in `from_scores`.
            bias: floating `[C]`, added to the candidates' scores.
            chunk_size: the number of candidates scored at once; None chooses it. The memory needed
                is that of the chunk's scores, plus 24 bytes per candidate.
            ignore_index: an id that is never relevant.
            validate_args: read the target's values and raise where they are out of range.
            top: the number of first ranks whose ids are kept.
            best_only: with `top=1`, keep `best` but no `top_candidates`, which is faster.
            exclude: as in `from_scores`.
            exempt_target: as in `from_scores`.

        Raises:
            TypeError: `queries` or `table` is not floating, or `target` is complex.
            ValueError: shapes or dtypes do not match, or a value of `target` is out of range.

        Example:
            >>> from torch import tensor
            >>> queries, table = tensor([[1.0, 0.0]]), tensor([[0.2, 1.0], [0.9, 0.0], [0.5, 0.5]])
            >>> Ranking.from_embeddings(queries, table, tensor([2]))
            Ranking(above=[[1]], tied=[[1]], relevant_above=[[0]], relevant_tied=[[1]])
        """
        top, _ = check_top(top, best_only=best_only)
        number = number_to_find(top, best_only)
        check_embeddings(queries, table, bias, chunk_size)
        _, target, mask = read_batch(queries, target, mask)
        relevant = read_target(
            queries,
            target,
            mask,
            num_candidates=len(table),
            ignore_index=ignore_index,
            validate_args=validate_args,
        )
        excluded = read_exclude(
            exclude, queries.shape[:-1], relevant, len(table), exempt_target, validate_args
        )
        flat = queries.detach().reshape(-1, table.shape[1])
        own, above, tied, found = survey_products(
            flat,
            table.detach(),
            None if bias is None else bias.detach(),
            relevant.ids,
            excluded,
            chunk_size,
            number,
        )
        return cls.from_relevant(
            relevant,
            *mark_unretrieved(own, above, tied),
            shape=queries.shape[:-1],
            num_candidates=len(table),
            ignore_index=ignore_index,
            first=None if found is None else keep_first(candidates_of_scores(found, number), top),
        )

    @classmethod
    def from_sharded_scores(
        cls,
        local_scores: Tensor,
        target: Array,
        offset: int,
        mask: Array | None = None,
        *,
        process_group: Any = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        top: int = 0,
        best_only: bool = False,
        exclude: Array | None = None,
        exempt_target: bool = False,
    ) -> Ranking:
        """Rank by scores whose candidates are sharded over processes.

        Every process calls this with the same queries and its own shard of the candidates, and
        gets the ranks among all candidates, after two small collectives. To count each query
        once, update the metric on every process with different queries: `ranking[rows]`.

        Args:
            local_scores: floating `[..., C_local]`, the scores of the candidates from `offset` on.
            target: integer `[...]` or `[..., M]`, ids among all candidates, as in `from_scores`.
            offset: the id of the first candidate of this process.
            mask: as in `from_scores`.
            process_group: the processes that hold the candidates; None for the default group.
            ignore_index: an id that is never relevant.
            validate_args: read the values and raise where they are out of range.
            top: the number of first ranks whose ids are kept.
            best_only: with `top=1`, keep `best` but no `top_candidates`, which is faster.
            exclude: as in `from_scores`.
            exempt_target: as in `from_scores`.

        Raises:
            TypeError: `local_scores` is not floating, or `target` is not an integer tensor.
            ValueError: shapes do not match, a value of `target` is out of range, or the shards of
                the processes overlap or leave a gap.
        """
        top, _ = check_top(top, best_only=best_only)
        number = number_to_find(top, best_only)
        if not isinstance(local_scores, Tensor) or not local_scores.is_floating_point():
            raise TypeError(
                "`local_scores` must be a floating tensor of scores, "
                f"{got('local_scores', local_scores)}."
            )
        if type(as_int(offset)) is not int or offset < 0:
            raise ValueError(f"`offset` must be an integer of at least 0, got {short(offset)}.")
        local_scores, target, mask = read_batch(local_scores, target, mask, "local_scores")
        if not is_integer(target):
            raise TypeError(f"`target` must be an integer tensor of ids, {got('target', target)}.")
        relevant = read_target(
            local_scores,
            target,
            mask,
            num_candidates=None,
            ignore_index=ignore_index,
            validate_args=validate_args,
        )
        scores = comparable(local_scores).reshape(len(relevant.ids), local_scores.shape[-1])
        excluded = read_exclude(
            exclude, local_scores.shape[:-1], relevant, None, exempt_target, validate_args
        )
        if excluded is not None:
            is_here = (excluded >= offset) & (excluded < offset + scores.shape[1])
            scores = leave_out(scores, (excluded - offset).where(is_here, -1))
        num_candidates, own, above, tied, found = survey_shards(
            scores, relevant.ids, offset, number, process_group, validate_args
        )
        return cls.from_relevant(
            relevant,
            *mark_unretrieved(own, above, tied),
            shape=local_scores.shape[:-1],
            num_candidates=num_candidates,
            ignore_index=ignore_index,
            first=None if found is None else keep_first(candidates_of_scores(found, number), top),
        )

    @classmethod
    def from_lists(
        cls,
        preds: Array,
        target: Array,
        mask: Array | None = None,
        *,
        ignore_index: int | None = None,
        validate_args: bool = True,
        top: int = 0,
        depth: int | None = None,
        best_only: bool = False,
        keep_scores: bool = False,
        exclude: Array | None = None,
        exempt_target: bool = False,
    ) -> Ranking:
        """Rank by lists of candidate ids, best first.

        A repeated id counts at its first rank; its repeats still occupy their ranks.

        Args:
            preds: integer `[..., K]`, ids padded with -1.
            target: as in `from_scores`; C of bool or floating relevance need not equal K.
            mask: as in `from_scores`.
            ignore_index: an id that is never relevant.
            validate_args: read the values and raise where they are out of range.
            top: the number of first ranks whose ids are kept.
            depth: as in `from_scores`.
            best_only: has no effect: the ids of lists are always kept.
            keep_scores: has no effect: lists have no scores.
            exclude: as in `from_scores`.
            exempt_target: as in `from_scores`.

        Raises:
            TypeError: `preds` is not an integer tensor, or `target` is complex.
            ValueError: shapes do not match, a value is out of range, or a list holds visit counts.

        Example:
            >>> from torch import tensor
            >>> Ranking.from_lists(tensor([[7, 7, 3, -1]]), tensor([[3, 5]]))
            Ranking(above=[[2, UNRETRIEVED]], tied=[[1, 1]], relevant_above=[[0, 0]],
                    relevant_tied=[[1, 1]])
        """
        preds, target, mask = read_batch(preds, target, mask)
        if not is_integer(preds):
            raise TypeError(f"`preds` must be an integer tensor of ids, got {describe(preds)}.")
        top, depth = check_top(top, depth, best_only)
        check_candidates(preds)
        relevant = read_target(
            preds,
            target,
            mask,
            num_candidates=None,
            ignore_index=ignore_index,
            validate_args=validate_args,
        )
        lists = flat_lists(preds)
        excluded = read_exclude(
            exclude, preds.shape[:-1], relevant, None, exempt_target, validate_args
        )
        if excluded is not None:
            lists = remove_from_lists(lists, excluded)
        counted = relevant.counted if validate_args else None
        above = find_in_lists(lists, relevant.ids, depth, counted)
        return cls.from_relevant(
            relevant,
            above,
            torch.ones_like(above),
            shape=preds.shape[:-1],
            depth=depth,
            ignore_index=ignore_index,
            first=candidates_of_lists(lists, top) if top else None,
        )

    @classmethod
    def from_ranks(
        cls,
        ranks: Array,
        num_candidates: int | None = None,
        tied: Array | None = None,
        missing: int = 0,
    ) -> Ranking:
        """Use given ranks, for metrics that need no ids of candidates.

        Args:
            ranks: integer `[N]`, one relevant location per query, or `[N, M]`; 1 is the best. All
                candidates of a tied block have the first rank of the block.
            num_candidates: the number of ranked candidates; None if unknown.
            tied: integer in the shape of `ranks`, the size of each tied block, relevant ones
                included; None for no ties.
            missing: the number in `ranks` for an unretrieved location, at most 0: a miss.

        Raises:
            TypeError: `ranks` are not integers.
            ValueError: a rank is below 1 or, with its tied block, beyond `num_candidates`; or two
                relevant locations of a query have one rank but their tied block is too small.

        Example:
            >>> from nextloc_metrics import MRR
            >>> ranking = Ranking.from_ranks([1, 4, 0], num_candidates=100)
            >>> ranking
            Ranking(above=[[0], [3], [UNRETRIEVED]], tied=[[1], [1], [1]],
                    relevant_above=[[0], [0], [0]], relevant_tied=[[1], [1], [1]])
            >>> MRR()(ranking)  # (1 + 1/4 + 0) / 3
            tensor(0.4167)
        """
        above, sizes = read_ranks(ranks, tied, num_candidates, missing)
        unknown = torch.arange(above.shape[1], device=above.device).expand_as(above)
        counted = torch.ones(len(above), dtype=torch.bool, device=above.device)
        ranking = cls.from_relevant(
            Relevant(unknown, None, counted),
            above,
            sizes,
            shape=torch.Size([len(above)]),
            num_candidates=num_candidates,
            has_ids=False,
        )
        check_blocks(ranking)
        return ranking

    @classmethod
    def from_predictions(cls, preds: Array, target: Array, *args: Any, **kwargs: Any) -> Ranking:
        """Call `from_scores` for floating `preds`, `from_lists` for integer `preds`."""
        preds = as_tensor("preds", preds)
        form = cls.from_lists if is_integer(preds) else cls.from_scores
        return form(preds, target, *args, **kwargs)

    @classmethod
    def from_relevant(
        cls,
        relevant: Relevant,
        above: Tensor,
        tied: Tensor,
        ids: Tensor | None = None,
        **kwargs: Any,
    ) -> Ranking:
        """Make a ranking whose columns are sorted by rank.

        The columns belong to `ids`, or to `relevant.ids` if None; `ids` may omit locations.
        """
        most, ids = relevant.most, relevant.ids if ids is None else ids
        columns = order_columns(ids, relevant.grades, above, tied)
        return cls(
            **columns._asdict(),
            num_relevant=relevant.number,
            counted=relevant.counted,
            most_relevant=most if most > ids.shape[1] else None,
            **kwargs,
        )
