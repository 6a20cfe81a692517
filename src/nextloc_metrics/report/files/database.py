"""A connection to DuckDB, which reads, joins, groups and sorts tables, on disk if they are large.

Names and values of a user are quoted in SQL, or do not occur there.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from typing import Any

from nextloc_metrics.core.queries.messages import clip, extra

# How many rows an Arrow batch of a result has.
_ROWS = 100_000


def quoted(text: str) -> str:
    """Return text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


class Database:
    """A connection that sees no extensions and no tables of the caller.

    Data that does not fit into memory is in a temporary folder, which is deleted with the object.
    """

    def __init__(self, threads: int = 1, memory_limit: str | None = None) -> None:
        try:
            import duckdb
        except ModuleNotFoundError as error:
            raise ImportError(
                f"tables of text, and tables that are joined, need duckdb; {extra('cli')}."
            ) from error
        self._error = duckdb.Error
        folder = tempfile.mkdtemp(prefix="nextloc-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        config: dict[str, Any] = {
            "threads": threads,
            "temp_directory": folder,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,
        }
        if memory_limit is not None:
            config["memory_limit"] = memory_limit
        self._connection = duckdb.connect(":memory:", config=config)

    def add_files(self, system: Any) -> None:
        """Let queries read the addresses of a file system of fsspec."""
        names = [system.protocol] if isinstance(system.protocol, str) else system.protocol
        if not {*names} & {*self._connection.list_filesystems()}:
            self._connection.register_filesystem(system)

    def run(self, query: str) -> Any:
        """Run a statement; an error of DuckDB becomes a `ValueError`."""
        try:
            return self._connection.execute(query)
        except self._error as error:
            raise self._explained(error) from error

    def row(self, query: str) -> Any:
        """Return the first row of a query, or None."""
        return next(iter(self.run(query).fetchall()), None)

    def value(self, query: str) -> Any:
        """Return the first value of a query that has a row."""
        return self.row(query)[0]

    def batches(self, query: str, rows: int = _ROWS) -> Iterator[Any]:
        """Yield the Arrow batches of a query."""
        try:
            # a result that is not read to its end blocks its own cursor
            cursor = self._connection.cursor()
            result = cursor.sql(query)
            # the first name is that of DuckDB 2, the second that of 1.5
            read = getattr(result, "to_arrow_reader", None) or result.fetch_record_batch
            yield from read(rows)
        except (self._error, OSError) as error:  # Arrow raises an error of a file as OSError
            raise self._explained(error) from error

    def insert(self, table: str, rows: Any) -> None:
        """Add the rows of an Arrow table to a table of the same schema, made if it is missing."""
        self._connection.register("new_rows", rows)
        self.run(f"CREATE TABLE IF NOT EXISTS {table} AS FROM new_rows LIMIT 0")
        self.run(f"INSERT INTO {table} FROM new_rows")
        self._connection.unregister("new_rows")

    def _explained(self, error: Exception) -> ValueError:
        first = str(error).partition("\n")[0]
        return ValueError(f"the tables could not be joined, grouped or sorted: {clip(first)}")
