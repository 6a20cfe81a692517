"""The operations by which codebases order scores, and the ranks that each leaves open.

`rank_by` calls the operation, so ties and NaN get the ranks that the code gives them on this
machine. `find_blocks` returns the range of ranks that any implementation may give the target.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

Order = Literal[
    "topk", "sort", "reversed", "partition", "above", "numpy places", "torch places", "list"
]

#: The name of each operation in a table, and the position that it gives NaN; "partition" keeps NaN
#: among its ten, after the finite scores.
NAMES: dict[Order, tuple[str, str]] = {
    "topk": ("topk", "first"),
    "sort": ("torch.sort", "first"),
    "reversed": ("argsort()[::-1]", "first"),
    "partition": ("argpartition", "last of the ten"),
    "above": ("strictly greater", "never above"),
    "numpy places": ("argsort().argsort()", "last"),
    "torch places": ("argsort().argsort()", "last"),
    "list": ("list", "-"),
}

# The number of candidates that `np.argpartition` keeps.
_TEN = 10

# Scores that are sorted at once.
_NUMBERS = 1 << 22


class Blocks(NamedTuple):
    """The ranks that an operation leaves open for each target.

    Of candidates, `above` are above the target in any order, and `tied` with it, itself included.
    `last` is the last rank that is a hit; None if every rank is. All are int64 `[N]`.
    """

    above: Tensor
    tied: Tensor
    last: Tensor | None = None


def rank_by(order: Order, scores: Tensor, target: Tensor, depth: int | None) -> Tensor:
    """Rank the targets by calling the operation.

    A rank counts from 1; 0 stands for a target that is not among the `depth` candidates that the
    operation returns, None for all. Fewer candidates are a `ValueError`.

    Example:
        >>> rank_by("above", torch.tensor([[0.5, 0.9, 0.5]]), torch.tensor([2]), None)
        tensor([2])
    """
    width = scores.shape[1]
    needed = _TEN if order == "partition" else depth if order == "topk" else 1
    if needed is not None and needed > width:
        raise ValueError(
            f"`preds` must have at least {needed} candidates for {NAMES[order][0]}, got {width}."
        )
    return torch.cat([_find(order, *part, depth) for part in chunks(scores, target)])


def chunks(scores: Tensor, target: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Split the rows, so that few enough scores are sorted at once."""
    step = max(1, _NUMBERS // max(1, scores.shape[1]))
    return zip(torch.split(scores, step), torch.split(target, step), strict=True)


def _find(order: Order, scores: Tensor, target: Tensor, depth: int | None) -> Tensor:
    if order == "topk":
        return rank_in(torch.topk(scores, depth or scores.shape[1], dim=1).indices, target)
    if order == "sort":
        return rank_in(torch.sort(scores, dim=1, descending=True).indices, target)
    if order == "above":
        return (scores > scores.gather(1, target[:, None])).sum(1) + 1
    rows: Any = _to_numpy(scores)
    if order in ("numpy places", "torch places"):
        above = (-(rows if order == "numpy places" else scores)).argsort(1).argsort(1)
        return torch.as_tensor(above).gather(1, target[:, None])[:, 0] + 1
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


def find_blocks(order: Order, scores: Tensor, target: Tensor) -> Blocks:
    """Count the candidates above each target in any order, and those tied with it.

    Example:
        >>> find_blocks("topk", torch.tensor([[0.5, 0.9, 0.5]]), torch.tensor([2]))
        Blocks(above=tensor([1]), tied=tensor([2]), last=None)
    """
    parts = [_count(order, *part) for part in chunks(scores, target)]
    above, tied, lasts = zip(*parts, strict=True)
    last = None if lasts[0] is None else torch.cat(lasts)
    return Blocks(torch.cat(above), torch.cat(tied), last)


def _count(order: Order, scores: Tensor, target: Tensor) -> Blocks:
    own = scores.gather(1, target[:, None])
    is_nan, lost = scores.isnan(), own[:, 0].isnan()
    nans, above, tied = is_nan.sum(1), (scores > own).sum(1), (scores == own).sum(1)
    if order == "above":
        return Blocks(above, torch.ones_like(above))
    tied, last = torch.where(lost, nans, tied), None
    if order in ("numpy places", "torch places"):  # NaN last
        above = torch.where(lost, scores.shape[1] - nans, above)
    elif order == "partition":
        finite = (_TEN - nans).clamp(min=0)
        above, last = torch.where(lost, finite, above), torch.where(lost, _TEN, finite)
    else:
        above = torch.where(lost, 0, above + nans)
    return Blocks(above, tied, last)
