"""Calibration, and answering only when sure, against plain loops."""

from __future__ import annotations

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
    RankingCollection,
    probability_metrics,
)
from oracles.probabilities import calibration_error_of, risks
from strategies import updated_by, value

LOGITS = "logits"


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
        metric = updated_by(CalibrationError(1, given=LOGITS), [[2.0, 2.0, 1.0]], [target])
        assert metric.reliability().accuracy.tolist() == [0.5]


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
    updated_by(metrics, torch.randn(20, 5), torch.randint(5, (20,)))
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
        updated_by(BrierScore(), preds, target, confidence=sure)
    with pytest.raises(ValueError, match=r"`confidence` must be in \[0, 1\], got 2.0 for query 1"):
        updated_by(AURC(), preds[:2], target[:2], confidence=tensor([0.5, 2.0]))
    with pytest.raises(ValueError, match="`confidence` is read with lists of ids only"):
        updated_by(AURC(), [[1.0, 2.0]], [0], confidence=tensor([0.5]))
    both = RankingCollection({"acc": AccuracyAtK(1), "aurc": AURC()})
    found = updated_by(both, preds, target, confidence=sure).compute()
    assert float(found["acc"]) == 0.5
