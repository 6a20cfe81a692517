"""Comparisons of all pairs of models, of runs, against plain Python and SciPy."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import scipy.stats

from nextloc_metrics import report


def lists(hits: Any) -> Any:
    """Lists of one id for targets of 1: right where `hits` is 1."""
    return np.asarray(hits, dtype=np.int64)[:, None]


def lists_of_ranks(ranks: Any, longest: int = 12) -> Any:
    """Lists with the target, 0, at these ranks."""
    ranks = np.asarray(ranks)[:, None]
    places = np.arange(1, longest + 1)[None]
    return np.where(places == ranks, 0, places)


def drawn(seed: int, *chances: float, queries: int = 60) -> list[Any]:
    """0/1 scores of several models."""
    rng = np.random.default_rng(seed)
    return [(rng.random(queries) < p).astype(int) for p in chances]


# All pairs ---------------------------------------------------------------------------------------


def test_all_pairs_of_right_and_wrong_answers_have_mcnemars_exact_test() -> None:
    """Holm over the pairs of each metric; of lists of one id all but F1 are one hypothesis."""
    hits = dict(zip("abcd", drawn(0, 0.2, 0.3, 0.5, 0.6), strict=True))
    models = {name: lists(x) for name, x in hits.items()}
    found = report.compare(models, np.ones(60, dtype=int), k=1, against="all")
    assert list(found.pairs) == list(combinations("abcd", 2))
    expected = {}
    for (a, b), of in found.pairs.items():
        wins, losses = int((hits[b] > hits[a]).sum()), int((hits[b] < hits[a]).sum())
        expected[a, b] = scipy.stats.binomtest(wins, wins + losses).pvalue
        one = of["acc_at_1"]
        assert one.p_value == pytest.approx(expected[a, b])
        assert (one.wins, one.losses, one.p_from) == (wins, losses, "exact")
        assert of == {**dict.fromkeys(of, one), "f1": of["f1"]}
    order, highest = sorted(expected, key=expected.__getitem__), 0.0
    for rank, pair in enumerate(order):
        highest = max(highest, (6 - rank) * expected[pair])
        for key in ("acc_at_1", "mrr"):
            assert found.corrected_pairs[pair][key] == pytest.approx(min(1, highest))
    assert "Holm's method for 6 tests of each metric" in str(found)
    with pytest.raises(KeyError, match=r"\('a', 'b'\)\], got \('b', 'a'\); the other way"):
        found.pairs["b", "a"]
    with pytest.raises(KeyError, match=r"pairs are .*got 'a'"):
        found.corrected_pairs["a"]  # type: ignore[index]
    for a, b in combinations("abcd", 2):
        shared = set(found.letters[a]["mrr"]) & set(found.letters[b]["mrr"])
        assert bool(shared) == (found.corrected_pairs[a, b]["mrr"] > 0.05)


def test_a_family_of_many_tests_draws_enough_signs() -> None:
    """Of 66 tests, 10,000 signs would be too few to say how small a corrected p-value is."""
    rng = np.random.default_rng(2)
    ranks = {f"m{i}": rng.integers(1, 12, 40) for i in range(11)}
    ranks["best"] = np.maximum(1, ranks["m0"] - rng.integers(1, 9, 40))
    models = {name: lists_of_ranks(x) for name, x in ranks.items()}
    zeros = np.zeros(40, dtype=int)
    found = report.compare(models, zeros, measures=["mrr"], against="all")
    assert set(found.num_tests.values()) == {66}
    one = found.pairs["m0", "best"]["mrr"]
    assert one.p_from == "draws"
    assert 1 / 13_201 <= one.p_value < 0.05 / 66
    assert found.corrected_pairs["m0", "best"]["mrr"] < 0.05
    assert "up to 13,200 random signs" in found.card["p"]
    theirs = scipy.stats.ttest_rel(1 / ranks["best"], 1 / ranks["m0"]).pvalue
    assert found.pairs["m1", "m2"]["mrr"].p_value == pytest.approx(
        scipy.stats.ttest_rel(1 / ranks["m2"], 1 / ranks["m1"]).pvalue, abs=0.03
    )
    assert theirs < 1e-3


def test_exact_p_values_of_users_sums_of_hits() -> None:
    """The distribution over all 2^30 signs of users, by counting sums in a dict."""
    rng = np.random.default_rng(4)
    users = rng.integers(0, 30, 400)
    a, b = (rng.random(400) < 0.4).astype(int), (rng.random(400) < 0.48).astype(int)
    target = np.ones(400, dtype=int)
    groups: Any = {"user": users}
    models = {"a": lists(a), "b": lists(b)}
    found = report.compare(models, target, k=1, groups=groups, cluster="user")
    sums = [int((b - a)[users == user].sum()) for user in range(30)]
    ways: Counter[int] = Counter({0: 1})
    for one in sums:
        plus = Counter({x + one: number for x, number in ways.items()})
        ways = plus + Counter({x - one: number for x, number in ways.items()})
    as_far = sum(n for x, n in ways.items() if abs(x) >= abs(sum(sums)))
    one = found.comparisons["b"]["acc_at_1"]
    assert (one.p_value, one.p_from) == (pytest.approx(as_far / 2**30), "exact")
    sizes = np.bincount(users)
    without = [(b - a)[users != user].mean() for user in range(30)]
    variance = 29 / 30 * ((np.array(without) - (b - a).mean()) ** 2).sum()
    assert one.standard_error == pytest.approx(math.sqrt(variance))
    assert one.degrees_of_freedom == pytest.approx(400**2 / (sizes**2).sum() - 1)
    order = rng.permutation(400)
    again = report.compare(
        {"a": lists(a[order]), "b": lists(b[order])}, target, k=1,
        groups={"user": [f"u{100 - x}" for x in users[order]]}, cluster="user",
    )  # fmt: skip
    assert again.comparisons["b"]["acc_at_1"] == one  # to the bit, in any order and by any name


def test_equal_answers_by_user_have_an_interval() -> None:
    """Student's, with the standard error that each difference would have itself."""
    (a,) = drawn(5, 0.4, queries=500)
    options: Any = {"groups": {"user": np.arange(500) // 5}, "cluster": "user"}
    alike = report.compare({"a": lists(a), "b": lists(a)}, [1] * 500, k=1, **options)
    one, quantile = alike.comparisons["b"]["acc_at_1"], scipy.stats.t(99).ppf(0.975) ** 2
    assert (one.low, one.high) == pytest.approx([x * quantile / (500 + quantile) for x in (-1, 1)])


def test_an_interval_that_contradicts_the_test_has_a_mark() -> None:
    """Three users differ by 100 points: 2 / 2^3 is no p-value that the test's level admits."""
    users = np.repeat(["a", "b", "c"], 20)
    given: Any = {"groups": {"user": users}, "cluster": "user", "k": 1}
    found = report.compare({"a": [[0]] * 60, "b": [[1]] * 60}, [1] * 60, **given)
    one = found.comparisons["b"]["acc_at_1"]
    assert one.p_value == 0.25
    assert found.table.rows[0][4].endswith(" !")  # the interval leaves out 0
    assert found.table.notes[-1].startswith("! interval and test disagree about 0")
    assert (one.low > 0, one.high) == (True, 1)


@pytest.mark.slow
def test_a_table_of_models_as_papers_have_it() -> None:
    """Models down, metrics across: letters, the best in bold, a mark that is not bold, notes."""
    a, b, c = drawn(1, 0.3, 0.88, 0.9)
    models = {"a_1": lists(a), "b": lists(b), "c": lists(c)}
    found = report.compare(models, np.ones(60, dtype=int), k=1, against="all")
    table = found.by_model()
    assert table.header[:3] == ("percent", "Acc@1", "MRR")
    best = max(found.values, key=lambda name: found.values[name]["mrr"])
    assert {table.rows[i][0] for i, _ in table.bold} == {best}
    other = {"b": "c", "c": "b"}[best]
    cells = {row[0]: row[1] for row in table.rows}
    low, high = found.columns[other]["acc_at_1"].bounds or (0, 0)
    value = found.values[other]["acc_at_1"]
    assert cells[other] == f"{100 * value:.2f} ({100 * low:.2f}-{100 * high:.2f}) a~"
    assert cells["a_1"].endswith(" b")
    assert repr(found) == str(table)
    latex = found.to_latex(rows="models", spread="std")
    assert rf"{100 * value:.2f} a\textasciitilde{{}} &" in latex
    assert r"\pm" not in latex  # of single runs
    assert r"a\_1" in latex
    assert "Holm's method for 3 tests of each metric" in latex
    assert table.to_pandas().loc["b", "Acc@1"] == found.values["b"]["acc_at_1"]
    assert "Acc@1" in found.to_html()
    stars = report.compare(models, np.ones(60, dtype=int), k=1).by_model("none")
    assert [row[1].split()[1:] for row in stars.rows] == [[], ["***"], ["***"]]
    with pytest.raises(ValueError, match=r"`rows` must be one of .*, got 'all'"):
        found.to_latex(rows="all")  # type: ignore[arg-type]


# Runs --------------------------------------------------------------------------------------------


def components(cells: Any) -> tuple[float, float, float]:
    """The mean and V_run and V_both of `[R, U]`, by the formulas of the issue for equal users."""
    runs, users = cells.shape
    means = cells.mean(1)
    off = cells - cells.mean(0) - means[:, None] + cells.mean()
    both = (off**2).sum() / ((users - 1) * (runs - 1)) / (users * runs)
    return float(means.mean()), float(means.var(ddof=1) / runs), float(both)


def wilson(cells: Any, run: float, both: float) -> tuple[float, float]:
    """Wilson's interval of a value of 80 users, for as many queries as its variance is that of."""
    users, mean = cells.mean(0), float(cells.mean())
    user = users.var(ddof=1) / 80
    of_users = min(79, (users > 0).sum() - 1, (users < 1).sum() - 1)  # with a hit, or a miss
    variance = user + run - both
    freedom = variance**2 / (user**2 / of_users + run**2 / 2 + both**2 / (2 * of_users))
    share = scipy.stats.t.ppf(0.975, freedom) ** 2 * variance / (mean * (1 - mean))
    center = (mean + share / 2) / (1 + share)
    half = math.sqrt(mean * (1 - mean) * share + share**2 / 4) / (1 + share)
    return center - half, center + half


def fields_of(found: report.Comparisons) -> dict[Any, Any]:
    """All fields of all comparisons; in a dict, NaN is itself, and the effect size of F1 is NaN."""
    return {
        pair: {name: vars(one) for name, one in of.items()}
        for pair, of in found.comparisons.items()
    }


def test_several_runs_have_the_variance_of_users_and_of_runs() -> None:
    """V = V_user + max(V_run - V_both, 0), Satterthwaite's degrees of freedom, and a t test."""
    rng = np.random.default_rng(3)
    runs = {
        name: np.stack([(rng.random(80) < p).astype(int) for p in chances])
        for name, chances in {"a": (0.1, 0.5, 0.9), "b": (0.7, 0.9)}.items()
    }
    models = {name: [lists(x) for x in of] for name, of in runs.items()}
    found = report.compare(models, np.ones(80, dtype=int), k=1)
    one = found.comparisons["b"]["acc_at_1"]
    (mean_a, run_a, both_a), (mean_b, run_b, both_b) = map(components, runs.values())
    each = runs["b"].mean(0) - runs["a"].mean(0)
    user, run, both = each.var(ddof=1) / 80, run_a + run_b, both_a + both_b
    assert run > both
    variance = user + run - both
    freedom = variance**2 / (user**2 / 79 + run**2 / 3 + both**2 / (3 * 79))
    assert one.difference == pytest.approx(mean_b - mean_a)
    assert one.standard_error == pytest.approx(math.sqrt(variance))
    assert one.degrees_of_freedom == pytest.approx(freedom)
    p_value = 2 * scipy.stats.t.sf(abs(one.difference) / math.sqrt(variance), freedom)
    assert (one.p_value, one.p_from) == (pytest.approx(p_value), "t")
    assert found.values["a"]["acc_at_1"] == pytest.approx(mean_a)
    assert "Student's t" in found.card["p"]
    assert found.card["runs"] == "a 3 runs, b 2 runs"
    stds = {name: 100 * of.mean(1).std(ddof=1) for name, of in runs.items()}
    with_std = found.by_model("std", ["acc_at_1"])
    assert [row[1].split("*")[0] for row in with_std.rows] == [
        f"{100 * found.values[name]['acc_at_1']:.2f} ± {std:.2f}" for name, std in stds.items()
    ]
    assert with_std.notes[0].endswith("queries ± their standard deviation over runs")
    assert found.by_model("none").notes[0] == "means over 80 queries"
    assert rf"\scriptsize $\pm$ {stds['a']:.2f}" in found.to_latex("models", "std")
    assert found.card["notes"] == "few runs: intervals and p are rough"
    shuffled = {"a": [models["a"][i] for i in (2, 0, 1)], "b": models["b"][::-1]}
    again = report.compare(shuffled, np.ones(80, dtype=int), k=1)
    assert fields_of(again) == fields_of(found)  # to the bit
    assert again.columns == found.columns
    assert found.columns["a"]["acc_at_1"].bounds == pytest.approx(wilson(runs["a"], run_a, both_a))
    twice = {name: [np.repeat(x, 2, 0) for x in of] for name, of in models.items()}
    users = {"user": np.repeat(np.arange(80), 2)}  # each of whom says everything twice
    by_user = report.compare(twice, np.ones(160, int), k=1, groups=users, cluster="user")
    bounds = by_user.columns["a"]["acc_at_1"].bounds
    assert bounds == pytest.approx(found.columns["a"]["acc_at_1"].bounds)


def test_runs_without_an_effect_add_nothing() -> None:
    """Where V_run is below V_both the interval is that of users alone."""
    cells = np.array([[0, 1, 0, 1, 1, 0] * 5, [1, 0, 1, 0, 0, 1] * 5])
    fixed = np.array([0, 0, 1, 1, 1, 0] * 5)
    models = {"fixed": lists(fixed), "runs": [lists(x) for x in cells]}
    found = report.compare(models, np.ones(30, dtype=int), k=1)
    one = found.comparisons["runs"]["acc_at_1"]
    each = cells.mean(0) - fixed
    assert one.standard_error == pytest.approx(each.std(ddof=1) / math.sqrt(30))
    assert one.degrees_of_freedom == pytest.approx(29)
    assert "fixed: one run: its runs' variance is not in this interval" in found.table.notes
    assert found.card["notes"].endswith("; few runs: intervals and p are rough")
