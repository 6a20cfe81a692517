"""Evaluate next-location models on check-ins, with PyTorch Lightning.

    python next_location.py                         # simulated check-ins
    python next_location.py check_ins.csv.gz        # one file, split per user in time
    python next_location.py folder/                 # *train*.csv, *valid*.csv, *test*.csv

The program trains a small GRU on the CPU and scores two baselines with the same metrics. It prints
tables, and writes a figure, a report page, the best weights, and logs for TensorBoard and as CSV.
`--devices 2` divides the work between two processes. The values are then the same for the same
weights; trained weights differ by the rounding of gradients.

A query is one visit of the test part. The models predict its location from the visits before it
and from the training part. A location without a visit in the training part cannot be predicted by
any of the models. As a target it stays in the evaluation and is always a miss.
"""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger, TensorBoardLogger
from pytorch_lightning.utilities import rank_zero_only
from torch import Tensor, nn
from torch.utils.data import DataLoader, DistributedSampler

from check_ins import (
    COLUMNS,
    FIRST_LOCATION,
    PADDING,
    CheckIns,
    Histories,
    Inputs,
    read_or_simulate,
    score_test_part,
)
from models import Markov, MostVisited, ReturnOrExploreGRU
from nextloc_metrics import (
    AccuracyAtK,
    Grouped,
    PopularityBins,
    RankingCollection,
    exploration_metrics,
    next_location_metrics,
    plotting,
    report,
    tables,
)
from nextloc_metrics.distributed import PaddedDataset
from nextloc_metrics.integrations.lightning import CheckEachRowOnce

Batch = tuple[Inputs, Tensor]  # with `is_real`, bool [N], for the evaluation


class Evaluation(pl.LightningModule):
    """Any model that scores every location, with the metrics of this library."""

    def __init__(self, model: nn.Module, data: CheckIns) -> None:
        super().__init__()
        self.model = model
        self.bins = PopularityBins.from_counts(data.training_counts())
        self.val_metrics = next_location_metrics(data.num_locations, prefix="val/")
        self.test_metrics = next_location_metrics(data.num_locations, prefix="test/")
        deciles = ["unmapped", *(f"decile {number}" for number in range(1, 11))]
        self.by_decile = RankingCollection(
            {"acc_at_10": Grouped(AccuracyAtK(10), by="decile", labels=deciles)}
        )
        self.by_visit = exploration_metrics(k=10)
        # Queries of one user depend on each other, so the intervals are clustered by user.
        self.curve = RankingCollection(
            {
                f"acc_at_{k}": Grouped(AccuracyAtK(k), data.num_users, by="user", average="queries")
                for k in range(1, 51)
            }
        )

    def score(self, inputs: Inputs) -> Tensor:
        """Return the scores; -inf for padding and UNSEEN, which are no locations to recommend."""
        scores: Tensor = self.model(inputs)
        scores[:, :FIRST_LOCATION] = -torch.inf
        return scores

    def validation_step(self, batch: Batch, index: int) -> None:
        """Add a batch to the metrics; Lightning computes and resets them after the epoch."""
        inputs, is_real = batch
        self.val_metrics.update(self.score(inputs), inputs["targets"][:, -1], mask=is_real)
        self.log_dict(self.val_metrics, prog_bar=True)

    def test_step(self, batch: Batch, index: int) -> None:
        """Rank a batch once, and add the ranking to all metrics."""
        inputs, is_real = batch
        target = inputs["targets"][:, -1]
        groups = {
            "user": inputs["user"],
            "decile": self.bins.of(target),
            "visited": ~inputs["new"],
        }
        ranking = self.test_metrics.rank(self.score(inputs), target, is_real, groups)
        for metrics in (self.test_metrics, self.by_decile, self.by_visit, self.curve):
            metrics.update(ranking)

    def on_test_epoch_end(self) -> None:
        """Log the values; the metrics keep their counts, for the tables and the figure."""
        # All processes compute equal values; without `sync_dist` Lightning warns.
        self.log_dict(self.test_metrics.compute(), sync_dist=True)


