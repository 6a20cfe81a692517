"""Several models on several data sets: mean ranks, and which of their differences hold."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from nextloc_metrics.analysis.significance import holm, letters, level_of, maximal_cliques
from nextloc_metrics.analysis.signs import share_of_signs
from nextloc_metrics.core.display.page import Result, show_picture, show_table
from nextloc_metrics.core.display.style import make_axes, style
from nextloc_metrics.core.display.table import Table
from nextloc_metrics.core.means.intervals import check_confidence_level, t_quantile
from nextloc_metrics.core.queries.arrays import Array, as_tensor
from nextloc_metrics.core.queries.checks import check_bool, check_named
from nextloc_metrics.core.queries.messages import describe, extra, short

# Values and differences this close, relative to the largest value, are equal: about 1e-9.
_EQUAL = 2.0**-30


class MeanDifference(NamedTuple):
    """The mean of the differences of two models over data sets; see `RankedModels.difference`.

    Attributes:
        mean: each data set has the same weight; `low` and `high` are the t interval.
        low: the lower bound.
        high: the upper bound.
        weighted: the mean weighted by 1 / SE^2; NaN without standard errors.
        weighted_error: its standard error, if all data sets had one true difference.
        q: Cochran's Q, about n - 1 if they had.
        i_squared: I^2, the share of the variance that is between data sets: 1 - (n - 1) / Q, at
            least 0.
    """

    mean: float
    low: float
    high: float
    weighted: float = math.nan
    weighted_error: float = math.nan
    q: float = math.nan
    i_squared: float = math.nan


@dataclass(frozen=True, repr=False)
class RankedModels(Result):
    """Models ranked over data sets; see `rank_models`. Dicts go by model, the best mean rank first.

    Attributes:
        values: the values of each model, by data set.
        mean_ranks: the mean rank of each model; 1 is the best.
        ranges: the best and the worst rank that the tests of pairs allow: better are at least those
            that are separated from it and better, worse those that are separated and worse.
        letters: two models share a letter exactly where no test separates them.
        p_values: of each pair, Wilcoxon's.
        corrected: the same, corrected for their number by Holm's method.
        f: the Friedman test with Iman and Davenport's correction.
        p_value: its p-value.
        confidence_level: 1 less the level of the tests.
    """

    title: ClassVar[str] = "Models over data sets"

    values: dict[str, dict[str, float]]
    mean_ranks: dict[str, float]
    ranges: dict[str, tuple[int, int]]
    letters: dict[str, str]
    p_values: dict[tuple[str, str], float]
    corrected: dict[tuple[str, str], float]
    f: float
    p_value: float
    confidence_level: float

    @property
    def table(self) -> Table:
        """A row per model, and below what the tests say and can say."""
        header = ["model", "mean rank", "possible ranks", "letters"]
        rows, records = [], []
        for name, rank in self.mean_ranks.items():
            (best, worst), of = self.ranges[name], self.letters[name]
            rows.append([name, f"{rank:.2f}", f"{best} - {worst}", of])
            numbers = {"mean_rank": rank, "best": best, "worst": worst}
            records.append({"model": name, **numbers, "letters": of})
        return Table(header, rows, self._notes(), records)

    def _notes(self) -> list[str]:
        n, k, m = len(next(iter(self.values.values()))), len(self.values), len(self.p_values)
        level = level_of(self.confidence_level)
        needed = next(x for x in itertools.count(2) if m * 2.0 ** (1 - x) <= level)
        return [
            f"{n} data sets; Friedman with Iman and Davenport's correction: F({k - 1}, "
            f"{(k - 1) * (n - 1)}) = {self.f:.4g}, p = {self.p_value:.4g}",
            f"letters: Wilcoxon's signed ranks, exact, zeros by Pratt, Holm's method for {m} pairs",
            f"smallest corrected p of {n} data sets: {min(1.0, m * 2.0 ** (1 - n)):.4g}; at most "
            f"{level:.4g} needs {needed}",
        ]

    def difference(
        self, first: str, second: str, standard_errors: Mapping[str, float] | None = None
    ) -> MeanDifference:
        """Return the mean of the differences of two models, second minus first, over data sets.

        `standard_errors` are those of the differences, by data set; they add the mean weighted by
        inverse variance, and how much the data sets disagree. Large data sets then decide.

        Raises:
            ValueError: a standard error is missing or not above 0.

        Sources: W. G. Cochran, Biometrics 10, 1954; J. P. T. Higgins and S. G. Thompson, Statistics
        in Medicine 21, 2002.
        """
        other = self.values[second]
        found = {name: other[name] - value for name, value in self.values[first].items()}
        n, mean = len(found), statistics.fmean(found.values())
        error = statistics.stdev(found.values()) / math.sqrt(n)
        half = error * float(t_quantile(self.confidence_level, torch.tensor([n - 1.0]).double()))
        if standard_errors is None:
            return MeanDifference(mean, mean - half, mean + half)
        if not all(standard_errors.get(name, 0) > 0 for name in found):
            raise ValueError(
                "`standard_errors` must have a number above 0 for each data set, "
                f"{short(list(found))}, got {short(dict(standard_errors))}."
            )
        weights = {name: standard_errors[name] ** -2 for name in found}
        total = math.fsum(weights.values())
        weighted = math.fsum(weights[x] * found[x] for x in found) / total
        q = math.fsum(weights[x] * (found[x] - weighted) ** 2 for x in found)
        share = max(0.0, 1 - (n - 1) / q) if q else 0.0
        return MeanDifference(mean, mean - half, mean + half, weighted, total**-0.5, q, share)

    @style()
    def plot(self, ax: Any = None) -> Any:
        """Draw the mean ranks on a line, and bars over the models that no test separates.

        A bar has a dot at each of its models, and may skip one. It returns figure and axes, and
        needs matplotlib.
        """
        names, ranks = list(self.mean_ranks), list(self.mean_ranks.values())
        level = level_of(self.confidence_level)
        joined = {pair for pair, p in self.corrected.items() if p > level}
        cliques = maximal_cliques(len(names), lambda a, b: (names[a], names[b]) in joined)
        bars = [clique for clique in cliques if len(clique) > 1]
        figure, axes = make_axes(ax, 6.4, 0.9 + 0.22 * (len(names) + len(bars)))
        for place, (name, rank) in enumerate(zip(names, ranks, strict=True)):
            axes.plot([rank, rank], [0, -1 - place], color="0.7", linewidth=0.8)
            axes.annotate(f" {name}", (rank, -1 - place), va="center", fontsize=8)
        for height, clique in enumerate(bars, start=1):
            at = [ranks[node] for node in clique]
            axes.plot(at, [height] * len(at), "o-", color="black", markersize=3, linewidth=1.5)
        axes.plot(ranks, [0] * len(ranks), "o", color="black", markersize=4)
        axes.set(xlabel="mean rank", yticks=[], xlim=(0.8, len(names) + 0.8))
        return figure, axes

    def sections(self) -> dict[str, str]:
        caption = "Mean ranks; a bar joins models that no test separates"
        return {"Result": show_picture(caption, self.plot) + show_table(self.table)}


def rank_models(
    results: Mapping[str, Any],
    *,
    metric: str = "",
    targets: Mapping[str, Array] | None = None,
    higher_is_better: bool = True,
    confidence_level: float = 0.95,
) -> RankedModels:
    """Rank models over data sets, and test whether their ranks differ.

    Equal values share the mean of their ranks; values and differences that are within 1e-9 of the
    largest value are equal, so percent and fractions have the same p. The Friedman test is
    corrected by Iman and Davenport; if all data sets agree, F is infinite and p is exact:
    (1/k!)^(N - 1) for k models without equal values and N data sets. Pairs are tested by Wilcoxon's
    signed ranks, two-sided and exact for any N: over all signs of the differences, with mean ranks
    of equal ones; differences of 0 are ranked and then left out (Pratt). Holm's method corrects for
    the number of pairs. Data sets are the sample here: a few can show little, and the table says
    what.

    Args:
        results: for each data set, the value of each model; or what `report.compare` returned.
        metric: the metric of comparisons, such as `"acc_at_1"`.
        targets: the targets of each data set, to refuse two that are the same rows.
        higher_is_better: whether rank 1 has the highest value.
        confidence_level: 1 less the level of the tests.

    Raises:
        ValueError: there are fewer than two data sets or models, models differ between data sets,
            a value is not finite, or two data sets have equal targets row by row.
        ModuleNotFoundError: SciPy is not installed.

    Example:
        >>> nyc, tky, ca = [.31, .30, .25], [.25, .22, .20], [.16, .15, .12]
        >>> names = ["gru", "counts", "popular"]
        >>> rank_models({
        ...     name: dict(zip(names, values)) for name, values in
        ...     {"nyc": nyc, "tky": tky, "ca": ca}.items()
        ... })
        model    mean rank  possible ranks  letters
        gru           1.00           1 - 3        a
        counts        2.00           1 - 3        a
        popular       3.00           1 - 3        a
        3 data sets; Friedman with Iman and Davenport's correction: F(2, 4) = inf, p = 0.02778
        letters: Wilcoxon's signed ranks, exact, zeros by Pratt, Holm's method for 3 pairs
        smallest corrected p of 3 data sets: 0.75; at most 0.05 needs 7

    Source: J. Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 7,
    2006.
    """
    check_confidence_level(confidence_level)
    check_bool("higher_is_better", higher_is_better)
    values = _read_values(results, metric)
    _check_targets(results, targets or {})
    table = np.array([list(of.values()) for of in values.values()]).T  # [N, k]
    least = _EQUAL * float(np.abs(table).max())
    ranks = np.array([_midranks(-row if higher_is_better else row, least) for row in table])
    f, p_value = _friedman(ranks)
    means = dict(zip(values, ranks.mean(0).tolist(), strict=True))
    columns = dict(zip(values, table.T, strict=True))
    names = sorted(means, key=means.__getitem__)
    pairs = list(itertools.combinations(names, 2))
    p_values = {(a, b): _wilcoxon(columns[a] - columns[b], least) for a, b in pairs}
    corrected = dict(zip(pairs, holm(list(p_values.values())), strict=True))
    held = [pair for pair, p in corrected.items() if p <= level_of(confidence_level)]
    worse = {name: sum(b == name for _, b in held) for name in names}
    better = {name: sum(a == name for a, _ in held) for name in names}
    return RankedModels(
        values={name: values[name] for name in names},
        mean_ranks={name: means[name] for name in names},
        ranges={name: (1 + worse[name], len(names) - better[name]) for name in names},
        letters=letters(names, held),
        p_values=p_values,
        corrected=corrected,
        f=f,
        p_value=p_value,
        confidence_level=confidence_level,
    )


def _read_values(results: Mapping[str, Any], metric: str) -> dict[str, dict[str, float]]:
    """Return the values by model and data set."""
    check_named("results", results, '{"nyc": {"gru": 0.31, "counts": 0.30}}')
    found: dict[str, dict[str, float]] = {}
    for name, one in results.items():
        if isinstance(of := getattr(one, "values", None), Mapping):  # a comparison
            if not all(metric in values for values in of.values()):
                known = list(next(iter(of.values())))
                raise ValueError(f"`metric` must be one of {short(known)}, got {short(metric)}.")
            one = {model: values[metric] for model, values in of.items()}
        elif not isinstance(one, Mapping):
            raise TypeError(
                f"`results[{name!r}]` must be a dict of the value of each model, or what `compare` "
                f"returned, got {describe(one)}."
            )
        for model, value in one.items():
            found.setdefault(str(model), {})[str(name)] = float(value)
    if len(results) < 2 or len(found) < 2 or {len(of) for of in found.values()} != {len(results)}:
        raise ValueError(
            "`results` must have the same two or more models in each of two or more data sets, got "
            f"{short({model: len(of) for model, of in found.items()})} of {len(results)} data sets."
        )
    for model, of in found.items():
        if wrong := [name for name, value in of.items() if not math.isfinite(value)]:
            raise ValueError(
                f"`results` must hold finite numbers, got {of[wrong[0]]} of {short(model)} in "
                f"{short(wrong[0])}; leave out the model or the data set."
            )
    return found


def _check_targets(results: Mapping[str, Any], targets: Mapping[str, Array]) -> None:
    """Raise if two data sets are the same rows: of their targets, or of what comparisons note."""
    known: dict[Any, str] = {}
    for name, one in results.items():
        key = getattr(one, "_targets", "")
        if name in targets:
            key = as_tensor("targets", targets[name]).cpu().long().numpy().tobytes()
        if key and (other := known.setdefault(key, name)) != name:
            raise ValueError(
                f"`results` must be of different data sets, got equal targets in {short(other)} "
                f"and {short(name)}, row by row; leave one of them out."
            )


def _midranks(values: Any, least: float) -> Any:
    """Return ranks from 1 by rising value; those at most `least` apart share the mean."""
    order = np.argsort(values)
    place = np.empty(len(values), dtype=np.int64)
    place[order] = np.r_[0, np.cumsum(np.diff(values[order]) > least)]
    number = np.bincount(place)
    return (np.cumsum(number) - (number - 1) / 2)[place]


def _friedman(ranks: Any) -> tuple[float, float]:
    """Return F and its p-value, of ranks `[N, k]`."""
    n, k = ranks.shape
    off = ranks - (k + 1) / 2
    between, every = float((off.sum(0) ** 2).sum()), float((off**2).sum())
    if not every:  # all models are equal everywhere
        return math.nan, 1.0
    chi_squared = (k - 1) * between / every
    if (ranks == ranks[0]).all():
        ties = np.unique(ranks[0], return_counts=True)[1].tolist()
        orders = math.factorial(k) / math.prod(map(math.factorial, ties))
        return math.inf, float(orders ** (1 - n))
    f = (n - 1) * chi_squared / (n * (k - 1) - chi_squared)
    try:
        from scipy.special import fdtrc
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"`rank_models` needs SciPy; {extra('analysis')}.") from error
    return f, float(fdtrc(k - 1, (k - 1) * (n - 1), f))


def _wilcoxon(differences: Any, least: float) -> float:
    """Return the exact two-sided p-value of the signed ranks, over all signs."""
    sizes = np.abs(differences)
    signs = np.sign(differences) * (sizes > least)
    signed = (2 * signs * _midranks(np.where(signs, sizes, 0), least)).astype(int)
    return share_of_signs(signed[signed != 0], abs(int(signed.sum())))
