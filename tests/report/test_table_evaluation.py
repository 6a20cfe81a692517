"""Tables of any size give the values of `evaluate`, however they are cut and shared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from nextloc_metrics import report
from nextloc_metrics.arguments.batch import Batch
from nextloc_metrics.files import tables

NUMBER = 400
GROUPS = ["hour"]
OPTIONS: dict[str, Any] = {"k": (1, 3), "cluster": "user"}


def columns(kind: str) -> dict[str, Any]:
    """Lists with repeats, short ones and wrong ids; targets; users as text, who come in order."""
    generator = np.random.default_rng(3)
    lists = [generator.integers(0, 30, generator.integers(1, 6)).tolist() for _ in range(NUMBER)]
    target: list[Any] = generator.integers(0, 20, NUMBER).tolist()
    if kind == "text":
        lists = [[f"Cafe ({x})" for x in row] for row in lists]
        target = [f"Cafe ({x})" for x in target]
    user = [f"user {number // 9}" for number in range(NUMBER)]
    return {"preds": lists, "target": target, "user": user, "hour": [i % 24 for i in range(NUMBER)]}


def write(folder: Path, kind: str, number: int) -> list[Path]:
    """Write the rows to several Parquet files, in small row groups."""
    table = pa.table(columns(kind))
    paths = [folder / f"part-{i}.parquet" for i in range(number)]
    bounds = np.linspace(0, NUMBER, number + 1).astype(int)
    for path, start, end in zip(paths, bounds, bounds[1:], strict=False):
        parquet.write_table(table.slice(start, end - start), path, row_group_size=37)
    return paths


def shown(result: report.Evaluation) -> str:
    """All numbers of an evaluation."""
    return result.to_markdown()


@pytest.mark.parametrize("kind", ["integers", "text"])
def test_any_way_to_read_a_table_gives_the_same_bits(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In memory, as one file, as several, in chunks of a few rows, as a frame and as a stream."""
    paths = write(tmp_path, kind, 3)
    found = report.read(paths, groups=["hour", "user"])
    words = None if found.vocabulary is None else [str(x) for x in found.vocabulary]
    number = 20 if words is None else len({*columns(kind)["target"]})
    expected = shown(
        report.evaluate(
            found.preds, found.target, groups=found.groups, num_locations=number, **OPTIONS
        )
    )
    table = pa.table(columns(kind))
    known: dict[str, Any] = {"num_locations": number, "groups": GROUPS, **OPTIONS}
    sources: list[Any] = [paths, table]
    if kind == "integers":
        sources = [tmp_path, table.to_reader(max_chunksize=11)]
    for source in sources:
        assert shown(report.evaluate_table(source, **known)) == expected
    monkeypatch.setattr(tables, "_VALUES", 40)
    assert shown(report.evaluate_table(paths[::-1], **known)) == expected


@pytest.mark.slow  # starts two processes
@pytest.mark.usefixtures("forked_workers")
def test_workers_share_the_files(tmp_path: Path) -> None:
    """Text ids have the same numbers in all processes, and groups appear in any order."""
    paths = write(tmp_path, "text", 3)
    alone = report.evaluate_table(paths, groups=GROUPS, **OPTIONS)
    shared = report.evaluate_table(paths, groups=GROUPS, workers=2, **OPTIONS)
    alone.save(tmp_path / "alone.npz")
    shared.save(tmp_path / "shared.npz")
    with np.load(tmp_path / "alone.npz") as one, np.load(tmp_path / "shared.npz") as other:
        assert str(one["checksum"]) == str(other["checksum"])


@pytest.mark.slow  # starts two processes
@pytest.mark.usefixtures("forked_workers")
def test_workers_share_a_file_and_one_without_rows(tmp_path: Path) -> None:
    """What was kept of the first file is not counted by every worker."""
    columns = {"preds": pa.array([[3, 1], [2, 0], [1, 4]]), "target": pa.array([3, 0, 2])}
    paths = [tmp_path / "rows.parquet", tmp_path / "none.parquet"]
    parquet.write_table(pa.table(columns), paths[0])
    parquet.write_table(pa.table(columns)[:0], paths[1])
    shared = report.evaluate_table(paths, workers=2, k=1)
    assert shared.card["queries"] == 3
    assert shared.to_markdown() == report.evaluate_table(paths[0], k=1).to_markdown()


