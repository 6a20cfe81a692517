"""A file of counts is read as it was written, or it is an error that names the file."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nextloc_metrics import analysis, report
from nextloc_metrics.geography import Locations
from nextloc_metrics.report import saved
from nextloc_metrics.report.evaluation import Evaluation

REFUSED = "counts.npz must be a file that `Evaluation.save` wrote"


@cache
def evaluation() -> Evaluation:
    """An evaluation with a state of every kind."""
    generator = np.random.default_rng(0)
    return report.evaluate(
        generator.integers(0, 6, (40, 9)).astype(np.float32),
        generator.integers(0, 9, 40),
        k=3,
        groups={"user": [f"user {x % 7}" for x in range(40)], "hour": [x % 3 for x in range(40)]},
        cluster="user",
        train_counts=[5, 0, 3, 1, 1, 0, 9, 2, 4],
        locations=Locations.from_plane(range(9), range(9)),
        exclude=[[8]] * 40,
        exempt_target=True,
        history=analysis.predictability([0, 1, 2] * 100, [f"user {x % 5}" for x in range(300)]),
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of counts of the evaluation, which is computed and written once."""
    path = tmp_path_factory.mktemp("written") / "counts.npz"
    evaluation().save(path)
    return path.read_bytes()


@pytest.fixture
def path(written: bytes, tmp_path: Path) -> Path:
    """A file of these counts."""
    path = tmp_path / "counts.npz"
    path.write_bytes(written)
    return path


@cache
def arrays_of(written: bytes) -> dict[str, Any]:
    """The arrays of a file."""
    with np.load(io.BytesIO(written)) as packed:
        return {name: packed[name] for name in packed.files if name != "checksum"}


