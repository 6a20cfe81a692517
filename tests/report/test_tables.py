"""Tables for people: exactly what is printed, and what a notebook gets."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch

from inner import write_groups_of
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    DecileKForRecall,
    DecileNDCG,
    Grouped,
    LocationF1,
    MeanRank,
    PopularityBins,
    RankingCollection,
    report,
    tables,
)
from strategies import batch, float32, updated

BINS = PopularityBins([2, 2, 1, 1])


def hits(of_100: int, **options: str) -> RankingCollection:
    """A hundred queries, some at rank 1 and the others at rank 2."""
    members = {"acc_at_1": AccuracyAtK(1), "mrr": MRR(), "a_long_name_of_f1": LocationF1(2)}
    target = torch.tensor([0] * of_100 + [1] * (100 - of_100))
    return updated(
        RankingCollection(members, **options), torch.tensor([[0, 1]]).expand(100, 2), target
    )


def lines(table: tables.Table) -> list[str]:
    """The lines of a table, without the notes below it."""
    assert repr(table) == str(table)
    written = str(table).splitlines()
    assert written[len(written) - len(table.notes) :] == list(table.notes)
    return written[: len(written) - len(table.notes)]


def test_fractions_with_intervals_and_a_prefix() -> None:
    """Keys are those of `compute`; F1 is no mean of scores and has no interval."""
    metrics = hits(5, prefix="val/")
    assert lines(metrics.table(percent=False, intervals=True)) == [
        "fraction                value    95 % interval",
        "val/acc_at_1           0.0500  0.0215 - 0.1118",
        "val/mrr                0.5250  0.5032 - 0.5467",
        "val/a_long_name_of_f1  0.0048",
    ]
    found = metrics.compute_with_intervals()
    written = [f"{found[f'val/mrr{end}']:.4f}" for end in ("", "_low", "_high")]
    assert written == ["0.5250", "0.5032", "0.5467"]


def test_values_of_a_dict_and_no_fractions() -> None:
    """One row per value; a value that is not a fraction keeps its unit and is marked."""
    members = {"ndcg": DecileNDCG(BINS, k=1), "k": DecileKForRecall(BINS, 1.0, decile=2)}
    metrics = RankingCollection(members)
    metrics.update(torch.tensor([[0, 2, 1, 3]]), torch.tensor([[1, 2]]))
    assert lines(metrics.table()) == [
        "metric                          value",
        "ndcg_at_1_decile_1 (%)         100.00",
        "ndcg_at_1_decile_2 (%)           0.00",
        "ndcg_at_1_decile_unmapped (%)       -",
        "k                                   2",
    ]
    assert lines(metrics.table(percent=False))[-1].split() == ["k", "2"]


def test_hundreds_of_groups_are_summarized() -> None:
    """One row has the median of the groups with data, and its name says so."""
    metrics = RankingCollection({"by_user": Grouped(MRR(), 100_000)})
    preds, target = batch(n=40)
    metrics.update(preds, target, groups=torch.arange(40) % 4)
    values = metrics.compute()["by_user"]
    median = 100 * float(values[~values.isnan()].double().quantile(0.5))
    header, row = lines(metrics.table(intervals=True))
    assert row.split("  ")[0] == "by_user, median of 4"
    assert row.split()[-1] == f"{median:.2f}"
    assert header.startswith("percent ")
    assert metrics.table().notes == ("40 queries counted",)
    for number, rows in ((100, 100), (101, 1)):  # up to a hundred have a row each
        metrics = RankingCollection({"by_user": Grouped(MRR(), number)})
        metrics.update(*batch(n=number), groups=torch.arange(number))
        assert len(metrics.table().rows) == rows


def test_a_row_for_every_group() -> None:
    """Its label or number, its value, its interval, and how many queries it has."""
    members = {
        "acc": Grouped(AccuracyAtK(1), labels=["ann", "bob", "eve"], by="user"),
        "mrr": MRR(),
        "hour": Grouped(AccuracyAtK(1), 2, by="hour"),
    }
    metrics = RankingCollection(members, prefix="val/")
    users, hours = [0] * 4 + [1] * 6, [0] * 5 + [1] * 5
    preds = torch.tensor([[0, 1]]).expand(10, 2)  # lists of ids
    metrics.update(preds, [0] * 4 + [1] * 6, groups={"user": users, "hour": hours})
    low, high = (100 * float(x[0]) for x in metrics["acc"].interval())
    header, *rows = lines(metrics.table(intervals=True))
    assert header.split("  ")[-1] == "queries"
    assert rows[0].split() == ["val/acc,", "ann", "100.00", f"{low:.2f}", "-", f"{high:.2f}", "4"]
    assert rows[1].startswith("val/acc, bob")
    assert rows[2].split()[2:] == ["-", "-", "-", "-", "0"]
    assert rows[3].startswith("val/mrr")
    assert [row.split()[1] for row in rows[4:]] == ["0", "1"]
    both = tables.side_by_side({"A": metrics, "B": metrics.clone()})
    assert both.rows[0] == ("acc, ann", "100.00", "100.00", "4")


def test_below_the_table_stands_of_what_the_values_are() -> None:
    """A note has the number of queries, and the number without a decision."""
    metrics = hits(30)
    assert metrics.table().notes == ("100 queries counted",)
    nan = torch.full((2, 2), torch.nan)
    metrics.update(nan, torch.tensor([0, 1]))
    assert metrics.table().notes == ("102 queries counted, 2 of them undecided (F1)",)
    assert tables.side_by_side({"a": metrics, "b": hits(30)}).notes == (
        "a: 102 queries counted, 2 of them undecided (F1)",
        "b: 100 queries counted",
    )


def hard_names() -> RankingCollection:
    """Names with characters that formats must escape."""
    metrics = RankingCollection({"R&D_1": MRR(), "<b>|\\": AccuracyAtK(1), "50%": AccuracyAtK(2)})
    metrics.update(torch.tensor([[0.0, 1.0]]), torch.tensor([0]))
    return metrics


def test_latex() -> None:
    """booktabs, and every special character escaped: LaTeX's ten, those of no font, the dagger."""
    written = tables.side_by_side({"a_b": hard_names(), "$x^2$": hard_names()}).to_latex()
    assert written.splitlines() == [
        r"{\small\setlength{\tabcolsep}{3pt}%",
        r"\sbox0{\begin{tabular}{@{}lrr@{}}",
        r"\toprule",
        r"percent & a\_b & \$x\textasciicircum{}2\$ \\",
        r"\midrule",
        r"R\&D\_1 & \textbf{50.00} & \textbf{50.00} \\",
        r"\textless{}b\textgreater{}\textbar{}\textbackslash{} & \textbf{0.00} & \textbf{0.00} \\",
        r"50\% & \textbf{100.00} & \textbf{100.00} \\",
        r"\bottomrule",
        r"\end{tabular}}%",
        r"\ifdim\wd0<12em\wd0=12em\fi",
        r"\begin{minipage}{\wd0}",
        r"\usebox0\par\smallskip\footnotesize\raggedright",
        r"1 query counted\par",
        r"\end{minipage}}",
    ]
    written = tables.Table(["a"], [["\\ ~ ^ < > | † & % $ # _ { }"]]).to_latex()
    assert written.splitlines()[5] == (
        r"\textbackslash{} \textasciitilde{} \textasciicircum{} \textless{} \textgreater{} "
        r"\textbar{} \textdagger{} \& \% \$ \# \_ \{ \} \\"
    )


