"""Answers of language models in text: read right or not answered, one outcome each, none lost."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from table_forms import run

from nextloc_metrics import report
from table_calls import evaluate_table

# Names as people have them: Latin, right to left, CJK, digits, marks of JSON, of lists, of prose.
LETTERS = "aé \"'\\,[]{}:`\n\t10-_<>/“”。שاカ漢\u200f"
NAMES = st.text(LETTERS, min_size=1, max_size=8)
PROSE = st.sampled_from(
    ["", "Sure! ", "The 3rd of 12 places, at 8:30:\n", "He said “home”. ", "次は: ", "\n\n", "{x} "]
)


#: as JSON, Python and people write lists
WRITERS: list[Callable[[list[str]], str]] = [
    json.dumps,
    repr,
    lambda names: repr({"reason": "it's [near]", "next": names, "sure": None}),
    lambda names: json.dumps({"answer": {"n": 0.5, "next": names}, "why": "[1] {2}"}, indent=1),
    lambda names: f"{json.dumps(names, ensure_ascii=False)[:-1]},]",  # which JSON refuses
    lambda names: f"```json\n{json.dumps(names)}\n```",
]


@st.composite
def answers(draw: Any) -> tuple[list[str], str, bool]:
    """Names, a text that holds them, and whether the form can read it."""
    names, others = (draw(st.lists(NAMES, min_size=1, max_size=5)) for _ in range(2))
    text = draw(st.sampled_from(WRITERS))(names)
    kind = draw(
        st.sampled_from(["clean", "same", "two", "smart", "nested", "null", "joined", "cut"])
    )
    if kind == "same":
        text = f"{text}, again: {draw(st.sampled_from(WRITERS))(names)}"
    elif kind == "two":
        text = f"{text} or {json.dumps(others)}"
    elif kind == "smart":
        text = "[" + ", ".join(f"“{name}”" for name in names) + "]"
    elif kind == "nested":
        text = json.dumps([names])
    elif kind == "null":
        text = json.dumps([*names, draw(st.sampled_from([None, True, 1.5]))])
    elif kind == "joined":  # Python joins two texts without a comma
        text = f"[{' '.join(repr(name) for name in [*names, 'x'])}]"
    text = draw(PROSE) + text
    if kind == "cut":
        return names, text[: draw(st.integers(0, len(text)))], False
    is_clean = kind in ("clean", "same") or (kind == "two" and names == others)
    return names, text + draw(PROSE), is_clean


def names_in(found: report.Answers, ids: list[str], row: int) -> list[str | None]:
    """The names of an answer, None for an invented one."""
    return [ids[x] if x < len(ids) else None for x in found.preds[row].tolist() if x >= 0]


@given(answers(), st.data())
def test_an_answer_is_read_right_or_not_answered(answer: Any, data: Any) -> None:
    """A text that is clean is read, and whatever is read are the names in their order."""
    names, text, is_clean = answer
    ids = data.draw(st.lists(st.sampled_from(names), unique=True, min_size=1))
    found = report.read_answers([text], ids=ids)
    assert not is_clean or found.outcomes == ["answered"], text
    if found.outcomes == ["answered"]:
        assert names_in(found, ids, 0) == [x if x in ids else None for x in names], text
        invented = [x for x in found.preds[0].tolist() if x >= len(ids)]
        assert len(set(invented)) == len(set(names) - set(ids))  # one number a name
    else:
        assert found.preds.tolist() == [[-1]]


PLAIN = (
    st.text("abé カ漢ש'-1", min_size=1, max_size=8)
    .map(str.strip)
    .filter(lambda x: x and not re.match(r"[-'(]|\d+[.)]", x))
)


@given(
    st.lists(PLAIN, min_size=1, max_size=6),
    st.sampled_from(["{i}. {x}", "({i}) {x}", "- {x}", '* "{x}"', "  {i})  {x}  "]),
    st.sampled_from(["", "Here are my 3 answers:\n\n", "```\n"]),
    st.sampled_from(["", "\n\nI hope that this helps.", "\n```"]),
    st.data(),
)
def test_marked_lines_are_a_list(
    names: list[str], mark: str, before: str, after: str, data: Any
) -> None:
    """Numbers and bullets may have prose around; a list cut to its first lines has these names."""
    ids = data.draw(st.lists(st.sampled_from(names), unique=True, min_size=1))
    lines = [mark.format(i=i, x=x) for i, x in enumerate(names, 1)]
    found = report.read_answers([before + "\n".join(lines) + after], ids=ids, form="lines")
    assert found.outcomes == ["answered"]
    assert names_in(found, ids, 0) == [x if x in ids else None for x in names]


@given(st.lists(PLAIN, min_size=1, max_size=6), st.sampled_from([", ", ",", "\n", ",\n"]))
def test_fields_are_a_list(names: list[str], between: str) -> None:
    """Commas or newlines separate names, with or without quotes."""
    ids = list(dict.fromkeys(names))
    quoted = between.join(f'"{name}"' for name in names)
    found = report.read_answers([between.join(names), quoted], ids=ids, form="separated")
    assert [names_in(found, ids, row) for row in (0, 1)] == [names, names]


IDS = ["Cafe", "Home", "12", "Bar, north"]
OUTCOMES = ("answered", "missing", "empty", "cut", "unreadable")


CASES = {
    "json": [
        (None, "empty"),
        (" \n", "empty"),
        ("[]", "empty"),
        ('{"a": []}', "empty"),
        ('["Cafe", 12, "Mars"]', [0, 2, 4]),
        ("I say ['Bar, north',\n 'Home', ] now", [3, 1]),
        ('["a", "b", "a", 012]', "unreadable"),
        ("the 3rd answer: 12", "unreadable"),
        ("12", "unreadable"),
        ('"Cafe"', "unreadable"),
        ("[Cafe, Home]", "unreadable"),
        ("[true]", "unreadable"),
        ("[12.0]", "unreadable"),
        ("[1e2]", "unreadable"),
        ("['Cafe', None]", "unreadable"),
        ("['Cafe' 'Home']", "unreadable"),
        ("[1 2, 7]", "unreadable"),
        ("[,]", "unreadable"),
        ("['Cafe',,'Home']", "unreadable"),
        ("('Cafe', 'Home')", "unreadable"),
        ("{'Cafe', 'Home'}", "unreadable"),
        ("[0x10]", "unreadable"),
        ("[1_2]", "unreadable"),
        ("[b'Cafe']", "unreadable"),
        ("['Cafe\\/']", "unreadable"),
        ('[["Cafe"]]', "unreadable"),
        ('[{"name": "Cafe"}]', "objects"),
        ('{"next": [{"name": "Cafe"}, {"id": 12}]}', "objects"),
        ('[{"name": "Cafe"}, "Home"]', "unreadable"),
        ('[{"name": "Cafe"}] ["Home"]', "unreadable"),
        ('["Cafe"] ["Home"]', "unreadable"),
        ('["Cafe"] [“Home”]', "unreadable"),
        ('{"a": ["Cafe"], "a": ["Home"]}', "unreadable"),  # Python keeps the last
        ('[12] ["12"]', [2]),
        ("[12] [true]", "unreadable"),
        ('$\\boxed{["Home"]}$', [1]),
        ('["Cafe", "Ho', "cut"),
        ('["Cafe", ', "cut"),
        ('["Cafe"] and then ["Home"', "cut"),
        ('{"prediction": ["Cafe", 1', "cut"),
        ('{"prediction": ["Cafe"], "why', "unreadable"),
        ('["Home", "a"b"]', "unreadable"),
        ("['Home', 'O'Hara']", "unreadable"),
        ('{"next": ["Home", "a""]}', "unreadable"),
        ('["Home", "5" x 3", "Cafe"]', "unreadable"),
        ("['Home', 'O", "cut"),
        ("I will not, sorry", "unreadable"),
        ("sorry: [1, 2] [3]", "unreadable"),
    ],
    "lines": [
        ("Cafe\nHome", [0, 1]),
        ("Cafe\nMars", [0, 4]),
        ("1.Home\n2.12", "unreadable"),
        ("1.Home\n2.Cafe", [1, 0]),
        ("Here:\n1)Home\n2)Cafe", [1, 0]),
        ("1.) Home\n12", [4, 2]),
        ("Sure, here you go:\nCafe", "unreadable"),
        ("1. Cafe\n\n2. Home\nbecause it is near", [0, 1]),
        ("1. Cafe\r\n2. Home\r", [0, 1]),
        ("1. Cafe\n2. Zoo: it is near", [0, 4]),
        ("Cafe\rHome", [0, 1]),
        ("2. Cafe\n3. Home", "unreadable"),
        ("- Cafe\n\nor\n- Home", "unreadable"),
        ("Home\n- Cafe", "unreadable"),
        ("I am sorry.", "unreadable"),
        # bold, backticks and italics of Markdown
        ("1. **Cafe**\n2. **Home**", [0, 1]),
        ("- `Cafe`\n- **12**", [0, 2]),
        ("* ***Cafe***\n* **`Home`**", [0, 1]),
        ('1. **"Cafe"**\n2. *Home*', [0, 1]),
        ("**1. Cafe**\n**2. Home**", [0, 1]),
        ("**Answer:**\n1. _Cafe_\n2. __Home__", [0, 1]),
        ("**Cafe**\n`Home`", [0, 1]),
        ("1. **Mars**\n2. **Cafe", [4, 4]),
        ("1. **Cafe** and **Home**", [4]),
        ("**The next place:**\nCafe", "unreadable"),
    ],
    "separated": [
        ("**Home**, `12`", [1, 2]),
        ("*Home*, __12__, **Mars**", [1, 2, 4]),
        ("**I am not sure.**, Home", "unreadable"),
    ],
    r"pattern=id (\d+)": [("id 12, then id 7", [2, 4]), ("12", "unreadable")],
    r"pattern=((?:<[a-z]_\d+>)+)": [("<a_1><b_2>, <a_1>", [0, 4]), ("nothing", "unreadable")],
}


@given(
    st.lists(st.text("ab c", min_size=2).map(str.strip), min_size=1, max_size=4),
    st.sampled_from("\"'"),
    st.data(),
)
def test_a_quote_within_quotes_is_never_a_cut_list(names: list[str], quote: str, data: Any) -> None:
    """Wherever it stands in a complete list, before, in or behind a name."""
    row = data.draw(st.integers(0, len(names) - 1))
    at = data.draw(st.integers(0, len(names[row])))
    names[row] = f"x{names[row][:at]}{quote}{names[row][at:]}"
    text = f"[{', '.join(f'{quote}{name}{quote}' for name in names)}]"
    assert report.read_answers([text], ids=IDS).outcomes == ["unreadable"]


@pytest.mark.parametrize("form", CASES)
def test_outcomes_by_hand(form: str) -> None:
    """Each text has the list, or the outcome, that the rules give it."""
    ids = ["<a_1><b_2>", "x", "y", "z"] if "<" in form else IDS
    ids = [x.replace(",", "") for x in ids] if form == "lines" else ids
    texts, wanted = zip(*CASES[form], strict=True)
    found = report.read_answers(texts, ids=ids, form=form)
    lists = [
        outcome if outcome != "answered" else [x for x in row if x >= 0]
        for outcome, row in zip(found.outcomes, found.preds.tolist(), strict=True)
    ]
    # invented names are numbered over all texts
    read = [x if isinstance(x, str) else [min(i, len(ids)) for i in x] for x in lists]
    assert read == list(wanted)


def test_options_say_which_list() -> None:
    """`key`, `take` and `after` choose; `fold` compares loosely; `k` counts what it leaves out."""
    two = '["Cafe"] no: ["Home"]'
    for options, text, wanted in [
        ({"take": "last"}, two, [1]),
        ({"take": "last"}, '["Cafe"] ["Ho', []),
        ({"after": "</think>"}, f'{two}</think>["Home"]', [1]),
        ({"after": "</think>"}, "<think>[12]", []),
        ({"after": "</think>"}, "[12]</think> ", []),
        ({"key": "next"}, '{"seen": ["Cafe"], "next": ["Home"]} ["Cafe"]', [1]),
        ({"key": "next"}, '{"seen": ["Cafe"]}', []),
        ({"fold": True}, '["  CAFÉ ", "HOME", "home", "mars", "Márs"]', [0, 1, 1, 4, 4]),
        ({"k": 1}, '["Home", "Cafe", "Cafe"]', [1]),
        ({"form": re.compile("<(.*?)>")}, "<Home><Mars>", [1, 4]),
    ]:
        found = report.read_answers([text], ids=IDS, **options)  # type: ignore[call-overload]
        names = [min(x, 4) for x in found.preds[0].tolist() if x >= 0]  # 4 and more are invented
        assert names == wanted, options
        assert (found.outcomes == ["answered"]) == bool(wanted)
    assert report.read_answers(['["Home", "x", "y"]'], ids=IDS, k=1).lengths.tolist() == [3]
    how: Any = {"key": "next", "take": "last", "after": "#", "k": 2, "fold": True}
    rule = report.read_answers([], ids=IDS, **how).rule
    for part in (
        "json",
        "'next'",
        "last",
        "'#'",
        "k=2",
        "fold=True",
        "4 ids",
        "cannot be seen",
    ):
        assert part in rule


OBJECTS = '[{"id": 12, "why": "near [here]"}, {"id": "Cafe", "why": null}]'


@pytest.mark.parametrize(("text", "wanted"), [
    (OBJECTS, [2, 0]), (f'{{"seen": ["Home"], "next": {OBJECTS}}}', [2, 0]),
    (f"So:\n```json\n{OBJECTS}\n```", [2, 0]), ("[{'id': 'Cafe', 'ok': True,},]", [0]),
    (f"{OBJECTS} {OBJECTS}", [2, 0]), ('[{"id": "Mars"}]', [4]), ('{"id": ["Home"]}', [1]),
    ('[{"id": 12}, {"name": "Cafe"}]', "unreadable"), ('[{"id": 12, "id": "Cafe"}]', "unreadable"),
    ('[{"id": 12}, "Cafe"]', "unreadable"), ('[{"id": ["Cafe"]}]', "unreadable"),
    ('[{"id": 1.5}]', "unreadable"), ('[{"id": 12}] [{"id": "Cafe"}]', "unreadable"),
    ('[{"name": "Cafe"}]', "objects"), ('[{"id": 12}, {"id": "Ca', "cut"),
])  # fmt: skip
def test_key_names_a_field_of_the_items(text: str, wanted: Any) -> None:
    """As most prompts ask for them; an item without the field, or with two, is no name."""
    found = report.read_answers([text], ids=IDS, key="id")
    names = [min(x, 4) for x in found.preds[0].tolist() if x >= 0]
    assert (found.outcomes, names) == (
        ([wanted], []) if isinstance(wanted, str) else (["answered"], wanted)
    )
    last = report.read_answers([f'{text} [{{"id": "Home"}}]'], ids=IDS, key="id", take="last")
    assert last.outcomes == ["answered"] or wanted == "cut"


@pytest.mark.parametrize("form", [".jsonl", ".csv", "real lists", "frame"])
def test_a_table_of_objects(form: str, tmp_path: Path) -> None:
    """Objects in text and as real lists are read by the field; the shell has the option, too."""
    lists = [[{"id": "Cafe", "why": "near"}, {"id": "Home", "why": "late"}]] * 3
    texts = lists if form in ("real lists", "frame") else [json.dumps(x) for x in lists]
    rows: Any = pd.DataFrame({"preds": texts, "target": ["Cafe", "Home", "12"]})
    how: dict[str, Any] = {"vocabulary": IDS, "k": 1}
    if form != "frame":
        path = tmp_path / ("a.csv" if form == ".csv" else "a.jsonl")
        save = rows.to_csv if form == ".csv" else rows.to_json
        save(path, **({"index": False} if form == ".csv" else {"orient": "records", "lines": True}))
        rows = path
        (tmp_path / "ids.txt").write_text("\n".join(IDS), "utf-8")
        command = ["score", str(path), "--k", "1", "--vocabulary", str(tmp_path / "ids.txt")]
        command += ["--answers", "form=json", "--answers", "key=id", "--format", "json"]
        shown = run(*command)
        assert json.loads(shown.stdout)["mrr"]["value"] == 0.5
    found = evaluate_table(rows, answers={"form": "json", "key": "id"}, **how)
    assert (found.values["mrr"], found.values["answered"]) == (0.5, 1)
    if form != "frame":
        with pytest.warns(
            UserWarning, match=r"3 of 3 .* unreadable; 3 are lists of objects.*`key`"
        ):
            found = evaluate_table(rows, answers={"form": "json"}, **how)
        assert (found.values["mrr"], found.values["unreadable"], found.card["objects"]) == (0, 1, 3)
        with pytest.raises(ValueError, match=r"objects.*'key'|read them with `answers`|several"):
            report.evaluate(rows, k=1)


TEXTS = [
    '["Cafe", "Home"]', "x", '["Home", "Mars", "Home", "Mars", "Cafe"]', '["Ca', "", "sorry",
    "[12]", '["Home"]', '["Mars"]',
]  # fmt: skip
TARGETS, USERS = [0, 0, 1, 0, 1, 2, 2, 0, 0], ["a", "a", "b", "b", "b", "c", "c", "d", "d"]


def read_all() -> report.Answers:
    """The texts with a query that has no answer, after the first."""
    found = report.read_answers(TEXTS, ids=IDS, k=4)
    return found.at([0, -1, *range(1, len(TEXTS))])


def evaluated(**options: Any) -> report.Evaluation:
    """The evaluation of all texts."""
    target, users = [TARGETS[0], 3, *TARGETS[1:]], ["a", "c", *USERS[1:]]
    return report.evaluate(read_all(), target, k=(1, 3), groups={"user": users}, **options)


def test_every_answer_counts_in_the_divisor() -> None:
    """Values, shares, and the numbers of the card are those of plain Python."""
    e = evaluated()
    outcomes = ["answered", "missing", "unreadable", "answered", "cut", "empty", "unreadable"]
    outcomes += ["answered"] * 3
    assert read_all().outcomes == outcomes
    assert e.card["num_asked"] == 10 == sum(e.card[x] for x in OUTCOMES)
    for name in OUTCOMES:
        assert e.card[name] == outcomes.count(name)
        assert e.values[name] == pytest.approx(outcomes.count(name) / 10, abs=1e-9)
    assert [e.card[f"positions_{x}"] for x in ("known", "invented", "repeated", "beyond_k")] == [
        5, 2, 2, 1
    ]  # fmt: skip
    assert e.values["acc_at_1"] == pytest.approx(3 / 10)  # rows 0, 3 and 7
    assert e.columns["among answered"]["acc_at_1"].value == pytest.approx(3 / 5)
    assert e.values["invented"] == pytest.approx((0 + 1 / 4 + 0 + 0 + 1) / 5)
    assert e.values["repeated"] == pytest.approx(2 / 4 / 5)
    assert e.values["shorter_than_3"] == pytest.approx(4 / 5)
    assert (e.intervals["cut"][0], e.intervals["cut"][1]) == pytest.approx((0.0178762, 0.4041500))
    of_user = {x["group"]: x for x in e.group_records("user") if x["metric"] == "answered"}
    assert [of_user[x]["value"] for x in "abcd"] == pytest.approx([1 / 2, 1 / 3, 1 / 3, 1])
    for text in (str(e), e.to_markdown(), e.to_csv()):
        assert "unreadable" in text
    assert "among answered" in e.to_latex()


@pytest.mark.slow
def test_answers_add_up(tmp_path: Path) -> None:
    """Parts, bytes and files have the same values and cards, and other rules are refused."""
    e, found, target = evaluated(), read_all(), torch.tensor([TARGETS[0], 3, *TARGETS[1:]])
    users = ["a", "c", *USERS[1:]]
    parts = []
    for of in (slice(0, 4), slice(4, 10)):
        part = report.Evaluator(k=(1, 3))
        part.update(found[of], target[of], groups={"user": users[of]})
        parts.append(report.Evaluator.from_bytes(part.to_bytes()))
    both = report.Evaluator(k=(1, 3)).merge(parts[0]).merge(parts[1]).result()
    assert (both.values, both.intervals, both.card) == (e.values, e.intervals, e.card)
    both.save(tmp_path / "a.npz")
    assert report.merge([tmp_path / "a.npz"]).card == e.card
    other = report.Evaluator(k=(1, 3))
    unanswered = report.read_answers(["[]"], ids=IDS, take="last")
    other.update(unanswered, [0], groups={"user": ["a"]})
    with pytest.raises(ValueError, match="`answers`"):
        parts[0].merge(other)
    with pytest.raises(ValueError, match="answers read by"):
        parts[1].update([[1]], [0], groups={"user": ["a"]})
    for options, message in [
        ({"num_locations": 5}, "`num_locations` must be 4"),
        ({}, "below the 4"),
    ]:
        with pytest.raises(ValueError, match=message):
            report.evaluate(found, [4] * 10, **options)
    masked = report.evaluate(found, [4, *[0] * 9], mask=[False, *[True] * 9], k=1)
    assert masked.card["num_asked"] == 9


def write_table(path: Path, name: str, rows: list[tuple[Any, ...]]) -> Path:
    """Write JSON lines with the columns id, target, user and one more."""
    columns = ("id", "target", "user", name)
    lines = [json.dumps(dict(zip(columns, row, strict=False))) for row in rows]
    (path / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return path / f"{name}.jsonl"


def test_a_table_of_answers(tmp_path: Path) -> None:
    """A table is read as arrays are; a table of all queries shows which are missing."""
    rows = [(f"q{i}", IDS[x], USERS[i], TEXTS[i]) for i, x in enumerate(TARGETS)]
    answers = write_table(tmp_path, "answer", rows)
    options: dict[str, Any] = {
        "preds": "answer",
        "vocabulary": IDS,
        "groups": ["user"],
        "k": (1, 3),
    }
    how = {"k": 4}
    found = evaluate_table(answers, answers=how, **options)
    assert "cannot be seen" in found.card["answers"]
    assert "missing" not in found.values
    queries = write_table(tmp_path, "query", [*rows[:1], ("q9", IDS[3], "c"), *rows[:0:-1]])
    for key in ("id", ["user", "id"]):
        joined = evaluate_table(answers, answers=how, truth=queries, query=key, **options)
        assert joined.values == evaluated().values
        assert joined.card["missing"] == 1
    extra = write_table(tmp_path, "extra", [*rows, ("q77", "Home", "a", "[]")])
    twice = write_table(tmp_path, "twice", [*rows, rows[0]])
    again = write_table(tmp_path, "again", [*rows, rows[-1]])  # the row before has the key
    for wrong, message in [
        ({"answers": how, "truth": queries}, "`query` must name the columns"),
        ({"answers": how, "truth": queries, "query": "id", "grade": "x"}, "`answers` must not"),
        ({"truth": queries, "query": "id", "k": 1}, "read them with `answers`"),
        ({"answers": how, "vocabulary": None}, "`answers` needs `vocabulary`"),
        ({"answers": {"from": "json"}}, "`answers` must be a dict of options .* got 'from'"),
        ({"answers": "json"}, "`answers` must be a dict of options .* got 'json'"),
        ({}, "read them with `answers`"),
    ]:
        table = write_table(tmp_path, "answer", [(*x[:3], f"It is {x[3]}\n.") for x in rows])
        with pytest.raises((TypeError, ValueError), match=message):
            evaluate_table(table, **{**options, **wrong})
    for table, message in [
        (extra, "got none for 1 of them, the first .*'q77'"),
        (twice, "a query once in `id`, got 'q0' twice"),
        (again, "line 10.* got 'q8' twice"),
    ]:
        options["preds"] = table.stem
        with pytest.raises(ValueError, match=message):
            evaluate_table(table, answers=how, truth=queries, query="id", **options)


def csv(*cells: str) -> bytes:
    """A table of answers to the same query."""
    rows = ['"{}",Home'.format(cell.replace('"', '""')) for cell in cells]
    return "\n".join(["said,target", *rows]).encode()


HOME = '["Home"]'
