"""Models over data sets: against SciPy, and brute force over all signs."""

from __future__ import annotations

import itertools
import math
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from nextloc_metrics.analysis import RankedModels, rank_models
from strategies import examples


def rank(table: Any, **options: Any) -> RankedModels:
    """Rank the columns of a table, models m0, m1, ..., over its rows."""
    return rank_models(
        {f"d{i}": {f"m{j}": x for j, x in enumerate(row)} for i, row in enumerate(table)},
        **options,
    )


@pytest.mark.parametrize("seed", range(5))
def test_friedman_and_wilcoxon_are_those_of_scipy(seed: int) -> None:
    """Chi squared gives Iman and Davenport's F; the exact test has no ties here."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(6 + 4 * seed, 3 + seed % 2)) + [0.5, 0, 0, -0.3][: 3 + seed % 2]
    found, (n, k) = rank(table), table.shape
    chi_squared = scipy.stats.friedmanchisquare(*table.T).statistic
    f = (n - 1) * chi_squared / (n * (k - 1) - chi_squared)
    assert found.f == pytest.approx(f)
    assert found.p_value == pytest.approx(scipy.stats.f.sf(f, k - 1, (k - 1) * (n - 1)))
    for (a, b), p in found.p_values.items():
        x, y = table[:, int(a[1])], table[:, int(b[1])]
        assert p == pytest.approx(scipy.stats.wilcoxon(x, y, method="exact").pvalue)
    expected = scipy.stats.rankdata(-table, axis=1).mean(0)
    assert found.mean_ranks == pytest.approx({f"m{j}": x for j, x in enumerate(expected)})


@examples(40)
@given(st.lists(st.integers(-3, 3), min_size=2, max_size=9))
def test_zeros_and_equal_differences_are_exact(differences: list[int]) -> None:
    """Pratt's ranks include zeros and drop them; all signs of the others are tried here."""
    (p,) = rank([(x, 0) for x in differences]).p_values.values()
    ranks = scipy.stats.rankdata(np.abs(differences))
    kept = [(r, x) for r, x in zip(ranks, differences, strict=True) if x]
    observed = abs(sum(math.copysign(r, x) for r, x in kept))
    signs = list(itertools.product([-1, 1], repeat=len(kept)))
    sums = [abs(sum(s * r for s, (r, _) in zip(of, kept, strict=True))) for of in signs]
    assert p == pytest.approx(sum(x >= observed - 1e-9 for x in sums) / len(signs))


def test_percent_and_fractions_have_the_same_p() -> None:
    """500 pairs of models of whole numbers, as they are, and divided by 1,000, 100, 10 and 7."""
    rng = np.random.default_rng(0)
    for _ in range(500):
        table = rng.integers(100, 1000, (rng.integers(6, 9), 2)) // rng.choice([1, 30])
        found = [rank([[x / by for x in row] for row in table]) for by in (1, 1000, 100, 10, 7)]
        assert len({(*one.p_values.values(), *one.letters.values()) for one in found}) == 1
        assert len({tuple(one.mean_ranks.values()) for one in found}) == 1
        (p,) = found[0].p_values.values()
        ranks = scipy.stats.rankdata(np.abs(table[:, 0] - table[:, 1]))
        signs = np.array(list(itertools.product([-1, 1], repeat=len(ranks))))
        kept = ranks * np.sign(table[:, 0] - table[:, 1])
        sums = np.abs(signs @ np.abs(kept))
        assert p == pytest.approx(np.mean(sums >= abs(kept.sum()) - 1e-9))


@examples(40)
@given(
    st.integers(2, 4).flatmap(
        lambda k: st.lists(st.lists(st.integers(0, 3), min_size=k, max_size=k), min_size=2)
    )
)
def test_decisions_ranges_and_letters_agree(table: list[list[int]]) -> None:
    """Two share a letter exactly where the corrected p is above the level; F has ties corrected."""
    found = rank(table, confidence_level=0.5)
    k, columns = len(table[0]), np.array(table).T
    held = {pair for pair, p in found.corrected.items() if p <= 0.5}
    for a, b in found.corrected:
        assert ((a, b) in held) == (not set(found.letters[a]) & set(found.letters[b]))
    for name, (best, worst) in found.ranges.items():
        assert best == 1 + sum(name == b for _, b in held)
        assert worst == k - sum(name == a for a, _ in held)
    is_plain = k > 2 and len({tuple(scipy.stats.rankdata(row)) for row in table}) > 1
    if is_plain:
        chi_squared, n = scipy.stats.friedmanchisquare(*columns).statistic, len(table)
        f = (n - 1) * chi_squared / (n * (k - 1) - chi_squared)
        assert found.f == pytest.approx(f)


