"""Backends for counting: one interface, several implementations with bit-identical results.

`reference` is the definition, in PyTorch operations. The others are faster for the tensors that
they can read. Each call runs the first backend in `NAMES` that can read its tensor. At its first
use in a process, a backend answers a small batch. If the answers differ from those of `reference`,
a warning says so, and the backend is disabled in this process.

    backends.available()         # {"cuda": "needs Triton", "cpu": None, ...}: a reason, or None
    backends.use("reference")    # this backend, and `reference` for tensors it cannot read
    backends.use(None)           # the default list again

The environment variable `NEXTLOC_BACKEND` names the initial backend. This room imports `queries`;
begin with `reference.Reference`, the interface.
"""

import os
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from nextloc_metrics.core.backends import proof
from nextloc_metrics.core.backends.cpu import LIBRARY, Cpu
from nextloc_metrics.core.backends.reference import Reference
from nextloc_metrics.core.queries.messages import short

__all__ = ["available", "use"]

#: the backends, in the order in which they are tried
NAMES = ("cuda", "cpu", "reference")

_chosen: list[Reference] = []


def available() -> dict[str, str | None]:
    """Return for each backend None, or the reason why this machine or process cannot run it."""
    cpu = None if LIBRARY.exists() else "needs a C compiler when nextloc-metrics is installed"
    # do not query the driver here: that breaks forked processes; `unable` checks each tensor
    cuda = None if torch.version.cuda else "needs a build of PyTorch for CUDA"
    cuda = cuda if find_spec("triton") else "needs triton, which PyTorch brings on CUDA"
    return {"cuda": cuda, "cpu": cpu, "reference": None} | proof.disabled


def use(name: str | None) -> None:
    """Use one backend for all tensors that it can read, and `reference` for others.

    Args:
        name: a key of `available()`; None for the default list.

    Raises:
        ModuleNotFoundError: this machine cannot run the backend; `available()` has the reason.
    """
    reasons = available()
    if name is not None and name not in reasons:
        raise ValueError(f"`name` must be None or one of {', '.join(reasons)}, got {short(name)}.")
    if name is not None and reasons[name]:
        raise ModuleNotFoundError(f"the backend {name!r} {reasons[name]}.")
    names = [name, "cuda", "reference"] if name not in (None, "reference") else [name]
    wanted = [one for one in (NAMES if name is None else names) if one and not reasons[one]]
    _chosen[:] = [_ON_CUDA if one == "cuda" else _make(one) for one in dict.fromkeys(wanted)]
    if name is None and not LIBRARY.exists():
        _chosen.insert(0, _NotBuilt())


def choose(values: Tensor) -> Reference:
    """Return the first backend that can read this tensor, and has passed the check."""
    if values.is_cuda and _ON_CUDA in _chosen:
        _chosen[_chosen.index(_ON_CUDA)] = _make("cuda")
    return next(
        backend
        for backend in _chosen
        if not backend.unable(values) and (backend.is_proven or proof.passes(backend))
    )


class _OnCuda(Reference):
    """Where the backend of CUDA will be: Triton is imported at the first tensor on CUDA."""

    name = "cuda"

    def unable(self, values: Tensor) -> str | None:
        return "Triton kernels read CUDA tensors only"


class _NotBuilt(Reference):
    """Where the C library should be: it warns at the first tensor that the library would read."""

    def unable(self, values: Tensor) -> str | None:
        if values.device.type == "cpu":
            proof.disable("cpu", available()["cpu"] or "")
        return "it was not built"


@cache
def _make(name: str) -> Reference:
    if name == "cuda":
        from nextloc_metrics.core.backends.cuda import Cuda

        return Cuda()
    return Cpu() if name == "cpu" else Reference()


_ON_CUDA = _OnCuda()
use(os.environ.get("NEXTLOC_BACKEND"))
