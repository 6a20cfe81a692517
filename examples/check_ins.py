"""Check-ins for the example: reading, simulating, splitting in time, cutting into histories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.utils.data import Dataset

PADDING = 0  # fills histories that are too short
UNSEEN = 1  # every location without a visit in the training part
FIRST_LOCATION = 2
UNKNOWN_USER = 0  # without a visit in the training part

PARTS = ("train", "valid", "test")
COLUMNS = ("user_id", "location_id", "start_day", "start_min")


def read_check_ins(path: Path, columns: dict[str, str] | None = None) -> pd.DataFrame:
    """Read a CSV file, gzipped or not; ``columns`` maps its own names to those of ``COLUMNS``.

    A column ``weekday`` is kept where there is one. Otherwise the weekday is ``start_day`` modulo
    7, which is right up to a shift: each user's weeks have seven days all the same.
    """
    table = pd.read_csv(path).rename(columns=columns or {})
    missing = [name for name in COLUMNS if name not in table]
    if missing:
        raise ValueError(
            f"{path} needs the columns {', '.join(COLUMNS)}; {', '.join(missing)} not found among "
            f"{', '.join(map(str, table.columns))}. Map other names with options such as "
            "--user-column."
        )
    if "weekday" not in table:
        table["weekday"] = table["start_day"] % 7
    return table[[*COLUMNS, "weekday"]]


def read_parts(path: Path, columns: dict[str, str] | None = None) -> pd.DataFrame:
    """Read one file, to be split in time, or a folder of train, valid and test files."""
    if path.is_file():
        return split_in_time(read_check_ins(path, columns))
    parts = []
    for part in PARTS:
        found = sorted(path.glob(f"*{part}*.csv*"))
        if len(found) != 1:
            raise ValueError(
                f"{path} must be a CSV file or a folder with one *{part}*.csv or .csv.gz, "
                f"got {len(found)} of them."
            )
        parts.append(read_check_ins(found[0], columns).assign(part=PARTS.index(part)))
    return pd.concat(parts, ignore_index=True)


def split_in_time(check_ins: pd.DataFrame, valid: float = 0.6, test: float = 0.8) -> pd.DataFrame:
    """Add the column ``part``: 0, 1, 2 for a user's first 60 %, next 20 % and last 20 % of days.

    A day is never divided, so that nobody's morning is used to learn that morning's afternoon.
    """
    day = check_ins.groupby("user_id")["start_day"]
    first, last = day.transform("min"), day.transform("max")
    share = (check_ins["start_day"] - first) / (last - first + 1)
    return check_ins.assign(part=(share >= valid).astype(int) + (share >= test).astype(int))


def simulate_check_ins(
    num_users: int = 200,
    num_visits: int = 250,
    num_locations: int = 300,
    rho: float = 0.3,
    gamma: float = 0.21,
    alpha: float = 0.55,
    beta: float = 0.8,
    fading: float = 0.03,
    other_times: float = 0.02,
    seed: int = 0,
) -> pd.DataFrame:
    """Simulate check-ins by exploration and preferential return, with habits.

    A user who knows S locations goes to a new one with probability rho S^-gamma, chosen in
    proportion to its popularity (Zipf's law) and to r^-(2 + alpha), where r is the distance.
    Otherwise the user returns to a known location, in proportion to its visits at this time of the
    week, plus ``other_times`` of all its visits; every visit fades by ``fading`` with each later
    one. Hours between visits fall as t^-(1 + beta), between 0.5 and 17.

    So the hour, the weekday, the recent visits and what others visit near here all say something
    of the next location; counts over a user's whole past say less.

    C. Song, T. Koren, P. Wang, A.-L. Barabasi, "Modelling the scaling properties of human
    mobility", Nature Physics 6, 818-823 (2010). H. Barbosa, F. B. de Lima-Neto, A. Evsukoff,
    R. Menezes, "The effect of recency to human mobility", EPJ Data Science 4, 21 (2015).
    """
    rng = np.random.default_rng(seed)
    position = rng.random((num_locations, 2))
    distance = np.linalg.norm(position[:, None] - position, axis=2)
    # In the plane there are about r times as many locations r away: hence 2, not 1.
    attraction = np.maximum(distance, 1e-9) ** -(2 + alpha)
    attraction /= 1 + rng.permutation(num_locations)
    rows = []
    for user in range(num_users):
        here = int(rng.integers(num_locations))
        visits = np.zeros((TIMES_OF_WEEK, num_locations))
        hours = rng.uniform(0, 24)
        for number in range(num_visits):
            day, hour = divmod(hours, 24)
            now = time_of_week(int(day), int(hour))
            overall = visits.sum(0)
            known = np.count_nonzero(overall)
            if number == 0:
                pass  # where this user starts
            elif known < num_locations and rng.random() < rho * known**-gamma:
                here = _draw(rng, np.where(overall > 0, 0.0, attraction[here]))
            else:
                here = _draw(rng, visits[now] + other_times * overall)
            visits *= 1 - fading
            visits[now, here] += 1
            rows.append((user, here, int(day), int(60 * hour)))
            hours += _waiting_hours(rng, beta)
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.assign(weekday=table["start_day"] % 7)


TIMES_OF_WEEK = 12  # six parts of the day, of working days and of weekends


def time_of_week(day: int, hour: int) -> int:
    """Number the time of the week at which simulated users have habits of their own."""
    return hour // 4 + (6 if day % 7 >= 5 else 0)


def _draw(rng: np.random.Generator, weight: np.ndarray) -> int:
    cumulative = np.cumsum(weight)
    return int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))


def _waiting_hours(
    rng: np.random.Generator, beta: float, shortest: float = 0.5, longest: float = 17.0
) -> float:
    """Draw from a power law with density t^-(1 + beta), cut off at both ends."""
    low, high = shortest**-beta, longest**-beta
    return float((low - rng.random() * (low - high)) ** (-1 / beta))


@dataclass
class CheckIns:
    """All check-ins as tensors, ordered by user and time; one entry a visit.

    ``location`` is 0 for padding, 1 for a location without a visit in the training part, 2 and up
    for the others. ``user`` is 0 for a user without a visit there. ``first`` is the row of the same
    user's first visit: histories reach back to it, across parts. ``new`` says that the user has not
    been at the location before; where it is 1, which stands for many, that is taken to be so.
    """

    user: Tensor
    location: Tensor
    hour: Tensor
    weekday: Tensor
    part: Tensor
    first: Tensor
    new: Tensor
    num_users: int
    num_locations: int

    @classmethod
    def from_table(cls, table: pd.DataFrame) -> CheckIns:
        """Order and number the rows of a table with a column ``part``."""
        table = table.sort_values(["user_id", "start_day", "start_min"], kind="stable")
        training = table[table["part"] == 0]
        if training.empty:
            raise ValueError("There are no check-ins in the training part.")
        users = pd.Index(training["user_id"].unique())
        locations = pd.Index(np.sort(training["location_id"].unique()))
        row = pd.Series(np.arange(len(table)), index=table.index)
        new = ~table.duplicated(["user_id", "location_id"])
        new |= ~table["location_id"].isin(locations)

        def tensor(values: np.ndarray | pd.Series, dtype: torch.dtype = torch.int64) -> Tensor:
            return torch.from_numpy(np.array(values)).to(dtype)

        return cls(
            # get_indexer says -1 where an id is missing: that becomes UNKNOWN_USER and UNSEEN.
            user=tensor(users.get_indexer(table["user_id"]) + 1),
            location=tensor(locations.get_indexer(table["location_id"]) + FIRST_LOCATION),
            hour=tensor(table["start_min"] // 60 % 24),
            weekday=tensor(table["weekday"] % 7),
            part=tensor(table["part"]),
            first=tensor(row.groupby(table["user_id"]).transform("min")),
            new=tensor(new, torch.bool),
            num_users=len(users) + 1,
            num_locations=len(locations) + FIRST_LOCATION,
        )

    def training_counts(self) -> Tensor:
        """Visits of every location in the training part, ``[num_locations]``."""
        return torch.bincount(self.location[self.part == 0], minlength=self.num_locations)

    def queries(self, part: int) -> Tensor:
        """Rows of a part to be predicted: all but a user's very first visit."""
        row = torch.arange(len(self.user))
        return row[(self.part == part) & (row > self.first)]

    def training_rows(self, length: int) -> Tensor:
        """Rows whose histories of ``length`` visits lie side by side over the training part."""
        rows = self.queries(0)
        if not len(rows):
            raise ValueError("No user has two check-ins in the training part: nothing to learn.")
        last = torch.zeros(len(self.user), dtype=torch.int64)
        last.scatter_reduce_(0, self.first[rows], rows, "amax")
        return rows[(last[self.first[rows]] - rows) % length == 0]


class Histories(Dataset[int]):
    """The ``length`` visits before each of the given rows, padded at the front.

    It is as long as the next multiple of ``processes``. A distributed sampler repeats rows to that
    end and they would count twice; the rows that are added here say ``is_real=False``, and metrics
    leave them out by ``mask=is_real``.

    An item is only an index: ``collate_fn=histories.batch`` cuts all histories of a batch at once.
    """

    def __init__(self, data: CheckIns, rows: Tensor, length: int, processes: int = 1) -> None:
        self.data, self.rows, self.length, self.processes = data, rows, length, processes

    def __len__(self) -> int:
        return -(-len(self.rows) // self.processes) * self.processes

    def __getitem__(self, index: int) -> int:
        return index

    def batch(self, indices: list[int]) -> dict[str, Tensor]:
        """Return what the models need; ``[N]``, or ``[N, length]`` from the oldest visit on.

        ``targets`` is ``history`` one visit later. Its last entry is the row itself: the one that
        is evaluated. In training, all of them are learned from.
        """
        data, index = self.data, torch.tensor(indices)
        row = self.rows[index % len(self.rows)]
        before = row[:, None] + torch.arange(-self.length, 0)
        real = before >= data.first[row][:, None]
        before = before.clamp(min=0)
        return {
            "user": data.user[row],
            "history": data.location[before].where(real, PADDING),
            "hours": data.hour[before],
            "weekdays": data.weekday[before],
            "targets": data.location[before + 1].where(real, PADDING),
            "new": data.new[row],
            "is_real": index < len(self.rows),
        }


def read_or_simulate(path: Path | None, limit: int | None) -> CheckIns:
    """Read a file or a folder, or simulate so many users where there is none."""
    if path is None:
        return CheckIns.from_table(split_in_time(simulate_check_ins(limit or 200)))
    return CheckIns.from_table(read_parts(path))


def score_test_part(
    model: Callable[[dict[str, Tensor]], Tensor], data: CheckIns, length: int = 1
) -> Iterator[tuple[Tensor, dict[str, Tensor], Tensor]]:
    """Yield rows of the test part, what the model was given of them, and its scores."""
    for rows in data.queries(2).split(256):
        batch = Histories(data, rows, length).batch(list(range(len(rows))))
        with torch.no_grad():
            scores = model(batch)
        scores[:, :FIRST_LOCATION] = -torch.inf  # padding, and what training never visits
        yield rows, batch, scores