def test_a_small_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its targets number the ids and are then counted, and it is opened for both once."""
    path = tmp_path / "rows.parquet"
    columns = {"preds": [[3, 1], [2, 0]], "target": [3, 0], "user": ["ann", "bob"]}
    parquet.write_table(pa.table(columns), path)
    opened: list[Any] = []
    original = parquet.ParquetFile

    def noted(*args: Any, **kwargs: Any) -> Any:
        opened.append(args)
        return original(*args, **kwargs)

    monkeypatch.setattr(parquet, "ParquetFile", noted)
    assert report.evaluate_table(path, groups=["user"], k=1).values["acc_at_1"] == 0.5
    assert len(opened) == 1


def test_shards_merge_in_any_order(tmp_path: Path) -> None:
    """Saved one by one with the same number of locations."""
    paths = write(tmp_path, "integers", 3)
    options: dict[str, Any] = {"groups": GROUPS, "num_locations": 20, **OPTIONS}
    shards = [report.evaluate_table(path, **options) for path in paths]
    whole = report.evaluate_table(paths, **options)
    merged = report.merge([shards[i] for i in (2, 0, 1)])
    assert merged.values == whole.values
    assert str(merged.groups) == str(whole.groups)


def test_counts_of_text_ids_need_their_order(tmp_path: Path) -> None:
    """Training counts are in the order of a vocabulary that must be given."""
    (path,) = write(tmp_path, "text", 1)
    with pytest.raises(ValueError, match="`vocabulary` must list the ids if they are text"):
        report.evaluate_table(path, train_counts=np.arange(20))
    words = sorted({*columns("text")["target"]})
    found = report.evaluate_table(path, train_counts=np.arange(len(words)), vocabulary=words, k=1)
    assert found.baseline.keys() >= {"acc_at_1", "mrr"}


@pytest.mark.parametrize("read", [report.evaluate_table, report.read, tables.open_rows])
def test_one_name_for_groups_is_an_error(read: Any, tmp_path: Path) -> None:
    """A text is not taken for the list of its letters."""
    path = tmp_path / "answers.csv"
    path.write_text("preds,target,user\n[3],3,ann\n", encoding="utf-8")
    with pytest.raises(TypeError, match=r"`groups` must be a list of columns.*use \['user'\]"):
        read(path, groups="user")


NAMES = ["a", "a\0", "a\0", "b", "", "\0", "\x000", "1", "01", "a" * 99]


def of_names(names: list[str]) -> dict[str, tuple[float, int]]:
    """The share of right answers and the number of queries of each group, counted in a loop."""
    right: dict[str, list[bool]] = {}
    for row, name in enumerate(names):
        right.setdefault(name, []).append(row % 3 == 0)
    return {name: (sum(x) / len(x), len(x)) for name, x in right.items()}


@pytest.mark.parametrize("read", ["file", "array", "batches"])
def test_odd_names_of_groups(read: str, tmp_path: Path) -> None:
    """NULs, digits and an empty name stay what they are, in files of counts too."""
    preds, target = [[int(row % 3 > 0)] for row in range(len(NAMES))], [0] * len(NAMES)
    options: dict[str, Any] = {"k": 1, "num_locations": 2, "cluster": "u"}
    if read == "file":
        path = tmp_path / "rows.jsonl"
        rows = zip(preds, target, NAMES, strict=True)
        lines = (json.dumps({"preds": p, "target": t, "u": u}) for p, t, u in rows)
        path.write_text("\n".join(lines), encoding="utf-8")
        found = report.evaluate_table(path, groups=["u"], **options)
    elif read == "batches":
        evaluator = report.Evaluator(**options)
        for p, t, u in zip(preds, target, NAMES, strict=True):
            evaluator.add(Batch([p], [t], groups={"u": [u]}))
        found = report.Evaluator.from_bytes(evaluator.to_bytes()).result()
    else:
        groups = {"u": np.array(NAMES, object)}
        found = report.evaluate(preds, target, groups=groups, **options)
    found.save(tmp_path / "counts.npz")
    for one in (found, report.merge([tmp_path / "counts.npz"])):
        records = [x for x in one.group_records("u") if x["metric"] == "acc_at_1"]
        shown = {x["group"]: (x["value"], x["queries"]) for x in records}
        assert shown == of_names(NAMES)
        numbers = [list(of_names(NAMES)).index(name) for name in NAMES]
        plain = report.evaluate(preds, target, groups={"u": numbers}, **options)
        for name, bounds in plain.intervals.items():  # clusters are summed in another order
            assert one.intervals[name] == pytest.approx(bounds, rel=1e-12)


def test_names_that_no_file_can_hold_are_refused() -> None:
    """Half of a character of UTF-16, which JSON can write, and a column with a NUL."""
    evaluator = report.Evaluator(k=1, num_locations=2)
    with pytest.raises(ValueError, match=r"`labels` must be text of whole characters, got '.ud800"):
        evaluator.add(Batch([[1]], [1], groups={"u": ["\ud800"]}))
    with pytest.raises(ValueError, match=r"names in `groups` must have no NUL, got '.x00target'"):
        evaluator.add(Batch([[1]], [1], groups={"\0target": [1]}))
