"""Collections that add scores of one relevant location a query without a `Ranking`: same states."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing._internal.two_tensor import TwoTensor

from conftest import take_path, threads_allowed
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    F1AtK,
    Grouped,
    LocationF1,
    NDCGAtK,
    PrecisionAtK,
    Ranking,
    RankingCollection,
    next_location_metrics,
)
from nextloc_metrics.metric import RankingTally
from strategies import (
    CASES,
    DIRTY,
    LOCATIONS,
    batch,
    dirty_scores,
    one_relevant,
    same,
    state,
    states,
)

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
SCORES, TARGET = torch.tensor([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1]]), torch.tensor([2, 1])
Batch = tuple[Tensor, Tensor]
Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True, scope="module")
def _accelerated() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        take_path("accelerated", patch)
        yield


def collect(ignore_index: int | None = None, decisions: bool = True) -> RankingCollection:
    """Collect the metrics that can be updated without a `Ranking`, or those without decisions."""
    needs_one = {"ties", "denominator", "average"}
    members = {
        str(case): case.make(ignore_index=ignore_index)
        for case in CASES
        if "ignore_index" not in case.options
        if (decisions if case.name == "LocationF1" else not needs_one & case.options.keys())
    }
    return RankingCollection(members)  # type: ignore[arg-type]


def refuse_rankings(patch: Patch) -> None:
    """Raise where a `Ranking` is made."""

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a Ranking was made")

    patch.setattr(Ranking, "from_predictions", refuse)


@given(
    st.lists(one_relevant(values=DIRTY), min_size=1, max_size=3),
    st.sampled_from(DTYPES),
    st.sampled_from([None, -1, 0, 99]),
    st.booleans(),
)
def test_states_are_those_of_rankings(
    batches: list[Batch], dtype: torch.dtype, ignore_index: int | None, decisions: bool
) -> None:
    """With ties, NaN, infinities, other numbers of candidates; none is made that is not needed."""
    metrics, ranked = (collect(ignore_index, decisions) for _ in "ab")
    for collection in (metrics, ranked):
        collection.update(SCORES, TARGET)
    for number, (preds, target) in enumerate(batches, 2):
        scores = preds.to(dtype)
        ranked.update(ranked.rank(scores, target))
        with pytest.MonkeyPatch.context() as patch:
            refuse_rankings(patch)
            metrics.update(scores, target)
        assert same(states(metrics), states(ranked))
        assert same(metrics.compute(), ranked.compute())
        assert {member._update_count for member in metrics.values()} == {number}


@pytest.mark.parametrize(
    "needs_ranking",
    [
        AccuracyAtK(2, ties="optimistic"),
        MRR(ties="pessimistic"),
        F1AtK(2, average="pooled"),
        PrecisionAtK(2, denominator="retrieved"),
        Grouped(MRR(), num_groups=3, average="queries"),
    ],
    ids=str,
)
def test_beside_metrics_that_need_a_ranking(needs_ranking: RankingTally) -> None:
    """All members are handed one."""
    members = {"hit": AccuracyAtK(1), "f1": LocationF1(LOCATIONS), "other": needs_ranking}
    metrics, ranked = RankingCollection(members), copy.deepcopy(RankingCollection(members))
    groups = torch.arange(8) % 3 if isinstance(needs_ranking, Grouped) else None
    for _ in range(3):
        preds, target = batch(8)
        metrics.update(preds, target, groups=groups)
        ranked.update(ranked.rank(preds, target, groups=groups))
    assert same(states(metrics), states(ranked))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("columns", [1, 10, 5_000])
def test_no_ranking_is_made(dtype: torch.dtype, columns: int, monkeypatch: Patch) -> None:
    """Of large batches, on all threads, neither; nor of rows that are not adjacent."""
    scores = torch.randn(300, 2 * columns).to(dtype)[:, :columns].requires_grad_()
    target = torch.randint(columns, (600,))[::2]
    metrics, ranked = (next_location_metrics(columns, k=(1, 2), ignore_index=-1) for _ in "ab")
    for _ in range(2):
        metrics.update(scores[:5], target[:5])
        ranked.update(ranked.rank(scores[:5], target[:5]))
    ranked.update(ranked.rank(scores, target))
    refuse_rankings(monkeypatch)
    metrics.update(scores, target)
    assert same(states(metrics), states(ranked))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_add_to_the_same_states(threads: int, dtype: torch.dtype) -> None:
    """Each its part, and what all of them count none of them loses."""
    scores = dirty_scores(1_001, 300, dtype)
    target = torch.randint(-1, 3, (len(scores),))  # few, so that threads meet
    metrics, ranked = (next_location_metrics(300, ignore_index=-1) for _ in "ab")
    for _ in range(3):
        ranked.update(ranked.rank(scores, target))
        with threads_allowed(threads):
            metrics.update(scores, target)
    assert same(states(metrics), states(ranked))
    assert metrics["f1"].num_queries == 3 * (target >= 0).sum()


def test_metrics_that_need_none(monkeypatch: Patch) -> None:
    """All that average ties and divide by what is known: recommenders' metrics too."""
    metrics = collect()
    metrics.update(*batch())
    refuse_rankings(monkeypatch)
    metrics.update(*batch())
    assert {member.num_queries for member in metrics.values()} == {16}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "arguments",
    [
        (SCORES, TARGET.int()),
        (SCORES, TARGET[:, None]),
        (SCORES, torch.nn.functional.one_hot(TARGET, 3).bool()),
        (SCORES, torch.nn.functional.one_hot(TARGET, 3).double()),
        (SCORES.repeat(2, 1), TARGET.repeat(2), torch.tensor([True, True, False, False])),
        (SCORES, TARGET, None, torch.tensor([0, 1])),
        (torch._neg_view(-SCORES), TARGET),
        (SCORES, torch._neg_view(-TARGET)),
        (SCORES[None], TARGET[None]),
        (SCORES.t().contiguous().t(), TARGET),
        (torch.cat([SCORES, SCORES[:1]]), torch.tensor([2, 1, 7])),
        (SCORES.argsort(descending=True), TARGET),
    ],
)
def test_what_else_is_asked_for(arguments: tuple[Any, ...]) -> None:
    """Other forms of the same batch, and one with an ignored id, count the same."""
    metrics, expected = (next_location_metrics(3, ignore_index=7) for _ in "ab")
    for _ in range(2):
        expected.update(SCORES, TARGET)
    metrics.update(SCORES, TARGET)
    metrics.update(*arguments)
    assert same(states(metrics), states(expected))


