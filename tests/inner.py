"""Inner rooms that tests need and that have no public door: a room that moves changes this file.

Tests use the public doors where there is one. What is here is held by itself, as it is exact or
shared: keys, sums, intervals, options, plans, and files that are written.
"""

from __future__ import annotations

from pathlib import Path

from nextloc_metrics.analysis.comparison import Pair, decide
from nextloc_metrics.analysis.contrast import Contrast, contrast
from nextloc_metrics.analysis.f1_intervals import Exchange, answers_of, jackknife
from nextloc_metrics.analysis.rare_differences import size_of
from nextloc_metrics.analysis.significance import holm, letters, mcnemar, t_test
from nextloc_metrics.analysis.signs import PairedSums, sign_tests
from nextloc_metrics.core.backends import reference
from nextloc_metrics.core.backends.reference import Reference
from nextloc_metrics.core.base.annotated_options import Computed, Positive
from nextloc_metrics.core.base.plan import Plan
from nextloc_metrics.core.base.processes import all_reduce
from nextloc_metrics.core.display.table import Table
from nextloc_metrics.core.lazy import places_of
from nextloc_metrics.core.means import exact
from nextloc_metrics.core.means.intervals import cluster_variance, t_quantile
from nextloc_metrics.core.means.keyed_sums import sort_rows
from nextloc_metrics.core.new_file import new_file
from nextloc_metrics.core.queries.arrays import as_tensor
from nextloc_metrics.core.queries.batch import Batch
from nextloc_metrics.core.queries.hashing import hash_texts
from nextloc_metrics.core.queries.keys import (
    NO_KEY,
    key_of,
    keys_of_integers,
    keys_of_texts,
    read_keys,
)
from nextloc_metrics.core.ranking.distinct import FEWEST_SCORES
from nextloc_metrics.core.scoring import formulas, weights
from nextloc_metrics.metrics import measures, visits
from nextloc_metrics.metrics.click_through import ClickThroughCollection, LogLoss
from nextloc_metrics.metrics.visits import GroupShare, NewDecision
from nextloc_metrics.report import saved
from nextloc_metrics.report.engines import engine_of
from nextloc_metrics.report.evaluation import Evaluation, write_groups
from nextloc_metrics.report.files.suffixes import SUFFIXES

__all__ = [
    "FEWEST_SCORES",
    "NO_KEY",
    "SUFFIXES",
    "Batch",
    "ClickThroughCollection",
    "Computed",
    "Contrast",
    "Exchange",
    "GroupShare",
    "LogLoss",
    "NewDecision",
    "Pair",
    "PairedSums",
    "Plan",
    "Positive",
    "Reference",
    "Table",
    "all_reduce",
    "answers_of",
    "as_tensor",
    "cluster_variance",
    "contrast",
    "decide",
    "engine_of",
    "exact",
    "formulas",
    "hash_texts",
    "holm",
    "jackknife",
    "key_of",
    "keys_of_integers",
    "keys_of_texts",
    "letters",
    "mcnemar",
    "measures",
    "new_file",
    "places_of",
    "read_keys",
    "reference",
    "saved",
    "sign_tests",
    "size_of",
    "sort_rows",
    "t_quantile",
    "t_test",
    "visits",
    "weights",
    "write_groups_of",
]


def write_groups_of(evaluation: Evaluation, path: Path, force: bool = False) -> None:
    """Write the values of each group, as `--group-table` does."""
    write_groups(evaluation._counted, path, force)
