"""The evaluation of predictions in one call: of arrays, or of a table of any size, in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import fields, replace
from functools import partial, reduce
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from nextloc_metrics.core.queries.answers import Answers
from nextloc_metrics.core.queries.arrays import Array, as_tensor
from nextloc_metrics.core.queries.batch import Batch, read_rows, track
from nextloc_metrics.core.queries.checks import check_positive
from nextloc_metrics.core.queries.messages import describe, short
from nextloc_metrics.core.queries.scored_lists import ScoredLists
from nextloc_metrics.report import engines
from nextloc_metrics.report.engines.processes import divide, one_thread, run
from nextloc_metrics.report.evaluation import Evaluation
from nextloc_metrics.report.evaluation_options import Options, with_options
from nextloc_metrics.report.evaluator import Evaluator
from nextloc_metrics.report.files.answer_texts import reader_of
from nextloc_metrics.report.files.array_files import open_arrays
from nextloc_metrics.report.files.columns import names_of_groups, with_missing
from nextloc_metrics.report.files.joins import open_form
from nextloc_metrics.report.files.nested import as_tables
from nextloc_metrics.report.files.opening import kind_of_files
from nextloc_metrics.report.files.roles import Roles
from nextloc_metrics.report.files.seen_ids import SeenIds
from nextloc_metrics.report.files.suffixes import ARRAYS
from nextloc_metrics.report.files.tables import ReadAgainError, TableRows
from nextloc_metrics.report.files.wrong_tables import check_no_records
from nextloc_metrics.report.setting import check_cluster, with_users

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from nextloc_metrics.report.files.cells import OnError

# The arguments that only tables have, with their defaults.
_OF_TABLES: dict[str, Any] = {"preds": "preds", "truth": None, "query": (), "item": None}
_OF_TABLES |= {"score": None, "rank": None, "on_error": "raise", "on_missing": "raise"}
_OF_TABLES |= {"answers": None, "workers": 1}

# What names a column or a file.
_NAME = str | PathLike  # type: ignore[type-arg]

# So many lists without any target are no accident.
_MANY = 10


@with_options(Options)
def evaluate(
    rows: Any = None,
    target: Array | str | PathLike[str] = "target",
    *,
    preds: Array | Answers | str | Sequence[str] = "preds",
    groups: Mapping[str, Array] | Sequence[str] | None = None,
    users: Array | str | None = None,
    mask: Array | str | None = None,
    exclude: Array | str | None = None,
    confidence: Array | str | None = None,
    grade: Array | str | None = None,
    truth: Any = None,
    query: str | Sequence[str] = (),
    item: str | None = None,
    score: str | None = None,
    rank: str | None = None,
    on_error: OnError = "raise",
    on_missing: OnError = "raise",
    answers: Mapping[str, Any] | None = None,
    workers: int = 1,
    **options: Unpack[Options],
) -> Evaluation:
    r"""Evaluate predictions: headline with intervals, chance, groups, deciles, ties, protocol.

    The metrics are those of `next_location_metrics` for one target per query, and those of
    `recommendation_metrics` for several. Beside arrays, arguments are arrays; beside a table,
    `target`, `groups`, `mask`, `exclude`, `confidence` and `grade` name its columns.

    Rows are read in parts, with the same values bit for bit for any number of files, parts and
    workers; memory grows with locations and groups. A table is read in one pass, which begins again
    where a later row is the first with several relevant ids. A process that reads a table uses one
    thread.

    Args:
        rows: floating `[N, C]`, scores of all candidates; integer `[N, K]`, lists of ids, best
            first, padded with -1; or the `Answers` of `read_answers`, whose outcomes get rows. Of
            sequences of T queries, arrays `[N, ...]` may be `[N, T, ...]`, and groups `[N]`. Or a
            table: a path, a pattern, a folder or a list of them, what exports an Arrow stream
            (polars, pandas, pyarrow, DuckDB), a stream, which is read once if its targets are
            integers and nothing is joined, and else is written to a temporary file, or
            dicts of ranx; `files.tables.TableRows` says what a cell may hold. A
            `dask.dataframe.DataFrame`, a `ray.data.Dataset` or a `pyspark.sql.DataFrame` is counted
            on its cluster.
        target: integer `[N]`, one relevant id per query; or `[N, M]`, several, padded with -1.
        preds: the column of scores, or of lists of ids; or several columns, one per rank, as names
            or as a pattern such as `pred_*`. Without `rows`, it is the array.
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
        truth: the table of `target` and `grade`, if it is another, and of `groups`, `mask` and
            `exclude`, constant within a query. Several rows of a query are its several targets. A
            query without predictions is a miss, `missing` on the card; predictions without truth
            are left out.
        query: the columns of both tables that say which query a row is of.
        item: the column of one item per row, in place of `preds`, in any order; that of `truth` may
            have this name in place of `target`. Without `truth`, each row has the target of its
            query, or with `grade` that of its item.
        score: the column of the score of an item, of which equal ones are tied; NaN and empty is
            not retrieved. Or
        rank: the column of its rank, from 0 if any is 0, else from 1; a gap between ranks stays.
        on_error: as for `report.read`.
        on_missing: as for `report.read`; not beside `train_counts`, `bins` or `locations`.
        answers: how the cells of `preds` are written: `separator` and `padding` of lists as for
            `report.read`, such as `{"separator": " "}`; or, for the text of a language model, the
            options of `read_answers`, such as `{"form": "json"}`, with the ids of `vocabulary`.
            Without `truth`, texts that are missing cannot be seen; with it, a text without truth is
            an error.
        workers: the number of processes, which share the files; a cluster has its own.
        options: those of [`Options`][nextloc_metrics.report.Options]; `cluster` is a column of a
            table, and `vocabulary` as for `report.read`, its length the number of locations.

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
        >>> _ = path.write_text('preds,target,user\n"[7, 3]",3,ann\n"[5, 7]",5,bob\n', "utf-8")
        >>> found = report.evaluate(path, groups=["user"], k=1)
        >>> found.values["acc_at_1"], found.values["mrr"]
        (0.5, 0.75)
    """
    if rows is None:
        rows, preds = preds, "preds"
    check_no_records("rows", rows)
    values = preds, truth, query, item, score, rank, on_error, on_missing, answers, workers
    of_tables = dict(zip(_OF_TABLES, values, strict=True))
    beside: dict[str, Any] = {"target": target, "mask": mask, "exclude": exclude}
    beside |= {"confidence": confidence, "grade": grade}
    if not _is_table(rows, target):
        _check_kinds(beside, of_tables, is_table=False)
        groups, options["cluster"] = with_users(users, groups, options["cluster"])
        beside |= {"groups": groups, "grades": beside.pop("grade")}
        return _evaluate_arrays({"preds": rows, **beside}, options)
    _check_kinds(beside | {"groups": groups, "users": users}, {}, is_table=True)
    if users is not None:
        with_users(users, None, options["cluster"])  # which raises if both are given
        options["cluster"] = str(users)
    beside |= {"groups": groups or (), "target": str(target)}
    with one_thread():
        return _evaluate_table(rows, beside | of_tables, options)


def _is_table(rows: Any, target: Any) -> bool:
    """Return whether predictions are columns of a table: a frame of scores has arrays beside it."""
    if isinstance(rows, list | tuple):
        return bool(rows) and all(isinstance(x, _NAME) for x in rows)
    if hasattr(rows, "toarray"):
        as_tensor("preds", rows)  # which refuses a sparse matrix
    if isinstance(rows, Tensor | np.ndarray | Answers | ScoredLists):
        return False
    return isinstance(rows, _NAME | Mapping) or isinstance(target, _NAME)


def _check_kinds(beside: Mapping[str, Any], of_tables: Mapping[str, Any], is_table: bool) -> None:
    """Raise for an array beside a table; for the name of a column, or a table's option, without."""
    rule = "name columns where `rows` is a table" if is_table else "be an array where `rows` is one"
    for name, value in beside.items():
        is_name = isinstance(value, _NAME) or (name == "groups" and not hasattr(value, "items"))
        if value is not None and is_name != is_table:
            raise TypeError(f"`{name}` must {rule}, got {describe(value)}.")
    for name, value in of_tables.items():
        default = _OF_TABLES[name]
        if not (isinstance(value, type(default)) and value == default):
            raise TypeError(
                f"`{name}` must be left out where `rows` is an array, got {describe(value)}; it is "
                "for tables."
            )


