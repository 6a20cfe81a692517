"""The command line, called in the process of the test: the one door of tests to `cli`."""

from __future__ import annotations

from nextloc_metrics.cli.commands import main

__all__ = ["main"]
