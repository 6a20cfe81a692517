"""The members of a metric: which class decides, what a record remembers, what is no option."""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
import pickle
import pkgutil
import textwrap
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

import nextloc_metrics
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    Grouped,
    MeanMetric,
    Ranking,
    RankingCollection,
    RankingMetric,
    analysis,
)
from nextloc_metrics.base import Estimate, RecordMetric

SCORES = torch.tensor([[0.1, 0.9, 0.3], [0.2, 0.7, 0.1], [0.5, 0.5, 0.1]])
TARGET = torch.tensor([2, 0, 1])

# Which class scores a query --------------------------------------------------------------------


class ByRank(MRR):
    """1 on the first rank, else 0, below a formula."""

    def at_rank(self, rank: Tensor) -> Tensor:
        """Of a rank."""
        return (rank == 1).double()


class ByScore(ByRank):
    """A half for each query, below `at_rank`."""

    def score(self, ranking: Ranking) -> Tensor:
        """Of each query."""
        return torch.full((len(ranking),), 0.5, dtype=torch.float64)


class ByFormula(ByScore):
    """The reciprocal rank again, below both."""

    formula = MRR.formula


class Nothing(ByFormula):
    """What defines nothing has what it inherits."""


class Mixed(ByScore, AccuracyAtK):
    """The first base is the nearest."""


class RankAgain(ByScore):
    """It is scored by `at_rank`, whatever the `score` of its base."""

    def at_rank(self, rank: Tensor) -> Tensor:
        """The score of `ByRank`."""
        return ByRank.at_rank(self, rank)


def test_the_nearest_class_says_how_a_query_is_scored() -> None:
    """Whatever the classes behind it define."""
    for metric, value in [
        (MRR(), (1 / 2 + 1 / 2 + 3 / 4) / 3),
        (ByRank(), (0 + 0 + 1 / 2) / 3),
        (ByScore(), 1 / 2),
        (ByFormula(), (1 / 2 + 1 / 2 + 3 / 4) / 3),
        (Nothing(), (1 / 2 + 1 / 2 + 3 / 4) / 3),
        (Mixed(k=1), 1 / 2),
        (RankAgain(), (0 + 0 + 1 / 2) / 3),
    ]:
        for each in (metric, Grouped(metric, 1, average="queries")):
            groups = {"groups": torch.zeros(3).long()} if each is not metric else {}
            each.update(SCORES, TARGET, **groups)
            assert each.compute().item() == pytest.approx(value), metric


@pytest.mark.parametrize("base", [RankingMetric, MRR, ByScore])
def test_two_scores_in_one_class_are_refused(base: Any) -> None:
    """Which of them is meant would be a guess; the class is never made."""
    members = {"formula": MRR.formula, "at_rank": ByRank.at_rank, "score": ByScore.score}
    for name in members:
        two = {x: y for x, y in members.items() if x != name}
        first, second = two
        with pytest.raises(TypeError, match=f"^Own must define one of .*`{first}` and `{second}`"):
            type("Own", (base,), two)


# Intervals and chance --------------------------------------------------------------------------


class Tallied(MRR):
    """MRR whose `tally` asks that of the base."""

    def tally(self, record: Any) -> Any:
        """The same."""
        return super().tally(record)


class Halved(MRR):
    """Half of the mean: a value that is not the mean of its scores."""

    def compute(self) -> Tensor:
        """Half."""
        return super().compute() / 2


class WithEstimate(Tallied):
    """The class below says that the mean is that of the base."""

    def estimate(self) -> Estimate:
        """The same."""
        return super().estimate()


class Again(WithEstimate):
    """A class that changes the value again."""

    compute = Halved.compute


def test_a_tally_may_ask_that_of_its_base() -> None:
    """The state and the value are those of the base, alone and beside it in a collection."""
    together = RankingCollection({"own": Tallied(), "mrr": MRR()})
    alone = Tallied()
    for metric in (alone, together):
        metric.update(SCORES, TARGET)
        metric.update(SCORES[:1], TARGET[:1], mask=torch.tensor([True]))
    assert torch.equal(alone.state, together["mrr"].state)
    assert torch.equal(together["own"].state, together["mrr"].state)
    assert alone.compute() == together.compute()["own"] == together.compute()["mrr"] > 0


@pytest.mark.parametrize("kind", [Tallied, Halved, Again])
def test_a_value_that_may_be_no_mean_has_no_interval(kind: type[MRR]) -> None:
    """A class that overrides `tally` or `compute` is asked for its `estimate`."""
    metric = kind()
    metric.update(SCORES, TARGET)
    assert not metric.has_interval
    for ask in (metric.interval, metric.standard_error):
        with pytest.raises(TypeError, match="has no standard error: it is not a mean"):
            ask()
    for chance in (metric.chance, lambda n: analysis.chance(metric, n)):
        with pytest.raises(TypeError, match="has no chance level"):
            chance(10)
    with pytest.raises(TypeError, match="must be the mean of a score"):
        Grouped(metric, 2)


def test_with_an_estimate_it_has_an_interval_and_a_chance() -> None:
    """They are those of the base."""
    metric, base = WithEstimate(), MRR()
    for each in (metric, base):
        each.update(SCORES, TARGET)
    assert metric.has_interval
    assert metric.interval() == base.interval()
    assert metric.standard_error() == base.standard_error() > 0
    assert metric.chance(10) == base.chance(10)
    Grouped(metric, 2)


# What a record remembers -----------------------------------------------------------------------


