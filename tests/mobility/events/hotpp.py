"""HoTPP's own metrics, from the clone that the environment variable HOTPP names."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor


def batch_linear_assignment(cost: Tensor) -> Tensor:
    """The assignment of each matrix by SciPy, as torch_linear_assignment has it on the CPU."""
    found = torch.full(cost.shape[:2], -1)
    for row, matrix in zip(found, cost.numpy(), strict=True):
        rows, columns = map(torch.from_numpy, linear_sum_assignment(matrix))
        row[rows] = columns
    return found


def load_hotpp() -> dict[str, Any] | None:
    """Its modules `otd`, `tmap` and `next_item`; None without a clone."""
    if "HOTPP" not in os.environ:
        return None
    folder = Path(os.environ["HOTPP"], "hotpp", "metrics")
    assignment = ModuleType("torch_linear_assignment")
    assignment.batch_linear_assignment = batch_linear_assignment  # type: ignore[attr-defined]
    sys.modules.setdefault("torch_linear_assignment", assignment)
    package = ModuleType("hotpp_metrics")  # HoTPP's own package needs more than its metrics do
    package.__path__ = [str(folder)]
    sys.modules["hotpp_metrics"] = package
    found = {}
    for name in ("tmap", "otd", "next_item"):
        spec = importlib.util.spec_from_file_location(
            f"hotpp_metrics.{name}", folder / f"{name}.py"
        )
        assert spec
        assert spec.loader
        found[name] = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found[name])
    return found
