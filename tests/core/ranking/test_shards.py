"""Evaluations of parts add up to the evaluation of the whole, or an error says why not."""

from __future__ import annotations

import runpy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nextloc_metrics import report
from nextloc_metrics.report import Evaluation

COUNTS = [5, 0, 3, 1, 1, 0, 9, 2, 4]


def batch(number: int = 60) -> dict[str, Any]:
    """Scores with ties, targets, groups as text and as numbers, and excluded candidates."""
    generator = np.random.default_rng(0)
    return {
        "preds": generator.integers(0, 6, (number, 9)).astype(np.float32),
        "target": generator.integers(0, 9, number),
        "user": np.array([f"user {x}" for x in generator.integers(0, 12, number)]),
        "hour": generator.integers(-3, 20, number),
        "exclude": generator.integers(0, 9, (number, 2)),
    }


def evaluate(rows: Any, **options: Any) -> Evaluation:
    """Evaluate some rows of the batch."""
    data = batch()
    return report.evaluate(
        data["preds"][rows],
        data["target"][rows],
        **{
            "groups": {"user": data["user"][rows], "hour": data["hour"][rows]},
            "cluster": "user",
            "train_counts": COUNTS,
            "exclude": data["exclude"][rows],
            "exempt_target": True,
            **options,
        },
    )


@cache
def of_all_rows() -> Evaluation:
    """The evaluation of all rows of the batch."""
    return evaluate(slice(None))


def same(merged: Evaluation, whole: Evaluation) -> None:
    """Two evaluations print the same."""
    assert merged.card == whole.card
    for name in ("values", "intervals", "table", "chance", "baseline", "ties", "groups"):
        assert str(getattr(merged, name)) == str(getattr(whole, name)), name
    assert str(merged.deciles) == str(whole.deciles)


@pytest.mark.slow
def test_files_of_counts(tmp_path: Path) -> None:
    """What was saved is read back; merged evaluations are saved and merged again."""
    for number in range(3):
        evaluate(slice(20 * number, 20 * number + 20)).save(tmp_path / f"{number}.npz")
    names = [tmp_path / f"{number}.npz" for number in range(3)]
    report.merge(names[:2]).save(tmp_path / "both.npz")
    merged = report.merge([tmp_path / "both.npz", str(names[2])])
    same(merged, of_all_rows())
    with pytest.raises(FileExistsError, match=r"exists; overwrite it with `force=True`"):
        merged.save(names[0])
    merged.save(names[0], force=True)
    same(report.merge(names[:1]), of_all_rows())
    assert not list(tmp_path.glob(".*"))


def test_several_relevant_locations_and_chance() -> None:
    """Chance is computed per query, as queries have different numbers of relevant locations."""
    preds, target = torch.eye(5)[:4], [[0, 1], [1, -1], [2, 3], [4, -1]]
    whole = report.evaluate(preds, target, k=1)
    parts = [report.evaluate(preds[i : i + 2], target[i : i + 2], k=1) for i in (0, 2)]
    same(report.merge(parts), whole)
    assert whole.chance["hit_rate_at_1"] == pytest.approx((2 / 5 + 1 / 5 + 2 / 5 + 1 / 5) / 4)


def test_chance_counts_what_is_left() -> None:
    """Of five candidates, three were excluded for one query and none for another."""
    e = report.evaluate(torch.eye(5)[:2], [0, 1], k=1, exclude=[[2, 3, 4], [-1, -1, -1]])
    assert e.chance["acc_at_1"] == pytest.approx((1 / 2 + 1 / 5) / 2)
    assert e.card["excluded"] == "given ids"


def lists(**options: Any) -> Evaluation:
    """Evaluate two lists."""
    return report.evaluate([[3, 5], [4, 2]], [3, 2], **{"num_locations": 9, "k": 1, **options})


def test_an_evaluation_is_known_by_its_id(tmp_path: Path) -> None:
    """Also from a file and as a part of what was merged; equal rows are another evaluation."""
    saved, both = tmp_path / "one.npz", tmp_path / "both.npz"
    (one := lists()).save(saved)
    report.merge([one, lists()]).save(both)
    for other in (saved, both):
        with pytest.raises(ValueError, match=f"in evaluation 0 and {other}; leave one of them out"):
            report.merge([one, other])
    assert report.merge([lists(), both]).card["queries"] == 6


def test_what_was_stopped_goes_on(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`score_shards.py` counts the parts that have no file of counts, and every part once."""
    data, save = batch(), Evaluation.save
    main = runpy.run_path(str(repository / "examples" / "score_shards.py"))["main"]
    folders = [str(tmp_path / name) for name in ("parts", "out")]
    (tmp_path / "parts").mkdir()
    for number in range(4):
        rows = slice(15 * number, 15 * number + 15)
        columns = {name: data[name][rows] for name in ("preds", "target", "user")}
        np.savez(tmp_path / "parts" / f"{number}.npz", **columns)

    def dying(self: Evaluation, path: Path) -> None:
        save(self, path)
        raise KeyboardInterrupt

    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(Evaluation, "save", dying)
    with pytest.raises(KeyboardInterrupt):
        main(folders)
    monkeypatch.setattr(Evaluation, "save", save)
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        main(folders)
        assert len(list((tmp_path / "out").iterdir())) == 2 + 2 * int(rank)
    whole = report.evaluate(
        data["preds"], data["target"], groups={"user": data["user"]}, cluster="user"
    )
    same(report.merge(sorted((tmp_path / "out").iterdir())), whole)
