"""Reads arrays in files of `.npy`, `.npz` and `torch.save`: scores as arrays, lists as a table.

No object is unpickled. A `.npy` and tensors are memory-mapped.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.queries.arrays import as_tensor, as_tensor_or_text
from nextloc_metrics.core.queries.checks import is_integer
from nextloc_metrics.core.queries.messages import as_column, describe, short
from nextloc_metrics.report.files.columns import read_mask
from nextloc_metrics.report.files.opening import (
    FilePart,
    as_arrow,
    find_files,
    pa,
    suffix_of,
    truth_file,
)
from nextloc_metrics.report.files.roles import Roles

# other names that users give to the arrays of predictions and targets
_NAMES = {"logits": "preds", "scores": "preds", "labels": "target"}


def open_arrays(path: Any, truth: Any, roles: Roles, vocabulary: Sequence[Any] | None) -> Any:
    """Return scores and the arrays beside them, by the names of `evaluate`; or lists, as a table.

    `roles` has the name of each array. The targets may be in another file, and are for `.npy`.
    """
    roles.refuse("a file of arrays or tensors, a row per query")
    if suffix_of(find_files(path)[0]) == ".npy":
        truth = truth_file(path, roles.target if truth is None else truth, "targets")
    named = {x: getattr(roles, x) for x in ("preds", "target", "mask", "exclude", "confidence")}
    columns = {name: column for name, column in named.items() if column is not None}
    readers: dict[str, Any] = dict.fromkeys(roles.groups, as_tensor_or_text)
    readers |= dict.fromkeys(columns.values(), as_tensor)
    held = _load(path, readers)
    if truth is not None:
        targets = _load(truth, readers | {"preds": as_tensor})
        held |= {columns["target"]: targets["preds"]} if [*targets] == ["preds"] else targets
    if missing := next((x for x in readers if x not in held), None):
        names = missing, *(x for x, y in _NAMES.items() if y == missing)
        hint = "; `truth` names a file of targets" if missing == columns["target"] else ""
        raise ValueError(
            f"{path} must hold an array named {' or '.join(map(repr, names))}, got "
            f"{short([*held])}{hint}."
        )
    preds, mask = columns["preds"], columns.get("mask")
    are_lists = is_integer(held[preds])
    if are_lists and held[preds].ndim == 1:
        held[preds] = held[preds][:, None]
    _check(path, held[preds], columns["target"], held)
    if are_lists:
        exclude = columns.get("exclude")
        if exclude is not None and held[exclude].dtype == torch.bool:  # a flag per location
            flags = held[exclude]
            held[exclude] = torch.where(flags, torch.arange(flags.shape[-1]), -1)
        table = pa.table({x: as_arrow(np.asarray(y)) for x, y in held.items()})
        return table.replace_schema_metadata({"file": str(path)})
    if vocabulary is not None and len(vocabulary) != held[preds].shape[1]:
        raise ValueError(
            f"`vocabulary` must list the {held[preds].shape[1]} ids of the scores in {path}, got "
            f"{len(vocabulary)}."
        )
    if not len(held[preds]):
        warnings.warn(f"{path} should hold rows, got none; all values are NaN.", stacklevel=4)
    if mask is not None:  # the values may be 0 and 1
        column = {mask: as_arrow(np.asarray(held[mask]))}
        held[mask] = read_mask(FilePart(str(path), range(len(held[mask])), column), mask)
    kinds = {x: held[x].numpy() if isinstance(held[x], Tensor) else held[x] for x in roles.groups}
    return {name: held[column] for name, column in columns.items()} | {"groups": kinds}


def _check(path: Any, answers: Tensor, target: str, held: Mapping[str, Any]) -> None:
    """Raise if an array has a wrong type or shape; `held` has all arrays by name."""
    is_scores, relevant = answers.is_floating_point(), held[target]
    is_empty = is_scores and answers.shape[1:] == (0,)
    if answers.ndim != 2 or is_empty or not (is_scores or is_integer(answers)):
        raise ValueError(
            f"the predictions in {path} must be scores [N, C] or lists of ids [N, K], with C from "
            f"1 on, got {describe(answers)}."
        )
    if relevant.ndim not in (1, 2) or not is_integer(relevant) or len(relevant) != len(answers):
        raise ValueError(
            f"the targets of {path} must be ids [N] or [N, M], one row for each of the "
            f"{len(answers)} predictions, got {describe(relevant)}."
        )
    for name, values in held.items():
        if np.shape(values)[:1] != answers.shape[:1]:
            raise ValueError(
                f"{as_column(name)} in {path} must have one value for each of the {len(answers)} "
                f"predictions, got {describe(values)}."
            )


def _load(path: Any, readers: Mapping[str, Callable[[str, Any], Any]]) -> dict[str, Any]:
    """Return the arrays of files by name, joined; an array without a name is `preds`.

    Numbers become tensors, also those in a list of batches; text and dates become lists of text.
    """
    parts: dict[str, list[Any]] = {}
    for file in find_files(path):
        with _opened(file) as arrays:
            names = {_NAMES[x]: x for x in reversed(_NAMES) if x in arrays} | {x: x for x in arrays}
            held = {x: arrays[names[x]] for x in readers if x in names}
        if parts and held.keys() != parts.keys():
            raise ValueError(
                f"{file} must hold the arrays or tensors of the files before, {short([*parts])}, "
                f"got {short([*held])}."
            )
        for name, value in held.items():
            if getattr(getattr(value, "dtype", None), "kind", "") == "M":
                value = pa.array(value).cast(pa.string()).to_pylist()
            are_batches = isinstance(value, list) and value and isinstance(value[0], Tensor)
            batches = map(torch.atleast_1d, value) if are_batches else [value]
            try:
                parts.setdefault(name, []).extend(readers[name](name, x) for x in batches)
            except (TypeError, ValueError) as error:
                raise ValueError(f"{file} must hold arrays, tensors or lists: {error}") from error
    return {
        name: x[0] if len(x) == 1
        else torch.cat(x) if isinstance(x[0], Tensor) else [*chain.from_iterable(x)]
        for name, x in parts.items()
    }  # fmt: skip


def load_array(file: str | Path) -> Any:
    """Return the array of a `.npy`, memory-mapped."""
    with _opened(str(file)) as arrays:
        return arrays["preds"]


@contextmanager
def _opened(file: str) -> Iterator[Mapping[str, Any]]:
    """Open the arrays of a file by name, with our errors: those of NumPy advise to unpickle."""
    kind = suffix_of(file)
    try:
        if kind == ".npz":  # opened here, because NumPy does not close a file that is no archive
            with open(file, "rb") as raw, np.load(raw, allow_pickle=False) as packed:
                yield packed
        elif kind == ".npy":
            yield {"preds": np.load(file, mmap_mode="r", allow_pickle=False)}
        else:
            held = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
            yield held if isinstance(held, Mapping) else {"preds": held}
    except OSError:
        raise
    except Exception as error:
        raise ValueError(
            f"{file} must hold arrays of numbers as NumPy or `torch.save` writes them, and is cut, "
            "another file, beyond memory, or holds Python objects; write it again, many scores as "
            ".npy, which is read in parts."
        ) from error
