"""The result of `compare`, with its tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from nextloc_metrics.analysis.comparison import Comparison, PairNames
from nextloc_metrics.analysis.significance import MARKS, letters, level_of, stars
from nextloc_metrics.core.display.page import Result, show_meanings, show_table
from nextloc_metrics.core.display.reading import Reading, footnotes_of
from nextloc_metrics.core.display.table import Table, check_metrics_of, write_number
from nextloc_metrics.core.queries.checks import check_choice
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.report.sections import show_values

Layout = Literal["differences", "models"]
Spread = Literal["interval", "std", "none"]

# This mark follows an interval that excludes 0 although the test finds no difference, or reverse.
_DISAGREES = "!"
_DISAGREEMENT = f"{_DISAGREES} interval and test disagree about 0; if few differ, believe the test"

# With fewer runs, the estimate of the variance of runs is rough.
_FEW_RUNS = 5

# This mark follows a value that is not separated from the best; in LaTeX it is a superscript.
_NOT_SEPARATED = "~"


class ByPair(dict[PairNames, Any]):
    """The results of each pair of models."""

    def __missing__(self, pair: Any) -> Any:
        pairs = [x for x in self if {*x} == {*pair}] or [*self]
        raise KeyError(
            f"pairs are {short(pairs)}, got {short(pair)}; the other way round, a difference has "
            "the other sign."
        )


@dataclass(repr=False)
class Comparisons(Result):
    """The result of `compare`; `print` shows differences, or with `against="all"` the models.

    Attributes:
        pairs: the comparison of each pair of models by metric; a positive difference is in favour
            of the second one.
        corrected_pairs: the p-values of `pairs`, corrected by Holm's method.
        num_tests: the number of different tests of the family of each metric.
        letters: with `against="all"`, the letters of each model by metric: two models share one
            exactly where their corrected p-value is above the level.
        columns: the values of each model with their intervals, by metric.
        card: the number of queries, and how intervals and p-values were computed.
        counts: by model, the numbers of rows of its table that did not fit.
    """

    title: ClassVar[str] = "Comparison"

    pairs: dict[PairNames, dict[str, Comparison]]
    corrected_pairs: dict[PairNames, dict[str, float]]
    num_tests: dict[str, int]
    letters: dict[str, dict[str, str]]
    columns: dict[str, dict[str, Reading]]
    card: dict[str, Any]
    _confidence: float
    _below: Sequence[str]  #: the notes of `table`
    _members: Sequence[tuple[str, Any]]
    _stds: dict[str, dict[str, float]]  #: standard deviations over runs, of each model by metric
    counts: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def _first(self) -> str:
        return next(iter(self.columns))

    @property
    def values(self) -> dict[str, dict[str, float]]:
        """The values of each model, as fractions; with several runs, their means."""
        return {x: {key: y.value for key, y in ys.items()} for x, ys in self.columns.items()}

    @property
    def comparisons(self) -> dict[str, dict[str, Comparison]]:
        """The comparison of each model but the first with the first, by metric."""
        return {b: tests for (a, b), tests in self.pairs.items() if a == self._first}

    @property
    def corrected(self) -> dict[str, dict[str, float]]:
        """The corrected p-values of `comparisons`."""
        return {b: tests for (a, b), tests in self.corrected_pairs.items() if a == self._first}

    @property
    def table(self) -> Table:
        """For each pair and metric, values, difference, interval and both p-values.

        The heads say which value is subtracted from which, as `new - base`.
        """
        names = ["metric", "first", "value", "difference", "low", "high", "p", "corrected p"]
        names += ["difference_of", "note"]
        rows, records, footnotes = [], [], []
        below: list[str] = []
        is_first = all(a == self._first for a, _ in self.pairs)
        for key, first in self.columns[self._first].items():
            for (a, b), tests in self.pairs.items():
                title = f"{key}, {b}" if is_first else f"{key}, {b} - {a}"
                both = self.columns[a][key], self.columns[b][key]
                base, value = (x.value for x in both)
                numbers, ends = [value - base, *[math.nan] * 4], "-"
                if key in tests:
                    test, p_value = tests[key], self.corrected_pairs[a, b][key]
                    numbers = [test.difference, test.low, test.high, test.p_value, p_value]
                    if not math.isnan(test.low):
                        ends = " to ".join(write_number(first, x, sign="+") for x in numbers[1:3])
                    if _disagrees(test, level_of(self._confidence)):
                        ends, footnotes = f"{ends} {_DISAGREES}", [_DISAGREEMENT]
                below += footnotes_of(both)
                cells = [write_number(x, x.value) + x.dagger for x in both]
                cells += [write_number(first, numbers[0], sign="+"), ends]
                rows.append([title, *cells, *map(_p_value, numbers[3:])])
                note = "; ".join(x.footnote for x in both if x.footnote)
                cells_of_record = [title, base, value, *numbers, f"{b} - {a}", note]
                records.append(dict(zip(names, cells_of_record, strict=True)))
        below = [*dict.fromkeys(below), *self._below, *footnotes]
        return Table(self._header(is_first), _align_daggers(rows), below, records)

    def _header(self, is_first: bool) -> list[str]:
        """Return the heads of `table`, which name a model if it is the same in all rows."""
        first = self._first if is_first else "first"
        others = {b for _, b in self.pairs}
        other = "second" if not is_first else others.pop() if len(others) == 1 else "other"
        interval = f"{100 * self._confidence:g} % interval"
        return [self._head, first, other, f"{other} - {first}", interval, "p", "corrected p"]

    @property
    def _head(self) -> str:
        """The head of the first column, which says whether numbers are in percent."""
        of_first = self.columns[self._first].values()
        return "percent" if all(x.is_fraction for x in of_first) else "metric"

    def by_model(self, spread: Spread = "interval", metrics: Sequence[str] | None = None) -> Table:
        """Return a table as papers have it: models down, metrics across.

        The best value is bold if it is tested. Stars are those of the corrected p-values against
        the first model; with `against="all"` letters follow the values, and `~` those that are not
        separated from the best, which does not say that they are as good.

        Args:
            spread: what stands beside a value: `"interval"`, as in `22.58 (20.31-25.04) a`; `"std"`
                for the standard deviation over runs, as in `22.58 ± 0.41 a`; `"none"`, as in
                `22.58 a`.
            metrics: the names of the metrics, in the order of the columns; None for all.
        """
        check_choice("spread", spread, Spread)
        return self._by_model(spread, metrics)

    def _by_model(
        self, spread: Spread, metrics: Sequence[str] | None, is_below: bool = False
    ) -> Table:
        """Return the table of models; `is_below` writes intervals in a row below the values."""
        names = {str(key): _printed(str(key), member) for key, member in self._members}
        keys = [key for key in next(iter(self.columns.values())) if key in names]
        if metrics is not None:
            check_metrics_of(metrics, keys)
            keys = [*metrics]
        tested = {key for tests in self.pairs.values() for key in tests}
        best = {key: self._best(key) for key in keys}
        rows: list[list[str]] = []
        records, bold, footnotes = [], [], list[str]()
        for model, readings in self.columns.items():
            record: dict[str, Any] = {"model": model}
            cells = []
            for column, key in enumerate(keys, 1):
                reading, marks = readings[key], self._marks(model, key, best[key])
                beside = _beside(reading, spread, self._stds[model].get(key))
                cells.append((write_number(reading, reading.value) + reading.dagger, beside, marks))
                footnotes += footnotes_of([reading])
                bold += [(len(rows), column)] if model == best[key] and key in tested else []
                record |= _record(names[key], reading, self.letters.get(model, {}).get(key))
            if is_below:
                rows.append([model, *(f"{value} {marks}" for value, _, marks in cells)])
                below = [text.strip("()") for _, text, _ in cells]
                rows += [["", *below]] if any(below) else []
            else:
                rows.append([model, *(" ".join(filter(None, cell)) for cell in cells)])
            records.append(record)
        header = [self._head, *(names[key] for key in keys)]
        below = [*dict.fromkeys(footnotes), *self._notes(spread)]
        return Table(header, rows, below, records, bold)

    def _best(self, key: str) -> str:
        goodness = {name: _goodness(readings[key]) for name, readings in self.columns.items()}
        goodness = {name: value for name, value in goodness.items() if not math.isnan(value)}
        return max(goodness, key=goodness.__getitem__, default="")

    def _marks(self, model: str, key: str, best: str) -> str:
        """Return the letters of a model and whether it is separated from the best; or its stars."""
        if not self.letters:
            return stars(self.corrected.get(model, {}).get(key, math.nan))
        both = self.corrected_pairs.get((model, best)) or self.corrected_pairs.get((best, model))
        unclear = both and key in both and not both[key] <= level_of(self._confidence)
        return self.letters[model].get(key, "") + (_NOT_SEPARATED if unclear else "")

    def _notes(self, spread: Spread) -> list[str]:
        """Return the footnotes: on values, tests, families, clusters, runs and marks."""
        card, beside = self.card, ""
        if spread == "interval":
            beside = f", with {100 * self._confidence:g} % interval"
        elif spread == "std" and "runs" in card:
            beside = " ± their standard deviation over runs"
        notes = [
            f"means over {card['queries']:,} queries{beside}",
            *([f"intervals: {card['intervals']}"] if spread == "interval" else []),
            *([_note_dashes(self.columns)] if spread == "interval" else []),
            "; ".join(card[x] for x in ("p", "corrected_p") if x in card),
            *([f"runs: {card['runs']}"] if "runs" in card else []),
            *(card[x] for x in ("lists", "notes") if x in card),
        ]
        notes = [*filter(None, notes)]
        if self.letters:
            return [*notes, "models that share a letter are not separated by the tests",
                    f"{_NOT_SEPARATED} not separated from the best, in bold"]  # fmt: skip
        first = self._first
        levels = [f"{mark} p < {level:g}" for level, mark in MARKS.items()]
        return [*notes, f"{', '.join(levels)}, against {first}"]

    def _printed(self) -> Sequence[Table]:
        return [self.by_model()] if self.letters else [self.table]

    def _others(self) -> Mapping[str, Table]:
        return {"By model": self.by_model()}

    def to_latex(
        self,
        rows: Layout = "differences",
        spread: Spread = "interval",
        *,
        metrics: Sequence[str] | None = None,
    ) -> str:
        """Return the table of differences or of models as LaTeX, for the package booktabs.

        Intervals stand below the values. So that it fits a page, the table of differences has no
        p-values that are not corrected.

        Args:
            rows: `"differences"` for a row per pair and metric, `"models"` for a row per model.
            spread: what stands below the values of models, as in `by_model`.
            metrics: the names of the metrics, in their order; None for all.
        """
        check_choice("rows", rows, Layout)
        check_choice("spread", spread, Spread)
        if rows == "models":
            return self._by_model(spread, metrics, is_below=True).to_latex()
        return _fold(self.table.of_metrics(metrics)).to_latex()

    def sections(self) -> dict[str, str]:
        return {
            "Result": show_values(self.columns, self.by_model(), self._confidence)
            + show_table(self.table)
            + show_meanings(x for x in self._members if x[1] is not None)
        }


def _align_daggers(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Put a space after values without a dagger in a column that has daggers."""
    has_dagger = [any("†" in x for x in column) for column in zip(*rows, strict=True)]
    return [
        [
            x + " " if is_marked and "†" not in x else x
            for x, is_marked in zip(row, has_dagger, strict=True)
        ]
        for row in rows
    ]


