"""What every public metric class promises, whatever it measures."""

from __future__ import annotations

import copy
import inspect
import itertools
import math
import pickle
import re
import weakref
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import pytest
import torch
from torch import Tensor
from torchmetrics import Metric, MetricCollection
from torchmetrics.retrieval import RetrievalMRR
from torchmetrics.utilities.data import dim_zero_sum

import nextloc_metrics
from nextloc_metrics import (
    MRR,
    MeanMetric,
    Ranking,
    RankingMetric,
    next_location_metrics,
)
from nextloc_metrics.core.backends.reference import UNRETRIEVED
from nextloc_metrics.core.base.annotated_options import describe_option
from nextloc_metrics.core.queries.arrays import must_not_sync
from strategies import (
    BLOCK_CASES,
    CASES,
    CLASSES,
    FAMILIES,
    LOCATIONS,
    RANK_CASES,
    RANKING_CASES,
    Case,
    batch,
    same,
    state,
    updated,
)

BY_CLASS = pytest.mark.parametrize("case", CLASSES, ids=str)
BY_FAMILY = pytest.mark.parametrize("case", FAMILIES, ids=str)  # laws that live in `base/`
# Neither more nor less is better, and visits are no fractions.
NEUTRAL = ("Gini", "AveragePopularity", "Entropy", "TailShare", "Novelty")
TABLES = ("AveragePopularity", "TailShare", "Novelty")
UNBOUNDED = (
    "geography.DistanceError", "AveragePopularity", "NegativeLogLikelihood", "Perplexity",
    "BrierScore", "MeanRank", "RankQuantile", "Entropy", "Novelty",
)  # fmt: skip
LOWER = (
    "geography.DistanceError",
    "NegativeLogLikelihood",
    "Perplexity",
    "BrierScore",
    "CalibrationError",
    "AURC",
    "MeanRank",
    "RankQuantile",
)
OF_CONFIDENCE = ("CalibrationError", "AURC", "AccuracyAtCoverage")
EACH_LOCATION = Case("LocationF1", {"num_locations": LOCATIONS, "average": None})


def test_every_public_metric_for_predictions_is_in_the_table() -> None:
    """A metric class that is exported and takes `preds, target` must be listed to be tested."""
    listed = {case.name for case in CASES}
    tested_elsewhere = (
        "Decile", "Grouped", "PerQuery", "Popularity", "Sequence",
    )  # fmt: skip
    for name in nextloc_metrics.__all__:
        thing = getattr(nextloc_metrics, name)
        is_metric = isinstance(thing, type) and issubclass(thing, Metric)
        if is_metric and thing not in (MeanMetric, RankingMetric):
            assert thing.__name__ in listed or name.startswith(tested_elsewhere), name


# State -------------------------------------------------------------------------------------------


@BY_FAMILY
def test_the_state_is_one_summed_integer_tensor(case: Case) -> None:
    """One int64 tensor a metric that processes simply add up."""
    metric = case.make()
    assert len(metric.metric_state) == 1
    (value,) = metric.metric_state.values()
    assert isinstance(value, Tensor)
    assert value.dtype == torch.int64
    assert list(metric._reductions.values()) == [dim_zero_sum]


@BY_FAMILY
def test_the_state_does_not_grow(case: Case) -> None:
    """Many updates need the memory of one."""
    metric = case.make()
    (before,) = metric.metric_state.values()
    record = metric.read(*batch())
    for _ in range(9):
        metric.update(record)
    (after,) = metric.metric_state.values()
    assert after.shape == before.shape
    most = {
        "DistanceError": 1500,
        "RankQuantile": 20_000,
        **dict.fromkeys(OF_CONFIDENCE, 3 * 50_400),
    }
    numbers = most.get(case.name.split(".")[-1], 4 * LOCATIONS + 4)
    assert after.numel() <= numbers
    assert len(pickle.dumps(metric)) < 20_000 + 2 * 8 * numbers


@BY_FAMILY
def test_no_graph_is_kept(case: Case) -> None:
    """Scores that require a gradient leave no trace and can be freed."""
    preds, target = batch()
    logits = preds.clone().requires_grad_()
    scored = logits * 1.0
    metric = case.make()
    metric.update(scored, target)
    batch_value = metric(scored, target)
    assert not batch_value.requires_grad
    assert not metric.compute().requires_grad
    assert not any(value.requires_grad for value in metric.metric_state.values())
    dead = weakref.ref(scored)
    del scored
    assert dead() is None


