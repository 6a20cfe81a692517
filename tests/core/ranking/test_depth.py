"""Rankings of the first ranks only, and many relevant locations, count as those of all ranks."""

from __future__ import annotations

import pytest
import torch

from conftest import ON_THE_CPU
from nextloc_metrics import MRR, PrecisionAtK, Ranking, recommendation_metrics
from strategies import SCORES, dirty_scores


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@ON_THE_CPU
@pytest.mark.usefixtures("each_backend")
def test_looking_no_further_changes_no_metric(dtype: torch.dtype, depth: int) -> None:
    """What is left out is beyond every place that counts; ties, NaN and padding included."""
    blocks = torch.zeros(1, 800)
    blocks[0, :3] = torch.tensor([3.0, 2.0, 2.0])
    dirty, zeros = dirty_scores(8, 800, dtype), torch.zeros(2, 800)
    scores = torch.cat([blocks.to(dtype), dirty, zeros.to(dtype)])
    scores[-1, 50:60] = torch.nan  # more of them than places
    generator = torch.Generator().manual_seed(depth)
    target = torch.randint(800, (11, 60), generator=generator)
    target[:, 30:] = scores.float().nan_to_num(-9e4).topk(30).indices
    target[torch.rand(11, 60, generator=generator) < 0.5] = -1
    target[0, 0] = 0
    near, all_of_them = (Ranking.from_scores(scores, target, depth=d) for d in (depth, None))
    assert (near.above == 2**62).sum() > (all_of_them.above == 2**62).sum()
    for score in SCORES:
        for k in range(1, depth + 1):
            assert torch.equal(score(near, k), score(all_of_them, k))


def test_a_ranking_of_the_first_places_serves_no_metric_that_looks_further() -> None:
    """It raises, and says how to make one that does."""
    scores, target = torch.arange(200.0)[None], torch.tensor([[0, 199]])
    ranking = recommendation_metrics(k=2).rank(scores, target)
    assert ranking.depth == 2
    PrecisionAtK(2).update(ranking)
    for metric in (PrecisionAtK(3), MRR()):
        with pytest.raises(ValueError, match=r"was made for the first 2; make it with `depth="):
            metric.update(ranking)
        assert metric.num_queries == 0


@pytest.mark.parametrize("columns", [64, 127, 128, 129, 32_640, 32_700, 65_280])
def test_relevant_locations_are_counted_however_many_there_are(columns: int) -> None:
    """All of them, none, some, all but the last: a sum of bytes must not overflow."""
    relevance = torch.ones(4, columns, dtype=torch.bool)
    relevance[1], relevance[2, ::3], relevance[3, -1] = False, False, False
    for target in (relevance, relevance.T.contiguous().T):
        ranking = Ranking.from_scores(torch.rand(4, columns), target, depth=2)
        assert ranking.num_relevant.tolist() == [columns, 0, columns * 2 // 3, columns - 1]


@ON_THE_CPU
@pytest.mark.usefixtures("each_backend")
def test_padding_of_all_queries_is_not_counted_around() -> None:
    """One visit each in columns for a hundred; repeats, wherever they are, are padding too."""
    scores = torch.randn(6, 300)
    target = torch.full((6, 100), -1)
    target[torch.arange(6), torch.arange(6) * 15] = torch.arange(6)
    assert Ranking.from_scores(scores, target).above.shape == (6, 1)
    assert Ranking.from_scores(scores, torch.full_like(target, -1)).above.shape == (6, 1)
    expected = Ranking.from_scores(scores, torch.arange(6))
    assert torch.equal(Ranking.from_scores(scores, target).above, expected.above)
