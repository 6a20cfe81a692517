"""Measure the time to rank a million candidates, and that of the chunked matrix product alone.

python benchmarks/embeddings.py [--seconds 20] [--candidates 1000000] [--json embeddings.json]
"""

import argparse
from functools import partial
from pathlib import Path

import torch
from harness import (
    Contestants,
    Result,
    both_backends,
    in_new_process,
    machine,
    report,
    write,
)
from memory import MEASURE
from torch import Tensor

from nextloc_metrics import Ranking
from nextloc_metrics.core.ranking.scores_in_parts import _ALIGNMENT

QUERIES, DIMENSIONS = 256, 64
CHUNK_SIZE = 4096  # the fastest for the product alone
PRODUCT = "the chunked matrix product alone"

_PEAK = (
    MEASURE
    + """
queries, table = torch.randn(256, 64), torch.randn(int(sys.argv[1]), 64)
target = torch.randint(len(table), (256,))
nextloc_metrics.core.backends.use(sys.argv[2])
Ranking.from_embeddings(queries, table[:512], target % 512, chunk_size=256)
print(json.dumps(peak(lambda: Ranking.from_embeddings(queries, table, target))))
"""
)


def product(queries: Tensor, table: Tensor) -> None:
    """Multiply in chunks, into one buffer whose row stride is not a power of two."""
    buffer = torch.empty(len(queries), CHUNK_SIZE + _ALIGNMENT)
    for start in range(0, len(table), CHUNK_SIZE):
        rows = table[start : start + CHUNK_SIZE]
        torch.mm(queries, rows.T, out=buffer[:, : len(rows)])


def measure(seconds: float, candidates: int = 1_000_000) -> list[Result]:
    """Print the times and the peaks, and return them."""
    torch.manual_seed(0)
    queries, table = torch.randn(QUERIES, DIMENSIONS), torch.randn(candidates, DIMENSIONS)
    target = torch.randint(candidates, (QUERIES,))

    rank = partial(Ranking.from_embeddings, queries, table, target)
    contestants: Contestants = {PRODUCT: lambda: product(queries, table)}
    contestants |= both_backends(lambda: rank)
    contestants |= both_backends(lambda: partial(rank, top=1), ", and the best candidate")
    title = f"{QUERIES} queries, {candidates:,} candidates of {DIMENSIONS} dimensions"
    result = report(title, contestants, seconds, "embeddings")
    if Path("/proc/self/clear_refs").exists():
        scores = 4 * QUERIES * candidates
        result["peak_bytes"] = {}
        for backend in ("cpu", "reference"):
            peak = in_new_process(_PEAK, candidates, backend)
            result["peak_bytes"][backend] = peak
            print(
                f"peak extra memory, {backend}: {peak / 1e6:.1f} MB; "
                f"all scores: {scores / 1e6:,.0f} MB"
            )
    return [result]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--candidates", type=int, default=1_000_000)
    options = parser.parse_args()
    print(machine())
    write(options.json, {"embeddings": measure(options.seconds, options.candidates)})


if __name__ == "__main__":
    main()
