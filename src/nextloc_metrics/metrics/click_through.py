"""Metrics of click-through models that torchmetrics lacks, or computes too favourably."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torchmetrics.classification import BinaryAUROC, BinaryAveragePrecision, BinaryMatthewsCorrCoef
from torchmetrics.utilities.data import dim_zero_cat

from nextloc_metrics.core.base.fixes import unchanged_by_errors
from nextloc_metrics.core.base.mean import MeanMetric
from nextloc_metrics.core.base.member_names import NamedMembers
from nextloc_metrics.core.base.plan import check
from nextloc_metrics.core.means import exact
from nextloc_metrics.core.queries.arrays import Array, as_tensor
from nextloc_metrics.core.queries.batch import Batch
from nextloc_metrics.core.queries.checks import is_integer
from nextloc_metrics.core.queries.messages import describe, short
from nextloc_metrics.core.queries.record import Queries, Record
from nextloc_metrics.core.ranking.needs import Needs
from nextloc_metrics.core.ranking.target import counted_labels

# The loss of a certain mistake in float64, which is the largest loss after clipping.
_LARGEST_LOSS = -math.log(torch.finfo(torch.float64).eps)


@dataclass(eq=False)
class Clicks(Record):
    """The record of `LogLoss`: which labels count, in `queries`, and their `loss`."""

    queries: Queries
    loss: Tensor  #: float64 `[N]`, -log of the label's probability, as a share of the largest loss

    @classmethod
    def read(cls, batch: Batch, needs: Needs) -> Clicks:
        preds, target = batch.preds, batch.target
        _check_labels(batch)
        probability = exact.float64(preds.detach().flatten())
        label = target.detach().flatten().to(probability.device)
        likelihood = torch.where(label > 0, probability, 1 - probability).nan_to_num(nan=0.0)
        eps = torch.finfo(preds.dtype).eps
        loss = -likelihood.clamp(eps, 1 - eps).log() / _LARGEST_LOSS
        counted = counted_labels(batch)
        loss = loss.masked_fill(~counted.to(loss.device), 0)
        return cls(Queries(preds.shape, counted), loss)


def _check_labels(batch: Batch) -> None:
    preds, target = batch.preds, batch.target
    if not preds.is_floating_point():
        raise TypeError(
            f"`preds` must be a floating tensor of probabilities, got {describe(preds)}."
        )
    if not (is_integer(target) or target.dtype == torch.bool):
        raise TypeError(
            f"`target` must be an integer or bool tensor of labels, got {describe(target)}; "
            "pass floating labels as `.long()`."
        )
    if preds.shape != target.shape:
        raise ValueError(
            f"`preds` and `target` must have the same shape, got {short(preds.shape)} and "
            f"{short(target.shape)}."
        )
    if preds.device != target.device:
        raise ValueError(
            f"`preds` must be on the device of `target`, {target.device}, got {preds.device}; move "
            "it with `.to(device)`."
        )
    if not batch.validate_args:
        return
    outside = ~((preds >= 0) & (preds <= 1))  # NaN is outside, too
    if outside.any():
        raise ValueError(
            f"`preds` must be probabilities in [0, 1], got {float(preds[outside][0])}; pass "
            "logits as `.sigmoid()`."
        )
    unknown = (target != 0) & (target != 1)
    if batch.ignore_index is not None:
        unknown &= target != batch.ignore_index
    if unknown.any():
        raise ValueError(
            f"`target` must hold the labels 0 and 1, got {int(target[unknown][0])}; to leave "
            "a label out, pass it as `ignore_index`."
        )


class LogLoss(MeanMetric):
    r"""Log loss of predicted probabilities: the mean of -log p(label), also called cross entropy.

    Lower is better. Probabilities are clipped to [eps, 1 - eps] with the eps of their dtype, as
    scikit-learn does: a certain mistake costs 36.0 in float64, 15.9 in float32, 4.9 in bfloat16.
    Each loss is rounded to 2^-32 of the largest loss, so that the sum is exact. Without data the
    value is NaN. With `validate_args=False`, a NaN counts as a certain mistake and other values are
    clipped.

    Example:
        >>> from torch import tensor
        >>> log_loss = LogLoss()
        >>> log_loss.update(tensor([0.5, 0.25]), tensor([1, 0]))
        >>> log_loss.compute()  # (log(2) + log(4/3)) / 2
        tensor(0.4904)
    """

    record = Clicks
    higher_is_better = False
    plot_upper_bound = None
    largest_value = _LARGEST_LOSS

    def score(self, record: Clicks) -> Tensor:
        return record.loss


class AUROC(BinaryAUROC):
    """torchmetrics' `BinaryAUROC`, but NaN instead of 0 if only one of the labels occurs."""

    def compute(self) -> Tensor:  # type: ignore[override]  # as BinaryAUROC itself overrides
        if self.thresholds is None:
            clicked = _joined(self.target) == 1
            both = bool(clicked.any()) and not bool(clicked.all())
        else:
            both = bool((self.confmat[0].sum(1) > 0).all())
        return super().compute() if both else torch.full((), torch.nan, device=self.device)


