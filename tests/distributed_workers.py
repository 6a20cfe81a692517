"""What the distributed tests run in other processes, and how they start and stop them.

Every process is a real member of a gloo group on this machine, which lasts for one call. The
processes are a pool that all tests share, as to import anew what tests import takes longer than all
else: a process turns warnings into errors, waits at most a minute for the others, and is killed
with the others, and replaced, after a call that fails.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import multiprocessing.connection
import os
import pickle
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import timedelta
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import torch
import torch.distributed
from torch import Tensor
from torchmetrics.classification import MulticlassAccuracy

from nextloc_metrics import (
    AUC,
    AURC,
    MRR,
    RBP,
    AccuracyAtCoverage,
    AccuracyAtK,
    AnsweredAccuracy,
    AnsweredShare,
    AveragePopularity,
    BrierScore,
    CalibrationError,
    Coverage,
    CoverageAtRisk,
    DecileKForRecall,
    DecileNDCG,
    DecilePrecision,
    Distribution,
    EmptySets,
    Entropy,
    ERRAtK,
    F1AtK,
    FallOutAtK,
    Gini,
    Grouped,
    IntraListDiversity,
    LocationF1,
    LocationPrecision,
    LocationRecall,
    MAPAtK,
    MeanPercentileRank,
    MeanRank,
    NDCGAtK,
    NegativeLogLikelihood,
    Novelty,
    Perplexity,
    PerQueryScores,
    Personalization,
    PopularityBins,
    PrecisionAtK,
    Ranking,
    RankingCollection,
    RankQuantile,
    RecallAtK,
    RPrecision,
    SampledRanks,
    SequenceAccuracy,
    Serendipity,
    SetCoverage,
    SetSize,
    TailShare,
    decile_metrics,
    libcity_metrics,
    next_location_metrics,
    probability_metrics,
    recommendation_metrics,
)
from nextloc_metrics.base.mean import RecordMetric
from nextloc_metrics.base.summed import all_reduce
from nextloc_metrics.distributed import PaddedDataset
from nextloc_metrics.means import exact
from nextloc_metrics.metrics.exposure import DecileCoverage, DecilePredictionShare
from nextloc_metrics.metrics.location_f1 import LocationTally

TIME_OUT = timedelta(seconds=300)

# Processes of a busy machine sometimes fail to connect, before anything that is tested.
_ATTEMPTS = 3

METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
PROCESSES = multiprocessing.get_context(METHOD)
PROCESSES.set_forkserver_preload(["torchmetrics.classification", "nextloc_metrics"])

# The environment of processes started anew: torch.distributed stays on this machine.
LOOPBACK = {"OMP_NUM_THREADS": "1"}
if sys.platform == "linux":
    LOOPBACK["GLOO_SOCKET_IFNAME"] = "lo"

# Warnings of Lightning about itself and the data loading, whatever is evaluated.
LIGHTNINGS_OWN = [
    ".*does not have many workers",
    "Using `DistributedSampler` with the dataloaders",  # which is what is tested
    ".*`isinstance.treespec, LeafSpec.` is deprecated",
]

# What of torch.distributed sends something to other processes.
COLLECTIVES = [
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "gather_object",
    "monitored_barrier",
    "recv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "send",
]


def same(one: Any, other: Any) -> None:
    """Assert that two values, or dicts of values, are equal to the last bit."""
    torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


def run(
    function: Callable[..., Any],
    num_processes: int,
    *args: Any,
    seconds: float = 600,
    may_die: bool = False,
) -> list[Any]:
    """Call `function(rank, *args)` in every process of a group, and return what each returned.

    With `may_die` a process may end without returning anything, and None stands for it.
    """
    for _ in range(_ATTEMPTS):
        results, timed_out = _attempt(function, num_processes, args, seconds, may_die)
        kinds = {kind for kind, _ in results}
        if "unconnected" not in kinds or "error" in kinds:
            break
    errors = [result for kind, result in results if kind in ("error", "unconnected")]
    if errors:
        raise AssertionError("\n".join(errors))
    if not may_die and any(kind == "died" for kind, _ in results):
        raise AssertionError(f"killed after {seconds} s: processes {timed_out}")
    return [result for _, result in results]


def _attempt(
    function: Callable[..., Any],
    num_processes: int,
    args: tuple[Any, ...],
    seconds: float,
    may_die: bool,
) -> tuple[list[tuple[str, Any]], list[int]]:
    """Return what became of every process, and which were killed."""
    results: dict[int, tuple[str, Any]] = {}
    waiting = {pipe: rank for rank, (_, pipe) in enumerate(_members(num_processes))}
    deadline = time.monotonic() + seconds
    with TemporaryDirectory() as folder:
        for pipe, rank in waiting.items():
            pipe.send_bytes(pickle.dumps((function, rank, num_processes, folder, args)))
        while waiting and (left := deadline - time.monotonic()) > 0:
            for pipe in multiprocessing.connection.wait(list(waiting), timeout=left):
                rank = waiting.pop(pipe)
                try:
                    results[rank] = pickle.loads(pipe.recv_bytes())
                except (EOFError, OSError):
                    results[rank] = "died", None
            if not may_die and any(kind != "returned" for kind, _ in results.values()):
                break
        if waiting or any(kind != "returned" for kind, _ in results.values()):
            _kill()
    timed_out = sorted(waiting.values())
    return [results.get(rank, ("died", None)) for rank in range(num_processes)], timed_out


_pool: list[tuple[Any, Any]] = []

# Groups of a process that are over. PyTorch 2.4 can deadlock where it frees one: it joins a thread
# that waits for the interpreter's lock to free the last tensors.
_over: list[Any] = []


def _members(number: int) -> list[tuple[Any, Any]]:
    """So many processes of the pool, each with the pipe to it."""
    while len(_pool) < number:
        pipe, theirs = PROCESSES.Pipe()
        process = PROCESSES.Process(target=_serve, args=(theirs,))
        process.start()
        theirs.close()
        _pool.append((process, pipe))
    return _pool[:number]


@atexit.register
def _kill() -> None:
    """End the processes of the pool."""
    for process, pipe in _pool:
        process.kill()
        process.join()
        pipe.close()
    _pool.clear()


def _serve(pipe: Any) -> None:
    """Call what comes through the pipe, until its other end is closed."""
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    os.environ.update(LOOPBACK)
    with contextlib.suppress(EOFError):
        while True:
            pipe.send_bytes(_work(pipe.recv_bytes()))


def _work(call: bytes) -> bytes:
    """What a call in a group of processes returned, or the error that it raised."""
    torch.default_generator.manual_seed(20)
    failure = "error"
    try:
        function, rank, num_processes, folder, args = pickle.loads(call)
        failure = "unconnected"
        torch.distributed.init_process_group(
            "gloo",
            init_method=f"file://{folder}/rendezvous",
            rank=rank,
            world_size=num_processes,
            timeout=TIME_OUT,
        )
        failure = "error"
        returned = pickle.dumps(("returned", function(rank, *args)))
        _over.append(torch.distributed.group.WORLD)
        torch.distributed.destroy_process_group()
        return returned
    except Exception:
        return pickle.dumps((failure, f"a process failed:\n{traceback.format_exc()}"))


def growth_of_memory(locations: int) -> int:
    """How much the most memory that this process held grows by an update of 64 queries."""
    import resource  # which Windows lacks

    torch.set_num_threads(1)
    warm = next_location_metrics(10)
    warm.update(torch.randn(4, 10), torch.tensor([1, 2, 3, 4]))
    warm.compute()
    preds, target = torch.randn(64, locations), torch.arange(64)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    metrics = next_location_metrics(locations)
    metrics.update(preds, target)
    metrics.compute()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before


@contextlib.contextmanager
def collectives() -> Iterator[list[str]]:
    """List the names of torch.distributed's functions as they are called."""
    called: list[str] = []
    depth = 0

    def counted(name: str) -> Callable[..., Any]:
        original = getattr(torch.distributed, name)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            nonlocal depth
            if depth == 0:  # what one of them calls itself is part of it
                called.append(name)
            depth += 1
            try:
                return original(*args, **kwargs)
            finally:
                depth -= 1

        return wrapper

    with contextlib.ExitStack() as stack:
        for name in COLLECTIVES:
            stack.enter_context(mock.patch.object(torch.distributed, name, counted(name)))
        yield called


