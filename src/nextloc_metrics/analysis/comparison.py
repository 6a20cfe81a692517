"""Paired comparison of two models on the same queries, and several runs of several models."""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.analysis.contrast import Contrast, UserSums, contrast, sum_by
from nextloc_metrics.analysis.f1_intervals import Exchange
from nextloc_metrics.analysis.rare_differences import (
    detectable,
    interval_of,
    size_of,
    tango,
    tango_interval,
    variance_at,
)
from nextloc_metrics.analysis.significance import level_of, satterthwaite, t_test
from nextloc_metrics.analysis.signs import sign_tests
from nextloc_metrics.core.display.page import Result
from nextloc_metrics.core.display.table import Table
from nextloc_metrics.core.means.exact import sum_once
from nextloc_metrics.core.means.intervals import check_confidence_level, t_quantile
from nextloc_metrics.core.queries.checks import as_number, check_choice, check_positive, is_integer
from nextloc_metrics.core.queries.messages import describe, got, short
from nextloc_metrics.metrics.per_query import PerQueryScores, QueryScores

Test = Literal["permutation", "bootstrap"]
PValue = Literal["exact", "draws", "t"]

# With fewer queries or groups, the bootstrap finds a difference too often.
_FEWEST_FOR_BOOTSTRAP = 30

# With fewer differences the power of the sign test is not that of Student's t.
_FEWEST_FOR_POWER = 17

# Rounding errors of a score, in units of the last place.
_ROUNDED = 4

# Bits of the integer of the highest score; scores up to 1 are those of a state.
_BITS = 32

# Random numbers drawn at once.
_DRAWN = 1 << 22


