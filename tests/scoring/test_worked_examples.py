"""Examples that a person can check by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torchmetrics import Metric

from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    F1AtK,
    HitRateAtK,
    LocationF1,
    MAPAtK,
    NDCGAtK,
    PrecisionAtK,
    Ranking,
    RecallAtK,
    next_location_metrics,
    scoring,
)
from nextloc_metrics.scoring import formulas
from strategies import updated

inf, nan = math.inf, math.nan


def at_ranks(*ranks: int, locations: int = 20) -> tuple[Tensor, Tensor]:
    """Scores without ties that put location 0 of each query at the given rank, from 1."""
    rows = []
    for rank in ranks:
        others = list(range(1, locations))
        order = [*others[: rank - 1], 0, *others[rank - 1 :]]
        row = [0.0] * locations
        for place, location in enumerate(order):
            row[location] = -float(place)
        rows.append(row)
    return torch.tensor(rows), torch.zeros(len(ranks), dtype=torch.long)


def of(metric: Metric, *args: Tensor) -> float:
    """The value of a metric after one update."""
    return updated(metric, *args).compute().item()


def letters(text: str) -> Tensor:
    """A list of ids, one letter each."""
    return torch.tensor([[ord(letter) - ord("a") for letter in text]])


A_TO_E = torch.tensor([[0, 1, 2, 3, 4]])


def test_mrr_of_ranks_2_1_5() -> None:
    """The mean of the reciprocal ranks 1/2, 1/1 and 1/5."""
    assert of(MRR(), *at_ranks(2, 1, 5)) == pytest.approx((1 / 2 + 1 + 1 / 5) / 3)
    assert of(MRR(), *at_ranks(2, 1, 5)) == pytest.approx(0.5667, abs=5e-5)


def test_mrr_with_a_cut_off() -> None:
    """Rank 5 is beyond the first three places and earns nothing."""
    assert of(MRR(k=3), *at_ranks(2, 1, 5)) == pytest.approx((1 / 2 + 1) / 3)
    assert of(MRR(k=5), *at_ranks(2, 1, 5)) == pytest.approx((1 / 2 + 1 + 1 / 5) / 3)


def test_ndcg_of_ranks_1_3_7_15() -> None:
    """Each rank earns 1 / log2(rank + 1), and rank 15 lies beyond the tenth place."""
    expected = (1 + 1 / math.log2(4) + 1 / math.log2(8)) / 4
    assert of(NDCGAtK(10), *at_ranks(1, 3, 7, 15)) == pytest.approx(expected)
    assert expected == pytest.approx(0.4583, abs=5e-5)


def test_weighted_f1_of_a_confusion_matrix() -> None:
    """Three locations: each location's F1 weighted by how often it was visited."""
    matrix = [[50, 10, 5], [5, 80, 15], [10, 20, 35]]
    target = [i for i, row in enumerate(matrix) for n in row for _ in range(n)]
    decided = [j for row in matrix for j, n in enumerate(row) for _ in range(n)]
    preds = torch.nn.functional.one_hot(torch.tensor(decided), 3).float()
    f1 = [2 * 50 / (65 + 65), 2 * 80 / (100 + 110), 2 * 35 / (65 + 55)]
    expected = (65 * f1[0] + 100 * f1[1] + 65 * f1[2]) / 230
    assert expected == pytest.approx(0.7135, abs=5e-5)
    assert of(LocationF1(3), preds, torch.tensor(target)) == pytest.approx(expected)
    macro = LocationF1(3, average="macro")
    assert of(macro, preds, torch.tensor(target)) == pytest.approx(sum(f1) / 3)
    micro = LocationF1(3, average="micro")
    assert of(micro, preds, torch.tensor(target)) == pytest.approx((50 + 80 + 35) / 230)
    each = updated(LocationF1(3, average=None), preds, torch.tensor(target)).compute()
    assert each.tolist() == pytest.approx(f1)


