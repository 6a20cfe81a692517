"""One rule in every form of predictions and judgements, and nothing that is read in silence."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import CliRunner

from command import main
from nextloc_metrics import report
from table_calls import evaluate_table

pytestmark = pytest.mark.slow  # the hostile laws read files, too, and take less

# Ranks 1 and 2 of `b` and `a`; of the second query nothing is relevant, of the third `a`.
RUN = {q: {"a": 0.5, "b": 0.9} for q in ("q1", "q2", "q3")}
QRELS: dict[str, dict[str, int]] = {"q1": {"b": 2}, "q2": {"b": 0, "a": -1}, "q3": {"a": 1, "c": 0}}
RECIPROCAL = (1 + 0 + 1 / 2) / 3
KEY: dict[str, Any] = {"query": "u", "grade": "g"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests write into a folder of their own."""
    monkeypatch.chdir(tmp_path)


def rows_of(found: dict[str, dict[str, Any]], value: str, item: str = "item") -> pd.DataFrame:
    """A row for each item of each query."""
    rows = [(u, x, y) for u, of in found.items() for x, y in of.items()]
    return pd.DataFrame(rows, columns=["u", item, value])


def of_trec() -> Any:
    """A run and its judgements in two files, as trec_eval reads them."""
    run = [f"{u} Q0 {x} 0 {y} made" for u, of in RUN.items() for x, y in of.items()]
    qrels = [f"{u} 0 {x} {y}" for u, of in QRELS.items() for x, y in of.items()]
    Path("a.run").write_text("\n".join(run), "utf-8")
    Path("a.qrels").write_text("\n".join(qrels), "utf-8")
    found = report.read(report.Source("a.run", truth="a.qrels"))
    return report.evaluate(found.preds, found.target, grade=found.grades, measures=["mrr"])


def of_files() -> Any:
    """Dicts in two files of JSON."""
    Path("run.json").write_text(json.dumps(RUN), "utf-8")
    Path("qrels.json").write_text(json.dumps(QRELS), "utf-8")
    return report.evaluate(report.Source("run.json", truth="qrels.json"), measures=["mrr"])


def of_table(rows: pd.DataFrame, **named: Any) -> Any:
    """A frame, and one of its judgements."""
    truth = rows_of(QRELS, "g", "item" if "item" in named else "target")
    return evaluate_table(rows, truth=truth, **KEY, **named, measures=["mrr"])


def of_numbers() -> Any:
    """A score for each of three locations, with judgements that are numbers."""
    rows = pd.DataFrame({"u": [*RUN], "preds": [[0.5, 0.9, 0.1]] * 3})
    truth = rows_of(QRELS, "g", "target").replace({"target": {"a": 0, "b": 1, "c": 2}})
    return evaluate_table(rows, truth=truth, **KEY, measures=["mrr"])


def of_one_table() -> Any:
    """The label of each item stands beside its score."""
    rows = rows_of(RUN, "s")
    rows["g"] = [QRELS[u].get(x, 0) for u, x in zip(rows.u, rows.item, strict=True)]
    named: Any = {"item": "item", "score": "s", "target": "item"}
    return evaluate_table(rows, **KEY, **named, measures=["mrr"])


LISTS = pd.DataFrame({"u": [*RUN], "preds": [["b", "a"]] * 3, "p_1": "b", "p_2": "a"})
FORMS: dict[str, Callable[[], Any]] = {
    "trec": of_trec,
    "dicts": lambda: report.evaluate(report.Source(RUN, truth=QRELS), measures=["mrr"]),
    "files of dicts": of_files,
    "scored items": lambda: of_table(rows_of(RUN, "s"), item="item", score="s"),
    "ranked items": lambda: of_table(rows_of(RUN, "s").assign(r=[2, 1] * 3), item="item", rank="r"),
    "lists": lambda: of_table(LISTS),
    "columns": lambda: of_table(LISTS, preds="p_*"),
    "scores": of_numbers,
    "one table": of_one_table,
}


@pytest.mark.parametrize("form", FORMS)
def test_judgements_that_are_all_0_count_0(form: str) -> None:
    """As in trec_eval: the query is judged, and nothing that was found is relevant."""
    found = FORMS[form]()
    assert found.values["mrr"] == pytest.approx(RECIPROCAL)
    assert (found.card["queries"], found.card["without_target"]) == (3, 0)


