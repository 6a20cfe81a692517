"""Metrics of probabilities, against plain loops, scikit-learn and each other."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, tensor

from nextloc_metrics import (
    AURC,
    AccuracyAtCoverage,
    AccuracyAtK,
    BrierScore,
    CalibrationError,
    Grouped,
    NegativeLogLikelihood,
    Perplexity,
    RankingCollection,
    probability_metrics,
)
from nextloc_metrics.core.distribution.distribution import Distribution, DistributionNeeds
from nextloc_metrics.core.queries.batch import Batch
from nextloc_metrics.geography import ExpectedDistance, Locations
from oracles.probabilities import calibration_error_of, numbers_of, risks, softmax
from strategies import examples, float32

LOGITS = "logits"
WORST = [math.nan, math.inf]


def updated(metric: Any, preds: Any, target: Any, **named: Any) -> Any:
    """The metric after one update."""
    metric.update(torch.as_tensor(preds), torch.as_tensor(target), **named)
    return metric


def value(metric: Any, preds: Any, target: Any, **named: Any) -> float:
    """The value after one update."""
    return float(updated(metric, preds, target, **named).compute())


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
    return tensor(drawn), tensor(target)


# Log-likelihood and Brier score ------------------------------------------------------------------


@given(logits())
def test_likelihood_and_brier_score_in_plain_loops(batch: tuple[Tensor, Tensor]) -> None:
    """Nats, bits, perplexity and the two Brier scores are those of the formulas."""
    preds, target = batch
    rows = [softmax(row) for row in preds.double().tolist()]
    own = [row[t] for row, t in zip(rows, target.tolist(), strict=True)]
    nats = sum(math.inf if p == 0 else -math.log(p) for p in own) / len(own)
    nll = updated(NegativeLogLikelihood(given=LOGITS), preds, target)
    assert float(nll.compute()) == pytest.approx(nats, rel=1e-6, abs=1e-7)
    assert nll.num_impossible == sum(p == 0 for p in own)
    bits = value(NegativeLogLikelihood(base=2, given=LOGITS), preds, target)
    assert bits == pytest.approx(nats / math.log(2), rel=1e-6, abs=1e-7)
    assert value(Perplexity(given=LOGITS), preds, target) == pytest.approx(math.exp(nats), rel=1e-5)
    floored = sum(-math.log(max(p, 0.01)) for p in own) / len(own)
    found = value(NegativeLogLikelihood(floor=0.01, given=LOGITS), preds, target)
    assert found == pytest.approx(floored, rel=1e-6, abs=1e-7)
    brier = sum(
        sum((p - (i == t)) ** 2 for i, p in enumerate(row))
        for row, t in zip(rows, target.tolist(), strict=True)
    ) / len(own)
    assert value(BrierScore(given=LOGITS), preds, target) == pytest.approx(brier, abs=1e-6)
    half = value(BrierScore(normalized=True, given=LOGITS), preds, target)
    assert half == pytest.approx(brier / 2, abs=1e-6)


def test_the_interval_of_the_perplexity_is_that_of_the_likelihood() -> None:
    """Exponentiated; the perplexity itself is no mean."""
    preds, target = torch.randn(30, 4), torch.randint(4, (30,))
    nll = updated(NegativeLogLikelihood(given=LOGITS), preds, target)
    perplexity = updated(Perplexity(given=LOGITS), preds, target)
    low, high = nll.interval(0.9)
    assert [float(x) for x in perplexity.interval(0.9)] == pytest.approx(
        [math.exp(low), math.exp(high)], rel=1e-6
    )
    with pytest.raises(TypeError, match="must be the mean of a score"):
        Grouped(perplexity, 3)
    record = RankingCollection({"perplexity": perplexity}).table(intervals=True).records[0]
    ends = float32((record["low"], record["high"]))
    assert ends == tuple(float(x) for x in perplexity.interval())


# The numbers of a query --------------------------------------------------------------------------

# Ties and both zeros; what is infinite, no number, or nearly 0; what only float64 can tell apart.
HARD = [0.0, -0.0, 1.0, 0.5, -7.0, 700.0, 5e-324, 1e-310, 1e-300, 1e300, -1e300, 1 + 2**-52]
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


@examples(60)
@given(st.data(), st.sampled_from(DTYPES), st.sampled_from(["logits", "probabilities"]))
def test_the_numbers_of_a_query_in_plain_loops(
    data: st.DataObject, dtype: torch.dtype, given: str
) -> None:
    """Of scores in any dtype and layout, with ties, infinities and NaN, within its rounding."""
    width = data.draw(st.integers(1, 9))
    hard = st.sampled_from([*HARD, *WORST, -math.inf])
    level = st.one_of(st.sampled_from(HARD), st.floats(-30, 30), hard)
    drawn = data.draw(st.lists(st.lists(level, min_size=width, max_size=width), min_size=1))
    scores = torch.tensor(drawn, dtype=torch.float64).to(dtype)
    scores = scores.repeat(1, data.draw(st.sampled_from([1, 1, 67])))
    scores = scores.abs() if given == "probabilities" else scores
    target = torch.arange(len(scores)) * 7 % scores.shape[1]
    warmth = 1.0 if given == "probabilities" else data.draw(st.sampled_from([1.0, 0.3, 20.0]))
    preds = data.draw(st.sampled_from([scores, scores.t().contiguous().t()]))
    batch = Batch(preds, target, validate_args=False)
    record = Distribution.read(batch, DistributionNeeds(given, warmth, scores=True))  # type: ignore[arg-type]
    names = ("confidence", "correct", "own", "log_target", "squares")
    found = torch.stack([getattr(record, name) for name in names], 1).tolist()
    shares = torch.cat([*record.all_probabilities()]).double()
    # What the dtype needs, at least float32: exp, its argument and the division are rounded, and
    # each of at least 4 lanes of a processor adds C / 4 weights. That of float64 is 2^29 times
    # smaller. A logit's distance to the highest is exact in both.
    eps = torch.finfo(torch.promote_types(dtype, torch.float32)).eps
    off = eps * (4 + scores.shape[1] / 4)
    for row, at, mine, every in zip(scores.tolist(), target.tolist(), found, shares, strict=True):
        wanted = [*numbers_of(row, at, given, warmth)]
        if wanted[3] > -math.inf and wanted[2] < torch.finfo(torch.float32).tiny:
            wanted[3] = mine[3] if given == "probabilities" else wanted[3]  # p has few digits
        assert mine == pytest.approx(wanted, rel=2**-50, abs=off)
        if wanted[3] > -math.inf:
            assert float(every[at]) == pytest.approx(wanted[2], abs=off)


# What scores are ---------------------------------------------------------------------------------


def test_logits_and_probabilities_agree() -> None:
    """Logits, log-probabilities and probabilities of one model have the same values."""
    torch.manual_seed(0)
    preds, target = torch.randn(50, 9, dtype=torch.float64), torch.randint(9, (50,))
    forms = {
        "logits": preds,
        "log_probabilities": preds.log_softmax(1),
        "probabilities": preds.softmax(1),
    }
    values = {
        name: updated(probability_metrics(given=name), scores, target).compute()
        for name, scores in forms.items()
    }
    for name in values["logits"]:
        first, *others = (float(of[name]) for of in values.values())
        assert others == pytest.approx([first, first], rel=1e-5), name


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_probabilities_must_be_declared(dtype: torch.dtype) -> None:
    """A query that may be either is an error, in any batch; no other query is."""
    preds = tensor([[3.0, 1.0, 0.0], [0.5, 0.3, 0.2], [0.5, 0.3, 0.9]], dtype=dtype)
    target = tensor([0, 0, 0])
    for metric in (NegativeLogLikelihood(), CalibrationError(), BrierScore(), AURC()):
        with pytest.raises(ValueError, match=r"`given` must say what scores are .* query 1"):
            metric.update(preds, target)
        assert metric.num_queries == 0
        metric.update(preds, target, mask=tensor([True, False, True]))
        for row in (0, 2):
            metric.update(preds[row : row + 1], target[:1])
        assert metric.num_queries == 4
    updated(NegativeLogLikelihood(given=LOGITS), preds, target)
    updated(NegativeLogLikelihood(validate_args=False), preds, target)


@pytest.mark.parametrize(
    ("given", "off", "is_read"),
    [
        (None, 5e-5, False),
        (None, 5e-4, True),
        ("probabilities", 5e-4, True),
        ("probabilities", 2e-3, False),
        ("log_probabilities", -5e-4, True),
        ("log_probabilities", -2e-3, False),
    ],
)
def test_how_far_a_sum_may_be_from_one(given: Any, off: float, is_read: bool) -> None:
    """1e-4 for scores that are nearly probabilities, 1e-3 for declared ones."""
    preds = tensor([[0.25, 0.75]], dtype=torch.float64) * (1 + off)
    preds = preds.log() if given == "log_probabilities" else preds
    metric = NegativeLogLikelihood(given=given)
    with contextlib.nullcontext() if is_read else pytest.raises(ValueError, match="sum"):
        metric.update(preds, tensor([0]))
    assert metric.num_queries == is_read


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("number", [2, 300, 70_000])
def test_rounding_to_the_dtype_is_no_error(dtype: torch.dtype, number: int) -> None:
    """Equal probabilities and their logs are read and divided by their sum; twice as many not."""
    even = torch.full((1, number), 1 / number)
    for name, preds in (("probabilities", even), ("log_probabilities", even.log())):
        assert value(BrierScore(given=name), preds.to(dtype), [0]) == pytest.approx(1 - 1 / number)
        loss = value(NegativeLogLikelihood(given=name), preds.to(dtype), [0])
        assert loss == pytest.approx(math.log(number), rel=1e-6)
        with pytest.raises(ValueError, match="sum to 1"):
            updated(BrierScore(given=name), preds.to(dtype).repeat(1, 2), [0])


@pytest.mark.parametrize("wrong", WORST)
def test_a_broken_row_is_the_worst_of_all(wrong: float) -> None:
    """A query with NaN or infinity has the worst value of each metric, and counts."""
    preds, target = tensor([[wrong, 5.0, 1.0]]), tensor([1])
    found = updated(probability_metrics(given=LOGITS), preds, target).compute()
    assert {name: float(x) for name, x in found.items()} == {
        "nll": math.inf,
        "perplexity": math.inf,
        "brier": 2.0,
        "ece": 1.0,
        "aurc": 1.0,
        "accuracy_at_coverage": 0.0,
    }
    assert value(BrierScore(given="probabilities"), tensor([[wrong, 1.0, 0.0]]), target) == 2
    nothing = tensor([[-math.inf, -math.inf]])
    assert value(BrierScore(given=LOGITS), nothing, [1]) == 2


@pytest.mark.parametrize("masked", [-1e10, torch.finfo(torch.float32).min])
def test_a_masked_target_is_impossible(masked: float) -> None:
    """A logit that a model masks is as unlikely as -infinity, unless there is a floor."""
    preds, target = tensor([[0.0, masked], [0.0, 0.0]]), tensor([1, 1])
    loss = NegativeLogLikelihood(given=LOGITS)
    assert updated(loss, preds, target).compute() == math.inf
    assert loss.num_impossible == 1
    assert value(NegativeLogLikelihood(given=LOGITS), [[0.0, -(2.0**31)]], [1]) == 2.0**31
    floored = value(NegativeLogLikelihood(floor=0.5, given=LOGITS), preds, target)
    assert floored == pytest.approx(math.log(2))


def test_temperature_divides_logits() -> None:
    """The same as logits divided before; probabilities have none."""
    preds, target = torch.randn(20, 5, dtype=torch.float64), torch.randint(5, (20,))
    for make in (NegativeLogLikelihood, BrierScore, CalibrationError):
        warm = value(make(given=LOGITS, temperature=2.0), preds, target)
        assert warm == pytest.approx(value(make(given=LOGITS), preds / 2, target), rel=1e-6)
    with pytest.raises(ValueError, match="`temperature` must be 1"):
        BrierScore(given="probabilities", temperature=2.0)
    both = [BrierScore(given=LOGITS), NegativeLogLikelihood(given=LOGITS, temperature=2.0)]
    with pytest.raises(ValueError, match="`temperature` must be equal for all metrics"):
        updated(RankingCollection(both), preds, target)


def test_excluded_candidates_have_no_probability() -> None:
    """The others' probabilities are divided by their sum."""
    preds, target = [[1.0, 2.0, 3.0]], [0]
    kept = value(NegativeLogLikelihood(given=LOGITS), [[1.0, 2.0]], target)
    exclude = tensor([[2, -1]])
    left = value(NegativeLogLikelihood(given=LOGITS), preds, target, exclude=exclude)
    assert left == pytest.approx(kept, rel=1e-6)
    shares = value(
        NegativeLogLikelihood(given="probabilities"), [[0.2, 0.2, 0.6]], target, exclude=exclude
    )
    assert shares == pytest.approx(math.log(2), rel=1e-6)


