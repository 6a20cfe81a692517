"""Several processes give the same bits as one: real groups of processes over gloo, and threads."""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
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
from distributed_workers import Share, assert_same
from nextloc_metrics import MRR, PerQueryScores, Ranking
from nextloc_metrics.distributed import PaddedDataset, check_each_row_once, padding_mask

# How the rows are shared: a batch without rows is an update, a process without batches is never
# updated, and what ends with True is all masked.
SHARED: list[list[Share]] = [
    [[(0, 40), (40, 41), (41, 101)]],
    [[(0, 40), (40, 41)], [(41, 101)]],
    [[(0, 30)], [(30, 60, True)]],
    [[], [(0, 101)]],
    [[(0, 100)], [(100, 100)], [(100, 101)]],
    [[(0, 3), (3, 3), (3, 30)], [(30, 50, True)], []],
]


def _alone(shares: list[Share]) -> list[Share]:
    """What one process has that does the work of all."""
    return [[batch for share in shares for batch in share if True not in batch[2:]]]


@pytest.mark.slow  # starts processes
@pytest.mark.parametrize("shares", SHARED, ids=str)
def test_processes_equal_one(shares: list[Share]):
    """However the rows are shared, every process returns the bits that one process computes."""
    expected = work.evaluate(0, _alone(shares))
    assert len(expected) > 150
    for found in work.run(work.evaluate, len(shares), shares):
        assert_same(found, expected)


def test_threads_in_place_of_processes_equal_one(monkeypatch: pytest.MonkeyPatch):
    """The quick case: two threads, and a sum of theirs in place of gloo's."""
    meeting, given, ranks = threading.Barrier(2, timeout=60), {}, {}

    def gather(tensor: torch.Tensor) -> list[torch.Tensor]:
        given[ranks[threading.get_ident()]] = tensor.clone()
        meeting.wait()
        every = [given[0], given[1]]
        meeting.wait()
        return every

    def all_reduce(tensor: torch.Tensor, group: Any = None) -> None:
        tensor.copy_(sum(gather(tensor)))

    def all_gather(tensors: list[torch.Tensor], tensor: torch.Tensor, group: Any = None) -> None:
        for own, other in zip(tensors, gather(tensor), strict=True):
            own.copy_(other)

    def evaluate(rank: int) -> dict[str, Any]:
        ranks[threading.get_ident()] = rank
        return work.evaluate(rank, SHARED[1], is_quick=True)

    distributed = torch.distributed
    monkeypatch.setattr(distributed, "all_reduce", all_reduce)
    monkeypatch.setattr(distributed, "all_gather", all_gather)
    monkeypatch.setattr(distributed, "barrier", lambda group=None: None)
    monkeypatch.setattr(distributed, "get_world_size", lambda group=None: 2)
    monkeypatch.setattr(distributed, "get_rank", lambda group=None: ranks[threading.get_ident()])
    monkeypatch.setattr(distributed, "is_initialized", lambda: True)
    shares = SHARED[1]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(evaluate, (0, 1)))
    monkeypatch.undo()
    for values in found:
        assert_same(values, work.evaluate(0, _alone(shares), is_quick=True))


# Rows of the second process that the first has too, as where a sampler repeats them.
@pytest.mark.slow  # starts processes
@pytest.mark.parametrize(
    "shares",
    [
        [[(0, 40), (40, 50)], [(45, 101), (0, 3)]],
        [[], [(0, 101)]],
        [[(0, 101)], [(0, 101, True)]],
    ],
    ids=["repeats", "never/101", "101/masked"],
)
def test_scores_of_all_processes_are_kept_once(shares: list[Share]):
    """Ids and scores of all processes, each once; two scores of one id are an error on both."""
    alone = PerQueryScores(MRR())
    batch = work.rows(0, work.ROWS)
    del batch["groups"]
    alone.update(**batch, query_ids=torch.arange(work.ROWS))
    assert 80 < alone.num_queries < work.ROWS
    for found in work.run(work.keep_scores, 2, shares):
        assert_same(found, tuple(alone.compute()))


@pytest.mark.slow  # starts processes
@pytest.mark.parametrize(
    ("check", "num_processes"),
    [
        (work.count_collectives, 2),
        (work.count_text_by_key, 2),
        (work.count_text_by_key, 3),
        (work.count_collectives_of_large_states, 2),
        (work.count_all_rows, 2),
        (work.keep_meaning, 2),
        (work.use_process_groups, 3),
        (work.update_different_members, 2),
        (work.sum_second_states, 2),
        (work.rank_slices_in_a_group, 3),
        (work.rank_slices_that_do_not_fit, 2),
    ],
)
def test_rules_hold_in_each_process(check: Callable[[int], None], num_processes: int) -> None:
    """What the check says is asserted in the processes; an error there is an error here."""
    work.run(check, num_processes)


@pytest.mark.slow  # starts processes
def test_a_process_that_dies_leaves_an_error():
    """Where a process ends in the middle, the others raise, and never return a wrong number."""
    first, died = work.run(work.die_in_the_middle, 2, may_die=True)
    assert died is None
    for error in first.values():
        assert any(word in error.lower() for word in ("timed out", "timeout", "connection")), error


# Sharded candidates -------------------------------------------------------------------------------


