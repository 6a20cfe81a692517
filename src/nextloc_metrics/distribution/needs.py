"""What metrics of probabilities read of a batch: one value, merged over metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nextloc_metrics.arguments.messages import short

Given = Literal["logits", "log_probabilities", "probabilities"]


@dataclass(frozen=True)
class DistributionNeeds:
    """What a metric reads of a `Distribution`; `a | b` serves both metrics.

    Attributes:
        given: what scores are; None reads logits, and refuses rows that look like probabilities.
        temperature: by which logits are divided.
        likelihood: whether the probabilities of all candidates are read, and not the confidence
            only.
        masses: the masses of the prediction sets whose sizes are read.
        scores: whether the scores of all candidates are kept.
    """

    given: Given | None = None
    temperature: float = 1.0
    likelihood: bool = True
    masses: frozenset[float] = frozenset()
    scores: bool = False

    def __or__(self, other: DistributionNeeds) -> DistributionNeeds:
        """Return the needs of both metrics.

        Raises:
            ValueError: they read scores in different ways.
        """
        for name in ("given", "temperature"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise ValueError(
                    f"`{name}` must be equal for all metrics of probabilities in a collection, got "
                    f"{short(mine)} and {short(theirs)}; use two collections."
                )
        return DistributionNeeds(
            self.given,
            self.temperature,
            self.likelihood or other.likelihood,
            self.masses | other.masses,
            self.scores or other.scores,
        )
