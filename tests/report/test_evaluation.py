"""One call gives what the metrics give by hand, and counts what a reader should know of."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest
import torch

from nextloc_metrics import (
    AccuracyAtK,
    PopularityBins,
    RankingCollection,
    analysis,
    decile_metrics,
    next_location_metrics,
    report,
)
from strategies import compare_scores, float32


def batch() -> tuple[Any, Any, Any, Any]:
    """Scores with ties, targets, and two kinds of groups."""
    generator = np.random.default_rng(0)
    scores = generator.integers(0, 6, (40, 9)).astype(np.float32)
    users = np.array([f"user {number}" for number in generator.integers(0, 7, 40)])
    return scores, generator.integers(0, 9, 40), users, generator.integers(0, 24, 40)


def test_sequences_of_queries_are_their_rows() -> None:
    """Scores, lists, masks and histories `[N, T, ...]` of `users` `[N]` count as rows do."""
    scores, target, *_ = batch()
    lists, seen = np.argsort(-scores)[:, :4], (target[:, None] + 1) % 9
    mask, users = scores[:, 0] > 0, [f"user {x % 4}" for x in range(10)]
    rows: dict[str, Any] = {"mask": mask, "exclude": seen, "k": 3}
    folded = rows | {"mask": mask.reshape(10, 4), "exclude": seen.reshape(10, 4, 1)}
    each = np.repeat(users, 4)
    for preds in (scores, lists):
        e = report.evaluate(preds.reshape(10, 4, -1), target.reshape(10, 4), users=users, **folded)
        expected = report.evaluate(preds, target, groups={"user": each}, cluster="user", **rows)
        assert (str(e), e.intervals) == (str(expected), expected.intervals)
        assert str(e.groups["user"]) == str(expected.groups["user"])
    models = {"scores": [scores, scores[::-1]], "lists": [lists, lists]}
    long = {name: [x.reshape(10, 4, -1) for x in runs] for name, runs in models.items()}
    found = report.compare(long, target.reshape(10, 4), users=users, **folded)
    assert str(found) == str(report.compare(models, target, users=each, **rows))
    several = np.stack([target, target], 1)
    e = report.evaluate(scores.reshape(10, 4, 9), several.reshape(10, 4, 2))
    assert e.values == report.evaluate(scores, several).values
    for given, says in (
        ({"target": target.reshape(5, 8)}, r"or be \[N, T, C or K\] and \[N, T\]"),
        ({"mask": mask[:10]}, "a row for each of the 40 queries"),
        ({"users": users[:9]}, "a value for each of the 40 queries"),
        ({"users": users, "cluster": "user"}, r"`users` must be None with `cluster`"),
        ({"users": users, "groups": {"user": users}}, r"`users` must be None with `cluster` or"),
    ):
        with pytest.raises(ValueError, match=says):
            report.evaluate(scores.reshape(10, 4, 9), **{"target": target.reshape(10, 4), **given})


def test_headline_is_that_of_the_preset() -> None:
    """Values, intervals, chance; and ties have a lowest and a highest value."""
    scores, target, *_ = batch()
    e = report.evaluate(scores, target, k=(1, 3))
    metrics = next_location_metrics(9, k=(1, 3))
    metrics.update(scores, target)
    assert float32(e.values) == {name: float(value) for name, value in metrics.compute().items()}
    for name, (low, high) in e.intervals.items():
        if name != "f1":  # its interval is not that of the metric
            assert float32((low, high)) == tuple(map(float, metrics[name].interval()))
    assert set(e.intervals) == set(e.values)
    assert e.chance == analysis.chance(metrics, 9)
    for name, (low, high) in e.ties.items():
        assert low < e.values[name] < high
    worst = AccuracyAtK(1, ties="pessimistic")
    worst.update(scores, target)
    assert float32(e.ties["acc_at_1"][0]) == float(worst.compute())
    assert str(e).startswith(str(e.table))
    assert e.to_pandas().loc["mrr", "value"] == e.values["mrr"]
    assert "| protocol |" in e.to_markdown()


def test_training_counts_give_a_baseline_and_deciles() -> None:
    """The baseline ranks by the counts for every query."""
    scores, target, *_ = batch()
    counts = torch.tensor([0, 5, 3, 1, 1, 0, 9, 2, 4])
    e = report.evaluate(scores, target, k=(1, 5), train_counts=counts)
    metrics = next_location_metrics(9, k=(1, 5))
    metrics.update(analysis.most_frequent(counts, 40), target)
    assert float32(e.baseline) == {name: float(value) for name, value in metrics.compute().items()}
    deciles = decile_metrics(PopularityBins.from_counts(counts), k=5)
    deciles.update(scores, target)
    assert e.deciles is not None
    records = [
        {name: x for name, x in record.items() if name not in ("locations", "note")}
        for record in e.deciles.records
        if not record["metric"].startswith("acc_at_")
    ]
    assert str(records) == str(deciles.table(intervals=True).records)  # NaN too
    values = {name: float(value) for name, value in deciles.compute().items()}
    assert [row[0] for row in e.deciles.rows] == [*map(str, range(1, 11)), "unmapped"]
    columns = [x.removesuffix(" (%)") for x in e.deciles.header]
    of = PopularityBins.from_counts(counts).of(torch.as_tensor(target))
    for row in e.deciles.rows:
        cells = dict(zip(columns, (x.strip(" †") for x in row), strict=True))
        decile = int(row[0]) if row[0].isdecimal() else 0  # without a training visit
        assert cells["queries"] == str(int((of == decile).sum()))
        ending = f"decile_{row[0].zfill(2)}" if row[0].isdecimal() else "decile_unmapped"
        ndcg = values[f"ndcg_at_5_{ending}"]
        assert cells["ndcg_at_5"] == ("-" if np.isnan(ndcg) else f"{100 * ndcg:.2f}")
    of_all = f"coverage_at_5 of all deciles: {100 * values['coverage_at_5']:.2f} %"
    assert of_all in {x.removesuffix("†") for x in e.deciles.notes}
    assert e.card["unseen_targets"] == int(np.isin(target, [0, 5]).sum())
    assert "most frequent" in e.table.header


def test_the_card_of_scores() -> None:
    """NaN, constant rows, ties and what is left out, counted one by one."""
    scores, target, *_ = batch()
    scores[:3] = 1
    scores[3:5, 2] = np.nan
    target = target.copy()
    mask = np.ones(40, bool)
    mask[39] = False
    target[39] = 99  # of a query that is left out, nothing is read
    card = report.evaluate(scores, target, mask=mask).card
    assert card["queries"] == 40
    assert card["candidates"] == 9
    assert card["left_out"] == 1
    assert card["constant_rows"] == 3
    assert card["rows_with_nan"] == 2
    tied = sum(
        mask[i] and sum(x == row[target[i]] for x in row) > 1 for i, row in enumerate(scores)
    )
    assert card["tied"] == tied


def test_short_lists_are_counted_one_by_one() -> None:
    """Of the queries that count, however they are padded; also repeats and unknown ids."""
    lists, target = [[1, 2, 2], [4], [], [5, 12], [7, 7]], [1, 4, 2, 5, 7]
    mask = [True, True, True, True, False]
    whole = report.evaluate(lists, target, k=(1, 3), mask=mask, num_locations=9)
    assert whole.card["short_lists"] == 3
    assert whole.card["lists_with_repeats"] == whole.card["lists_with_other_ids"] == 1
    assert whole.card["candidates"] is None
    assert whole.chance == {}
    padded = [row + [-1] * (6 - len(row)) for row in lists]
    assert report.evaluate(padded, target, k=(1, 3), mask=mask, num_locations=9).card == whole.card
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # parts without a list of three ids
        parts = [
            report.evaluate(
                [lists[i] or [-1]], [target[i]], k=(1, 3), mask=[mask[i]], num_locations=9
            )
            for i in range(5)
        ]
    merged = report.merge(parts)
    assert merged.card["short_lists"] == 3
    assert str(merged.table) == str(whole.table)
    assert report.evaluate(lists, target, k=1, mask=mask, num_locations=9).card["short_lists"] == 1


def test_a_k_beyond_all_lists_is_marked() -> None:
    """In the tables, by a warning, and where the lists of `mrr` end."""
    lists, target = [[1, 2, 3, -1], [4, 5, -1, -1], [4, 5, 6, 7]], [1, 5, 7]
    options: dict[str, Any] = {
        "mask": [True, True, False],
        "groups": {"user": ["a", "b", "a"]},
        "train_counts": [1] * 9,
    }
    says = r"`k` should be at most 3, the length of the longest list in `preds`, got \[4, 5\]"
    with pytest.warns(UserWarning, match=says):
        e = report.evaluate(lists, target, k=(1, 3, 4, 5), **options)
    cells = {row[0]: row[1] for row in e.table.rows}
    assert cells == {
        "acc_at_1": "50.00 ",
        "acc_at_3": "100.00 ",
        "acc_at_4": "100.00†",
        "acc_at_5": "100.00†",
        "mrr": "75.00 ",
        "ndcg_at_5": f"{50 * (1 + 1 / np.log2(3)):.2f}†",
        "f1": f"{100 * (1 / 2):.2f} ",
    }
    notes = ("k = 4, 5: no list has more than 3 ids", "mrr: lists are cut at 3")
    assert e.table.notes == (f"† {notes[0]}", notes[1])
    assert e.groups["user"].notes == notes
    assert e.deciles is not None
    assert notes[0] in e.deciles.notes
    assert "100.00†" in e.to_markdown()
    assert r"100.00\textdagger{}" in e.table.to_latex()
    assert e.table.records[2]["value"] == 1
    inside = report.evaluate(lists, target, k=(1, 3), **options)  # without a warning
    assert inside.table.notes == ("mrr: lists are cut at 3",)
    assert {row[1] for row in inside.table.rows} >= {"50.00", "100.00"}


def test_numbers_are_those_of_the_sums() -> None:
    """A fraction of hits is the nearest float64, everywhere but in `compute`."""
    lists, target = [[1]] * 446 + [[0]] * 2554, [1] * 3000
    e = report.evaluate(lists, target, k=1, groups={"user": ["a"] * 3000})
    assert e.values["acc_at_1"] == 446 / 3000
    assert json.loads(e.table.to_json())["acc_at_1"]["value"] == 446 / 3000
    assert f"acc_at_1,{446 / 3000!r}," in e.table.to_csv()
    assert e.group_records("user")[0]["value"] == 446 / 3000
    metric = AccuracyAtK(1)
    metric.update(torch.tensor(lists), torch.tensor(target))
    for value in (metric.compute(), *metric.interval(), metric.standard_error()):
        assert value.dtype == torch.float32
    collection = RankingCollection({"hit": metric})
    assert {x.dtype for x in collection.compute_with_intervals().values()} == {torch.float32}


def test_models_are_compared_on_the_same_queries() -> None:
    """The result is that of the scores of queries, with groups if clustered."""
    scores, target, users, _ = batch()
    mask = np.arange(40) % 4 > 0
    other = scores + (np.arange(9) == target[:, None]) * np.float32(2)
    third = scores[:, ::-1].copy()
    models = {"old": scores, "new": other, "mirrored": third}
    options: dict[str, Any] = {"k": 1, "mask": mask, "groups": {"user": users}}
    options["confidence_level"] = 0.8
    found = report.compare(models, target, **options, cluster="user")
    metric = AccuracyAtK(1)
    a, b = (metric.scores_of(metric.read(x, target))[0][mask] for x in (other, scores))
    groups = torch.from_numpy(np.unique(users, return_inverse=True)[1])[mask]
    assert found.comparisons["new"]["acc_at_1"] == compare_scores(
        b, a, groups=groups, confidence_level=0.8
    )
    assert "80 % interval" in found.table.header
    metric.update(third, target, mask)
    assert float32(found.values["mirrored"]["acc_at_1"]) == float(metric.compute())
    assert set(found.comparisons) == {"new", "mirrored"}
    assert [*found.comparisons["new"]] == ["acc_at_1", "mrr", "ndcg_at_1", "f1"]
    alone = report.compare({"old": scores, "new": other}, target, **options)
    assert alone.comparisons["new"]["acc_at_1"] == compare_scores(b, a, confidence_level=0.8)
    assert str(alone) == str(alone.table)
    with pytest.raises(ValueError, match="`models` must hold at least two"):
        report.compare({"old": scores}, target)
    with pytest.raises(ValueError, match="`cluster` must be None or one of `groups`"):
        report.compare(models, target, cluster="user")


def test_p_values_of_all_comparisons_are_corrected() -> None:
    """Holm's method takes what differs as one family, NDCG@1 is Acc@1, and the table shows it."""
    scores, target, *_ = batch()
    models = {"old": scores}
    for number in (1, 2):  # each of these models is better for some queries
        better = (np.arange(9) == target[:, None]) * (np.arange(40) % 3 < number)[:, None]
        models[f"new {number}"] = scores + better.astype(np.float32)
    found = report.compare(models, target, k=1)
    pairs = [(name, key) for name, of in found.comparisons.items() for key in of]
    assert len(pairs) == 8
    assert found.table.notes[:2] == (
        "40 queries, permutation test",
        "corrected p: Holm's method for 6 tests; intervals are not corrected",
    )
    rows = {record["metric"]: record for record in found.table.records}
    assert list(rows)[:2] == ["acc_at_1, new 1", "acc_at_1, new 2"]
    for name, key in pairs:
        one, row = found.comparisons[name][key], rows[f"{key}, {name}"]
        assert [row["low"], row["high"], row["p"]] == [one.low, one.high, one.p_value]
        assert row["corrected p"] == found.corrected[name][key]
        assert (row["first"], row["value"]) == (found.values["old"][key], found.values[name][key])
    cells = dict(zip(found.table.header, found.table.rows[0], strict=True))
    one = found.comparisons["new 1"]["acc_at_1"]
    assert cells["other - old"] == f"{100 * one.difference:+.2f}"
    assert cells["95 % interval"] == f"{100 * one.low:+.2f} to {100 * one.high:+.2f}"
    assert cells["p"] == ("<0.0001" if one.p_value < 1e-4 else f"{one.p_value:.4f}")


