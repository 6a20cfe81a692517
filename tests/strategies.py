"""What the tests draw from: helpers, and Hypothesis strategies."""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor
from torchmetrics import Metric, MetricCollection

from conftest import EXAMPLES
from metric_tester import LOCATIONS
from nextloc_metrics import report, scoring
from nextloc_metrics.analysis import Comparison

# Functions of a ranking and k.
SCORES = (
    scoring.hits,
    scoring.accuracy,
    scoring.reciprocal_rank,
    scoring.ndcg,
    scoring.average_precision,
    scoring.precision,
    scoring.recall,
    scoring.f1,
)


def same(one: Any, other: Any) -> bool:
    """Whether two tensors, or tuples or mappings of them, have the same shape, dtype and bits."""
    if isinstance(one, Tensor):
        return (
            one.dtype == other.dtype
            and one.shape == other.shape
            and torch.equal(torch.isnan(one), torch.isnan(other))
            and torch.equal(one.nan_to_num(), other.nan_to_num())
        )
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return list(one) == list(other) and all(same(one[key], other[key]) for key in one)


def state(metric: Metric) -> dict[str, Tensor]:
    """A copy of what a metric has accumulated, under no particular names."""
    return {str(i): v.clone() for i, v in enumerate(metric.metric_state.values())}  # type: ignore[union-attr]


def state_name(metric: Metric) -> str:
    """The name of the state, by which torchmetrics finds metrics that share one."""
    (name,) = metric.metric_state
    return str(name)


def states(collection: MetricCollection) -> dict[str, dict[str, Tensor]]:
    """What every member has accumulated."""
    return {key: state(metric) for key, metric in collection.items()}


def float32(found: Any) -> Any:
    """The nearest float32 numbers, as `compute` returns them, of what tables and files write."""
    if isinstance(found, dict):
        return {key: float32(value) for key, value in found.items()}
    if isinstance(found, tuple):
        return tuple(map(float32, found))
    return torch.tensor(found, dtype=torch.float32).item()


def updated(metric: Metric, *args: Any, **kwargs: Any) -> Metric:
    """The metric after one update."""
    metric.update(*args, **kwargs)
    return metric


def updated_by(metric: Metric, preds: Any, target: Any, **named: Any) -> Metric:
    """The metric after one update with predictions and targets as tensors."""
    return updated(metric, torch.as_tensor(preds), torch.as_tensor(target), **named)


def value(metric: Metric, preds: Any, target: Any, **named: Any) -> float:
    """The value after one update with predictions and targets as tensors."""
    return float(updated_by(metric, preds, target, **named).compute())


def floats_of(metrics: MetricCollection, *batch: Any, **options: Any) -> dict[str, float]:
    """The values of a collection for one batch, as floats."""
    values = updated(copy.deepcopy(metrics), *batch, **options).compute()
    return {name: value.item() for name, value in values.items()}


@contextlib.contextmanager
def with_case_in_error(case: object) -> Iterator[None]:
    """Tell with which of several cases an error was raised."""
    try:
        yield
    except (Exception, pytest.fail.Exception) as error:
        raise AssertionError(f"with {case}: {error}") from error


def batch(n: int = 8, locations: int = LOCATIONS, levels: int = 4) -> tuple[Tensor, Tensor]:
    """Random scores of few levels, so with ties, and one random relevant location per query."""
    return (
        torch.randint(levels, (n, locations)).float(),
        torch.randint(locations, (n,)),
    )


# Hypothesis --------------------------------------------------------------------------------------


def examples(number: int) -> settings:
    """So many examples of a law, times what the profile asks for more of all laws."""
    return settings(max_examples=number * settings.default.max_examples // EXAMPLES)


LEVELS = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 1.0, 3.0])
ODDITIES = st.sampled_from([math.nan, -math.inf, math.inf])
DIRTY = st.one_of(LEVELS, LEVELS, LEVELS, ODDITIES)


@st.composite
def scores(
    draw: st.DrawFn,
    rows: int | None = None,
    columns: int | None = None,
    values: st.SearchStrategy[float] = LEVELS,
) -> Tensor:
    """Scores `[N, C]` with many ties."""
    n = rows or draw(st.integers(1, 4))
    c = columns or draw(st.integers(1, 6))
    drawn = draw(st.lists(values, min_size=n * c, max_size=n * c))
    return torch.tensor(drawn, dtype=torch.float32).reshape(n, c)


@st.composite
def one_relevant(
    draw: st.DrawFn, values: st.SearchStrategy[float] = LEVELS, rows: int | None = None
) -> tuple[Tensor, Tensor]:
    """Scores `[N, C]` and one relevant id per query."""
    preds = draw(scores(rows=rows, values=values))
    n, c = preds.shape
    target = draw(st.lists(st.integers(0, c - 1), min_size=n, max_size=n))
    return preds, torch.tensor(target)


@st.composite
def several_relevant(
    draw: st.DrawFn, values: st.SearchStrategy[float] = LEVELS
) -> tuple[Tensor, Tensor]:
    """Scores `[N, C]` and bool relevance `[N, C]`, at times without any relevant one."""
    preds = draw(scores(values=values))
    relevant = draw(st.lists(st.booleans(), min_size=preds.numel(), max_size=preds.numel()))
    return preds, torch.tensor(relevant).reshape(preds.shape)


