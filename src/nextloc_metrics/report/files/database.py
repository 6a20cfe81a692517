"""DuckDB in a connection of its own, which opens, joins, groups, sorts and spills to disk.

Names and values of a user get into SQL quoted, or not at all.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from typing import Any

from nextloc_metrics.core.queries.messages import clip, extra

# Rows of an Arrow batch that leaves.
_ROWS = 100_000


def quoted(text: str) -> str:
    """Return text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


class Database:
    """A connection of its own: no extensions, no tables of the caller.

    What does not fit into memory is written to a temporary folder, which goes with the object.
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
        """Let addresses of a file system of fsspec be read."""
        names = [system.protocol] if isinstance(system.protocol, str) else system.protocol
        if not {*names} & {*self._connection.list_filesystems()}:
            self._connection.register_filesystem(system)

    def run(self, query: str) -> Any:
        """Run a statement; an error of DuckDB is ours."""
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
            # the name of DuckDB 2, and that of 1.5
            read = getattr(result, "to_arrow_reader", None) or result.fetch_record_batch
            yield from read(rows)
        except (self._error, OSError) as error:  # OSError: Arrow hands it on
            raise self._explained(error) from error

    def insert(self, table: str, rows: Any) -> None:
        """Add an Arrow table to a table of its schema, which is made if there is none."""
        self._connection.register("given", rows)
        self.run(f"CREATE TABLE IF NOT EXISTS {table} AS FROM given LIMIT 0")
        self.run(f"INSERT INTO {table} FROM given")
        self._connection.unregister("given")

    def _explained(self, error: Exception) -> ValueError:
        first = str(error).partition("\n")[0]
        return ValueError(f"the tables could not be joined, grouped or sorted: {clip(first)}")
