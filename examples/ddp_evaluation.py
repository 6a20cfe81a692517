"""Evaluate on several processes with torch.distributed alone: the same numbers as on one.

    python ddp_evaluation.py
    torchrun --nproc-per-node 2 ddp_evaluation.py

On several hosts, run this on each of them, with its own number as --node-rank:

    torchrun --nnodes 2 --nproc-per-node 2 --node-rank 0 \
        --master-addr ADDRESS_OF_HOST_0 --master-port 29500 ddp_evaluation.py

If the processes cannot connect, name the network interface between the hosts:
`GLOO_SOCKET_IFNAME=eth0` for CPUs, `NCCL_SOCKET_IFNAME=eth0` for GPUs.

The scores are seeded random numbers instead of a model's. The number of rows is no multiple of 2, 3
or 4, and every row still counts once on 2, 3 or 4 processes.
"""

from __future__ import annotations

import os

import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from nextloc_metrics import next_location_metrics
from nextloc_metrics.distributed import PaddedDataset

NUM_ROWS, NUM_USERS, NUM_LOCATIONS = 10_007, 50, 200


def main() -> None:
    """Evaluate the rows of this process; the first process prints the values of all rows."""
    distributed = "RANK" in os.environ  # set by torchrun
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(device)
    if distributed:
        torch.distributed.init_process_group()  # gloo for CPUs, nccl for GPUs

    draw = torch.Generator().manual_seed(0)  # every process draws the same
    users = torch.randint(NUM_USERS, (NUM_ROWS,), generator=draw)
    visits = torch.randint(NUM_LOCATIONS, (NUM_ROWS,), generator=draw)
    # integers from 0 to 9, so that many candidates are tied
    scores = torch.randint(10, (NUM_USERS, NUM_LOCATIONS), generator=draw).float().to(device)

    rows = PaddedDataset(TensorDataset(users, visits))  # (row, is_real)
    sampler = DistributedSampler(rows, shuffle=False) if distributed else None
    metrics = next_location_metrics(NUM_LOCATIONS).to(device)
    for (user, visit), is_real in DataLoader(rows, batch_size=256, sampler=sampler):
        metrics.update(scores[user.to(device)], visit.to(device), mask=is_real.to(device))

    values = metrics.compute()  # call it on every process; it sums the counts of all processes
    if not distributed or torch.distributed.get_rank() == 0:
        for name, value in values.items():
            print(f"{name:10} {value:.7f}")
    if distributed:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
