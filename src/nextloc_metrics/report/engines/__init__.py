"""Evaluations on the cluster that holds the rows: Dask, Ray, Spark.

Each partition becomes counts where it lies, the workers merge these, and the driver gets the counts
of all rows. A file per engine has `names` and `fold`; it is imported when rows are of its type. It
imports `report` and `files`. Begin with `evaluate`.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

#: By the start of the module of a type, and its name: the engine.
_ENGINES = {
    ("dask", "DataFrame"): "dask",
    ("dask_expr", "DataFrame"): "dask",
    ("ray.data", "Dataset"): "ray",
    ("pyspark.sql", "DataFrame"): "spark",
}


def engine_of(rows: Any) -> ModuleType | None:
    """Return the module of the engine that holds the rows; None for any other type."""
    for kind in type(rows).__mro__:
        for (module, name), engine in _ENGINES.items():
            if kind.__name__ == name and f"{kind.__module__}.".startswith(f"{module}."):
                return import_module(f"{__name__}.{engine}")
    return None
