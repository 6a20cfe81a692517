"""A protocol as data: its queries, candidates, order and average."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

import nextloc_metrics.report.protocols.reported as reported
import nextloc_metrics.report.protocols.rows as rows
from nextloc_metrics.core.backends import UNRETRIEVED
from nextloc_metrics.core.queries.arrays import Array
from nextloc_metrics.core.ranking.counting import find_in_lists
from nextloc_metrics.core.ranking.forms import leave_out, remove_from_lists
from nextloc_metrics.core.ranking.ranking import Ranking, Ties
from nextloc_metrics.core.scoring.sampled import STEPS, maximise, rank_probabilities
from nextloc_metrics.report.protocols.operations import Order
from nextloc_metrics.report.protocols.reported import Case, Metric
from nextloc_metrics.report.protocols.rows import Maybe, ProtocolInput

# Above all ids of lists, which have no number of candidates.
_ANY_ID = 1 << 62

Subset = Literal[
    "all",
    "last of each user",
    "last of each sequence",
    "third last of each user",
    "targets new to the user",
    "targets known to the user",
    "answered queries",
]
MasksSeen = Literal["no", "not the target", "also the target"]


@dataclass(frozen=True)
class Source:
    """The source code of a protocol.

    Attributes:
        paper: author, title or venue, and year.
        code: `owner/name@commit` on GitHub, with the commit that the protocol follows.
        lines: the files and lines at that commit.
        same: other repositories with the same protocol.
    """

    paper: str
    code: str
    lines: str
    same: tuple[str, ...] = ()


@dataclass(frozen=True)
class Own:
    """What one codebase alone does, by functions.

    Attributes:
        reason: what an audit says of it.
        choose: returns the rows that count, of the protocol, the input and the rows chosen so far.
        change: returns scores or lists, and the columns or ids of the targets, of the protocol, the
            input and these two.
    """

    reason: str = ""
    choose: Callable[[Protocol, ProtocolInput, Tensor], Tensor] | None = None
    change: Callable[[Protocol, ProtocolInput, Tensor, Tensor], tuple[Tensor, Tensor]] | None = None


@dataclass(frozen=True)
class Protocol:
    """The evaluation of a codebase: its queries, candidates, order and average.

    Attributes:
        name: a short name.
        source: the source code that it follows.
        metrics: the metrics that the code reports.
        queries: the queries that count: all; the last of each user; the last of each sequence;
            the third last of each user, users with most rows first, of which 100 count; those whose
            target is, or is not, in `seen`; or those `answered`. Without `users` or `sequences`,
            every row counts.
        num_negatives: the number of candidates in addition to the target; None for all locations.
        drawn: how candidates are drawn: uniformly from id 1 on, with replacement, without those in
            `seen`; without replacement by visits; or by the caller, who passes `negatives`.
        masks_seen: whether visited locations are masked: no; yes, except the target; or yes, also
            the target.
        zero: the meaning of a target 0: a location; never a hit; or the end of its sequence.
        average: the mean over queries; the mean of the users' means; the mean of the batches'
            means; or the sum over queries divided by the number of batches times `batch_size`.
        batch_size: the number of queries per batch.
        seed: the seed of the random numbers.
        clipped: whether `torch.topk` returns all candidates if there are fewer than its depth;
            otherwise that is an error.
        decimals: the number of decimals that the code reports; None for all digits.
        own: what this codebase alone does.
    """

    name: str
    source: Source
    metrics: tuple[Metric, ...]
    queries: Subset = "all"
    num_negatives: int | None = None
    drawn: Literal["uniform", "by visits", "given"] = "uniform"
    masks_seen: MasksSeen = "no"
    zero: Literal["a location", "never a hit", "ends its sequence"] = "a location"
    average: Literal["queries", "users", "batches", "full batches"] = "queries"
    batch_size: int | None = None
    seed: int | None = None
    clipped: bool = False
    decimals: int | None = None
    own: Own | None = None

    def evaluate(
        self, preds: Array, target: Array, users: Maybe = None, times: Maybe = None, **given: Maybe
    ) -> dict[str, float]:
        """Return the values that the code would print on this machine, by their names in the code.

        The code's own operation orders tied candidates and NaN. Lists have an order; metrics with
        ranks beyond the list length are left out.

        Args:
            preds: floating `[N, C]`, scores of all locations; or integer `[N, K]`, lists of ids,
                best first, padded with -1.
            target: integer `[N]`, the true locations.
            users: `[N]`, numbers or names.
            times: `[N]`, numbers that order the queries; None for the order of the rows.
            given: for some protocols, `sequences` `[N]`, numbers of trajectories; `seen` `[N, E]`,
                ids visited before, padded with -1; `train_counts` `[C]`, visits of each location;
                `negatives` `[N, M]`, ids that you draw; `codes` `[C]`, the numbers of the codes of
                all locations; `answered` bool `[N]`, False if a query has no readable answer.

        Raises:
            TypeError: an argument has the wrong type or name.
            ValueError: shapes do not fit, an argument that the protocol needs is missing, or its
                operation needs more candidates.

        Example:
            >>> import torch
            >>> from nextloc_metrics import protocols
            >>> scores = torch.tensor([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])
            >>> target = torch.tensor([1, 1, 2])  # ranks 1, 2, 1
            >>> protocols.libcity(k=1).evaluate(scores, target)["Recall@1"]  # 2 of 3
            0.6666666666666666
        """
        case = self._read(preds, target, users=users, times=times, **given)
        return self._values(case, None)

    def bounds(
        self, preds: Array, target: Array, users: Maybe = None, times: Maybe = None, **given: Maybe
    ) -> dict[str, tuple[float, float]]:
        """Return the lowest and highest values over the orders that the code leaves open.

        These are the orders of tied candidates and of several NaN. Arguments and errors are as for
        `evaluate`. The range of weighted F1 may be wider than any order can reach.

        Example:
            >>> import torch
            >>> from nextloc_metrics import protocols
            >>> protocols.libcity(k=1).bounds(torch.tensor([[0.5, 0.5]]), [0])["Recall@1"]
            (0.0, 1.0)
        """
        case = self._read(preds, target, users=users, times=times, **given)
        low, high = self._values(case, "pessimistic"), self._values(case, "optimistic")
        return {key: (low[key], high[key]) for key in low}

    def expected(
        self, preds: Array, target: Array, users: Maybe = None, times: Maybe = None, **given: Maybe
    ) -> dict[str, float]:
        """Return the exact expected values over random orders of tied candidates, not rounded.

        Arguments and errors are as for `evaluate`. Weighted F1 is NaN if it depends on ties.

        Example:
            >>> import torch
            >>> from nextloc_metrics import protocols
            >>> protocols.libcity(k=1).expected(torch.tensor([[0.5, 0.5]]), [0])["Recall@1"]
            0.5
        """
        case = self._read(preds, target, users=users, times=times, **given)
        return self._values(case, "expected")

    def corrected(
        self, preds: Array, target: Array, users: Maybe = None, times: Maybe = None, **given: Maybe
    ) -> dict[str, float]:
        """Estimate the values among all candidates from the ranks among those that are drawn.

        By expectation maximisation, as in
        [`correct_sampled`][nextloc_metrics.analysis.correct_sampled]; their mean if queries differ
        in the number of locations that can be drawn, because of `seen`. Arguments and errors are as
        for `evaluate`; a protocol that ranks all candidates, or draws them by visits, is a
        `ValueError`.

        Example:
            >>> import torch
            >>> from nextloc_metrics import protocols
            >>> scores = torch.rand(300, 2000, generator=torch.Generator().manual_seed(0))
            >>> target = torch.arange(1, 301)
            >>> sasrec = protocols.sasrec(seed=0)
            >>> naive = sasrec.evaluate(scores, target)["HR@10"]  # of 2,000 candidates: 0.005
            >>> f"{naive:.3f}, corrected {sasrec.corrected(scores, target)['HR@10']:.3f}"
            '0.110, corrected 0.008'
        """
        if self.num_negatives is None or self.drawn != "uniform":
            drawn = {"by visits": "draws them by visits", "given": "is given them"}
            how = "ranks all candidates" if self.num_negatives is None else drawn[self.drawn]
            raise ValueError(
                f"`corrected` must be called for uniformly drawn candidates, and {self.name} {how}."
            )
        case = self._read(preds, target, users=users, times=times, **given)
        size = rows.count_drawn(case.given)
        sampled = case.scores.shape[1] - 1
        # a draw may be the target itself
        chances = rank_probabilities(sampled, size + 1, "with replacement")[:size]
        every = Ranking.from_ranks(torch.arange(1, size + 1))
        values = {}
        for metric in case.metrics:
            ranking, _ = reported.rank(case, metric.order, case.depth_of(metric), None)
            rank = ranking.above[:, 0].clamp(max=sampled)
            shares = torch.bincount(rank, case.weights, minlength=sampled + 1)
            p = maximise(shares[None], chances, STEPS)[0]
            values[metric.key] = metric.scale * float(p @ reported.score(metric, every, None))
        return values

    def _values(self, case: Case, ties: Ties | None) -> dict[str, float]:
        """Return all values, by the code's operations; with `ties`, over the orders left open.

        All but the expected values are rounded as the code rounds them.
        """
        ranked: dict[tuple[Order, int | None], tuple[Ranking, Tensor | None]] = {}
        values = {}
        for metric in case.metrics:
            if metric.kind == "weighted f1":
                values[metric.key] = metric.scale * reported.find_f1(case, ties)
                continue
            if metric.repeats and case.given.is_list:
                values[metric.key] = metric.scale * reported.add_repeats(metric, case)
                continue
            if metric.order == "middle" and not case.given.is_list:
                scores = reported.score_middle(metric, case)
                values[metric.key] = reported.average(metric, scores, case)
                continue
            call = metric.order, case.depth_of(metric) if ties is None else None
            if call not in ranked:
                ranked[call] = reported.rank(case, *call, ties)
            scores = reported.score(metric, *ranked[call])
            values[metric.key] = reported.average(metric, scores, case)
        if self.decimals is None or ties == "expected":
            return values
        return {key: round(value, self.decimals) for key, value in values.items()}

    def _read(self, preds: Array, target: Array, **others: Maybe) -> Case:
        given = ProtocolInput.read(preds, target, **others)
        given = given.take(self.choose(given))
        metrics, scores, columns = self.metrics, given.preds, given.target
        if given.is_list:
            if self.reads_lists:
                scores, columns = self._listed(given)
            elif self.num_negatives is not None or self.masks_seen != "no":
                raise ValueError(f"`preds` must be scores for {self.name}, got lists of ids.")
            metrics = tuple(
                one for one in metrics
                if one.order == "list" or (one.k is not None and one.k <= scores.shape[1])
                or one.kind in ("count", "weighted f1")
            )  # fmt: skip
        elif self.reads_lists:
            raise ValueError(f"`preds` must be lists of ids for {self.name}, got scores.")
        else:
            scores, columns = self._candidates(given)
        if self.own is not None and self.own.change is not None:
            scores, columns = self.own.change(self, given, scores, columns)
        weights = self._weigh(given)
        return Case(given, metrics, scores, columns, self._can_hit(given), weights, self.clipped)

    @property
    def reads_lists(self) -> bool:
        """Whether the code reads lists of ids, not scores."""
        return any(one.order == "list" for one in self.metrics)

    def choose(self, given: ProtocolInput) -> Tensor:
        """Return the rows that count, in the order of the code."""
        kept = self._chosen(given)
        own = None if self.own is None else self.own.choose
        return kept if own is None else own(self, given, kept)

    def _chosen(self, given: ProtocolInput) -> Tensor:
        groups = {"last of each user": given.users, "last of each sequence": given.sequences}
        group = groups.get(self.queries)
        number = len(given.target)
        if self.queries == "third last of each user" and given.users is not None:
            return rows.third_last(given.users, given.times)
        if self.queries in ("targets new to the user", "targets known to the user"):
            is_new = self.queries == "targets new to the user"
            return rows.split_targets(self._seen(given), given.target, is_new)
        if self.queries == "answered queries" and given.answered is not None:
            return given.answered.bool().nonzero()[:, 0]
        return torch.arange(number) if group is None else rows.last_of_each(group, given.times)

    def _listed(self, given: ProtocolInput) -> tuple[Tensor, Tensor]:
        """Return the lists and the targets as the code compares them."""
        lists = given.preds.long()
        if self.masks_seen != "no":
            lists = remove_from_lists(lists, self._seen(given))
        if self.num_negatives is not None and given.negatives is not None:
            rows.check_ids("negatives", given.negatives, _ANY_ID)
            drawn = torch.cat([given.target[:, None], given.negatives.long()], 1)
            is_drawn = find_in_lists(drawn, lists, None, None) < UNRETRIEVED
            lists = remove_from_lists(lists, lists.masked_fill(is_drawn, -1))
        return lists, given.target

    def _candidates(self, given: ProtocolInput) -> tuple[Tensor, Tensor]:
        """Return the scores of the candidates, and the columns of the targets."""
        scores = given.preds
        if self.num_negatives is not None:
            ids = torch.cat([given.target[:, None], self._negatives(given)], 1)
            return scores.gather(1, ids), torch.zeros_like(given.target)
        if self.masks_seen == "no":
            return scores, given.target
        seen = self._seen(given)
        if self.masks_seen == "not the target":
            seen = seen.masked_fill(seen == given.target[:, None], -1)
        return leave_out(scores, seen) if seen.numel() else scores, given.target

    def _seen(self, given: ProtocolInput) -> Tensor:
        found: Tensor = self.need(given, "seen", "it reads the locations visited before")
        rows.check_ids("seen", found, _ANY_ID if given.is_list else given.preds.shape[1])
        return found.long()

    def _negatives(self, given: ProtocolInput) -> Tensor:
        assert self.num_negatives is not None
        number, width = given.preds.shape
        if given.negatives is not None:
            rows.check_ids("negatives", given.negatives, width)
            return given.negatives.long()
        if self.drawn == "given":
            self.need(given, "negatives", "its candidates are drawn before the evaluation")
        seed = self.need(self, "seed", "it draws candidates at random")
        if self.drawn == "uniform":
            return rows.draw_uniform(number, width, self.num_negatives, given.seen, seed)
        counts = self.need(given, "train_counts", "it draws candidates by their visits")
        if counts.shape != (width,):
            raise ValueError(f"`train_counts` must have {width} counts, got {len(counts)}.")
        return rows.draw_popular(number, counts, self.num_negatives, seed)

    def _can_hit(self, given: ProtocolInput) -> Tensor:
        is_zero = given.target == 0
        if self.zero == "ends its sequence" and bool(is_zero.any()):
            why = "a target 0 ends its sequence"
            return ~rows.ended(given.target, self.need(given, "sequences", why))
        return ~is_zero if self.zero == "never a hit" else torch.ones_like(is_zero)

    def _weigh(self, given: ProtocolInput) -> Tensor:
        """Return the weights of the queries: a value is the weighted sum of their scores."""
        number = len(given.target)
        if self.average == "users":
            return rows.weigh_groups(self.need(given, "users", "it averages over the users"))
        if self.average == "queries":
            return torch.full((number,), 1 / number, dtype=torch.float64)
        size = self.need(self, "batch_size", "it uses batches")
        if self.average == "batches":
            return rows.weigh_groups(torch.arange(number) // size)
        return torch.full((number,), 1 / (size * -(-number // size)), dtype=torch.float64)

    def need(self, owner: Protocol | ProtocolInput, name: str, why: str) -> Any:
        """Return an argument or an attribute, or raise with the reason why it is needed."""
        value = getattr(owner, name)
        if value is None:
            raise ValueError(f"`{name}` must be given for {self.name}: {why}.")
        return value
