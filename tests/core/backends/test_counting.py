"""The counts behind every metric, on every backend, and chunks of products."""

import math
import os
import subprocess
import sys
import tracemalloc
import weakref
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from conftest import ON_THE_CPU, threads_allowed
from nextloc_metrics import (
    MRR,
    NDCGAtK,
    PrecisionAtK,
    Ranking,
    RecallAtK,
    backends,
    functional,
    next_location_metrics,
    recommendation_metrics,
)
from nextloc_metrics.core.backends import UNRETRIEVED, cpu, reference
from nextloc_metrics.core.ranking import counting
from nextloc_metrics.core.scoring import weights
from strategies import SCORES, dirty_scores

#: some tests are of the backend in C alone
NEEDS_C = pytest.mark.skipif(bool(backends.available()["cpu"]), reason="needs the backend in C")

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def counted_in_python(scores: Tensor, own: Tensor) -> tuple[list[list[int]], list[list[int]]]:
    """Count above and tied one by one; a NaN is above everything."""
    above, tied = [], []
    for row, values in zip(scores.tolist(), own.tolist(), strict=True):
        above.append([sum(not x <= value for x in row) for value in values])
        tied.append([sum(x == value for x in row) for value in values])
    return above, tied


@cache
def wide_scores() -> Tensor:
    """Scores of 256 queries and 50,000 candidates, made once, as that takes a tenth of a second."""
    return torch.randn(256, 50_000, generator=torch.Generator().manual_seed(0))


def best_in_python(row: list[float]) -> int:
    """Return the first NaN, or the first of the highest scores."""
    return max(range(len(row)), key=lambda i: (row[i] != row[i], row[i] == row[i] and row[i]))


