"""Options of a metric are its annotations: what is one, what is none, and what a call may say."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
import re
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, List, Literal  # noqa: UP035

import numpy as np
import pytest
import torch
from torch import Tensor
from torchmetrics import MetricCollection

from inner import Computed, Positive
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    DecilePrecision,
    Grouped,
    NDCGAtK,
    PopularityBins,
    Ranking,
    RankingCollection,
    RankingMetric,
    scoring,
)
from nextloc_metrics.base import RecordMetric
from nextloc_metrics.trajectories import GeoBLEU
from strategies import state_name

if TYPE_CHECKING:
    from collections import OrderedDict as Unknown

SCORES, TARGET = torch.tensor([[0.1, 0.9, 0.3], [0.2, 0.7, 0.1]]), torch.tensor([2, 0])
OF_EVERY = ["ties", "empty_target_action", "ignore_index", "validate_args"]


class Scored(RankingMetric):
    """The reciprocal rank; the base of the metrics below."""

    def score(self, ranking: Ranking) -> Tensor:
        """Return the reciprocal rank."""
        return scoring.reciprocal_rank(ranking)


def options(metric: type) -> list[str]:
    """Return the options that a class adds."""
    names = [name for name in inspect.signature(metric).parameters if name != "kwargs"]
    return [name for name in names if name not in OF_EVERY]


class AsDocumented(RankingMetric):
    """A metric as TorchMetrics' documentation writes one: attributes and states annotated."""

    is_differentiable: bool = False
    higher_is_better: bool | None = True
    full_state_update: bool = False
    plot_upper_bound: float = 1.0
    total: Tensor
    parts: list[Tensor]
    others: List[Tensor]  # noqa: UP006

    def __init__(self, top: int = 3, **kwargs: Any) -> None:
        super().__init__(top=top, **kwargs)
        self.add_state("total", default=torch.tensor(0), dist_reduce_fx="sum")
        self.add_state("parts", default=[], dist_reduce_fx="cat")

    def score(self, ranking: Ranking) -> Tensor:
        """Return the accuracy, and sum something beside."""
        self.total = self.total + len(ranking)
        self.parts.append(ranking.above)
        return scoring.accuracy(ranking, self._options["top"])


class Annotated_(Scored):  # noqa: N801
    """The same without an `__init__`, with everything that is no option."""

    is_differentiable: bool = False
    higher_is_better: bool | None = True
    full_state_update: bool = False
    of_class: ClassVar[int] = 3
    bare: ClassVar = 4
    unknown_of_class: ClassVar[Unknown] = 5
    _private: int = 6
    top: int = 3


def test_attributes_and_states_of_a_documented_metric_are_no_options() -> None:
    """`higher_is_better: bool = True`, `total: Tensor`, class variables and private names."""
    assert options(Annotated_) == ["top"]
    metric = Annotated_(2)
    assert (metric.top, metric.of_class, metric.bare, metric.unknown_of_class) == (2, 3, 4, 5)
    assert (metric._private, metric.higher_is_better, metric.is_differentiable) == (6, True, False)
    assert repr(metric) == "Annotated_(top=2)"
    with pytest.raises(TypeError, match="Annotated_ has no option `total`"):
        Annotated_(total=torch.tensor(1))


@pytest.mark.parametrize("hint", ["Tensor", "list[Tensor]", "torch.Tensor", Tensor, List[Tensor]])  # noqa: UP006
def test_a_tensor_without_a_value_is_refused_with_its_class(hint: Any) -> None:
    """It could be meant as an option or as a state; the error says how to write either."""
    within: dict[str, Any] = {"__annotations__": {"near": hint}, "__module__": __name__}
    with pytest.raises(TypeError, match=r"`near` of Near must not .*Annotated.*`empty_state`"):
        type("Near", (Scored,), within)


def test_a_class_with_an_init_of_its_own_keeps_it() -> None:
    """Its parameters are the options, its annotations none, and its states are states."""
    assert options(AsDocumented) == ["top"]
    metric = AsDocumented(1)
    metric.update(SCORES, TARGET)
    assert (int(metric.total), len(metric.parts), repr(metric)) == (2, 1, "AsDocumented(top=1)")
    assert metric.compute() == AccuracyAtK(1)(SCORES, TARGET)


