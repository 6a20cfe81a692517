"""What the distributed tests run in other processes, and how they start them.

Every process is a real member of a gloo group on this machine, which lasts for one call. All tests
share the processes, as to import anew what tests import takes longer than all else; they turn
warnings into errors, and others take their place after a call that fails.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import fields
from datetime import timedelta
from functools import cache, partial
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import torch
import torch.distributed
from torch import Tensor
from torchmetrics import MetricCollection
from torchmetrics.classification import MulticlassAccuracy

from inner import all_reduce, exact
from metric_entries import CLASSES, DECILES, DECISIONS, ENTRIES, case_of
from metric_tester import BINS, GROUPS, LOCATIONS, Case
from metrics_from_outside import own_metrics
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    DecileNDCG,
    Grouped,
    LocationF1,
    PerQueryScores,
    PopularityBins,
    Ranking,
    RankingCollection,
    decile_metrics,
    libcity_metrics,
    next_location_metrics,
    probability_metrics,
    recommendation_metrics,
)
from nextloc_metrics.base import Distribution, RecordMetric
from nextloc_metrics.distributed import PaddedDataset

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
    "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all",
    "all_to_all_single", "barrier", "broadcast", "broadcast_object_list", "gather",
    "gather_object", "monitored_barrier", "recv", "reduce", "reduce_scatter",
    "reduce_scatter_tensor", "scatter", "scatter_object_list", "send",
]  # fmt: skip


def assert_same(one: Any, other: Any) -> None:
    """Assert that two values, or dicts of values, are equal to the last bit."""
    torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


class UnconnectedError(Exception):
    """The processes have found no group."""


def run(
    function: Callable[..., Any], num_processes: int, *args: Any, may_die: bool = False
) -> list[Any]:
    """Call `function(rank, *args)` in every process of a group, and return what each returned.

    With `may_die` a process may end without returning anything, and None stands for it.
    """
    for _ in range(_ATTEMPTS):
        with TemporaryDirectory() as folder:
            calls = [
                _process(rank).submit(_work, function, rank, num_processes, folder, args)
                for rank in range(num_processes)
            ]
            errors = [call.exception() for call in calls]
        if not any(isinstance(error, UnconnectedError) for error in errors):
            break
    if any(errors):
        _process.cache_clear()
    wrong = [x for x in errors if x and not (may_die and isinstance(x, BrokenProcessPool))]
    if wrong:
        raise AssertionError("\n".join("".join(traceback.format_exception(x)) for x in wrong))
    return [None if error else call.result() for call, error in zip(calls, errors, strict=True)]


@cache
def _process(rank: int) -> ProcessPoolExecutor:
    """The process that is this member of all groups."""
    return ProcessPoolExecutor(1, PROCESSES, _prepare)


def _prepare() -> None:
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    os.environ.update(LOOPBACK)


# Groups of a process that are over. PyTorch 2.4 can deadlock where it frees one: it joins a thread
# that waits for the interpreter's lock to free the last tensors.
_over: list[Any] = []


def _work(
    function: Callable[..., Any], rank: int, num_processes: int, folder: str, args: tuple[Any, ...]
) -> Any:
    """Call a function in a group of processes."""
    torch.default_generator.manual_seed(20)
    try:
        torch.distributed.init_process_group(
            "gloo",
            init_method=f"file://{folder}/rendezvous",
            rank=rank,
            world_size=num_processes,
            timeout=TIME_OUT,
        )
    except Exception as error:
        raise UnconnectedError(str(error)) from None
    try:
        return function(rank, *args)
    finally:
        _over.append(torch.distributed.group.WORLD)
        torch.distributed.destroy_process_group()


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

ROWS = 101
OF_A_BATCH = {"ignore_index", "temperature"}  # options on which a collection must agree


def bins() -> PopularityBins:
    """Three popularity bins, and a location in none."""
    return PopularityBins(BINS.bin_of)


def single_metrics() -> dict[str, RecordMetric]:
    """Make one of every public class, and of the options that change how they count."""
    by_bin = [case for entry in DECILES for case in (entry.cases[0], entry.cases[-1])]
    cases = [
        *CLASSES,
        *by_bin,
        *ENTRIES["Grouped"].all_cases,
        *(Case(entry, options) for entry in DECISIONS for options in entry.also),
        case_of("Perplexity", given="logits"),
        case_of("DecileCoverage", bins=bins(), k=1, denominator="mapped", decile="overall"),
    ]
    metrics: list[Any] = [case.make() for case in cases if not OF_A_BATCH & case.options.keys()]
    return {repr(metric): metric for metric in metrics}


def presets(**kwargs: Any) -> dict[str, RankingCollection]:
    """Make the presets that are ranking collections."""
    return {
        "next_location_metrics": next_location_metrics(LOCATIONS, **kwargs),
        "recommendation_metrics": recommendation_metrics(**kwargs),
        "libcity_metrics": libcity_metrics(3, **kwargs),
        "decile_metrics": decile_metrics(bins(), 2, **kwargs),
        "probability_metrics": probability_metrics(given="logits", **kwargs),
        "by key": RankingCollection(members_by_key(), **kwargs),
    }


def members_by_key() -> dict[str, RecordMetric]:
    """Make three kinds of sums by key, of which one has two members, beside three of one shape."""
    return {
        "vector": Grouped(MRR()),
        "mean": Grouped(MRR(), average="queries"),
        "hit by group": Grouped(AccuracyAtK(1)),
        "f1": LocationF1(),
        "mrr": MRR(),
        "hit": AccuracyAtK(1),
        "dense": LocationF1(LOCATIONS),
    }


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
    kinds = *(entry.kind for entry in DECISIONS if entry.state), type(libcity_metrics(3)["F1@3"])
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


# A process' share: its batches, each (first row, row behind the last), and True if all is masked.
Share = list[tuple[int, ...]]


def evaluate(rank: int, shares: list[Share], is_quick: bool = False) -> dict[str, Any]:
    """Evaluate everything on a process' share of the rows: values, bounds and errors.

    If it is to be quick, the values of one relevant location suffice.
    """
    found: dict[str, Any] = {}
    for several in (False,) if is_quick else (False, True):
        for name, metric in evaluated(several).items():
            for batch in shares[rank]:
                add(metric, rows(*batch, several=several))
            before, label = states(metric), f"{name}, several={several}"
            with _no_warning_before_update():
                found[label] = metric.compute()
                if isinstance(metric, RankingCollection):
                    found[f"{label}, bounds"] = metric.compute_with_intervals(0.9)
                elif not is_quick:
                    with contextlib.suppress(TypeError):  # of what is no mean
                        found[f"{label}, interval"] = metric.interval(0.9)
                        found[f"{label}, error"] = metric.standard_error()
            assert all(map(torch.equal, before, states(metric))), f"{label}: changed by compute"
    return found


@contextlib.contextmanager
def _no_warning_before_update() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*was called before the ``update`` method")
        yield


def keep_scores(rank: int, shares: list[Share]) -> tuple[Any, ...]:
    """Keep the scores of a process' share of the rows, and then two scores of one query."""
    by_query = PerQueryScores(MRR())
    for start, stop, *masked in shares[rank]:
        batch = rows(start, stop, *map(bool, masked))
        del batch["groups"]
        by_query.update(**batch, query_ids=torch.arange(start, stop))
    with _no_warning_before_update():
        kept = tuple(by_query.compute())
    by_query.update(*hits(rank), query_ids=torch.tensor([1000]))
    for _ in range(2):
        assert "got id 1000 with the scores 0.5 and 1.0" in _error(by_query.compute)
    return kept


