"""Evaluate next-location models on check-ins, with PyTorch Lightning.

    python next_location.py                         # simulated check-ins
    python next_location.py check_ins.csv.gz        # one file, split per user in time
    python next_location.py folder/                 # *train*.csv, *valid*.csv, *test*.csv

A small GRU is trained on the CPU and scored beside two baselines with the same metrics. The output
folder then holds a figure, the best weights, and logs for TensorBoard and as CSV. `--devices 2`
divides the work between two processes and gives the same numbers: exactly the same for given
weights, and up to the rounding of gradients where they are trained.

What is predicted: the location of every visit in the test part, from the visits before it and from
what the training part says of the user. A location without a visit in the training part cannot be
predicted by any of the models; as a target it stays in the evaluation and is always a miss.
"""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from dataclasses import dataclass, field
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
    FIRST_LOCATION,
    PADDING,
    UNKNOWN_USER,
    UNSEEN,
    CheckIns,
    Histories,
    read_parts,
    simulate_check_ins,
    split_in_time,
)
from nextloc_metrics import (
    AccuracyAtK,
    Grouped,
    PopularityBins,
    Ranking,
    RankingCollection,
    analysis,
    next_location_metrics,
    tables,
)

CURVE = range(1, 51)  # the k of the figure
GROUP_K = 10  # the k of the second table
Batch = dict[str, Tensor]


@dataclass
class Results:
    """What one model achieved, as fractions."""

    metrics: dict[str, float] = field(default_factory=dict)
    by_target: dict[str, float] = field(default_factory=dict)  # accuracy for groups of targets
    within: list[float] = field(default_factory=list)  # accuracy for every k of CURVE


class MostFrequent(nn.Module):
    """Score a location by everybody's visits in the training part."""

    def __init__(self, data: CheckIns) -> None:
        super().__init__()
        self.counts = data.training_counts()

    def forward(self, batch: Batch) -> Tensor:
        """Return scores ``[N, num_locations]``."""
        return analysis.most_frequent(self.counts, len(batch["user"])).clone()


class MostVisited(nn.Module):
    """Score a location by this user's visits in the training part.

    The visits of all users decide between locations that this user visited equally often.
    """

    def __init__(self, data: CheckIns) -> None:
        super().__init__()
        training = data.part == 0
        self.visits = _count(
            data.user[training], data.location[training], (data.num_users, data.num_locations)
        )
        counts = data.training_counts().double()
        self.popularity = counts / (counts.sum() + 1)  # below 1: less than any own visit

    def forward(self, batch: Batch) -> Tensor:
        """Return scores ``[N, num_locations]``."""
        return self.visits.index_select(0, batch["user"]).to_dense() + self.popularity


class Markov(MostVisited):
    """Score a location by how often this user went there from the current one.

    Where that does not decide, the user's visits do: ``MostVisited``, scaled to below 1.
    """

    def __init__(self, data: CheckIns) -> None:
        super().__init__(data)
        self.num_locations = data.num_locations
        row = data.queries(0)
        self.moves = _count(
            self._current(data.user[row], data.location[row - 1]),
            data.location[row],
            (data.num_users * data.num_locations, data.num_locations),
        )
        self.scale = 1 / (len(row) + data.num_users + 1)

    def forward(self, batch: Batch) -> Tensor:
        """Return scores ``[N, num_locations]``."""
        current = self._current(batch["user"], batch["history"][:, -1])
        return self.moves.index_select(0, current).to_dense() + self.scale * super().forward(batch)

    def _current(self, user: Tensor, location: Tensor) -> Tensor:
        return user * self.num_locations + location


def _count(rows: Tensor, columns: Tensor, shape: tuple[int, int]) -> Tensor:
    ones = torch.ones(len(rows), dtype=torch.float64)
    indices = torch.stack([rows, columns])
    return torch.sparse_coo_tensor(indices, ones, shape, check_invariants=True).coalesce()


