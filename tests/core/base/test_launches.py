"""The operations that an update launches on a device are no more than they were."""

from collections import Counter
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from nextloc_metrics import AccuracyAtK, PopularityBins, decile_metrics, next_location_metrics

#: operations that make another view or an empty tensor launch nothing
FREE = {"view", "unbind", "select", "slice", "expand", "unsqueeze", "alias", "split", "permute"}
FREE |= {"detach", "unfold", "t", "empty", "_unsafe_view", "squeeze"}

BINS = PopularityBins.from_counts(range(1, 3001))


class Launches(TorchDispatchMode):
    """Count the operations that launch something, by their names."""

    def __init__(self) -> None:
        super().__init__()
        self.names: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count one operation, and run it."""
        self.names[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("metric", "most"),
    [
        (AccuracyAtK(5, validate_args=False), 47),
        (next_location_metrics(3000, validate_args=False), 83),
        # on a device, tied blocks that cross rank k are ordered by id whether there are any or not
        (decile_metrics(BINS, validate_args=False), 295),
    ],
    ids=["AccuracyAtK", "next locations", "deciles"],
)
def test_an_update_launches_few_operations(
    metric: Any, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tensors without values are counted, which nobody may read, as on a device."""
    metric = metric.to("meta")
    scores = torch.empty(256, 3000, device="meta")
    target = torch.empty(256, dtype=torch.int64, device="meta")
    monkeypatch.setattr(torch, "equal", lambda *_: True)  # zero states, which members share
    metric.update(scores, target)
    with Launches() as launches:
        metric.update(scores, target)
    found = {name: number for name, number in launches.names.items() if name not in FREE}
    assert sum(found.values()) <= most, found
