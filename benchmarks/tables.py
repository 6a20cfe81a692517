"""Time, memory and reading of `nextloc-metrics score`, beside a query of DuckDB and NumPy's loop.

Lists of ten ids in Parquet, also by users, in CSV and in JSON lines; lists of ten names in CSV, as
JSON and as Python writes them; and as many items in random order, which are ranked and joined to
their truth, also with scores of one decimal, of which many are tied. Each figure is of a process of
its own, on one thread, after a file of 100 rows was read and all modules are imported: the seconds
of its processor, which other work on the machine changes little; the peak of its memory, with the
imports and above them; and the bytes that it reads over the size of the files. All contestants
print MRR, which must agree.

    python benchmarks/tables.py --rows 1000000
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

# What is computed of `position`, from 1, of a target in its list, NULL for a miss.
VALUES = """coalesce(avg(coalesce((position <= 1)::INT, 0)), 0),
    avg(coalesce((position <= 5)::INT, 0)), avg(coalesce((position <= 10)::INT, 0)),
    avg(coalesce(1 / position, 0)) AS mrr,
    avg(CASE WHEN position <= 10 THEN 1 / log2(position + 1) ELSE 0 END)"""
LISTS = "SELECT {user} nullif(list_position({preds}, target), 0) AS position FROM '{path}'"
ITEMS = """SELECT position FROM '{truth}' LEFT JOIN (SELECT query, item, row_number() OVER (
    PARTITION BY query ORDER BY score DESC) AS position FROM '{path}') USING (query, item)"""
# With ties, means over all orders of equal scores are compared, which is how `score` counts MRR: if
# A items are above the target and e are tied, itself one of them, the sum of 1 / (A + i) for i from
# 1 to e, over e. `row_number` would take one order; here `first` is A + 1, and `tied` is e.
TIED = """coalesce(avg(coalesce(greatest(least(2 - first, tied), 0) / tied, 0)), 0),
    avg(coalesce(greatest(least(6 - first, tied), 0) / tied, 0)),
    avg(coalesce(greatest(least(11 - first, tied), 0) / tied, 0)),
    avg(coalesce(list_sum([1 / i for i in range(first, first + tied)]) / tied, 0)) AS mrr,
    avg(coalesce(list_sum([1 / log2(i + 1) for i in range(first, least(first + tied, 11))]) / tied,
        0))"""
TIES = """SELECT first, tied FROM '{truth}' LEFT JOIN (SELECT query, item, rank() OVER (
    PARTITION BY query ORDER BY score DESC) AS first, count(*) OVER (PARTITION BY query, score) AS
    tied FROM '{path}') USING (query, item)"""
QUERIES = {
    "lists.parquet": f"SELECT {VALUES} FROM ({LISTS})",
    "by user": f"WITH p AS ({LISTS}), u AS (SELECT user, count(*) AS n, {VALUES} FROM p GROUP BY "
    f"user) SELECT {VALUES}, (SELECT stddev(mrr) FROM u) FROM p",
    "lists.csv": f"SELECT {VALUES} FROM ({LISTS})",
    "names.csv": f"SELECT {VALUES} FROM ({LISTS})",
    "printed.csv": f"SELECT {VALUES} FROM ({LISTS})",
    "lists.jsonl": f"SELECT {VALUES} FROM ({LISTS})",
    "items.parquet": f"SELECT {VALUES} FROM ({ITEMS})",
    "ties.parquet": f"SELECT {TIED} FROM ({TIES})",
}
SCORE = """
from nextloc_metrics.cli.commands import main

def run(*arguments):
    main(["score", *arguments], standalone_mode=False)
"""
DUCKDB = """
import duckdb

def run(query):
    found = duckdb.connect(config={"threads": 1}).sql(query)
    print("mrr", dict(zip(found.columns, found.fetchall()[0]))["mrr"])
"""
LOOP = """
import json
import numpy as np, pyarrow as pa
from pyarrow import compute, csv, parquet
from pyarrow import json as lines
pa.set_cpu_count(1)

def batches(path):
    if path.endswith(".parquet"):
        yield from parquet.ParquetFile(path).iter_batches(1 << 17)
    else:
        read = csv.open_csv(path) if path.endswith(".csv") else lines.read_json(path).to_batches()
        yield from read

