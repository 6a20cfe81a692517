"""Predictions of locations as predictions of their categories or grid cells."""

from typing import Literal

import torch
from torch import Tensor

from nextloc_metrics.core.queries.arrays import Array, as_tensor, as_tensor_or_text, is_repeat
from nextloc_metrics.core.queries.checks import check_bool, check_choice, is_integer
from nextloc_metrics.core.queries.messages import describe
from nextloc_metrics.core.ranking.counting import comparable

Repeats = Literal["keep", "once"]
Pooling = Literal["max", "sum"]

# Scores that are aggregated at once.
_AT_ONCE = 1 << 20


class Coarser(torch.nn.Module):
    r"""Predictions of locations as predictions of their parents: categories, or cells of a grid.

    The parents are numbered from 0 in rising order of their labels: integers (cells of H3 or S2,
    categories) or text (geohashes, names). Any metric accepts the results of `lists`, `scores` and
    `target`. A location scored -inf, such as an excluded one, adds nothing to its parent, which
    scores -inf if all of its locations do. A NaN makes its parent NaN, which never helps a model.

    Args:
        parents: integer or text `[C]`, the parent of each location. `parent_of`, int64 `[C]`, has
            their numbers, and `names` their labels in the order of these.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import AccuracyAtK
        >>> coarser = Coarser(["food", "work", "food", "home"])
        >>> scores, target = tensor([[0.3, 0.4, 0.2, 0.1]]), tensor([2])
        >>> coarser.scores(scores, by="sum"), coarser.target(target)
        (tensor([[0.5000, 0.1000, 0.4000]]), tensor([0]))
        >>> AccuracyAtK(1)(coarser.scores(scores, by="sum"), coarser.target(target))
        tensor(1.)
    """

    parent_of: Tensor
    _order: Tensor
    _sizes: Tensor

    def __init__(self, parents: Array) -> None:
        super().__init__()
        labels = as_tensor_or_text("parents", parents)
        self.names: tuple[int, ...] | tuple[str, ...]
        if isinstance(labels, Tensor):
            if not is_integer(labels):
                raise TypeError(f"`parents` must be integers or text, got {describe(parents)}.")
            if labels.ndim != 1 or not len(labels):
                raise ValueError(f"`parents` must be one row, [C], got {describe(parents)}.")
            names, numbers = torch.unique(labels.detach().cpu().long(), return_inverse=True)
            self.names = tuple(names.tolist())
        else:
            if not labels or len(labels) != len(parents):  # type: ignore[arg-type]
                raise ValueError(f"`parents` must be one row, [C], got {describe(parents)}.")
            self.names = tuple(sorted(set(labels)))
            number_of = {name: number for number, name in enumerate(self.names)}
            numbers = torch.tensor([number_of[label] for label in labels])
        self.register_buffer("parent_of", numbers, persistent=False)
        self.register_buffer("_order", numbers.argsort(stable=True), persistent=False)
        self.register_buffer("_sizes", numbers.bincount(), persistent=False)

    def lists(self, preds: Array, repeats: Repeats = "keep") -> Tensor:
        """Return the parents of lists of ids `[..., K]`, padded with -1; int64.

        An id that is no location, C + i, becomes P + i, which is no parent (P is the number of
        parents). A repeat of a parent in a list keeps its rank, and metrics count the first;
        `repeats="once"` removes it, and later parents move up.

        Example:
            >>> from torch import tensor
            >>> coarser = Coarser(["food", "work", "food", "home"])
            >>> lists = tensor([[0, 2, 1, -1]])
            >>> coarser.lists(lists), coarser.lists(lists, repeats="once")
            (tensor([[ 0,  0,  2, -1]]), tensor([[ 0,  2, -1, -1]]))
        """
        check_choice("repeats", repeats, Repeats)
        found = self._parents("preds", preds)
        if not found.ndim:
            raise ValueError(f"`preds` must be lists of ids, [..., K], got {describe(found)}.")
        if repeats == "keep" or not found.numel():
            return found
        again = is_repeat(found)
        order = again.to(torch.uint8).argsort(dim=-1, stable=True)
        return found.masked_fill(again, -1).gather(-1, order)

    def scores(self, preds: Array, by: Pooling = "max") -> Tensor:
        """Return the scores of the parents `[..., P]` of all locations' scores `[..., C]`.

        Sums are computed in float64, in the order of the ids, and rounded once: the same bits for
        any batch size, in bounded additional memory. A parent's score is by `"max"` that
        of its best location, by `"sum"` the sum over all, for probabilities of at least 0.
        """
        check_choice("by", by, Pooling)
        scores = as_tensor("preds", preds)
        if not scores.is_floating_point():
            raise TypeError(
                f"`preds` must be a floating tensor of scores, got {describe(scores)}; lists of "
                "ids go into `lists`."
            )
        size = len(self.parent_of)
        if not scores.ndim or scores.shape[-1] != size:
            raise ValueError(
                f"`preds` must hold a score for each of the {size} locations in its last "
                f"dimension, got {describe(scores)}."
            )
        flat = comparable(scores).reshape(-1, size)
        found = flat.new_empty(len(flat), len(self.names))
        rows = max(1, _AT_ONCE // size)
        for start in range(0, len(flat), rows):
            found[start : start + rows] = self._aggregate(flat[start : start + rows], by)
        return found.view(*scores.shape[:-1], len(self.names))

    def target(self, target: Array, several: bool = False) -> Tensor:
        """Return the parents of relevant locations, int64, in the shape of `target`.

        Ids below 0 stay, so that padding and an `ignore_index` below 0 mean the same as before.
        With `several`, the last dimension holds the ids of one query; a repeated parent becomes -1.
        """
        check_bool("several", several)
        found = self._parents("target", target)
        if found.numel() and int(found.max()) >= len(self.names):
            wrong = int(found.max()) - len(self.names) + len(self.parent_of)
            raise ValueError(
                f"`target` must be below the {len(self.parent_of)} locations, got {wrong}."
            )
        return found.masked_fill(is_repeat(found), -1) if several and found.ndim else found

    def state_key(self) -> str:
        """Return the content as text, for the names of states."""
        return f"{self.names}, {self.parent_of.tolist()}"

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"Coarser({len(self.parent_of)} locations, {len(self.names)} parents)"

    def _parents(self, name: str, values: Array) -> Tensor:
        """Return the parents of ids; an id that is no location, C + i, becomes P + i."""
        ids = as_tensor(name, values)
        if not is_integer(ids):
            raise TypeError(f"`{name}` must be ids of locations, integers, got {describe(ids)}.")
        ids, size = ids.long(), len(self.parent_of)
        parent = self.parent_of.to(ids.device)[ids.clamp(0, size - 1)]
        invented = ids - (size - len(self.names))
        return torch.where(ids < 0, ids, torch.where(ids < size, parent, invented))

    def _aggregate(self, scores: Tensor, by: Pooling) -> Tensor:
        order, sizes = self._order.to(scores.device), self._sizes.to(scores.device)
        children = scores.t()[order]
        best = torch.segment_reduce(children, "max", lengths=sizes, axis=0)
        if by == "max":
            return best.t()
        nothing = children == -torch.inf
        negative = children.masked_fill(nothing, 0) < 0
        if bool(negative.any()):
            raise ValueError(
                "`preds` must be at least 0 to be added up, got "
                f"{float(children[negative][0])}; pass probabilities, such as "
                "`preds.softmax(-1)`, or take `by='max'`."
            )
        parts = children.double().masked_fill(nothing, 0)
        total = torch.segment_reduce(parts, "sum", lengths=sizes, axis=0).to(scores.dtype)
        return total.masked_fill(best == -torch.inf, -torch.inf).t()
