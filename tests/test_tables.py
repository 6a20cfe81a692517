"""Tables for people: exactly what is printed, and what a notebook gets."""

from __future__ import annotations

import math

import pytest
import torch

from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    DecileKForRecall,
    DecileNDCG,
    Grouped,
    LocationF1,
    PopularityBins,
    RankingCollection,
    tables,
)
from nextloc_metrics.report import readings
from strategies import batch, updated

BINS = PopularityBins([2, 2, 1, 1])


def hits(of_100: int, **options: str) -> RankingCollection:
    """A hundred queries, some at rank 1 and the others at rank 2."""
    members = {"acc_at_1": AccuracyAtK(1), "mrr": MRR(), "a_long_name_of_f1": LocationF1(2)}
    target = torch.tensor([0] * of_100 + [1] * (100 - of_100))
    return updated(
        RankingCollection(members, **options), torch.tensor([[0, 1]]).expand(100, 2), target
    )


def lines(table: tables.Table) -> list[str]:
    """The lines of a table."""
    assert repr(table) == str(table)
    return str(table).splitlines()


def test_percent() -> None:
    """Two decimals, aligned at the right under the longest name."""
    assert lines(hits(30).table()) == [
        "percent            value",
        "acc_at_1           30.00",
        "mrr                65.00",
        "a_long_name_of_f1  13.85",
    ]


def test_fractions_with_intervals_and_a_prefix() -> None:
    """Keys are those of `compute`; F1 is no mean of scores and has no interval."""
    metrics = hits(5, prefix="val/")
    assert lines(metrics.table(percent=False, intervals=True)) == [
        "fraction                value    95 % interval",
        "val/acc_at_1           0.0500  0.0215 - 0.1118",
        "val/mrr                0.5250  0.5035 - 0.5464",
        "val/a_long_name_of_f1  0.0048",
    ]
    found = metrics.compute_with_intervals()
    written = [f"{found[f'val/mrr{end}']:.4f}" for end in ("", "_low", "_high")]
    assert written == ["0.5250", "0.5035", "0.5464"]


def test_the_dashes_of_intervals_stand_below_each_other() -> None:
    """Also where bounds have different lengths, at another confidence."""
    metrics = hits(100)
    low, high = (100 * float(bound) for bound in metrics["acc_at_1"].interval(0.9))
    assert lines(metrics.table(intervals=True, confidence=0.9)) == [
        "percent             value    90 % interval",
        f"acc_at_1           100.00   {low:.2f} - {high:.2f}",
        f"mrr                100.00   {low:.2f} - {high:.2f}",
        "a_long_name_of_f1  100.00",
    ]
    mixed = RankingCollection({"hit": AccuracyAtK(1), "any": AccuracyAtK(2)})
    mixed.update(torch.tensor([[0, 1]]).expand(50, 2), torch.tensor([0] * 3 + [1] * 47))
    _, *rows = lines(mixed.table(intervals=True))
    assert len({row.index(" - ") for row in rows}) == 1
    assert len({len(row) for row in rows}) == 1


def test_without_data_there_is_a_dash() -> None:
    """For the value and both bounds."""
    metrics = RankingCollection({"mrr": MRR()})
    metrics.update(torch.rand(2, 3), torch.tensor([0, 1]), mask=torch.tensor([False, False]))
    assert lines(metrics.table(intervals=True)) == [
        "percent  value  95 % interval",
        "mrr          -          - - -",
    ]


def test_values_of_a_dict_and_no_fractions() -> None:
    """A row a value; what is no fraction stays what it is, and says so."""
    members = {"ndcg": DecileNDCG(BINS, k=1), "k": DecileKForRecall(BINS, 1.0, decile=2)}
    metrics = RankingCollection(members)
    metrics.update(torch.tensor([[0, 2, 1, 3]]), torch.tensor([[1, 2]]))
    assert lines(metrics.table()) == [
        "percent                     value",
        "ndcg_at_1_decile_1         100.00",
        "ndcg_at_1_decile_2           0.00",
        "ndcg_at_1_decile_unmapped       -",
        "k (not %)                       2",
    ]
    assert lines(metrics.table(percent=False))[-1].split() == ["k", "2"]


@pytest.mark.parametrize("num_groups", [5, 100_000])
def test_a_value_for_every_group_is_its_median(num_groups: int) -> None:
    """Of the groups with data, however many there are."""
    metrics = RankingCollection({"by_user": Grouped(MRR(), num_groups)})
    preds, target = batch(n=40)
    metrics.update(preds, target, groups=torch.arange(40) % 4)
    values = metrics.compute()["by_user"]
    median = 100 * float(values[~values.isnan()].double().quantile(0.5))
    header, row = lines(metrics.table(intervals=True))
    assert row.split("  ")[0] == "by_user, median of 4"
    assert row.split()[-1] == f"{median:.2f}"
    assert header.startswith("percent ")


@pytest.mark.parametrize("number", [1, 2, 7, 100])
def test_quantiles_are_those_of_torch(number: int) -> None:
    """Between two values the nearer counts more; NaN are left out."""
    values = torch.rand(number)
    shares = [0.0, 0.05, 0.5, 0.75, 1.0]
    with_nan = torch.cat([values, torch.tensor([math.nan])])
    expected = values.double().quantile(torch.tensor(shares, dtype=torch.float64))
    found = readings.quantiles(with_nan, shares)
    assert torch.allclose(torch.tensor(found, dtype=torch.float64), expected, atol=1e-12)
    assert math.isnan(readings.quantiles(with_nan[-1:], [0.5])[0])


def test_models_side_by_side() -> None:
    """A column a model, whatever the prefixes, and a blank where one has no such member."""
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
        "mrr                65.00  60.37 - 69.36  52.50  50.35 - 54.64",
        "a_long_name_of_f1  13.85                  0.48",
    ]


def test_notebooks_get_html_that_is_escaped() -> None:
    """As many cells as the text has, and no name can bring markup along."""
    metrics = RankingCollection({"<b>": MRR()})
    metrics.update(torch.tensor([[0, 1]]), torch.tensor([1]))
    html = metrics.table()._repr_html_()
    assert html == (
        '<table><thead><tr><th style="text-align: left">percent</th>'
        '<th style="text-align: right">value</th></tr></thead>'
        '<tbody><tr><td style="text-align: left">&lt;b&gt;</td>'
        '<td style="text-align: right">50.00</td></tr></tbody></table>'
    )


def test_a_wrong_confidence_is_an_error() -> None:
    """As in `interval`; without intervals it is not looked at."""
    with pytest.raises(ValueError, match="`confidence` must be between 0 and 1"):
        hits(30).table(intervals=True, confidence=95)
    with pytest.raises(ValueError, match="`confidence` must be between 0 and 1"):
        tables.side_by_side({"A": hits(30)}, intervals=True, confidence=0)
