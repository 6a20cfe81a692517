"""Scores of one's own, and settings of one's own: wrong ones raise, and no others are disturbed."""

import enum
import math
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torchmetrics import MetricCollection

from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    F1AtK,
    Grouped,
    LocationF1,
    Ranking,
    RankingCollection,
    RankingMetric,
    RecallAtK,
    analysis,
    scoring,
)
from nextloc_metrics.base import Needs
from strategies import state_name, updated

Wrong = (TypeError, ValueError)
SCORES = torch.tensor([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1]])
TARGET = torch.tensor([2, 0, 0])  # at the ranks 2, 1 and 2


class Own(RankingMetric):
    """The reciprocal rank, in whatever form is asked for."""

    def __init__(self, form: Callable[[Tensor], Any] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        object.__setattr__(self, "written", form or (lambda scores: scores))

    def score(self, ranking: Ranking) -> Tensor:
        """Write the score in that form."""
        return self.written(scoring.reciprocal_rank(ranking))  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(
    "form",
    [
        lambda scores: scores[:, None],
        lambda scores: scores[None],
        lambda scores: scores.mean(),
        lambda scores: scores[:1],
        lambda scores: scores.to(torch.complex64),
        lambda scores: float(scores[0]),
    ],
)
def test_a_score_of_another_shape_or_kind_raises(form: Callable[[Tensor], Any]) -> None:
    """One real number a query, or an error that names the metric and what it got."""
    metric = Own(form)
    with pytest.raises(
        ValueError, match=r"`score` of Own\(.*must return real numbers of shape \(3"
    ):
        metric.update(SCORES, TARGET)
    assert metric.num_queries == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_scores_of_any_dtype_are_counted_alike_alone_and_together(dtype: torch.dtype) -> None:
    """1, 1/2 and 1/2 are exact in all of them, and so are their squares."""
    weight = torch.ones((), requires_grad=True)
    alone = Own(lambda scores: scores.to(dtype) * weight)
    together = RankingCollection({"own": Own(lambda scores: scores.to(dtype)), "mrr": MRR()})
    alone.update(SCORES, TARGET)
    together.update(SCORES, TARGET)
    expected = MRR()
    expected.update(SCORES, TARGET)
    assert torch.equal(alone.state, expected.state)
    assert torch.equal(together["own"].state, expected.state)
    assert not alone.state.requires_grad


class Power(RankingMetric):
    """An option that is stored, and not passed on."""

    def __init__(self, power: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.power = power

    def score(self, ranking: Ranking) -> Tensor:
        """Raise the rank to a power."""
        return 1 / (ranking.above[:, 0] + 1).double() ** self.power


def test_an_option_that_is_not_passed_on_raises() -> None:
    """Two such metrics would share a state's name, and so their sums."""
    with pytest.raises(AttributeError, match=r"pass it on: `super\(\).__init__\(power=power"):
        Power(1.0)


class Tables(RankingMetric):
    """An option that holds tables."""

    def __init__(self, tables: Any, **kwargs: Any) -> None:
        super().__init__(tables=tables, **kwargs)

    def score(self, ranking: Ranking) -> Tensor:
        """Score nothing."""
        return torch.zeros(len(ranking))


def module_level(value: float) -> float:
    """Serve as an option."""
    return value


def test_a_function_as_an_option_is_known_by_its_name() -> None:
    """An address would differ in every process, and a lambda has no name."""
    assert "module_level" in state_name(Tables(module_level))
    assert " at 0x" not in state_name(Tables(module_level))
    with pytest.raises(ValueError, match="must be defined at module level"):
        Tables(lambda value: value)


class Keyed:
    """An object that gives its content as a string."""

    def __init__(self, content: str) -> None:
        self.content = content

    def state_key(self) -> str:
        """Return all of the content."""
        return self.content


class Color(enum.Enum):
    """Plain values."""

    RED = 1
    BLUE = 2


def _zeros(at: float = 0.0) -> Tensor:
    table = torch.zeros(70, 70)
    table[35, 35] = at
    return table


@pytest.mark.parametrize(
    "make",
    [
        lambda x: _zeros(x).bfloat16(),
        lambda x: _zeros(x).numpy(),
        lambda x: [_zeros(x)],
        lambda x: (_zeros(x),),
        lambda x: Keyed(f"{x}"),
        lambda x: {"a": [_zeros(x)]},
        lambda x: Color.RED if x == 0 else Color.BLUE,
        lambda x: "a.b/c" if x == 0 else "a/b.c",
        lambda x: "a%2Eb" if x == 0 else "a.b",
    ],
)
def test_options_of_different_content_tell_metrics_apart(make: Callable[[float], Any]) -> None:
    """A plain MetricCollection merges metrics whose states have equal names."""
    one, other = Tables(make(0.0)), Tables(make(3.0))
    assert state_name(one) != state_name(other)
    assert state_name(one) == state_name(Tables(make(0.0)))
    metrics = MetricCollection({"one": one, "other": other})
    metrics.update(SCORES, TARGET)
    assert len(metrics.compute_groups) == 2


def test_an_option_of_unknown_content_is_refused() -> None:
    """In doubt metrics would merge."""
    with pytest.raises(TypeError, match=r"got .*threading.Event; give Event a method `state_key"):
        Tables(threading.Event())


def test_a_score_that_changes_its_parts_changes_no_other_metric() -> None:
    """What formulas share is not handed out."""

    class Spoiling(RankingMetric):
        """A score that is changed in place."""

        def score(self, ranking: Ranking) -> Tensor:
            """Return half of the accuracy."""
            return scoring.accuracy(ranking, 1).mul_(0.5)

    class Other(RankingMetric):
        """The same of hits."""

        def score(self, ranking: Ranking) -> Tensor:
            """Return half of the hits."""
            return scoring.hits(ranking, 1).mul_(0.5)

    ranking = Ranking.from_scores(SCORES, TARGET)
    for own in (Spoiling(), Other()):
        own.update(ranking)
    accuracy, recall = AccuracyAtK(1), RecallAtK(1)
    accuracy.update(ranking)
    recall.update(ranking)
    assert accuracy.compute() == recall.compute() == pytest.approx(1 / 3)


def test_a_ranking_is_pickled_without_what_was_made_of_it() -> None:
    """A metric of a local class leaves functions in it that can not be."""
    ranking = Ranking.from_scores(SCORES, TARGET)
    size = len(pickle.dumps(ranking))
    MRR().update(ranking)
    Own().update(ranking)
    assert len(pickle.dumps(ranking)) == size
    assert torch.equal(pickle.loads(pickle.dumps(ranking)).above, ranking.above)


class Deep(AccuracyAtK):
    """A score that looks further than its k."""

    def score(self, ranking: Ranking) -> Tensor:
        """Take the uncut reciprocal rank."""
        return scoring.reciprocal_rank(ranking)


def test_an_own_score_may_look_beyond_k() -> None:
    """A subclass of a metric that is cut at k gets all ranks."""
    scores = torch.arange(1000.0).expand(2, -1)
    target = torch.tensor([[3, 900], [10, 20]])
    ranking = Ranking.from_scores(scores, target)
    assert Deep(5)(scores, target) == Deep(5)(ranking) > 0


class FirstIds(RankingMetric):
    """A score of ids on the first ranks."""

    needs = Needs(top=3)

    def score(self, ranking: Ranking) -> Tensor:
        """Tell whether the relevant location is among them."""
        first = ranking.top_candidates(self.needs.top)
        return (first.ids == ranking.relevant).any(1).double()


class Best(FirstIds):
    """A score of the id on the first place."""

    needs = Needs(top=1)


class Decided(FirstIds):
    """A score of the best candidate, of tied ones the lowest id."""

    needs = Needs(top=1)

    def score(self, ranking: Ranking) -> Tensor:
        """Tell whether it is the relevant location."""
        return (ranking.best == ranking.relevant[:, 0]).double()


@pytest.mark.parametrize("metric", [FirstIds, Best, Decided])
def test_chance_of_a_score_of_ids_raises(metric: type[RankingMetric]) -> None:
    """Of a random ranking no ids are known."""
    with pytest.raises(TypeError, match="ids of the first candidates"):
        analysis.chance(metric(), num_candidates=10)


# Two are tied for the first place, one is alone there, all are tied, one is NaN, none is retrieved.
FIRST = torch.tensor(
    [
        [0.2, 0.7, 0.7],
        [0.1, 0.9, 0.9 - 1e-6],
        [0.5, 0.5, 0.5],
        [0.1, math.nan, 0.3],
        [-math.inf, -math.inf, -math.inf],
        [-math.inf, 0.1, -math.inf],
    ]
)


@pytest.mark.usefixtures("each_backend")
@pytest.mark.parametrize("kept", [1, 2, 3, 9])
@pytest.mark.parametrize("way", ["scores", "embeddings", "shards"])
def test_the_first_place_is_known_by_its_id(way: str, kept: int) -> None:
    """`top_candidates(1)` is the same whatever a ranking kept: the lowest id of a tie."""
    target, one = torch.zeros(6, dtype=torch.long), torch.ones(6, dtype=torch.long)
    if way == "embeddings":
        ranking = Ranking.from_embeddings(FIRST, torch.eye(3), target, chunk_size=2, top=kept)
        expected = [1, 1, 0]  # the others' products are NaN
    elif way == "shards":
        ranking = Ranking.from_sharded_scores(FIRST, target, 0, top=kept)
        expected = [1, 1, 0, 1, -1, 1]
    else:
        ranking = Ranking.from_scores(FIRST, target, top=kept)
        expected = [1, 1, 0, 1, -1, 1]
    first = ranking.top_candidates(1)
    assert first.top == 1
    assert first.ids[: len(expected)].tolist() == [[location] for location in expected]
    assert first.known[:5].tolist() == [[True], [True], [True], [False], [False]]
    assert first.above[:3].tolist() == [[0]] * 3
    assert first.best.tolist()[:5] == ranking.best.tolist()[:5] == [1, 1, 0, -1, -1]
    assert first.retrieved[:3].tolist() == one[:3].tolist()


def test_the_first_place_of_one_candidate_and_of_lists() -> None:
    """A single candidate has no rival, and a list none either."""
    alone = Ranking.from_scores(torch.tensor([[0.3]]), torch.tensor([0]), top=1)
    assert alone.top_candidates(1).ids.tolist() == [[0]]
    lists = Ranking.from_lists(torch.tensor([[4, 2], [-1, -1]]), torch.tensor([4, 0]), top=1)
    assert lists.top_candidates(1).ids.tolist() == [[4], [-1]]
    assert lists.top_candidates(1).known.tolist() == [[True], [False]]


def test_an_own_metric_sees_as_many_places_in_any_collection() -> None:
    """A member that needs more of them changes nobody's score."""
    scores, target = torch.tensor([[0.2, 0.7, 0.1], [0.6, 0.6, 0.1]]), torch.tensor([0, 0])
    metrics = RankingCollection({"best": Best(), "three": FirstIds(), "decided": Decided()})
    metrics.update(scores, target)
    found = {name: float(value) for name, value in metrics.compute().items()}
    assert found == {"best": 0.5, "three": 1.0, "decided": 0.5}
    assert Best()(scores, target) == 0.5
    assert Decided()(scores, target) == 0.5


def test_a_ranking_without_candidates_has_no_ids() -> None:
    """An error has the remedy; of the best alone, the first rank is kept."""
    ranking = Ranking.from_scores(SCORES, TARGET, top=1)
    assert ranking.best.tolist() == ranking.top_candidates(1).ids[:, 0].tolist() == [1, 0, 1]
    with pytest.raises(ValueError, match="make it with `top=3`"):
        ranking.top_candidates(3)
    with pytest.raises(ValueError, match="make it with `top=1`"):
        _ = Ranking.from_scores(SCORES, TARGET).best


def test_a_table_is_never_read_at_minus_one() -> None:
    """Of a NaN and of padding the fill value stands there, not the last location's."""
    table = torch.tensor([[10.0, 0.0], [11.0, 1.0], [12.0, 2.0]])
    ranking = Ranking.from_scores(
        FIRST[:4], torch.tensor([[0, 2], [1, -1], [2, 0], [0, -1]]), top=1
    )
    first = ranking.top_candidates(1).look_up(table, math.nan)
    assert first.shape == (4, 1, 2)
    assert first[:3, 0].tolist() == [[11, 1], [11, 1], [10, 0]]
    assert first[3].isnan().all()
    ids = ranking.top_candidates(1).look_up(table[:, 0].long(), -7)
    assert ids.tolist() == [[11], [11], [10], [-7]]
    own = ranking.look_up(table[:, 1], -1.0)
    assert sorted(own[0].tolist()) == [0, 2]
    assert own[1].tolist() == [1, -1]
    lists = Ranking.from_lists(torch.tensor([[9, 1]]), torch.tensor([9]), top=2)
    assert lists.top_candidates(2).look_up(table[:, 1], -1.0).tolist() == [[-1, 1]]
    assert lists.look_up(table[:, 1], -1.0).tolist() == [[-1]]
    with pytest.raises(ValueError, match="`table` must have one row for each of the 3"):
        ranking.look_up(table[:2], 0.0)
    for wrong in ([1, 2, 3], torch.tensor(1.0)):
        with pytest.raises(Wrong, match="`table` must be a tensor"):
            ranking.look_up(wrong, 0.0)  # type: ignore[arg-type]
        with pytest.raises(Wrong, match="`table` must be a tensor"):
            ranking.top_candidates(1).look_up(wrong, 0.0)  # type: ignore[arg-type]


class FoundOnTheFirstTwo(RankingMetric):
    """The share of relevant locations on the first two places, and no look at others."""

    depth = 2

    def score(self, ranking: Ranking) -> Tensor:
        """Count them by hand."""
        return (ranking.gains * (ranking.above < 2)).sum(1) / ranking.num_relevant.clamp(min=1)


@pytest.mark.usefixtures("each_backend")
def test_a_score_of_ones_own_may_name_a_depth() -> None:
    """Locations beyond may be missing from the columns, and are counted all the same."""
    scores = -torch.arange(200.0)[None]
    every = torch.ones(1, 200, dtype=torch.bool)
    for target, share in ((torch.tensor([[1, 90, 150]]), 1 / 3), (every, 2 / 200)):
        for metric in (FoundOnTheFirstTwo(), RecallAtK(2)):
            assert float(metric(scores, target)) == pytest.approx(share)


def test_an_update_of_ones_own_is_refused_by_a_collection() -> None:
    """It reads each batch once for all members; alone the metric is as it was written."""

    class Watched(AccuracyAtK):
        def update(self, preds: Any, target: Any = None, mask: Any = None) -> None:
            super().update(preds, target, mask)

    watched = Watched(1)
    assert watched(torch.eye(4), torch.arange(4)) == 1
    with pytest.raises(TypeError, match=r"must not override `update`.*define `score` or `tally`"):
        RankingCollection({"watched": watched, "mrr": MRR()})


# What a plan tallies of subclasses ----------------------------------------------------------------


class Never(AccuracyAtK):
    """A score of 0."""

    def score(self, ranking: Ranking) -> Tensor:
        """Score 0, whatever the score of the base is."""
        return torch.zeros(len(ranking))


class Twice(LocationF1):
    """Counts of each query twice, and half of the value."""

    def tally(self, decisions: Any) -> Tensor:
        """Double the counts."""
        return 2 * super().tally(decisions)

    def compute(self) -> Tensor:
        """Halve the value."""
        return super().compute() / 2


class Half(Grouped):
    """The sums of the first half of the queries."""

    def tally(self, record: Any) -> Tensor:
        """Leave out the others."""
        return super().tally(record[: len(record) // 2])


def test_a_subclass_of_groups_may_extend_its_tally() -> None:
    """It sums the scores of the queries that it passes on."""
    half, groups = Half(AccuracyAtK(1), 2), torch.arange(6) % 2
    preds, target = torch.tensor([[0]] * 6), torch.tensor([0, 1, 0, 0, 0, 0])
    half.update(preds, target, groups=groups)
    assert (half.compute().tolist(), half.num_queries.tolist()) == ([1, 0], [2, 1])


@pytest.mark.usefixtures("each_backend")
def test_a_subclass_is_tallied_by_its_own_methods() -> None:
    """Beside its base in one pass, whichever methods it overrides, and where it changes nothing."""
    mine = type("Mine", (F1AtK,), {})(1)
    f1 = updated(LocationF1(3), SCORES, TARGET)
    metrics = RankingCollection({"never": Never(1), "hit": AccuracyAtK(1), "mine": mine})
    for collection in (metrics, RankingCollection({"twice": Twice(3), "hit": AccuracyAtK(1)})):
        collection.update(SCORES, TARGET)
        found = {name: float(value) for name, value in collection.compute().items()}
        assert found.pop("hit") == pytest.approx(1 / 3)
        assert found in ({"never": 0, "mine": pytest.approx(1 / 3)}, {"twice": f1.compute() / 2})
    assert torch.equal(collection["twice"].state, 2 * f1.state)
