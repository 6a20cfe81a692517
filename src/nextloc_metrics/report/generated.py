"""One call from tables of generated and real trajectories to all measures with their floors."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from nextloc_metrics.core.display.page import Result, show_meanings, show_picture, show_table
from nextloc_metrics.core.display.table import Table
from nextloc_metrics.core.queries.checks import check_choice
from nextloc_metrics.geography.locations import Locations, Units
from nextloc_metrics.mobility.generated.floors import Floor
from nextloc_metrics.mobility.generated.presets import MobilityCollection, mobility_metrics
from nextloc_metrics.mobility.generated.trajectories import TimeUnit
from nextloc_metrics.report.engines.processes import one_thread
from nextloc_metrics.report.points import PointColumns, count_tables


@dataclass(repr=False)
class MobilityEvaluation(Result):
    """The result of `evaluate_mobility`; `print` shows its table: each value beside its floor.

    Attributes:
        values: the value of each measure.
        floors: the floor of each measure, with the range of 95 % of random halves.
        table: the values beside their floors.
        metrics: the measures.
        card: the options, and the numbers of trajectories and points.
    """

    title: ClassVar[str] = "Generated mobility"

    values: dict[str, float]
    floors: dict[str, Floor]
    table: Table
    metrics: MobilityCollection
    card: dict[str, Any] = field(default_factory=dict)

    def sections(self) -> dict[str, str]:
        measures = self.metrics.measures()
        sections = {"Result": show_table(self.table) + show_meanings(measures.items())}
        for name, measure in measures.items():
            title_of = name.replace("_", " ")
            caption = f"{title_of}; grey: 95 % of random halves of the real users"
            sections[title_of] = show_picture(caption, measure.plot)
        return sections


@one_thread()
def evaluate_mobility(
    generated: Any,
    real: Any,
    *,
    trajectory: str = "trajectory",
    latitude: str = "latitude",
    longitude: str = "longitude",
    location: str | None = None,
    time: str | None = None,
    user: str | None = None,
    time_unit: TimeUnit | None = None,
    units: Units = "degrees",
    locations: Locations | None = None,
    **options: Any,
) -> MobilityEvaluation:
    """Compare tables of generated and real trajectories, one point per row, by all measures.

    The columns of a table must fit into memory. The rows of one trajectory stand together, also
    where one file ends and the next begins. They are in the order of `time`, and where times are
    equal or `time` is None, in that of the rows. The values are the same bits for any number of
    files. A process uses one thread.

    The rows of a `dask.dataframe.DataFrame`, a `ray.data.Dataset` or a `pyspark.sql.DataFrame` may
    stand anywhere. The engine moves the rows of a trajectory to one partition, which loses their
    order, so `time` must be given, and at one time a trajectory must have one location.

    Args:
        generated: a path, a pattern or a folder of Parquet, CSV, JSON lines or Arrow files, a list
            of files, or a frame of pandas, polars, pyarrow or DuckDB; or of Dask, Ray or Spark,
            which is counted on its cluster.
        real: the same.
        trajectory: the column that says which trajectory a point belongs to.
        latitude: the column of latitudes; of x for `units` of a plane.
        longitude: the column of longitudes; of y for `units` of a plane.
        location: the column of locations, text or integers; then the two columns of coordinates
            are not read. With `locations` it holds integers from 0 on.
        time: the column of times, numbers or dates; None for no times. Dates with a time zone are
            read in UTC.
        user: the column of users, in the real table only; None takes each trajectory as another
            user's.
        time_unit: the unit of times that are numbers: `"s"`, `"min"` or `"h"`.
        units: of coordinates.
        locations: the coordinates of the locations 0, 1, ...
        options: further arguments of `mobility.generated.mobility_metrics`, such as `comparison`.

    Raises:
        ValueError: a column or a value is missing or unreadable, the rows of a trajectory do not
            stand together, or their order is not known.

    Example:
        >>> import pandas
        >>> from nextloc_metrics import report
        >>> real = pandas.DataFrame({"day": [1, 1, 2, 2], "place": ["home", "work", "home", "gym"]})
        >>> made = pandas.DataFrame({"day": [1, 1, 2, 2], "place": ["home", "home", "gym", "home"]})
        >>> found = report.evaluate_mobility(made, real, trajectory="day", location="place")
        >>> found.values["daily_locations"]  # bits: all real days have two locations, half of these
        0.31127812445913283
    """
    if time_unit is not None:
        check_choice("time_unit", time_unit, TimeUnit)
    is_ids = location is not None
    make = partial(
        mobility_metrics,
        "ids" if is_ids else "coordinates",
        times=time is not None,
        units=units,
        locations=locations,
        **options,
    )
    points = (latitude, longitude) if location is None else (location,)
    how = time_unit, is_ids, locations is not None
    tables = {
        "generated": (PointColumns(trajectory, points, time, None, *how), generated),
        "real": (PointColumns(trajectory, points, time, user, *how), real),
    }
    counts = count_tables(make, tables)
    metrics = counts.metrics
    results = {name: one.result() for name, one in metrics.measures().items()}
    first = next(iter(results.values()))
    times = f"dates, or numbers in {time_unit}" if time_unit else "dates"
    return MobilityEvaluation(
        {name: one.value for name, one in results.items()},
        {name: one.floor for name, one in results.items()},
        metrics.table(),
        metrics,
        {
            "points": "locations" if is_ids else "coordinates",
            "coordinates": units if not is_ids else "of the locations" if locations else None,
            "times": times if time else None,
            "floor": f"random halves of {'users' if user else 'trajectories'}",
            "generated_trajectories": first.generated,
            "real_trajectories": first.real,
            "generated_points": counts.num_points["generated"],
            "real_points": counts.num_points["real"],
        },
    )
