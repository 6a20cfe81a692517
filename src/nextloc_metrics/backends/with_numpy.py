"""Counting by NumPy, on the CPU: its comparisons and sorts vectorise, unlike PyTorch's."""

from itertools import compress, count
from typing import Any

import numpy as np
import torch
from torch import Tensor

import nextloc_metrics.backends.threads as threads
from nextloc_metrics.backends.reference import FEW_RELEVANT, Reference, must_not_sync
from nextloc_metrics.record import UNLISTED, UNRETRIEVED

# Bytes of scores that stay in a cache while everything is asked of them; with fewer, threads wait
# for one another to enter Python.
_BLOCK_BYTES = 1 << 21

# What is written about the blocks of all threads may take one part of so many of the scores' bytes,
# and of few scores so many bytes.
_WRITTEN_SHARE = 20
_WRITTEN_BYTES = 3 << 20

# NumPy's buffer, where several rows fit, is filled with thresholds, one for each candidate; with a
# smaller one, rows of these lengths are compared with a lone threshold each, in half the time.
_ROWS_IN_BUFFER = range(400, 4096)
_SMALL_BUFFER = 1 << 10

# Eight bytes add up as one integer: up to 255 answers in each, none overflows.
_ADDED_UP = 8 * 255

# What these sums say is added up at the end, as threads would wait for one another after every
# block. They may take one part of so many of the scores' bytes, and of few scores so many bytes.
_SUMS_SHARE = 100
_SUMS_BYTES = 1 << 18

# Below this many scores, handing out work takes longer than doing it.
_SERIAL_ELEMENTS = 1 << 19

# Bytes of a bool tensor that are looked at together.
_WORD = 8


