"""The tests of pairs of models in families, and the result of `compare` with its tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, ClassVar, Literal, NamedTuple, get_args

from nextloc_metrics.analysis.comparison import Comparison, Pair, decide
from nextloc_metrics.analysis.significance import MARKS, holm, letters, level_of, stars
from nextloc_metrics.core.display.page import Result, show_meanings, show_sentence, show_table
from nextloc_metrics.core.display.reading import Models, Reading
from nextloc_metrics.core.display.table import Table, check_metrics_of, in_percent, of_readings
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.report.pages.sections import show_differences, show_values

Against = Literal["first", "all"]
PairNames = tuple[str, str]
Layout = Literal["differences", "models"]
Spread = Literal["interval", "+-", "none"]

# Random sign assignments; more where fewer than ten would have the smallest p that Holm needs.
_RESAMPLES = 10_000
_BELOW = 10

# After an interval that leaves out 0 where the test finds no difference, or the reverse.
_DISAGREES = "!"
_DISAGREEMENT = f"{_DISAGREES} interval and test disagree about 0; if few differ, believe the test"

# After a value that is not separated from the best; in a paper a superscript.
_NOT_SEPARATED = "~"


class Asked(NamedTuple):
    """How models are tested."""

    confidence_level: float
    seed: int
    against: Against
    cluster: str | None

    @property
    def level(self) -> float:
        """The level of a test, 0.05 for 95 %."""
        return level_of(self.confidence_level)


class Tested(NamedTuple):
    """The test of two models by one metric, with what its family adds."""

    found: Comparison
    corrected: float

    @property
    def numbers(self) -> list[float]:
        """The numbers of a row of the table."""
        one = self.found
        return [one.difference, one.low, one.high, one.p_value, self.corrected]


class Decided(NamedTuple):
    """The tests of all pairs by metric."""

    pairs: dict[PairNames, dict[str, Tested]]
    num_tests: dict[str, int]  #: of the family of each metric
    draws: int  #: the most random sign assignments
    exchanged: set[str]  #: the metrics whose answers are exchanged, as those of F1


def pairs_of(names: Sequence[str], against: Against) -> list[PairNames]:
    """Return the pairs of names that are compared."""
    return [x for x in combinations(names, 2) if against == "all" or x[0] == names[0]]


def decide_pairs(pairs: Mapping[PairNames, Mapping[str, Pair]], asked: Asked) -> Decided:
    """Test all pairs, and correct the p-values of each family by Holm's method."""
    keys = list(dict.fromkeys(key for of in pairs.values() for key in of))
    found: dict[PairNames, dict[str, Tested]] = {names: {} for names in pairs}
    num_tests: dict[str, int] = {}
    draws = _RESAMPLES
    for family in [[key] for key in keys] if asked.against == "all" else [keys]:
        inside = [(names, key) for names, of in pairs.items() for key in of if key in family]
        distinct = {pairs[names][key].key: pairs[names][key] for names, key in inside}
        number = max(1, len(distinct))
        most = max(_RESAMPLES, math.ceil(_BELOW * number / asked.level))
        draws = max(draws, most)
        options = asked.confidence_level, _RESAMPLES, most, asked.seed
        decided = decide(list(distinct.values()), *options)
        corrected = holm([one.p_value for one in decided])
        by_key = dict(zip(distinct, zip(decided, corrected, strict=True), strict=True))
        for names, key in inside:
            pair = pairs[names][key]
            one, p_value = by_key[pair.key]
            own = {x: getattr(pair, x) for x in ("effect_size", "num_queries", "wins", "losses")}
            found[names][key] = Tested(replace(one, **own), p_value)
        num_tests |= dict.fromkeys(family, number)
    exchanged = {key for of in pairs.values() for key, pair in of.items() if pair.exchange}
    return Decided(found, num_tests, draws, exchanged)


def tabulate(
    values: Mapping[str, Mapping[str, float]], decided: Decided, asked: Asked, notes: Sequence[str]
) -> Table:
    """Make a table with a row for each metric and pair."""
    first = next(iter(values))
    is_first = {a for a, _ in decided.pairs} == {first}
    interval = f"{100 * asked.confidence_level:g} % interval"
    header = ["percent", first if is_first else "first", "value", "difference", interval]
    header += ["p", "corrected p"]
    names = ["metric", "first", "value", "difference", "low", "high", "p", "corrected p"]
    rows, records, footnotes = [], [], []
    for key in values[first]:
        for (a, b), tests in decided.pairs.items():
            title = f"{key}, {b}" if is_first else f"{key}, {b} - {a}"
            base, value = values[a][key], values[b][key]
            numbers = [value - base, *[math.nan] * (len(names) - 4)]
            numbers = tests[key].numbers if key in tests else numbers
            difference, low, high, p_value, corrected = numbers
            ends = "-" if math.isnan(low) else f"{in_percent(low, '+')} to {in_percent(high, '+')}"
            if key in tests and _disagrees(tests[key].found, asked.level):
                ends, footnotes = f"{ends} {_DISAGREES}", [_DISAGREEMENT]
            cells = [in_percent(base), in_percent(value), in_percent(difference, "+"), ends]
            rows.append([title, *cells, _p_value(p_value), _p_value(corrected)])
            records.append(dict(zip(names, [title, base, value, *numbers], strict=True)))
    return Table(header, rows, [*notes, *footnotes], records)


