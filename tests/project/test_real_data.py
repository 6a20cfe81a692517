"""Real check-ins and real predictions of a language model, from ../shared/data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import ceiling
import uncertainty
from check_ins import CheckIns, read_parts
from geography import read_check_ins
from models import Markov, MostVisited
from nextloc_metrics import report

pytestmark = pytest.mark.extra

LOCATIONS = 3818


@pytest.fixture(scope="module")
def lists(data: Path) -> tuple[Tensor, Tensor]:
    """Return the ranked lists of a language model and the targets."""
    file = data / "llm_mob" / "foursquare_top10.npz"
    if not file.is_file():
        pytest.skip("needs ../shared/data/llm_mob/foursquare_top10.npz")
    with np.load(file) as packed:
        stored = dict(packed)
    # In 29 lists the only entry is -100, for a missing answer; -1 is the padding of this library.
    return torch.from_numpy(stored["preds"]).clamp(min=-1), torch.from_numpy(stored["targets"])


def test_limits_of_the_page_on_the_ceiling(data: Path) -> None:
    """docs/uncertainty.md has these rows; random orders have nearly the same limit."""
    file = data / "nyc_with_coordinates" / "check_ins.npz"
    if not file.is_file():
        pytest.skip("needs ../shared/data/nyc_with_coordinates/check_ins.npz")
    limits, values = ceiling.compare_with_ceiling(read_check_ins(file)[0])
    table = (Path(__file__).parents[2] / "docs" / "uncertainty.md").read_text(encoding="utf-8")
    assert "New York City, 489 users with at least 100 visits" in table
    assert (len(limits.users), int(limits.few_visits.sum())) == (1083, 1083 - 489)
    for row in ceiling.rows(values):
        assert row in table, row
    means = [mean.value for mean in values.values()]
    assert means == sorted(means)
    assert values["limit"].value - values["limit (shuffled)"].value < 0.05


def test_intervals_of_the_page_on_uncertainty(data: Path) -> None:
    """docs/uncertainty.md has this table, docs/comparing.md the difference of the two models."""
    folder = data / "foursquare_nyc"
    if not folder.is_dir():
        pytest.skip("needs ../shared/data/foursquare_nyc")
    check_ins = CheckIns.from_table(read_parts(folder))
    found = {
        name: uncertainty.evaluate(model, check_ins)
        for name, model in (("visited", MostVisited(check_ins)), ("markov", Markov(check_ins)))
    }
    lines = uncertainty.format_table(found["visited"], LOCATIONS - 2).splitlines()
    table = (Path(__file__).parents[2] / "docs" / "uncertainty.md").read_text(encoding="utf-8")
    for line in lines:
        assert line in table
    # the intervals overlap, and the paired difference is significant
    low, _ = found["markov"].by_user["MRR"].interval()
    _, high = found["visited"].by_user["MRR"].interval()
    assert low < high
    both = {name: found[name].kept for name in ("visited", "markov")}
    by_user: dict[str, Any] = {"groups": {"user": found["markov"].users}, "cluster": "user"}
    compared = report.compare(both, **by_user).comparisons["markov"]["score"]
    page = (Path(__file__).parents[2] / "docs" / "comparing.md").read_text(encoding="utf-8")
    assert repr(compared).split(", p =")[0] in page
    assert compared.p_value < 0.001


def test_stored_answers_have_their_printed_numbers(
    data: Path, lists: tuple[Tensor, Tensor]
) -> None:
    """All 39 models of GenUP, and LLM-Mob, from text; 29 answers of LLM-Mob are empty."""
    parquet = pytest.importorskip("pyarrow.parquet")
    preds, target = lists
    texts = [json.dumps([x for x in row if x >= 0]) for row in preds.tolist()]
    answers = report.read_answers(texts, ids=range(LOCATIONS))
    e = report.evaluate(answers, target, k=(1, 5, 10))
    printed = {"acc_at_1": 0.232271, "acc_at_5": 0.573594, "acc_at_10": 0.692447}
    for name, value in (printed | {"ndcg_at_10": 0.451073, "mrr": 0.374989}).items():
        assert e.values[name] == pytest.approx(value, abs=5e-7)
    assert (e.card["num_asked"], e.card["answered"], e.card["empty"]) == (12141, 12112, 29)
    if not (data / "genup").is_dir():
        pytest.skip("needs ../shared/data/genup")
    stored = json.loads((data / "genup" / "accuracies.json").read_text(encoding="utf-8"))
    for name, accuracies in stored.items():
        table = parquet.read_table(data / "genup" / f"{name}.parquet")
        words = table["target"].to_pylist()
        ids = sorted(set(words))
        number = {word: i for i, word in enumerate(ids)}
        for model, accuracy in accuracies.items():
            answers = report.read_answers(table[model], ids=ids, form="lines")
            e = report.evaluate(answers, [number[word] for word in words], k=1)
            assert e.values["acc_at_1"] == pytest.approx(accuracy, abs=1e-9)
            assert e.card["unreadable"] == e.card["cut"] == 0
    assert sum(map(len, stored.values())) == 39