def test_a_line_break_in_a_name_breaks_no_row() -> None:
    """A table has a line for each row; the numbers keep the name as it is."""
    names = ["a\nb", "c\r\n", "\u2028", "tab\t"]
    metrics = RankingCollection({"acc": Grouped(AccuracyAtK(1), labels=names, by="user")})
    metrics.update(torch.tensor([[0, 1]]).expand(4, 2), [0] * 4, groups={"user": names})
    table = metrics.table()
    shown = [r"acc, a\nb", r"acc, c\r\n", r"acc, \u2028", r"acc, tab\t"]
    assert [row[0] for row in table.rows] == shown
    assert [line.split("  ")[0] for line in lines(table)[1:]] == shown
    assert len(table.to_markdown().splitlines()) == 2 + len(names) + 2
    assert len(table.to_latex().splitlines()) == 11 + len(names) + 1
    assert len(table._repr_html_().splitlines()) == 1
    assert [record["metric"] for record in table.records] == [f"acc, {name}" for name in names]
    noted = tables.Table(["a\nb"], [], ["c\nd"])
    assert (noted.header, noted.notes) == ((r"a\nb",), (r"c\nd",))


def test_names_of_models_are_no_other_column() -> None:
    """Which they would replace; numbers are written as text, and equal their text."""
    pair: dict[str, RankingCollection] = {"metric": hits(30), "B": hits(5)}
    says = "`models` must not have the name of another column of the table, got "
    with pytest.raises(ValueError, match=f"{says}'metric'; rename the model"):
        tables.side_by_side(pair)
    pair = {"B": hits(30), "B low": hits(5)}
    with pytest.raises(ValueError, match=f"{says}'B low'"):
        tables.side_by_side(pair, intervals=True)
    assert tables.side_by_side(pair).records[0]["B low"] == pytest.approx(0.05)
    with pytest.raises(ValueError, match=f"{says}'low'"):
        tables.side_by_side({"low": hits(30)}, intervals=True)
    by_user = RankingCollection({"acc": Grouped(AccuracyAtK(1), 1)})
    by_user.update(torch.tensor([[0, 1]]), [0], groups=[0])
    with pytest.raises(ValueError, match=f"{says}'queries'"):
        tables.side_by_side({"queries": by_user})
    numbered: dict[Any, RankingCollection] = {1: hits(30), 2: hits(5)}
    table = tables.side_by_side(numbered)
    assert table.header == ("percent", "1", "2")
    assert table.records[0] == {"metric": "acc_at_1", "1": 0.3, "2": 0.05}
    both: dict[Any, RankingCollection] = {1: hits(30), "1": hits(5)}
    with pytest.raises(ValueError, match=f"{says}'1'"):
        tables.side_by_side(both)


