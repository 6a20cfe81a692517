"""Describes, from its first rows, how a table is understood."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from itertools import chain
from typing import Any

from nextloc_metrics.core.queries.answers import Answers
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.report.files.opened import COLUMNS, open_source, roles_of
from nextloc_metrics.report.files.opening import kind_of_files, pa
from nextloc_metrics.report.files.roles import Roles, has_column
from nextloc_metrics.report.files.sources import columns_of, count_stored
from nextloc_metrics.report.files.suffixes import ARRAYS, RUNS
from nextloc_metrics.report.files.table_source import TableSource
from nextloc_metrics.report.files.tables import TableRows


@dataclass(frozen=True)
class TableDescription:
    """How the rows of a `Source` are understood; `print` shows a line for each attribute.

    Attributes:
        form: what a row of predictions is, and how many ids a target has.
        ids: `"integers"` or `"names"`, by the first rows; `"of the vocabulary"`.
        columns: the role of each column, "" for one that is not used.
        first: the prediction and the target of the first query, as they are read; empty without
            rows.
        num_rows: the number of rows of predictions, where it is known without reading them.
    """

    form: str
    ids: str
    columns: Mapping[str, str]
    first: Mapping[str, Any]
    num_rows: int | None

    def __str__(self) -> str:
        columns = ", ".join(f"{x!r} {role or 'not used'}" for x, role in self.columns.items())
        first = ", ".join(f"{name} {short(value)}" for name, value in self.first.items())
        number = "known after reading" if self.num_rows is None else f"{self.num_rows:,}"
        lines = {"form": self.form, "ids": self.ids, "columns": columns}
        lines |= {"row 0": first or "none", "rows": number}
        return "\n".join(f"{name:8} {text}" for name, text in lines.items())


def describe(source: TableSource) -> TableDescription:
    """Describe a source; a stream is replaced by one that yields the first rows once more."""
    table = source.rows
    if isinstance(table, pa.RecordBatchReader):
        seen = [batch for batch in [next(iter(table), None)] if batch is not None]
        whole = pa.RecordBatchReader.from_batches(table.schema, chain(seen, table))
        object.__setattr__(source, "rows", whole)
        metadata = {**(table.schema.metadata or {}), "file": type(table).__name__}  # for messages
        table = pa.Table.from_batches(seen, table.schema).replace_schema_metadata(metadata)
    shown, texts = replace(source, rows=table), dict[int, str]()
    roles = roles_of(shown)
    rows = open_source(shown, roles, texts=texts)
    if isinstance(rows, dict):
        return _describe_arrays(shown, rows)
    batch, _ = rows.read(next)
    if rows.num_candidates is not None:
        preds = batch.preds[:1].tolist()
        what = f"scores of {rows.num_candidates} locations in {_columns(shown.preds)}"
    else:
        answers = batch.preds.lists() if isinstance(batch.preds, Answers) else batch.preds
        preds, what = [_names(x, rows, texts) for x in answers[:1].tolist()], _form_of(roles)
    if rows.reader is not None:
        what = f"texts of a language model in {shown.preds!r}"
    target = [_names(x, rows, texts) for x in batch.target[:1].reshape(1, -1).tolist()]
    if not rows.has_several:
        target = [x for ids_of_query in target for x in ids_of_query]
    several = "several ids" if rows.has_several else "one id"
    ids = "names" if texts else "integers"
    return TableDescription(
        f"{what}, {several} in {_target_of(shown)!r}",
        ids if rows.vocabulary is None else "of the vocabulary",
        _roles_of_columns(shown, table),
        {"preds": preds[0], "target": target[0]} if len(batch.target) else {},
        count_stored(table),
    )


def _describe_arrays(source: TableSource, arrays: Mapping[str, Any]) -> TableDescription:
    """Describe a file of scores."""
    preds, target = arrays["preds"], arrays["target"]
    several = "several ids" if target.ndim > 1 else "one id"
    form = f"scores of {preds.shape[1]} locations in {source.preds!r}, {several} in "
    first = {"preds": preds[:1].tolist(), "target": target[:1].tolist()}
    first = {name: rows[0] for name, rows in first.items() if rows}
    ids = "integers" if source.vocabulary is None else "of the vocabulary"
    return TableDescription(f"{form}{source.target!r}", ids, {}, first, len(target))


def _form_of(roles: Roles) -> str:
    """Return what a row of predictions is, where predictions are no scores."""
    if roles.item is not None:
        return f"items in {roles.item!r}, ordered by {roles.score or roles.rank!r}"
    return f"{'an id per rank' if roles.is_wide else 'lists of ids'} in {_columns(roles.preds)}"


def _target_of(source: TableSource) -> str:
    """Return the column of the targets, which `truth` may call like the column of items."""
    item, truth, target = source.item, source.truth, source.target
    is_item = item is not None and target == "target" and has_column(truth, item)
    return str(item) if is_item and not has_column(truth, target) else target


def _names(keys: Sequence[int], rows: TableRows, texts: Mapping[int, str]) -> list[Any]:
    """Return ids as the user wrote them, without padding."""
    words = rows.vocabulary
    if words is not None:
        return [words[x] if x < len(words) else "not in the vocabulary" for x in keys if x >= 0]
    return [texts.get(x, x) for x in keys if x >= 0]


def _columns(preds: Any) -> str:
    return repr(preds) if isinstance(preds, str) else ", ".join(map(repr, preds))


def _roles_of_columns(source: TableSource, table: Any) -> dict[str, str]:
    """Return the role of each column of the predictions, "" for none; {} of arrays and runs."""
    if isinstance(table, Mapping) or kind_of_files(table) in (*RUNS, *ARRAYS):
        return {}
    roles = {column: role for role in COLUMNS for column in _listed(getattr(source, role))}
    role_of = {
        name: next((role for column, role in roles.items() if fnmatch(name, column)), "")
        for name in columns_of(table)
    }
    return role_of if any(role_of.values()) else {}  # keys of JSON may be queries


def _listed(columns: Any) -> list[str]:
    return [] if columns is None else [columns] if isinstance(columns, str) else [*columns]
