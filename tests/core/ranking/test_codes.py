"""Beams of codes against every order of the locations that share a code."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import tensor

import oracle
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    AccuracyAtLevel,
    Codes,
    Grouped,
    LocationF1,
    NDCGAtK,
    PrecisionAtK,
    Ranking,
    RankingCollection,
)
from strategies import BLOCK_CASES, RANK_CASES, RANKING_CASES, examples

CASES = {
    str(case): case
    for case in [*RANKING_CASES, *BLOCK_CASES, *RANK_CASES]
    if not {"num_candidates", "average", "empty_target_action"} & case.options.keys()
    and ("ties" not in case.options or case.name == "MRR")
}
METRICS = RankingCollection({str(i): case.make() for i, case in enumerate(CASES.values())})
WAYS = [(invalid, scored) for invalid in ("rank", "drop") for scored in (False, True)]

Code = tuple[int, ...]


class Example:
    """A codebook of up to seven locations, and beams of one query with a target or two."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        size = draw.randint(1, 7)
        codes = [self.code(draw) for _ in range(size)]
        self.book = [draw.choice(codes[: draw.randint(1, size)]) for _ in range(size)]
        near = [*self.book, *(one[:-1] for one in self.book), *(self.code(draw) for _ in range(3))]
        self.beams = [draw.choice(near) for _ in range(draw.randint(0, 6))]
        self.target = draw.sample(range(size), draw.choice([1, 1, 2]) if size > 2 else 1)
        steps = sorted(draw.choice([0.5, 0.25, 0.125, -math.inf]) for _ in self.beams)
        self.scores = steps[::-1]

    @staticmethod
    def code(draw: random.Random) -> Code:
        """One to three tokens, of which there are few."""
        return tuple(draw.randrange(2) for _ in range(draw.choice([1, 2, 2, 3])))

    def written(self, scored: bool) -> list[tuple[float, Code]]:
        """The beams that are candidates, with their scores; without scores, all differ."""
        scores = self.scores if scored else [-float(i) for i in range(len(self.beams))]
        pairs = zip(scores, self.beams, strict=True)
        return [(score, code) for score, code in pairs if code and score > -math.inf]

    def query(self, invalid: str, scored: bool) -> oracle.Query:
        """The blocks of locations and of wrong candidates, by plain loops."""
        blocks: dict[float, list[float]] = {}
        seen: list[Code] = []
        for score, code in self.written(scored):
            locations = [i for i, one in enumerate(self.book) if one == code]
            block = blocks.setdefault(score, [])
            if locations and code not in seen:
                block += [float(i in self.target) for i in locations]
            elif locations or invalid == "rank":
                block.append(0.0)
            seen.append(code)
        missing = tuple(1.0 for i in self.target if self.book[i] not in seen)
        full = tuple(tuple(block) for block in blocks.values() if block)
        return oracle.Query(full, missing, sum(map(len, full)), is_list=True)

    def levels(self, invalid: str, scored: bool) -> list[float]:
        """The share of the best beams with the first tokens of a target, over their orders."""
        beams = [x for x in self.written(scored) if invalid == "rank" or x[1] in self.book]
        best = [code for score, code in beams if score == beams[0][0]]
        shares = []
        for level in range(1, max(map(len, self.book)) + 1):
            heads = [self.book[i][:level] for i in self.target if len(self.book[i]) >= level]
            orders = list(itertools.permutations(best))
            right = [order[0][:level] in heads for order in orders if order]
            shares.append(sum(right) / len(right) if right else 0.0)
        return shares


def ranking_of(example: Example, invalid: Any, scored: bool, **options: Any) -> Ranking:
    """Of one query: tensors, or text where the number of tokens is odd."""
    width = max(map(len, [*example.book, *example.beams]))
    book, beams = (
        [[*code, *[-1] * (width - len(code))] for code in codes]
        for codes in (example.book, example.beams)
    )
    given: Any = torch.tensor(beams).long().reshape(1, len(beams), width)
    codes = Codes(tensor(book))
    if sum(map(len, example.book)) % 2:
        codes = Codes([text(code) for code in example.book])
        given = [[text(code) for code in example.beams]]
    if scored and example.beams:
        options["scores"] = tensor([example.scores])
    return Ranking.from_codes(given, [example.target], codes, invalid=invalid, **options)


