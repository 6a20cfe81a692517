"""A model between chance, the baseline and the limit of predictability, as means over users."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nextloc_metrics import analysis
from nextloc_metrics.analysis import Predictability
from nextloc_metrics.arguments.arrays import Array
from nextloc_metrics.arguments.batch import Batch
from nextloc_metrics.arguments.rows import ArrayRows, Kind
from nextloc_metrics.display.reading import Reading
from nextloc_metrics.display.table import Table, of_readings
from nextloc_metrics.metrics.at_k import AccuracyAtK
from nextloc_metrics.metrics.grouped import Grouped


@dataclass(frozen=True)
class Ceiling:
    """Acc@1 of a model between the floor and the ceiling; see `history` of `evaluate`.

    All rows are means over the same users: those with enough visits in `history`, and a query.

    Attributes:
        limits: the limits of all users of `history`; those not in the means are flagged.
        rows: chance, the most frequent location, the model, the limit of shuffled visits, and the
            limit, with their intervals.
        confidence: the confidence level of the intervals.
    """

    limits: Predictability
    rows: dict[str, Reading]
    confidence: float

    @property
    def share(self) -> float:
        """The share of the way from the baseline to the limit; chance without a baseline."""
        return self._share("limit")

    @property
    def table(self) -> Table:
        """The rows with notes on the users and on the share."""
        users = int((~self.limits.few_visits).sum())
        notes = [
            f"mean over {users:,} users; {int(self.limits.few_visits.sum()):,} users left out",
            f"way from the baseline to the limit: {100 * self.share:.0f} %; to the limit of "
            f"shuffled visits: {100 * self._share('limit of shuffled visits'):.0f} %",
            "limits of short histories are too high; shuffled visits have nothing to learn but "
            "their shares",
        ]
        return of_readings({"acc_at_1": self.rows}, self.confidence, notes)

    def _share(self, limit: str) -> float:
        floor = self.rows.get("most frequent", self.rows.get("chance"))
        floor_value = 0.0 if floor is None else floor.value
        return (self.rows["model"].value - floor_value) / (self.rows[limit].value - floor_value)


class CeilingCounts:
    """The accuracy of a model and of the baseline for each user of the history."""

    def __init__(
        self,
        history: tuple[Array, Array],
        rows: ArrayRows,
        cluster: str | None,
        train_counts: Tensor | None,
        exempt_target: bool,
    ) -> None:
        self._kind = cluster or "user"
        if self._kind not in rows.kinds:
            raise ValueError(
                f"`groups` must have the key {self._kind!r} if there is a `history`, got "
                f"{list(rows.groups)}: limits are those of users."
            )
        self._limits = analysis.predictability(*history)
        self._exempt_target = exempt_target
        enough = zip(self._limits.users, (~self._limits.few_visits).tolist(), strict=True)
        number = {str(user): row for row, (user, is_kept) in enumerate(enough) if is_kept}
        names = rows.kinds[self._kind].labels.names
        self._number = torch.tensor([number.get(name, -1) for name in names], dtype=torch.int64)
        self._baseline = None
        if train_counts is not None:
            self._baseline = analysis.most_frequent(train_counts, 1)
        named = ["model"] if train_counts is None else ["most frequent", "model"]
        size = len(self._limits.users)
        self._metrics = {name: Grouped(AccuracyAtK(1), size, average="groups") for name in named}
        plain = rows.exclude is None and not rows.has_several
        self._candidates = rows.num_candidates if plain else None

    def add(self, batch: Batch) -> None:
        """Count the queries of the users who are not flagged."""
        kind: Kind = batch.groups[self._kind]  # type: ignore[index, call-overload, assignment]
        users = self._number[kind.numbers]
        mask = users >= 0 if batch.mask is None else (users >= 0) & batch.mask
        for name, metric in self._metrics.items():
            preds = batch.preds
            if name == "most frequent" and self._baseline is not None:
                preds = self._baseline.expand(len(batch.target), -1)
            options = {"exclude": batch.exclude, "exempt_target": self._exempt_target}
            metric.update(preds, batch.target, mask, users.clamp(min=0), **options)

    def result(self, confidence: float) -> Ceiling:
        """Return the rows; users without a query are flagged."""
        has_query = self._metrics["model"].numbers()[0] > 0
        limits = replace(self._limits, few_visits=self._limits.few_visits | ~has_query)
        rows = {}
        if self._candidates is not None:
            rows["chance"] = Reading(1 / self._candidates, None, True)
        for name, metric in self._metrics.items():
            low, high = metric.interval(confidence)
            rows[name] = Reading(float(metric.compute()), (float(low), float(high)), True)
        means = limits.means(confidence)
        for name, mean in {"limit of shuffled visits": "shuffled", "limit": "limit"}.items():
            value, *bounds = means[mean]
            rows[name] = Reading(value, (bounds[0], bounds[1]), True)
        return Ceiling(limits, rows, confidence)