# Calibration -------------------------------------------------------------------------------------


def as_rows(confidences: list[float], correct: list[bool]) -> tuple[Tensor, Tensor]:
    """Probabilities of two candidates, whose best one has these confidences (at least 1/2)."""
    preds = tensor([[c, 1 - c] for c in confidences], dtype=torch.float64)
    return preds, tensor([0 if right else 1 for right in correct])


# 0.5, 0.75 and 1 are edges of 4, 20 and 100 bins, exactly
SURE = st.one_of(st.sampled_from([0.5, 0.75, 1.0, 0.875, 0.9]), st.floats(0.5, 1))


@given(
    st.lists(st.tuples(SURE, st.booleans()), min_size=1, max_size=25),
    st.sampled_from([1, 4, 10, 15, 20, 100]),
    st.sampled_from(["l1", "l2", "max"]),
)
def test_calibration_error_in_plain_loops(
    answers: list[tuple[float, bool]], bins: int, norm: str
) -> None:
    """All norms, with confidences on edges, too."""
    # two tied candidates are half correct, which the loops do not know
    confidences = [c if c != 0.5 else 0.625 for c, _ in answers]
    correct = [right for _, right in answers]
    metric = CalibrationError(bins, norm, given="probabilities")
    found = value(metric, *as_rows(confidences, correct))
    expected = calibration_error_of(confidences, correct, bins, norm)
    # the square root of a sum near 0 magnifies its rounding
    assert found == pytest.approx(expected, abs=1e-4 if norm == "l2" else 1e-7)