def test_a_tensor_with_a_value_and_other_lists_are_options() -> None:
    """Only a `Tensor`, or a list of them, without a value is a state."""

    class Weights(Scored):
        """A score with two tables."""

        cuts: list[int]
        table: Tensor = torch.zeros(2)

    assert options(Weights) == ["cuts", "table"]
    assert torch.equal(Weights([1]).table, torch.zeros(2))
    assert state_name(Weights([1], torch.ones(2))) != state_name(Weights([1]))


def test_annotations_that_cannot_be_evaluated() -> None:
    """What only a type checker knows is not checked; states and class variables are known."""

    class Late(Scored):
        """A score with names that are not imported."""

        first: Unseen.Tensor  # noqa: F821
        other: Unknown = 3
        wrong: torch.no_such_type = 4
        of_class: ClassVar[Unknown] = 5

    assert options(Late) == ["first", "other", "wrong"]
    assert (Late("anything").first, Late(1, "anything").other) == ("anything", "anything")


@pytest.mark.parametrize("hint", ["Tensor", "list[Tensor]"])
def test_a_tensor_is_known_by_its_name(hint: str) -> None:
    """`Tensor` may be imported for type checkers only."""
    within: dict[str, Any] = {"__annotations__": {"total": hint}, "__module__": "builtins"}
    with pytest.raises(TypeError, match="`total` of Late must not be annotated as a tensor"):
        type("Late", (Scored,), within)


def test_annotations_as_objects_are_read_alike() -> None:
    """Without `from __future__ import annotations` they are no text."""
    hints = {"k": Positive, "how": Literal["a", "b"], "_": KW_ONLY, "x": float}
    values = {"how": "a", "x": 0.5, "__annotations__": hints}
    made: Any = type("Made", (Scored,), values)
    assert options(made) == ["k", "how", "x"]
    assert repr(made(3, "b", x=0.25)) == "Made(k=3, how='b', x=0.25)"
    with pytest.raises(TypeError, match="takes `k`, `how` by position, got 3 values"):
        made(3, "b", 0.25)


class Named(NDCGAtK):
    """A user's subclass with an option, and one by name only."""

    weight: float = 1.0
    _: KW_ONLY
    note: Annotated[str, lambda name, value: value.upper()] = "none"

    def __post_init__(self) -> None:
        """Check a rule between options, and derive an attribute."""
        super().__post_init__()
        if self.weight > self.k:
            raise ValueError(f"`weight` must be at most k, got {self.weight:g}.")
        self.twice = 2 * self.weight


def test_options_by_position_and_by_name_are_equal() -> None:
    """Those of a base come first, then one's own; defaults hold for the rest."""
    wanted = "Named(k=5, gain='exponential', weight=2.0)"
    calls = [
        Named(5, "exponential", "truncated", 2.0),
        Named(5, "exponential", weight=2.0),
        Named(weight=2.0, gain="exponential", k=5),
    ]
    for metric in calls:
        assert repr(metric) == wanted
        assert (metric.ideal, metric.ties, metric.twice, metric.note) == (
            "truncated",
            "expected",
            4.0,
            "none",
        )
    assert Named(5, note="x").note == "X"
    with pytest.raises(TypeError, match="takes `k`, `gain`, `ideal`, `weight` by position, got 5"):
        Named(5, "linear", "full", 1.0, "x")
    with pytest.raises(ValueError, match="`weight` must be at most k, got 7"):
        Named(5, weight=7.0)
    with pytest.raises(ValueError, match=r"`gain` must be one of \('linear', 'exponential'\)"):
        Named(5, gain="cubic")


