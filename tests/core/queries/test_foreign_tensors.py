"""Tensors that are no plain tensors: the state stays one, or an error names the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.masked import masked_tensor

from nextloc_metrics import MRR, Grouped, LocationF1, Ranking, next_location_metrics

SCORES, TARGET = torch.tensor([[0.1, 0.7, 0.2], [0.3, 0.2, 0.1]]), torch.tensor([2, 0])


class Named(Tensor):
    """A subclass whose operations return itself, as those of images and boxes do."""


@pytest.mark.parametrize("metric", [MRR(), LocationF1(3), next_location_metrics(3)], ids=repr)
def test_a_subclass_does_not_stay_in_the_state(metric: Any) -> None:
    """States and values are plain tensors, whatever the model returns."""
    for kind in (Named, torch.nn.Parameter):
        scores = kind(SCORES)  # type: ignore[arg-type]
        metric.reset()
        metric.update(scores, TARGET.as_subclass(Named))
        assert {type(x) for x in metric.metric_state.values() if isinstance(x, Tensor)} <= {Tensor}
        value = metric.compute()
        values = value.values() if isinstance(value, dict) else [value]
        assert {type(x) for x in values} == {Tensor}
        metric.reset()
        metric.update(SCORES, TARGET)
        assert str(metric.compute()) == str(value)


@pytest.fixture
def distributed() -> Iterator[Any]:
    """Make distributed tensors on a group of one process."""
    try:
        from torch.distributed.tensor import Shard, distribute_tensor
    except ImportError:  # before PyTorch 2.5
        from torch.distributed._tensor import Shard, distribute_tensor
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
    )
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
    yield lambda tensor: distribute_tensor(tensor, mesh, [Shard(0)])
    torch.distributed.destroy_process_group()


def test_distributed_tensors_name_the_remedy(distributed: Any) -> None:
    """A process may have rows of its own, or a part of the candidates: the caller knows."""
    remedy = r"`{0}` must be a plain tensor, got a DTensor; use `{0}\.to_local\(\)`.*full_tensor"
    metric = LocationF1(3)
    with pytest.raises(TypeError, match=remedy.format("preds")):
        metric.update(distributed(SCORES), TARGET)
    with pytest.raises(TypeError, match=remedy.format("target")):
        metric.update(SCORES, distributed(TARGET))
    assert not metric.state.any()
    metric.update(distributed(SCORES).to_local(), distributed(TARGET).full_tensor())
    assert metric.num_queries == 2


@pytest.mark.filterwarnings("ignore:.*prototype")  # PyTorch's, once in a process
def test_masked_tensors_name_the_remedy() -> None:
    """With -inf a masked candidate is never right."""
    masked = masked_tensor(SCORES, torch.tensor([[True, False, True], [True] * 3]))
    with pytest.raises(TypeError, match=r"got a MaskedTensor; use `preds\.to_tensor\(value\)`"):
        MRR().update(masked, TARGET)
    assert float(MRR()(masked.to_tensor(-torch.inf), TARGET)) == 1.0


@pytest.mark.parametrize("metric", [MRR(), LocationF1(3)], ids=repr)
def test_vmap_names_the_remedy(metric: Any) -> None:
    """A metric reads all queries at once; of one of them it has no value."""
    for in_dims in ((0, 0), (0, None), (None, 0)):
        preds = SCORES if in_dims[0] is None else SCORES.expand(2, 2, 3)
        target = TARGET if in_dims[1] is None else TARGET.expand(2, 2)
        with pytest.raises(
            TypeError, match=r"got a tensor of torch\.vmap; call the metric outside"
        ):
            torch.vmap(lambda x, y: metric(x, y), in_dims)(preds, target)
    with pytest.raises(TypeError, match="outside `vmap`"):
        torch.vmap(lambda x: Ranking.from_scores(x, TARGET).above)(SCORES.expand(2, 2, 3))
    assert metric.num_queries == 0


@pytest.mark.filterwarnings("ignore:.*prototype")  # PyTorch's, once in a process
def test_nested_tensors_are_not_called_strided() -> None:
    """The layout of a nested tensor may be that of a dense one."""
    nested = torch.nested.nested_tensor([SCORES[0], SCORES[1]])
    with pytest.raises(TypeError, match="must be a dense tensor, got a nested tensor; use"):
        MRR().update(nested, TARGET)


@pytest.mark.slow  # PyTorch takes seconds for its first tensors without values
def test_groups_without_validation_read_no_value() -> None:
    """`validate_args=False` of the outer metric is that of the metric in it."""
    scores, target = torch.empty(2, 3, device="meta"), torch.empty(2, device="meta").long()
    inner = MRR()
    grouped = Grouped(inner, 3, validate_args=False).to("meta")
    grouped.update(scores, target, groups=target)
    assert grouped.metric.validate_args is False
    assert inner.validate_args is True
    assert inner.state.is_cpu