@pytest.mark.parametrize("bins", [10, 15, 20, 25, 100])
def test_confidences_on_an_edge_are_in_the_lower_bin(bins: int) -> None:
    """The float64 nearest to k / bins falls into bin k, for every k."""
    edges = [k / bins for k in range(1, bins + 1)]
    metric = CalibrationError(bins)
    lists = torch.zeros(bins, 1, dtype=torch.int64)
    metric.update(lists, lists[:, 0], confidence=tensor(edges, dtype=torch.float64))
    assert metric.reliability().number.tolist() == [1] * bins


def test_tied_best_candidates_are_correct_in_part() -> None:
    """Of two best candidates, each is the answer half the time; their order changes nothing."""
    for target in (0, 1):
        metric = updated(CalibrationError(1, given=LOGITS), [[2.0, 2.0, 1.0]], [target])
        assert metric.reliability().accuracy.tolist() == [0.5]


# Answering only when sure ------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(st.sampled_from([0.6, 0.7, 0.8, 0.95, 1.0]), st.booleans()),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from([0.01, 0.3, 0.5, 1.0]),
)
def test_selection_in_plain_loops(answers: list[tuple[float, bool]], coverage: float) -> None:
    """The area, and the accuracy at a coverage."""
    batch = as_rows([c for c, _ in answers], [right for _, right in answers])
    expected, n = risks(answers), len(answers)
    kind: Any = {"given": "probabilities"}
    assert value(AURC(**kind), *batch) == pytest.approx(float(sum(expected) / n), abs=1e-6)
    answered = max(1, math.ceil(coverage * n - 1e-9))
    accuracy = value(AccuracyAtCoverage(coverage, **kind), *batch)
    assert accuracy == pytest.approx(1 - float(expected[answered - 1]), abs=1e-6)


