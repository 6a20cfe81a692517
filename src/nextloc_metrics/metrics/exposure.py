"""Which locations a model predicts, by popularity: share of predictions, and coverage."""

from dataclasses import KW_ONLY
from typing import Any, Literal

import torch
from torch import Tensor

from nextloc_metrics.core.base.annotated_options import Computed
from nextloc_metrics.core.means import exact
from nextloc_metrics.core.ranking.needs import Needs
from nextloc_metrics.core.ranking.ranking import Ranking
from nextloc_metrics.metrics.bins import PopularityBins
from nextloc_metrics.metrics.deciles import DecileAtK
from nextloc_metrics.metrics.split import Split


class DecilePredictionShare(DecileAtK):
    r"""The share of all k x N predictions that falls into each popularity bin.

    The predictions are the first `k` ranks of the full lists of N queries. The shares add up to
    less than 1 if a rank is in no bin: a rank without a candidate, or an id that is no location,
    such as an invention of a language model; `num_invented` counts these ids. Of a tied block that
    crosses rank `k`, the lowest ids are taken, to fill exactly `k` ranks.

    Example:
        >>> from torch import tensor
        >>> share = DecilePredictionShare(PopularityBins([2, 2, 1, 1]), k=3, decile=2)
        >>> share.update(tensor([[0, 2, 1, 3]]), tensor([1]))
        >>> share.compute()  # 0 and 1, of 3
        tensor(0.6667)
    """

    higher_is_better = None
    stem = "prediction_share"

    _: KW_ONLY
    scope: Literal["all"] = "all"

    @property
    def cut(self) -> int:
        return min(self.k, self.candidates)

    @property
    def needs(self) -> Needs:
        return Needs(self.cut)

    def empty_state(self) -> Tensor:
        """Return zeros: predictions per bin, invented ids, and all predictions."""
        return torch.zeros(self.bins.num_bins + 3, dtype=torch.int64)

    def tally(self, ranking: Ranking) -> Tensor:
        ids = ranking.top_candidates(self.cut).ids.masked_fill(~ranking.counted[:, None], -1)
        bins = self.bins.of(ids).flatten()
        counts = torch.zeros(self.bins.num_bins + 3, dtype=torch.int64, device=bins.device)
        counts.index_add_(0, bins, torch.ones_like(bins))
        counts[-2] = (ids >= len(self.bins)).sum()
        counts[-1] = ranking.counted.sum() * self.k
        return counts

    def values(self) -> Tensor:
        counts = exact.float64(self.state)
        return (counts[:-2] / counts[-1]).roll(-1)

    @property
    def num_invented(self) -> int:
        """The number of predictions in this process whose id is no location."""
        return int(self.state[-2])


class DecileCoverage(DecileAtK):
    r"""The share of distinct locations in a popularity bin predicted correctly at least once.

    A location is predicted correctly if, for a query to which it is relevant, it is within the
    first `k` candidates of its own bin, or with `scope="all"` of all bins. A tied block must be
    within them completely. `"overall"`, as a key or as `decile`, is the value of all bins together.

    Args:
        denominator: `"actual"`, the distinct locations that occur as relevant; `"mapped"`, all
            locations that have a bin (`unmapped` is then NaN and not part of the overall value).

    Example:
        >>> from torch import tensor
        >>> coverage = DecileCoverage(PopularityBins([2, 2, 1, 1]), k=1, decile="overall")
        >>> coverage.update(tensor([[0, 2, 1, 3]]), tensor([[1, 2]]))
        >>> coverage.compute()  # 2 leads its bin's list, 1 does not
        tensor(0.5000)
    """

    stem = "coverage"

    denominator: Computed[Literal["actual", "mapped"]] = "actual"

    def key(self, decile: Any) -> str:
        return self.name if decile == "overall" else super().key(decile)

    def is_fixed(self, num_locations: int) -> bool:
        return num_locations <= self.k and self.denominator == "actual"

    def sizes_of(self, decile: Any) -> list[int]:
        if decile != "overall":
            return super().sizes_of(decile)
        used = {*self.bins.bin_of[self.state[0] > 0].tolist()}
        return [self.bins.sizes[number] for number in used]

    def empty_state(self) -> Tensor:
        """Return zeros: how often each location is relevant, and how often predicted correctly."""
        return torch.zeros(2, len(self.bins), dtype=torch.int64)

    def tally_split(self, split: Split) -> Tensor:
        ids = split.within.relevant
        relevant = ids >= 0
        correct = relevant & (split.within.above + split.within.tied <= self.k)
        counts = torch.zeros(2 * len(self.bins), dtype=torch.int64, device=ids.device)
        cells = torch.cat([ids.clamp(min=0), ids.clamp(min=0) + len(self.bins)])
        added = torch.cat([relevant, correct]).long()
        return counts.index_add(0, cells.flatten(), added.flatten()).view(2, -1)

    def values(self) -> Tensor:
        occurs, covered = self.state > 0
        mapped = self.bins.bin_of > 0
        if self.denominator == "mapped":
            occurs, covered = mapped, covered & mapped
        bins, sizes = self.bins.bin_of, self.bins.num_bins + 1
        parts = torch.stack([bins[x].bincount(minlength=sizes) for x in (covered, occurs)])
        parts = torch.cat([parts.sum(1, keepdim=True), parts.roll(-1, 1)], 1)
        covered, occurs = exact.float64(parts).unbind()
        return (covered / occurs).masked_fill(self.state[0].sum() == 0, torch.nan)

    @classmethod
    def deciles(cls, bins: PopularityBins) -> list[Any]:
        return ["overall", *super().deciles(bins)]
