"""An evaluation in parts: rows are read, counted and added up, and the result is the same.

`add` reads a batch, takes its form with the options as the setting, and counts its rows. `merge`
adds the counts of another evaluator. `result` puts the groups in order and computes the values.
"""

from __future__ import annotations

import io
import warnings
from copy import copy, deepcopy
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from torch import Tensor

from nextloc_metrics.core.distribution.distribution import Given
from nextloc_metrics.core.means import intervals
from nextloc_metrics.core.queries.answers import Answers
from nextloc_metrics.core.queries.arrays import as_tensor
from nextloc_metrics.core.queries.batch import Batch, Grouping, read_rows
from nextloc_metrics.core.queries.checks import as_number, check_choice, check_positive, cut_offs
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.metrics.bins import PopularityBins
from nextloc_metrics.metrics.measures import cut_offs_of
from nextloc_metrics.report import saved
from nextloc_metrics.report.evaluation import Evaluation
from nextloc_metrics.report.evaluation_counts import Counted
from nextloc_metrics.report.evaluation_options import Options, with_options
from nextloc_metrics.report.setting import (
    Data,
    Form,
    OwnMetrics,
    Setting,
    check_alike,
    check_metrics,
    digest,
    split,
    write_about,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Evaluator:
    """The counts of `evaluate`, for predictions that come in parts.

    Add batches in any order, merge evaluators of other batches, and read the result. The value is
    the same bit for bit for any split into batches and evaluators (of probabilities, up to
    rounding). Groups are numbered as they
    appear. Memory grows with locations and groups, not with queries. The arguments are those of
    [`Options`][nextloc_metrics.report.Options].

    The first batch fixes what all batches hold: scores of so many candidates or lists of ids, one
    or several relevant ids, the groups, and whether `exclude` and `confidence` are given. An
    evaluator is merged once: not with itself, nor again into one that it or a copy of it was merged
    into. Evaluators of `from_bytes` count as new ones.

    Raises:
        ValueError: an option is out of range; in `add`, a batch does not fit; in `merge`, the
            options or the kinds of batches differ, or the other was merged before.

    Example:
        >>> from nextloc_metrics import report
        >>> from nextloc_metrics.core.queries.batch import Batch
        >>> first, other = (report.Evaluator(k=1, num_locations=9) for _ in range(2))
        >>> first.add(Batch([[3, 5]], [3], groups={"user": ["bob"]}))  # lists of two ids
        >>> other.add(Batch([[4, 2]], [2], groups={"user": ["ann"]}))
        >>> both = report.Evaluator.from_bytes(first.to_bytes()).merge(other)
        >>> both.result().values["mrr"]  # (1 + 1/2) / 2
        0.75
    """

    # The state: `_counts` is None before the first batch. From then on their setting replaces
    # `_options`. `_merged` names the evaluators whose batches are counted here.

    @with_options(Options)
    def __init__(self, **options: Unpack[Options]) -> None:
        intervals.check_confidence_level(options["confidence_level"])
        if options["given"] is not None:
            check_choice("given", options["given"], Given)
        measures, bins, counts = options["measures"], options["bins"], options["train_counts"]
        names = tuple(str(measure).strip() for measure in measures)
        counts = None if counts is None else as_tensor("train_counts", counts)
        if bins is None and counts is not None:
            bins = PopularityBins.from_counts(counts)
        if (number := options["num_locations"]) is not None:
            number = check_positive("num_locations", number)
        own, words = check_metrics(options["metrics"]), options["vocabulary"]
        self._data = Data(bins, counts, options["locations"], *split(own))
        self._options: dict[str, Any] = {
            "k": tuple(cut_offs(cut_offs_of(measures) if measures else options["k"])),
            "cluster": options["cluster"],
            "confidence_level": options["confidence_level"],
            "vocabulary": "" if words is None else digest(*map(str, words)),
            "km": options["km"],
            "probabilities": options["given"] or "",
            "measures": names,
            "about": write_about(options["about"]),
            **self._data.digests(),
            "known_locations": number,
            "num_locations": number,
            "exempt_target": options["exempt_target"],
        }
        self._counts: Counted | None = None
        self._is_shared = False  # whether a result has the counts, too
        self._merged: set[str] = set()

    @property
    def metrics(self) -> OwnMetrics:
        """Copies of the further metrics and parts, without counts."""
        return self._data.own

    def add(self, batch: Batch) -> None:
        """Count the queries of a batch of arrays as for `evaluate`, or raise and change nothing."""
        rows = read_rows(batch)
        form = Form.of(rows)
        setting = self._setting_of(form)
        setting.form.check(form)
        is_one_chunk = _is_chunk(batch) or len(rows.target) <= rows.step
        counts = self._own_counts(setting)
        counts.add([rows.chunk(slice(None))] if is_one_chunk else rows.chunks())
        self._counts = counts
        self._merged = self._merged or {uuid4().hex}

    def merge(self, other: Evaluator) -> Evaluator:
        """Add the counts of another evaluator, with equal options, and return this one."""
        if self._merged & other._merged:
            raise ValueError(
                "an evaluator must be merged once, got one whose batches are counted here; add "
                "other batches to a new `Evaluator`."
            )
        both = (self, other)
        forms = [x._counts.setting.form for x in both if x._counts is not None]
        first, second = (vars(x._setting_of(forms[0])) if forms else x._options for x in both)
        check_alike("this evaluator", first, "the other", second)
        if other._counts is not None:
            counts = self._own_counts(other._counts.setting)
            counts.merge(other._counts.sort())
            self._counts = counts
            self._merged = self._merged | other._merged
        return self

    def _setting_of(self, form: Form) -> Setting:
        """Return the setting that the first batch fixed, or that one of this form would fix."""
        if self._counts is None:
            return Setting.of(self._options, form)
        return self._counts.setting

    def _own_counts(self, setting: Setting) -> Counted:
        """Return the counts, or a copy of them if a result has them, which stays as it is."""
        if self._counts is None:
            return Counted(setting, self._data)
        counts = deepcopy(self._counts) if self._is_shared else self._counts
        self._is_shared = False
        return counts

    def result(self, missed: int | None = None) -> Evaluation:
        """Return the evaluation of all queries that were added.

        `missed` is the number of unreadable answers, for the card; their rows count as misses, such
        as lists of -1. Without a batch, a `ValueError` is raised.
        """
        if self._counts is None:
            raise ValueError(
                "`add` must be called before `result`, with a batch of 0 or more rows."
            )
        counted, self._is_shared = copy(self._counts.sort()), True
        counted.card = counted.card.copy()
        counted.ids = frozenset(self._merged)
        if missed is not None:
            counted.card["broken_answers"] = as_number(missed)
        unread, asked = (counted.card.get(x, 0) for x in ("unreadable", "num_asked"))
        if 2 * unread > asked:
            warnings.warn(
                f"{unread:,} of {asked:,} answers are unreadable; with `form` set to 'auto', it is "
                "printed how many answers each form reads.",
                stacklevel=2,
            )
        elif cuts := counted.cuts_beyond_lists():
            name = "a cut-off of `measures`" if counted.setting.measures else "`k`"
            warnings.warn(
                f"{name} should be at most {counted.longest}, the length of the longest list in "
                f"`preds`, got {short(cuts)}: what the lists do not hold counts as a miss; pass "
                "longer lists.",
                stacklevel=2,
            )
        return Evaluation(counted)

    def to_bytes(self) -> bytes:
        """Return the counts, or the options if no batch was added, with a checksum."""
        file = io.BytesIO()
        if self._counts is None:
            saved.write(file, {"options": self._options}, self._data.arrays())
        else:
            self._counts.sort().save(file)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes, metrics: Any = None) -> Evaluator:
        """Read what `to_bytes` returned, of an evaluator with the same `metrics`.

        A `ValueError` if it is cut, changed or something else.
        """
        evaluator, own = cls(), check_metrics(metrics)
        file = io.BytesIO(data)
        header, arrays = saved.read(file)
        saved.check_metrics(file, header, own)
        with saved.refused(file):
            if "options" in header:
                evaluator._data = Data.from_arrays(arrays, own)
                evaluator._options = options = header["options"]
                options |= {name: tuple(options[name]) for name in ("k", "measures", "metrics")}
            else:
                counted = Counted.of_saved(header, arrays, own)
                evaluator._data, evaluator._counts = counted.data, counted
                evaluator._merged = {uuid4().hex}
        return evaluator


def _is_chunk(batch: Batch) -> bool:
    """Return whether rows are tensors with numbered groups, as a table's, which are few enough."""
    kinds: Any = batch.groups or {}
    are_tensors = isinstance(batch.preds, Tensor | Answers) and isinstance(batch.target, Tensor)
    return are_tensors and all(isinstance(kind, Grouping) for kind in kinds.values())