def test_markdown() -> None:
    """A bar in a name ends no cell."""
    written = hard_names().table().to_markdown().splitlines()
    assert written[:4] == [
        "| percent | value |",
        "| :--- | ---: |",
        r"| R&D\_1 | 50.00 |",
        r"| \<b\>\|\\ | 0.00 |",
    ]
    assert written[-1].strip() == "1 query counted"
    bold = tables.side_by_side({"A": hits(30), "B": hits(5)}).to_markdown().splitlines()
    assert bold[2] == r"| acc\_at\_1 | **30.00** | 5.00 |"


def test_the_best_is_the_lowest_where_lower_is_better() -> None:
    """`k_for_recall` is better if lower; a share of predictions is neither better nor worse."""
    pair = {}
    for name, scores in (("A", [[0, 2, 1, 3]]), ("B", [[0, 2, 3, 1]])):
        pair[name] = RankingCollection({"k": DecileKForRecall(BINS, 1.0, decile=2)})
        pair[name].update(torch.tensor(scores), torch.tensor([[1, 2]]))
    table = tables.side_by_side(pair)
    values = [float(cell) for cell in table.rows[0][1:]]
    best = {(0, 1 + i) for i, value in enumerate(values) if value == min(values)}
    assert table.bold == best
    scores = torch.tensor([[0, 1, 2]])
    ranks = {x: updated(RankingCollection({"mean": MeanRank()}), scores, torch.tensor([y]))
             for x, y in (("A", 2), ("B", 1))}  # fmt: skip
    assert tables.side_by_side(ranks).bold == {(0, 2)}


