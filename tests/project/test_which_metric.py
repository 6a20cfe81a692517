"""The page on which metric to report, and its table of unseen locations."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

from check_ins import UNSEEN, CheckIns, read_parts, simulate_check_ins, split_in_time
from models import Markov
from nextloc_metrics import report

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script that computes the table."""
    spec = importlib.util.spec_from_file_location("which_metric", DOCS / "which_metric.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def simulated() -> CheckIns:
    """Check-ins of 30 users, some of them at locations that the training part never visits."""
    check_ins = simulate_check_ins(30, num_visits=120, num_locations=400, gamma=0.1)
    return CheckIns.from_table(split_in_time(check_ins))


def test_a_miss_is_the_value_left_out_times_the_share_of_seen_targets(
    script: ModuleType, simulated: CheckIns
) -> None:
    """The rule holds for accuracy, MRR and NDCG; F1 has no such rule."""
    data = script.with_unseen_visits(simulated)
    found = script.evaluate(Markov(data), simulated)
    targets = simulated.location[simulated.queries(2)]
    seen = float((targets != UNSEEN).double().mean())
    assert 0.5 < seen < 0.98
    missed, left_out = found["a miss"].compute(), found["left out"].compute()
    assert found["a miss"]["mrr"].num_queries == len(targets)
    for name in ("acc_at_1", "acc_at_5", "acc_at_10", "mrr", "ndcg_at_10"):
        assert float(missed[name]) == pytest.approx(float(left_out[name]) * seen, abs=1e-6)
    assert float(missed["f1"]) != pytest.approx(float(left_out["f1"]) * seen, abs=1e-3)
    as_candidate = found["a candidate"].compute()
    assert as_candidate["acc_at_10"] > missed["acc_at_10"]


@pytest.mark.extra  # reads real data
def test_the_page_has_the_rows_that_the_script_computes(script: ModuleType, data: Path) -> None:
    """On the real check-ins: a constant model, a model of counts, and a small vocabulary."""
    folder = data / "foursquare_nyc"
    if not folder.is_dir():
        pytest.skip("needs ../shared/data/foursquare_nyc")
    check_ins = CheckIns.from_table(read_parts(folder))
    counted = script.with_unseen_visits(check_ins)
    often = check_ins.training_counts() >= 10
    merged = script.merge(check_ins, often)
    page = (DOCS / "evaluation.md").read_text(encoding="utf-8")
    models = [
        (script.always_unseen(check_ins), check_ins),
        (Markov(counted), check_ins),
        (Markov(script.merge(counted, often)), merged),
    ]
    found = [script.evaluate(model, read) for model, read in models]
    for treatment in ("a candidate", "left out", "a miss"):
        shown = [f"{100 * of[treatment].compute()['acc_at_1']:.2f}" for of in found]
        if treatment != "a candidate":
            shown[0] = ""
        row = "|".join(f" {x} " if x else " " for x in [treatment, *shown])
        assert f"|{row}|" in page, row


def test_the_error_of_an_unseen_target_gives_the_advice_of_the_page() -> None:
    """Such a query is a miss in the denominator, and its column of -inf is that of the page."""
    scores, advice = torch.tensor([[0.9, 0.1], [0.8, 0.2]]), "pad(scores, (0, 1), value=-torch.inf)"
    assert advice in (DOCS / "evaluation.md").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match=r"below the 2 candidates, got 2; count .* as misses") as e:
        report.evaluate(scores, [0, 2])
    assert advice in str(e.value)
    assert "exclude" not in str(e.value)
    padded = torch.nn.functional.pad(scores, (0, 1), value=-torch.inf)
    assert report.evaluate(padded, [0, 2], k=1).values["acc_at_1"] == 0.5
    with pytest.raises(ValueError, match=r"got -1; exclude queries without a location with `ign"):
        report.evaluate(scores, [1, -1])