# What is evaluated --------------------------------------------------------------------------------

LOCATIONS = 8
ROWS = 101
GROUPS = 4
BINS = [3, 3, 2, 2, 1, 1, 0, 0]


def bins() -> PopularityBins:
    """Three popularity bins, and two locations in none."""
    return PopularityBins(BINS)


def single_metrics() -> dict[str, RecordMetric]:
    """Make one of every public class, and of the options that change how they count."""
    metrics = [
        AccuracyAtK(3),
        AccuracyAtK(3, ties="optimistic"),
        AccuracyAtK(3, empty_target_action="neg"),
        MRR(),
        MRR(3, ties="pessimistic"),
        NDCGAtK(3),
        NDCGAtK(3, gain="exponential", ideal="full"),
        MAPAtK(3),
        MAPAtK(3, normalizer="relevant"),
        PrecisionAtK(3),
        PrecisionAtK(3, denominator="retrieved"),
        RecallAtK(3),
        RecallAtK(3, normalized=True),
        F1AtK(3),
        F1AtK(3, average="pooled"),
        LocationF1(LOCATIONS),
        LocationF1(LOCATIONS, average="macro"),
        LocationF1(LOCATIONS, average=None),
        LocationPrecision(LOCATIONS),
        LocationRecall(LOCATIONS, average="macro"),
        DecilePrecision(bins(), 2),
        DecilePrecision(bins(), 2, scope="global"),
        DecileNDCG(bins(), 2),
        DecileKForRecall(bins(), 0.5),
        DecileKForRecall(bins(), 0.5, statistic="mean"),
        DecilePredictionShare(bins(), 3),
        DecileCoverage(bins(), 1),
        DecileCoverage(bins(), 1, denominator="mapped", decile="overall"),
        Coverage(LOCATIONS, 3),
        Coverage(LOCATIONS, 1),
        Gini(LOCATIONS, 3),
        Gini(LOCATIONS, 3, definition="evenness"),
        AveragePopularity(range(LOCATIONS), 3),
        SampledRanks(LOCATIONS - 1),
        MeanRank(),
        RankQuantile(0.5),
        MeanPercentileRank(),
        AUC(),
        RPrecision(),
        FallOutAtK(3),
        RBP(0.8),
        ERRAtK(3),
        Entropy(LOCATIONS, 3),
        Personalization(LOCATIONS, 3),
        TailShare(3, range(LOCATIONS)),
        Novelty(3, range(1, LOCATIONS + 1)),
        IntraListDiversity(3, torch.arange(LOCATIONS) % 4),
        Serendipity(3, range(1, LOCATIONS + 1)),
        NegativeLogLikelihood(given="logits"),
        Perplexity(floor=0.01, given="logits"),
        BrierScore(given="logits"),
        CalibrationError(given="logits"),
        AURC(given="logits"),
        AccuracyAtCoverage(0.5, given="logits"),
        CoverageAtRisk(0.5, given="logits"),
        SetCoverage(0.7, given="logits"),
        SetSize(0.7, given="logits"),
        EmptySets(0.5, given="logits"),
        AnsweredShare(given="logits"),
        AnsweredAccuracy(given="logits"),
        Grouped(AccuracyAtK(3), GROUPS),
        Grouped(SetSize(0.7, given="logits"), GROUPS),
        Grouped(MRR(), GROUPS, average="groups"),
        Grouped(MRR(), GROUPS, average="queries"),
    ]
    return {repr(metric): metric for metric in metrics}


