"""The difference of two models on the same queries, tests of many pairs, and runs of models."""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.analysis.contrast import Contrast, contrast, sum_by
from nextloc_metrics.analysis.f1_intervals import Exchange
from nextloc_metrics.analysis.rare_differences import interval_of, size_of, tango_interval
from nextloc_metrics.analysis.significance import holm, level_of, satterthwaite, t_test
from nextloc_metrics.analysis.signs import PairedSums, sign_tests
from nextloc_metrics.core.display.page import Result
from nextloc_metrics.core.display.table import Table
from nextloc_metrics.core.means.exact import sum_once
from nextloc_metrics.core.means.intervals import t_quantile
from nextloc_metrics.core.queries.messages import short

PValue = Literal["exact", "draws", "t"]
PairNames = tuple[str, str]

# The least number of sign assignments that a test draws; there are more if fewer than `_BELOW` of
# them could be as extreme as the smallest p-value that Holm's method asks for.
_DRAWS = 10_000
_BELOW = 10


@dataclass(frozen=True)
class Comparison:
    """The difference of two models on the same queries; see `report.compare`.

    Attributes:
        difference: the mean score of the second model minus that of the first.
        low: the lower bound of the interval; `high` is the upper.
        p_value: the probability of a difference at least as large between equal models, not
            corrected for several tests.
        effect_size: Cohen's d_z, the mean of the differences over their standard deviation; NaN for
            F1, which has no difference of a query.
        num_queries: the number of queries that both models scored.
        confidence_level: the confidence level.
        standard_error: that of the difference, clustered if there are groups.
        degrees_of_freedom: those of Student's t in the interval.
        wins: the number of queries that the second model scored higher; ties are the rest. For F1 a
            right decision is scored higher.
        losses: the number of queries that it scored lower.
        p_from: `"exact"` if the p-value is that of all sign assignments, `"draws"` of random ones,
            `"t"` if it is the tail of Student's t.
    """

    difference: float
    low: float
    high: float
    p_value: float
    effect_size: float
    num_queries: int
    confidence_level: float
    standard_error: float = math.nan
    degrees_of_freedom: float = math.nan
    wins: int = 0
    losses: int = 0
    p_from: PValue = "exact"

    def __eq__(self, other: object) -> bool:
        """Whether all attributes are equal: an effect size of NaN equals itself on every Python."""
        return isinstance(other, Comparison) and vars(self) == vars(other)

    def __repr__(self) -> str:
        return (
            f"Comparison(difference {self.difference:+.4f}, "
            f"{100 * self.confidence_level:g} % interval "
            f"{self.low:+.4f} to {self.high:+.4f}, p = {self.p_value:.4g}, "
            f"d_z = {self.effect_size:+.3f}, {self.num_queries} queries)"
        )


class Pair(NamedTuple):
    """Two models on the same queries, ready for a test."""

    contrast: Contrast
    has_runs: bool  #: whether a model has several runs
    slack: int  #: how far rounding may move the sum of all differences, in units
    num_queries: int
    effect_size: float
    wins: int
    losses: int
    size: float  #: the value of `size_of`; NaN if the scores are not fractions
    exchange: Exchange | None = None  #: the test of F1, in place of random signs
    rows: int = 0  #: a number; pairs with the same one have the same metric and queries

    @property
    def key(self) -> tuple[bytes, float, float, bool]:
        """A key that is equal for tests of the same scores."""
        difference = self.contrast
        sums = (difference.sums[0] - difference.sums[1]).tobytes()
        return sums, difference.mean, difference.variance, self.exchange is None


def pair_up(first: Any, second: Any, groups: Tensor | None, unit: float, errors: Any = 0.0) -> Pair:
    """Return the second model's scores minus the first's, summed by group in whole units.

    Scores are float64 `[R, N]` of R runs. If both models have a single run, scores count as equal
    if they differ by no more than `errors`, their rounding.
    """
    is_single, slack = len(first) == len(second) == 1, 0
    if is_single:
        second = np.where(np.abs(second - first) > errors, second, first)
        slack = math.ceil(np.sum(errors) / unit)
    cells = [np.floor(x / unit + 0.5).astype(np.int64) for x in (second, first)]
    sums, sizes = sum_by(groups, np.concatenate(cells))
    difference = contrast([sums[: len(second)], sums[len(second) :]], sizes, unit)
    a, b = (x.mean(0) * unit for x in cells)
    differences, counts = np.unique(a - b, return_counts=True)
    rounded = np.where(np.abs(differences) < unit, 0, differences)
    wins, losses = int(counts[rounded > 0].sum()), int(counts[rounded < 0].sum())
    are_fractions = all(x.min() >= 0 and x.max() <= 1 for x in (first, second))
    size = size_of(rounded, counts) if are_fractions else math.nan
    slack += 2 * len(a) * difference.per_score
    # the effect size is the same for any order of the queries
    mean = sum_once(differences, counts) / len(a)
    squares = sum_once((differences - mean) ** 2, counts)
    if len(a) < 2 or not squares:
        effect = math.copysign(math.inf, mean) if mean and len(a) > 1 else math.nan
    else:
        effect = mean / math.sqrt(squares / (len(a) - 1))
    return Pair(difference, not is_single, slack, len(a), effect, wins, losses, size)


