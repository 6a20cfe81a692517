"""The record of pairs of sequences: a predicted and a true trajectory per query."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nextloc_metrics.core.means import exact
from nextloc_metrics.core.queries.batch import Batch
from nextloc_metrics.core.queries.checks import is_integer
from nextloc_metrics.core.queries.messages import describe, short
from nextloc_metrics.core.queries.record import Queries, Record
from nextloc_metrics.core.ranking.needs import Needs
from nextloc_metrics.core.ranking.target import counted_by

_FORMS = (
    "coordinates, floating [..., L, 2] padded with NaN, or ids, integer [..., L] padded with -1"
)


@dataclass(eq=False)
class Pairs(Record):
    """Pairs of sequences of points or of ids: the record of the metrics of trajectories.

    A query is one pair, such as a user's day. The two sequences may have different lengths.

    Attributes:
        queries: which pairs count, and their groups.
        preds: float64 `[N, L, 2]`, the coordinates of the predicted points; or int64 `[N, L]`, the
            predicted ids. Values behind the end of a sequence are 0.
        target: the same for the true points, `[N, M, 2]` or `[N, M]`.
        predicted: int64 `[N]`, the number of predicted points.
        true: int64 `[N]`, the number of true points.

    Example:
        >>> from torch import nan, tensor
        >>> from nextloc_metrics.trajectories import DTW
        >>> pairs = DTW().read(
        ...     tensor([[[0.0, 0.0], [3.0, 4.0]], [[1.0, 1.0], [nan, nan]]]),
        ...     tensor([[[0.0, 0.0]], [[2.0, 2.0]]]),
        ... )
        >>> pairs.predicted, pairs.true
        (tensor([2, 1]), tensor([1, 1]))
    """

    queries: Queries
    preds: Tensor
    target: Tensor
    predicted: Tensor
    true: Tensor

    @property
    def is_of_ids(self) -> bool:
        """Whether the sequences are ids of locations."""
        return self.preds.ndim == 2

    @classmethod
    def read(cls, batch: Batch, needs: Needs) -> Pairs:
        preds, target = batch.preds, batch.target
        shape = _read_shape(preds, target)
        if batch.exclude is not None or batch.exempt_target:
            raise ValueError("`exclude` must be None for trajectories, which rank no candidates.")
        counted = counted_by(batch.mask, shape, preds.device)
        (points, predicted), (true_points, true) = (
            _read_sequences(name, sequences.detach(), shape, counted, batch.validate_args)
            for name, sequences in (("preds", preds), ("target", target))
        )
        if batch.validate_args:
            _check(
                (true == 0) & counted,
                "`target` must have at least one point in each query, got none in query {}; leave "
                "it out with `mask`.",
            )
        counted = counted & (true > 0)  # a pair whose target has no point does not count
        return cls(Queries(shape, counted), points, true_points, predicted, true)


def _read_shape(preds: Tensor, target: Tensor) -> torch.Size:
    """Return the shape of the queries, or raise if the sequences cannot be read."""
    for name, sequences in (("preds", preds), ("target", target)):
        is_coordinates = sequences.is_floating_point()
        if not (is_coordinates or is_integer(sequences)):
            raise TypeError(f"`{name}` must be {_FORMS}, got {describe(sequences)}.")
        if sequences.ndim < 2 + is_coordinates or (is_coordinates and sequences.shape[-1] != 2):
            raise ValueError(f"`{name}` must be {_FORMS}, got {describe(sequences)}.")
    if preds.is_floating_point() != target.is_floating_point():
        raise TypeError(
            "`preds` and `target` must both be coordinates or both be ids, got "
            f"{describe(preds)} and {describe(target)}."
        )
    end = -2 if preds.is_floating_point() else -1
    if preds.shape[:end] != target.shape[:end]:
        raise ValueError(
            "`preds` and `target` must have the same queries, got "
            f"{short(preds.shape)} and {short(target.shape)}."
        )
    if preds.device != target.device:
        raise ValueError(
            f"`preds` must be on the device of `target`, {target.device}, got {preds.device}; move "
            "it with `.to(device)`."
        )
    return preds.shape[:end]


def _read_sequences(
    name: str, sequences: Tensor, shape: torch.Size, counted: Tensor, validate: bool
) -> tuple[Tensor, Tensor]:
    """Return one sequence per query, with 0 behind its end, and the lengths of sequences."""
    number = shape.numel()
    if sequences.is_floating_point():
        points = exact.float64(sequences).reshape(number, sequences.shape[-2], 2)
        no_x, no_y = points.isnan().to(counted.device).unbind(-1)
        is_point, fill = ~(no_x | no_y), "NaN"
        if validate:
            _check(
                (no_x != no_y).any(-1) & counted,
                f"`{name}` must have both coordinates of a point or none, got one in query {{}}.",
            )
    else:
        points = sequences.reshape(number, sequences.shape[-1]).long()
        is_point, fill = points >= 0, "-1"
        if validate:
            _check(
                (points < -1).any(-1) & counted,
                f"`{name}` must hold ids from 0, padded with -1, got a lower one in query {{}}.",
            )
    within = is_point.long().cumprod(-1).bool()  # the points before the first missing one
    if validate:
        _check(
            (is_point & ~within).any(-1) & counted,
            f"`{name}` must be padded with {fill} at the end only, got {fill} before a point in "
            "query {}; remove that step, or fill it in.",
        )
    within &= counted[:, None]
    is_kept = within.to(points.device)
    points = points.masked_fill(~(is_kept[..., None] if points.ndim == 3 else is_kept), 0)
    if validate and points.numel() and torch.inf in map(abs, map(float, points.aminmax())):
        _check(
            points.isinf().flatten(1).any(-1),
            f"`{name}` must be finite, got infinity in query {{}}.",
        )
    return points, within.sum(-1)


def _check(wrong: Tensor, message: str) -> None:
    """Raise if something is wrong in a query; the message names the first such query."""
    rows = wrong.nonzero()
    if len(rows):
        raise ValueError(message.format(int(rows[0])))
