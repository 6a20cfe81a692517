"""What an interrupt in the middle of an update leaves behind."""

import gc
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
import torch

from nextloc_metrics import AccuracyAtK, LocationF1, RankingCollection

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers that send signals"),
    pytest.mark.skipif(
        "coverage" in sys.modules, reason="an interrupt within coverage's lock is a deadlock"
    ),
    pytest.mark.skipif(
        threading.current_thread() is not threading.main_thread(),
        reason="signals are handled on the main thread",
    ),
]


@pytest.fixture(autouse=True)
def _no_callbacks() -> Iterator[None]:
    """Take out what others run at each garbage collection, where an interrupt would be lost.

    Hypothesis leaves such a callback, which runs in the middle of whatever is interrupted.
    """
    kept = gc.callbacks[:]
    gc.callbacks.clear()
    yield
    gc.callbacks.extend(kept)


class Interrupt(BaseException):
    """What the signal raises."""


def interrupted(run: Callable[[], None], seconds: float) -> bool:
    """Run with a timer that interrupts, and tell whether it did; an interrupt must not be lost."""
    sent = raised = False

    def interrupt(*_: object) -> None:
        nonlocal sent
        sent = True
        raise Interrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        run()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Interrupt:
        raised = True
    finally:
        signal.signal(signal.SIGALRM, before)
    assert raised == sent
    return raised


@pytest.mark.usefixtures("each_backend")
def test_a_value_is_never_older_than_the_state() -> None:
    """After an interrupt at any moment, a metric and its collection give the value of the state.

    All members of the collection have the batch, or none.
    """
    scores = torch.rand(300, 4000)
    target = scores.argmin(1)
    first = torch.tensor([[1.0, 0.0]]), torch.tensor([0])
    generator = random.Random(0)
    number = 0
    for _ in range(30):
        alone = AccuracyAtK(1)
        metrics = RankingCollection({"hit": AccuracyAtK(1), "f1": LocationF1(4000)})
        for metric in (alone, metrics):
            metric.update(*first)
            metric.compute()

            def update(metric: AccuracyAtK | RankingCollection = metric) -> None:
                metric.update(scores, target)

            number += interrupted(update, generator.uniform(1e-5, 4e-3))
        assert len({one.num_queries for one in metrics.values(copy_state=False)}) == 1
        member = metrics["hit"]
        assert isinstance(member, AccuracyAtK)
        for one, value in ((alone, alone.compute()), (member, metrics.compute()["hit"])):
            assert one.num_queries in (1, 301)
            assert value.item() == pytest.approx(1 / one.num_queries)
    assert number > 0
