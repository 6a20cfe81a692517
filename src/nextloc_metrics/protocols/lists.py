"""The protocols of codebases whose predictions are lists of ids."""

from __future__ import annotations

from dataclasses import replace

from nextloc_metrics.protocols.protocol import Protocol, Source
from nextloc_metrics.protocols.reported import KINDS, Metric, at


def llm_mob() -> Protocol:
    """LLM-Mob: all rows, lists of ten ids; an answer without an id is a miss."""
    return Protocol(
        "llm_mob",
        Source(
            "Wang et al., Where would I go next?, 2023",
            "xlwang233/LLM-Mob",
            "9ace25f7ca08971bd0b81f6d06f52d557a12aed3",
            "metrics.ipynb cells 2, 4",
        ),
        (
            Metric("number of samples", "count", order="list", summed=True),
            *at("Acc@{k}", "hit", (1, 5, 10), "list"),
            Metric("Weighted F1", "weighted f1", order="list"),
            Metric("NDCG@10", "ndcg", 10, "list"),
        ),
    )


def agentmove() -> Protocol:
    """AgentMove: lists of any length, values in percent, two divisors.

    Accuracies are divided by the number of readable answers (`answered`); MRR, MAP and NDCG by the
    number of rows. MAP equals MRR, and none of the three has a cut-off.
    """
    accuracies = [
        replace(one, over="answered") for one in at("Top-{k} Accuracy", "hit", (1, 3, 5), "list")
    ]
    others = [
        Metric(f"{name} Accuracy", KINDS[name.lower()], None, "list")
        for name in ("MRR", "MAP", "NDCG")
    ]
    return Protocol(
        "agentmove",
        Source(
            "Feng et al., AgentMove, NAACL 2025",
            "tsinghua-fib-lab/AgentMove",
            "61a3e47667f2862c81478bfa442595b766f2f4d6",
            "evaluate/evaluations.py L71-83, L149-207",
        ),
        tuple(replace(one, scale=100.0) for one in (*accuracies, *others)),
        decimals=2,
    )


def hmt_grn(novel: bool = False) -> Protocol:
    """HMT-GRN: lists of all locations, best first, after its beam search.

    If the best location is one that the user visited, the list is all locations by their scores;
    otherwise first those that the search over cells of a grid found, and then the others by id.
    With `novel`, only targets count that are not in `seen`, the user's training locations, which
    are taken out of the lists; the search is then always done. MAP is 1 / rank without a cut-off.
    """
    return Protocol(
        "hmt_grn_novel" if novel else "hmt_grn",
        Source(
            "Lim et al., HMT-GRN, SIGIR 2022",
            "poi-rec/HMT-GRN",
            "843a30df915c38fe93fca11ffebcd5606390b92a",
            "utils/func.py L34-210",
        ),
        (*at("Acc@{k}", "hit", (1, 5, 10, 20), "list"), Metric("MAP", "reciprocal", None, "list")),
        queries="targets new to the user" if novel else "all",
        masks_seen="also the target" if novel else "no",
    )


def llm4poi() -> Protocol:
    """LLM4POI: the first id of each list; a prompt that is too long to be answered is a miss.

    The code samples one text per query at temperature 0.6, so each run gives another value.
    """
    return Protocol(
        "llm4poi",
        Source(
            "Li et al., LLM4POI, SIGIR 2024",
            "neolifer/LLM4POI",
            "6145b45e444559aedd2643d40c31d411a853e693",
            "eval_next_poi.py L262-339",
        ),
        (Metric("ACC@1", "hit", 1, "list"),),
    )


def massive_steps() -> Protocol:
    """Massive-STEPS: lists of five ids, for one trajectory of each of 200 users.

    The code draws the users and their trajectories; pass the rows that it draws.
    """
    metrics = (*at("acc_{k}", "hit", (1, 5), "list"), Metric("ndcg_5", "ndcg", 5, "list"))
    return Protocol(
        "massive_steps",
        Source(
            "Wongso et al., Massive-STEPS, 2025",
            "cruiseresearchgroup/Massive-STEPS",
            "aeb73058f267a50e28e31f3836820e3b9ba4546d",
            "src/run_next_poi_llm.py L32-99",
        ),
        metrics,
    )
