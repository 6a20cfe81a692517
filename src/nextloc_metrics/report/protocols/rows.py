"""The queries that a protocol counts, their candidates and their weights."""

from __future__ import annotations

import random
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.queries.arrays import Array, as_tensor, as_tensor_or_text
from nextloc_metrics.core.queries.checks import is_integer
from nextloc_metrics.core.queries.messages import describe, short

#: an argument that some protocols need
Maybe = Array | None

# Arguments with a row per location; others have one per query.
_OF_LOCATIONS = ("train_counts", "codes")


@dataclass(eq=False)
class ProtocolInput:
    """The arguments of `Protocol.evaluate` as tensors."""

    preds: Tensor
    target: Tensor
    users: Tensor | None = None
    times: Tensor | None = None
    sequences: Tensor | None = None
    seen: Tensor | None = None
    train_counts: Tensor | None = None
    negatives: Tensor | None = None
    codes: Tensor | None = None
    answered: Tensor | None = None

    @classmethod
    def read(cls, preds: Array, target: Array, **others: Maybe) -> ProtocolInput:
        """Convert arrays to tensors on the CPU, and check their shapes."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(others) - known)
        if unknown:
            raise TypeError(f"unknown arguments {short(unknown)}; known are {sorted(known)}.")
        read = as_tensor("preds", preds).detach().cpu(), as_tensor("target", target).cpu()
        if read[0].ndim != 2 or read[1].shape != read[0].shape[:1] or not len(read[1]):
            raise ValueError(
                "`preds` must be scores [N, C] or lists of ids [N, K] and `target` [N], one id per "
                f"query, got {describe(preds)} and {describe(target)}."
            )
        if not is_integer(read[1]):
            raise TypeError(f"`target` must be integers, ids of locations, got {describe(target)}.")
        given = cls(read[0], read[1].long())
        for name, value in others.items():
            if value is not None:
                found = _number(name, value)
                if name not in _OF_LOCATIONS and len(found) != len(read[1]):
                    raise ValueError(
                        f"`{name}` must have a row for each of the {len(read[1])} queries, got "
                        f"{describe(value)}."
                    )
                setattr(given, name, found)
        low, high = int(given.target.min()), int(given.target.max())
        if low < 0 or (high >= given.preds.shape[1] and not given.is_list):
            of = "" if given.is_list else f" of the {given.preds.shape[1]} candidates"
            raise ValueError(f"`target` must be ids{of}, got {low if low < 0 else high}.")
        return given

    @property
    def is_list(self) -> bool:
        """Whether `preds` holds lists of ids."""
        return is_integer(self.preds)

    def take(self, rows: Tensor) -> ProtocolInput:
        """Return the given rows of all arguments."""
        of_queries = {name: x for name, x in vars(self).items() if name not in _OF_LOCATIONS}
        return replace(self, **{name: x[rows] for name, x in of_queries.items() if x is not None})


def _number(name: str, value: Array) -> Tensor:
    """Return numbers as a tensor; text is numbered in alphabetical order."""
    found = as_tensor_or_text(name, value)
    if isinstance(found, Tensor):
        return found.cpu()
    numbers = {label: number for number, label in enumerate(sorted(set(found)))}
    return torch.tensor([numbers[label] for label in found])


def check_ids(name: str, ids: Tensor, width: int) -> None:
    """Raise if an id is no candidate; -1 is padding, except in `negatives`."""
    if not is_integer(ids) or ids.ndim != 2:
        raise ValueError(f"`{name}` must be ids [N, M], one row per query, got {describe(ids)}.")
    lowest = 0 if name == "negatives" else -1
    if ids.numel() and (int(ids.min()) < lowest or int(ids.max()) >= width):
        wrong = int(ids.min()) if int(ids.min()) < lowest else int(ids.max())
        raise ValueError(f"`{name}` must be ids of the {width} candidates, got {wrong}.")


def last_of_each(groups: Tensor, times: Tensor | None) -> Tensor:
    """Return the row of the last query of each group, groups in rising order.

    Among queries at the same time, and without times, the last row is the last query.
    """
    order, sizes = _by_group(groups, times)
    return order[sizes.cumsum(0) - 1]


def _by_group(groups: Tensor, times: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the rows by group and then by time, and the sizes of the groups in rising order."""
    order = torch.arange(len(groups)) if times is None else times.argsort(stable=True)
    order = order[groups[order].argsort(stable=True)]
    return order, torch.unique(groups, return_counts=True)[1]