def test_numbers_for_programs() -> None:
    """Unrounded, as fractions; what is missing is empty, or null, and no NaN."""
    metrics = hits(30)
    metrics.add_metrics({"none": Grouped(MRR(), 2)})
    metrics["none"].update(torch.tensor([[0, 1]]), torch.tensor([0]), groups=torch.tensor([0]))
    table = metrics.table(intervals=True)
    found = json.loads(table.to_json())
    values = metrics.compute_with_intervals()
    assert float32(found["acc_at_1"]) == {
        "value": float(values["acc_at_1"]),
        "low": float(values["acc_at_1_low"]),
        "high": float(values["acc_at_1_high"]),
    }
    assert found["none, 1"] == {"value": None, "low": None, "high": None, "queries": 0}
    rows = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert [row["metric"] for row in rows] == list(found)
    assert float32(float(rows[1]["value"])) == float(values["mrr"])
    assert rows[-1]["value"] == ""
    frame = pytest.importorskip("pandas").DataFrame
    made = table.to_pandas()
    assert isinstance(made, frame)
    assert float32(made.loc["mrr", "value"]) == float(values["mrr"])
    assert list(made.index) == list(found)
    assert tables.Table(["a", "b"], [["x", "1"]]).to_pandas().loc["x", "b"] == "1"


@pytest.mark.parametrize("name", ["=1+1", "+a", "-a", "@SUM(A1)", "\tx"])
def test_no_text_is_a_formula(name: str) -> None:
    """A spreadsheet that opens the CSV shows the text; numbers stay numbers."""
    table = tables.Table([name, "b"], [[name, "-1.5"]])
    written, shown = list(csv.reader(io.StringIO(table.to_csv()))), f"'{name}"
    assert written == [[shown, "b"], [shown, "-1.5"]]
    e = report.evaluate([[1]], [1], k=1, groups={"user": [name]})
    with TemporaryDirectory() as folder:
        write_groups_of(e, path := Path(folder) / "groups.csv")
        lines = path.read_text(encoding="utf-8").splitlines()
        assert next(csv.reader(lines[1:]))[1] == shown


def test_models_side_by_side() -> None:
    """One column per model, for any prefixes; a cell is blank if a model lacks the member."""
    other = updated(RankingCollection({"mrr": MRR(), "new": MRR(1)}, postfix="_x"), *batch(1))
    value = 100 * float(other.compute()["mrr_x"])
    new = 100 * float(other.compute()["new_x"])
    assert lines(tables.side_by_side({"GRU": hits(30, prefix="a/"), "a longer one": other})) == [
        "percent              GRU  a longer one",
        "acc_at_1           30.00",
        f"mrr                65.00  {value:12.2f}",
        "a_long_name_of_f1  13.85",
        f"new                       {new:12.2f}",
    ]
    both = lines(tables.side_by_side({"A": hits(30), "B": hits(5)}, intervals=True))
    assert both == [
        "percent                A  95 % interval      B  95 % interval",
        "acc_at_1           30.00  21.89 - 39.58   5.00   2.15 - 11.18",
        "mrr                65.00  60.31 - 69.41  52.50  50.32 - 54.67",
        "a_long_name_of_f1  13.85                  0.48",
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Glyph")  # which the fonts of pictures lack
def test_hostile_names_are_escaped_in_each_form() -> None:
    """No control character reaches a terminal, no command LaTeX, and no tag a page."""
    name = "\x1b[31m\x1b]0;t\x07\x9b2J\u202e \\write18{ls} \\input{x} <script>a</script> $#%&_~^|"
    preds = torch.stack([torch.arange(20) % 5, (torch.arange(20) + 1) % 5], 1)
    target, groups = torch.arange(20) * 3 % 5, {f"k{name}": [name, "b"] * 10}
    evaluator = report.Evaluator(k=1, num_locations=5)
    evaluator.update(preds, target, groups=groups)
    saved = report.Evaluator.from_bytes(evaluator.to_bytes()).result()
    models = {f"{name} {i}": preds.roll(i, 0) for i in range(3)}
    compared = report.compare(models, target, groups=groups, k=1, num_locations=5)
    for one in (saved, compared):
        for text in (str(one), repr(one), one.to_markdown(), one.to_latex()):
            assert all(x.isprintable() or x == "\n" for x in text), repr(text)
        assert not re.search(r"\\(write18|input)", one.to_latex())
        assert "<script>a" not in one.to_html() + one.to_markdown()
        assert "&lt;script&gt;a" in one.to_html()
