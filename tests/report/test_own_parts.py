"""A part of the user's own: counted with all others, merged, saved, and shown."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from nextloc_metrics import MRR, AccuracyAtK, Grouped, RankingCollection, report


class ByRemainder(report.Part):
    """The reciprocal rank by the remainder of the target."""

    title = "By remainder <of the target>"

    def __init__(self, divisor: int) -> None:
        self.divisor = divisor

    def groups(self, batch: Any) -> dict[str, Tensor]:
        """Return the remainders."""
        return {"remainder": batch.target % self.divisor}

    def make(self, known: Any, rows: Any) -> dict[str, RankingCollection]:
        """Count two metrics; several relevant locations have several remainders."""
        if known.has_several:
            return {}
        by: Any = {"num_groups": self.divisor, "by": "remainder"}
        metrics = {"mrr": Grouped(MRR(), **by), "hit": Grouped(AccuracyAtK(2), **by)}
        return {"each": RankingCollection(metrics), "all": RankingCollection({"mrr@2": MRR(2)})}


class Backwards(report.Part):
    """The model's scores, the worst first."""

    title = "Backwards"

    def feed(self, known: Any) -> Any:
        """Return what turns the scores round."""
        return turn

    def make(self, known: Any, rows: Any) -> dict[str, RankingCollection]:
        """Count what the first table has."""
        return {"": copy.deepcopy(rows[""])}


def turn(batch: Any, records: Any) -> Any:
    """Return a batch of scores with the opposite signs."""
    return type(batch)(-batch.preds, batch.target, batch.mask)


SCORES = torch.rand(60, 9, generator=torch.Generator().manual_seed(1))
TARGET = torch.arange(60) * 7 % 9


def own() -> dict[str, Any]:
    """Two parts, and a metric beside them."""
    return {"remainders": ByRemainder(3), "back": Backwards(), "mine": MRR(4)}


def rows_of(e: report.Evaluation, title: str) -> dict[tuple[str, str], tuple[float, Any]]:
    """The values and numbers of queries of a part, by metric and group."""
    found = [row for row in e.rows() if row["part"] == title]
    return {(x["metric"], x["group"]): (x["value"], x["queries"]) for x in found}


def test_its_values_are_those_of_its_metrics() -> None:
    """By group, and of other predictions; the first table is as without parts."""
    e = report.evaluate(SCORES, TARGET, k=2, metrics=own())
    expected = {("mrr@2", ""): (float(MRR(2)(SCORES, TARGET)), None)}
    for i in range(3):
        is_in = TARGET.remainder(3) == i
        for name, metric in (("mrr", MRR()), ("hit", AccuracyAtK(2))):
            value = float(metric(SCORES[is_in], TARGET[is_in]))
            expected[name, str(i)] = value, int(is_in.sum())
    found = rows_of(e, ByRemainder.title)
    assert found.keys() == expected.keys()
    for key, (value, number) in expected.items():
        assert found[key] == (pytest.approx(value, abs=1e-7), number)
    turned = report.evaluate(-SCORES, TARGET, k=2, metrics={"mine": MRR(4)})
    backwards = {name: value for (name, _), (value, _) in rows_of(e, "Backwards").items()}
    assert backwards == turned.values
    assert e.values == report.evaluate(SCORES, TARGET, k=2, metrics={"mine": MRR(4)}).values
    assert {name: rows_of(e, "value")[name, ""][0] for name in e.values} == e.values


def test_it_is_merged_saved_and_read_again(tmp_path: Path) -> None:
    """In any split; a file says which parts it has, with their options."""
    whole = report.evaluate(SCORES, TARGET, k=2, metrics=own())
    first, other = (report.Evaluator(k=2, num_locations=9, metrics=own()) for _ in range(2))
    first.update(SCORES[:23], TARGET[:23])
    other.update(SCORES[23:], TARGET[23:])
    first = report.Evaluator.from_bytes(first.to_bytes(), own())
    merged = first.merge(other).result()
    merged.save(tmp_path / "counts.npz")
    again = report.merge([tmp_path / "counts.npz"], metrics=own())
    for e in (merged, again, pickle.loads(pickle.dumps(whole))):
        assert list(e.rows()) == list(whole.rows())
    assert again.to_html() == merged.to_html()
    wrong = own() | {"remainders": ByRemainder(4)}
    with pytest.raises(ValueError, match=r"has counts of `metrics` remainders: ByRemainder\(div"):
        report.merge([tmp_path / "counts.npz"], metrics=wrong)


def test_it_has_a_section_and_a_table() -> None:
    """Under its title, which is escaped; a part that counts nothing has none."""
    e = report.evaluate(SCORES, TARGET, k=2, metrics=own())
    page = e.to_html()
    assert "By remainder &lt;of the target&gt;" in page
    assert "By remainder <of" not in page
    assert "hit, 2" in e.to_markdown()
    several = torch.stack([TARGET, (TARGET + 1) % 9], 1)
    assert not rows_of(report.evaluate(SCORES, several, k=2, metrics=own()), ByRemainder.title)


def test_a_comparison_has_no_parts() -> None:
    """They are for `evaluate`."""
    models = {"a": SCORES, "b": -SCORES}
    with pytest.raises(ValueError, match="`metrics` of a comparison must be fractions, got By"):
        report.compare(models, TARGET, metrics={"remainders": ByRemainder(3)})


def test_a_part_without_metrics_is_refused() -> None:
    """It must say what is counted."""
    with pytest.raises(NotImplementedError, match="`make` of Part must return collections"):
        report.evaluate(SCORES, TARGET, metrics={"part": report.Part()})