@st.composite
def graded_relevant(
    draw: st.DrawFn, values: st.SearchStrategy[float] = LEVELS
) -> tuple[Tensor, Tensor]:
    """Scores `[N, C]` and graded relevance `[N, C]`."""
    preds = draw(scores(values=values))
    grades = st.sampled_from([0.0, 0.0, 1.0, 2.0, 0.5, 3.0])
    relevance = draw(st.lists(grades, min_size=preds.numel(), max_size=preds.numel()))
    return preds, torch.tensor(relevance).reshape(preds.shape)


@st.composite
def id_lists(draw: st.DrawFn, locations: int = 5) -> tuple[Tensor, Tensor]:
    """Lists of ids `[N, K]`, with repeats and padded, and relevant ids `[N, M]`, padded too."""
    n, k, m = draw(st.integers(1, 4)), draw(st.integers(1, 6)), draw(st.integers(1, 4))
    ids = st.integers(0, locations - 1)

    def padded(width: int) -> list[int]:
        written = draw(st.lists(ids, max_size=width))
        return written + [-1] * (width - len(written))

    return (
        torch.tensor([padded(k) for _ in range(n)]),
        torch.tensor([padded(m) for _ in range(n)]),
    )


@st.composite
def long_batches(draw: st.DrawFn, form: str | None = None) -> tuple[Tensor, Tensor]:
    """Scores of any dtype of up to 300 candidates, or lists of up to 150 ids, with any relevance.

    Lists have more ids than are searched one by one, padding, and repeats, fewer than visit counts
    have; scores have few levels or many. Numbers are drawn by PyTorch, as Hypothesis draws too
    slowly for so many.
    """
    form = form or draw(st.sampled_from(["lists", "scores"]))
    n, c = draw(st.integers(1, 5)), draw(st.integers(65, 300))
    random = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))

    def numbers(high: int, *shape: int) -> Tensor:
        return torch.randint(high, shape, generator=random)

    if form == "lists":
        k = draw(st.integers(33, min(150, c)))
        preds = torch.rand(n, c, generator=random).argsort(1)[:, :k]
        preds = preds.where(numbers(4, n, k) > 0, numbers(c, n, k))
        ends = numbers(2 * k, n, 1)  # half of the lists are padded
        preds = preds.where(torch.arange(k) < ends, -1)
        preds = preds.to(draw(st.sampled_from([torch.int16, torch.int32, torch.int64])))
    else:
        dtypes = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
        preds = numbers(draw(st.sampled_from([3, 60, 2000])), n, c).to(
            draw(st.sampled_from(dtypes))
        )
    relevant = numbers(draw(st.sampled_from([2, 40])), n, c) == 0
    target = draw(st.sampled_from(["one", "padded", "bool", "graded"]))
    if target == "one":
        return preds, numbers(c, n)
    if target == "padded":
        return preds, padded_ids(relevant)
    return preds, relevant if target == "bool" else relevant * numbers(4, n, c).float()


def padded_ids(relevant: Tensor, extra: int = 1) -> Tensor:
    """The columns of bool relevance `[N, C]` as ids `[N, M]`, padded with -1."""
    rows = [row.nonzero().flatten().tolist() for row in relevant]
    width = max(map(len, rows), default=0) + extra
    return torch.tensor([row + [-1] * (width - len(row)) for row in rows])


def split(sizes: Sequence[int], *tensors: Tensor) -> list[tuple[Tensor, ...]]:
    """The rows of some tensors in batches of the given sizes, the rest as the last batch."""
    edges = [0]
    for size in sizes:
        edges.append(min(edges[-1] + size, len(tensors[0])))
    edges.append(len(tensors[0]))
    return [tuple(t[a:b] for t in tensors) for a, b in itertools.pairwise(edges) if b > a]


def dirty_scores(rows: int, columns: int, dtype: torch.dtype) -> Tensor:
    """Scores with many ties, both zeros, both infinities, and NaN of either sign."""
    generator = torch.Generator().manual_seed(columns)
    scores = torch.randint(-4, 5, (rows, columns), generator=generator).double() / 2
    chance = torch.rand(rows, columns, generator=generator)
    for number, value in enumerate([-0.0, torch.inf, -torch.inf]):
        scores[(chance > number / 10) & (chance < number / 10 + 0.03)] = value
    scores[chance > 1 - 2 / columns] = torch.nan
    scores[(chance > 1 - 1 / columns)] *= -1
    scores[1], scores[2] = torch.nan, -torch.inf
    return scores.to(dtype)


def compare_scores(a: Any, b: Any, groups: Tensor | None = None, **options: Any) -> Comparison:
    """The comparison of two models by their scores of queries: the second less the first."""
    if groups is not None:
        options |= {"groups": {"user": groups}, "cluster": "user"}
    return report.compare({"a": a, "b": b}, **options).comparisons["b"]["score"]


@st.composite
def logits(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Logits with ties and impossible candidates, and a target per query."""
    rows, columns = draw(st.integers(1, 6)), draw(st.integers(1, 7))
    level = st.one_of(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), st.floats(-8, 8, width=32))
    some = st.lists(
        st.one_of(level, level, level, st.just(-math.inf)), min_size=columns, max_size=columns
    )
    drawn = [draw(some) for _ in range(rows)]
    for row in drawn:
        if max(row) == -math.inf:
            row[0] = 0.0
    target = draw(st.lists(st.integers(0, columns - 1), min_size=rows, max_size=rows))
    return torch.tensor(drawn), torch.tensor(target)
