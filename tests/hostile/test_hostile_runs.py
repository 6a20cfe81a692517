"""The law for TREC runs and judgements, whose ids are text, compared byte for byte."""

from __future__ import annotations

import contextlib
import struct
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hostile_law import attempt, compares_with_oracle, found_of
from hostile_plain import CUTS, Found, Meaning, Query, RefusedError, evaluate, same
from hypothesis import strategies as st

from nextloc_metrics import report

pytest.importorskip("pyarrow")

Draw = Callable[[st.SearchStrategy[Any]], Any]

IDS = ["1", "1.0", "01", "a", "b", "é", "-1", "-100", "nan", "[1]", "1e0"]
SCORES = ["0.1", "0.10000000001", "1", "2.5", "-3", "1e3", "1e400", "-inf"]


@st.composite
def runs(draw: Draw, dirty: bool) -> tuple[bytes, bytes, str]:
    """Draw a run and its judgements, and what is wrong with one of them."""
    queries = draw(st.lists(st.sampled_from(["q1", "q2", "3", "4"]), min_size=1, unique=True))
    one_id = st.sampled_from(draw(st.sampled_from([IDS[:6], IDS])))
    run, qrels = [], []
    for query in queries:
        for document in draw(st.lists(one_id, max_size=5, unique=True)):
            run.append(f"{query} Q0 {document} {len(run)} {draw(st.sampled_from(SCORES))} name")
        qrels += [
            f"{query} 0 {document} {draw(st.sampled_from(['1', '1', '0', '-1']))}"
            for document in draw(st.lists(one_id, max_size=3, unique=True))
        ]
    run, qrels = draw(st.permutations(run)), draw(st.permutations(qrels))
    dirts = ["cell", "comment", "score", "twice", "encoding", "cut"] if dirty else [""]
    dirt = draw(st.sampled_from(dirts))
    lines = run if draw(st.booleans()) else qrels
    if not lines and dirt:
        dirt = ""
    elif dirt == "cell":  # a run's name may hold spaces
        at, cut = draw(st.integers(0, len(lines) - 1)), lines is run or draw(st.booleans())
        lines[at] = lines[at].rpartition(" ")[0] if cut else lines[at] + " x"
    elif dirt == "comment":
        dirt = "" if lines is qrels else "cell"
        lines.insert(draw(st.integers(0, len(lines))), "# query 0 id grade")
    elif dirt == "score" and lines is run:
        lines[-1] = lines[-1].replace(" name", "x name")
    elif dirt == "twice":
        lines.append(lines[0])
    end = draw(st.sampled_from(["\n", "\r\n"]))
    data = [end.join([*x, ""]).encode() for x in (run, qrels)]
    which = int(lines is qrels)
    if dirt == "encoding":
        data[which] = data[which].decode().encode("utf-16")
    elif dirt == "cut":
        data[which] = data[which][: draw(st.integers(0, len(data[which]) - 1))]
    return data[0], data[1], dirt


def lines_of(data: bytes, cells: int) -> list[list[str]]:
    """Return the cells of each line, or refuse it."""
    try:
        text = data.decode("utf-8-sig").split("\n")
        rows = [x for x in text if cells == 6 or not x.startswith("#")]
        lines = [line.split(maxsplit=5 if cells == 6 else -1) for line in rows]
    except UnicodeError as error:
        raise RefusedError("not UTF-8") from error
    if any(line and len(line) != cells for line in lines):
        raise RefusedError("a line has another number of cells")
    return [line for line in lines if line]


def single(text: str) -> float:
    """Round a score to float32, as trec_eval does."""
    try:
        return float(struct.unpack("f", struct.pack("f", float(text)))[0])
    except OverflowError:
        return float("-inf" if text[0] == "-" else "inf")
    except ValueError as error:
        raise RefusedError(f"a score is {text}") from error


def values_of(run: Sequence[Sequence[str]], qrels: Sequence[Sequence[str]]) -> Found:
    """Return the values of a run: by score, equal scores by id in falling order."""
    answers: dict[str, list[tuple[float, str]]] = {}
    relevant: dict[str, list[str]] = {}
    for query, _, document, grade in qrels:
        relevant.setdefault(query, [])
        if single(grade) > 0 and document not in relevant[query]:
            relevant[query].append(document)
    for query, _, document, _, score, _ in run:
        answers.setdefault(query, []).append((single(score), document))
    if answers and relevant and not answers.keys() & relevant.keys():
        raise RefusedError("no query has both")
    queries = [
        Query(
            tuple(x for _, x in sorted(answers.get(query, ()), key=_falling, reverse=True)),
            tuple(found or ["no list holds this"]),
        )
        for query, found in relevant.items()
    ]
    return evaluate(queries, Meaning("csv", "text"))


def _falling(pair: tuple[float, str]) -> tuple[float, bytes]:
    return pair[0], pair[1].encode()


@compares_with_oracle(10, lambda dirty: (runs(dirty),))
def test_runs(files: tuple[bytes, bytes, str]) -> bool:
    """A run is scored as trec_eval reads it, or refused with its name."""
    *data, dirt = files
    expected = None
    with contextlib.suppress(RefusedError):
        expected = values_of(lines_of(data[0], 6), lines_of(data[1], 4))  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as name:
        run, qrels = Path(name) / "a.run", Path(name) / "a.qrels"
        run.write_bytes(data[0])  # type: ignore[arg-type]
        qrels.write_bytes(data[1])  # type: ignore[arg-type]
        found = attempt(lambda: scored(run, qrels))
    if isinstance(found, Exception):
        assert dirt or expected is None, f"a clean run is refused: {found}"
        assert "a.run" in str(found) or "a.qrels" in str(found), found
        return False
    assert expected is not None, f"{dirt}: was read, and must be refused"
    assert same(found, expected), f"{dirt}: got {found}, expected {expected}"
    return True


def scored(run: Path, qrels: Path) -> Found:
    """Evaluate a run."""
    read = report.read(report.Source(run, truth=qrels))
    return found_of(report.evaluate(read.preds, read.target, k=CUTS))