def text(code: Code) -> str:
    """The code as a model writes it."""
    return "".join(f"<{'abc'[i]}_{token}>" for i, token in enumerate(code))


def check(seed: int) -> None:
    """Every metric of one example, over every order."""
    example, (invalid, scored) = Example(seed), WAYS[seed % 4]
    ranking = ranking_of(example, invalid, scored, top=8)
    query = example.query(invalid, scored)
    assert ranking.lengths.tolist() == [query.length]
    METRICS.reset()
    METRICS.update(ranking)
    for case, got in zip(CASES.values(), METRICS.compute().values(), strict=True):
        expected = oracle.score(case.name, query, brute=True, **case.options)
        assert float(got) == pytest.approx(expected, abs=1e-6), (seed, str(case))
    for level, share in enumerate(example.levels(invalid, scored), 1):
        assert float(AccuracyAtLevel(level)(ranking)) == pytest.approx(share, abs=1e-6), seed


@pytest.mark.slow
@examples(6)
@given(st.integers(0, 10**9))
def test_beams_are_blocks_of_tied_locations(seed: int) -> None:
    """Every metric equals the mean over every order of the locations of a code."""
    for way in range(4):
        check(4 * seed + way)


@pytest.mark.slow  # enumerates the orders of 200 examples, of 5,000 in .ci/rare
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(x, marks=pytest.mark.extra) for x in range(1, 5))]
)
def test_many_codebooks(part: int) -> None:
    """Each with beams, `rank` and `drop`, with and without scores."""
    for seed in range(1000 * part, 1000 * part + min(1000, 10 * settings.default.max_examples)):
        check(seed)


