"""What an accelerator asks for: no waiting, graphs, little memory, and the bits of the CPU.

Without a device, tensors that have no values (`meta`) show that nothing reads a value, and
compiled graphs run on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from packaging.version import Version
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from metric_entries import CASES, CLASSES, FAMILIES
from metric_tester import Case
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    DecileCoverage,
    DecileKForRecall,
    DecileNDCG,
    DecilePrecision,
    DecilePredictionShare,
    Grouped,
    LocationF1,
    PopularityBins,
    Ranking,
    backends,
    next_location_metrics,
    recommendation_metrics,
    scoring,
)
from nextloc_metrics.base import Distribution, RecordMetric
from strategies import state, with_case_in_error

NEEDS_DEVICE = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
WIDE = 600  # candidates, where there must be more than a preset's 6 locations

FORMS: dict[str, tuple[tuple[int, ...], bool, tuple[int, ...]]] = {
    # shape of `preds`, whether they are scores, shape of `target`
    "one": ((8, 6), True, (8,)),
    "steps of sequences": ((2, 4, 6), True, (2, 4)),
    "several": ((8, 6), True, (8, 3)),
    "many": ((8, WIDE), True, (8, 80)),
    "lists": ((8, 5), False, (8,)),
    "lists, several": ((8, 5), False, (8, 3)),
}


class NoWaiting(TorchDispatchMode):
    """Refuse copies between the host and the device, and tensors made of the host's values."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        name = func.overloadpacket.__name__
        assert name != "lift_fresh", "a tensor is made of Python's values"
        if name == "_to_copy":
            assert (kwargs or {}).get("device") in (None, args[0].device), "a copy between devices"
        return func(*args, **(kwargs or {}))