@dataclass(frozen=True)
class Comparison:
    """The difference of two models on the same queries; see `compare`.

    Attributes:
        difference: the mean score of the second model minus that of the first.
        low: the lower bound of the interval; `high` is the upper.
        p_value: the probability of a difference at least as large between equal models, not
            corrected for several tests.
        effect_size: Cohen's d_z, the mean of the differences over their standard deviation; NaN for
            F1, which has no difference of a query.
        num_queries: the number of queries that both models scored.
        confidence_level: the confidence level.
        test: the method of the interval and the p-value.
        standard_error: that of the difference, clustered if there are groups.
        degrees_of_freedom: those of Student's t in the interval.
        wins: the number of queries that the second model scored higher; ties are the rest. For F1 a
            right decision is scored higher.
        losses: the number of queries that it scored lower.
        p_from: `"exact"` if the p-value is that of all sign assignments, `"draws"` of random ones,
            `"t"` if it is the tail of Student's t.
        size: the size of differences that are not 0: the sum of their squares over the sum of their
            absolute values; 1 if there are none, and NaN if the scores are no fractions.
        num_averaged: the number of differences in the mean, of queries or of groups' means.
        num_differing: the number of queries, or of groups, whose difference is not 0.
        are_hits: whether it is of hits of independent queries, whose interval is Tango's.
    """

    difference: float
    low: float
    high: float
    p_value: float
    effect_size: float
    num_queries: int
    confidence_level: float
    test: Test
    standard_error: float = math.nan
    degrees_of_freedom: float = math.nan
    wins: int = 0
    losses: int = 0
    p_from: PValue = "exact"
    size: float = math.nan
    num_averaged: int = 0
    num_differing: int = 0
    are_hits: bool = False

    def __eq__(self, other: object) -> bool:
        """Whether all attributes are equal: an effect size of NaN equals itself on every Python."""
        return isinstance(other, Comparison) and vars(self) == vars(other)

    def needed(self, num_tests: int = 1) -> int:
        """Return how many queries, or groups, must differ so that the test can find a difference.

        The smallest p-value of G differences with random signs is 2 / 2^G, which must be at most
        the level a / m: a is 1 - `confidence_level`, and m is `num_tests`.
        """
        return math.ceil(1 - math.log2(level_of(self.confidence_level) / num_tests))

    def detectable(self, num_tests: int = 1, power: float = 0.8) -> float:
        """Return the true difference that the test finds with this power.

        It is (t(1 - a / 2m) + t(power)) times the standard error that it has itself, with quantiles
        of Student's t, at the level a / m: a is 1 - `confidence_level`, and m is `num_tests`, the
        first step of Holm's method. It does not read the difference found. It is infinite if no
        difference can be found, as fewer than `needed(num_tests)` queries or groups differ, and NaN
        if up to 16 do: the power of the sign test is then not that of Student's t.

        Source: J. M. Hoenig and D. M. Heisey, "The abuse of power", The American Statistician 55,
        2001, on why not.
        """
        if self.p_from != "t" and self.test == "permutation":
            if self.num_differing < self.needed(num_tests):
                return math.inf
            if self.num_differing < _FEWEST_FOR_POWER:
                return math.nan
        freedom = torch.tensor(self.degrees_of_freedom, dtype=torch.float64)
        levels = 1 - (1 - self.confidence_level) / num_tests, 2 * power - 1
        k = float(sum(t_quantile(level, freedom) for level in levels))
        return detectable(self.standard_error, k, self.size, self.num_averaged)

    def within(self, margin: float) -> tuple[float, float]:
        """Return the p-values of non-inferiority and of equivalence, by one-sided t tests.

        A small first one says that the second model is worse by less than `margin`; a small second
        one that the models differ by less, in both directions (TOST). The standard error is that of
        a true difference of `margin`, so equal answers to few queries show neither.

        Source: D. J. Schuirmann, "A comparison of the two one-sided tests procedure and the power
        approach", Journal of Pharmacokinetics and Biopharmaceutics 15, 1987.
        """
        if self.are_hits:
            ends = [(self.wins, self.losses), (self.losses, self.wins)]
            above = [tango(*counts, self.num_queries, -margin) for counts in ends]
            sides = [math.erfc(z / math.sqrt(2)) / 2 for z in above]
            return sides[0], max(sides)
        variance = variance_at(margin, self.standard_error**2, self.size, self.num_averaged)
        error, sides = math.sqrt(variance), []
        for distance in (margin + self.difference, margin - self.difference):
            t = distance / error if error else math.copysign(math.inf, distance)
            p = t_test(abs(t), self.degrees_of_freedom) / 2 if math.isfinite(t) else 0.0
            sides.append(p if t > 0 else 1 - p)
        return sides[0], max(sides)

    def __repr__(self) -> str:
        return (
            f"Comparison(difference {self.difference:+.4f}, "
            f"{100 * self.confidence_level:g} % interval "
            f"{self.low:+.4f} to {self.high:+.4f}, p = {self.p_value:.4g}, "
            f"d_z = {self.effect_size:+.3f}, {self.num_queries} queries, {self.test})"
        )


Scores = PerQueryScores | QueryScores | Tensor


