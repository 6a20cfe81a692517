"""The evaluation of predictions in one call: of arrays, or of a table of any size, in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from nextloc_metrics.core.distribution.given import Given
from nextloc_metrics.core.queries.answers import Answers
from nextloc_metrics.core.queries.arrays import Array, as_tensor
from nextloc_metrics.core.queries.batch import Batch, track
from nextloc_metrics.core.queries.checks import check_positive
from nextloc_metrics.core.queries.messages import describe, short
from nextloc_metrics.core.queries.scored_lists import ScoredLists
from nextloc_metrics.report import engines
from nextloc_metrics.report.engines.processes import divide, one_thread, run
from nextloc_metrics.report.evaluation import Evaluation
from nextloc_metrics.report.evaluator import Evaluator
from nextloc_metrics.report.files.columns import names_of_groups, with_missing
from nextloc_metrics.report.files.opened import open_source, roles_of
from nextloc_metrics.report.files.roles import Roles
from nextloc_metrics.report.files.seen_ids import SeenIds
from nextloc_metrics.report.files.tables import ReadAgainError, TableRows
from nextloc_metrics.report.files.wrong_tables import check_no_records
from nextloc_metrics.report.options import Options, refuses_unknown
from nextloc_metrics.report.setting import NAME, Setting, check_kinds, cluster_of_table, with_users
from nextloc_metrics.report.source import Source

if TYPE_CHECKING:
    from nextloc_metrics.geography import Locations
    from nextloc_metrics.metrics.bins import PopularityBins
    from nextloc_metrics.report.options import Metrics


@refuses_unknown
def evaluate(
    preds: Any,
    target: Array | None = None,
    *,
    groups: Mapping[str, Array] | Sequence[str] | None = None,
    users: Array | str | None = None,
    mask: Array | str | None = None,
    exclude: Array | str | None = None,
    confidence: Array | str | None = None,
    grade: Array | str | None = None,
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
    workers: int = 1,
) -> Evaluation:
    r"""Evaluate predictions: headline with intervals, chance, groups, deciles, ties, protocol.

    The metrics are those of `next_location_metrics` for one target per query, and those of
    `recommendation_metrics` for several. Beside arrays, arguments are arrays; beside a table,
    `groups`, `users`, `mask`, `exclude`, `confidence` and `grade` name its columns.

    Rows are read in parts, with the same values bit for bit for any number of files, parts and
    workers; memory grows with locations and groups. A table is read in one pass, which begins again
    where a later row is the first with several relevant ids. A process that reads a table uses one
    thread.

    Args:
        preds: a table: a [`Source`][nextloc_metrics.report.Source], or its rows alone, such as a
            path or a data frame. Or, with `target`, floating `[N, C]`, scores of all candidates;
            integer `[N, K]`, lists of ids, best first, padded with -1; or the `Answers` of
            `read_answers`, whose outcomes get rows. Of sequences of T queries, arrays `[N, ...]`
            may be `[N, T, ...]`, and groups `[N]`.
        target: integer `[N]`, one relevant id per query; or `[N, M]`, several, padded with -1.
        groups: by name, the group of each query, integers or text `[N]`: `{"user": users}`; beside
            a table `["user"]`.
        users: whose queries these are, integers or text `[N]`; short for
            `groups={"user": users}, cluster="user"`. Beside a table, the column, as `cluster`.
        mask: bool `[N]`, False leaves a query out.
        exclude: as for `RankingMetric.update`.
        confidence: for lists, floating `[N]` in [0, 1], the confidence of each first id; adds the
            metrics of `confidence_metrics`.
        grade: the grades of the ids in `target` `[N, M]`; 0 is not relevant. In a table, a query
            whose grades are all up to 0 scores 0, as in trec_eval.
        k: this option and those that follow are described in
            [`Options`][nextloc_metrics.report.Options].
        workers: the number of processes, which share the files; a cluster has its own.

    Raises:
        FileNotFoundError: there is no such file.
        ImportError: pyarrow is not installed, which tables need.
        TypeError: an argument has the wrong type, such as an array beside a table.
        ValueError: shapes, values, columns or rows are wrong; the message names file and row.

    Warns:
        UserWarning: no list is as long as the largest `k`; a dagger marks the values at such a `k`.

    Example:
        >>> import numpy as np
        >>> from nextloc_metrics import report
        >>> scores = np.array([[0.1, 0.7, 0.2], [0.4, 0.3, 0.3], [0.2, 0.2, 0.6], [0.5, 0.4, 0.1]])
        >>> e = report.evaluate(scores, [1, 1, 2, 0], k=1)
        >>> e.values["acc_at_1"], e.chance["acc_at_1"]
        (0.75, 0.3333333333333333)
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "answers.csv"
        >>> _ = path.write_text('preds,label,user\n"[7, 3]",3,ann\n"[5, 7]",5,bob\n', "utf-8")
        >>> source = report.Source(path, target="label")
        >>> found = report.evaluate(source, groups=["user"], k=1)
        >>> found.values["acc_at_1"], found.values["mrr"]
        (0.5, 0.75)
    """
    source = as_source(preds, target)
    beside: dict[str, Any] = {"mask": mask, "exclude": exclude}
    beside |= {"confidence": confidence, "grade": grade}
    check_kinds({**beside, "groups": groups, "users": users}, is_table=source is not None)
    if source is None:
        groups, cluster = with_users(users, groups, cluster)
    else:
        cluster = cluster_of_table(users, cluster)
    options = Options(
        k, measures, metrics, num_locations, cluster, exempt_target, confidence_level,
        bins, train_counts, locations, given,
    )  # fmt: skip
    if source is not None:
        with one_thread():
            return _evaluate_table(source, groups or (), beside, workers, options)
    if workers != 1:
        raise TypeError(f"`workers` must be 1 with arrays, got {short(workers)}; it is for tables.")
    beside = {"groups": groups, "grades": beside.pop("grade"), **beside}
    return _evaluate_arrays({"preds": preds, "target": target, **beside}, options)


def as_source(preds: Any, target: Any) -> Source | None:
    """Return predictions as a source; None if they are arrays, as also a frame of scores is."""
    source: Source = preds
    if not isinstance(preds, Source):
        if hasattr(preds, "toarray"):
            as_tensor("preds", preds)  # raises for a sparse matrix
        are_paths = isinstance(preds, list | tuple) and all(isinstance(x, NAME) for x in preds)
        is_array = isinstance(preds, Tensor | np.ndarray | Answers | ScoredLists)
        is_table = isinstance(preds, NAME | Mapping) or (bool(preds) if are_paths else False)
        if is_array or not (is_table or target is None):
            return None
        check_no_records("preds", preds)
        source = Source(preds)
    if target is not None:
        raise TypeError(
            f"`target` must be None where `preds` is a table, got {describe(target)}; name its "
            "column in `report.Source(rows, target=...)`."
        )
    return source


def _evaluate_arrays(
    arrays: Mapping[str, Any], options: Options, vocabulary: Sequence[Any] | None = None
) -> Evaluation:
    """Evaluate arrays, by the names of the fields of a `Batch`."""
    if arrays["target"] is None:
        raise TypeError(
            "`target` must be given with arrays, got None; pass the relevant id of each row."
        )
    evaluator = Evaluator.of_setting(Setting.read(options, vocabulary))
    evaluator.update(Batch(**arrays))
    return evaluator.result()


def _evaluate_table(
    source: Source, groups: Any, beside: Mapping[str, Any], workers: int, options: Options
) -> Evaluation:
    """Evaluate a table; `beside` has the names of columns by the arguments of `evaluate`."""
    cluster, number = options.cluster, options.num_locations
    workers = check_positive("workers", workers)
    clusters = [] if cluster is None else [cluster]
    roles = roles_of(source, [*names_of_groups(groups), *clusters], **beside)
    if source.on_missing == "miss":
        options = _with_missing_id(options)
    row_options: dict[str, Any] = {"num_locations": None, "by_id": None}
    if source.vocabulary is None:
        # these options have a row for each id, or are the number of ids, so that ids are numbers
        of_ids = ("train_counts", "bins", "locations", "num_locations")
        by_id = next((x for x in of_ids if getattr(options, x) is not None), None)
        row_options = {"num_locations": number, "by_id": by_id}
    engine = engines.engine_of(source.rows)
    _check_one_table(source, roles, options)
    if engine is None:
        rows: Any = open_source(source, roles, threads=workers, **row_options)
        workers = 1 if isinstance(rows, TableRows) and rows.source.is_joined else workers
    else:
        rows = engines.open_rows_of(source, roles, **row_options)
    words = with_missing(source.vocabulary, source.on_missing)
    if isinstance(rows, dict):
        rows |= {"groups": rows["groups"] or None}
        return _evaluate_arrays(rows, options, vocabulary=words)
    empty = partial(_empty_evaluator, rows, options, words)
    evaluator = _count_all(None if engine is None else source.rows, rows, workers, empty)
    result = evaluator.result()
    if engine is None:
        rows.ids.warn(stacklevel=4)
    return result


def _check_one_table(source: Source, roles: Roles, options: Options) -> None:
    """Raise if the table of a cluster must be joined, or if items shall have probabilities."""
    on_cluster = {"rows": source.rows, "truth": source.truth}
    on_cluster = {x: y for x, y in on_cluster.items() if engines.engine_of(y) is not None}
    for name, table in on_cluster.items():
        if roles.are_apart(source.rows, source.truth):
            raise ValueError(
                f"`{name}` of a cluster must be one table with a row per query, got "
                f"{type(table).__name__} with `truth`, `item` or several `preds`; join it there "
                "first to lists of ids and targets, or write Parquet and pass the path."
            )
    if roles.item is not None and options.given is not None:
        raise ValueError(
            "`given` needs a score for every location, in a column of lists, got `item`."
        )


def _with_missing_id(options: Options) -> Options:
    """Return the options with one more id, that of missing targets; raise if an option lacks it."""
    for name in ("train_counts", "bins", "locations"):
        if getattr(options, name) is not None:
            raise ValueError(
                f"`{name}` must be None with `on_missing='miss'`, got one: it does not know the id "
                "of a missing target; leave the rows out."
            )
    number = options.num_locations
    return replace(options, num_locations=number and number + 1)


def _count_all(
    table: Any, rows: TableRows, workers: int, empty: Callable[[], Evaluator]
) -> Evaluator:
    """Count the rows of a cluster's table there, or of files in this or in several processes.

    `empty` makes an evaluator without counts; each part is counted by a copy of it.
    """
    if table is not None:
        uncounted = empty()
        count, merge = partial(_count_share, empty=uncounted), partial(_merge, empty=uncounted)
        return _merged([engines.count(table, rows, count, merge)], uncounted)
    if workers > 1 and len(rows.source.files) > 1:
        evaluator = _count_shares(rows, workers, empty)
    else:
        evaluator = rows.read(lambda pieces: _count(track(of_pieces(pieces), None), empty()))
    rows.ids.check()
    return evaluator


def _count_shares(rows: TableRows, workers: int, empty: Callable[[], Evaluator]) -> Evaluator:
    """Count the files in several processes; begin again if a `ReadAgainError` asks for it."""
    uncounted = empty()
    shares = [rows.of_files(share) for share in divide(rows.source.files, workers)]
    try:
        parts = run(partial(_count_files, empty=uncounted), shares, workers)
    except ReadAgainError as error:
        setattr(rows, error.attribute, True)
        return _count_shares(rows, workers, empty)
    for _, ids in parts:
        rows.ids.merge(ids)
    evaluator = _merged([counts for counts, _ in parts], uncounted)
    if not evaluator.num_queries:
        rows.warn_of_no_rows()
    return evaluator


def _count_files(rows: TableRows, empty: Evaluator) -> tuple[bytes, SeenIds]:
    return _count(of_pieces(rows.pieces()), deepcopy(empty)).to_bytes(), rows.ids


def _count_share(rows: TableRows, empty: Evaluator) -> bytes:
    counts, ids = _count_files(rows, empty)
    ids.check()  # a share is enough: the types of columns tell the types of all ids
    return counts


def of_pieces(pieces: Iterable[tuple[Batch, Any]]) -> Iterator[Batch]:
    """Yield the chunks without the columns that they were made of."""
    for batch, _ in pieces:
        yield batch


def _count(batches: Iterable[Batch], evaluator: Evaluator) -> Evaluator:
    for batch in batches:
        evaluator.update(batch)
    return evaluator


def _merged(parts: Sequence[bytes], empty: Evaluator) -> Evaluator:
    return reduce(Evaluator.merge, (Evaluator.from_bytes(x, empty.metrics) for x in parts))


def _merge(parts: Sequence[bytes], empty: Evaluator) -> bytes:
    return _merged(parts, empty).to_bytes()


def _empty_evaluator(
    rows: TableRows, options: Options, vocabulary: Sequence[Any] | None
) -> Evaluator:
    """Return an evaluator without counts."""
    number = options.num_locations
    if rows.are_names and vocabulary is None:  # ids of text have no numbers
        number = None
    number_of_ids = len(vocabulary) if number is None and vocabulary is not None else number
    setting = Setting.read(replace(options, num_locations=number_of_ids), vocabulary)
    return Evaluator.of_setting(setting)
