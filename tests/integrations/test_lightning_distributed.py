"""Lightning on one and on two processes: its default samplers and its loops."""

from __future__ import annotations

import contextlib
import itertools
import os
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, TensorDataset
from torchmetrics import Metric

import distributed_workers as work
from nextloc_metrics import MRR, Grouped, LocationF1, Ranking, decile_metrics, next_location_metrics
from nextloc_metrics.distributed import PaddedDataset, check_each_row_once
from nextloc_metrics.integrations.lightning import CheckEachRowOnce

pytestmark = [
    pytest.mark.slow,  # starts processes
    *(pytest.mark.filterwarnings(f"ignore:{text}") for text in work.LIGHTNINGS_OWN),
]


def _trainer(num_processes: int = 1, **kwargs: Any) -> pl.Trainer:
    return pl.Trainer(
        accelerator="cpu",
        devices=num_processes,
        strategy="ddp" if num_processes > 1 else "auto",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **kwargs,
    )


@contextlib.contextmanager
def _process(rank: int, num_processes: int) -> Iterator[None]:
    """Set the number of this process for Lightning, as torchrun does."""
    ranks = {"LOCAL_RANK": str(rank), "NODE_RANK": "0"} if num_processes > 1 else {}
    with mock.patch.dict(os.environ, ranks), warnings.catch_warnings():
        for text in work.LIGHTNINGS_OWN:
            warnings.filterwarnings("ignore", text)
        yield


# `trainer.test` with the default sampler ----------------------------------------------------------

NUM_ROWS = 21


class Evaluated(pl.LightningModule):
    """A model whose scores are in the data, evaluated with everything there is."""

    def __init__(self) -> None:
        super().__init__()
        self.metrics = next_location_metrics(work.LOCATIONS, prefix="test/")
        self.deciles = decile_metrics(work.bins(), 2, prefix="test/")
        self.by_user = Grouped(MRR(), work.GROUPS, average="groups")
        self.by_key = Grouped(MRR(), average="groups")
        self.f1 = LocationF1()

    def test_step(self, batch: Any, batch_idx: int) -> None:
        """Count a batch, with the mask of a `PaddedDataset` if there is one."""
        (scores, target, user), is_real = batch if len(batch) == 2 else (batch, None)
        self.metrics.update(scores, target, mask=is_real)
        self.deciles.update(scores, target, mask=is_real)
        self.by_user.update(scores, target, mask=is_real, groups=user)
        self.by_key.update(scores, target, mask=is_real, groups=user)
        self.f1.update(scores, target, mask=is_real)
        self.log_dict(self.metrics)
        self.log_dict(self.deciles)
        self.log("test/mrr_of_users", self.by_user)
        self.log("test/by_key", self.by_key)
        self.log("test/f1_by_key", self.f1)

    def on_test_epoch_end(self) -> None:
        """Keep the number of queries that this process has counted."""
        self.num_queries = self.metrics["mrr"].num_queries


@contextlib.contextmanager
def _sent_by_metrics() -> Iterator[list[list[str]]]:
    """List the collectives of every metric that sums its state over the processes."""
    sent = []
    original = Metric._sync_dist

    def counted(metric: Metric, *args: Any, **kwargs: Any) -> None:
        with work.collectives() as called:
            original(metric, *args, **kwargs)
        sent.append(called)

    with mock.patch.object(Metric, "_sync_dist", counted):
        yield sent


def _rows() -> TensorDataset:
    batch = work.rows(work.ROWS - NUM_ROWS, work.ROWS)
    return TensorDataset(batch["preds"], batch["target"], batch["groups"])


def evaluate(rank: int, num_processes: int) -> dict[str, Any]:
    """Run `trainer.test` on rows that are padded and marked, and on rows that are not."""
    seen: dict[str, Any] = {}
    for name, rows in {"padded": PaddedDataset(_rows()), "plain": _rows()}.items():
        with _process(rank, num_processes), _sent_by_metrics() as sent:
            model, trainer = Evaluated(), _trainer(num_processes)
            trainer.test(model, DataLoader(rows, batch_size=4), verbose=False)
        seen[name] = {
            "values": dict(trainer.callback_metrics),
            "queries": model.num_queries,
            "sent": sent,
        }
    return seen


