"""Evaluation on several processes: every row counted once.

PyTorch's `DistributedSampler`, which Lightning puts in place by itself, repeats rows so that every
process gets as many. Metrics then count them twice: 21 rows on 2 processes become 22. Wrap the
dataset and pass the mask on:

    loader = DataLoader(PaddedDataset(dataset), batch_size=64)
    ...
    (history, target), is_real = batch
    metrics.update(model(history), target, mask=is_real)
"""

from typing import Generic, TypeVar

import torch
import torch.distributed
from torch import Tensor
from torch.utils.data import Dataset

from nextloc_metrics.checks import check_positive
from nextloc_metrics.messages import short

Row = TypeVar("Row")


class PaddedDataset(Dataset[tuple[Row, bool]], Generic[Row]):
    """A dataset of `(row, is_real)`, as long as every process needs to get as many rows.

    Its length is rounded up to a multiple of the number of processes by repeating rows from the
    start with `is_real=False`, so that a `DistributedSampler` has nothing to repeat: every process
    runs the same number of steps, and `mask=is_real` counts each row once. With one process it
    changes nothing but the form of the rows.

    Args:
        dataset: a dataset with a length.
        num_replicas: how many processes there are; None for the default process group's size,
            asked for when the length is.

    Example:
        >>> padded = PaddedDataset(["a", "b", "c"], num_replicas=2)
        >>> [padded[i] for i in range(len(padded))]
        [('a', True), ('b', True), ('c', True), ('a', False)]
    """

    def __init__(self, dataset: Dataset[Row], num_replicas: int | None = None) -> None:
        if num_replicas is not None:
            check_positive("num_replicas", num_replicas)
        self.dataset = dataset
        self.num_replicas = num_replicas
        self._world_size = 1  # as far as is known: a process may copy this before it has a group

    def __len__(self) -> int:
        """Return the number of rows, rounded up to a multiple of the number of processes."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            self._world_size = torch.distributed.get_world_size()
        replicas = self._world_size if self.num_replicas is None else self.num_replicas
        return -(-self._num_rows // replicas) * replicas

    def __getitem__(self, index: int) -> tuple[Row, bool]:
        """Return a row, and whether it is its first time."""
        if not 0 <= index < len(self):
            raise IndexError(f"`index` must be from 0 to {len(self) - 1}, got {index}.")
        return self.dataset[index % self._num_rows], index < self._num_rows

    def __getstate__(self) -> dict[str, object]:
        len(self)  # the workers of a loader get a copy, and have no group to ask
        return self.__dict__

    @property
    def _num_rows(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]


def padding_mask(num_rows: int, num_replicas: int, rank: int, drop_last: bool = False) -> Tensor:
    """Tell which rows of a `DistributedSampler`'s share are real, and which are repeats.

    Position i of the share of process `rank` is position i * num_replicas + rank of the (possibly
    shuffled) rows, and those from `num_rows` on are repeats.

    Args:
        num_rows: the length of the dataset.
        num_replicas: how many processes there are.
        rank: the number of the process.
        drop_last: whether the sampler drops rows instead of repeating some.

    Returns:
        bool, one value for every row of the share, False for repeats.

    Raises:
        ValueError: a number is out of range.

    Example:
        >>> padding_mask(num_rows=5, num_replicas=2, rank=1)  # rows 1, 3 and again 0
        tensor([ True,  True, False])
    """
    check_positive("num_replicas", num_replicas)
    if isinstance(num_rows, bool) or not isinstance(num_rows, int) or num_rows < 0:
        raise ValueError(f"`num_rows` must be an integer of at least 0, got {short(num_rows)}.")
    if not isinstance(rank, int) or not 0 <= rank < num_replicas:
        raise ValueError(f"`rank` must be from 0 to {num_replicas - 1}, got {short(rank)}.")
    share = num_rows // num_replicas if drop_last else -(-num_rows // num_replicas)
    return torch.arange(share) * num_replicas + rank < num_rows
