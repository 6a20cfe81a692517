"""The plan of an update: what several metrics need from a batch, decided once for all batches."""

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
# Decisions are counted in a table of all locations if there are at most this many per query.
_IDS_PER_QUERY = 4

# The fields of a batch that no backend reads.
_OPTIONS = "mask", "groups", "exclude", "extra", "grades", "scores"


def sums(
    scores_of: Callable[[Any], Any] | None = None,
    decisions_of: Callable[[Any], int | None] | None = None,
) -> Callable[[Tally], Tally]:
    """Mark a method `tally` with what it sums, so that a plan can often do without calling it.

    A subclass that overrides `tally` loses the mark, so that its method is always called.

    Args:
        scores_of: returns the mean whose scores are summed. A plan scores all means together, and a
            backend may sum the scores of a formula without a record.
        decisions_of: returns the number of locations whose decisions are counted, which a backend
            may do without a record; None counts the locations that occur, and the method
            `of_counts` makes sums by key of these counts.
    """

    def mark(tally: Tally) -> Tally:
        vars(tally).update(scores_of=scores_of, decisions_of=decisions_of)
        return tally

    return mark


def held_by_backends(check: Tally) -> Tally:
    """Mark a method `check` that accepts all batches which a backend sums without a record."""
    vars(check).update(held_by_backends=True)
    return check


# The name of a state stands for these methods of the class, so an object may not replace them.
_CLASS_METHODS = frozenset({"at_rank", "check", "formula", "score", "tally"})