def add(total, ranks, found, number=None):
    # `found` may be the probability of a rank
    scores = [found * (ranks <= k) for k in (1, 5, 10)]
    scores += [found / ranks, np.where(ranks <= 10, found / np.log2(ranks + 1), 0)]
    total[:] += [len(ranks) if number is None else number, *map(np.sum, scores)]
    return scores[3]

def run(name, path, truth):
    total, by_user = np.zeros(6), {}
    if name in ("items.parquet", "ties.parquet"):
        items, asked = (parquet.read_table(x).to_pandas() for x in (path, truth))
        order = np.lexsort((-items.score.to_numpy(), items["query"].to_numpy()))
        query, item = items["query"].to_numpy()[order], items.item.to_numpy()[order]
        starts = np.flatnonzero(np.r_[True, query[1:] != query[:-1]])
        ranks = np.arange(len(query)) - np.repeat(starts, np.diff(np.r_[starts, len(query)])) + 1
        target = asked.set_index("query").item.reindex(query).to_numpy()
        hit = item == target
        if name == "ties.parquet":  # each rank of a block of equal scores
            score = items.score.to_numpy()[order]
            new = np.r_[True, (query[1:] != query[:-1]) | (score[1:] != score[:-1])]
            block, firsts = new.cumsum() - 1, np.flatnonzero(new)
            tied = np.diff(np.r_[firsts, len(query)])[block[hit]]
            first = ranks[firsts][block[hit]]
            step = np.arange(tied.sum()) - np.repeat(tied.cumsum() - tied, tied)
            add(total, np.repeat(first, tied) + step, 1 / np.repeat(tied, tied), len(asked))
            return print("mrr", total[4] / total[0])
        all_ranks, found = np.ones(len(asked)), np.zeros(len(asked), bool)
        at = asked["query"].searchsorted(query[hit])
        all_ranks[at], found[at] = ranks[hit], True
        add(total, all_ranks, found)
    else:
        for batch in batches(path):
            preds, target = batch["preds"], batch["target"].to_numpy(zero_copy_only=False)
            if path.endswith(".csv"):
                text = "[" + ",".join(preds.to_pylist()) + "]"
                text = text.replace("'", '"') if name == "printed.csv" else text
                values, target = np.array(json.loads(text)), np.array(target.tolist())
            else:
                values = preds.flatten().to_numpy().reshape(len(batch), -1)
            hits = values == target[:, None]
            reciprocal = add(total, hits.argmax(1) + 1, hits.any(1))
            if name == "by user":
                users = batch["user"].dictionary_encode()
                sums = np.bincount(users.indices, reciprocal)
                for user, value in zip(users.dictionary.to_pylist(), sums):
                    by_user[user] = by_user.get(user, 0) + value
    print("mrr", total[4] / total[0])
"""
# Prints the seconds of the second run, the memory of this process alone before it and its peak in
# KiB, and the bytes that the second run reads; `clear_refs` lets the peak begin anew.
TWICE = """
import json, re, sys, time

def of(file, name):
    return int(re.search(name + r":\\s+(\\d+)", open("/proc/self/" + file).read())[1])

