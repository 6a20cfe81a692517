"""Pictures of groups, models side by side, accuracy within every k, a map, and confidences.

They need matplotlib, which the extra `plot` installs; without it they raise a ModuleNotFoundError.
Each draws on the axes `ax`, or makes a figure for None, and returns the figure and its axes.
A `confidence_level` that is not between 0 and 1 is a ValueError.
Values are summed over processes, as by `compute`: call a function on all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nextloc_metrics.core.display.lines import draw_bands, draw_readings
from nextloc_metrics.core.display.reading import Reading
from nextloc_metrics.core.display.style import Scale, import_pyplot, save, style
from nextloc_metrics.core.metric.collection import Collections, RankingCollection
from nextloc_metrics.core.metric.mean import RecordMetric
from nextloc_metrics.core.metric.plots import plot_groups
from nextloc_metrics.core.metric.results import members_of, named, read_counted
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.metrics.at_k import AccuracyAtK
from nextloc_metrics.report.pages.maps import error_map
from nextloc_metrics.report.pages.probability_plots import reliability

__all__ = [
    "accuracy_within_k",
    "by_group",
    "error_map",
    "reliability",
    "save",
    "side_by_side",
    "style",
]


def side_by_side(
    models: Mapping[str, RankingCollection], *, confidence_level: float = 0.95, ax: Any = None
) -> Any:
    """Draw the values of several models with their intervals, one row per metric.

    Overlapping intervals do not show that two models are equal. For models with the same queries,
    use [`compare`][nextloc_metrics.report.compare]. A value that is not a mean over
    queries has no interval, and the note below the picture names it. A value that is not a fraction
    is written in its row.

    Args:
        models: one collection per model, by the name of the model. Members with the same name,
            without the prefix, share a row.

    Raises:
        ValueError: there is no model.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import MRR, RankingCollection, plotting
        >>> metrics = RankingCollection({"mrr": MRR()})
        >>> metrics.update(tensor([[0, 1]]).expand(100, 2), tensor([0] * 30 + [1] * 70))
        >>> figure, axes = plotting.side_by_side({"Markov": metrics})
        >>> axes.get_xlabel()
        'value and 95 % interval'
    """
    import_pyplot()
    if not models:
        raise ValueError("`models` must hold a collection, got none.")
    found = {
        name: read_counted(model, confidence_level, keep_base=True)
        for name, model in named(models).items()
    }
    readings = {name: one for name, (one, _) in found.items()}
    queries = _join_counts({name: number for name, (_, number) in found.items()})
    return draw_readings(readings, confidence_level, ax, queries)


def _join_counts(queries: Mapping[str, str]) -> str:
    """Write the number of queries, of every model where they differ."""
    if len(set(queries.values())) == 1:
        return next(iter(queries.values()))
    return ", ".join(f"{name}: {number}" for name, number in queries.items() if number)


def by_group(
    models: Mapping[str, Any] | Any, *, confidence_level: float = 0.95, ax: Any = None
) -> Any:
    """Draw a metric of every group, or of every decile, for several models in one panel.

    One model is drawn as bars, several as dots, with the intervals that the metric has. The number
    of queries is written beside the name of every group. More than thirty groups are drawn as a
    histogram of their values.

    Args:
        models: one metric per model, by the name of the model, such as
            `Grouped(AccuracyAtK(1), 24, by="hour")` or `DecileNDCG(bins, k=5)`; or one metric
            without a name. All must have the same groups.

    Raises:
        TypeError: `models` holds a collection.
        ValueError: there is no model, a metric has one value only, or the groups differ.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import AccuracyAtK, Grouped, plotting
        >>> def accuracy(best):
        ...     metric = Grouped(AccuracyAtK(1), labels=["work", "leisure"], by="purpose")
        ...     metric.update(tensor(best)[:, None], [0, 1, 2], groups=["work", "work", "leisure"])
        ...     return metric
        >>> models = {"Markov": accuracy([0, 0, 0]), "GRU": accuracy([0, 1, 0])}
        >>> figure, axes = plotting.by_group(models)
        >>> axes.get_xlabel(), axes.get_ylabel()
        ('purpose', 'Accuracy@1')
    """
    for name, metric in (models if isinstance(models, Mapping) else {"": models}).items():
        if not isinstance(metric, RecordMetric):
            kind = "a collection" if isinstance(metric, RankingCollection) else short(metric)
            raise TypeError(f"`models` must hold metrics, got {kind} for {name}; pass a member.")
    return plot_groups(models, confidence_level, ax)


@style()
def accuracy_within_k(
    models: Collections, *, confidence_level: float = 0.95, ax: Any = None
) -> Any:
    """Draw the accuracy within the first k ranks over k, one line with a band per model.

    The band joins the confidence intervals of every k. The confidence level holds for each
    interval alone; the probability that all intervals contain the true accuracy is lower.

    Args:
        models: a collection with an `AccuracyAtK` for every k, such as
            `next_location_metrics(num_locations, k=range(1, 51))`; or one collection per model, by
            the name of the model. A member `Grouped(AccuracyAtK(k), ..., average="queries")` has
            its clustered interval. Other members are not drawn.

    Raises:
        ValueError: a collection has no `AccuracyAtK`, or several of one k.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import next_location_metrics, plotting
        >>> metrics = next_location_metrics(num_locations=2, k=range(1, 3))
        >>> metrics.update(tensor([[0, 1]]).expand(100, 2), tensor([0] * 30 + [1] * 70))
        >>> figure, axes = plotting.accuracy_within_k({"Markov": metrics})
        >>> axes.get_ylabel()
        'accuracy within k'
    """
    found = {name: _accuracies(name, x, confidence_level) for name, x in named(models).items()}
    curves = {name: curve for name, (curve, _) in found.items()}
    queries = _join_counts({name: number for name, (_, number) in found.items()})
    scale = Scale("accuracy within k", 0, 1)
    figure, axes = draw_bands(curves, scale, confidence_level, ax, queries)
    axes.set_xlabel("k (number of ranks that count)")
    axes.locator_params(axis="x", integer=True)
    return figure, axes


def _accuracies(
    name: str, model: RankingCollection, confidence_level: float
) -> tuple[dict[int, Reading], str]:
    """Read a model's accuracies by k, in rising order, and its number of queries."""
    readings, queries = read_counted(model, confidence_level, keep_base=True)
    make = "make it with `next_location_metrics(num_locations, k=range(1, 51))`"
    found: dict[int, Reading] = {}
    members = [
        (key, getattr(member, "metric", member))
        for key, member in model.named_members()
        if key in readings and not readings[key].note
    ]
    for key, metric in members_of(name, members, AccuracyAtK, make).items():
        if metric.k in found:
            raise ValueError(
                f"`models` must have one accuracy for every k, got several within {metric.k} "
                f"in {name or 'the collection'}; remove all but one of them."
            )
        found[metric.k] = readings[key]
    return dict(sorted(found.items())), queries
