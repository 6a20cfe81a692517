"""One call from predictions to the numbers that a paper reports, and to how they came about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nextloc_metrics import analysis
from nextloc_metrics.arrays import Array, as_tensor
from nextloc_metrics.families.popularity import PopularityBins
from nextloc_metrics.geography import Locations
from nextloc_metrics.geography.locations import check_locations
from nextloc_metrics.intervals import check_confidence
from nextloc_metrics.messages import describe
from nextloc_metrics.protocols import Audit
from nextloc_metrics.report.counted import Counted, Setting, digest, merge_counted
from nextloc_metrics.report.data import check_cluster, count_locations, read_data
from nextloc_metrics.report.page import write_cell, write_page
from nextloc_metrics.report.readings import Reading, read_results
from nextloc_metrics.report.tables import Table, of_readings

Interval = tuple[float, float]


@dataclass(repr=False)
class Evaluation:
    """What `evaluate` has found; `print` it for the headline.

    Attributes:
        values: every metric's value, a fraction.
        intervals: the bounds around every mean of scores.
        chance: the expected value for a random ranking, where all candidates are ranked.
        baseline: the values of ranking everybody by the visits in the training data.
        skill: how far a value is on the way from that baseline to perfect.
        ties: the values where tied relevant locations come last, and where they come first.
        groups: of every kind of groups, the values, intervals and sizes as a table.
        deciles: the decile metrics, as a table.
        card: how the numbers came about: a dict of what was counted, and of what was left out.
        table: the headline.
        columns: the numbers of the headline, by column and row.
    """

    values: dict[str, float]
    intervals: dict[str, Interval]
    card: dict[str, Any]
    table: Table
    chance: dict[str, float] = field(default_factory=dict)
    baseline: dict[str, float] = field(default_factory=dict)
    skill: dict[str, float] = field(default_factory=dict)
    ties: dict[str, Interval] = field(default_factory=dict)
    groups: dict[str, Table] = field(default_factory=dict)
    deciles: Table | None = None
    columns: dict[str, dict[str, Reading]] = field(default_factory=dict)
    _counted: Any = None

    def save(self, path: str | Path, force: bool = False) -> None:
        """Write the counts to a file, from which `merge` adds them to those of other queries.

        Args:
            path: the file, `.npz`; it is there whole or not at all.
            force: write over a file.

        Raises:
            FileExistsError: the file exists, and `force` is False.
        """
        path = Path(path)
        if path.exists() and not force:
            raise FileExistsError(f"`path` must be a new file, and {path} exists; `force=True`.")
        self._counted.save(path)

    def to_pandas(self) -> Any:
        """Return the headline as a `pandas.DataFrame`, a row for every metric."""
        return self.table.to_pandas()

    def to_markdown(self) -> str:
        """Write the headline, every table, and the card for a page in Markdown."""
        parts = [self.table.to_markdown()]
        parts += [f"By {name}:\n\n{table.to_markdown()}" for name, table in self.groups.items()]
        if self.deciles is not None:
            parts.append(f"By popularity of the target:\n\n{self.deciles.to_markdown()}")
        rows = [[name.replace("_", " "), write_cell(value)] for name, value in self.card.items()]
        return "\n\n".join([*parts, Table(["protocol", ""], rows).to_markdown()])

    def to_html(self, title: str = "Evaluation", audit: Audit | None = None) -> str:
        """Write all of it as one page, with pictures, that needs nothing from elsewhere.

        Args:
            title: of the page.
            audit: what `protocols.audit` found, to be shown on the page.

        Raises:
            ModuleNotFoundError: matplotlib is not installed.
        """
        return write_page(self, title, audit)

    def __repr__(self) -> str:
        lines = [f"{name.replace('_', ' ')}: {write_cell(x)}" for name, x in self.card.items()]
        return "\n".join([str(self.table), *lines])


def evaluate(
    preds: Array,
    target: Array,
    *,
    k: int | Sequence[int] = (1, 5, 10),
    mask: Array | None = None,
    groups: Mapping[str, Array] | None = None,
    cluster: str | None = None,
    bins: PopularityBins | None = None,
    train_counts: Array | None = None,
    exclude: Array | None = None,
    exempt_target: bool = False,
    num_locations: int | None = None,
    vocabulary: Sequence[str] | None = None,
    locations: Locations | None = None,
    km: float = 1.0,
    missed: int | None = None,
    confidence: float = 0.95,
) -> Evaluation:
    """Evaluate predictions: headline with intervals, chance, groups, deciles, ties, protocol.

    They are read in chunks, so that a memory-mapped array of scores is never in memory whole.

    Args:
        preds: floating `[N, C]`, scores of all candidates; or integer `[N, K]`, lists of ids.
        target: integer `[N]`, one relevant location per query, or `[N, M]`, several.
        k: the cut-offs.
        mask: bool `[N]`, False leaves a query out.
        groups: by name, every query's group, numbers or text: `{"user": users}`.
        cluster: of which of these groups the queries depend on each other; intervals are then
            those of groups drawn at random, and of queries otherwise.
        bins: every location's popularity bin, for the decile metrics; None makes ten of
            `train_counts`, where these are given.
        train_counts: integer `[C]`, the visits of every location in the training data.
        exclude: as for `RankingMetric.update`.
        exempt_target: as for `RankingMetric.update`.
        num_locations: how many ids there are; None for the candidates of scores, and for lists the
            largest target, which leaves weighted F1 the same.
        vocabulary: the text of every id, so that evaluations with others cannot be merged.
        locations: the coordinates, for the distance metrics and a map; see
            `next_location_metrics`.
        km: how far a candidate may be away to be near.
        missed: how many answers could not be read and count as misses, for the card.
        confidence: how often the intervals hold the true mean.

    Raises:
        TypeError: an argument cannot be read.
        ValueError: shapes do not fit, a value is out of range, or `cluster` names no groups.

    Example:
        >>> import numpy as np
        >>> from nextloc_metrics import report
        >>> scores = np.array([[0.1, 0.7, 0.2], [0.4, 0.3, 0.3], [0.2, 0.2, 0.6], [0.5, 0.4, 0.1]])
        >>> e = report.evaluate(scores, [1, 1, 2, 0], k=1, groups={"user": ["a", "a", "b", "b"]})
        >>> e.values["acc_at_1"], e.chance["acc_at_1"]
        (0.75, 0.3333333333333333)
        >>> e.groups["user"]
        percent        value    95 % interval  queries
        acc_at_1, a    50.00    9.45 -  90.55        2
        acc_at_1, b   100.00   34.24 - 100.00        2
        mrr, a         70.83   20.27 -  95.87        2
        mrr, b        100.00   34.24 - 100.00        2
        ndcg_at_1, a   50.00    9.45 -  90.55        2
        ndcg_at_1, b  100.00   34.24 - 100.00        2
        4 queries counted
    """
    check_confidence(confidence)
    data = read_data(preds, target, groups, {"mask": mask, "exclude": exclude})
    check_cluster(cluster, data)
    counts = None if train_counts is None else as_tensor("train_counts", train_counts)
    if bins is None and counts is not None:
        bins = PopularityBins.from_counts(counts)
    if locations is not None and data.target.ndim == 2:
        raise ValueError(
            "`locations` must be None where a query may have several relevant locations, got "
            f"{describe(target)} as `target`; `geography.AccuracyWithin` takes several."
        )
    targets_too = "given ids" if not exempt_target else "given ids, but not the targets"
    setting = Setting(
        k=(k,) if isinstance(k, int) else tuple(k),
        num_locations=count_locations(data, num_locations, counts),
        known_locations=num_locations,
        candidates=data.width if data.is_scores else None,
        groups=tuple(data.kinds),
        cluster=cluster,
        confidence=confidence,
        exclude="none" if exclude is None else targets_too,
        bins="" if bins is None else digest(bins.state_key()),
        train_counts="" if counts is None else digest(counts.tolist()),
        vocabulary="" if vocabulary is None else digest(*vocabulary),
        locations="" if locations is None else digest(check_locations(locations).state_key()),
        km=km,
    )
    labels = {name: kind.labels for name, kind in data.kinds.items()}
    counted = Counted(setting, labels, bins, counts, locations)
    for batch in data.chunks():
        counted.add(batch, exempt_target)
    if missed is not None:
        counted.card["broken_answers"] = missed
    counted.finish()
    return _evaluation(counted)


def merge(shards: Iterable[str | Path | Evaluation], *, allow_equal: bool = False) -> Evaluation:
    """Add up evaluations of different queries, to the same bits as one evaluation of all.

    Args:
        shards: files that `Evaluation.save` wrote, or evaluations.
        allow_equal: add up shards, too, in which queries, groups and ranks are the same.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: there is no shard, one is there twice, or they were evaluated differently.

    Example:
        >>> from nextloc_metrics import report
        >>> first = report.evaluate([[3, 5]], [3], k=1, groups={"user": ["bob"]}, num_locations=9)
        >>> other = report.evaluate([[4, 2]], [2], k=1, groups={"user": ["ann"]}, num_locations=9)
        >>> both = report.merge([first, other])
        >>> both.values["acc_at_1"], both.values["mrr"], both.card["queries"]
        (0.5, 0.75, 2)
    """
    read = [
        (f"evaluation {number}", shard._counted)
        if isinstance(shard, Evaluation)
        else (str(shard), Counted.load(Path(shard)))
        for number, shard in enumerate(shards)
    ]
    if not read:
        raise ValueError("`shards` must hold at least one evaluation, got none.")
    return _evaluation(merge_counted(read, allow_equal))


def _evaluation(counted: Counted) -> Evaluation:
    """Read what was counted."""
    setting, parts, confidence = counted.setting, counted.parts, counted.setting.confidence
    headline = counted.headline
    results = headline.results(confidence)
    if "cluster" in parts:
        intervals = parts["cluster"].results(confidence).intervals
        results = results._replace(intervals={**results.intervals, **intervals})
    values = {name: float(value) for name, value in results.values.items()}
    columns = {"value": read_results(headline, results, False, False)}
    beside = {
        title: {name: float(value) for name, value in collection.compute().items()}
        for title, collection in counted.beside.items()
    }
    if "chance" in beside:  # which decisions have none
        known = analysis.chance(headline, setting.candidates or 1)
        beside["chance"] = {name: beside["chance"][name] for name in known}
    if setting.candidates is not None and not setting.chance_varies:
        beside["chance"] = analysis.chance(headline, setting.candidates)
    for title in ("chance", "most frequent"):
        if title in beside:
            columns[title] = _column(columns["value"], beside[title])
    bounds = [parts[ties].compute() for ties in ("pessimistic", "optimistic")]
    groups = {
        name.removeprefix("by "): part.table(intervals=True, confidence=confidence)
        for name, part in parts.items()
        if name.startswith("by ")
    }
    baseline = beside.get("most frequent", {})
    return Evaluation(
        values=values,
        intervals={
            name: (float(low), float(high)) for name, (low, high) in results.intervals.items()
        },
        card=counted.describe(),
        table=of_readings(columns, confidence),
        chance=beside.get("chance", {}),
        baseline=baseline,
        skill={
            name: analysis.skill(values[name], x)
            for name, x in baseline.items()
            if columns["value"][name].is_fraction
        },
        ties={name: (float(bounds[0][name]), float(bounds[1][name])) for name in bounds[0]},
        groups=groups,
        deciles=parts["deciles"].table() if "deciles" in parts else None,
        columns=columns,
        _counted=counted,
    )


def _column(readings: Mapping[str, Reading], values: Mapping[str, float]) -> dict[str, Reading]:
    return {
        name: reading._replace(value=values[name], bounds=None)
        for name, reading in readings.items()
        if name in values
    }
