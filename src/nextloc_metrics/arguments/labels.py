"""The names of groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from nextloc_metrics.arguments.arrays import Array, as_tensor_or_text
from nextloc_metrics.arguments.messages import describe, short


class GroupLabels:
    """The names of groups, in the order of their numbers.

    Args:
        labels: distinct strings; the position of a name is the number of its group.

    Example:
        >>> labels = GroupLabels.from_values(["bob", "alice", "bob"])
        >>> labels, labels.number(["alice", "bob"])
        (GroupLabels(['alice', 'bob']), tensor([0, 1]))
    """

    def __init__(self, labels: Sequence[str]) -> None:
        is_row = isinstance(labels, Sequence) and not isinstance(labels, str)
        if not is_row or not all(isinstance(label, str) for label in labels):
            raise ValueError(f"`labels` must be a sequence of text, got {describe(labels)}.")
        self.names = tuple(labels)
        try:
            "".join(self.names).encode()
        except UnicodeEncodeError as error:
            wrong = short(error.object[error.start : error.end])
            raise ValueError(f"`labels` must be text of whole characters, got {wrong}.") from error
        self._numbers = {name: number for number, name in enumerate(self.names)}
        if len(self._numbers) < len(self.names):
            twice = next(name for i, name in enumerate(self.names) if self._numbers[name] != i)
            raise ValueError(f"`labels` must be distinct, got {short(twice)} twice.")

    @classmethod
    def from_values(cls, values: Array) -> GroupLabels:
        """Make labels from the distinct values of a column of text, in alphabetical order."""
        text = as_tensor_or_text("values", values)
        if isinstance(text, Tensor):
            raise TypeError(
                f"`values` must be text, got {describe(values)}; convert numbers to `str`, or pass "
                "numbers from 0 as `groups` without labels."
            )
        return cls(sorted(set(text)))

    @classmethod
    def sorted(cls, names: Iterable[str]) -> GroupLabels:
        """Make labels from distinct names, sorted as numbers if all of them are numbers."""
        distinct = set(names)
        are_numbers = all(name.removeprefix("-").isdecimal() for name in distinct)
        return cls(sorted(distinct, key=lambda name: (int(name) if are_numbers else 0, name)))

    def number(self, values: Array) -> Tensor:
        """Return the number of the group for each of the names, int64 `[N]`."""
        text = as_tensor_or_text("values", values)
        if isinstance(text, Tensor):
            if text.numel():
                raise TypeError(f"`values` must be names of groups, got {describe(values)}.")
            text = []
        wrong = next((i for i, value in enumerate(text) if value not in self._numbers), None)
        if wrong is not None:
            raise ValueError(
                f"`groups` must be among the {len(self)} labels, got {short(text[wrong])} in row "
                f"{wrong}; make labels of all data with `GroupLabels.from_values(...)`."
            )
        return torch.tensor([self._numbers[value] for value in text], dtype=torch.int64)

    def state_key(self) -> str:
        """Return the content as text, for the names of states."""
        return repr(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, number: int) -> str:
        return self.names[number]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GroupLabels) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        return f"GroupLabels({short(list(self.names))})"


class GroupKind(NamedTuple):
    """The groups that a metric has sums of: their key in `groups`, their number, their names."""

    by: str | None
    number: int
    labels: GroupLabels | None

    @property
    def names(self) -> list[str]:
        """The names in tables and pictures: the labels, or the numbers."""
        return list(self.labels.names if self.labels else map(str, range(self.number)))