def contents(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the arrays of a file."""
    arrays = {name: array.copy() for name, array in arrays_of(path.read_bytes()).items()}
    return json.loads(str(arrays.pop("header"))), arrays


def rewrite(path: Path, header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write another content, with its right checksum."""
    text = json.dumps({**header, "arrays": saved.forms(arrays)})
    check = saved.checksum(text, arrays)
    np.savez(path, header=np.array(text), checksum=np.array(check), **arrays)


@pytest.mark.parametrize("number", [0, 4])
def test_a_perfect_model_and_none_are_read(number: int, tmp_path: Path) -> None:
    """Sums may be as large as the number of scores, also if that is 0."""
    path = tmp_path / "counts.npz"
    right = report.evaluate(np.tile([[2, 1, 0]], (number, 1)), np.full(number, 2), k=1)
    right.save(path)
    assert str(report.merge([path])) == str(right)


@pytest.mark.slow
def test_what_was_saved_is_read(path: Path) -> None:
    """All numbers and tables are those of the evaluation."""
    whole = evaluation()
    for _ in range(2):
        assert report.merge([path]).to_markdown() == whole.to_markdown()
        rewrite(path, *contents(path))  # as the changes below, but without a change


def negate(name: str) -> Callable[[Any, Any], None]:
    """Negate one array."""

    def change(_header: Any, arrays: Any) -> None:
        arrays[name] = -arrays[name]

    return change


def put(name: str, at: Any, value: int) -> Callable[[Any, Any], None]:
    """Set one number of an array."""

    def change(_header: Any, arrays: Any) -> None:
        arrays[name][at] = value

    return change


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "a key is missing": lambda _, arrays: arrays.pop("/mrr"),
    "a key too many": lambda _, arrays: arrays.update(more=np.zeros(3, np.int64)),
    "a wrong shape": lambda _, arrays: arrays.update({"/mrr": np.zeros(4, np.int64)}),
    "a wrong dtype": lambda _, arrays: arrays.update({"/mrr": np.zeros(3)}),
    "negated sums": negate("/mrr"),
    "negated sums of groups": negate("by user/mrr"),
    "negated counts": negate("/f1"),
    "negated distances": negate("/mean_distance"),
    "negated deciles": negate("deciles/ndcg_at_3_decile_01"),
    "negated k of deciles": negate("deciles/k_for_recall_50_decile_01"),
    "negated shares": negate("deciles/prediction_share_at_3_decile_01"),
    "negated references": negate("most frequent/mrr"),
    "negated visits": negate("train_counts"),
    "negated pairs": negate("by hour/mrr"),
    "pairs that do not add up": put("by hour/mrr", (0, 3), 0),
    "pairs in another order": lambda _, x: x.update({"by hour/mrr": x["by hour/mrr"][::-1]}),
    "a pair of no group": put("by hour/mrr", (-1, 0), 9 << 32),
    "a pair of a negative group": put("by hour/mrr", (0, 0), -1),
    "a pair of no cluster": put("by hour/mrr", (-1, 0), (2 << 32) + 7),
    "pairs in a wrong shape": lambda _, x: x.update({"by hour/mrr": x["by hour/mrr"][None]}),
    "pairs without a number": lambda _, x: x.update({"by hour/mrr": x["by hour/mrr"][:, 1:]}),
    "too few pairs": lambda _, x: x.update({"by hour/mrr": x["by hour/mrr"][:-1]}),
    "no pairs": lambda _, arrays: arrays.pop("by hour/mrr"),
    "more than one for each query": put("optimistic/mrr", 0, 41 << 32),
    "squares above scores": put("optimistic/mrr", 1, 1 << 40),
    "more scores than queries": put("optimistic/mrr", 2, 41),
    "groups that do not add up": put("by user/mrr", (0, 2), 30),
    "more hits than decisions": put("/f1", (0, 8), 30),
    "more decisions than targets": put("/f1", (1, 8), 40),
    "more targets than queries": put("/f1", (2, 8), 50),
    "more k than queries": put("deciles/k_for_recall_50_decile_01", (1, 1), 41),
    "distances in no bin": put("/median_distance", 5, 41),
    "another bin": put("bin_of", 0, 2),
    "other coordinates": put("points", (0, 0), 7),
    "k": lambda header, _: header["setting"].update(k=[1, 5]),
    "a negative k": lambda header, _: header["setting"].update(k=[-3]),
    "no k": lambda header, _: header["setting"].pop("k"),
    "a k of text": lambda header, _: header["setting"].update(k="abc"),
    "a number as k": lambda header, _: header["setting"].update(k=3),
    "huge k": lambda header, _: header["setting"].update(k=[1, 10**30]),
    "many locations": lambda header, _: header["setting"].update(num_locations=10**12),
    "confidence_level": lambda header, _: header["setting"].update(confidence_level=95),
    "a cluster of no group": lambda header, _: header["setting"].update(cluster="city"),
    "groups": lambda header, _: header["setting"].update(groups=["user"]),
    "labels": lambda header, _: header["labels"].update(user=["ann"]),
    "labels twice": lambda header, _: header["labels"].update(hour=["1", "1", "2"]),
    "no labels": lambda header, _: header.pop("labels"),
    "another version": lambda header, _: header.update(version=99),
    "no queries": lambda header, _: header["card"].pop("queries"),
    "fewer queries": lambda header, _: header["card"].update(queries=39),
    "text on the card": lambda header, _: header["card"].update(tied="many"),
    "a negative number on the card": lambda header, _: header["card"].update(tied=-1),
    "more tied than queries": lambda header, _: header["card"].update(tied=41),
}


@pytest.mark.parametrize(
    "name",  # each makes all metrics anew
    [pytest.param(x, marks=[pytest.mark.slow] * (i % 4 > 0)) for i, x in enumerate(CHANGES)],
)
def test_a_changed_content_is_an_error(name: str, path: Path) -> None:
    """With the old checksum always, and with a new one if the numbers do not fit."""
    header, arrays = contents(path)
    CHANGES[name](header, arrays)
    rewrite(path, header, arrays)
    with pytest.raises(ValueError, match=REFUSED):
        report.merge([path])