# What is counted and compared --------------------------------------------------------------------


def count_collectives(rank: int) -> None:
    """A collection sums all states at once; its members sum theirs each, as `log_dict` does."""
    for name, metrics in presets().items():
        if rank == 0:  # the other process is never updated
            add(metrics, rows(0, 20))
        sums = ["all_reduce", "all_gather"] if name == "by key" else ["all_reduce"]
        names = ["all_gather_object"] * (name == "by key")
        with _no_warning_before_update():
            for member in metrics.clone().values():
                with collectives() as alone:
                    member.compute()
                assert name == "by key" or alone in ([], ["all_reduce"]), name
            for expected in (sums, []):  # the second values are cached
                with collectives() as called:
                    metrics.compute()
                assert called == expected, name
            for show, expected in (
                (metrics.compute_with_intervals, sums),
                (partial(metrics.table, intervals=True), sums + names),
            ):
                with collectives() as called:
                    show()
                assert called == expected, name
    other = MulticlassAccuracy(LOCATIONS)
    other.update(torch.tensor([1]), torch.tensor([1]))
    with collectives() as called:
        other.compute()
    assert len(called) > 4  # so they are counted at all


def count_collectives_of_large_states(rank: int) -> None:
    """A state over two megabytes has a collective of its own; the other states share one."""
    table = PopularityBins.from_counts(torch.arange(300_000))
    for metrics in (next_location_metrics(len(table)), decile_metrics(table, candidates=20)):
        metrics.update(torch.tensor([[5, 6, 7]]), torch.tensor([7 - rank]))
        before = states(metrics)
        with collectives() as called:
            metrics.compute()
        assert called == ["all_reduce"] * 2
        assert all(map(torch.equal, before, states(metrics))), "the state has changed"


