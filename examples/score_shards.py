"""Evaluate a large set of predictions in parts, on several processes.

    torchrun --nproc-per-node 2 --max-restarts 3 score_shards.py PARTS OUT
    nextloc-metrics merge OUT/*.npz

PARTS is a folder of files that `report.evaluate` reads, such as Parquet, with the columns `preds`,
`target` and `user`. Every process evaluates its share of the files and writes one small file of
counts per part. The processes do not communicate. If a process fails, torchrun restarts them, and
they evaluate the parts without a file of counts.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from nextloc_metrics import report


def main(arguments: Sequence[str] | None = None) -> None:
    """Evaluate the parts of this process that have no file of counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", type=Path, help="folder of predictions")
    parser.add_argument("out", type=Path, help="folder for files of counts")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    number, processes = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    for part in sorted(options.parts.iterdir())[number::processes]:
        counts = options.out / f"{part.name}.npz"
        if not counts.exists():
            report.evaluate(part, groups=["user"], cluster="user").save(counts)


if __name__ == "__main__":
    main()
