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
from nextloc_metrics.analysis.rare_differences import interval_of, size_of, tango_interval
from nextloc_metrics.analysis.significance import satterthwaite, t_test
from nextloc_metrics.analysis.signs import sign_tests
from nextloc_metrics.core.display.page import Result
from nextloc_metrics.core.display.table import Table
from nextloc_metrics.core.means.exact import sum_once
from nextloc_metrics.core.means.intervals import check_confidence_level, t_quantile
from nextloc_metrics.core.queries.checks import as_number, check_positive, is_integer
from nextloc_metrics.core.queries.messages import describe, got, short
from nextloc_metrics.metrics.per_query import PerQueryScores, QueryScores

PValue = Literal["exact", "draws", "t"]

# Rounding errors of a score, in units of the last place.
_ROUNDED = 4

# Bits of the integer of the highest score; scores up to 1 are those of a state.
_BITS = 32


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


Scores = PerQueryScores | QueryScores | Tensor


def compare(
    a: Scores,
    b: Scores,
    *,
    groups: Tensor | None = None,
    confidence_level: float = 0.95,
    num_resamples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    r"""Compare two models by their scores of the same queries: the second minus the first.

    If the models are equal, the sign of each query's difference is random. The p-value is the share
    of sign assignments whose mean is at least as far from 0 as the observed mean: of all
    assignments if there are up to 16 nonzero differences or if they are multiples of one number, as
    for accuracy (McNemar's exact test), of random ones otherwise. The interval is the paired t
    interval, clustered with `groups`. If all scores are from 0 to 1, the standard error is at least
    the one that each difference would have itself, so the interval has a width also where all
    answers are equal; for hits without `groups` it is Tango's score interval.

    A single query, or a single group, has no interval and no p-value: they are NaN. A difference
    within the rounding error of the two scores is 0. If you compare several models or metrics,
    correct the p-values, as `report.compare` does by Holm's method.

    Args:
        a: the scores of the first model: a `PerQueryScores`, the result of its `compute`, or a
            floating tensor `[N]`.
        b: the scores of the second model.
        groups: integer `[N]`, the group of every query, such as its user, in the order of the
            scores (by ascending id for `PerQueryScores`). All differences of a group then get one
            sign.
        confidence_level: the confidence level of the interval.
        num_resamples: the number of random sign assignments.
        seed: the seed of the random numbers.

    Raises:
        TypeError: `a` or `b` has another type.
        ValueError: the queries of `a` and `b` differ, there are none, or an option is out of range.

    Example:
        >>> from torch import tensor
        >>> compare(tensor([0.5, 0.5, 0.0, 0.5, 0.25]), tensor([1.0, 1.0, 0.5, 1.0, 0.5]))
        Comparison(difference +0.4500, 95 % interval +0.1689 to +0.5888, p = 0.0625,
                   d_z = +4.025, 5 queries)

    Sources: R. A. Fisher, "The design of experiments", 1935; M. D. Smucker, J. Allan and
    B. Carterette, "A comparison of statistical significance tests for information retrieval
    evaluation", CIKM 2007.
    """
    num_resamples = check_positive("num_resamples", num_resamples)
    check_options(confidence_level, seed)
    pair = _read_pair(a, b, groups)
    return decide([pair], confidence_level, num_resamples, num_resamples, as_number(seed))[0]


def check_options(confidence_level: float, seed: int) -> None:
    """Raise unless these are options of `compare`."""
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
    size: float = math.nan  #: as `size_of` has it; NaN if the scores are no fractions
    exchange: Exchange | None = None  #: the test of F1, in place of random signs

    @property
    def key(self) -> tuple[bytes, float, float, bool]:
        """What tests of the same scores share."""
        found = self.found
        return found.sums.tobytes(), found.mean, found.variance, self.exchange is None


def pair_up(
    cells: tuple[Any, Any],
    groups: Tensor | None,
    unit: float,
    are_fractions: bool = True,
) -> Pair:
    """Sum two models' scores by group, first minus second.

    They are int64 `[R, N]` in multiples of `unit`.
    """
    (first, sizes), (other, _) = (sum_by(groups, units) for units in cells)
    found = contrast([UserSums(first), UserSums(other)], sizes, unit)
    a, b = (units.mean(0) * unit for units in cells)
    each = a - b
    rounded = np.where(np.abs(each) < unit, 0, each)
    slack, has_runs = 2 * len(each) * found.per_score, max(map(len, cells)) > 1
    wins, losses = int((rounded > 0).sum()), int((rounded < 0).sum())
    effect, size = _effect_size(*np.unique(each, return_counts=True)), math.nan
    if are_fractions:
        size = size_of(*np.unique(rounded, return_counts=True))
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
    confidence_level: float,
    num_resamples: int,
    most: int,
    seed: int,
) -> list[Comparison]:
    """Compare pairs, with up to `most` sign assignments for small p-values."""
    signed = [x for x in pairs if not x.has_runs and x.exchange is None]
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
        if pair.size == 1 and independent and pair.exchange is None:  # hits
            low, high = tango_interval(pair.wins, pair.losses, number, normal)
        p_from: PValue = "t"
        p_value = t_test(mean / error, freedom) if error else float(mean == 0)
        if not pair.has_runs:
            exchange = pair.exchange
            found = exchange.test(num_resamples, most, seed) if exchange else next(tests)
            if found:
                p_value, p_from = found[0], "draws" if found[1] else "exact"
        known = mean, low, high, p_value, pair.effect_size, pair.num_queries, confidence_level
        comparisons.append(Comparison(*known, error, freedom, pair.wins, pair.losses, p_from))
    return comparisons


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
    pair = pair_up((new, old), by, unit, are_fractions=fractions)
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
