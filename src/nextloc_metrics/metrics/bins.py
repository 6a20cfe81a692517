"""The popularity bin (decile) of every location, from its visits in the training data."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from nextloc_metrics.core.base.annotated_options import describe_option
from nextloc_metrics.core.queries.arrays import Array, as_tensor
from nextloc_metrics.core.queries.checks import check_choice, check_positive, is_integer, or_none
from nextloc_metrics.core.queries.messages import describe, read_row

By = Literal["mass", "items"]

# Up to this number, bins may be empty; a table with gaps and a larger number holds visits.
_MOST_WITH_GAPS = 10


class PopularityBins(torch.nn.Module):
    r"""A table of every location's popularity bin: 1 the rarest, `num_bins` the most popular.

    Bin 0 is `unmapped`: locations without a visit in the training data. The table moves with
    `.to(device)` and is not part of a `state_dict`.

    Args:
        bin_of: integer `[C]`, the bin of each location, from 0 (unmapped) to `num_bins`.
        num_bins: the number of bins, without bin 0; None for the highest in `bin_of`, if this is at
            most 10 or no bin below it is empty.

    `counts`, int64 `[C]`, and `by` are `train_counts` and `by` of `from_counts`, or None.

    Example:
        >>> bins = PopularityBins.from_counts([50, 30, 10, 5, 5, 0], num_bins=2)
        >>> bins.bin_of  # 20 visits are below the location with 30 visits, 50 above
        tensor([2, 1, 1, 1, 1, 0])
        >>> bins
        PopularityBins(num_bins=2, by='mass')
             bin  locations  visits  visits each
        unmapped          1       0            0
               1          4      50         5-30
               2          1      50           50
    """

    bin_of: Tensor
    counts: Tensor | None

    def __init__(self, bin_of: Tensor | Sequence[int], num_bins: int | None = None) -> None:
        super().__init__()
        table = read_integers("bin_of", bin_of)
        highest = int(table.max())
        num_bins = or_none(check_positive)("num_bins", num_bins)
        if num_bins is None:
            num_bins = max(1, highest)
            used = int(torch.unique(table[table > 0]).numel())
            if highest > _MOST_WITH_GAPS and used < highest:  # these are visits, not bins
                raise ValueError(
                    f"`bin_of` must use each of more than {_MOST_WITH_GAPS} bins unless `num_bins` "
                    f"is given, got {used} different bins up to {highest}; make bins of visits by "
                    "`PopularityBins.from_counts(counts)`."
                )
        self.num_bins = num_bins
        if highest > num_bins:
            raise ValueError(f"`bin_of` must be at most `num_bins`, {num_bins}, got {highest}.")
        self.by: By | None = None
        self.register_buffer("bin_of", table, persistent=False)
        self.register_buffer("counts", None, persistent=False)

    @classmethod
    def from_counts(
        cls, train_counts: Tensor | Sequence[int], num_bins: int = 10, by: By = "mass"
    ) -> "PopularityBins":
        r"""Divide the locations into bins by their visits in the training data.

        Locations with equally many visits form a block. All of them are in one bin:
        min(floor(num_bins x below / (below + above)), num_bins - 1) + 1. `below` is the size of
        all rarer blocks together, `above` that of all more popular blocks, in visits or locations.
        The rarest block is in bin 1, and the most popular or only block in the last bin. A bin
        between may be empty. The bins do not depend on ids.

        Args:
            train_counts: integer `[C]`, the visits of every location; without one, `unmapped`.
            by: what the bins share about equally: `"mass"`, visits; `"items"`, locations.
        """
        check_choice("by", by, By)
        num_bins = check_positive("num_bins", num_bins)
        counts = read_integers("train_counts", train_counts)
        if num_bins * float(counts.double().sum()) >= 2**62:
            raise ValueError("`train_counts` must add up to less than 2^62 / `num_bins`.")
        values, block, sizes = torch.unique(counts, return_inverse=True, return_counts=True)
        weight = sizes * values if by == "mass" else sizes * (values > 0)
        up_to = weight.cumsum(0)
        below, above = up_to - weight, up_to[-1] - up_to
        last = num_bins - 1
        bins = torch.where(
            below + above > 0, num_bins * below // (below + above).clamp(min=1), last
        )
        table = cls(((bins.clamp(max=last) + 1) * (values > 0))[block], num_bins)
        table.by, table.counts = by, counts
        return table

    def of(self, ids: Array) -> Tensor:
        """Return the bins of ids; `num_bins` + 1 for padding (-1) and ids that are no location."""
        ids = as_tensor("ids", ids, self.bin_of.device)
        inside = (ids >= 0) & (ids < len(self))
        return self.bin_of[torch.where(inside, ids, 0)].masked_fill(~inside, self.num_bins + 1)

    @property
    def sizes(self) -> list[int]:
        """The number of locations of each bin, unmapped first."""
        return self.bin_of.bincount(minlength=self.num_bins + 1).tolist()

    def state_key(self) -> str:
        """Return the number of bins and the table as text, for the names of states."""
        return f"num_bins={self.num_bins}, bin_of={describe_option(self.bin_of)}"

    def __len__(self) -> int:
        return self.bin_of.shape[0]

    def __repr__(self) -> str:
        by = "" if self.by is None else f", by={self.by!r}"
        rows = [["bin", "locations"] + (["visits", "visits each"] if self.by else [])]
        for number in range(self.num_bins + 1):
            inside = self.bin_of == number
            rows.append([str(number or "unmapped"), str(int(inside.sum()))])
            if self.counts is not None:
                visits = self.counts[inside]
                low, high = map(int, visits.aminmax()) if visits.numel() else ("", "")
                rows[-1] += [str(int(visits.sum())), f"{low}" if low == high else f"{low}-{high}"]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.rjust, row, widths)) for row in rows]
        return "\n".join([f"PopularityBins(num_bins={self.num_bins}{by})", *lines])


def read_visits(name: str, values: Tensor | Sequence[int]) -> Tensor:
    """Return the visits of each location, int64 `[C]` on the CPU, or raise."""
    return read_integers(name, values).cpu()


#: an option that takes the visits of each location in the training data
TrainCounts = Annotated[Any, read_visits]


def read_integers(name: str, values: Tensor | Sequence[int]) -> Tensor:
    """Return one row of integers of at least 0, int64, or raise."""
    row = read_row(name, values)
    if row.ndim != 1 or not row.numel() or not is_integer(row):
        raise ValueError(f"`{name}` must be one row of integers, got {describe(row)}.")
    row = row.long().clone()
    if int(row.min()) < 0:
        raise ValueError(f"`{name}` must be at least 0, got {int(row.min())}.")
    return row
