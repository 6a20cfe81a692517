"""One law for every function of a backend: the C backend answers as `reference` does, bit for bit.

Tensors are drawn by PyTorch from a seed that Hypothesis draws, as it draws too slowly for so many
numbers. What counts has an oracle in NumPy too, since two backends may be wrong alike.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from conftest import threads_allowed
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    F1AtK,
    LocationF1,
    MAPAtK,
    NDCGAtK,
    PrecisionAtK,
    Ranking,
    RankingCollection,
    RecallAtK,
    backends,
)
from nextloc_metrics.core.backends import cpu, proof
from nextloc_metrics.core.backends.reference import Reference
from strategies import examples, long_batches

pytestmark = pytest.mark.skipif(bool(backends.available()["cpu"]), reason="needs the backend in C")

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
ODD = [-0.0, 0.0, torch.inf, -torch.inf, torch.nan, -torch.nan]
# Sides of the blocks in C (64, 512), of its longest lists and of the blocks of `reference` (2048).
COLUMNS = [1, 2, 7, 63, 64, 65, 511, 512, 513, 2047, 2049, 3011]

C, REFERENCE = cpu.Cpu(), Reference()


@pytest.fixture(autouse=True)
def _threads_for_few_scores_and_no_check_at_the_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_SERIAL_ELEMENTS", 0)
    monkeypatch.setattr(proof, "passes", lambda _: True)


class Random:
    """Random tensors of a seed."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """From low to high - 1."""
        return torch.randint(low, high, shape, generator=self.generator)

    def happens(self, share: float, *shape: int) -> Tensor:
        """True for this share of the elements."""
        return torch.rand(shape, generator=self.generator) < share


RANDOM = st.builds(Random, st.integers(0, 2**31))


def in_odd_memory(values: Tensor) -> Tensor:
    """The same numbers, between the elements of memory, as of a file's bytes."""
    memory = torch.zeros(values.nbytes + 1, dtype=torch.uint8)
    memory[1:] = values.contiguous().flatten().view(torch.uint8)
    found = torch.frombuffer(memory.numpy(), dtype=values.dtype, offset=1, count=values.numel())
    return found.view(values.shape)


#: the same numbers in rows, columns, and parts of other tensors
LAYOUTS: list[Callable[[Tensor], Tensor]] = [
    lambda x: x,
    lambda x: x.t().contiguous().t(),
    lambda x: torch.nn.functional.pad(x, (1, 2), value=9)[:, 1:-2],
    lambda x: torch.stack([x, x], 2)[:, :, 0],
    lambda x: in_odd_memory(x) if x.numel() else x,
]
layouts = st.sampled_from(LAYOUTS)


@st.composite
def tables(draw: st.DrawFn) -> Tensor:
    """Scores `[N, C]` with few levels or many, odd numbers here and there or in whole rows."""
    random, levels = draw(RANDOM), draw(st.sampled_from([1, 3, 60, 100_000]))
    shape = draw(st.integers(0, 6)), draw(st.sampled_from(COLUMNS))
    scores = random.integers(-levels, levels + 1, *shape).double() / 4
    share = draw(st.sampled_from([0.0, 0.0, 0.01, 0.3]))
    odd = torch.tensor(ODD, dtype=torch.float64)[random.integers(0, len(ODD), *shape)]
    scores = scores.where(~random.happens(share, *shape), odd)
    for row in range(shape[0]):
        kind = draw(st.sampled_from(["", "", "sorted", "constant"]))
        scores[row] = scores[row].sort().values if kind == "sorted" else scores[row]
        scores[row] = odd[row, 0] if kind == "constant" else scores[row]
    return draw(layouts)(scores.to(draw(st.sampled_from(DTYPES))))


def on_threads(draw: Any, answer: Callable[[Reference], Any]) -> tuple[Any, Any]:
    """The answers in C, on some number of threads with OpenMP or without, and of `reference`."""
    usual = C._parallel
    C._parallel = draw(st.sampled_from([usual, None]))
    try:
        with threads_allowed(draw(st.sampled_from([1, 2, 3, 70]))):
            return answer(C), answer(REFERENCE)
    finally:
        C._parallel = usual


def same(found: Any, expected: Any) -> bool:
    """Whether two answers have the same bits, where every NaN is one, and None is none."""
    if isinstance(found, tuple):
        return len(found) == len(expected) and all(map(same, found, expected))
    if not isinstance(found, Tensor):
        return bool(found == expected)
    numbers = [x.double() if x.is_floating_point() else x for x in (found, expected)]
    return found.dtype == expected.dtype and np.array_equal(
        *(x.numpy() for x in numbers), equal_nan=found.is_floating_point()
    )


