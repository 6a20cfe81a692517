"""Running a task on several threads at once.

Tasks of Python run on threads of Python, and what they raise is raised. Tasks of C run on PyTorch's
own threads where that is possible: these keep their cores busy while they wait for work, and others
would have to share the cores with them.
"""

import ctypes
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import torch

#: more threads than these would wait for Python's lock
MOST_IN_PYTHON = 8


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
    errors: list[BaseException] = []

    def attempt() -> None:
        _this_thread.is_busy = True
        try:
            task()
        except BaseException as error:
            errors.append(error)
        finally:
            _this_thread.is_busy = False

    waiting = [_workers.submit(attempt) for _ in range(threads - 1)]
    attempt()
    for done in waiting:
        done.acquire()
    if errors:
        raise errors[0]


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


class _Workers:
    """Threads that wait for work.

    Unlike an executor's, no lock of theirs is held while Python code runs: wherever an interrupt
    hits the calling thread, the next task finds them ready.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start anew in a forked child, which has none of the threads."""
        self._number = 0
        self._queue: SimpleQueue[tuple[Callable[[], None], threading.Lock]] = SimpleQueue()

    def submit(self, task: Callable[[], None]) -> threading.Lock:
        """Have a task done that raises nothing; return a lock that is released at its end."""
        while self._number < MOST_IN_PYTHON - 1:
            threading.Thread(target=self._work, name="nextloc_metrics", daemon=True).start()
            self._number += 1
        done = threading.Lock()
        done.acquire()
        self._queue.put((task, done))
        return done

    def _work(self) -> None:
        while True:
            task, done = self._queue.get()
            task()
            done.release()
            del task, done  # and all that they hold


_workers = _Workers()
if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_workers.forget)
