"""Running a task on several threads at once, on PyTorch's own where that is possible.

PyTorch's threads keep their cores busy while they wait for work; others would have to share the
cores with them. Its operations, called from a task on its threads, run on the calling one alone.
"""

import ctypes
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch

#: more threads than these would wait for Python's lock
MOST_IN_PYTHON = 8

Part = TypeVar("Part")
Made = TypeVar("Made")

_Task = ctypes.CFUNCTYPE(None, ctypes.py_object)


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
_perform = _Task(lambda task: task())
_address_of_perform = ctypes.cast(_perform, ctypes.c_void_p).value

# Threads with a task. To Python OpenMP's are new each time, so a `threading.local` would not last.
_busy: set[int] = set()


def are_of_torch() -> bool:
    """Tell whether tasks run on PyTorch's own threads."""
    return _openmp is not None


def available() -> int:
    """Tell on how many threads a task can run from here: as many as PyTorch is allowed.

    Inside a task these are taken.
    """
    return 1 if threading.get_ident() in _busy else torch.get_num_threads()


def run(task: Callable[[], None], threads: int) -> None:
    """Run a task on so many threads, and raise what it raises on any of them."""
    if threads == 1:
        task()
        return
    errors: list[BaseException] = []

    def attempt() -> None:
        _busy.add(threading.get_ident())
        try:
            task()
        except BaseException as error:  # neither OpenMP nor C could pass it on
            errors.append(error)
        finally:
            _busy.discard(threading.get_ident())

    if _openmp is not None:
        _openmp(_address_of_perform, id(attempt), threads, 0)
    else:
        others = [_workers(threads - 1).submit(attempt) for _ in range(threads - 1)]
        attempt()
        for other in others:
            other.result()
    if errors:
        raise errors[0]


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
    """Run a task of C, given an address, on so many threads; none of them waits for Python.

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
