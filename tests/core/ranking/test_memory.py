"""What an update makes beside the scores: small, and nothing of their size is sorted."""

from __future__ import annotations

import tracemalloc
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from conftest import ON_THE_CPU, threads_allowed
from inner import reference, weights
from nextloc_metrics import (
    NDCGAtK,
    Ranking,
    RecallAtK,
    backends,
    next_location_metrics,
    recommendation_metrics,
)


@cache
def wide_scores() -> Tensor:
    """Scores of 256 queries and 50,000 candidates, made once, as that takes a tenth of a second."""
    return torch.randn(256, 50_000, generator=torch.Generator().manual_seed(0))


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


def peak_of(run: Callable[[], object], given: Sequence[Tensor], sortable: int = 0) -> int:
    """Return the most bytes that PyTorch's tensors and NumPy's arrays held during a run."""
    backends.choose(given[0])  # the check at the first use
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
    [(torch.float32, 1), pytest.param(torch.bfloat16, 8, marks=pytest.mark.slow)],
)
@pytest.mark.usefixtures("each_backend")
def test_the_preset_neither_sorts_nor_copies_the_scores(dtype: torch.dtype, number: int) -> None:
    """All that an update makes is smaller than a twentieth of the scores, states aside."""
    scores, target = wide_scores().to(dtype), torch.arange(256)
    metrics = next_location_metrics(50_000)
    states = 2 * 3 * 50_000 * 8  # of the F1, the old and the new, whatever the scores
    with threads_allowed(number):
        peak = peak_of(lambda: metrics.update(scores, target), [scores, target])
    assert peak <= states + scores.nbytes / 20


@pytest.mark.parametrize("columns", [1, 3, 300])
@pytest.mark.usefixtures("each_backend")
def test_few_candidates_take_little_memory(columns: int) -> None:
    """Some integers a query, however few the candidates of many queries are."""
    scores = torch.randn(300_000 // columns, columns)
    target = torch.arange(len(scores)) % columns
    peak = peak_of(lambda: Ranking.from_scores(scores, target), [scores, target])
    assert peak <= 16 * 8 * len(scores) + (8 << 20)


@pytest.mark.slow  # traces memory
@pytest.mark.parametrize(("relevant", "uncut"), [(10, False), (100, True)])
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


@pytest.mark.parametrize("k", [50, pytest.param(5000, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("each_backend")
def test_any_depth_copies_a_small_part_of_the_scores(k: int) -> None:
    """Whether first ranks are looked for or all ranks counted; also where all scores are tied."""
    scores, target = wide_scores()[:128], torch.arange(256).view(128, 2)
    update = RecallAtK(k).update
    assert peak_of(lambda: update(scores, target), [scores, target], 50_000) <= scores.nbytes / 12
    scores, target = torch.zeros(256, 20_000), torch.arange(2560).view(256, 10)
    update = recommendation_metrics(k=10).update
    peak = peak_of(lambda: update(scores, target), [scores, target], scores.shape[1] // 32)
    assert peak <= scores.nbytes / 10


@ON_THE_CPU
@pytest.mark.usefixtures("each_backend")
def test_thousands_of_relevant_locations_make_no_square_of_them() -> None:
    """They are counted around part by part, and the best possible is tabled for few numbers."""
    scores, target = torch.zeros(8, 4000), torch.ones(8, 4000, dtype=torch.bool)
    for metric in (recommendation_metrics(k=300), NDCGAtK(10, ideal="full")):
        peak = peak_of(lambda one=metric: one.update(scores, target), [scores, target], 4000)  # type: ignore[misc]
        assert peak <= 40 * 8 * scores.numel() + 4 * 8 * (1 << 18)


@pytest.mark.slow  # traces memory
@pytest.mark.parametrize(
    ("relevant", "chunk_size", "options"),
    [(1, 1000, {}), (100, 1000, {"top": 1}), (1, 400, {"top": 100})],
)
@pytest.mark.usefixtures("each_backend")
def test_embeddings_never_make_all_scores(
    relevant: int, chunk_size: int, options: dict[str, int]
) -> None:
    """Only a few chunks of scores are made, and no more is sorted than a key for each candidate."""
    queries, table = torch.randn(64, 4), torch.randn(20_000, 4)
    target = torch.arange(64 * relevant).view(64, relevant)
    peak = peak_of(
        lambda: Ranking.from_embeddings(queries, table, target, chunk_size=chunk_size, **options),
        [queries, table, target],
        len(table),
    )
    chunks = 16 if "top" in options else 3
    assert peak <= chunks * (64 * chunk_size * 4) + 64 * 8 * target.numel() + 24 * len(table)
