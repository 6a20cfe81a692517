"""A file of counts is read as it was written, or it is an error that names the file."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from command import main
from inner import saved
from nextloc_metrics import report
from nextloc_metrics.geography import Locations
from nextloc_metrics.report import Evaluation

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
    text = json.dumps(header)
    check = saved.checksum(text, arrays)
    np.savez(path, header=np.array(text), checksum=np.array(check), **arrays)


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "a key is missing": lambda _, arrays: arrays.pop("/mrr"),
    "a wrong shape": lambda _, arrays: arrays.update({"/mrr": np.zeros(4, np.int64)}),
    "a wrong dtype": lambda _, arrays: arrays.update({"/mrr": np.zeros(3)}),
    "groups in a wrong shape": lambda _, x: x.update({"by user/mrr": x["by user/mrr"][:, 1:]}),
    "pairs without a number": lambda _, x: x.update({"by hour/mrr": x["by hour/mrr"][:, 1:]}),
    "no k": lambda header, _: header["setting"].pop("k"),
    "no labels": lambda header, _: header.pop("names"),
    "another version": lambda header, _: header.update(version=99),
}


@pytest.mark.parametrize(
    "name",  # each makes all metrics anew
    [pytest.param(x, marks=[pytest.mark.slow] * (i % 4 > 0)) for i, x in enumerate(CHANGES)],
)
def test_a_content_of_another_form_is_an_error(name: str, path: Path) -> None:
    """Also with its right checksum, as of another version or of a metric that was edited since."""
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


# Two evaluations ---------------------------------------------------------------------------------


def evaluated(hits: Any, users: Any = None) -> Evaluation:
    """Lists of one id, which are right where `hits` is 1."""
    options: Any = {} if users is None else {"groups": {"user": users}, "cluster": "user"}
    preds = np.asarray(hits, dtype=int)[:, None]
    return report.evaluate(preds, [1] * len(preds), k=1, num_locations=3, **options)


def test_the_difference_of_two_shares_is_newcombes() -> None:
    """56 of 70 less 48 of 80, in table II of Newcombe (1998), by method 10."""
    both = {"b": evaluated([1] * 48 + [0] * 32), "a": evaluated([1] * 56 + [0] * 14)}
    found = report.compare(both)
    one = found.comparisons["a"]["acc_at_1"]
    assert (one.low, one.high) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert one.difference == pytest.approx(0.2)
    assert "intervals of differences: independent" in str(found)
    assert "b: 80 queries, a: 70 queries" in str(found)
    assert "nan" not in str(found) + found.to_latex("models") + found.to_markdown()
    with pytest.raises(ValueError, match="`models` must be two evaluations, or files of them, got"):
        report.compare({**both, "c": [[1]]})


def test_users_of_both_files_are_paired_by_name(tmp_path: Path) -> None:
    """The interval is that of each user's difference; of other users, that of independent ones."""
    rng = np.random.default_rng(0)
    users, ability = np.repeat(np.arange(300), 20), rng.beta(1, 1, 300)
    hits = {day: rng.random(6000) < ability[users] for day in ("monday", "tuesday")}
    order = rng.permutation(6000)
    one = evaluated(hits["monday"], users.astype(str))
    other = evaluated(hits["tuesday"][order], users[order].astype(str))
    strangers = evaluated(hits["tuesday"], [f"new {x}" for x in users])
    paths = {}
    for name, e in (("monday", one), ("tuesday", other)):
        e.save(tmp_path / f"{name}.npz")
        paths[name] = tmp_path / f"{name}.npz"
    found = report.compare(paths).comparisons["tuesday"]["mrr"]
    alone = report.compare({"monday": one, "tuesday": strangers})
    each = np.array([np.diff([hits[x][users == u].mean() for x in hits])[0] for u in range(300)])
    error = each.std(ddof=1) / np.sqrt(300)
    assert found.difference == pytest.approx(each.mean())
    assert (found.high - found.low) / 2 == pytest.approx(1.968 * error, rel=0.01)
    apart = alone.comparisons["tuesday"]["mrr"]
    assert apart.high - apart.low > 3 * (found.high - found.low)
    assert "by user (300 in both), F1 as independent" in str(report.compare(paths))
    assert "independent" in alone.card["intervals"]
    assert (alone.card["queries"], apart.num_queries) == (12_000, 12_000)
    command = CliRunner().invoke(main, ["compare", *map(str, paths.values()), "--format", "json"])
    (shown,) = json.loads(command.stdout)["comparisons"].values()
    assert (shown["mrr"]["low"], shown["mrr"]["high"]) == (found.low, found.high)


def test_a_file_of_0_6_0_is_read_and_added_to() -> None:
    """It holds three lists of two users, ann's at the ranks 1 and 2 and bob's a miss."""
    kept = Path(__file__).with_name("saved_by_0_6_0.npz")
    found = report.merge([kept])
    assert found.values["acc_at_1"] == pytest.approx(1 / 3)
    assert found.values["acc_at_2"] == pytest.approx(2 / 3)
    assert found.values["mrr"] == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert found.values["f1"] == pytest.approx(1 / 3)  # location 3 alone is decided rightly
    table = found.groups["user"].to_pandas()
    assert [x for x in table.index if "mrr" in x] == ["mrr, ann", "mrr, bob"]
    assert table.loc["mrr, ann", "value"] == 0.75
    given: Any = {"k": (1, 2), "users": ["cem"], "num_locations": 9}
    both = report.merge([kept, report.evaluate([[6, 5]], [5], **given)])
    assert both.values["mrr"] == pytest.approx((1 + 1 / 2 + 0 + 1 / 2) / 4)
    assert both.card["queries"] == 4


def test_refusals_of_0_6_0_are_unreadable_answers() -> None:
    """Two of six answers were counted apart from the one that was unreadable, by user ann."""
    found = report.merge([Path(__file__).with_name("answers_saved_by_0_6_0.npz")])
    shares = {"answered": 2, "empty": 1, "cut": 0, "unreadable": 3}
    for name, number in shares.items():
        assert found.card[name] == number
        assert found.values[name] == pytest.approx(number / 6)
    assert "refused" not in {**found.values, **found.card}
    table = found.groups["user"].to_pandas()["value"]
    assert [table[f"unreadable, {x}"] for x in ("ann", "bob", "cem")] == [0.5, 0.5, 0.5]
    again = report.evaluate(
        report.read_answers(
            ['["Cafe"]', "x", "sorry", '["Home", "Mars"]', "", "I am sorry"],
            ids=["Cafe", "Home", "Zoo"],
        ),
        [0, 0, 1, 0, 1, 2],
        k=1,
        users=["ann", "ann", "bob", "bob", "cem", "cem"],
    )
    assert found.values == again.values
    assert found.intervals["unreadable"] == again.intervals["unreadable"]
