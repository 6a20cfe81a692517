"""F1 over locations, of the best candidate as a decision."""

from typing import Any, Literal

import torch
from torch import Tensor

from nextloc_metrics import exact
from nextloc_metrics.counting import loops_over_places
from nextloc_metrics.devices import waits_to_look
from nextloc_metrics.metric import RankingTally, check_choice, check_positive
from nextloc_metrics.ranking import Ranking

Average = Literal["weighted", "macro", "micro"]


class LocationF1(RankingTally):
    r"""F1 score per location, of the best candidate as the model's decision.

    For a location, F1 = 2 TP / (P + S): of the P queries that decided for it and the S queries
    whose target it is (its support), TP are the same. The average is over the locations that
    occur, as scikit-learn's `f1_score` takes it; the memory is three integers per location.

    Of tied best candidates the lowest id is the decision, as in `argmax`; it is the only metric
    here that depends on ids under ties. A row whose scores contain NaN, or nothing above -inf,
    decides nothing: it counts in support only. So does a list that begins with an id of no
    location, such as a language model's invention; `num_invented` counts these.

    Weighting by support lets frequent locations dominate; `"macro"` keeps them from it.

    Args:
        num_locations: how many ids there are, 0 to `num_locations` - 1.
        average: `"weighted"`, by support; `"macro"`, the plain mean; `"micro"`, of all queries
            together; None, one value a location, NaN where it does not occur.
        kwargs: `ignore_index`, `validate_args`, and TorchMetrics' own keyword arguments.

    Raises:
        ValueError: `num_locations` is not a positive integer, or `average` is unknown; in `update`,
            more candidates than locations, or, where `validate_args`, several relevant locations
            in a query.

    Example:
        >>> from torch import tensor
        >>> f1 = LocationF1(num_locations=3)
        >>> decisions = tensor([[0], [0], [1], [2]])  # lists of one id
        >>> f1.update(decisions, tensor([0, 1, 1, 1]))
        >>> f1.compute()  # F1 of 0: 2/3, of 1: 2/4; support 1 and 3
        tensor(0.5417)
    """

    plot_legend_name = "location"
    computed_options = frozenset({"average"})

    def __init__(
        self, num_locations: int, average: Average | None = "weighted", **kwargs: Any
    ) -> None:
        if average is not None:
            check_choice("average", average, Average)
        super().__init__(
            num_locations=check_positive("num_locations", num_locations), average=average, **kwargs
        )

    num_locations: int
    average: Average | None

    @property
    def top(self) -> int:
        """The best candidate is the decision."""
        return 1

    @property
    def best_only(self) -> bool:
        """A tie for the first place is decided, for the lowest id."""
        return True

    @property
    def plot_label(self) -> str:
        """F1, and which average of it."""
        return f"F1, {self.average}" if self.average else "F1"

    def empty_tally(self) -> Tensor:
        """Return zeros for true positives, decisions and support of every location, and of none."""
        return torch.zeros(3, self.num_locations + 1, dtype=torch.int64)

    def check(self, ranking: Ranking) -> None:
        """Raise where this metric cannot be updated with the ranking."""
        super().check(ranking)
        candidates = ranking.num_candidates
        if candidates is not None and candidates > self.num_locations:
            raise ValueError(
                f"`num_locations` must be at least the number of candidates, got "
                f"{self.num_locations} for {candidates} candidates."
            )
        if self.validate_args and len(ranking) and ranking.relevant.shape[1] > 1:
            most = int(ranking.num_relevant.max())
            if most > 1:
                raise ValueError(
                    "`target` must hold one relevant location per query for "
                    f"{type(self).__name__}, got up to {most}; use F1AtK for several."
                )
        # whatever may be looked at is: an id too large would be counted for another location
        waits = waits_to_look(ranking.above)
        if len(ranking) and (not waits or (self.validate_args and candidates is None)):
            highest = int(ranking.relevant.max())
            if highest >= self.num_locations:
                raise ValueError(
                    f"`target` must be below `num_locations`, {self.num_locations}, got {highest}."
                )

    def tally(self, ranking: Ranking) -> Tensor:
        """Count true positives, decisions and support of every location."""
        state = self.empty_tally().to(ranking.device)
        self._count(state, *self._decisions(ranking))
        return state

    @property
    def one_pass(self) -> int | None:
        """The number of locations, where a subclass counts nothing else."""
        return self.num_locations if type(self) is LocationF1 else None

    def _count(self, state: Tensor, target: Tensor, decided: Tensor) -> None:
        """Write decisions into a state."""
        decided = decided.clamp(max=self.num_locations)
        loops = loops_over_places(state)
        if loops is not None:
            loops.count_decisions(state, target, decided)
            return
        decided = torch.where(target >= 0, decided, -1)
        ids = torch.stack([torch.where(target == decided, target, -1), decided, target])
        row = torch.arange(3, device=ids.device)[:, None] * state.shape[1]
        cells, known = (row + ids.clamp(min=0)).flatten(), (ids >= 0).long().flatten()
        state.view(-1).index_add_(0, cells, known)

    def compute(self) -> Tensor:
        """Return the averaged F1, or that of every location; NaN without a query."""
        state = exact.float64(self.state)
        true_positives, decisions, support = state[:, : self.num_locations].unbind()
        if self.average == "micro":
            score = 2 * true_positives.sum() / state[1:].sum()  # invented decisions are wrong ones
        else:
            score = 2 * true_positives / (decisions + support)
        if self.average == "weighted":
            score = (score.nan_to_num() * support).sum() / support.sum()
        if self.average == "macro":
            score = score.nanmean()
        return score.float().to(self.state.device)

    @property
    def num_queries(self) -> int:
        """How many queries this process has counted."""
        return int(self.state[2].sum())

    @property
    def num_invented(self) -> int:
        """How many lists of this process begin with an id that is no location."""
        return int(self.state[1, self.num_locations])

    @staticmethod
    def _decisions(ranking: Ranking) -> tuple[Tensor, Tensor]:
        """Return every query's target and best candidate, -1 where there is none."""
        return ranking.relevant[:, 0], ranking.best
