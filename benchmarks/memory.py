"""Measure the bytes of the states, and the memory of an update in addition to the scores.

python benchmarks/memory.py [--json memory.json]

A peak is measured in a fresh process, after a small update has loaded the code and the state. It is
the larger of two numbers: the rise of the kernel's high-water mark of resident memory, which misses
reused memory; and the peak of PyTorch's allocator, which misses NumPy arrays.
"""

import argparse
from pathlib import Path

import torch
from harness import Result, in_new_process, machine, write

from nextloc_metrics import (
    MRR,
    Grouped,
    PopularityBins,
    RankingCollection,
    decile_metrics,
    next_location_metrics,
    recommendation_metrics,
)

# Return every freed block to the kernel, so that reused memory is counted.
_ALLOCATION = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}

MEASURE = """
import json, sys
from itertools import accumulate
import torch
from torch.profiler import ProfilerActivity, profile
import nextloc_metrics
from nextloc_metrics import Ranking, next_location_metrics, recommendation_metrics

def resident(mark):
    with open("/proc/self/status", encoding="utf-8") as lines:
        return next(1024 * int(x.split()[1]) for x in lines if x.startswith(mark))

def peak(run):
    with open("/proc/self/clear_refs", "w", encoding="utf-8") as file:
        file.write("5")  # reset the high-water mark
    before = resident("VmRSS")
    run()
    seen_by_kernel = resident("VmHWM") - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    events = [x for x in profiler.profiler.kineto_results.events() if x.name() == "[memory]"]
    held = accumulate(x.nbytes() for x in sorted(events, key=lambda x: x.start_ns()))
    return max([seen_by_kernel, *held])
"""

_UPDATE = (
    MEASURE
    + """
relevant, backend = int(sys.argv[1]), sys.argv[2]
scores = torch.randn(256, 100_000).to(getattr(torch, sys.argv[3]))
if relevant == 0:
    metrics, target = next_location_metrics(100_000), torch.randint(100_000, (256,))
else:
    metrics, target = recommendation_metrics(k=10), torch.randint(100_000, (256, relevant))
nextloc_metrics.core.backends.use(backend)
metrics.update(scores[:2], target[:2])
print(json.dumps([peak(lambda: metrics.update(scores, target)), scores.nbytes]))
"""
)


def peaks() -> list[Result]:
    """Print the peak extra memory of an update of scores [256, 100,000], as % of the scores."""
    if not Path("/proc/self/clear_refs").exists():
        print("\npeaks are measured on Linux only")
        return []
    print(f"\n{'peak extra memory of an update, 256 x 100,000':52}{'MB':>8}{'% of scores':>14}")
    results = []
    for dtype, numbers in (("float32", (0, 10, 100)), ("bfloat16", (0,))):
        for relevant in numbers:
            for backend in ("cpu", "reference"):
                extra, scores = in_new_process(_UPDATE, relevant, backend, dtype, **_ALLOCATION)
                what = f"{relevant} relevant" if relevant else "next-location preset"
                name = f"{what}, {dtype}, {backend}"
                print(f"{name:52}{extra / 1e6:8.2f}{100 * extra / scores:14.2f}", flush=True)
                results.append({"name": name, "bytes": extra, "of_scores": extra / scores})
    return results


def states() -> list[Result]:
    """Print the bytes of every preset's state after one query and after many."""
    bins = PopularityBins.from_counts(torch.arange(1000))
    collections = {
        "next_location_metrics(1000)": next_location_metrics(1000),
        "recommendation_metrics()": recommendation_metrics(),
        "decile_metrics(bins of 1000)": decile_metrics(bins),
        "Grouped(MRR(), 1000)": RankingCollection([Grouped(MRR(), num_groups=1000)]),
    }
    numbers = (1, 1_000, 10_000)
    print(
        f"\n{'bytes of the states, by number of queries':40}"
        + "".join(f"{x:>12,}" for x in numbers)
    )
    results = []
    generator = torch.Generator().manual_seed(0)
    for name, metrics in collections.items():
        sizes = []
        done = 0
        for number in numbers:
            while done < number:
                batch = min(5_000, number - done)
                preds = torch.rand(batch, 1000, generator=generator)
                target = torch.randint(1000, (batch,), generator=generator)
                grouped = {"groups": target} if name.startswith("Grouped") else {}
                metrics.update(preds, target, **grouped)
                done += batch
            sizes.append(state_bytes(metrics))
        print(f"{name:40}" + "".join(f"{x:12,}" for x in sizes))
        results.append({"name": name, "queries": list(numbers), "bytes": sizes})
    return results


def state_bytes(metrics: RankingCollection) -> int:
    """Sum the bytes of the members' tensors; a shared tensor counts once."""
    states = {}
    for metric in metrics.values(copy_state=False):
        for value in metric.metric_state.values():
            tensors = value if isinstance(value, list) else [value]
            states.update({tensor.data_ptr(): tensor.nbytes for tensor in tensors})
    return sum(states.values())


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    print(machine())
    write(options.json, {"states": states(), "peaks": peaks()})


if __name__ == "__main__":
    main()