def _disagrees(one: Comparison, level: float) -> bool:
    """Return whether the interval holds 0 and the p-value does not, or the reverse."""
    if math.isnan(one.p_value) or math.isnan(one.low):
        return False
    return (one.low <= 0 <= one.high) != (one.p_value > level)


def p_text(decided: Decided, with_signs: bool = True) -> str:
    """Say how p-values were computed, and which ones by Student's t if others are not."""
    found: dict[str, dict[str, None]] = {}  # metrics, in order, by the way
    for tests in decided.pairs.values():
        for key, one in tests.items():
            is_exchange = one.found.p_from == "draws" and key in decided.exchanged
            found.setdefault("exchanges" if is_exchange else one.found.p_from, {})[key] = None
    of = {way: ", ".join(keys) for way, keys in found.items()}
    ways = {"exact": "all signs", "draws": f"up to {decided.draws:,} random signs"}
    ways["exchanges"] = f"random exchanges for {of.get('exchanges')}"
    signs = ", ".join(ways[x] for x in ways if x in of)
    texts = ["permutation test" + f" ({signs})" * with_signs] * bool(signs)
    if "t" in of:
        texts.append("Student's t test" + f" for {of['t']}" * bool(signs))
    return " and ".join(texts)


def _p_value(p: float) -> str:
    return "-" if math.isnan(p) else "<0.0001" if p < 0.0001 else f"{p:.4f}"


class ByPair(dict[PairNames, Any]):
    """What is known of each pair of models."""

    def __missing__(self, pair: Any) -> Any:
        known = [x for x in self if {*x} == {*pair}] or [*self]
        raise KeyError(
            f"pairs are {short(known)}, got {short(pair)}; the other way round, a difference has "
            "the other sign."
        )


