"""The options of an evaluation, and which kind of batch it counts: counts of equal ones add up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from nextloc_metrics.arguments.messages import short

# How a setting names excluded candidates that leave the targets, and confidences of lists.
EXEMPT = "given ids, but not the targets"
CONFIDENCE = "confidence"


class Form(NamedTuple):
    """Which kind of batch is counted; `Setting` says what each field is."""

    candidates: int | None
    has_several: bool
    groups: tuple[str, ...]
    exclude: bool
    confidence: bool
    weights: bool

    def describe(self) -> str:
        """Return what predictions and targets are, as text."""
        preds = "lists of ids" if self.candidates is None else f"scores of {self.candidates} ids"
        return f"{preds} and {'several ids' if self.has_several else 'one id'} as `target`"


@dataclass(frozen=True)
class Setting:
    """The options of an evaluation. Counts with equal settings add up.

    What is not here is as in `Options`; `bins`, `train_counts`, `vocabulary`, `locations` and
    `history` are digests, "" for none.

    Attributes:
        num_locations: the number of ids for F1; None if several locations may be relevant.
        known_locations: the number of ids, if the user passed it.
        candidates: the number of scores per row; None for lists.
        groups: the names of the groups, such as "user".
        exclude: the excluded candidates: "none", "given ids" or "given ids, but not the targets".
        probabilities: what scores are, or "confidence" for lists with the confidence of each
            answer; "" for no metrics of probabilities.
        measures: the measures by name; empty for the presets.
        metrics: the further metrics: their names, with those of their states.
        is_weighted: whether queries have weights.
    """

    k: tuple[int, ...]
    num_locations: int | None
    known_locations: int | None
    candidates: int | None
    groups: tuple[str, ...]
    cluster: str | None
    confidence_level: float
    exclude: str
    bins: str
    train_counts: str
    vocabulary: str
    locations: str
    km: float
    probabilities: str = ""
    measures: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    is_weighted: bool = False
    history: str = ""

    @property
    def form(self) -> Form:
        """The kind of batch that has this setting."""
        several, excluded = self.num_locations is None, self.exclude != "none"
        confidence = self.probabilities == CONFIDENCE
        return Form(self.candidates, several, self.groups, excluded, confidence, self.is_weighted)

    def options(self) -> dict[str, Any]:
        """Return the options of an `Evaluator` whose batches have this setting."""
        given = "" if self.probabilities == CONFIDENCE else self.probabilities
        return {**vars(self), "probabilities": given, "exempt_target": self.exclude == EXEMPT}

    @property
    def by_user(self) -> str:
        """The name of the groups that are users."""
        return self.cluster or "user"

    @property
    def chance_varies(self) -> bool:
        """Whether queries differ in their number of candidates or relevant locations."""
        return self.exclude != "none" or self.num_locations is None


def check_alike(
    first_name: str, first: Mapping[str, Any], name: str, other: Mapping[str, Any]
) -> None:
    """Raise if two shards have different settings."""
    for option, a in first.items():
        if a != (b := other[option]):
            remedy = ""
            if option in ("num_locations", "history", "metrics"):
                remedy = f"; pass the same `{option}` to all of them"
            if option == "vocabulary":
                remedy = "; read all of them with the same `vocabulary`"
            raise ValueError(
                f"shards must agree on `{option}`, got {short(a)} in {first_name} and "
                f"{short(b)} in {name}{remedy}."
            )
