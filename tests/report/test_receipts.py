"""Receipts: the same bytes however rows are read, a plain reader, and every change is named."""

import hashlib
import json
import random
import re
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars
import pyarrow as pa
import pytest
import torch
from click.testing import CliRunner
from pyarrow import parquet

import receipt_reader
from nextloc_metrics import report
from nextloc_metrics.arguments.batch import Batch
from nextloc_metrics.cli.commands import main

NAMES = ["Café", "x y", "7", "an 8 byt", "sixteen bytes ok", *(f"p{i}" for i in range(30))]
OPTIONS: dict[str, Any] = {"groups": ["user"], "k": (1, 3), "cluster": "user"}


def made(number: int = 120, seed: int = 0) -> list[dict[str, Any]]:
    """Make rows of text, with repeats, unknown names, and lists of several lengths."""
    draw = random.Random(seed)
    return [
        {
            "id": f"query {i}",
            "user": f"u{draw.randrange(7)}",
            "target": draw.choice(NAMES),
            "preds": draw.choices([*NAMES, "Mars", "Venus"], k=draw.randrange(2, 6)),
        }
        for i in range(number)
    ]


def table(rows: list[dict[str, Any]]) -> Any:
    """Return rows as an Arrow table."""
    return pa.Table.from_pylist(rows)


def made_of(rows: list[dict[str, Any]], **options: Any) -> report.Receipt:
    """Return the receipt of rows."""
    return report.evaluate_table(table(rows), **{**OPTIONS, **options}).receipt()


def test_a_plain_reader_agrees() -> None:
    """What is in the page on receipts is enough to recompute one, with ids and without."""
    for rows in (made(), [{k: v for k, v in x.items() if k != "id"} for x in made(60, 3)]):
        text = str(made_of(rows))
        assert receipt_reader.wrong_in(text, rows) == []
        rows[3]["preds"][0], rows[4]["preds"][0] = "x", "y"
        assert "predictions" in receipt_reader.wrong_in(text, rows)


@pytest.mark.slow
def test_the_same_bytes_from_files_and_arrays(tmp_path: Path) -> None:
    """Arrays, Parquet, CSV, shuffled files, parts as bytes and saved, and no mask."""
    rows = made()
    receipt = made_of(rows)
    expected = str(receipt)
    assert len(expected) < 8192
    assert expected == str(report.Receipt.read(expected))
    assert receipt.is_canonical
    mixed = random.Random(1).sample(rows, len(rows))
    paths = [tmp_path / f"{i}.parquet" for i in range(2)]
    parquet.write_table(table(mixed[:50]), paths[0])
    parquet.write_table(table(mixed[50:]), paths[1])
    csv = tmp_path / "rows.csv"
    pd.DataFrame(mixed).assign(preds=[json.dumps(x["preds"]) for x in mixed]).to_csv(csv)
    masked = [{**x, "kept": True} for x in mixed] + [{**mixed[0], "kept": False}]
    words = [*sorted({x["target"] for x in rows}), "Mars", "Venus", *NAMES]
    words = list(dict.fromkeys(words))
    numbers = {name: i for i, name in enumerate(words)}
    lists = [[numbers[y] for y in x["preds"]] + [-1] * (9 - len(x["preds"])) for x in rows]
    arrays = (lists, [numbers[x["target"]] for x in rows])
    users, ids = ([x[name] for x in rows] for name in ("user", "id"))
    own = {"k": (1, 3), "cluster": "user", "vocabulary": words}
    found = {
        "files": report.evaluate_table(paths, **OPTIONS),
        "csv": report.evaluate_table(csv, **OPTIONS),
        "masked": report.evaluate_table(table(masked), mask="kept", **OPTIONS),
        "arrays": report.evaluate(*arrays, groups={"user": users}, ids=ids, **own),
    }
    parts = [report.Evaluator(num_locations=len(words), **own) for _ in range(3)]
    for i, part in enumerate(parts):
        of = slice(i, None, 3)
        batch = Batch(arrays[0][of], arrays[1][of], groups={"user": users[of]}, ids=ids[of])
        part.add(batch)
        part.result().save(tmp_path / f"{i}.npz")
    merged = report.merge([tmp_path / f"{i}.npz" for i in range(3)])
    first, second, third = (report.Evaluator.from_bytes(x.to_bytes()) for x in parts)
    of_bytes = third.merge(first).merge(second).result().receipt()
    assert str(of_bytes) == str(merged.receipt())
    both = [x.receipt().content for x in (merged, found["arrays"])]
    for name in ("test_set", "predictions", "values"):
        assert both[0][name] == both[1][name] == json.loads(expected)[name], name
    for name in ("files", "csv"):
        assert str(found[name].receipt()) == expected, name
        assert report.verify(receipt, paths if name == "files" else csv).equal
    content = json.loads(expected)
    for name in ("masked", "arrays"):  # which differ in what was left out, and in the size of F1
        of = found[name].receipt().content
        assert of["predictions"] == content["predictions"], name
        assert of["test_set"] == content["test_set"], name


