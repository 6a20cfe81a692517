"""One call from tables of real and generated trajectories to all measures with their floors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nextloc_metrics.arguments.messages import short
from nextloc_metrics.display.table import Table
from nextloc_metrics.files.ids import plain
from nextloc_metrics.files.memory import Stream, is_pandas
from nextloc_metrics.files.opening import find_files, need_arrow
from nextloc_metrics.files.parts import Part, Source, place
from nextloc_metrics.files.sources import Files
from nextloc_metrics.geography.locations import Locations
from nextloc_metrics.mobility.floors import Floor
from nextloc_metrics.mobility.measure import Result
from nextloc_metrics.mobility.presets import MobilityCollection, mobility_metrics
from nextloc_metrics.mobility.trajectories import TimeUnit, Trajectories, Units
from nextloc_metrics.report import page


@dataclass(repr=False)
class MobilityEvaluation:
    """The result of `evaluate_tables`; `print` shows the table, in which each value has its floor.

    Attributes:
        values: the value of each measure.
        floors: the floor of each measure, with the range of 95 % of random halves.
        table: the values beside their floors.
        metrics: the measures.
        card: the options, and the numbers of trajectories and points.
    """

    values: dict[str, float]
    floors: dict[str, Floor]
    table: Table
    metrics: MobilityCollection
    card: dict[str, Any] = field(default_factory=dict)

    def to_markdown(self) -> str:
        """Return the table as Markdown."""
        return self.table.to_markdown()

    def to_html(
        self, title: str = "Generated mobility", source: Mapping[str, Any] | None = None
    ) -> str:
        """Return one HTML page: the table, and both distributions of each measure.

        Args:
            title: the title of the page.
            source: what was read, by name, such as files, date and command; shown as a card.

        Raises:
            ModuleNotFoundError: matplotlib is not installed.
        """
        measures = self.metrics.measures()
        result = page.show_table(self.table) + page.show_meanings(measures.items())
        sections = {"Result": result}
        for name, measure in measures.items():
            title_of = name.replace("_", " ")
            caption = f"{title_of}; grey: 95 % of random halves of the real users"
            sections[title_of] = page.show_picture(caption, measure.plot)
        sections["Protocol"] = page.show_card(self.card)
        return page.write_page(title, sections, source)

    def __repr__(self) -> str:
        return str(self.table)

    def _repr_html_(self) -> str:
        return self.table._repr_html_()


def evaluate_tables(
    real: Any,
    generated: Any,
    *,
    trajectory: str = "trajectory",
    latitude: str = "latitude",
    longitude: str = "longitude",
    location: str | None = None,
    time: str | None = None,
    user: str | None = None,
    time_unit: TimeUnit = "s",
    units: Units = "degrees",
    locations: Locations | None = None,
    **options: Any,
) -> MobilityEvaluation:
    """Compare tables of real and generated trajectories, one point per row, by all measures.

    Tables are read in parts, so that memory does not grow with their size. The rows of one
    trajectory stand together; with `time` they may be in any order there.

    Args:
        real: a path, a pattern or a folder of Parquet, CSV, JSON lines or Arrow files, a list of
            files, or a frame of pandas, polars, pyarrow or DuckDB.
        generated: the same.
        trajectory: the column that says which trajectory a point belongs to.
        latitude: the column of latitudes; of x for `units` of a plane.
        longitude: the column of longitudes; of y for `units` of a plane.
        location: the column of locations, text or integers; then the two columns of coordinates
            are not read. With `locations` it holds integers from 0 on.
        time: the column of times, numbers or dates; None for no times.
        user: the column of users, in the real table only; None takes each trajectory as another
            user's.
        time_unit: the unit of times that are numbers.
        units: of coordinates.
        locations: the coordinates of the locations 0, 1, ...
        options: further arguments of `mobility.mobility_metrics`, such as `comparison`.

    Raises:
        ValueError: a column or a value is missing or unreadable, or the rows of a trajectory do
            not stand together.

    Example:
        >>> import pandas
        >>> from nextloc_metrics import report
        >>> real = pandas.DataFrame({"day": [1, 1, 2, 2], "place": ["home", "work", "home", "gym"]})
        >>> made = pandas.DataFrame({"day": [1, 1, 2, 2], "place": ["home", "home", "gym", "home"]})
        >>> found = report.evaluate_tables(real, made, trajectory="day", location="place")
        >>> found.values["daily_locations"]  # bits: all real days have two locations, half of these
        0.31127812445913283
    """
    is_ids = location is not None
    points = [location] if location is not None else [latitude, longitude]
    metrics = mobility_metrics(
        "ids" if is_ids else "coordinates",
        times=time is not None,
        units=units,
        locations=locations,
        **options,
    )
    numbers: dict[str, int] | None = {} if locations is None else None
    num_points = {"real": 0, "generated": 0}
    for name, table in (("real", real), ("generated", generated)):
        own = user if name == "real" else None
        columns = Columns(trajectory, points, time, own, time_unit, is_ids, numbers)
        for part in columns.read(name, table):
            num_points[name] += len(part.row)
            metrics.update(**{"target" if name == "real" else "preds": part})
    results = {name: one.result() for name, one in metrics.measures().items()}
    return MobilityEvaluation(
        {name: one.value for name, one in results.items()},
        {name: one.floor for name, one in results.items()},
        metrics.table(),
        metrics,
        {
            "points": "locations" if is_ids else "coordinates",
            "coordinates": units if not is_ids else "of the locations" if locations else None,
            "times": f"dates, or numbers in {time_unit}" if time else None,
            "floor": f"random halves of {'users' if user else 'trajectories'}",
            **_sizes(results.values(), num_points),
        },
    )


def _sizes(results: Iterable[Result], num_points: Mapping[str, int]) -> dict[str, int]:
    """Return the numbers of trajectories and points."""
    first = next(iter(results))
    return {
        "real_trajectories": first.real,
        "generated_trajectories": first.generated,
        **{f"{name}_points": number for name, number in num_points.items()},
    }


@dataclass
class Columns:
    """The columns of a table of points.

    Attributes:
        numbers: the number of each location, by its text; None for ids that have coordinates.
    """

    trajectory: str
    points: list[str]
    time: str | None
    user: str | None
    time_unit: TimeUnit
    is_ids: bool
    numbers: dict[str, int] | None

    def read(self, name: str, table: Any) -> Iterator[Trajectories]:
        """Yield whole trajectories; the last one of a part is kept until its end was read."""
        names = [self.trajectory, *self.points, *(x for x in (self.time, self.user) if x)]
        kept: dict[str, Any] | None = None
        seen: set[int | str] = set()
        for part in _source_of(name, table, names).parts(names):
            found = self._read_part(part)
            if not len(found["trajectory"]):
                continue
            joined = found if kept is None else {key: _join(kept[key], found[key]) for key in found}
            names_of = joined["trajectory"]
            changes = np.flatnonzero(names_of[1:] != names_of[:-1]) + 1
            last = int(changes[-1]) if len(changes) else 0
            self._check_together(part.file, names_of[np.append(0, changes)][:-1].tolist(), seen)
            if last:
                yield self._make({key: column[:last] for key, column in joined.items()})
            kept = {key: column[last:] for key, column in joined.items()}
        if kept is not None:
            self._check_together(name, kept["trajectory"][:1].tolist(), seen)
            yield self._make(kept)

    def _check_together(self, file: str, ended: list[Any], seen: set[int | str]) -> None:
        for one in ended:
            if one in seen:
                raise ValueError(
                    f"the rows of a trajectory must stand together in {file}, got trajectory "
                    f"{short(one)} again after others; sort the rows by `{self.trajectory}`."
                )
            seen.add(one)

    def _make(self, columns: Mapping[str, Any]) -> Trajectories:
        return Trajectories.from_columns(
            columns["trajectory"],
            columns["points"],
            columns.get("time"),
            columns.get("user"),
            time_unit="s" if columns.get("is_date", [False])[0] else self.time_unit,
        )

    def _read_part(self, part: Part) -> dict[str, Any]:
        found = {"trajectory": _read_names(part, self.trajectory)}
        if self.is_ids:
            found["points"] = self._read_ids(part, self.points[0])
        else:
            found["points"] = np.column_stack([_read_numbers(part, x)[0] for x in self.points])
            found["points"] = found["points"].astype(np.float64)
        if self.time is not None:
            found["time"], is_date = _read_numbers(part, self.time)
            found["is_date"] = np.full(len(found["time"]), is_date)
        if self.user is not None:
            found["user"] = _read_names(part, self.user)
        return found

    def _read_ids(self, part: Part, name: str) -> Any:
        """Return ids that have coordinates; or numbers, one for each text of a location."""
        column, pa = _arrow(part, name), need_arrow()
        if self.numbers is None:
            try:
                return column.cast(pa.int64()).to_numpy(zero_copy_only=False)
            except pa.ArrowInvalid as error:
                raise ValueError(
                    f"column `{name}` must be integers with `locations`, got others in {part.file}."
                ) from error
        found = column.cast(pa.string()).dictionary_encode()
        texts = found.dictionary.to_pylist()
        own = [self.numbers.setdefault(text, len(self.numbers)) for text in texts]
        return np.array(own, dtype=np.int64)[found.indices.to_numpy(zero_copy_only=False)]


def _source_of(name: str, table: Any, columns: list[str]) -> Source:
    if hasattr(table, "__arrow_c_stream__") or is_pandas(table):
        return Stream(table, columns)
    try:
        return Files(find_files(table))
    except TypeError as error:
        raise TypeError(
            f"`{name}` must be a path, a list of paths or a table that exports an Arrow stream, "
            f"got {short(table)}."
        ) from error


def _arrow(part: Part, name: str) -> Any:
    """Return a column without missing values as an Arrow array."""
    pa, column = need_arrow(), part.columns[name]
    column = plain(pa.array(column) if isinstance(column, list | np.ndarray) else column)
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise ValueError(
            f"column `{name}` must have no missing value, got one in "
            f"{place(part.file, part.rows[row])}; drop the row."
        )
    return column


def _read_names(part: Part, name: str) -> Any:
    """Return integers, or text as objects; dates are text."""
    column = _arrow(part, name)
    pa = need_arrow()
    if pa.types.is_integer(column.type):
        return column.to_numpy(zero_copy_only=False).astype(np.int64)
    if pa.types.is_floating(column.type):
        raise ValueError(
            f"column `{name}` must be integers or text, got {column.type} in {part.file}; cast it."
        )
    return column.cast(pa.string()).to_numpy(zero_copy_only=False).astype(object)


def _read_numbers(part: Part, name: str) -> tuple[Any, bool]:
    """Return numbers, or the seconds of dates; and whether they were dates."""
    column = _arrow(part, name)
    pa = need_arrow()
    if pa.types.is_temporal(column.type):
        microseconds = column.cast(pa.timestamp("us")).cast(pa.int64())
        return microseconds.to_numpy(zero_copy_only=False) / 1e6, True
    try:
        return column.cast(pa.float64()).to_numpy(zero_copy_only=False), False
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(
            f"column `{name}` must be numbers or dates, got others in {part.file}."
        ) from error


def _join(first: Any, other: Any) -> Any:
    if first.dtype.kind != other.dtype.kind and "O" in (first.dtype.kind, other.dtype.kind):
        first, other = (x.astype(str).astype(object) for x in (first, other))
    return np.concatenate([first, other])
