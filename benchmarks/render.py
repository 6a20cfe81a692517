"""Write the tables of the README beside this file, and the plot, from the JSON of a run.

python benchmarks/render.py results.json [--folder .]
"""

import argparse
import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
from harness import PLAIN, REFERENCE

Table = dict[str, Any]
HOME = Path(__file__).parent
SIZES = (1_187, 10_000, 100_000)
#: the keys of the tables that the README has whole; the JSON has all of them
SHOWN = ("10 relevant", "deciles", "10000 probabilities")
ALONE = "preset alone, "


def rows(head: list[str], body: list[list[str]]) -> str:
    """Write a Markdown table."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def number(value: float) -> str:
    """Write a number with three significant digits."""
    digits = max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0
    return f"{value:,.{digits}f}"


def found(results: dict[str, Any], key: str) -> Table:
    """Return the table with this key."""
    return next(table for table in results["speed"] if table["key"] == key)


def names(tables: list[Table]) -> list[str]:
    """List the contestants of all tables without repeats."""
    return list(dict.fromkeys(name for table in tables for name in table["contestants"]))


def by_size(results: dict[str, Any]) -> str:
    """Write the milliseconds of the preset, and their ratio to a read, at every size."""
    tables = [found(results, str(size)) for size in SIZES]
    body = []
    for name in names(tables):
        cells = []
        for table in tables:
            entry = table["contestants"].get(name)
            if entry is None:
                cells.append("-")
                continue
            reads = number(entry["ratio_to"][table["floor"]])
            cells.append(f"{number(entry['milliseconds'])} ({reads})")
        body.append([name, *cells])
    return rows(["", *(f"{size:,} locations" for size in SIZES)], body)


def by_kind(results: dict[str, Any]) -> str:
    """Write the milliseconds of the preset without peers, and their ratio to a read, by dtype."""
    body = []
    for table in results["speed"]:
        if table["title"].startswith(ALONE):
            ours, other = (table["contestants"][name] for name in (PLAIN, REFERENCE))
            ratios = ours["ratio_to"][table["floor"]], other["ratio_to"][PLAIN]
            body.append([table["title"].removeprefix(ALONE)])
            body[-1] += map(number, (ours["milliseconds"], *ratios))
    return rows(["preset alone", "ms", "over one read of the scores", "reference over C"], body)


def one_table(table: Table) -> str:
    """Write the milliseconds and ratios of one table."""
    to = list(next(iter(table["contestants"].values()))["ratio_to"])
    short = {PLAIN: "over C", REFERENCE: "over reference"}
    heads = [short.get(name, f"over {name}") for name in to]
    body = [
        [name, number(x["milliseconds"]), *(number(x["ratio_to"][other]) for other in to)]
        for name, x in table["contestants"].items()
    ]
    return rows([table["title"], "ms", *heads], body)


def growth(results: dict[str, Any]) -> str:
    """Write the slopes, one row per variable and backend."""
    body = [
        [
            f"{entry['grows']}: {entry['meaning']}",
            entry["path"].removeprefix("nextloc-metrics, "),
            f"{entry['sizes'][0]:,} to {entry['sizes'][-1]:,}",
            f"{number(entry['milliseconds'][0])} to {number(entry['milliseconds'][-1])}",
            f"{entry['slope']:.2f}",
        ]
        for entry in results["growth"]
    ]
    return rows(["what grows", "path", "from, to", "ms", "slope"], body)


def details(results: dict[str, Any]) -> str:
    """Write every table of a run."""
    machine = results["machine"]
    parts = [
        f"{machine['cpu']}, {machine['cores']} cores, {machine['threads']} threads, "
        f"Python {machine['python']}, PyTorch {machine['torch']}.",
        "Milliseconds of an update at batch 256 (in brackets: over one read of the scores):",
        by_size(results),
        by_kind(results),
        *(one_table(table) for table in results["speed"] if table["key"] in SHOWN),
        growth(results),
        rows(
            ["in a fresh process", "seconds"],
            [[entry["name"], number(entry["seconds"])] for entry in results["first"]],
        ),
        rows(
            ["peak extra memory of an update, 256 x 100,000", "MB", "% of the scores"],
            [
                [entry["name"], f"{entry['bytes'] / 1e6:.2f}", f"{100 * entry['of_scores']:.2f}"]
                for entry in results["peaks"]
            ],
        ),
    ]
    if results["states"]:
        queries = [f"{number:,} queries" for number in results["states"][0]["queries"]]
        body = [[x["name"], *(f"{size:,}" for size in x["bytes"])] for x in results["states"]]
        parts.append(rows(["bytes of the states", *queries], body))
    return "\n\n".join(parts)


def insert(path: Path, marker: str, text: str) -> None:
    """Replace the text between two marker comments of a file, if it has them."""
    begin, end = f"<!-- {marker} -->", f"<!-- end of {marker} -->"
    whole = path.read_text(encoding="utf-8")
    if begin not in whole:
        print(f"{path} has no {begin}")
        return
    before, rest = whole.split(begin)
    _, after = rest.split(end)
    path.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")
    print(f"written to {path}")


def spread(heights: list[float], gap: float) -> list[float]:
    """Move labels up until each is at least a gap above the one below."""
    order = sorted(range(len(heights)), key=heights.__getitem__)
    placed = list(heights)
    for _ in range(200):
        for low, high in pairwise(order):
            lack = gap - (placed[high] - placed[low])
            if lack > 1e-9:
                placed[low] -= lack / 2
                placed[high] += lack / 2
    return placed


def plot(results: dict[str, Any], path: Path) -> None:
    """Draw milliseconds over the number of locations, with a label at the end of every line."""
    tables = [found(results, str(size)) for size in SIZES]
    figure, axes = plt.subplots(figsize=(9, 5.2), layout="constrained")
    styles = ["-", "--", "-.", ":", (0, (6, 2, 1, 2, 1, 2)), (0, (1, 3)), (0, (8, 3)), (0, (3, 1))]
    markers = "osD^vP*X"
    lines = []
    for i, name in enumerate(names(tables)):
        points = [
            (size, table["contestants"][name]["milliseconds"])
            for size, table in zip(SIZES, tables, strict=True)
            if name in table["contestants"]
        ]
        ours = name in (PLAIN, REFERENCE)
        grey = "black" if ours else "0.35" if i else "0.6"
        axes.plot(
            *zip(*points, strict=True),
            color=grey,
            linewidth=2.6 if ours else 1.3,
            linestyle=styles[i % len(styles)],
            marker=markers[i % len(markers)],
            markersize=6,
        )
        lines.append((name, points[-1], grey, ours))
    axes.set(xscale="log", yscale="log", xlabel="locations (log)", ylabel="ms per update (log)")
    axes.set_xticks(SIZES, [f"{size:,}" for size in SIZES])
    axes.minorticks_off()
    axes.set_title("acc@1, 5, 10, MRR, NDCG@10 and F1 of 256 queries", loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="0.9")
    # label a line that ends early at its end, the others at the right
    for name, (x, y), grey, _ in (line for line in lines if line[1][0] < SIZES[-1]):
        axes.annotate(
            name, (x, y), (0, 9), textcoords="offset points", ha="right", color=grey, fontsize=9
        )
    lines = [line for line in lines if line[1][0] == SIZES[-1]]
    low, high = (math.log10(bound) for bound in axes.get_ylim())
    heights = spread([math.log10(y) for _, (_, y), _, _ in lines], (high - low) / 18)
    for (name, (x, y), grey, ours), height in zip(lines, heights, strict=True):
        axes.annotate(
            name,
            (x, y),
            (1.6 * SIZES[-1], 10**height),
            color=grey,
            fontsize=9,
            fontweight="bold" if ours else "normal",
            verticalalignment="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": "0.8", "linewidth": 0.8},
        )
    figure.savefig(path, dpi=110)
    plt.close(figure)
    print(f"written to {path}")


def main() -> None:
    """Write the README of the benchmarks and the plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="the JSON of run_all.py")
    parser.add_argument("--folder", type=Path, default=HOME.parent, help="of the project")
    options = parser.parse_args()
    results = json.loads(options.results.read_text(encoding="utf-8"))
    insert(options.folder / "benchmarks" / "README.md", "figures", details(results))
    plot(results, options.folder / "benchmarks" / "speed.png")


if __name__ == "__main__":
    main()
