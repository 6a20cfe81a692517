"""What may be asked of tensors, wherever they are."""

import torch
from torch import Tensor


def waits_to_look(values: Tensor) -> bool:
    """Whether reading a value would wait for a device, or break a graph that is compiled."""
    return not values.is_cpu or torch.compiler.is_compiling()
