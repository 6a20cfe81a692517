"""An evaluation in parts: batches are added, parts are merged, and the result is the same."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor

from nextloc_metrics.arguments.arrays import Array, as_tensor
from nextloc_metrics.arguments.batch import Batch
from nextloc_metrics.arguments.checks import as_number, check_choice, cut_offs
from nextloc_metrics.arguments.labels import GroupLabels
from nextloc_metrics.arguments.messages import describe, short
from nextloc_metrics.arguments.rows import Kind, read_rows
from nextloc_metrics.distribution.needs import Given
from nextloc_metrics.geography import Locations
from nextloc_metrics.means.intervals import check_confidence
from nextloc_metrics.metrics.bins import PopularityBins
from nextloc_metrics.metrics.measures import cut_offs_of
from nextloc_metrics.ranking import Ranking
from nextloc_metrics.report.clustered import Pairs
from nextloc_metrics.report.counted import (
    PAIRS,
    Counted,
    Setting,
    add_up,
    check_alike,
)
from nextloc_metrics.report.data import (
    Data,
    History,
    check_cluster,
    count_locations,
    digest,
    limits_of,
)
from nextloc_metrics.report.evaluation import Evaluation
from nextloc_metrics.report.results import evaluation_of

# How the card names excluded candidates that leave the targets.
_EXEMPT = "given ids, but not the targets"

# Columns of a block have numbers below 2 to this power.
_FACTOR_BITS = 40

# Room for groups is doubled where it does not suffice, from this number on.
_ROOM = 64


class Evaluator:
    """The counts of `evaluate`, for predictions that come in parts.

    Add batches in any order, merge evaluators of other batches, and read the result. The value is
    the same bit for bit for any split into batches and evaluators. Groups are numbered as they
    appear. Memory grows with locations and groups, not with queries. The arguments are as for
    `evaluate`; `num_locations` must be given for lists of ids.

    Raises:
        ValueError: an option is out of range; in `add`, a batch does not fit; in `merge`, the
            options differ.


    Example:
        >>> from nextloc_metrics import report
        >>> from nextloc_metrics.arguments.batch import Batch
        >>> first, other = (report.Evaluator(k=1, num_locations=9) for _ in range(2))
        >>> first.add(Batch([[3, 5]], [3], groups={"user": ["bob"]}))  # lists of two ids
        >>> other.add(Batch([[4, 2]], [2], groups={"user": ["ann"]}))
        >>> both = report.Evaluator.from_bytes(first.to_bytes()).merge(other)
        >>> both.result().values["mrr"]  # (1 + 1/2) / 2
        0.75
    """

    def __init__(
        self,
        *,
        k: int | Sequence[int] = (1, 5, 10),
        num_locations: int | None = None,
        cluster: str | None = None,
        bins: PopularityBins | None = None,
        train_counts: Array | None = None,
        vocabulary: Sequence[str] | None = None,
        locations: Locations | None = None,
        km: float = 1.0,
        exempt_target: bool = False,
        history: History | None = None,
        confidence: float = 0.95,
        given: Given | None = None,
        measures: Sequence[Any] = (),
    ) -> None:
        check_confidence(confidence)
        if given is not None:
            check_choice("given", given, Given)
        if measures:
            k = cut_offs_of(measures)
        names = tuple(str(measure).strip() for measure in measures)
        counts = None if train_counts is None else as_tensor("train_counts", train_counts)
        if bins is None and counts is not None:
            bins = PopularityBins.from_counts(counts)
        self.known_locations = self.num_locations = as_number(num_locations)
        self._data = Data(bins, counts, locations, limits_of(history))
        self._exempt_target = exempt_target
        self._options: dict[str, Any] = {
            "k": tuple(cut_offs(k)),
            "cluster": cluster,
            "confidence": confidence,
            "vocabulary": "" if vocabulary is None else digest(*vocabulary),
            "km": km,
            "probabilities": given or "",
            "measures": names,
            **self._data.digests(),
        }
        self._counted: Counted | None = None
        self._names: dict[str, _Names] = {}
        self._fingerprint = 0

    def add(self, batch: Batch) -> None:
        """Count the queries of a batch of arrays as for `evaluate`, or raise and change nothing."""
        groups: Any = batch.groups or {}
        is_chunk = all(isinstance(kind, Kind) for kind in groups.values())
        if not (is_chunk and isinstance(batch.preds, Tensor) and isinstance(batch.target, Tensor)):
            rows = read_rows(
                batch.preds,
                batch.target,
                groups,
                batch.mask,
                batch.exclude,
                batch.confidence,
                batch.weights,
                batch.grades,
            )
            for chunk in rows.chunks():
                self.add(chunk)
            return
        setting = self._setting_of(batch) if self._counted is None else self._counted.setting
        if (batch.weights is not None) != setting.is_weighted:
            raise ValueError("`weights` must be given in every batch, or in none.")
        if tuple(groups) != setting.groups:
            raise ValueError(
                f"`groups` must be {short(setting.groups)} in every batch, got "
                f"{short(tuple(groups))}."
            )
        named = {kind: self._names.get(kind, _Names(())) for kind in groups}
        found = {kind: named[kind].number(values) for kind, values in groups.items()}
        numbers = {kind: of for kind, (of, _) in found.items()}
        new = {kind: names for kind, (_, names) in found.items()}
        keys = _pair(setting.cluster, numbers)
        new_pairs = self._missing_pairs({kind: distinct for kind, (distinct, _) in keys.items()})
        counted = self._with_room(setting, named, new, new_pairs)
        given = replace(batch, groups=None, exempt_target=self._exempt_target)
        with _added(counted.pairs, new_pairs):
            of_pairs = {
                PAIRS + kind: counted.pairs[kind].number(distinct)[inverse]
                for kind, (distinct, inverse) in keys.items()
            }
            ranking = counted.add(given, {**numbers, **of_pairs})
        for kind, names in named.items():
            names.add(new[kind])
            counted.names[kind] = names.names
        self._counted, self._names = counted, named
        hashes = [named[kind].hashes[of] for kind, of in numbers.items()]
        self._fingerprint = _add_fingerprint(
            self._fingerprint, given, ranking, hashes, counted.setting.num_locations
        )

    def merge(self, other: Evaluator) -> Evaluator:
        """Add the counts of another evaluator, with equal options, and return this one."""
        mine, theirs = self._counted, other._counted
        if theirs is not None:
            if mine is not None:
                check_alike("this evaluator", mine.setting, "the other", theirs.setting)
            parts = [theirs] if mine is None else [mine, theirs]
            self._take(add_up(parts), (self._fingerprint + other._fingerprint) % (1 << 64))
        return self

    def to_bytes(self) -> bytes:
        """Return the counts, with a checksum; nothing if no batch was added."""
        if self._counted is None:
            return b""
        file = io.BytesIO()
        self._finished().save(file)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Evaluator:
        """Read what `to_bytes` returned; a `ValueError` if it is cut, changed or something else."""
        evaluator = cls()
        if data:
            counted = Counted.load(io.BytesIO(data))
            evaluator._data = counted.data
            evaluator._take(counted, sum(int(x, 16) for x in counted.shards) % (1 << 64))
        return evaluator

    def result(self, missed: int | None = None) -> Evaluation:
        """Return the evaluation of all queries that were added.

        `missed` is as for `evaluate`; without a batch, a `ValueError` is raised.
        """
        if self._counted is None:
            raise ValueError(
                "`add` must be called before `result`, with a batch of 0 or more rows."
            )
        counted = self._finished()
        if missed is not None:
            counted.card["broken_answers"] = as_number(missed)
        if cuts := counted.cuts_beyond_lists():
            warnings.warn(
                f"`k` should be at most {counted.longest}, the length of the longest list in "
                f"`preds`, got {short(cuts)}: what the lists do not hold counts as a miss; pass "
                "longer lists.",
                stacklevel=2,
            )
        return evaluation_of(counted)

    def _finished(self) -> Counted:
        """Return the counts with groups in order, and the fingerprint."""
        assert self._counted is not None  # its callers have checked
        counted = add_up([self._counted])
        counted.shards = (f"{self._fingerprint:016x}",) if counted.card["queries"] else ()
        return counted

    def _take(self, counted: Counted, fingerprint: int) -> None:
        self._counted, self._fingerprint = counted, fingerprint
        self.known_locations = counted.setting.known_locations
        self.num_locations = counted.setting.num_locations
        if counted.setting.exclude != "none":
            self._exempt_target = counted.setting.exclude == _EXEMPT
        self._options = {name: getattr(counted.setting, name) for name in self._options}
        self._names = {kind: _Names(names.names) for kind, names in counted.labels.items()}

    def _setting_of(self, batch: Batch) -> Setting:
        locations = self._data.locations
        several, width = batch.target.ndim == 2, batch.preds.shape[1]
        is_scores = batch.preds.is_floating_point()
        if locations is not None and several:
            raise ValueError(
                "`locations` must be None if a query may have several relevant locations, got "
                f"{describe(batch.target)} as `target`; `geography.AccuracyWithin` accepts several."
            )
        number = self.num_locations if self.num_locations or not is_scores else width
        if number is None and not several:
            raise ValueError(
                "`num_locations` must be given for lists of ids, got None: F1 counts each location."
            )
        groups: Mapping[str, Kind] = batch.groups or {}  # type: ignore[assignment]
        check_cluster(self._options["cluster"], tuple(groups))
        excluded = _EXEMPT if self._exempt_target else "given ids"
        options = dict(self._options)
        if batch.confidence is not None:
            options["probabilities"] = "confidence"
        if options["probabilities"] and (several or is_scores == (batch.confidence is not None)):
            raise ValueError(
                "metrics of probabilities need one relevant id per query, and `given` for scores "
                "or `confidences` for lists of ids, got "
                f"{describe(batch.preds)} and {describe(batch.target)}."
            )
        setting = Setting(
            **options,
            num_locations=None if several else number,
            known_locations=self.known_locations,
            candidates=width if is_scores else None,
            groups=tuple(groups),
            exclude="none" if batch.exclude is None else excluded,
            is_weighted=batch.weights is not None,
        )
        if self._data.limits is not None and setting.by_user not in groups:
            raise ValueError(
                f"`groups` must have the key {setting.by_user!r} if there is a `history`, got "
                f"{list(groups)}: limits are those of users."
            )
        return setting

    def _missing_pairs(self, distinct: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the keys of pairs that are new, by kind of groups."""
        known = {} if self._counted is None else self._counted.pairs
        none = Pairs(torch.zeros(0, dtype=torch.int64))
        return {kind: known.get(kind, none).missing(keys) for kind, keys in distinct.items()}

    def _with_room(
        self,
        setting: Setting,
        named: Mapping[str, _Names],
        new: Mapping[str, Sequence[str]],
        new_pairs: Mapping[str, Tensor],
    ) -> Counted:
        """Return the counts, or a copy with room for more groups and pairs: twice as many."""
        old = self._counted
        known = {} if old is None else old.pairs
        names = {kind: [*named[kind].names, *new[kind]] for kind in named}
        keys = {
            kind: torch.cat([known[kind].keys, more]) if kind in known else more
            for kind, more in new_pairs.items()
        }
        if (
            old is not None
            and all(len(x) <= len(old.labels[kind]) for kind, x in names.items())
            and all(kind in known and len(x) <= len(known[kind]) for kind, x in keys.items())
        ):
            return old
        labels = {}
        for kind, of_kind in names.items():
            free = 0 if old is None else max(0, 2 * len(old.labels[kind]) - len(of_kind))
            labels[kind] = GroupLabels([*of_kind, *(f"\0{i}" for i in range(free))])
        pairs = {}
        for kind, x in keys.items():
            size = len(x) if kind not in known else max(len(x), 2 * len(known[kind]))
            kept = x[: len(x) - len(new_pairs[kind])]
            pairs[kind] = Pairs(kept, size)
        grown = Counted(setting, labels, pairs, self._data)
        if old is not None:
            rows = {kind: torch.arange(len(of)) for kind, of in old.labels.items()}
            grown.add_states(old, {**rows, **old.rows_of_pairs()})
            grown.names = dict(old.names)
        return grown


