"""The record of ranks: from scores, lists, embeddings, shards, or given ranks.

It imports `backends`, which count. Begin with `ranking.Ranking`, then `forms`, a function for each
form of predictions; `target` and `exclude` read what the user passed, `counting` and `sources` find
the ranks, `top` the first candidates.
"""

from nextloc_metrics.ranking.ranking import Ranking, Ties

__all__ = ["Ranking", "Ties"]