def test_the_signature_and_the_help_name_the_options() -> None:
    """`inspect.signature`, `help()` and the qualified name of `__init__`."""
    signature = inspect.signature(Named)
    assert str(signature).startswith(
        "(k, gain='linear', ideal='truncated', weight=1.0, *, note='none', ties='expected', "
    )
    assert list(signature.parameters)[-5:] == [*OF_EVERY, "kwargs"]
    text = pydoc.render_doc(Named, renderer=pydoc.plaintext)
    # from Python 3.13 on, a long signature has a line for each parameter
    assert re.sub(r"[\s|]", "", f"Named{signature}") in re.sub(r"[\s|]", "", text)
    assert Named.__init__.__doc__ == "Make a `Named`; its docstring has the options."
    assert "A user's subclass with an option" in text
    assert Named.__init__.__qualname__ == "Named.__init__"


class Left(Scored):
    """One of two bases."""

    first: int = 1
    shared: int = 2


class Right(Scored):
    """The other one."""

    second: int = 3
    shared: int = 4


class Both(Left, Right):
    """A metric with two bases, which declares an option of theirs anew."""

    third: int = 5
    first: int = 6


def test_two_bases_give_their_options_as_dataclasses_do() -> None:
    """From the last base to the first; an option that is declared again keeps its place."""
    assert options(Both) == ["second", "shared", "first", "third"]
    metric = Both(second=7)
    assert (metric.second, metric.shared, metric.first, metric.third) == (7, 2, 6, 5)


@pytest.mark.parametrize("number", [torch.tensor(5), np.int64(5), np.array(5)[()]])
def test_numbers_of_tensors_and_numpy_are_plain_numbers(number: Any) -> None:
    """The state is the same, and the attribute is an int."""
    metric = AccuracyAtK(number)
    assert type(metric.k) is int
    assert state_name(metric) == state_name(AccuracyAtK(5))
    assert type(GeoBLEU(beta=np.float32(0.5)).beta) is float


#: ways to copy a metric: the first two copy the modules in it, too
DUPLICATES: list[Any] = [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), copy.copy]


@pytest.mark.parametrize("duplicate", DUPLICATES)
def test_copies_have_the_options(duplicate: Any) -> None:
    """Options, derived attributes, label and state."""
    metric = Named(5, weight=2.0, ties="optimistic", ignore_index=1)
    metric.update(SCORES, TARGET)
    other = duplicate(metric)
    assert repr(other) == repr(metric)
    assert (other.k, other.twice, other.label) == (5, 4.0, "Named@5")
    assert torch.equal(other.compute(), metric.compute())
    with pytest.raises(AttributeError, match=r"`k` of Named.* is fixed"):
        other.k = 3


def test_an_option_is_fixed() -> None:
    """The state depends on it; the class has no attribute that would hide it."""
    metric = AccuracyAtK(5)
    for name in ("k", "ties"):
        with pytest.raises(AttributeError, match=f"`{name}` of .* is fixed.*new AccuracyAtK inst"):
            setattr(metric, name, 3)
    assert metric.k == 5


class Scaled(Scored):
    """A mean whose value is multiplied when it is computed."""

    cut: Positive = 3
    factor: Computed[float] = 1.0
    label = "MRR x {factor:g}"

    def compute(self) -> Tensor:
        """Return the mean times `factor`."""
        return super().compute() * self.factor


def test_computed_options_share_a_state() -> None:
    """Only `compute` reads them: one state for both, and one update of a collection."""
    one, two = Scaled(), Scaled(factor=2.0)
    assert state_name(one) == state_name(two) != state_name(Scaled(cut=4))
    assert (repr(two), two.label) == ("Scaled(factor=2.0)", "MRR x 2")
    together = MetricCollection({"one": one, "two": two})
    together.update(SCORES, TARGET)
    values = together.compute()
    assert values["two"] == 2 * values["one"] > 0
    assert len(together.compute_groups) == 1


def test_an_option_may_be_a_module() -> None:
    """PyTorch keeps modules apart from attributes: a default of the class would hide them."""

    class Wrapped(Scored):
        """A score beside another metric."""

        inner: RecordMetric | None = None

    inner = MRR()
    assert Wrapped().inner is None
    assert Wrapped(inner).inner is inner
    assert dict(Wrapped(inner).named_children()) == {"inner": inner}