CASTS: dict[str, Callable[[Metric], Any]] = {
    "bfloat16": lambda metric: metric.bfloat16(),
    "to": lambda metric: metric.to(torch.half),
    "both": lambda metric: metric.set_dtype(torch.half).half(),
}


@BY_FAMILY
def test_casts_leave_counts_whole(case: Case) -> None:
    """fp16 stops counting at 2,048; states of integers do not, also after a reset."""
    preds = torch.zeros(2500, LOCATIONS)
    preds[:, 2] = 1.0
    hit, miss = torch.full((2500,), 2), torch.full((2500,), 3)
    preds[:, 3] = -math.inf
    expected = updated(updated(case.make(), preds, hit), preds, miss)
    for name, lower in CASTS.items():
        metric = case.make()
        lower(metric)
        metric.update(preds, hit)
        lower(metric)
        metric.update(preds, miss)
        assert same(state(metric), state(expected)), name
        assert same(metric.compute(), expected.compute()), name
        assert metric.num_queries == 5000, name
        metric.reset()
        metric.update(preds, hit)
        assert metric.num_queries == 2500, name
        assert all(value.dtype == torch.int64 for value in metric.metric_state.values()), name


@BY_FAMILY
def test_merging_metrics_equals_one_metric(case: Case) -> None:
    """States of two metrics merge to the state of one that saw both halves."""
    preds, target = batch(n=10)
    whole = updated(case.make(), preds, target)
    one = updated(case.make(), preds[:3], target[:3])
    other = updated(case.make(), preds[3:], target[3:])
    for first, second in ((one, other), (case.make(), whole)):
        if first is one:
            first.compute()  # a value that is outdated by the merge
        first.merge_state(second)
        assert same(state(first), state(whole))
        assert same(first.compute(), whole.compute())
        assert first.num_queries == whole.num_queries


# Values ------------------------------------------------------------------------------------------


@BY_CLASS
def test_values_are_single_floats(case: Case) -> None:
    """`compute` and `forward` return a 0-dim float32 tensor, whatever the dtype of the scores."""
    preds, target = batch()
    for dtype in (torch.float16, torch.float64):
        metric = case.make()
        for value in (metric(preds.to(dtype), target), metric.compute()):
            assert value.shape == ()
            assert value.dtype == torch.float32
            assert value >= 0
            assert value <= metric.largest_value or case.name == "Entropy"


#: the members of the contract, what follows from them, and the options
NAMES_OF_A_MEAN = {
    *("record", "needs", "formula", "at_rank", "score", "tally", "empty_state", "check"),
    *("num_queries", "estimate", "chance", "label", "unit", "largest_value", "shared_state"),
    *("is_mean", "has_interval", "key_labels", "footnotes", "group_kind", "set_by_init"),
    "key_names",
    *("read", "state", "state_key", "standard_error", "interval", "scores_of"),
    *("held", "restore", "is_keyed", "options", "score_factor"),
    *("averages_ties", "chance_of_block"),
    *("k", "ties", "validate_args"),
}


def test_few_public_names_each_documented() -> None:
    """Those beyond TorchMetrics' have a docstring, or a line of a class's docstring."""
    names = {name for name in dir(MRR()) if not name.startswith("_")} - {*dir(RetrievalMRR())}
    written = "".join(inspect.getdoc(kind) or "" for kind in MRR.__mro__)
    for name in names:
        found = inspect.getattr_static(MRR, name, None)
        has_docstring = isinstance(found, property | FunctionType) and inspect.getdoc(found)
        assert has_docstring or re.search(rf"^ *{name}: ", written, re.MULTILINE), name
    assert names == NAMES_OF_A_MEAN


@BY_FAMILY
def test_nan_before_data(case: Case) -> None:
    """Without data there is no number: NaN, with torchmetrics' own warning, and no queries."""
    metric = case.make()
    with pytest.warns(UserWarning, match="before the ``update`` method"):
        value = metric.compute()
    assert value.isnan()
    assert value.shape == ()
    assert metric.num_queries == 0