def test_calibration_and_selection_share_one_state() -> None:
    """One histogram in a collection, whatever bins, norms and shares."""
    metrics = probability_metrics(given=LOGITS)
    updated(metrics, torch.randn(20, 5), torch.randint(5, (20,)))
    groups = list(metrics.compute_groups.values())
    assert ["ece", "aurc", "accuracy_at_coverage"] in groups
    assert ["nll", "perplexity"] in groups
    with pytest.raises(TypeError, match=r"`report.evaluate` has intervals of F1"):
        metrics["ece"].interval()


def test_lists_of_ids_with_a_confidence() -> None:
    """Calibration and selection of a model that answers one id; an empty list is no answer."""
    preds = tensor([[3, 1], [2, -1], [-1, -1], [0, 1]])
    target, sure = tensor([3, 1, 2, 0]), tensor([0.9, 0.8, 0.7, 0.6])
    assert value(AURC(), preds, target, confidence=sure) == pytest.approx(
        (0 + 0.5 + 1 / 3 + 0.5) / 4
    )
    error = value(CalibrationError(1), preds, target, confidence=sure)
    assert error == pytest.approx(abs(0.5 - (0.9 + 0.8 + 0.6) / 4), abs=1e-7)
    with pytest.raises(ValueError, match="`confidence` must be given with lists of ids"):
        AURC().update(preds, target)
    with pytest.raises(ValueError, match="needs the scores of all candidates"):
        updated(BrierScore(), preds, target, confidence=sure)
    with pytest.raises(ValueError, match=r"`confidence` must be in \[0, 1\], got 2.0 for query 1"):
        updated(AURC(), preds[:2], target[:2], confidence=tensor([0.5, 2.0]))
    with pytest.raises(ValueError, match="`confidence` is read with lists of ids only"):
        updated(AURC(), [[1.0, 2.0]], [0], confidence=tensor([0.5]))
    both = RankingCollection({"acc": AccuracyAtK(1), "aurc": AURC()})
    found = updated(both, preds, target, confidence=sure).compute()
    assert float(found["acc"]) == 0.5


