"""Count the calls, files and moves of an update and of `score FILE`: how far a reader walks.

python benchmarks/walk.py [--by function] [--json walk.json]

Counted is what `sys.setprofile` reports as a call of a Python function that this library defines;
a generator counts each time that it goes on. Frames of comprehensions, generator expressions and
lambdas are not counted: Python 3.12 has none for most of them. A file is one that holds such a
function, and a move is a call in another file than the call before. An update is the third of its
metric, `score FILE` the second one in the process, so that nothing is made for the first time.
"""

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from itertools import pairwise
from pathlib import Path
from types import FrameType

import pyarrow as pa
import torch
from pyarrow import parquet

import nextloc_metrics
from nextloc_metrics import AccuracyAtK, next_location_metrics
from nextloc_metrics.cli.commands import main as command

HOUSE = str(Path(nextloc_metrics.__file__).parent) + "/"
ROWS, LOCATIONS = 64, 500


class Walk:
    """The calls of one run: the file and the name of every function, in their order."""

    def __init__(self, run: Callable[[], object]) -> None:
        self.calls: list[tuple[str, str]] = []
        sys.setprofile(self._notice)
        try:
            run()
        finally:
            sys.setprofile(None)

    def _notice(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(HOUSE) and code.co_name[0] != "<":
            self.calls.append((code.co_filename.removeprefix(HOUSE), code.co_name))

    def figures(self) -> dict[str, int]:
        """Return the numbers of calls, different functions, files and moves."""
        files = [file for file, _ in self.calls]
        moves = sum(one != other for one, other in pairwise(["", *files]))
        functions, rooms = len(set(self.calls)), len(set(files))
        return {"calls": len(files), "functions": functions, "files": rooms, "moves": moves}


def nth(number: int, run: Callable[[], object]) -> Walk:
    """Return the walk of the nth run."""
    for _ in range(number - 1):
        run()
    return Walk(run)


def score(path: Path) -> None:
    """Print the result for a file, as the command line does."""
    with redirect_stdout(StringIO()):
        command(["score", str(path)], standalone_mode=False)


def walks(folder: Path) -> dict[str, Walk]:
    """Walk through updates of 64 queries, and through `score` of a file of as many lists."""
    torch.manual_seed(0)
    scores, target = torch.randn(ROWS, LOCATIONS), torch.randint(LOCATIONS, (ROWS,))
    mask = torch.arange(ROWS) % 4 > 0
    path = folder / "lists.parquet"
    lists = scores.topk(10).indices
    parquet.write_table(pa.table({"preds": lists.tolist(), "target": target.numpy()}), path)
    preset = next_location_metrics(LOCATIONS)
    return {
        "AccuracyAtK(5), mask": nth(3, partial(AccuracyAtK(5).update, scores, target, mask)),
        "AccuracyAtK(5), planned": nth(3, partial(AccuracyAtK(5).update, scores, target)),
        "preset of six, planned": nth(3, partial(preset.update, scores, target)),
        f"score FILE, {ROWS} rows": nth(2, partial(score, path)),
    }


def main() -> None:
    """Print the table, and with `--by` the calls of every file or function."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--by", choices=["file", "function"], help="count the calls of each")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = walks(Path(folder))
    numbers = {name: walk.figures() for name, walk in found.items()}
    print(f"{'':24}" + "".join(f"{name:>11}" for name in next(iter(numbers.values()))))
    for name, row in numbers.items():
        print(f"{name:24}" + "".join(f"{number:11,}" for number in row.values()))
    for name, walk in found.items() if options.by else ():
        print(f"\n{name}")
        of_each = [call[: 1 + (options.by == "function")] for call in walk.calls]
        for call, number in Counter(of_each).most_common():
            print(f"{number:7,}  {' '.join(call)}")
    if options.json is not None:
        options.json.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