def test_21_rows_on_two_processes_are_21_rows():
    """`trainer.test` gives equal values on two processes, on one, and without a Trainer.

    Without `PaddedDataset` 22 rows count, and each metric sends one collective.
    """
    alone = evaluate(0, 1)
    direct = Evaluated()
    scores, target, user = _rows().tensors
    for metrics in (direct.metrics, direct.deciles):
        metrics.update(scores, target)
    direct.by_user.update(scores, target, groups=user)
    values = {**direct.metrics.compute(), **direct.deciles.compute()}
    values["test/mrr_of_users"] = values["test/by_key"] = direct.by_user.compute()
    values["test/f1_by_key"] = values["test/f1"]
    assert "test/acc_at_5" in values

    both = work.run(evaluate, 2, 2)
    for name in ("padded", "plain"):
        work.assert_same(alone[name]["values"], values)
        assert alone[name]["queries"] == NUM_ROWS
    for each in both:
        work.assert_same(each["padded"]["values"], values)
        sent = each["padded"]["sent"]
        assert [x for x in sent if x == ["all_reduce"]] == [["all_reduce"]] * (len(values) - 2)
        assert sum("all_gather" in x for x in sent) == 2
        assert not torch.equal(each["plain"]["values"]["test/mrr"], values["test/mrr"])
    assert sum(each["padded"]["queries"] for each in both) == 21
    assert sum(each["plain"]["queries"] for each in both) == 22


# Two epochs ---------------------------------------------------------------------------------------

SCORES = [0.1, 0.4, 0.3, 0.2]  # the order is 1, 2, 3, 0 in even epochs, 0, 3, 2, 1 in odd ones


def _targets(*targets: int) -> PaddedDataset[Any]:
    target = torch.tensor(targets)
    return PaddedDataset(TensorDataset(torch.tensor(SCORES).repeat(len(target), 1), target))


class Trained(pl.LightningModule):
    """A model that turns its order around with every epoch, and during the sanity check."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))
        self.first = next_location_metrics(4, k=(1, 2), ndcg_k=10, prefix="first/")
        self.second = MRR()
        self.training_mrr = MRR()
        self.seen: list[dict[str, Tensor]] = []

    def scores_of(self, scores: Tensor) -> Tensor:
        return scores if (self.current_epoch + self.trainer.sanity_checking) % 2 == 0 else -scores

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """Count a batch of the training data."""
        (scores, target), is_real = batch
        self.training_mrr.update(self.scores_of(scores), target, mask=is_real)
        self.log("training/mrr", self.training_mrr, on_step=False, on_epoch=True)
        return self.weight.square()

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Count a batch of the first loader by a collection, of the second by a metric."""
        (scores, target), is_real = batch
        if dataloader_idx == 0:
            self.first.update(self.scores_of(scores), target, mask=is_real)
            self.log_dict(self.first, add_dataloader_idx=False)
        else:
            self.second.update(self.scores_of(scores), target, mask=is_real)
            self.log("second/mrr", self.second, add_dataloader_idx=False)

    def on_validation_end(self) -> None:
        """Remember what this epoch has logged."""
        if not self.trainer.sanity_checking:
            self.seen.append(dict(self.trainer.callback_metrics))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Nothing is learnt, but Lightning trains."""
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(rank: int, num_processes: int) -> list[dict[str, float]]:
    """Run two epochs, and return what each has logged."""
    with _process(rank, num_processes):
        model = Trained()
        trainer = _trainer(num_processes, max_epochs=2, num_sanity_val_steps=2)
        trainer.fit(
            model,
            DataLoader(_targets(1, 1, 0), batch_size=1, shuffle=True),
            [
                DataLoader(_targets(1, 2, 0), batch_size=1),
                DataLoader(_targets(3), batch_size=1),  # one row: a process has none of its own
            ],
        )
        model.seen[-1].update(trainer.callback_metrics)  # that of training comes last
    return [{name: float(value) for name, value in seen.items()} for seen in model.seen]


def test_two_epochs_by_hand():
    """Every epoch logs its own values: not the sanity check's, not the epoch before's.

    Two loaders for validation, `log_dict` of a collection and `log` of a metric, no warning.
    """
    first = {  # ranks 1, 2, 4
        "first/acc_at_1": 1 / 3,
        "first/acc_at_2": 2 / 3,
        "first/mrr": (1 + 1 / 2 + 1 / 4) / 3,
        "first/ndcg_at_10": (1 + 0.6309297536 + 0.4306765581) / 3,  # 1 / log2(3), 1 / log2(5)
        "first/f1": (2 * 1 / (3 + 1)) / 3,  # decides for 1 three times: F1 of 1 is 1/2, support 1
        "second/mrr": 1 / 3,
    }
    second = {  # ranks 4, 3, 1
        "first/acc_at_1": 1 / 3,
        "first/acc_at_2": 1 / 3,
        "first/mrr": (1 / 4 + 1 / 3 + 1) / 3,
        "first/ndcg_at_10": (0.4306765581 + 1 / 2 + 1) / 3,
        "first/f1": (2 * 1 / (3 + 1)) / 3,
        "second/mrr": 1 / 2,
        "training/mrr": (1 / 4 + 1 / 4 + 1) / 3,
    }
    for one, other in work.run(fit, 2, 2):
        assert {**one, "training/mrr": 0} == pytest.approx({**first, "training/mrr": 0})
        assert other == pytest.approx(second)


# Rows that are repeated ---------------------------------------------------------------------------

LIGHTNINGS = "Using `DistributedSampler` with the dataloaders"
REPEATED = "the sampler adds 1 repeated row to 3 on 2 processes"


class Masked(Trained):
    """A model that ignores the mask of a `PaddedDataset` if it is told to."""

    def __init__(self, ignore: bool = False) -> None:
        super().__init__()
        self.ignore = ignore
        self.metrics = next_location_metrics(4, k=(1,))

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Count a batch."""
        (scores, target), is_real = batch if isinstance(batch[0], list) else (batch, None)
        self.metrics.update(scores, target, mask=None if self.ignore else is_real)
        self.log_dict(self.metrics)

    def test_step(self, batch: Any, batch_idx: int) -> None:
        """Count a batch."""
        self.validation_step(batch, batch_idx)