@pytest.mark.parametrize("key", ["u", "query"])
@pytest.mark.parametrize("named", [["query"], ["query", "item", "rank"]])
def test_a_dict_of_columns_is_no_run(named: list[str], key: str) -> None:
    """Where columns are named, a dict is refused in memory and in a file; as a frame it is read."""
    rows = {key: [1, 1, 2], "item": [3, 4, 5], "rank": [1, 2, 1]}
    truth = {key: [1, 2], "item": [3, 5]}
    options: dict[str, Any] = {"query": key, "item": "item", "rank": "rank"}
    frames = pd.DataFrame(rows), pd.DataFrame(truth)
    found = evaluate_table(frames[0], truth=frames[1], **options, k=1)
    assert (found.values["acc_at_1"], found.card["queries"]) == (1, 2)
    Path("rows.json").write_text(json.dumps(rows), "utf-8")
    Path("truth.json").write_text(json.dumps(truth), "utf-8")
    options = {name: options[name] for name in named}
    with pytest.raises(TypeError, match=r"dict of columns.*pass `pandas\.DataFrame\(rows\)`"):
        evaluate_table(rows, truth=truth, **options, k=1)
    with pytest.raises(ValueError, match=r'JSON of columns.*`DataFrame\.to_json\(.*"records"\)`'):
        evaluate_table("rows.json", truth="truth.json", **options, k=1)


#: what loops hold the items of a query in
HELD: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "array": np.array,
    "objects": lambda items: np.array(items, dtype=object),
    "column": pd.Series,
    "index": pd.Index,
    "keys": lambda items: dict.fromkeys(items, 1).keys(),
    "tensor": torch.tensor,
    "tensors": lambda items: [torch.tensor(x) for x in items],
    "set": set,
    "frozen set": frozenset,
}
ONE: dict[str, Callable[[Any], Any]] = {
    "id": lambda x: x,
    "number of NumPy": np.int64,
    "array without dimensions": np.array,
    "tensor without dimensions": torch.tensor,
}
OF_TEXT = [x for x in HELD if "tensor" not in x]


@pytest.mark.parametrize(
    ("ids", "held"), [([7, 9, 8], x) for x in HELD] + [(["[a]", "c", "b"], x) for x in OF_TEXT]
)
def test_dicts_hold_items_in_any_container(ids: list[Any], held: str) -> None:
    """As lists; the items of predictions have an order, which a set has not."""
    hold, (one, two, three) = HELD[held], ids
    rows, truth = {1: [one, two], 2: [two, one]}, {1: [two, three], 2: [two], 3: [one]}
    expected = report.evaluate(report.Source(rows, truth=truth), k=(1, 2))
    assert expected.values["recall_at_2"] == pytest.approx((1 / 2 + 1) / 3)
    of_truth = {key: hold(items) for key, items in truth.items()}
    assert report.evaluate(report.Source(rows, truth=of_truth), k=(1, 2)).values == expected.values
    of_rows = {key: hold(items) for key, items in rows.items()}
    if "set" in held:
        with pytest.raises(ValueError, match=r"`rows` must .* no order, in query 1; pass a list"):
            report.evaluate(report.Source(of_rows, truth=truth), k=(1, 2))
    else:
        assert (
            report.evaluate(report.Source(of_rows, truth=of_truth), k=(1, 2)).values
            == expected.values
        )


@pytest.mark.parametrize("held", ONE)
def test_dicts_hold_one_item_alone(held: str) -> None:
    """Of a query with one target; keys and scores may be numbers of tensors, too."""
    hold = ONE[held]
    truth = {hold(1) if held != "array without dimensions" else 1: hold(7), 2: hold(9)}
    rows = {1: {7: hold(3), 8: hold(2)}, 2: {8: hold(3), 9: hold(2)}}
    assert report.evaluate(report.Source(rows, truth=truth), k=1).values["mrr"] == (1 + 1 / 2) / 2


@pytest.mark.parametrize("none", [[], (), set(), np.array([], int), torch.tensor([])])
def test_dicts_may_hold_no_item(none: Any) -> None:
    """A query without targets is in no value, and one without predictions is a miss."""
    rows: dict[int, Any] = {1: [7], 2: [9]}
    found = report.evaluate(report.Source(rows, truth={1: [7], 2: none}), k=1)
    assert (found.values["mrr"], found.card["queries"]) == (1, 1)
    if isinstance(none, set):
        return
    found = report.evaluate(report.Source({1: [7], 2: none}, truth={1: [7], 2: [9]}), k=1)
    assert (found.values["mrr"], found.card["missing"]) == (1 / 2, 1)
    none_found, cut = "2 of 2 queries of the truth have no predictions", "the longest list"
    with pytest.warns(UserWarning, match=none_found), pytest.warns(UserWarning, match=cut):
        found = report.evaluate(report.Source({1: none, 2: none}, truth={1: [7], 2: [9]}), k=1)
    assert (found.values["mrr"], found.card["missing"]) == (0, 2)