def test_values_are_new_after_every_update() -> None:
    """Of all members, those that share a state too."""
    metrics = pair()
    metrics.update(SCORES, TARGET)
    for number in range(2, 5):
        metrics.update(SCORES, SCORES.argmax(1))  # right, where the first batch was wrong
        values = metrics.compute()
        assert values["mrr"] == torch.tensor((0.5 + number - 1) / number)
        assert values["weighted"] == exact_f1(metrics["weighted"].state)
        assert {member.num_queries for member in metrics.values()} == {2 * number}


def exact_f1(state: Tensor) -> Tensor:
    """The mean of the locations' F1 by support."""
    right, decided, support = state.double()
    f1 = torch.nan_to_num(2 * right / (decided + support))
    return ((f1 * support).sum() / support.sum()).float()


@pytest.mark.parametrize("validate_args", [True, False])
@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ((SCORES, torch.tensor([2, 3])), (ValueError, IndexError), "candidates"),
        ((SCORES, TARGET[:1]), ValueError, "shape of the queries"),
        ((SCORES[:, :0], TARGET), ValueError, "at least one candidate"),
        ((TwoTensor(SCORES, SCORES), TARGET), RuntimeError, "tensor subclasses"),
        ((SCORES, TwoTensor(TARGET, TARGET)), RuntimeError, "values in other tensors"),
        ((torch.rand(2, 4), TARGET), ValueError, "num_locations"),
        ((SCORES.to("meta"), TARGET), ValueError, "same device"),
        ((SCORES, TARGET.to("meta")), ValueError, "same device"),
        ((SCORES, TARGET, None, TARGET[:1]), ValueError, "groups"),
        ((SCORES.tolist(), TARGET), TypeError, "preds"),
        ((SCORES, None), ValueError, "target"),
    ],
)
def test_errors_change_no_state(arguments: Any, error: Any, says: str, validate_args: bool) -> None:
    """They are those of a `Ranking`."""
    metrics = next_location_metrics(3, validate_args=validate_args)
    for _ in range(2):
        metrics.update(SCORES, TARGET)
    before, values = states(metrics), metrics.compute()
    with pytest.raises(error, match=says):
        metrics.update(*arguments)
    assert same(states(metrics), before)
    assert same(metrics.compute(), values)
    assert {member._update_count for member in metrics.values()} == {2}


