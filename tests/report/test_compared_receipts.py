"""Receipts with the sums of users are compared as the rows are, to the last bit."""

import json
import random
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from nextloc_metrics import report

USERS = [f"user {i}" for i in range(43)]
NUMBER = 400


def made(seed: int) -> list[list[int]]:
    """Make lists of five ids."""
    draw = random.Random(seed)
    return [draw.sample(range(12), 5) for _ in range(NUMBER)]


draw = random.Random(9)
TARGET = [draw.randrange(12) for _ in range(NUMBER)]
#: some users have fewer than five queries
USER = [draw.choice(USERS[: 1 + draw.randrange(43)]) for _ in range(NUMBER)]
FEW = {x for x in USER if USER.count(x) < 5}
MODELS = {"b": made(1), "a": made(2), "c": made(3)}
OPTIONS: dict[str, Any] = {"k": (1, 4), "num_locations": 12}


@cache
def receipts(least: int = 1, salt: str | None = None) -> dict[str, report.Receipt]:
    """Return the receipt of each model, written and read."""
    found = {}
    for name, lists in MODELS.items():
        one = report.evaluate(lists, TARGET, groups={"hour": [1] * NUMBER, "user": USER}, **OPTIONS)
        text = str(one.receipt(salt, sums_by="user", min_queries=least))
        assert report.verify(text, one, salt=salt).equal
        found[name] = report.Receipt.read(text)
    return found


def same(found: report.Comparisons, expected: report.Comparisons) -> None:
    """Assert that all but effect sizes, wins and losses is equal."""
    for name, of in expected.columns.items():
        for key, one in of.items():
            assert (found.columns[name][key].value, found.columns[name][key].bounds) == (
                one.value,
                one.bounds if key != "f1" else None,
            )
    names = "difference low high p_value standard_error degrees_of_freedom num_queries p_from"
    for pair, comparisons in expected.pairs.items():
        for key, two in comparisons.items():
            other = found.pairs[pair][key]
            assert [getattr(other, x) for x in names.split()] == [
                getattr(two, x) for x in names.split()
            ]
    assert found.corrected_pairs == expected.corrected_pairs
    assert found.letters == expected.letters
    assert found.card == expected.card


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"against": "all", "margin": 0.05, "seed": 3}])
@pytest.mark.parametrize("test", ["permutation", "bootstrap"])
def test_receipts_are_compared_as_rows(options: dict[str, Any], test: Any) -> None:
    """Values, intervals, p-values, corrected ones and letters, with every user and few ones."""
    for least, salt in ((1, None), (5, "secret")):
        assert FEW
        user = ["few" if least > 1 and x in FEW else x for x in USER]
        if test == "bootstrap" and least > 1:
            continue
        given = {**options, "test": test, "cluster": "user"}
        expected = report.compare(MODELS, TARGET, groups={"user": user}, **OPTIONS, **given)
        found = report.compare(receipts(least, salt), **given)
        notes = [f"{len(FEW)} groups with few queries are one"] * (least > 1)
        assert found.card.pop("notes") == "; ".join([*notes, "not tested: f1"])
        same(found, expected)


def test_small_users_are_one_cluster() -> None:
    """Names are hashed, by a secret or not; sums add up; users without queries are left out."""
    one, other = receipts(5)["a"], receipts(5, "secret")["a"]
    clusters = one.content["clusters"]
    assert (clusters["by"], clusters["min_queries"], clusters["merged"]) == ("user", 5, len(FEW))
    assert len(clusters["names"].split()) == len(set(USER)) - len(FEW)
    assert len(clusters["sums"]["mrr"][0].split()) == len(set(USER)) - len(FEW) + 1
    assert not {*clusters["names"].split()} & {*other.content["clusters"]["names"].split()}
    assert "user 1" not in str(one)


@pytest.mark.slow
def test_what_cannot_be_compared_is_named() -> None:
    """Another test set, option or salt, receipts without sums, rows beside receipts."""
    known = receipts()
    whole = report.evaluate(MODELS["a"], TARGET, groups={"user": USER}, **OPTIONS)

    def of(**given: Any) -> report.Receipt:
        own = {"groups": {"hour": [1] * NUMBER, "user": USER}, **OPTIONS, **given}
        target = own.pop("target", TARGET)
        return report.evaluate(MODELS["a"], target, **own).receipt(sums_by="user", min_queries=1)

    roots = f"got {known['a'].content['test_set']['root']} and "
    wrong: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"x": of(target=TARGET[::-1])}, {}, roots),
        ({"x": of(k=(1, 3))}, {}, r"must agree on `k`, got \[1, 4\] and \[1, 3\] in 'a' and 'x'"),
        ({"x": receipts(salt="s")["a"]}, {}, "must have one test set"),
        ({"x": receipts(5)["a"]}, {}, "must have the same clusters"),
        ({"x": whole.receipt()}, {}, "'x' must have the sums of clusters"),
        ({"x": MODELS["b"]}, {}, "must all be receipts, or none, got \\['x'\\]"),
        ({"x": known["b"]}, {"target": TARGET}, "`target` must not be given for receipts"),
        ({"x": known["b"]}, {"cluster": "hour"}, "two receipts with sums by hour, got 2 by user"),
        ({}, {}, "at least two receipts"),
        ({"x": known["b"]}, {"average": "groups", "cluster": "user"}, "`average` of receipts must"),
    ]
    for models, given, message in wrong:
        with pytest.raises((TypeError, ValueError), match=message):
            report.compare({"a": known["a"], **models}, **given)
    content = json.loads(str(known["a"]))
    content["clusters"]["sums"]["mrr"][0] = content["clusters"]["sums"]["mrr"][0][1:]
    with pytest.raises(ValueError, match="sums by cluster of 'a' are wrong: those of mrr"):
        report.compare({"a": report.Receipt.read(json.dumps(content)), "b": known["b"]})
    with pytest.raises(TypeError, match="`target` must be given unless `models` are receipts"):
        report.compare(MODELS)
    weights = [2.0] * NUMBER
    for groups, extra in (({"hour": USER}, {}), ({"user": USER}, {"weights": weights})):
        one = report.evaluate(MODELS["a"], TARGET, groups=groups, **extra, **OPTIONS)
        with pytest.raises(ValueError, match="`sums_by` must be one of `groups`"):
            one.receipt(sums_by="user")


@pytest.mark.slow
@pytest.mark.parametrize("several", [False, True])
def test_receipts_of_tables_that_give_their_number_of_locations(several: bool) -> None:
    """Of one relevant location per query, or of several, whose preset has other metrics."""
    target = [[x, (x + 1) % 12] for x in TARGET] if several else TARGET
    found = {}
    for name, lists in MODELS.items():
        rows = pa.table({"preds": lists, "target": target, "user": USER})
        one = report.evaluate_table(rows, groups=["user"], k=(1, 4))
        found[name] = one.receipt(sums_by="user", min_queries=1)
    expected = report.compare(MODELS, target, groups={"user": USER}, k=(1, 4), cluster="user")
    compared = report.compare(found)
    assert compared.to_csv() == expected.to_csv()
    assert ("precision_at_4" in next(iter(compared.pairs.values()))) == several