class Stream(IterableDataset[Any]):
    """Rows without a length, which every process reads."""

    def __iter__(self) -> Iterator[Any]:
        """Return the rows."""
        return iter(_targets(1, 2, 0).dataset)


@contextlib.contextmanager
def _messages() -> Iterator[list[str]]:
    """Collect the warnings about samplers and rows."""
    found: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield found
    texts = [str(warning.message) for warning in caught]
    found += [text for text in texts if "row" in text or LIGHTNINGS in text]


def warn(rank: int, num_processes: int) -> dict[str, list[str]]:
    """Return the warnings of every loop, by kind of data."""
    padded = _targets(1, 2, 0)
    seen: dict[str, list[str]] = {}

    def loader(rows: Dataset[Any]) -> DataLoader[Any]:
        return DataLoader(rows, batch_size=2)

    def evaluate(name: str, rows: Dataset[Any], stage: str = "test", **kwargs: Any) -> None:
        run = kwargs.pop("run", None) or _trainer(num_processes, callbacks=[CheckEachRowOnce()])
        with _messages() as seen[name]:
            getattr(run, stage)(Masked(**kwargs), loader(rows), verbose=False)

    with _process(rank, num_processes):
        fitted = _trainer(num_processes, max_epochs=2, callbacks=[CheckEachRowOnce()])
        with _messages() as seen["fit"]:
            loaders = [loader(padded), loader(padded.dataset), loader(Stream())]
            fitted.fit(Masked(), loader(padded), loaders)
        evaluate("validate after fit, padded", padded, "validate", run=fitted)
        evaluate("validate, repeated", padded.dataset, "validate")
        evaluate("test, repeated", padded.dataset)
        evaluate("test, padded", padded)
        evaluate("test, stream", Stream())
        evaluate("test, mask ignored", padded, ignore=True)
        evaluate("test, without the callback", padded, run=_trainer(num_processes))
        short = _trainer(num_processes, callbacks=[CheckEachRowOnce()], limit_test_batches=1)
        with _messages() as seen["test, limited"]:
            short.test(Masked(), DataLoader(padded.dataset, batch_size=1), verbose=False)
    return seen