def test_no_candidates_are_an_error_where_all_is_ignored() -> None:
    """Though no id is looked for."""
    metrics = next_location_metrics(3, ignore_index=-1)
    metrics.update(SCORES, TARGET)
    with pytest.raises(ValueError, match="at least one candidate"):
        metrics.update(SCORES[:, :0], torch.full_like(TARGET, -1))


@pytest.mark.parametrize("wrong", [-1, -2, -(2**63)])
def test_a_negative_id_is_an_error(wrong: int) -> None:
    """It is neither padding nor ignored."""
    metrics = next_location_metrics(3)
    metrics.update(SCORES, TARGET)
    with pytest.raises(ValueError, match=f"got {wrong}"):
        metrics.update(SCORES, torch.tensor([2, wrong]))
    assert metrics["mrr"].num_queries == 2


def test_states_that_were_handed_out_stay() -> None:
    """An update changes neither what was read before nor a shallow copy of a member."""
    metrics = pair()
    for _ in range(2):
        metrics.update(SCORES, TARGET)
    before, handed_out = states(metrics), metrics.metric_state
    shallow = [copy.copy(member) for member in metrics.values(copy_state=False)]
    for _ in range(2):
        metrics.update(SCORES, TARGET)
    for name, member in zip(before, shallow, strict=True):
        assert same(dict(zip("0", handed_out[name].values(), strict=True)), before[name])
        assert same(state(member), before[name])


def test_states_elsewhere_are_an_error() -> None:
    """Metrics that were moved take no scores from the CPU."""
    metrics = next_location_metrics(3)
    for _ in range(2):
        metrics.update(SCORES, TARGET)
    metrics["f1"].to("meta")
    with pytest.raises(ValueError, match="is on meta and its input on cpu"):
        metrics.update(SCORES, TARGET)
    assert metrics["mrr"].num_queries == 4


def test_an_empty_batch_adds_nothing() -> None:
    """Nor is it an error."""
    metrics = next_location_metrics(3)
    for _ in range(2):
        metrics.update(SCORES, TARGET)
        metrics.update(SCORES[:0], TARGET[:0])
    assert metrics["f1"].num_queries == 4


class Halved(NDCGAtK):
    """A score of one's own."""

    def score(self, ranking: Ranking) -> Tensor:
        """Halve the library's."""
        return super().score(ranking) / 2


class Checked(AccuracyAtK):
    """A metric that looks at the ranking."""

    def check(self, ranking: Ranking) -> None:
        """Refuse many."""
        super().check(ranking)
        if len(ranking) > 2:
            raise ValueError("more than two")


class CheckedF1(LocationF1):
    """The same of decisions."""

    def check(self, ranking: Ranking) -> None:
        """Refuse many."""
        super().check(ranking)
        if len(ranking) > 2:
            raise ValueError("more than two")


