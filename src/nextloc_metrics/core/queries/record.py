"""A record: the numbers that metrics read of a batch, and its queries."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from nextloc_metrics.core.queries.arrays import Array, as_tensor, per_query
from nextloc_metrics.core.queries.checks import check_named
from nextloc_metrics.core.queries.keys import Grouping, not_a_key, read_keys
from nextloc_metrics.core.queries.messages import describe, short

if TYPE_CHECKING:
    from typing_extensions import Self

Data = TypeVar("Data")

# The results that `once` keeps for the records of updates that run now, with the record, by its
# `id`, as a dataclass may have no hash. They are in no field of a record, so that a copy, a pickle
# or a move to another device leaves them behind.
_KEPT: dict[int, tuple[Record, dict[Hashable, Any]]] = {}


class NotInRecordError(ValueError):
    """A score reads groups or ids that its record does not hold."""


@dataclass(eq=False)
class Queries:
    """The queries of a batch, without their predictions.

    Attributes:
        shape: the shape of the queries, such as `[N]` or `[N, T]`.
        counted: bool `[N]` (flat), False for queries skipped by `mask` or `ignore_index`.
        groups: int64 `[N]`, the group of every query, by name of the kind of groups; "" for groups
            without a name. They are bool if they were.
        extra: further tensors that a score of your own reads, `[N, *]`, by name.
        names: the texts of groups that are text, by name of the kind and by key.
    """

    shape: torch.Size
    counted: Tensor
    groups: dict[str, Tensor] = field(default_factory=dict)
    extra: dict[str, Tensor] = field(default_factory=dict)
    names: dict[str, Mapping[int, str]] = field(default_factory=dict)


class Record:
    """The numbers that metrics read of a batch: a dataclass of tensors with one row per query.

    A subclass holds `queries` and its own numbers, and has a class method `read(batch, needs)`.
    """

    queries: Queries

    @classmethod
    def read(cls, batch: Any, needs: Any) -> Self:
        """Read the record of a `Batch`; `needs` says what the metrics read of it."""
        raise NotImplementedError(f"{cls.__name__} must define `read`.")

    def require(self, needs: Any, reader: object) -> None:
        """Raise if the record lacks something that a metric, `reader`, needs."""

    @property
    def shape(self) -> torch.Size:
        """The shape of the queries, `preds.shape[:-1]`."""
        return self.queries.shape

    @property
    def counted(self) -> Tensor:
        """Which queries count, bool `[N]`: False where `mask` or `ignore_index` skips one."""
        return self.queries.counted

    @property
    def groups(self) -> dict[str, Tensor]:
        """The group of every query, int64 `[N]`, by name of the kind of groups."""
        return self.queries.groups

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""
        return self.queries.counted.device

    def with_groups(self, groups: Array | Mapping[str, Array | Grouping] | None) -> Self:
        """Return the record with a group for every query, for `Grouped` metrics.

        `groups` are as for `RankingMetric.update`; text becomes keys. None changes nothing.
        """
        if groups is None:
            return self
        named = groups if isinstance(groups, Mapping) else {"": groups}
        read = {name: self._read_groups(x) for name, x in named.items()}
        keys = {name: keys for name, (keys, _) in read.items()}
        names = {name: texts for name, (_, texts) in read.items() if texts}
        return replace(self, queries=replace(self.queries, groups=keys, names=names))  # type: ignore[type-var]

    def with_extra(self, extra: Mapping[str, Array]) -> Self:
        """Return the record with more to read, `extra` as for `RankingMetric.update`."""
        check_named("extra", extra, '`{"age": ages}`')
        read = {}
        for name, values in extra.items():
            tensor = as_tensor(f"extra[{name!r}]", values, self.device)
            if tensor.shape[: len(self.shape)] != self.shape:
                raise ValueError(
                    f"`extra[{name!r}]` must have the shape of the queries, {short(self.shape)}, "
                    f"first, got {describe(tensor)}."
                )
            read[name] = tensor.reshape(-1, *tensor.shape[len(self.shape) :])
        return replace(self, queries=replace(self.queries, extra=read))  # type: ignore[type-var]

    def _read_groups(self, groups: Array | Grouping) -> Grouping:
        """Return the key of every query's group, `[N]`."""
        keys, names = read_keys("groups", groups, self.device, bools=True)
        flat = per_query("groups", keys, self.shape, "integers", is_kind=True)
        if keys.device != self.device:
            raise ValueError(
                f"`groups` must be on the device of the scores, {self.device}, got "
                f"{keys.device}; move it with `.to(device)`."
            )
        if names and flat.is_cpu and not self.counted.all():
            counted = set(flat[self.counted].tolist())
            names = {key: text for key, text in names.items() if key in counted}
        return Grouping(flat.clone(), names)

    def group_of(self, by: str | None, are_keys: bool = False) -> Tensor:
        """Return the group of every query for one kind of groups, int64 `[N]`.

        Args:
            by: the name of the kind; None if there is only one. `"step"` without groups of that
                name is the index in the last dimension of the queries.
            are_keys: refuse booleans, which otherwise are the groups 0 and 1.
        """
        kind = self._kind_of(by)
        if kind is None:
            return torch.arange(self.shape[-1], device=self.device).expand(self.shape).flatten()
        if are_keys and self.groups[kind].dtype == torch.bool:
            raise not_a_key("groups", self.groups[kind])
        return self.groups[kind].long()

    def names_of(self, by: str | None) -> Mapping[int, str]:
        """Return the texts of hashed keys among the groups that `group_of` returns."""
        return self.queries.names.get(self._kind_of(by) or "", {})

    def _kind_of(self, by: str | None) -> str | None:
        """Return the name of the kind of groups in `groups`; None if they are the steps."""
        groups = self.queries.groups
        if by == "step" and not groups.keys() & {"step", ""}:
            if len(self.shape) < 2:
                raise ValueError(
                    "`preds` must be scores [N, T, C] or lists [N, T, K] to be grouped by step, "
                    f"got queries of shape {short(self.shape)}; or pass "
                    "`groups={'step': ...}`."
                )
            return None
        if not groups:
            raise NotInRecordError(
                "`groups` must be given, one per query, to update a Grouped metric."
            )
        if by is None and len(groups) > 1:
            raise ValueError(
                f"`groups` has several kinds, {short(list(groups))}; choose one with "
                "`Grouped(..., by=...)`."
            )
        kinds = [*groups] if by is None else [x for x in (by, "") if x in groups]
        if not kinds:
            raise ValueError(
                f"`groups` must hold the key {by!r} for `Grouped(..., by={by!r})`, got "
                f"{short(list(groups))}."
            )
        return kinds[0]

    def once(self, key: Hashable, make: Callable[[], Data]) -> Data:
        """Return the result of `make`, which during an update is called once for each key.

        So metrics share results, such as scores, or a list that is split by bin. They must not
        change them. Outside of an update, no result is kept.
        """
        _, results = _KEPT.get(id(self), (self, None))
        if results is None:
            return make()
        if key not in results:
            results[key] = make()
        return results[key]  # type: ignore[no-any-return]

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> Self:
        """Move the tensors to a device."""
        return map_tensors(self, lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def __getitem__(self, rows: Any) -> Self:
        """Keep some of the queries: a slice, a bool mask or ids of rows."""
        if isinstance(rows, int):
            if not -len(self) <= rows < len(self):
                raise IndexError(f"there are {len(self)} queries, got row {rows}.")
            rows = slice(rows, rows + 1 or None)
        kept = map_tensors(self, lambda tensor: tensor[rows])
        return replace(kept, queries=replace(kept.queries, shape=kept.counted.shape))  # type: ignore[type-var]

    def __len__(self) -> int:
        """Return the number of queries, skipped ones included."""
        return self.counted.shape[0]


class Records(dict[type[Record], Any]):
    """Records of one batch, by their class; a collection passes them to its members."""


@contextmanager
def remembering(records: Iterable[Record]) -> Iterator[None]:
    """Let `once` of the records keep its results until the context ends."""
    begun = [record for record in records if id(record) not in _KEPT]
    try:
        for record in begun:
            _KEPT[id(record)] = record, {}
        yield
    finally:
        for record in begun:
            _KEPT.pop(id(record), None)


def map_tensors(data: Data, function: Callable[[Tensor], Tensor]) -> Data:
    """Apply a function to all tensors of a dataclass, and of the dataclasses and dicts in it."""
    changed: dict[str, Any] = {}
    for name in (x.name for x in fields(data)):  # type: ignore[arg-type]
        value = getattr(data, name)
        if isinstance(value, Tensor):
            changed[name] = function(value)
        elif isinstance(value, dict):
            changed[name] = {
                x: function(y) if isinstance(y, Tensor) else y for x, y in value.items()
            }
        elif is_dataclass(value):
            changed[name] = map_tensors(value, function)
    return replace(data, **changed)  # type: ignore[type-var]