CONTAINERS: dict[str, Callable[[pd.DataFrame, str], Any]] = {
    "frame": lambda frame, _: frame,
    "parquet": lambda frame, name: frame.to_parquet(f"{name}.parquet") or f"{name}.parquet",
    "lines": lambda frame, name: (
        frame.to_json(f"{name}.jsonl", orient="records", lines=True) or f"{name}.jsonl"
    ),
    "csv": lambda frame, name: frame.to_csv(f"{name}.csv", index=False) or f"{name}.csv",
}


@pytest.mark.parametrize("ids", [[7, 9, 8], ["a", "c", "b"]])
@pytest.mark.parametrize("container", CONTAINERS)
def test_one_answer_per_query_is_joined_to_its_targets(container: str, ids: list[Any]) -> None:
    """To one target of each query, and to several of some."""
    write, (one, two, three) = CONTAINERS[container], ids
    rows = write(pd.DataFrame({"u": [1, 2], "preds": [one, two]}), "p")
    for users, targets, recall in (
        ([1, 2, 3], [one, three, one], 1 / 3),
        ([1, 1, 2, 3], [one, three, two, one], (1 / 2 + 1) / 3),
    ):
        truth = write(pd.DataFrame({"u": users, "target": targets}), "t")
        found = report.evaluate(
            report.Source(rows, truth=truth, query="u"), k=1, measures=["recall@1"]
        )
        assert found.values["recall_at_1"] == pytest.approx(recall)
        assert found.card["missing"] == 1


def test_one_answer_that_is_no_id_is_refused() -> None:
    """A fraction is no id, and an answer that is missing is counted where that is asked for."""
    truth = pd.DataFrame({"u": [1, 2], "target": [7, 9]})
    with pytest.raises(ValueError, match=r"`preds` in DataFrame must hold ids.* floats are scores"):
        report.evaluate(report.Source(truth.assign(preds=[7.5, 9]), truth=truth, query="u"), k=1)
    rows = truth.assign(preds=pd.array([7, None], dtype="Int64"))
    with pytest.raises(ValueError, match="row 1 of DataFrame must hold ids"):
        report.evaluate(report.Source(rows, truth=truth, query="u"), k=1)
    found = report.evaluate(report.Source(rows, truth=truth, query="u", on_error="miss"), k=1)
    assert (found.values["acc_at_1"], found.card["broken_answers"]) == (0.5, 1)


# A query with its list, and a row for each of its items.
LISTED = pd.DataFrame({"u": [1, 2], "preds": [[3, 5], [5, 3]]})
ITEMS = pd.DataFrame({"u": [1, 1, 2, 2], "item": [3, 5, 5, 3], "s": [0.9, 0.8, 0.9, 0.8]})
SCORED: dict[str, Any] = {"item": "item", "score": "s"}
BOTH: list[tuple[pd.DataFrame, dict[str, Any]]] = [(LISTED, {}), (ITEMS, SCORED)]


@pytest.mark.parametrize(
    ("container", "other"), [*zip(CONTAINERS, reversed(CONTAINERS), strict=True)]
)
def test_a_truth_may_have_a_list_per_query(container: str, other: str) -> None:
    """Its ids are the targets of the query; padding is none, and an empty list has none."""
    truth = pd.DataFrame({"u": [1, 2, 3], "target": [[5, -1], [5, 7], []]})
    for table, named in BOTH:
        rows, judged = CONTAINERS[container](table, "p"), CONTAINERS[other](truth, "t")
        found = evaluate_table(rows, truth=judged, query="u", k=1, **named)
        assert (found.values["precision_at_1"], found.values["recall_at_1"]) == (1 / 2, 1 / 4)
        assert (found.card["several_targets"], found.card["without_target"]) == (1, 1)


