"""What a process does: count its share of the files, on one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from multiprocessing import get_context
from typing import TypeVar

import torch

from nextloc_metrics.core.queries.messages import SHELL_MARK

Share = TypeVar("Share")
Found = TypeVar("Found")


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch use one thread, and then as many as before.

    A part of a table is counted in operations of some milliseconds. After each, several threads
    would spin until the last is done, which on a busy machine takes longer than the operation.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def divide(files: Sequence[str], workers: int) -> list[list[str]]:
    """Divide files into at most `workers` shares, each of files that follow each other."""
    number = min(workers, len(files))
    bounds = [len(files) * i // number for i in range(number + 1)]
    return [list(files[start:end]) for start, end in pairwise(bounds)]


def run(count: Callable[[Share], Found], shares: Sequence[Share], workers: int) -> list[Found]:
    """Return `count(share)` for each share, in this order, from at most `workers` processes."""
    afresh, number = get_context("spawn"), min(workers, len(shares))  # no thread survives a fork
    with ProcessPoolExecutor(number, afresh, _begin, (SHELL_MARK.get(),)) as pool:
        return list(pool.map(count, shares))


def _begin(mark: str) -> None:
    """Use one thread, and make messages for who reads those of the first process."""
    torch.set_num_threads(1)
    SHELL_MARK.set(mark)
