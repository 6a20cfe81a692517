"""Families of tests: pairs of models by metric, corrected together, and the table of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, Literal, NamedTuple

import torch

from nextloc_metrics.analysis.comparison import Comparison, Pair, Test, decide, pair_up
from nextloc_metrics.analysis.significance import holm, level_of
from nextloc_metrics.arguments.batch import Grouping
from nextloc_metrics.base.grouped import Average
from nextloc_metrics.display.table import Table, in_percent
from nextloc_metrics.means import exact

Against = Literal["first", "all"]
Family = Literal["metric", "all"]
PairNames = tuple[str, str]
ByPair = dict[PairNames, dict[str, float]]

# Random sign assignments; more where fewer than ten would have the smallest p that Holm needs.
_RESAMPLES = 10_000
_BELOW = 10

_POWER = 0.8


class RunScores(NamedTuple):
    """The scores of one model and metric: int64 `[R, N]`, in units of 2^-32."""

    units: Any  #: the sums over `draws` answers
    kept: Any  #: bool `[N]`, the queries that count
    draws: int


class Asked(NamedTuple):
    """How models are tested."""

    test: Test
    confidence_level: float
    seed: int
    family: Family | None
    margin: float | None
    against: Against
    average: Average
    cluster: str | None

    @property
    def level(self) -> float:
        """The level of a test, 0.05 for 95 %."""
        return level_of(self.confidence_level)


class Decided(NamedTuple):
    """The comparisons of all pairs by metric, with what the families add to them."""

    pairs: dict[PairNames, dict[str, Comparison]]
    corrected: ByPair
    detectable: ByPair  #: the differences that the tests find
    margins: tuple[ByPair, ByPair] | None  #: corrected p of non-inferiority and equivalence
    num_tests: dict[str, int]  #: of the family of each metric
    draws: int  #: the most random sign assignments


def pair_models(
    second: Mapping[str, RunScores],
    first: Mapping[str, RunScores],
    kind: Grouping | None,
    average: Average,
) -> dict[str, Pair]:
    """Pair the scores of two models by metric, for the queries that count for both."""
    pairs = {}
    for key, b in second.items():
        a = first[key]
        kept = a.kept & b.kept
        groups = None if kind is None else kind.numbers[torch.from_numpy(kept)]
        units = b.units[:, kept], a.units[:, kept]
        draws, as_means = (b.draws, a.draws), average == "groups"
        pairs[key] = pair_up(units, draws, groups, 1 / exact.ONE, as_means)
    return pairs


def pairs_of(names: Sequence[str], against: Against) -> list[PairNames]:
    """Return the pairs of names that are compared."""
    return [x for x in combinations(names, 2) if against == "all" or x[0] == names[0]]


def decide_pairs(pairs: Mapping[PairNames, Mapping[str, Pair]], asked: Asked) -> Decided:
    """Test all pairs, and correct the p-values of each family by Holm's method."""
    places = [(names, key) for names, of in pairs.items() for key in of]
    keys = list(dict.fromkeys(key for _, key in places))
    families = [keys] if asked.family == "all" else [[key] for key in keys]
    found: dict[tuple[PairNames, str], Comparison] = {}
    tables: list[dict[tuple[PairNames, str], float]] = [{}, {}, {}]
    num_tests: dict[str, int] = {}
    draws = _RESAMPLES
    for family in families:
        inside = [place for place in places if place[1] in family]
        distinct = {pairs[names][key].key: pairs[names][key] for names, key in inside}
        number = max(1, len(distinct))
        most = max(_RESAMPLES, math.ceil(_BELOW * number / asked.level))
        draws = max(draws, most)
        options = asked.test, asked.confidence_level, _RESAMPLES, most, asked.seed
        decided = dict(zip(distinct, decide(list(distinct.values()), *options), strict=True))
        columns = [[one.p_value for one in decided.values()]]
        if asked.margin is not None:
            within = [one.within(asked.margin) for one in decided.values()]
            columns += [list(column) for column in zip(*within, strict=True)]
        for table, p_values in zip(tables, columns, strict=False):
            by_key = dict(zip(decided, holm(p_values), strict=True))
            table |= {(x, key): by_key[pairs[x][key].key] for x, key in inside}
        for names, key in inside:
            pair = pairs[names][key]
            own = {x: getattr(pair, x) for x in ("effect_size", "num_queries", "wins", "losses")}
            found[names, key] = replace(decided[pair.key], **own)
        num_tests |= dict.fromkeys(family, number)
    corrected, *margins = (_nest(pairs, table) for table in tables)
    both = None if asked.margin is None else (margins[0], margins[1])
    detectable = {
        (x, key): one.detectable(num_tests[key], _POWER) for (x, key), one in found.items()
    }
    tested, differences = _nest(pairs, found), _nest(pairs, detectable)
    return Decided(tested, corrected, differences, both, num_tests, draws)