def without_values(form: str) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs that have a shape, and no value that could be read."""
    shape, are_scores, target = FORMS[form]
    preds = torch.empty(shape, device="meta", dtype=torch.float32 if are_scores else torch.int64)
    counted = torch.empty(shape[:-1], device="meta", dtype=torch.bool)
    return preds, torch.empty(target, device="meta", dtype=torch.int64), counted


def update_without_waiting(metric: Any, *args: Tensor, **kwargs: Tensor) -> None:
    """Only a first update may wait, to send tables to the device."""
    try:
        with NoWaiting():
            metric.update(*args, **kwargs)
    except AssertionError:
        metric.update(*args, **kwargs)
        with NoWaiting():
            metric.update(*args, **kwargs)


@pytest.mark.slow  # PyTorch takes a fifth of a second for each case
@pytest.mark.parametrize("case", [c for c in CLASSES if not c.entry.waits], ids=str)
def test_an_update_without_validation_reads_no_value(case: Case) -> None:
    """Whatever would wait for a device cannot run on tensors without values.

    Forms are read in `base/`: one class of each family has all of them, the others one.
    """
    of_locations = {"num_locations", "train_counts", "locations"} & set(case.options)
    metric = case.make(validate_args=False).clone().to("meta")  # coordinates of its own
    others = ("one",) if metric.record is Distribution else ("lists, several",)
    for form in FORMS if case in FAMILIES else others:
        if form == "many" and of_locations:
            continue  # it has more candidates than locations
        if metric.record is Distribution and form not in ("one", "steps of sequences"):
            continue  # one relevant location, and scores
        with with_case_in_error(form):
            update_without_waiting(metric, *without_values(form))


def decile_metrics() -> Iterator[RecordMetric]:
    """One of each."""
    bins = PopularityBins([1, 2, 0, 2, 1, 1])
    for make in (
        lambda: DecilePrecision(bins, k=2, validate_args=False),
        lambda: DecilePrecision(bins, k=2, scope="all", validate_args=False),
        lambda: DecileNDCG(bins, k=2, validate_args=False),
        lambda: DecileKForRecall(bins, min_recall=0.5, candidates=5, validate_args=False),
        lambda: DecilePredictionShare(bins, k=3, validate_args=False),
        lambda: DecileCoverage(bins, k=2, validate_args=False),
    ):
        yield make().to("cpu").clone()  # bins of its own


@pytest.mark.parametrize("form", ["one", pytest.param("lists, several", marks=pytest.mark.slow)])
def test_decile_metrics_and_groups_read_no_value(form: str) -> None:
    """Nor do the metrics that need ids, and those of groups."""
    preds, target, counted = without_values(form)
    for metric in decile_metrics():
        update_without_waiting(metric.to("meta"), preds, target, counted)
    grouped = Grouped(MRR(validate_args=False), num_groups=3).to("meta")
    groups = torch.empty(counted.shape, dtype=torch.int64, device="meta")
    update_without_waiting(grouped, preds, target, counted, groups=groups)
    by_key = Grouped(MRR(validate_args=False)).to("meta")
    f1 = LocationF1(validate_args=False).to("meta")
    for _ in range(3):
        update_without_waiting(by_key, preds, target, counted, groups=groups)
        if form == "one":
            update_without_waiting(f1, preds, target, counted)


@pytest.mark.parametrize("form", FORMS)
def test_collections_read_no_value(form: str) -> None:
    """After the first batch, by which TorchMetrics finds the members that can share a state."""
    shape, are_scores, target = FORMS[form]
    preds = torch.rand(shape) if are_scores else torch.randint(6, shape)
    collections = [recommendation_metrics(k=3, validate_args=False)]
    if len(target) == len(shape) - 1:
        collections.append(next_location_metrics(6, validate_args=False))
        collections.append(next_location_metrics(validate_args=False))
    for collection in collections:
        collection.update(preds, torch.zeros(target, dtype=torch.int64))
        update_without_waiting(collection.to("meta"), *without_values(form))


def test_what_must_read_a_value_is_noticed() -> None:
    """Validation, dense relevance and an error for empty targets do; so the tests above can."""
    preds, target, _ = without_values("one")
    with pytest.raises(RuntimeError, match="meta"):
        AccuracyAtK(1).to("meta").update(preds, target)
    with pytest.raises(NotImplementedError, match="nonzero"):
        AccuracyAtK(1, validate_args=False).to("meta").update(preds, preds > 0)
    with pytest.raises(NotImplementedError, match="nonzero"):
        AccuracyAtK(1, validate_args=False, empty_target_action="error").to("meta").update(
            preds, target
        )
    with pytest.raises(AssertionError, match="Python's values"), NoWaiting():
        torch.tensor([1.0])
    with pytest.raises(AssertionError, match="between devices"), NoWaiting():
        torch.ones(1).to("meta")


# Compiled graphs ----------------------------------------------------------------------------------


def all_scores(ranking: Ranking) -> tuple[Tensor, ...]:
    """Every score function, cut or not, and with ties broken."""
    return (
        scoring.hits(ranking, 3),
        scoring.accuracy(ranking, 3),
        scoring.reciprocal_rank(ranking),
        scoring.reciprocal_rank(ranking, 3),
        scoring.ndcg(ranking, 3),
        scoring.ndcg(ranking, 3, "exponential", "full"),
        scoring.average_precision(ranking, 3),
        scoring.precision(ranking, 3),
        scoring.recall(ranking, 3, normalized=True),
        scoring.f1(ranking, 3),
        scoring.accuracy(ranking.break_ties("optimistic"), 3),
        scoring.reciprocal_rank(ranking.break_ties("pessimistic")),
    )


def rank_and_score(scores: Tensor, target: Tensor) -> tuple[Tensor, ...]:
    """From scores to scores: the places, the best candidate, and all that follows."""
    ranking = Ranking.from_scores(scores, target, validate_args=False, top=2)
    first = ranking.top_candidates(2)
    places = ranking.above, ranking.tied, ranking.relevant_above, ranking.relevant_tied
    return (
        *places,
        first.best,
        first.ids,
        scoring.precision(ranking, 2, "retrieved"),
        *(all_scores(ranking)),
    )


def check_compiled(backend: str, device: str, width: int) -> None:
    """Compare a compiled graph with running it op by op."""
    generator = torch.Generator().manual_seed(width)
    scores = torch.randint(4, (7, 700), generator=generator).float()
    scores[0, :5] = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0])
    scores[1] = 0.0  # a block of ties that is longer than what is summed place by place
    target = torch.randint(-1, 700, (7, width), generator=generator)
    target = target.clamp(min=0)[:, 0] if width == 1 else target
    scores, target = scores.to(device), target.to(device)
    torch.compiler.reset()
    found = torch.compile(rank_and_score, fullgraph=True, backend=backend)(scores, target)
    for one, other in zip(found, rank_and_score(scores, target), strict=True):
        assert torch.equal(one, other)


# In 2.4 `fullgraph` knows less of Python; versions between were not tried.
compiles = pytest.mark.skipif(
    Version(torch.__version__) < Version("2.13"), reason="one graph was shown with torch 2.13"
)


@pytest.mark.slow
@compiles
@pytest.mark.parametrize(
    ("backend", "width"),
    [("eager", 1), *(pytest.param(x, 4, marks=pytest.mark.extra) for x in ("eager", "aot_eager"))],
)
def test_compiled_graphs_give_the_same_bits(backend: str, width: int) -> None:
    """`Ranking.from_scores` and the scores are one graph, without a break."""
    check_compiled(backend, "cpu", width)


@pytest.mark.slow  # compiles
@compiles
def test_one_graph_serves_any_number_of_candidates() -> None:
    """The first ranks included."""

    def first_ids(scores: Tensor, target: Tensor) -> Tensor:
        ranking = Ranking.from_scores(scores, target, validate_args=False, top=5)
        return ranking.top_candidates(5).ids

    torch.compiler.reset()
    compiled = torch.compile(first_ids, fullgraph=True, dynamic=True, backend="eager")
    for candidates in (3000, 2500):
        scores, target = torch.randn(7, candidates), torch.arange(7)
        assert torch.equal(compiled(scores, target), first_ids(scores, target))


# On a device --------------------------------------------------------------------------------------


def dirty(rows: int, columns: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Scores with ties, and some of every value that is special."""
    scores = torch.randint(-40, 40, (rows, columns)).float()
    for value in (torch.nan, torch.inf, -torch.inf, -0.0):
        scores[torch.rand(rows, columns) < 1 / columns] = value
    return scores.to(dtype)


