"""Evaluate 101 rows on two processes as accelerate's users do; process 0 prints what was counted.

`torchrun --nproc-per-node 2 accelerate_evaluation.py`
"""

from __future__ import annotations

import json
import warnings
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from nextloc_metrics import MRR
from nextloc_metrics.distributed import PaddedDataset, check_each_row_once

ROWS, LOCATIONS, BATCH = 101, 7, 16


def rows() -> TensorDataset:
    """Scores and targets."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(ROWS, LOCATIONS, generator=generator)
    return TensorDataset(scores, torch.randint(LOCATIONS, (ROWS,), generator=generator))


def counted(accelerator: Any, metric: MRR) -> int:
    """The queries of all processes, as its intervals take them."""
    if not metric.sync_on_compute:
        return metric.num_queries
    return int(accelerator.reduce(torch.tensor(metric.num_queries)))


def evaluate(way: str, **options: Any) -> dict[str, Any]:
    """Return value, number of queries, what is read, and what the check says."""
    from accelerate import Accelerator, DataLoaderConfiguration  # may be missing

    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(**options))
    torch.manual_seed(0)
    is_padded = way == "padded"
    data = PaddedDataset(rows()) if is_padded else rows()
    loader = accelerator.prepare_data_loader(
        DataLoader(data, batch_size=BATCH, shuffle=way == "shuffled")
    )
    metric = MRR(sync_on_compute=way != "gathered")
    read = 0
    for batch in loader:
        (scores, target), mask = batch if is_padded else (batch, None)
        read += len(target)
        if way.startswith("gathered"):
            scores, target = accelerator.gather_for_metrics((scores, target))
        metric.update(scores, target, mask=mask)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        surplus = check_each_row_once(loader)
    return {
        "value": float(metric.compute()),
        "counted": counted(accelerator, metric),
        "repeated": int(accelerator.reduce(torch.tensor(read))) - len(data),
        "surplus": surplus,
        "messages": [str(one.message) for one in caught],
    }


def main() -> None:
    """Print all ways as JSON."""
    found = {
        "plain": evaluate("plain"),
        "shuffled": evaluate("shuffled"),
        "split": evaluate("plain", split_batches=True),
        "padded": evaluate("padded"),
        "gathered twice": evaluate("gathered twice"),
        "gathered": evaluate("gathered"),
        "uneven": evaluate("plain", even_batches=False),
        "uneven, split": evaluate("plain", even_batches=False, split_batches=True),
        "dispatched": evaluate("plain", dispatch_batches=True),
    }
    alone = MRR(sync_on_compute=False)
    alone.update(*rows().tensors)
    if torch.distributed.get_rank() == 0:
        print(json.dumps({**found, "alone": {"value": float(alone.compute())}}))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
