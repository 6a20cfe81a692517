"""The law for the files beside predictions, and for those that the command writes."""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hostile_law import compares_with_oracle, contents, examples_or_by_hand, quiet
from hostile_plain import RefusedError, read_csv
from hypothesis import given
from hypothesis import strategies as st

from command import main
from nextloc_metrics import report
from oracles.sequences import haversine

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

Draw = Callable[[st.SearchStrategy[Any]], Any]

WORDS = ["home", "x\x85y", "a\u2028b", "v\x0bt", "f\x1cs", "é", "a b", "gym"]
COUNTS = ["99999999999999999999", "-1", "x", "1.5", "nan", "1 2"]
DIRTS = ["count", "quote", "more", "all more", "fewer", "header twice", "cut", "empty", "encoding"]


@dataclass(frozen=True)
class Case:
    """Files of words, coordinates and counts of locations, and pairs of an answer and a target."""

    words: tuple[str, ...]
    end: str
    coordinates: bytes
    counts: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...]
    dirt: str


@st.composite
def written(draw: Draw, columns: Sequence[str], rows: Sequence[Sequence[str]], dirt: str) -> bytes:
    """Write rows with a header as CSV, and break them."""
    end = draw(st.sampled_from(["\n", "\r\n"]))
    lines = [",".join(row) + end for row in (columns, *rows)]
    at = draw(st.integers(1, len(lines) - 1)) if rows else 0
    if dirt == "quote" and rows:
        *cells, last = rows[at - 1]
        lines[at] = ",".join([*cells, '"' + last]) + end
    elif dirt == "more":
        lines[at] = lines[at].removesuffix(end) + ",9" + end
    elif dirt == "all more":
        lines = [lines[0], *(line.removesuffix(end) + ",9" + end for line in lines[1:])]
    elif dirt == "fewer":
        lines[at] = lines[at].rpartition(",")[0] + end
    elif dirt == "header twice":
        name = draw(st.sampled_from(columns))
        lines = [
            lines[0].removesuffix(end) + f",{name}" + end,
            *(line.removesuffix(end) + ",9" + end for line in lines[1:]),
        ]
    text = draw(st.sampled_from(["", "\ufeff"])) + "".join(lines)
    if dirt == "encoding":
        return text.encode("utf-16")
    data = text.encode()
    return data[: draw(st.integers(0, len(data) - 1))] if dirt == "cut" else data


@st.composite
def cases(draw: Draw, dirty: bool) -> Case:
    """Draw the files of a few locations, of which one is broken."""
    words = draw(st.lists(st.sampled_from(WORDS), min_size=2, max_size=5, unique=True))
    number = len(words)
    dirt = draw(st.sampled_from(DIRTS)) if dirty else ""
    columns = draw(st.permutations(["latitude", "longitude"]))
    rows = [
        [f"5{i}.{draw(st.integers(0, 9))}", f"{draw(st.integers(0, 9))}.5"] for i in range(number)
    ]
    if dirt == "empty":
        rows[0][0] = draw(st.sampled_from(["x", "inf", "91"]))
    counts = [str(draw(st.integers(0, 3))) for _ in words]
    if dirt == "count":
        counts[draw(st.integers(0, number - 1))] = draw(st.sampled_from(COUNTS))
    pair = st.tuples(st.integers(0, number - 1), st.integers(0, number - 1))
    pairs = draw(st.lists(pair, min_size=1, max_size=5))
    data = draw(written(columns, rows, dirt))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    return Case(tuple(words), end, data, tuple(counts), tuple(pairs), dirt)