@dataclass(repr=False)
class Comparisons(Result):
    """The result of `compare`; `print` shows differences, or with `against="all"` the models.

    Attributes:
        values: the values of each model, as fractions; with several runs, their means.
        pairs: the comparison of each pair of models by metric; a positive difference is in favour
            of the second one.
        corrected_pairs: the p-values of `pairs`, corrected by Holm's method.
        table: for each pair and metric, values, difference, interval and both p-values.
        num_tests: the number of different tests of the family of each metric.
        letters: with `against="all"`, the letters of each model by metric: two models share one
            exactly where their corrected p-value is above the level.
        columns: the values of each model with their intervals, by metric.
        card: the number of queries, and how intervals and p-values were computed.
    """

    title: ClassVar[str] = "Comparison"

    values: dict[str, dict[str, float]]
    pairs: dict[tuple[str, str], dict[str, Comparison]]
    corrected_pairs: dict[tuple[str, str], dict[str, float]]
    table: Table
    num_tests: dict[str, int] = field(default_factory=dict)
    letters: dict[str, dict[str, str]] = field(default_factory=dict)
    columns: dict[str, dict[str, Reading]] = field(default_factory=dict)
    card: dict[str, Any] = field(default_factory=dict)
    _confidence: float = 0.95
    _members: Sequence[tuple[str, Any]] = ()

    @property
    def comparisons(self) -> dict[str, dict[str, Comparison]]:
        """The comparison of each model but the first with the first, by metric."""
        first = next(iter(self.values))
        return {b: of for (a, b), of in self.pairs.items() if a == first}

    @property
    def corrected(self) -> dict[str, dict[str, float]]:
        """The corrected p-values of `comparisons`."""
        first = next(iter(self.values))
        return {b: of for (a, b), of in self.corrected_pairs.items() if a == first}

    def by_model(self, spread: Spread = "interval", metrics: Sequence[str] | None = None) -> Table:
        """Return a table as papers have it: models down, metrics across.

        The best value is bold if it is tested. Stars are those of the corrected p-values against
        the first model; with `against="all"` letters follow the values, and `~` those that are not
        separated from the best, which does not say that they are as good.

        Args:
            spread: what stands beside a value: `"interval"`, as in `22.58 (20.31-25.04) a`; `"+-"`
                for half its width, as in `22.58 ± 2.37 a`; `"none"`, as in `22.58 a`.
            metrics: the names of the metrics, in the order of the columns; None for all.
        """
        return self._rows("models", spread, metrics)

    def _by_model(
        self, spread: Spread, metrics: Sequence[str] | None, is_below: bool = False
    ) -> Table:
        """Return the table of models; `is_below` writes intervals in a row below the values."""
        names = {str(key): _printed(str(key), member) for key, member in self._members}
        keys = [key for key in next(iter(self.columns.values())) if key in names]
        if metrics is not None:
            check_metrics_of(metrics, keys)
            keys = [*metrics]
        tested = {key for of in self.pairs.values() for key in of}
        best = {key: self._best(key) for key in keys}
        rows: list[list[str]] = []
        records, bold = [], []
        for model, readings in self.columns.items():
            record: dict[str, Any] = {"model": model}
            cells = []
            for column, key in enumerate(keys, 1):
                one, marks = readings[key], self._marks(model, key, best[key])
                cells.append((in_percent(one.value), _beside(one, spread), marks))
                bold += [(len(rows), column)] if model == best[key] and key in tested else []
                record |= _record(names[key], one, self.letters.get(model, {}).get(key))
            if is_below:
                rows.append([model, *(f"{value} {marks}" for value, _, marks in cells)])
                beside = [text.strip("()") for _, text, _ in cells]
                rows += [["", *beside]] if any(beside) else []
            else:
                rows.append([model, *(" ".join(filter(None, cell)) for cell in cells)])
            records.append(record)
        header = ["percent", *(names[key] for key in keys)]
        return Table(header, rows, self._notes(spread), records, bold)

    def _best(self, key: str) -> str:
        known = {name: _goodness(of[key]) for name, of in self.columns.items()}
        known = {name: value for name, value in known.items() if not math.isnan(value)}
        return max(known, key=known.__getitem__, default="")

    def _marks(self, model: str, key: str, best: str) -> str:
        """Return letters and the mark of models that are not separated from the best, or stars."""
        if not self.letters:
            return stars(self.corrected.get(model, {}).get(key, math.nan))
        both = self.corrected_pairs.get((model, best)) or self.corrected_pairs.get((best, model))
        unclear = both and key in both and not both[key] <= level_of(self._confidence)
        return self.letters[model].get(key, "") + (_NOT_SEPARATED if unclear else "")

    def _notes(self, spread: Spread) -> list[str]:
        """Return the footnote: values, test, family, clusters, runs, and what marks say."""
        level = f"{100 * self._confidence:g} % interval"
        beside = {"interval": f", with {level}", "+-": f" ± half the {level}", "none": ""}[spread]
        card = self.card
        notes = [
            f"means over {card['queries']:,} queries{beside}",
            *([f"intervals: {card['intervals']}"] if spread != "none" else []),
            f"{card['p']}; {card['corrected_p']}",
            *([f"runs: {card['runs']}"] if "runs" in card else []),
            *card.get("notes", "").splitlines(),
        ]
        if self.letters:
            return [*notes, "models that share a letter are not separated by the tests",
                    f"{_NOT_SEPARATED} not separated from the best, in bold"]  # fmt: skip
        first = next(iter(self.values))
        levels = [f"{mark} p < {level:g}" for level, mark in MARKS.items()]
        return [*notes, f"{', '.join(levels)}, against {first}"]

    def _printed(self) -> Sequence[Table]:
        return [self.by_model()] if self.letters else [self.table]

    def _others(self) -> Mapping[str, Table]:
        return {"By model": self.by_model()}

    def _rows(
        self,
        rows: Layout,
        spread: Spread,
        metrics: Sequence[str] | None = None,
        is_below: bool = False,
    ) -> Table:
        if rows not in ("differences", "models"):
            raise ValueError(f"`rows` must be 'differences' or 'models', got {rows!r}.")
        _check_spread(spread)
        if rows == "models":
            return self._by_model(spread, metrics, is_below)
        return self.table.of_metrics(metrics)

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
        found = self._rows(rows, spread, metrics, is_below=True)
        return (_below(found) if rows == "differences" else found).to_latex()

    def to_markdown(
        self,
        rows: Layout | None = None,
        spread: Spread = "interval",
        *,
        metrics: Sequence[str] | None = None,
    ) -> str:
        """Return one table as Markdown; None for all tables and the card."""
        _check_spread(spread)
        if rows is None:
            return super().to_markdown()
        return self._rows(rows, spread, metrics).to_markdown()

    def to_pandas(self, rows: Layout = "differences") -> Any:
        """Return the numbers of a table, unrounded, as a `pandas.DataFrame`."""
        return self._rows(rows, "interval").to_pandas()

    def sections(self) -> dict[str, str]:
        level = self._confidence
        values = self.by_model()
        if not self.letters:
            values = of_readings(self.columns, level, ["bold: the best value"])
        first = next(iter(self.columns))
        return {
            "Result": show_sentence(self._sentences())
            + show_values(self.columns, values, level)
            + show_differences(first, self._differences(), level)
            + show_table(self._table_of_differences())
            + show_meanings(self._members)
        }

    def _sentences(self) -> str:
        """Say in how many metrics each model differs from the first one."""
        first, level = next(iter(self.values)), level_of(self._confidence)
        found = []
        for (name, tested), p_values in zip(
            self.comparisons.items(), self.corrected.values(), strict=True
        ):
            held = [one.difference for key, one in tested.items() if p_values[key] <= level]
            better = sum(x > 0 for x in held)
            ways = {"better than": better, "worse than": len(held) - better}
            ways["not separated from"] = len(tested) - len(held)
            said = ", ".join(f"{way} {first} in {number}" for way, number in ways.items() if number)
            if tested:
                found.append(f"Of {len(tested)} tested metrics, {name} is {said}.")
        return " ".join(found)

    def _table_of_differences(self) -> Table:
        """Return the differences of the table; rows of two models need no name of a model."""
        first, *others = self.columns
        names = [x[0] for x in self.table.rows] if len(others) > 1 else list(self.values[first])
        rows = [[name, *row[3:]] for name, row in zip(names, self.table.rows, strict=True)]
        return Table(["percentage points", *self.table.header[3:]], rows, self.table.notes)

    def _differences(self) -> dict[str, dict[str, Reading]]:
        """Return the differences from the first model with their intervals, by metric."""
        first, *others = self.columns.values()
        found = {}
        for (name, tested), readings in zip(self.comparisons.items(), others, strict=True):
            found[name] = {
                key: one._replace(value=one.value - first[key].value, bounds=None)
                for key, one in readings.items()
            }
            for key, one in tested.items():
                bounds = None if math.isnan(one.low) else (one.low, one.high)
                found[name][key] = found[name][key]._replace(value=one.difference, bounds=bounds)
        return found


