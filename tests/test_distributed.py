"""Rows that are counted once: padded datasets, and the check of what loaders read."""

from __future__ import annotations

import itertools
import pickle
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import (
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

import distributed_workers as work
from nextloc_metrics.distributed import PaddedDataset, check_each_row_once, padding_mask


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
def test_every_row_is_real_once(drop_last: bool, shuffle: bool):
    """By `padding_mask` of a `DistributedSampler`, and by a sampler over a `PaddedDataset`.

    With `drop_last` there is nothing to mask, and only a `PaddedDataset` has all rows.
    """
    options: Any = {"shuffle": shuffle, "drop_last": drop_last}
    for num_rows, num_replicas in itertools.product((1, 2, 3, 7, 8, 20, 21), range(1, 9)):
        masked: list[int] = []
        padded: list[int] = []
        rows = PaddedDataset(range(num_rows), num_replicas)
        for rank in range(num_replicas):
            share = list(DistributedSampler(range(num_rows), num_replicas, rank, **options))
            mask = padding_mask(num_rows, num_replicas, rank, drop_last)
            assert not drop_last or mask.all()
            masked += [row for row, is_real in zip(share, mask.tolist(), strict=True) if is_real]
            own = [rows[i] for i in DistributedSampler(rows, num_replicas, rank, **options)]
            assert len(own) * num_replicas == len(rows)
            padded += [row for row, is_real in own if is_real]
        dropped = num_rows % num_replicas if drop_last else 0
        assert len(set(masked)) == len(masked) == num_rows - dropped
        assert sorted(padded) == list(range(num_rows))


@pytest.mark.slow  # starts processes
def test_padded_datasets_reach_other_processes():
    """A loader's worker holds a pickled copy, has no group, and can read the padding."""
    for pickled in work.run(work.pad, 2, PaddedDataset([0, 1, 2])):
        padded = pickle.loads(pickled)
        assert padded[3] == (0, False)
        with pytest.raises(IndexError):
            padded[4]


def test_padded_datasets_refuse_rows_that_are_not_there():
    """An index behind the padding, or a number of processes that cannot be, is an error."""
    with pytest.raises(IndexError, match="from 0 to 3, got 4"):
        PaddedDataset([1, 2, 3], 2)[4]
    assert list(PaddedDataset([1, 2, 3])) == [(1, True), (2, True), (3, True)]


def _histories(rows: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
    """Collate histories of different lengths, as a user's function does."""
    history, target = zip(*rows, strict=True)
    return pad_sequence(history, batch_first=True), torch.tensor(target)


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_padded_datasets_with_a_collate_fn(workers: int):
    """Each batch is that of the function for its rows, and which of them are real."""
    rows = [(torch.arange(1, n + 2), n) for n in range(5)]
    padded = PaddedDataset(rows, num_replicas=3)  # type: ignore[arg-type]
    collate = pickle.loads(pickle.dumps(padded.collate(_histories)))
    first, second = DataLoader(padded, 4, collate_fn=collate, num_workers=workers)
    assert [x.tolist() for x in first[0]] == [
        [[1, 0, 0, 0], [1, 2, 0, 0], [1, 2, 3, 0], [1, 2, 3, 4]],
        [0, 1, 2, 3],
    ]
    assert [x.tolist() for x in second[0]] == [[[1, 2, 3, 4, 5], [1, 0, 0, 0, 0]], [4, 0]]
    assert first[1].tolist() == [True] * 4
    assert second[1].tolist() == [True, False]


def _checked(loader: DataLoader[Any], **kwargs: Any) -> tuple[int, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        surplus = check_each_row_once(loader, **kwargs)
    return surplus, [str(warning.message) for warning in caught]


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("drop_rows", [False, True], ids=["", "sampler drops"])
@pytest.mark.parametrize("drop_batch", [False, True], ids=["", "loader drops"])
def test_surplus_is_what_the_loaders_read(padded: bool, drop_rows: bool, drop_batch: bool):
    """The number of repeated or missing rows is that of rows read; only process 0 warns of it."""
    for num_rows, num_replicas, batch_size in itertools.product((1, 3, 8, 21), (1, 2, 4), (1, 3)):
        rows: Any = PaddedDataset(range(num_rows), num_replicas) if padded else range(num_rows)
        read: Counter[int] = Counter()
        found = []
        for rank in range(num_replicas):
            sampler = DistributedSampler(
                rows, num_replicas, rank, shuffle=False, drop_last=drop_rows
            )
            loader = DataLoader(rows, batch_size, sampler=sampler, drop_last=drop_batch)
            read.update(index for batch in loader.batch_sampler for index in batch)
            found.append(_checked(loader))
        repeated, left_out = read.total() - len(read), len(rows) - len(read)
        assert {surplus for surplus, _ in found} == {repeated - left_out}
        assert 0 in (repeated, left_out)
        assert [len(messages) for _, messages in found[1:]] == [0] * (num_replicas - 1)
        assert len(found[0][1]) == (repeated + left_out > 0)
        for message in found[0][1]:
            assert f"{'adds' if repeated else 'leaves out'} {repeated or left_out} " in message


def test_the_warning_names_loader_rows_processes_and_remedy():
    """The whole warning, for repeated rows, for rows left out, and for a wrong `num_replicas`."""

    def message(rows: Any, drop_last: bool = False) -> str:
        sampler = DistributedSampler(rows, num_replicas=4, rank=0, drop_last=drop_last)
        _, (text,) = _checked(DataLoader(rows, sampler=sampler), name="Test loader 2")
        assert len(text) <= 300
        return text

    remedy = (
        "Wrap the dataset in `nextloc_metrics.distributed.PaddedDataset` and pass `mask=is_real` to"
        " the metrics."
    )
    assert message(range(6)) == (
        "Test loader 2: the sampler adds 2 repeated rows to 6 on 4 processes, and metrics count "
        f"repeated rows again. {remedy}"
    )
    assert message(range(6), drop_last=True) == (
        "Test loader 2: `drop_last=True` leaves out 2 of 6 rows. Use `drop_last=False`. " + remedy
    )
    assert message(PaddedDataset(range(5), num_replicas=2)).endswith(
        "`num_replicas` of PaddedDataset must be 4 or None."
    )


def test_loaders_without_a_distributed_sampler():
    """Without one, `drop_last=True` is found."""
    assert _checked(DataLoader(range(5), batch_size=2)) == (0, [])
    assert _checked(DataLoader(range(5), batch_size=2, shuffle=True)) == (0, [])
    assert _checked(DataLoader(range(5), sampler=SubsetRandomSampler([3, 1]))) == (0, [])
    assert _checked(DataLoader(range(5), batch_size=None)) == (0, [])
    assert _checked(DataLoader(range(5), batch_size=2, drop_last=True)) == (
        -1,
        ["The loader: `drop_last=True` leaves out 1 of 5 rows. Use `drop_last=False`."],
    )


class Endless(IterableDataset[int]):
    """Rows without a length."""

    def __iter__(self) -> Iterator[int]:
        """Return one row again and again."""
        return itertools.repeat(0)


def test_one_reader_of_a_stream() -> None:
    """It reads each row that the stream yields; two workers read each row twice."""
    assert _checked(DataLoader(Endless(), batch_size=2)) == (0, [])
    assert _checked(DataLoader(Endless(), batch_size=2, num_workers=1)) == (0, [])
    surplus, (message,) = _checked(DataLoader(Endless(), batch_size=2, num_workers=2))
    assert surplus is None
    assert "nothing says how many rows there are" in message


class Unsized(Dataset[int]):
    """Rows by number, and nobody knows how many."""

    def __getitem__(self, row: int) -> int:
        """Return a row."""
        return row


class Twice(Sampler[int]):
    """A sampler that reads the first row twice."""

    def __iter__(self) -> Iterator[int]:
        """Return the rows."""
        return iter([0, *range(5)])

    def __len__(self) -> int:
        """Return how many are read."""
        return 6


class Looped(DistributedSampler[int]):
    """As the Hugging Face Trainer's `DistributedSamplerWithLoop`: it fills the last batch."""

    def __iter__(self) -> Iterator[int]:
        """Return the rows of this process, and the first of them again."""
        found = list(super().__iter__())
        return iter(found + found[:2])


@pytest.mark.parametrize(
    ("loader", "names"),
    [
        (DataLoader(Endless(), batch_size=2, drop_last=True), "nothing says how many rows"),
        (DataLoader(Unsized()), "nothing says how many rows"),
        (DataLoader(range(5), sampler=Twice()), "DataLoader of BatchSampler of Twice"),
        (DataLoader(range(5), batch_sampler=[[0, 0], [1]]), "DataLoader of list of SequentialSamp"),
        (DataLoader(range(5), sampler=RandomSampler(range(5), replacement=True)), "RandomSampler"),
        (DataLoader(range(5), sampler=RandomSampler(range(5), num_samples=9)), "RandomSampler"),
        (
            DataLoader(range(5), sampler=WeightedRandomSampler([1.0] * 5, 5)),
            "WeightedRandomSampler",
        ),
        (DataLoader(range(5), sampler=Looped(range(5), 2, 0)), "BatchSampler of Looped"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_what_cannot_be_told_is_not_called_fine(loader: DataLoader[Any], names: str) -> None:
    """The answer is None, and the warning says why, and what to do."""
    surplus, (message,) = _checked(loader, name="Test loader")
    assert surplus is None
    assert message.startswith("Test loader: cannot tell if rows are repeated or left out: ")
    assert names in message
    assert message.endswith(
        "Compare the metrics' `num_queries`, summed over processes, with the number of rows."
    )


def test_rows_that_no_sampler_divides_are_not_called_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    """With torchrun alone every process reads all rows, unless its dataset has a part of them."""
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    loader = DataLoader(range(6), batch_size=2)
    for rank, number in ((0, 1), (1, 0)):
        monkeypatch.setattr(torch.distributed, "get_rank", lambda rank=rank: rank)
        surplus, messages = _checked(loader)
        assert (surplus, len(messages)) == (None, number)
        assert all("no sampler divides them over 2 processes" in message for message in messages)
    sampler: DistributedSampler[int] = DistributedSampler(range(6), shuffle=False)  # type: ignore[arg-type]
    assert _checked(DataLoader(range(6), batch_size=2, sampler=sampler)) == (0, [])
