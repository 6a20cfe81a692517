"""An evaluation as one HTML page without links to other files."""

from __future__ import annotations

import inspect
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from html import escape
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor

from nextloc_metrics.arguments.messages import short
from nextloc_metrics.display.bars import Groups, draw_groups, draw_histogram
from nextloc_metrics.display.formats import in_percent, write_cell
from nextloc_metrics.display.lines import draw_differences, draw_readings
from nextloc_metrics.display.reading import Models, Reading
from nextloc_metrics.display.style import Scale, import_pyplot
from nextloc_metrics.display.table import Table
from nextloc_metrics.protocols import Audit
from nextloc_metrics.report.ceiling import Ceiling
from nextloc_metrics.report.counted import Counted
from nextloc_metrics.report.maps import distance_errors, error_map
from nextloc_metrics.report.page_style import SCRIPT, STYLE
from nextloc_metrics.report.paths import draw_days, draw_errors
from nextloc_metrics.report.plotting import by_group
from nextloc_metrics.report.probability_plots import reliability, risk_coverage

# Tables with more rows are folded.
_LONG = 30


def write_page(
    title: str, sections: Mapping[str, str], source: Mapping[str, Any] | None = None
) -> str:
    """Return a page of sections, HTML by title; the card of what was read is the second one."""
    if title.lower().endswith((".html", ".htm")):
        raise ValueError(
            f"`title` must be a title, not a file, got {short(title)}; write the page that is "
            f'returned: `Path({title!r}).write_text(e.to_html(), "utf-8")`.'
        )
    if source is not None:
        first, *others = sections.items()
        sections = dict([first, ("What was read", show_card(source)), *others])
    body = "".join(
        f"<section>\n<h2>{escape(name)}</h2>\n{content}</section>\n"
        for name, content in sections.items()
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n{body}"
        f"<footer>nextloc-metrics {version('nextloc-metrics')}</footer>\n"
        f"<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


def show_audit(audit: Audit) -> str:
    """Show the values that other codebases would report, and draw the first accuracy."""
    cuts = [one.metric.k for one in audit.findings if one.metric.kind == "hit" and one.metric.k]
    if not cuts:
        return show_table(audit.table)
    caption = f"Accuracy@{min(cuts)} under each protocol; the line is the exact value"
    return show_picture(caption, audit.plot, min(cuts)) + show_table(audit.table)


def show_headline(
    columns: Mapping[str, Mapping[str, Reading]],
    table: Table,
    skill: Mapping[str, float],
    confidence: float,
) -> str:
    """Show the values as a picture and as a table, and below them the skill."""
    named = {"model": columns["value"], **columns}
    del named["value"]
    shown = show_values(named, table, confidence)
    if skill:
        rows = [[name, in_percent(x)] for name, x in skill.items()]
        note = "0: ranking by visits in the training data; 100: perfect ranking"
        shown += show_table(Table(["skill, percent", "value"], rows, [note]))
    return shown


def show_values(columns: Models, table: Table, confidence: float) -> str:
    """Show the values of several models as a picture and as a table."""
    caption = f"Values with {100 * confidence:g} % confidence intervals"
    return show_picture(caption, draw_readings, columns, confidence, None) + show_table(table)


def show_differences(first: str, differences: Models, confidence: float) -> str:
    """Draw the differences of models from the first one; one model needs no legend."""
    who, it = "each model", "the model"
    if len(differences) == 1:
        (who,) = (it,) = differences
    caption = f"{who} minus {first}: right of 0, {it} is better"
    named = {"": next(iter(differences.values()))} if len(differences) == 1 else differences
    return show_picture(caption, draw_differences, named, confidence)


def show_ceiling(ceiling: Ceiling) -> str:
    """Draw the model between chance and the limit, and show the numbers."""
    caption = "Acc@1, means over users; the limits are estimates"
    drawn = show_picture(caption, draw_readings, {"": ceiling.rows}, ceiling.confidence, None)
    return drawn + show_table(ceiling.table)


def show_groups(kind: str, table: Table, counted: Counted) -> str:
    """Draw the first metric for each group, and show the table of all metrics."""
    name, member = next(iter(counted.parts[f"by {kind}"].named_members()))
    caption = "; ".join([f"{name} by {kind}", *counted.note_intervals(kind)])
    draw = partial(by_group, confidence=counted.setting.confidence)
    return show_picture(caption, draw, member) + show_table(table)


def show_distances(counted: Counted) -> str:
    """Draw a map of the accuracy, and the distribution of the distance errors."""
    if "map" not in counted.parts:
        return ""
    ((_, by_location),) = counted.parts["map"].named_members()
    if not int(by_location._numbers()[0].sum()):
        return ""
    return show_picture(
        "acc_at_1 by target location", error_map, by_location, counted.data.locations
    ) + show_picture("Distance from decision to target", distance_errors, counted.headline)


def show_probabilities(counted: Counted) -> str:
    """Draw the reliability diagram, and the risk over the coverage."""
    metrics = counted.parts["probabilities"]
    members = dict(metrics.named_members())
    if not members["ece"]._numbers()[0]:
        return ""
    draw = partial(reliability, confidence=counted.setting.confidence)
    return show_picture("Accuracy by confidence", draw, members["ece"]) + show_picture(
        "Wrong answers, if only the most confident queries are answered", risk_coverage, metrics
    )


def show_deciles(counted: Counted) -> str:
    """Draw precision and NDCG for each decile of the target."""
    members, confidence = counted.parts["deciles"], counted.setting.confidence
    values = members.compute_with_intervals(confidence)
    pictures = ""
    for title in ("precision", "ndcg"):
        names = [str(name) for name in members if str(name).startswith(f"{title}_at_")]
        rows = [[values[f"{name}{end}"] for name in names] for end in ("", "_low", "_high")]
        heights, low, high = torch.tensor(rows).cpu()
        numbers: Any = [members[name].num_queries for name in names]
        if numbers[0].ndim:  # each has those of all deciles
            numbers = numbers[0]
        found = Groups(heights, torch.stack([low, high]), torch.as_tensor(numbers))
        labels = [name.rpartition("_")[2].lstrip("0") for name in names]
        shared = names[0].partition("_decile_")[0]
        decile = f"decile of the target ({len(labels) - 1} = most popular)"
        caption = "; ".join([f"{shared} by popularity of the target", *counted.note_intervals()])
        scale = Scale(shared, 0, 1)
        draw = partial(draw_groups, confidence=confidence)
        pictures += show_picture(caption, draw, {"": found}, labels, scale, decile, None)
    return pictures


def show_users(metric: Any, means: Tensor, name: str) -> str:
    """Draw the histogram of the mean of each user."""
    scale = Scale(metric.label, metric.plot_lower_bound, metric.plot_upper_bound)
    infinite = means.isinf()
    caption = f"{name}: the mean over the days of each of {len(means):,} users"
    if infinite.any():
        caption += f"; {int(infinite.sum()):,} are infinite and not drawn"
        means = means[~infinite]
    return show_picture(caption, draw_histogram, {"": means}, scale, "user", None)


def show_slots(errors: Mapping[int, float], unit: str) -> str:
    """Draw the mean point error of each slot of the day."""
    return show_picture("Mean point error by slot of the day", draw_errors, errors, unit)


def show_days(days: Sequence[tuple[str, Tensor, Tensor]], by_degrees: bool) -> str:
    """Draw some days on maps."""
    return show_picture("The best, the median and the worst day", draw_days, days, by_degrees)


def show_ties(values: Mapping[str, float], ties: Mapping[str, tuple[float, float]]) -> str:
    """Show the range of values over the orders of tied candidates."""
    if all(low == high or low != low for low, high in ties.values()):
        return "<p>The order of candidates with equal scores changes no value.</p>\n"
    rows = [
        [name, *map(in_percent, (low, values[name], high))] for name, (low, high) in ties.items()
    ]
    header = ["percent", "relevant last", "expected", "relevant first"]
    note = "relevant last (first): the relevant location after (before) others with the same score"
    return show_table(Table(header, rows, [note]))


def show_card(card: Mapping[str, Any]) -> str:
    """Show the protocol card."""
    rows = "".join(
        f"<dt>{escape(name.replace('_', ' '))}</dt><dd>{_write_value(value)}</dd>"
        for name, value in card.items()
    )
    return f"<dl>{rows}</dl>"


def _write_value(value: Any) -> str:
    """Write a value of a card; no line is broken within an option such as `--group`."""
    text = escape(write_cell(value))
    return re.sub(r"(?<= )--[\w-]+", lambda x: f"<span>{x[0]}</span>", text)


def show_meanings(members: Iterable[tuple[Any, Any]]) -> str:
    """Show what each metric is, by name."""
    rows = "".join(
        f"<dt>{escape(str(name))}</dt><dd>{escape(_meaning(member))}</dd>"
        for name, member in members
    )
    return f"<details><summary>What each metric is</summary><dl>{rows}</dl></details>\n"


def _meaning(metric: Any) -> str:
    """Return the first paragraph of the docstring of a metric."""
    text = inspect.getdoc(type(metric)) or ""
    return " ".join(text.partition("\n\n")[0].replace("`", "").split())


def show_table(table: Table) -> str:
    """Return a table that scrolls sideways, folded if it is long."""
    html = f'<div class="wide">{table._repr_html_()}</div>\n'
    if len(table.rows) <= _LONG:
        return html
    return f"<details><summary>{len(table.rows)} rows</summary>{html}</details>\n"


def show_picture(caption: str, draw: Callable[..., Any], *arguments: Any) -> str:
    """Return a picture as SVG inside the page."""
    pyplot = import_pyplot()
    # do not parse text of the data as formulas; text stays text; the same data give the same bytes,
    # and the salt keeps the ids of two pictures apart
    style = {"text.parse_math": False, "svg.hashsalt": caption, "svg.fonttype": "none"}
    with pyplot.rc_context(style):
        figure, _ = draw(*arguments)
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None}, transparent=True)
        pyplot.close(figure)
    return (
        f'<figure><div class="wide">{_inline(drawn.getvalue(), caption)}</div>'
        f"<figcaption>{escape(caption)}</figcaption></figure>\n"
    )


def _inline(svg: str, caption: str) -> str:
    """Return an SVG file as an element that is as wide as its place, without ids unused in it."""
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    used = set(re.findall(r"[\"(]#([^\")]+)[\")]", svg))
    svg = re.sub(r' id="([^"]*)"', lambda x: x[0] if x[1] in used else "", svg)
    box = re.search(r'viewBox="[^"]*"', svg)
    start = f'<svg role="img" aria-label="{escape(caption)}" {box[0] if box else ""} '
    start += 'xmlns:xlink="http://www.w3.org/1999/xlink">'
    return start + svg[svg.index(">") + 1 :]