def _nest(pairs: Mapping[PairNames, Any], flat: Mapping[Any, Any]) -> dict[PairNames, Any]:
    return {x: {key: flat[x, key] for key in of if (x, key) in flat} for x, of in pairs.items()}


def tabulate(
    values: Mapping[str, Mapping[str, float]], decided: Decided, asked: Asked, notes: Sequence[str]
) -> Table:
    """Make a table with a row for each metric and pair."""
    first = next(iter(values))
    is_first = {a for a, _ in decided.pairs} == {first}
    interval = f"{100 * asked.confidence_level:g} % interval"
    header = ["percent", first if is_first else "first", "value", "difference", interval]
    header += ["p", "corrected p", "detectable"]
    names = ["metric", "first", "value", "difference", "low", "high", "p", "corrected p"]
    names += ["detectable"]
    if asked.margin is not None:
        ways = [f"{way} {in_percent(asked.margin)}" for way in ("not worse by", "within")]
        header, names = [*header, *ways], [*names, "p not worse", "p equivalent"]
    rows, records = [], []
    for key in values[first]:
        for (a, b), of_metrics in decided.pairs.items():
            title = f"{key}, {b}" if is_first else f"{key}, {b} - {a}"
            base, value = values[a][key], values[b][key]
            numbers = [value - base, *[math.nan] * (len(names) - 4)]
            if key in of_metrics:
                numbers = _numbers(decided, (a, b), key)
            difference, low, high, p_value, corrected, detectable, *within = numbers
            ends = "-" if math.isnan(low) else f"{in_percent(low, '+')} to {in_percent(high, '+')}"
            holds = corrected <= asked.level
            cells = [in_percent(base), in_percent(value), in_percent(difference, "+"), ends]
            cells += [_p_value(p_value), _p_value(corrected)]
            cells += ["-" if holds else in_percent(detectable), *map(_p_value, within)]
            rows.append([title, *cells])
            records.append(dict(zip(names, [title, base, value, *numbers], strict=True)))
    return Table(header, rows, notes, records)


def _numbers(decided: Decided, names: PairNames, key: str) -> list[float]:
    one = decided.pairs[names][key]
    tables = decided.corrected, decided.detectable, *(decided.margins or ())
    found = [table[names][key] for table in tables]
    return [one.difference, one.low, one.high, one.p_value, *found]


def detectable_range(decided: Decided, asked: Asked) -> str:
    """Say which differences the tests find."""
    known = [x for of in decided.detectable.values() for x in of.values() if not math.isnan(x)]
    if not known:
        return "-"
    ends = dict.fromkeys(in_percent(x) for x in (min(known), max(known)))
    most = max(decided.num_tests.values())
    level = f"{asked.level:g}" + (f"/{most}" if most > 1 else "")
    return f"{' to '.join(ends)} points with power {_POWER:g} at level {level}"


def p_text(decided: Decided, asked: Asked) -> str:
    """Say how p-values were computed."""
    kinds = {one.p_from for of in decided.pairs.values() for one in of.values()}
    if asked.test == "bootstrap":
        return "two-sided bootstrap test"
    ways = {
        "exact": "all signs",
        "draws": f"up to {decided.draws:,} random signs",
        "t": "Student's t",
    }
    return f"two-sided permutation test ({', '.join(ways[x] for x in ways if x in kinds)})"


def _p_value(p: float) -> str:
    return "-" if math.isnan(p) else "<0.0001" if p < 0.0001 else f"{p:.4f}"
