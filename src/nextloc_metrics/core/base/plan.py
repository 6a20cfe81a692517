"""The plan of an update: what several metrics need from a batch, computed once for all batches."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from nextloc_metrics.core import backends
from nextloc_metrics.core.queries.arrays import Array, as_tensor, as_tensor_or_text, is_batched
from nextloc_metrics.core.queries.batch import Batch, GroupKind
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.core.queries.record import Record, Records
from nextloc_metrics.core.ranking.counting import LONGEST_UNCHECKED_LIST, check_lists
from nextloc_metrics.core.ranking.needs import Needs, merge_needs
from nextloc_metrics.core.ranking.ranking import Ranking
from nextloc_metrics.core.scoring.formulas import Formula, for_lists, for_one_relevant

# Subclasses of tensors may have no plain memory.
_PLAIN = Tensor, torch.nn.Parameter
_OPTIONS = "mask", "groups", "exclude", "extra", "grades"


class Plan:
    """Read a batch once for several `RecordMetric`s, and update all of them or none.

    Metrics with the same state name have equal summands. Each of these *kinds* is checked and
    tallied once per batch. The members have equal `ignore_index`.
    """

    def __init__(self, members: Sequence[Any]) -> None:
        self.members = tuple(members)
        kinds = {member._state_name: member for member in members}
        self.kinds = tuple(kinds.values())
        numbers = {name: number for number, name in enumerate(kinds)}
        self._kind_of = [numbers[member._state_name] for member in members]
        self.ignore_index: int | None = next((member.ignore_index for member in members), None)
        self.validate_args = any(member.validate_args for member in members)
        # properties of the kinds, read once for all batches
        self._records = [kind.record for kind in self.kinds]
        self._reads_target = any(kind._reads_target for kind in self.kinds)
        self.needs = {
            record: merge_needs(kind.needs for kind in self.kinds if kind.record is record)
            for record in dict.fromkeys(self._records)
        }
        self._scored = [kind._scored for kind in self.kinds]
        self._scores = [one and one._scores_name for one in self._scored]
        self._groups: list[GroupKind] = [
            member._groups for member in members if member._groups is not None
        ]
        self._kinds_of_groups = {(one.by, one.number) for one in self._groups}
        self._of_ranks = [n for n, record in enumerate(self._records) if record is Ranking]
        self._planned = [self.kinds[number]._planned for number in self._of_ranks]
        decided = [one for one in self._planned if isinstance(one, int)]
        self._num_locations: int | None = decided[0] if decided else None
        self._formulas = tuple(one for one in self._planned if isinstance(one, Formula))
        self._needs_record = None in self._planned or not self._planned or len(decided) > 1

    def serves(self, members: Sequence[Any]) -> bool:
        """Whether the plan was made for these metric objects, in this order."""
        return len(members) == len(self.members) and all(map(operator.is_, members, self.members))

    def read(self, batch: Batch) -> Records:
        """Return the records that the members read, each made once; `batch` may hold them."""
        if isinstance(batch.preds, Record):
            batch = replace(batch, preds=Records({type(batch.preds): batch.preds}))
        if isinstance(batch.preds, Records):
            return self._given(batch)
        return self._read(self._convert(batch), self.needs)

    def _given(self, batch: Batch) -> Records:
        """Return records that were read before."""
        if batch.target is not None or batch.mask is not None or batch.exclude is not None:
            raise ValueError(
                "a Ranking already holds its `target`, `mask` and `exclude`; pass it alone."
            )
        given = list(batch.preds.values())
        found = {kind: next((x for x in given if isinstance(x, kind)), None) for kind in self.needs}
        if missing := [kind.__name__ for kind, record in found.items() if record is None]:
            raise ValueError(
                f"`preds` must be a {missing[0]}, or predictions with `target`, got "
                f"{type(given[0]).__name__}."
            )
        return Records({kind: self._with(record, batch) for kind, record in found.items()})

    def _convert(self, batch: Batch) -> Batch:
        """Return the batch as tensors, those of arrays on the metrics' device."""
        device = self.members[0].state.device if self.members else None
        if batch.target is None:
            if self._reads_target:
                raise ValueError(
                    "`target` must be given with `preds`, unless `preds` is a Ranking."
                )
            preds = as_tensor("preds", batch.preds, device)
            none = preds.new_full((*preds.shape[:-1], 1), -1, dtype=torch.int64)
            batch = replace(batch, preds=preds, target=none)
        return batch.read(device)

    def _read(self, batch: Batch, kinds: Mapping[type[Record], Needs]) -> Records:
        ignored, validate = self.ignore_index, self.validate_args
        batch = replace(batch, ignore_index=ignored, validate_args=validate)
        return Records(
            {kind: self._with(kind.read(batch, needs), batch) for kind, needs in kinds.items()}
        )

    def _with(self, record: Any, batch: Batch) -> Any:
        groups = batch.groups
        if batch.extra is not None:
            record = record.with_extra(batch.extra)
        if isinstance(groups, Mapping):
            numbered = ((name, self._number(name, x, record)) for name, x in groups.items())
            groups = {name: x for name, x in numbered if x is not None}
        elif groups is not None:
            groups = self._number(None, groups, record)
        if groups is not None:
            record = record.with_groups(groups)
        if len(self._kinds_of_groups) > 1 and "" in record.groups:
            raise ValueError(
                "`groups` without names fits only one kind of `Grouped` members, got (by, "
                f"num_groups) {short(sorted(self._kinds_of_groups, key=str))}; give each a `by=`, "
                "and pass `groups={name: ...}`."
            )
        return record

    def _number(self, name: str | None, groups: Array, record: Record) -> Tensor | None:
        """Replace text by the numbers of its members' labels; None for a name no member reads."""
        text = as_tensor_or_text("groups", groups, record.device)
        if isinstance(text, Tensor):
            return text
        found = [groups.labels for groups in self._groups if name in (None, groups.by)]
        if name is not None and not found:
            return None
        if not found or found[0] is None or any(labels != found[0] for labels in found):
            raise TypeError(
                f"`groups` must be integers, got text {short(text[:3])}; to use text, pass the "
                "same `labels=GroupLabels.from_values(...)` to all members grouped by it."
            )
        if text and len(text) in (len(record), *record.shape[:1]):
            # the text of queries that are left out is not read
            counted = record.counted.reshape(len(text), -1).any(1).tolist()
            any_name = found[0].names[0]
            text = [one if read else any_name for one, read in zip(text, counted, strict=True)]
        return found[0].number(text).to(record.device)

    def update(self, batch: Batch, *, count: bool) -> None:
        """Add a batch to all metrics, or raise and change none.

        With `count`, count an update of each metric and clear its cached value.
        """
        self.add(self.tally(batch), count=count)

    def tally(self, batch: Batch) -> list[Tensor]:
        """Return what a batch adds, by the kind of metric, for `add`; or raise."""
        if isinstance(batch.preds, Record | Records):
            found = self._tally(self.read(batch))
        else:
            found = self._tally_planned(batch) or {}
            kinds = {k: needs for k, needs in self.needs.items() if k is not Ranking or not found}
            if kinds:
                found |= self._tally(self._read(self._convert(batch), kinds))
        return [found[number] for number in range(len(self.kinds))]

    def _tally(self, records: Records) -> dict[int, Tensor]:
        """Return the summands, by number, of the kinds that read these records."""
        numbers = [n for n, record in enumerate(self._records) if record in records]
        for number in numbers:
            self.kinds[number]._check(records[self._records[number]])
        scores_of = self._score(numbers, records)
        families: dict[Any, list[int]] = {}
        for number in numbers:
            kind, record, scored = self.kinds[number], self._records[number], self._scored[number]
            family: Any = record, type(kind)._tallies
            if scored is not None:
                counted = scores_of[self._scores[number]][1]
                family = record, type(kind)._sum_many, id(counted), scored._is_bounded
            families.setdefault(family, []).append(number)
        found: dict[int, Tensor] = {}
        for (record, sums, *_), same in families.items():
            arguments = [records[record]]
            if self._scored[same[0]] is not None:
                of_same = [scores_of[self._scores[number]] for number in same]
                arguments = [[scores for scores, _ in of_same], of_same[0][1], *arguments]
            summed = sums([self.kinds[number] for number in same], *arguments)
            found.update(zip(same, summed, strict=True))
        return found

    def _score(self, numbers: Sequence[int], records: Records) -> dict[str, tuple[Tensor, Tensor]]:
        """Score the queries once with each metric whose scores are summed, by their name."""
        families: dict[Any, dict[str, Any]] = {}
        for number in numbers:
            scored = self._scored[number]
            if scored is not None:
                family = self._records[number], type(scored)._score_many
                families.setdefault(family, {})[self._scores[number]] = scored
        return {
            name: scores
            for (record, score_many), metrics in families.items()
            for name, scores in zip(
                metrics, score_many(list(metrics.values()), records[record]), strict=True
            )
        }

    def _is_planned(self, batch: Batch) -> bool:
        """Whether a backend may tally the batch without a record."""
        preds, target = batch.preds, batch.target
        if self._needs_record or any(getattr(batch, name) is not None for name in _OPTIONS):
            return False
        for values in (preds, target):
            if type(values) not in _PLAIN or is_batched(values) or values.is_neg():
                return False
        if preds.layout != torch.strided or preds.is_nested or target.dtype != torch.int64:
            return False
        if preds.ndim != 2 or target.shape[:1] != preds.shape[:1] or target.ndim > 2:
            return False
        devices = {target.device, *(self.kinds[number].state.device for number in self._of_ranks)}
        if devices != {preds.device}:
            return False
        if preds.is_floating_point():
            is_beyond = self._num_locations and preds.shape[1] > self._num_locations
            return preds.element_size() > 1 and target.ndim == 1 and not is_beyond
        has_one = target.ndim == 1 or target.shape[1] == 1
        is_plain = preds.dtype == torch.int64 and self.ignore_index is None
        return is_plain and (has_one or not self._num_locations)

    def _tally_planned(self, batch: Batch) -> dict[int, Tensor] | None:
        """Tally the kinds that read ranks without a record, where the backend can; else None."""
        if not self._is_planned(batch):
            return None
        preds, target = batch.preds, batch.target
        backend, most = backends.choose(preds), self._num_locations
        if not backend.tallies_scores:
            return None
        if preds.is_floating_point():  # each query has one relevant location
            of_one = for_one_relevant(self._formulas, preds.shape[1])
            found = of_one and backend.tally_scores(preds, target, self.ignore_index, of_one, most)
        else:  # each query has a relevant id, and one if decisions are counted
            ids = target[:, None] if target.ndim == 1 else target
            of_lists = for_lists(self._formulas, ids.shape[1])
            found = of_lists and backend.tally_lists(preds, ids, of_lists, most)
            if found and self.validate_args and preds.shape[1] > LONGEST_UNCHECKED_LIST:
                check_lists(preds, torch.ones(len(preds), dtype=torch.bool))
        if not found:
            return None
        sums = iter(found[0])
        return {
            number: found[1] if isinstance(one, int) else next(sums)  # type: ignore[misc]
            for number, one in zip(self._of_ranks, self._planned, strict=True)
        }

    def add(self, tallies: Sequence[Tensor], *, count: bool) -> None:
        """Add what `tally` returned to all metrics."""
        changes: list[dict[str, Any]] = []
        made: dict[tuple[int, int], Tensor] = {}  # keeps shared states shared
        for member, kind in zip(self.members, self._kind_of, strict=True):
            own = vars(member)
            held = own[member._state_name]
            if (id(held), kind) not in made:
                made[id(held), kind] = held + tallies[kind]
            change: dict[str, Any] = {member._state_name: made[id(held), kind]}
            if count:
                change |= {"_update_count": own["_update_count"] + 1, "_computed": None}
            changes.append(change)
        # one call in C, so that an interrupt cannot update only some metrics
        deque(map(dict.update, map(vars, self.members), changes), maxlen=0)
