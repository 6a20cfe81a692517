"""The backend in C for the CPU: `kernels.c`, called through ctypes."""

import ctypes
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.backends.reference import Bins, Reference
from nextloc_metrics.core.queries.arrays import must_not_sync

#: built on installation if there is a compiler
LIBRARY = Path(__file__).with_name("_kernels.so")

# Up to this many relevant locations, one pass per location is faster than a binary search.
_MOST_RELEVANT = 1 << 9

# Equal to the constant in `kernels.c`. Beyond, PyTorch's `topk` is faster.
_MOST_FIRST = 1 << 7

# Below this many scores or comparisons, one thread is faster than several.
_SERIAL_ELEMENTS = 1 << 17

# Equal to the constants in `kernels.c` and `lists.h`.
_MOST_FORMULAS = 64
_LONGEST, _WIDEST = 4096, 64
_MISPLACED = 1

#: the bits of infinity as an integer
_INFINITY = {
    torch.float64: 0x7FF << 52,
    torch.float32: 0xFF << 23,
    torch.bfloat16: 0xFF << 7,
    torch.float16: 0x1F << 10,
}

#: the integers of the width of a score
_KEYS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def _structure(name: str, members: str) -> type[ctypes.Structure]:
    """Declare a structure of `kernels.c`, whose members are int64 or 64-bit addresses."""
    fields = [(member, ctypes.c_int64) for member in members.split()]
    return type(name, (ctypes.Structure,), {"_fields_": fields})


_SCORES = "start rows columns stride infinity"

#: the structure that each function of `kernels.c` reads
_STRUCTURES = {
    "survey": _structure("Survey", f"{_SCORES} own width above tied best"),
    "top": _structure("Top", f"{_SCORES} number ids"),
    "bins": _structure(
        "Bins", f"{_SCORES} own of_columns of_rows most candidates above tied lengths"
    ),
    "find": _structure("Find", "lists ids length width found"),
    "repeats": _structure("Repeats", "lists length repeats"),
    "tally": _structure(
        "Tally",
        f"{_SCORES} targets ignores ignored formulas num_formulas table sums num_locations "
        "decisions",
    ),
    "tally_lists": _structure(
        "TallyLists",
        "lists ids length width formulas num_formulas table divisors sums num_locations decisions "
        "misplaced",
    ),
}
_Formula = np.dtype([("start", np.int64), ("last", np.int64), ("divisor", np.float64)])