class Training(Evaluation):
    """Learn from every visit of the training histories."""

    model: ReturnOrExploreGRU

    def __init__(self, model: ReturnOrExploreGRU, data: CheckIns, rate: float) -> None:
        super().__init__(model, data)
        self.rate = rate

    def training_step(self, batch: Inputs, index: int) -> Tensor:
        """Return the cross-entropy of the visits."""
        targets = batch["targets"]
        scores = self.model.score(batch, last=targets.shape[1])
        total = nn.functional.nll_loss(
            scores.flatten(0, 1), targets.flatten(), ignore_index=PADDING, reduction="sum"
        )
        # Divide by a constant: the mean of the processes' gradients is then the gradient of the
        # global batch, although the processes have different numbers of visits.
        loss = total / targets.numel()
        self.log("train/loss", loss, on_step=False, on_epoch=True, sync_dist=True, prog_bar=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return AdamW."""
        return torch.optim.AdamW(self.parameters(), lr=self.rate)


class Loaders(pl.LightningDataModule):
    """Batches of histories, with the same rows for any number of processes.

    Validation and test count every row once: `PaddedDataset` marks the rows that repeat. Training
    repeats no row, because its sampler drops what the processes cannot share.
    """

    def __init__(self, data: CheckIns, length: int, batch_size: int, seed: int) -> None:
        super().__init__()
        self.data, self.length, self.batch_size, self.seed = data, length, batch_size, seed

    def train_dataloader(self) -> DataLoader[int]:
        """Return shuffled training histories; all processes together take ``batch_size``."""
        assert self.trainer is not None
        histories = Histories(self.data, self.data.training_rows(self.length), self.length)
        # Lightning adds this sampler for several processes. It is here for one process too, so
        # that the order of the rows is the same for any number of processes.
        sampler = DistributedSampler(
            histories,
            num_replicas=self.trainer.world_size,
            rank=self.trainer.global_rank,
            seed=self.seed,
            drop_last=True,
        )
        batch_size = min(self.batch_size, len(histories)) // self.trainer.world_size
        return DataLoader(
            histories,
            max(batch_size, 1),
            sampler=sampler,
            collate_fn=histories.batch,
            drop_last=True,
        )

    def val_dataloader(self) -> DataLoader[tuple[int, bool]]:
        """Return the validation part."""
        return self._evaluation(part=1)

    def test_dataloader(self) -> DataLoader[tuple[int, bool]]:
        """Return the test part."""
        return self._evaluation(part=2)

    def _evaluation(self, part: int) -> DataLoader[tuple[int, bool]]:
        histories = Histories(self.data, self.data.queries(part), self.length)
        padded = PaddedDataset(histories)
        return DataLoader(padded, 256, collate_fn=padded.collate(histories.batch))


def make_trainer(
    name: str, args: argparse.Namespace, *callbacks: pl.Callback, **kwargs: Any
) -> pl.Trainer:
    """Return a trainer that logs under the model's name."""
    return pl.Trainer(
        callbacks=[CheckEachRowOnce(), *callbacks],
        accelerator="cpu",
        devices=args.devices,
        strategy="ddp" if args.devices > 1 else "auto",
        logger=[
            TensorBoardLogger(args.output / "tensorboard", name=name, default_hp_metric=False),
            CSVLogger(args.output / "csv", name=name),
        ],
        enable_progress_bar=sys.stdout.isatty(),
        enable_model_summary=False,
        log_every_n_steps=1,
        **kwargs,
    )


def evaluate(data: CheckIns, args: argparse.Namespace) -> dict[str, Evaluation]:
    """Train the GRU, test all models, and return them with their metrics."""
    loaders = Loaders(data, args.length, args.batch_size, args.seed)
    gru = Training(ReturnOrExploreGRU(data), data, rate=3e-3)
    models = {
        "most visited": Evaluation(MostVisited(data), data),
        "Markov": Evaluation(Markov(data), data),
        "GRU": gru,
    }
    best = ModelCheckpoint(
        args.output, "best", monitor="val/mrr", mode="max", enable_version_counter=False
    )
    stopping = EarlyStopping(monitor="val/mrr", mode="max", patience=2)
    trainer = make_trainer("GRU", args, best, stopping, max_epochs=args.epochs)
    if args.checkpoint is None:
        say(f"Training: GRU, at most {args.epochs} epochs")
        trainer.fit(gru, datamodule=loaders)
        say(why_training_ended(trainer.current_epoch, args.epochs, stopping))
    for name, model in models.items():
        say(f"Testing: {name}")
        if model is gru:
            weights = args.checkpoint or best.best_model_path
            trainer.test(gru, datamodule=loaders, ckpt_path=weights, verbose=False)
        else:
            make_trainer(name, args).test(model, datamodule=loaders, verbose=False)
    return models


def why_training_ended(epochs: int, at_most: int, stopping: EarlyStopping) -> str:
    """Return after how many epochs training ended, and by which rule."""
    since = stopping.wait_count
    ended = f"Training ended: all {at_most} epochs are done."
    if since >= stopping.patience:
        ended = (
            f"Training stopped after epoch {epochs} of at most {at_most}: {stopping.monitor} has "
            f"not improved for {since} epochs."
        )
    return f"{ended} The best weights are those of epoch {epochs - since}."


@rank_zero_only
def write_report(model: nn.Module, data: CheckIns, length: int, title: str, path: Path) -> None:
    """Write one page with intervals by user, groups, deciles and ties of a model."""
    rows = data.queries(2)
    found = report.evaluate(
        torch.cat([scores for _, _, scores in score_test_part(model, data, length)]),
        data.location[rows],
        groups={
            "user": data.user[rows],
            "hour": data.hour[rows],
            "visit": ["new location" if new else "visited location" for new in data.new[rows]],
        },
        cluster="user",
        train_counts=data.training_counts(),
    )
    path.write_text(found.to_html(title), encoding="utf-8")


@rank_zero_only
def say(text: object) -> None:
    """Print at once, in the first process only."""
    print(text, flush=True)


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("data", nargs="?", type=Path, help="CSV file, or folder of train, valid and test files")
    for option, name in zip(("user", "location", "day", "minute"), COLUMNS, strict=True):
        add(f"--{option}-column", default=name, metavar="NAME", help="default: %(default)s")
    add("--output", type=Path, default=Path("runs/next_location"), help="default: %(default)s")
    add("--epochs", type=int, default=15, help="at most; default: %(default)s")
    add("--batch-size", type=int, default=16, help="histories per step; default: %(default)s")
    add("--length", type=int, default=64, help="visits per history; default: %(default)s")
    add("--devices", type=int, default=1, help="number of processes; default: %(default)s")
    add("--seed", type=int, default=0, help="default: %(default)s")
    add("--limit", type=int, metavar="USERS", help="use only this number of users")
    add("--checkpoint", type=Path, help="test these weights instead of training new ones")
    args = parser.parse_args(argv)
    for name in ("epochs", "batch_size", "length", "devices", "limit"):
        value = getattr(args, name)
        if value is not None and value < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1, got {value}")
    if args.batch_size % args.devices:
        parser.error(f"--batch-size must be a multiple of --devices, got {args.batch_size}")
    for path in (args.data, args.checkpoint):
        if path is not None and not path.exists():
            parser.error(f"{path} does not exist")
    return args


def main(argv: list[str] | None = None) -> dict[str, Evaluation]:
    """Run the evaluation; return the models with their metrics."""
    args = parse_arguments(argv)
    warnings.filterwarnings("ignore", ".*does not have many workers.*")  # the data is in memory
    warnings.filterwarnings("ignore", ".*LeafSpec.*")  # Lightning uses a name that torch deprecates
    warnings.filterwarnings("ignore", "Checkpoint directory .* exists")  # the best is overwritten
    warnings.filterwarnings("ignore", "The dirpath has changed")  # of --checkpoint, to --output
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    pl.seed_everything(args.seed, verbose=False)
    own = (args.user_column, args.location_column, args.day_column, args.minute_column)
    try:
        data = read_or_simulate(
            args.data, args.limit, dict(zip(own, COLUMNS, strict=True)), args.seed
        )
    except ValueError as error:
        sys.exit(f"error: {error}")
    source = "simulated check-ins" if args.data is None else args.data.name
    queries = [len(data.queries(part)) for part in range(3)]
    say(
        f"{source}: {data.num_users - 1:,} users, {data.num_locations - FIRST_LOCATION:,} "
        f"locations, {' / '.join(f'{number:,}' for number in queries)} visits to predict "
        "(train / valid / test)"
    )
    if not all(queries):
        sys.exit("error: each part needs a visit to predict; give more days or users.")
    models = evaluate(data, args)
    headline, by_decile, by_visit = (
        tables.side_by_side({name: getattr(model, metrics) for name, model in models.items()})
        for metrics in ("test_metrics", "by_decile", "by_visit")
    )
    say(
        f"\n{headline}\n\nBy popularity of the target in the training part (decile 1: rarest; "
        f"unmapped: not there, always a miss)\n\n{by_decile}\n\n"
        "By whether the user returns to a visited location or explores a new one\n\n"
        f"{by_visit}"
    )
    figure, axes = plotting.accuracy_within_k({name: x.curve for name, x in models.items()})
    axes.set_title(f"Next location, {source}")
    picture, page = args.output / "accuracy_within_k.png", args.output / "report.html"
    rank_zero_only(plotting.save)(figure, picture)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()  # the first process evaluates all queries alone
    write_report(models["GRU"].model, data, args.length, f"GRU, {source}", page)
    say(
        f"\nFigure: {picture}\nReport of the GRU: {page}\n"
        f"Weights: {args.checkpoint or args.output / 'best.ckpt'}\n"
        f"Logs: {args.output / 'csv'}, tensorboard --logdir {args.output / 'tensorboard'}"
    )
    return models


if __name__ == "__main__":
    main()
