"""What the tests draw from: the table of metrics under test, helpers, and Hypothesis strategies."""

from __future__ import annotations

import contextlib
import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor
from torchmetrics import Metric, MetricCollection

import nextloc_metrics
from conftest import EXAMPLES
from nextloc_metrics import report, scoring
from nextloc_metrics.analysis import Comparison
from nextloc_metrics.geography import Locations


@dataclass(frozen=True)
class Case:
    """A metric class with its options: to be in this table is to be tested."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """The test id."""
        written = ",".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.name}({written})"

    def make(self, **more: Any) -> Metric:
        """A fresh instance."""
        kind = operator.attrgetter(self.name)(nextloc_metrics)
        metric: Metric = kind(**{**self.options, **more})
        return metric


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

# Scores of queries. The oracle knows each of them by the same name and options.
RANKING_CASES = [
    Case("AccuracyAtK", {"k": 1}),
    Case("AccuracyAtK", {"k": 3}),
    Case("AccuracyAtK", {"k": 3, "ties": "optimistic"}),
    Case("AccuracyAtK", {"k": 3, "ties": "pessimistic"}),
    Case("AccuracyAtK", {"k": 3, "empty_target_action": "neg"}),
    Case("AccuracyAtK", {"k": 3, "empty_target_action": "pos"}),
    Case("MRR"),
    Case("MRR", {"k": 3}),
    Case("MRR", {"ties": "pessimistic"}),
    Case("MRR", {"k": 2, "ties": "optimistic"}),
    Case("MRR", {"empty_target_action": "neg"}),
    Case("NDCGAtK", {"k": 1}),
    Case("NDCGAtK", {"k": 3}),
    Case("NDCGAtK", {"k": 3, "gain": "exponential"}),
    Case("NDCGAtK", {"k": 3, "ideal": "full"}),
    Case("NDCGAtK", {"k": 3, "ties": "optimistic"}),
    Case("NDCGAtK", {"k": 3, "ties": "pessimistic", "gain": "exponential"}),
    Case("NDCGAtK", {"k": 3, "empty_target_action": "neg"}),
    Case("MAPAtK", {"k": 2}),
    Case("MAPAtK", {"k": 3}),
    Case("MAPAtK", {"k": 3, "normalizer": "relevant"}),
    Case("MAPAtK", {"k": 3, "ties": "optimistic"}),
    Case("MAPAtK", {"k": 3, "ties": "pessimistic"}),
    Case("MAPAtK", {"k": 3, "empty_target_action": "pos"}),
    Case("PrecisionAtK", {"k": 2}),
    Case("PrecisionAtK", {"k": 3}),
    Case("PrecisionAtK", {"k": 3, "denominator": "retrieved"}),
    Case("PrecisionAtK", {"k": 3, "ties": "pessimistic"}),
    Case("PrecisionAtK", {"k": 3, "empty_target_action": "neg"}),
    Case("RecallAtK", {"k": 2}),
    Case("RecallAtK", {"k": 3}),
    Case("RecallAtK", {"k": 2, "normalized": True}),
    Case("RecallAtK", {"k": 2, "weighted": True}),
    Case("RecallAtK", {"k": 2, "weighted": True, "normalized": True}),
    Case("RecallAtK", {"k": 3, "ties": "optimistic"}),
    Case("RecallAtK", {"k": 3, "empty_target_action": "neg"}),
    Case("F1AtK", {"k": 2}),
    Case("F1AtK", {"k": 3}),
    Case("F1AtK", {"k": 3, "ties": "pessimistic"}),
    Case("F1AtK", {"k": 3, "empty_target_action": "neg"}),
]
LOCATIONS = 6
# Scores that are functions of tied blocks, and no `Formula`.
BLOCK_CASES = [
    Case("AUC", {"num_candidates": LOCATIONS}),
    Case("AUC", {"num_candidates": LOCATIONS, "ties": "pessimistic"}),
    Case("RPrecision"),
    Case("RPrecision", {"ties": "optimistic"}),
    Case("RPrecision", {"empty_target_action": "neg"}),
    Case("RBP"),
    Case("RBP", {"p": 0.5, "k": 3, "ties": "pessimistic"}),
    Case("ERRAtK", {"k": 3, "max_grade": 3.0}),
    Case("ERRAtK", {"k": 8, "max_grade": 4.0, "ties": "optimistic"}),
]
# Lower is better, or they are no fractions.
RANK_CASES = [
    Case("MeanRank"),
    Case("MeanRank", {"ties": "pessimistic"}),
]
QUANTILE_CASES = [Case("RankQuantile", {"q": 0.5}), Case("RankQuantile", {"q": 0.9})]
LOCATION_CASES = [
    Case("LocationF1", {"num_locations": LOCATIONS}),
    Case("LocationF1", {"num_locations": LOCATIONS, "average": "macro"}),
    Case("LocationF1", {"num_locations": LOCATIONS, "average": "micro"}),
    Case("LocationPrecision", {"num_locations": LOCATIONS}),
    Case("LocationPrecision", {"num_locations": LOCATIONS, "average": "macro"}),
    Case("LocationPrecision", {"num_locations": LOCATIONS, "average": "micro"}),
    Case("LocationRecall", {"num_locations": LOCATIONS}),
    Case("LocationRecall", {"num_locations": LOCATIONS, "average": "macro"}),
    Case("LocationRecall", {"num_locations": LOCATIONS, "average": "micro"}),
]
# Counts of what is among the first k; 0 and 1 as visits, so that the values are fractions, too.
RECOMMENDED_CASES = [
    Case("Coverage", {"num_locations": LOCATIONS, "k": 1}),
    Case("Coverage", {"num_locations": LOCATIONS, "k": 3}),
    Case("Gini", {"num_locations": LOCATIONS, "k": 3}),
    Case("Gini", {"num_locations": LOCATIONS, "k": 3, "definition": "sample"}),
    Case("Gini", {"num_locations": LOCATIONS, "k": 3, "definition": "evenness"}),
    Case("AveragePopularity", {"train_counts": (1, 0, 1, 1, 0, 0), "k": 3}),
    Case("Entropy", {"num_locations": LOCATIONS, "k": 3}),
    Case("TailShare", {"train_counts": (9, 1, 4, 1, 0, 5), "k": 3}),
]
# All candidates are within k, as for the distances below.
BEYOND_CASES = [
    Case("Novelty", {"train_counts": (9, 1, 4, 1, 0, 5), "k": LOCATIONS}),
]
PROBABILITY_CASES = [
    Case("NegativeLogLikelihood", {"given": "logits"}),
    Case("NegativeLogLikelihood", {"given": "logits", "base": 2, "floor": 0.01}),
    Case("Perplexity", {"given": "logits", "temperature": 2.0}),
    Case("BrierScore", {"given": "logits"}),
    Case("CalibrationError", {"given": "logits"}),
    Case("CalibrationError", {"given": "logits", "norm": "l2", "bins": 10}),
    Case("AURC", {"given": "logits"}),
    Case("AccuracyAtCoverage", {"given": "logits", "coverage": 0.5}),
    Case("AnsweredShare", {"given": "logits"}),
    Case("AnsweredAccuracy", {"given": "logits"}),
]
# `ignore_index` belongs to a batch, so the tables above leave it out.
IGNORING_CASES = [
    Case("AccuracyAtK", {"k": 3, "ignore_index": 0}),
    Case("MRR", {"ignore_index": 1}),
    Case("NDCGAtK", {"k": 3, "ignore_index": 0}),
    Case("LocationF1", {"num_locations": LOCATIONS, "ignore_index": 0}),
    Case("LocationRecall", {"num_locations": LOCATIONS, "ignore_index": 0}),
    Case("Coverage", {"num_locations": LOCATIONS, "k": 3, "ignore_index": 0}),
]
PLACES = Locations.from_plane([0, 400, 1000, 1000, 3000, 9000], [0, 0, 0, 50, 0, 0])
GEOGRAPHY_CASES = [
    Case("geography.AccuracyWithin", {"locations": PLACES, "km": 0.7, "k": LOCATIONS}),
    Case("geography.DistanceError", {"locations": PLACES}),
    Case("geography.DistanceError", {"locations": PLACES, "statistic": 0.9}),
    Case("geography.DistanceError", {"locations": PLACES, "undecided": "skip"}),
]
CASES = [
    *RANKING_CASES,
    *BLOCK_CASES,
    *RANK_CASES,
    *QUANTILE_CASES,
    *LOCATION_CASES,
    *RECOMMENDED_CASES,
    *BEYOND_CASES,
    *IGNORING_CASES,
    *GEOGRAPHY_CASES,
    *PROBABILITY_CASES,
]


def family(case: Case) -> tuple[Any, ...]:
    """What of `base/` a metric goes through: its base classes, and whose methods it has."""
    metric = case.make()
    bases = type(metric).__mro__
    owners = [next(x for x in bases if name in vars(x)) for name in ("tally", "compute")]
    return (bases[1:], *owners, metric.state.shape, metric.ignore_index is None)


# One metric of each family, for the laws that live in `base/`; and one of each class, too.
FAMILIES = list({family(case): case for case in reversed(CASES)}.values())[::-1]
CLASSES = list({(case.name, *family(case)): case for case in reversed(CASES)}.values())[::-1]


def same(one: Any, other: Any) -> bool:
    """Whether two tensors, or mappings of tensors, have the same shape, dtype and bits."""
    if isinstance(one, Tensor):
        return (
            one.dtype == other.dtype
            and one.shape == other.shape
            and torch.equal(torch.isnan(one), torch.isnan(other))
            and torch.equal(one.nan_to_num(), other.nan_to_num())
        )
    return list(one) == list(other) and all(same(one[key], other[key]) for key in one)


def state(metric: Metric) -> dict[str, Tensor]:
    """A copy of what a metric has accumulated, under no particular names."""
    return {str(i): v.clone() for i, v in enumerate(metric.metric_state.values())}  # type: ignore[union-attr]


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


@contextlib.contextmanager
def named(case: object) -> Iterator[None]:
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