class ReturnOrExploreGRU(nn.Module):
    """A GRU over the recent visits that either returns to one of them or takes any location.

    The score is the logarithm of a mixture, as in pointer-generator networks (See, Liu, Manning,
    ACL 2017) and RepeatNet (Ren et al., AAAI 2019): attention over the history says where to
    return to, a softmax over all locations where to go otherwise, a gate how likely each is.
    """

    def __init__(self, data: CheckIns, size: int = 64) -> None:
        super().__init__()
        self.location = nn.Embedding(data.num_locations, size, padding_idx=PADDING)
        self.user = nn.Embedding(data.num_users, size)
        self.hour = nn.Embedding(24, size)
        self.weekday = nn.Embedding(7, size)
        for embedding in (self.location, self.user, self.hour, self.weekday):
            nn.init.normal_(embedding.weight, std=0.1)
        with torch.no_grad():  # these are never trained: zeros say nothing, random numbers would
            self.location.weight[[PADDING, UNSEEN]] = 0
            self.user.weight[UNKNOWN_USER] = 0
        self.gru = nn.GRU(size, size, batch_first=True)
        self.explore = nn.Linear(size, data.num_locations)
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size, bias=False)  # it would add the same to all visits
        self.gate = nn.Linear(size, 1)

    def forward(self, batch: Batch) -> Tensor:
        """Return scores ``[N, num_locations]`` of the next visit."""
        return self.score(batch, last=1)[:, 0]

    def score(self, batch: Batch, last: int) -> Tensor:
        """Return scores ``[N, last, num_locations]`` after each of the last visits."""
        history = batch["history"]
        length = history.shape[1]
        real = history != PADDING
        when = self.hour(batch["hours"]) + self.weekday(batch["weekdays"])
        visits = (self.location(history) + when) * real[:, :, None]
        states, _ = self.gru(visits)
        now = (states + self.user(batch["user"])[:, None])[:, -last:]

        known = torch.ones(length, length, dtype=torch.bool, device=history.device).tril()[-last:]
        match = self.query(now) @ self.key(visits + states).mT / states.shape[-1] ** 0.5
        match = match.masked_fill(~(known & real[:, None]), -1e9)
        back = self.gate(now).sigmoid()
        chance: Tensor = (1 - back) * self.explore(now).softmax(-1)
        where = history[:, None].expand_as(match)
        return (chance.scatter_add(2, where, back * match.softmax(-1)) + 1e-9).log()


class Evaluation(pl.LightningModule):
    """Any model that gives every location a score, under the metrics of this library."""

    def __init__(self, model: nn.Module, data: CheckIns) -> None:
        super().__init__()
        self.model = model
        self.val_metrics = next_location_metrics(data.num_locations, prefix="val/")
        self.test_metrics = next_location_metrics(data.num_locations, prefix="test/")
        self.curve = RankingCollection({str(k): AccuracyAtK(k) for k in CURVE})
        self.deciles = PopularityBins.from_counts(data.training_counts())
        self.by_decile = Grouped(AccuracyAtK(GROUP_K), self.deciles.num_bins + 1)
        self.by_new = Grouped(AccuracyAtK(GROUP_K), 2)
        self.results = Results()

    def rank(self, batch: Batch) -> Ranking:
        """Score a batch and find where the targets landed: all that the metrics need."""
        scores = self.model(batch)
        # Padding is no place to go. UNSEEN stands for many places, and a hit there would not say
        # which: at -inf it is never retrieved, and a target that is UNSEEN counts as a miss.
        scores[:, :FIRST_LOCATION] = -torch.inf
        return Ranking.from_scores(
            scores,
            batch["targets"][:, -1],
            mask=batch["is_real"],
            top=1,  # the F1 score looks at the best candidate
            best_only=True,
        )

    def validation_step(self, batch: Batch, index: int) -> None:
        """Add a batch to the metrics; Lightning computes and resets them after the epoch."""
        self.val_metrics.update(self.rank(batch))
        self.log_dict(self.val_metrics, prog_bar=True)

    def test_step(self, batch: Batch, index: int) -> None:
        """Rank a batch once, for all the metrics."""
        ranking = self.rank(batch)
        self.test_metrics.update(ranking)
        self.log_dict(self.test_metrics)
        self.curve.update(ranking)
        self.by_decile.update(ranking.with_groups(self.deciles.of(batch["targets"][:, -1])))
        self.by_new.update(ranking.with_groups(batch["new"].long()))

    def on_test_epoch_end(self) -> None:
        """Keep the results; ``compute`` adds up the processes."""
        self.results = Results(
            metrics={name: float(x) for name, x in self.test_metrics.compute().items()},
            by_target=name_groups(self.by_decile.compute(), self.by_new.compute()),
            within=[float(x) for x in self.curve.compute().values()],
        )
        for metric in (self.curve, self.by_decile, self.by_new):
            metric.reset()