@pytest.mark.parametrize(
    ("container", "written"), [("frame", str), ("parquet", int), ("lines", str), ("csv", int)]
)
def test_excluded_ids_are_alike_in_all_forms(container: str, written: Any) -> None:
    """Beside items, tied ones and lists; an empty or missing history, or a strange id, is none."""
    write, items = CONTAINERS[container], ITEMS.assign(item=[*map(written, [7, 8, 7, 8])])
    lists = items.groupby("u").item.agg(list).rename("preds").reset_index()
    truth = pd.DataFrame({"u": [1, 2, 3], "target": [written(8)] * 3})
    truth["seen"] = [[*map(written, [7, 99])], [], None]
    for table, named, value in (
        (items, SCORED, 1 / 3),
        (items.assign(s=1), SCORED, 1 / 2),
        (lists, {}, 1 / 3),
    ):
        given: Any = {"query": "u", "exclude": "seen", "k": 1, **named}
        found = evaluate_table(write(table, "p"), truth=write(truth, "t"), **given)
        assert found.values["acc_at_1"] == pytest.approx(value)
    one = truth.assign(preds=[lists.preds[0]] * 3)
    found = report.evaluate(write(one, "o"), exclude="seen", k=1)
    assert found.values["acc_at_1"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("container", "target"), [("frame", -1), ("parquet", None), ("lines", -1), ("csv", None)]
)
def test_a_row_without_a_target_is_left_out_or_is_a_miss(container: str, target: Any) -> None:
    """The error names the row of the truth, and says how to do either; a miss is one in all."""
    write, rows = CONTAINERS[container], pd.array([3, target], dtype="Int64")
    truth = pd.DataFrame({"u": [1, 2], "target": rows})
    says = (
        r"row 1 of (t\.|o\.|DataFrame).* must hold .* in `target`, got .*; leave the row out, or "
    )
    says += "count it as a miss with `on_missing='miss'`"
    for table, named in BOTH:
        with pytest.raises(ValueError, match=says):
            evaluate_table(write(table, "p"), truth=write(truth, "t"), query="u", k=1, **named)
    one = LISTED.assign(target=rows)
    with pytest.raises(ValueError, match=says):
        report.evaluate(write(one, "o"), k=1)
    filled = truth.assign(target=[3, 77])  # an id that no list has
    for table, named in BOTH:
        given: Any = {"query": "u", "k": 1, **named}
        expected = evaluate_table(write(table, "p"), truth=write(filled, "t"), **given)
        truths = [truth, truth.assign(target=truth.target.astype(float))]
        for gap in truths if container in ("frame", "parquet") else truths[:1]:
            given["truth"] = write(gap, "t")
            found = evaluate_table(write(table, "p"), on_missing="miss", **given)
            assert found.values == expected.values
            assert found.card["missing_targets"] == 1
    found = report.evaluate(report.Source(write(one, "o"), on_missing="miss"), k=1)
    expected = report.evaluate(write(one.assign(target=[3, 77]), "o"), k=1)
    assert (found.values, found.card["missing_targets"]) == (expected.values, 1)


def test_a_missing_target_is_a_miss_beside_words_and_a_vocabulary() -> None:
    """Its id is one more than the vocabulary; what cannot have such an id is refused."""
    rows = pd.DataFrame({"preds": [["a", "b"], ["b"], ["a"]], "target": ["b", None, "a"]})
    for words in (None, ["a", "b"]):
        found = report.evaluate(report.Source(rows, vocabulary=words, on_missing="miss"), k=1)
        assert found.values["acc_at_1"] == pytest.approx(1 / 3)
        assert found.values["mrr"] == pytest.approx((1 / 2 + 0 + 1) / 3)
        assert found.card["missing_targets"] == 1
    found = report.evaluate(report.Source(rows.dropna(), on_missing="miss"), k=1)
    assert found.values["mrr"] == 0.75
    assert "missing_targets" not in found.card
    numbers = pd.DataFrame({"preds": [[0, 1], [1]], "target": [1, -1]})
    found = report.evaluate(report.Source(numbers, on_missing="miss"), k=1, num_locations=2)
    assert found.values["mrr"] == 0.25
    assert report.read(report.Source(numbers, on_missing="miss")).target.tolist() == [0, 1]
    for given, says in (
        ({"train_counts": [1, 2]}, "`train_counts` must be None with `on_missing='miss'`"),
        ({"preds": "s"}, "`on_missing` must be 'raise' beside scores"),
        ({"on_missing": "count"}, "`on_missing` must be one of .*, got 'count'"),
    ):
        scored = numbers.assign(s=[[0.1, 0.2], [0.3, 0.4]])
        with pytest.raises(ValueError, match=says):
            evaluate_table(scored, k=1, **{"on_missing": "miss", **given})