def test_accuracy_from_counts_of_hits() -> None:
    """1,037, 1,908 and 2,064 of 3,502 queries within 1, 5 and 10 places, as percentages."""
    ranks = [1] * 1037 + [4] * (1908 - 1037) + [8] * (2064 - 1908) + [12] * (3502 - 2064)
    preds, target = at_ranks(*ranks)
    metrics = next_location_metrics(20)
    metrics.update(preds, target)
    percent = {key: round(100 * value.item(), 2) for key, value in metrics.compute().items()}
    assert (percent["acc_at_1"], percent["acc_at_5"], percent["acc_at_10"]) == (29.61, 54.48, 58.94)


@pytest.mark.parametrize("target", [0, 7, 19])
def test_equal_scores_earn_what_chance_earns(target: int) -> None:
    """Twenty locations with one score: every location stands at every place equally often."""
    preds = torch.full((1, 20), 0.25)
    harmonic = sum(1 / rank for rank in range(1, 21))
    ids = torch.tensor([target])
    assert of(AccuracyAtK(5), preds, ids) == 0.25
    assert of(MRR(), preds, ids) == pytest.approx(harmonic / 20)
    assert of(NDCGAtK(5), preds, ids) == pytest.approx(
        sum(1 / math.log2(rank + 1) for rank in range(1, 6)) / 20
    )


def test_equal_scores_under_the_other_tie_policies() -> None:
    """Optimists put the relevant one first of 20, pessimists last."""
    preds, target = torch.zeros(1, 20), torch.tensor([7])
    assert of(AccuracyAtK(1, ties="optimistic"), preds, target) == 1.0
    assert of(AccuracyAtK(19, ties="pessimistic"), preds, target) == 0.0
    assert of(MRR(ties="pessimistic"), preds, target) == pytest.approx(1 / 20)


@pytest.mark.parametrize("k", [1, 10, 50])
def test_a_diverged_model_scores_nothing(k: int) -> None:
    """NaN everywhere is a miss for every k, also when k exceeds the number of locations."""
    preds, target = torch.full((3, 20), nan), torch.tensor([0, 7, 19])
    for metric in (AccuracyAtK(k), MRR(), MRR(k), NDCGAtK(k), MAPAtK(k), LocationF1(20)):
        assert of(metric, preds, target) == 0.0
        assert metric.num_queries == 3


def test_minus_infinity_is_no_recommendation() -> None:
    """A relevant location scored -inf is missed for every k; others scored -inf do not count."""
    preds = torch.tensor([[-inf, -inf, 0.5, -inf], [0.5, -inf, -inf, -inf]])
    target = torch.tensor([0, 0])
    assert of(AccuracyAtK(10), preds, target) == 0.5
    assert of(MRR(), preds, target) == 0.5


def test_plus_infinity_ties_like_any_other_score() -> None:
    """Two locations scored +inf share the first two places."""
    preds = torch.tensor([[inf, 0.0, inf]])
    assert of(AccuracyAtK(1), preds, torch.tensor([0])) == 0.5
    assert of(MRR(), preds, torch.tensor([2])) == 0.75


@pytest.mark.parametrize(
    ("ranked", "k", "precision", "average_precision"),
    [
        ("bcade", 1, 1, 1),
        ("fbcde", 1, 0, 0),
        ("afegb", 2, 1 / 2, 1 / 2),
        ("afcgb", 3, 2 / 3, (1 / 1 + 2 / 3) / 3),
        ("dcbae", 3, 1, 1),
    ],
)
def test_precision_and_average_precision_of_lists(
    ranked: str, k: int, precision: float, average_precision: float
) -> None:
    """Lists of letters of which a to e are relevant."""
    assert of(PrecisionAtK(k), letters(ranked), A_TO_E) == pytest.approx(precision)
    assert of(MAPAtK(k), letters(ranked), A_TO_E) == pytest.approx(average_precision)


def test_map_of_six_lists() -> None:
    """The mean of the AP@4 1, 1, (1/2 + 2/3 + 3/4)/4, (1 + 2/3)/4, (1 + 2/3)/4 and 1."""
    lists = ["bcade", "abcde", "fbcde", "afegb", "afcgb", "dcbae"]
    metric = MAPAtK(4)
    for ranked in lists:
        metric.update(letters(ranked), A_TO_E)
    assert metric.compute().item() == pytest.approx(0.71875)
    assert metric.num_queries == 6


