"""The table of all public metric classes: a new metric is one entry here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from metric_tester import BINS, GROUPS, LOCATIONS, PLACES, Case, Entry, Options
from nextloc_metrics import MRR, AccuracyAtK, BrierScore
from oracles import deciles, decisions, lists, probabilities, ranks, sequences
from oracles.ranks import Score


def sets(*options: Options, **common: Any) -> list[Options]:
    """Sets of options that have some in common."""
    return [{**common, **one} for one in options]


NONE: Options = {}  # none beside those in common
BEST, WORST = sets({"ties": "optimistic"}, {"ties": "pessimistic"})
NEGATIVE, POSITIVE = sets({"empty_target_action": "neg"}, {"empty_target_action": "pos"})
IGNORING: Options = {"ignore_index": 0}
ALL_SCOPE: Options = {"scope": "all"}

#: an error or a loss, in units of its own; and what is neither good nor bad
LOSS: Options = {"higher_is_better": False, "bound": None}
NEUTRAL: Options = {"higher_is_better": None, "bound": None}

# Scores of queries that have a `Formula`: the oracle goes down the ranks
FORMULAS = [
    Entry(
        "AccuracyAtK",
        [{"k": 1}, *sets(NONE, BEST, WORST, NEGATIVE, POSITIVE, IGNORING, k=3)],
        Score(ranks.accuracy, ranks.walked_accuracy),
    ),
    Entry(
        "MRR",
        [NONE, {"k": 3}, WORST, {**BEST, "k": 2}, NEGATIVE, {"ignore_index": 1}],
        Score(ranks.mrr, ranks.walked_mrr),
    ),
    Entry(
        "NDCGAtK",
        [
            {"k": 1},
            *sets(NONE, {"gain": "exponential"}, {"ideal": "full"}, BEST, NEGATIVE, IGNORING, k=3),
            {"k": 3, **WORST, "gain": "exponential"},
        ],
        Score(ranks.ndcg, ranks.walked_ndcg),
    ),
    Entry(
        "MAPAtK",
        [{"k": 2}, *sets(NONE, {"normalizer": "relevant"}, BEST, WORST, POSITIVE, k=3)],
        Score(ranks.average_precision, ranks.walked_average_precision),
    ),
    Entry(
        "PrecisionAtK",
        [{"k": 2}, *sets(NONE, {"denominator": "retrieved"}, WORST, NEGATIVE, k=3)],
        Score(ranks.precision, ranks.walked_precision),
    ),
    Entry(
        "RecallAtK",
        [
            *sets(NONE, {"normalized": True}, {"weighted": True}, k=2),
            {"k": 2, "weighted": True, "normalized": True},
            *sets(NONE, BEST, NEGATIVE, k=3),
        ],
        Score(ranks.recall, ranks.walked_recall),
    ),
    Entry(
        "F1AtK",
        [{"k": 2}, *sets(NONE, WORST, NEGATIVE, k=3)],
        Score(ranks.f1, ranks.walked_f1),
    ),
]

# Scores that are functions of tied blocks: the oracle tries every order
BLOCKS = [
    Entry("AUC", sets(NONE, WORST, num_candidates=LOCATIONS), Score(ranks.auc)),
    Entry("RPrecision", [NONE, BEST, NEGATIVE], Score(ranks.r_precision)),
    Entry("RBP", [NONE, {"p": 0.5, "k": 3, **WORST}], Score(ranks.rank_biased_precision)),
    Entry(
        "ERRAtK",
        [{"k": 3, "max_grade": 3.0}, {"k": 8, "max_grade": 4.0, **BEST}],
        Score(ranks.expected_reciprocal_rank),
        waits=True,
    ),
    Entry("MeanRank", [NONE, WORST], ranks.FIRST_RANK, **LOSS),
    Entry(
        "RankQuantile",
        [{"q": 0.5}, {"q": 0.9}],
        ranks.rank_quantile,
        **LOSS,
        computed=("q",),
        step=0.5,
        numbers=20_000,
    ),
]

# Decisions for one location
OF_DECISIONS: Options = {"reads": "decisions", "state": "decisions", "computed": ("average",)}
AVERAGED = sets(NONE, {"average": "macro"}, {"average": "micro"}, IGNORING, num_locations=LOCATIONS)
EACH_LOCATION: Options = {"num_locations": LOCATIONS, "average": None}
DECISIONS = [
    Entry(
        "LocationF1",
        AVERAGED,
        decisions.location_f1,
        also=[EACH_LOCATION, NONE, {"average": None}, {"average": "macro"}],
        **OF_DECISIONS,
    ),
    Entry(
        "LocationPrecision",
        AVERAGED,
        decisions.location_precision,
        also=[EACH_LOCATION],
        **OF_DECISIONS,
    ),
    Entry(
        "LocationRecall",
        AVERAGED,
        decisions.location_recall,
        also=[EACH_LOCATION],
        **OF_DECISIONS,
    ),
    Entry("SequenceAccuracy", [NONE, {"first": 2}], decisions.sequence_accuracy, reads="steps"),
    Entry(
        "geography.AccuracyWithin",
        # all candidates are within k, so that no tied block crosses it
        [{"locations": PLACES, "km": 0.7, "k": LOCATIONS}],
        decisions.accuracy_within,
        reads="decisions",
    ),
    Entry(
        "geography.DistanceError",
        sets(NONE, {"statistic": 0.9}, {"undecided": "skip"}, locations=PLACES),
        decisions.distance_error,
        **LOSS,
        reads="decisions",
        computed=("statistic",),
        within=0.0051,  # bins of the histogram are 1 % wide
        numbers=1500,
    ),
]

# What is among the first k: 0 and 1 as visits make the average a fraction
IN_LISTS: Options = {"reads": "decisions", "state": "recommended"}
VISITS = (9, 1, 4, 1, 0, 5)
LISTS = [
    Entry(
        "Coverage",
        [*sets({"k": 1}, {"k": 3}, {"k": 3, **IGNORING}, num_locations=LOCATIONS)],
        lists.coverage,
        **IN_LISTS,
    ),
    Entry(
        "Gini",
        sets(
            NONE, {"definition": "sample"}, {"definition": "evenness"}, num_locations=LOCATIONS, k=3
        ),
        lists.gini,
        **IN_LISTS,
        higher_is_better=None,
        computed=("definition",),
    ),
    Entry(
        "AveragePopularity",
        [{"train_counts": (1, 0, 1, 1, 0, 0), "k": 3}],
        lists.average_popularity,
        **NEUTRAL,
        **IN_LISTS,
        computed=("train_counts", "num_locations"),
    ),
    Entry("Entropy", [{"num_locations": LOCATIONS, "k": 3}], lists.entropy, **NEUTRAL, **IN_LISTS),
    Entry(
        "TailShare",
        sets(NONE, {"share": 0.6, "of": "locations"}, train_counts=VISITS, k=3),
        lists.tail_share,
        **IN_LISTS,
        higher_is_better=None,
        computed=("train_counts", "num_locations", "share", "of"),
    ),
    Entry(
        "Novelty",
        sets(NONE, {"total": 30}, train_counts=VISITS, k=LOCATIONS),
        lists.novelty,
        **NEUTRAL,
        reads="decisions",
        waits=True,
    ),
]

SURE: Options = {"reads": "logits", "state": "confidence", "numbers": 3 * 50_400}
PROBABILITIES = [
    Entry(
        "NegativeLogLikelihood",
        sets(NONE, {"base": 2, "floor": 0.01}, given="logits"),
        probabilities.negative_log_likelihood,
        **LOSS,
        reads="logits",
        state="likelihood",
        computed=("base",),
    ),
    Entry(
        "Perplexity",
        sets(NONE, {"temperature": 2.0}, {"floor": 0.01}, given="logits"),
        probabilities.perplexity,
        **LOSS,
        reads="logits",
        state="likelihood",
    ),
    Entry(
        "BrierScore",
        sets(NONE, {"normalized": True}, given="logits"),
        probabilities.brier_score,
        **LOSS,
        reads="logits",
        computed=("normalized",),
    ),
    Entry(
        "CalibrationError",
        sets(NONE, {"norm": "l2", "bins": 10}, given="logits"),
        probabilities.calibration_error,
        **SURE,
        higher_is_better=False,
        computed=("bins", "norm"),
    ),
    Entry("AURC", sets(NONE, given="logits"), probabilities.aurc, **SURE, higher_is_better=False),
    Entry(
        "AccuracyAtCoverage",
        sets({"coverage": 0.5}, given="logits"),
        probabilities.accuracy_at_coverage,
        **SURE,
        computed=("coverage",),
    ),
    Entry(
        "AnsweredShare", sets(NONE, given="logits"), probabilities.answered_share, reads="logits"
    ),
    Entry(
        "AnsweredAccuracy",
        sets(NONE, given="logits"),
        probabilities.answered_accuracy,
        reads="logits",
    ),
    Entry(
        "geography.ExpectedDistance",
        sets({"locations": PLACES}, given="logits"),
        probabilities.expected_distance,
        **LOSS,
        reads="logits",
        waits=True,
    ),
]

DECILES = [
    Entry(
        "DecilePrecision",
        sets(
            {"k": 1},
            {"k": 2},
            {"k": 2, "candidates": 3},
            {"k": 2, "candidates": 1},
            {"k": 1, **ALL_SCOPE},
            {"k": 2, **BEST},
            {"k": 2, **WORST},
            {"k": 3, **ALL_SCOPE, "candidates": 2},
            {"k": 3, **ALL_SCOPE},
            bins=BINS,
        ),
        deciles.of_batch("DecilePrecision"),
        reads="bins",
    ),
    Entry(
        "DecileNDCG",
        sets(
            {"k": 1},
            {"k": 3},
            {"k": 2, "candidates": 3},
            {"k": 2, "candidates": 1},
            {"k": 2, **BEST},
            {"k": 2, **WORST},
            {"k": 3, **ALL_SCOPE},
            {"k": 2, **ALL_SCOPE, "candidates": 2, **WORST},
            bins=BINS,
        ),
        deciles.of_batch("DecileNDCG"),
        reads="bins",
    ),
    Entry(
        "DecileKForRecall",
        sets(
            {"min_recall": 0.5},
            {"min_recall": 0.6, "statistic": "mean"},
            {"min_recall": 1.0, "exhausted": 9, "statistic": "mean"},
            {"min_recall": 1.0, "exhausted": 2},
            {"min_recall": 0.5, "candidates": 3},
            {"min_recall": 1.0, "exhausted": 1.5},
            {"min_recall": 1 / 3, "candidates": 1},
            {"min_recall": 0.5, **ALL_SCOPE},
            {"min_recall": 1.0, **ALL_SCOPE, "candidates": 3, "exhausted": 4},
            {"min_recall": 1.0, "exhausted": 593.5, "statistic": "mean"},
            bins=BINS,
        ),
        deciles.of_batch("DecileKForRecall"),
        **LOSS,
        reads="bins",
    ),
    Entry(
        "DecilePredictionShare",
        sets({"k": 1}, {"k": 2}, {"k": 3, "candidates": 2}, {"k": 4}, bins=BINS),
        deciles.of_batch("DecilePredictionShare"),
        higher_is_better=None,
        reads="bins",
    ),
    Entry(
        "DecileCoverage",
        sets(
            {"k": 1},
            {"k": 2},
            {"k": 2, "denominator": "mapped"},
            {"k": 2, "candidates": 3},
            {"k": 2, "candidates": 1},
            {"k": 1, **ALL_SCOPE},
            {"k": 2, **ALL_SCOPE, "denominator": "mapped"},
            {"k": 3, **ALL_SCOPE, "candidates": 2},
            bins=BINS,
        ),
        deciles.of_batch("DecileCoverage"),
        reads="bins",
    ),
]

# Of other metrics: they have no definition of their own, see their files of tests
AVERAGES = [{"average": "groups"}, {"average": "queries"}]
LOSS_OF_A_GROUP = BrierScore(given="logits")
OF_METRICS = [
    Entry(
        "Grouped",
        [
            *sets({"metric": AccuracyAtK(3)}, {"metric": LOSS_OF_A_GROUP}, num_groups=GROUPS),
            *sets(*AVERAGES, metric=MRR(), num_groups=GROUPS),
        ],
        None,
        also=[
            *sets({"metric": AccuracyAtK(3)}, {"metric": LOSS_OF_A_GROUP}),
            *sets(*AVERAGES, {"group": 2}, metric=MRR()),
        ],
        reads="groups",
    ),
    Entry("PerQueryScores", [{"metric": MRR()}], None, **NEUTRAL, reads="query_ids"),
]

TRAJECTORIES = [
    Entry(
        "trajectories.GeoBLEU",
        [NONE, {"n": 3, "beta": 0.2, "scale": 1.7}, {"divisor": "matched"}],
        sequences.mean_of(sequences.geo_bleu),
        reads="days",
    ),
    Entry(
        "trajectories.DTW",
        [NONE, {"scale": 2.5}, {"normalized": True}, {"window": 1}, {"free_start": True}],
        sequences.mean_of(sequences.dtw),
        **LOSS,
        reads="days",
    ),
    Entry(
        "trajectories.MeanPointError",
        [NONE],
        sequences.mean_of(sequences.mean_point_error),
        **LOSS,
        reads="days",
    ),
    Entry(
        "trajectories.PointErrorAt",
        [{"step": 2}, {"step": -1}],
        sequences.mean_of(sequences.point_error_at),
        **LOSS,
        reads="days",
    ),
]

ENTRIES = {
    entry.name: entry
    for entry in [
        *FORMULAS,
        *BLOCKS,
        *DECISIONS,
        *LISTS,
        *PROBABILITIES,
        *DECILES,
        *OF_METRICS,
        *TRAJECTORIES,
    ]
}


def case_of(name: str, **options: Any) -> Case:
    """A class of the table with other options."""
    return Case(ENTRIES[name], options)


def score_of(name: str) -> Score:
    """The definition of a class that is a mean of scores of ranks."""
    score = ENTRIES[name].definition
    assert isinstance(score, Score)
    return score


def cases_of(entries: Iterable[Entry]) -> list[Case]:
    """Each set of options of some entries, without those that belong to a batch."""
    cases = [case for entry in entries for case in entry.cases]
    return [case for case in cases if "ignore_index" not in case.options]


#: metrics of one number that take `preds, target`
CASES = [case for entry in ENTRIES.values() if entry.is_scalar for case in entry.cases]
RANKING_CASES = cases_of(FORMULAS)
BLOCK_CASES = cases_of(entry for entry in BLOCKS if entry.bound)
RANK_CASES = cases_of([ENTRIES["MeanRank"]])
PROBABILITY_CASES = cases_of(PROBABILITIES)


def family(case: Case) -> tuple[Any, ...]:
    """What of `base/` a metric goes through: its base classes, and whose methods it has."""
    metric = case.make()
    bases = type(metric).__mro__
    owners = [next(x for x in bases if name in vars(x)) for name in ("tally", "compute")]
    return (bases[1:], *owners, metric.state.shape, metric.ignore_index is None)


# One metric of each family, for the laws that live in `base/`; and one of each class, too.
FAMILIES = list({family(case): case for case in reversed(CASES)}.values())[::-1]
CLASSES = list({(case.name, *family(case)): case for case in reversed(CASES)}.values())[::-1]
