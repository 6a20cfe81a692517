"""The README's code runs as it stands, and prints what it shows."""

from __future__ import annotations

import math
from pathlib import Path
from runpy import run_path

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from nextloc_metrics import next_location_metrics

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Lightning's, about this small example
def test_the_readme_prints_what_it_shows() -> None:
    """Its module logs values in Lightning, and its metric averages over ties."""
    pl = pytest.importorskip("pytorch_lightning")
    run = run_path(str(ROOT / "tools/readme.py"))["run"]
    names, lacking = run(ROOT / "README.md")
    assert lacking == []
    trainer = pl.Trainer(logger=False, enable_progress_bar=False, enable_checkpointing=False)
    rows = DataLoader(TensorDataset(torch.rand(7, 8), torch.arange(7)), batch_size=4)
    (values,) = trainer.validate(names["Model"](), rows, verbose=False)
    assert set(values) == set(next_location_metrics(num_locations=50, prefix="val/").keys())
    metric = names["Decay"]()
    metric.update(torch.zeros(1, 4), torch.tensor([2]))
    assert float(metric.compute()) == pytest.approx(math.fsum(0.8**x for x in range(4)) / 4)
