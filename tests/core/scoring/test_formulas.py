"""The evaluator of formulas: any number of candidates, any k, and scores of users' own."""

import contextlib
import gc
import itertools
import math
import re
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from inner import formulas
from metric_entries import RANKING_CASES
from metric_tester import Case
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    F1AtK,
    Grouped,
    NDCGAtK,
    Ranking,
    RankingCollection,
    RankingMetric,
    RecallAtK,
    next_location_metrics,
    scoring,
)
from strategies import same


def metric_of(case: Case) -> RankingMetric:
    """The metric of a case, whose state is that of its scores alone."""
    metric = case.make()
    assert isinstance(metric, RankingMetric)
    return metric


def test_a_metric_without_a_formula_and_a_score_is_refused() -> None:
    """When it is made, and not in its first update."""

    class Nothing(RankingMetric):
        """A metric that says nothing of its score."""

    with pytest.raises(TypeError, match=r"Nothing\(\) must define `at_rank`, `score`, or"):
        Nothing()


@pytest.mark.parametrize("num_candidates", [131_072, 131_073, 200_000])
def test_places_beyond_the_tables_are_scored_all_the_same(num_candidates: int) -> None:
    """An uncut MRR beside cut metrics, at the last places of many."""
    scores = torch.arange(num_candidates, 0, -1).double()[None]
    metrics = next_location_metrics(num_candidates)
    metrics.update(scores, torch.tensor([num_candidates - 1]))
    members = [m for m in metrics.values() if isinstance(m, RankingMetric)]
    ranking = Ranking.from_scores(scores, torch.tensor([num_candidates - 1]))
    each = [float(member.scores_of(ranking)[0][0]) for member in members]
    assert each == pytest.approx([0, 0, 0, 1 / num_candidates, 0], rel=1e-12)
    assert float(metrics.compute()["mrr"]) == pytest.approx(1 / num_candidates, abs=2**-32)


@pytest.mark.usefixtures("each_backend")
@pytest.mark.parametrize("relevant", [1, 3])
def test_the_default_dtype_and_device_change_nothing(relevant: int) -> None:
    """Lightning sets half precision around every step of `precision="bf16-true"`."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(50, 5000, generator=generator, dtype=torch.float64)
    target = torch.randint(5000, (50, relevant), generator=generator)
    members = [*map(F1AtK, (3, 299, 301)), MRR(), NDCGAtK(10), RecallAtK(100)]
    metrics = RankingCollection({str(i): metric for i, metric in enumerate(members)})
    found: list[dict[str, Any]] = []
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        metrics.reset()
        torch.set_default_dtype(dtype)
        try:
            with torch.device("meta") if found else contextlib.nullcontext():
                metrics.update(scores, target)
                ranking = Ranking.from_scores(scores, target, top=2)
        finally:
            torch.set_default_dtype(torch.float32)
        places = ("above", "tied", "relevant_above", "relevant_tied")
        found.append({name: getattr(ranking, name) for name in places})
        found[-1] |= {name: metric.state for name, metric in metrics.items()}
        formulas.for_one_relevant.cache_clear()
    assert all(same(one, found[0]) for one in found)


@pytest.mark.usefixtures("each_backend")
def test_no_batch_outlives_its_update() -> None:
    """Without the help of the collector of cycles."""
    made = [metric for case in RANKING_CASES if (metric := metric_of(case)).needs.top == 0]
    metrics = RankingCollection({str(i): metric for i, metric in enumerate(made)})
    generator = torch.Generator().manual_seed(0)
    ranking = Ranking.from_scores(
        torch.rand(50, 30, generator=generator), torch.randint(30, (50, 4), generator=generator)
    )
    gc.disable()
    try:
        metrics.update(ranking)
        alive = weakref.ref(ranking)
        del ranking
        assert alive() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("name", ["score", "at_rank", "tally"])
def test_a_method_of_one_object_is_refused(name: str) -> None:
    """The state is shared, and tallied, by what the class says; also within another metric."""
    acc, grouped = AccuracyAtK(1), Grouped(AccuracyAtK(1), 2)
    collection = RankingCollection({"acc": AccuracyAtK(1)})
    groups = {"groups": torch.tensor([0])}
    for metric, updated, given in (
        (acc, acc, {}),
        (collection["acc"], collection, {}),
        (grouped.metric, grouped, groups),
    ):
        setattr(metric, name, lambda ranking: ranking)
        with pytest.raises(AttributeError, match=f"`{name}` of AccuracyAtK.* is fixed.*subclass"):
            updated.update(
                torch.tensor([[0]]), torch.tensor([0]), **given if updated is grouped else {}
            )


# the parts of a line: a weight of a rank, what is summed, the cut-off, the divisor
LINE = re.compile(
    r"(?P<weight>.+?) (?P<joint>of|for) (?P<of>the first|each)"
    r" relevant one(?P<up_to> x the relevant ones up to it)?(?:, summed)?"
    r"(?:, 0 beyond rank (?P<k>\d+))?(?:, divided by (?P<over>.+))?; ties: mean over orders"
)


def by_its_text(line: str) -> Callable[[tuple[int, ...], list[float], int], float]:
    """Return what a formula's line says, of the ranks, the gains and the length of the list."""
    found = LINE.fullmatch(line)
    assert found, line
    assert (found["joint"] == "for") == (found["weight"] == "1"), line
    cut = math.inf if found["k"] is None else int(found["k"])
    weight = compile(found["weight"].replace("^", "**"), line, "eval")
    over = (found["over"] or "1").replace("list length", "length")
    of_gains = re.fullmatch(r"the (DCG|gains) of (?:all|the best) (.+)", over)

    def score(ranks: tuple[int, ...], gains: list[float], length: int) -> float:
        of_each = {"n": len(ranks), "k": cut, "length": length, "min": min}

        def gained(gain: float, rank: int) -> float:
            return float(eval(weight, {"gain": gain, "rank": rank, "log2": math.log2}))

        order = sorted(zip(ranks, gains, strict=True))
        terms = [
            gained(gain, rank) * (number if found["up_to"] else 1) * (rank <= cut)
            for number, (rank, gain) in enumerate(order, 1)
        ]
        total = terms[0] if found["of"] == "the first" else sum(terms)
        if of_gains is None:
            return total / float(eval(over, of_each))
        # the divisor is a DCG, or a sum of gains, whatever the weight
        what = found["weight"].split(" / ")[0].replace("^", "**")
        best = sorted((float(eval(what, {"gain": x})) for x in gains), reverse=True)
        best = best[: int(eval(of_gains[2], of_each))]
        if of_gains[1] == "DCG":
            best = [x / math.log2(rank + 1) for rank, x in enumerate(best, 1)]
        return total / sum(best)

    return score


