"""Files that processes share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from typing import TypeVar

Share = TypeVar("Share")
Found = TypeVar("Found")


def divide(files: Sequence[str], workers: int) -> list[list[str]]:
    """Divide files into at most `workers` shares, each of files that follow each other."""
    number = min(workers, len(files))
    bounds = [len(files) * i // number for i in range(number + 1)]
    return [list(files[start:end]) for start, end in pairwise(bounds)]


def run(count: Callable[[Share], Found], shares: Sequence[Share], workers: int) -> list[Found]:
    """Return `count(share)` for each share, in this order, from at most `workers` processes."""
    number = min(workers, len(shares))
    if number < 2:
        return list(map(count, shares))
    with _start(number) as pool:
        return list(pool.map(count, shares))


def _start(number: int) -> Executor:
    """Start processes afresh: threads do not survive a fork."""
    return ProcessPoolExecutor(number, mp_context=get_context("spawn"))
