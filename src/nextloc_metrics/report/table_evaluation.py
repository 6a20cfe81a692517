"""The evaluation of a table of any size, in one pass."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from os import PathLike
from typing import TYPE_CHECKING, Any

from torch import Tensor

from nextloc_metrics.core.queries.arrays import as_tensor
from nextloc_metrics.core.queries.batch import Batch, track
from nextloc_metrics.core.queries.checks import check_positive
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.report import engines
from nextloc_metrics.report.arrays import evaluate
from nextloc_metrics.report.engines.processes import divide, one_thread, run
from nextloc_metrics.report.evaluation import Evaluation
from nextloc_metrics.report.evaluation_options import Options, with_options
from nextloc_metrics.report.evaluator import Evaluator
from nextloc_metrics.report.files.answer_columns import AnswerColumn, JoinedAnswers
from nextloc_metrics.report.files.answers import cells_of
from nextloc_metrics.report.files.columns import names_of_groups
from nextloc_metrics.report.files.forms import open_form
from nextloc_metrics.report.files.ids import OnError
from nextloc_metrics.report.files.joining import Joined, TableForm, form_of
from nextloc_metrics.report.files.nested import (
    arrays_of,
    as_tables,
    is_tensors,
)
from nextloc_metrics.report.files.proposal import check_rows_are_queries
from nextloc_metrics.report.files.tables import (
    Names,
    TableRows,
    open_rows,
    source_of,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

# So many lists without any target are no accident.
_MANY = 10


@with_options(Options)
@one_thread()
def evaluate_table(
    rows: Any,
    *,
    preds: str | Sequence[str] = "preds",
    target: str = "target",
    truth: Any = None,
    query: str | Sequence[str] = (),
    item: str | None = None,
    score: str | None = None,
    rank: str | None = None,
    grade: str | None = None,
    groups: Sequence[str] = (),
    mask: str | None = None,
    exclude: str | None = None,
    confidence: str | None = None,
    padding: int | Sequence[int] = -1,
    separator: str | None = None,
    on_error: OnError = "raise",
    answers: Mapping[str, Any] | None = None,
    workers: int = 1,
    **options: Unpack[Options],
) -> Evaluation:
    r"""Evaluate the predictions of a table, which is read in parts.

    Memory grows with locations and groups, not with rows. The values are those of `evaluate`, bit
    for bit, for any number of files, parts and workers. For lists of ids, the column of targets is
    read first, to learn how many locations there are. A process uses one thread.

    Args:
        rows: a path, a pattern, a folder or a list of them, a table that exports an Arrow stream
            (polars, pandas, pyarrow, DuckDB), or an Arrow stream; `files.tables.open_rows` says
            what each cell may hold. A `dask.dataframe.DataFrame`, a `ray.data.Dataset` or a
            `pyspark.sql.DataFrame` is counted on its cluster.
        preds: the column of scores, or of lists of ids; or several columns, one per rank, as names
            or as a pattern such as `pred_*`.
        target: the column of relevant ids. `groups`, `mask`, `exclude`, `padding`, `separator` and
            `on_error` are as for `report.read`.
        truth: the table of the relevant ids, if it is another; `target`, `groups`, `mask` and
            `exclude` are its columns, constant within a query. Several rows of a
            query are its several targets. A query without predictions is a miss, `missing` on the
            card; predictions without truth are left out.
        query: the columns of both tables that say which query a row is of.
        item: the column of one item per row, in place of `preds`; no order of rows matters. The
            column of `truth` may have this name in place of `target`. Without `truth`, each row
            has the target of its query, or with `grade` that of its item.
        score: the column of the score of an item, of which equal ones are tied; NaN and empty is
            not retrieved. Or
        rank: the column of its rank, from 0 if any is 0, else from 1; a gap between ranks stays.
        grade: the column of `truth` of grades; those up to 0 are not relevant. A query that has
            no others scores 0, as in trec_eval.
        confidence: for lists, the column of the confidence of each first id, from 0 to 1; adds the
            metrics of `confidence_metrics`.
        answers: how the text in `preds` is read, as by the options of `read_answers`, such as
            `{"form": "json"}`; the ids are those of `vocabulary`. Without `truth`, answers that are
            missing cannot be seen; with it, `query` is one column, whose values occur once in each
            table, and an answer without truth is an error.
        workers: the number of processes, which share the files; a cluster has its own.
        options: those of [`Options`][nextloc_metrics.report.Options]; `cluster` is a column, and
            `vocabulary` also as for `report.read`, whose length is then the number of locations.

    Raises:
        FileNotFoundError: there is no such file.
        ImportError: pyarrow is not installed.
        ValueError: an option, a column or a row is wrong; the message names file and row.

    Example:
        >>> import pathlib, tempfile
        >>> from nextloc_metrics import report
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "answers.csv"
        >>> _ = path.write_text('preds,target,user\n"[7, 3]",3,ann\n"[5, 7]",5,bob\n', "utf-8")
        >>> found = report.evaluate_table(path, groups=["user"], k=1)
        >>> found.values["acc_at_1"], found.values["mrr"]
        (0.5, 0.75)
    """
    check_positive("workers", workers)
    cluster, vocabulary = options["cluster"], options["vocabulary"]
    kinds = names_of_groups([*names_of_groups(groups), *([] if cluster is None else [cluster])])
    engine = None if isinstance(rows, str | PathLike) else engines.engine_of(rows)
    asked: dict[str, Any] = {"preds": preds, "target": target, "mask": mask, "exclude": exclude}
    asked |= {"confidence": confidence}
    how: dict[str, Any] = {"padding": padding, "separator": separator, "on_error": on_error}
    named = query, item, score, rank, grade
    if is_tensors(rows):
        held = arrays_of(rows, truth, asked, kinds, named)
        return evaluate(**held | {"groups": held["groups"] or None}, **options)
    if engine is None:
        rows, truth, target, named = as_tables(rows, truth, target, named)
    form = form_of(rows, preds, target, truth, *named)
    is_told = answers is not None and isinstance(preds, str) and item is None and grade is None
    if form is not None and not is_told:
        given = {"answers": answers, "confidence": confidence}
        names = Names("preds", target, kinds, mask, exclude)
        reading = {**how, "threads": workers}
        return _evaluate_form(rows, truth, form, names, reading, given, options)
    assert isinstance(preds, str)
    reader = _reader_of(rows, preds, answers, truth, form, vocabulary)
    rows, preds = (rows, preds) if truth is None or form is None else (truth, form.query[0])
    reading = {**asked, **how, "preds": preds, "groups": kinds}
    reading |= {"vocabulary": vocabulary, "reader": reader}
    source = (open_rows if engine is None else engines.open_rows_of)(rows, **reading).hashed()
    if engine is None and source.are_single:
        check_rows_are_queries(rows, source.names)
    result = _count_all(None if engine is None else rows, source, workers, options).result()
    if engine is None and reader is None:
        _warn_of_strangers(source, result, stacklevel=5)
    return result


def _count_all(rows: Any, source: TableRows, workers: int, options: Options) -> Evaluator:
    """Count the rows of a cluster, or those of files or a table, in several processes or here."""
    make = _maker(source, options)
    count, merge = partial(_count_share, make=make), partial(_merge, make=make)
    if rows is not None:
        return _read([engines.count(rows, source, count, merge)], make)
    if workers > 1 and len(source.files) > 1:
        shares = [source.of_files(share) for share in divide(source.files, workers)]
        return _read(run(count, shares, workers), make)
    return _count(source, track(source.chunks(), source.num_rows), make)


def _evaluate_form(
    rows: Any,
    truth: Any,
    form: TableForm,
    names: Names,
    reading: dict[str, Any],
    given: Mapping[str, Any],
    options: Options,
) -> Evaluation:
    """Evaluate predictions that are joined to their truth, or have a column per rank."""
    tables = {"rows": rows, "truth": truth}
    for name, table in tables.items():
        if not isinstance(table, str | PathLike) and engines.engine_of(table) is not None:
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
    if form.item is not None and options["given"] is not None:
        raise ValueError(
            "`given` needs a score for every location, in a column of lists, got `item`."
        )
    counts, size = options["train_counts"], options["num_locations"]
    if size is None and counts is not None:
        size = len(as_tensor("train_counts", counts))
    reading = {**reading, "vocabulary": options["vocabulary"], "num_locations": size}
    source, card = open_form(rows, truth, form, names, **reading)
    source = source.hashed()
    make = _maker(source, options)
    evaluator = _count(source, track(source.chunks(), source.num_rows), make)
    assert evaluator._counts is not None
    evaluator._counts.counted.card.update(card)
    result = evaluator.result()
    _warn_of_strangers(source, result, stacklevel=6)
    return result


def _warn_of_strangers(rows: TableRows, result: Evaluation, stacklevel: int) -> None:
    """Warn if no id of any list is a target of any query, as ids are written in two ways."""
    hits = any(value for name, value in result.values.items() if name.startswith("mrr"))
    size, number = rows.num_locations, 0
    if hits or rows.source.once or size is None or rows.num_rows is None:
        return
    shown = ""
    for batch, piece in rows.pieces():
        assert isinstance(batch.preds, Tensor)
        if ((batch.preds >= 0) & (batch.preds < size)).any():
            return
        number += int((batch.preds >= 0).any(1).sum())
        if not shown and len(piece.rows) and not isinstance(rows.source, Joined):
            names = rows.names.preds, rows.names.target
            shown = " and ".join(short(cells_of(piece.columns[x][:1])[0]) for x in names)
    if number >= _MANY:
        warnings.warn(
            f"No id of {number:,} lists is the target of any query, so that all are misses. "
            "Compare how ids are written in predictions and targets"
            + (f", such as {shown}." if shown else "."),
            stacklevel=stacklevel,
        )


def _reader_of(
    rows: Any, preds: str, answers: Any, truth: Any, form: TableForm | None, vocabulary: Any
) -> AnswerColumn | None:
    """Return what reads answers, also those of another table; None without answers."""
    if answers is None:
        return None
    if vocabulary is None:
        raise ValueError("`answers` needs `vocabulary`, got None.")
    if truth is None or form is None:
        return AnswerColumn(vocabulary, answers)
    of_cluster = [type(x).__name__ for x in (rows, truth) if engines.engine_of(x)]
    if len(form.query) != 1 or of_cluster:
        raise ValueError(
            "`truth` of `answers` needs `query`, one column, and no tables of a cluster, got "
            f"{of_cluster[0] if of_cluster else short(form.query)}; pass such a table as one in "
            "memory, by `.compute()`, `.to_pandas()` or `.toPandas()`."
        )
    (key,) = form.query
    parts = [
        source_of(table, names, "raise").parts(names.all, ids=[key])
        for table, names in ((rows, Names(preds, key)), (truth, Names(key, key)))
    ]
    return JoinedAnswers(vocabulary, answers, preds, key, *parts)


def _count(rows: TableRows, chunks: Iterable[Batch], make: Callable[[], Evaluator]) -> Evaluator:
    """Count the chunks of rows, and the answers that are unreadable if they are misses."""
    counts = make()
    for batch in chunks:
        counts.add(batch)
    if rows.on_error == "miss" and counts._counts is not None:
        counts._counts.counted.card["broken_answers"] += rows.missed
    return counts


def _count_share(rows: TableRows, make: Callable[[], Evaluator]) -> bytes:
    return _count(rows, rows.chunks(), make).to_bytes()


def _read(parts: Sequence[bytes], make: Callable[[], Evaluator]) -> Evaluator:
    own = make().metrics
    return reduce(Evaluator.merge, (Evaluator.from_bytes(part, own) for part in parts))


def _merge(parts: Sequence[bytes], make: Callable[[], Evaluator]) -> bytes:
    return _read(parts, make).to_bytes()


def _maker(source: TableRows, options: Options) -> Any:
    """Return what makes the evaluators of all parts."""
    number, vocabulary = options["num_locations"], options["vocabulary"]
    known = len(vocabulary) if number is None and vocabulary is not None else number
    counts, places = options["train_counts"], options["locations"]
    by_id = [x for x, of in {"train_counts": counts, "locations": places}.items() if of is not None]
    if by_id and source.vocabulary is not None and vocabulary is None:
        raise ValueError(
            f"`vocabulary` must list the ids if they are text, in the order of `{by_id[0]}`, got "
            "None."
        )
    visited = 0 if counts is None else len(as_tensor("train_counts", counts))
    sizes = [source.num_locations or 1, visited]
    words = None if source.vocabulary is None else tuple(map(str, source.vocabulary))
    inferred = known if source.num_candidates is not None or known is not None else max(sizes)
    made: Options = {**options, "num_locations": known, "vocabulary": words}
    return partial(_make, inferred, **made)


def _make(inferred: int | None, **options: Unpack[Options]) -> Evaluator:
    evaluator = Evaluator(**options)
    evaluator._options["num_locations"] = inferred
    return evaluator
