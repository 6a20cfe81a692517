"""What `compiled.survey` does, by NumPy: its comparisons vectorise, unlike PyTorch's on a CPU."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics import threads

# Bytes of scores that stay in a core's second cache while everything is asked of them.
_BLOCK_BYTES = 1 << 20

# Answers are bytes: so many are added up before they could overflow, side by side in long lanes.
_MOST_ADDED = 100
_LANES = 1 << 8

# Below this many scores, handing out work takes longer than doing it.
_SERIAL_ELEMENTS = 1 << 17


def survey(scores: Tensor, own: Tensor, find_best: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Count the candidates above and tied with each relevant location, and find the best.

    Args:
        scores: floating `[N, C]`.
        own: floating `[N, M]`, the scores of the relevant ones, NaN where nothing is to be counted.
        find_best: whether to find the best candidate.

    Returns:
        `above` and `tied`, int64 `[N, M]`; and the lowest index of the maximum (of the first NaN),
        int64 `[N]`, of no meaning where not asked for.
    """
    at = own.to(torch.promote_types(own.dtype, torch.float32))  # NumPy has no bfloat16
    widest = _BLOCK_BYTES // at.element_size()
    parts = [_survey_part(part, at, find_best) for part in torch.split(scores, widest, 1)]
    if len(parts) == 1:
        return parts[0]
    above, tied, best = (torch.stack(found, -1) for found in zip(*parts, strict=True))
    best += widest * torch.arange(len(parts), device="cpu")
    first = scores.gather(1, best).argmax(1, keepdim=True)
    return above.sum(2), tied.sum(2), best.gather(1, first)[:, 0]


def _survey_part(scores: Tensor, own: Tensor, find_best: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Survey scores of which a row is no more than a block."""
    num_queries, num_candidates = scores.shape
    number = threads.available() if scores.numel() > _SERIAL_ELEMENTS else 1
    rows = _BLOCK_BYTES // (num_candidates * own.element_size())
    rows = max(1, min(rows, -(-num_queries // number)))
    # blocks are of one size: the last may take rows of the one before once more
    starts = np.minimum(np.arange(0, num_queries, rows), num_queries - rows)
    at = own.numpy()
    wanted = [np.flatnonzero(part) for part in np.logical_or.reduceat(at == at, starts)]
    # bytes are added up in columns of lanes, and the lanes then as wider integers
    width = -(-num_candidates // (_MOST_ADDED * _LANES)) * _LANES
    height = -(-num_candidates // width)
    counts = np.zeros((2, *at.shape), np.int64)
    best = np.zeros(num_queries, np.int64)
    converts = scores.dtype != own.dtype
    source: Any = scores if converts else scores.numpy()
    untaken = iter(list(zip(starts.tolist(), wanted, strict=True)))

    def take_blocks() -> None:
        lanes = np.zeros((2, rows, height, width), np.uint8)
        sums = np.empty((2, rows, width), np.uint8)
        answers = lanes.view(np.bool_).reshape(2, rows, height * width)[:, :, :num_candidates]
        below, below_or_tied = answers
        buffer = torch.empty(rows if converts else 0, num_candidates, dtype=own.dtype, device="cpu")
        block = buffer.numpy()
        for start, columns in untaken:
            here = slice(start, start + rows)
            if converts:
                buffer.copy_(source[here])
            else:
                block = source[here]
            if find_best:
                block.argmax(1, out=best[here])
            for j in columns:
                threshold = at[here, j, None]
                np.less(block, threshold, out=below)
                np.less_equal(block, threshold, out=below_or_tied)
                np.add.reduce(lanes, 2, np.uint8, out=sums)
                # not summed up in place: another thread may have some of the rows
                counts[:, here, j] = np.add.reduce(sums, 2, np.int64)

    threads.run(take_blocks, number)
    below, below_or_tied = counts
    above, tied = num_candidates - below_or_tied, below_or_tied - below
    return torch.from_numpy(above), torch.from_numpy(tied), torch.from_numpy(best)
