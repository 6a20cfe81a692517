"""Ranks of dot products of embeddings, made in chunks."""

import pytest
import torch

from conftest import threads_allowed
from nextloc_metrics import MRR, Ranking


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_products_of_half_precision_tie_nothing(dtype: torch.dtype) -> None:
    """1 + 2^-12 is more than 1, and random ranks are those of products in float64."""
    queries, table = torch.ones(1, 2), torch.tensor([[1.0, 2.0**-12], [1.0, 0.0]])
    target = torch.tensor([0])
    assert MRR()(Ranking.from_embeddings(queries.to(dtype), table.to(dtype), target)) == 1
    generator = torch.Generator().manual_seed(5)
    # products of these are exact in float32, but not in half precision
    queries, table = (torch.randint(-90, 91, (n, 24), generator=generator) for n in (40, 3000))
    bias, target = torch.arange(3000) % 7 - 3, torch.arange(40) * 71
    found = Ranking.from_embeddings(
        queries.to(dtype), table.to(dtype), target, bias=bias.to(dtype), chunk_size=700
    )
    scores = queries @ table.T + bias
    own = scores.gather(1, target[:, None])
    assert torch.equal(found.above, (scores > own).sum(1, keepdim=True))
    assert torch.equal(found.tied, (scores == own).sum(1, keepdim=True))


@pytest.mark.parametrize(
    ("chunk_size", "top", "threads"), [(1, 0, 1), (7, 1, 1), (7, 5, 5), (None, 5, 1)]
)
@pytest.mark.usefixtures("each_backend")
def test_embeddings_give_the_places_of_the_full_scores(
    chunk_size: int | None, top: int, threads: int
) -> None:
    """On whole numbers, whose products are exact, any chunks give what the full scores give.

    Threads that share the chunks know nothing of the caller's inference mode.
    """
    generator = torch.Generator().manual_seed(top)
    queries, table, bias = (
        torch.randint(-3, 4, shape, generator=generator).float()
        for shape in ((30, 8), (15, 8), (15,))
    )
    scores = queries @ table.T + bias
    for target in (
        torch.randint(15, (30,), generator=generator),
        torch.randint(-1, 15, (30, 4), generator=generator),
        torch.rand(30, 15, generator=generator) < 0.9,
    ):
        full = Ranking.from_scores(scores, target, top=top)
        with threads_allowed(threads), torch.inference_mode():
            parts = Ranking.from_embeddings(
                queries, table, target, bias=bias, chunk_size=chunk_size, top=top
            )
        for name in ("above", "tied", "relevant_above", "relevant_tied", "relevant", "gains"):
            assert torch.equal(getattr(full, name), getattr(parts, name)), name
        if full.first is not None and parts.first is not None:
            for name in ("best", "ids", "above"):
                assert torch.equal(getattr(full.first, name), getattr(parts.first, name)), name


@pytest.mark.usefixtures("each_backend")
def test_embeddings_tie_a_location_with_itself() -> None:
    """Whatever the products round to, a relevant location is tied at least with itself."""
    queries, table = torch.randn(40, 33), torch.randn(500, 33)
    target = torch.randint(500, (40,))
    ranking = Ranking.from_embeddings(queries, table, target, chunk_size=77)
    exact = Ranking.from_scores(queries.double() @ table.double().T, target)
    assert int(ranking.tied.min()) >= 1
    assert torch.equal(ranking.above, exact.above)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("chunk_size", "rows"), [(None, 200), (1, 6), (7, 30), (64, 200)])
def test_equal_rows_of_embeddings_tie(
    dtype: torch.dtype, chunk_size: int | None, rows: int
) -> None:
    """A model whose locations are all alike is at chance; one with three kinds ties within each."""
    generator = torch.Generator().manual_seed(0)
    for queries, size in ((1, 7), (5, 33), (40, 300)):
        left = torch.randn(queries, size, generator=generator).to(dtype)
        kinds = torch.randn(3, size, generator=generator).to(dtype)
        target = torch.randint(rows, (queries,), generator=generator)
        equal_rows = kinds[:1].expand(rows, size).contiguous()
        alike = Ranking.from_embeddings(left, equal_rows, target, chunk_size=chunk_size, top=rows)
        assert alike.above.eq(0).all()
        assert alike.tied.eq(rows).all()
        assert alike.first is not None
        assert torch.equal(alike.first.ids, torch.arange(rows).expand(queries, rows))
        kind = torch.randint(3, (rows,), generator=generator)
        bias = (torch.arange(rows) % 2).to(dtype)
        ranking = Ranking.from_embeddings(
            left, kinds[kind], target, bias=bias, chunk_size=chunk_size
        )
        equal = (kind == kind[target, None]) & (bias == bias[target, None])
        assert torch.equal(ranking.tied[:, 0], equal.sum(1))


@pytest.mark.usefixtures("each_backend")
def test_single_scores_of_embeddings() -> None:
    """A small bias tells equal rows apart, NaN are misses, and half precision does not overflow."""
    queries, table = torch.ones(1, 2), torch.zeros(3, 2)
    bias = torch.tensor([2.0**-30, 0.0, 2.0**-30])
    for target, above, tied in ((0, 0, 2), (1, 2, 1)):
        ranking = Ranking.from_embeddings(queries, table, torch.tensor([target]), bias=bias)
        assert (ranking.above.item(), ranking.tied.item()) == (above, tied)
    queries, table = torch.ones(2, 3), torch.ones(4, 3)
    queries[0] = table[3] = torch.nan
    ranking = Ranking.from_embeddings(queries, table, torch.tensor([0, 0]))
    assert ranking.above.tolist() == [[1 << 62], [1]]
    assert ranking.tied.tolist() == [[1], [3]]
    queries = torch.tensor([[250.0, 60.0]]).half()
    table = torch.tensor([[300.0, -300.0], [230.0, 10.0], [240.0, 10.0], [235.0, 0.0]]).half()
    assert Ranking.from_embeddings(queries, table, torch.tensor([0])).above.tolist() == [[3]]