def find_letters(
    columns: Models, corrected: Mapping[tuple[str, str], Mapping[str, float]], level: float
) -> dict[str, dict[str, str]]:
    """Return the letters of each model by tested metric."""
    found: dict[str, dict[str, str]] = {name: {} for name in columns}
    for key in next(iter(corrected.values())):
        ranks = {name: _goodness(of[key]) for name, of in columns.items()}
        ranked = sorted(columns, key=ranks.__getitem__, reverse=True)
        held = [pair for pair, of in corrected.items() if of[key] <= level]
        for name, text in letters(ranked, held).items():
            found[name][key] = text
    return found


def _goodness(one: Reading) -> float:
    return -one.value if one.higher_is_better is False else one.value


def _printed(name: str, member: Any) -> str:
    """Return the name that papers print, such as Acc@1."""
    label = str(getattr(member, "label", "") or name)
    return label.replace("Accuracy@", "Acc@")


def _check_spread(spread: str) -> None:
    if spread not in get_args(Spread):
        raise ValueError(f"`spread` must be one of {list(get_args(Spread))}, got {short(spread)}.")


def _beside(one: Reading, spread: Spread) -> str:
    """Write what stands beside a value."""
    if one.bounds is None or spread == "none" or math.isnan(one.bounds[0]):
        return ""
    low, high = one.bounds
    if spread == "+-":
        return f"± {in_percent((high - low) / 2)}"
    return f"({in_percent(low)}-{in_percent(high)})"


def _below(table: Table) -> Table:
    """Return a table of differences as a page of a paper has room for it."""
    rows = []
    for name, first, value, difference, ends, _, corrected in table.rows:
        rows += [[name, first, value, difference, corrected]]
        rows += [["", "", "", ends, ""]] if ends != "-" else []
    return Table([*table.header[:4], table.header[6]], rows, table.notes)


def _record(name: str, one: Reading, marks: str | None) -> dict[str, Any]:
    record: dict[str, Any] = {name: one.value}
    if one.bounds is not None:
        record |= zip((f"{name} low", f"{name} high"), one.bounds, strict=True)
    return record | ({} if marks is None else {f"{name} letters": marks})
