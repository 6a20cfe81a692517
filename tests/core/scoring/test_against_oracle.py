"""Every metric against the plain-Python oracle: all input forms, options, ties and oddities."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import strategies
from metric_entries import FORMULAS, case_of, score_of
from metric_tester import Case, Entry
from nextloc_metrics import Ranking, functional, scoring
from oracles import ranks
from strategies import (
    DIRTY,
    examples,
    graded_relevant,
    id_lists,
    long_batches,
    one_relevant,
    padded_ids,
    scores,
    several_relevant,
)

SCORES: dict[str, Any] = {
    entry.name: score for entry, score in zip(FORMULAS, strategies.SCORES[1:], strict=True)
}
# what is no option of the score itself
OF_THE_METRIC = ("k", "ties", "empty_target_action", "ignore_index")


def own_options(entry: Entry) -> list[dict[str, Any]]:
    """Each set of options of the score, beside its cut-off."""
    own = [
        {name: value for name, value in case.options.items() if name not in OF_THE_METRIC}
        for case in entry.cases
    ]
    return [one for place, one in enumerate(own) if one not in own[:place]]


# Per-query scores with all their options, ties apart.
SCORE_CASES = [
    *(Case(entry, {"k": k, **own})
      for entry in FORMULAS for own in own_options(entry) for k in ((2, 8) if own else (1, 3, 8))),
    case_of("MRR", k=None),
]  # fmt: skip
TIES = ["expected", "optimistic", "pessimistic"]


def from_batch(preds: Tensor, target: Tensor, **kwargs: Any) -> Ranking:
    """The ranking of a batch of scores or of lists."""
    make = Ranking.from_scores if preds.is_floating_point() else Ranking.from_lists
    return make(preds, target, **kwargs)


def check_scores(preds: Tensor, target: Tensor, *, brute: bool) -> None:
    """Every score of every query under every tie policy equals the oracle's to 1e-9."""
    plain, with_first_places = from_batch(preds, target), from_batch(preds, target, top=8)
    queries = ranks.queries(preds, target)
    for ties in TIES:
        for case in SCORE_CASES:
            ranking = with_first_places if "denominator" in case.options else plain
            settled = ranking.break_ties(ties)
            got = SCORES[case.name](settled, **case.options)
            assert got.dtype == torch.float64
            assert got.shape == (len(queries),)
            for query, value in zip(queries, got.tolist(), strict=True):
                assert query is not None
                if query.n:
                    expected = score_of(case.name).of_query(
                        query, brute=brute, ties=ties, **case.options
                    )
                    assert value == pytest.approx(expected, abs=1e-9), (str(case), ties, query)


@st.composite
def lists_and(draw: st.DrawFn, relevance: st.SearchStrategy[Any]) -> tuple[Tensor, Tensor]:
    """Ranked lists of five locations, and so many drawn rows of what is relevant."""
    lists, _ = draw(id_lists())
    return lists, torch.tensor(draw(st.lists(relevance, min_size=len(lists), max_size=len(lists))))


# forms of a batch, among NaN and infinities, with repeats and padding
FORMS: dict[str, st.SearchStrategy[tuple[Tensor, Tensor]]] = {
    "one": one_relevant(DIRTY),
    "several": several_relevant(),
    "padded": several_relevant(DIRTY).map(lambda batch: (batch[0], padded_ids(batch[1]))),
    "graded": graded_relevant(DIRTY),
    "lists": id_lists(),
    "lists, one": lists_and(st.integers(0, 5)),
    "lists, graded": lists_and(
        st.lists(st.sampled_from([0.0, 0.0, 1.0, 2.5]), min_size=5, max_size=5)
    ),
}


@pytest.mark.parametrize("form", FORMS)
@examples(4)
@given(data=st.data())
def test_scores_by_brute_force(form: str, data: st.DataObject) -> None:
    """Every form of a batch, over every tie order."""
    check_scores(*data.draw(FORMS[form]), brute=True)