def _evaluate_arrays(given: Mapping[str, Any], options: Options) -> Evaluation:
    """Evaluate the arrays of a `Batch`."""
    batch = Batch(**given)
    rows = read_rows(batch)
    check_cluster(options["cluster"], rows.groups)
    evaluator = Evaluator(**options)
    evaluator.add(replace(batch, groups=rows.kinds))  # whose values are numbered
    return evaluator.result()


def _evaluate_table(rows: Any, given: Mapping[str, Any], options: Options) -> Evaluation:
    """Evaluate a table, with the arguments of `evaluate` that `given` has by name."""
    truth, groups = given["truth"], given["groups"]
    workers, cluster = check_positive("workers", given["workers"]), options["cluster"]
    kinds = names_of_groups([*names_of_groups(groups), *([] if cluster is None else [cluster])])
    engine = engines.engine_of(rows)
    lists, answers = {"padding": -1, "separator": None}, given["answers"]
    if isinstance(answers, Mapping) and answers and answers.keys() <= lists.keys():
        lists, answers = {**lists, **answers}, None
    number = options["num_locations"]
    if given["on_missing"] == "miss":
        options = _with_missing_id(options)
    named = {x.name: given[x.name] for x in fields(Roles) if x.name in given}
    roles = Roles(**{**named, "groups": kinds})
    how = {**lists, "on_error": given["on_error"], "vocabulary": options["vocabulary"]}
    how["on_missing"] = given["on_missing"]
    if options["vocabulary"] is None:
        how["num_locations"] = number  # that of a missing target
        given_options: Mapping[str, Any] = options
        # arrays with a row for each id, or its number
        of_ids = ("train_counts", "bins", "locations", "num_locations")
        how["by_id"] = next((x for x in of_ids if given_options[x] is not None), None)
    if kind_of_files(rows) in ARRAYS:
        rows = open_arrays(rows, truth, roles, options["vocabulary"])
        truth = None
        if isinstance(rows, dict):
            return _evaluate_arrays(rows | {"groups": rows["groups"] or None}, options)
    if engine is None:
        rows, truth, roles = as_tables(rows, truth, roles)
    are_apart, reader, card = roles.are_apart(rows, truth), None, dict[str, Any]()
    if answers is not None and (not are_apart or roles.is_of_lists):
        reader, answers = reader_of(options["vocabulary"], answers), None
    if are_apart:
        refused = {"answers": answers, "confidence": roles.confidence}
        reading = {**how, "threads": workers, "reader": reader}
        source, card = _open_form(rows, truth, roles, reading, refused, options)
        workers = 1
    else:
        open_rows = TableRows if engine is None else engines.open_rows_of
        source = open_rows(rows, roles, **how, reader=reader)
    evaluator = _count_all(None if engine is None else rows, source, workers, options)
    evaluator._counts.card.update(card)
    result = evaluator.result()
    if engine is None and reader is None:
        source.ids.warn(stacklevel=4)
    return result