@pytest.mark.parametrize("check", [Checked(1), CheckedF1(3)], ids=str)
def test_metrics_of_ones_own_are_handed_a_ranking(check: RankingTally) -> None:
    """Who knows what they look at."""
    metrics = RankingCollection({"own": Halved(3), "check": check, "mrr": MRR()})
    for _ in range(3):
        metrics.update(SCORES, TARGET)
    own, whole = Halved(3), NDCGAtK(3)
    for metric in (own, whole):
        metric.update(SCORES, TARGET)
    assert metrics["own"].compute() == own.compute() == whole.compute() / 2
    alone = RankingCollection({"check": copy.deepcopy(check), "mrr": MRR()})
    alone.update(SCORES, TARGET)
    for collection in (metrics, alone):
        with pytest.raises(ValueError, match="more than two"):
            collection.update(SCORES.repeat(2, 1), TARGET.repeat(2))
    assert metrics["mrr"].num_queries == 6


class Reversed(RankingCollection):
    """A collection that ranks otherwise."""

    def rank(self, preds: Any, *args: Any) -> Ranking:
        """Rank by the scores with another sign."""
        return super().rank(-preds, *args)


def test_a_collection_of_ones_own_ranks_as_it_likes() -> None:
    """In every batch."""
    metrics = Reversed({"mrr": MRR(), "f1": LocationF1(3)})
    for _ in range(3):
        metrics.update(SCORES, SCORES.argmax(1))
        assert metrics["mrr"].compute() == 1 / torch.tensor(3.0)


def test_a_state_that_was_asked_for_stays_as_it_was() -> None:
    """Updates write into a state, but not into one that somebody may have kept."""
    metrics = next_location_metrics(3)
    members: Any = dict(metrics.items(copy_state=False))
    for _ in range(4):
        kept = {name: member.state for name, member in members.items()}
        before = {name: tensor.clone() for name, tensor in kept.items()}
        metrics.update(SCORES, TARGET)
        metrics.update(SCORES, TARGET)
        assert same(kept, before)
    assert {member.num_queries for member in members.values()} == {16}


def pair(**options: Any) -> RankingCollection:
    """Two metrics that share a state."""
    members = {name: LocationF1(3, average=name, **options) for name in ("weighted", "macro")}
    return RankingCollection({**members, "mrr": MRR()})


def test_members_of_a_group_that_are_updated_by_themselves() -> None:
    """Each counts what it was given, once, and no other does."""
    metrics = pair()
    for _ in range(3):
        metrics.update(SCORES, TARGET)
    members: Any = dict(metrics.items(copy_state=False))
    members["weighted"].update(SCORES, TARGET)
    assert [member.num_queries for member in members.values()] == [8, 6, 6]
    for member in members.values():
        member.update(SCORES, TARGET)
    assert [member.num_queries for member in members.values()] == [10, 8, 8]


def test_a_group_with_metrics_that_come_later() -> None:
    """For one batch every member is updated by itself, though they share a state."""
    metrics = pair()
    for _ in range(3):
        metrics.update(SCORES, TARGET)
    metrics.add_metrics({"hit": AccuracyAtK(1)})
    for _ in range(2):
        metrics.update(SCORES, TARGET)
    assert [metrics[name].num_queries for name in ("weighted", "macro", "hit")] == [10, 10, 4]


@pytest.mark.parametrize("options", [{}, {"dist_sync_on_step": True}])
def test_forward_and_update_of_a_group(options: dict[str, Any]) -> None:
    """In any order."""
    metrics = pair(**options)
    for call in (metrics.update, metrics.update, metrics, metrics, metrics.update, metrics):
        call(SCORES, TARGET)
    assert {member.num_queries for member in metrics.values()} == {12}


def test_pickles_are_small() -> None:
    """Tables of weights do not come along."""
    metrics = next_location_metrics(3)
    for _ in range(2):
        metrics.update(SCORES, TARGET)
    assert len(pickle.dumps(metrics)) < 20_000


