"""TorchMetrics' own `MetricTester` over our classes: `python torchmetrics_tester.py CLONE`.

Its code is read from a clone of TorchMetrics. It compares each batch and all of them with a
reference, on one process and on two, and scripts, pickles and clones the metric.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from sklearn.metrics import f1_score
from torch import Tensor

import nextloc_metrics
import oracle

LOCATIONS = 7
CASES: list[tuple[str, dict[str, Any]]] = [
    ("AccuracyAtK", {"k": 1}),
    ("AccuracyAtK", {"k": 3}),
    ("MRR", {}),
    ("MRR", {"k": 3}),
    ("NDCGAtK", {"k": 1}),
    ("NDCGAtK", {"k": 3}),
    ("MAPAtK", {"k": 2}),
    ("MAPAtK", {"k": 3}),
    *(("LocationF1", {"num_locations": LOCATIONS, "average": x}) for x in ("weighted", "macro")),
    ("LocationF1", {"num_locations": LOCATIONS, "average": "micro"}),
]


@dataclass
class Reference:
    """What a metric should say: scikit-learn's F1, or loops in plain Python."""

    name: str
    options: dict[str, Any]

    def __call__(self, preds: Tensor, target: Tensor) -> float:
        """Return the value."""
        if self.name == "LocationF1":
            average, found = self.options["average"], preds.argmax(1)
            return float(f1_score(target, found, average=average, zero_division=0))
        return oracle.value(self.name, oracle.queries(preds, target), **self.options)


def main(clone: str) -> None:
    """Run all checks, and print those that failed and how many passed."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        # it keeps references on the disk by a package that nothing here needs
        Path(folder, "cachier.py").write_text(
            "def cachier(**_):\n    return lambda function: function\n", encoding="utf-8"
        )
        sys.path[:0] = [folder, str(Path(clone, "tests"))]  # for the two processes, too
        os.environ["USE_PYTEST_POOL"] = "1"
        from unittests import NUM_BATCHES, conftest  # type: ignore[import-not-found]
        from unittests._helpers.testers import MetricTester  # type: ignore[import-not-found]

        conftest.pytest_sessionstart()
        torch.manual_seed(0)
        preds = torch.randn(NUM_BATCHES, 32, LOCATIONS)
        target = torch.randint(LOCATIONS, (NUM_BATCHES, 32))
        tester, passed, number = MetricTester(), 0, 0
        for name, options in CASES:
            kind, reference = getattr(nextloc_metrics, name), Reference(name, options)
            by_class = partial(
                tester.run_class_metric_test,
                preds=preds,
                target=target,
                metric_class=kind,
                reference_metric=reference,
                metric_args=options,
                atol=1e-6,
            )
            whole = {"metric_module": kind, "metric_args": options}
            checks = [
                *(
                    partial(by_class, ddp=ddp, dist_sync_on_step=on_step)
                    for ddp in (False, True)
                    for on_step in (False, True)
                ),
                partial(tester.run_precision_test_cpu, preds, target, **whole),
                partial(tester.run_differentiability_test, preds, target, **whole),
            ]
            for check in checks:
                number += 1
                try:
                    check()
                    passed += 1
                except Exception as error:
                    print(name, options, repr(error)[:300])
        conftest.pytest_sessionfinish()
    print(f"{passed} of {number}")


if __name__ == "__main__":
    main(sys.argv[1])
