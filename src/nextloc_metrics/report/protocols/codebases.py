"""The protocols of published codebases, at the commits in their sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

import torch
from torch import Tensor

from nextloc_metrics.core.queries.checks import cut_offs
from nextloc_metrics.core.ranking.forms import leave_out
from nextloc_metrics.report.protocols.operations import Order
from nextloc_metrics.report.protocols.protocol import MasksSeen, Own, Protocol, Source, Subset
from nextloc_metrics.report.protocols.reported import KINDS, Metric, Reported, at
from nextloc_metrics.report.protocols.rows import ProtocolInput, drop_remainder

__all__ = [
    "agentmove",
    "cslsl",
    "dchl",
    "deepmove",
    "flashback",
    "geosan",
    "getnext",
    "graph_flashback",
    "hmt_grn",
    "hstu",
    "libcity",
    "llm4poi",
    "llm_mob",
    "lstpm",
    "massive_steps",
    "middle_rank",
    "mie_lab",
    "recbole",
    "rotan",
    "sasrec",
    "stan",
    "sthgcn",
]

CUTS = (1, 5, 10, 20)


def libcity(
    k: int | Sequence[int] = 5, sampled: bool = False, batch_size: int = 10, seed: int | None = None
) -> Protocol:
    """LibCity: all queries, `torch.topk` for each k, sums over all queries.

    MAP@k equals MRR@k in LibCity, and F1@k is computed from the averages of precision and recall.
    With `sampled`, the target is ranked among 100 locations drawn by their visits, maybe itself
    too. The divisor is then the number of batches times `batch_size`, and NumPy's draws need a
    `seed` if `evaluate` gets no `negatives`.

    Example:
        >>> import torch
        >>> scores = torch.tensor([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2]])
        >>> found = libcity(k=2).evaluate(scores, torch.tensor([1, 1]))  # ranks 1 and 2
        >>> found["Recall@2"], found["Precision@2"], found["MRR@2"]
        (1.0, 0.5, 0.75)
    """
    names = ("Precision", "Recall", "F1", "MRR", "MAP", "NDCG")
    metrics = [Metric(f"{x}@{cut}", KINDS[x.lower()], cut) for cut in cut_offs(k) for x in names]
    code = "LibCity/Bigscity-LibCity@5a6391d41944e937f2c15e9be85ab7f40ac8b23e"
    lines = (
        "libcity/evaluator/eval_funcs.py L53-86, libcity/evaluator/traj_loc_pred_evaluator.py "
        "L42-123, libcity/executor/traj_loc_pred_executor.py L104, L157"
    )
    source = Source("Wang et al., LibCity, SIGSPATIAL 2021", code, lines)
    protocol = Protocol("libcity", source, tuple(metrics), own=Own(change=_round_to_float))
    if not sampled:
        return protocol
    protocol = replace(protocol, name="libcity_sampled", num_negatives=100, drawn="by visits")
    return replace(protocol, average="full batches", batch_size=batch_size, seed=seed)


def mie_lab() -> Protocol:
    """mie-lab/location-prediction: all queries, two orders of ties, values in percent.

    Accuracy uses `torch.topk` for each k; MRR (no cut-off) and NDCG@10 use `torch.argsort`. The
    code sums in float32, so the last digits differ. `f1` is a fraction.

    Example:
        >>> import torch
        >>> scores = torch.tensor([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2]])
        >>> mie_lab().evaluate(scores, torch.tensor([1, 1]))["mrr"]  # of 1 and 1/2, in percent
        75.0
    """
    counts = [replace(one, summed=True) for one in at("correct@{k}", "hit", (1, 3, 5, 10))]
    accuracies = [replace(one, scale=100.0) for one in at("acc@{k}", "hit", (1, 5, 10))]
    mrr = Metric("mrr", "reciprocal", None, "sort", scale=100.0)
    metrics = (
        *counts,
        replace(mrr, key="rr", scale=1.0, summed=True),
        Metric("ndcg", "ndcg", 10, "sort", scale=100.0),
        Metric("f1", "weighted f1"),
        Metric("total", "count", summed=True),
        *accuracies,
        mrr,
    )
    code = "mie-lab/location-prediction@3417149da1e1e47ac9c5dfe5b557b19e33e96c96"
    lines = "utils/train.py L18-125, L382-448"
    paper = (
        "Hong et al., Context-aware multi-head self-attentional neural network model for next "
        "location prediction, TR-C 2023"
    )
    return Protocol("mie_lab", Source(paper, code, lines), metrics, clipped=True)


def getnext(batch_size: int | None = 20) -> Protocol:
    """GETNext and ROTAN: the last step of each trajectory, means of batch means.

    The order is NumPy's `argsort()[::-1]`. The code's names are val_top1_acc, val_mAP20 and
    val_mrr; mAP@20 is the reciprocal rank cut at 20. `sequences` are the trajectories, whose last
    steps are kept; without them every row is a last step.

    Example:
        >>> import torch
        >>> scores = torch.tensor([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2], [0.5, 0.3, 0.2]])
        >>> target = torch.tensor([1, 0, 1])  # hits in batches of 2 and 1: 2 of 2 and 0 of 1
        >>> getnext(batch_size=2).evaluate(scores, target)["acc@1"]
        0.5
    """
    code = "songyangme/GETNext@2714a57b5c009db2605dbb8af2eee7f424da09cc"
    lines, same = "utils.py L133-167, train.py L577-651", ("ruiwenfan/ROTAN",)
    source = Source("Yang et al., GETNext, SIGIR 2022", code, lines, same)
    metrics = (
        *at("acc@{k}", "hit", CUTS, "reversed"),
        Metric("mAP@20", "reciprocal", 20, "reversed"),
        Metric("mrr", "reciprocal", None, "reversed"),
    )
    protocol = Protocol("getnext", source, metrics, "last of each sequence")
    return replace(protocol, average="batches", batch_size=batch_size)


def rotan(batch_size: int | None = 128) -> Protocol:
    """ROTAN: the protocol of GETNext, with batches of 128 in its scripts."""
    code = "ruiwenfan/ROTAN@41d3b5708059b563aaffa8e013ec1047cee9848c"
    lines = "utils.py L339-348, L377-399, old_train.py L777-841"
    source = Source("Feng et al., ROTAN, KDD 2024", code, lines)
    return replace(getnext(batch_size), name="rotan", source=source)


def dchl(batch_size: int | None = 200) -> Protocol:
    """DCHL: one query per user, `torch.topk` for each k, means of batch means.

    The code shuffles the queries, so the short last batch differs between epochs, and reports the
    maximum over epochs of each metric. This protocol does neither.
    """
    code = "icmpnorequest/SIGIR2024_DCHL@307cadf4fca7d49d71c14ebcb535da7953a51439"
    lines = "metrics.py L10-63, run.py L190-263, dataset.py L77-94"
    source = Source("Lai et al., DCHL, SIGIR 2024", code, lines)
    metrics = (*at("Recall@{k}", "hit", CUTS), *at("NDCG@{k}", "ndcg", CUTS))
    protocol = Protocol("dchl", source, metrics, "last of each user", decimals=4)
    return replace(protocol, average="batches", batch_size=batch_size)


def flashback() -> Protocol:
    """Flashback, Graph-Flashback and LoTNext: all queries, two operations for the order.

    Recall uses `np.argpartition` of ten candidates. MAP, the reciprocal rank without a cut-off,
    uses `scores > own`: ties and NaN are never above, so the MAP of a constant model is 1.

    Example:
        >>> import torch
        >>> scores = torch.zeros(2, 12)  # a constant model
        >>> flashback().evaluate(scores, torch.tensor([3, 8]))["MAP"]
        1.0
    """
    recall = at("recall@{k}", "hit", (1, 5, 10), "partition")
    metrics = (*recall, Metric("MAP", "reciprocal", None, "above"))
    code = "eXascaleInfolab/Flashback_code@519a4461e88b4a28277f99c6786a01033623070c"
    same = ("kevin-xuan/Graph-Flashback", "Yukayo/LoTNext")
    source = Source("Yang et al., Flashback, IJCAI 2020", code, "evaluation.py L72-121", same)
    return Protocol("flashback", source, metrics, decimals=8)


def graph_flashback() -> Protocol:
    """Graph-Flashback: the protocol of Flashback."""
    code = "kevin-xuan/Graph-Flashback@3489e9a52bf22c36efc54b1eb1e1dabc94d8a596"
    source = Source("Rao et al., Graph-Flashback, KDD 2022", code, "evaluation.py L76-132")
    return replace(flashback(), name="graph_flashback", source=source)


def deepmove() -> Protocol:
    """DeepMove: all queries, `torch.topk` of ten candidates, the mean over users of their means.

    A target 0 is never a hit and stays in the divisor. The code reports acc@1. It also counts hits
    within 5 and 10 but does not use them; this protocol averages them as acc@1.

    Example:
        >>> import torch
        >>> scores = torch.eye(12)[[3, 3, 3]]  # the best location is 3
        >>> target, users = torch.tensor([3, 4, 3]), [1, 1, 2]  # 1/2 and 1
        >>> deepmove().evaluate(scores, target, users=users)["acc@1"]
        0.75
    """
    code = "vonfeng/DeepMove@6a969a430e177e87004ca39bea4adba93072bcad"
    source = Source("Feng et al., DeepMove, WWW 2018", code, "codes/train.py L245-259, L338-353")
    metrics = at("acc@{k}", "hit", (1, 5, 10), depth=10)
    return Protocol("deepmove", source, metrics, zero="never a hit", average="users")


def sasrec(seed: int | None = None, torch: bool = True) -> Protocol:
    """SASRec: the last query of each user, ranked among 100 locations drawn with replacement.

    Locations are drawn by NumPy with `seed`, users in rising order, uniformly from id 1 on, and
    again if they are in `seen`, the user's training locations. A target that is drawn ties with
    itself. The code sets no seed. It orders by PyTorch in pmixer/SASRec.pytorch, and by NumPy
    (`torch=False`) in kang205/SASRec.
    """
    order: Order = "torch places"
    code = "pmixer/SASRec.pytorch@fde8a9c08febc2c898dc269b1d98ab762c50d2be"
    lines = "python/utils.py L129-174"
    if not torch:
        order, lines = "numpy places", "util.py L40-85"
        code = "kang205/SASRec@e3738967fddab206d6eeb4fda433e7a7034dd8b1"
    source = Source("Kang and McAuley, SASRec, ICDM 2018", code, lines)
    metrics = (Metric("NDCG@10", "ndcg", 10, order), Metric("HR@10", "hit", 10, order))
    return Protocol("sasrec", source, metrics, "last of each user", num_negatives=100, seed=seed)


def middle_rank(k: int | Sequence[int] = (1, 3, 10)) -> Protocol:
    """OGB, TGB and PyKEEN: all queries, a tied target at the middle of its ranks.

    Where `A` candidates are above and `e` are tied, the target included, the rank is
    A + (e + 1) / 2. Scores are 1 / rank, and 1 if rank <= k. It is not the mean over the orders of
    ties: of two that are tied at the top, the rank is 1.5, so hits@1 is 0, and not 1/2.

    Example:
        >>> import torch
        >>> middle_rank().evaluate(torch.tensor([[0.5, 0.5, 0.1]]), torch.tensor([0]))
        {'hits@1': 0.0, 'hits@3': 1.0, 'hits@10': 1.0, 'mrr': 0.6666666666666666}
    """
    code = "snap-stanford/ogb@61e9784ca76edeaa6e259ba0f836099608ff0586"
    same = ("shenyangHuang/TGB", "pykeen/pykeen", "Laswell1551/less-is-more-nextpoi")
    lines = "ogb/linkproppred/evaluate.py L244-278"
    source = Source("Hu et al., Open Graph Benchmark, NeurIPS 2020", code, lines, same)
    metrics = (
        *at("hits@{k}", "hit", cut_offs(k), "middle"),
        Metric("mrr", "reciprocal", order="middle"),
    )
    return Protocol("middle_rank", source, metrics)


def geosan() -> Protocol:
    """GeoSAN: all queries, the target among 100 locations near to it that the user has not visited.

    Pass these locations as `negatives`, the nearest first; its query is each user's last visit to a
    new location. The code returns both metrics for each k up to 10.
    """
    code = "libertyeagle/GeoSAN@2eb5ef6a886ac972865ff7468f4920d41d72580d"
    source = Source("Lian et al., GeoSAN, KDD 2020", code, "quadkey_train.py L24-56")
    cuts = range(1, 11)
    metrics = (*at("HR@{k}", "hit", cuts, "sort"), *at("NDCG@{k}", "ndcg", cuts, "sort"))
    return Protocol("geosan", source, metrics, num_negatives=100, drawn="given")


def recbole(
    k: int | Sequence[int] = 10, masks_seen: bool = False, sampled: bool = False
) -> Protocol:
    """RecBole: all queries, `torch.topk` of max(k) candidates, rounded to four decimals.

    Id 0, the padding, is no candidate. Sequential models rank all other locations. General models
    leave out the visited locations of the user, `seen`, except the target: set `masks_seen`.

    `sampled` is its mode `uni100`, for one query per user: the target among 100 locations that its
    sampler draws and that you pass as `negatives`. One that is drawn twice counts once.
    """
    cuts = cut_offs(k)
    names = ("recall", "mrr", "ndcg", "hit", "precision", "map")
    metrics = [at(f"{name}@{{k}}", KINDS[name], cuts, depth=max(cuts)) for name in names]
    read = (
        "L542-559, recbole/data/dataloader/general_dataloader.py L150-181"
        if sampled
        else "L521-630"
    )
    lines = (
        f"recbole/trainer/trainer.py {read}, recbole/evaluator/collector.py L159-169, "
        "recbole/evaluator/metrics.py L39-227"
    )
    code = "RUCAIBox/RecBole@7b02be5ec80a88310f2d04a27a82adfcbb5dc211"
    source = Source("Zhao et al., RecBole, CIKM 2021", code, lines)
    protocol = Protocol("recbole", source, tuple(chain.from_iterable(metrics)), decimals=4)
    if not sampled:
        masked: MasksSeen = "not the target" if masks_seen else "no"
        own = Own("id 0 is no candidate", change=_without_zero)
        return replace(protocol, own=own, masks_seen=masked)
    protocol = replace(protocol, name="recbole_uni100", own=Own(change=_to_columns))
    return replace(protocol, num_negatives=100, drawn="given")


def _without_zero(
    protocol: Protocol, given: ProtocolInput, scores: Tensor, columns: Tensor
) -> tuple[Tensor, Tensor]:
    if given.is_list:
        raise ValueError(f"`preds` must be scores for {protocol.name}, got lists of ids.")
    return leave_out(scores, torch.zeros(len(scores), 1, dtype=torch.int64)), columns


def _to_columns(
    _protocol: Protocol, given: ProtocolInput, scores: Tensor, _columns: Tensor
) -> tuple[Tensor, Tensor]:
    """Score other locations -inf, so that one that is drawn twice counts once."""
    assert given.negatives is not None  # of which `scores` are
    ids = torch.cat([given.target[:, None], given.negatives.long()], 1)
    return torch.full_like(given.preds, -torch.inf).scatter_(1, ids, scores), given.target


def _round_to_float(
    _protocol: Protocol, given: ProtocolInput, scores: Tensor, columns: Tensor
) -> tuple[Tensor, Tensor]:
    return scores if given.is_list else scores.float(), columns


def _cut(first: int, _protocol: Protocol, _given: ProtocolInput, kept: Tensor) -> Tensor:
    return kept[:first]


def stan(first: int | None = 100) -> Protocol:
    """STAN: the first 100 users, one query per user, `torch.topk` for each k.

    Its loader sorts the users by the number of their visits, at most 101, most first, and its test
    target is the third location from the end. With `users`, these rows are chosen, if each visit of
    a user but the first is a row; without, every row counts.
    """
    code = (
        "yingtaoluo/Spatial-Temporal-Attention-Network-for-POI-Recommendation@"
        "8b82f2840e7f435a25398e1d42a835fc4129a4e2"
    )
    lines = "train.py L10-21, L134-147, L220, load.py L76-109"
    own = None if first is None else Own(f"the first {first}", partial(_cut, first))
    source, metrics = (
        Source("Luo et al., STAN, WWW 2021", code, lines),
        at("Recall@{k}", "hit", CUTS),
    )
    return Protocol("stan", source, metrics, queries="third last of each user", own=own)


def lstpm() -> Protocol:
    """LSTPM: all queries, `torch.topk` of ten candidates; a target 0 ends its session.

    This query and the later ones of its session are no hits and stay in the divisor. The code
    prints the six values in this order, without names.
    """
    cuts = (1, 5, 10)
    metrics = (*at("Acc@{k}", "hit", cuts, depth=10), *at("NDCG@{k}", "ndcg", cuts, depth=10))
    code = "NLPWM-WHU/LSTPM@bce2384f33ec3efe08c106033632987d14738abe"
    source = Source("Sun et al., LSTPM, AAAI 2020", code, "train/train.py L409-482")
    return Protocol("lstpm", source, metrics, zero="ends its sequence")


def cslsl(batch_size: int | None = 64, seed: int | None = None) -> Protocol:
    """CSLSL: shuffled queries, full batches only; `torch.topk` of twenty candidates.

    Each evaluation leaves out the rows of the last, partial batch. A target 0 is never a hit and
    stays in the divisor. `batch_size` is 64 in evaluate.py and 128 in train_test.py; `seed` is of
    Python's `random.shuffle`.
    """
    code = "urbanmobility/CSLSL@d59c882b1feb329d0d3f72067bb111e72a57cbe3"
    lines = "utils.py L8-156, train_test.py L173-198, evaluate.py L122-143"
    source = Source("Huang et al., CSLSL, EPJ Data Science 2024", code, lines)
    metrics = at("Rec-l@{k}", "hit", (1, 5, 10), depth=20)
    own = Own("whole batches only", _whole_batches)
    protocol = Protocol("cslsl", source, metrics, zero="never a hit", own=own)
    return replace(protocol, batch_size=batch_size, seed=seed)


def _whole_batches(protocol: Protocol, given: ProtocolInput, _kept: Tensor) -> Tensor:
    """Shuffle the rows, and leave out the last, partial batch."""
    size = protocol.need(protocol, "batch_size", "it uses batches")
    seed = protocol.need(protocol, "seed", "it shuffles the queries at random")
    number = len(given.target)
    kept = drop_remainder(given.users, number, size, seed)
    if not len(kept):
        raise ValueError(
            f"`target` must hold at least one batch of {size} queries for {protocol.name}, got "
            f"{number}."
        )
    return kept


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
    code = "ant-research/Spatio-Temporal-Hypergraph-Model@27b595846d29019799485985bff49f9ed02c4ade"
    lines = "metric/rank_metric.py L4-23, utils/pipeline_util.py L38-74"
    source = Source("Yan et al., STHGCN, SIGIR 2023", code, lines)
    return Protocol("sthgcn", source, metrics, queries="last of each sequence")


def hstu(masks_seen: bool = False) -> Protocol:
    """HSTU: the last query of each user; a target beyond rank 2,500 counts as rank 2,501.

    The code leaves out the visited locations of the user, also if the target is one of them: set
    `masks_seen`. It removes them after `torch.topk`; this protocol masks them before it, so the
    order of ties may differ, within the bounds. It sums in float32, so the last digits differ.
    """
    cuts, longer = (1, 10, 50, 100, 200), (1, 10, 50, 100, 200, 500, 1000)
    metrics = (
        *at("ndcg@{k}", "ndcg", cuts, depth=2500),
        *at("hr@{k}", "hit", longer, depth=2500),
        Metric("mrr", "reciprocal", None, depth=2500, missed=2501),
    )
    code = "meta-recsys/generative-recommenders@db1bf8f2e8f6a92a738dafd52a245eafb25a222b"
    lines = "generative_recommenders/research/data/eval.py L73-257"
    source = Source("Zhai et al., HSTU, ICML 2024", code, lines)
    masked: MasksSeen = "also the target" if masks_seen else "no"
    return Protocol("hstu", source, metrics, "last of each user", masks_seen=masked, clipped=True)


# The last five read lists of ids.


def llm_mob() -> Protocol:
    """LLM-Mob: all rows, lists of ten ids; an answer without an id is a miss."""
    code = "xlwang233/LLM-Mob@9ace25f7ca08971bd0b81f6d06f52d557a12aed3"
    source = Source("Wang et al., Where would I go next?, 2023", code, "metrics.ipynb cells 2, 4")
    metrics = (
        Metric("number of samples", "count", order="list", summed=True),
        *at("Acc@{k}", "hit", (1, 5, 10), "list"),
        Metric("Weighted F1", "weighted f1", order="list"),
        Metric("NDCG@10", "ndcg", 10, "list"),
    )
    return Protocol("llm_mob", source, metrics)


def agentmove() -> Protocol:
    """AgentMove: lists of any length, values in percent, two divisors.

    Accuracies are divided by the number of readable answers (`answered`); MRR, MAP and NDCG by the
    number of rows. MAP equals MRR, and none of the three has a cut-off.
    """
    accuracies = at("Top-{k} Accuracy", "hit", (1, 3, 5), "list")
    kinds: dict[str, Reported] = {"MRR": "reciprocal", "MAP": "reciprocal", "NDCG": "ndcg"}
    metrics = [replace(one, over="answered", scale=100.0) for one in accuracies]
    metrics += [Metric(f"{x} Accuracy", kinds[x], order="list", scale=100.0) for x in kinds]
    code = "tsinghua-fib-lab/AgentMove@61a3e47667f2862c81478bfa442595b766f2f4d6"
    lines = "evaluate/evaluations.py L71-83, L149-207"
    source = Source("Feng et al., AgentMove, NAACL 2025", code, lines)
    return Protocol("agentmove", source, tuple(metrics), decimals=2)


def hmt_grn(novel: bool = False) -> Protocol:
    """HMT-GRN: lists of all locations, best first, after its beam search.

    If the best location is one that the user visited, the list is all locations by their scores;
    otherwise first those that the search over cells of a grid found, and then the others by id.
    With `novel`, only targets count that are not in `seen`, the user's training locations, which
    are taken out of the lists; the search is then always done. MAP is 1 / rank without a cut-off.
    """
    code = "poi-rec/HMT-GRN@843a30df915c38fe93fca11ffebcd5606390b92a"
    source = Source("Lim et al., HMT-GRN, SIGIR 2022", code, "utils/func.py L34-210")
    metrics = (*at("Acc@{k}", "hit", CUTS, "list"), Metric("MAP", "reciprocal", None, "list"))
    if not novel:
        return Protocol("hmt_grn", source, metrics)
    kept: Subset = "targets new to the user"
    return Protocol("hmt_grn_novel", source, metrics, kept, masks_seen="also the target")


def llm4poi() -> Protocol:
    """LLM4POI: the first id of each list; a prompt that is too long to be answered is a miss.

    The code samples one text per query at temperature 0.6, so each run gives another value.
    """
    code = "neolifer/LLM4POI@6145b45e444559aedd2643d40c31d411a853e693"
    source = Source("Li et al., LLM4POI, SIGIR 2024", code, "eval_next_poi.py L262-339")
    return Protocol("llm4poi", source, (Metric("ACC@1", "hit", 1, "list"),))


def massive_steps() -> Protocol:
    """Massive-STEPS: lists of five ids, for one trajectory of each of 200 users.

    The code draws the users and their trajectories; pass the rows that it draws.
    """
    code = "cruiseresearchgroup/Massive-STEPS@aeb73058f267a50e28e31f3836820e3b9ba4546d"
    source = Source("Wongso et al., Massive-STEPS, 2025", code, "src/run_next_poi_llm.py L32-99")
    metrics = (*at("acc_{k}", "hit", (1, 5), "list"), Metric("ndcg_5", "ndcg", 5, "list"))
    return Protocol("massive_steps", source, metrics)


def every_protocol(k: Sequence[int], seed: int | None) -> list[Protocol]:
    """Return the protocols that differ from each other, except STAN, which needs sorted rows."""
    first = [libcity(k), mie_lab(), getnext(), dchl(), flashback(), deepmove(), recbole(k), lstpm()]
    rest = [cslsl(seed=seed), sthgcn(), hstu(), llm_mob(), agentmove(), massive_steps()]
    rest.append(middle_rank(k))
    return [*first, *rest, sasrec(seed), libcity(k, sampled=True, seed=seed)]
