"""The sections of a page: values, groups, a map, probabilities and ties."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from nextloc_metrics.core.base.collection import RankingCollection
from nextloc_metrics.core.display.lines import draw_readings
from nextloc_metrics.core.display.page import show_choice, show_picture, show_table
from nextloc_metrics.core.display.reading import Models
from nextloc_metrics.core.display.table import Table, in_percent
from nextloc_metrics.core.results.plots import plot_groups
from nextloc_metrics.core.results.results import count_queries
from nextloc_metrics.geography import Locations
from nextloc_metrics.report.plotting import error_map, reliability


def show_values(columns: Models, table: Table, confidence_level: float) -> str:
    """Show the values of several models as a picture and as a table."""
    caption = f"Values with {100 * confidence_level:g} % confidence intervals"
    return show_picture(caption, draw_readings, columns, confidence_level, None) + show_table(table)


def show_groups(kind: str, collection: Any, table: Table, confidence_level: float) -> str:
    """Draw each metric for each group, by a choice, and show the table of all metrics."""
    draw = partial(plot_groups, confidence_level=confidence_level, ax=None)
    pictures = {
        name: show_picture(f"{name} by {kind}", draw, metric)
        for name, metric in collection.named_members()
    }
    return show_choice(pictures) + show_table(table)


def show_map(by_location: Any, locations: Locations) -> str:
    """Draw a map of the accuracy."""
    if not int(count_queries(by_location)[0].sum()):
        return ""
    return show_picture("acc_at_1 by target location", error_map, by_location, locations)


def show_probabilities(metrics: RankingCollection, confidence_level: float) -> str:
    """Draw the reliability diagram."""
    error: Any = metrics["ece"]
    if not count_queries(error)[0]:
        return ""
    draw = partial(reliability, confidence_level=confidence_level)
    return show_picture("Accuracy by confidence", draw, error)


def show_ties(values: Mapping[str, float], ties: Mapping[str, tuple[float, float]]) -> str:
    """Show the range of values over the orders of tied candidates."""
    rows = [
        [name, *map(in_percent, (low, values[name], high))] for name, (low, high) in ties.items()
    ]
    header = ["percent", "relevant last", "expected", "relevant first"]
    note = "relevant last (first): the relevant location after (before) others with the same score"
    return show_table(Table(header, rows, [note]))
