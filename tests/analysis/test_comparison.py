"""Comparisons of two models and of runs, against brute force, SciPy and plain Python."""

from __future__ import annotations

import dataclasses
import itertools
import math
from fractions import Fraction
from typing import Any

import pytest
import scipy.stats
import torch
from hypothesis import given
from hypothesis import strategies as st

from nextloc_metrics import (
    MRR,
    Grouped,
    PerQueryScores,
    analysis,
    functional,
)
from strategies import compare_scores

# Two models on the same queries ------------------------------------------------------------------


def all_signs(differences: list[Fraction]) -> float:
    """The p-value over all 2^n signs, in plain Python and exact fractions."""
    as_far = [
        abs(sum(sign * x for sign, x in zip(signs, differences, strict=True)))
        >= abs(sum(differences))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    return sum(as_far) / len(as_far)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=2, max_size=8),
    st.sampled_from([1e-13, 1e-6, 1.0, 2.6e7]),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_all_signs_of_rounded_scores(
    ranks: list[tuple[int, int]], scale: float, dtype: torch.dtype
) -> None:
    """Means that are equal but for rounding are equal, whatever the size of the scores."""
    a, b = (
        torch.tensor(side, dtype=dtype).reciprocal() * scale
        for side in torch.tensor(ranks).T.tolist()
    )
    differences = [Fraction(1, x) - Fraction(1, y) for x, y in ranks]
    assert compare_scores(a, b).p_value == pytest.approx(all_signs(differences))


#: the square of the normal quantile
Z2 = 1.959963985**2


def test_scores_equal_but_for_rounding() -> None:
    """0.1 + 0.2 and 0.3 are the same score, for the p-value and for the interval."""
    a, b = torch.tensor([[0.1 + 0.2] * 8, [0.3] * 8], dtype=torch.float64)
    assert (a != b).all()
    found = compare_scores(a, b)
    assert (found.difference, found.p_value) == (0, 1)
    assert found.high == -found.low == pytest.approx(Z2 / (8 + Z2))


@pytest.mark.parametrize("number", [1, 2, 29])
def test_one_query_or_group_is_not_tested(number: int) -> None:
    """It has a difference, and neither an interval nor a p-value."""
    a, b = torch.rand(2, number, dtype=torch.float64)
    groups = None if number == 1 else torch.zeros(number).long()
    found = compare_scores(a, b, groups=groups)
    assert found.difference == pytest.approx(float((b - a).mean()))
    assert all(map(math.isnan, (found.low, found.high, found.p_value)))


def test_groups_keep_together() -> None:
    """Each query five times, as a group, is as sure as once; without groups surer, wrongly."""
    a, b = torch.rand(2, 30).double()
    b -= 0.1
    groups = torch.arange(30).repeat(5) - 7
    once = compare_scores(a, b)
    grouped = compare_scores(a.repeat(5), b.repeat(5), groups=groups)
    wrong = compare_scores(a.repeat(5), b.repeat(5))
    assert grouped.difference == pytest.approx(once.difference)
    assert (grouped.low, grouped.high) == pytest.approx((once.low, once.high))
    assert grouped.p_value == pytest.approx(once.p_value)
    assert wrong.high - wrong.low < 0.6 * (once.high - once.low)
    assert wrong.p_value < once.p_value


def test_the_interval_by_groups_is_that_of_grouped() -> None:
    """Against scores of 0 the clustered standard error is that of `Grouped`."""
    users = torch.randint(12, (90,))
    ranks = torch.randint(1, 7, (90,)) + users % 3
    lists = torch.arange(10).expand(90, 10)
    grouped = Grouped(MRR(), 12, average="queries")
    grouped.update(lists, ranks - 1, groups=users)
    found = compare_scores(1 / ranks, torch.zeros(90), groups=users)
    freedom = 90**2 / float((torch.bincount(users) ** 2).sum()) - 1  # of unequal groups
    half = scipy.stats.t.ppf(0.975, freedom) * float(grouped.standard_error())
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=1e-5)