@pytest.mark.parametrize("container", CONTAINERS)
def test_gaps_between_ranks_are_not_short_lists(container: str) -> None:
    """A list with a gap is cut nowhere; a rank that is none is named with its row."""
    write, rows = CONTAINERS[container], ITEMS.assign(r=[1, 2, 12, 14])
    truth = write(pd.DataFrame({"u": [1, 2], "item": [5, 5]}), "t")
    named: Any = {"truth": truth, "query": "u", "item": "item", "rank": "r", "k": [5, 20]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = evaluate_table(write(rows, "p"), **named)
    assert found.values["mrr"] == pytest.approx((1 / 2 + 1 / 12) / 2)
    assert found.card["short_lists"] == 1  # of the first query, which has no gap
    assert "no list has more" not in str(found)
    assert "lists are cut" not in str(found)
    for wrong in (1.5, -1, None, 100_001):
        with pytest.raises(
            ValueError, match=r"row 3 of .* must hold a whole rank from 0 .* in `r`"
        ):
            evaluate_table(write(rows.assign(r=[1, 2, 12, wrong]), "p"), **named)


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_run_that_is_a_dict_meets_other_judgements(container: str) -> None:
    """A table, whose columns are named, and a dict of single ids, in memory and in files."""
    table = pd.DataFrame({"key": ["q1", "q2"], "doc": ["a", "b"], "g": [1, 2]})
    named: Any = {"truth": CONTAINERS[container](table, "t"), "query": "key", "measures": ["mrr"]}
    run, truth = {"u1": [3, 5], "u2": [5]}, {"u1": 5, "u2": 5}
    for name, of in (("run", RUN), ("a", run), ("b", truth)):
        Path(f"{name}.json").write_text(json.dumps(of), "utf-8")
    for rows, of, column in ((RUN, named, "item"), ("run.json", named, "target")):
        found = evaluate_table(rows, **of, **{column: "doc"}, grade="g")
        assert (found.values["mrr"], found.card["without_truth"]) == ((1 / 2 + 1) / 2, 1)
    for rows, other in ((run, truth), ("a.json", "b.json")):
        assert (
            report.evaluate(report.Source(rows, truth=other), k=1).values["mrr"] == (1 / 2 + 1) / 2
        )
    bracket: Any = {"q": ["1", "[1]"]}, {"q": {"[1]": 1, "1": 0}}  # a name, and no list
    found = report.evaluate(report.Source(bracket[0], truth=bracket[1]), measures=["mrr"])
    assert found.values["mrr"] == 1 / 2
    with pytest.raises(ValueError, match="`score` must be None for a run that is a dict"):
        evaluate_table(RUN, score="g", **named)


def test_an_error_names_the_first_row_that_is_wrong() -> None:
    """Whichever rule it breaks: of items a fraction before a gap, of targets a gap before words."""
    truth = pd.DataFrame({"u": [1, 2], "item": [5, 5]})
    rows = ITEMS.assign(item=[3.5, None, 5, 3])
    with pytest.raises(ValueError, match=r"row 0 of .* whole numbers .* in `item`, got 3\.5"):
        evaluate_table(rows, truth=truth, query="u", k=1, **SCORED)
    Path("a.jsonl").write_text('{"u": 1, "item": 5}\n{"u": 2, "item": {"id": 5}}', "utf-8")
    with pytest.raises(ValueError, match=r"row 1 of a\.jsonl must hold ids .* objects"):
        evaluate_table(ITEMS, truth="a.jsonl", query="u", k=1, **SCORED)
    Path("a.csv").write_text("preds,target\n[1],-1\n[2],1.5\n", "utf-8")
    with pytest.raises(ValueError, match=r"row 0 of a\.csv must hold .* in `target`, got '-1'"):
        report.evaluate("a.csv", k=1)


def test_excluded_ids_beyond_scores_are_refused() -> None:
    """Where each location has a score, as no other can be meant."""
    scores = pd.DataFrame({"u": [1, 2], "preds": [[0.5, 0.9, 0.1]] * 2})
    truth = pd.DataFrame({"u": [1, 2], "target": [0, 1], "seen": [[99], [0]]})
    with pytest.raises(ValueError, match="below the 3 candidates"):
        report.evaluate(report.Source(scores, truth=truth, query="u"), exclude="seen", k=1)


def values_compared(*files: str) -> Any:
    """What the command prints of two models."""
    shown = CliRunner().invoke(main, ["compare", *files, "--k", "1", "--format", "json"])
    assert not shown.exception, shown.output
    return json.loads(shown.stdout)["values"]


def test_saved_tensors_are_read_and_compared() -> None:
    """`report.read` and `compare` take what `score` takes: tensors, their targets and groups."""
    scores, target = torch.rand(2, 9, 4), torch.arange(9) % 4
    for name, one in zip("ab", scores, strict=True):
        torch.save({"logits": one, "labels": target, "user": target % 2}, f"{name}.pt")
    found = report.read("a.pt", groups=["user"])
    assert torch.equal(found.preds, scores[0])
    assert found.target.tolist() == target.tolist()
    assert [*found.groups["user"]] == (target % 2).tolist()
    expected = report.compare({"a.pt": scores[0], "b.pt": scores[1]}, target, k=1)
    assert values_compared("a.pt", "b.pt") == expected.values
    torch.save(scores[0], "alone.pth")
    np.save("target.npy", target.numpy())
    assert torch.equal(report.read(report.Source("alone.pth", truth="target.npy")).target, target)
    with pytest.raises(ValueError, match="`query` must be None for a file of arrays or tensors"):
        report.read(report.Source("a.pt", query="user"))


def test_predictions_of_libcity_are_read_and_compared() -> None:
    """A query per trace, with `uid` as a group."""
    for name, of in (("a", [[3, 4], [3, 4]]), ("b", [[4, 3], [4, 3]])):
        traces = {"7": {"1": {"loc_true": [3], "loc_pred": of[:1]}}}
        traces["8"] = {"1": {"loc_true": [4], "loc_pred": of[1:]}}
        Path(f"{name}.json").write_text(json.dumps(traces), "utf-8")
    found = report.read("a.json", groups=["uid"])
    assert (found.target.tolist(), found.preds.tolist()) == ([3, 4], [[3, 4], [3, 4]])
    assert [*map(str, found.groups["uid"])] == ["7", "8"]
    values = values_compared("a.json", "b.json")
    assert values["a.json"]["acc_at_1"] == values["b.json"]["acc_at_1"] == 0.5
    assert values["a.json"]["mrr"] == 0.75


def test_dicts_in_files_are_read_and_compared() -> None:
    """Judgements that are lists have no grades, which `compare` does not read."""
    truth = {"q1": ["b"], "q2": ["a"], "q3": ["c"]}
    Path("t.json").write_text(json.dumps(truth), "utf-8")
    Path("a.json").write_text(json.dumps(RUN), "utf-8")
    Path("b.json").write_text(json.dumps({"q2": {"a": 1}, "q1": {"a": 1}}), "utf-8")
    found = report.read(report.Source("a.json", truth="t.json"))
    assert found.vocabulary is not None
    assert [found.vocabulary[x] for x in found.target.tolist()] == ["b", "a", "c"]
    values = values_compared("a.json", "b.json", "--truth", "t.json")
    assert {x: y["acc_at_1"] for x, y in values.items()} == {
        "a.json": pytest.approx(1 / 3),
        "b.json": pytest.approx(1 / 3),
    }


def error_of_score(*words: str) -> str:
    """The message of `score`."""
    shown = CliRunner().invoke(main, ["score", *words])
    assert shown.exit_code == 1
    return shown.output


@pytest.mark.parametrize("mark", [";", "|", "\t"])
def test_another_separator_is_named(mark: str) -> None:
    """In place of the header as the column that is meant."""
    Path("a.csv").write_text(f"preds{mark}target\n1{mark}2\n", "utf-8")
    assert f"and not by {mark!r}" in error_of_score("a.csv")
    assert "did you mean" not in error_of_score("a.csv")


@pytest.mark.parametrize("key", [["u"], ["user", "u"]])
def test_times_as_text_in_two_spellings_are_warned_of(key: list[str]) -> None:
    """Text is compared byte for byte: the second query is a miss, and there is a warning."""
    truth = pd.DataFrame({"u": ["2024-01-01 09:00", "2024-01-01 10:00"], "item": [7, 9], "user": 1})
    named: Any = {"query": key, "item": "item", "score": "s", "k": 1}
    rows = truth.assign(u=["2024-01-01 09:00", "2024-01-01T10:00"], s=0.9)
    with pytest.warns(UserWarning, match=r"'u' .* differ only in how a time is written"):
        assert evaluate_table(rows, truth=truth, **named).values["acc_at_1"] == 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for u in (truth.u, ["2024-01-01 09:00", "2024-01-01 11:00"]):
            evaluate_table(rows.assign(u=u), truth=truth, **named)
