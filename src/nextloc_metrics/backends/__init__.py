"""How to count: one interface, with implementations that return the same bits.

`reference` is the definition, in PyTorch's operations. The others implement what they do faster.
For each call the first backend of the list that can read the values is taken.

    backends.available()         # {"cuda": "needs Triton", "cpu": None, ...}: a reason, or None
    backends.use("reference")    # this backend, and `reference` for what it cannot read
    backends.use(None)           # the list again

The environment variable `NEXTLOC_BACKEND` names the backend that a process begins with.
"""

import os
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from nextloc_metrics.backends.cpu import LIBRARY, Cpu
from nextloc_metrics.backends.reference import Reference, must_not_sync

__all__ = ["Reference", "available", "choose", "must_not_sync", "use"]

#: from the first that is tried to the last
NAMES = ("cuda", "cpu", "reference")

_NO_LIBRARY = "needs a C compiler when nextloc-metrics is installed"

_chosen: list[Reference] = []


def available() -> dict[str, str | None]:
    """Return for each backend None, or the reason why it cannot be used here."""
    return {
        "cuda": _why_no_cuda(),
        "cpu": None if LIBRARY.exists() else _NO_LIBRARY,
        "reference": None,
    }


def _why_no_cuda() -> str | None:
    if not find_spec("triton"):
        return "needs triton, which PyTorch brings on CUDA"
    # whether there is a device is asked for each tensor: to ask the driver here would spoil a fork
    return None if torch.version.cuda else "needs a build of PyTorch for CUDA"


def use(name: str | None) -> None:
    """Take one backend wherever it can read the values, and `reference` elsewhere.

    Args:
        name: one of `available()`; None for the usual list.

    Raises:
        ValueError: there is no such backend.
        ModuleNotFoundError: it cannot be used here; `available()` has the reason.
    """
    reasons = available()
    if name is not None and name not in reasons:
        raise ValueError(f"`name` must be None or one of {', '.join(reasons)}, got {name!r}.")
    if name is not None and reasons[name]:
        raise ModuleNotFoundError(f"the backend {name!r} {reasons[name]}.")
    names = [name, "cuda", "reference"] if name not in (None, "reference") else [name]
    wanted = [one for one in (NAMES if name is None else names) if one and not reasons[one]]
    _chosen[:] = [_make(one) for one in dict.fromkeys(wanted)]


def choose(values: Tensor) -> Reference:
    """Return the first backend that can read these values."""
    return next(backend for backend in _chosen if backend.unable(values) is None)


@cache
def _make(name: str) -> Reference:
    if name == "cuda":
        from nextloc_metrics.backends.cuda import Cuda

        return Cuda()
    return Cpu() if name == "cpu" else Reference()


use(os.environ.get("NEXTLOC_BACKEND"))