def _goodness(reading: Reading) -> float:
    return -reading.value if reading.higher_is_better is False else reading.value


def _printed(name: str, member: Any) -> str:
    """Return the name that papers print, such as Acc@1."""
    return str(getattr(member, "label", "") or name)


def _beside(reading: Reading, spread: Spread, std: float | None) -> str:
    """Write the interval or the standard deviation that follows a value."""
    if spread == "std":
        return "" if std is None else f"± {write_number(reading, std)}"
    if reading.bounds is None or spread == "none" or math.isnan(reading.value):
        return ""
    if reading.lacks_interval:
        return "(-)"
    low, high = reading.bounds
    return f"({write_number(reading, low)}-{write_number(reading, high)})"


def _note_dashes(columns: Mapping[str, Mapping[str, Reading]]) -> str:
    """Say why values have a dash in place of an interval; "" if no value has one."""
    keys = {key: None for x in columns.values() for key, y in x.items() if y.lacks_interval}
    why = "- fewer than three groups have a hit, or a miss"
    return f"{why}: no interval of {', '.join(keys)}" if keys else ""


def _fold(table: Table) -> Table:
    """Return a table of differences that is narrow enough for the page of a paper."""
    rows = []
    for name, first, value, difference, ends, _, corrected in table.rows:
        rows += [[name, first, value, difference, corrected]]
        rows += [["", "", "", ends, ""]] if ends != "-" else []
    return Table([*table.header[:4], table.header[6]], rows, table.notes)