@pytest.mark.parametrize("duplicate", [lambda x: x, *DUPLICATES])
@pytest.mark.parametrize("value", [MRR(2), torch.nn.Linear(1, 1), torch.nn.Parameter(), None])
def test_a_refused_module_leaves_the_metric_as_it_was(duplicate: Any, value: Any) -> None:
    """A metric in a metric is an option; PyTorch would put a module elsewhere before it asks."""
    groups = {"groups": torch.tensor([0, 1])}
    metric = duplicate(Grouped(MRR(), 2))
    metric.update(SCORES, TARGET, **groups)
    before, inner, named = metric.compute(), metric.metric, repr(metric)
    for each in (metric, RankingCollection({"grouped": metric})["grouped"]):
        with pytest.raises(AttributeError, match="`metric` of Grouped is fixed, because its state"):
            each.metric = value
    assert metric.metric is inner
    assert dict(metric.named_children()) == {"metric": inner}
    assert repr(metric) == named
    metric.update(SCORES, TARGET, **groups)
    assert torch.equal(metric.compute(), before)
    assert torch.equal(metric.num_queries, torch.tensor([2, 2]))


def test_a_module_that_is_not_passed_on_is_refused() -> None:
    """As any other option: it is no part of the state's name."""

    class Forgets(Scored):
        """It sets an option, but passes none on."""

        def __init__(self, inner: Any, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.inner = inner

    for value in (MRR(), 3, torch.zeros(2)):
        with pytest.raises(AttributeError, match=r"`inner` is an option of Forgets.*inner=inner"):
            Forgets(value)


def test_a_module_among_the_options_moves_with_the_metric() -> None:
    """The option is the module that PyTorch moves, also in copies, which share nothing."""
    metric = DecilePrecision(PopularityBins([1, 2, 0]), 1)
    for duplicate in DUPLICATES[:2]:
        copied = duplicate(metric)
        assert copied.bins is not metric.bins
        copied.to("meta")
        assert copied.bins is dict(copied.named_children())["bins"]
        assert copied.bins.bin_of.is_meta
        assert copied.state.is_meta
    assert not metric.bins.bin_of.is_meta


class Decay(Scored):
    """A metric whose `__init__` has defaults and passes all options on."""

    def __init__(self, near: int = 1, decay: float = 0.5, **kwargs: Any) -> None:
        super().__init__(near=near, decay=decay, **kwargs)


class Top(AccuracyAtK):
    """A metric of the library with another default."""

    def __init__(self, k: int = 2, **kwargs: Any) -> None:
        super().__init__(k=k, **kwargs)


def test_an_init_may_pass_the_default_on() -> None:
    """The default is an option as another value is, and makes the same state."""
    for metric in (Decay(), Decay(1, decay=0.5), Decay(near=1)):
        assert (metric.near, metric.decay, repr(metric)) == (1, 0.5, "Decay()")
        assert state_name(metric) == state_name(Decay())
    assert repr(Decay(2)) == "Decay(near=2)"
    assert (Top().k, state_name(Top(2)), repr(Top(3))) == (2, state_name(Top()), "Top(k=3)")


class Weighted(Scored):
    """A score with a module and a table."""

    inner: RecordMetric
    table: Tensor = torch.zeros(2)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("inner", MRR()),
        ("inner", None),
        ("table", torch.ones(2)),
        ("table", torch.nn.Parameter(torch.ones(2))),
    ],
)
def test_a_refused_option_keeps_its_value(name: str, value: Any) -> None:
    """PyTorch takes an attribute away before it sets a module or a parameter of its name."""
    metric = Weighted(MRR())
    before = getattr(metric, name)
    with pytest.raises(AttributeError, match=f"`{name}` of Weighted is fixed"):
        setattr(metric, name, value)
    assert getattr(metric, name) is before
    with pytest.raises(AttributeError, match="`inner` of Weighted is fixed"):
        metric.add_module("inner", MRR())
    with pytest.raises(AttributeError, match="`inner` of Weighted is fixed"):
        del metric.inner
    assert metric.inner is metric._modules["inner"]
