"""Processes that share the files of a table; each counts on one thread."""

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
Result = TypeVar("Result")


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch use one thread within the context.

    Rows of a table are counted in operations of some milliseconds. With several threads, all wait
    for the last one after each operation; on a busy machine this takes longer than the operation.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def divide(files: Sequence[str], workers: int) -> list[list[str]]:
    """Divide files into at most `workers` shares of consecutive files."""
    number = min(workers, len(files))
    bounds = [len(files) * i // number for i in range(number + 1)]
    return [list(files[start:end]) for start, end in pairwise(bounds)]


def run(count: Callable[[Share], Result], shares: Sequence[Share], workers: int) -> list[Result]:
    """Return `count(share)` for each share, in this order, from at most `workers` processes."""
    spawn, number = get_context("spawn"), min(workers, len(shares))  # a fork would lose threads
    with ProcessPoolExecutor(number, spawn, _begin, (SHELL_MARK.get(),)) as pool:
        return list(pool.map(count, shares))


def _begin(mark: str) -> None:
    """Use one thread, and the same mark in messages as the first process."""
    torch.set_num_threads(1)
    SHELL_MARK.set(mark)