def count_text_by_key(rank: int) -> None:
    """Two processes have users of their own and a common one; a third is never updated."""
    world = torch.distributed.get_world_size()
    users = [["ann", "5"], ["bob", "ann", "-7"], []][rank if world > 2 else min(rank, 1)]
    metrics = RankingCollection(
        {"hit": Grouped(AccuracyAtK(1), by="user"), "f1": LocationF1(), "mrr": MRR()}
    )
    alone = Grouped(AccuracyAtK(1), by="user")
    if users:
        lists = torch.tensor([[0, 1]]).expand(len(users), 2)
        target = torch.arange(len(users)) % 2
        for metric in (metrics, alone):
            metric.update(lists, target, groups={"user": users})
    with _no_warning_before_update():
        for metric in (metrics["hit"], alone):
            assert_same(metric.compute().sum(), torch.tensor(2.5))
        groups = metrics["hit"].groups
        assert groups.tolist() == sorted(groups.tolist())
        assert groups.tolist()[:2] == [-7, 5]
        for _ in range(2):
            table = metrics.table().records
            found = {row["metric"]: row["value"] for row in table if row["metric"] != "f1"}
            assert found == {
                "hit, -7": 1, "hit, 5": 0, "hit, ann": 0.5, "hit, bob": 1, "mrr": 0.8
            }, found  # fmt: skip
    kept = metrics["hit"].state
    assert len(kept) == len(users)
    with collectives() as called:
        low, _ = alone.interval()
    assert len(low) == 4
    assert "all_gather" in called
    saved = Grouped(AccuracyAtK(1), by="user")
    for metric in (metrics["hit"], saved):
        metric.persistent(True)
    saved.load_state_dict(metrics["hit"].state_dict())
    assert_same(saved.state, kept)


def hits(*hit: int) -> tuple[Tensor, Tensor]:
    """Make queries with the relevant location first (1), or second (0) of two lists' ids."""
    return torch.tensor([[0, 1]]).expand(len(hit), 2), 1 - torch.tensor(hit)


def evaluate_from_outside(rank: int, shares: list[Share], several: bool) -> dict[str, Any]:
    """Return the values of a stranger's metrics of a process' share of the rows."""
    metrics = own_metrics(bins())
    for metric in metrics.values():
        for batch in shares[rank]:
            add(metric, rows(*batch, several=several))
    with _no_warning_before_update():
        return {name: metric.compute() for name, metric in metrics.items()}


def sum_and_remember(state: Tensor, group: Any = None, *, seen: list[Tensor]) -> list[Tensor]:
    """Gather the states as TorchMetrics does, as a user's `dist_sync_fn` would."""
    seen.append(state)
    gathered = [torch.empty_like(state) for _ in range(2)]
    torch.distributed.all_gather(gathered, state, group=group)
    # leave the number of queries at one process', so that the mean is the sum of both means
    return [gathered[0], gathered[1] * torch.tensor([1, 1, 0])]