# Distances ---------------------------------------------------------------------------------------

PLACES = Locations([40.7580, 40.7484, 40.6892], [-73.9855, -73.9857, -74.0445])


@given(logits())
def test_expected_distance_in_plain_loops(batch: tuple[Tensor, Tensor]) -> None:
    """The sum over candidates of probability times distance."""
    preds, target = batch
    preds, target = preds[:, :3], target % min(3, preds.shape[1])
    preds[preds.amax(1) == -math.inf] = 0.0
    total = 0.0
    for row, t in zip(preds.double().tolist(), target.tolist(), strict=True):
        for i, p in enumerate(softmax(row)):
            total += p * float(PLACES.distance(tensor(i), tensor(t)))
    found = value(ExpectedDistance(PLACES, given=LOGITS), preds, target)
    assert found == pytest.approx(total / len(preds), rel=1e-6, abs=1e-6)


def test_candidates_without_coordinates_must_be_impossible() -> None:
    """They have no distance; a broken row has the largest one."""
    places = Locations([40.0, 40.1, math.nan], [-73.0, -73.1, math.nan])
    metric = ExpectedDistance(places, given=LOGITS)
    with pytest.raises(
        ValueError, match=r"probability 0 for candidates without coordinates.*got 0\.33"
    ):
        updated(metric, [[1.0, 1.0, 1.0]], [0])
    assert metric.num_queries == 0
    with pytest.raises(ValueError, match="`target` must hold locations with coordinates, got 2"):
        updated(metric, [[1.0, 1.0, -math.inf]], [2])
    updated(metric, [[1.0, 1.0, -math.inf]], [0])
    broken = value(ExpectedDistance(places, given=LOGITS), [[math.nan, 1.0, 1.0]], [0])
    assert broken == pytest.approx(20015.2, rel=1e-5)
