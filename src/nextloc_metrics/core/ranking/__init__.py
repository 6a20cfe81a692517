"""The record of ranks: from scores, lists, embeddings, shards, or given ranks.

A batch comes in, four integers for each relevant location go out. It imports `backends`, which
count. Begin with `ranking.Ranking`, then `forms`, a function for each form of predictions; `target`
reads the relevant ids, `counting` and `scores_in_parts` find the ranks and the first candidates.
"""

from nextloc_metrics.core.ranking.ranking import Ranking, Ties

__all__ = ["Ranking", "Ties"]