def test_members_that_come_and_go() -> None:
    """The ones that are there are updated, and no others."""
    metrics = RankingCollection({"hit": AccuracyAtK(1), "f1": LocationF1(3)})
    for _ in range(2):
        metrics.update(SCORES, TARGET)
    gone = metrics["hit"]
    metrics["hit"] = AccuracyAtK(2)
    metrics.update(SCORES, TARGET)
    assert (gone.num_queries, metrics["hit"].num_queries) == (4, 2)
    assert metrics["f1"].num_queries == 6
    metrics.add_metrics({"mrr": MRR(), "precision": PrecisionAtK(2)})
    for _ in range(2):
        metrics.update(SCORES, TARGET)
    assert [metrics[name].num_queries for name in ("mrr", "precision", "hit")] == [4, 4, 6]


@pytest.mark.parametrize(
    "copied",
    [
        copy.deepcopy,
        lambda metrics: metrics.clone(prefix="copy/"),
        lambda metrics: pickle.loads(pickle.dumps(metrics)),
    ],
)
def test_copies_count_for_themselves(
    copied: Callable[[RankingCollection], RankingCollection],
) -> None:
    """And the original for itself; after a reset too."""
    metrics = next_location_metrics(3)
    for _ in range(2):
        metrics.update(SCORES, TARGET)
    before = states(metrics)
    other = copied(metrics)
    other.update(SCORES, TARGET)
    assert same(states(metrics), before)
    metrics.update(SCORES, TARGET)
    counted = states(metrics)
    assert all(map(same, states(other).values(), counted.values()))
    other.reset()
    other.update(SCORES, TARGET)
    assert same(states(metrics), counted)
    other.reset()
    assert not any(member.state.any() for member in other.values())


def test_members_that_share_a_state() -> None:
    """It is counted once, and known to each, also after copies were handed out."""
    averages = ("weighted", "macro", "micro")
    metrics = RankingCollection({name: LocationF1(3, average=name) for name in averages})
    metrics.add_metrics({"mrr": MRR()})
    alone = {name: LocationF1(3, average=name) for name in averages}
    for _ in range(3):
        metrics.update(SCORES, TARGET)
        for member in alone.values():
            member.update(SCORES, TARGET)
        values = metrics.compute()
        assert all(values[name] == member.compute() for name, member in alone.items())
        assert len({id(member.state) for member in metrics.values()}) == 4  # copies


def test_a_checkpoint_is_continued() -> None:
    """States that were loaded are added to, and what they were loaded from is not."""
    metrics = next_location_metrics(3)
    metrics.persistent(True)
    for _ in range(2):
        metrics.update(SCORES, TARGET)
    saved = metrics.state_dict()
    kept = {key: value.clone() for key, value in saved.items()}
    other = next_location_metrics(3)
    other.persistent(True)
    other.update(SCORES, TARGET)
    other.load_state_dict(saved)
    other.update(SCORES, TARGET)
    metrics.update(SCORES, TARGET)
    assert same(states(metrics), states(other))
    assert same(saved, kept)


def test_states_made_in_inference_mode() -> None:
    """As a validation loop makes them; outside, they are added to nevertheless."""
    metrics, expected = next_location_metrics(3), next_location_metrics(3)
    with torch.inference_mode():
        metrics.update(SCORES, TARGET)
        metrics.reset()
        metrics.update(SCORES, TARGET)
    metrics.update(SCORES, TARGET)
    for _ in range(2):
        expected.update(SCORES, TARGET)
    assert same(states(metrics), states(expected))


def test_more_places_than_there_are_tables_for() -> None:
    """The uncut reciprocal rank of the last of 200,000 is found by a `Ranking`."""
    metrics = RankingCollection({"mrr": MRR(), "f1": LocationF1(200_000)})
    for _ in range(2):
        metrics.update(torch.arange(200_000.0)[None], torch.tensor([0]))
    assert math.isclose(float(metrics.compute()["mrr"]), 1 / 200_000, rel_tol=1e-4)