class Asking(RecordMetric):
    """It counts queries, and asks the record, and copies of it, for a number of the update."""

    record = Ranking

    which: int  #: tells the states of two of them apart

    made: ClassVar[list[str]]
    copied: ClassVar[list[Callable[[Any], Any]]]

    def empty_state(self) -> Tensor:
        """One number."""
        return torch.zeros(1, dtype=torch.int64)

    def tally(self, record: Ranking) -> Tensor:
        """The number of queries."""
        for copy_of in self.copied:
            copied = copy_of(record)
            assert type(copied) is Ranking
            assert copied.once("number", lambda: "of a copy") == "of a copy"
            self.made.append(copied.once("number", lambda: "again"))
        self.ask(record)
        return torch.tensor([record.once("number", lambda: "never")]) * 0 + len(record)

    def ask(self, record: Ranking) -> int:
        """Return a number, and note that it was made."""

        def make() -> int:
            self.made.append("made")
            return 1

        return record.once("number", make)

    def compute(self) -> Tensor:
        """The number of queries."""
        return self.state[0]


@pytest.fixture
def asking() -> Any:
    """The class, without what other tests noted."""
    Asking.made, Asking.copied = [], []
    return Asking


def test_members_of_an_update_share_what_one_of_them_makes(asking: Any) -> None:
    """It is made once for all that read a record, and once more in the next update."""
    together = RankingCollection({"one": asking(1), "two": asking(2), "mrr": MRR()})
    ranking = Ranking.from_scores(SCORES, TARGET)
    for number in (1, 2):
        together.update(ranking)
        assert asking.made == ["made"] * number
    together.update(SCORES, TARGET)
    assert asking.made == ["made"] * 3
    for _ in range(2):
        asking(1).ask(ranking)  # outside of an update nothing is kept
    assert asking.made == ["made"] * 5
    assert together.compute()["one"] == together.compute()["two"] == 9


def test_nothing_is_kept_after_an_update_that_fails(asking: Any) -> None:
    """The next update of the same record makes it anew."""

    class Failing(asking):  # type: ignore[misc]
        """It raises after another has asked."""

        def tally(self, record: Any) -> Any:
            """Raise."""
            raise OSError("no answer")

    ranking = Ranking.from_scores(SCORES, TARGET)
    with pytest.raises(OSError, match="no answer"):
        RankingCollection({"one": asking(1), "failing": Failing(2)}).update(ranking)
    asking(1).ask(ranking)
    assert asking.made == ["made"] * 2


def moved_by_lightning(record: Ranking) -> Any:
    """Copy as Lightning does a batch that it moves."""
    utilities = pytest.importorskip(
        "lightning_utilities.core.apply_func", reason="the check needs lightning-utilities"
    )
    return utilities.apply_to_collection({"batch": record}, Tensor, torch.clone)["batch"]


WAYS = {
    "lightning": moved_by_lightning,
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "pickle": lambda record: pickle.loads(pickle.dumps(record)),
    "to": lambda record: record.to("cpu"),
    "rows": lambda record: record[:2],
}


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_does_not_carry_what_is_kept(asking: Any, way: str) -> None:
    """What a record keeps in an update is no field: a copy made then makes its own."""
    asking.copied = [WAYS[way]]
    together = RankingCollection({"one": asking(1), "two": asking(2), "mrr": MRR()})
    together.update(SCORES, TARGET)
    assert asking.made == ["again", "made", "again"]
    assert together.compute()["mrr"] == MRR()(SCORES, TARGET)


# The tower of classes --------------------------------------------------------------------------


def our_metrics() -> list[type]:
    """Return every class of the library that is a metric."""
    for module in pkgutil.walk_packages(nextloc_metrics.__path__, "nextloc_metrics."):
        is_optional = ".integrations." in module.name or ".engines." in module.name
        if not is_optional and not module.name.endswith(("__main__", "._kernels", ".cuda")):
            importlib.import_module(module.name)
    found, waiting = dict[type, None](), [RecordMetric]
    while waiting:
        kind = waiting.pop()
        found[kind] = None
        waiting += kind.__subclasses__()
    return [kind for kind in found if kind.__module__.startswith("nextloc_metrics.")]


def private_members(kind: type) -> set[str]:
    """Return the names with one leading underscore that the body of a class defines."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    names = set()
    for one in body.body:
        targets = getattr(one, "targets", [getattr(one, "target", None)])
        names |= {x.id for x in targets if isinstance(x, ast.Name)}
        names |= {one.name} if isinstance(one, ast.FunctionDef) else set()
    return {name for name in names if name.startswith("_") and name != "_" and name[:2] != "__"}


def test_no_class_of_ours_overrides_a_private_member_of_another() -> None:
    """What classes may override is the table of members: others cannot know the rest."""
    private = {kind: private_members(kind) for kind in our_metrics()}
    assert len(private) > 50
    assert "_plan" in private[RecordMetric]
    for kind, names in private.items():
        for base in kind.__mro__[1:]:
            assert not names & private.get(base, set()), (kind, base)


def test_a_metric_has_few_ancestors() -> None:
    """A reader of `AccuracyAtK` opens four classes at most."""
    ancestors = [x for x in AccuracyAtK.__mro__[1:] if x.__module__.startswith("nextloc_metrics.")]
    assert [MeanMetric, RecordMetric] == [x for x in ancestors if x in (MeanMetric, RecordMetric)]
    assert len(ancestors) <= 4