def presets(**kwargs: Any) -> dict[str, RankingCollection]:
    """Make the presets that are ranking collections."""
    return {
        "next_location_metrics": next_location_metrics(LOCATIONS, **kwargs),
        "recommendation_metrics": recommendation_metrics(**kwargs),
        "libcity_metrics": libcity_metrics(3, **kwargs),
        "decile_metrics": decile_metrics(bins(), 2, **kwargs),
        "probability_metrics": probability_metrics(given="logits", **kwargs),
    }


def many_metrics() -> RankingCollection:
    """Make a collection of more than thirty metrics of every kind."""
    metrics = {f"{i}": metric for i, metric in enumerate(single_metrics().values())}
    metrics.update({f"accuracy_at_{k}": AccuracyAtK(k) for k in range(1, 8)})
    return RankingCollection(metrics)


def rows(start: int, stop: int, masked: bool = False, several: bool = False) -> dict[str, Tensor]:
    """Make a part of the data that all processes know: ties, NaN, -inf, some rows masked."""
    draw = torch.Generator().manual_seed(5)
    scores = torch.randint(5, (ROWS, LOCATIONS), generator=draw).float()
    scores[torch.rand(ROWS, LOCATIONS, generator=draw) < 0.02] = torch.nan
    scores[torch.rand(ROWS, LOCATIONS, generator=draw) < 0.05] = -torch.inf
    target = torch.randint(LOCATIONS, (ROWS, 3), generator=draw)
    target[torch.rand(ROWS, 3, generator=draw) < 0.3] = -1
    one = torch.randint(LOCATIONS, (ROWS,), generator=draw)
    mask = torch.rand(ROWS, generator=draw) < 0.9
    mask[-6:] = True
    batch = {
        "preds": scores,
        "target": target if several else one,
        "mask": mask & (not masked),
        "groups": torch.randint(GROUPS, (ROWS,), generator=draw),
    }
    return {name: tensor[start:stop] for name, tensor in batch.items()}