def _pair(cluster: str | None, numbers: Mapping[str, Tensor]) -> dict[str, tuple[Tensor, Tensor]]:
    """Return the distinct pairs of a group and a cluster by kind, and which each query has."""
    return {
        kind: torch.unique(Pairs.key_of(groups, numbers[cluster]), return_inverse=True)
        for kind, groups in numbers.items()
        if cluster is not None and kind != cluster
    }


@contextmanager
def _added(pairs: Mapping[str, Pairs], new: Mapping[str, Tensor]) -> Iterator[None]:
    """Add pairs, which are removed again if the block raises."""
    for kind, keys in new.items():
        pairs[kind].add(keys)
    try:
        yield
    except BaseException:
        for kind, keys in new.items():
            pairs[kind].remove(len(keys))
        raise


class _Names:
    """Names of groups, numbered as they appear, with a hash of each."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names: list[str] = []
        self.hashes = torch.zeros(0, dtype=torch.int64)
        self._numbers: dict[str, int] = {}
        self._last: tuple[GroupLabels, Tensor] | None = None
        self.add(names)

    def add(self, names: Sequence[str]) -> None:
        self._numbers.update((name, len(self.names) + i) for i, name in enumerate(names))
        self.names += names
        digests = [blake2b(name.encode(), digest_size=8).digest() for name in names]
        new = [int.from_bytes(x, "little", signed=True) for x in digests]
        self.hashes = torch.cat([self.hashes, torch.tensor(new, dtype=torch.int64)])

    def number(self, kind: Kind) -> tuple[Tensor, list[str]]:
        if self._last is not None and self._last[0] is kind.labels:
            return self._last[1][kind.numbers], []
        new = [name for name in kind.labels.names if name not in self._numbers]
        numbers = {name: len(self.names) + i for i, name in enumerate(new)}
        known = self._numbers
        table = torch.tensor([known[x] if x in known else numbers[x] for x in kind.labels.names])
        if not new:
            self._last = kind.labels, table.long()
        return table.long()[kind.numbers], new


def _add_fingerprint(
    total: int,
    batch: Batch,
    ranking: Ranking,
    hashes: Sequence[Tensor],
    num_locations: int | None,
) -> int:
    """Add the hashes of queries, in any order: groups, targets, ranks, answers; not of padding."""
    target = batch.target if batch.target.ndim == 2 else batch.target[:, None]
    missing = ranking.relevant < 0
    columns = [ranking.counted[:, None].long(), *(x[:, None] for x in hashes)]
    if ranking.queries.weights is not None:
        columns.append(ranking.queries.weights[:, None].view(torch.int64))
    if ranking.grades is not None:
        columns.append(ranking.grades.sum(1, keepdim=True).double().view(torch.int64))
    if ranking.num_candidates is None:
        answers = batch.preds.long()
        if num_locations is not None:  # all ids that are no location are alike
            answers = answers.clamp(max=num_locations)
    else:  # the targets' scores, bit by bit
        answers = batch.preds.gather(1, target.clamp(min=0)).double().view(torch.int64)
    blocks = [torch.cat(columns, 1), target.long(), answers]
    blocks += [x.masked_fill(missing, -1) for x in (ranking.above, ranking.tied)]
    rows = torch.zeros(len(target), dtype=torch.int64)
    for number, block in enumerate(blocks):
        rows += ((block + 1) * _factors(number, block.shape[1])).sum(1)
        rows = _mix(rows)
    return (total + int(rows.sum())) % (1 << 64)


@lru_cache
def _factors(block: int, width: int) -> Tensor:
    """Return an odd factor for each column of a block."""
    columns = torch.arange(width, dtype=torch.int64) + (block << _FACTOR_BITS)
    return _mix(columns) | 1


def _mix(values: Tensor) -> Tensor:
    """Spread the bits of integers; distinct ones stay distinct."""
    values = (values ^ ((values >> 30) & 0x3FFFFFFFF)) * -0x40A7B892E31B1A47
    values = (values ^ ((values >> 27) & 0x1FFFFFFFFF)) * -0x6B2FB644ECCEEE15
    return values ^ ((values >> 31) & 0x1FFFFFFFF)


def evaluate(
    preds: Array,
    target: Array,
    *,
    k: int | Sequence[int] = (1, 5, 10),
    mask: Array | None = None,
    groups: Mapping[str, Array] | None = None,
    cluster: str | None = None,
    bins: PopularityBins | None = None,
    train_counts: Array | None = None,
    exclude: Array | None = None,
    exempt_target: bool = False,
    num_locations: int | None = None,
    vocabulary: Sequence[str] | None = None,
    locations: Locations | None = None,
    km: float = 1.0,
    missed: int | None = None,
    history: History | None = None,
    confidence: float = 0.95,
    given: Given | None = None,
    confidences: Array | None = None,
    measures: Sequence[Any] = (),
    grades: Array | None = None,
    weights: Array | None = None,
) -> Evaluation:
    """Evaluate predictions: headline with intervals, chance, groups, deciles, ties, protocol.

    The metrics are those of `next_location_metrics` for `target` `[N]`, and those of
    `recommendation_metrics` for `[N, M]`. Predictions are read in chunks, so a memory-mapped array
    of scores is not loaded at once.

    Args:
        preds: floating `[N, C]`, scores of all candidates; or integer `[N, K]`, lists of ids, best
            first, padded with -1.
        target: integer `[N]`, one relevant id per query; or `[N, M]`, several, padded with -1.
        k: the cut-offs.
        mask: bool `[N]`, False leaves a query out.
        groups: by name, the group of each query, integers or text `[N]`: `{"user": users}`.
        cluster: the name of the groups whose queries are not independent, such as `"user"`; all
            intervals but those of each user and of the deciles then take users as independent.
        bins: the popularity bin of each location, for the decile metrics; None makes ten from
            `train_counts`, if given: integer `[C]`, each location's visits in the training data.
        exclude: as for `RankingMetric.update`, like `exempt_target`.
        num_locations: number of location ids. None takes C for scores; for lists, the length of
            `train_counts`, or the largest id in `target` plus 1 if that is larger. Weighted F1
            does not depend on it.
        vocabulary: the text of each id; evaluations with different vocabularies cannot be merged.
        locations: the coordinates, for the distance metrics and a map, with `km` as for
            `next_location_metrics`. Not with `target` `[N, M]`.
        missed: the number of unreadable answers, written on the card. Their rows of `preds` must
            count as misses, such as lists of -1.
        history: the locations and the users of all visits, each user's in the order of time, for
            `ceiling`: Acc@1 between chance, the most frequent location, and the limit of
            [`analysis.predictability`][nextloc_metrics.analysis.predictability], beside that of
            shuffled visits; or what that function returned. Users are named as in the groups
            `cluster`, or else `"user"`.
        confidence: the confidence level of the intervals.
        given: what scores are: `"logits"`, `"log_probabilities"` or `"probabilities"`; adds the
            metrics of `probability_metrics`, beside chance and the training frequencies (each
            count plus one). None adds none.
        confidences: for lists, floating `[N]` in [0, 1], the confidence of each first id; adds the
            metrics of `confidence_metrics`.
        measures: metrics by the names of ir-measures, `["nDCG@10", "RR", "AP@100", "Rprec"]`,
            instead of the preset; `metrics.measures.parse_measure` lists them.
        grades: the grades of the ids in `target` `[N, M]`, in its shape; 0 is not relevant.
        weights: `[N]`, 0 or from 2^-32 to 2^31: the means are weighted, as by `Weighted`, and
            what is not a mean of scores (F1, the decile metrics, the map) is left out.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: shapes do not fit, a value is out of range, or `cluster` is not a key of
            `groups`.

    Warns:
        UserWarning: no list is as long as the largest `k`; a dagger marks the values at such a `k`.

    Example:
        >>> import numpy as np
        >>> from nextloc_metrics import report
        >>> scores = np.array([[0.1, 0.7, 0.2], [0.4, 0.3, 0.3], [0.2, 0.2, 0.6], [0.5, 0.4, 0.1]])
        >>> e = report.evaluate(scores, [1, 1, 2, 0], k=1)
        >>> e.values["acc_at_1"], e.chance["acc_at_1"]
        (0.75, 0.3333333333333333)
    """
    rows = read_rows(preds, target, groups, mask, exclude, confidences, weights, grades)
    check_cluster(cluster, rows.groups)
    evaluator = Evaluator(
        k=k,
        num_locations=num_locations,
        cluster=cluster,
        bins=bins,
        train_counts=train_counts,
        vocabulary=vocabulary,
        locations=locations,
        km=km,
        exempt_target=exempt_target,
        history=history,
        confidence=confidence,
        given=given,
        measures=measures,
    )
    counts = None if train_counts is None else as_tensor("train_counts", train_counts)
    evaluator.num_locations = count_locations(rows, evaluator.known_locations, counts)
    for batch in rows.chunks():
        evaluator.add(batch)
    return evaluator.result(missed)
