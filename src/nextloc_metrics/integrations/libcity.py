"""An evaluator with the interface of LibCity, for trajectory location prediction."""

import json
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch

from nextloc_metrics.core.new_file import new_file
from nextloc_metrics.core.queries.messages import describe, short
from nextloc_metrics.metrics.presets import libcity_metrics

NAMES = ("Precision", "Recall", "F1", "MRR", "MAP", "NDCG")

_log = logging.getLogger(__name__)


class Config(Protocol):
    """LibCity's `ConfigParser`, or a dict."""

    def get(self, key: str, default: Any, /) -> Any:
        """Return an option, or the default where it is not given."""


class ExactEvaluator:
    """An evaluator for LibCity with exact ties, in place of its `TrajLocPredEvaluator`.

    Options, batches, result keys and the result file are as in LibCity; the values are those of
    [`libcity_metrics`][nextloc_metrics.libcity_metrics].

    Args:
        config: `config["metrics"]`, a list of `"Precision"`, `"Recall"`, `"F1"`, `"MRR"`, `"MAP"`
            and `"NDCG"`; `config["topk"]`, an integer or a list of integers; and
            `config["evaluate_method"]`: `"popularity"` for scores of all locations, or another
            name if the first candidate is the target and the others are sampled. Options that are
            not given are `["Recall"]`, 1 and `"popularity"`, as LibCity documents.

    `collection` holds the metrics, with all batches since the last `clear`.

    Example:
        >>> config = {"metrics": ["MRR"], "topk": 2, "evaluate_method": "popularity"}
        >>> evaluator = ExactEvaluator(config)
        >>> scores = [[0.1, 0.5, 0.4], [0.6, 0.3, 0.1]]
        >>> evaluator.collect({"uid": [0, 0], "loc_true": [2, 2], "loc_pred": scores})
        >>> evaluator.evaluate()  # ranks 2 and 3
        {'Recall@2': 0.5, 'MRR@2': 0.25}
    """

    def __init__(self, config: Config) -> None:
        names = config.get("metrics", ["Recall"])
        if not isinstance(names, list):
            raise TypeError(f"`metrics` must be a list, got {describe(names)}.")
        if unknown := [name for name in names if name not in NAMES]:
            raise ValueError(f"`metrics` must be among {short(NAMES)}, got {short(unknown)}.")
        self.reported = {"Recall", *names}  # LibCity's executor always reads the recall
        self.is_sampled = config.get("evaluate_method", "popularity") != "popularity"
        self.collection = libcity_metrics(config.get("topk", 1))

    def collect(self, batch: Mapping[str, Any]) -> None:
        """Add a batch: `loc_pred`, scores `[N, C]`, and `loc_true`, the id of each target.

        Other keys, such as `uid`, are not read. With sampled candidates `loc_true` may be longer
        than `loc_pred`, as LibCity's executor pads it to a full batch; ids beyond the last query
        are not counted.
        """
        scores = torch.as_tensor(batch["loc_pred"], dtype=torch.float32, device="cpu")
        target = torch.as_tensor(batch["loc_true"], dtype=torch.int64, device="cpu")
        if self.is_sampled:
            target = target[: len(scores)]
        self.collection.update(scores, target)

    def evaluate(self) -> dict[str, float]:
        """Return the values of all batches since the last `clear`, NaN without a batch."""
        values = self.collection.compute().items()
        return {name: float(x) for name, x in values if name.split("@")[0] in self.reported}

    def save_result(self, save_path: str, filename: str | None = None) -> None:
        """Write the values to a JSON file in a folder, also a new one; None names it by time."""
        result = self.evaluate()
        _log.info("evaluate result is %s", json.dumps(result, indent=1))
        folder = Path(save_path)
        folder.mkdir(parents=True, exist_ok=True)
        name = time.strftime("%Y_%m_%d_%H_%M_%S") if filename is None else filename
        with new_file(folder / f"{name}.json", text=True) as file:
            json.dump(result, file)

    def clear(self) -> None:
        """Remove all batches."""
        self.collection.reset()