def test_codes_of_one_location_rank_as_lists_do() -> None:
    """Repeats and invalid codes keep their ranks, as repeated and unknown ids do; all forms."""
    generator = np.random.default_rng(3)
    book = [[i // 5, i % 5] for i in range(20)]
    lists = generator.integers(0, 25, (40, 6))  # ids from 20 on are unknown
    several = np.stack([generator.permutation(20)[:3] for _ in range(40)])
    beams = np.stack([lists // 5, lists % 5], 2)
    names = [[f"<a_{a}> <b_{b}>" for a, b in row] for row in beams]
    repeated = tensor([[i in row[:b] for b, i in enumerate(row)] for row in lists.tolist()])
    mask = generator.random(40) < 0.8
    codes = Codes(book)
    by_name = Codes(pd.Series([f"<a_{a}><b_{b}>" for a, b in book]))
    for target in (several, several[:, 0], np.isin(np.arange(20), [3, 7])[None].repeat(40, 0)):
        expected = Ranking.from_lists(lists, target, mask, top=4, length=True)
        for book_of, answers in ((codes, beams), (by_name, names), (by_name, pd.Series(names))):
            found = Ranking.from_codes(answers, target, book_of, mask, top=4)
            for name in ("above", "tied", "relevant_above", "relevant_tied", "num_relevant"):
                assert getattr(found, name).equal(getattr(expected, name)), name
            assert found.counted.equal(expected.counted)
            assert found.lengths.equal(expected.lengths)
            assert found.first is not None
            assert expected.first is not None
            first = expected.first.ids.where(~repeated[:, :4], 20)
            assert found.first.ids.clamp(max=20).equal(first.clamp(max=20))
    steps = beams.reshape(8, 5, 6, 2)  # queries of any shape
    found = Ranking.from_codes(steps, several[:, 0].reshape(8, 5), codes)
    assert found.shape == (8, 5)
    assert found.above.equal(Ranking.from_lists(lists, several[:, 0]).above)


def test_the_first_candidates_are_locations() -> None:
    """Of tied ones the lowest id decides; an invalid code decides for no location."""
    codes = Codes([[1], [0], [1], [0], [2]])
    beams = tensor([[[1], [2]], [[9], [1]], [[0], [1]]])
    plain = Ranking.from_codes(beams, [2, 0, 3], codes, top=3)
    assert plain.top_candidates(3).ids.tolist() == [[0, 2, 4], [5, 0, 2], [1, 3, -1]]
    assert plain.best.tolist() == [0, 5, 1]
    tied = Ranking.from_codes(beams, [2, 0, 3], codes, scores=torch.zeros(3, 2), best=True)
    assert tied.best.tolist() == [0, 0, 0]
    assert tied.tied[:, 0].tolist() == [3, 3, 4]
    dropped = Ranking.from_codes(beams, [2, 0, 3], codes, invalid="drop", best=True)
    assert dropped.best.tolist() == [0, 0, 1]
    right = LocationF1(5, average="micro")(dropped)
    assert float(right) == pytest.approx(1 / 3)  # 0 for 2, 0 for 0, 1 for 3
    share = PrecisionAtK(3, denominator="retrieved")(plain)
    assert float(share) == pytest.approx((1 / 3 + 1 / 3 + 1 / 3) / 3)


def test_levels_are_a_metric_as_others_are() -> None:
    """By group, in a collection, skipped queries; the best beam may be invalid."""
    codes = Codes(["<a_1><b_1><c_1>", "<a_1><b_2>", "<a_2><b_1><c_1>"])
    beams = [["<a_1><b_1><c_9>"], ["<a_1><b_2>"], ["<a_2>"], ["<a_2><b_1><c_1>"]]
    ranking = Ranking.from_codes(beams, [0, 1, 2, -1], codes, ignore_index=-1)
    levels = {str(level): AccuracyAtLevel(level, ignore_index=-1) for level in (1, 2, 3)}
    metrics = RankingCollection({**levels, "acc": AccuracyAtK(1, ignore_index=-1)})
    found = {key: float(value) for key, value in metrics(ranking).items()}
    assert found == pytest.approx({"1": 1, "2": 2 / 3, "3": 0, "acc": 1 / 3})
    grouped = Grouped(AccuracyAtLevel(2, ignore_index=-1), 2)
    grouped.update(ranking, groups=[0, 1, 1, 1])
    assert grouped.compute().tolist() == [1, 0.5]
    assert (levels["2"].label, repr(AccuracyAtLevel(2))) == (
        "Acc@level 2",
        "AccuracyAtLevel(level=2)",
    )
    scores = tensor([[0.5, 0.5, 0.5, 0.1]])
    tied = [["<a_1>", "<a_1><b_1>", "<a_2><b_1>", "<a_1><b_1><c_1>"]]
    ranking = Ranking.from_codes(tied, [0], codes, scores=scores)
    shares = [float(AccuracyAtLevel(level)(ranking)) for level in (1, 2, 3)]
    assert shares == pytest.approx([2 / 3, 1 / 3, 0])


def test_validity_and_collisions_by_plain_loops() -> None:
    """Of a codebook and of beams, at each level."""
    for seed in range(12):
        example = Example(seed)
        width = max(map(len, [*example.book, *example.beams]))
        rows = [[*code, *[-1] * (width - len(code))] for code in example.book]
        codes = Codes(rows)
        beams = tensor([[*code, *[-1] * (width - len(code))] for code in example.beams])
        beams = beams.long().reshape(1, -1, width)
        for level in (None, 1, 2, 3):
            book = [tuple(row[:level]) for row in rows]
            written = [tuple(row[:level]) for row in beams[0].tolist() if row[0] >= 0]
            valid = [one for one in written if one in book]
            shared = [book.count(one) > 1 for one in valid]
            possible = math.prod(len(set(column)) for column in zip(*book, strict=True))
            expected = [
                len(set(book)) / possible,
                sum(book.count(one) > 1 for one in book) / len(book),
                len(valid) / len(written) if written else math.nan,
                sum(shared) / len(shared) if shared else math.nan,
            ]
            got = [
                codes.validity(level=level), codes.collisions(level=level),
                codes.validity(beams, level), codes.collisions(beams, level),
            ]  # fmt: skip
            assert got == pytest.approx(expected, nan_ok=True), (seed, level)


BOOK = Codes([[1, 2], [1, 3]])
NAMES = Codes(["<a_1>", "<a_2>"])


ROWS = [("<a_1>", "<b_1>"), ("<a_1>", "<b_2>"), ("<a_2>", "<b_1>")]


@pytest.mark.parametrize(
    "rows", [ROWS, [list(row) for row in ROWS], np.array(ROWS), pd.DataFrame(ROWS), pd.Series(ROWS)]
)
def test_a_row_of_tokens_is_one_code(rows: Any) -> None:
    """Lists, arrays and columns of tokens are the codes that they are joined."""
    codes = Codes(rows)
    assert torch.equal(codes.tokens, Codes(["".join(row) for row in ROWS]).tokens)
    assert AccuracyAtK(1)(Ranking.from_codes([["<a_1><b_2>"]], [1], codes)) == 1.0


def test_rows_of_tokens_have_any_length() -> None:
    """A row of one text, a text, and a short row with empty tokens behind it."""
    codes = Codes([["<a_1><b_1>"], "<a_2>", ["<a_1>", "<b_1>", "<c_1>"], ["<a_2>", ""]])
    assert codes.numbers.tolist() == [0, 1, 2, 1]


def ranked(*beams: str, **options: Any) -> Any:
    """What ranks the beams of one query."""
    return lambda: Ranking.from_codes([list(beams)], [0], NAMES, **options)


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: Codes(np.empty((0, 2), int)), ValueError, "at least one token .*got no code"),
        (lambda: Codes(["<a_1>", " "]), ValueError, "got none in row 1"),
        (lambda: Codes([[1], [-1]]), ValueError, "got none in row 1"),
        (lambda: Codes([[1, -1, 2]]), ValueError, r"-1 only behind them, got \[1, -1, 2\]"),
        (lambda: Codes([[1, -2]]), ValueError, "tokens of at least 0"),
        (lambda: Codes([["a", None]]), ValueError, r"one row of text, got shape \(1, 2\)"),
        (lambda: Codes([["a", "b"], ["a", 1]]), TypeError, "all text or all numbers"),
        (lambda: Codes([[0.5]]), TypeError, r"`codebook` must be integers \[C, L\], or text"),
        (lambda: Ranking.from_codes([[["1"]]], [0], BOOK), TypeError, "`beams` must be"),
        (lambda: Ranking.from_codes([[1, 2]], [0], BOOK), TypeError, "`beams` must be integers"),
        (lambda: Ranking.from_codes(["<a_1>"], [0], NAMES), TypeError, "list of text for each"),
        (lambda: Ranking.from_codes(tensor([[[1]]]), [0], NAMES), TypeError, "`beams` must be a"),
        (lambda: Ranking.from_codes([["<a_1>"]], [2], NAMES), ValueError, "`target` must hold"),
        (ranked("<a_1>", invalid="skip"), ValueError, "`invalid` must be one of"),
        (ranked("<a_1>", scores=tensor([0.5])), ValueError, r"floating, one per beam, \(1, 1\)"),
        (
            ranked("<a_1>", "<a_2>", scores=tensor([[0.1, 0.5]])),
            ValueError,
            "`scores` must not rise.*got 0.5 for beam 1 of query 0",
        ),
        (ranked("<a_1>", scores=tensor([[math.nan]])), ValueError, "got nan for beam 0"),
        (lambda: AccuracyAtLevel(1).update([[1]], [1]), ValueError, "`level` must be at most"),
        (
            lambda: AccuracyAtLevel(2).update(ranked("<a_1>")()),
            ValueError,
            "made by `from_codes`, 1, got 2",
        ),
        (lambda: NAMES.collisions(level=0), ValueError, "`level` must be a positive integer"),
    ],
)
def test_what_is_no_code_is_named(make: Any, error: type[Exception], says: str) -> None:
    """The argument, the rule and the value."""
    with pytest.raises(error, match=says):
        make()


def test_scores_of_queries_that_do_not_count_are_not_read() -> None:
    """Nor those of beams without tokens; -inf is no candidate."""
    beams = [["<a_1>", "<a_2>"], ["<a_2>"]]
    scores = tensor([[0.1, math.nan], [0.5, 9.0]])
    ranking = Ranking.from_codes(beams, [1, 1], NAMES, [False, True], scores=scores)
    assert float(MRR()(ranking)) == 1
    scores = tensor([[0.1, -math.inf], [0.5, 9.0]])
    ranking = Ranking.from_codes(beams, [1, 1], NAMES, scores=scores)
    assert float(NDCGAtK(5)(ranking)) == 0.5
    assert Ranking.from_codes([[], []], [0, 1], NAMES).lengths.tolist() == [0, 0]
    assert len(Ranking.from_codes(torch.empty(0, 3, 2, dtype=torch.int64), [], BOOK)) == 0
