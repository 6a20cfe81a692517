"""Sums of published runs: print those of `published.json`, or count every run again.

    python published_sums.py [DATA] [--write]

`published.json`, beside this program, has the integer sums and counts of 40 runs: of each mean the
sum of the scores and that of their squares, in 2^-32, and their number. Without DATA the program
prints a row per run: accuracy, its interval, and letters as in published_runs.py. DATA holds
`genup/`, the answers of fine-tuned language models as for published_runs.py, and
`llm_mob/foursquare_top10.npz`, the ranked answers of a prompted one: the program counts them, and
names each run whose sums or stored accuracy are others; the exit status is then 1. With `--write`
it writes the file.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from nextloc_metrics import report
from published_runs import compare, shorten

FILE = Path(__file__).with_name("published.json")
GENUP = "https://github.com/w11wo/GenUP, commit 50452dc, Apache-2.0"
LLM_MOB = "https://github.com/xlwang233/LLM-Mob, MIT"
_COUNTS = ("queries", "left_out", "without_target", "tied")


class Run(NamedTuple):
    """A published run: what to read, and the accuracy that the authors stored."""

    data: str
    name: str
    rows: report.Source
    source: str
    options: dict[str, Any]
    stored: float | None = None
    letters: str = "-"


def runs(data: Path) -> Iterator[Run]:
    """Yield every run whose files are there."""
    file = data / "llm_mob" / "foursquare_top10.npz"
    if file.exists():
        rows = report.Source(file, target="targets", answers={"padding": -100})
        yield Run("llm_mob", "top10", rows, LLM_MOB, {"groups": ["users"], "cluster": "users"})
    folder = data / "genup"
    known = folder / "accuracies.json"
    for name, stored in json.loads(known.read_text("utf-8")).items() if known.exists() else ():
        file = folder / f"{name}.parquet"
        letters = compare(file).letters if len(stored) > 1 else {}
        for model in sorted(stored, key=lambda one: -stored[one]):
            marks = letters.get(model, {}).get("acc_at_1", "-")
            rows = report.Source(file, preds=model)
            yield Run(name, shorten(model), rows, GENUP, {"k": 1}, stored[model], marks)


def count(run: Run) -> dict[str, Any]:
    """Count a run, and return what the file has of it."""
    found = report.evaluate(run.rows, **run.options)
    states = {name: member.state for name, member in found._counted.rows()}
    return {
        "data": run.data,
        "name": run.name,
        "source": run.source,
        "counts": {name: found._counted.card[name] for name in _COUNTS},
        "sums": {name: x.tolist() for name, x in states.items() if x.ndim == 1},
        "interval": list(found.intervals["acc_at_1"]),
        "letters": run.letters,
    }


def accuracy(row: dict[str, Any]) -> float:
    """Return the accuracy of a row of the file."""
    total, _, number = row["sums"]["acc_at_1"]
    return float(total / 2**32 / number)


def table(rows: list[dict[str, Any]]) -> str:
    """Return the table of the page: a row per run, under its data set."""
    lines, data = [f"{'percent':<50} Acc@1     interval  letters"], ""
    for row in rows:
        if row["data"] != data:
            data = row["data"]
            lines.append(f"{data}: {row['counts']['queries']:,} queries")
        low, high = (100 * x for x in row["interval"])
        value = f"{100 * accuracy(row):5.2f}  {low:5.2f}-{high:5.2f}"
        lines.append(f"{row['name']:<50} {value}  {row['letters']}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Print the table, and what differs from the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--write", action="store_true", help="write the sums of DATA to the file")
    given, wrong = parser.parse_args(arguments), 0
    rows = [] if given.write else json.loads(FILE.read_text("utf-8"))
    for place, run in enumerate(runs(given.data) if given.data else ()):
        found = count(run)
        if given.write:
            rows.append(found)
        if found != (known := rows[place]):
            wrong += 1
            print(f"{run.data} {run.name}: {found}; in the file {known}")
        if run.stored is not None and abs(run.stored - accuracy(found)) > 1e-12:
            wrong += 1
            print(f"{run.data} {run.name}: stored {run.stored}, counted {accuracy(found)}")
    if given.write:
        lines = ",\n".join(json.dumps(row) for row in rows)
        FILE.write_text(f"[\n{lines}\n]\n", "utf-8", newline="\n")
    print(table(rows))
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
