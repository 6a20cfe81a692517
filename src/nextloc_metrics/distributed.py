"""Evaluation on several processes: each row counts once.

A `DistributedSampler`, which Lightning adds, repeats rows if the processes cannot get equally many,
and metrics count them again: 21 rows on 2 processes become 22. The remedy is a `PaddedDataset`, or
`even_batches=False` with accelerate.

    loader = DataLoader(PaddedDataset(dataset), batch_size=64)
    ...
    (history, target), is_real = batch
    metrics.update(model(history), target, mask=is_real)

`check_each_row_once(loader)` warns if a loader repeats rows or leaves rows out.
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

import torch
import torch.distributed
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
)

from nextloc_metrics.core.queries.checks import as_number, check_from_zero, check_positive, or_none
from nextloc_metrics.core.queries.messages import short

__all__ = ["PaddedDataset", "check_each_row_once", "padding_mask"]

Row = TypeVar("Row")
Collated = TypeVar("Collated")

# In these packages, samplers of the three classes below read each row at most once.
_READ = ("torch", "lightning", "lightning_fabric", "pytorch_lightning", "accelerate")


class PaddedDataset(Dataset[tuple[Row, bool]], Generic[Row]):
    """A dataset of `(row, is_real)` whose length is a multiple of the number of processes.

    The padding repeats rows from the start of the dataset, with `is_real=False`. A
    `DistributedSampler` then repeats nothing, and `mask=is_real` counts each row once. On one
    process nothing is added. A `DataLoader` collates `is_real` to a bool tensor `[batch size]`;
    one with a `collate_fn` of your own takes `collate(collate_fn)`.

    Args:
        num_replicas: the number of processes. None takes the size of the default process group
            each time the length is computed.

    Example:
        >>> padded = PaddedDataset(["a", "b", "c"], num_replicas=2)
        >>> [padded[i] for i in range(len(padded))]
        [('a', True), ('b', True), ('c', True), ('a', False)]
    """

    def __init__(self, dataset: Dataset[Row], num_replicas: int | None = None) -> None:
        self.dataset = dataset
        self.num_replicas: int | None = or_none(check_positive)("num_replicas", num_replicas)
        self._world_size = 1  # the last size read; a process may copy it before it has a group

    def __len__(self) -> int:
        """Return the number of rows, rounded up to a multiple of the number of processes."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            self._world_size = torch.distributed.get_world_size()
        replicas = self._world_size if self.num_replicas is None else self.num_replicas
        return -(-self._num_rows // replicas) * replicas

    def __getitem__(self, index: int) -> tuple[Row, bool]:
        """Return a row, and False if it is padding."""
        if not 0 <= index < len(self):
            raise IndexError(f"`index` must be from 0 to {len(self) - 1}, got {index}.")
        return self.dataset[index % self._num_rows], index < self._num_rows

    @staticmethod
    def collate(
        collate_fn: Callable[[list[Row]], Collated],
    ) -> Callable[[list[tuple[Row, bool]]], tuple[Collated, Tensor]]:
        """Return a `collate_fn` for `(row, is_real)` from one for rows.

        Its batch is the batch of `collate_fn`, and `is_real` as a bool tensor `[batch size]`.

        Example:
            >>> padded = PaddedDataset(["a", "bc", "d"], num_replicas=2)
            >>> loader = DataLoader(padded, batch_size=4, collate_fn=padded.collate("".join))
            >>> next(iter(loader))
            ('abcda', tensor([ True,  True,  True, False]))
        """
        return partial(_collate_marked, collate_fn)

    def __getstate__(self) -> dict[str, object]:
        len(self)  # stores the group's size for the workers of a loader, which have no group
        return self.__dict__

    @property
    def _num_rows(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]


def _collate_marked(
    collate_fn: Callable[[list[Row]], Collated], rows: list[tuple[Row, bool]]
) -> tuple[Collated, Tensor]:
    return collate_fn([row for row, _ in rows]), torch.tensor([is_real for _, is_real in rows])


def padding_mask(num_rows: int, num_replicas: int, rank: int, drop_last: bool = False) -> Tensor:
    """Return which rows that a `DistributedSampler` gives to a process are not repeated rows, bool.

    Row i of process `rank` is row j = i * num_replicas + rank of the (possibly shuffled) dataset.
    It is a repeated row if j >= `num_rows`.

    Args:
        drop_last: True if the sampler leaves rows out instead of repeating rows.

    Example:
        >>> padding_mask(num_rows=5, num_replicas=2, rank=1)  # rows 1, 3, and row 0 again
        tensor([ True,  True, False])
    """
    num_replicas = check_positive("num_replicas", num_replicas)
    num_rows, rank = check_from_zero("num_rows", num_rows), as_number(rank)
    if not isinstance(rank, int) or not 0 <= rank < num_replicas:
        raise ValueError(f"`rank` must be from 0 to {num_replicas - 1}, got {short(rank)}.")
    share = num_rows // num_replicas if drop_last else -(-num_rows // num_replicas)
    return torch.arange(share) * num_replicas + rank < num_rows


def check_each_row_once(loader: DataLoader[Any], name: str = "The loader") -> int | None:
    """Warn if the processes together read rows of a dataset twice or leave rows out.

    The check reads lengths and options, never a row. It knows the samplers of PyTorch, Lightning
    and Fabric, and accelerate's division of batches. Of other samplers, of an `IterableDataset`
    with several workers or processes, and of rows that no sampler divides over several processes it
    cannot tell, and it warns of that. Process 0 alone warns.

    Args:
        name: the name of the loader, with which the warning begins.

    Returns:
        The number of repeated rows, positive, or of rows left out, negative, on all processes; None
        if it cannot be told.

    Example:
        >>> from torch.utils.data import DataLoader, DistributedSampler
        >>> for rows in (range(21), PaddedDataset(range(21), num_replicas=2)):
        ...     sampler = DistributedSampler(rows, num_replicas=2, rank=1)
        ...     print(check_each_row_once(DataLoader(rows, sampler=sampler)))
        1
        0
    """
    if not isinstance(loader, DataLoader):
        raise TypeError(f"`loader` must be a DataLoader, got {type(loader).__name__}.")
    surplus, message = count_surplus(loader, name)
    if message:
        warnings.warn(message, stacklevel=2)
    return surplus


def count_surplus(loader: DataLoader[Any], name: str) -> tuple[int | None, str]:
    """Return what `check_each_row_once` returns, and its warning, which may be empty."""
    batches: Any = loader.batch_sampler
    shard = batches if type(batches).__name__ == "BatchSamplerShard" else None  # accelerate's
    batches = batches if shard is None else shard.batch_sampler
    sampler: Any = getattr(batches, "sampler", loader.sampler)
    has_group = torch.distributed.is_available() and torch.distributed.is_initialized()
    is_one = not has_group or torch.distributed.get_world_size() == 1
    has_one_worker = is_one and loader.num_workers < 2
    if has_one_worker and isinstance(loader.dataset, IterableDataset) and not loader.drop_last:
        return 0, ""  # it reads each row that the dataset yields
    if reason := _not_known(loader, batches, sampler, shard, has_group):
        text = (
            f"{name}: cannot tell if rows are repeated or left out: {reason}. Compare the metrics' "
            "`num_queries`, summed over processes, with the number of rows."
        )
        return None, "" if has_group and torch.distributed.get_rank() else text
    num_rows = num_read = share = len(sampler)
    replicas, rank, size = 1, 0, getattr(batches, "batch_size", 1)
    remedy = (
        "Wrap the dataset in `nextloc_metrics.distributed.PaddedDataset` and pass `mask=is_real` to"
        " the metrics."
    )
    if shard is not None:
        replicas, rank = shard.num_processes, shard.process_index
        step = size if shard.split_batches else size * replicas
        if batches.drop_last or shard.even_batches:
            num_read = (share if batches.drop_last else share + step - 1) // step * step
        remedy = (
            "Make the Accelerator with `even_batches=False`, or update with what "
            "`gather_for_metrics` returns and make the metrics with `sync_on_compute=False`."
        )
    else:
        if isinstance(sampler, DistributedSampler):
            num_rows = len(sampler.dataset)  # type: ignore[arg-type]
            num_read, replicas, rank = sampler.total_size, sampler.num_replicas, sampler.rank
        if batches is not None and batches.drop_last:
            num_read -= share % size * replicas  # each process drops its last, small batch
    surplus = num_read - num_rows
    if surplus == 0 or rank > 0:
        return surplus, ""
    if surplus < 0:
        text = f"`drop_last=True` leaves out {-surplus} of {num_rows} rows. Use `drop_last=False`."
        return surplus, f"{name}: {text} {remedy if replicas > 1 else ''}".rstrip()
    if shard is None and isinstance(sampler.dataset, PaddedDataset):
        remedy = f"`num_replicas` of PaddedDataset must be {replicas} or None."
    text = f"the sampler adds {surplus} repeated row{'s' * (surplus > 1)} to {num_rows}"
    text = f"{text} on {replicas} processes, and metrics count repeated rows again."
    return surplus, f"{name}: {text} {remedy}"


def _not_known(loader: Any, batches: Any, sampler: Any, shard: Any, has_group: bool) -> str:
    """Return why the rows that a loader reads cannot be counted; empty if they can."""
    try:
        len(sampler)
    except TypeError:
        return "nothing says how many rows there are"
    is_divided = isinstance(sampler, DistributedSampler)
    is_whole = isinstance(sampler, SequentialSampler | SubsetRandomSampler)
    if isinstance(sampler, RandomSampler):
        is_whole = not sampler.replacement and len(sampler) == len(sampler.data_source)
    is_ours = type(sampler).__module__.partition(".")[0] in _READ and (is_divided or is_whole)
    is_plain = type(batches) in (BatchSampler, type(None))
    if not is_ours or not is_plain or type(loader).__name__ == "DataLoaderDispatcher":
        names = " of ".join(type(x).__name__ for x in (loader, batches, sampler) if x is not None)
        return f"the rows of a {names} are not known"
    if is_divided and shard is not None:
        return "both a DistributedSampler and accelerate divide them"
    if not is_divided and shard is None and has_group and torch.distributed.get_world_size() > 1:
        return f"no sampler divides them over {torch.distributed.get_world_size()} processes"
    return ""