class Plan:
    """Read a batch once for several `RecordMetric`s, and update all of them or none.

    Metrics with the same state name add the same to their states. They are a *kind*, which has a
    number; each kind is checked and tallied once per batch, by its metric in `kinds`. The members
    have equal `ignore_index`.
    """

    def __init__(self, members: Sequence[Any]) -> None:
        self.members = tuple(members)
        kinds = {member._state_name: member for member in members}
        self.kinds = tuple(kinds.values())
        # the members, and the metrics that are options of members
        self._metrics = [x for member in members for x in member.modules() if hasattr(x, "record")]
        numbers = {name: number for number, name in enumerate(kinds)}
        self._kind_of = [numbers[member._state_name] for member in members]
        self.ignore_index: int | None = next((member.ignore_index for member in members), None)
        self.validate_args = any(member.validate_args for member in members)
        self._reads_target = any(getattr(kind._needs, "target", True) for kind in self.kinds)
        self.needs = self._needs_of(range(len(self.kinds)))
        self._means = [kind._scores_of and kind._scores_of() for kind in self.kinds]
        group_kinds = (member.group_kind for member in members)
        self._groups: list[GroupKind] = [group for group in group_kinds if group is not None]
        self._kinds_of_groups = {(group.by, group.number) for group in self._groups}
        # the kinds that a backend may sum without a record: formulas, and one count of decisions
        self._formulas: dict[int, Formula] = {}
        self._num_locations: dict[int, int | None] = {}
        for number, (kind, mean) in enumerate(zip(self.kinds, self._means, strict=True)):
            if kind.record is not Ranking or not kind._held_by_backends:
                continue
            if mean is kind and mean._scoring.ties == "expected":
                if (formula := mean._scoring.formula) and formula.over != "retrieved":
                    self._formulas[number] = formula
            elif kind._decisions_of and not self._num_locations:  # a backend counts one of them
                self._num_locations[number] = kind._decisions_of()

    @cached_property
    def _rest(self) -> dict[frozenset[int], tuple[list[int], dict[type[Record], Any]]]:
        """The kinds that are left, and what they read, by the kinds that a backend has summed."""
        formulas = frozenset(self._formulas)
        # a backend sums nothing, all formulas, or these and the decisions
        cases = {frozenset[int](), formulas, formulas.union(self._num_locations)}
        rest = {x: [i for i in range(len(self.kinds)) if i not in x] for x in cases}
        return {summed: (left, self._needs_of(left)) for summed, left in rest.items()}

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
            return self._check_records(batch)
        return self._read(self._convert(batch), self.needs)

    def _check_records(self, batch: Batch) -> Records:
        """Return records that were given as `preds`, or raise if one is missing."""
        if batch.target is not None or batch.mask is not None or batch.exclude is not None:
            raise ValueError(
                "a Ranking already holds its `target`, `mask` and `exclude`; pass it alone."
            )
        records = list(batch.preds.values())
        by_type = {t: next((x for x in records if isinstance(x, t)), None) for t in self.needs}
        if missing := [kind.__name__ for kind, record in by_type.items() if record is None]:
            raise ValueError(
                f"`preds` must be a {missing[0]}, or predictions with `target`, got "
                f"{type(records[0]).__name__}."
            )
        return Records({kind: self._with(record, batch) for kind, record in by_type.items()})

    def _convert(self, batch: Batch) -> Batch:
        """Return the batch as tensors; arrays become tensors on the metrics' device."""
        device = self.members[0].device if self.members else None
        if batch.target is None:
            if self._reads_target:
                raise ValueError(
                    "`target` must be given with `preds`, unless `preds` is a Ranking."
                )
            preds = as_tensor("preds", batch.preds, device)
            no_target = preds.new_full((*preds.shape[:-1], 1), -1, dtype=torch.int64)
            batch = replace(batch, preds=preds, target=no_target)
        return batch.read(device)

    def _read(self, batch: Batch, kinds: Mapping[type[Record], Needs]) -> Records:
        ignored, validate = self.ignore_index, self.validate_args
        batch = replace(batch, ignore_index=ignored, validate_args=validate)
        records = {x: self._with(x.read(batch, needs), batch) for x, needs in kinds.items()}
        return Records(records)

    def _with(self, record: Any, batch: Batch) -> Any:
        """Return a record with the batch's `extra` and `groups`."""
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

        Text becomes the numbers of the members' labels. If no member has `num_groups`, it stays
        text, and the record makes keys of it.
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
            # a query that does not count may have any text: it is given that of some group
            counted = record.counted.reshape(len(text), -1).any(1).tolist()
            some_name = labels.names[0]
            text = [x if counts else some_name for x, counts in zip(text, counted, strict=True)]
        return labels.number(text).to(record.device)

    def update(self, batch: Batch, *, count: bool) -> None:
        """Add a batch to all metrics, or raise and change none.

        With `count`, count an update of each metric and clear its cached value.
        """
        self.add(self.tally(batch), count=count)

    def tally(self, batch: Batch) -> list[Any]:
        """Return what a batch adds to the state of each kind, for `add`; or raise."""
        if isinstance(batch.preds, Record | Records):
            return self.tally_read(self.read(batch))
        self._check_methods()
        tallies = self._sum_directly(batch) or {}
        numbers, needs = self._rest[frozenset(tallies)]
        if numbers:
            tallies |= self._tally(self._read(self._convert(batch), needs), numbers)
        return [tallies[number] for number in range(len(self.kinds))]

    def tally_read(self, records: Records) -> list[Any]:
        """Return what the records of a batch, which `read` has returned, add to the states."""
        self._check_methods()
        return [*self._tally(records, range(len(self.kinds))).values()]

    def _check_methods(self) -> None:
        """Raise if an object has replaced a method of its class."""
        for metric in self._metrics:
            if names := sorted(_CLASS_METHODS & vars(metric).keys()):
                raise AttributeError(
                    f"`{names[0]}` of {short(metric)} is fixed, because its state depends on it; "
                    "define it in a subclass."
                )

    def _tally(self, records: Records, numbers: Sequence[int]) -> dict[int, Any]:
        """Check the records, and return what they add to the states of some kinds, by number."""
        kinds = [self.kinds[number] for number in numbers]
        for kind in kinds:
            check(kind, records[kind.record])
        with remembering(records.values()):
            # all means are scored first, so that each `tally` only sums scores that are there
            means = [mean for mean in (self._means[number] for number in numbers) if mean]
            for kind_of_record in dict.fromkeys(mean.record for mean in means):
                by_name = {x._score_name: x for x in means if x.record is kind_of_record}
                score_together(records[kind_of_record], by_name)
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
            is_beyond = any(x and x < preds.shape[1] for x in self._num_locations.values())
            is_plain = preds.element_size() > 1 and target.ndim == 1 and not is_beyond
            # if another kind needs a ranking, its counts serve the formulas, too
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
            weights: Any = for_one_relevant(formulas, preds.shape[1])
            summed = weights and backend.tally_scores(
                preds, target, self.ignore_index, weights, size
            )
        else:  # each query has relevant ids, and only one if decisions are counted
            ids = target[:, None] if target.ndim == 1 else target
            if self._num_locations and size is None and preds.shape[1]:
                size = dense_size(ids[:, 0], preds[:, 0])
            if not self._formulas and size is None:
                return None
            weights = for_lists(formulas, ids.shape[1])
            summed = weights and backend.tally_lists(preds, ids, weights, size)
            if summed and self.validate_args and preds.shape[1] > LONGEST_UNCHECKED_LIST:
                check_lists(preds, torch.ones(len(preds), dtype=torch.bool))
        if not summed:
            return None
        formula_sums, decisions = summed
        tallies: dict[int, Any] = dict(zip(self._formulas, formula_sums, strict=True))
        for number, num_locations in self._num_locations.items() if decisions is not None else ():
            kind = self.kinds[number]
            tallies[number] = kind.of_counts(decisions) if num_locations is None else decisions
        return tallies

    def add(self, tallies: Sequence[Any], *, count: bool) -> None:
        """Add what `tally` returned to all metrics."""
        changes: list[dict[str, Any]] = []
        new_states: dict[tuple[int, int], Any] = {}  # members that share a state share the new one
        new_names: dict[tuple[int, int], Any] = {}  # so do members that share the texts of keys
        for member, kind in zip(self.members, self._kind_of, strict=True):
            attributes = vars(member)
            state = attributes[member._state_name]
            added = tallies[kind]
            change: dict[str, Any] = {}
            # members of a kind with empty lists share one list from now on
            shared_by = (0 if isinstance(state, list) and not state else id(state)), kind
            if shared_by not in new_states:
                new_states[shared_by] = state + added
            if not isinstance(added, Tensor) and added.names:
                pair = id(attributes["key_names"]), id(added.names)
                if pair not in new_names:
                    new_names[pair] = join_names(attributes["key_names"], added.names)
                change["key_names"] = new_names[pair]
            change[member._state_name] = new_states[shared_by]
            if count:
                change |= {"_update_count": attributes["_update_count"] + 1, "_computed": None}
            changes.append(change)
        # `deque` updates all members in one call in C: no interrupt can come between two of them
        deque(map(dict.update, map(vars, self.members), changes), maxlen=0)


def dense_size(target: Tensor, decided: Tensor) -> int | None:
    """Return one more than the largest id, as the length of a table with a count for each id.

    None if the table would be larger than sums by key, or if reading ids would wait for a device.
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
    """Return the value of a method's mark; None without a mark.

    That of a wrapper does not count: `functools.wraps` has copied it from another method.
    """
    return None if hasattr(method, "__wrapped__") else getattr(method, name, None)