class AveragePrecision(BinaryAveragePrecision):
    """torchmetrics' `BinaryAveragePrecision`, but NaN instead of an error without data."""

    def compute(self) -> Tensor:  # type: ignore[override]  # as BinaryAveragePrecision overrides
        empty = self.thresholds is None and not _joined(self.target).numel()
        return torch.full((), torch.nan, device=self.device) if empty else super().compute()


def _joined(batches: Tensor | list[Tensor]) -> Tensor:
    return dim_zero_cat(batches) if len(batches) else torch.empty(0)


class MatthewsCorrCoef(BinaryMatthewsCorrCoef):
    """torchmetrics' `BinaryMatthewsCorrCoef`, but 0 for 0 / 0, as in scikit-learn."""

    def compute(self) -> Tensor:
        confusion = self.confmat
        undefined = (confusion.sum(0) == 0).any() | (confusion.sum(1) == 0).any()
        value: Tensor = super().compute()
        return value.float().masked_fill(undefined, 0.0)


class ClickThroughCollection(NamedMembers):
    """A `MetricCollection` in which a batch updates all members, or none if one raises.

    It holds a `LogLoss`, which checks each batch for all members. Without data, values are NaN.
    """

    def update(  # type: ignore[override]  # as MetricCollection itself overrides ModuleDict
        self, preds: Array, target: Array, **kwargs: Any
    ) -> None:
        """Add a batch, probabilities and labels of one shape, to every member."""
        preds, target = self._checked(preds, target)
        with self._unchanged_by_errors():
            if preds.numel() or self._groups_checked:
                super().update(preds, target, **kwargs)
                return
            # torchmetrics would share one state among members with equal ones, as empty ones are
            for member in self.values(copy_state=False):
                member.update(preds, target, **member._filter_kwargs(**kwargs))

    def forward(self, preds: Array, target: Array, **kwargs: Any) -> dict[str, Any]:
        """Add a batch to every member and return the values of this batch."""
        preds, target = self._checked(preds, target)
        with self._unchanged_by_errors():
            return self._nan_without_data(super().forward(preds, target, **kwargs))

    def compute(self) -> dict[str, Any]:
        return self._nan_without_data(super().compute())

    def _checked(self, preds: Array, target: Array) -> tuple[Tensor, Tensor]:
        """Return the batch as tensors that all members accept, or raise."""
        for member in self.values(copy_state=False):
            if isinstance(member, LogLoss):
                preds = as_tensor("preds", preds, member.state.device)
                target = as_tensor("target", target, member.state.device)
                check(member, member.read(preds, target))
        preds, target = as_tensor("preds", preds), as_tensor("target", target)
        if preds.ndim and preds.numel():
            return preds, target
        # torchmetrics' classes need a first dimension of at least 1
        return preds.reshape(1, -1), target.reshape(1, -1)

    @contextmanager
    def _unchanged_by_errors(self) -> Iterator[None]:
        groups = {name: vars(self)[name] for name in ("_groups", "_groups_checked")}
        groups["_groups"] = {number: list(names) for number, names in self._groups.items()}
        try:
            with unchanged_by_errors(self.values(copy_state=False), in_place=True):
                yield
        except BaseException:
            vars(self).update(groups)
            raise

    def _nan_without_data(self, values: dict[str, Any]) -> dict[str, Any]:
        """Replace all values by NaN if the log loss is NaN; torchmetrics returns 0 for 0 / 0."""
        for name, member in self.items(keep_base=True, copy_state=False):
            if isinstance(member, LogLoss):
                nothing = values[self._set_name(name)].isnan()
                for key, value in values.items():  # the user's own members are among them
                    if isinstance(value, Tensor) and value.is_floating_point():
                        values[key] = value.masked_fill(nothing, torch.nan)
                break
        return values
