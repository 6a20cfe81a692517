"""Measure the time and peak memory of ranking on a CUDA device, and one read of the scores.

python benchmarks/cuda_device.py [--json results.json] [--seconds 3]

Every table is one interleaved run; a ratio is the median over rounds of a contestant's time over
the first one's in the same round. The device is waited for before and after each: the times of
small sizes are those of starting operations, which a captured graph does at once.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from harness import Contestants, report, write
from torch import Tensor

from nextloc_metrics import Ranking, backends, next_location_metrics, recommendation_metrics
from nextloc_metrics.core.ranking import counting

Run = Callable[[], object]


def waited_for(run: Run) -> Run:
    """Run, and synchronise with the device."""

    def finish() -> None:
        run()
        torch.cuda.synchronize()

    return finish


def without_triton(run: Run) -> Run:
    """Run on the reference backend, in PyTorch operations."""

    def plain() -> None:
        kept = list(backends._chosen)
        backends.use("reference")
        try:
            run()
        finally:
            backends._chosen[:] = kept

    return plain


def captured(run: Run) -> Run:
    """Capture a run in a CUDA graph, after runs that compile kernels and copy tables."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def peak_memory(run: Run, scores: Tensor) -> float:
    """Return the peak memory that a run allocates, as a share of the scores."""
    run()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / scores.nbytes


def contestants(scores: Tensor, target: Tensor) -> tuple[Contestants, Run]:
    """Return the contestants (a read, rankings, updates on both backends), and the update."""
    several = target.ndim == 2
    metrics: Any = (
        recommendation_metrics(k=10, validate_args=False)
        if several
        else (next_location_metrics(scores.shape[1], validate_args=False))
    )
    metrics.to("cuda")

    def rank() -> object:
        return Ranking.from_scores(scores, target, validate_args=False, top=0 if several else 1)

    def update() -> None:
        metrics.update(scores, target)

    runs: dict[str, Run] = {
        "one read of the scores (amax)": lambda: scores.amax(1),
        "one read of the scores (sum)": lambda: scores.sum(1, dtype=torch.float32),
        "Ranking, PyTorch's operations": without_triton(rank),
        "update, PyTorch's operations": without_triton(update),
    }
    if backends.available()["cuda"] is None:
        own = scores.gather(1, target if several else target[:, None])
        runs["the counts alone, Triton kernel"] = lambda: counting.survey(scores, own, not several)
        runs["Ranking, Triton kernel"] = rank
        runs["update, Triton kernel"] = update
        runs["Ranking, Triton kernel, captured graph"] = captured(rank)
    return {name: waited_for(run) for name, run in runs.items()}, update


def main() -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--seconds", type=float, default=3.0, help="of every table")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("No CUDA device found; nothing is measured.")
        return
    device = torch.cuda.get_device_name()
    print(device, "torch", torch.__version__, "CUDA", torch.version.cuda)
    results = []
    for dtype in (torch.float32, torch.bfloat16):
        for rows in (256, 1024):
            for columns in (1_187, 10_000, 100_000):
                for relevant in (1, 10):
                    torch.manual_seed(0)
                    scores = torch.randn(rows, columns, device="cuda").to(dtype)
                    shape = (rows,) if relevant == 1 else (rows, relevant)
                    target = torch.randint(columns, shape, device="cuda")
                    racers, update = contestants(scores, target)
                    name = str(dtype).removeprefix("torch.")
                    title = f"{rows} x {columns:,}, {name}, {relevant} relevant"
                    table = report(title, racers, options.seconds)
                    share = peak_memory(update, scores)
                    print(f"peak memory of the update: {100 * share:.2f} % of the scores")
                    results.append(table | {"device": device, "peak_memory_share": share})
    write(options.json, {"cuda": results})


if __name__ == "__main__":
    main()