class Cpu(Reference):
    """The backend in C; sorting and searching of integers use NumPy."""

    name = "cpu"
    tallies_scores = True
    is_proven = False

    def __init__(self) -> None:
        self._functions: dict[str, Any] = {}  # loaded at the first call, which may fail
        self._parallel = _find_openmp()
        if hasattr(os, "register_at_fork"):  # Windows has no forks
            os.register_at_fork(after_in_child=self._use_one_thread)

    def _use_one_thread(self) -> None:
        """Use one thread in a forked child: OpenMP's threads do not survive a fork."""
        self._parallel = None

    def unable(self, values: Tensor) -> str | None:
        if must_not_sync(values) or not values.data_ptr():  # it has no memory, or none to be read
            return "C code reads CPU memory only"
        return None

    def survey(
        self, scores: Tensor, own: Tensor, find_best: bool
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        if own.shape[1] > _MOST_RELEVANT:
            return super().survey(scores, own, find_best)
        above, tied = _integers(*own.shape), _integers(*own.shape)
        best = _integers(len(scores)) if find_best else None
        self._of_scores("survey", scores, own.contiguous(), own.shape[1], above, tied, best)
        return above, tied, best

    def first(self, scores: Tensor, number: int) -> tuple[Tensor, Tensor]:
        number = min(number, scores.shape[1])
        if number > _MOST_FIRST:
            return super().first(scores, number)
        ids = _integers(len(scores), number)
        self._of_scores("top", scores, number, ids)
        return scores.gather(1, ids), ids

    def survey_bins(
        self, scores: Tensor, own: Tensor, bins: Bins, candidates: int, most: int = 0
    ) -> tuple[Tensor, Tensor, Tensor]:
        kind = _KEYS[scores.element_size()]
        is_wide = most > _MOST_FIRST or not scores.numel()
        if is_wide or int(bins[0].amax()) > torch.iinfo(kind).max:
            return super().survey_bins(scores, own, bins, candidates, most)
        above, tied, lengths = (_integers(len(scores)) for _ in range(3))
        kept = own.contiguous(), bins[0].to(kind).contiguous(), bins[1].contiguous()
        self._of_scores("bins", scores, *kept, most, candidates, above, tied, lengths)
        return above, tied, lengths

    def find(self, lists: Tensor, ids: Tensor) -> Tensor:
        lists, ids = _dense(lists), _dense(ids)
        positions = torch.empty_like(ids)
        (rows, length), width = lists.shape, ids.shape[1]
        self._call("find", rows, rows * length * width, lists, ids, length, width, positions)
        return positions

    def may_repeat(self, lists: Tensor) -> bool:
        lists, length = _dense(lists), lists.shape[1]
        return bool(
            self._call("repeats", len(lists), lists.numel(), lists, length, 0) == _MISPLACED
        )

    def tally_scores(
        self,
        scores: Tensor,
        target: Tensor,
        ignored: int | None,
        formulas: tuple[Any, Any, Any, Any],
        num_locations: int | None,
    ) -> tuple[Tensor, Tensor | None] | None:
        table, last, start, divisor = formulas
        if len(last) > _MOST_FORMULAS:
            return None
        of_formulas = np.empty(len(last), _Formula)
        of_formulas["start"], of_formulas["last"], of_formulas["divisor"] = start, last, divisor
        sums = torch.zeros(len(last), 3, dtype=torch.int64, device="cpu")
        decisions, ends = _decisions(num_locations)
        targets = _dense(target), ignored is not None, ignored
        weights = of_formulas.ctypes.data, len(last), table.ctypes.data
        answer = self._of_scores("tally", scores, *targets, *weights, sums, *ends)
        return None if answer == _MISPLACED else (sums, decisions)

    def tally_lists(
        self,
        lists: Tensor,
        ids: Tensor,
        formulas: tuple[Any, Any, Any],
        num_locations: int | None = None,
    ) -> tuple[Tensor, Tensor | None] | None:
        table, numbers, divisors = formulas
        (rows, length), width = lists.shape, ids.shape[1]
        if len(numbers) > _MOST_FORMULAS or not 0 < length <= _LONGEST or not 0 < width <= _WIDEST:
            return None
        sums = torch.zeros(len(numbers), 3, dtype=torch.int64, device="cpu")
        kept = _dense(lists), _dense(ids)  # must live until the call returns
        addresses = [one.ctypes.data for one in (numbers, table, divisors)]
        members = length, width, addresses[0], len(numbers), *addresses[1:], sums
        decisions, ends = _decisions(num_locations)
        answer = self._call("tally_lists", rows, rows * length * width, *kept, *members, *ends, 0)
        return None if answer == _MISPLACED else (sums, decisions)

    def find_true(self, values: Tensor) -> Tensor:
        return torch.from_numpy(np.flatnonzero(values.numpy().view(np.uint8) != 0))

    def sort(self, values: Tensor) -> Tensor:
        return torch.from_numpy(np.sort(values.numpy(), axis=-1))

    def argsort(self, values: Tensor) -> Tensor:
        bits = values.shape[1].bit_length()
        keys = (values.numpy() << bits) | np.arange(values.shape[1])
        keys.sort(axis=1)
        return torch.from_numpy(keys & ((1 << bits) - 1))

    def histogram(self, values: Tensor, number: int) -> Tensor:
        return values.bincount(minlength=number)

    def _of_scores(self, name: str, scores: Tensor, *members: Any) -> Any:
        """Call a C function on scores; `_MISPLACED` if a target is not a candidate."""
        # C code needs candidates that are adjacent and aligned
        if scores.stride(1) != 1 or scores.data_ptr() % scores.element_size():
            scores = scores.clone(memory_format=torch.contiguous_format)
        layout = scores.data_ptr(), *scores.shape, scores.stride(0), _INFINITY[scores.dtype]
        return self._call(name, scores.element_size(), scores.numel(), *layout, *members)

    def _call(self, name: str, number: int, elements: int, *members: Any) -> Any:
        """Call a C function; the first call loads the library.

        Args:
            name: the name of the function.
            number: the number of rows; for `survey`, `top`, `bins` and `tally`, of bytes per score.
            elements: how many scores it reads, or comparisons it makes.
            members: the members of its structure; tensors become addresses, None becomes 0.
        """
        # most are integers, and `isinstance` of a tensor is slow
        numbers = [
            x if type(x) is int else x.data_ptr() if isinstance(x, Tensor) else x or 0
            for x in members
        ]
        about = ctypes.byref(_STRUCTURES[name](*numbers))
        self._functions = self._functions or _load()
        threads = torch.get_num_threads() if elements > _SERIAL_ELEMENTS else 1
        return self._functions[name](self._parallel, threads, number, about)


def _load() -> dict[str, Any]:
    library = ctypes.CDLL(str(LIBRARY))
    functions = {name: getattr(library, f"nextloc_{name}") for name in _STRUCTURES}
    for function in functions.values():
        # (parallel, threads, bytes of a score or rows, structure)
        function.argtypes = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
    return functions


def _find_openmp() -> ctypes.c_void_p | None:
    """Return GCC's entry point to OpenMP in the library that PyTorch has loaded."""
    try:
        return ctypes.cast(ctypes.CDLL(None).GOMP_parallel, ctypes.c_void_p)
    except (AttributeError, OSError, TypeError):  # other compilers' OpenMP; Windows
        return None


def _dense(ids: Tensor) -> Tensor:
    """Return the ids in adjacent, aligned memory; a copy if they are not."""
    dense = ids.contiguous()
    return dense if dense.data_ptr() % dense.element_size() == 0 else dense.clone()


def _decisions(num_locations: int | None) -> tuple[Tensor | None, tuple[int, Tensor | None]]:
    """Return hits, decisions and support to be counted, and the members that name them."""
    if num_locations is None:
        return None, (0, None)
    counts = torch.zeros(3, num_locations + 1, dtype=torch.int64, device="cpu")
    return counts, (num_locations + 1, counts)


def _integers(*shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.int64, device="cpu")
