"""Whatever holds the numbers, the values are the same bits as of tensors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from inner import as_tensor
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    Grouped,
    PerQueryScores,
    Ranking,
    functional,
    next_location_metrics,
    report,
)

pd = pytest.importorskip("pandas")

SCORES = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
TARGET = torch.tensor([0, 4, 2, 3, 1, 1])
MASK = torch.tensor([True, True, False, True, True, True])
LISTS = torch.tensor([[0, 3, 1], [2, 4, -1], [1, 2, 0], [3, 0, 4], [4, 1, 0], [-1, -1, -1]])


def read_only(tensor: Tensor) -> Any:
    """An array that nobody may write to."""
    array = tensor.numpy().copy()
    array.flags.writeable = False
    return array


def ragged(tensor: Tensor) -> list[Any]:
    """Lists without their padding."""
    rows = tensor.tolist()
    return [[x for x in row if x != -1] if isinstance(row, list) else row for row in rows]


def polars(tensor: Tensor) -> Any:
    """A column of polars, of lists where the tensor has rows."""
    return pytest.importorskip("polars").Series(tensor.tolist())


def arrow(tensor: Tensor) -> Any:
    """An array of Arrow, of lists where the tensor has rows."""
    return pytest.importorskip("pyarrow").array(tensor.tolist())


MAKES: dict[str, Callable[[Tensor], Any]] = {
    "numpy": lambda tensor: tensor.numpy(),
    "read-only": read_only,
    "big-endian": lambda tensor: tensor.numpy().astype(tensor.numpy().dtype.newbyteorder(">")),
    "backwards": lambda tensor: tensor.numpy()[::-1].copy()[::-1],
    "lists": lambda tensor: tensor.tolist(),
    "tuple of tensors": tuple,
    "pandas": lambda tensor: pd.Series(tensor.tolist()),
    "pandas, arrays in a column": lambda tensor: pd.Series(list(tensor.numpy())),
    "polars": polars,
    "arrow": arrow,
}
makes = pytest.mark.parametrize("make", MAKES.values(), ids=MAKES.keys())


@makes
def test_every_kind_of_array_gives_the_same_bits(make: Callable[[Tensor], Any]) -> None:
    """Scores, ids, masks, groups and query ids, of metrics, collections and functions."""
    scores = SCORES.double()  # as lists of Python's floats have it
    expected, metrics = next_location_metrics(5, k=(1, 2)), next_location_metrics(5, k=(1, 2))
    for mask in (None, MASK):
        expected.update(scores, TARGET, mask)
        metrics.update(make(scores), make(TARGET), None if mask is None else make(mask))
        expected.update(LISTS, TARGET, mask)
        metrics.update(make(LISTS), make(TARGET), None if mask is None else make(mask))
    assert metrics.compute() == expected.compute()
    grouped, of_arrays = Grouped(MRR(), 3), Grouped(MRR(), 3)
    grouped.update(scores, TARGET, groups=TARGET % 3)
    of_arrays.update(make(scores), make(TARGET), groups=make(TARGET % 3))
    assert torch.equal(grouped.state, of_arrays.state)
    by_query = PerQueryScores(MRR())
    by_query.update(make(scores), make(TARGET), query_ids=make(torch.arange(6)))
    assert by_query.compute().ids.tolist() == list(range(6))
    assert functional.mrr(make(scores), make(TARGET)) == functional.mrr(scores, TARGET)
    assert MRR()(make(LISTS), make(TARGET)) == MRR()(LISTS, TARGET)


@pytest.mark.parametrize("make", [ragged, lambda x: pd.Series(ragged(x)), polars, arrow])
def test_lists_of_different_lengths_are_padded(make: Callable[[Any], Any]) -> None:
    """Their ids keep their ranks; an empty list is one of ids."""
    given = make(LISTS) if make is not polars and make is not arrow else None
    if given is None:
        given = make(_Rows(ragged(LISTS)))  # type: ignore[arg-type]
    expected = Ranking.from_lists(LISTS, TARGET)
    assert torch.equal(Ranking.from_lists(given, TARGET).above, expected.above)
    assert AccuracyAtK(2)(given, ragged(TARGET)) == AccuracyAtK(2)(LISTS, TARGET)


class _Rows:
    """Rows that are lists already."""

    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def tolist(self) -> list[Any]:
        return self.rows


def test_scores_are_not_copied() -> None:
    """Their tensor shares the array's memory; read-only ones too, without a warning."""
    for array in (SCORES.numpy(), read_only(SCORES), SCORES.numpy()[:, ::2], pd.DataFrame(SCORES)):
        memory = array if isinstance(array, np.ndarray) else array.to_numpy()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert as_tensor("preds", array).data_ptr() == memory.ctypes.data


@pytest.mark.parametrize("dtype", ["Int64", "int64[pyarrow]", "boolean"])
def test_nullable_columns_are_read_where_nothing_is_missing(dtype: str) -> None:
    """A missing value is named by its row: NumPy would make another dtype of the column."""
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    column = pd.Series([1, 0, 1], dtype=dtype)
    assert as_tensor("target", column).tolist() == [1, 0, 1]
    assert not as_tensor("target", column).is_floating_point()
    column[1] = None
    with pytest.raises(ValueError, match="`target` must have no missing value, got one in row 1"):
        as_tensor("target", column)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([[1], None], "missing value, got one in row 1"),
        (["a"], r"got Series str \(1,\)|got Series object \(1,\)"),
        (pd.to_datetime(["2020-01-01"]), "got Series datetime64"),
    ],
)
def test_columns_that_cannot_be_read_are_named(values: Any, says: str) -> None:
    """By kind, dtype and shape, or by the row; other values are in `messages.txt`."""
    with pytest.raises((ValueError, TypeError), match=f"`preds`.*{says}"):
        AccuracyAtK(1).update(pd.Series(values), TARGET)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.uint32, np.uint64, np.int16])
def test_ids_of_every_width(dtype: Any) -> None:
    """Unsigned ones too, which PyTorch knows in part."""
    ranking = Ranking.from_lists(LISTS.clamp(min=0).numpy().astype(dtype), TARGET.numpy())
    assert torch.equal(ranking.above, Ranking.from_lists(LISTS.clamp(min=0), TARGET).above)


@pytest.mark.parametrize("name", ["uint16", "uint64"])
def test_targets_of_every_width(name: str) -> None:
    """As tensors and arrays, with groups, exclusion and counts of an evaluation."""
    excluded, dtype = (TARGET[:, None] + 1) % 5, getattr(torch, name)

    def values(target: Any, exclude: Any) -> dict[str, float]:
        counts: Any = [0, 1, 2, 3, 4]
        groups = {"user": target}
        made = report.evaluate(SCORES, target, groups=groups, train_counts=counts, exclude=exclude)
        return made.values

    expected = values(TARGET, excluded)
    assert values(TARGET.to(dtype), excluded.to(dtype)) == expected
    assert values(*(x.numpy().astype(name) for x in (TARGET, excluded))) == expected


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble])
def test_scores_of_every_width(dtype: Any) -> None:
    """Those that PyTorch has not are rounded to float64."""
    scores = torch.tensor([[0.5, 0.25, 0.125]]).numpy().astype(dtype)
    assert Ranking.from_scores(scores, [1]).above.tolist() == [[1]]