few, many = json.loads(sys.argv[1])
run(*few)
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
before, read = of("status", "VmRSS"), of("io", "rchar")
start = time.process_time()
run(*many)
seconds = time.process_time() - start
print(seconds, before, of("status", "VmHWM"), of("io", "rchar") - read)
"""


def write(folder: Path, rows: int, users: int) -> None:
    """Write lists of ten ids or names, with users, and as many items and their truth."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    generator = np.random.default_rng(0)
    lists = generator.integers(0, 5000, (rows, 10))
    user = np.char.add("user ", generator.integers(0, users, rows).astype(str))
    target = pa.array(generator.integers(0, 5000, rows))
    preds = pa.array([*lists], pa.list_(pa.int64()))
    table = pa.table({"preds": preds, "target": target, "user": user})
    parquet.write_table(table, folder / "lists.parquet", row_group_size=1 << 18)
    text = [str(x) for x in lists.tolist()]
    csv.write_csv(table.set_column(0, "preds", pa.array(text)), folder / "lists.csv")
    words = np.char.add("place ", np.arange(5000).astype(str)).astype(object)
    names = words[lists].tolist()
    targets = pa.array(words[target.to_numpy()], pa.string())
    for file, printed in (("names.csv", json.dumps), ("printed.csv", str)):
        cells = pa.array([printed(x) for x in names])
        csv.write_csv(pa.table({"preds": cells, "target": targets}), folder / file)
    records = zip(text, target.to_pylist(), user.tolist(), strict=True)
    with open(folder / "lists.jsonl", "w", encoding="utf-8") as file:
        file.writelines(f'{{"preds": {a}, "target": {b}, "user": "{c}"}}\n' for a, b, c in records)
    order = generator.permutation(rows)
    items = {
        "query": np.repeat(np.arange(rows // 10), 10),
        "item": np.argsort(generator.random((rows // 10, 50)), 1)[:, :10].ravel(),
        "score": generator.random(rows // 10 * 10),
    }
    order = generator.permutation(len(items["query"]))
    for file in ("items.parquet", "ties.parquet"):
        table = pa.table({x: y[order] for x, y in items.items()})
        parquet.write_table(table, folder / file)
        items["score"] = items["score"].round(1)
    truth = {"query": np.arange(rows // 10), "item": generator.integers(0, 50, rows // 10)}
    parquet.write_table(pa.table(truth), folder / "truth.parquet")


def measure(
    name: str, source: str, few: list[str], many: list[str], size: int
) -> tuple[float, float]:
    """Run a contestant on files of so many bytes; print what it took; return seconds and MRR."""
    command = [sys.executable, "-c", source + TWICE, json.dumps([few, many])]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, encoding="utf-8", env=environment
    )
    *shown, last = done.stdout.splitlines()
    seconds, before, peak, read = map(float, last.split())
    mrr = float([x.split()[1] for x in shown if x.startswith("mrr ")][-1])
    mrr = mrr / 100 if name == "nextloc-metrics" else mrr  # which prints percent
    print(
        f"{name:16} {seconds:6.2f} s {peak * 1024 / 1e9:5.2f} GB, above the imports "
        f"{(peak - before) * 1024 / 1e9:5.2f} GB  read {read / size:5.2f} times  mrr {mrr:.6f}",
        flush=True,
    )
    return seconds, mrr


def contest(form: str, few: Path, many: Path) -> list[float]:
    """Measure the contestants on one form of the files in two folders; return their seconds."""
    given: dict[str, list[list[str]]] = {SCORE: [], DUCKDB: [], LOOP: []}
    size = 0
    for folder in (few, many):
        path = str(folder / ("lists.parquet" if form == "by user" else form))
        truth = str(folder / "truth.parquet")
        are_items = form in ("items.parquet", "ties.parquet")
        preds, user = "preds", "user," if form == "by user" else ""
        if form.endswith(".csv"):
            preds = f"CAST(preds AS {'BIGINT' if form == 'lists.csv' else 'VARCHAR'}[])"
        score = [path]
        if form == "by user":
            score += ["--group", "user", "--cluster", "user"]
        if are_items:
            score += ["--truth", truth, "--query", "query", "--item", "item", "--score", "score"]
        given[SCORE].append(score)
        given[DUCKDB].append([QUERIES[form].format(path=path, truth=truth, preds=preds, user=user)])
        given[LOOP].append([form, path, truth])
        size = os.path.getsize(path) + are_items * os.path.getsize(truth)
    names = ("nextloc-metrics", "DuckDB", "NumPy")
    found = [measure(x, y, *of, size) for x, (y, of) in zip(names, given.items(), strict=True)]
    rates = [mrr for _, mrr in found]
    if max(rates) - min(rates) > 6e-5:  # of percent, two decimals are printed
        sys.exit(f"MRR must agree, got {rates}.")
    return [seconds for seconds, _ in found]


def main() -> None:
    """Write files, and measure each form in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--forms", nargs="+", default=[*QUERIES], choices=QUERIES)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, few = Path(name), Path(name) / "few"
        few.mkdir()
        write(folder, arguments.rows, arguments.users)
        write(few, 100, arguments.users)
        for form in arguments.forms:
            print(f"{form}, {arguments.rows:,} rows")
            own, *others = contest(form, few, folder)
            print(f"{own / others[0]:.2f} of DuckDB, {own / others[1]:.2f} of NumPy\n", flush=True)


if __name__ == "__main__":
    main()