def test_a_repeated_id_earns_once() -> None:
    """[a, a, a] against [a] has AP 1, not 1 + 1/2 + 1/3."""
    assert of(MAPAtK(3), letters("aaa"), torch.tensor([[0]])) == 1.0
    assert of(NDCGAtK(3), letters("aaa"), torch.tensor([[0]])) == 1.0
    assert of(RecallAtK(3), torch.tensor([[7, 7, 7]]), torch.tensor([[7, 8]])) == 0.5


def test_a_repeated_id_keeps_the_places_of_the_others() -> None:
    """In [a, a, b] the b stands at place 3."""
    assert of(MRR(), letters("aab"), torch.tensor([1])) == pytest.approx(1 / 3)
    assert of(AccuracyAtK(2), letters("aab"), torch.tensor([1])) == 0.0


def test_divisor_of_average_precision() -> None:
    """Five relevant ones, k = 3, hits at 1 and 3: (1 + 2/3) over 3 or over 5."""
    ranked, relevant = torch.tensor([[0, 9, 1]]), torch.tensor([[0, 1, 2, 3, 4]])
    assert of(MAPAtK(3), ranked, relevant) == pytest.approx((1 + 2 / 3) / 3)
    assert of(MAPAtK(3, normalizer="relevant"), ranked, relevant) == pytest.approx((1 + 2 / 3) / 5)


def test_graded_ndcg() -> None:
    """Relevance 3, 0, 2 in that order, with linear and with exponential gain."""
    preds, relevance = torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([[3.0, 0.0, 2.0]])
    linear = (3 + 2 / 2) / (3 + 2 / math.log2(3))
    exponential = (7 + 3 / 2) / (7 + 3 / math.log2(3))
    assert of(NDCGAtK(3), preds, relevance) == pytest.approx(linear)
    assert of(NDCGAtK(3, gain="exponential"), preds, relevance) == pytest.approx(exponential)
    assert linear == pytest.approx(0.93856, abs=5e-6)
    assert exponential == pytest.approx(0.95583, abs=5e-6)


def test_the_ideal_of_more_relevant_ones_than_places() -> None:
    """Three relevant ones and one place: a full ideal DCG counts all three."""
    preds, relevant = torch.tensor([[3.0, 2.0, 1.0, 0.0]]), torch.tensor([[0, 1, 2]])
    full = 1 / (1 + 1 / math.log2(3) + 1 / 2)
    assert of(NDCGAtK(1), preds, relevant) == 1.0
    assert of(NDCGAtK(1, ideal="full"), preds, relevant) == pytest.approx(full)


def test_precision_recall_and_f1_at_k() -> None:
    """Two hits within four places, three relevant ones: 2/4, 2/3 and their harmonic mean 4/7."""
    ranked, relevant = torch.tensor([[5, 0, 6, 1, 2]]), torch.tensor([[0, 1, 2]])
    assert of(PrecisionAtK(4), ranked, relevant) == 0.5
    assert of(RecallAtK(4), ranked, relevant) == pytest.approx(2 / 3)
    assert of(F1AtK(4), ranked, relevant) == pytest.approx(4 / 7)
    assert of(AccuracyAtK(4), ranked, relevant) == 1.0
    assert of(MRR(), ranked, relevant) == 0.5


def test_recall_normalised_by_what_can_be_found() -> None:
    """With three relevant ones, two places can hold at most two of them."""
    ranked, relevant = torch.tensor([[0, 5, 1, 2]]), torch.tensor([[0, 1, 2]])
    assert of(RecallAtK(2), ranked, relevant) == pytest.approx(1 / 3)
    assert of(RecallAtK(2, normalized=True), ranked, relevant) == 0.5


def test_precision_of_a_short_list() -> None:
    """Two written entries, one of them right: 1/5 of five places, 1/2 of what was retrieved."""
    ranked, relevant = torch.tensor([[4, 0, -1, -1]]), torch.tensor([[0, 1, 2]])
    assert of(PrecisionAtK(5), ranked, relevant) == pytest.approx(1 / 5)
    assert of(PrecisionAtK(5, denominator="retrieved"), ranked, relevant) == 0.5


