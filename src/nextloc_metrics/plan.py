"""The plan of an update: what several metrics need from a batch, computed once for all batches."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nextloc_metrics import backends
from nextloc_metrics.arrays import Array, as_tensor, as_tensor_or_text
from nextloc_metrics.messages import short
from nextloc_metrics.ranking import Ranking
from nextloc_metrics.scoring import Formula, for_one_relevant

if TYPE_CHECKING:
    from nextloc_metrics.metric import RankingTally

# Subclasses of tensors may have no plain memory.
_PLAIN = Tensor, torch.nn.Parameter


class Plan:
    """Rank a batch once for several metrics, and update all of them or none.

    Metrics with the same state name have equal summands. Each of these *kinds* is checked and
    tallied once per batch.

    Args:
        members: metrics with equal `ignore_index`.
    """

    def __init__(self, members: Sequence[RankingTally]) -> None:
        self.members = tuple(members)
        kinds = {member.state_name: member for member in members}
        self.kinds = tuple(kinds.values())
        numbers = {name: number for number, name in enumerate(kinds)}
        self._kind_of = [numbers[member.state_name] for member in members]
        self.ignore_index = next((member.ignore_index for member in members), None)
        self.validate_args = any(member.validate_args for member in members)
        self.top = max((member.top for member in members), default=0)
        self.best_only = all(member.best_only for member in members if member.top)
        self.keep_scores = any(member.keeps_scores for member in members)
        self._grouped: list[Any] = [member for member in members if hasattr(member, "num_groups")]
        self._kinds_of_groups = {(member.by, member.num_groups) for member in self._grouped}
        self._formulas = _read_formulas(self.kinds)
        depths = [member.depth for member in members]
        known = [depth for depth in depths if depth is not None]
        self.depth = max(known, default=None) if len(known) == len(depths) else None

    def serves(self, members: Sequence[RankingTally]) -> bool:
        """Whether the plan was made for these metric objects, in this order."""
        return len(members) == len(self.members) and all(map(operator.is_, members, self.members))

    def rank(
        self,
        preds: Array | Ranking,
        target: Array | None,
        mask: Array | None,
        groups: Array | Mapping[str, Array] | None = None,
        exclude: Array | None = None,
        exempt_target: bool = False,
    ) -> Ranking:
        """Return `preds` if it is a `Ranking`, or make a ranking for all metrics."""
        if isinstance(preds, Ranking):
            if target is not None or mask is not None or exclude is not None:
                raise ValueError(
                    "a Ranking already holds its `target`, `mask` and `exclude`; pass it alone."
                )
            return self._with_groups(preds, groups)
        if target is None:
            raise ValueError("`target` must be given with `preds`, unless `preds` is a Ranking.")
        ranking = Ranking.from_predictions(
            *self._read(preds, target),
            mask,
            exclude=exclude,
            exempt_target=exempt_target,
            ignore_index=self.ignore_index,
            validate_args=self.validate_args,
            top=self.top,
            depth=self.depth,
            best_only=self.best_only,
            keep_scores=self.keep_scores,
        )
        return self._with_groups(ranking, groups)

    def _read(self, preds: Array, target: Array) -> tuple[Tensor, Tensor]:
        """Convert arrays to tensors on the metrics' device."""
        device = self.members[0].state.device if self.members else None
        return as_tensor("preds", preds, device), as_tensor("target", target, device)

    def _with_groups(self, ranking: Ranking, groups: Array | Mapping[str, Array] | None) -> Ranking:
        if isinstance(groups, Mapping):
            named = {name: self._number(name, x, ranking) for name, x in groups.items()}
            ranking = ranking.with_groups(named)
        elif groups is not None:
            ranking = ranking.with_groups(self._number(None, groups, ranking))
        if "" in ranking.groups and len(self._kinds_of_groups) > 1:
            raise ValueError(
                "`groups` without names fits only one kind of `Grouped` members, got (by, "
                f"num_groups) {short(sorted(self._kinds_of_groups, key=str))}; give each a `by=`, "
                "and pass `groups={name: ...}`."
            )
        return ranking

    def _number(self, name: str | None, groups: Array, ranking: Ranking) -> Tensor:
        """Replace text labels by numbers, with the labels of the members grouped by them."""
        text = as_tensor_or_text("groups", groups, ranking.device)
        if isinstance(text, Tensor):
            return text
        found = [member.labels for member in self._grouped if name in (None, member.by)]
        if not found or found[0] is None or any(labels != found[0] for labels in found):
            raise TypeError(
                f"`groups` must be integers, got text {short(text[:3])}; to use text, pass the "
                "same `labels=GroupLabels.from_values(...)` to all members grouped by it."
            )
        if len(text) == len(ranking):  # the text of a query that is left out is not read
            counted = ranking.counted.tolist()
            any_name = found[0].names[0]
            text = [one if read else any_name for one, read in zip(text, counted, strict=True)]
        return found[0].number(text).to(ranking.device)  # type: ignore[no-any-return]

    def update(
        self,
        preds: Array | Ranking,
        target: Array | None,
        mask: Array | None,
        groups: Array | Mapping[str, Array] | None = None,
        exclude: Array | None = None,
        exempt_target: bool = False,
        *,
        count: bool,
    ) -> None:
        """Add a batch to all metrics, or raise and change none.

        Args:
            preds: as for `RankingMetric.update`.
            target: as for `RankingMetric.update`.
            mask: as for `RankingMetric.update`.
            groups: the group of every query.
            exclude: as for `RankingMetric.update`.
            exempt_target: as for `RankingMetric.update`.
            count: whether to count an update of each metric and clear its cached value.
        """
        tallies = None
        if not isinstance(preds, Ranking) and target is not None:
            preds, target = self._read(preds, target)
        if mask is None and groups is None and exclude is None:
            tallies = self._tally_scores(preds, target)
        if tallies is None:
            tallies = self.tally(self.rank(preds, target, mask, groups, exclude, exempt_target))
        self._add(tallies, count)

    def tally(self, ranking: Ranking) -> list[Tensor]:
        """Return the batch's summand for each kind, or raise if a kind refuses the batch."""
        for member in self.kinds:
            member.check(ranking)
        families: dict[Any, list[int]] = {}
        for number, member in enumerate(self.kinds):
            families.setdefault(type(member).tallies, []).append(number)
        found: dict[int, Tensor] = {}
        for tallies, numbers in families.items():
            of_kinds = tallies([self.kinds[number] for number in numbers], ranking)
            found.update(zip(numbers, of_kinds, strict=True))
        return [found[number] for number in range(len(self.kinds))]

    def _tally_scores(self, preds: Any, target: Any) -> list[Tensor] | None:
        """Fused update: tally in one pass if every query has one relevant location.

        Returns None where this is not possible; a `Ranking` then serves, and raises errors.
        """
        if not self._formulas or type(preds) not in _PLAIN or type(target) not in _PLAIN:
            return None
        formulas = tuple(one for one in self._formulas if not isinstance(one, int))
        num_locations = next((one for one in self._formulas if isinstance(one, int)), None)
        if (
            preds.ndim != 2
            or not preds.is_floating_point()
            or target.dtype != torch.int64
            or target.shape != preds.shape[:1]
            or target.device != preds.device
            or preds.is_neg()
            or target.is_neg()
            or (num_locations is not None and preds.shape[1] > num_locations)
            or any(member.state.device != preds.device for member in self.kinds)
        ):
            return None
        backend = backends.choose(preds)
        constants = for_one_relevant(formulas, preds.shape[1]) if backend.tallies_scores else None
        if constants is None:
            return None
        found = backend.tally_scores(preds, target, self.ignore_index, constants, num_locations)
        if found is None:
            return None
        sums = iter(found[0])
        return [
            found[1] if isinstance(one, int) else next(sums)  # type: ignore[misc]
            for one in self._formulas
        ]

    def _add(self, tallies: Sequence[Tensor], count: bool) -> None:
        """Add the summands of the kinds to the states of all metrics."""
        changes: list[dict[str, Any]] = []
        made: dict[tuple[int, int], Tensor] = {}  # keeps shared states shared
        for member, kind in zip(self.members, self._kind_of, strict=True):
            own = vars(member)
            held = own[member.state_name]
            if (id(held), kind) not in made:
                made[id(held), kind] = held + tallies[kind]
            change: dict[str, Any] = {member.state_name: made[id(held), kind]}
            if count:
                change |= {"_update_count": own["_update_count"] + 1, "_computed": None}
            changes.append(change)
        # one call in C, so that an interrupt cannot update only some metrics
        deque(map(dict.update, map(vars, self.members), changes), maxlen=0)


def _read_formulas(kinds: Sequence[RankingTally]) -> tuple[Formula | int, ...]:
    """Return each kind's `one_pass`: a formula, or the number of locations of decisions.

    Empty if a kind has neither, if two count decisions, or if no kind has a formula.
    """
    formulas = [member.one_pass for member in kinds]
    known = tuple(formula for formula in formulas if formula is not None)
    decisions = sum(isinstance(formula, int) for formula in known)
    return known if len(known) == len(kinds) > decisions <= 1 else ()
