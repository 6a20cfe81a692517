"""The preset logged through Lightning to real trackers, and read back from what they wrote."""

from __future__ import annotations

import csv
import json
import math
import struct
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import (
    CSVLogger,
    Logger,
    MLFlowLogger,
    TensorBoardLogger,
    WandbLogger,
)
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import distributed_workers as work
from nextloc_metrics import next_location_metrics

pytestmark = [pytest.mark.filterwarnings(f"ignore:{text}") for text in work.LIGHTNINGS_OWN]

SCORES = [0.1, 0.4, 0.3, 0.2]  # the order is 1, 2, 3, 0, and the other way around in odd epochs
TARGETS = [1, 2, 0]  # ranks 1, 2, 4, then 4, 3, 1

# By hand, for both epochs.
EXPECTED = {
    "val/acc_at_1": [1 / 3, 1 / 3],
    "val/acc_at_5": [1, 1],
    "val/acc_at_10": [1, 1],
    "val/mrr": [(1 + 1 / 2 + 1 / 4) / 3, (1 / 4 + 1 / 3 + 1) / 3],
    "val/ndcg_at_10": [
        (1 + 1 / math.log2(3) + 1 / math.log2(5)) / 3,
        (1 / math.log2(5) + 1 / math.log2(4) + 1) / 3,
    ],
    "val/f1": [(1 / 2) / 3, (1 / 2) / 3],
}


class Model(pl.LightningModule):
    """A model that turns its order around with every epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))
        self.metrics = next_location_metrics(len(SCORES), prefix="val/")

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """Train nothing."""
        return self.weight.square()

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        """Count a batch, and log the collection."""
        scores, target = batch
        self.metrics.update(scores if self.current_epoch % 2 == 0 else -scores, target)
        self.log_dict(self.metrics)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Nothing is learnt, but Lightning trains."""
        return torch.optim.SGD(self.parameters(), lr=0.1)


def _fit(logger: Logger) -> None:
    rows = TensorDataset(torch.tensor(SCORES).repeat(len(TARGETS), 1), torch.tensor(TARGETS))
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=2,
        log_every_n_steps=1,
        logger=logger,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Model(), DataLoader(rows, batch_size=2), DataLoader(rows, batch_size=2))


def _equal(found: dict[str, list[float]]) -> None:
    """Compare what was read with what was worked out, names and their order included."""
    assert list(found) == list(EXPECTED)
    for name, values in EXPECTED.items():
        assert found[name] == pytest.approx(values), name


def test_tensorboard(tmp_path: Path):
    """TensorBoard's own reader finds every name as documented, with two values."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)  # on import
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    _fit(TensorBoardLogger(tmp_path, name="", version=""))
    events = EventAccumulator(str(tmp_path)).Reload()
    assert set(EXPECTED) <= set(events.Tags()["scalars"])
    _equal({name: [event.value for event in events.Scalars(name)] for name in EXPECTED})


def test_csv(tmp_path: Path):
    """The table has a column a name, and a row an epoch."""
    _fit(CSVLogger(tmp_path, name="", version=""))
    with (tmp_path / "metrics.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert set(EXPECTED) == {name for name in rows[0] if name not in ("epoch", "step")}
    _equal({name: [float(row[name]) for row in rows] for name in EXPECTED})


def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """MLflow takes every name, and its client reads both epochs from the database."""
    mlflow = pytest.importorskip("mlflow", reason="needs mlflow, of the extra `trackers`")
    monkeypatch.chdir(tmp_path)
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of MLflow about what it is made of
        logger = MLFlowLogger("nextloc", tracking_uri=uri, artifact_location=str(tmp_path))
        _fit(logger)
        client = mlflow.tracking.MlflowClient(uri)
        logged = client.get_run(logger.run_id).data.metrics
        assert set(EXPECTED) == set(logged) - {"epoch"}
        _equal(
            {
                name: [each.value for each in client.get_metric_history(logger.run_id, name)]
                for name in EXPECTED
            }
        )


def test_weights_and_biases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """W&B, offline, writes every name with both values into the file of the run."""
    wandb = pytest.importorskip("wandb", reason="needs wandb, of the extra `trackers`")
    from wandb.proto import wandb_internal_pb2

    for name, value in {"MODE": "offline", "SILENT": "true", "DIR": str(tmp_path)}.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of W&B about what it is made of
        _fit(WandbLogger("nextloc", save_dir=tmp_path, offline=True))
        wandb.finish()
        wandb.teardown()

    (path,) = tmp_path.rglob("*.wandb")
    rows: list[dict[str, Any]] = []
    for data in _records(path.read_bytes()):
        items = wandb_internal_pb2.Record.FromString(data).history.item
        rows.append({i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in items})
    logged = [row for row in rows if "val/mrr" in row]
    _equal({name: [row[name] for row in logged] for name in EXPECTED})


def _records(log: bytes) -> Iterator[bytes]:
    """Read W&B's file of a run: LevelDB's log format, behind a header of 7 bytes."""
    place, record = 7, b""
    while place < len(log):
        left = 32768 - place % 32768  # a record does not start in the last 6 bytes of a block
        if left < 7:
            place += left
            continue
        _, length, kind = struct.unpack_from("<IHB", log, place)
        record += log[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or its last part
            yield record
            record = b""