# Functions of scores -----------------------------------------------------------------------------


@examples(30)
@given(tables(), RANDOM, st.sampled_from([0, 1, 1, 9, 64, 65, 513]), st.data())
def test_counts_around_scores(scores: Tensor, random: Random, width: int, data: Any) -> None:
    """`survey` with the best candidate and without; a NaN is above all, and counts nothing."""
    ids = random.integers(0, scores.shape[1], len(scores), width)
    own = scores.gather(1, ids).masked_fill(random.happens(0.1, len(scores), width), torch.nan)
    wanted = ~own.isnan().numpy()
    every, at = scores.double().numpy()[:, :, None], own.double().numpy()[:, None]
    best = every[:, :, 0].argmax(1)  # the first NaN, or the first of the highest
    for find_best in (True, False):
        for above, tied, found in on_threads(
            data.draw,
            lambda one, best=find_best: one.survey(scores, own, best),  # type: ignore[misc]
        ):
            assert (above.numpy() == (~(every <= at)).sum(1))[wanted].all()
            assert (tied.numpy() == (every == at).sum(1))[wanted].all()
            assert found is None if not find_best else (found.numpy() == best).all()


@examples(40)
@given(tables(), st.sampled_from([1, 2, 5, 46, 126, 127, 128, 129, 900]), st.data())
def test_the_first_candidates(scores: Tensor, number: int, data: Any) -> None:
    """`first` sorts by score, NaN first, and then by id."""
    expected = [
        sorted(range(len(row)), key=lambda i: (row[i] == row[i], -row[i], i))[:number]
        for row in scores.tolist()
    ]
    for values, ids in on_threads(data.draw, lambda one: one.first(scores, number)):
        assert ids.tolist() == expected
        assert same(scores.gather(1, ids), values)


@examples(40)
@given(tables(), RANDOM, st.data())
def test_the_candidates_of_a_bin(scores: Tensor, random: Random, data: Any) -> None:
    """`survey_bins` around a score, and of the first ones of a bin, which may be empty."""
    rows, columns = scores.shape
    number, most = (data.draw(st.sampled_from(x)) for x in ([1, 3, 200], [0, 1, 3, 9, 128, 129]))
    candidates = data.draw(st.sampled_from([1, 2, 4, 8, 40, 9999]))
    bins = random.integers(0, number, columns)
    target = random.integers(0, columns, rows)
    own = scores.gather(1, target[:, None])[:, 0]
    of_rows = bins[target].where((own > -torch.inf) & ~random.happens(0.1, rows), -1)
    few = scores.isnan().sum(1) <= candidates  # as `survey_bins` asks for
    of_rows = of_rows.where(few, -1)
    arguments = scores, own, (bins, of_rows), candidates, most
    found, expected = on_threads(data.draw, lambda one: one.survey_bins(*arguments))
    assert same(found, expected)
    every, at = scores.double().numpy(), own.double().numpy()[:, None]
    inside = bins.numpy() == of_rows.numpy()[:, None]
    if not most:
        assert found[0].tolist() == (inside & ~(every <= at)).sum(1).tolist()
        assert found[1].tolist() == (inside & (every == at)).sum(1).tolist()


# Functions of integers ---------------------------------------------------------------------------


@st.composite
def id_tables(draw: st.DrawFn) -> tuple[Tensor, Tensor, int]:
    """Lists of ids `[N, K]` and relevant ids `[N, M]`, small or the largest, and their number.

    Lists repeat and are padded; relevant ids differ, but for a few rows, and may be padding.
    """
    random, largest = draw(RANDOM), draw(st.sampled_from([2, 8, 12, 20, 300, 9000]))
    rows, width = draw(st.integers(1, 9)), draw(st.sampled_from([1, 1, 1, 2, 5, 7, 64, 65]))
    length = draw(st.sampled_from([1, 2, 10, 33, 64, 65, 150, 4096, 4097]))
    lists = random.integers(-1, largest, rows, length)
    ids = torch.rand(rows, largest + width, generator=random.generator).topk(width).indices
    hidden = random.happens(0.3, rows, width)
    hidden[:, -1] &= draw(st.sampled_from([False] * 9 + [True]))
    if draw(st.sampled_from([False] * 9 + [True])):
        ids[0] = ids[0, :1]
    ids = ids.masked_fill(hidden, -1)
    if draw(st.sampled_from([False, False, True])):
        lists, ids = (torch.where(x < 0, x, 2**63 - 1 - x) for x in (lists, ids))
        largest = 0  # no number of locations
    return draw(layouts)(lists), draw(layouts)(ids), largest