class WithNumpy(Reference):
    """The backend for the CPU as installed."""

    name = "numpy"

    def unable(self, values: Tensor) -> str | None:
        """Return a reason for values of other devices and of compiled graphs."""
        return "NumPy reads values, and only on the CPU" if must_not_sync(values) else None

    def survey(
        self, scores: Tensor, own: Tensor, find_best: bool
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Count the candidates around each relevant location, and find the best candidate."""
        if own.shape[1] > FEW_RELEVANT:
            return super().survey(scores, own, find_best)
        own = own.to(torch.promote_types(own.dtype, torch.float32))  # NumPy has no bfloat16
        serial = scores.numel() <= _SERIAL_ELEMENTS
        number = 1 if serial else min(threads.available(), threads.MOST_IN_PYTHON)
        written = 2 + (own.element_size() if scores.dtype != own.dtype else 0)  # answers, a copy
        most_written = max(_WRITTEN_BYTES, scores.nbytes // _WRITTEN_SHARE) // number
        elements = min(_BLOCK_BYTES // own.element_size(), most_written // written)
        summed = 2 * 8 * own.shape[1] * _num_sums(scores.shape[1])  # bytes per query
        most_summed = max(_SUMS_BYTES, scores.nbytes // _SUMS_SHARE)
        rows = max(1, most_summed // max(1, summed))
        bands = zip(torch.split(scores, rows), torch.split(own, rows), strict=True)
        found = [_survey_rows(*band, find_best, elements, number) for band in bands]
        above, tied, best = map(torch.cat, zip(*found, strict=True))
        return above, tied, best if find_best else None

    def find(self, lists: Tensor, ids: Tensor) -> Tensor:
        """Find the first position of ids in lists, UNRETRIEVED if absent."""
        wanted = ids.numpy().T.copy()  # long rows vectorise
        wanted[wanted < 0] = UNLISTED
        above = np.full(wanted.shape, UNRETRIEVED)
        for position, listed in reversed(list(enumerate(lists.numpy().T.copy()))):
            np.copyto(above, position, where=wanted == listed)  # of repeats the first comes last
        return torch.from_numpy(above.T.copy())

    def find_true(self, values: Tensor) -> Tensor:
        """Return where a bool tensor is true, counting on from row to row."""
        # a true one may be another byte than 1
        flat = values.contiguous().numpy().reshape(-1).view(np.uint8)
        # few are true: find the words that are not all false, and look into these
        words = flat[: len(flat) // _WORD * _WORD].view(np.int64)
        some = np.flatnonzero(words != 0)
        inside = np.flatnonzero(words[some].view(np.uint8) != 0)
        found = some[inside // _WORD] * _WORD + inside % _WORD
        rest = np.flatnonzero(flat[len(words) * _WORD :]) + len(words) * _WORD
        return torch.from_numpy(np.concatenate([found, rest]))

    def sort(self, values: Tensor) -> Tensor:
        """Sort integers within their rows."""
        return torch.from_numpy(np.sort(values.numpy(), axis=-1))

    def argsort(self, values: Tensor) -> Tensor:
        """Return the columns in the order of values from 0 to 2^40; equal ones as before."""
        bits = values.shape[1].bit_length()
        keys = (values.numpy() << bits) | np.arange(values.shape[1])
        keys.sort(axis=1)
        return torch.from_numpy(keys & ((1 << bits) - 1))

    def histogram(self, values: Tensor, number: int) -> Tensor:
        """Count how often each of the integers below `number` occurs."""
        return values.bincount(minlength=number)


def _survey_rows(
    scores: Tensor, own: Tensor, find_best: bool, elements: int, number: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Survey as many queries as can be added up at once, in blocks of so many elements."""
    if scores.shape[1] <= elements:
        return _survey_columns(scores, own, find_best, elements, number)
    columns = torch.split(scores, elements, 1)
    parts = [_survey_columns(part, own, find_best, elements, number) for part in columns]
    above, tied, best = (torch.stack(found, -1) for found in zip(*parts, strict=True))
    best += elements * torch.arange(len(parts), device="cpu")
    first = scores.gather(1, best).argmax(1, keepdim=True)
    return above.sum(2), tied.sum(2), best.gather(1, first)[:, 0]


def _survey_columns(
    scores: Tensor, own: Tensor, find_best: bool, elements: int, number: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Survey scores of which a block of so many elements holds a row, on so many threads."""
    num_queries, num_candidates = scores.shape
    # a thread has two blocks at least, or answers would be as many as scores; all are of one size:
    # the last may take rows of the one before once more
    num_blocks = max(2 * number, -(-num_queries * num_candidates // elements))
    rows = max(1, min(-(-num_queries // num_blocks), elements // num_candidates))
    starts = np.minimum(np.arange(0, num_queries, rows), num_queries - rows)
    thresholds = own.numpy()
    is_wanted = np.logical_or.reduceat(thresholds == thresholds, starts)
    sums = np.zeros((2, *thresholds.shape, _num_sums(num_candidates)), np.uint64)
    best = np.zeros(num_queries, np.int64)
    converts = scores.dtype != own.dtype
    source: Any = scores if converts else scores.numpy()
    untaken = iter(list(zip(starts.tolist(), is_wanted.tolist(), strict=True)))

    def take_blocks() -> None:
        answers = _Answers(rows, num_candidates)
        buffer = torch.empty(rows if converts else 0, num_candidates, dtype=own.dtype, device="cpu")
        block = buffer.numpy()
        for start, wanted in untaken:
            here = slice(start, start + rows)
            if converts:
                buffer.copy_(source[here])
            else:
                block = source[here]
            # only its result is ever written for a row: another thread may be writing the same
            if find_best:
                block.argmax(1, out=best[here])
            for j in compress(count(), wanted):
                threshold = thresholds[here, j, None]
                np.less(block, threshold, out=answers.below)
                np.less_equal(block, threshold, out=answers.below_or_tied)
                sums[:, here, j] = answers.add_up()

    def take_blocks_unbuffered() -> None:
        before = np.setbufsize(_SMALL_BUFFER)  # on this thread
        try:
            take_blocks()
        finally:
            np.setbufsize(before)

    task = take_blocks_unbuffered if num_candidates in _ROWS_IN_BUFFER else take_blocks
    threads.run(task, max(1, min(number, len(starts))))
    below, below_or_tied = np.add.reduce(sums.view(np.uint8), 3, np.int64)
    above, tied = num_candidates - below_or_tied, below_or_tied - below
    return torch.from_numpy(above), torch.from_numpy(tied), torch.from_numpy(best)


class _Answers:
    """What two comparisons of a block's scores say, a byte each."""

    def __init__(self, rows: int, num_candidates: int) -> None:
        length, num_sums = -(-num_candidates // 8), _num_sums(num_candidates)
        self._eights = np.empty((2, rows, num_sums, -(-length // num_sums)), np.uint64)
        answers = self._eights.view(np.bool_).reshape(2, rows, -1)
        answers[:, :, num_candidates:] = False
        self.below, self.below_or_tied = answers[:, :, :num_candidates]

    def add_up(self) -> Any:
        """Add up eights of answers below, and below or tied, uint64 `[2, rows, S]`."""
        return np.add.reduce(self._eights, 3)


def _num_sums(num_candidates: int) -> int:
    return -(-num_candidates // _ADDED_UP)