@NEEDS_DEVICE
@pytest.mark.parametrize("case", CASES, ids=str)
def test_states_on_the_device_are_those_of_the_cpu(case: Case) -> None:
    """The places are the same integers, and the scores the same up to 2^-32 a query."""
    scores, target = dirty(50, 6), torch.randint(6, (50,))
    here, there = case.make(), case.make().to("cuda")
    here.update(scores, target)
    there.update(scores.cuda(), target.cuda())
    for name, value in state(here).items():
        assert (value - state(there)[name].cpu()).abs().max() <= 50


@NEEDS_DEVICE
@pytest.mark.parametrize("triton", [True, False])
@pytest.mark.parametrize("shape", [(3, 100_000), (5000, 100), (256, 1187)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_places_on_the_device_are_those_of_the_cpu(
    dtype: torch.dtype, shape: tuple[int, int], triton: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the kernel, and by PyTorch's operations where there is no Triton."""
    if not triton:
        monkeypatch.setattr(backends, "_chosen", [backends.Reference()])
    scores = dirty(*shape, dtype)
    for width in (1, 10, 70):
        target = torch.randint(-1, shape[1], (shape[0], width))
        here = Ranking.from_scores(scores, target, top=3)
        there = Ranking.from_scores(scores.cuda(), target.cuda(), top=3).to("cpu")
        assert here.first is not None
        assert there.first is not None
        for name in ("above", "tied", "relevant_above", "relevant_tied", "relevant"):
            assert torch.equal(getattr(here, name), getattr(there, name)), name
        assert torch.equal(here.first.best, there.first.best)
        assert torch.equal(here.first.ids, there.first.ids)


@NEEDS_DEVICE
@pytest.mark.parametrize("width", [1, 10])
def test_an_update_does_not_wait_for_the_device(width: int) -> None:
    """PyTorch itself raises where an operation would."""
    scores, target = dirty(64, 5000).cuda(), torch.randint(5000, (64, width)).cuda()
    make: Callable[..., Any] = recommendation_metrics
    metrics = make(k=3, validate_args=False).to("cuda")
    metrics.add_metrics({"full_mrr": MRR(validate_args=False).to("cuda")})
    if width == 1:
        metrics.add_metrics({"f1": LocationF1(5000, validate_args=False).to("cuda")})
    metrics.update(scores, target)
    torch.cuda.set_sync_debug_mode("error")
    try:
        metrics.update(scores, target)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@NEEDS_DEVICE
@pytest.mark.parametrize("width", [1, 4])
def test_graphs_are_captured_and_replayed(width: int) -> None:
    """A replay ranks what the input holds by then, the same as running it op by op."""
    scores, target = torch.randn(64, 3000).cuda(), torch.randint(3000, (64, width)).cuda()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        rank_and_score(scores, target)  # compiles the kernel, and sends the tables
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = rank_and_score(scores, target)
    scores.copy_(dirty(64, 3000))
    graph.replay()
    for one, other in zip(captured, rank_and_score(scores, target), strict=True):
        assert torch.equal(one, other)


@NEEDS_DEVICE
@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_graphs_on_the_device(backend: str, width: int) -> None:
    """The kernel is one operation of them."""
    check_compiled(backend, "cuda", width)


@NEEDS_DEVICE
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_update_needs_little_memory(dtype: torch.dtype) -> None:
    """The peak is below 2 % of the scores, F1 and its state of three integers a location aside."""
    scores = torch.randn(1024, 100_000, device="cuda").to(dtype)
    target = torch.randint(100_000, (1024,), device="cuda")
    metrics = next_location_metrics(100_000, validate_args=False).to("cuda")
    state_bytes = 3 * 100_000 * 8
    metrics.update(scores, target)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    metrics.update(scores, target)
    extra = torch.cuda.max_memory_allocated() - before
    assert extra < 0.02 * scores.nbytes + 2 * state_bytes
