"""More protocols of published codebases."""

from __future__ import annotations

from nextloc_metrics.protocols.measures import Kind, Metric
from nextloc_metrics.protocols.profiles import CUTS, at
from nextloc_metrics.protocols.protocol import Protocol, Source

STAN = Source(
    "Luo et al., STAN, WWW 2021",
    "yingtaoluo/Spatial-Temporal-Attention-Network-for-POI-Recommendation",
    "8b82f2840e7f435a25398e1d42a835fc4129a4e2",
    "train.py L10-21, L134-147, L220, load.py L76-109",
)


def stan(first: int | None = 100) -> Protocol:
    """STAN: the first 100 users, one query per user, `torch.topk` for each k.

    Its loader sorts the users by length, longest first, and its test target is the third location
    from the end. Pass the rows in that order.

    Args:
        first: number of users that count.
    """
    return Protocol("stan", STAN, at("Recall@{k}", "hit", CUTS), first=first)


LSTPM = Source(
    "Sun et al., LSTPM, AAAI 2020",
    "NLPWM-WHU/LSTPM",
    "bce2384f33ec3efe08c106033632987d14738abe",
    "train/train.py L409-482",
)


def lstpm() -> Protocol:
    """LSTPM: all queries, `torch.topk` of ten candidates; a target 0 ends its session.

    This query and the later ones of its session are no hits and stay in the divisor. The code
    prints the six values in this order, without names.
    """
    cuts = (1, 5, 10)
    metrics = (*at("Acc@{k}", "hit", cuts, depth=10), *at("NDCG@{k}", "ndcg", cuts, depth=10))
    return Protocol("lstpm", LSTPM, metrics, zero="ends its sequence")


CSLSL = Source(
    "Huang et al., CSLSL, EPJ Data Science 2024",
    "urbanmobility/CSLSL",
    "d59c882b1feb329d0d3f72067bb111e72a57cbe3",
    "utils.py L8-156, train_test.py L173-198, evaluate.py L122-143",
)


def cslsl(batch_size: int | None = 64, seed: int | None = None) -> Protocol:
    """CSLSL: shuffled queries, full batches only; `torch.topk` of twenty candidates.

    Each evaluation leaves out the rows of the last, partial batch. A target 0 is never a hit and
    stays in the divisor.

    Args:
        batch_size: the queries per batch: 64 in evaluate.py, 128 in train_test.py.
        seed: of Python's `random.shuffle`.
    """
    return Protocol(
        "cslsl",
        CSLSL,
        at("Rec-l@{k}", "hit", (1, 5, 10), depth=20),
        drops_remainder=True,
        zero="never a hit",
        batch_size=batch_size,
        seed=seed,
    )


STHGCN = Source(
    "Yan et al., STHGCN, SIGIR 2023",
    "ant-research/Spatio-Temporal-Hypergraph-Model",
    "27b595846d29019799485985bff49f9ed02c4ade",
    "metric/rank_metric.py L4-23, utils/pipeline_util.py L38-74",
)


def sthgcn() -> Protocol:
    """STHGCN: the last step of each trajectory, one `torch.sort` for all metrics.

    MAP@k is the reciprocal rank cut at k. The code sums in float32, so the last digits differ.
    """
    metrics = (
        *at("Recall@{k}", "hit", CUTS, "sort"),
        *at("NDCG@{k}", "ndcg", CUTS, "sort"),
        *at("MAP@{k}", "reciprocal", CUTS, "sort"),
        Metric("MRR", "reciprocal", None, "sort"),
    )
    return Protocol("sthgcn", STHGCN, metrics, queries="last of each sequence")


HSTU = Source(
    "Zhai et al., HSTU, ICML 2024",
    "meta-recsys/generative-recommenders",
    "db1bf8f2e8f6a92a738dafd52a245eafb25a222b",
    "generative_recommenders/research/data/eval.py L73-257",
)


def hstu(masks_seen: bool = False) -> Protocol:
    """HSTU: the last query of each user; a target beyond rank 2,500 counts as rank 2,501.

    The code leaves out the visited locations of the user, also if the target is one of them. It
    removes them after `torch.topk`; this protocol masks them before it, so the order of ties may
    differ, within the bounds. The code sums in float32, so the last digits differ.

    Args:
        masks_seen: whether the locations in `seen` are left out, as in that code.
    """
    cuts, longer = (1, 10, 50, 100, 200), (1, 10, 50, 100, 200, 500, 1000)
    metrics = (
        *at("ndcg@{k}", "ndcg", cuts, depth=2500),
        *at("hr@{k}", "hit", longer, depth=2500),
        Metric("mrr", "reciprocal", None, depth=2500, missed=2501),
    )
    return Protocol(
        "hstu",
        HSTU,
        metrics,
        queries="last of each user",
        masks_seen="also the target" if masks_seen else "no",
        clipped=True,
    )


LLM_MOB = Source(
    "Wang et al., Where would I go next?, 2023",
    "xlwang233/LLM-Mob",
    "9ace25f7ca08971bd0b81f6d06f52d557a12aed3",
    "metrics.ipynb cells 2, 4",
)


def llm_mob() -> Protocol:
    """LLM-Mob: all rows, lists of ten ids; an answer without an id is a miss."""
    return Protocol(
        "llm_mob",
        LLM_MOB,
        (
            Metric("number of samples", "count", order="list", summed=True),
            *at("Acc@{k}", "hit", (1, 5, 10), "list"),
            Metric("Weighted F1", "weighted f1", order="list"),
            Metric("NDCG@10", "ndcg", 10, "list"),
        ),
    )


AGENTMOVE = Source(
    "Feng et al., AgentMove, NAACL 2025",
    "tsinghua-fib-lab/AgentMove",
    "61a3e47667f2862c81478bfa442595b766f2f4d6",
    "evaluate/evaluations.py L71-83, L149-207",
)


def agentmove() -> Protocol:
    """AgentMove: lists of any length, values in percent, two divisors.

    Accuracies are divided by the number of readable answers (`answered`); MRR, MAP and NDCG by the
    number of rows. MAP equals MRR, and none of the three has a cut-off.
    """
    accuracies = [
        Metric(f"Top-{k} Accuracy", "hit", k, "list", scale=100.0, over="answered")
        for k in (1, 3, 5)
    ]
    kinds: dict[str, Kind] = {"MRR": "reciprocal", "MAP": "reciprocal", "NDCG": "ndcg"}
    others = [
        Metric(f"{name} Accuracy", kind, None, "list", scale=100.0) for name, kind in kinds.items()
    ]
    return Protocol("agentmove", AGENTMOVE, (*accuracies, *others), decimals=2)


MASSIVE_STEPS = Source(
    "Wongso et al., Massive-STEPS, 2025",
    "cruiseresearchgroup/Massive-STEPS",
    "aeb73058f267a50e28e31f3836820e3b9ba4546d",
    "src/run_next_poi_llm.py L32-99",
)


def massive_steps() -> Protocol:
    """Massive-STEPS: lists of five ids, for one trajectory of each of 200 users.

    The code draws the users and their trajectories; pass the rows that it draws.
    """
    metrics = (*at("acc_{k}", "hit", (1, 5), "list"), Metric("ndcg_5", "ndcg", 5, "list"))
    return Protocol("massive_steps", MASSIVE_STEPS, metrics)