def expect(found: Any, *values: float) -> None:
    """Check a metric's value, or those of a collection's members."""
    found = found.values() if isinstance(found, dict) else [found]
    assert [float(value) for value in found] == list(values)


def hit_and_mrr(**kwargs: Any) -> RankingCollection:
    """Make two metrics that have one value for queries of one relevant location."""
    return RankingCollection({"hit": AccuracyAtK(1, **kwargs), "mrr": MRR(1, **kwargs)})


def count_all_rows(rank: int) -> None:
    """Let both processes count the same rows, as docs/distributed.md says."""
    lists = torch.tensor([[0, 1]]).expand(100, 2)
    target = torch.arange(100) % 2
    alone, summed = AccuracyAtK(1, sync_on_compute=False), AccuracyAtK(1)
    for metric in (alone, summed):
        metric.update(lists, target)
    expect({"alone": alone.compute(), "summed": summed.compute()}, 0.5, 0.5)
    for metric, queries in ((alone, 100), (summed, 200)):
        low, high = metric.interval()
        wilson = 1.959964 / (queries + 1.959964**2) ** 0.5  # the width for a share of one half
        assert abs(float(high - low) - wilson) < 1e-6, queries


def keep_meaning(rank: int) -> None:
    """Try TorchMetrics' options, where process 0 misses and process 1 hits, then both hit."""
    first, second, mine = hits(rank), hits(1), float(rank)
    seen: list[Tensor] = []
    both = {"dist_sync_fn": partial(sum_and_remember, seen=seen)}
    for kwargs, value, calls in [
        ({}, 0.5, ["all_reduce"]),
        ({"compute_with_cache": False}, 0.5, ["all_reduce"] * 2),
        ({"sync_on_compute": False}, mine, []),
        ({"distributed_available_fn": lambda: False}, mine, []),
        (both, 1.0, ["all_gather"] * 2),  # the sum of both
    ]:
        metrics = hit_and_mrr(**kwargs)
        metrics.update(*first)
        with collectives() as called:
            for _ in range(2):
                expect(metrics.compute(), value, value)
        assert called == calls, kwargs
    assert len(seen) == 2

    for kwargs in ({}, {"dist_sync_fn": all_reduce}):
        metric = AccuracyAtK(1)
        metric.update(*first)
        metric.sync(**kwargs)
        expect(exact.moments(metric.state)[0], 0.5)
        metric.unsync()
        expect(exact.moments(metric.state)[0], mine)
        expect(metric.compute(), 0.5)

    for on_step in (True, False):
        metrics = hit_and_mrr(dist_sync_on_step=on_step)
        expect(metrics(*first), *[0.5 if on_step else mine] * 2)
        expect(metrics(*second), 1.0, 1.0)
        expect(metrics.compute(), 0.75, 0.75)


def use_process_groups(rank: int) -> None:
    """Evaluate in the groups 0, 1 and 2: one miss, half a hit, one hit."""
    pair, alone = (torch.distributed.new_group(ranks) for ranks in ([0, 1], [2]))
    group, value = (pair, 0.25) if rank < 2 else (alone, 1.0)
    mixed = RankingCollection({"hit": AccuracyAtK(1, process_group=group), "mrr": MRR(1)})
    for metric, values, calls in [
        (AccuracyAtK(1, process_group=group), [value], 1),
        (hit_and_mrr(process_group=group), [value, value], 1),
        (mixed, [value, 0.5], 2),
    ]:
        metric.update(*[hits(0, 0), hits(0, 1), hits(1, 1)][rank])
        with collectives() as called:
            expect(metric.compute(), *values)
        assert called == ["all_reduce"] * calls


def update_different_members(rank: int) -> None:
    """Compute, then update another member on each process by itself, and compute again."""
    table = PopularityBins([1, 1, 2])
    for compute_groups in (True, False):
        members = {
            "decile_1": DecileNDCG(table, 1, decile=1),
            "decile_1_again": DecileNDCG(table, 1, decile=1),
            "mrr": MRR(),
            "hit": AccuracyAtK(1),
        }
        metrics = RankingCollection(members, compute_groups=compute_groups)
        metrics.update(*hits(0, 1))
        expect(metrics.compute(), 1 / 2, 1 / 2, 3 / 4, 1 / 2)
        metrics["mrr" if rank == 0 else "decile_1_again"].update(*hits(1, 1, 1, 1))
        with collectives() as called:
            after = metrics.compute()
        assert len(called) == 2  # that of the member whose state is no longer that of its group
        expect(after, 1 / 2, 3 / 4, 7 / 8, 1 / 2)


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


