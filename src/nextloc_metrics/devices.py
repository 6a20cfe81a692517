"""What may be asked of tensors, wherever they are."""

import torch
from torch import Tensor


def waits_to_look(values: Tensor) -> bool:
    """Whether reading a value would wait for a device, or break a graph that is compiled."""
    return not values.is_cpu or torch.compiler.is_compiling()


def count_each(values: Tensor, number: int) -> Tensor:
    """Count how often each of the integers below `number` occurs, without waiting to look."""
    if not waits_to_look(values):
        return values.bincount(minlength=number)
    counts = torch.zeros(number, dtype=torch.int64, device=values.device)
    return counts.index_add_(0, values, torch.ones_like(values))
