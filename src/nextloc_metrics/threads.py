"""Running a task on several threads at once.

Tasks of Python run on a thread pool, which passes on what they raise. Tasks of C run on PyTorch's
own threads where that is possible: these keep their cores busy while they wait for work, and others
would have to share the cores with them.
"""

import ctypes
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeVar

import torch

#: more threads than these would wait for Python's lock
MOST_IN_PYTHON = 8

Part = TypeVar("Part")
Made = TypeVar("Made")


def _find_openmp() -> Callable[..., None] | None:
    """Find the entry to OpenMP as GCC calls it, in the library that PyTorch has loaded."""
    try:
        parallel = ctypes.CDLL(None).GOMP_parallel
    except (AttributeError, OSError, TypeError):  # other compilers' OpenMP; Windows
        return None
    parallel.argtypes = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint
    parallel.restype = None
    return parallel


_openmp = _find_openmp()
_this_thread = threading.local()


def available() -> int:
    """Return on how many threads a task may run: as many as PyTorch may use, and 1 in a task."""
    return 1 if getattr(_this_thread, "is_busy", False) else torch.get_num_threads()


def run(task: Callable[[], None], threads: int) -> None:
    """Run a task on this number of threads, and raise what it raises on any of them."""
    if threads == 1:
        task()
        return

    def run_marked() -> None:
        _this_thread.is_busy = True
        try:
            task()
        finally:
            _this_thread.is_busy = False

    others = [_workers(threads - 1).submit(run_marked) for _ in range(threads - 1)]
    try:
        run_marked()
    finally:
        wait(others)
    for other in others:
        other.result()


def map_parts(function: Callable[[Part], Made], parts: Sequence[Part]) -> list[Made]:
    """Call a function with every part, on several threads, and return what it returned."""
    made: dict[int, Made] = {}
    untaken = iter(range(len(parts)))

    def take_parts() -> None:
        for number in untaken:
            made[number] = function(parts[number])

    run(take_parts, max(1, min(available(), MOST_IN_PYTHON, len(parts))))
    return [made[number] for number in range(len(parts))]


def run_compiled(task: Any, argument: int, threads: int) -> None:
    """Run a task of C, given an address, on this number of threads; none of them enters Python.

    Args:
        task: what `numba.cfunc` made of a function; nobody is told what it raises.
        argument: the address.
        threads: how many.
    """
    if threads == 1:
        task.ctypes(argument)
    elif _openmp is not None:
        _openmp(task.address, argument, threads, 0)
    else:
        run(lambda: task.ctypes(argument), threads)


_pools: dict[int, ThreadPoolExecutor] = {}
if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_pools.clear)  # threads do not survive one


def _workers(threads: int) -> ThreadPoolExecutor:
    if threads not in _pools:
        _pools[threads] = ThreadPoolExecutor(threads, thread_name_prefix="nextloc_metrics")
    return _pools[threads]