Change = Callable[[list[dict[str, Any]]], Any]


def exchange(rows: list[dict[str, Any]], name: str) -> None:
    """Exchange a cell of two rows."""
    rows[5][name], rows[8][name] = rows[8][name], rows[5][name]


CHANGES: dict[str, tuple[Change, list[str]]] = {
    "one answer": (lambda x: x[5].update(preds=["p1", "p2"]), ["answers differ", "in 1 of 256"]),
    "one target": (lambda x: x[5].update(target="p3"), ["another test set", "in 1 of 256"]),
    "a user's name": (lambda x: x[5].update(user="someone"), ["another test set"]),
    "answers exchanged": (lambda x: exchange(x, "preds"), ["answers differ", "in 2 of 256"]),
    "a row gone": (lambda x: x.pop(5), ["another test set", "120 rows", "119 rows"]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changed_rows_are_named(name: str) -> None:
    """Which digest differs, in which buckets, and the ids of the rows in them."""
    rows = made()
    assert rows[5]["preds"] != rows[8]["preds"]
    receipt = made_of(rows)
    change, said = CHANGES[name]
    change(rows)
    found = report.verify(receipt, table(rows))
    assert not found.equal
    for part in said:
        assert part in str(found)
    assert ("another test set" in str(found)) == ("another test set" in said)
    if name != "a row gone":
        assert "query 5" in str(found)


def test_ids_of_any_type_are_their_text() -> None:
    """7 and "7" agree, also in pandas; a missing id is an error."""
    rows = [{**x, "id": i * 10**6} for i, x in enumerate(made(30))]
    expected = str(made_of(rows))
    texts = [{**x, "id": str(x["id"])} for x in rows]
    assert str(made_of(texts)) == expected
    for frame in (pd.DataFrame(rows), polars.DataFrame(rows)):
        assert str(report.evaluate_table(frame, **OPTIONS).receipt()) == expected
    with pytest.raises(ValueError, match="must hold a group in `id`, got none"):
        made_of([*texts, {**texts[0], "id": None}])


def test_a_row_twice_is_an_error() -> None:
    """An id stands once, in one part or in several; "" takes no ids, and a column may be named."""
    rows = made(20)
    with pytest.raises(ValueError, match="ids must be distinct, got 1 of 21 again"):
        report.evaluate_table(table([*rows, rows[0]]), **OPTIONS)
    known = {"vocabulary": NAMES, **OPTIONS}
    both = [report.evaluate_table(table(x), **known) for x in (rows, rows[:1])]
    same = report.evaluate_table(table([*rows, rows[0]]), key="", **OPTIONS).receipt()
    assert same.content["ids"] == "none"
    with pytest.raises(ValueError, match="ids must be distinct"):
        report.merge(both)
    named = [{**x, "number": i, "id": 0} for i, x in enumerate(rows)]
    assert made_of(named, key="number").content["ids"] == "given"
    with pytest.raises(TypeError, match="`ids` must be integers or text"):
        report.evaluate([[1]], [1], ids=[0.5])
    with pytest.raises(ValueError, match="`ids` must have a row for each"):
        report.evaluate([[1]], [1], ids=[5, 6])


@pytest.mark.slow
def test_changed_rows_without_ids_are_named() -> None:
    """Two rows with one target and user may exchange their answers unseen."""
    changes: list[tuple[Change, str]] = [
        (CHANGES["answers exchanged"][0], "answers differ"),
        (lambda x: x.append(dict(x[5])), "another test set"),
    ]
    for change, said in changes:
        rows = made()
        receipt = made_of(rows, key="")
        change(rows)
        assert said in str(report.verify(receipt, table(rows)))
    rows = made()
    rows[8].update(target=rows[5]["target"], user=rows[5]["user"])
    receipt, known = made_of(rows, key=""), made_of(rows)
    exchange(rows, "preds")
    assert report.verify(receipt, table(rows)).equal
    assert not report.verify(known, table(rows)).equal


def with_checksum(content: dict[str, Any]) -> str:
    """Return a changed receipt with the checksum that an author would give it."""
    inside = {x: y for x, y in content.items() if x not in ("checksum", "note", "source")}
    text = json.dumps(inside, sort_keys=True, separators=(",", ":")) + "\n"
    return json.dumps({**content, "checksum": hashlib.sha256(text.encode()).hexdigest()})


def test_a_changed_text_is_named() -> None:
    """One digit of a sum, with and without a new checksum; an option; another form of the text."""
    rows = made()
    whole = report.evaluate_table(table(rows), **OPTIONS)
    receipt = whole.receipt(sums_by="user")
    content = json.loads(str(receipt))
    assert with_checksum(content) == json.dumps(content)
    content["sums"]["mrr"][0] = str(int(content["sums"]["mrr"][0]) + 1)
    found = report.verify(json.dumps(content), table(rows))
    assert found.differences[0] == "the sums were changed: mrr"
    assert "checksum" in found.differences[1]
    changed = ["the sums were changed: mrr"]
    assert report.verify(with_checksum(content), table(rows)).differences == changed
    text = json.dumps({**content, "note": "Table 2"}, indent=2).replace("\n", "\r\n")
    assert "other spaces" in str(report.verify(text, table(rows)))
    for name, part in {
        "values": "value of mrr",
        "counts": "queries",
        "clusters": "clusters",
    }.items():
        other = json.loads(str(receipt))
        if name == "clusters":
            other[name]["sums"]["mrr"][0] += "1"
        else:
            other[name][part.split()[-1]] = "0.5" if name == "values" else 7
        found = report.verify(with_checksum(other), whole)
        assert found.differences == [f"the sums were changed: {part}"]
    found = report.verify(receipt, table(rows), k=(1, 5))
    assert found.differences == ["another option: k is [1, 5], in the receipt [1, 3]"]
    old = json.dumps({**json.loads(str(receipt)), "version": "0.0.1", "sums": content["sums"]})
    assert "another version's formula (0.0.1" in str(report.verify(old, table(rows)))
    with pytest.raises(ValueError, match="'clusters' is \\[\\]"):
        report.Receipt.read(json.dumps({**content, "clusters": []}))
    assert "another schema" in str(report.verify('{"schema": "x"}', table(rows), **OPTIONS))


def test_what_must_not_matter_is_equal() -> None:
    """Order, padding, the dtype of scores with the same order, a note; and a salt that is known."""
    rows = made()
    receipt = made_of(rows)
    assert report.verify(receipt, table(rows[::-1])).equal
    scores = torch.randn(40, 9)
    target = torch.arange(40) % 9
    one, other = (report.evaluate(x, target) for x in (scores, scores.double() * 2))
    assert str(one.receipt()) == str(other.receipt())
    assert one.receipt().content["predictions"]["of"] == "ranks"
    swapped = scores.clone()
    swapped[0] = -swapped[0]
    assert "answers differ" in str(report.verify(one.receipt(), report.evaluate(swapped, target)))
    salted = one.receipt(salt="secret", note="Table 2", source="https://example.org")
    assert report.verify(salted, other, salt="secret").equal
    assert "another salt" in str(report.verify(salted, other))
    assert "another test set" in str(report.verify(salted, other, salt="wrong"))
    assert salted.content["test_set"] != one.receipt().content["test_set"]
    with pytest.raises(ValueError, match="at most 8,192 bytes"):
        one.receipt(note="x" * 9000)


@pytest.mark.slow
def test_several_targets_and_weights() -> None:
    """Targets in any order, excluded ids, grades, weights and confidences are in the digests."""
    target, lists = [[3, 5], [4, -1]], [[5, 1, 2], [4, 3, 0]]
    given: dict[str, Any] = {"weights": [1.0, 2.0], "exclude": [[7, 8], [6, -1]], "ids": [1, 2]}

    def of(target: Any = target, **changed: Any) -> dict[str, Any]:
        return dict(report.evaluate(lists, target, k=2, **{**given, **changed}).receipt().content)

    graded = of(grades=[[1.0, 2.0], [1.0, 0.0]])["test_set"]
    assert graded == of([[5, 3], [-1, 4]], grades=[[2.0, 1.0], [0.0, 1.0]])["test_set"]
    assert graded != of([[5, 3], [-1, 4]], grades=[[1.0, 2.0], [0.0, 1.0]])["test_set"]
    assert of([3, 4], grades=[1.0, 1.0])["test_set"] != of([3, 4], grades=[1.0, 2.0])["test_set"]
    assert of(exclude=[[8, 7, 7], [6, -1, -1]])["test_set"] == of()["test_set"]
    for changed in ({"weights": [1.0, 3.0]}, {"exclude": [[7, 9], [6, -1]]}, {"ids": [1, 3]}):
        assert of(**changed)["test_set"] != of()["test_set"]
    sure = [
        report.evaluate(lists, [3, 4], k=2, confidence=x, num_locations=9).receipt().content
        for x in ([0.5, 0.25], [0.5, 0.5])
    ]
    assert sure[0]["test_set"] == sure[1]["test_set"]
    assert sure[0]["predictions"] != sure[1]["predictions"]


def test_the_command_writes_and_verifies(tmp_path: Path) -> None:
    """`score --receipt` and `verify`: 0 and "equal", or 1 and what differs."""
    rows, runner = made(), CliRunner()
    good, bad, receipt = tmp_path / "good.parquet", tmp_path / "bad.parquet", tmp_path / "r.json"
    parquet.write_table(table(rows), good)
    rows[5]["preds"] = ["p1"]
    parquet.write_table(table(rows), bad)
    arguments = ["score", str(good), "--group", "user", "--k", "1", "--receipt", str(receipt)]
    result = runner.invoke(main, arguments)
    assert result.exit_code == 0, result.output
    for path, code, said in ((good, 0, "equal"), (bad, 1, "query 5")):
        result = runner.invoke(main, ["verify", str(receipt), str(path)])
        assert (result.exit_code, said in result.output) == (code, True), result.output
    assert r"\footnote{Receipt \texttt{" in report.Receipt.read(receipt).to_latex()
    result = runner.invoke(main, [*arguments, "--force", "--sums-by", "user"])
    assert result.exit_code == 0, result.output
    sums = report.Receipt.read(receipt).content["clusters"]
    one = report.evaluate_table(good, groups=["user"], k=1).receipt(sums_by="user")
    assert (sums["by"], sums) == ("user", one.content["clusters"])
    assert runner.invoke(main, ["score", str(good), "--sums-by", "user"]).exit_code == 2
    result = runner.invoke(main, [*arguments[:2], *arguments[4:], "--force", "--sums-by", "id"])
    assert "id" in report.Receipt.read(receipt).content["groups"], result.output
    (tmp_path / "no.json").write_text("{}", "utf-8")
    result = runner.invoke(main, ["verify", str(tmp_path / "no.json"), str(good)])
    assert result.exit_code == 1
    assert "must be a receipt" in result.output


@pytest.mark.slow
def test_the_page_has_the_receipt() -> None:
    """A link of the page, and of a notebook, holds the text; a receipt too long has none."""
    found = report.evaluate_table(table(made()), **OPTIONS)
    page, receipt = found.to_html(), found.receipt()
    link = '<a download="(.*?)" href="data:application/json;base64,(.*?)"'
    name, text = re.findall(link, page)[0]
    assert (name, b64decode(text).decode()) == (f"receipt-{receipt.id}.json", str(receipt))
    long = report.evaluate([[1]], [1], k=1, num_locations=4, about="x" * 9000)
    assert "data:application/json" not in long.to_html()


GOLDEN = Path(__file__).with_name("receipt.json")


def test_a_golden_receipt_is_read() -> None:
    """What an earlier version wrote is equal, whichever version wrote it."""
    assert report.verify(GOLDEN, table(made(30, 7))).equal
    assert receipt_reader.wrong_in(GOLDEN.read_text("utf-8"), made(30, 7)) == []


@pytest.mark.slow
@pytest.mark.usefixtures("forked_workers")
def test_the_same_bytes_from_workers_and_dask(tmp_path: Path) -> None:
    """2 workers, and a data frame of Dask."""
    rows = made()
    expected = str(made_of(rows))
    paths = [tmp_path / f"{i}.parquet" for i in range(2)]
    for i, path in enumerate(paths):
        parquet.write_table(table(rows[i::2]), path)
    assert str(report.evaluate_table(paths, workers=2, **OPTIONS).receipt()) == expected
    frames = pytest.importorskip("dask.dataframe")
    frame = frames.from_pandas(pd.DataFrame(rows), npartitions=3)
    assert str(report.evaluate_table(frame, **OPTIONS).receipt()) == expected
