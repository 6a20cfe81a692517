"""accelerate's users: what its loaders repeat, and the ways that count each row once."""

from __future__ import annotations

import doctest
import itertools
import json
import os
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    SequentialSampler,
    TensorDataset,
)

import distributed_workers as work
from nextloc_metrics import next_location_metrics
from nextloc_metrics.distributed import check_each_row_once

accelerate = pytest.importorskip("accelerate", reason="the loaders are those of accelerate")


def surplus(loader: Any) -> int | None:
    """What the check returns, without its warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return check_each_row_once(loader)


@pytest.mark.parametrize("split", [False, True], ids=["", "split"])
@pytest.mark.parametrize("even", [False, True], ids=["uneven", ""])
@pytest.mark.parametrize("drop", [False, True], ids=["", "drop last"])
def test_surplus_is_what_the_loaders_read(split: bool, even: bool, drop: bool) -> None:
    """The number of repeated or missing rows is that of the rows that all processes read."""
    from accelerate.data_loader import BatchSamplerShard

    for rows, processes, size in itertools.product((1, 7, 8, 21, 101), (2, 4), (4, 8)):
        read: Counter[int] = Counter()
        found = set()
        for rank in range(processes):
            batches = BatchSampler(SequentialSampler(range(rows)), size, drop)
            shard = BatchSamplerShard(batches, processes, rank, split, even)
            read.update(row for batch in shard for row in batch)
            found.add(surplus(DataLoader(range(rows), batch_sampler=shard)))
        assert found == {read.total() - rows}, (rows, processes, size)


def test_rows_that_are_divided_twice_are_not_called_fine() -> None:
    """A DistributedSampler within a loader that accelerate divides reads a part of a part."""
    from accelerate.data_loader import BatchSamplerShard

    sampler: Any = DistributedSampler(range(8), 2, 0)  # type: ignore[arg-type]
    shard = BatchSamplerShard(BatchSampler(sampler, 2, False), 2, 0)
    assert surplus(DataLoader(range(8), batch_sampler=shard)) is None


def test_the_page_evaluates_each_row_once(repository: Path) -> None:
    """The two functions of the page, on one process."""
    page = (repository / "docs" / "distributed.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {"next_location_metrics": next_location_metrics}
    for example in doctest.DocTestParser().get_examples(page):
        if example.source.startswith("def evaluate"):
            exec(example.source, names)
    rows = TensorDataset(torch.arange(21) % 10, torch.arange(21))
    model = torch.nn.Embedding(10, 50)
    expected = next_location_metrics(50)(model(rows.tensors[0]), rows.tensors[1])
    for name in ("evaluate", "evaluate_gathered"):
        found = names[name](model, DataLoader(rows, batch_size=4))
        assert found == expected, name


@pytest.mark.slow  # starts two processes
def test_each_way_of_accelerate(repository: Path) -> None:
    """`even_batches=False`, and gathering without the metric's own sum, count each row once."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", "2", str(Path(__file__).with_name("accelerate_evaluation.py"))),
        ],
        env={**os.environ, **work.LOOPBACK, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        encoding="utf-8",
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    right = found.pop("alone")["value"]
    for way in ("uneven", "uneven, split", "gathered"):
        assert (found[way]["value"], found[way]["counted"]) == (right, 101), way
    # what the page warns of: repeated rows, padding that a loader repeats, and rows gathered twice
    counted = {way: one["counted"] for way, one in found.items()}
    assert counted["plain"] == counted["shuffled"] == 128
    assert (counted["padded"], counted["gathered twice"], counted["dispatched"]) == (127, 202, 102)
    for way, one in found.items():
        unknown = way == "dispatched"
        assert one["surplus"] == (None if unknown else one["repeated"]), way
        assert len(one["messages"]) == (one["repeated"] > 0), way
        assert all("even_batches=False" in text or unknown for text in one["messages"]), way
