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

from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    LocationF1,
    NDCGAtK,
    PrecisionAtK,
    Ranking,
    RankingCollection,
    accelerate,
    counting,
    next_location_metrics,
)
from strategies import CASES, DIRTY, batch, one_relevant, same, state

pytest.importorskip("numba", reason="the compiled loops need numba")

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
Batch = tuple[Tensor, Tensor]
Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True, scope="module")
def _accelerated() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "_compiled", None)
        accelerate()
        yield


def collect(ignore_index: int | None = None, every: bool = True) -> RankingCollection:
    """Collect all metrics, or those that can be updated without a `Ranking`."""
    needs_one = {"ties", "denominator", "average"}
    members = {
        str(case): case.make(ignore_index=ignore_index)
        for case in CASES
        if "ignore_index" not in case.options
        if every or case.name == "LocationF1" or not needs_one & case.options.keys()
    }
    return RankingCollection(members)  # type: ignore[arg-type]


def states(collection: RankingCollection) -> dict[str, dict[str, Tensor]]:
    """What every member has accumulated."""
    return {name: state(member) for name, member in collection.items()}


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
    batches: list[Batch], dtype: torch.dtype, ignore_index: int | None, every: bool
) -> None:
    """With ties, NaN, infinities, ignored ids, and metrics that need a `Ranking` besides."""
    metrics, ranked = collect(ignore_index, every), collect(ignore_index, every)
    for preds, target in batches:
        scores = preds.to(dtype)
        metrics.update(scores, target)
        ranked.update(ranked.rank(scores, target))
        assert same(states(metrics), states(ranked))
        assert same(metrics.compute(), ranked.compute())


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


def test_metrics_that_need_none(monkeypatch: Patch) -> None:
    """All that average ties and divide by what is known: recommenders' metrics too."""
    metrics = collect(every=False)
    metrics.update(*batch())
    refuse_rankings(monkeypatch)
    metrics.update(*batch())
    assert {member.num_queries for member in metrics.values()} == {16}  # type: ignore[attr-defined]


SCORES, TARGET = torch.tensor([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1]]), torch.tensor([2, 1])


@pytest.mark.parametrize(
    "arguments",
    [
        (SCORES, TARGET.int()),
        (SCORES, TARGET[:, None]),
        (SCORES, torch.nn.functional.one_hot(TARGET, 3).bool()),
        (SCORES, torch.nn.functional.one_hot(TARGET, 3).double()),
        (SCORES, TARGET, torch.tensor([True, True])),
        (SCORES, TARGET, None, torch.tensor([0, 1])),
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


@pytest.mark.parametrize("validate_args", [True, False])
@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ((SCORES, torch.tensor([2, 3])), (ValueError, IndexError), "candidates"),
        ((SCORES, TARGET[:1]), ValueError, "shape of the queries"),
        ((torch.rand(2, 4), TARGET), ValueError, "num_locations"),
        ((SCORES.to("meta"), TARGET), ValueError, "same device"),
        ((SCORES.tolist(), TARGET), TypeError, "preds"),
        ((SCORES, None), ValueError, "target"),
    ],
)
def test_errors_change_no_state(arguments: Any, error: Any, says: str, validate_args: bool) -> None:
    """They are those of a `Ranking`."""
    metrics = next_location_metrics(3, validate_args=validate_args)
    for _ in range(2):
        metrics.update(SCORES, TARGET)
    before = states(metrics)
    with pytest.raises(error, match=says):
        metrics.update(*arguments)
    assert same(states(metrics), before)


def test_a_negative_id_is_an_error() -> None:
    """It is neither padding nor ignored."""
    metrics = next_location_metrics(3)
    metrics.update(SCORES, TARGET)
    with pytest.raises(ValueError, match="got -1"):
        metrics.update(SCORES, torch.tensor([2, -1]))
    assert metrics["mrr"].num_queries == 2


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


def test_metrics_of_ones_own_are_handed_a_ranking() -> None:
    """Who knows what they look at."""
    metrics = RankingCollection({"own": Halved(3), "check": Checked(1), "mrr": MRR()})
    for _ in range(3):
        metrics.update(SCORES, TARGET)
    own, whole = Halved(3), NDCGAtK(3)
    for metric in (own, whole):
        metric.update(SCORES, TARGET)
    assert metrics["own"].compute() == own.compute() == whole.compute() / 2
    with pytest.raises(ValueError, match="more than two"):
        metrics.update(SCORES.repeat(2, 1), TARGET.repeat(2))
    assert metrics["mrr"].num_queries == 6


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
