r"""Scores of queries, as pure functions of the ranks of their relevant locations.

Each function takes a [`Ranking`][nextloc_metrics.Ranking] and returns float64 `[N]`, one score in
[0, 1] per query: the exact expectation over a random order of tied candidates. A query without a
relevant location scores 0 here; the metric applies `empty_target_action`. This room imports
`ranking`; begin with `Formula`.

Symbols, as in the paper:

- `A` = `above`, `e` = `tied`, `R` = `relevant_above`, `r` = `relevant_tied` of a relevant location,
- `n` = the query's number of relevant locations,
- `m = min(max(k - A, 0), e)`: how many ranks of its tied block lie within the first `k`,
- `H(x) = 1 + 1/2 + ... + 1/x`, and `L(x)` = the sum over p = 1..x of 1/log2(p + 1).

Source: F. McSherry and M. Najork, "Computing information retrieval performance measures
efficiently in the presence of tied scores", ECIR 2008.
"""

from nextloc_metrics.core.scoring.closed_forms import (
    auc,
    expected_reciprocal_rank,
    first_rank,
    r_precision,
    rank_biased_precision,
)
from nextloc_metrics.core.scoring.formulas import (
    Formula,
    accuracy,
    average_precision,
    f1,
    hits,
    ndcg,
    precision,
    recall,
    reciprocal_rank,
)

__all__ = [
    "Formula",
    "accuracy",
    "auc",
    "average_precision",
    "expected_reciprocal_rank",
    "f1",
    "first_rank",
    "hits",
    "ndcg",
    "precision",
    "r_precision",
    "rank_biased_precision",
    "recall",
    "reciprocal_rank",
]
