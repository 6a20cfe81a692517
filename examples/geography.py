"""Where on the map does a model fail? Distances, new locations, hours and steps ahead.

    python geography.py                      # simulated check-ins
    python geography.py check_ins.npz        # arrays user, location, minute, latitude, longitude

In the file, a check-in has a user, a location id from 1, and a time in minutes. Location i has the
coordinates `latitude[i - 1]` and `longitude[i - 1]`. Check-ins are ordered by user and time. The
first 60 % of a user's check-ins are for training, and the last 20 % for the test.

Two baselines and a GRU get the same queries. The program prints tables of their distance errors and
of their accuracy: on returns, on new locations, by hour, and some steps ahead. It writes pictures
and a report page.
"""

from __future__ import annotations

import argparse
import logging
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytorch_lightning as pl
import torch
from matplotlib import pyplot
from torch import Tensor, nn

from check_ins import FIRST_LOCATION, CheckIns, score_test_part, simulate_check_ins
from models import Markov, MostVisited, ReturnOrExploreGRU
from next_location import Loaders, Training
from nextloc_metrics import (
    AccuracyAtK,
    Grouped,
    RankingCollection,
    Visits,
    exploration_metrics,
    next_location_metrics,
    plotting,
    previously_visited,
    report,
    tables,
)
from nextloc_metrics.geography import AccuracyWithin, Locations

DISTANCES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
STEPS = 3
LENGTH = 64  # of histories


def read_check_ins(path: Path | None) -> tuple[CheckIns, Locations]:
    """Read check-ins and coordinates, or simulate them on a square of 10 km."""
    if path is None:
        table = simulate_check_ins(60)
        position = 10_000 * np.random.default_rng(0).random((300, 2))  # as the simulation draws it
        locations = Locations.from_plane(*np.concatenate([position[:FIRST_LOCATION], position]).T)
        user, location = table["user_id"].to_numpy(), table["location_id"].to_numpy()
        minute = (1440 * table["start_day"] + table["start_min"]).to_numpy()
    else:
        with np.load(path) as found:
            user, location, minute = found["user"], found["location"] - 1, found["minute"]
            degrees = np.stack([found["latitude"], found["longitude"]])
        # ids 0 and 1, PADDING and UNSEEN, need coordinates too; no query has them as its target
        locations = Locations(*np.concatenate([degrees[:, :FIRST_LOCATION], degrees], axis=1))
    number = np.unique(user, return_inverse=True)[1]
    first = np.unique(number, return_index=True)[1][number]
    row = np.arange(len(user))
    share = (row - first) / np.bincount(number)[number]
    data = CheckIns(
        user=torch.from_numpy(number + 1),
        location=torch.from_numpy(location + FIRST_LOCATION).long(),
        hour=torch.from_numpy(minute // 60 % 24).long(),
        weekday=torch.from_numpy(minute // 1440 % 7).long(),
        part=torch.from_numpy((share >= 0.6).astype(int) + (share >= 0.8)),
        first=torch.from_numpy(first),
        new=~previously_visited(number, location),
        num_users=int(number.max()) + 2,
        num_locations=len(locations),
    )
    return data, locations


@dataclass
class Found:
    """The metrics and the scores of one model."""

    headline: RankingCollection
    by_distance: RankingCollection
    by_visit: RankingCollection
    by_hour: RankingCollection
    by_step: RankingCollection
    scores: Tensor


def evaluate(model: nn.Module, data: CheckIns, locations: Locations) -> Found:
    """Evaluate the test part; the scores of a query count for some steps ahead too."""
    visits = Visits(data.user, data.location)
    within = {f"{1000 * km:g} m": AccuracyWithin(locations, km, k=1) for km in (0.0, *DISTANCES)}
    found = Found(
        next_location_metrics(data.num_locations, locations=locations),
        RankingCollection(within),
        exploration_metrics(visits=visits),
        RankingCollection({"acc_at_1": Grouped(AccuracyAtK(1), 24, by="hour")}),
        RankingCollection({"acc_at_1": Grouped(AccuracyAtK(1), STEPS, by="step")}),
        torch.empty(0),
    )
    last = torch.zeros_like(data.first).scatter_reduce(
        0, data.first, torch.arange(len(data.first)), "amax"
    )[data.first]
    scored = []
    for rows, _, scores in score_test_part(model, data, LENGTH):
        target = data.location[rows]
        found.headline.update(scores, target)
        found.by_distance.update(scores, target)
        groups = {"visited": ~data.new[rows], "check_in": rows}
        found.by_visit.update(scores, target, groups=groups)
        found.by_hour.update(scores, target, groups={"hour": data.hour[rows]})
        ahead = rows[:, None] + torch.arange(STEPS)
        known = ahead <= last[rows][:, None]
        found.by_step.update(
            scores[:, None].expand(-1, STEPS, -1),
            data.location[torch.where(known, ahead, 0)],
            known,
        )
        scored.append(scores.float())
    found.scores = torch.cat(scored)
    return found


def train(data: CheckIns, epochs: int) -> nn.Module:
    """Train the GRU as next_location.py does, without a log."""
    warnings.filterwarnings("ignore", ".*does not have many workers.*")  # the data is in memory
    warnings.filterwarnings("ignore", ".*LeafSpec.*")  # Lightning is behind torch
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    pl.seed_everything(0, verbose=False)
    training = Training(ReturnOrExploreGRU(data), data, rate=3e-3)
    loaders = Loaders(data, LENGTH, batch_size=16, seed=0)
    trainer = pl.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
    )
    trainer.fit(training, datamodule=loaders)
    return training.model.eval()


def draw(found: dict[str, Found], locations: Locations, target: Tensor, output: Path) -> None:
    """Write the pictures."""
    by_location = Grouped(AccuracyAtK(1), len(locations))
    by_location.update(found["GRU"].scores, target, groups=target)
    pictures = {
        "error_map": plotting.error_map(by_location, locations),
        "by_hour": plotting.by_group(found["GRU"].by_hour["acc_at_1"]),
        "by_step": plotting.by_group(found["GRU"].by_step["acc_at_1"]),
    }
    for name, (figure, _) in pictures.items():
        plotting.save(figure, output / f"{name}.png")
        pyplot.close(figure)


def main(argv: list[str] | None = None) -> dict[str, Found]:
    """Print the tables, write the pictures and the report, and return the metrics."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", nargs="?", type=Path, help=".npz file of check-ins")
    parser.add_argument("--epochs", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--output", type=Path, default=Path("runs/geography"))
    options = parser.parse_args(argv)
    options.output.mkdir(parents=True, exist_ok=True)
    data, locations = read_check_ins(options.data)
    models = {
        "most visited": MostVisited(data),
        "Markov": Markov(data),
        "GRU": train(data, options.epochs),
    }
    found = {name: evaluate(model, data, locations) for name, model in models.items()}
    for title in ("headline", "by_distance", "by_visit", "by_hour", "by_step"):
        table = tables.side_by_side({name: getattr(one, title) for name, one in found.items()})
        print(f"\n{title.replace('_', ' ')}\n{table}")
    rows = data.queries(2)
    draw(found, locations, data.location[rows], options.output)
    page = report.evaluate(
        found["GRU"].scores,
        data.location[rows],
        groups={"user": data.user[rows], "hour": data.hour[rows]},
        cluster="user",
        train_counts=data.training_counts(),
        locations=locations,
    )
    (options.output / "report.html").write_text(page.to_html("GRU"), encoding="utf-8")
    return found


if __name__ == "__main__":
    main()