@examples(30)
@given(id_tables(), RANDOM, st.data())
def test_integers_and_true_elements(
    tables: tuple[Tensor, Tensor, int], random: Random, data: Any
) -> None:
    """`find`, `sort`, `argsort`, `histogram`, `find_true` and `may_repeat`."""
    lists, ids, _ = tables
    assert same(*on_threads(data.draw, lambda one: one.find(lists, ids)))
    assert same(C.sort(lists), REFERENCE.sort(lists))
    ranks = random.integers(0, data.draw(st.sampled_from([1, 9, 2**40])), *lists.shape)
    assert same(C.argsort(ranks), REFERENCE.argsort(ranks))
    assert same(
        C.histogram(ranks.flatten() % 11, 13), REFERENCE.histogram(ranks.flatten() % 11, 13)
    )
    true = random.happens(data.draw(st.sampled_from([0.01, 0.5])), *lists.shape)
    bytes_ = (true * random.integers(1, 256, *lists.shape)).to(torch.uint8).view(torch.bool)
    for values in (bytes_, bytes_.t().contiguous().t()):  # true is any byte
        assert same(C.find_true(values), REFERENCE.find_true(true))
    if lists.shape[1] <= 4096:
        written = (lists >= 0).sum(1)
        different = torch.tensor([len(set(row) - {-1}) for row in lists.tolist()])
        assert C.may_repeat(lists) or bool((2 * different >= written).all())


# A table of summed weights, and the start of a weight in it, the last rank and what is summed.
RANK = np.arange(1, 4098)
TABLE = np.concatenate([np.cumsum(np.append(0, x)) for x in (1 / RANK, 1 / np.log2(RANK + 1))])
ROWS = np.array([[0, 4097, 0], [4098, 4, 1], [0, 5, 2], [0, 1, 0], [4098, 4097, 1]])


@examples(80)
@given(id_tables(), st.booleans(), st.data())
def test_sums_over_lists(tables: tuple[Tensor, Tensor, int], decides: bool, data: Any) -> None:
    """`tally_lists`: sums, decisions, and what both backends refuse."""
    lists, ids, largest = tables
    number = None
    if decides and ids.shape[1] == 1 and largest:
        number = data.draw(st.sampled_from([1, 2, largest, largest + 1]))
        ids = ids.clamp(max=number - data.draw(st.sampled_from([0, 1, 1, 1])))
    divisors = np.arange(1.0, 1 + 5 * (ids.shape[1] + 1)).reshape(5, -1) + 0.7
    arguments = lists, ids, (TABLE, ROWS, divisors), number
    found, expected = on_threads(data.draw, lambda one: one.tally_lists(*arguments))
    if lists.shape[1] > 4096 or ids.shape[1] > 64:
        assert found is None
    else:
        assert same(found, expected)


# Updates -----------------------------------------------------------------------------------------

MEMBERS = [
    *(kind(k) for kind in (AccuracyAtK, MRR, NDCGAtK, PrecisionAtK, F1AtK) for k in (1, 3, 10**20)),
    *(MAPAtK(4, normalizer=how) for how in ("min", "relevant")),
    *(RecallAtK(5, normalized=how) for how in (False, True)),
    NDCGAtK(3, ideal="full"),
    MRR(),
    MAPAtK(100, empty_target_action="pos"),
]


def updates(backend: str, members: list[Any], batch: Any, **options: Any) -> Any:
    """The states after an update with a backend, and its Ranking; or the message of the error."""
    backends.use(backend)
    try:
        metrics = RankingCollection({str(n): kind.clone() for n, kind in enumerate(members)})
        metrics.update(*batch)
        make = Ranking.from_scores if batch[0].is_floating_point() else Ranking.from_lists
        record = make(*batch, **options)
    except ValueError as error:
        return str(error)
    finally:
        backends.use(None)
    fields = [*vars(record).values(), *(vars(record.first).values() if record.first else ())]
    states = [metric.state for metric in metrics.values()]
    return tuple(x for x in (*states, *fields) if isinstance(x, Tensor))


