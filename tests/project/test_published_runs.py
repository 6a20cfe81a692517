"""The example on published answers of language models, and the page with what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
import scipy.stats

import published_receipts
import published_runs


def test_answers_are_compared_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Stored accuracy, count, letters and ids above; a data set with one model is left out."""
    target = [str(i % 7) for i in range(60)]
    models = {
        "Meta-good-POI": target[:50] + ["90"] * 10,
        "other": target[:49] + ["no id"] * 11,
        "bad": ["x", *target[:9], *["8"] * 50],
    }
    pd.DataFrame({"target": target, **models}).to_parquet(tmp_path / "one.parquet")
    hits = {
        name: sum(a == b for a, b in zip(of, target, strict=True)) for name, of in models.items()
    }
    stored = {"one": {name: x / 60 for name, x in hits.items()}, "alone": {"other": 0.5}}
    (tmp_path / "accuracies.json").write_text(json.dumps(stored), "utf-8")
    found = published_runs.main([str(tmp_path)])["one"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "one: 60 queries"
    cells = [line.split() for line in lines[3:6]]
    assert [(x[0], x[1], x[2], x[-2], x[-1]) for x in cells] == [
        ("good", "83.33", "83.33", "a", "10"),
        ("other", "81.67", "81.67", "a", "0"),
        ("bad", "0.00", "0.00", "b", "50"),
    ]
    assert lines[6] == "2 of 3 differences hold, the smallest: 81.67 points"
    p = found.pairs["Meta-good-POI", "bad"]["acc_at_1"].p_value
    assert p == pytest.approx(scipy.stats.binomtest(0, 50).pvalue)


@pytest.mark.extra
def test_the_page_has_what_the_example_prints(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What holds in New York and Moscow; each stored accuracy is the one that is counted."""
    folder = data / "genup"
    if not folder.is_dir():
        pytest.skip("needs ../shared/data/genup")
    found = published_runs.main([str(folder)])
    page = (Path(__file__).parents[2] / "docs" / "published.md").read_text("utf-8")
    tables = capsys.readouterr().out.strip().split("\n\n")
    for table in tables[:2]:
        assert table.splitlines()[-2] in " ".join(page.split())
    stored = json.loads((folder / "accuracies.json").read_text("utf-8"))
    for name, one in found.items():
        for model, values in one.values.items():
            assert values["acc_at_1"] == pytest.approx(stored[name][model], abs=1e-12)
    letters = [of["acc_at_1"] for of in found["foursquare_nyc"].letters.values()]
    assert sum("a" in of for of in letters) >= 5
    moscow = {of["acc_at_1"] for of in found["foursquare_moscow"].letters.values()}
    assert moscow == {"a", "b"}


@pytest.mark.slow  # reads real data
def test_the_receipts_are_those_of_the_answers(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All 40 receipts are equal, as are stored and counted values; the page has the tables."""
    if not (data / "genup").is_dir() or not (data / "llm_mob").is_dir():
        pytest.skip("needs ../shared/data/genup and llm_mob")
    assert published_receipts.main([str(data)]) == 0
    table = capsys.readouterr().out
    assert table in (Path(__file__).parents[2] / "docs" / "published.md").read_text("utf-8")
    rows = [x.replace("- ", "-").split() for x in table.splitlines()[1:] if "queries" not in x]
    assert len(rows) == 40 == len([*published_receipts.RECEIPTS.iterdir()])
    assert {len(row) for row in rows} == {5}


def test_a_changed_answer_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program writes a receipt, verifies it, and fails for a file with another answer."""
    monkeypatch.setattr(published_receipts, "RECEIPTS", tmp_path / "receipts")
    folder = tmp_path / "genup"
    folder.mkdir()
    known = folder / "accuracies.json"
    cases = (("4", 0.75, ["--write"], 0), ("4", 0.75, [], 0), ("4", 0.7, [], 1), ("5", 0.75, [], 1))
    for answer, stored, arguments, code in cases:
        known.write_text(json.dumps({"one": {"Meta-good-POI": stored}}), "utf-8")
        answers = {"target": ["1", "2", "3", "4"], "Meta-good-POI": ["1", "2", "9", answer]}
        pd.DataFrame(answers).to_parquet(folder / "one.parquet")
        assert published_receipts.main([str(tmp_path), *arguments]) == code
        said = capsys.readouterr().out
        assert ("answers differ" in said) == (answer == "5")
        assert ("stored: 0.7\n" in said) == (stored == 0.7)
