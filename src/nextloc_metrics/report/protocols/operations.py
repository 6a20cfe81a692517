"""The operations by which codebases order scores, and the ranks that each leaves open.

`rank_by` calls the operation where the target is tied or a score is NaN, so that they get the ranks
that the code gives them on this machine; other ranks are the same by every operation, and counted.
`find_blocks` returns the range of ranks that any implementation may give the target.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from nextloc_metrics.core import backends

Order = Literal[
    "topk",
    "sort",
    "reversed",
    "partition",
    "above",
    "middle",
    "numpy places",
    "torch places",
    "list",
]

#: The name of each operation in a table, and the position that it gives NaN; "partition" keeps NaN
#: among its ten, after the finite scores.
NAMES: dict[Order, tuple[str, str]] = {
    "topk": ("topk", "first"),
    "sort": ("torch.sort", "first"),
    "reversed": ("argsort()[::-1]", "first"),
    "partition": ("argpartition", "last of the ten"),
    "above": ("strictly greater", "never above"),
    "middle": ("middle rank", "never above"),
    "numpy places": ("argsort().argsort()", "last"),
    "torch places": ("argsort().argsort()", "last"),
    "list": ("list", "-"),
}

# The number of candidates that `np.argpartition` keeps.
_TEN = 10

# Scores that are sorted at once.
_NUMBERS = 1 << 22


class TargetCounts(NamedTuple):
    """Of each row, the scores above the target's, those equal to it, and the NaN, int64 `[N]`.

    `lost` is bool `[N]`, whether the target's score is NaN.
    """

    above: Tensor
    tied: Tensor
    nans: Tensor
    lost: Tensor


class Blocks(NamedTuple):
    """The ranks that an operation leaves open for each target.

    Of candidates, `above` are above the target in any order, and `tied` with it, itself included.
    `last` is the last rank that is a hit; None if every rank is. All are int64 `[N]`.
    """

    above: Tensor
    tied: Tensor
    last: Tensor | None = None


def rank_by(
    order: Order, scores: Tensor, target: Tensor, depth: int | None, counts: TargetCounts
) -> Tensor:
    """Rank the targets by calling the operation.

    A rank counts from 1; 0 stands for a target that is not among the `depth` candidates that the
    operation returns, None for all. Fewer candidates are a `ValueError`.
    """
    width = scores.shape[1]
    needed = _TEN if order == "partition" else depth if order == "topk" else 1
    if needed is not None and needed > width:
        raise ValueError(
            f"`preds` must have at least {needed} candidates for {NAMES[order][0]}, got {width}."
        )
    ranks = counts.above + 1
    if order == "above":
        return ranks
    if (last := {"topk": depth, "partition": _TEN}.get(order)) is not None:
        ranks = ranks.masked_fill(ranks > last, 0)
    rows = ((counts.tied != 1) | (counts.nans > 0)).nonzero()[:, 0]
    for some in torch.split(rows, _rows_at_once(scores)):
        ranks[some] = _find(order, scores[some], target[some], depth)
    return ranks


def _rows_at_once(scores: Tensor) -> int:
    return max(1, _NUMBERS // max(1, scores.shape[1]))


def _find(order: Order, scores: Tensor, target: Tensor, depth: int | None) -> Tensor:
    if order == "topk":
        return rank_in(torch.topk(scores, depth or scores.shape[1], dim=1).indices, target)
    if order == "sort":
        return rank_in(torch.sort(scores, dim=1, descending=True).indices, target)
    if order == "torch places":
        above = (-scores).argsort(dim=1).argsort(dim=1)
        return above.gather(1, target[:, None])[:, 0] + 1
    rows: Any = _to_numpy(scores)
    if order == "numpy places":
        above = torch.from_numpy((-rows).argsort(axis=1).argsort(axis=1))
        return above.gather(1, target[:, None])[:, 0] + 1
    if order == "reversed":
        return rank_in(torch.from_numpy(rows.argsort(axis=1)[:, ::-1].copy()), target)
    ten = torch.from_numpy(rows.argpartition(-_TEN, axis=1)[:, -_TEN:])
    own = _to_numpy(scores.gather(1, ten))
    return rank_in(ten.gather(1, torch.from_numpy((-own).argsort(axis=1))), target)


def _to_numpy(scores: Tensor) -> Any:
    """Return scores as an array; bfloat16 as float32, as NumPy has no bfloat16."""
    return (scores.float() if scores.dtype == torch.bfloat16 else scores).numpy()


def rank_in(ids: Tensor, target: Tensor) -> Tensor:
    """Return the first rank of the target in `ids`, 0 if it is not there."""
    found = ids == target[:, None]
    return torch.where(found.any(1), found.byte().argmax(1) + 1, 0)


def count(scores: Tensor, target: Tensor) -> TargetCounts:
    """Count the scores above each target's, those equal to it, and the NaN of each row."""
    step = _rows_at_once(scores)
    parts = map(_count, torch.split(scores, step), torch.split(target, step))
    return TargetCounts(*map(torch.cat, zip(*parts, strict=True)))


def _count(scores: Tensor, target: Tensor) -> TargetCounts:
    own = scores.gather(1, target[:, None])
    above, tied, _ = backends.choose(scores).survey(scores, own, False)
    above, tied = above[:, 0], tied[:, 0]
    nans, lost = torch.zeros_like(above), own[:, 0].isnan()
    # backends count NaN as above, and nothing for a target of -inf
    odd = (scores.amax(1).isnan() | (own[:, 0] == -torch.inf)).nonzero()[:, 0]
    if len(odd):
        rows, mine = scores[odd], own[odd]
        above[odd], tied[odd] = (rows > mine).sum(1), (rows == mine).sum(1)
        nans[odd] = rows.isnan().sum(1)
    return TargetCounts(above, tied, nans, lost)


def find_blocks(order: Order, width: int, counts: TargetCounts) -> Blocks:
    """Return the candidates above each target in any order, and those tied with it.

    Example:
        >>> find_blocks("topk", 3, count(torch.tensor([[0.5, 0.9, 0.5]]), torch.tensor([2])))
        Blocks(above=tensor([1]), tied=tensor([2]), last=None)
    """
    above, tied, nans, lost = counts
    if order == "above":
        return Blocks(above, torch.ones_like(above))
    if order in ("numpy places", "torch places"):  # NaN last
        return Blocks(torch.where(lost, width - nans, above), torch.where(lost, nans, tied))
    if order == "partition":
        finite = (_TEN - nans).clamp(min=0)
        last = torch.where(lost, _TEN, finite)
        return Blocks(torch.where(lost, finite, above), torch.where(lost, nans, tied), last)
    return Blocks(torch.where(lost, 0, above + nans), torch.where(lost, nans, tied))
