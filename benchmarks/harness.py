"""Time contestants side by side: interleaved in one run, as medians of paired ratios."""

import importlib.util
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from nextloc_metrics import backends

Contestants = dict[str, Callable[[], object]]
Times = dict[str, list[float]]
Result = dict[str, Any]

PLAIN, REFERENCE = "nextloc-metrics", "nextloc-metrics, reference"

# The minimum number of turns of a slow contestant.
_FEWEST_TURNS = 3


def installed(package: str) -> bool:
    """Return whether a package can be imported."""
    return importlib.util.find_spec(package) is not None


def on_backend(name: str, run: Callable[[], object]) -> Callable[[], object]:
    """Return a function that calls `run` on one backend and then restores the others."""
    usual = list(backends._chosen)
    backends.use(name)
    chosen = list(backends._chosen)
    backends._chosen[:] = usual

    def timed() -> object:
        backends._chosen[:] = chosen
        try:
            return run()
        finally:
            backends._chosen[:] = usual

    return timed


def both_backends(make: Callable[[], Callable[[], object]], suffix: str = "") -> Contestants:
    """Make the two contestants on the backend in C and on the reference backend."""
    backend_of = {PLAIN: "cpu", REFERENCE: "reference"}
    return {name + suffix: on_backend(backend, make()) for name, backend in backend_of.items()}


def race(
    contestants: Contestants, seconds: float, clock: Callable[[], float] = time.perf_counter
) -> list[dict[str, float]]:
    """Run the contestants in turn until the time is over; return milliseconds of every round.

    The order is random per round, because a contestant changes the caches for the next one.
    Contestants that take more than 1 % of the time share half of it, and run in fewer rounds.
    """
    warm_up = {name: _milliseconds(run, clock) for name, run in contestants.items()}
    spent = {name: 0.0 for name, taken in warm_up.items() if taken > 10 * seconds}
    turns = dict.fromkeys(contestants, 0)
    rounds: list[dict[str, float]] = []
    order = random.Random(0)
    began = time.perf_counter()
    while (elapsed := time.perf_counter() - began) < seconds or min(turns.values()) < _FEWEST_TURNS:
        times: dict[str, float] = {}
        for name, run in order.sample(list(contestants.items()), len(contestants)):
            share = 1000 * elapsed / (2 * max(1, len(spent)))
            if spent.get(name, 0) <= share or (elapsed > seconds and turns[name] < _FEWEST_TURNS):
                times[name] = _milliseconds(run, clock)
                turns[name] += 1
                if name in spent:
                    spent[name] += times[name]
        rounds.append(times)
    return rounds


def _milliseconds(run: Callable[[], object], clock: Callable[[], float]) -> float:
    started = clock()
    run()
    return 1000 * (clock() - started)


def median_time(rounds: list[dict[str, float]], name: str) -> float:
    """Return the median of a contestant's milliseconds."""
    return statistics.median(times[name] for times in rounds if name in times)


def median_ratio(rounds: list[dict[str, float]], name: str, to: str) -> float:
    """Return the median over rounds of one contestant's time over another's."""
    paired = [times[name] / times[to] for times in rounds if name in times and to in times]
    return statistics.median(paired) if paired else float("nan")


def report(
    title: str,
    contestants: Contestants,
    seconds: float,
    key: str = "",
    others: tuple[str, ...] = (),
    clock: Callable[[], float] = time.perf_counter,
) -> Result:
    """Race the contestants, print a table, and return it.

    Args:
        title: the title of the table.
        contestants: the functions to time; the first is the floor.
        seconds: the duration.
        key: the key by which `render.py` finds the table.
        others: more denominators of ratios, in addition to the floor and both backends.
        clock: `time.process_time` for the time of the processor, of all threads.
    """
    floor = next(iter(contestants))
    to = [n for n in contestants if n in (floor, PLAIN, REFERENCE, *others)]
    rounds = race(contestants, seconds, clock)
    letters = {name: chr(ord("a") + i) for i, name in enumerate(to)}
    print(f"\n{title}")
    print(f"{'':52}{'ms':>10}" + "".join(f"{'x ' + letter:>9}" for letter in letters.values()))
    table: dict[str, Any] = {}
    for name in contestants:
        milliseconds = median_time(rounds, name)
        ratios = {other: median_ratio(rounds, name, other) for other in to}
        label = f"{letters[name]}  {name}" if name in letters else f"   {name}"
        print(
            f"{label:52}{milliseconds:10.3f}" + "".join(f"{x:9.2f}" for x in ratios.values()),
            flush=True,
        )
        turns = sum(name in times for times in rounds)
        table[name] = {"milliseconds": milliseconds, "ratio_to": ratios, "turns": turns}
    return {"key": key, "title": title, "floor": floor, "contestants": table}


def in_new_process(code: str, *arguments: object, **environment: str) -> Any:
    """Run Python code in a new process, and return the JSON that it prints last."""
    finished = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=os.environ | environment,
        cwd=Path(__file__).parent,
        capture_output=True,
        encoding="utf-8",
    )
    if finished.returncode:
        raise RuntimeError(finished.stderr)
    return json.loads(finished.stdout.splitlines()[-1])


def machine() -> dict[str, object]:
    """Describe the machine."""
    model = platform.processor() or platform.machine()
    cpu_information = Path("/proc/cpuinfo")
    if cpu_information.exists():
        lines = cpu_information.read_text(encoding="utf-8").splitlines()
        model = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), model)
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def write(path: Path | None, sections: Mapping[str, Sequence[Result]]) -> None:
    """Write the machine and the tables as JSON, if a path is given."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            json.dumps({"machine": machine(), **sections}, indent=1) + "\n", encoding="utf-8"
        )
        print(f"\nwritten to {path}")
