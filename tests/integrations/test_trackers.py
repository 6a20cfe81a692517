"""The preset logged through Lightning to real trackers, and read back from what they wrote."""

from __future__ import annotations

import csv
import importlib
import json
import struct
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_lightning import PACKAGE, RANKS, Model, by_hand, loader, trainer
from test_lightning import pytestmark as pytestmark

loggers = importlib.import_module(f"{PACKAGE}.loggers")

# By hand, for both epochs.
EXPECTED = {
    f"{name}/{key}": [by_hand([rank + epoch for rank in ranks])[key] for epoch in (0, 1)]
    for name, ranks in RANKS.items()
    for key in by_hand([1])
}
EXPECTED["alone"] = EXPECTED["near/mrr"]


def _fit(logger: Any, folder: Path) -> None:
    loaders = [loader(ranks) for ranks in RANKS.values()]
    trainer(folder, logger=logger, log_every_n_steps=1).fit(Model(), loader([1, 1]), loaders)


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

    _fit(loggers.TensorBoardLogger(tmp_path, name="", version=""), tmp_path)
    events = EventAccumulator(str(tmp_path)).Reload()
    assert set(EXPECTED) <= set(events.Tags()["scalars"])
    _equal({name: [event.value for event in events.Scalars(name)] for name in EXPECTED})


def test_csv(tmp_path: Path):
    """The table has a column a name, and a row an epoch."""
    _fit(loggers.CSVLogger(tmp_path, name="", version=""), tmp_path)
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
        logger = loggers.MLFlowLogger("nextloc", tracking_uri=uri, artifact_location=str(tmp_path))
        _fit(logger, tmp_path)
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
        _fit(loggers.WandbLogger("nextloc", save_dir=tmp_path, offline=True), tmp_path)
        wandb.finish()
        wandb.teardown()

    (path,) = tmp_path.rglob("*.wandb")
    rows: list[dict[str, Any]] = []
    for data in _records(path.read_bytes()):
        items = wandb_internal_pb2.Record.FromString(data).history.item
        rows.append({i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in items})
    logged = [row for row in rows if "near/mrr" in row]
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
