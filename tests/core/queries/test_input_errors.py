"""Bad input: an error that says what is wrong, and a state that is as it was."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import nextloc_metrics as nm
from inner import GroupShare
from metric_entries import case_of
from metric_tester import LOCATIONS, Case
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    Coverage,
    Grouped,
    GroupLabels,
    LocationF1,
    NDCGAtK,
    PopularityBins,
    PrecisionAtK,
    Ranking,
    RankingCollection,
    SequenceAccuracy,
    analysis,
    functional,
    geography,
    next_location_metrics,
    protocols,
    recommendation_metrics,
    report,
)
from nextloc_metrics.distributed import padding_mask
from strategies import batch, same, state, updated, with_case_in_error

SCORES = torch.tensor([[0.1, 0.9, 0.3, 0.2, 0.0, 0.5]]).repeat(4, 1)
IDS = torch.tensor([1, 2, 0, 5])

#: what takes an integer, by the option that it is
INTEGERS: dict[str, Callable[[Any], Any]] = {
    "k": AccuracyAtK,
    "k of a preset": lambda number: next_location_metrics(LOCATIONS, k=number),
    "cut-offs": lambda number: recommendation_metrics(k=(number, 5)),
    "num_locations": LocationF1,
    "ignore_index": lambda number: MRR(ignore_index=number),
    "first": lambda number: SequenceAccuracy(first=number),
    "num_groups": lambda number: Grouped(MRR(), number),
    "group": lambda number: Grouped(MRR(), 4, group=number),
    "share": lambda number: GroupShare(number, by="visited"),
    "num_bins": lambda number: PopularityBins([1, 2, 0], num_bins=number),
    "top": lambda number: Ranking.from_scores(SCORES, IDS, top=number),
    "depth": lambda number: Ranking.from_lists(IDS[:, None], IDS, depth=number),
    "missing": lambda number: Ranking.from_ranks([1, -3], missing=-number),
    "offset": lambda number: Ranking.from_sharded_scores(SCORES, IDS, offset=number - 3),
    "chunk_size": lambda number: Ranking.from_embeddings(
        SCORES, SCORES, IDS % 4, chunk_size=number
    ),
    "num_candidates": lambda number: analysis.chance(MRR(), number),
    "num_queries": lambda number: analysis.most_frequent([5, 2], number).tolist(),
    "num_replicas": lambda number: padding_mask(number, number, number - 1).tolist(),
    "evaluate": lambda number: report.evaluate(SCORES, IDS, k=number, num_locations=number + 3),
    "audit": lambda number: protocols.audit(SCORES, IDS, k=number),
}


@pytest.mark.parametrize("kind", [np.int8, torch.tensor])
@pytest.mark.parametrize("name", INTEGERS)
def test_numpy_integers_are_integers(name: str, kind: Any) -> None:
    """As an option: the same object, with the same names of states."""
    made, expected = INTEGERS[name](kind(3)), INTEGERS[name](3)
    assert repr(made) == repr(expected)
    if isinstance(made, torch.nn.Module):
        assert list(made.state_dict()) == list(expected.state_dict())
        assert getattr(made, "_state_name", None) == getattr(expected, "_state_name", None)


#: wrong values of each argument of an update, beside SCORES and IDS; `messages.txt` has the errors
BAD: dict[str, list[Any]] = {
    "preds": [
        *(torch.zeros(4, 0), torch.tensor(0.5), IDS, IDS[:3], SCORES.topk(2)),
        *(tuple(SCORES.topk(2)), SCORES > 0.3, SCORES.to(torch.complex64), "scores"),
        *(torch.arange(400).view(4, 100) % 3, [[1, -2]] * 4, [[0.5, 0.2], [0.1]], [[1, None]] * 4),
        *([None, 1], np.array([[1], [None]], object), [1, [2]], ["a", "b"], [1 << 70], {1: 2}, 3),
        *(np.array(["2020-01-01"], "M8[D]"), np.array([1 << 63], np.uint64)),
        np.ma.masked_array([1, 2], [False, True]),
    ],
    "target": [
        *([1, 6, 0, 0], [1, -1, 0, 0], [1, -100, 0, 0], [[1, 6]] * 4, [[1, -2]] * 4, [1, 2, 0]),
        *([1.0, 2.0, 0.0, 0.0], [True, False, True, True], [1, 2, 0, 0, 0], [[[0] * 2] * 2] * 4),
        *([[0.0] * 5] * 4, [[False] * 5] * 4, [[-0.5] * 6] * 4, [[math.nan] * 6] * 4),
        *([[math.inf] * 6] * 4, [[1, 0, 0, 1, 0, 0]] * 4, {1, 2}, None),
    ],
    "mask": [[True] * 3, [1, 1, 1, 1], [1.0] * 4, "True"],
    "exclude": [
        *(
            [[6]] * 4,
            [[-2]] * 4,
            SCORES,
            [1, 2],
            [[0]] * 3,
            [[False] * 7] * 4,
            "visited",
            [[1]] * 4,
        ),
    ],
}
KINDS = [
    case_of("AccuracyAtK", k=3),
    case_of("MRR"),
    case_of("F1AtK", k=3),
    case_of("PrecisionAtK", k=3, denominator="retrieved"),
    case_of("LocationF1", num_locations=LOCATIONS),
]


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("case", KINDS, ids=str)
def test_bad_input_is_named_and_changes_nothing(case: Case, name: str) -> None:
    """Metrics, collections and functions raise one error and leave what was accumulated."""
    first, fine = batch(), (torch.ones(2, LOCATIONS), torch.tensor([0, 3]))
    metric, metrics = updated(case.make(), *first), next_location_metrics(LOCATIONS)
    metrics.update(*first)
    value, before, queries = metric.compute(), state(metric), metric.num_queries
    of_members, new = {key: state(member) for key, member in metrics.items()}, case.make()
    for wrong in BAD[name]:
        given, messages = {"preds": SCORES, "target": IDS, name: wrong}, set()
        for way in (metric.update, metric, metrics.update, metrics, functional.mrr, new.update):
            with (
                with_case_in_error(wrong),
                pytest.raises((ValueError, TypeError), match=f"`{name}`") as raised,
            ):
                way(**given)
            messages.add(str(raised.value))
            assert same(state(metric), before)
        assert len(messages) == 1, messages
    assert metric.num_queries == queries
    assert same(metric.compute(), value)
    assert all(same(state(member), of_members[key]) for key, member in metrics.items())
    metric.reset()
    metric.update(*fine)
    assert same(metric.compute(), updated(case.make(), *fine).compute())
    assert not new.update_called
    with pytest.warns(UserWarning, match="before the ``update`` method"):
        new.compute()


EMPTY = {"preds": SCORES[:2], "target": torch.tensor([[0], [-1]])}


def test_a_query_of_ignored_ids_is_no_empty_query() -> None:
    """It is left out, whatever is done with empty ones, as is an empty one that is masked."""
    target = torch.tensor([[0, 0], [1, 0], [1, 1], [1, -1]])
    for action in ("skip", "neg", "pos", "error"):
        assert (
            updated(MRR(ignore_index=1, empty_target_action=action), SCORES, target).num_queries
            == 2
        )
    metric = MRR(empty_target_action="error")
    assert updated(metric, **EMPTY, mask=torch.tensor([True, False])).num_queries == 1


def test_ids_of_lists_and_of_masked_queries_have_no_limit() -> None:
    """Any size is fine in lists; nothing of a masked query is looked at."""
    lists = torch.tensor([[10**12, 5], [7, 10**15]])
    assert MRR()(lists, torch.tensor([5, 10**15])) == 0.5
    mask, scores = torch.tensor([True, False, False, False]), SCORES.clone()
    scores[1:] = math.nan
    counts = torch.stack([torch.arange(70)] * 4)
    counts[1:] = torch.tensor([[-5], [0], [1]])  # the last two as visit counts
    for target in (torch.tensor([1, -100, 10**6, -(10**12)]), torch.tensor([[1], [-9], [77], [6]])):
        for case in KINDS:
            assert updated(case.make(), scores, target, mask=mask).num_queries == 1
        assert MRR()(counts, target, mask=mask) == 0.5


def test_without_validation_nothing_is_refused() -> None:
    """`validate_args=False` drops the checks that read values, as a negative relevance."""
    relevance = torch.tensor([[0.0, 1.0, -1.0, 0.0, 0.0, 0.0]]).repeat(4, 1)
    assert MRR(validate_args=False)(SCORES, relevance) == 1.0


def test_padding_inside_a_list_is_no_part_of_its_length() -> None:
    """Precision over what was retrieved counts the written entries, alone and beside others."""
    preds, target = torch.tensor([[0, 9, -1, 2]]), torch.tensor([0])
    alone = PrecisionAtK(3, "retrieved")
    beside = RankingCollection({"p": alone.clone(), "q": PrecisionAtK(4, "retrieved")})
    assert alone(preds, target) == beside(preds, target)["p"] == torch.tensor(1 / 3)


EIGHT_BITS = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]


@pytest.mark.parametrize("dtype", EIGHT_BITS)
def test_floats_of_eight_bits_are_their_values(dtype: torch.dtype) -> None:
    """As scores, shards of scores and relevance they give the bits of their values as float32."""
    low = SCORES.to(dtype)
    for make in (MRR, lambda: NDCGAtK(3), lambda: LocationF1(LOCATIONS), lambda: Coverage(6, k=3)):
        assert same(state(updated(make(), low, IDS)), state(updated(make(), low.float(), IDS)))
        deep = updated(make(), low[None], IDS[None], exclude=IDS[None, :, None] - 1)
        expected = updated(make(), low.float(), IDS, exclude=IDS[:, None] - 1)
        assert same(state(deep), state(expected))
    assert same(NDCGAtK(3)(SCORES, low), NDCGAtK(3)(SCORES, low.float()))
    shards = Ranking.from_sharded_scores(low, IDS, 0)
    assert repr(shards) == repr(Ranking.from_scores(low.float(), IDS))
    with pytest.raises(TypeError, match=r"`queries` must have at least 16 bits.*bfloat16"):
        Ranking.from_embeddings(low, low, IDS % 4)


@pytest.mark.skipif(not hasattr(torch, "float4_e2m1fn_x2"), reason="needs PyTorch 2.8")
def test_floats_of_four_bits_are_refused() -> None:
    """Two numbers of one byte cannot be told apart."""
    packed = torch.zeros(4, 6, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    with pytest.raises(TypeError, match=r"`preds` must have at least 8 bits.*float4_e2m1fn_x2"):
        MRR().update(packed, IDS)


@pytest.mark.parametrize("missing", ["NA", "NaT", "nan", None])
def test_missing_values_are_named(missing: str | None) -> None:
    """By their row, however pandas writes what is missing: in groups, and in rows of ids."""
    pd = pytest.importorskip("pandas")
    gap = {"NA": pd.NA, "NaT": pd.NaT, "nan": math.nan, None: None}[missing]
    names, says = ["a", "b", gap, "c"], "must have no missing value, got one in row "
    grouped, numbered = Grouped(MRR(), labels=["a", "b", "c"]), Grouped(MRR(), 3)
    integers = pd.Series([0, 1, pd.NA, 2], dtype="Int64")
    for form in (list, "object", "string", "category"):
        groups = names if form is list else pd.Series(names, dtype=form)
        for read in (lambda x: grouped.update(SCORES, IDS, groups=x), GroupLabels.from_values):
            with (
                with_case_in_error(form),
                pytest.raises(ValueError, match=rf"`(groups|values)` {says}2"),
            ):
                read(groups)
    with pytest.raises(ValueError, match=f"`groups` {says}2"):
        numbered.update(SCORES, IDS, groups=integers)
    assert not grouped.update_called
    assert not numbered.update_called
    for rows in ([[1, 2], [pd.NA], [3], [4]], [[1], [pd.NA], [3], [4]]):
        with pytest.raises(ValueError, match=f"`target` {says}1"):
            MRR().update(SCORES, rows)


ONE_TO_FIVE = torch.tensor([1, 5, 3, 2])
LISTS_FROM_ONE = torch.tensor([[1, 2], [5, 1], [3, 4], [2, 1]])
PLACES = geography.Locations(torch.zeros(5), torch.arange(5.0))


@pytest.mark.parametrize("metric", [
    nm.MRR(), nm.AccuracyAtK(k=1), nm.next_location_metrics(5), nm.LocationF1(5),
    geography.AccuracyWithin(PLACES, k=1, km=1), nm.DecileNDCG(nm.PopularityBins([1] * 5, 1), k=1),
], ids=lambda x: type(x).__name__)  # fmt: skip
@pytest.mark.parametrize("kind", ["scores", "lists"])
def test_ids_from_one_are_told_to_begin_at_zero(metric: Any, kind: str) -> None:
    """Where the largest target is the number of locations, and none is 0; else it is not said."""
    preds = torch.rand(4, 5) if kind == "scores" else LISTS_FROM_ONE
    if kind == "lists" and isinstance(metric, nm.MRR | nm.AccuracyAtK):
        metric.update(preds, ONE_TO_FIVE)  # no number of locations is known
        return
    with pytest.raises(ValueError, match=r"got .*5; ids begin at 0.* subtract 1") as error:
        metric.update(preds, ONE_TO_FIVE)
    assert "inf" not in str(error.value)
    for other in (ONE_TO_FIVE - 1).clamp(max=0) + torch.tensor([0, 5, 3, 2]), ONE_TO_FIVE + 1:
        with pytest.raises(ValueError, match="must ") as error:
            metric.update(preds, other)
        assert "subtract" not in str(error.value)


def test_evaluations_tell_ids_from_one() -> None:
    """Scores and lists, with the number of locations and with counts, in arrays and in a table."""
    scores = torch.rand(4, 5)
    for preds, options in (
        (scores, {}), (LISTS_FROM_ONE, {"num_locations": 5}),
        (LISTS_FROM_ONE, {"train_counts": [3, 1, 1, 1, 1]}),
    ):  # fmt: skip
        table = pd.DataFrame({"preds": preds.tolist(), "target": ONE_TO_FIVE.tolist()})
        for rows in ((preds, ONE_TO_FIVE), (table,)):
            with pytest.raises(ValueError, match=r"ids begin at 0.* subtract 1"):
                report.evaluate(*rows, k=1, **options)


def test_a_missing_target_beside_scores_gets_a_column() -> None:
    """The error names what counts it as a miss, and no option that is refused there."""
    scores, target = torch.rand(2, 5), [1, -1]
    table = pd.DataFrame({"preds": scores.tolist(), "target": target})
    truth = table.assign(u=[1, 2])
    source = report.Source(table, on_missing="miss")
    gap = table.assign(target=pd.array([1, None], dtype="Int64"))
    for rows in ((scores, target), (table,), (source,), (gap,)):
        with pytest.raises(ValueError, match=r"add a column.*-(torch\.)?inf.* its number, 5") as e:
            report.evaluate(*rows, k=1)
        assert "on_missing='miss'" not in str(e.value)
        assert "leave the row out" not in str(e.value)
    with pytest.raises(ValueError, match="beside scores, add a column of -inf"):
        report.evaluate(
            report.Source(truth[["u", "preds"]], truth=truth[["u", "target"]], query="u"), k=1
        )
    wider = [[*row, -torch.inf] for row in scores.tolist()]
    assert report.evaluate(wider, [1, 5], k=1).values["acc_at_1"] in (0, 0.5)


@pytest.mark.parametrize("make", ["csr_matrix", "csr_array", "coo_array"])
def test_sparse_matrices_of_scipy_are_told_to_be_dense(make: str) -> None:
    """As scores of a metric and of an evaluation."""
    scores = getattr(pytest.importorskip("scipy.sparse"), make)(np.eye(3))
    for call in (nm.MRR().update, report.evaluate):
        with pytest.raises(TypeError, match=r"use `preds\.toarray\(\)`"):
            call(scores, [0, 1, 2])
