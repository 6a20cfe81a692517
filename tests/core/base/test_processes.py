"""Several processes give the same bits as one: real groups of processes over gloo, and threads."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

import distributed_workers as work
from distributed_workers import Share, assert_same
from nextloc_metrics import MRR, PerQueryScores, Ranking

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