def add(metric: Any, batch: dict[str, Tensor], forward: bool = False) -> Any:
    """Update with what the metric takes of a batch, or call it and return the batch's value."""
    members = metric.members() if isinstance(metric, RankingCollection) else [metric]
    if not any(isinstance(member, Grouped) for member in members):
        batch = {name: tensor for name, tensor in batch.items() if name != "groups"}
    return metric(**batch) if forward else metric.update(**batch)


def takes(metric: Any, several: bool) -> bool:
    """Tell whether the metric scores queries with several relevant locations."""
    members = metric.values() if isinstance(metric, RankingCollection) else [metric]
    kinds = LocationTally | SampledRanks
    of_one = [isinstance(x, kinds) or x.record is Distribution for x in members]
    return not (several and any(of_one))


def evaluated(several: bool) -> dict[str, Any]:
    """Make everything that is evaluated on targets of one, or of several locations."""
    everything = {**single_metrics(), **presets()}
    return {name: metric for name, metric in everything.items() if takes(metric, several)}


def states(metric: Any) -> list[Tensor]:
    """Copy the states of a metric, or of a collection's members."""
    members = metric.values() if isinstance(metric, RankingCollection) else [metric]
    return [member.state.clone() for member in members]


def sequences_of(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """Make sequences of three steps of the rows of a batch, the last ones masked."""
    padded = {}
    for name in ("preds", "target", "mask"):
        rest = batch[name].new_zeros(-len(batch[name]) % 3, *batch[name].shape[1:])
        padded[name] = torch.cat([batch[name], rest]).unflatten(0, (-1, 3))
    return padded


def evaluate_sequences(rank: int, share: list[list[tuple[int, int]]]) -> list[Any]:
    """Tell how many sequences of a process' share of the rows are right, and how surely."""
    metric = SequenceAccuracy(first=1)
    for start, stop in share[rank]:
        metric.update(**sequences_of(rows(start, stop)))
    return [metric.compute(), *metric.interval()]


# A process' share: its batches, each (first row, row behind the last, all masked).
Share = list[tuple[int, int, bool]]


def evaluate(rank: int, shares: dict[str, list[Share]]) -> dict[str, Any]:
    """Evaluate everything on a process' share of the rows, for every way to share them."""
    values: dict[str, dict[str, Any]] = {}
    for name, share in shares.items():
        values[name] = {}
        for several in (False, True):
            batches = [rows(*batch, several) for batch in share[rank]]
            for label, metric in evaluated(several).items():
                for batch in batches:
                    add(metric, batch)
                before = states(metric)
                with _no_warning_before_update():
                    values[name][f"{label}, several={several}"] = metric.compute()
                after = states(metric)
                assert all(map(torch.equal, before, after)), f"{label}: compute changed the state"
    return values


@contextlib.contextmanager
def _no_warning_before_update() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*was called before the ``update`` method")
        yield


def evaluate_intervals(rank: int, shares: dict[str, list[Share]]) -> dict[str, dict[str, Any]]:
    """Ask for all intervals of a process' share of the rows, at once and member by member."""
    found: dict[str, dict[str, Any]] = {}
    for name, share in shares.items():
        metrics = many_metrics()
        for batch in share[rank]:
            add(metrics, rows(*batch))
        with _no_warning_before_update():
            for seen in ("first", "cached"):
                before = states(metrics)
                with collectives() as called:
                    found[f"{name}, {seen}"] = metrics.compute_with_intervals(0.9)
                assert called == ["all_reduce"], called
                assert all(map(torch.equal, before, states(metrics)))
            with collectives() as called:
                found[f"{name}, table"] = {"text": str(metrics.table(intervals=True))}
            assert called == ["all_reduce"], called
        found[f"{name}, alone"] = intervals_one_by_one(metrics)
    return found


def draw(rank: int, shares: list[Share]) -> list[str]:
    """Draw the metrics of a process' share of the rows, and return what is written in them."""
    import matplotlib

    matplotlib.use("Agg")
    metrics = RankingCollection({"mrr": MRR(), "hit": AccuracyAtK(3), "f1": F1AtK(3, "pooled")})
    for batch in shares[rank]:
        add(metrics, rows(*batch))
    with _no_warning_before_update(), collectives() as called:
        pictures = metrics.plot()
    assert called == (["all_reduce"] if torch.distributed.is_initialized() else []), called
    return [text.get_text() for _, axes in pictures for text in axes.texts]


def intervals_one_by_one(metrics: RankingCollection) -> dict[str, Any]:
    """Ask every member of a collection by itself for its interval and its standard error."""
    return {
        name: [*member.interval(0.9), member.standard_error() if member._averages_scores else None]
        for name, member in metrics.items(copy_state=False)
        if member._has_interval
    }


def keep_scores(rank: int, shares: list[Share]) -> dict[str, Any]:
    """Keep the scores of a process' share of the rows, and then two scores of one query."""
    by_query = PerQueryScores(MRR())
    for start, stop, masked in shares[rank]:
        batch = rows(start, stop, masked)
        del batch["groups"]
        by_query.update(**batch, query_ids=torch.arange(start, stop))
    with _no_warning_before_update():
        found: dict[str, Any] = {"kept": tuple(by_query.compute()), "own": by_query.num_queries}
    by_query.update(*hits(rank), query_ids=torch.tensor([1000]))
    for ask in ("first", "second"):
        found[f"error, {ask}"] = _error(by_query.compute)
    return found


# What is counted and compared --------------------------------------------------------------------


def count_collectives(rank: int) -> dict[str, Any]:
    """List the collectives of collections: at once, member by member, and cached."""
    counts: dict[str, Any] = {}
    for name, metrics in {**presets(), "more than thirty": many_metrics()}.items():
        if rank == 0:  # the other process is never updated
            add(metrics, rows(0, 20))
        one_by_one = metrics.clone()
        with _no_warning_before_update():
            with collectives() as together:
                metrics.compute()
            with collectives() as cached:
                metrics.compute()
            each = []
            for member in one_by_one.values():
                with collectives() as alone:
                    member.compute()
                each.append(len(alone))
        counts[name] = together, each, cached
    other = MulticlassAccuracy(LOCATIONS)
    other.update(torch.tensor([1]), torch.tensor([1]))
    with collectives() as counts["torchmetrics' own accuracy"]:
        other.compute()
    return counts


def count_collectives_of_large_states(rank: int) -> dict[str, list[str]]:
    """List the collectives of presets for 300,000 locations."""
    table = PopularityBins.from_counts(torch.arange(300_000))
    large = {
        "next_location_metrics": next_location_metrics(len(table)),
        "decile_metrics": decile_metrics(table, candidates=20),
    }
    counts: dict[str, list[str]] = {}
    for name, metrics in large.items():
        metrics.update(torch.tensor([[5, 6, 7]]), torch.tensor([7 - rank]))
        before = states(metrics)
        with collectives() as counts[name]:
            metrics.compute()
        assert all(map(torch.equal, before, states(metrics))), f"{name}: the state has changed"
    return counts


def hits(*hit: int) -> tuple[Tensor, Tensor]:
    """Make queries with the relevant location first (1), or second (0) of two lists' ids."""
    return torch.tensor([[0, 1]]).expand(len(hit), 2), 1 - torch.tensor(hit)


def sum_and_remember(state: Tensor, group: Any = None, *, seen: list[Tensor]) -> list[Tensor]:
    """Gather the states as TorchMetrics does, as a user's `dist_sync_fn` would."""
    seen.append(state)
    gathered = [torch.empty_like(state) for _ in range(2)]
    torch.distributed.all_gather(gathered, state, group=group)
    # leave the number of queries at one process', so that the mean is the sum of both means
    return [gathered[0], gathered[1] * torch.tensor([1, 1, 0])]


def keep_meaning(rank: int) -> dict[str, Any]:
    """Try TorchMetrics' options, where process 0 misses and process 1 hits, then both hit."""
    first, second = hits(rank), hits(1)
    seen: dict[str, Any] = {}

    def accuracy(**kwargs: Any) -> AccuracyAtK:
        return AccuracyAtK(1, **kwargs)

    def collection(**kwargs: Any) -> RankingCollection:
        return RankingCollection({"hit": accuracy(**kwargs), "mrr": MRR(1, **kwargs)})

    def values(metrics: RankingCollection) -> list[float]:
        return [float(value) for value in metrics.compute().values()]

    metrics = collection(sync_on_compute=False)
    metrics.update(*first)
    with collectives() as seen["sync_on_compute=False, collectives"]:
        seen["sync_on_compute=False"] = values(metrics)

    states_seen: list[Tensor] = []
    metrics = collection(dist_sync_fn=partial(sum_and_remember, seen=states_seen))
    metrics.update(*first)
    seen["own dist_sync_fn"] = values(metrics)
    seen["own dist_sync_fn, states seen"] = len(states_seen)

    for name, kwargs in {"default": {}, "own": {"dist_sync_fn": all_reduce}}.items():
        metric = accuracy()
        metric.update(*first)
        metric.sync(**kwargs)
        synced = float(exact.mean(metric.state))
        metric.unsync()
        seen[f"sync, {name}"] = [synced, float(exact.mean(metric.state)), float(metric.compute())]

    for on_step in (True, False):
        name = "dist_sync_on_step" if on_step else "forward"
        metric = accuracy(dist_sync_on_step=on_step)
        steps = [metric(*first), metric(*second), metric.compute()]
        seen[name] = [float(value) for value in steps]
        metrics = collection(dist_sync_on_step=on_step)
        steps = [metrics(*first), metrics(*second), metrics.compute()]
        assert all(value["hit"] == value["mrr"] for value in steps)
        seen[f"{name}, collection"] = [float(value["hit"]) for value in steps]

    metric, other = accuracy(), accuracy()
    metric.update(*first)
    other.update(*second)
    metric.merge_state(other)
    seen["merge_state"] = [float(metric.compute())]
    metric = accuracy()
    metric.update(*first)
    metric.merge_state(other.metric_state)
    seen["merge_state"].append(float(metric.compute()))

    metrics = collection()
    metrics.update(*first)
    seen["reset"] = values(metrics)[:1]
    metrics.reset()
    metrics.update(*second)
    seen["reset"] += values(metrics)[:1]

    metrics = collection(compute_with_cache=False)
    metrics.update(*first)
    counts = []
    for _ in range(2):
        with collectives() as called:
            metrics.compute()
        counts.append(called)
    seen["compute_with_cache=False"] = counts

    metrics = collection(distributed_available_fn=lambda: False)
    metrics.update(*first)
    seen["distributed_available_fn"] = values(metrics)

    metrics = collection()
    metrics.update(*first)
    between = values(metrics)[:1]
    metrics.update(*second)
    between += values(metrics)[:1]
    seen["update between computes"] = between + values(metrics)[:1]
    return seen


def use_process_groups(rank: int) -> dict[str, Any]:
    """Evaluate in the groups 0, 1 and 2: one miss, half a hit, one hit."""
    pair, alone = (torch.distributed.new_group(ranks) for ranks in ([0, 1], [2]))
    group = pair if rank < 2 else alone
    batch = [hits(0, 0), hits(0, 1), hits(1, 1)][rank]
    seen: dict[str, Any] = {}
    metric = AccuracyAtK(1, process_group=group)
    metric.update(*batch)
    seen["metric"] = float(metric.compute())
    metrics = RankingCollection(
        {"hit": AccuracyAtK(1, process_group=group), "mrr": MRR(1, process_group=group)}
    )
    metrics.update(*batch)
    seen["collection"] = [float(value) for value in metrics.compute().values()]
    metrics = RankingCollection({"hit": AccuracyAtK(1, process_group=group), "mrr": MRR(1)})
    metrics.update(*batch)
    with collectives() as seen["mixed, collectives"]:
        seen["mixed"] = [float(value) for value in metrics.compute().values()]
    return seen


def update_one_member(rank: int, compute_groups: bool) -> dict[str, dict[str, float]]:
    """Update the members of a collection together, then some of them on process 1 alone."""
    table = PopularityBins([1, 1, 2])
    metrics = RankingCollection(
        {
            "decile_1": DecileNDCG(table, 1, decile=1),
            "decile_2": DecileNDCG(table, 1, decile=2),
            "decile_1_again": DecileNDCG(table, 1, decile=1),
            "mrr": MRR(),
        },
        compute_groups=compute_groups,
    )

    def values() -> dict[str, float]:
        computed = metrics.clone().compute()  # a copy, so that no process keeps a cached value
        return {name: float(value.nan_to_num()) for name, value in computed.items()}

    metrics.update(*hits(0, 1))
    seen = {"before": values()}
    for member in ("mrr", "decile_1_again"):
        if rank == 1:
            metrics[member].update(*hits(1, 1, 1, 1))
        seen[member] = values()
    return seen


class Late(AccuracyAtK):
    """A metric with two states of its own, of which one is no sum."""

    late: Tensor
    largest: Tensor

    def __init__(self, k: int, **kwargs: Any) -> None:
        super().__init__(k, **kwargs)
        self.add_state("late", torch.zeros(3), "sum")
        self.add_state("largest", torch.zeros(()), "max")

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Count the updates, too."""
        super().update(*args, **kwargs)
        self.late = self.late + torch.tensor([1.0, 0.0, 0.0])
        self.largest = torch.maximum(self.largest, torch.tensor(float(self.num_queries)))

    def compute(self) -> Tensor:
        """Return the states, and the accuracy."""
        return torch.cat([self.late, self.largest[None], super().compute()[None]])


def sum_second_states(rank: int) -> dict[str, list[float]]:
    """Update a metric with three states alone and in a collection, and put processes together."""
    alone = Late(1)
    metrics = RankingCollection({"late": Late(1), "hit": AccuracyAtK(1), "mrr": MRR()})
    for metric in (alone, metrics):
        for _ in range(2 + rank):
            metric.update(*hits(rank))
    together = metrics.compute()
    return {"alone": alone.compute().tolist(), "together": together["late"].tolist()} | {
        name: together[name][None].tolist() for name in ("hit", "mrr")
    }


def update_different_members(rank: int) -> dict[str, float]:
    """Compute, then update another member on each process by itself, and compute again."""
    metrics = RankingCollection({"at_1": AccuracyAtK(1), "at_2": AccuracyAtK(2), "mrr": MRR()})
    metrics.update(*hits(1, 0))
    metrics.compute()
    metrics["at_1" if rank == 0 else "at_2"].update(*hits(0, 0))
    with collectives() as called:
        values = metrics.compute()
    return {"collectives": len(called), **{name: float(values[name]) for name in values}}


def die_in_the_middle(rank: int) -> dict[str, str]:
    """Update on both processes, end process 1, and tell what process 0 is told."""
    collection, metric = next_location_metrics(LOCATIONS), AccuracyAtK(1)
    collection.update(**{name: rows(0, 9)[name] for name in ("preds", "target")})
    metric.update(*hits(1))
    same_everywhere = torch.ones(1)
    torch.distributed.all_reduce(same_everywhere)  # both are connected
    if rank == 1:
        os._exit(0)
    return {"collection": _error(collection.compute), "metric": _error(metric.compute)}


def _error(function: Callable[[], Any]) -> str:
    try:
        return f"no error but {function()}"
    except (RuntimeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


# Sharded candidates, padded rows ------------------------------------------------------------------

# The widths of the slices of the candidates, by number of processes.
SLICES = {2: [[3, 5], [0, 8], [8, 0]], 3: [[3, 0, 5], [1, 6, 1], [0, 0, 8]]}
TOPS = [0, 1, 3, 20]


def sharded_batches() -> dict[str, dict[str, Any]]:
    """Make queries over 8 candidates, with everything that is hard to rank."""
    one, several = rows(0, 40), rows(0, 40, several=True)
    scores, target, mask = one["preds"], one["target"], one["mask"]
    odd = torch.tensor(
        [
            [torch.nan] * LOCATIONS,
            [-torch.inf] * LOCATIONS,
            [torch.inf] * LOCATIONS,
            [0.0] * LOCATIONS,
            [torch.nan, *[-torch.inf] * (LOCATIONS - 1)],
            [*[1.0] * 4, *[2.0] * 4],
            [0.0, -0.0] * 4,
        ]
    )
    close = 1 + torch.rand(40, LOCATIONS, generator=torch.Generator().manual_seed(1)) / 50
    return {
        "one": {"scores": scores, "target": target},
        "masked": {"scores": scores, "target": target, "mask": mask},
        "several": {"scores": scores, "target": several["target"], "mask": mask},
        "ignored": {"scores": scores, "target": several["target"], "ignore_index": 2},
        "odd": {"scores": odd, "target": torch.tensor([0, 1, 2, 3, 4, 5, 6])},
        "last": {"scores": odd, "target": torch.full((7,), LOCATIONS - 1)},
        "bfloat16": {"scores": close.bfloat16(), "target": target},
        "float64": {"scores": close.double(), "target": target},
        "float8": {"scores": scores.to(torch.float8_e5m2), "target": target},
        "sequences": {"scores": scores.view(5, 8, -1), "target": target.view(5, 8)},
        "no queries": {"scores": scores[:0], "target": target[:0]},
        "unchecked": {"scores": scores, "target": target, "validate_args": False},
    }


def parts(ranking: Ranking) -> dict[str, Any]:
    """List everything that a ranking holds."""
    held = {each.name: getattr(ranking, each.name) for each in fields(ranking) if each.init}
    first, queries = held.pop("first"), held.pop("queries")
    held.update(vars(queries))
    held.update({} if first is None else {f"first.{k}": v for k, v in vars(first).items()})
    return {name: value for name, value in held.items() if value is not None}


def rank_slices(rank: int, widths: list[int]) -> dict[str, Any]:
    """Rank by a slice of the scores, and evaluate the rows that this process owns."""
    offset, width = sum(widths[:rank]), widths[rank]
    found: dict[str, Any] = {}
    for name, batch in sharded_batches().items():
        scores, target = batch.pop("scores"), batch.pop("target")
        scores = scores[..., offset : offset + width]
        for top in TOPS:
            with collectives() as called:
                ranking = Ranking.from_sharded_scores(scores, target, offset, **batch, top=top)
            assert called == ["all_gather", "all_reduce"], called
            found[f"{name}, top={top}"] = parts(ranking)
        if batch.get("ignore_index") is None and len(ranking):
            metrics = sharded_metrics()
            metrics.update(ranking[rank :: len(widths)])
            found[f"{name}, values"] = metrics.compute()
    for wrong in WRONG_IDS:
        target = torch.tensor([0, wrong])
        found[f"error {wrong}"] = _error(
            partial(Ranking.from_sharded_scores, torch.zeros(2, width), target, offset)
        )
    return found


WRONG_IDS = [-1, LOCATIONS, 10**12]


def rank_slices_that_do_not_fit(rank: int) -> list[str]:
    """Rank slices of three candidates each that overlap, are swapped or leave a gap."""
    scores = torch.tensor([[0.9, 0.1, 0.2, 0.3, 0.4, 0.5]])[:, 3 * rank : 3 * rank + 3]
    return [
        _error(partial(Ranking.from_sharded_scores, scores, torch.tensor([1]), offsets[rank]))
        for offsets in ([0, 0], [0, 4], [1, 4], [0, 2])
    ]


def sharded_metrics() -> RankingCollection:
    """Make metrics that need places, and the candidates on the first ranks."""
    table = bins()
    names = {"mrr": MRR(), "hit": AccuracyAtK(3), "decile": DecileNDCG(table, 2, candidates=20)}
    return RankingCollection(names)


def rank_slices_in_a_group(rank: int) -> dict[str, Any]:
    """Rank by slices that processes 0 and 1 hold, while process 2 does something else."""
    pair = torch.distributed.new_group([0, 1])
    if rank == 2:
        return {}
    batch = rows(0, 40)
    ranking = Ranking.from_sharded_scores(
        batch["preds"][:, rank * 4 : rank * 4 + 4], batch["target"], rank * 4, process_group=pair
    )
    return parts(ranking)


def length(rank: int, padded: PaddedDataset[int]) -> int:
    """Tell how long a dataset is here that was made and pickled where there is no group."""
    return len(padded)


def pad(rank: int) -> bytes:
    """Pickle a dataset of 3 rows, padded for the processes of this group."""
    return pickle.dumps(PaddedDataset([0, 1, 2]))  # type: ignore[arg-type]
