"""Errors of points with the same index: their mean, and the error at one step."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.trajectories.metric import PairMetric
from nextloc_metrics.trajectories.pairs import Pairs
from nextloc_metrics.trajectories.point_sequences import distances


class _PointErrors(PairMetric):
    """Base class of the metrics that compare points with the same index."""

    def check(self, record: Pairs) -> None:
        super().check(record)
        wrong = ((record.predicted != record.true) & record.counted).nonzero()
        if self.validate_args and len(wrong):
            query = int(wrong[0])
            raise ValueError(
                f"`preds` must have as many points as `target` for {short(self)}, got "
                f"{int(record.predicted[query])} and {int(record.true[query])} in query {query}; "
                "leave it out with `mask`, or use `DTW`; `trajectory_metrics(aligned=False)` "
                "has no such metric."
            )

    def _point_errors(self, record: Pairs) -> tuple[Tensor, Tensor]:
        """Return the distance at each step of the target, float64 `[N, M]`, and its length.

        It is infinite at a step without a predicted point, and 0 behind the end of the target.
        """
        pairs = self.sequences(record)
        width = pairs.second.shape[1]
        padding = 0, 0, 0, width - pairs.first.shape[1]  # a negative one cuts points off
        first = torch.nn.functional.pad(pairs.first, padding).numpy()
        errors = torch.from_numpy(distances(first, pairs.second.numpy(), pairs.diameter))
        step = torch.arange(width)
        errors = errors.masked_fill(step >= pairs.first_length[:, None], torch.inf)
        return errors.masked_fill(step >= pairs.second_length[:, None], 0), pairs.second_length


class MeanPointError(_PointErrors):
    r"""Mean distance between the predicted and the true point of each step (ADE elsewhere).

    Each pair has the mean over its steps, and the value is the mean over pairs. Lower is better.
    Both sequences must have one length. With `validate_args=False`, points behind the end of the
    target are not read, and a step without a predicted point counts as infinity.

    The options are those of
    [`PairMetric`][nextloc_metrics.trajectories.PairMetric].

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics.trajectories import MeanPointError
        >>> error = MeanPointError()
        >>> error.update(tensor([[[0.0, 0.0], [3.0, 4.0]]]), tensor([[[0.0, 1.0], [0.0, 0.0]]]))
        >>> error.compute()  # (1 + 5) / 2
        tensor(3.)

    Source: S. Pellegrini, A. Ess, K. Schindler and L. van Gool, "You'll never walk alone: modeling
    social behavior for multi-target tracking", ICCV 2009.
    """

    label = "mean point error"

    def score(self, record: Pairs) -> Tensor:
        errors, length = self._point_errors(record)
        # steps are added in their order, so that padding has no effect
        total = torch.nn.functional.pad(errors, (1, 0)).cumsum(1)[:, -1]
        return total / length.clamp(min=1)


def _check_step(name: str, value: object) -> int:
    if type(value) is not int or not 0 < abs(value) < 2**31:
        raise ValueError(
            f"`{name}` must be an integer, 1 for the first step or -1 for the last, got "
            f"{short(value)}."
        )
    return value


class PointErrorAt(_PointErrors):
    r"""Distance between the predicted and the true point of one step (FDE elsewhere, for the last).

    Pairs that are too short to have this step do not count. Lower is better. Lengths are as for
    [`MeanPointError`][nextloc_metrics.trajectories.MeanPointError].

    Args:
        step: 1 for the first step, 2 for the second; -1 for the last step of each pair.
        kwargs: those of [`PairMetric`][nextloc_metrics.trajectories.PairMetric].

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics.trajectories import PointErrorAt
        >>> error = PointErrorAt(-1)
        >>> error.update(tensor([[[0.0, 0.0], [3.0, 4.0]]]), tensor([[[0.0, 1.0], [0.0, 0.0]]]))
        >>> error.compute()
        tensor(5.)
    """

    label = "point error at step {step}"

    step: Annotated[int, _check_step]

    def __post_init__(self) -> None:
        if self.step == -1:
            self.label = "point error at the last step"
        super().__post_init__()

    def score(self, record: Pairs) -> tuple[Tensor, Tensor]:
        errors, length = self._point_errors(record)
        index = torch.full_like(length, self.step - 1) if self.step > 0 else length + self.step
        # pairs without this step read a further column
        errors = torch.nn.functional.pad(errors, (0, 1))
        scores = errors.gather(1, index.clamp(0, errors.shape[1] - 1)[:, None])[:, 0]
        return scores, record.counted & (record.true >= abs(self.step))