def _with_missing_id(options: Options) -> Options:
    """Return the options with an id more, that of missing targets, or raise if it has no place."""
    for name in ("train_counts", "bins", "locations"):
        if options[name] is not None:
            raise ValueError(
                f"`{name}` must be None with `on_missing='miss'`, got one: it does not know the id "
                "of a missing target; leave the rows out."
            )
    number, words = options["num_locations"], with_missing(options["vocabulary"], "miss")
    return {**options, "num_locations": number and number + 1, "vocabulary": words}


def _count_all(rows: Any, source: TableRows, workers: int, options: Options) -> Evaluator:
    """Count the rows of a cluster, or those of files or a table, in several processes or here."""
    if rows is not None:
        empty = _empty_evaluator(source, options)
        count, merge = partial(_count_share, empty=empty), partial(_merge, empty=empty)
        return _read([engines.count(rows, source, count, merge)], empty)
    if workers > 1 and len(source.source.files) > 1:
        found = _count_shares(source, workers, options)
    else:
        found = source.read(
            lambda pieces: _count(
                source, track(of_pieces(pieces), None), _empty_evaluator(source, options)
            )
        )
    if source.on_error == "raise":
        source.ids.check()
    return found


def _count_shares(source: TableRows, workers: int, options: Options) -> Evaluator:
    """Count the files in several processes; again if a row has what no row before had."""
    empty = _empty_evaluator(source, options)
    shares = [source.of_files(share) for share in divide(source.source.files, workers)]
    try:
        parts = run(partial(_count_files, empty=empty), shares, workers)
    except ReadAgainError as error:
        setattr(source, error.found, True)
        return _count_shares(source, workers, options)
    for _, ids in parts:
        source.ids.merge(ids)
    found = _read([counts for counts, _ in parts], empty)
    if not found._counts.card["queries"]:
        source.warn_of_no_rows()
    return found


