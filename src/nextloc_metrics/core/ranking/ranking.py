"""The record of ranks: all that a ranking metric needs of a batch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from nextloc_metrics.core.backends.reference import UNRETRIEVED
from nextloc_metrics.core.queries.arrays import Array, as_tensor, must_not_sync
from nextloc_metrics.core.queries.batch import Batch
from nextloc_metrics.core.queries.checks import INTEGERS, check_from_zero
from nextloc_metrics.core.queries.messages import got, short
from nextloc_metrics.core.queries.record import NotInRecordError, Queries, Record
from nextloc_metrics.core.ranking import forms
from nextloc_metrics.core.ranking.counting import FoundRanks, TopCandidates, find_first, look_up
from nextloc_metrics.core.ranking.forms import check_blocks, read_ranks
from nextloc_metrics.core.ranking.needs import Needs
from nextloc_metrics.core.ranking.scores_in_parts import check_embeddings
from nextloc_metrics.core.ranking.target import Relevant, gain_dtype

Ties = Literal["expected", "optimistic", "pessimistic"]


@dataclass(eq=False, repr=False)
class Ranking(Record):
    """The ranks of the relevant locations of a batch of queries: four integers per location.

    For a relevant location, `above` candidates have a strictly higher score and `tied` candidates
    (itself included) an equal score; `relevant_above` and `relevant_tied` count the relevant ones.
    Every ranking metric, ties included, is a function of these integers; the scores can be freed.

    A relevant location that is missing from a list, or scored NaN or -inf, is *unretrieved*:
    `above` is `UNRETRIEVED` (2^62), `tied` and `relevant_tied` are 1, and no `relevant_above`
    counts it. A NaN among the other candidates counts as above.

    Pass a ranking to any number of metrics: `metric.update(ranking)`. `ranking[rows]` selects
    queries, `len(ranking)` counts them.

    Attributes:
        above: int64 `[N, M]`, M the largest number of relevant locations per query; some or all
            beyond `depth` may be missing. The columns of a query are sorted by rank, equal ranks
            by descending gain; padding comes last and equals an unretrieved location of gain 0.
        tied: int64 `[N, M]`, at least 1.
        relevant_above: int64 `[N, M]`; so is `relevant_tied`, at least 1.
        relevant: int64 `[N, M]`, the ids of the relevant locations, -1 for padding.
        num_relevant: int64 `[N]`, unretrieved ones included.
        queries: which queries count, their shape and groups.
        num_candidates: C for scores, None for lists.
        grades: float64 `[N, M]` (float32 on devices without float64), the graded relevance; None
            without grades.
        depth: the number of first ranks that were read; None for all.
        most_relevant: a bound on `num_relevant`; if None, M is the bound.
        ignore_index: the id that is never relevant.
        first: the first candidates; read `top_candidates` and `best` instead.
        has_ids: whether `relevant` holds ids; False for given ranks.
        scores: floating `[N, C]`, the scores of all candidates, where a metric needs them.
        length: int64 `[N]`, the number of ranked candidates, where a metric needs it; read
            `lengths` instead.
    """

    above: Tensor
    tied: Tensor
    relevant_above: Tensor
    relevant_tied: Tensor
    relevant: Tensor
    num_relevant: Tensor
    queries: Queries
    num_candidates: int | None = None
    ignore_index: int | None = None
    first: TopCandidates | None = None
    grades: Tensor | None = None
    depth: int | None = None
    most_relevant: int | None = None
    has_ids: bool = True
    scores: Tensor | None = None
    length: Tensor | None = None

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
        length: bool = False,
        exclude: Array | None = None,
        exempt_target: bool = False,
    ) -> Ranking:
        """Rank by the scores of all candidates.

        Args:
            preds: floating `[..., C]`, one score per candidate; only their order matters.
            target: as for `RankingMetric.update`, like `mask`, `exclude` and `exempt_target`.
            ignore_index: as for `RankingMetric`, like `validate_args`.
            top: the number of first ranks whose candidate ids are kept.
            depth: the number of first ranks that are read; None for all. Relevant locations beyond
                may be missing, which is faster for several per query.
            length: count the ranked candidates: those scored above -inf or NaN, and not excluded.

        Raises:
            TypeError: `preds` is not floating, or `target` is complex.
            ValueError: shapes do not match, there is no candidate, or a value is out of range.

        Example:
            >>> from torch import tensor
            >>> ranking = Ranking.from_scores(tensor([[0.1, 0.7, 0.7, 0.9]]), tensor([2]))
            >>> ranking
            Ranking(above=[[1]], tied=[[2]], relevant_above=[[0]], relevant_tied=[[1]])
        """
        batch = _batch(preds, target, mask, exclude, exempt_target, ignore_index, validate_args)
        return cls(**forms.of_scores(batch, Needs(_kept(top), depth=depth, length=length)))

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
        length: bool = False,
        exclude: Array | None = None,
        exempt_target: bool = False,
    ) -> Ranking:
        """Rank by lists of candidate ids, best first.

        A repeated id counts at its first rank; its repeats still occupy their ranks. `preds` are
        integer `[..., K]`, ids padded with -1. The other arguments are those of `from_scores`; C of
        bool or floating relevance need not equal K. Lists of visit counts are a `ValueError`.

        Example:
            >>> from torch import tensor
            >>> Ranking.from_lists(tensor([[7, 7, 3, -1]]), tensor([[3, 5]]))
            Ranking(above=[[2, UNRETRIEVED]], tied=[[1, 1]], relevant_above=[[0, 0]],
                    relevant_tied=[[1, 1]])
        """
        batch = _batch(preds, target, mask, exclude, exempt_target, ignore_index, validate_args)
        return cls(**forms.of_lists(batch, Needs(_kept(top), depth=depth, length=length)))

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
        exclude: Array | None = None,
        exempt_target: bool = False,
    ) -> Ranking:
        """Rank by the dot products of queries and candidates, in chunks that fit into memory.

        The ranks equal those of the full scores up to floating-point rounding of the products,
        which are computed in float32 at least. Equal rows of `table` (with equal `bias`) tie
        exactly. The other arguments are those of `from_scores`.

        Args:
            queries: floating `[..., D]`.
            table: floating `[C, D]`, one row per candidate.
            bias: floating `[C]`, added to the candidates' scores.
            chunk_size: the number of candidates scored at once; None chooses it. The memory needed
                is that of the chunk's scores, plus 24 bytes per candidate.

        Example:
            >>> from torch import tensor
            >>> queries, table = tensor([[1.0, 0.0]]), tensor([[0.2, 1.0], [0.9, 0.0], [0.5, 0.5]])
            >>> Ranking.from_embeddings(queries, table, tensor([2]))
            Ranking(above=[[1]], tied=[[1]], relevant_above=[[0]], relevant_tied=[[1]])
        """
        needs = Needs(_kept(top))
        check_embeddings(queries, table, bias, chunk_size)
        batch = _batch(queries, target, mask, exclude, exempt_target, ignore_index, validate_args)
        return cls(**forms.of_embeddings(batch, table, bias, chunk_size, needs))

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
        exclude: Array | None = None,
        exempt_target: bool = False,
    ) -> Ranking:
        """Rank by scores whose candidates are sharded over processes.

        Every process calls this with the same queries and its own shard of the candidates, and
        gets the ranks among all candidates, after two small collectives. To count each query
        once, update the metric on every process with different queries: `ranking[rows]`. The other
        arguments are those of `from_scores`.

        Args:
            local_scores: floating `[..., C_local]`, the scores of the candidates from `offset` on.
            target: integer `[...]` or `[..., M]`, ids among all candidates.
            offset: the id of this process' first candidate; a gap or overlap is a `ValueError`.
            process_group: the processes that hold the candidates; None for the default group.
        """
        needs = Needs(_kept(top))
        if not isinstance(local_scores, Tensor) or not local_scores.is_floating_point():
            raise TypeError(
                "`local_scores` must be a floating tensor of scores, "
                f"{got('local_scores', local_scores)}."
            )
        offset = check_from_zero("offset", offset)
        local_scores = as_tensor("local_scores", local_scores)
        batch = _batch(
            local_scores, target, mask, exclude, exempt_target, ignore_index, validate_args
        )
        return cls(**forms.of_shards(batch, offset, process_group, needs))

    @classmethod
    def from_ranks(
        cls,
        ranks: Array,
        num_candidates: int | None = None,
        tied: Array | None = None,
        missing: int = 0,
    ) -> Ranking:
        """Make a ranking of ranks, for metrics that need no ids of candidates.

        Args:
            ranks: integer `[N]`, one relevant location per query, or `[N, M]`; 1 is the best. All
                candidates of a tied block have the first rank of the block.
            num_candidates: the number of ranked candidates; None if unknown.
            tied: integer in the shape of `ranks`, the size of each tied block, relevant ones
                included; None for no ties.
            missing: the number in `ranks` for an unretrieved location, at most 0: a miss.

        Raises:
            ValueError: a rank or its tied block is out of range, or the block is too small for the
                relevant locations of its rank.

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
        ids = torch.arange(above.shape[1], device=above.device).expand_as(above)
        counted = torch.ones_like(above[:, 0], dtype=torch.bool)
        relevant, counts = Relevant(ids, None, counted), FoundRanks(ids, above, sizes, None)
        ranking = cls.of_found(relevant, counts, counted.shape)
        ranking.num_candidates, ranking.has_ids = num_candidates, False
        check_blocks(ranking.above, ranking.tied, ranking.relevant_tied)
        return ranking

    @classmethod
    def read(cls, batch: Batch, needs: Needs) -> Ranking:
        read = forms.of_lists if batch.preds.dtype in INTEGERS else forms.of_scores
        return cls(**read(batch, needs))

    @classmethod
    def of_found(cls, relevant: Relevant, found: FoundRanks, queries: torch.Size) -> Ranking:
        """Make a ranking of `found`, which may omit locations; `queries` is their shape."""
        return cls(**forms.of_found(relevant, found, queries))

    def require(self, needs: Needs, reader: object) -> None:
        if needs.top:
            self._at_least(needs.top)
        if needs.within and self.scores is None:
            self._at_least(needs.within)
        if needs.length and not self.has_lengths:
            raise ValueError(
                f"{short(reader)} reads the number of ranked candidates, but this Ranking does not "
                "hold it; make it from scores or lists with `length=True`, or by `rank` of this "
                "metric."
            )
        if self.depth is not None and (needs.depth is None or needs.depth > self.depth):
            raise ValueError(
                f"{short(reader)} reads {needs.depth or 'all'} ranks, but its Ranking was made "
                f"for the first {self.depth}; make it with `depth={needs.depth}`."
            )
        ignored: int | None = getattr(reader, "ignore_index", None)
        if ignored is not None and self.ignore_index != ignored:
            raise ValueError(
                f"`ignore_index` must be equal for a metric and its Ranking, got {ignored} for "
                f"{short(reader)} and {self.ignore_index} for the Ranking."
            )

    def break_ties(self, ties: Ties) -> Ranking:
        """Return the ranking in which no two candidates are tied.

        `"optimistic"` puts a block's relevant locations first, by descending gain; `"pessimistic"`
        last, by ascending gain; `"expected"` keeps the blocks: scores are then expectations over a
        random order of the tied candidates.

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
        if not must_not_sync(self.tied) and not (self.tied > 1).any():
            return self
        if self.above.shape[1] == 1:  # one location, which is first or last in its block
            above = self.above + (self.tied - 1) if ties == "pessimistic" else self.above
            return replace(self, above=above, tied=torch.ones_like(above))
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

    def top_candidates(self, k: int) -> TopCandidates:
        """Return the first k candidates, of at least k that were kept, tied ones by id.

        Example:
            >>> from torch import tensor
            >>> scores = tensor([[0.1, 0.7, 0.2], [0.4, 0.2, 0.4]])
            >>> ranking = Ranking.from_scores(scores, tensor([1, 0]), top=2)
            >>> ranking.top_candidates(2).ids
            tensor([[1, 2],
                    [0, 2]])
        """
        first = self._at_least(k)
        return replace(
            first,
            top=k,
            retrieved=first.retrieved.clamp(max=k),
            ids=first.ids[:, :k],
            above=first.above[:, :k],
        )

    def _at_least(self, k: int) -> TopCandidates:
        """Return the first candidates that are kept, or raise if they are fewer than k."""
        self._check_ids()
        if self.scores is not None and (self.first is None or self.first.top < k):
            self.first = find_first(self.scores, k)
        if self.first is None or self.first.top < k:
            kept = 0 if self.first is None else self.first.top
            raise ValueError(
                f"candidates up to rank {k} are needed, but this Ranking kept {kept}; make it with "
                f"`top={k}`."
            )
        return self.first

    @property
    def best(self) -> Tensor:
        """The best candidate of every query, int64 `[N]`, the lowest id of tied ones.

        -1 where a row of scores has a NaN or nothing above -inf, or a list is empty.
        """
        return self._at_least(1).best

    @property
    def has_lengths(self) -> bool:
        """Whether `lengths` is known: it was counted, or all `num_candidates` are ranked."""
        return self.length is not None or (not self.has_ids and self.num_candidates is not None)

    @property
    def lengths(self) -> Tensor:
        """The number of ids without padding, or of scores above -inf or NaN, not excluded."""
        if self.length is not None:
            return self.length
        if not self.has_lengths:
            raise NotInRecordError(
                "the number of ranked candidates is needed, but this Ranking does not hold it; "
                "make it with `length=True`."
            )
        return torch.full_like(self.num_relevant, self.num_candidates or 0)

    def look_up(self, table: Tensor, fill: float) -> Tensor:
        """Return the relevant locations' rows of a table, `[N, M, ...]`.

        Indexing with `table[ranking.relevant]` is wrong: padding, -1, reads the last row.

        Args:
            table: `[C, ...]`, one row per location.
            fill: the value for padding, and for an id of a list that is not in the table.

        Example:
            >>> from torch import tensor
            >>> scores = tensor([[0.1, 0.7, 0.2], [0.4, 0.2, 0.4]])
            >>> ranking = Ranking.from_scores(scores, tensor([[2, -1], [1, 0]]))
            >>> ranking.look_up(tensor([5.0, 6.0, 7.0]), fill=0.0)  # best rank first
            tensor([[7., 0.],
                    [5., 6.]])
        """
        self._check_ids()
        rows = look_up(table, self.relevant, self.relevant >= 0, fill)
        if self.num_candidates is not None and len(table) < self.num_candidates:
            raise ValueError(
                f"`table` must have one row for each of the {self.num_candidates} candidates, got "
                f"{len(table)} rows."
            )
        return rows

    @property
    def gains(self) -> Tensor:
        """The gains of the columns: the grades, or 1 for relevant locations; 0 for padding."""
        if self.grades is not None:
            return self.grades
        return (self.relevant >= 0).to(gain_dtype(self.device))

    @property
    def answerable(self) -> Tensor:
        """Which queries count and have a relevant location, bool `[N]`."""
        return self.queries.counted & (self.num_relevant > 0)

    def __repr__(self) -> str:
        ranks = ", ".join(
            f"{name}={getattr(self, name).tolist()}"
            for name in ("above", "tied", "relevant_above", "relevant_tied")
        )
        return f"{type(self).__name__}({ranks})".replace(str(UNRETRIEVED), "UNRETRIEVED")

    def _check_ids(self) -> None:
        if not self.has_ids:
            raise NotInRecordError(
                "ids of candidates are needed, but a Ranking from ranks has none; make it from "
                "scores or lists."
            )


def _kept(top: int) -> int:
    """Return how many candidates are kept: with one more, a block that crosses `top` is seen."""
    return top + 1 if type(top) is int and top > 0 else top


def _batch(
    preds: Any,
    target: Any,
    mask: Any,
    exclude: Any,
    exempt_target: bool,
    ignore_index: int | None,
    validate_args: bool,
) -> Batch:
    """Return the arguments of a constructor as tensors."""
    batch = Batch(preds, target, mask, None, exclude, exempt_target)
    return replace(batch, ignore_index=ignore_index, validate_args=validate_args).read()
