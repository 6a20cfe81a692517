"""Bad input: an error that says what is wrong, and a state that is as it was."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    AnsweredShare,
    Coverage,
    Grouped,
    GroupLabels,
    LocationF1,
    NDCGAtK,
    PerQueryScores,
    PopularityBins,
    PrecisionAtK,
    Ranking,
    RankingCollection,
    SequenceAccuracy,
    analysis,
    functional,
    next_location_metrics,
    protocols,
    recommendation_metrics,
    report,
)
from nextloc_metrics.distributed import padding_mask
from nextloc_metrics.metrics.visits import GroupShare
from strategies import LOCATIONS, Case, batch, same, state, updated

Wrong = (ValueError, TypeError)
SCORES = torch.tensor([[0.1, 0.9, 0.3, 0.2, 0.0, 0.5]]).repeat(4, 1)
IDS = torch.tensor([1, 2, 0, 5])


# Options -----------------------------------------------------------------------------------------

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


@pytest.mark.parametrize("kind", [np.uint8, torch.tensor])
@pytest.mark.parametrize("name", INTEGERS)
def test_numpy_integers_are_integers(name: str, kind: Any) -> None:
    """As an option: the same object, with the same names of states."""
    if name == "missing" and kind is np.uint8:
        kind = np.int8
    made, expected = INTEGERS[name](kind(3)), INTEGERS[name](3)
    assert repr(made) == repr(expected)
    if isinstance(made, torch.nn.Module):
        assert list(made.state_dict()) == list(expected.state_dict())
        assert getattr(made, "_state_name", None) == getattr(expected, "_state_name", None)


# Input -------------------------------------------------------------------------------------------

BAD: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "target beyond the candidates": (
        SCORES, torch.tensor([1, 6, 0, 0]), {}, r"`target`.*6",
    ),
    "negative target": (SCORES, torch.tensor([1, -1, 0, 0]), {}, r"`target`.*-1"),
    "target of -100": (SCORES, torch.tensor([1, -100, 0, 0]), {}, r"`target`.*-100"),
    "relevant id beyond": (SCORES, torch.tensor([[1, 6]] * 4), {}, r"`target`.*6"),
    "relevant id below the padding": (SCORES, torch.tensor([[1, -2]] * 4), {}, r"`target`.*-2"),
    "floating ids": (SCORES, torch.tensor([1.0, 2.0, 0.0, 0.0]), {}, r"`target`"),
    "bool ids": (SCORES, torch.tensor([True, False, True, True]), {}, r"`target`"),
    "too few targets": (SCORES, torch.tensor([1, 2, 0]), {}, r"`target`.*3"),
    "too many targets": (SCORES, torch.tensor([1, 2, 0, 0, 0]), {}, r"`target`.*5"),
    "target of too many dimensions": (
        SCORES, torch.zeros(4, 2, 2, dtype=torch.long), {}, r"`target`",
    ),
    "relevance of other width": (SCORES, torch.zeros(4, 5), {}, r"`target`.*5"),
    "bool relevance of other width": (
        SCORES, torch.zeros(4, 5, dtype=torch.bool), {}, r"`target`.*5",
    ),
    "negative relevance": (SCORES, torch.full((4, 6), -0.5), {}, r"`target`.*-0\.5"),
    "NaN relevance": (SCORES, torch.full((4, 6), math.nan), {}, r"`target`.*nan"),
    "integer 0/1 relevance": (
        SCORES, torch.tensor([[1, 0, 0, 1, 0, 0]] * 4), {}, r"`target`.*bool",
    ),
    "no candidates": (torch.zeros(4, 0), IDS, {}, r"`preds`"),
    "scores without dimensions": (torch.tensor(0.5), torch.tensor(0), {}, r"`preds`"),
    "one answer per query": (IDS, IDS, {}, r"`preds`.*two dimensions.*int64 \(4,\).*\[:, None\]"),
    "one list of another length": (IDS[:3], IDS, {}, r"`preds`.*two dimensions.*`preds\[None\]`"),
    "ids of one dimension and relevance": (IDS, SCORES[0] > 0.3, {}, r"`preds`.*two dimensions"),
    "topk whole": (SCORES.topk(2), IDS, {}, r"`preds`.*`preds\.indices`"),
    "topk as a tuple": (tuple(SCORES.topk(2)), IDS, {}, r"`preds`.*`preds\.indices`"),
    "bool scores": (SCORES > 0.3, IDS, {}, r"`preds`.*bool"),
    "complex scores": (SCORES.to(torch.complex64), IDS, {}, r"`preds`.*complex"),
    "visit counts": (
        torch.randint(3, (4, 100)), IDS, {}, r"`preds`.*pass scores as `\.float\(\)`",
    ),
    "mask of another shape": (
        SCORES, IDS, {"mask": torch.ones(3, dtype=torch.bool)}, r"`mask`.*3",
    ),
    "mask of integers": (SCORES, IDS, {"mask": torch.ones(4, dtype=torch.long)}, r"`mask`.*int64"),
    "mask of floats": (SCORES, IDS, {"mask": torch.ones(4)}, r"`mask`.*float"),
    "exclude beyond": (SCORES, IDS, {"exclude": torch.tensor([[6]] * 4)}, r"`exclude`.*6"),
    "exclude of floats": (SCORES, IDS, {"exclude": SCORES}, r"`exclude`.*float32"),
    "a list with a negative id": (torch.tensor([[1, -2]] * 4), IDS, {}, r"`preds`.*-2"),
    "mask of another kind": (SCORES, IDS, {"mask": "True"}, r"`mask`.*str"),
    "preds as text": ("scores", IDS, {}, r"`preds`.*str 'scores'"),
    "preds of two lengths": ([[0.5, 0.2], [0.1]], IDS, {}, r"`preds`.*row 1 of length 1"),
    "preds without a value": ([[1, None]] * 4, IDS, {}, r"`preds`.*missing value.*row 0"),
    "target as a set": (SCORES, {1, 2}, {}, r"`target`.*set"),
    "no target": (SCORES, None, {}, r"`target`"),
}  # fmt: skip
KINDS = [
    Case("AccuracyAtK", {"k": 3}),
    Case("MRR"),
    Case("F1AtK", {"k": 3, "average": "pooled"}),
    Case("PrecisionAtK", {"k": 3, "denominator": "retrieved"}),
    Case("LocationF1", {"num_locations": LOCATIONS}),
]


@pytest.mark.parametrize(
    ("case", "name"), [(KINDS[i % len(KINDS)], name) for i, name in enumerate(BAD)], ids=str
)
def test_bad_input_is_named_and_changes_nothing(case: Case, name: str) -> None:
    """Metrics, collections and functions refuse bad input and leave what was accumulated."""
    preds, target, more, message = BAD[name]
    first, fine = batch(), (torch.ones(2, LOCATIONS), torch.tensor([0, 3]))
    metric, metrics = updated(case.make(), *first), next_location_metrics(LOCATIONS)
    metrics.update(*first)
    value, before, queries = metric.compute(), state(metric), metric.num_queries
    of_members = {key: state(member) for key, member in metrics.items()}
    refuse: list[Any] = [metric.update, metric, metrics.update, metrics, functional.mrr]
    for way in refuse:
        with pytest.raises(Wrong, match=f"(?s){message}"):
            way(preds, target, **more)
        assert same(state(metric), before)
    assert metric.num_queries == queries
    assert same(metric.compute(), value)
    assert all(same(state(member), of_members[key]) for key, member in metrics.items())
    metric.reset()
    metric.update(*fine)
    assert same(metric.compute(), updated(case.make(), *fine).compute())


@pytest.mark.parametrize("target", [IDS, IDS[:3]], ids=["as many", "fewer"])
def test_one_answer_per_query_has_two_dimensions(target: Tensor) -> None:
    """An evaluation and metrics of probabilities say so too; one query may have one target."""
    options: dict[str, Any] = {"confidence": torch.ones(4)}
    for read in (
        lambda: report.evaluate(IDS, target, num_locations=LOCATIONS),
        lambda: AnsweredShare()(IDS, target, **options),
    ):
        with pytest.raises(ValueError, match=r"`preds`.*two dimensions.*`preds\[:, None\]`"):
            read()
    assert MRR()(IDS, IDS[1]) == 0.5
    assert MRR()(IDS[:, None], IDS) == 1.0


def test_an_empty_query_is_an_error_on_request() -> None:
    """`empty_target_action="error"` refuses a query without a relevant location."""
    good = torch.tensor([[0], [1]])
    for case in KINDS[:4]:
        metric = updated(case.make(empty_target_action="error"), SCORES[:2], good)
        before = state(metric)
        for way in (metric.update, metric):
            with pytest.raises(ValueError, match="relevant"):
                way(SCORES[:2], torch.tensor([[0], [-1]]))
            assert same(state(metric), before)
        metric.update(SCORES[:2], torch.tensor([[0], [-1]]), mask=torch.tensor([True, False]))
        assert metric.num_queries == 3


def test_an_ignored_query_is_no_empty_query() -> None:
    """A query all of whose ids are ignored is left out, whatever is done with empty ones."""
    target = torch.tensor([[0, 0], [1, 0], [1, 1], [1, -1]])
    for action in ("skip", "neg", "pos", "error"):
        metric = MRR(ignore_index=1, empty_target_action=action)
        metric.update(SCORES, target)
        assert metric.num_queries == 2


def test_location_f1_knows_its_locations() -> None:
    """More locations scored, or visited, than there are is an error with both numbers."""
    metric = updated(LocationF1(10), torch.rand(4, 10), torch.tensor([0, 3, 9, 9]))
    before = state(metric)
    for way in (metric.update, metric):
        with pytest.raises(ValueError, match=r"(?s)(11.*10|10.*11)"):
            way(torch.rand(4, 11), torch.tensor([0, 1, 2, 3]))
        with pytest.raises(ValueError, match=r"(?s)(12.*10|10.*12)"):
            way(torch.tensor([[2, 3], [1, 2]]), torch.tensor([1, 12]))
        assert same(state(metric), before)


def test_a_ranking_that_kept_too_little() -> None:
    """A metric that needs the best candidate refuses a `Ranking` without it."""
    ranking = Ranking.from_scores(SCORES, IDS)
    metric = LocationF1(LOCATIONS)
    with pytest.raises(ValueError, match="best=True"):
        metric.update(ranking)
    assert metric.num_queries == 0


def test_a_list_has_no_number_of_locations() -> None:
    """Ids of any size are fine in lists."""
    lists = torch.tensor([[10**12, 5], [7, 10**15]])
    target = torch.tensor([5, 10**15])
    assert updated(MRR(), lists, target).compute() == 0.5


def test_masked_queries_may_hold_anything() -> None:
    """Nothing of a masked query is looked at."""
    mask = torch.tensor([True, False, False, False])
    scores = SCORES.clone()
    scores[1:] = math.nan
    lists = torch.stack([torch.arange(70)] * 4)
    lists[1:] = torch.tensor([[-5], [0], [1]])  # the last two as visit counts
    for target in (torch.tensor([1, -100, 10**6, -(10**12)]), torch.tensor([[1], [-9], [77], [6]])):
        for case in KINDS:
            assert updated(case.make(), scores, target, mask=mask).num_queries == 1
        assert updated(MRR(), lists, target, mask=mask).compute() == 0.5
    relevance = torch.full((4, 6), -1.0)
    relevance[0] = torch.tensor([0.0, 1, 0, 0, 0, 0])
    relevance[2] = math.nan
    assert updated(MRR(), scores, relevance, mask=mask).compute() == 1


def test_without_validation_nothing_is_refused() -> None:
    """`validate_args=False` drops the checks that read values, as a negative relevance."""
    relevance = torch.tensor([[0.0, 1.0, -1.0, 0.0, 0.0, 0.0]]).repeat(4, 1)
    metric = MRR(validate_args=False)
    metric.update(SCORES, relevance)
    assert metric.compute() == 1.0


def test_rankings_check_their_input_too() -> None:
    """The constructors refuse the other form of `preds`."""
    with pytest.raises(TypeError, match=r"pass integer scores as `\.float\(\)`"):
        Ranking.from_scores(torch.tensor([[1, 2, 3]]), torch.tensor([1]))
    with pytest.raises(Wrong, match="`preds`"):
        Ranking.from_lists(SCORES, IDS)


def test_text_in_several_columns_is_no_row_of_text() -> None:
    """Groups of four queries in two rows of two are not the groups of these queries."""
    pairs, scores, target = [["a", "b"], ["a", "b"]], torch.eye(4), torch.arange(4)
    metric = Grouped(MRR(), labels=GroupLabels(["a", "b"]))
    with pytest.raises(ValueError, match=r"`groups` must be one row of text, got shape \(2, 2\)"):
        metric.update(scores, target, groups=np.array(pairs))
    with pytest.raises(
        ValueError, match=r"`groups\['user'\]` must be one row of text, got shape \(2, 2\)"
    ):
        report.evaluate(scores, target, groups={"user": pairs}, k=1)


@pytest.mark.parametrize("name", ["num_locations", "num_groups"])
def test_numbers_beyond_any_memory_are_refused(name: str) -> None:
    """When a metric is made, and not by an overflow in its update."""
    makers: dict[str, Callable[[int], Any]] = {
        "num_locations": LocationF1,
        "num_groups": lambda number: Grouped(MRR(), number),
    }
    for number in (2**40 + 1, 2**63, 10**30):
        with pytest.raises(ValueError, match=rf"`{name}` must be at most 2\^40, got [19]"):
            makers[name](number)
    with pytest.raises(ValueError, match="`ignore_index` must be None or an integer of 64 bits"):
        MRR(ignore_index=10**30)


def test_groups_on_another_device_are_refused() -> None:
    """With both devices, and the remedy."""
    with pytest.raises(ValueError, match="`groups` must be on the device of the scores, cpu, got"):
        Grouped(MRR(), 3).update(SCORES, IDS, groups=IDS.to("meta"))


def test_padding_inside_a_list_is_no_part_of_its_length() -> None:
    """Precision over what was retrieved counts the written entries, alone and beside others."""
    preds, target = torch.tensor([[0, 9, -1, 2]]), torch.tensor([0])
    alone = PrecisionAtK(3, "retrieved")
    beside = RankingCollection({"p": alone.clone(), "q": PrecisionAtK(4, "retrieved")})
    for metric in (alone, beside):
        metric.update(preds, target)
    assert alone.compute() == beside.compute()["p"] == torch.tensor(1 / 3)


def test_a_refused_first_update_is_none() -> None:
    """`compute` then warns that there was no update, as TorchMetrics does."""
    metric = MRR()
    with pytest.raises(ValueError, match="`target`"):
        metric.update(SCORES, IDS + 9)
    assert not metric.update_called
    with pytest.warns(UserWarning, match="before the ``update`` method"):
        assert metric.compute().isnan()


# Kinds of tensors --------------------------------------------------------------------------------

SPARSE: dict[str, Callable[[Any], Any]] = {
    "preds": lambda of: MRR().update(of(SCORES), IDS),
    "preds of a collection": lambda of: next_location_metrics(6).update(of(SCORES), IDS),
    "preds that are lists": lambda of: MRR().update(of(IDS[:, None]), IDS),
    "target": lambda of: MRR().update(SCORES, of(SCORES)),
    "target of a collection": lambda of: next_location_metrics(6).update(SCORES, of(SCORES > 0.8)),
    "mask": lambda of: MRR().update(
        SCORES.expand(4, 4, 6), IDS.expand(4, 4), mask=of(torch.ones(4, 4, dtype=torch.bool))
    ),
    "exclude": lambda of: MRR().update(SCORES, IDS, exclude=of(SCORES > 1)),
    "groups": lambda of: Grouped(MRR(), 6).update(
        SCORES.expand(4, 4, 6), IDS.expand(4, 4), groups=of(IDS.expand(4, 4))
    ),
    "local_scores": lambda of: Ranking.from_sharded_scores(of(SCORES), IDS, 0),
    "queries": lambda of: Ranking.from_embeddings(of(SCORES), SCORES, IDS),
    "table": lambda of: Ranking.from_embeddings(SCORES, of(SCORES), IDS % 4),
    "ranks": lambda of: Ranking.from_ranks(of(IDS[:, None] + 1)),
    "query_ids": lambda of: PerQueryScores(MRR()).update(
        SCORES.expand(4, 4, 6), IDS.expand(4, 4), query_ids=of(IDS.expand(4, 4))
    ),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
@pytest.mark.parametrize("kind", ["to_sparse", "to_sparse_csr"])
@pytest.mark.parametrize("name", SPARSE)
def test_sparse_tensors_are_refused(name: str, kind: str) -> None:
    """Whatever argument they are, by its name and with the remedy."""
    argument = name.split()[0]
    says = rf"`{argument}` must be a dense tensor, got layout torch.sparse.*`{argument}\.to_dense"
    with pytest.raises(TypeError, match=says):
        SPARSE[name](lambda tensor: getattr(tensor.contiguous(), kind)())


def test_nested_tensors_are_refused() -> None:
    """Rows of different lengths in one tensor are to be padded."""
    lists = torch.nested.nested_tensor([IDS, IDS[:2]], layout=torch.jagged)
    with pytest.raises(TypeError, match=r"`preds` must be a dense tensor.*to_padded_tensor"):
        MRR().update(lists, IDS[:2])


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
    graded, expected = NDCGAtK(3), NDCGAtK(3)
    assert same(graded(SCORES, low), expected(SCORES, low.float()))
    shards = Ranking.from_sharded_scores(low, IDS, 0)
    assert repr(shards) == repr(Ranking.from_scores(low.float(), IDS))


def test_embeddings_of_eight_bits_are_refused() -> None:
    """PyTorch has no plain matrix product for them."""
    low = SCORES.to(torch.float8_e4m3fn)
    with pytest.raises(TypeError, match=r"`queries` must have at least 16 bits.*bfloat16"):
        Ranking.from_embeddings(low, low, IDS % 4)


@pytest.mark.skipif(not hasattr(torch, "float4_e2m1fn_x2"), reason="needs PyTorch 2.8")
def test_floats_of_four_bits_are_refused() -> None:
    """Two numbers of one byte cannot be told apart."""
    packed = torch.zeros(4, 6, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    with pytest.raises(TypeError, match=r"`preds` must have at least 8 bits.*float4_e2m1fn_x2"):
        MRR().update(packed, IDS)


# Missing values ----------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["NA", "NaT", "nan", None])
@pytest.mark.parametrize("form", [list, "object", "string", "category"])
def test_missing_groups_are_named(form: Any, missing: str | None) -> None:
    """By their row, however pandas writes what is missing."""
    pd = pytest.importorskip("pandas")
    gap = {"NA": pd.NA, "NaT": pd.NaT, "nan": math.nan, None: None}[missing]
    names = ["a", "b", gap, "c"]
    groups = names if form is list else pd.Series(names, dtype=form)
    metric = Grouped(MRR(), labels=["a", "b", "c"])
    for read in (lambda x: metric.update(SCORES, IDS, groups=x), GroupLabels.from_values):
        with pytest.raises(ValueError, match="must have no missing value, got one in row 2"):
            read(groups)
    numbers = pd.Series([0, 1, pd.NA, 2], dtype="Int64")
    with pytest.raises(ValueError, match=r"`groups` must have no missing value, got one in row 2"):
        Grouped(MRR(), 3).update(SCORES, IDS, groups=numbers)
    assert not metric.update_called


def test_numbers_next_to_text_are_refused() -> None:
    """A number does not become the text of itself."""
    with pytest.raises(
        TypeError, match=r"`values` must be all text or all numbers, got 3 in row 1"
    ):
        GroupLabels.from_values(["a", 3])


def test_missing_ids_in_rows_are_named() -> None:
    """Rows of different lengths with pandas' missing value."""
    pd = pytest.importorskip("pandas")
    for rows in ([[1, 2], [pd.NA], [3], [4]], [[1], [pd.NA], [3], [4]]):
        with pytest.raises(
            ValueError, match="`target` must have no missing value, got one in row 1"
        ):
            MRR().update(SCORES, rows)
