"""Lists with scores, whose equal neighbours are tied, have the values of the scores themselves."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from nextloc_metrics import (
    AveragePopularity,
    Coverage,
    DecileCoverage,
    DecileNDCG,
    DecilePrecision,
    LocationF1,
    MAPAtK,
    MeanRank,
    PopularityBins,
    RankingCollection,
    RecallAtK,
    recommendation_metrics,
    report,
)

LOCATIONS = 12
COUNTS = torch.tensor([9, 5, 5, 4, 3, 3, 2, 2, 1, 1, 0, 0])


def metrics(has_several, first_ranks_only):
    """Make metrics that read ranks, first candidates, lengths and bins."""
    bins = PopularityBins.from_counts(COUNTS, num_bins=3)
    found = dict(recommendation_metrics(k=(1, 3)).named_members())
    found |= {
        "mean_rank": MeanRank(),
        "pessimistic": RecallAtK(2, ties="pessimistic"),
        "optimistic": MAPAtK(3, ties="optimistic"),
        "coverage": Coverage(LOCATIONS, 3),
        "popularity": AveragePopularity(COUNTS, 3),
        "precision": DecilePrecision(bins, 3, decile=3),
        "of decile": DecileCoverage(bins, 3, decile=3),
        "all": DecileNDCG(bins, 3, decile=2, scope="all"),
    }
    if first_ranks_only:  # so that no other rank is looked for
        found = {name: metric for name, metric in found.items() if "at_3" in name}
    elif not has_several:
        found["f1"] = LocationF1(LOCATIONS)
    return RankingCollection(found)


@st.composite
def tied_scores(draw):
    """Draw scores of few values, where -inf is no candidate, with one or several targets."""
    rows = draw(st.integers(1, 5))
    levels = st.sampled_from([-torch.inf, 0.0, 1.0, 2.0])
    cells = st.lists(levels, min_size=rows * LOCATIONS, max_size=rows * LOCATIONS)
    scores = torch.tensor(draw(cells), dtype=torch.float64).view(rows, LOCATIONS)
    width = draw(st.integers(1, 3))
    ids = st.lists(st.integers(0, LOCATIONS - 1), min_size=width, max_size=width, unique=True)
    target = torch.tensor([draw(ids) for _ in range(rows)])
    excluded = torch.tensor(draw(st.lists(st.integers(-1, LOCATIONS - 1), min_size=2, max_size=2)))
    return scores, target[:, 0] if width == 1 else target, excluded.expand(rows, -1)


@given(tied_scores(), st.booleans(), st.booleans())
def test_equal_to_scores(drawn, excludes, first_ranks_only):
    """Rank by scores of all locations, and by lists with their scores."""
    scores, target, excluded = drawn
    falling, lists = scores.sort(dim=1, descending=True, stable=True)  # tied ones by id
    lists = lists.masked_fill(falling == -torch.inf, -1)
    options = {"exclude": excluded, "exempt_target": True} if excludes else {}
    values = []
    for preds in (scores, report.ScoredLists(lists, falling)):
        collection = metrics(target.ndim == 2, first_ranks_only)
        collection.update(preds, target, **options)
        values.append(collection.compute())
    assert values[0].keys() == values[1].keys()
    for name, value in values[0].items():
        assert torch.equal(value.nan_to_num(-1), values[1][name].nan_to_num(-1)), name
