"""The plan of an update: what several metrics need from a batch, computed once for all batches."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor

from nextloc_metrics.core import backends
from nextloc_metrics.core.base.scores import score_together
from nextloc_metrics.core.queries.arrays import (
    Array,
    as_tensor,
    as_tensor_or_text,
    is_batched,
    must_not_sync,
)
from nextloc_metrics.core.queries.batch import Batch, GroupKind
from nextloc_metrics.core.queries.keys import Grouping, join_names
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.core.queries.record import Record, Records, remembering
from nextloc_metrics.core.ranking.counting import LONGEST_UNCHECKED_LIST, check_lists
from nextloc_metrics.core.ranking.needs import Needs, merge_needs
from nextloc_metrics.core.ranking.ranking import Ranking
from nextloc_metrics.core.scoring.formulas import Formula, for_lists, for_one_relevant

Tally = TypeVar("Tally", bound=Callable[..., Any])

# Subclasses of tensors may have no plain memory.
_PLAIN = Tensor, torch.nn.Parameter
# So many locations for each query are counted in a table of all of them.
_IDS_PER_QUERY = 4

_OPTIONS = "mask", "groups", "exclude", "extra", "grades", "scores"


def sums(
    scores_of: Callable[[Any], Any] | None = None,
    decisions_of: Callable[[Any], int | None] | None = None,
) -> Callable[[Tally], Tally]:
    """Mark a method `tally` with what it sums: it need not be called then.

    A class that overrides `tally` has no mark, so that its own is called.

    Args:
        scores_of: the mean whose scores are summed; a plan scores all means together, and a backend
            may sum a formula without a record.
        decisions_of: the number of locations whose decisions are counted, by a backend, too; None
            for all locations that occur, of which the method `of_counts` makes sums by key.
    """

    def mark(tally: Tally) -> Tally:
        vars(tally).update(scores_of=scores_of, decisions_of=decisions_of)
        return tally

    return mark


def held_by_backends(check: Tally) -> Tally:
    """Mark a method `check` that accepts all batches which a backend sums without a record."""
    vars(check).update(held_by_backends=True)
    return check


# Methods that are those of the class, as the name of the state says which.
_OF_CLASS = frozenset({"at_rank", "check", "formula", "score", "tally"})


class Plan:
    """Read a batch once for several `RecordMetric`s, and update all of them or none.

    Metrics with the same state name have equal summands. Each of these *kinds* is checked and
    tallied once per batch. The members have equal `ignore_index`.
    """

    def __init__(self, members: Sequence[Any]) -> None:
        self.members = tuple(members)
        kinds = {member._state_name: member for member in members}
        self.kinds = tuple(kinds.values())
        # also those that are options of others
        self._metrics = [x for member in members for x in member.modules() if hasattr(x, "record")]
        numbers = {name: number for number, name in enumerate(kinds)}
        self._kind_of = [numbers[member._state_name] for member in members]
        self.ignore_index: int | None = next((member.ignore_index for member in members), None)
        self.validate_args = any(member.validate_args for member in members)
        self._reads_target = any(getattr(kind._needs, "target", True) for kind in self.kinds)
        self.needs = self._needs_of(range(len(self.kinds)))
        self._means = [kind._scores_of and kind._scores_of() for kind in self.kinds]
        of_members = (member.group_kind for member in members)
        self._groups: list[GroupKind] = [one for one in of_members if one is not None]
        self._kinds_of_groups = {(one.by, one.number) for one in self._groups}
        # what a backend may sum without a record, by the number of the kind
        self._formulas: dict[int, Formula] = {}
        self._num_locations: dict[int, int | None] = {}
        for number, (kind, mean) in enumerate(zip(self.kinds, self._means, strict=True)):
            if kind.record is not Ranking or not kind._held_by_backends:
                continue
            if mean is kind and mean._scoring.ties == "expected":
                if (formula := mean._scoring.formula) and formula.over != "retrieved":
                    self._formulas[number] = formula
            elif kind._decisions_of and not self._num_locations:
                self._num_locations[number] = kind._decisions_of()

    @cached_property
    def _rest(self) -> dict[frozenset[int], tuple[list[int], dict[type[Record], Any]]]:
        """What is left when a backend has summed some kinds, by the numbers of these."""
        every = frozenset(self._formulas), frozenset((*self._formulas, *self._num_locations))
        numbers = range(len(self.kinds))
        left = {x: [i for i in numbers if i not in x] for x in {frozenset[int](), *every}}
        return {summed: (rest, self._needs_of(rest)) for summed, rest in left.items()}

    def _needs_of(self, numbers: Sequence[int]) -> dict[type[Record], Needs]:
        """Return what some kinds read, by their records."""
        kinds = [self.kinds[number] for number in numbers]
        return {
            record: merge_needs(kind._needs for kind in kinds if kind.record is record)
            for record in dict.fromkeys(kind.record for kind in kinds)
        }

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
        device = self.members[0].device if self.members else None
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
        if groups is not None:
            named = groups if isinstance(groups, Mapping) else {"": groups}
            read = {name: self._read_groups(name, x, record) for name, x in named.items()}
            record = record.with_groups({name: x for name, x in read.items() if x is not None})
        if len(self._kinds_of_groups) > 1 and "" in record.groups:
            raise ValueError(
                "`groups` without names fits only one kind of `Grouped` members, got (by, "
                f"num_groups) {short(sorted(self._kinds_of_groups, key=str))}; give each a `by=`, "
                "and pass `groups={name: ...}`."
            )
        return record

    def _read_groups(self, name: str, groups: Array | Grouping, record: Record) -> Any:
        """Return groups as their members read them; None for text that no member reads.

        Text becomes the numbers of the members' labels; without `num_groups` it stays, and the
        record makes keys of it.
        """
        if isinstance(groups, Grouping):
            return groups
        kinds = [kind for kind in self._groups if name in ("", kind.by)]
        if kinds and all(kind.number is None for kind in kinds):
            return groups
        text = as_tensor_or_text("groups", groups, record.device)
        if isinstance(text, Tensor):
            return text
        if name and not kinds:
            return None
        labels = kinds[0].labels if kinds else None
        if labels is None or any(kind.labels != labels for kind in kinds):
            raise TypeError(
                f"`groups` must be integers, got text {short(text[:3])}; to use text, leave "
                "`num_groups` out, or pass the same `labels=GroupLabels.from_values(...)` to all "
                "members grouped by it."
            )
        if text and len(text) in (len(record), *record.shape[:1]):
            # the text of queries that are left out is not read
            counted = record.counted.reshape(len(text), -1).any(1).tolist()
            any_name = labels.names[0]
            text = [one if read else any_name for one, read in zip(text, counted, strict=True)]
        return labels.number(text).to(record.device)

    def update(self, batch: Batch, *, count: bool) -> None:
        """Add a batch to all metrics, or raise and change none.

        With `count`, count an update of each metric and clear its cached value.
        """
        self.add(self.tally(batch), count=count)

    def tally(self, batch: Batch) -> list[Any]:
        """Return what a batch adds, by the kind of metric, for `add`; or raise."""
        if isinstance(batch.preds, Record | Records):
            return self.tally_read(self.read(batch))
        self._check_methods()
        tallies = self._sum_directly(batch) or {}
        numbers, needs = self._rest[frozenset(tallies)]
        if numbers:
            tallies |= self._tally(self._read(self._convert(batch), needs), numbers)
        return [tallies[number] for number in range(len(self.kinds))]

    def tally_read(self, records: Records) -> list[Any]:
        """Do what `tally` does, of records that `read` returned."""
        self._check_methods()
        return [*self._tally(records, range(len(self.kinds))).values()]

    def _check_methods(self) -> None:
        """Raise if a metric has a method of its own that is that of the class."""
        for metric in self._metrics:
            if names := sorted(_OF_CLASS & vars(metric).keys()):
                raise AttributeError(
                    f"`{names[0]}` of {short(metric)} is fixed, because its state depends on it; "
                    "define it in a subclass."
                )

    def _tally(self, records: Records, numbers: Sequence[int]) -> dict[int, Any]:
        """Return the summands of some kinds, which have checked their records."""
        kinds = [self.kinds[number] for number in numbers]
        for kind in kinds:
            check(kind, records[kind.record])
        with remembering(records.values()):
            means = [x for x in (self._means[number] for number in numbers) if x]
            for read in dict.fromkeys(mean.record for mean in means):
                own = {mean._score_name: mean for mean in means if mean.record is read}
                score_together(records[read], own)
            summands = [kind.tally(records[kind.record]) for kind in kinds]
        return dict(zip(numbers, summands, strict=True))

    def _can_sum(self, batch: Batch) -> bool:
        """Whether a backend may sum some kinds of the batch without a record."""
        preds, target = batch.preds, batch.target
        direct = (*self._formulas, *self._num_locations)
        if not direct or any(getattr(batch, name) is not None for name in _OPTIONS):
            return False
        for values in (preds, target):
            if type(values) not in _PLAIN or is_batched(values) or values.is_neg():
                return False
        if preds.layout != torch.strided or preds.is_nested or target.dtype != torch.int64:
            return False
        if preds.ndim != 2 or target.shape[:1] != preds.shape[:1] or target.ndim > 2:
            return False
        devices = {self.kinds[number].device for number in direct}
        if {target.device, *devices} != {preds.device}:
            return False
        if preds.is_floating_point():
            is_beyond = any(
                preds.shape[1] > (x or preds.shape[1]) for x in self._num_locations.values()
            )
            is_plain = preds.element_size() > 1 and target.ndim == 1 and not is_beyond
            # other kinds would read the scores of all candidates a second time
            return is_plain and Ranking not in self._rest[frozenset(direct)][1]
        has_one = target.ndim == 1 or target.shape[1] == 1
        is_plain = preds.dtype == torch.int64 and self.ignore_index is None
        return is_plain and (has_one or not self._num_locations)

    def _sum_directly(self, batch: Batch) -> dict[int, Any] | None:
        """Let the backend sum the kinds that need no record; None where it cannot."""
        if not self._can_sum(batch):
            return None
        preds, target, formulas = batch.preds, batch.target, (*self._formulas.values(),)
        size = next(iter(self._num_locations.values()), None)
        backend = backends.choose(preds)
        if not backend.tallies_scores:
            return None
        if preds.is_floating_point():  # each query has one relevant location
            if self._num_locations:
                size = size or preds.shape[1]
            of_one = for_one_relevant(formulas, preds.shape[1])
            found = of_one and backend.tally_scores(preds, target, self.ignore_index, of_one, size)
        else:  # each query has a relevant id, and one if decisions are counted
            ids = target[:, None] if target.ndim == 1 else target
            if self._num_locations and size is None and preds.shape[1]:
                size = dense_size(ids[:, 0], preds[:, 0])
            if not self._formulas and size is None:
                return None
            of_lists = for_lists(formulas, ids.shape[1])
            found = of_lists and backend.tally_lists(preds, ids, of_lists, size)
            if found and self.validate_args and preds.shape[1] > LONGEST_UNCHECKED_LIST:
                check_lists(preds, torch.ones(len(preds), dtype=torch.bool))
        if not found:
            return None
        of_formulas, decisions = found
        summed: dict[int, Any] = dict(zip(self._formulas, of_formulas, strict=True))
        for number, known in self._num_locations.items() if decisions is not None else ():
            kind = self.kinds[number]
            summed[number] = kind.of_counts(decisions) if known is None else decisions
        return summed

    def add(self, tallies: Sequence[Any], *, count: bool) -> None:
        """Add what `tally` returned to all metrics."""
        changes: list[dict[str, Any]] = []
        made: dict[tuple[int, int], Any] = {}  # keeps shared states shared
        named: dict[tuple[int, int], Any] = {}  # and shared texts of keys
        for member, kind in zip(self.members, self._kind_of, strict=True):
            own = vars(member)
            held = own[member._state_name]
            added = tallies[kind]
            change: dict[str, Any] = {}
            # empty lists of equal metrics become one list
            place = (0 if isinstance(held, list) and not held else id(held)), kind
            if place not in made:
                made[place] = held + added
            if not isinstance(added, Tensor) and added.names:
                pair = id(own["key_names"]), id(added.names)
                if pair not in named:
                    named[pair] = join_names(own["key_names"], added.names)
                change["key_names"] = named[pair]
            change[member._state_name] = made[place]
            if count:
                change |= {"_update_count": own["_update_count"] + 1, "_computed": None}
            changes.append(change)
        # one call in C, so that an interrupt cannot update only some metrics
        deque(map(dict.update, map(vars, self.members), changes), maxlen=0)


def dense_size(target: Tensor, decided: Tensor) -> int | None:
    """Return one more than the largest id if a count for each id takes less than one entry each.

    None for other ids, and where to look at them waits for a device.
    """
    if not len(target) or must_not_sync(target):
        return None
    size = 1 + max(int(target.max()), int(decided.max()))
    return max(1, size) if size <= _IDS_PER_QUERY * len(target) else None


def check(kind: Any, record: Any) -> None:
    """Raise if a metric cannot be updated with the record."""
    state = vars(kind)[kind._state_name]
    device = state.device if isinstance(state, Tensor) else kind.device
    if record.queries.counted.device != device:
        raise ValueError(
            f"{short(kind)} is on {device} and its input on {record.device}; "
            "move the metric with `.to(device)`, or make it an attribute of the module that "
            "you move."
        )
    record.require(kind._needs, kind)
    kind.check(record)


def mark_of(method: Any, name: str) -> Any:
    """Return what a mark of a method says; None without one of its own.

    `functools.wraps` copies that of another.
    """
    return None if hasattr(method, "__wrapped__") else getattr(method, name, None)