def expected_of(case: Case) -> tuple[float, float, int]:
    """Return the mean distance, the accuracy and the number of targets that training lacks."""
    if not all(x.isdecimal() and int(x) < 2**63 for x in case.counts):
        raise RefusedError("a count is no number")
    rows = read_csv(case.coordinates, ",", ["latitude", "longitude"])
    try:
        points = [(float(row["latitude"]), float(row["longitude"])) for row in rows]
    except ValueError as error:
        raise RefusedError("a coordinate is no number") from error
    if len(points) < len(case.words) or not all(abs(x) <= 90 and abs(y) <= 360 for x, y in points):
        raise RefusedError("coordinates do not fit")
    far = [haversine(points[a], points[b]) for a, b in case.pairs]
    hits = sum(a == b for a, b in case.pairs)
    unseen = sum(case.counts[b].strip("0") == "" for _, b in case.pairs)
    return math.fsum(far) / len(far), hits / len(far), unseen


@compares_with_oracle(8, lambda dirty: (cases(dirty),))
def test_files_of_locations(case: Case) -> bool:
    """Words, coordinates and counts belong to the locations of their lines, or are refused."""
    expected = None
    with contextlib.suppress(RefusedError):
        expected = expected_of(case)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [{"preds": [case.words[a]], "target": case.words[b]} for a, b in case.pairs]
        (folder / "p.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
        (folder / "words.txt").write_bytes(case.end.join([*case.words, ""]).encode())
        (folder / "counts.txt").write_bytes(case.end.join(case.counts).encode())
        (folder / "places.csv").write_bytes(case.coordinates)
        options = {"vocabulary": "words.txt", "train-counts": "counts.txt"}
        options |= {"coordinates": "places.csv", "format": "json", "k": "1"}
        command = ["score", str(folder / "p.jsonl")]
        for option, value in options.items():
            command += [f"--{option}", str(folder / value) if "." in value else value]
        shown = CliRunner().invoke(main, command)
    if shown.exit_code:
        assert isinstance(shown.exception, SystemExit), shown.exception
        assert case.dirt, f"clean files are refused: {shown.stderr}"
        return False
    assert expected is not None, f"{case.dirt}: was read, and must be refused"
    read = json.loads(shown.stdout)
    found = read["mean_distance"]["value"], read["acc_at_1"]["value"]
    assert math.isclose(found[0], expected[0], rel_tol=1e-5, abs_tol=1e-4), (found, expected)
    assert math.isclose(found[1], expected[1], abs_tol=1e-6), (found, expected)
    assert read["card"]["unseen_targets"] == expected[2]
    return True


OUTPUTS = st.lists(
    st.tuples(
        st.sampled_from(["--save", "--out", "--group-table"]),
        st.sampled_from(["o.csv", "./o.csv", "o.npz", "o.html", "link.csv", "none/o.csv"]),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda pair: pair[0],
)


@examples_or_by_hand(6)
@given(OUTPUTS, st.sets(st.sampled_from([".o.csv.part", ".o.npz.part", "o.npz"])), st.booleans())
def test_files_that_are_written(
    outputs: Sequence[tuple[str, str]], others: set[str], force: bool
) -> None:
    """Each output is a whole file of its own, nothing else is touched, or nothing is written."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "p.csv").write_text("preds,target,user\n[1],1,a\n[2],1,b\n", "utf-8")
        for other in others:
            (folder / other).write_text("mine", "utf-8")
        (folder / "victim").write_text("mine", "utf-8")
        (folder / "link.csv").symlink_to(folder / "victim")
        command = ["score", str(folder / "p.csv"), "--group", "user", "--k", "1"]
        for option, path in outputs:
            command += [option, os.path.join(folder, path)]
        before = contents(folder)
        shown = CliRunner().invoke(main, [*command, *(["--force"] if force else [])])
        after = contents(folder)
        assert shown.exit_code in (0, 1, 2)
        assert not shown.exception or isinstance(shown.exception, SystemExit), shown.exception
        if shown.exit_code:
            assert after == before, "an error has left or changed files"
            return
        paths = {os.path.normpath(path) for _, path in outputs}
        assert len(paths) == len(outputs), "two outputs had one path"
        changed = {x for x in after if after[x] != before.get(x)}
        assert changed <= paths, f"other files were changed: {changed - paths}"
        for option, path in outputs:
            if option == "--save":
                with quiet():
                    assert report.merge([folder / path]).card["queries"] == 2