@BY_FAMILY
def test_nan_when_nothing_counts(case: Case) -> None:
    """A batch that is all masked counts nothing, silently."""
    preds, target = batch()
    mask = torch.zeros(len(target), dtype=torch.bool)
    metric = updated(case.make(), preds, target, mask=mask)
    assert metric.num_queries == 0
    assert metric.compute().isnan()
    assert all((value == 0).all() for value in metric.metric_state.values())
    assert metric(preds, target, mask=mask).isnan()


def test_flags() -> None:
    """What torchmetrics and trackers ask a metric class."""
    for case in CASES:
        metric = case.make()
        better = None if case.name in NEUTRAL else case.name not in LOWER
        has_bound = case.name not in UNBOUNDED
        assert metric.higher_is_better is better, case
        assert metric.is_differentiable is False, case
        assert metric.full_state_update is False, case
        assert metric.plot_lower_bound == 0.0, case
        assert metric.plot_upper_bound == (1.0 if has_bound else None), case


@BY_FAMILY
def test_forward_updates_once(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """`forward` returns the batch's value, adds the batch to the rest, and reads it once."""
    calls = []
    first, second = batch(), batch()
    all_rows = torch.ones(len(second[1]), dtype=torch.bool)  # with a mask the record is made
    by_update = updated(case.make(), *first)
    alone = updated(case.make(), *second).compute()
    by_update.update(*second)
    metric = updated(case.make(), *first)
    original = metric.record.read.__func__

    def counted(cls: Any, batch: Any, needs: Any) -> Any:
        calls.append(1)
        return original(cls, batch, needs)

    monkeypatch.setattr(metric.record, "read", classmethod(counted))
    value = metric(*second, all_rows)
    assert calls == [1]
    assert same(value, alone)
    assert same(state(metric), state(by_update))
    assert same(metric.compute(), by_update.compute())


@BY_FAMILY
def test_reset_forgets_everything(case: Case) -> None:
    """After `reset` a metric is as new."""
    metric = updated(case.make(), *batch())
    metric.compute()
    metric.reset()
    assert same(state(metric), state(case.make()))
    later = batch()
    assert same(updated(metric, *later).compute(), updated(case.make(), *later).compute())


@BY_FAMILY
def test_inference_mode_and_after(case: Case) -> None:
    """Updates and a reset inside inference mode go on outside of it, and the other way round."""
    one, other = batch(), batch()
    expected = updated(case.make(), *one)
    expected.update(*other)
    metric = updated(case.make(), *other)
    with torch.inference_mode():
        metric.reset()
        metric.update(*one)
        metric.compute()
    metric.update(*other)
    assert same(metric.compute(), expected.compute())
    with torch.inference_mode():
        made_inside = case.make()
        made_inside(*one)
    made_inside(*other)
    assert same(made_inside.compute(), expected.compute())
    with torch.inference_mode():
        made_inside.reset()
        made_inside.update(*one)
    made_inside.update(*other)
    assert same(made_inside.compute(), expected.compute())
    made_inside.reset()
    made_inside.update(*one)
    assert same(state(pickle.loads(pickle.dumps(made_inside))), state(updated(case.make(), *one)))


@BY_FAMILY
def test_a_state_that_was_handed_out_stays(case: Case) -> None:
    """An update changes neither what was read before nor a copy, however shallow."""
    metric = updated(updated(case.make(), *batch()), *batch())
    before, handed_out = state(metric), metric.metric_state
    metric.update(*batch())
    assert same(dict(zip(before, handed_out.values(), strict=True)), before)
    before, shallow = state(metric), copy.copy(metric)
    metric.update(*batch())
    assert same(state(shallow), before)
    before = state(metric)
    shallow.update(*batch())
    assert same(state(metric), before)


@BY_FAMILY
def test_inputs_are_left_alone(case: Case) -> None:
    """Scores, ids and mask are read and never written."""
    preds, target = batch()
    mask = torch.ones(len(target), dtype=torch.bool)
    copies = [t.clone() for t in (preds, target, mask)]
    case.make()(preds, target, mask=mask)
    assert all(torch.equal(a, b) for a, b in zip((preds, target, mask), copies, strict=True))


@BY_FAMILY
def test_without_validation_the_numbers_are_the_same(case: Case) -> None:
    """`validate_args=False` drops checks, not results, and the state's name stays."""
    one, other = batch(), batch()
    checked, unchecked = case.make(), case.make(validate_args=False)
    for data in (one, other):
        checked.update(*data)
        unchecked.update(*data)
    assert same(checked.compute(), unchecked.compute())


# Names -------------------------------------------------------------------------------------------


def test_repr_shows_what_was_chosen() -> None:
    """Every option that differs from its default can be read."""
    names = {name: getattr(nextloc_metrics, name) for name in nextloc_metrics.__all__}
    for case in CASES:
        text = repr(case.make())
        assert text.startswith(case.name.rpartition(".")[2] + "(")
        if case.name in TABLES:  # which are written as a digest
            assert re.search(r"=<int64 \(6,\) \w+>", text)
            continue
        for name, value in case.options.items():
            assert f"{name}={describe_option(value)}" in text
        if not case.name.startswith("geography"):  # whose coordinates are written as a digest
            assert repr(eval(text, names)) == text


# Classes that share a state, and options that `compute` alone reads, or that follow from those.
SHARED = [
    ({"LocationF1", "LocationPrecision", "LocationRecall"}, {"average"}),
    (
        {"Coverage", "Gini", "AveragePopularity", "Entropy", "TailShare"},
        {"definition", "train_counts", "num_locations"},
    ),
    ({"geography.DistanceError"}, {"statistic"}),
    ({"RankQuantile"}, {"q"}),
    ({"NegativeLogLikelihood", "Perplexity"}, {"base"}),
    ({"BrierScore"}, {"normalized"}),
    (
        {"CalibrationError", "AURC", "AccuracyAtCoverage"},
        {"bins", "norm", "coverage"},
    ),
]


def may_merge(one: Case, other: Case) -> bool:
    """Whether two metrics update alike, so that torchmetrics may well share their state."""
    read_by_compute = [
        options for names, options in [*SHARED, ({one.name}, set[str]())]
        if {one.name, other.name} <= names
    ]  # fmt: skip
    return bool(read_by_compute) and all(
        one.options.get(option) == other.options.get(option)
        for option in {*one.options, *other.options} - read_by_compute[0]
    )


def test_state_names_tell_every_pair_apart() -> None:
    """Metrics that update differently share no name of a state, so they can never be merged."""
    names = {str(case): set(case.make().metric_state) for case in CASES}
    for one, other in itertools.combinations(CASES, 2):
        if not may_merge(one, other):
            assert names[str(one)].isdisjoint(names[str(other)]), (str(one), str(other))


# Every pair of classes is side by side below, and in one way every pair of options.
ALL = {f"m{i}": case for i, case in enumerate([*CASES, EACH_LOCATION])}
PAIRED = list({case.name: m for m, case in ALL.items()}.values())


def only_misses() -> tuple[Tensor, ...]:
    """Every relevant location is scored -inf; id 2 so that no `ignore_index` leaves it out."""
    preds = torch.zeros(4, LOCATIONS)
    preds[:, 2] = -math.inf
    return preds, torch.full((4,), 2), torch.ones(4, dtype=torch.bool)


def only_hits() -> tuple[Tensor, ...]:
    """Every relevant location is scored best."""
    preds = torch.zeros(4, LOCATIONS)
    preds[:, 2] = 1.0
    return preds, torch.full((4,), 2), torch.ones(4, dtype=torch.bool)


def nothing_counted() -> tuple[Tensor, ...]:
    """Every query is masked."""
    return torch.zeros(4, LOCATIONS), torch.full((4,), 2), torch.zeros(4, dtype=torch.bool)


FIRST_BATCHES = [only_misses, only_hits, nothing_counted]


@cache
def batches_after(first: int) -> list[tuple[Tensor, ...]]:
    """One of the first batches, and two others that are the same in every test."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(20)
        return [FIRST_BATCHES[first](), batch(), batch()]


@cache
def alone(name: str, first: int) -> list[Tensor]:
    """The values of one metric by itself after each of these batches, computed once."""
    metric = ALL[name].make()
    return [updated(metric, *data).compute() for data in batches_after(first)]


@cache
def alone_on(name: str, first: int, number: int) -> Tensor:
    """The value of one of these batches by itself."""
    if not number:
        return alone(name, first)[0]
    return updated(ALL[name].make(), *batches_after(first)[number]).compute()  # type: ignore[no-any-return]


WAYS: list[Any] = [
    pytest.param(x, n, marks=pytest.mark.slow) for x, n in (("all", 0), ("update", 1))
]
# what is called between updates: the groups that share a state were found in the first of them
WAYS += [("forward", 2), ("clone", 0), ("compute", 1), ("reset", 2), ("values", 2)]


@pytest.mark.parametrize(
    ("path", "first"),
    WAYS,
    ids=lambda x: x if isinstance(x, str) else ("misses", "hits", "nothing")[x],
)
def test_all_metrics_in_one_plain_collection(path: str, first: int) -> None:
    """Every pair at once, of all, of classes or of a third; whatever the first batch and way."""
    # torchmetrics compares all pairs again after each that it merges: the time grows by the cube
    names = sorted({"all": [*ALL], "update": PAIRED}.get(path, PAIRED[::3]))
    together = MetricCollection({name: ALL[name].make() for name in names})
    if path == "reset":
        together.update(*batch())
        together.compute()
        together.reset()
    for number, data in enumerate(batches_after(first)):
        if path == "forward":
            values = together(*data)
            of_others = first if number == 0 else 0  # which are the same after every first one
            expected = {name: alone_on(name, of_others, number) for name in names}
            assert same(dict(sorted(values.items())), expected)
        else:
            together.update(*data)
        if path == "clone":
            together = together.clone()
        if path == "compute":
            together.compute()
        if path == "values":
            assert len([metric.compute() for metric in together.values()]) == len(names)
    expected = {name: alone(name, first)[-1] for name in names}
    assert same(dict(sorted(together.compute().items())), expected)


# Ranking -----------------------------------------------------------------------------------------


def test_a_ranking_has_integer_places() -> None:
    """Four int64 `[N, M]` tensors, best place first, what was not retrieved last."""
    preds = torch.tensor([[0.0, 5.0, -math.inf, 2.0], [math.nan, 1.0, 1.0, 0.0]])
    ranking = Ranking.from_scores(preds, torch.tensor([[0, 2, 1], [0, 1, -1]]))
    for name in ("above", "tied", "relevant_above", "relevant_tied"):
        field = getattr(ranking, name)
        assert field.dtype == torch.int64
        assert field.shape == (2, 3)
    assert ranking.above.tolist() == [[0, 2, UNRETRIEVED], [1, UNRETRIEVED, UNRETRIEVED]]
    assert ranking.tied.tolist() == [[1, 1, 1], [2, 1, 1]]
    assert ranking.relevant_above[0, :2].tolist() == [0, 1]
    assert ranking.relevant_above[1, 0] == 0
    assert (ranking.relevant_tied == 1).all()
    assert ranking.num_relevant.tolist() == [3, 2]
    assert ranking.relevant[0].tolist() == [1, 0, 2]
    assert ranking.gains.shape == (2, 3)
    assert ranking.gains.double().tolist() == [[1, 1, 1], [1, 1, 0]]
    assert ranking.counted.tolist() == [True, True]
    every = torch.ones(2, 4, dtype=torch.bool)
    relevant = Ranking.from_scores(preds, every, ignore_index=3).relevant
    assert relevant.shape == (2, 4 if must_not_sync(preds) else 3)
    assert relevant[:, :3].sort().values.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert UNRETRIEVED == 2**62


@pytest.mark.parametrize("relevance", ["id", "ids", "bool", "graded"])
@pytest.mark.parametrize("form", ["scores", "lists", "embeddings"])
def test_a_ranking_outlives_what_it_was_made_of(form: str, relevance: str) -> None:
    """Buffers of a data loader are written over."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(6, 9, generator=generator)
    target = {
        "id": torch.arange(6),
        "ids": torch.arange(12).view(6, 2) % 9,
        "bool": scores > 0.5,
        "graded": scores.clamp(min=0),
    }[relevance]
    mask, groups = torch.arange(6) != 2, torch.arange(6)
    preds = scores.argsort(1)[:, :4].contiguous() if form == "lists" else scores
    table = torch.randn(9, 9, generator=generator)
    inputs = [preds, target, mask, groups, table]

    def rank(preds: Tensor, target: Tensor, mask: Tensor, groups: Tensor, table: Tensor) -> Ranking:
        if form == "embeddings":
            ranking = Ranking.from_embeddings(preds, table, target, mask, top=2)
        elif form == "lists":
            ranking = Ranking.from_lists(preds, target, mask, top=2)
        else:
            ranking = Ranking.from_scores(preds, target, mask, top=2)
        return ranking.with_groups(groups)

    kept = rank(*[one.clone() for one in inputs])
    ranking = rank(*inputs)
    for one in inputs:
        one.zero_()
    for name in (*vars(kept), "gains"):
        value, expected = getattr(ranking, name), getattr(kept, name)
        if isinstance(expected, Tensor):
            assert torch.equal(value, expected), name
    assert ranking.first is not None
    assert kept.first is not None
    assert torch.equal(ranking.first.ids, kept.first.ids)
    assert torch.equal(ranking.first.best, kept.first.best)
    assert torch.equal(ranking.first.retrieved, kept.first.retrieved)


@BY_FAMILY
def test_metrics_take_rankings(case: Case) -> None:
    """A ranking in place of `preds, target` gives the same bits."""
    preds, target = batch()
    metric = case.make()
    ranking: Any = metric.read(preds, target)
    if isinstance(ranking, Ranking):
        ignored = metric.ignore_index
        ranking = Ranking.from_scores(preds, target, ignore_index=ignored, top=8, length=True)
    expected = updated(case.make(), preds, target)
    assert same(state(updated(metric, ranking)), state(expected))
    for one in (pickle.loads(pickle.dumps(ranking)), copy.deepcopy(ranking), ranking.to("cpu")):
        assert same(state(updated(case.make(), one)), state(expected))
    assert same(case.make()(ranking), expected.compute())


@pytest.mark.parametrize("case", [*RANKING_CASES, *BLOCK_CASES, *RANK_CASES], ids=str)
def test_places_alone_are_enough(case: Case) -> None:
    """A ranking that kept as many first ranks as a metric asks for is all that it needs."""
    preds, target = batch()
    needs = case.make().needs
    ranking = Ranking.from_scores(preds, target, top=needs.top, length=needs.length)
    expected = updated(case.make(), preds, target)
    assert same(state(updated(case.make(), ranking)), state(expected))


@pytest.mark.parametrize("used", [False, True])
def test_a_ranking_survives_the_handling_of_batches(used: bool) -> None:
    """Lightning and torch copy a batch and replace its tensors, also after a metric saw it."""
    utilities = pytest.importorskip(
        "lightning_utilities.core.apply_func", reason="the check needs lightning-utilities"
    )
    preds, target = batch()
    ranking = Ranking.from_scores(preds, target, top=1)
    metrics = [Case("MRR"), Case("AccuracyAtK", {"k": 2}), Case("LocationF1", {"num_locations": 6})]
    if used:
        for case in metrics:
            updated(case.make(), ranking)
    data = {"ranking": ranking, "n": 3}
    whole = utilities.apply_to_collection(data, Tensor, lambda t: t.clone())["ranking"]
    part = utilities.apply_to_collection(data, Tensor, lambda t: t[:3])["ranking"]
    for case in metrics:
        assert same(state(updated(case.make(), whole)), state(updated(case.make(), preds, target)))
        expected = updated(case.make(), preds[:3], target[:3])
        assert same(state(updated(case.make(), part)), state(expected))


# Cost --------------------------------------------------------------------------------------------


def test_deterministic_algorithms() -> None:
    """Nothing needs an operation that torch calls nondeterministic."""
    preds, target = batch()
    metrics = next_location_metrics(LOCATIONS)
    torch.use_deterministic_algorithms(True)
    try:
        metrics.update(preds, target)
        metrics.update(preds, torch.nn.functional.one_hot(target, LOCATIONS).bool())
        values = metrics.compute()
    finally:
        torch.use_deterministic_algorithms(False)
    again = next_location_metrics(LOCATIONS)
    again.update(preds, target)
    again.update(preds, target)
    assert same(values, again.compute())


def test_an_error_in_a_block_of_summed_states_leaves_the_own_state() -> None:
    """TorchMetrics would keep the sum over processes, so that the next batch is added to it."""
    metric = MRR()
    metric.update([[3, 5]], [5])
    own = metric.state
    metric.distributed_available_fn = lambda: True
    twice: Any = {"dist_sync_fn": lambda state, group=None: [state, state]}

    def fail() -> None:
        with metric.sync_context(**twice, should_sync=True):
            assert int(metric.num_queries) == 2
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert metric.state.equal(own)
    assert int(metric.num_queries) == 1