def test_full_agreement_has_an_exact_p() -> None:
    """F is infinite; of k! orders in each data set but the first, one agrees; ties have fewer."""
    agree = rank([(3, 2, 1)] * 4)
    assert agree.f == math.inf
    assert agree.p_value == pytest.approx((1 / 6) ** 3, rel=1e-15)
    tied = rank([(1, 1, 0)] * 4, higher_is_better=False)
    assert tied.p_value == pytest.approx((1 / 3) ** 3, rel=1e-15)
    assert tied.mean_ranks == {"m2": 1, "m0": 2.5, "m1": 2.5}
    assert rank([(1, 1)] * 4).p_value == 1


@pytest.mark.parametrize(("n", "models", "holds"), [(5, 2, 0), (6, 2, 1), (8, 5, 0), (9, 5, 10)])
def test_it_says_what_data_sets_can_show(n: int, models: int, holds: int) -> None:
    """5 never reach .05, 6 do for one pair, and 9 for the 10 pairs of 5 models."""
    found = rank([np.arange(models)[::-1] + i / 100 for i in range(n)])
    assert sum(p <= 0.05 for p in found.corrected.values()) == holds
    needed = {2: 6, 5: 9}[models]
    smallest = f"{len(found.corrected) * 2.0 ** (1 - n):.4g}"
    assert f"{n} data sets: {smallest}; at most 0.05 needs {needed}" in str(found)
    assert (found.ranges["m1"] == (2, 2)) == bool(holds)


def test_mean_differences_and_how_much_data_sets_disagree() -> None:
    """The t interval of equal weights; inverse variance, Q and I^2 by hand."""
    found = rank([(0.1, 0.3), (0.2, 0.3), (0.4, 0.4)], confidence_level=0.9)
    d, se = np.array([0.2, 0.1, 0.0]), np.array([0.1, 0.05, 0.02])
    mean = found.difference("m0", "m1")
    bounds = scipy.stats.t.interval(0.9, 2, d.mean(), scipy.stats.sem(d))
    assert mean[:3] == pytest.approx((0.1, *bounds))
    assert math.isnan(mean.q)
    errors = {f"d{i}": x for i, x in enumerate(se)}
    both = found.difference("m0", "m1", errors)
    w = se**-2
    weighted = (w * d).sum() / w.sum()
    q = (w * (d - weighted) ** 2).sum()
    assert both[:3] == mean[:3]
    assert both[3:] == pytest.approx((weighted, w.sum() ** -0.5, q, 1 - 2 / q))
    with pytest.raises(ValueError, match="above 0 for each data set"):
        found.difference("m0", "m1", {"d0": 0.1})


def test_the_picture_has_a_bar_for_each_clique() -> None:
    """A bar has a dot for each of its models, and a model between them may have none."""
    table = [(9 + x, 5 + (x - 4) * 4, 1 - x) for x in range(9)]
    found = rank(table)
    figure, axes = found.plot()
    texts = [text.get_text().strip() for text in axes.texts]
    assert texts == list(found.mean_ranks)
    shared = set("".join(found.letters.values()))
    bars = [line for line in axes.lines if len(line.get_xdata()) > 1 and line.get_ydata()[0] > 0]
    joined = [x for x in shared if sum(x in of for of in found.letters.values()) > 1]
    assert len(bars) == len(joined) >= 1
    assert "Models over data sets" in found.to_html()
    plt.close(figure)


@pytest.mark.parametrize(
    ("results", "options", "message"),
    [
        ({"a": {"x": 1, "y": 2}}, {}, "two or more data sets"),
        ({"a": {"x": 1}, "b": {"x": 1}}, {}, "two or more models"),
        ({"a": {"x": 1, "y": 2}, "b": {"x": 1, "z": 2}}, {}, r"same two or more models .*'y': 1"),
        ({"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": math.nan}}, {}, "got nan of 'y' in 'b'"),
        (
            {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 2}},
            {"targets": {"a": [1, 2], "b": np.array([1, 2])}},
            "equal targets in 'a' and 'b'",
        ),
    ],
)
def test_wrong_results_are_refused(results: Any, options: Any, message: str) -> None:
    """Names what is wrong; the same rows under two names are no second data set."""
    with pytest.raises(ValueError, match=message):
        rank_models(results, **options)
    if options:
        rank_models(results, targets={"a": [1, 2], "b": [2, 1]})


def test_results_are_numbers_by_model() -> None:
    """A list has no models, and is named with its data set."""
    says = r"`results\['s'\]` must be a dict of the value of each model.* got list \[1, 2\]"
    with pytest.raises(TypeError, match=says):
        rank_models({"s": [1, 2], "t": [3, 4]})