def _record(name: str, reading: Reading, marks: str | None) -> dict[str, Any]:
    record: dict[str, Any] = {name: reading.value}
    if reading.bounds is not None:
        record |= zip((f"{name} low", f"{name} high"), reading.bounds, strict=True)
    return record | ({} if marks is None else {f"{name} letters": marks})


def _disagrees(comparison: Comparison, level: float) -> bool:
    """Return whether the interval holds 0 and the test finds a difference, or the reverse."""
    if math.isnan(comparison.p_value) or math.isnan(comparison.low):
        return False
    return (comparison.low <= 0 <= comparison.high) != (comparison.p_value > level)


def _p_value(p: float) -> str:
    return "-" if math.isnan(p) else "<0.0001" if p < 0.0001 else f"{p:.4f}"


def find_letters(
    columns: Mapping[str, Mapping[str, Reading]],
    corrected: Mapping[PairNames, Mapping[str, float]],
    level: float,
) -> dict[str, dict[str, str]]:
    """Return the letters of each model by tested metric."""
    letters_of: dict[str, dict[str, str]] = {name: {} for name in columns}
    for key in next(iter(corrected.values())):
        goodness = {name: _goodness(readings[key]) for name, readings in columns.items()}
        ranked = sorted(columns, key=goodness.__getitem__, reverse=True)
        separated = [pair for pair, p_values in corrected.items() if p_values[key] <= level]
        for name, text in letters(ranked, separated).items():
            letters_of[name][key] = text
    return letters_of


