"""Evaluate and read tables with the fields of a `Source` beside other options, for tests."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from nextloc_metrics import report

_FIELDS = {x.name for x in fields(report.Source)} - {"rows"}


def source_of(rows: Any, options: dict[str, Any]) -> report.Source:
    """Return the rows as a source, with its fields taken out of `options`."""
    named = {name: options.pop(name) for name in _FIELDS & options.keys()}
    return replace(rows if isinstance(rows, report.Source) else report.Source(rows), **named)


def evaluate_table(rows: Any, **options: Any) -> report.Evaluation:
    """Evaluate a table."""
    source = source_of(rows, options)
    return report.evaluate(source, **options)


def read_table(rows: Any, **options: Any) -> report.Predictions:
    """Read a table."""
    source = source_of(rows, options)
    return report.read(source, **options)
