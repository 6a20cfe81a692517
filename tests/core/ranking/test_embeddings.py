"""Ranks of dot products of embeddings in half precision."""

import pytest
import torch

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
