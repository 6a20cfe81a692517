"""The example on published answers of language models, and the page with what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
import scipy.stats

import published_runs
import published_sums


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
    page = (Path(__file__).parents[2] / "docs" / "evidence.md").read_text("utf-8")
    tables = capsys.readouterr().out.strip().split("\n\n")
    for table in tables[:2]:
        assert table.splitlines()[-1] in " ".join(page.split())
    stored = json.loads((folder / "accuracies.json").read_text("utf-8"))
    for name, one in found.items():
        for model, values in one.values.items():
            assert values["acc_at_1"] == pytest.approx(stored[name][model], abs=1e-12)
    letters = [of["acc_at_1"] for of in found["foursquare_nyc"].letters.values()]
    assert sum("a" in of for of in letters) >= 5
    moscow = {of["acc_at_1"] for of in found["foursquare_moscow"].letters.values()}
    assert moscow == {"a", "b"}


def test_the_page_is_made_from_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    """The page has rows of the table of the 40 runs, whose accuracies are hits over queries."""
    assert published_sums.main([]) == 0
    page = (Path(__file__).parents[2] / "docs" / "evidence.md").read_text("utf-8")
    shown = page.split("## Forty published")[1].split("```text\n")[1].split("```")[0].splitlines()
    assert [line for line in capsys.readouterr().out.splitlines() if line in shown] == shown
    rows = json.loads(published_sums.FILE.read_text("utf-8"))
    assert len(rows) == 40
    for row in rows:
        total, squares, number = row["sums"]["acc_at_1"]
        assert total == squares  # each score is 0 or 1
        assert not total % 2**32
        assert number == row["counts"]["queries"]
        low, high = row["interval"]
        assert low < total / 2**32 / number < high


@pytest.mark.extra  # reads real data
def test_the_sums_are_those_of_the_answers(data: Path) -> None:
    """All 40 runs have the sums of the file, and the accuracies that their authors stored."""
    if not (data / "genup").is_dir() or not (data / "llm_mob").is_dir():
        pytest.skip("needs ../shared/data/genup and llm_mob")
    assert published_sums.main([str(data)]) == 0


def test_a_changed_answer_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program writes the sums, counts them again, and fails for a file with another answer."""
    monkeypatch.setattr(published_sums, "FILE", tmp_path / "published.json")
    folder = tmp_path / "genup"
    folder.mkdir()
    known = folder / "accuracies.json"
    cases = (("4", 0.75, ["--write"], 0), ("4", 0.75, [], 0), ("4", 0.7, [], 1), ("5", 0.75, [], 1))
    for answer, stored, arguments, code in cases:
        known.write_text(json.dumps({"one": {"Meta-good-POI": stored}}), "utf-8")
        answers = {"target": ["1", "2", "3", "4"], "Meta-good-POI": ["1", "2", "9", answer]}
        pd.DataFrame(answers).to_parquet(folder / "one.parquet")
        assert published_sums.main([str(tmp_path), *arguments]) == code
        said = capsys.readouterr().out
        assert ("in the file" in said) == (answer == "5")
        assert ("stored 0.7," in said) == (stored == 0.7)