def compare(
    a: Scores,
    b: Scores,
    *,
    test: Test = "permutation",
    groups: Tensor | None = None,
    confidence_level: float = 0.95,
    num_resamples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    r"""Compare two models by their scores of the same queries: the second minus the first.

    `"permutation"`: if the models are equal, the sign of each query's difference is random. The
    p-value is the share of sign assignments whose mean is at least as far from 0 as the observed
    mean: of all assignments if there are up to 16 nonzero differences or if they are multiples of
    one number, as for accuracy (McNemar's exact test), of random ones otherwise. The interval is
    the paired t interval, clustered with `groups`. If all scores are from 0 to 1, the standard
    error is at least the one that each difference would have itself, so the interval has a width
    also where all answers are equal; for hits without `groups` it is Tango's score interval.
    `"bootstrap"`: queries are resampled with replacement. The interval is the percentile interval,
    widened likewise, and the p-value is twice the share of resamples in which the other model is
    better. With few queries it finds differences between equal models too often.

    A single query, or a single group, has no interval and no p-value: they are NaN. A difference
    within the rounding error of the two scores is 0. If you compare several models or metrics,
    correct the p-values, as `report.compare` does by Holm's method.

    Args:
        a: the scores of the first model: a `PerQueryScores`, the result of its `compute`, or a
            floating tensor `[N]`.
        b: the scores of the second model.
        test: the method of the interval and the p-value.
        groups: integer `[N]`, the group of every query, such as its user, in the order of the
            scores (by ascending id for `PerQueryScores`). All differences of a group then get one
            sign, or are resampled together.
        confidence_level: the confidence level of the interval.
        num_resamples: the number of random sign assignments or resamples.
        seed: the seed of the random numbers.

    Raises:
        TypeError: `a` or `b` has another type.
        ValueError: the queries of `a` and `b` differ, there are none, an option is out of range,
            or there are fewer than 30 queries (or groups) for the bootstrap.

    Example:
        >>> from torch import tensor
        >>> compare(tensor([0.5, 0.5, 0.0, 0.5, 0.25]), tensor([1.0, 1.0, 0.5, 1.0, 0.5]))
        Comparison(difference +0.4500, 95 % interval +0.1689 to +0.5888, p = 0.0625,
                   d_z = +4.025, 5 queries, permutation)

    Sources: R. A. Fisher, "The design of experiments", 1935; M. D. Smucker, J. Allan and
    B. Carterette, "A comparison of statistical significance tests for information retrieval
    evaluation", CIKM 2007.
    """
    num_resamples = check_positive("num_resamples", num_resamples)
    check_options(test, confidence_level, seed)
    pair = _read_pair(a, b, groups)
    return decide([pair], test, confidence_level, num_resamples, num_resamples, as_number(seed))[0]


def check_options(test: str, confidence_level: float, seed: int) -> None:
    """Raise unless these are options of `compare`."""
    check_choice("test", test, Test)
    check_confidence_level(confidence_level)
    seed = as_number(seed)
    if type(seed) is not int or not 0 <= seed < 2**63:
        raise ValueError(f"`seed` must be an integer from 0 to 2^63 - 1, got {short(seed)}.")


class Pair(NamedTuple):
    """Two models on the same queries, ready for a test."""

    found: Contrast
    has_runs: bool  #: whether a model has several runs
    slack: int  #: of the sum of all differences, in units
    num_queries: int
    effect_size: float
    wins: int
    losses: int
    size: float = math.nan  #: as in `Comparison`
    exchange: Exchange | None = None  #: the test of F1, in place of random signs

    @property
    def key(self) -> tuple[bytes, float, float, bool]:
        """What tests of the same scores share."""
        found = self.found
        return found.sums.tobytes(), found.mean, found.variance, self.exchange is None


def pair_up(
    cells: tuple[Any, Any],
    draws: tuple[int, int],
    groups: Tensor | None,
    unit: float,
    as_means: bool = False,
    are_fractions: bool = True,
) -> Pair:
    """Sum two models' scores by group, or take the groups' means, first minus second.

    They are int64 `[R, N]` in multiples of `unit`, each the sum of so many `draws`.
    """
    (first, sizes), (other, _) = (sum_by(groups, units, as_means) for units in cells)
    found = contrast([UserSums(first, draws[0]), UserSums(other, draws[1])], sizes, unit)
    a, b = (units.mean(0) * (unit / number) for units, number in zip(cells, draws, strict=True))
    each = a - b
    rounded = np.where(np.abs(each) < unit, 0, each)
    slack, has_runs = 2 * len(each) * found.per_score, max(map(len, cells)) > 1
    wins, losses = int((rounded > 0).sum()), int((rounded < 0).sum())
    effect, size = _effect_size(*np.unique(each, return_counts=True)), math.nan
    if are_fractions:
        kept = found.sums * found.unit if as_means else rounded
        size = size_of(*np.unique(kept, return_counts=True))
    return Pair(found, has_runs, slack, len(each), effect, wins, losses, size)


def _effect_size(differences: Any, counts: Any) -> float:
    """Return the mean over the standard deviation, whatever the order of the queries."""
    number = int(counts.sum())
    mean = sum_once(differences, counts) / number
    squares = sum_once((differences - mean) ** 2, counts)
    if number < 2 or not squares:
        return math.copysign(math.inf, mean) if mean and number > 1 else math.nan
    return mean / math.sqrt(squares / (number - 1))


def decide(
    pairs: Sequence[Pair],
    test: Test,
    confidence_level: float,
    num_resamples: int,
    most: int,
    seed: int,
) -> list[Comparison]:
    """Compare pairs, with up to `most` sign assignments for small p-values."""
    is_signed = test == "permutation"
    signed = [x for x in pairs if is_signed and not x.has_runs and x.exchange is None]
    tests = iter(sign_tests([(x.found.sums, x.slack) for x in signed], num_resamples, most, seed))
    comparisons = []
    freedoms = torch.tensor([pair.found.freedom for pair in pairs], dtype=torch.float64)
    quantiles = t_quantile(confidence_level, freedoms).tolist()
    normal = NormalDist().inv_cdf((1 + confidence_level) / 2)
    for pair, quantile in zip(pairs, quantiles, strict=True):
        mean, variance, freedom, *_ = pair.found
        error = math.sqrt(variance) if variance >= 0 else math.nan
        number = int(pair.found.sizes.sum())
        low, high = interval_of(mean, quantile * error, quantile, pair.size, number)
        independent = not pair.has_runs and number == len(pair.found.sizes) > 1
        are_hits = pair.size == 1 and independent and is_signed and pair.exchange is None
        differing = int(np.count_nonzero(pair.found.sums))
        if are_hits:
            low, high = tango_interval(pair.wins, pair.losses, number, normal)
        p_from: PValue = "t"
        p_value = t_test(mean / error, freedom) if error else float(mean == 0)
        if test == "bootstrap":
            *ends, p_value = _bootstrap(pair, num_resamples, confidence_level, seed)
            ends += interval_of(mean, 0.0, quantile, pair.size, number)
            low, high, p_from = min(ends), max(ends), "draws"
        elif not pair.has_runs:
            if exchange := pair.exchange:
                found, differing = exchange.test(num_resamples, most, seed), exchange.num_differing
            else:
                found = next(tests)
            if found:
                p_value, p_from = found[0], "draws" if found[1] else "exact"
        known = mean, low, high, p_value, pair.effect_size, pair.num_queries, confidence_level
        rest = test, error, freedom, pair.wins, pair.losses, p_from
        of_floor = pair.size, number, differing, are_hits
        comparisons.append(Comparison(*known, *rest, *of_floor))
    return comparisons


def _bootstrap(
    pair: Pair, num_resamples: int, confidence_level: float, seed: int
) -> tuple[float, float, float]:
    """Return the percentile interval and the p-value."""
    order = np.lexsort((pair.found.sizes, pair.found.sums))  # that of groups does not matter
    sums, sizes = (torch.from_numpy(x[order]) for x in (pair.found.sums, pair.found.sizes))
    sizes = sizes.double()
    if pair.has_runs or len(sums) < _FEWEST_FOR_BOOTSTRAP:
        kind = "queries" if len(sums) == pair.num_queries else "groups"
        least, given = f"at least {_FEWEST_FOR_BOOTSTRAP} {kind}", str(len(sums))
        least, given = ("one run of each model", "several") if pair.has_runs else (least, given)
        raise ValueError(
            f'`test="bootstrap"` needs {least}, got {given}; use `test="permutation"`.'
        )
    generator = torch.Generator().manual_seed(seed)
    most, values = max(1, _DRAWN // len(sums)), sums * pair.found.unit
    numbers = (min(most, num_resamples - start) for start in range(0, num_resamples, most))
    draws = (torch.randint(len(sums), (x, len(sums)), generator=generator) for x in numbers)
    means = torch.cat([values[drawn].sum(1) / sizes[drawn].sum(1) for drawn in draws])
    ends = [(1 - confidence_level) / 2, (1 + confidence_level) / 2]
    low, high = torch.quantile(means, torch.tensor(ends, dtype=torch.float64)).tolist()
    behind = 1 + min(int((means <= 0).sum()), int((means >= 0).sum()))
    return low, high, min(1.0, 2 * behind / (num_resamples + 1))


def _read_pair(a: Scores, b: Scores, groups: Tensor | None) -> Pair:
    """Make integers of scores of the same queries; within their rounding error they are equal."""
    ids, first, first_error = _read_scores("a", a)
    other_ids, second, second_error = _read_scores("b", b)
    if (ids is None) != (other_ids is None):
        raise ValueError("`a` and `b` must both have ids of queries, or neither.")
    if first.shape != second.shape or (ids is not None and not torch.equal(ids, other_ids)):
        raise ValueError(
            "`a` and `b` must be scores of the same queries, got "
            f"{describe(first)} and {describe(second)}, or different ids."
        )
    if not len(first):
        raise ValueError("`a` and `b` must hold at least one query, got none.")
    difference = second - first
    if not bool(difference.isfinite().all()):
        raise ValueError(
            "`a` and `b` must be finite, got NaN or infinity for query "
            f"{int((~difference.isfinite()).nonzero()[0])}; leave it out of both."
        )
    errors = _ROUNDED * (first_error + second_error)
    second = second.where(difference.abs() > errors, first)
    mantissa, exponent = math.frexp(float(torch.stack([first, second]).abs().max()))
    unit = 2.0 ** (exponent - (mantissa == 0.5) - _BITS)
    new, old = ((x / unit + 0.5).floor().long()[None].numpy() for x in (second, first))
    fractions = bool(((first >= 0) & (first <= 1) & (second >= 0) & (second <= 1)).all())
    by = _read_groups(groups, difference)
    pair = pair_up((new, old), (1, 1), by, unit, are_fractions=fractions)
    return pair._replace(slack=pair.slack + math.ceil(float(errors.sum()) / unit))


def _read_scores(name: str, scores: object) -> tuple[Any, Tensor, Tensor]:
    """Return ids, if any, scores in float64, and their last places."""
    if isinstance(scores, PerQueryScores):
        scores = scores.compute()
    ids = None
    if isinstance(scores, QueryScores):
        ids, scores = (tensor.reshape(-1).cpu() for tensor in scores)  # one query's are squeezed
    if not isinstance(scores, Tensor) or scores.ndim != 1:
        raise TypeError(
            f"`{name}` must be a PerQueryScores, the result of its `compute`, or a tensor [N], "
            f"{got(name, scores)}."
        )
    last_place = torch.finfo(scores.dtype).eps if scores.is_floating_point() else 0.0
    scores = scores.detach().cpu().double()
    return ids, scores, scores.abs() * last_place


def _read_groups(groups: Tensor | None, difference: Tensor) -> Tensor | None:
    if groups is None:
        return None
    if not isinstance(groups, Tensor) or not is_integer(groups) or groups.shape != difference.shape:
        raise ValueError(
            f"`groups` must be an integer tensor of shape {tuple(difference.shape)}, one group per "
            f"query, {got('groups', groups)}."
        )
    return groups.cpu()


@dataclass(frozen=True, repr=False)
class Runs(Result):
    """The `mean` and `std` (n - 1; NaN for a single run) of `num_runs` runs of one model."""

    title: ClassVar[str] = "Runs"

    mean: float
    std: float
    num_runs: int

    @property
    def table(self) -> Table:
        """The three numbers."""
        return Summary({"runs": self}, {}).table


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
        records = [{"model": name, **asdict(x)} for name, x in runs]
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
    values = {name: [float(value) for value in of_model] for name, of_model in runs.items()}
    if not values or not all(values.values()):
        raise ValueError(f"`runs` must hold at least one run per model, got {short(dict(runs))}.")
    models = {}
    for name, of_model in values.items():
        for run, value in enumerate(of_model):
            if not math.isfinite(value):
                raise ValueError(
                    f"`runs` must hold finite numbers, got {value} in run {run} of {short(name)}; "
                    "leave out runs that failed."
                )
        std = statistics.stdev(of_model) if len(of_model) > 1 else math.nan
        models[name] = Runs(statistics.fmean(of_model), std, len(of_model))
    pairs = itertools.combinations(models, 2)
    return Summary(models, {(a, b): _welch(models[a], models[b]) for a, b in pairs})


def _welch(a: Runs, b: Runs) -> float:
    if min(a.num_runs, b.num_runs) < 2 or a.std == b.std == 0:
        return math.nan
    parts = [(x.std**2 / x.num_runs, x.num_runs - 1) for x in (a, b)]
    error = math.sqrt(sum(variance for variance, _ in parts))
    return t_test((b.mean - a.mean) / error, satterthwaite(parts))
