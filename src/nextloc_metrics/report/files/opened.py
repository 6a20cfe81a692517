"""Opens a source, as rows of queries or as the arrays of a file of scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from nextloc_metrics.core.queries.messages import describe, short
from nextloc_metrics.report.files.answer_texts import reader_of
from nextloc_metrics.report.files.array_files import open_arrays
from nextloc_metrics.report.files.columns import names_of_groups, with_missing
from nextloc_metrics.report.files.joins import open_form
from nextloc_metrics.report.files.nested import as_tables
from nextloc_metrics.report.files.opening import kind_of_files
from nextloc_metrics.report.files.roles import Roles
from nextloc_metrics.report.files.suffixes import ARRAYS
from nextloc_metrics.report.files.table_source import TableSource
from nextloc_metrics.report.files.tables import TableRows
from nextloc_metrics.report.files.wrong_tables import check_no_records

_LISTS = {"padding": -1, "separator": None}

#: the columns that are fields of a source
COLUMNS = tuple(x.name for x in fields(Roles) if x.name in TableSource.__dataclass_fields__)


def roles_of(source: TableSource, groups: Sequence[str] = (), **columns: str | None) -> Roles:
    """Return the columns that a source names, and those that its user names beside it."""
    named: Any = {name: getattr(source, name) for name in COLUMNS}
    return Roles(**named | columns, groups=names_of_groups(groups))


def row_options_of(source: TableSource, **further: Any) -> tuple[dict[str, Any], Any]:
    """Return arguments of `TableRows`, with `further` ones, and the options of `read_answers`.

    These options are None if predictions are not the texts of a language model.
    """
    options, texts = dict[str, Any](_LISTS), source.answers
    if isinstance(texts, Mapping) and texts and texts.keys() <= options.keys():
        options, texts = {**options, **texts}, None
    options |= {"on_error": source.on_error, "on_missing": source.on_missing, **further}
    return {**options, "vocabulary": with_missing(source.vocabulary, source.on_missing)}, texts


def open_source(
    source: TableSource,
    roles: Roles,
    *,
    threads: int = 1,
    query_as_groups: bool = False,
    **further: Any,
) -> TableRows | dict[str, Any]:
    """Open the files or the table of a source; `engines` opens a table of a cluster.

    A file of scores becomes a dict of arrays, with the names of the fields of `Predictions`. With
    `query_as_groups`, the columns of `query` are groups, too. `further` are further arguments of
    `TableRows`.
    """
    check_no_records("rows", source.rows)
    row_options, texts = row_options_of(source, **further)
    rows, truth = source.rows, source.truth
    if kind_of_files(rows) in ARRAYS:
        rows, truth = open_arrays(rows, truth, roles, row_options["vocabulary"]), None
        if isinstance(rows, dict):
            return rows
    rows, truth, roles = as_tables(rows, truth, roles)
    if query_as_groups:
        roles = replace(roles, groups=tuple(dict.fromkeys([*roles.groups, *roles.query])))
    are_apart = roles.are_apart(rows, truth)
    reader = None
    if texts is not None and (not are_apart or roles.is_of_lists):
        reader, texts = reader_of(row_options["vocabulary"], texts), None
    if not are_apart:
        return TableRows(rows, roles, **row_options, reader=reader)
    for name, value in {"answers": texts, "confidence": roles.confidence}.items():
        if value is not None:
            raise ValueError(
                f"`{name}` must not be given with `truth`, `item` or several `preds`, got "
                f"{short(value)}."
            )
    return open_form(rows, truth, roles, threads=threads, **row_options, reader=reader)


def check_lists(source: TableSource) -> None:
    """Raise if predictions are the text of a language model, which only `evaluate` reads."""
    _, texts = row_options_of(source)
    if texts is not None:
        raise ValueError(
            "`answers` must be how lists are written, `separator` and `padding`, got "
            f"{describe(texts)}; only `evaluate` reads the text of a language model."
        )