def test_the_card_counts_ties_across_k() -> None:
    """Two of three tied blocks have ranks on both sides of k."""
    scores = [
        [3.0, 2.0, 2.0, 1.0],
        [3.0, 3.0, 2.0, 1.0],
        [4.0, 3.0, 2.0, 1.0],
        [2.0, 2.0, 2.0, 2.0],
    ]
    card = report.evaluate(np.array(scores), [1, 0, 2, 3], k=2).card
    assert (card["tied"], card["tied_across_k"]) == (3, 2)
    assert "tied_across_k" not in report.evaluate(np.array(scores, float), [1, 0, 2, 3], k=4).card
    several = report.evaluate(np.array(scores), [[1, 0], [3, 2], [0, 1], [-1, 0]], k=(2, 3)).card
    assert (several["tied"], several["tied_across_k"]) == (2, 2)  # of some relevant location
    first = report.evaluate(np.array([[1.0, 1.0, 0.0]]), [0], measures=["mrr"])  # k is 1
    assert first.card["tied_across_k"] == 1


@pytest.mark.parametrize(
    ("groups", "names"),
    [(["01", "1"], ["01", "1"]), (["1", "01"], ["01", "1"]), ([False, True], ["0", "1"])],
)
def test_names_of_groups_have_one_order(groups: list[Any], names: list[str]) -> None:
    """Labels that are one number do not depend on the order of the input; bools are 0 and 1."""
    e = report.evaluate([[3], [4]], [3, 5], k=1, num_locations=9, groups={"u": groups})
    assert [row[0] for row in e.groups["u"].rows[:2]] == names
