"""The record of ranks, made of scores, lists, embeddings, shards, or ranks.

A batch comes in, four integers for each relevant location go out. This room imports `backends`,
which count. Begin with `ranking.Ranking`, then `forms`, a function for each form of predictions;
`target` reads the relevant ids, `counting` and `scores_in_parts` find ranks and first candidates.
"""

from nextloc_metrics.core.ranking.ranking import Ranking, Ties

__all__ = ["Ranking", "Ties"]