@pytest.mark.slow  # starts processes
@pytest.mark.parametrize(
    "widths", [pytest.param(x, id="+".join(map(str, x))) for y in work.SLICES.values() for x in y]
)
def test_slices_of_the_candidates_rank_as_all(widths: list[int]):
    """Every process computes the ranks among all candidates, and each row counts once."""
    found = work.run(work.rank_slices, len(widths), widths)
    for name, batch in work.sharded_batches().items():
        scores, target = batch.pop("scores"), batch.pop("target")
        for top in work.TOPS:
            whole = Ranking.from_scores(scores, target, **batch, top=top)
            for process in found:
                found_here = process[f"{name}, top={top}"]
                if len(whole):
                    assert_same(found_here, work.parts(whole))
                else:  # without rows, the number of candidates is not sent
                    assert_same(found_here["above"], whole.above)
        if f"{name}, values" in found[0]:
            metrics = work.sharded_metrics()
            metrics.update(scores, target, batch.get("mask"))
            for process in found:
                assert_same(process[f"{name}, values"], metrics.compute())
    for wrong in work.WRONG_IDS:
        (message,) = {process[f"error {wrong}"] for process in found}
        assert f"got {wrong}" in message


def test_slices_of_one_process():
    """Without a process group one slice is all there is, and the same as scores."""
    batch = work.rows(0, 40)
    sharded = Ranking.from_sharded_scores(batch["preds"], batch["target"], 0, top=3)
    whole = Ranking.from_scores(batch["preds"], batch["target"], top=3)
    assert_same(work.parts(sharded), work.parts(whole))


@pytest.mark.parametrize("target", [torch.ones(2, 3), torch.ones(2, 3).bool(), [0.5, 1.5]])
def test_slices_take_ids_only(target: Any):
    """Relevance by column, of which a process has a part, is refused by name."""
    with pytest.raises(TypeError, match=r"`target` must be an integer tensor of ids, got"):
        Ranking.from_sharded_scores(torch.zeros(2, 3), target, 0)
    with pytest.raises(TypeError, match=r"`local_scores` must be a floating tensor of scores"):
        Ranking.from_sharded_scores(torch.zeros(2, 3).int(), torch.tensor([0, 1]), 0)


def test_rows_of_a_ranking():
    """Slices, masks and ids of rows keep those queries; what is not there is an error."""
    batch = work.rows(0, 6)
    ranking = Ranking.from_scores(batch["preds"], batch["target"], batch["mask"], top=3)
    for rows in (slice(1, None, 2), torch.tensor([1, 3, 5]), torch.arange(6) % 2 == 1):
        kept = Ranking.from_scores(
            *(batch[key][1::2] for key in ("preds", "target", "mask")), top=3
        )
        assert_same(work.parts(ranking[rows]), work.parts(kept))
    assert len(ranking[2]) == len(ranking[-1]) == 1
    assert torch.equal(ranking[-1].above, ranking[5].above)
    assert len(ranking[:0]) == 0
    for row in (6, -7):
        with pytest.raises(IndexError):
            ranking[row]
    assert sum(len(row) for row in itertools.islice(iter(ranking), 100)) == 6


# Rows counted once --------------------------------------------------------------------------------


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


# The example --------------------------------------------------------------------------------------


@pytest.mark.extra
def test_the_example_says_the_same_under_torchrun(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`torchrun --nproc-per-node 2` prints what one process prints, to the last digit.

    Starting Python three times takes most of it.
    """
    import ddp_evaluation

    ddp_evaluation.main()
    alone = capsys.readouterr().out
    assert [line.split()[0] for line in alone.splitlines()] == [
        *("acc_at_1", "acc_at_5", "acc_at_10", "mrr", "ndcg_at_10", "f1")
    ]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    together = subprocess.run(
        [*torchrun, "--nproc-per-node", "2", ddp_evaluation.__file__],
        env={**os.environ, **work.LOOPBACK},
        capture_output=True,
        encoding="utf-8",
        timeout=600,
    )
    assert together.stdout == alone, together.stderr


# Forks --------------------------------------------------------------------------------------------

FORKED = """
import os, torch
from nextloc_metrics import MRR, backends

torch.set_num_threads(2)
scores = torch.randn(256, 4000, generator=torch.Generator().manual_seed(0))
target = torch.arange(256)

def value():
    return float(MRR()(scores, target))

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 1
    def __getitem__(self, row):
        return value()

options = {"num_workers": 1, "multiprocessing_context": "fork", "timeout": 20}
for backend in ("reference", "cpu"):
    if backends.available()[backend]:
        continue
    backends.use(backend)
    expected = value()  # on two threads
    (scores * 2).sum()
    (of_worker,) = torch.utils.data.DataLoader(Rows(), **options)
    assert float(of_worker) == expected, backend
    child = os.fork()
    if not child:
        torch.set_num_threads(1)
        os._exit(0 if value() == expected else 1)
    assert os.waitpid(child, 0)[1] == 0, backend
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_fork_of_a_process_with_threads_evaluates_on_one():
    """The workers of a loader do so by themselves.

    Takes some seconds: a new Python imports torch, and forks four times.
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED],
        env={**os.environ, "OMP_NUM_THREADS": "2"},
        capture_output=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
