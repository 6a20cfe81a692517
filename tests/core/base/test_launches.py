"""An update launches no more operations, and waits for the device no more often, than released.

A release writes its counts into `RELEASED`: `pytest tests/core/base/test_launches.py -s` prints
them beside those of the last one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    PopularityBins,
    Ranking,
    RankingCollection,
    RankingMetric,
    backends,
    decile_metrics,
    next_location_metrics,
    recommendation_metrics,
)

pytestmark = pytest.mark.skipif(
    not torch.__version__.startswith("2.13"), reason="the counts are those of PyTorch 2.13"
)

#: operations that make another view or an empty tensor launch nothing
FREE = {"view", "unbind", "select", "slice", "expand", "unsqueeze", "alias", "split", "permute"}
FREE |= {"detach", "unfold", "t", "empty", "_unsafe_view", "squeeze"}
#: operations whose result, or its shape, the process waits for
WAITING = {"_local_scalar_dense", "equal", "nonzero", "masked_select", "_unique2", "unique_dim"}
WAITING |= {"unique_consecutive", "is_nonzero"}

LOCATIONS = 3000
BINS = PopularityBins.from_counts(range(1, LOCATIONS + 1))


def batch(name: str) -> dict[str, Tensor]:
    """256 queries without ties, with one target, or with four."""
    target = torch.stack([torch.randperm(LOCATIONS)[:4] for _ in range(256)])
    scores = torch.rand(256, LOCATIONS).argsort(1).float()
    if name == "several targets":
        return {"preds": scores, "target": target}
    excluded = {"exclude": target[:, 1:]} if name == "exclude" else {}
    return {"preds": scores, "target": target[:, 0], **excluded}


#: what is updated, and with what
CASES: dict[str, tuple[Callable[..., Any], str]] = {
    "AccuracyAtK": (lambda **kwargs: AccuracyAtK(5, **kwargs), ""),
    "preset": (lambda **kwargs: next_location_metrics(LOCATIONS, **kwargs), ""),
    "preset, exclude": (lambda **kwargs: next_location_metrics(LOCATIONS, **kwargs), "exclude"),
    "deciles": (lambda **kwargs: decile_metrics(BINS, **kwargs), ""),
    "18 of several targets": (
        lambda **kwargs: recommendation_metrics(k=(1, 5, 10), **kwargs),
        "several targets",
    ),
}
#: of 0.6.0 with PyTorch 2.13: operations that launch something, and waits
RELEASED: dict[str, dict[str, tuple[int, int]]] = {
    "device": {"AccuracyAtK": (47, 0), "preset": (74, 0), "deciles": (295, 0)},
    "cpu": {
        "AccuracyAtK": (3, 0),
        "preset": (9, 0),
        "preset, exclude": (97, 6),
        "deciles": (167, 5),
        "18 of several targets": (200, 4),
    },
    "reference": {
        "AccuracyAtK": (64, 2),
        "preset": (93, 3),
        "preset, exclude": (129, 6),
        "deciles": (309, 7),
        "18 of several targets": (222, 6),
    },
}


class Launches(TorchDispatchMode):
    """Count the operations that launch something, and those that wait, by their names."""

    def __init__(self) -> None:
        super().__init__()
        self.launched: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count one operation, and run it."""
        name = func.overloadpacket.__name__
        masks = args[1] if name.startswith("index") and isinstance(args[1], list | tuple) else ()
        reads_mask = any(x is not None and x.dtype == torch.bool for x in masks)
        self.waits[name] += name in WAITING or reads_mask
        self.launched[name] += name not in FREE
        return func(*args, **(kwargs or {}))


def launches_of(metric: Any, given: dict[str, Tensor]) -> Launches:
    """The operations of a second update, as the first one makes what later ones find."""
    metric.update(**given)
    with Launches() as launches:
        metric.update(**given)
    return launches


def check_launches(case: str, where: str, launches: Launches) -> None:
    """Compare two counts with those of the last release."""
    counts = {"operations": launches.launched, "waits": launches.waits}
    for (what, names), released in zip(counts.items(), RELEASED[where][case], strict=True):
        number = names.total()
        ratio = f", ratio {number / released:.2f}" if released else ""
        says = f"{case}, {where}: {number} {what}, {released} in the last release{ratio}"
        print(says)
        assert number <= released, f"{says}: {+names}"


@pytest.mark.parametrize("case", ["AccuracyAtK", "preset", "deciles"])
def test_an_update_on_a_device_launches_few_operations(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tensors without values are counted, which nobody may read, as on a device."""
    metric = CASES[case][0](validate_args=False).to("meta")
    given = {name: tensor.to("meta") for name, tensor in batch("").items()}
    monkeypatch.setattr(torch, "equal", lambda *_: True)  # zero states, which members share
    check_launches(case, "device", launches_of(metric, given))


@pytest.mark.usefixtures("each_backend")
@pytest.mark.parametrize("case", CASES)
def test_an_update_launches_few_operations(case: str) -> None:
    """With checked arguments, on each backend of the CPU."""
    make, form = CASES[case]
    check_launches(case, backends.choose(torch.ones(1)).name, launches_of(make(), batch(form)))


def test_the_cases_have_as_many_metrics_as_they_say() -> None:
    """The collection of several targets has 18, all of which read the same batch."""
    metrics = CASES["18 of several targets"][0]()
    assert isinstance(metrics, RankingCollection)
    assert len(metrics) == 18


class Reciprocal(RankingMetric):
    """A score of a user's own, which reads a `Ranking`."""

    def score(self, ranking: Ranking) -> Tensor:
        """Read the ranks of one relevant location."""
        return 1.0 / (1 + ranking.above[:, 0].double())


@pytest.mark.skipif(bool(backends.available()["cpu"]), reason="the C library is not here")
@pytest.mark.parametrize("own", [Reciprocal(), AccuracyAtK(1, ties="pessimistic")], ids=repr)
def test_scores_of_all_candidates_are_read_once(
    own: RankingMetric, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a member needs the ranking, the others are scored from it, and no pass is added."""
    calls = Counter[str]()

    def counting(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            calls[name] += 1
            return original(*args, **kwargs)

        return call

    kind = type(backends.choose(torch.rand(1)))
    for name in ("tally_scores", "survey"):  # each is a pass over the scores
        monkeypatch.setattr(kind, name, counting(name, getattr(kind, name)))
    members = {"mrr": MRR(), "acc": AccuracyAtK(5), "own": own.clone()}
    RankingCollection(members).update(torch.rand(8, 30), torch.arange(8))
    assert calls == {"survey": 1}
