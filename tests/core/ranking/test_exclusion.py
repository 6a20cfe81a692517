"""Candidates that are never ranked: as if they had been deleted before anything was counted."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from nextloc_metrics import Ranking
from strategies import dirty_scores

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def counts_by_loop(row: list[float], excluded: set[int], j: int) -> tuple[int, int]:
    """Count candidates above and tied with candidate j without those excluded; NaN is above."""
    left = [x for i, x in enumerate(row) if i not in excluded]
    return sum(not x <= row[j] for x in left), sum(x == row[j] for x in left)


def batch(dtype: torch.dtype, relevant: int = 3, width: int = 9) -> tuple[Tensor, Tensor, Tensor]:
    """Scores with ties, NaN and infinities; relevant ids; and others that are excluded."""
    scores = dirty_scores(12, 40, dtype)
    generator = torch.Generator().manual_seed(relevant)
    ids = torch.stack([torch.randperm(40, generator=generator) for _ in range(12)])
    excluded = ids[:, relevant : relevant + width].clone()
    excluded[::3, 4:] = -1
    excluded[1] = excluded[1, 0]  # one id, again and again
    return scores, ids[:, :relevant], excluded


@pytest.mark.parametrize("as_bool", [False, True])
@pytest.mark.parametrize("relevant", [1, 3])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.usefixtures("each_backend")
def test_scores_are_counted_as_if_candidates_were_deleted(
    dtype: torch.dtype, relevant: int, as_bool: bool
) -> None:
    """As ids and as bool of all candidates; the given scores stay as they are."""
    scores, target, excluded = batch(dtype, relevant)
    before = scores.clone()
    exclude = excluded
    if as_bool:
        columns = excluded.where(excluded >= 0, 40)
        exclude = torch.zeros(12, 41, dtype=torch.bool).scatter_(1, columns, True)[:, :40]
    ranking = Ranking.from_scores(scores, target, exclude=exclude, top=4)
    for i, row in enumerate(scores.tolist()):
        gone = set(excluded[i].tolist()) - {-1}
        for j, id in enumerate(ranking.relevant[i].tolist()):
            if row[id] > float("-inf"):
                expected = counts_by_loop(row, gone, id)
                assert (int(ranking.above[i, j]), int(ranking.tied[i, j])) == expected
            else:
                assert int(ranking.above[i, j]) == 1 << 62
        assert not gone & set(ranking.top_candidates(4).ids[i].tolist())
    assert torch.equal(scores.nan_to_num(9e4), before.nan_to_num(9e4))


def test_rows_are_copied_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result does not depend on the number of rows that are copied at once."""
    scores, target, excluded = batch(torch.float32)
    expected = Ranking.from_scores(scores, target, exclude=excluded, top=3)
    monkeypatch.setattr("nextloc_metrics.core.ranking.forms._COPIED_BYTES", 4 * 41 * 5)
    ranking = Ranking.from_scores(scores, target, exclude=excluded, top=3)
    for name in ("above", "tied", "relevant_above", "relevant_tied", "relevant"):
        assert torch.equal(getattr(ranking, name), getattr(expected, name))
    assert torch.equal(ranking.best, expected.best)
    assert torch.equal(ranking.top_candidates(3).ids, expected.top_candidates(3).ids)
    empty = Ranking.from_scores(scores[:0], target[:0], exclude=excluded[:0], top=3)
    assert len(empty) == 0


@pytest.mark.parametrize("width", [3, 50])
@pytest.mark.usefixtures("each_backend")
def test_what_follows_in_a_list_moves_up(width: int) -> None:
    """Later ids of a list move up if an id is excluded; repeats and padding still take a rank."""
    generator = torch.Generator().manual_seed(width)
    lists = torch.randint(-1, 30, (20, 50), generator=generator)[:, :width]
    excluded = torch.randint(-1, 30, (20, 6), generator=generator)
    target = torch.full((20,), 31)
    target[:] = torch.tensor(
        [next(x for x in range(30) if x not in row) for row in excluded.tolist()]
    )
    kept = [
        [x for x in row if x not in set(gone) - {-1}]
        for row, gone in zip(lists.tolist(), excluded.tolist(), strict=True)
    ]
    kept = [row + [-1] * (width - len(row)) for row in kept]
    expected = Ranking.from_lists(torch.tensor(kept), target, top=2)
    ranking = Ranking.from_lists(lists, target, exclude=excluded, top=2)
    assert torch.equal(ranking.above, expected.above)
    assert torch.equal(ranking.top_candidates(2).ids, expected.top_candidates(2).ids)


@pytest.mark.parametrize("chunk_size", [None, 7])
def test_embeddings_and_shards_agree_with_their_scores(chunk_size: int | None) -> None:
    """The products of small integers are exact, so that all ties are there."""
    generator = torch.Generator().manual_seed(0)
    queries, table = (torch.randint(-2, 3, (n, 3), generator=generator).float() for n in (12, 40))
    _, target, excluded = batch(torch.float32)
    scores = queries @ table.T
    expected = Ranking.from_scores(scores, target, exclude=excluded, top=5)
    for ranking in (
        Ranking.from_embeddings(
            queries, table, target, exclude=excluded, chunk_size=chunk_size, top=5
        ),
        Ranking.from_sharded_scores(scores, target, 0, exclude=excluded, top=5),
    ):
        for name in ("above", "tied", "relevant_above", "relevant_tied", "relevant"):
            assert torch.equal(getattr(ranking, name), getattr(expected, name)), name
        assert torch.equal(ranking.best, expected.best)
        assert torch.equal(ranking.top_candidates(5).ids, expected.top_candidates(5).ids)


@pytest.mark.parametrize("form", ["scores", "lists", "embeddings", "shards"])
def test_a_relevant_location_may_be_exempt(form: str) -> None:
    """An excluded target is an error with its id and query, unless `exempt_target`."""
    scores = torch.tensor([[0.1, 0.9, 0.5, 0.7]])
    target, exclude = torch.tensor([2]), torch.tensor([[1, 2]])

    def rank(**options: Any) -> Ranking:
        if form == "lists":
            return Ranking.from_lists(scores.argsort(descending=True), target, **options)
        if form == "embeddings":
            return Ranking.from_embeddings(torch.ones(1, 1), scores.T, target, **options)
        if form == "shards":
            return Ranking.from_sharded_scores(scores, target, 0, **options)
        return Ranking.from_scores(scores, target, **options)

    assert rank(exclude=exclude, exempt_target=True).above.tolist() == [[1]]
    with pytest.raises(ValueError, match=r"`exclude` must not hold a relevant location, got 2 in"):
        rank(exclude=exclude)
    # what nobody looks at cannot be refused, and is never ranked
    assert rank(exclude=exclude, validate_args=False).above.tolist() == [[1 << 62]]
    left_out = rank(exclude=exclude, mask=torch.tensor([False]))
    assert left_out.counted.tolist() == [False]