def note_runs(numbers: Mapping[str, int]) -> list[str]:
    """Say which models have one run, or that runs are few, if any model has several."""
    several = [number for number in numbers.values() if number > 1]
    if not several:
        return []
    single = [name for name, number in numbers.items() if number == 1]
    notes = [f"{name}: one run: its runs' variance is not in this interval" for name in single]
    return [*notes, *(["few runs: intervals and p are rough"] if min(several) < _FEW_RUNS else [])]


def p_text(
    comparisons: Mapping[PairNames, Mapping[str, Comparison]], f1: Sequence[str], draws: int = 0
) -> str:
    """Say how p-values were computed, and which ones by Student's t if others are not."""
    keys: dict[str, dict[str, None]] = {}  # the metrics that each way was used for
    for tests in comparisons.values():
        for key, comparison in tests.items():
            way = "exchanges" if comparison.p_from == "draws" and key in f1 else comparison.p_from
            keys.setdefault(way, {})[key] = None
    keys_by_way = {way: ", ".join(metrics) for way, metrics in keys.items()}
    ways = {"exact": "all signs", "draws": f"up to {draws:,} random signs"}
    ways["exchanges"] = f"random exchanges for {keys_by_way.get('exchanges')}"
    signs = ", ".join(ways[x] for x in ways if x in keys_by_way)
    texts = ["permutation test" + f" ({signs})" * bool(draws)] * bool(signs)
    if "t" in keys_by_way:
        texts.append("Student's t test" + f" for {keys_by_way['t']}" * bool(signs))
    return " and ".join(texts)