def test_a_plausible_change_is_found_by_the_checksum(path: Path) -> None:
    """One hit more is within all bounds."""
    header, arrays = contents(path)
    with np.load(path) as packed:
        check = packed["checksum"]
    arrays["optimistic/mrr"][:2] += 1
    np.savez(path, header=np.array(json.dumps(header)), checksum=check, **arrays)
    with pytest.raises(ValueError, match=r"its checksum shows that it was changed; save the"):
        report.merge([path])


def put_in(path: Path, header: dict[str, Any], size: int) -> None:
    """Add 16 MB of zeros to a file, compressed, and give them a size in the directory."""
    zeros = io.BytesIO()
    np.save(zeros, np.zeros(2 << 20, np.int64))
    with np.load(path) as packed:
        arrays = {name: packed[name] for name in packed.files}
    with path.open("wb") as file:
        np.savez_compressed(file, **{**arrays, "header": np.array(json.dumps(header))})
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("x.npy", zeros.getvalue())
        packed.getinfo("x.npy").file_size = size or len(zeros.getvalue())


@pytest.mark.parametrize(
    ("announced", "size", "limit", "says"),
    [
        (None, 0, 1 << 28, "its arrays are not those of its header"),
        (["<i8", [9]], 0, 1 << 28, "x.npy is not what its header announces"),
        (["<i8", [2 << 20]], 200, 1 << 28, "reading it failed with BadZipFile"),
        (["<i8", [2 << 20]], 0, 1 << 23, "it would unpack to 1[67],"),
    ],
)
def test_no_more_is_unpacked_than_the_header_announces(
    announced: Any, size: int, limit: int, says: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """16 MB of zeros in a small file: forgotten, smaller in a header, too large."""
    header, arrays = contents(path)
    header["arrays"] = saved.forms(arrays) | ({} if announced is None else {"x": announced})
    put_in(path, header, size)
    assert path.stat().st_size < 1 << 18
    monkeypatch.setattr(saved, "_MOST_INFLATED", limit)
    with pytest.raises(ValueError, match=says):
        report.merge([path])


def test_large_counts_are_not_compressed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the bytes that a reader unpacks they are stored as they are, and are read."""
    small = path.stat().st_size
    monkeypatch.setattr(saved, "_MOST_INFLATED", 1000)
    with pytest.raises(ValueError, match="it would unpack to"):
        report.merge([path])
    evaluation().save(path, force=True)
    assert path.stat().st_size > 2 * small
    assert str(report.merge([path])) == str(evaluation())


def test_counts_are_no_picture_and_no_page(tmp_path: Path) -> None:
    """A name of another kind of file is refused, and nothing is written."""
    with pytest.raises(ValueError, match=r"`path` must end with .npz, got 'e.pdf'; a page is"):
        evaluation().save(tmp_path / "e.pdf")
    assert not list(tmp_path.iterdir())


def test_other_files_are_refused(tmp_path: Path) -> None:
    """Another .npz, an .npy, a file of Parquet, pickled objects: not with NumPy's advice."""
    path = tmp_path / "counts.npz"
    with path.open("wb") as file:
        np.savez(file, preds=np.zeros((2, 3)), target=np.zeros(2))
    with pytest.raises(ValueError, match=rf"{REFUSED}, but it has no header"):
        report.merge([path])
    for objects in (np.array("{}"), np.array({}, dtype=object), np.zeros(2)):
        with path.open("wb") as file:
            np.savez(file, header=objects)
        with pytest.raises(ValueError, match=REFUSED) as found:
            report.merge([path])
        assert "pickle" not in str(found.value)
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(ValueError, match=rf"{REFUSED}, but it is cut, or no .npz file"):
        report.merge([path])


def test_a_pattern_is_no_list_of_files() -> None:
    """A text would be read letter by letter."""
    with pytest.raises(TypeError, match=r"`shards` must be a list .* got 'p\*.npz'; .*glob"):
        report.merge("p*.npz")
