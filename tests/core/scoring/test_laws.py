"""Laws that hold for every input, which say more than many examples."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from metric_entries import BLOCK_CASES, CLASSES, FAMILIES, PROBABILITY_CASES, RANKING_CASES, case_of
from metric_tester import LOCATIONS, Case
from nextloc_metrics import (
    Ranking,
    RankingCollection,
    scoring,
)
from strategies import (
    DIRTY,
    SCORES,
    batch,
    examples,
    graded_relevant,
    id_lists,
    long_batches,
    one_relevant,
    padded_ids,
    same,
    several_relevant,
    split,
    state,
    updated,
)

KS = (1, 2, 3, 5, 8)
LAW_CASES = [*RANKING_CASES, *BLOCK_CASES]
# what says the same of a query gives the same record: one metric of each class shows it
ONE_EACH = [case for case in CLASSES if case in LAW_CASES]
FORMULAS = [case for case in ONE_EACH if case in RANKING_CASES]
# Laws that go through the whole table of metrics need fewer examples, and those that are
# parametrised over it need only a few each.
over_all_metrics = examples(5)
for_each_metric = examples(2)


@functools.cache
def collection_of(names: tuple[str, ...]) -> RankingCollection:
    """The metrics of a table, which are made once."""
    cases = {str(case): case for case in [*LAW_CASES, *map(one_f1, range(1, 13))]}
    return RankingCollection({str(i): cases[name].make() for i, name in enumerate(names)})


def updated_with(cases: list[Case], preds: Tensor, target: Tensor) -> list[Any]:
    """Each metric of a table after one update, the batch ranked once to save time."""
    form = Ranking.from_scores if preds.is_floating_point() else Ranking.from_lists
    metrics = collection_of(tuple(map(str, cases)))
    metrics.reset()
    metrics.update(form(preds, target, top=8, length=True))
    return list(metrics.values())


def states(cases: list[Case], preds: Tensor, target: Tensor) -> list[dict[str, Tensor]]:
    """What each metric of a table has accumulated after one update."""
    return [state(metric) for metric in updated_with(cases, preds, target)]


def values(cases: list[Case], preds: Tensor, target: Tensor) -> list[float]:
    """The value of each metric of a table after one update."""
    return [metric.compute().item() for metric in updated_with(cases, preds, target)]


def one_f1(locations: int) -> Case:
    """`LocationF1` apart: only it cares which of two equal scores has which id."""
    return case_of("LocationF1", num_locations=locations)


# Only the order of the scores matters ------------------------------------------------------------


INCREASING: dict[str, Callable[[Tensor], Tensor]] = {
    "s-100": lambda s: s - 100,
    "3s": lambda s: 3 * s,
    "log_softmax": lambda s: s.double().log_softmax(-1),
    "sigmoid": lambda s: s.double().sigmoid(),
    "exp": lambda s: s.double().exp(),
    "cube": lambda s: s.double() ** 3,
    "levels": lambda s: torch.unique(s, return_inverse=True)[1].float() - 50,
}


@over_all_metrics
@given(several_relevant())
def test_increasing_maps_change_nothing(batch: tuple[Tensor, Tensor]) -> None:
    """Logits, log-probabilities, probabilities and ranks give the same bits."""
    preds, relevant = batch
    target = torch.zeros(len(preds), dtype=torch.long)
    f1 = [one_f1(preds.shape[1])]
    expected = states(ONE_EACH, preds, relevant), states(f1, preds, target)
    for name, increasing in INCREASING.items():
        mapped = increasing(preds)
        assert same_all(states(ONE_EACH, mapped, relevant), expected[0]), name
        assert same_all(states(f1, mapped, target), expected[1]), name


def same_all(one: list[dict[str, Tensor]], other: list[dict[str, Tensor]]) -> bool:
    """Whether two lists of states agree bit for bit."""
    return all(same(a, b) for a, b in zip(one, other, strict=True))


@over_all_metrics
@given(graded_relevant(DIRTY), st.randoms(use_true_random=False))
def test_permuting_candidates_changes_nothing(batch: tuple[Tensor, Tensor], random: Any) -> None:
    """Candidates have no order of their own, whatever their ids."""
    preds, relevance = batch
    columns = list(range(preds.shape[1]))
    random.shuffle(columns)
    assert same_all(
        states(ONE_EACH, preds, relevance),
        states(ONE_EACH, preds[:, columns], relevance[:, columns]),
    )


@examples(12)
@given(long_batches())
def test_long_batches_are_the_sum_of_their_queries(batch: tuple[Tensor, Tensor]) -> None:
    """Lists that are sorted to be searched, and many candidates, are read query by query."""
    rows = [states(FORMULAS, *row) for row in split([1] * len(batch[0]), *batch)]
    for whole, *parts in zip(states(FORMULAS, *batch), *rows, strict=True):
        for name, total in whole.items():
            assert torch.equal(total, torch.stack([part[name] for part in parts]).sum(0))


@over_all_metrics
@given(id_lists(), st.randoms(use_true_random=False))
def test_renaming_locations_changes_nothing(batch: tuple[Tensor, Tensor], random: Any) -> None:
    """The ids of a list are names."""
    lists, relevant = batch
    names = list(range(5))
    random.shuffle(names)
    renamed = torch.tensor([*names, -1])
    assert same_all(
        states(ONE_EACH, lists, relevant),
        states(ONE_EACH, renamed[lists], renamed[relevant]),
    )


@over_all_metrics
@given(several_relevant(), st.randoms(use_true_random=False))
def test_the_order_of_relevant_ids_changes_nothing(
    batch: tuple[Tensor, Tensor], random: Any
) -> None:
    """Relevant ids are a set: their order, their repeats and where their padding stands."""
    preds, relevant = batch
    ids = padded_ids(relevant)
    columns = list(range(ids.shape[1])) * 2
    random.shuffle(columns)
    assert same_all(states(ONE_EACH, preds, ids), states(ONE_EACH, preds, ids[:, columns]))


# Batches -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", FAMILIES, ids=str)
@for_each_metric
@given(seed=st.integers(0, 2**16), data=st.data())
def test_any_split_into_batches_gives_the_same_bits(
    case: Case, seed: int, data: st.DataObject
) -> None:
    """The state, and so the value, does not depend on how the rows came."""
    torch.manual_seed(seed)
    preds, target = batch(n=11)
    mask = torch.rand(11) < 0.8
    whole = updated(case.make(), preds, target, mask=mask)
    parts = case.make()
    order = torch.tensor(data.draw(st.permutations(range(11))))
    sizes = data.draw(st.lists(st.integers(1, 5), max_size=6))
    for p, t, m in split(sizes, preds[order], target[order], mask[order]):
        parts.update(p, t, mask=m)
    assert same(whole.metric_state, parts.metric_state)
    assert same(whole.compute(), parts.compute())
    assert whole.num_queries == parts.num_queries


@pytest.mark.parametrize("case", FAMILIES, ids=str)
def test_an_empty_batch_changes_nothing(case: Case) -> None:
    """A batch of no queries is a batch."""
    metric = case.make()
    metric.update(torch.zeros(0, LOCATIONS), torch.zeros(0, dtype=torch.long))
    assert metric.num_queries == 0
    assert metric.compute().isnan()
    preds, target = batch()
    metric.update(preds, target)
    metric.update(preds[:0], target[:0])
    assert same(state(metric), state(updated(case.make(), preds, target)))


# Within and between scores -----------------------------------------------------------------------


@over_all_metrics
@given(graded_relevant(DIRTY))
def test_scores_are_fractions(batch: tuple[Tensor, Tensor]) -> None:
    """Every value lies in [0, 1] or, without data, is NaN."""
    for value in values(LAW_CASES, *batch):
        assert math.isnan(value) or 0 <= value <= 1


@over_all_metrics
@given(graded_relevant(DIRTY), st.data())
def test_a_nan_never_helps(batch: tuple[Tensor, Tensor], data: st.DataObject) -> None:
    """Whatever score becomes NaN, no metric rises."""
    preds, relevance = batch
    n, c = preds.shape
    worse = preds.clone()
    cells = st.tuples(st.integers(0, n - 1), st.integers(0, c - 1))
    for row, column in data.draw(st.lists(cells, min_size=1, max_size=3)):
        worse[row, column] = math.nan
    before, after = values(LAW_CASES, preds, relevance), values(LAW_CASES, worse, relevance)
    for case, was, became in zip(LAW_CASES, before, after, strict=True):
        assert became <= was + 1e-7 or math.isnan(became) or math.isnan(was), str(case)


@over_all_metrics
@given(graded_relevant(DIRTY), st.data())
def test_scoring_a_relevant_location_minus_infinity_never_helps(
    batch: tuple[Tensor, Tensor], data: st.DataObject
) -> None:
    """A model that rules a right answer out cannot gain by it, at equal relevance."""
    preds, relevance = batch
    relevant = relevance > 0
    n, c = preds.shape
    row, column = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, c - 1))
    assume(relevant[row, column] and not preds[row, column].isnan())
    worse = preds.clone()
    worse[row, column] = -math.inf
    # A shorter list has a smaller divisor, so precision over what was retrieved may rise.
    cases = [case for case in LAW_CASES if "denominator" not in case.options]
    before, after = values(cases, preds, relevant), values(cases, worse, relevant)
    for case, was, became in zip(cases, before, after, strict=True):
        assert became <= was + 1e-7 or math.isnan(was), str(case)


@examples(8)
@given(graded_relevant(DIRTY))
def test_optimists_exceed_expectation_and_pessimists_fall_below(
    batch: tuple[Tensor, Tensor],
) -> None:
    """The tie policies come in their order, query by query."""
    ranking = Ranking.from_scores(*batch)
    ranking = ranking[ranking.num_relevant > 0]
    best, worst = ranking.break_ties("optimistic"), ranking.break_ties("pessimistic")
    for k in KS:
        for score in SCORES:
            expected = score(ranking, k)
            assert (score(best, k) >= expected - 1e-12).all()
            assert (score(worst, k) <= expected + 1e-12).all()
        for gain in ("linear", "exponential"):
            expected = scoring.ndcg(ranking, k, gain)
            assert (scoring.ndcg(best, k, gain) >= expected - 1e-12).all()
            assert (scoring.ndcg(worst, k, gain) <= expected + 1e-12).all()


# Forms of the same batch -------------------------------------------------------------------------


@over_all_metrics
@given(one_relevant(DIRTY))
def test_forms_of_one_relevant_location_agree(batch: tuple[Tensor, Tensor]) -> None:
    """One id, padded ids, bool and 0/1 relevance give the same bits."""
    preds, ids = batch
    relevant = torch.nn.functional.one_hot(ids, preds.shape[1]).bool()
    cases = [*FORMULAS, one_f1(preds.shape[1])]
    expected = states(cases, preds, ids)
    padded = torch.stack([ids, torch.full_like(ids, -1), ids], 1)
    for target in (ids[:, None], padded, padded.flip(1), relevant, relevant.float()):
        assert same_all(states(cases, preds, target), expected)


@over_all_metrics
@given(several_relevant(DIRTY))
def test_forms_of_several_relevant_locations_agree(batch: tuple[Tensor, Tensor]) -> None:
    """Padded ids, bool and 0/1 relevance in every float dtype give the same bits."""
    preds, relevant = batch
    expected = states(ONE_EACH, preds, relevant)
    for target in (
        padded_ids(relevant),
        padded_ids(relevant, extra=4),
        relevant.float(),
        relevant.double(),
        relevant.half(),
    ):
        assert same_all(states(ONE_EACH, preds, target), expected)


@over_all_metrics
@given(several_relevant(), st.sampled_from([3, 4, 6]))
def test_lists_equal_scores_where_they_hold_the_first_k(
    batch: tuple[Tensor, Tensor], length: int
) -> None:
    """A list of the best three, or more, gives the bits the scores give."""
    preds, relevant = batch
    preds = preds + torch.arange(preds.shape[1]) * 1e-3
    lists = preds.argsort(dim=-1, descending=True)[:, :length]
    complete = lists.shape[1] == preds.shape[1]
    cases = [case for case in FORMULAS if "k" in case.options or complete]
    for target in (relevant, padded_ids(relevant)):
        assert same_all(states(cases, lists, target), states(cases, preds, target))
    ids = lists[:, 0]
    f1 = [one_f1(preds.shape[1])]
    assert same_all(states(f1, lists, ids), states(f1, preds, ids))


@over_all_metrics
@given(id_lists(), st.integers(1, 3))
def test_padding_of_lists_changes_nothing(batch: tuple[Tensor, Tensor], extra: int) -> None:
    """More -1 behind the lists or the relevant ids say nothing new."""
    lists, relevant = batch
    pad = torch.full((len(lists), extra), -1)
    assert same_all(
        states(ONE_EACH, lists, relevant),
        states(ONE_EACH, torch.cat([lists, pad], 1), torch.cat([relevant, pad], 1)),
    )


@pytest.mark.parametrize("case", FAMILIES, ids=str)
def test_time_steps_equal_the_flattened_form(case: Case) -> None:
    """`[B, T, C]` scores, `[B, T]` targets and mask are `B x T` queries."""
    preds, target = torch.randint(4, (3, 5, LOCATIONS)).float(), torch.randint(LOCATIONS, (3, 5))
    mask = torch.rand(3, 5) < 0.7
    deep = updated(case.make(), preds, target, mask=mask)
    flat = updated(case.make(), preds.flatten(0, 1), target.flatten(), mask=mask.flatten())
    assert same(state(deep), state(flat))
    assert same(deep.compute(), flat.compute())


@pytest.mark.parametrize("case", [*FORMULAS, one_f1(LOCATIONS)], ids=str)
@for_each_metric
@given(seed=st.integers(0, 2**16), data=st.data())
def test_mask_and_ignore_index_equal_filtering(case: Case, seed: int, data: st.DataObject) -> None:
    """Leaving rows out by mask, by ignored id, or beforehand gives the same bits."""
    torch.manual_seed(seed)
    preds, target = batch(n=9)
    keep = torch.tensor(data.draw(st.lists(st.booleans(), min_size=9, max_size=9)))
    expected = state(updated(case.make(), preds[keep], target[keep]))
    assert same(state(updated(case.make(), preds, target, mask=keep)), expected)
    for ignored in (-100, LOCATIONS, -1):
        marked = torch.where(keep, target, ignored)
        assert same(state(updated(case.make(ignore_index=ignored), preds, marked)), expected)
    anything = torch.where(keep, target, torch.tensor(10**6))
    assert same(state(updated(case.make(), preds, anything, mask=keep)), expected)
    nothing = torch.where(keep[:, None], preds, math.nan)
    assert same(state(updated(case.make(), nothing, target, mask=keep)), expected)


@over_all_metrics
@given(several_relevant(DIRTY), st.integers(0, 5))
def test_an_ignored_id_is_never_relevant(batch: tuple[Tensor, Tensor], ignored: int) -> None:
    """Ignoring an id equals striking it from the relevant ones, if that leaves any."""
    preds, relevant = batch
    ignored %= preds.shape[1]
    struck = relevant.clone()
    struck[:, ignored] = False
    keep = struck.any(1) | ~relevant.any(1)
    for case in FORMULAS:
        metric = updated(case.make(ignore_index=ignored), preds, relevant)
        expected = updated(case.make(), preds, struck, mask=keep)
        assert same(state(metric), state(expected))
        ids = updated(case.make(ignore_index=ignored), preds, padded_ids(relevant))
        assert same(state(ids), state(expected))


# Dtypes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", FAMILIES, ids=str)
def test_dtypes_change_nothing(case: Case) -> None:
    """Scores in any float dtype that holds them, ids in any integer dtype, give the same bits."""
    preds, target = batch(n=12)
    expected = state(updated(case.make(), preds, target))
    # probabilities of float64 scores are computed in float64
    wide = [] if case in PROBABILITY_CASES else [torch.float64]
    for dtype in (torch.float16, torch.bfloat16, *wide):
        assert same(state(updated(case.make(), preds.to(dtype), target)), expected)
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32):
        assert same(state(updated(case.make(), preds, target.to(dtype))), expected)
    if case in PROBABILITY_CASES:
        return  # lists have no probabilities
    lists = torch.stack([torch.randperm(LOCATIONS) for _ in range(12)])
    by_lists = state(updated(case.make(), lists, target))
    for dtype in (torch.uint8, torch.int16, torch.int32):
        assert same(state(updated(case.make(), lists.to(dtype), target.to(dtype))), by_lists)
