"""`report.read` and `compare` of predictions whose truth is in another table."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from command import main
from nextloc_metrics import report
from table_calls import evaluate_table, read_table

pytestmark = pytest.mark.slow  # the hostile laws read files, too, and take less

#: queries of two columns, with the target, and the answers of two models, best first
TRUTH = {("ann", 1): "zoo", ("ann", 2): "cafe", ("bob", 1): "home", ("cy", 9): "park"}
MODELS = {
    "one": {("ann", 1): ["zoo", "cafe"], ("bob", 1): ["zoo", "home"], ("cy", 9): ["park"]},
    "two": {("cy", 9): ["home", "park"], ("ann", 2): ["cafe"], ("ann", 1): ["bar", "zoo"]},
}
BY_KEY = ["--query", "user,time"]
BY_ITEM = [*BY_KEY, "--item", "place", "--score", "score"]


def write_items(path: Path, answers: dict[Any, list[str]]) -> Path:
    """A row for each item, in any order; a query that nobody asked is beside them."""
    rows = [(*query, x, -i) for query, items in answers.items() for i, x in enumerate(items)]
    rows = [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]
    lines = ["user,time,place,score", "eve,1,zoo,9"]
    path.write_text("\n".join([*lines, *(",".join(map(str, x)) for x in rows)]), encoding="utf-8")
    return path


def write_lists(path: Path, answers: dict[Any, list[str]]) -> Path:
    """A row for each query, with its list."""
    rows = [f"{user},{time},{'|'.join(x)}" for (user, time), x in answers.items()]
    path.write_text("\n".join(["user,time,preds", *rows]), encoding="utf-8")
    return path


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    """The table of the targets."""
    rows = [f"{user},{time},{place}" for (user, time), place in TRUTH.items()]
    path = tmp_path / "truth.csv"
    path.write_text("\n".join(["user,time,place", *rows]), encoding="utf-8")
    return path


FORMS: dict[str, tuple[Any, list[str]]] = {
    "items": (write_items, BY_ITEM),
    "lists": (write_lists, [*BY_KEY, "--answers", "separator=|", "--target", "place"]),
}


@pytest.mark.parametrize("form", FORMS)
def test_models_are_compared_query_by_query(form: str, truth: Path, tmp_path: Path) -> None:
    """As arrays in the order of the truth; a missing query is a miss, and is counted."""
    write, options = FORMS[form]
    files = [str(write(tmp_path / f"{name}.csv", found)) for name, found in MODELS.items()]
    given = [*files, "--truth", str(truth), *options, "--k", "1,2", "--cluster", "user"]
    shown = CliRunner().invoke(main, ["compare", *given, "--format", "json"])
    assert not shown.exception, shown.output
    words = ["zoo", "cafe", "home", "park", "bar"]
    lists = {
        file: [[*map(words.index, found.get(query, [])), -1, -1][:2] for query in TRUTH]
        for file, found in zip(files, MODELS.values(), strict=True)
    }
    users = [user for user, _ in TRUTH]
    expected = report.compare(
        lists, [*map(words.index, TRUTH.values())], k=(1, 2), groups={"user": users}, cluster="user"
    )
    (second,) = expected.comparisons
    text = shown.output
    found = json.loads(text[text.index("{") : text.rindex("}") + 1])
    assert found["values"] == expected.values
    for name, pair in expected.comparisons[second].items():
        mine = found["comparisons"][second][name]
        assert (mine["difference"], mine["p_value"]) == (pair.difference, pair.p_value)
    others = ", without truth 1" if form == "items" else ""
    notes = [line for line in text.splitlines() if line.startswith("Note: ")]
    assert notes == [f"Note: {x}: missing 1{others}" for x in files]


def test_a_comparison_reads_no_grades(truth: Path, tmp_path: Path) -> None:
    """`score` does."""
    files = [str(write_items(tmp_path / f"{name}.csv", of)) for name, of in MODELS.items()]
    truth.write_text(truth.read_text(encoding="utf-8").replace("\n", ",2\n", 4) + ",1", "utf-8")
    text = truth.read_text(encoding="utf-8").replace("place,2", "place,grade", 1)
    truth.write_text(text, encoding="utf-8")
    given = ["--truth", str(truth), *BY_ITEM, "--grade", "grade"]
    shown = CliRunner().invoke(main, ["compare", *files, *given])
    assert "No such option '--grade'" in shown.output
    assert CliRunner().invoke(main, ["score", files[0], *given]).exit_code == 0
    (tmp_path / "a.run").write_text("q1 Q0 a 1 0.9 x\n", "utf-8")
    (tmp_path / "judged").write_text("q1 0 a 1\n", "utf-8")
    run = ["compare", *2 * [str(tmp_path / "a.run")], "--truth", str(tmp_path / "judged")]
    assert "`--truth` must have no grades for `compare`" in CliRunner().invoke(main, run).output


def test_read_has_keys_and_counts(truth: Path, tmp_path: Path) -> None:
    """The columns of a query are groups; the targets have equal numbers in every file."""
    numbers = []
    for name, answers in MODELS.items():
        path = write_items(tmp_path / f"{name}.csv", answers)
        columns: Any = {"query": ["user", "time"], "item": "place", "score": "score"}
        found = read_table(path, truth=truth, **columns)
        keys = zip(found.groups["user"], map(int, found.groups["time"]), strict=True)
        assert [*keys] == [*TRUTH]
        assert found.vocabulary is not None
        assert [found.vocabulary[x] for x in found.target.tolist()] == [*TRUTH.values()]
        assert (found.card["missing"], found.card["without_truth"]) == (1, 1)
        numbers.append(found.target.tolist())
    assert numbers[0] == numbers[1]
    with pytest.raises(ValueError, match="`item` needs `truth`, the table of the relevant ids"):
        report.read(report.Source(path, item="place", score="score"))


@pytest.mark.parametrize("last", [None, float("nan")])
def test_columns_of_ids_beside_gaps_are_ids(last: float | None) -> None:
    """Pandas makes them floats, as its `pivot` does; a fraction is no id."""
    rows = pd.DataFrame({"q": [1, 2], "p_0": [2.0, 1.0], "p_1": [0.0, last]})
    truth = pd.DataFrame({"q": [1, 2], "target": [2, 0]})
    form: dict[str, Any] = {"truth": truth, "query": "q", "preds": "p_*", "k": 1}
    assert evaluate_table(rows, **form, num_locations=3).values["mrr"] == 0.5
    rows["p_1"] = [0.5, 1.5]
    with pytest.raises(ValueError, match=r"row 0 of .* must hold whole numbers .*got 0\.5"):
        evaluate_table(rows, **form)


def test_times_are_equal_however_they_are_written(tmp_path: Path) -> None:
    """With and without zeros behind the seconds, and as days; what is no time is refused."""
    written = ["2026-01-01 00:00:00.5", "2026-01-01T00:00:00.123456", "2026-01-02"]
    times = pd.to_datetime(written, format="ISO8601")
    rows = pd.DataFrame({"t": times, "preds": [[1], [2], [3]]})
    truth = pd.DataFrame({"t": written, "target": [1, 2, 3]})
    truth.to_csv(tmp_path / "truth.csv", index=False)
    for other in (truth, tmp_path / "truth.csv"):
        found = report.evaluate(report.Source(rows, truth=other, query="t"), k=1, num_locations=4)
        assert (found.values["acc_at_1"], found.card.get("missing", 0)) == (1, 0)
    truth.loc[2, "t"] = "soon"
    with pytest.raises(ValueError, match=r"row 2 of DataFrame must hold a time, as in .* 'soon'"):
        report.evaluate(report.Source(rows, truth=truth, query="t"), num_locations=4)


# The queries of two instants, 14:00 and 18:00 UTC, of which the second is right.
ANSWERS = pd.DataFrame({"t": pd.to_datetime(["2012-04-03 14:00", "2012-04-03 18:00"])})
ANSWERS["preds"] = [[8, 9], [5, 3]]
IN_UTC = ANSWERS.assign(t=ANSWERS.t.dt.tz_localize("UTC"))


def of_times(rows: Any, times: Any, folder: Path, form: str = "pandas") -> float:
    """Accuracy at 1 of the target 5 at each time."""
    truth = pd.DataFrame({"t": times, "target": 5})
    path = folder / f"truth.{form}"
    if form == "parquet":
        truth.to_parquet(path)
    elif form != "pandas":
        save = truth.to_csv if form == "csv" else truth.to_json
        save(path, **({"index": False} if form == "csv" else {"orient": "records", "lines": True}))
    found = report.evaluate(
        report.Source(rows, truth=truth if form == "pandas" else path, query="t"),
        k=1,
        num_locations=10,
    )
    return found.values["acc_at_1"]


@pytest.mark.parametrize("form", ["csv", "jsonl", "pandas", "parquet"])
@pytest.mark.parametrize("time", [
    "2012-04-03 14:00:00-04:00", "2012-04-03T18:00Z", "2012-04-04 03:00:00+0900",
    "2012-04-04T03:00:00.000+09", "2012-04-03 18:00:00 UTC", "2012-04-03 23:30:00 +05:30",
    "2012-04-03T14:00:00.000000000-0400",
])  # fmt: skip
def test_an_offset_of_text_is_read(form: str, time: str, tmp_path: Path) -> None:
    """The same instant in any zone is the same key, beside times of a zone, also another one."""
    assert of_times(IN_UTC, [time], tmp_path, form) == 1
    in_tokyo = IN_UTC.assign(t=IN_UTC.t.dt.tz_convert("Asia/Tokyo"))
    assert of_times(in_tokyo, [time], tmp_path, form) == 1
    assert of_times(in_tokyo, [IN_UTC.t[1].floor("s")], tmp_path) == 1
    IN_UTC.assign(t=IN_UTC.t.astype("datetime64[ms, UTC]")).to_parquet(tmp_path / "rows.parquet")
    assert of_times(tmp_path / "rows.parquet", [time, IN_UTC.t.astype(str)[0]], tmp_path) == 0.5


@pytest.mark.parametrize(("rows", "time", "says"), [
    (IN_UTC, "2012-04-03 18:00:00", "row 0 .*time with its offset.*18:00:00'; write the offset"),
    (IN_UTC, "2012-04-03", "row 0 .*time with its offset.*'2012-04-03'; write the offset"),
    (IN_UTC, pd.Timestamp("2012-04-03 18:00"), r"a zone or both without.*tz_localize"),
    (IN_UTC, pd.Timestamp("2012-04-03").date(), r"a zone or both without.*tz_localize"),
    (ANSWERS, IN_UTC.t[1], r"a zone or both without.*tz_localize"),
    (ANSWERS, "2012-04-03 18:00:00+09:00", r"row 0 .*without an offset.*\+09:00'.*tz_localize"),
    (ANSWERS, "2012-04-03 18:00:00 Asia/Tokyo", "row 0 .*must hold a time.*Asia/Tokyo'"),
    (ANSWERS, "2012-04-03 06:00:00 PM", "row 0 .*must hold a time.*PM'"),
    (IN_UTC, "2012-04-03 18:00:00.0000000001Z", "row 0 .*must hold a time.*0000001Z'"),
])  # fmt: skip
def test_a_time_whose_zone_is_not_known_is_refused(
    rows: Any, time: Any, says: str, tmp_path: Path
) -> None:
    """Beside times with a zone, and one with a zone beside others; no part of a time is dropped."""
    with pytest.raises(ValueError, match=says):
        of_times(rows, [time], tmp_path)


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_times_keep_their_nanoseconds(zone: str | None, tmp_path: Path) -> None:
    """Keys that differ in the last digit are two, in text and in columns of times."""
    times = pd.Series(pd.to_datetime([1_000_000_001, 1_000_000_002], unit="ns")).dt
    rows = pd.DataFrame({"t": times.tz_localize(zone), "preds": [[8], [5]]})
    written = f"1970-01-01 00:00:01.000000002{'' if zone is None else 'Z'}"
    assert of_times(rows, [written], tmp_path) == of_times(rows, rows.t[1:], tmp_path) == 1


def test_instants_of_text_in_two_zones_are_warned_of(tmp_path: Path) -> None:
    """Text is compared byte for byte; the same hour in another zone is another time."""
    rows = ANSWERS.assign(t=["2012-04-03 14:00:00Z", "2012-04-03 18:00:00Z"])
    first = rows.t[0]
    for time in ("2012-04-03 14:00:00-04:00", "2012-04-03 18:00:00"):
        with pytest.warns(UserWarning, match="differ only in how a time is written"):
            assert of_times(rows, [first, time], tmp_path) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert of_times(rows, [first, "2012-04-03 18:00:00+09:00"], tmp_path) == 0