def name_groups(by_decile: Tensor, by_new: Tensor) -> dict[str, float]:
    """Name the values for the targets' deciles, the unmapped ones last, and for new and known."""
    unmapped, *deciles = by_decile.tolist()
    known, new = by_new.tolist()
    named = {f"decile {number}": value for number, value in enumerate(deciles, 1)}
    return {**named, "unmapped": unmapped, "new": new, "known": known}


def share_of_groups(data: CheckIns, part: int) -> dict[str, float]:
    """Return the share of a part's targets in every group."""
    rows = data.queries(part)
    deciles = PopularityBins.from_counts(data.training_counts())
    by_decile = torch.bincount(deciles.of(data.location[rows]), minlength=deciles.num_bins + 1)
    by_new = torch.bincount(data.new[rows].long(), minlength=2)
    return name_groups(by_decile / len(rows), by_new / len(rows))


class Training(Evaluation):
    """Learn from every visit of the training histories."""

    model: ReturnOrExploreGRU

    def __init__(self, model: ReturnOrExploreGRU, data: CheckIns, rate: float) -> None:
        super().__init__(model, data)
        self.rate = rate

    def training_step(self, batch: Batch, index: int) -> Tensor:
        """Return the cross-entropy of the visits."""
        targets = batch["targets"]
        scores = self.model.score(batch, last=targets.shape[1])
        total = nn.functional.nll_loss(
            scores.flatten(0, 1), targets.flatten(), ignore_index=PADDING, reduction="sum"
        )
        # Divided by a constant rather than by the visits at hand, the average of the processes'
        # gradients is the gradient of the whole batch.
        loss = total / targets.numel()
        self.log("train/loss", loss, on_step=False, on_epoch=True, sync_dist=True, prog_bar=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return AdamW."""
        return torch.optim.AdamW(self.parameters(), lr=self.rate)


class Loaders(pl.LightningDataModule):
    """Batches that hold the same rows for any number of processes, each of them once."""

    def __init__(self, data: CheckIns, length: int, batch_size: int, seed: int) -> None:
        super().__init__()
        self.data, self.length, self.batch_size, self.seed = data, length, batch_size, seed

    def train_dataloader(self) -> DataLoader[int]:
        """Return shuffled training histories, ``batch_size`` at a time in all processes."""
        rows = self.data.training_rows(self.length)
        histories = Histories(self.data, rows, self.length)
        batch_size = min(self.batch_size, len(rows)) // self._processes
        return DataLoader(
            histories,
            max(batch_size, 1),
            sampler=self._sampler(histories, shuffle=True),
            collate_fn=histories.batch,
            drop_last=True,
        )

    def val_dataloader(self) -> DataLoader[int]:
        """Return the validation part."""
        return self._evaluation(part=1)

    def test_dataloader(self) -> DataLoader[int]:
        """Return the test part."""
        return self._evaluation(part=2)

    @property
    def _processes(self) -> int:
        assert self.trainer is not None
        return self.trainer.world_size

    def _evaluation(self, part: int) -> DataLoader[int]:
        rows = self.data.queries(part)
        histories = Histories(self.data, rows, self.length, self._processes)
        return DataLoader(
            histories,
            256,
            sampler=self._sampler(histories, shuffle=False),
            collate_fn=histories.batch,
        )

    def _sampler(self, histories: Histories, shuffle: bool) -> DistributedSampler[int]:
        assert self.trainer is not None
        # With one process too: the order is then the same for any number of them.
        return DistributedSampler(
            histories,
            num_replicas=self._processes,
            rank=self.trainer.global_rank,
            shuffle=shuffle,
            seed=self.seed,
            drop_last=shuffle,
        )


def make_trainer(name: str, args: argparse.Namespace, **kwargs: Any) -> pl.Trainer:
    """Return a trainer that logs under the model's name."""
    return pl.Trainer(
        accelerator="cpu",
        devices=args.devices,
        strategy="ddp" if args.devices > 1 else "auto",
        use_distributed_sampler=False,  # `Loaders` has its own
        logger=[
            TensorBoardLogger(args.output / "tensorboard", name=name, default_hp_metric=False),
            CSVLogger(args.output / "csv", name=name),
        ],
        enable_model_summary=False,
        log_every_n_steps=1,
        **kwargs,
    )


def evaluate(data: CheckIns, args: argparse.Namespace) -> dict[str, Results]:
    """Train the GRU and test all models."""
    loaders = Loaders(data, args.length, args.batch_size, args.seed)
    training = Training(ReturnOrExploreGRU(data), data, rate=3e-3)  # before trainers draw numbers
    results = {}
    for name, baseline in {"most visited": MostVisited, "Markov": Markov}.items():
        say(f"Testing: {name}")
        evaluation = Evaluation(baseline(data), data)
        make_trainer(name, args).test(evaluation, datamodule=loaders, verbose=False)
        results[name] = evaluation.results

    best = ModelCheckpoint(
        args.output,
        filename="best",
        monitor="val/mrr",
        mode="max",
        enable_version_counter=False,
    )
    stopping = EarlyStopping(monitor="val/mrr", mode="max", patience=2)
    trainer = make_trainer("GRU", args, max_epochs=args.epochs, callbacks=[best, stopping])
    if args.checkpoint is None:
        say(f"Training: GRU, at most {args.epochs} epochs")
        trainer.fit(training, datamodule=loaders)
        say(why_training_ended(trainer.current_epoch, args.epochs, stopping))
    say("Testing: GRU")
    weights = args.checkpoint or best.best_model_path
    trainer.test(training, datamodule=loaders, ckpt_path=weights, verbose=False)
    results["GRU"] = training.results
    return results


def why_training_ended(epochs: int, at_most: int, stopping: EarlyStopping) -> str:
    """Tell after how many epochs training ended, and by which rule."""
    since = stopping.wait_count
    best = f"The best weights are those of epoch {epochs - since}."
    if since < stopping.patience:
        return f"Training ended: all {at_most} epochs are done. {best}"
    return (
        f"Training stopped after epoch {epochs} of at most {at_most}: {stopping.monitor} has not "
        f"improved for {since} epochs. {best}"
    )


def format_table(rows: dict[str, dict[str, float]]) -> str:
    """Lay out fractions as percent, with a dash for NaN."""
    cells = [["percent", *next(iter(rows.values()))]]
    for name, values in rows.items():
        cells.append([name, *("-" if x != x else f"{100 * x:.2f}" for x in values.values())])
    return str(tables.Table(cells[0], cells[1:]))


@rank_zero_only
def draw_curves(curves: dict[str, list[float]], title: str, path: Path) -> None:
    """Draw the accuracy within the first k ranks over k, one line per model."""
    from matplotlib.figure import Figure  # without pyplot, no display is asked for

    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.subplots()
    styles = ["-", "--", ":", "-."]  # the lines differ in grey too
    for name in sorted(curves, key=lambda name: -curves[name][-1]):  # as they end, top to bottom
        style = styles[len(axes.lines) % len(styles)]
        axes.plot(CURVE, [100 * value for value in curves[name]], style, label=name)
    axes.set(
        title=title,
        xlabel="k (ranks that count)",
        ylabel="accuracy within the first k ranks (%)",
        xlim=(1, CURVE[-1]),
        ylim=(0, 100),
        xticks=[1, *range(10, len(CURVE) + 1, 10)],
    )
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", frameon=False)
    figure.savefig(path, dpi=150)


@rank_zero_only
def say(line: str) -> None:
    """Print at once, in the first process only."""
    print(line, flush=True)


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("data", nargs="?", type=Path, help="CSV file, or folder of train, valid and test files")
    for column, name in {
        "user": "user_id",
        "location": "location_id",
        "day": "start_day",
        "minute": "start_min",
    }.items():
        add(f"--{column}-column", default=name, metavar="NAME", help=f"default: {name}")
    add("--output", type=Path, default=Path("runs/next_location"), help="default: %(default)s")
    add("--epochs", type=int, default=15, help="at most; default: %(default)s")
    add("--batch-size", type=int, default=16, help="histories a step; default: %(default)s")
    add("--length", type=int, default=64, help="visits in a history; default: %(default)s")
    add("--devices", type=int, default=1, help="processes; default: %(default)s")
    add("--seed", type=int, default=0, help="default: %(default)s")
    add("--limit", type=int, metavar="USERS", help="read or simulate so many users only")
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


def read_data(args: argparse.Namespace) -> CheckIns:
    """Read or simulate the check-ins that the arguments ask for."""
    if args.data is None:
        table = split_in_time(simulate_check_ins(args.limit or 200, seed=args.seed))
    else:
        columns = {
            args.user_column: "user_id",
            args.location_column: "location_id",
            args.day_column: "start_day",
            args.minute_column: "start_min",
        }
        table = read_parts(args.data, columns)
        if args.limit is not None:
            table = table[table["user_id"].isin(table["user_id"].unique()[: args.limit])]
    return CheckIns.from_table(table)


def main(argv: list[str] | None = None) -> dict[str, Results]:
    """Run the evaluation and return the results of every model."""
    args = parse_arguments(argv)
    warnings.filterwarnings("ignore", ".*does not have many workers.*")  # the data is in memory
    warnings.filterwarnings("ignore", ".*LeafSpec.*")  # Lightning is behind torch
    warnings.filterwarnings("ignore", "Checkpoint directory .* exists")  # the best is overwritten
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    pl.seed_everything(args.seed, verbose=False)
    try:
        data = read_data(args)
    except ValueError as error:
        sys.exit(f"error: {error}")
    source = "simulated check-ins" if args.data is None else args.data.name
    queries = [data.queries(part) for part in range(3)]
    say(
        f"{source}: {data.num_users - 1:,} users, {data.num_locations - FIRST_LOCATION:,} "
        f"locations, {' / '.join(f'{len(rows):,}' for rows in queries)} visits to predict "
        "(train / valid / test)"
    )
    if not all(map(len, queries)):
        sys.exit("error: each part needs a visit to predict; give more days or users.")
    results = evaluate(data, args)
    metrics = {
        name: {key.removeprefix("test/"): value for key, value in result.metrics.items()}
        for name, result in results.items()
    }
    by_target = {name: result.by_target for name, result in results.items()}
    share = share_of_groups(data, part=2)
    say(
        f"\n{format_table(metrics)}\n\n"
        f"Accuracy within {GROUP_K} ranks, by the target: its popularity in the training part "
        "(decile 1: the rarest;\nunmapped: not there at all, always a miss), and whether it is new "
        "to the user or known.\n\n"
        f"{format_table({'share of targets': share, **by_target})}"
    )
    figure = args.output / "accuracy_within_k.png"
    curves = {name: result.within for name, result in results.items()}
    draw_curves(curves, f"Next location, {source}", figure)
    say(
        f"\nFigure: {figure}\nWeights: {args.checkpoint or args.output / 'best.ckpt'}\n"
        f"Logs: {args.output / 'csv'}, tensorboard --logdir {args.output / 'tensorboard'}"
    )
    return results


if __name__ == "__main__":
    main()
