"""The protocols of codebases that let a language model answer, at the commits in their sources.

A code turns text into ids by a rule of its own, which the docstrings name; pass the ids.
"""

from dataclasses import replace
from typing import Literal

from torch import Tensor

from nextloc_metrics.core.queries.checks import check_choice
from nextloc_metrics.report.protocols.protocol import Own, Protocol, Source, Subset
from nextloc_metrics.report.protocols.reported import KINDS, Metric, at
from nextloc_metrics.report.protocols.rows import ProtocolInput

__all__ = ["clsprec", "ga_llm", "genup", "llmmove", "rallm_poi", "think2go", "tool4poi"]

Targets = Literal["all", "in", "out"]

_HISTORIES: dict[Targets, tuple[str, Subset]] = {
    "all": ("tool4poi", "all"),
    "in": ("tool4poi_in", "targets known to the user"),
    "out": ("tool4poi_out", "targets new to the user"),
}


def genup() -> Protocol:
    """GenUP: all queries, the first id of each answer; an answer without an id is a miss.

    The code deletes all but the digits of the text: "the 3rd answer: 12" is place 312.
    """
    code = "w11wo/GenUP@50452dcbeefe6324beb448b681318c240ff0ea3a"
    source = Source("Wongso et al., GenUP, 2024", code, "src/eval_next_poi.py L83-111")
    return Protocol("genup", source, (Metric("accuracy", "hit", 1, "list"),))


def ga_llm() -> Protocol:
    """GA-LLM: the first id of each answer; prompts that are too long leave the divisor.

    Of these, `answered` is False. The code deletes all but the digits of the text.
    """
    code = "liuzh368/GA-LLM@360f5c3e4d70b5191d45f8ef389a3fdb05bbcc9f"
    source = Source("Liu et al., GA-LLM, 2025", code, "eval_new.py L182-203, L226-297")
    return Protocol("ga_llm", source, (Metric("ACC@1", "hit", 1, "list"),), "answered queries")


def think2go() -> Protocol:
    """Think2Go: all queries, the code of each answer; locations of one code are equal.

    Pass the `numbers` of [`Codes`][nextloc_metrics.Codes] as `codes`; without, each id is a code of
    its own. The code joins all tokens behind "<answer>:", so that two codes are one wrong code.
    """
    code = "zhuang999/Think2Go@c88b46f02bbe573b79cd2555d17baf980cd6fdb9"
    source = Source("Think2Go, 2025", code, "eval_vllm.py L508-534, L545-591")
    own = Own("locations of one code are equal", change=_to_codes)
    return Protocol("think2go", source, (Metric("ACC@1", "hit", 1, "list"),), own=own)


def _to_codes(
    _protocol: Protocol, given: ProtocolInput, lists: Tensor, target: Tensor
) -> tuple[Tensor, Tensor]:
    """Return codes for ids; ids of no location equal nothing."""
    if given.codes is None:
        return lists, target
    numbers, last = given.codes.long(), len(given.codes) - 1
    target = numbers[target.clamp(max=last)].masked_fill(target > last, -2)
    return numbers[lists.clamp(0, last)].masked_fill((lists < 0) | (lists > last), -1), target


def tool4poi(history: Targets = "all") -> Protocol:
    """TOOL4POI: lists of any length; k is cut to the list, and MRR has no cut-off.

    Queries that failed are in the divisor and may be missing in the file of answers: pass empty
    lists. With `history`, only targets count that are `"in"` the history of the prompt, or `"out"`
    of it; pass its locations as `seen`.
    """
    check_choice("history", history, Targets)
    code = "wds1996/TOOL4POI@854284f0ae72acde5c0adeaa6a8dee76d25c79ff"
    source = Source("TOOL4POI, AAAI 2026", code, "toolRec_multi.py L17-26, L354-363, L429-594")
    metrics = (
        Metric("total_queries", "count", order="list", summed=True),
        *at("Acc{k}", "hit", (1, 5, 10), "list"),
        Metric("Mrr", "reciprocal", None, "list"),
        Metric("in_final_ratio", "hit", None, "list"),
    )
    name, queries = _HISTORIES[history]
    return Protocol(name, source, metrics, queries)


def clsprec() -> Protocol:
    """CLSPRec: a target that a list repeats scores at each of its ranks, so values may exceed 1.

    MAP@k is the reciprocal rank cut at k. Scores, which have no repeats, are ordered by
    `torch.sort`. The code sums in float32; for lists, so does this protocol.
    """
    code = "Wonderdch/CLSPRec@4ad49a4bdcc8850660565069762a590c9e516da4"
    lines = "main.py L177-214, CLSPRec.py L300-305"
    source = Source("Duan et al., CLSPRec, CIKM 2023", code, lines, ("LKRcrocodile/RALLM-POI",))
    metrics = [
        Metric(f"{name}@{k}", KINDS[name.lower()], k, "sort", repeats=True)
        for name in ("Recall", "NDCG", "MAP")
        for k in (1, 5, 10)
    ]
    return Protocol("clsprec", source, tuple(metrics))


def rallm_poi() -> Protocol:
    """RALLM-POI: the protocol of CLSPRec; a run that is resumed leaves the earlier queries out.

    Of these, `answered` is False. The code reads lists: it keeps the digits of each item, and fills
    lists of fewer than ten with random ids.
    """
    code = "LKRcrocodile/RALLM-POI@fe2ca0dff8f75bb4a73f92fb4c2058245b9fbdbe"
    source = Source("RALLM-POI, PRICAI 2025", code, "main_rallm_poi.py L205-228, L378-408")
    metrics = tuple(replace(one, order="list") for one in clsprec().metrics)
    return Protocol("rallm_poi", source, metrics, "answered queries")


def llmmove() -> Protocol:
    """LLMMove: lists chosen out of 101 locations in the prompt, of which the target is one.

    Pass the 100 others as `negatives` if your lists have further locations, which are then taken
    out. A query that fails is a miss. acc@10 and mrr@10 count all ranks of a list.
    """
    code = "LLMMove/LLMMove@65a30facdebb9e264ae032387b8717c4718eff75"
    source = Source("Feng et al., LLMMove, 2024", code, "models/LLMMove.py L46-73")
    whole = Metric("acc@10", "hit", None, "list"), Metric("mrr@10", "reciprocal", None, "list")
    metrics = (*at("acc@{k}", "hit", (1, 5), "list"), *whole)
    return Protocol("llmmove", source, metrics, num_negatives=100, drawn="given")


def of_answers() -> list[Protocol]:
    """Return the protocols of this file."""
    parts = tool4poi(), tool4poi("in"), tool4poi("out")
    return [genup(), ga_llm(), think2go(), *parts, clsprec(), rallm_poi(), llmmove()]