def sum_second_states(rank: int) -> None:
    """Update a metric with three states alone and in a collection, and put processes together."""
    metrics = MetricCollection({"late": Late(1), "hit": AccuracyAtK(1), "mrr": MRR()})
    alone = Late(1)
    for metric in (alone, metrics):
        for _ in range(2 + rank):
            metric.update(*hits(rank))
    together = metrics.compute()
    assert_same(alone.compute(), together["late"])
    assert_same(together["late"], torch.tensor([5, 0, 0, 3, 3 / 5]))
    assert_same(together["hit"], torch.tensor(3 / 5))


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
SLICES = {2: [[2, 4], [0, 6], [6, 0]], 3: [[2, 0, 4], [1, 4, 1], [0, 0, 6]]}
TOPS = [0, 1, 3, 20]


def sharded_batches() -> dict[str, dict[str, Any]]:
    """Make queries over 6 candidates, with everything that is hard to rank."""
    one, several = rows(0, 40), rows(0, 40, several=True)
    scores, target, mask = one["preds"], one["target"], one["mask"]
    odd = torch.tensor(
        [
            [torch.nan] * LOCATIONS,
            [-torch.inf] * LOCATIONS,
            [torch.inf] * LOCATIONS,
            [0.0] * LOCATIONS,
            [torch.nan, *[-torch.inf] * (LOCATIONS - 1)],
            [*[1.0] * 3, *[2.0] * 3],
            [0.0, -0.0] * 3,
        ]
    )
    close = 1 + torch.rand(40, LOCATIONS, generator=torch.Generator().manual_seed(1)) / 50
    return {
        "one": {"scores": scores, "target": target},
        "masked": {"scores": scores, "target": target, "mask": mask},
        "several": {"scores": scores, "target": several["target"], "mask": mask},
        "ignored": {"scores": scores, "target": several["target"], "ignore_index": 2},
        "odd": {"scores": odd, "target": torch.tensor([0, 1, 2, 3, 4, 5, 5])},
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


def rank_slices_that_do_not_fit(rank: int) -> None:
    """Rank slices of three candidates each that overlap, are swapped or leave a gap."""
    scores = torch.tensor([[0.9, 0.1, 0.2, 0.3, 0.4, 0.5]])[:, 3 * rank : 3 * rank + 3]
    rank_at = partial(Ranking.from_sharded_scores, scores, torch.tensor([1]))
    for offsets in ([0, 0], [0, 4], [1, 4], [0, 2]):
        error = _error(partial(rank_at, offsets[rank]))
        assert "`offset` must be the number of candidates on the processes before" in error


def sharded_metrics() -> RankingCollection:
    """Make metrics that need places, and the candidates on the first ranks."""
    table = bins()
    names = {"mrr": MRR(), "hit": AccuracyAtK(3), "decile": DecileNDCG(table, 2, candidates=20)}
    return RankingCollection(names)


def rank_slices_in_a_group(rank: int) -> None:
    """Rank by slices that processes 0 and 1 hold, while process 2 does something else."""
    pair = torch.distributed.new_group([0, 1])
    if rank == 2:
        return
    scores, target = rows(0, 40)["preds"], rows(0, 40)["target"]
    found = Ranking.from_sharded_scores(
        scores[:, rank * 3 : rank * 3 + 3], target, rank * 3, process_group=pair
    )
    assert_same(parts(found), parts(Ranking.from_scores(scores, target)))


def pad(rank: int, made_before: PaddedDataset[int]) -> bytes:
    """Pickle a dataset of 3 rows, padded for this group; one made before it is padded for it, too.

    Lightning's `ddp_spawn` makes it before the processes start.
    """
    assert len(made_before) == 4
    return pickle.dumps(PaddedDataset([0, 1, 2]))  # type: ignore[arg-type]
