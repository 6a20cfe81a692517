"""Conversion of given ranks to `above` and `tied`."""

import torch
from torch import Tensor

from nextloc_metrics.arguments.arrays import Array, as_tensor
from nextloc_metrics.arguments.checks import as_number, check_positive, is_integer
from nextloc_metrics.arguments.messages import describe, short
from nextloc_metrics.backends import UNRETRIEVED


def read_ranks(
    ranks: Array, tied: Array | None, num_candidates: int | None, missing: int
) -> tuple[Tensor, Tensor]:
    """Convert the arguments of `Ranking.from_ranks` to `above` and `tied`, int64 `[N, M]`."""
    ranks = as_tensor("ranks", ranks)
    if not is_integer(ranks):
        raise TypeError(
            f"`ranks` must be integers, 1 for the best, got {describe(ranks)}; "
            "a mean of tied ranks is not a rank."
        )
    if ranks.ndim not in (1, 2) or (ranks.ndim == 2 and not ranks.shape[1]):
        raise ValueError(
            f"`ranks` must have the shape (N,), one per query, or (N, M), got {describe(ranks)}."
        )
    if num_candidates is not None:
        check_positive("num_candidates", num_candidates)
    missing = as_number(missing)
    if type(missing) is not int or missing > 0:
        raise ValueError(f"`missing` must be an integer of at most 0, got {short(missing)}.")
    rows = ranks.long() if ranks.ndim == 2 else ranks.long()[:, None]
    sizes = torch.ones_like(rows) if tied is None else _read_tied(tied, ranks)
    is_missing = rows == missing
    _check_range(rows, sizes, is_missing, num_candidates, missing)
    return (rows - 1).masked_fill(is_missing, UNRETRIEVED), sizes.masked_fill(is_missing, 1)


def _read_tied(tied: Array, ranks: Tensor) -> Tensor:
    tied = as_tensor("tied", tied, ranks.device)
    if not is_integer(tied) or tied.shape != ranks.shape:
        raise ValueError(
            f"`tied` must be integers of the shape of `ranks`, {short(ranks.shape)}, got "
            f"{describe(tied)}."
        )
    if tied.numel() and int(tied.min()) < 1:
        raise ValueError(
            "`tied` must be at least 1, because a tied block includes its relevant location, got "
            f"{int(tied.min())}."
        )
    return tied.long() if tied.ndim == 2 else tied.long()[:, None]


def _check_range(
    rows: Tensor, sizes: Tensor, is_missing: Tensor, num_candidates: int | None, missing: int
) -> None:
    if not rows.numel():
        return
    lowest = int(rows.masked_fill(is_missing, 1).min())
    if lowest < 1:
        raise ValueError(
            f"`ranks` must be at least 1, or {missing} for unretrieved locations, got {lowest}; "
            "add 1 to ranks that start at 0."
        )
    last = (rows + sizes - 1).masked_fill(is_missing, 0)
    if num_candidates is not None and int(last.max()) > num_candidates:
        raise ValueError(
            "the last rank of every tied block must be at most `num_candidates`, "
            f"{num_candidates}, got {int(last.max())}."
        )


def check_blocks(above: Tensor, tied: Tensor, relevant_tied: Tensor) -> None:
    """Raise if tied blocks of a query overlap, or one is too small for its relevant locations."""
    before, here = slice(None, -1), slice(1, None)
    wrong_block = (tied[:, here] != tied[:, before]) | (relevant_tied > tied)[:, here]
    overlaps = above[:, here] < (above + tied)[:, before]
    same = above[:, here] == above[:, before]
    wrong = (torch.where(same, wrong_block, overlaps) & (above[:, here] < UNRETRIEVED)).nonzero()
    if wrong.numel():
        query, column = wrong[0].tolist()
        first, second = (above[query, column : column + 2] + 1).tolist()
        raise ValueError(
            f"`ranks` of query {query} must fit their tied blocks, got rank {second} after rank "
            f"{first} with {int(tied[query, column])} tied candidates; pass `tied`, or distinct "
            "ranks."
        )
