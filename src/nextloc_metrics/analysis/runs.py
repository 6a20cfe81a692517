"""Several runs of several models."""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar

from torch import Tensor

from nextloc_metrics.arguments.messages import extra, short
from nextloc_metrics.display.result import Result
from nextloc_metrics.display.table import Table


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
        return _tabulate({"runs": self}, ())


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
        return _tabulate(self.models, notes)


def _tabulate(models: Mapping[str, Runs], notes: Sequence[str]) -> Table:
    rows = [
        [str(name), f"{x.mean:.4g}", f"{x.std:.2g}", str(x.num_runs)] for name, x in models.items()
    ]
    records = [{"model": name, **asdict(x)} for name, x in models.items()]
    return Table(["model", "mean", "std", "runs"], rows, notes, records)


def summarize(runs: Mapping[str, Sequence[float] | Tensor]) -> Summary:
    """Summarize the runs of models with several seeds, and compare every pair.

    The standard deviation divides by n - 1. The p-values are those of Welch's t-test, which does
    not assume equal variances, and NaN if a model has a single run or both have no variance. With
    m pairs, require p < 0.05 / m (Bonferroni). Needs the extra `analysis`. `runs` has the value of
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
    for name, of_model in values.items():
        for run, value in enumerate(of_model):
            if not math.isfinite(value):
                raise ValueError(
                    f"`runs` must hold finite numbers, got {value} in run {run} of {short(name)}; "
                    "leave out runs that failed."
                )
    models = {
        name: Runs(
            statistics.fmean(of_model),
            statistics.stdev(of_model) if len(of_model) > 1 else math.nan,
            len(of_model),
        )
        for name, of_model in values.items()
    }
    p_values = {
        (first, second): _welch(models[first], models[second])
        for first, second in itertools.combinations(models, 2)
    }
    return Summary(models, p_values)


def _welch(a: Runs, b: Runs) -> float:
    try:
        from scipy.stats import ttest_ind_from_stats
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"`summarize` needs SciPy to compare models; {extra('analysis')}."
        ) from error
    if min(a.num_runs, b.num_runs) < 2 or a.std == b.std == 0:
        return math.nan
    stats = (a.mean, a.std, a.num_runs, b.mean, b.std, b.num_runs)
    return float(ttest_ind_from_stats(*stats, equal_var=False).pvalue)