def _count_files(rows: TableRows, empty: Evaluator) -> tuple[bytes, SeenIds]:
    return _count(rows, of_pieces(rows.pieces()), empty).to_bytes(), rows.ids


def _open_form(
    rows: Any, truth: Any, roles: Roles, reading: dict[str, Any], given: Mapping[str, Any],
    options: Options,
) -> tuple[TableRows, dict[str, Any]]:  # fmt: skip
    """Open predictions that are joined to their truth, or have a column per rank."""
    for name, table in (("rows", rows), ("truth", truth)):
        if engines.engine_of(table) is not None:
            raise ValueError(
                f"`{name}` of a cluster must be one table with a row per query, got "
                f"{type(table).__name__} with `truth`, `item` or several `preds`; join it there "
                "first to lists of ids and targets, or write Parquet and pass the path."
            )
    if wrong := next((x for x, y in given.items() if y is not None), None):
        raise ValueError(
            f"`{wrong}` must not be given with `truth`, `item` or several `preds`, got "
            f"{short(given[wrong])}."
        )
    if roles.item is not None and options["given"] is not None:
        raise ValueError(
            "`given` needs a score for every location, in a column of lists, got `item`."
        )
    return open_form(rows, truth, roles, **reading)


def of_pieces(pieces: Iterable[tuple[Batch, Any]]) -> Iterator[Batch]:
    """Yield the chunks without the columns that they were made of."""
    for batch, _ in pieces:
        yield batch


def _count(rows: TableRows, chunks: Iterable[Batch], empty: Evaluator) -> Evaluator:
    """Count the chunks of rows, and the answers that are unreadable if they are misses."""
    counts = deepcopy(empty)
    for batch in chunks:
        counts.add(batch)
    if rows.on_error == "miss":
        counts._counts.card["broken_answers"] += rows.missed
    if rows.repeated:
        counts._counts.card["repeated_items"] += rows.repeated
    if rows.without_target:
        counts._counts.card["missing_targets"] += rows.without_target
    return counts


def _count_share(rows: TableRows, empty: Evaluator) -> bytes:
    found = _count(rows, of_pieces(rows.pieces()), empty).to_bytes()
    if rows.on_error == "raise":  # the types of columns say what the ids of all shares are
        rows.ids.check()
    return found


def _read(parts: Sequence[bytes], empty: Evaluator) -> Evaluator:
    read = (Evaluator.from_bytes(part, empty.metrics) for part in parts)
    return reduce(Evaluator.merge, read)


def _merge(parts: Sequence[bytes], empty: Evaluator) -> bytes:
    return _read(parts, empty).to_bytes()


def _empty_evaluator(source: TableRows, options: Options) -> Evaluator:
    """Return an evaluator without counts, of which those of all parts are copies."""
    number, vocabulary = options["num_locations"], options["vocabulary"]
    if source.are_names and vocabulary is None:  # text has no numbers
        number = None
    known = len(vocabulary) if number is None and vocabulary is not None else number
    made: Options = {**options, "num_locations": known}
    return Evaluator(**made)
