"""A batch as the user passed it: read once, when it comes in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from nextloc_metrics.arguments.arrays import Array, as_tensor
from nextloc_metrics.arguments.checks import INTEGERS, check_candidates
from nextloc_metrics.arguments.messages import describe


@dataclass(eq=False)
class Batch:
    """The arguments of an update; `RankingMetric.update` describes them.

    Attributes:
        preds: scores or lists of ids, or a record that was read before.
        target: the relevant locations; None with a record.
        mask: which queries count, or None.
        groups: the groups of the queries, or None.
        exclude: the candidates that are not ranked, or None.
        exempt_target: whether a relevant location in `exclude` is ranked.
        confidence: the probability of the first id of each list, or None.
        weights: the weights of the queries, or None.
        ignore_index: an id that is never relevant.
        validate_args: whether values are read and checked.
        grades: the grades of several relevant ids, in the shape of `target`, or None.
    """

    preds: Any
    target: Any
    mask: Any = None
    groups: Array | Mapping[str, Array] | None = None
    exclude: Any = None
    exempt_target: bool = False
    confidence: Any = None
    weights: Array | None = None
    ignore_index: int | None = None
    validate_args: bool = True
    grades: Array | None = None

    @cached_property
    def has_ids(self) -> bool:
        """Whether `target` has ids, and not the relevance of every candidate."""
        return self.target.dtype in INTEGERS

    def check_scores(self) -> None:
        """Raise unless `preds` has floating scores of at least one candidate."""
        if not self.preds.is_floating_point():
            raise TypeError(
                "`preds` must be a floating tensor of scores, got "
                f"{describe(self.preds)}; pass integer scores as `.float()`, and lists of ids to "
                "`Ranking.from_lists`."
            )
        if not self.preds.ndim or not self.preds.shape[-1]:
            check_candidates(self.preds, self.target)  # raises

    def read(self, device: torch.device | None = None) -> Batch:
        """Convert arrays to tensors on the device of `preds`, or on `device` for arrays."""
        preds = as_tensor("preds", self.preds, device)
        given = {"mask": self.mask, "exclude": self.exclude, "grades": self.grades}
        read: dict[str, Any] = {
            name: as_tensor(name, value, preds.device)
            for name, value in given.items()
            if value is not None
        }
        target = as_tensor("target", self.target, preds.device)
        return replace(self, preds=preds, target=target, **read)
