"""Public names of 0.5 that are retired, and what to use instead; `docs/retired.md` says more."""

from __future__ import annotations

#: what to use instead, by the retired names, which a blank separates
INSTEAD: dict[str, str] = {
    "rank_models RankedModels MeanDifference": "use the package autorank.",
    "evaluate_mobility MobilityEvaluation": "use scikit-mobility and `jensenshannon` of "
    "SciPy, as docs/retired.md shows.",
    "moved": "use `(target != previous).long()` as groups.",
    "evaluate_table": "use `report.evaluate`, which takes tables, too.",
    "verify Verification": "evaluate again, and compare the values, which are equal bit for bit.",
    "flows evaluate_flows FlowEvaluation": "use `skmob.measures.evaluation` of scikit-mobility, or "
    "NumPy as docs/retired.md shows.",
    "Finding Protocol agentmove clsprec cslsl dchl deepmove flashback ga_llm genup geosan getnext "
    "graph_flashback hmt_grn hotpp hstu llm4poi llm_mob llmmove lstpm massive_steps rallm_poi "
    "rotan stan sthgcn think2go tool4poi": "`protocols` has `libcity`, `mie_lab`, `recbole`, "
    "`sasrec` and `middle_rank`; docs/retired.md shows how others average.",
    "distance_errors accuracy_within_km risk_coverage": "draw the numbers with Matplotlib, as "
    "docs/retired.md shows.",
    "Weighted": "average the scores of `PerQueryScores` with your weights; the mean has no "
    "interval.",
    "IntraListDiversity Serendipity": "use the class of RecTools, or `LinkPredDiversity` of PyG.",
    "Personalization": "use `LinkPredPersonalization` of PyG.",
    "FallOutAtK": "use `RetrievalFallOut` of torchmetrics.",
    "MeanPercentileRank": "for one relevant location it is 1 - `AUC()`.",
    "fall_out": "use `torchmetrics.functional.retrieval.retrieval_fall_out`.",
    "train_overlap": "use `difflib.SequenceMatcher`, as docs/retired.md shows.",
    "TimeError TimeWithin JointAccuracy": "use `torchmetrics.MeanAbsoluteError`; docs/retired.md "
    "shows clocks, and hits in time.",
    "Codes AccuracyAtLevel": "score each location by its best beam, as docs/retired.md shows.",
    "PassAtK": "it is 1 - C(S - c, k) / C(S, k), as docs/retired.md shows.",
    "Draws read_draws": "average the scores of `PerQueryScores` over the draws.",
    "Coarser": "index a table of parents, as docs/retired.md shows.",
    "check_split SplitCheck SplitFinding": "use pandas, as docs/retired.md shows.",
    "SampledRanks correct_sampled Corrected Estimated": "rank all candidates.",
    "Ceiling": "`analysis.predictability` has the limits alone.",
    "notation parse_measure RelevantFrom": "use `measures` or `metrics` of `report.evaluate`, or "
    "the package ir-measures.",
    "scikit_learn RankingScorer": "use `sklearn.metrics.make_scorer` of a function such as `mrr`.",
    "SetCoverage SetSize EmptySets CoverageAtRisk conformal_threshold set_sizes": "use TorchCP, or "
    "a few lines as docs/retired.md shows.",
    "events": "use the metrics of HoTPP.",
    "mobility": "use `nextloc_metrics.trajectories` for pairs of trajectories; docs/retired.md has "
    "the rest.",
    "any_of_block": "use `scoring.accuracy` of a Ranking.",
    "DiscreteFrechet Hausdorff EDR LCSS EditDistance": "use tslearn, SciPy, or the lines of "
    "docs/retired.md.",
    "DistanceOfPairs": "subclass `trajectories.PairMetric`, which has its options.",
}


def instead_of(name: str) -> str | None:
    """Return what to use instead of a retired name, None for any other name."""
    return next((text for names, text in INSTEAD.items() if name in names.split()), None)