# candidates 0 and 1, and 2 to 4, are tied; the last one is in no list
TIED = [2.0, 2.0, 1.0, 1.0, 1.0, -math.inf]
RELEVANT = [1, 2, 3]
# how many of the 720 orders give the relevant ones these ranks
RANKS = Counter(
    tuple(sum((-TIED[y], by[y]) <= (-TIED[x], by[x]) for y in range(6)) for x in RELEVANT)
    for by in itertools.permutations(range(6))
)


@pytest.mark.parametrize("over", get_args(formulas.Divisor))
@pytest.mark.parametrize(
    ("weight", "of"),
    [
        (weight, of)
        for weight, of in itertools.product(get_args(formulas.Weight), get_args(formulas.SumOver))
        if of != "precision" or weight == "harmonic"
    ],
)
def test_a_formula_says_what_it_computes(
    weight: formulas.Weight, of: formulas.SumOver, over: formulas.Divisor
) -> None:
    """The mean over all orders of tied candidates of what the printed line says."""
    # gains are those of a sum over all
    grades = [0.0, 2.0, 0.5, 3.0, 0.0, 0.0] if of == "all" else [0.0, 1.0, 1.0, 1.0, 0.0, 0.0]
    gains = [grades[x] for x in RELEVANT]
    for gain, k in itertools.product(get_args(formulas.Gain), (1, 4, 9, None)):
        if k is None and over not in ("1", "n"):
            continue
        formula = scoring.Formula(weight, k, of, over, gain)
        score = by_its_text(str(formula))
        wanted = sum(number * score(ranks, gains, 5) for ranks, number in RANKS.items()) / 720
        ranking = Ranking.from_scores(
            torch.tensor([TIED]).double(), torch.tensor([grades]).double(), top=formula.needs.top
        )
        found = float(formulas.evaluate(ranking, [formula])[0, 0])
        assert found == pytest.approx(wanted, rel=1e-12), str(formula)


@pytest.mark.parametrize("target", [torch.tensor([2]), torch.tensor([[2, 1]])])
def test_a_sum_of_precisions_is_of_harmonic_weights(target: Tensor) -> None:
    """Others are refused, for one relevant location (by a plan) and for several."""

    class Counted(RankingMetric):
        """The number of relevant ones up to each."""

        @property
        def formula(self) -> scoring.Formula:
            return scoring.Formula("count", 3, of="precision", over="n")

    metric = Counted()
    with pytest.raises(ValueError, match=r"`weight` must be 'harmonic' for `of='precision'`, got"):
        metric.update(torch.tensor([[0.1, 0.5, 0.5]]), target)
    assert metric.num_queries == 0


@pytest.mark.parametrize("looks", [True, False])
@pytest.mark.parametrize(
    ("above", "tied", "relevant", "k"),
    [
        (0, 256, 2, None),
        (0, 257, 2, None),
        (3, 301, 5, None),
        (7, 3000, 2, 2000),
        (300, 2999, 3, 900),
        (0, 257, 257, None),
        (0, 259, 3, 256),
        (4, 300, 2, 260),
        (4, 300, 2, 261),
        (2, 300, 43, None),
        (2, 300, 44, None),
        (0, 400, 390, 200),
        (1, 5000, 60, 4999),
        (0, 100_000, 2, 99_990),
    ],
)
def test_the_first_of_several_in_a_long_block_of_ties(
    above: int,
    tied: int,
    relevant: int,
    k: int | None,
    looks: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The expectation of 1 / rank in exact integers, also where nothing may read a value."""
    monkeypatch.setattr(formulas, "must_not_sync", lambda _: not looks)
    scores = torch.zeros(2, above + tied)
    scores[:, :above] = 1.0
    target = torch.arange(above, above + relevant).repeat(2, 1)
    target[1, 1:] = -1  # another query, of one relevant location
    ranking = Ranking.from_scores(scores, target)
    ways, expected = math.comb(tied - 1, relevant - 1), 0
    for q in range(1, tied - relevant + 2):
        if k is None or above + q <= k:
            expected += (ways << 200) // (above + q)
        ways = ways * (tied - q - relevant + 1) // max(1, tied - q)
    expected //= math.comb(tied, relevant)
    first, single = scoring.reciprocal_rank(ranking, k).tolist()
    assert abs(first - expected / (1 << 200)) < 2e-13
    places = range(above + 1, min(above + tied, k or above + tied) + 1)
    assert abs(single - math.fsum(1 / place for place in places) / tied) < 2e-13
