"""Check-ins for the example: reading, simulating, splitting in time, cutting into histories."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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

Inputs = dict[str, Tensor]  # of a model, as `Histories.batch` returns them


def read_check_ins(path: Path, columns: dict[str, str] | None = None) -> pd.DataFrame:
    """Read a CSV file, gzipped or not; ``columns`` maps its own names to those of ``COLUMNS``.

    Without a column ``weekday``, the weekday is ``start_day`` modulo 7. It may differ from the
    calendar's weekday by a constant.
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
    """Read one file and split it in time, or read a folder of train, valid and test files."""
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

    All check-ins of a user's day are in one part.
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

    A user with S visited locations goes to a new location with probability rho S^-gamma. The
    choice is proportional to its popularity (Zipf's law) and to r^-(2 + alpha), where r is the
    distance. Otherwise the user returns to a visited location. The choice is proportional to the
    visits there at this time of the week, plus ``other_times`` times all visits there. The weight
    of a visit falls by the factor 1 - ``fading`` with every later visit. The density of the hours
    t between visits is proportional to t^-(1 + beta), between 0.5 and 17.

    The next location therefore depends on the hour, the weekday, the recent visits, and what other
    users visit near the current location. Counts over a user's full history predict it less well.

    C. Song, T. Koren, P. Wang, A.-L. Barabasi, "Modelling the scaling properties of human
    mobility", Nature Physics 6, 818-823 (2010). H. Barbosa, F. B. de Lima-Neto, A. Evsukoff,
    R. Menezes, "The effect of recency to human mobility", EPJ Data Science 4, 21 (2015).
    """
    rng = np.random.default_rng(seed)
    position = rng.random((num_locations, 2))
    distance = np.linalg.norm(position[:, None] - position, axis=2)
    # The exponent is 2, not 1: in the plane, the number of locations at distance r grows with r.
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
                pass  # the user starts here
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
    """Return the number of the time of the week; a user's habits differ between these times."""
    return hour // 4 + (6 if day % 7 >= 5 else 0)


def _draw(rng: np.random.Generator, weight: np.ndarray) -> int:
    cumulative = np.cumsum(weight)
    return int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))


def _waiting_hours(
    rng: np.random.Generator, beta: float, shortest: float = 0.5, longest: float = 17.0
) -> float:
    """Draw from a power law with density t^-(1 + beta) between two bounds."""
    low, high = shortest**-beta, longest**-beta
    return float((low - rng.random() * (low - high)) ** (-1 / beta))


@dataclass
class CheckIns:
    """All check-ins as tensors, ordered by user and time, with one entry per visit.

    ``location`` is 1 for a location without a visit in the training part, and 2 or more for the
    others; 0 is padding. ``user`` is 0 for a user without a visit in the training part. ``first``
    is the row of the user's first visit, where histories begin. ``new`` is True for the user's
    first visit to a location, and for every visit to location 1, which stands for many locations.
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
            raise ValueError("The training part must have check-ins, got none.")
        users = pd.Index(training["user_id"].unique())
        locations = pd.Index(np.sort(training["location_id"].unique()))
        row = pd.Series(np.arange(len(table)), index=table.index)
        new = ~table.duplicated(["user_id", "location_id"])
        new |= ~table["location_id"].isin(locations)

        def tensor(values: np.ndarray | pd.Series, dtype: torch.dtype = torch.int64) -> Tensor:
            return torch.from_numpy(np.array(values)).to(dtype)

        return cls(
            # get_indexer returns -1 for a missing id; it becomes UNKNOWN_USER or UNSEEN.
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
        """Return the visits of every location in the training part, ``[num_locations]``."""
        return torch.bincount(self.location[self.part == 0], minlength=self.num_locations)

    def times(self) -> Tensor:
        """Return seconds with the hour and the weekday of every visit, and each in a later week."""
        day = 4 + self.weekday + 7 * torch.arange(len(self.weekday))  # day 4 of 1970 was a Monday
        return 3600 * (24 * day + self.hour)

    def queries(self, part: int) -> Tensor:
        """Return the rows to predict in a part: all visits except a user's first."""
        row = torch.arange(len(self.user))
        return row[(self.part == part) & (row > self.first)]

    def training_rows(self, length: int) -> Tensor:
        """Return rows whose histories of ``length`` visits cover the training part once."""
        rows = self.queries(0)
        if not len(rows):
            raise ValueError("The training part must have a user with two check-ins, got none.")
        last = torch.zeros(len(self.user), dtype=torch.int64)
        last.scatter_reduce_(0, self.first[rows], rows, "amax")
        return rows[(last[self.first[rows]] - rows) % length == 0]


class Histories(Dataset[int]):
    """The ``length`` visits before each of the given rows, padded at the front.

    An item is its own index, and ``collate_fn=histories.batch`` makes all histories of a batch.
    """

    def __init__(self, data: CheckIns, rows: Tensor, length: int) -> None:
        self.data, self.rows, self.length = data, rows, length

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> int:
        return index

    def batch(self, indices: Sequence[int]) -> Inputs:
        """Return the inputs of the models, ``[N]`` or, oldest visit first, ``[N, length]``.

        ``targets`` is ``history`` one visit later. The last target is the location of the row. The
        evaluation uses the last target, and the training uses all targets.
        """
        data = self.data
        row = self.rows[torch.tensor(indices)]
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
            "row": row,
        }


def read_or_simulate(
    path: Path | None,
    limit: int | None = None,
    columns: dict[str, str] | None = None,
    seed: int = 0,
) -> CheckIns:
    """Read a file or a folder, or simulate check-ins where ``path`` is None.

    ``limit`` is the number of users; of a file, it is the number of its first users.
    """
    if path is None:
        return CheckIns.from_table(split_in_time(simulate_check_ins(limit or 200, seed=seed)))
    table = read_parts(path, columns)
    if limit is not None:
        table = table[table["user_id"].isin(table["user_id"].unique()[:limit])]
    return CheckIns.from_table(table)


def score_test_part(
    model: Callable[[Inputs], Tensor], data: CheckIns, length: int = 1, part: int = 2
) -> Iterator[tuple[Tensor, Inputs, Tensor]]:
    """Yield rows of the test part (or another one), the model's inputs, and its scores."""
    for rows in data.queries(part).split(256):
        batch = Histories(data, rows, length).batch(list(range(len(rows))))
        with torch.no_grad():
            scores = model(batch)
        scores[:, :FIRST_LOCATION] = -torch.inf  # padding and UNSEEN
        yield rows, batch, scores