def third_last(users: Tensor, times: Tensor | None) -> Tensor:
    """Return the row of the third last query of each user, users with most queries first.

    More than 100 queries count as 100. Equally many queries keep the order of the users' numbers;
    users with fewer than three queries have none.

    Example:
        >>> third_last(torch.tensor([7, 7, 7, 3, 3, 3, 3, 5]), None)
        tensor([4, 0])
    """
    order, sizes = _by_group(users, times)
    ends, enough = sizes.cumsum(0), sizes >= 3
    longest_first = (-sizes[enough].clamp(max=100)).argsort(stable=True)
    return order[ends[enough][longest_first] - 3]


def split_targets(seen: Tensor, target: Tensor, new: bool) -> Tensor:
    """Return the rows whose target is in `seen`, or is not if `new`; none is a `ValueError`."""
    rows = ((seen == target[:, None]).any(1) != new).nonzero()[:, 0]
    if not len(rows):
        does, got = ("lack", "all targets") if new else ("hold", "no target")
        raise ValueError(f"`seen` must {does} the target of at least one query, got {got}.")
    return rows


def drop_remainder(users: Tensor | None, number: int, batch_size: int, seed: int) -> Tensor:
    """Group the rows by user, shuffle them by Python's `random`, and keep full batches."""
    rows = list(range(number))
    if users is not None:
        first = {user: row for row, user in reversed(list(enumerate(users.tolist())))}
        rows.sort(key=lambda row: first[int(users[row])])
    random.Random(seed).shuffle(rows)
    return torch.tensor(rows[: number // batch_size * batch_size], dtype=torch.int64)


def ended(target: Tensor, sequences: Tensor) -> Tensor:
    """Mark in each sequence the first target 0 and all later targets."""
    found, stopped = [], set()
    for one, sequence in zip(target.tolist(), sequences.tolist(), strict=True):
        if one == 0:
            stopped.add(sequence)
        found.append(sequence in stopped)
    return torch.tensor(found)


def draw_uniform(number: int, width: int, count: int, seen: Tensor | None, seed: int) -> Tensor:
    """Draw ids from 1 on uniformly by NumPy, with replacement, and again if an id is in `seen`."""
    draw, drawn = np.random.RandomState(seed), np.empty((number, count), np.int64)
    for row in range(number):
        known = set() if seen is None else set(seen[row].tolist())
        if known.issuperset(range(1, width)):
            raise ValueError(f"`seen` must leave an id to draw, got all {width - 1} in row {row}.")
        for column in range(count):
            one = draw.randint(1, width)
            while one in known:
                one = draw.randint(1, width)
            drawn[row, column] = one
    return torch.from_numpy(drawn)


def count_drawn(given: ProtocolInput) -> int:
    """Return the mean number of ids from 1 on that are not in `seen`."""
    number, width = given.preds.shape
    left = torch.ones(number, width, dtype=torch.bool)
    if given.seen is not None:
        left.scatter_(1, given.seen.clamp(min=0).long(), False)
    return round(float(left[:, 1:].sum(1).double().mean()))


def draw_popular(number: int, counts: Tensor, count: int, seed: int) -> Tensor:
    """Draw distinct ids per query with probability by visits, by NumPy; maybe the target, too."""
    ids = counts.argsort(descending=True, stable=True)
    ids = ids[counts[ids] > 0]
    if len(ids) < count:
        raise ValueError(
            f"`train_counts` must have at least {count} visited locations to draw from, got "
            f"{len(ids)}."
        )
    draw, share = np.random.RandomState(seed), (counts[ids].double() / counts.sum()).numpy()
    rows = [draw.choice(ids.numpy(), size=count, replace=False, p=share) for _ in range(number)]
    return torch.from_numpy(np.stack(rows))


def weigh_groups(groups: Tensor) -> Tensor:
    """Return the weights of queries whose weighted sum is the mean of the group means."""
    _, numbers, sizes = torch.unique(groups, return_inverse=True, return_counts=True)
    return torch.as_tensor(1 / (sizes.double()[numbers] * len(sizes)))
