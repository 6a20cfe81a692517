"""The distance that is expected under the probabilities of a model."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated

import torch
from torch import Tensor

from nextloc_metrics.core.base.distribution_metric import DistributionMean
from nextloc_metrics.core.distribution.distribution import Distribution, DistributionNeeds
from nextloc_metrics.geography.locations import Locations, check_locations


class ExpectedDistance(DistributionMean):
    r"""Expected distance to the target in km: the sum over candidates of p_i d(i, target).

    It is the mean error of a model that draws its answer by its probabilities. It judges all of
    them, not only the best candidate. A row with NaN or infinity has the largest distance (20,015.2
    km on the Earth).

    Args:
        locations: the coordinates. A candidate without coordinates must have the probability 0.

    Example:
        >>> from torch import tensor
        >>> locations = Locations.from_plane([0, 3000], [0, 4000])
        >>> distance = ExpectedDistance(locations, given="probabilities")
        >>> distance.update(tensor([[0.75, 0.25]]), tensor([0]))
        >>> distance.compute()  # 0.25 of 5 km
        tensor(1.2500)

    Source: T. Gneiting and A. E. Raftery, "Strictly proper scoring rules, prediction, and
    estimation", JASA 102, 2007: the first term of the energy score.
    """

    largest_value = math.inf
    higher_is_better = False
    plot_upper_bound = None
    label = "expected distance"
    unit = "km"
    locations: Annotated[Locations, check_locations]

    @property
    def needs(self) -> DistributionNeeds:
        return replace(super().needs, scores=True)

    def check(self, record: Distribution) -> None:
        self.locations.check_size(record.num_candidates)
        rows = record.counted.nonzero()[:, 0]
        remedy = "leave it out with `mask`"
        self.locations.check_known("target", record.target[rows, None], remedy, rows)

    def score(self, record: Distribution) -> Tensor:
        device = self.locations.points.device
        scores, begin, largest = [], 0, self.locations.largest
        for part in record.all_probabilities():
            probabilities, rows = part.to(device), slice(begin, begin + len(part))
            target = record.target[rows, None].to(device)
            distance = self.locations.distance(slice(part.shape[1]), target)
            if self.validate_args and not self.locations.is_complete:
                # a target that does not count may have no coordinates
                missing = distance.isnan() & record.counted[rows, None].to(device)
                if (wrong := missing & (probabilities > 0)).any():
                    row, candidate = wrong.nonzero()[0].tolist()
                    raise ValueError(
                        f"`preds` must hold probability 0 for candidates without coordinates, got "
                        f"{float(probabilities[row, candidate]):.3g} for {candidate} in query "
                        f"{begin + row}."
                    )
            broken = probabilities[:, 0].isnan()
            total = distance.mul_(probabilities).nan_to_num_(nan=0).sum(1)
            scores.append(total.masked_fill(broken, largest))
            begin += len(part)
        return torch.cat(scores)
