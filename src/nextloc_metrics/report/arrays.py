"""The evaluation of arrays in one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nextloc_metrics.core.queries.answers import Answers
from nextloc_metrics.core.queries.arrays import Array
from nextloc_metrics.core.queries.batch import Batch, read_rows
from nextloc_metrics.report.evaluation import Evaluation
from nextloc_metrics.report.evaluation_options import Options, with_options
from nextloc_metrics.report.evaluator import Evaluator
from nextloc_metrics.report.setting import check_cluster, count_locations

if TYPE_CHECKING:
    from typing_extensions import Unpack


@with_options(Options)
def evaluate(
    preds: Array | Answers,
    target: Array,
    *,
    mask: Array | None = None,
    groups: Mapping[str, Array] | None = None,
    exclude: Array | None = None,
    missed: int | None = None,
    confidence: Array | None = None,
    grades: Array | None = None,
    **options: Unpack[Options],
) -> Evaluation:
    """Evaluate predictions: headline with intervals, chance, groups, deciles, ties, protocol.

    The metrics are those of `next_location_metrics` for `target` `[N]`, and those of
    `recommendation_metrics` for `[N, M]`. Predictions are read in chunks, so a memory-mapped array
    of scores is not loaded at once.

    Args:
        preds: floating `[N, C]`, scores of all candidates; or integer `[N, K]`, lists of ids, best
            first, padded with -1; or the `Answers` of `read_answers`, whose outcomes get rows.
        target: integer `[N]`, one relevant id per query; or `[N, M]`, several, padded with -1.
        mask: bool `[N]`, False leaves a query out.
        groups: by name, the group of each query, integers or text `[N]`: `{"user": users}`.
        exclude: as for `RankingMetric.update`.
        missed: the number of unreadable answers, written on the card. Their rows of `preds` must
            count as misses, such as lists of -1.
        confidence: for lists, floating `[N]` in [0, 1], the confidence of each first id; adds the
            metrics of `confidence_metrics`.
        grades: the grades of the ids in `target` `[N, M]`, in its shape; 0 is not relevant.
        options: those of [`Options`][nextloc_metrics.report.Options].

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: shapes do not fit, a value is out of range, or `cluster` is not a key of
            `groups`.

    Warns:
        UserWarning: no list is as long as the largest `k`; a dagger marks the values at such a `k`.

    Example:
        >>> import numpy as np
        >>> from nextloc_metrics import report
        >>> scores = np.array([[0.1, 0.7, 0.2], [0.4, 0.3, 0.3], [0.2, 0.2, 0.6], [0.5, 0.4, 0.1]])
        >>> e = report.evaluate(scores, [1, 1, 2, 0], k=1)
        >>> e.values["acc_at_1"], e.chance["acc_at_1"]
        (0.75, 0.3333333333333333)
    """
    given: Any = {"mask": mask, "groups": groups, "exclude": exclude}
    of_rows: Any = {"confidence": confidence, "grades": grades}
    rows = read_rows(Batch(preds, target, **given, **of_rows))
    check_cluster(options["cluster"], rows.groups)
    evaluator = Evaluator(**options)
    counts, fixed = evaluator._data.train_counts, evaluator._options
    fixed["num_locations"] = count_locations(rows, fixed["known_locations"], counts)
    for batch in rows.chunks():
        evaluator.add(batch)
    return evaluator.result(missed)
