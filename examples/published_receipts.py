"""Receipts of published runs: recompute every one, or verify those that lie in `receipts/`.

    python published_receipts.py DATA [--write]

DATA holds `genup/`, the answers of fine-tuned language models as for published_runs.py, and
`llm_mob/foursquare_top10.npz`, the ranked answers of a prompted one. With `--write` the program
writes a receipt of each run to the folder `receipts` beside it; without, it verifies them. It
prints a row per run: accuracy, its interval, letters as in published_runs.py, and the id of the
receipt. The exit status is 1 if one differs, or an accuracy from the one that the authors stored.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from nextloc_metrics import report
from published_runs import compare, shorten

RECEIPTS = Path(__file__).with_name("receipts")
GENUP = "https://github.com/w11wo/GenUP, commit 50452dc, Apache-2.0"
LLM_MOB = "https://github.com/xlwang233/LLM-Mob, MIT"


class Run(NamedTuple):
    """A published run: what to read, and the accuracy that the authors stored."""

    data: str
    name: str
    file: Path
    source: str
    reading: dict[str, Any]  #: arguments of `evaluate_table` that no receipt has
    options: dict[str, Any]
    stored: float | None = None
    letters: str = ""

    @property
    def receipt(self) -> Path:
        """The file of its receipt."""
        return RECEIPTS / f"{self.data} {self.name}.json".replace(" ", "_").replace("/", "_")


def runs(data: Path) -> Iterator[Run]:
    """Yield every run whose files are there."""
    file = data / "llm_mob" / "foursquare_top10.npz"
    if file.exists():
        reading, options = {"target": "targets", "padding": -100}, {"groups": ["users"]}
        yield Run("llm_mob", "top10", file, LLM_MOB, reading, {**options, "cluster": "users"})
    folder = data / "genup"
    known = folder / "accuracies.json"
    for name, stored in json.loads(known.read_text("utf-8")).items() if known.exists() else ():
        file = folder / f"{name}.parquet"
        letters = compare(file).letters if len(stored) > 1 else {}
        for model in sorted(stored, key=lambda one: -stored[one]):
            marks = letters.get(model, {}).get("acc_at_1", "")
            given = stored[model], marks
            yield Run(name, shorten(model), file, GENUP, {"preds": model}, {"k": 1}, *given)


def count(run: Run) -> report.Evaluation:
    """Count a run."""
    return report.evaluate_table(run.file, **run.reading, **run.options)


def row_of(run: Run, found: report.Evaluation, receipt: report.Receipt) -> str:
    """Return the row of a run."""
    low, high = (100 * x for x in found.intervals["acc_at_1"])
    value = f"{100 * found.values['acc_at_1']:5.2f}  {low:5.2f}-{high:5.2f}"
    return f"{run.name:<50} {value}  {run.letters or '-':<7}  {receipt.id}"


def main(arguments: list[str] | None = None) -> int:
    """Write or verify all receipts, and print a table per data set."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--write", action="store_true", help="write receipts, do not verify them")
    given, wrong, data = parser.parse_args(arguments), 0, ""
    print(f"{'percent':<50} Acc@1     interval  letters  receipt")
    for run in runs(given.data):
        found = count(run)
        if given.write:
            RECEIPTS.mkdir(exist_ok=True)
            text = str(found.receipt(source=run.source))
            run.receipt.write_text(text, "utf-8", newline="\n")
        receipt = report.Receipt.read(run.receipt)
        result = report.verify(receipt, found)
        differs = run.stored is not None and abs(run.stored - found.values["acc_at_1"]) > 1e-12
        wrong += differs or not result.equal
        if run.data != data:
            data = run.data
            print(f"{data}: {found.card['queries']:,} queries")
        print(row_of(run, found, receipt) if result.equal else f"{run.receipt.name}: {result}")
        if differs:
            print(f"stored: {run.stored}")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
