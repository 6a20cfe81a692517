"""A real Trainer: every epoch logs the value a person computes by hand, and nothing else."""

from __future__ import annotations

import itertools
import math
import os
import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from nextloc_metrics import MRR, Grouped, LocationF1, RankingCollection, next_location_metrics

# Both packages hold the same classes; .ci/run tests the other one, too.
PACKAGE = os.environ.get("LIGHTNING_PACKAGE", "pytorch_lightning")
lightning = pytest.importorskip(PACKAGE, reason=f"the check runs a Trainer of {PACKAGE}")
callback = pytest.importorskip("nextloc_metrics.integrations.lightning", reason="needs Lightning")

LOCATIONS = 12
# The ranks at which the validation queries land in epoch 0; each rank grows by one per epoch.
RANKS = {"near": [1, 1, 2, 4, 9], "far": [3, 6, 10]}
# The data of this file have one target; Lightning's warnings about speed do not matter here.
pytestmark = [
    pytest.mark.filterwarnings("ignore:all targets are location 5"),
    pytest.mark.filterwarnings("ignore:.*does not have many workers.*"),
    pytest.mark.filterwarnings("ignore:.*The number of training batches.*"),
    pytest.mark.filterwarnings("ignore:.*GPU available but not used.*"),
    pytest.mark.filterwarnings("ignore:.*litlogger.*"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


class Ranks(Dataset[tuple[Tensor, Tensor]]):
    """Queries given by the rank of location 5."""

    def __init__(self, ranks: list[int]) -> None:
        self.ranks = ranks

    def __len__(self) -> int:
        return len(self.ranks)

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        return torch.tensor(self.ranks[i]), torch.tensor(5)


def scores(ranks: Tensor) -> Tensor:
    """Scores without ties that put location 5 at the given ranks."""
    others = -torch.arange(LOCATIONS - 1.0)
    rows = []
    for rank in ranks.tolist():
        row = others.tolist()
        row.insert(5, -(rank - 1) + 0.5)
        rows.append(row)
    return torch.tensor(rows)


class Model(lightning.LightningModule):  # type: ignore[misc, name-defined]
    """A model whose ranks grow by one each epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.near = next_location_metrics(LOCATIONS, prefix="near/")
        self.far = next_location_metrics(LOCATIONS, prefix="far/")
        self.alone = MRR()
        self.test_f1 = LocationF1(LOCATIONS)
        self.f1_by_key = LocationF1()
        self.logged: list[dict[str, float]] = []

    def training_step(self, batch: Any, _: int) -> Tensor:
        """Train nothing."""
        loss: Tensor = self.layer(torch.ones(1, 1)).sum()
        return loss

    def validation_step(self, batch: Any, _: int, dataloader_idx: int = 0) -> None:
        """Log one collection per loader, and one metric alone."""
        ranks, target = batch
        preds = scores(ranks + self.current_epoch)
        metrics: RankingCollection = (self.near, self.far)[dataloader_idx]
        metrics.update(preds, target)
        self.log_dict(metrics, add_dataloader_idx=False, on_step=False, on_epoch=True)
        if dataloader_idx == 0:
            self.alone(preds, target)
            self.log("alone", self.alone, add_dataloader_idx=False, on_step=False, on_epoch=True)

    def on_validation_end(self) -> None:
        """Keep what was logged, the sanity check's apart."""
        if not self.trainer.sanity_checking:
            logged = self.trainer.logged_metrics
            self.logged.append({key: float(value) for key, value in logged.items()})

    def test_step(self, batch: Any, batch_idx: int) -> None:
        """Log in the test loop too."""
        ranks, target = batch
        preds = scores(ranks)
        self.log_dict(self.near.to(preds.device), on_epoch=True)
        self.near.update(preds, target)
        self.test_f1.update(preds, target)
        self.f1_by_key.update(preds, target)
        self.log("test_f1", self.test_f1)
        self.log("f1_by_key", self.f1_by_key)

    def configure_optimizers(self) -> Any:
        """Plain gradient descent."""
        return torch.optim.SGD(self.parameters(), lr=0.1)


def trainer(folder: Path, **more: Any) -> Any:
    """A Trainer on the CPU that keeps quiet."""
    options = {
        "default_root_dir": folder,
        "accelerator": "cpu",
        "devices": 1,
        "max_epochs": 2,
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    return lightning.Trainer(**{**options, **more})


def loader(ranks: list[int], size: int = 2) -> DataLoader[tuple[Tensor, Tensor]]:
    """Batches of two, the last one smaller."""
    return DataLoader(Ranks(ranks), batch_size=size)


def by_hand(ranks: list[int]) -> dict[str, float]:
    """Compute the values of the preset for queries without ties at the given ranks."""
    n = len(ranks)
    right = ranks.count(1)
    return {
        "acc_at_1": right / n,
        "acc_at_5": sum(rank <= 5 for rank in ranks) / n,
        "acc_at_10": sum(rank <= 10 for rank in ranks) / n,
        "mrr": sum(1 / rank for rank in ranks) / n,
        "ndcg_at_10": sum(1 / math.log2(rank + 1) for rank in ranks if rank <= 10) / n,
        "f1": 2 * right / (n + right),
    }


def test_two_epochs_with_two_validation_loaders(tmp_path: Path) -> None:
    """Sanity check, two epochs, two loaders: each epoch's values by hand, nothing carried over."""
    model = Model()
    trainer(tmp_path, num_sanity_val_steps=1).fit(
        model, loader([1, 1]), [loader(RANKS["near"]), loader(RANKS["far"])]
    )
    assert len(model.logged) == 2
    for epoch, logged in enumerate(model.logged):
        expected = {}
        for name, ranks in RANKS.items():
            values = by_hand([rank + epoch for rank in ranks])
            expected.update({f"{name}/{key}": value for key, value in values.items()})
        expected["alone"] = expected["near/mrr"]
        assert {key: logged[key] for key in expected} == pytest.approx(expected)
        assert set(logged) == set(expected)
    assert all(metric.num_queries == 0 for metric in model.near.values())


def test_the_test_loop_after_fitting(tmp_path: Path) -> None:
    """`trainer.test` counts test queries alone, and metrics add nothing to a checkpoint."""
    model = Model()
    run = trainer(tmp_path, limit_train_batches=1)
    run.fit(model, loader([1, 1]), [loader(RANKS["near"]), loader(RANKS["far"])])
    (values,) = run.test(model, loader(RANKS["far"]), verbose=False)
    expected = {f"near/{key}": value for key, value in by_hand(RANKS["far"]).items()}
    expected |= dict.fromkeys(["test_f1", "f1_by_key"], expected["near/f1"])
    assert values == pytest.approx(expected)
    run.save_checkpoint(path := tmp_path / "model.ckpt")
    saved = torch.load(path, weights_only=False)["state_dict"]
    assert sorted(saved) == ["layer.bias", "layer.weight"]
    Model().load_state_dict(saved, strict=True)


def test_states_by_key_are_in_a_checkpoint_if_persistent(tmp_path: Path) -> None:
    """They are saved with the texts of their keys, and loaded in place of others."""

    def make(users: list[str]) -> Model:
        model = Model()
        model.by_user = Grouped(MRR())
        for metric in (model.by_user, model.f1_by_key):
            metric.persistent(True)
        ranks = torch.arange(1, 1 + len(users))
        model.by_user.update(scores(ranks), torch.full_like(ranks, 5), groups=users)
        model.f1_by_key.update(scores(ranks), torch.full_like(ranks, 5))
        return model

    model, other = make(["ann", "12", "bob"]), make(["carol"])
    run = trainer(tmp_path, limit_train_batches=1)
    run.fit(model, loader([1, 1]), loader([1, 2]))
    run.save_checkpoint(path := tmp_path / "model.ckpt")
    other.load_state_dict(torch.load(path, weights_only=False)["state_dict"], strict=True)
    names = {
        key: float(x)
        for key, x in zip(other.by_user.groups.tolist(), other.by_user.compute(), strict=True)
    }
    assert len(names) == 3
    assert names[12] == 0.5
    assert {"ann", "bob"} <= set(other.by_user.key_names.values())
    assert other.f1_by_key.compute() == model.f1_by_key.compute()


@pytest.mark.parametrize(
    ("filename", "inserts_names", "path"),
    [
        ("epoch={epoch}-mrr={near/mrr:.4f}", False, "epoch={}-mrr={:.4f}.ckpt"),
        # the default: the slash in the name of a metric makes a folder
        ("{epoch}-{near/mrr:.4f}", True, "epoch={}-near/mrr={:.4f}.ckpt"),
    ],
)
def test_names_of_checkpoints(
    tmp_path: Path, filename: str, inserts_names: bool, path: str
) -> None:
    """`auto_insert_metric_name=False` keeps the slash of `near/mrr` out of the file's name."""
    checkpoint = lightning.callbacks.ModelCheckpoint(
        tmp_path / "best",
        filename=filename,
        monitor="near/mrr",
        mode="max",
        save_top_k=-1,
        auto_insert_metric_name=inserts_names,
    )
    run = trainer(tmp_path, callbacks=[checkpoint], enable_checkpointing=True)
    run.fit(Model(), loader([1, 1]), [loader(RANKS["near"]), loader(RANKS["far"])])
    expected = [
        path.format(epoch, by_hand([rank + epoch for rank in RANKS["near"]])["mrr"])
        for epoch in (0, 1)
    ]
    folder = tmp_path / "best"
    assert sorted(str(p.relative_to(folder)) for p in folder.rglob("*.ckpt")) == expected


def test_the_callback_warns_of_rows_left_out(tmp_path: Path) -> None:
    """`drop_last=True` of a validation loader is found during a fit, once, on one process too."""
    run = trainer(tmp_path, callbacks=[callback.CheckEachRowOnce()])
    small = DataLoader(Ranks(RANKS["near"]), batch_size=2, drop_last=True)
    message = "Validation loader 1: `drop_last=True` leaves out 1 of 5 rows"
    with pytest.warns(UserWarning, match=message) as warned:
        run.fit(Model(), loader([1, 1]), {"far": loader(RANKS["far"]), "near": small})
    assert sum("drop_last" in str(warning.message) for warning in warned) == 1


def test_the_callback_is_made_for_the_package_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two packages the imported one is used; without any, the message names both."""
    for used, other in itertools.permutations(["pytorch_lightning", "lightning.pytorch"]):
        fake = ModuleType(used)
        fake.Callback = type("Callback", (), {})  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, used, fake)
        monkeypatch.delitem(sys.modules, other, raising=False)
        made = runpy.run_path(callback.__file__)["CheckEachRowOnce"]
        assert made.__bases__ == (fake.Callback,)
    monkeypatch.delitem(sys.modules, used)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="needs `lightning` or `pytorch-lightning`"):
        runpy.run_path(callback.__file__)


def test_values_of_single_steps(tmp_path: Path) -> None:
    """`forward` in a step logs the batch's value on the step and the epoch's at its end."""

    class Steps(Model):
        """Logs on the step too."""

        steps: list[float] = []  # noqa: RUF012

        def validation_step(self, batch: Any, _: int, dataloader_idx: int = 0) -> None:
            """Log the values of the batch."""
            ranks, target = batch
            values = self.near(scores(ranks), target)
            self.steps.append(float(values["near/mrr"]))
            self.log_dict(self.near, on_step=True, on_epoch=True)

    model = Steps()
    run = trainer(tmp_path, limit_train_batches=1, num_sanity_val_steps=0)
    run.validate(model, loader(RANKS["near"]), verbose=False)
    assert model.steps == pytest.approx([1.0, (1 / 2 + 1 / 4) / 2, 1 / 9])
    expected = by_hand(RANKS["near"])["mrr"]
    assert float(run.logged_metrics["near/mrr_epoch"]) == pytest.approx(expected)