def test_models_by_the_ids_of_their_queries() -> None:
    """Scores kept in any order and batches are put side by side by id."""
    scores, target = torch.rand(2, 12, 9), torch.randint(9, (12,))
    a, b = PerQueryScores(MRR()), PerQueryScores(MRR())
    ids = torch.randperm(1000)[:12]
    a.update(scores[0], target, query_ids=ids)
    for rows in torch.randperm(12).split(5):
        b.update(scores[1][rows], target[rows], query_ids=ids[rows])
    found = compare_scores(a, b)
    expected = compare_scores(*(functional.mrr(s, target, reduction="none") for s in scores))
    assert dataclasses.astuple(found)[:6] == pytest.approx(dataclasses.astuple(expected)[:6])
    assert compare_scores(a.compute(), b) == found
    alone = PerQueryScores(MRR())
    alone.update(scores[0][:1], target[:1], query_ids=ids[:1])
    assert compare_scores(alone, alone).num_queries == 1


def test_repr_can_be_read() -> None:
    """One line with what a paper reports."""
    found = compare_scores(torch.tensor([0.5, 0.5, 0.25]), torch.tensor([1.0, 0.5, 0.5]))
    assert repr(found) == (
        "Comparison(difference +0.2500, 95 % interval -0.3710 to +0.8710, p = 0.5, "
        "d_z = +1.000, 3 queries)"
    )


# Several runs ------------------------------------------------------------------------------------


def test_every_pair_of_models() -> None:
    """All pairs in the order given, tensors as well as lists; the table names them."""
    values: Any = {"a": torch.rand(4), "bb": torch.rand(5).tolist(), "c": [0.25]}
    found = analysis.summarize(values)
    assert found.models["a"].mean == pytest.approx(float(values["a"].mean()))
    assert found.models["a"].std == pytest.approx(float(values["a"].std()))
    assert [model.num_runs for model in found.models.values()] == [4, 5, 1]
    assert list(found.p_values) == [("a", "bb"), ("a", "c"), ("bb", "c")]
    theirs = scipy.stats.ttest_ind(values["a"].double(), values["bb"], equal_var=False)
    assert found.p_values["a", "bb"] == pytest.approx(theirs.pvalue)
    assert math.isnan(found.p_values["a", "c"])
    assert math.isnan(found.models["c"].std)
    lines = repr(found).splitlines()
    assert lines[3].split() == ["c", "0.25", "nan", "1"]
    assert lines[5].startswith("c - a: -0.22")
    assert lines[5].endswith(", p = nan")


def test_runs_that_are_all_the_same() -> None:
    """Without any spread there is no test, and no warning of SciPy's."""
    assert math.isnan(analysis.summarize({"a": [1, 1], "b": [2, 2, 2]}).p_values["a", "b"])
    assert analysis.summarize({"a": [1, 1], "b": [2, 2, 3]}).p_values["a", "b"] < 0.1


def test_runs_of_models_with_numbers_as_names() -> None:
    """The names are written as text."""
    numbered: Any = {1: [1.0, 2.0], 20: [1.0, 2.0]}
    shown = repr(analysis.summarize(numbered)).splitlines()
    expected = ["model  mean   std  runs", "1       1.5  0.71     2", "20      1.5  0.71     2"]
    assert shown[:3] == expected


@pytest.mark.parametrize("steps", [7, 1 << 30])
def test_the_effect_size_is_that_of_sums_that_are_rounded_once(steps: int) -> None:
    """Of scores that repeat, and of scores that are all different."""
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randint(steps, (500,), generator=generator).double() / 2**30 for _ in range(2))
    each = (b - a).tolist()
    mean = math.fsum(each) / 500
    squares = math.fsum((x - mean) ** 2 for x in each)
    assert compare_scores(a, b).effect_size == mean / math.sqrt(squares / 499)
