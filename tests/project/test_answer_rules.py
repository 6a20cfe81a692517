"""The example on the rules of public codes, and the page with what it prints."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import answer_rules

PAGE = Path(__file__).parents[2] / "docs" / "answers.md"


def test_each_rule_counts_what_its_code_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four lists by hand: a hit, a repeat, an empty answer, a hit at rank 2 among others."""
    lists = [[3, 0, 1, *range(4, 11)], [5, 2, 2], [-100], [6, 1]]
    preds = np.array([row + [-1] * (10 - len(row)) for row in lists])
    np.savez(tmp_path / "a.npz", preds=preds, targets=[3, 2, 1, 1])
    pd.DataFrame({"target": ["12", "312"], "m": ["12", "the 3rd answer: 12"]}).to_parquet(
        tmp_path / "b.parquet"
    )
    found = answer_rules.main([str(tmp_path / "a.npz"), str(tmp_path / "b.parquet")])
    one = found["a"]
    assert one["exact"] == pytest.approx([25, 75])
    assert one["TOOL4POI"] == one["exact"]
    assert one["CLSPRec"] == pytest.approx([25, 100])  # a miss is made good by a repeat
    assert one["RALLM-POI"] == pytest.approx([100 / 3, 400 / 3])
    assert one["LLMMove"] == pytest.approx([75, 75])  # 4 to 6 are no candidates
    assert (one["GenUP"][0], one["GA-LLM"][0], one["LLM4POI"][0]) == (0, 0, 25)
    assert found["m"]["GenUP"] == [100]  # right for the wrong reason
    assert found["m"]["exact"] == [50]
    assert "CLSPRec    25.00 100.00" in capsys.readouterr().out


@pytest.mark.extra  # reads real data
def test_the_page_has_what_the_example_prints(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each row on LLM-Mob; on GenUP all rules agree with the exact value."""
    files = [data / "llm_mob" / "foursquare_top10.npz", data / "genup" / "foursquare_nyc.parquet"]
    if not all(file.is_file() for file in files):
        pytest.skip("needs ../shared/data/llm_mob and ../shared/data/genup")
    found = answer_rules.main([str(file) for file in files])
    capsys.readouterr()
    rows = re.findall(
        r"^\| ([\w-]+) \| [^|]+ \| +([\d.]+) \| *([\d.]*) *\|$", PAGE.read_text("utf-8"), re.M
    )
    assert [row[0] for row in rows] == [*answer_rules.RULES, "exact"]
    for name, *cells in rows:
        values = found["foursquare_top10"][name]
        assert [cell or "nan" for cell in cells] == [f"{value:.2f}" for value in values], name
    del found["foursquare_top10"]
    assert len(found) == 13
    for model, values in found.items():
        # CLSPRec and RALLM-POI sum in float32
        exact = pytest.approx(values["exact"], abs=1e-5)
        assert all(row == exact for row in values.values()), model
