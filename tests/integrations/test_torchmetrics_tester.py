"""TorchMetrics tests its own metrics with a `MetricTester`; ours pass it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torchmetrics_tester as tester

pytest.importorskip("sklearn", reason="the references of LocationF1 are scikit-learn's")


@pytest.mark.slow  # starts two processes
def test_the_metrics_pass_the_tester_of_torchmetrics() -> None:
    """Six checks of eleven metrics of the front page, in a process of their own."""
    clone = os.environ.get("TORCHMETRICS")
    if clone is None:
        pytest.skip(
            "needs a clone of TorchMetrics, whose folder the environment variable TORCHMETRICS "
            "names"
        )
    done = subprocess.run(
        [sys.executable, tester.__file__, clone],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        encoding="utf-8",
        timeout=600,
    )
    assert done.stdout == "66 of 66\n", done.stdout + done.stderr
