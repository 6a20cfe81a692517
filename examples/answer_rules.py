"""What would eight public rules have counted? Stored answers of language models under each.

    python answer_rules.py FILE...

A FILE is .npz, with `targets` and lists of ids, `preds`, which are read as the text of a JSON list;
or Parquet, with a column `target` and one per model, as text. GenUP and GA-LLM take all digits of a
text as one id. The 100 other places of LLMMove are drawn at random here.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nextloc_metrics import protocols, report

# The protocol of each code, whether it glues digits, and its names of acc@1 and acc@10.
RULES: dict[str, tuple[protocols.Protocol, bool, tuple[str, str]]] = {
    "GenUP": (protocols.genup(), True, ("accuracy", "")),
    "GA-LLM": (protocols.ga_llm(), True, ("ACC@1", "")),
    "LLM4POI": (protocols.llm4poi(), False, ("ACC@1", "")),
    "Think2Go": (protocols.think2go(), False, ("ACC@1", "")),
    "TOOL4POI": (protocols.tool4poi(), False, ("Acc1", "Acc10")),
    "CLSPRec": (protocols.clsprec(), False, ("Recall@1", "Recall@10")),
    "RALLM-POI": (protocols.rallm_poi(), False, ("Recall@1", "Recall@10")),
    "LLMMove": (protocols.llmmove(), False, ("acc@1", "acc@10")),
}


def glue(text: str) -> list[str]:
    """Return all digits of a text as one name: "the 3rd answer: 12" is place 312."""
    return ["".join(re.findall("[0-9]", text))]


def draw_others(target: np.ndarray, number: int) -> np.ndarray:
    """Return for each query 100 ids below `number` that are not its target, or all if fewer."""
    draw = np.random.default_rng(0)
    count = min(100, number - 1)
    drawn = np.stack([draw.permutation(number - 1)[:count] for _ in target])
    return drawn + (drawn >= target[:, None])


def count(texts: Any, ids: list[str], target: np.ndarray, form: str) -> dict[str, list[float]]:
    """Return acc@1 and, for lists of ten, acc@10 in percent by each rule, and exactly."""
    read = report.read_answers(texts, ids=ids, form=form)
    glued = report.read_answers(texts, ids=ids, form=glue)
    given = {
        "answered": [outcome == "answered" for outcome in read.outcomes],
        "negatives": draw_others(target, len(ids)),
    }
    cuts, found = [k for k in (1, 10) if k <= read.preds.shape[1]], {}
    for name, (protocol, glues, keys) in RULES.items():
        values = protocol.evaluate((glued if glues else read).preds, target, **given)
        found[name] = [100 * values.get(key, np.nan) for key in keys[: len(cuts)]]
    values = report.evaluate(read, target, k=cuts).values
    return found | {"exact": [100 * values[f"acc_at_{k}"] for k in cuts]}


def read(file: Path) -> dict[str, tuple[Any, list[str], np.ndarray, str]]:
    """Return the arguments of `count` for each model of a file."""
    if file.suffix == ".npz":
        with np.load(file) as stored:
            preds, target = stored["preds"], stored["targets"]
        texts = [json.dumps([x for x in row if x >= 0]) for row in preds.tolist()]
        largest = int(target.max())
        return {file.stem: (texts, [str(x) for x in range(largest + 1)], target, "json")}
    table = pd.read_parquet(file)
    ids = sorted(set(table["target"]))
    target = table["target"].map({name: i for i, name in enumerate(ids)}).to_numpy()
    models = [name for name in table.columns if name != "target"]
    return {name: (table[name], ids, target, "lines") for name in models}


def main(arguments: list[str] | None = None) -> dict[str, dict[str, list[float]]]:
    """Print a table for each model, and return its values."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    found = {}
    for file in parser.parse_args(arguments).files:
        for name, given in read(file).items():
            found[name] = values = count(*given)
            print(f"\n{name}: {len(given[2]):,} answers\n{'percent':<10} acc@1 acc@10")
            for rule, row in values.items():
                print(f"{rule:<10}", *("    -" if np.isnan(x) else f"{x:5.2f}" for x in row))
    return found


if __name__ == "__main__":
    main()