@examples(30)
@given(tables(), RANDOM, st.data())
def test_sums_over_scores(scores: Tensor, random: Random, data: Any) -> None:
    """Updates by a plan, which `tally_scores` makes; targets score infinity and NaN, too."""
    target = random.integers(0, scores.shape[1], len(scores))
    ignored = data.draw(st.sampled_from([None, 0]))
    kinds: list[Any] = [MRR, NDCGAtK, AccuracyAtK, LocationF1]
    options = [{}, {"k": 10**20}, {"k": 3}, {"num_locations": scores.shape[1] + 2}]
    members = [
        kind(**option, ignore_index=ignored) for kind, option in zip(kinds, options, strict=True)
    ]
    with threads_allowed(data.draw(st.sampled_from([1, 3]))):
        found = updates("cpu", members, (scores, target, None))
    assert same(found, updates("reference", members, (scores, target, None)))


@st.composite
def batches(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Scores or lists, and one relevant id per query, several, or relevance."""
    if draw(st.booleans()):
        return draw(long_batches())
    if draw(st.booleans()):
        lists, ids, _ = draw(id_tables())
        return lists, ids[:, -1] if draw(st.booleans()) else ids
    scores, random = draw(tables()), draw(RANDOM)
    target = random.integers(0, scores.shape[1], len(scores))
    return torch._neg_view(-scores) if draw(st.booleans()) else scores, target


@examples(20)
@given(batches(), RANDOM, st.data())
def test_updates_have_the_same_bits(
    batch: tuple[Tensor, Tensor], random: Random, data: Any
) -> None:
    """Updates by a plan and through a `Ranking`, of all forms, masked or not."""
    preds, target = batch
    mask = data.draw(st.sampled_from([None, random.happens(0.7, len(preds))]))
    options = {"top": data.draw(st.sampled_from([0, 1, 3, 200]))}
    members = MEMBERS
    if preds.is_floating_point():
        options["depth"] = data.draw(st.sampled_from([None, 2]))
        members = MEMBERS if target.ndim == 2 else [*MEMBERS, LocationF1(preds.shape[1] + 2)]
    with threads_allowed(data.draw(st.sampled_from([1, 3]))):
        found = updates("cpu", members, (preds, target, mask), **options)
    assert same(found, updates("reference", members, (preds, target, mask), **options))


# Threads and sizes -------------------------------------------------------------------------------


def test_threads_that_share_rows_count_them_once() -> None:
    """Whichever thread takes which rows, of PyTorch's threads and of a program's own."""
    random = Random(0)
    batches = [random.integers(0, 50, 64, 3000).double() for _ in range(4)]
    expected = [REFERENCE.survey(scores, scores[:, :1], True) for scores in batches]

    def count(number: int) -> bool:
        scores = batches[number % 4]
        found = backends.choose(scores).survey(scores, scores[:, :1], find_best=True)
        return same(found, expected[number % 4])

    with threads_allowed(3):
        assert all(map(count, range(200)))
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(count, range(40)))


@pytest.mark.slow
def test_more_elements_than_32_bits_count() -> None:
    """One row that is read 2^18 + 1 times, by its stride of 0: a second for 2^31 scores."""
    row = (torch.arange(1 << 13) % 251).to(torch.bfloat16)
    scores = row.expand((1 << 18) + 1, -1)
    assert scores.numel() > 1 << 31
    found = C.survey(scores, scores[:, 9:10], find_best=True)
    wanted = (row > row[9]).sum(), (row == row[9]).sum(), row.argmax()
    assert [x.unique().tolist() for x in found if x is not None] == [[int(x)] for x in wanted]


# What updates refuse -----------------------------------------------------------------------------


def test_wrong_lists_raise_and_add_nothing() -> None:
    """Visit counts, of one relevant id as of several, numbers that are no ids, and unknown ids."""
    counts = torch.arange(80).remainder(3).expand(5, 80)
    right, one = torch.tensor([[1, 2], [3, 4]]), torch.tensor([1, -1])
    wrong = [
        (counts, torch.zeros(5).long(), "77 of the 80 entries of query 0 repeat"),
        (counts, torch.tensor([[0, 1]]).expand(5, 2), "77 of the 80 entries of query 0 repeat"),
        (right - 4, one.abs(), "`preds` must hold ids of at least 0"),
        (right, one, "`target` must hold ids of at least 0"),
    ]
    for preds, target, says in wrong:
        metrics = RankingCollection([MRR(), AccuracyAtK(2)])
        with pytest.raises(ValueError, match=says):
            metrics.update(preds, target)
        assert all(not metric.state.any() for metric in metrics.values())
    with pytest.raises(ValueError, match="`target` must be below `num_locations`, 4, got 4"):
        RankingCollection([MRR(), LocationF1(4)]).update(right, one.abs() + 3)
    unchecked = MRR(validate_args=False)
    unchecked.update(*wrong[0][:2])
    assert unchecked.num_queries == 5
