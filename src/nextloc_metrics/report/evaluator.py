"""The evaluation of predictions that come in parts; the result does not depend on the parts.

`update` reads a batch and counts its rows; the first batch also fixes the form of all batches.
`merge` adds the counts of another evaluator. `result` computes the values.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from nextloc_metrics.core.distribution.given import Given
from nextloc_metrics.core.queries.answers import Answers
from nextloc_metrics.core.queries.arrays import Array
from nextloc_metrics.core.queries.batch import Batch, read_rows
from nextloc_metrics.core.queries.checks import check_from_zero, check_named
from nextloc_metrics.core.queries.messages import as_column, short
from nextloc_metrics.core.queries.scored_lists import ScoredLists
from nextloc_metrics.report.counts import Counted
from nextloc_metrics.report.evaluation import Evaluation
from nextloc_metrics.report.options import Options, refuses_unknown
from nextloc_metrics.report.setting import Form, OwnMetrics, Setting, check_alike, check_metrics

if TYPE_CHECKING:
    from nextloc_metrics.geography import Locations
    from nextloc_metrics.metrics.bins import PopularityBins
    from nextloc_metrics.report.options import Metrics


# The counts that only the reader of rows can make, by their names on the card.
_COUNTS = ("broken_answers", "missing", "missing_targets", "repeated_items", "without_truth")


class Evaluator:
    """The counts of `evaluate`, for predictions that come in parts.

    Add batches in any order, merge evaluators of other batches, and read the result. The value is
    the same bit for bit for any split into batches and evaluators (of probabilities, up to
    rounding). Memory grows with locations and groups, not with queries. The arguments are those of
    [`Options`][nextloc_metrics.report.Options].

    The first batch fixes what all batches hold: scores of so many candidates or lists of ids, one
    or several relevant ids, the groups, and whether `exclude` and `confidence` are given. An
    evaluator is merged once: not with itself, nor again into one that it or a copy of it was merged
    into. Evaluators of `from_bytes` count as new ones.

    Raises:
        ValueError: an option is out of range; in `update`, a batch does not fit; in `merge`, the
            options or the kinds of batches differ, or the other was merged before.

    Example:
        >>> from nextloc_metrics import report
        >>> first, other = report.Evaluator(k=1), report.Evaluator(k=1)
        >>> first.update([[3, 5]], [3], groups={"user": ["bob"]})  # lists of two ids
        >>> other.update([[4, 2]], [2], groups={"user": ["ann"]})
        >>> both = report.Evaluator.from_bytes(first.to_bytes()).merge(other)
        >>> both.result().values["mrr"]  # (1 + 1/2) / 2
        0.75
    """

    @refuses_unknown
    def __init__(
        self,
        *,
        k: int | Sequence[int] = (1, 5, 10),
        measures: Sequence[Any] = (),
        metrics: Metrics | None = None,
        num_locations: int | None = None,
        cluster: str | None = None,
        exempt_target: bool = False,
        confidence_level: float = 0.95,
        bins: PopularityBins | None = None,
        train_counts: Array | None = None,
        locations: Locations | None = None,
        given: Given | None = None,
    ) -> None:
        options = Options(
            k, measures, metrics, num_locations, cluster, exempt_target, confidence_level,
            bins, train_counts, locations, given,
        )  # fmt: skip
        self._counts = Counted(Setting.read(options))
        self._is_shared = False  # whether a result reads these counts, which must then not change

    @classmethod
    def of_setting(cls, setting: Setting) -> Evaluator:
        """Return an evaluator without counts, with options that are checked already."""
        return cls._of_counts(Counted(setting))

    @property
    def metrics(self) -> OwnMetrics:
        """Copies of the further metrics and parts, without counts."""
        return self._counts.setting.metrics

    @property
    def num_queries(self) -> int:
        """The number of queries that were added, with those that are left out."""
        return self._counts.card["queries"]

    def update(
        self,
        preds: Array | Answers | ScoredLists | Batch,
        target: Array | None = None,
        mask: Array | None = None,
        groups: Mapping[str, Array] | None = None,
        *,
        exclude: Array | None = None,
        confidence: Array | None = None,
        grade: Array | None = None,
        counts: Mapping[str, int] | None = None,
    ) -> None:
        """Count the queries of a batch, or raise and change nothing.

        Args:
            preds: as for `evaluate`, as are the next arguments; or a `Batch` alone.
            target: the relevant ids.
            mask: False leaves a query out.
            groups: by name, the group of each query.
            exclude: candidates that are not ranked.
            confidence: for lists, the confidence of the first id.
            grade: the grades of the ids in `target`.
            counts: counts for the card that only the reader of the rows can make: of
                `broken_answers`, which are unreadable and count as misses, `missing` answers,
                `missing_targets`, `repeated_items`, and predictions `without_truth`.
        """
        batch = preds
        if not isinstance(batch, Batch):
            _check_counts(counts or {})
            beside: Any = {"confidence": confidence, "grades": grade, "counts": counts}
            batch = Batch(preds, target, mask, groups, exclude, **beside)
        rows = read_rows(batch)
        counted = self._counts_of_form(Form.of(rows))
        counted.add(rows.chunks(), batch.counts)
        counted.ids = counted.ids or frozenset([uuid4().hex])
        self._counts = counted

    def merge(self, other: Evaluator) -> Evaluator:
        """Add the counts of another evaluator, with equal options, and return this one."""
        if self._counts.ids & other._counts.ids:
            raise ValueError(
                "an evaluator must be merged once, got one whose batches are counted here; add "
                "other batches to a new `Evaluator`."
            )
        first, second = self._counts.setting, other._counts.setting
        if form := first.form or second.form:  # an evaluator without a batch has no form
            first, second = (x if x.form else x.of_form(form) for x in (first, second))
        check_alike("this evaluator", first, "the other", second)
        if other._counts.setting.form is not None:
            counts = self._counts_of_form(other._counts.setting.form)
            counts.merge(other._counts)
            self._counts = counts
        return self

    def _counts_of_form(self, form: Form) -> Counted:
        """Return the counts for a batch of this form; a copy if a result reads those so far."""
        counts = self._counts
        if counts.setting.form is None:
            return Counted(counts.setting.of_form(form))
        counts.setting.form.check(form)
        if self._is_shared:
            self._counts, self._is_shared = deepcopy(counts), False
        return self._counts

    def result(self) -> Evaluation:
        """Return the evaluation of all queries that were added; raise if there was no batch."""
        if self._counts.setting.form is None:
            raise ValueError(
                "`update` must be called before `result`, with a batch of 0 or more rows."
            )
        counted, self._is_shared = self._counts, True
        unreadable, asked = (counted.card.get(x, 0) for x in ("unreadable", "num_asked"))
        if 2 * unreadable > asked:
            advice = "look at some, and pass the `form` that reads them, such as json or lines"
            if objects := counted.card.get("objects", 0):
                advice = f"{objects:,} are lists of objects, whose field of names is for `key`"
            warnings.warn(
                f"{unreadable:,} of {asked:,} answers are unreadable; {advice}.", stacklevel=2
            )
        elif cuts := counted.cuts_beyond_lists():
            name = "a cut-off of `measures`" if counted.setting.measures else "`k`"
            warnings.warn(
                f"{name} should be at most {counted.longest}, the length of the longest list in "
                f"{as_column('preds')}, got {short(cuts)}: what the lists do not hold counts as a "
                "miss; pass longer lists.",
                stacklevel=2,
            )
        return Evaluation(counted)

    def save(self, path: str | Path, force: bool = False) -> None:
        """Write the counts to a file, `.npz`, as `Evaluation.save` does."""
        self._counts.save(Path(path), force, self._counts.ids)

    @classmethod
    def load(cls, path: str | Path, metrics: Metrics | None = None) -> Evaluator:
        """Read a file that `save` wrote, of an evaluator with the same `metrics`.

        It counts as the evaluator that was saved: neither can be merged where the other was.
        """
        return cls._of_counts(Counted.load(Path(path), check_metrics(metrics)))

    def to_bytes(self) -> bytes:
        """Return the counts, or the options if no batch was added, with a checksum."""
        file = io.BytesIO()
        self._counts.save(file)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes, metrics: Metrics | None = None) -> Evaluator:
        """Read what `to_bytes` returned, of an evaluator with the same `metrics`.

        A `ValueError` is raised if the data is cut, changed or something else.
        """
        counts = Counted.load(io.BytesIO(data), check_metrics(metrics))
        if counts.setting.form is not None:
            counts.ids = frozenset([uuid4().hex])
        return cls._of_counts(counts)

    @classmethod
    def _of_counts(cls, counts: Counted) -> Evaluator:
        evaluator = cls.__new__(cls)
        evaluator._counts, evaluator._is_shared = counts, False
        return evaluator


def _check_counts(counts: Mapping[str, int]) -> None:
    """Raise if a name is not that of a count, or a value is no number."""
    check_named("counts", counts, '{"broken_answers": 1}')
    for name, number in counts.items():
        if name not in _COUNTS:
            raise ValueError(f"`counts` must have the names {short(_COUNTS)}, got {short(name)}.")
        check_from_zero(f"counts[{name!r}]", number)