def test_precision_of_a_list_that_is_longer_than_k() -> None:
    """The places are at most k, whatever a Ranking keeps for other metrics."""
    ranking = Ranking.from_lists(torch.tensor([[3, 1, 2, 0, 4]]), torch.tensor([[1, 4]]), top=5)
    for k in (1, 2, 4, 5, 9):
        hits = (k >= 2) + (k >= 5)
        if k <= 5:
            metric = PrecisionAtK(k, denominator="retrieved")
            metric.update(ranking)
            assert metric.compute().item() == pytest.approx(hits / k)
        assert of(
            PrecisionAtK(k, denominator="retrieved"),
            torch.tensor([[3, 1, 2, 0, 4]]),
            torch.tensor([[1, 4]]),
        ) == pytest.approx(hits / min(k, 5))


def test_f1_of_the_queries_and_of_the_pool() -> None:
    """Queries with 1 of 1 and 1 of 3 found in two places: (2/3 + 2/5)/2, and pooled 4/8."""
    ranked = torch.tensor([[0, 9], [0, 9]])
    relevant = torch.tensor([[0, -1, -1], [0, 1, 2]])
    assert of(F1AtK(2), ranked, relevant) == pytest.approx((2 / 3 + 2 / 5) / 2)
    assert of(F1AtK(2, average="pooled"), ranked, relevant) == pytest.approx(4 / 8)


def test_hit_rate_is_another_name_of_accuracy() -> None:
    """The name recommenders use means the same class."""
    assert of(HitRateAtK(2), *at_ranks(2, 3)) == of(AccuracyAtK(2), *at_ranks(2, 3)) == 0.5


def test_the_places_of_a_ranking() -> None:
    """Relevant 0, 1 and 3 of the scores 2, 3, 3, 2, 1: where each landed, best place first."""
    ranking = Ranking.from_scores(
        torch.tensor([[2.0, 3.0, 3.0, 2.0, 1.0]]), torch.tensor([[0, 1, 3]])
    )
    assert ranking.above.tolist() == [[0, 2, 2]]
    assert ranking.tied.tolist() == [[2, 2, 2]]
    assert ranking.relevant_above.tolist() == [[0, 1, 1]]
    assert ranking.relevant_tied.tolist() == [[1, 2, 2]]
    assert ranking.num_relevant.tolist() == [3]
    assert ranking.relevant[0, 0] == 1
    assert sorted(ranking.relevant[0].tolist()) == [0, 1, 3]
    assert ranking.counted.tolist() == [True]


def test_a_query_without_a_relevant_location() -> None:
    """Skipped, counted as nothing, or counted as everything."""
    ranked, relevant = torch.tensor([[0, 1], [0, 1]]), torch.tensor([[0, -1], [-1, -1]])
    expected = {"skip": (1.0, 1), "neg": (0.5, 2), "pos": (1.0, 2)}
    for action, (value, queries) in expected.items():
        metric = updated(AccuracyAtK(1, empty_target_action=action), ranked, relevant)
        assert (metric.compute().item(), metric.num_queries) == (value, queries)
    metric = AccuracyAtK(1, empty_target_action="pos")
    metric.update(torch.tensor([[5], [0]]), torch.tensor([[1], [-1]]))
    assert metric.compute().item() == 0.5


def test_location_f1_breaks_ties_by_the_lowest_id() -> None:
    """As `argmax` and scikit-learn do: a decision, unlike a rank, cannot be half of each."""
    preds = torch.tensor([[1.0, 1.0, 0.0]])
    assert of(LocationF1(3), preds, torch.tensor([0])) == 1.0
    assert of(LocationF1(3), preds, torch.tensor([1])) == 0.0


def test_location_f1_of_rows_that_decide_nothing() -> None:
    """A row with a NaN, or with nothing above -inf, counts as a visit and as no decision."""
    preds = torch.tensor([[9.0, 0.0, 0.0], [9.0, 0.0, nan], [-inf, -inf, -inf]])
    target = torch.tensor([0, 0, 0])
    metric = updated(LocationF1(3), preds, target)
    assert metric.compute().item() == pytest.approx(2 * 1 / (3 + 1))
    assert metric.num_queries == 3


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