@examples(12)
@given(long_batches())
def test_scores_of_long_lists_and_many_candidates(batch: tuple[Tensor, Tensor]) -> None:
    """Lists that are sorted to be searched, hundreds of candidates, and every dtype."""
    check_scores(*batch, brute=False)


@pytest.mark.parametrize("levels", [2, 60])
def test_scores_of_larger_batches(levels: int) -> None:
    """Sixty locations and graded relevance, from nearly all tied to nearly none."""
    preds = torch.randint(levels, (12, 60)).float()
    relevance = torch.randint(-4, 4, (12, 60)).clamp(min=0).float()
    check_scores(preds, relevance, brute=False)
    check_scores(preds, torch.randint(60, (12,)), brute=False)


def test_the_two_ways_of_the_oracle_agree() -> None:
    """Enumerating every order and walking down the ranks give the same scores."""
    for _ in range(8):
        preds = torch.randint(3, (1, 6)).float()
        relevance = torch.randint(-1, 3, (1, 6)).clamp(min=0).float()
        (query,) = ranks.queries(preds, relevance)
        assert query is not None
        if not query.n:
            continue
        for case in SCORE_CASES:
            for ties in TIES:
                by_orders = score_of(case.name).enumerated(query, ties, **case.options)
                by_places = score_of(case.name).walked(query, ties, **case.options)
                assert by_orders == pytest.approx(by_places, abs=1e-12), (str(case), ties, query)


@given(several_relevant(DIRTY), st.sampled_from([1, 2, 3, 8]))
def test_hits_are_those_within_k(batch: tuple[Tensor, Tensor], k: int) -> None:
    """The expected number of relevant ones within the first k places."""
    preds, relevant = batch
    got = scoring.hits(Ranking.from_scores(preds, relevant), k).tolist()
    for query, hits in zip(ranks.queries(preds, relevant), got, strict=True):
        assert query is not None
        assert hits == pytest.approx(ranks.walk(query, k).hits, abs=1e-9)


@given(graded_relevant(DIRTY), st.data())
def test_ignored_and_masked_queries(batch: tuple[Tensor, Tensor], data: st.DataObject) -> None:
    """`ignore_index` takes one id out of every query, `mask` takes queries out."""
    preds, relevance = batch
    n, c = preds.shape
    ignored = data.draw(st.integers(0, c - 1))
    mask = torch.tensor(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    queries = ranks.queries(preds, relevance, mask, ignored)
    for empty in ("skip", "neg", "pos"):
        got = functional.ndcg_at_k(
            preds,
            relevance,
            mask,
            k=3,
            ignore_index=ignored,
            empty_target_action=empty,
            reduction="none",
        )
        expected = [
            score_of("NDCGAtK").of_query(query, k=3, empty_target_action=empty) for query in queries
        ]
        assert got.tolist() == pytest.approx(expected, abs=1e-6, nan_ok=True)


@given(scores(rows=2, columns=6), st.lists(st.integers(0, 5), min_size=2, max_size=2))
def test_functions_keep_the_shape_of_the_target(preds: Tensor, ids: list[int]) -> None:
    """`[B, T, C]` scores give `[B, T]` values, and a single query gives a single value."""
    target = torch.tensor(ids)
    flat = functional.mrr(preds, target, reduction="none")
    deep = functional.mrr(preds[None], target[None], reduction="none")
    one = functional.mrr(preds[0], target[0], reduction="none")
    assert (flat.shape, deep.shape, one.shape) == ((2,), (1, 2), ())
    assert torch.equal(deep[0], flat)
    assert torch.equal(one, flat[0])


@pytest.mark.parametrize("levels", [3, 100_000])
def test_very_many_relevant_locations(levels: int) -> None:
    """Up to 170 relevant locations of 200, with oddities among the scores."""
    preds = torch.randint(levels, (3, 200)).float()
    preds[torch.rand(3, 200) < 0.03] = math.nan
    preds[torch.rand(3, 200) < 0.03] = -math.inf
    relevance = torch.randint(1, 4, (3, 200)) * (torch.rand(3, 200) < 0.8).float()
    check_scores(preds, relevance, brute=False)
    check_scores(preds, padded_ids(relevance > 0), brute=False)