def decide(
    pairs: Sequence[Pair], confidence_level: float, most: int, seed: int
) -> list[Comparison]:
    """Return the comparison of each pair; small p-values have up to `most` sign assignments."""
    least = min(_DRAWS, most)
    has_signs = [x for x in pairs if not x.has_runs and x.exchange is None]
    paired = [PairedSums(x.contrast.sums, x.slack, x.rows) for x in has_signs]
    tests = iter(sign_tests(paired, least, most, seed))
    comparisons = []
    freedoms = torch.tensor([pair.contrast.freedom for pair in pairs], dtype=torch.float64)
    quantiles = t_quantile(confidence_level, freedoms).tolist()
    normal = NormalDist().inv_cdf((1 + confidence_level) / 2)
    for pair, quantile in zip(pairs, quantiles, strict=True):
        mean, variance, freedom, *_ = pair.contrast
        error = math.sqrt(variance) if variance >= 0 else math.nan
        number = int(pair.contrast.sizes.sum())
        low, high = interval_of(mean, quantile * error, quantile, pair.size, number)
        independent = not pair.has_runs and number == len(pair.contrast.sizes) > 1
        if pair.size == 1 and independent and pair.exchange is None:  # scores of 0 and 1
            low, high = tango_interval(pair.wins, pair.losses, number, normal)
        p_from: PValue = "t"
        p_value = t_test(mean / error, freedom) if error else float(mean == 0)
        if not pair.has_runs:
            exchange = pair.exchange
            result = exchange.test(least, most, seed) if exchange else next(tests)
            if result:
                p_value, p_from = result[0], "draws" if result[1] else "exact"
        numbers = mean, low, high, p_value, pair.effect_size, pair.num_queries, confidence_level
        comparisons.append(Comparison(*numbers, error, freedom, pair.wins, pair.losses, p_from))
    return comparisons


#: Comparisons of pairs of models by metrics, with their corrected p-values.
Tests = dict[tuple[PairNames, str], tuple[Comparison, float]]


def decide_family(
    pairs: Mapping[tuple[PairNames, str], Pair], confidence_level: float, seed: int
) -> tuple[Tests, int, int]:
    """Test pairs of models by metrics, and correct the p-values of different tests together.

    Return the tests, how many of them have different scores, and the most signs of a test.
    """
    distinct = {pair.key: pair for pair in pairs.values()}
    number = max(1, len(distinct))
    most = max(_DRAWS, math.ceil(_BELOW * number / level_of(confidence_level)))
    decided = decide([*distinct.values()], confidence_level, most, seed)
    corrected = holm([comparison.p_value for comparison in decided])
    by_key = dict(zip(distinct, zip(decided, corrected, strict=True), strict=True))
    tests = {}
    for names, pair in pairs.items():
        comparison, p_value = by_key[pair.key]
        numbers = {x: getattr(pair, x) for x in ("effect_size", "num_queries", "wins", "losses")}
        tests[names] = replace(comparison, **numbers), p_value
    return tests, number, most


class Runs(NamedTuple):
    """The `mean` and `std` (n - 1; NaN for a single run) of `num_runs` runs of one model."""

    mean: float
    std: float
    num_runs: int


@dataclass(frozen=True, repr=False)
class Summary(Result):
    """Several runs of several models; see `summarize`.

    `models` has the runs by name, and `p_values` those of Welch's t-test by pair of names.
    """

    title: ClassVar[str] = "Runs of several models"

    models: dict[str, Runs]
    p_values: dict[tuple[str, str], float]

    @property
    def table(self) -> Table:
        """The runs of each model, and below them the difference of each pair."""
        notes = []
        for (first, second), p_value in self.p_values.items():
            difference = self.models[second].mean - self.models[first].mean
            notes.append(f"{second} - {first}: {difference:+.4g}, p = {p_value:.3f}")
        runs = self.models.items()
        rows = [[str(name), f"{x.mean:.4g}", f"{x.std:.2g}", str(x.num_runs)] for name, x in runs]
        records = [{"model": name, **x._asdict()} for name, x in runs]
        return Table(["model", "mean", "std", "runs"], rows, notes, records)


def summarize(runs: Mapping[str, Sequence[float] | Tensor]) -> Summary:
    """Summarize the runs of models with several seeds, and compare every pair.

    The standard deviation divides by n - 1. The p-values are those of Welch's t-test, which does
    not assume equal variances, and NaN if a model has a single run or both have no variance. With
    m pairs, require p < 0.05 / m (Bonferroni). `runs` has the value of
    a metric in every run, by the model's name: at least one model, with at least one run each, and
    no value that is NaN or infinite.

    Example:
        >>> summarize({"GRU": [29.4, 30.2, 31.0], "Transformer": [30.9, 31.5, 32.1]})
        model        mean  std  runs
        GRU          30.2  0.8     3
        Transformer  31.5  0.6     3
        Transformer - GRU: +1.3, p = 0.093

    Source: B. L. Welch, "The generalization of 'Student's' problem when several different
    population variances are involved", Biometrika 34, 1947.
    """
    values = {name: [float(value) for value in model_runs] for name, model_runs in runs.items()}
    if not values or not all(values.values()):
        raise ValueError(f"`runs` must hold at least one run per model, got {short(dict(runs))}.")
    models = {}
    for name, model_runs in values.items():
        for run, value in enumerate(model_runs):
            if not math.isfinite(value):
                raise ValueError(
                    f"`runs` must hold finite numbers, got {value} in run {run} of {short(name)}; "
                    "leave out runs that failed."
                )
        std = statistics.stdev(model_runs) if len(model_runs) > 1 else math.nan
        models[name] = Runs(statistics.fmean(model_runs), std, len(model_runs))
    p_values = {}
    for a, b in itertools.combinations(models, 2):
        first, second = models[a], models[b]
        parts = [(x.std**2 / x.num_runs, x.num_runs - 1) for x in (first, second)]
        error = math.sqrt(sum(variance for variance, _ in parts))
        t = (second.mean - first.mean) / error if error else math.nan
        p_values[a, b] = t_test(t, satterthwaite(parts))
    return Summary(models, p_values)
