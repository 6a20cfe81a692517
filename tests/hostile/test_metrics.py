"""Every metric class under attack: right or refused, and the same bits however a batch is passed.

One batch is counted as a plain contiguous tensor by the reference backend. It is either refused by
an error of ours, and no state changes; or its value is that of the oracle in plain Python. Then the
same batch, in another layout, container, backend, split or number of threads, is refused by the
same error, or leaves the same bits.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from hostile_law import examples_or_by_hand
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from conftest import threads_allowed
from metric_entries import CASES
from metric_tester import LOCATIONS, Case
from nextloc_metrics import backends
from strategies import DIRTY, padded_ids, state

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
AVAILABLE = [name for name in ("cpu", "reference") if not backends.available()[name]]


@dataclass(frozen=True)
class Given:
    """The arguments of one update; None leaves an argument out."""

    preds: Any
    target: Any
    mask: Any = None
    exclude: Any = None

    def update(self, metric: Any) -> None:
        """Update a metric."""
        metric.update(self.preds, self.target, self.mask, exclude=self.exclude)

    def map(self, change: Any) -> Given:
        """Change each tensor."""
        return Given(*(None if x is None else change(x) for x in vars(self).values()))


def rows_of(draw: st.DrawFn, value: st.SearchStrategy[Any], shape: tuple[int, ...]) -> Tensor:
    """A tensor of drawn values."""
    size = math.prod(shape)
    return torch.tensor(draw(st.lists(value, min_size=size, max_size=size))).reshape(shape)


@st.composite
def batches(draw: st.DrawFn) -> Given:
    """A batch that the documentation allows: any form, and any dtype that holds its values."""
    n = draw(st.integers(0, 5))
    as_lists = draw(st.booleans())
    if as_lists:
        preds = rows_of(draw, st.integers(-1, LOCATIONS - 1), (n, draw(st.integers(1, 5))))
        preds = torch.where((preds < 0).cumsum(1) > 0, -1, preds)  # padding is behind the ids
        preds = preds.to(draw(st.sampled_from([x for x in INTEGERS if x.is_signed])))
    else:
        values = draw(st.sampled_from([DIRTY, st.floats(-30, 30, width=16)]))
        preds = rows_of(draw, values, (n, LOCATIONS)).to(draw(st.sampled_from(FLOATS)))
    form = draw(st.sampled_from(["one", "one", "ids", "bools", "grades"]))
    if form == "one":
        target = rows_of(draw, st.integers(0, LOCATIONS - 1), (n,)).to(
            draw(st.sampled_from(INTEGERS))
        )
    else:
        target = rows_of(draw, st.booleans(), (n, LOCATIONS)).bool()
        if form == "ids":
            target = padded_ids(target) if n else target.long()
        if form == "grades":
            target = target * rows_of(draw, st.sampled_from([0.5, 1.0, 3.0]), (n, LOCATIONS))
    mask = rows_of(draw, st.booleans(), (n,)).bool() if draw(st.booleans()) else None
    exclude = None
    if draw(st.sampled_from([False, False, True])):
        exclude = rows_of(draw, st.integers(-1, LOCATIONS - 1), (n, 2)).long()
    return Given(preds, target, mask, exclude)


def spoil(draw: st.DrawFn, given: Given) -> Given:
    """Make one argument odd; some of these batches are still right."""
    kind = draw(st.sampled_from(["high", "low", "flat", "short", "complex", "mask", "nan", "big"]))
    target, preds = given.target, given.preds
    if kind == "high":
        return replace(given, target=target + torch.ones_like(target))
    if kind == "low":
        return replace(given, target=target.long() - 2)
    if kind == "flat":
        return replace(given, preds=preds.reshape(-1), target=target.reshape(-1))
    if kind == "short":
        return replace(given, target=target[1:])
    if kind == "complex":
        return replace(given, preds=preds.to(torch.complex64))
    if kind == "mask":
        return replace(given, mask=torch.ones(len(preds) + 1, dtype=torch.bool))
    if kind == "nan":
        return replace(given, target=target.double() * math.nan)
    return replace(given, target=target.long() + 2**40)


@st.composite
def attacks(draw: st.DrawFn) -> tuple[Case, Given]:
    """A metric class and a batch, odd in a third of the examples."""
    batch = draw(batches())
    if draw(st.sampled_from([False, False, True])):
        batch = spoil(draw, batch)
    return draw(st.sampled_from(CASES)), batch


def metric_or_error(case: Case, parts: list[Given], backend: str = "reference") -> Any:
    """The metric after some updates, or the text of the error."""
    metric = case.make()
    backends.use(backend)
    for part in parts:
        before, refused = state(metric), None
        try:
            part.update(metric)
        except (TypeError, ValueError) as error:
            refused = error
        if refused is not None:
            backends.use(None)
            raised_by = traceback.extract_tb(refused.__traceback__)[-1].filename
            assert "nextloc_metrics" in raised_by, (case, part, refused)
            assert "`" in str(refused), (case, part, refused)
            now = state(metric)
            assert all(torch.equal(now[name], before[name]) for name in before), (case, part)
            return str(refused)
    backends.use(None)
    return metric


def disguises(draw: st.DrawFn, given: Given) -> Iterator[tuple[str, list[Given], str, int]]:
    """The same batch in other layouts, containers, backends, splits and numbers of threads."""
    backend, threads = draw(st.sampled_from(AVAILABLE)), draw(st.sampled_from([1, 2, 4]))
    yield "columns first", [given.map(_columns_first)], backend, threads
    yield "every second", [given.map(_every_second)], backend, threads
    if given.preds.dtype != torch.bfloat16:
        yield "NumPy", [given.map(lambda x: x.numpy())], backend, threads
    yield "gradient", [given.map(_with_gradient)], backend, threads
    rows = {len(x) for x in vars(given).values() if x is not None and x.ndim}
    if len(rows) == 1 and given.preds.ndim > 1:
        cut = draw(st.integers(0, *rows))
        halves = [
            given.map(lambda x, part=part: x[part]) for part in (slice(cut), slice(cut, None))
        ]
        yield "split", [x for x in halves if len(x.preds)] or [given], backend, threads


def _columns_first(x: Tensor) -> Tensor:
    return x.mT.contiguous().mT if x.ndim > 1 else x


def _every_second(x: Tensor) -> Tensor:
    return x.repeat_interleave(2, -1)[..., ::2] if x.ndim else x


def _with_gradient(x: Tensor) -> Tensor:
    return x.clone().requires_grad_() if x.is_floating_point() else x


@examples_or_by_hand(40)
@given(attacks(), st.data())
def test_a_batch_is_right_or_refused(attack: tuple[Case, Given], data: st.DataObject) -> None:
    """Refused by an error of ours without a trace, or counted with the same bits everywhere."""
    case, batch = attack
    plain = metric_or_error(case, [batch])
    for title, parts, backend, threads in disguises(data.draw, batch):
        with threads_allowed(threads):
            found = metric_or_error(case, parts, backend)
        if isinstance(plain, str) or isinstance(found, str):
            assert type(found) is type(plain), (title, backend, found, plain)
            if title != "split":  # a part has other numbers of queries
                assert found == plain, (title, backend)
            continue
        expected, now = state(plain), state(found)
        for name in expected:
            assert torch.equal(now[name], expected[name]), (title, backend, threads)
    if not isinstance(plain, str) and batch.exclude is None:
        check_value(case, plain, batch)


def check_value(case: Case, metric: Any, batch: Given) -> None:
    """The value is that of plain Python, where the oracle knows such a batch."""
    if batch.preds.ndim == 1:  # one query
        batch = batch.map(lambda x: x[None])
        assert batch.preds.is_floating_point(), "ids of one dimension are ambiguous"
    if case.entry.reads != "ranks" and batch.target.ndim > 1:
        return
    expected = case.defined(batch.preds, batch.target, batch.mask)
    assert metric.compute().item() == case.near(expected)
