"""An evaluation as one HTML page without links to other files."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping
from functools import partial
from html import escape
from importlib.metadata import version
from typing import Any

import torch

from nextloc_metrics.display.bars import Groups, draw_groups
from nextloc_metrics.display.formats import one_line
from nextloc_metrics.display.lines import draw_readings
from nextloc_metrics.display.reading import Reading
from nextloc_metrics.display.style import Scale, import_pyplot
from nextloc_metrics.display.table import Table
from nextloc_metrics.protocols import Audit
from nextloc_metrics.report.counted import Counted
from nextloc_metrics.report.maps import distance_errors, error_map
from nextloc_metrics.report.plotting import by_group
from nextloc_metrics.report.probability_plots import reliability, risk_coverage

# Tables with more rows are folded.
_LONG = 12

_STYLE = """
:root { color-scheme: light dark; --line: #8886; --soft: #8881; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: auto; padding: 1rem; }
h1 { line-height: 1.2; overflow-wrap: anywhere; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin-bottom: 1rem; font-size: .9rem; }
td { font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .8rem .2rem 0; white-space: nowrap; }
tr { border-bottom: 1px solid var(--line); }
caption { text-align: left; font-size: .8rem; padding-top: .4rem; }
td:first-child { max-width: 24rem; overflow: hidden; text-overflow: ellipsis; }
figure { margin: 1rem 0; }
figcaption { font-size: .9rem; }
img { max-width: 100%; height: auto; background: #fff; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.5rem; }
dd { margin: 0; overflow-wrap: anywhere; }
summary { cursor: pointer; padding: .3rem 0; }
footer { margin-top: 3rem; font-size: .8rem; }
@media (prefers-color-scheme: dark) { img { filter: invert(.93) hue-rotate(180deg); } }
@media (max-width: 30rem) { dl { grid-template-columns: 1fr; } dd { margin-left: 1rem; } }
@media print { body { max-width: none; } h2, figure, tr { break-inside: avoid; } }
"""


def write_page(title: str, sections: Mapping[str, str]) -> str:
    """Return a page of sections, HTML by title."""
    body = "".join(
        f"<section>\n<h2>{escape(name)}</h2>\n{content}</section>\n"
        for name, content in sections.items()
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n{body}"
        f"<footer>nextloc-metrics {version('nextloc-metrics')}</footer>\n</body>\n</html>\n"
    )


def show_audit(audit: Audit) -> str:
    """Show the values that other codebases would report, and draw the first accuracy."""
    cuts = [one.metric.k for one in audit.findings if one.metric.kind == "hit" and one.metric.k]
    if not cuts:
        return show_table(audit.table)
    caption = f"Accuracy@{min(cuts)} under each protocol; the line is the exact value"
    return _picture(caption, audit.plot, min(cuts)) + show_table(audit.table)


def show_headline(
    columns: Mapping[str, Mapping[str, Reading]],
    table: Table,
    skill: Mapping[str, float],
    confidence: float,
) -> str:
    """Show the values as a picture and as a table."""
    named = {"model": columns["value"], **columns}
    del named["value"]
    caption = f"Values with {100 * confidence:g} % confidence intervals"
    picture = _picture(caption, draw_readings, named, confidence, None)
    below = ""
    if skill:
        rows = [[name, f"{100 * x:.2f}"] for name, x in skill.items()]
        note = "0: ranking by visits in the training data; 100: perfect ranking"
        below = show_table(Table(["skill, percent", "value"], rows, [note]))
    return picture + show_table(table) + below


def show_groups(kind: str, table: Table, counted: Counted) -> str:
    """Draw the first metric for each group, and show the table of all metrics."""
    name, member = next(iter(counted.parts[f"by {kind}"].named_members()))
    caption = "; ".join([f"{name} by {kind}", *counted.note_intervals(kind)])
    draw = partial(by_group, confidence=counted.setting.confidence)
    return _picture(caption, draw, member) + show_table(table)


def show_distances(counted: Counted) -> str:
    """Draw a map of the accuracy, and the distribution of the distance errors."""
    if "map" not in counted.parts:
        return ""
    ((_, by_location),) = counted.parts["map"].named_members()
    if not int(by_location.numbers()[0].sum()):
        return ""
    return _picture(
        "acc_at_1 by target location", error_map, by_location, counted.locations
    ) + _picture("Distance from decision to target", distance_errors, counted.headline)


def show_probabilities(counted: Counted) -> str:
    """Draw the reliability diagram, and the risk over the coverage."""
    metrics = counted.parts["probabilities"]
    members = dict(metrics.named_members())
    if not members["ece"].numbers()[0]:
        return ""
    draw = partial(reliability, confidence=counted.setting.confidence)
    return _picture("Accuracy by confidence", draw, members["ece"]) + _picture(
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
        first: Any = members[names[0]]
        found = Groups(heights, torch.stack([low, high]), first.num_queries)
        labels = [name.rpartition("_")[2].lstrip("0") for name in names]
        shared = names[0].partition("_decile_")[0]
        decile = f"decile of the target ({len(labels) - 1} = most popular)"
        caption = "; ".join([f"{shared} by popularity of the target", *counted.note_intervals()])
        scale = Scale(shared, 0, 1)
        draw = partial(draw_groups, confidence=confidence)
        pictures += _picture(caption, draw, {"": found}, labels, scale, decile, None)
    return pictures


def show_ties(values: Mapping[str, float], ties: Mapping[str, tuple[float, float]]) -> str:
    """Show the range of values over the orders of tied candidates."""
    rows = [
        [name, *(f"{100 * x:.2f}" for x in (low, values[name], high))]
        for name, (low, high) in ties.items()
    ]
    header = ["percent", "relevant last", "expected", "relevant first"]
    note = "relevant last (first): the relevant location after (before) others with the same score"
    return show_table(Table(header, rows, [note]))


def show_card(card: Mapping[str, Any]) -> str:
    """Show the protocol card."""
    rows = "".join(
        f"<dt>{escape(name.replace('_', ' '))}</dt><dd>{escape(write_cell(value))}</dd>"
        for name, value in card.items()
    )
    return f"<dl>{rows}</dl>"


def show_table(table: Table) -> str:
    """Return a table that scrolls sideways, folded if it is long."""
    html = f'<div class="wide">{table._repr_html_()}</div>\n'
    if len(table.rows) <= _LONG:
        return html
    return f"<details><summary>{len(table.rows)} rows</summary>{html}</details>\n"


def _picture(caption: str, draw: Callable[..., Any], *arguments: Any) -> str:
    """Return a picture as SVG inside the page."""
    pyplot = import_pyplot()
    # do not parse text of the data as formulas; the same data give the same bytes
    style = {"text.parse_math": False, "svg.hashsalt": "nextloc-metrics"}
    with pyplot.rc_context(style):
        figure, _ = draw(*arguments)
        drawn = io.BytesIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None})
        pyplot.close(figure)
    data = base64.b64encode(drawn.getvalue()).decode()
    return (
        f'<figure><img alt="{escape(caption)}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>\n"
    )


def write_cell(value: Any) -> str:
    """Return a value of the card as text."""
    return (
        "-" if value is None else f"{value:,}" if isinstance(value, int) else one_line(str(value))
    )