@pytest.mark.parametrize("relevant", [0, 1, 9])
@pytest.mark.parametrize("columns", [1, 7, 2049])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.usefixtures("each_backend")
def test_all_paths_count_as_python_does(
    dtype: torch.dtype, columns: int, relevant: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best candidate included; in strided rows too, and rows of several blocks."""
    monkeypatch.setattr(reference, "FEW_RELEVANT", 8)  # 9 are searched for
    monkeypatch.setattr(cpu, "_SERIAL_ELEMENTS", 0)
    wide = torch.zeros(9, columns + 3, dtype=dtype)
    wide[:, 1:-2] = dirty_scores(9, columns, dtype)
    for scores in (wide[:, 1:-2], wide[:, 1:-2].T.contiguous().T):
        at = torch.arange(9 * relevant).view(9, relevant) * 7 % columns
        own = scores.gather(1, at)
        own[::2, 1:3] = torch.nan
        wanted = ~own.isnan()  # nothing is to be counted for the others
        above, tied, best = counting.survey(scores, own, top=1)
        more, same = counted_in_python(scores, own)
        assert torch.equal(above[wanted], torch.tensor(more).view(9, relevant)[wanted])
        assert torch.equal(tied[wanted], torch.tensor(same).view(9, relevant)[wanted])
        assert best is not None
        expected = [best_in_python(row) for row in scores.tolist()]
        assert best.ids[:, 0].tolist() == expected
        assert torch.equal(best.scores.nan_to_num(9e4), scores.gather(1, best.ids).nan_to_num(9e4))


@pytest.mark.parametrize(
    ("number", "queries", "columns"),
    [(3, 64, 3000), pytest.param(2, 5, 200_000, marks=pytest.mark.slow)],
)
def test_threads_that_share_rows_count_them_once(
    number: int, queries: int, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever thread takes which part of the rows."""
    monkeypatch.setattr(cpu, "_SERIAL_ELEMENTS", 0)
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(50, (queries, columns), generator=generator).double()
    own = scores[:, :1].clone()
    below, tied = (scores < own).sum(1), (scores == own).sum(1)
    best = scores.argmax(1)
    with threads_allowed(number):
        for _ in range(300):
            above, equal, found = backends.choose(scores).survey(scores, own, find_best=True)
            assert torch.equal(found, best)
            assert torch.equal(equal[:, 0], tied)
            assert torch.equal(above[:, 0], columns - below - tied)


@pytest.mark.parametrize("relevant", [1, 3, 70, 600])
@pytest.mark.parametrize("top", [0, 1, 3])
def test_all_paths_make_the_same_ranking(relevant: int, top: int) -> None:
    """Every field, of scores with ties and lists with repeats, whatever the number of columns."""
    scores = dirty_scores(40, 700, torch.float32)
    generator = torch.Generator().manual_seed(relevant)
    target = torch.randint(-1, 700, (40, relevant), generator=generator)
    lists = torch.randint(0, 700, (40, 30), generator=generator)

    def rank() -> list[Ranking]:
        return [
            Ranking.from_scores(scores, target, top=top),
            Ranking.from_scores(scores, target, top=top, depth=5),
            Ranking.from_lists(lists, target, top=top),
        ]

    expected = rank()
    backends.use("reference")
    for plain, compiled in zip(expected, rank(), strict=True):
        for record, other in ((plain, compiled), (plain.first, compiled.first)):
            for name, value in vars(record).items() if record is not None else ():
                if isinstance(value, Tensor):
                    assert torch.equal(value, getattr(other, name)), name
                    assert value.dtype == getattr(other, name).dtype


@pytest.mark.parametrize(
    ("number", "candidates"),
    [(1, 3011), (4, 3011), (46, 3011), (900, 3011), (4, 40_011)],
)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.usefixtures("each_backend")
def test_the_first_candidates_are_those_of_a_sort(
    dtype: torch.dtype, number: int, candidates: int
) -> None:
    """Ties, NaN, sorted rows, candidates in no group and rows that are not adjacent included."""
    rows = dirty_scores(9, candidates, dtype)
    many_ties = torch.cat([rows, rows.sort(1).values, -rows.sort(1).values, 0 * rows])
    generator = torch.Generator().manual_seed(number)
    few_ties = torch.randint(candidates, (9, candidates), generator=generator).to(dtype)
    few_nan = few_ties.clone()
    few_nan[3, 5], few_nan[4, 100:120], few_nan[5] = torch.nan, -torch.nan, torch.nan
    for scores in (many_ties[:, 4:-6], few_ties[:, 4:-6], few_nan):
        values, ids = backends.choose(scores).first(scores, number)
        expected = scores.sort(dim=1, descending=True).values[:, :number]
        assert torch.equal(values.double().nan_to_num(9e4), expected.double().nan_to_num(9e4))
        found = scores.gather(1, ids)
        assert torch.equal(found.double().nan_to_num(9e4), values.double().nan_to_num(9e4))
        assert all(len(row.unique()) == number for row in ids)


@pytest.mark.parametrize("candidates", [4, 40, 9999])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.usefixtures("each_backend")
def test_the_candidates_of_a_bin_are_counted_as_in_a_loop(
    dtype: torch.dtype, candidates: int
) -> None:
    """Around one of them, and its first ones among the first of all bins; ties and NaN included."""
    rows = dirty_scores(12, 1100, dtype)[:, 2:-3]
    few_ties = torch.rand(12, 1095).to(dtype)
    bins = torch.arange(1095) % 5
    bins[3:] += bins[3:] == 4  # a bin of no candidate but few
    for scores in (rows, few_ties):
        target = torch.arange(12) * 91 % 1095
        own = scores.gather(1, target[:, None])[:, 0]
        of_rows = bins[target].where((own > -torch.inf) & (torch.arange(12) != 7), -1)
        backend = backends.choose(scores)
        above, tied, none = backend.survey_bins(scores, own, (bins, of_rows), candidates)
        assert not none.any()
        lengths = {
            most: backend.survey_bins(scores, own, (bins, of_rows), candidates, most)[2]
            for most in (1, 3, 200)
        }
        for i, (row, own_bin) in enumerate(zip(scores.tolist(), of_rows.tolist(), strict=True)):
            inside = [x for x, bin_ in zip(row, bins.tolist(), strict=True) if bin_ == own_bin]
            assert above[i] == sum(not x <= float(own[i]) for x in inside)
            assert tied[i] == sum(x == float(own[i]) for x in inside)
            first = sorted(inside, key=lambda x: (x == x, -x if x == x else 0))[:200]
            whole = sorted(y for y in row if y == y)
            ends = [len(row) - (bisect_left(whole, x) if x == x else len(whole)) for x in first]
            ends = [0 if x == -math.inf else end for end, x in zip(ends, first, strict=True)]
            nan = scores[i].isnan().sum()
            for most, of_most in lengths.items():
                counted = sum(0 < end <= candidates for end in ends[:most])
                assert nan > candidates or of_most[i] == counted


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.usefixtures("each_backend")
def test_threads_that_share_rows_find_the_first_of_each(threads: int) -> None:
    """Every row comes back in its place."""
    scores = torch.rand(300, 2000).argsort(1).float()
    with threads_allowed(threads):
        values, ids = backends.choose(scores).first(scores, 500)
    expected = scores.sort(dim=1, descending=True)
    assert torch.equal(values, expected.values[:, :500])
    assert torch.equal(ids, expected.indices[:, :500])


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("dtype", DTYPES)
@ON_THE_CPU
@pytest.mark.usefixtures("each_backend")
def test_looking_no_further_changes_no_metric(dtype: torch.dtype, depth: int) -> None:
    """What is left out is beyond every place that counts; ties, NaN and padding included."""
    scores = torch.cat([dirty_scores(9, 800, dtype), torch.zeros(2, 800).to(dtype)])
    scores[-1, 50:60] = torch.nan  # more of them than places
    generator = torch.Generator().manual_seed(depth)
    target = torch.randint(800, (11, 60), generator=generator)
    target[:, 30:] = scores.float().nan_to_num(-9e4).topk(30).indices
    target[torch.rand(11, 60, generator=generator) < 0.5] = -1
    near, all_of_them = (Ranking.from_scores(scores, target, depth=d) for d in (depth, None))
    assert (near.above == UNRETRIEVED).sum() > (all_of_them.above == UNRETRIEVED).sum()
    for score in SCORES:
        for k in range(1, depth + 1):
            assert torch.equal(score(near, k), score(all_of_them, k))


@pytest.mark.parametrize("depth", [1, 7])
@pytest.mark.parametrize("ties", ["none", "on the first ranks", "everywhere"])
@pytest.mark.usefixtures("each_backend")
def test_many_relevant_locations_are_the_same_as_ids_and_as_relevance(
    ties: str, depth: int
) -> None:
    """Also where a query has a few or none of them, some scores are NaN, and true is any byte."""
    generator = torch.Generator().manual_seed(depth)
    scores = torch.rand(40, 300, generator=generator).argsort(1).double()
    if ties == "on the first ranks":
        scores[4:9] = scores[4:9].clamp(max=297)
    elif ties == "everywhere":
        scores = (scores / 8).floor()
    scores[1, 7], scores[2, :9], scores[3] = torch.nan, torch.nan, torch.nan
    relevance = torch.rand(40, 300, generator=generator) < 0.2
    relevance[0], relevance[9], relevance[10] = False, True, scores[10] == scores[10].max()
    relevance[1:3, 5:8] = True
    ids = torch.where(relevance, torch.arange(300), -1)
    bytes_ = relevance * torch.randint(1, 256, (40, 300), generator=generator)
    dense = bytes_.to(torch.uint8).view(torch.bool)
    strided = dense.T.contiguous().T
    expected = Ranking.from_scores(scores, ids)
    for target in (dense, strided, dense.view(5, 8, 300)):
        queries = target.shape[:-1]
        ranking = Ranking.from_scores(scores.view(*queries, 300), target, depth=depth)
        assert ranking.shape == queries
        assert torch.equal(ranking.num_relevant, relevance.sum(1))
        assert torch.equal(ranking.answerable, relevance.any(1))
        for score in SCORES:
            for k in {1, depth}:
                assert torch.equal(score(ranking, k), score(expected, k)), (score, k)


@pytest.mark.usefixtures("each_backend")
def test_relevant_locations_beyond_the_places_that_count_are_counted_as_relevant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of three is on the first two places, alone or as a tie with the second place's."""
    scores = torch.stack([-torch.arange(100.0), torch.ones(100).index_fill(0, torch.arange(3), 2)])
    target = torch.tensor([[0, 50, 60], [2, 50, 60]])
    chance, mean_discount = 2 / 3, (1 + 1 / math.log2(3)) / 3
    ideal = 1 + 1 / math.log2(3)
    expected = {
        functional.accuracy_at_k: [1, chance],
        functional.mrr: [1, (1 + 1 / 2) / 3],
        functional.ndcg_at_k: [1 / ideal, mean_discount / ideal],
        functional.map_at_k: [1 / 2, (1 + 1 / 2) / 3 / 2],
        functional.precision_at_k: [1 / 2, chance / 2],
        functional.recall_at_k: [1 / 3, chance / 3],
        functional.f1_at_k: [2 / 5, 2 * chance / 5],
    }
    for function, values in expected.items():
        for rows in (slice(0, 1), slice(0, 2)):
            found = function(scores[rows], target[rows], k=2, reduction="none")
            assert found.tolist() == pytest.approx(values[rows])
    metrics = recommendation_metrics(k=2)
    metrics.update(scores, target)
    one = {name: float(value) for name, value in metrics.compute().items()}
    metrics.reset()
    dense = torch.zeros(2, 100, dtype=torch.bool).scatter_(1, target, True)
    metrics.update(scores, dense)
    assert metrics.compute() == one
    rankings = [metrics.rank(scores[rows], target[rows]) for rows in (slice(0, 1), slice(1, 2))]
    backends.use("reference")  # as if they were moved to one
    metrics.reset()
    for ranking in rankings:
        metrics.update(ranking)
    assert metrics.compute() == one
    assert one["ndcg_at_2"] == pytest.approx(sum(expected[functional.ndcg_at_k]) / 2)


def test_a_ranking_of_the_first_places_serves_no_metric_that_looks_further() -> None:
    """It raises, and says how to make one that does."""
    scores, target = torch.arange(200.0)[None], torch.tensor([[0, 199]])
    collection = recommendation_metrics(k=2)
    ranking = collection.rank(scores, target)
    assert ranking.depth == 2
    PrecisionAtK(2).update(ranking)
    for metric in (PrecisionAtK(3), MRR()):
        with pytest.raises(ValueError, match=r"was made for the first 2; make it with `depth="):
            metric.update(ranking)
        assert metric.num_queries == 0


@pytest.mark.parametrize("columns", [64, 127, 128, 129, 32_640, 32_700, 65_280])
def test_relevant_locations_are_counted_however_many_there_are(columns: int) -> None:
    """All of them, none, some, all but the last: a sum of bytes must not overflow."""
    relevance = torch.ones(4, columns, dtype=torch.bool)
    relevance[1], relevance[2, ::3], relevance[3, -1] = False, False, False
    for target in (relevance, relevance.T.contiguous().T):
        ranking = Ranking.from_scores(torch.rand(4, columns), target, depth=2)
        assert ranking.num_relevant.tolist() == [columns, 0, columns * 2 // 3, columns - 1]


@NEEDS_C
@pytest.mark.parametrize("openmp", [True, False])
def test_compiled_loops_share_the_work_among_threads(
    openmp: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row is counted once, however many threads there are and whatever is left over."""
    backend = backends.choose(torch.zeros(1))
    assert isinstance(backend, cpu.Cpu)
    if openmp and not backend._parallel:
        pytest.skip("PyTorch brings no OpenMP that can be called here")
    monkeypatch.setattr(cpu, "_SERIAL_ELEMENTS", 0)
    if not openmp:
        monkeypatch.setattr(backend, "_parallel", None)
    scores = torch.randn(65, 500, generator=torch.Generator().manual_seed(0))
    target = torch.arange(65)
    backends.use("reference")
    expected = Ranking.from_scores(scores, target)
    backends.use("cpu")
    for number in (1, 2, 3, 70):
        with threads_allowed(number):
            ranking = Ranking.from_scores(scores, target)
            assert torch.equal(ranking.above, expected.above)
            with pytest.raises(RuntimeError, match="out of bounds"):
                Ranking.from_scores(scores, target + 440, validate_args=False)


@NEEDS_C
def test_python_threads_count_at_once() -> None:
    """Four threads of a program, each with metrics of its own."""
    generator = torch.Generator().manual_seed(0)
    batches = [torch.randn(200, 3000, generator=generator) for _ in range(4)]
    target = torch.arange(200)
    expected = [float(MRR()(scores, target)) for scores in batches]

    def repeat(scores: Tensor) -> set[float]:
        return {float(MRR()(scores, target)) for _ in range(20)}

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(repeat, batches)) == [{value} for value in expected]


@pytest.mark.slow
@NEEDS_C
def test_more_elements_than_32_bits_count() -> None:
    """One row that is read 2^18 + 1 times, by its stride of 0: a second for 2^31 scores."""
    row = (torch.arange(1 << 13) % 251).to(torch.bfloat16)
    scores = row.expand((1 << 18) + 1, -1)
    assert scores.numel() > 1 << 31
    above, tied, best = backends.choose(scores).survey(scores, scores[:, 9:10], find_best=True)
    assert above.unique().tolist() == [int((row > row[9]).sum())]
    assert tied.unique().tolist() == [int((row == row[9]).sum())]
    assert best is not None
    assert best.unique().tolist() == [int(row.argmax())]


@NEEDS_C
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_between_the_elements_of_memory_are_left_to_the_reference(dtype: torch.dtype) -> None:
    """C reads whole elements; PyTorch makes such tensors of a file's bytes."""
    values = torch.arange(40).to(dtype)
    memory = torch.zeros(values.nbytes + 1, dtype=torch.uint8)
    memory[1:] = values.view(torch.uint8)
    scores = torch.frombuffer(memory.numpy(), dtype=dtype, offset=1, count=40).view(2, 20)
    ranking = Ranking.from_scores(scores, torch.tensor([3, 19]))
    assert ranking.above.tolist() == [[16], [0]]


_OTHER_OPENMP = """
import sklearn.cluster  # which brings an OpenMP of its own
import torch
from nextloc_metrics import MRR, backends
torch.set_num_threads(2)
scores = torch.randn(256, 4000, generator=torch.Generator().manual_seed(0))
for backend in ("cpu", "reference"):
    backends.use(backend)
    print(float(MRR()(scores, torch.arange(256))))
"""


@NEEDS_C
@pytest.mark.parametrize("shape", [(0, 5), (3, 1), (1, 1), (0, 1)])
def test_few_scores_are_counted_too(shape: tuple[int, int]) -> None:
    """No query, or one candidate."""
    scores = torch.zeros(shape)
    target = torch.zeros(shape[0], dtype=torch.int64)
    metrics = next_location_metrics(5, k=1)
    metrics.update(scores, target)
    value = metrics["acc_at_1"].compute()
    assert value.isnan() if shape[0] == 0 else value == (1 / shape[1])
    assert Ranking.from_scores(scores, target, top=3).tied.tolist() == [[shape[1]]] * shape[0]


@pytest.mark.slow
@NEEDS_C
def test_other_openmp_may_be_loaded_first() -> None:
    """Whichever library's threads they are, they count.

    Takes some seconds: a new Python imports scikit-learn and torch.
    """
    command = [sys.executable, "-c", _OTHER_OPENMP]
    shown = subprocess.run(command, capture_output=True, encoding="utf-8", check=True, timeout=600)
    compiled, plain = shown.stdout.split()
    assert compiled == plain


@pytest.mark.usefixtures("each_backend")
def test_views_that_turn_signs_are_scores_too() -> None:
    """PyTorch negates them when they are read, and the other backends do not."""
    values = torch.randn(20, 300)
    scores = torch._neg_view(-values)
    assert scores.is_neg()
    ranking, expected = (Ranking.from_scores(x, torch.arange(20), top=3) for x in (scores, values))
    assert torch.equal(ranking.above, expected.above)
    assert ranking.first is not None
    assert expected.first is not None
    assert torch.equal(ranking.first.ids, expected.first.ids)


@ON_THE_CPU
@pytest.mark.usefixtures("each_backend")
def test_padding_of_all_queries_is_not_counted_around() -> None:
    """One visit each in columns for a hundred; repeats, wherever they are, are padding too."""
    scores = torch.randn(6, 300)
    target = torch.full((6, 100), -1)
    target[torch.arange(6), torch.arange(6) * 15] = torch.arange(6)
    assert Ranking.from_scores(scores, target).above.shape == (6, 1)
    assert Ranking.from_scores(scores, torch.full_like(target, -1)).above.shape == (6, 1)
    assert Ranking.from_scores(scores[:0], target[:0]).above.shape[0] == 0
    expected = Ranking.from_scores(scores, torch.arange(6))
    assert torch.equal(Ranking.from_scores(scores, target).above, expected.above)


class Watch(TorchDispatchMode):
    """Add up what the tensors hold that are made and live, and refuse to sort the candidates."""

    def __init__(self, given: Sequence[Tensor], sortable: int) -> None:
        super().__init__()
        self.given = {tensor.untyped_storage().data_ptr() for tensor in given}
        self.sortable = sortable
        self.live: Counter[int] = Counter()
        self.bytes: dict[int, int] = {}
        self.peak = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        name = func.overloadpacket.__name__
        if name in ("sort", "argsort", "msort", "kthvalue", "median", "one_hot", "unique"):
            assert args[0].shape[-1] <= self.sortable, (name, args[0].shape)
        made = func(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, tuple | list) else (made,):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                if storage.data_ptr() not in self.given:
                    self.bytes[storage.data_ptr()] = storage.nbytes()
                    self.live[storage.data_ptr()] += 1  # views share a storage
                    weakref.finalize(tensor, self.live.subtract, [storage.data_ptr()])
        self.peak = max(self.peak, sum(self.bytes[at] for at, n in self.live.items() if n > 0))
        return made


def peak_of(run: Callable[[], object], given: Sequence[Tensor], sortable: int) -> int:
    """Return the most bytes that PyTorch's tensors and NumPy's arrays held during a run."""
    with Watch(given, sortable):
        run()  # imports, tables and states that stay
    given = [*given, weights.table_of_sums(torch.device("cpu"))]
    tracemalloc.start()
    try:
        with Watch(given, sortable) as watch:
            run()
        return watch.peak + tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("dtype", "number"),
    [
        (torch.float32, 1),
        pytest.param(torch.bfloat16, 1, marks=pytest.mark.slow),
        pytest.param(torch.float32, 8, marks=pytest.mark.slow),
    ],
)
@pytest.mark.usefixtures("each_backend")
def test_the_preset_neither_sorts_nor_copies_the_scores(dtype: torch.dtype, number: int) -> None:
    """All that an update makes is smaller than a twentieth of the scores, states aside."""
    scores, target = wide_scores().to(dtype), torch.arange(256)
    metrics = next_location_metrics(50_000)
    states = 2 * 3 * 50_000 * 8  # of the F1, the old and the new, whatever the scores
    with threads_allowed(number):
        peak = peak_of(lambda: metrics.update(scores, target), [scores, target], 0)
    assert peak <= states + scores.nbytes / 20


@pytest.mark.parametrize("columns", [1, 3, 300])
@pytest.mark.usefixtures("each_backend")
def test_few_candidates_take_little_memory(columns: int) -> None:
    """Some integers a query, however few the candidates of many queries are."""
    scores = torch.randn(300_000 // columns, columns)
    target = torch.arange(len(scores)) % columns
    peak = peak_of(lambda: Ranking.from_scores(scores, target), [scores, target], 0)
    assert peak <= 16 * 8 * len(scores) + (8 << 20)


@pytest.mark.slow  # traces memory
@pytest.mark.parametrize(
    ("relevant", "uncut"),
    [(10, False), (100, True)],  # few, and more than `FEW_RELEVANT`
)
@pytest.mark.usefixtures("each_backend")
def test_several_relevant_neither_sort_nor_copy_the_scores(relevant: int, uncut: bool) -> None:
    """Only relevant scores are sorted; what is made is integers for each, and a work buffer."""
    scores = wide_scores()
    target = torch.arange(256 * relevant).view(256, relevant)
    update = recommendation_metrics(k=10).update
    peak = peak_of(
        lambda: Ranking.from_scores(scores, target) if uncut else update(scores, target),
        [scores, target],
        max(relevant, scores.shape[1] // 32),  # maxima of groups, and the best groups
    )
    buffer = 3 * 8 * (1 << 18) if relevant > reference.FEW_RELEVANT else scores.nbytes / 20
    assert peak <= 16 * 8 * target.numel() + buffer


@pytest.mark.usefixtures("each_backend")
def test_one_query_has_a_nan_and_another_a_tie_beyond_the_last_place() -> None:
    """One candidate too few in the first, where NaN is no number, and one too many in the other."""
    scores, far = torch.zeros(2, 20_000), 1111 * torch.arange(5)
    scores[0, far[:4]] = torch.tensor([torch.nan, 9, 8, 7])
    scores[1, far] = torch.tensor([9.0, 8, 7, 6, 6])
    target = torch.stack([far[[1, 2, 4]], far[[0, 2, 4]]])
    ranking = Ranking.from_scores(scores, target, depth=3)
    assert ranking.above[:, :2].tolist() == [[1, 2], [0, 2]]
    assert ranking.tied[:, :2].tolist() == [[1, 1], [1, 1]]
    assert ranking.num_relevant.tolist() == [3, 3]


@pytest.mark.usefixtures("each_backend")
def test_ties_everywhere_copy_a_small_part_of_the_scores() -> None:
    """Where all are tied, all are tied with the last place that counts."""
    scores, target = torch.zeros(256, 20_000), torch.arange(2560).view(256, 10)
    update = recommendation_metrics(k=10).update
    peak = peak_of(lambda: update(scores, target), [scores, target], scores.shape[1] // 32)
    assert peak <= scores.nbytes / 10


@pytest.mark.parametrize("k", [50, pytest.param(5000, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("each_backend")
def test_any_depth_copies_a_small_part_of_the_scores(k: int) -> None:
    """Whether first ranks are looked for or all ranks counted."""
    scores, target = wide_scores()[:128], torch.arange(256).view(128, 2)
    update = RecallAtK(k).update
    peak = peak_of(lambda: update(scores, target), [scores, target], 50_000)
    assert peak <= scores.nbytes / 12


@ON_THE_CPU
@pytest.mark.usefixtures("each_backend")
def test_thousands_of_relevant_locations_may_share_the_last_place() -> None:
    """They are counted around part by part, whatever the depth."""
    scores, target = torch.zeros(8, 4000), torch.ones(8, 4000, dtype=torch.bool)
    update = recommendation_metrics(k=300).update
    peak = peak_of(lambda: update(scores, target), [scores, target], 4000)
    assert peak <= 40 * 8 * scores.numel() + 4 * 8 * (1 << 18)


@pytest.mark.usefixtures("each_backend")
def test_thousands_of_relevant_locations_make_no_square_of_them() -> None:
    """The best possible is known for every number of them, and tabled for few."""
    scores, target = torch.randn(4, 8000), torch.ones(4, 8000, dtype=torch.bool)
    metric = NDCGAtK(10, ideal="full")
    peak = peak_of(lambda: metric.update(scores, target), [scores, target], 8000)
    assert peak <= 40 * 8 * scores.numel() + 3 * 8 * (1 << 18)


@pytest.mark.slow  # traces memory
@pytest.mark.parametrize(
    ("relevant", "options"), [(1, {}), (10, {"best": True}), (100, {"best": True})]
)
@pytest.mark.usefixtures("each_backend")
def test_embeddings_never_make_all_scores(options: dict[str, int], relevant: int) -> None:
    """Only a few chunks of scores are made, and no more is sorted than a key for each candidate."""
    queries, table = torch.randn(64, 4), torch.randn(20_000, 4)
    target = torch.arange(64 * relevant).view(64, relevant)
    peak = peak_of(
        lambda: Ranking.from_embeddings(queries, table, target, chunk_size=1000, **options),
        [queries, table, target],
        len(table),
    )
    assert peak <= 3 * (64 * 1000 * 4) + 64 * 8 * target.numel() + 24 * len(table)


@pytest.mark.slow  # traces memory
@pytest.mark.usefixtures("each_backend")
def test_many_first_places_of_embeddings_make_few_chunks() -> None:
    """What is kept of chunks is put together before it becomes as large as the scores."""
    queries, table = torch.randn(256, 4), torch.randn(20_000, 4)
    target = torch.arange(256)
    peak = peak_of(
        lambda: Ranking.from_embeddings(queries, table, target, chunk_size=400, top=100),
        [queries, table, target],
        len(table),
    )
    assert peak <= 16 * (256 * 400 * 4)


@pytest.mark.parametrize(
    ("chunk_size", "top"),
    [(1, 0), (7, 1), (7, 5), (None, 5)],
)
@pytest.mark.usefixtures("each_backend")
def test_embeddings_give_the_places_of_the_full_scores(chunk_size: int | None, top: int) -> None:
    """On whole numbers, whose products are exact, any chunks give what the full scores give."""
    generator = torch.Generator().manual_seed(top)
    queries, table, bias = (
        torch.randint(-3, 4, shape, generator=generator).float()
        for shape in ((30, 8), (15, 8), (15,))
    )
    scores = queries @ table.T + bias
    for target in (
        torch.randint(15, (30,), generator=generator),
        torch.randint(-1, 15, (30, 4), generator=generator),
        torch.rand(30, 15, generator=generator) < 0.9,
    ):
        full = Ranking.from_scores(scores, target, top=top)
        parts = Ranking.from_embeddings(
            queries, table, target, bias=bias, chunk_size=chunk_size, top=top
        )
        for name in ("above", "tied", "relevant_above", "relevant_tied", "relevant", "gains"):
            assert torch.equal(getattr(full, name), getattr(parts, name)), name
        if full.first is not None and parts.first is not None:
            assert torch.equal(full.first.best, parts.first.best)
            assert torch.equal(full.first.ids, parts.first.ids)
            assert torch.equal(full.first.above, parts.first.above)


@pytest.mark.usefixtures("each_backend")
def test_embeddings_share_chunks_among_threads() -> None:
    """Every chunk is counted once, on threads that know nothing of the caller's inference mode."""
    generator = torch.Generator().manual_seed(0)
    queries, table = (torch.randint(-3, 4, (n, 8), generator=generator).float() for n in (30, 500))
    target = torch.randint(500, (30, 3), generator=generator)
    bias = torch.randint(-3, 4, (500,), generator=generator).float().requires_grad_()
    full = Ranking.from_scores(queries @ table.T + bias, target, top=5)
    assert full.first is not None
    for number in (1, 5):
        with threads_allowed(number):
            with torch.inference_mode():
                parts = Ranking.from_embeddings(
                    queries, table, target, bias=bias, chunk_size=20, top=5
                )
            assert parts.first is not None
            assert torch.equal(parts.above, full.above)
            assert torch.equal(parts.tied, full.tied)
            assert torch.equal(parts.first.ids, full.first.ids)
            with pytest.raises(IndexError, match="out of"):
                Ranking.from_embeddings(queries, table, target + 500, validate_args=False)


_ONE_THREAD = """
import torch
from nextloc_metrics import LocationF1, backends
torch.set_num_threads(2)
target = torch.arange(2000) % 1000
scores = torch.nn.functional.one_hot(target, 1000).float()
for path in ("cpu", "reference"):
    backends.use(path)
    f1 = LocationF1(1000)
    f1.update(scores, target)
    print(f1.compute().item())
"""


@pytest.mark.slow
@NEEDS_C
def test_a_limit_of_one_thread_leaves_nothing_uncounted() -> None:
    """Where OpenMP gives fewer threads than PyTorch may use, perfect scores stay perfect.

    Takes some seconds: a new Python imports torch.
    """
    environment = {**os.environ, "OMP_THREAD_LIMIT": "1"}
    command = [sys.executable, "-W", "error", "-W", "ignore::EncodingWarning", "-c", _ONE_THREAD]
    shown = subprocess.run(
        command, env=environment, capture_output=True, encoding="utf-8", check=True
    )
    assert shown.stdout.split() == ["1.0", "1.0"]


@pytest.mark.usefixtures("each_backend")
def test_embeddings_tie_a_location_with_itself() -> None:
    """Whatever the products round to, a relevant location is tied at least with itself."""
    queries, table = torch.randn(40, 33), torch.randn(500, 33)
    target = torch.randint(500, (40,))
    ranking = Ranking.from_embeddings(queries, table, target, chunk_size=77)
    scores = queries.double() @ table.double().T
    exact = Ranking.from_scores(scores, target)
    assert int(ranking.tied.min()) >= 1
    assert torch.equal(ranking.above, exact.above)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("chunk_size", "rows"), [(None, 200), (1, 6), (7, 30), (64, 200)])
def test_equal_rows_of_embeddings_tie(
    dtype: torch.dtype, chunk_size: int | None, rows: int
) -> None:
    """A model whose locations are all alike is at chance; one with three kinds ties within each."""
    generator = torch.Generator().manual_seed(0)
    for queries, size in ((1, 7), (5, 33), (16, 96), (40, 300)):
        left = torch.randn(queries, size, generator=generator).to(dtype)
        kinds = torch.randn(3, size, generator=generator).to(dtype)
        target = torch.randint(rows, (queries,), generator=generator)
        equal_rows = kinds[:1].expand(rows, size).contiguous()
        alike = Ranking.from_embeddings(left, equal_rows, target, chunk_size=chunk_size, top=rows)
        assert alike.above.eq(0).all()
        assert alike.tied.eq(rows).all()
        assert alike.first is not None
        assert torch.equal(alike.first.ids, torch.arange(rows).expand(queries, rows))
        kind = torch.randint(3, (rows,), generator=generator)
        bias = (torch.arange(rows) % 2).to(dtype)
        ranking = Ranking.from_embeddings(
            left, kinds[kind], target, bias=bias, chunk_size=chunk_size
        )
        equal = (kind == kind[target, None]) & (bias == bias[target, None])
        assert torch.equal(ranking.tied[:, 0], equal.sum(1))


def test_a_bias_tells_equal_rows_apart() -> None:
    """However small it is."""
    queries, table = torch.ones(1, 2), torch.zeros(3, 2)
    bias = torch.tensor([2.0**-30, 0.0, 2.0**-30])
    for target, above, tied in ((0, 0, 2), (1, 2, 1)):
        ranking = Ranking.from_embeddings(queries, table, torch.tensor([target]), bias=bias)
        assert (ranking.above.item(), ranking.tied.item()) == (above, tied)


def test_a_score_of_embeddings_is_that_of_the_product() -> None:
    """In half precision a product is summed up in more digits, and does not overflow on the way."""
    queries = torch.tensor([[250.0, 60.0]]).half()
    table = torch.tensor([[300.0, -300.0], [230.0, 10.0], [240.0, 10.0], [235.0, 0.0]]).half()
    ranking = Ranking.from_embeddings(queries, table, torch.tensor([0]))
    assert ranking.above.tolist() == [[3]]


@pytest.mark.usefixtures("each_backend")
def test_embeddings_of_nan_are_misses() -> None:
    """A query of NaN retrieves nothing, and NaN rows of the table are above the others."""
    queries, table = torch.ones(2, 3), torch.ones(4, 3)
    queries[0] = torch.nan
    table[3] = torch.nan
    ranking = Ranking.from_embeddings(queries, table, torch.tensor([0, 0]))
    assert ranking.above.tolist() == [[1 << 62], [1]]
    assert ranking.tied.tolist() == [[1], [3]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queries": torch.ones(2, 3, dtype=torch.long)}, "`queries` must be a floating tensor"),
        ({"table": torch.ones(4, 5)}, "must have the same D"),
        ({"table": torch.ones(0, 3)}, "at least one row"),
        ({"table": torch.ones(4, 3).double()}, "one dtype"),
        ({"bias": torch.ones(3)}, r"`bias` must have shape \(4,\)"),
        ({"chunk_size": 0}, "`chunk_size` must be a positive integer, got 0"),
        ({"target": torch.tensor([0, 4])}, "got 4"),
    ],
)
def test_embeddings_refuse_what_does_not_fit(change: dict[str, object], message: str) -> None:
    """Errors name the argument, the rule and the value."""
    arguments = {
        "queries": torch.ones(2, 3),
        "table": torch.ones(4, 3),
        "target": torch.tensor([0, 1]),
    } | change
    with pytest.raises((TypeError, ValueError), match=message):
        Ranking.from_embeddings(**arguments)  # type: ignore[arg-type]