UNKNOWN = "cannot tell if rows are repeated or left out: nothing says how many"


def take_unknown(found: dict[str, list[str]]) -> None:
    """Take out the warnings of streams, which nobody can count."""
    assert found["fit"].pop().startswith(f"Validation loader 2: {UNKNOWN}")
    assert found["test, stream"].pop().startswith(f"Test loader 0: {UNKNOWN}")


def test_the_sampler_of_fabric_is_counted() -> None:
    """Fabric, and Lightning in training, wrap a shuffling sampler in a distributed one."""
    found = pytest.importorskip("lightning_fabric.utilities.distributed", reason="needs Fabric")
    for rows, processes in itertools.product((8, 21), (2, 4)):
        read: Counter[int] = Counter()
        loaders = []
        for rank in range(processes):
            torch.manual_seed(0)
            sampler = found.DistributedSamplerWrapper(
                RandomSampler(range(rows)), num_replicas=processes, rank=rank
            )
            loaders.append(DataLoader(range(rows), batch_size=3, sampler=sampler))
            read.update(sampler)
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            assert {check_each_row_once(one) for one in loaders} == {read.total() - rows}


def test_the_callback_warns_of_repeated_rows_only():
    """Fit, validate and test: one warning per loader that repeats rows or may, none for others.

    Lightning's own warning is hidden where the callback checks, and shown again afterwards.
    """
    first, second = work.run(warn, 2, 2)
    take_unknown(first)
    for found, stage, index in [
        (first.pop("fit"), "Validation", 1),  # once, in the sanity check and two epochs
        (first.pop("validate, repeated"), "Validation", 0),
        (first.pop("test, repeated"), "Test", 0),
    ]:
        (message,) = found
        assert message.startswith(f"{stage} loader {index}: {REPEATED}")
    (message,) = first.pop("test, without the callback")
    assert message.startswith(LIGHTNINGS)
    assert not any(first.values())
    (message,) = second.pop("test, mask ignored")  # this process has the padding
    assert message == (
        "`metrics.acc_at_1` counted 2 queries in a batch of 2 rows, and 1 of these rows are padding"
        " of a PaddedDataset. Pass `mask=is_real` to `update`."
    )
    assert not any(second.values())


def test_the_callback_is_quiet_on_one_process():
    """Nothing is repeated on one process."""
    found = warn(0, 1)
    assert len(found) == 9
    assert not any(found.values())


class Loud(Masked):
    """A model that gives Lightning's warning during the loop, or fails before it."""

    def __init__(self, fails: bool) -> None:
        super().__init__()
        self.fails = fails

    def setup(self, stage: str) -> None:
        """Fail after the callback's `setup`."""
        if self.fails:
            raise RuntimeError("no data")

    def on_test_start(self) -> None:
        """Warn after the callback's `on_test_start`."""
        warnings.warn(LIGHTNINGS, stacklevel=1)


@pytest.mark.parametrize("fails", [False, True])
def test_the_callback_hides_a_warning_only_while_loaders_are_made(fails: bool):
    """Lightning's warning is shown from the start of the loop on, and after an error."""
    trainer = _trainer(callbacks=[CheckEachRowOnce()])
    expected = pytest.raises(RuntimeError) if fails else contextlib.nullcontext()
    with _process(0, 1), _messages() as seen:
        with expected:
            trainer.test(Loud(fails), DataLoader(_targets(1, 2)), verbose=False)
        warnings.warn(LIGHTNINGS, stacklevel=1)
    assert seen == [LIGHTNINGS] * (1 if fails else 2)


# Devices ------------------------------------------------------------------------------------------


def test_a_metric_that_was_not_moved_says_so():
    """A metric on another device than its input names both, and the remedy."""
    ranking = Ranking.from_scores(torch.tensor([SCORES]), torch.tensor([1])).to("meta")
    message = r"MRR\(\) is on cpu and its input on meta; move the metric with `.to\(device\)`"
    for metrics in (MRR(), next_location_metrics(4)):
        with pytest.raises(ValueError, match=message if isinstance(metrics, MRR) else "on meta"):
            metrics.update(ranking)
