"""The values that five other codebases print for the same scores, and an audit of them.

Each function calls the operation by which its codebase orders the candidates. Therefore, tied
candidates and NaN get the ranks of that code on this machine. Values have the names of the code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core import scoring
from nextloc_metrics.core.display.page import Result
from nextloc_metrics.core.display.table import Table
from nextloc_metrics.core.queries.arrays import Array, as_tensor
from nextloc_metrics.core.queries.checks import cut_offs, is_integer
from nextloc_metrics.core.queries.messages import as_row, describe
from nextloc_metrics.core.ranking.ranking import Ranking
from nextloc_metrics.report.files.predictions import check_sources, read_same
from nextloc_metrics.report.files.table_source import TableSource

__all__ = ["Audit", "audit", "libcity", "middle_rank", "mie_lab", "recbole", "sasrec"]

# How many rows are ordered at once.
_ROWS = 1024


def libcity(preds: Array, target: Array, k: int | Sequence[int] = 5) -> dict[str, float]:
    """Return the values of LibCity: `torch.topk` of the scores in float32, for each `k`.

    Code: LibCity/Bigscity-LibCity at 5a6391d4, `libcity/evaluator/traj_loc_pred_evaluator.py` and
    `top_k` of `eval_funcs.py`. Differs: ties and NaN fall as `topk` has them; MAP equals MRR; F1 is
    computed from the means of precision and recall. LibCity's evaluation of sampled candidates,
    which divides by whole batches, is not here.

    Args:
        preds: floating `[N, C]`, scores of all locations.
        target: integer `[N]`, the true locations.
        k: one or several cut-offs.

    Raises:
        TypeError: an argument cannot be read.
        ValueError: shapes do not fit, a target is no candidate, or `k` is more than C.

    Example:
        >>> import torch
        >>> scores = torch.tensor([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2]])
        >>> found = libcity(scores, torch.tensor([1, 1]), k=2)  # ranks 1 and 2
        >>> found["Recall@2"], found["Precision@2"], found["MRR@2"]
        (1.0, 0.5, 0.75)
    """
    cuts = cut_offs(k)
    preds, target = _read(preds, target, max(cuts))
    values: dict[str, float] = {}
    for cut in cuts:
        ranks = _rank(partial(torch.topk, k=cut, dim=1), preds.float(), target)
        recall, reciprocal, gain = _means(ranks, cut)
        precision = recall / cut
        f1 = 2 * precision * recall / (precision + recall) if recall else 0.0
        of_cut = {"Precision": precision, "Recall": recall, "F1": f1}
        of_cut |= {"MRR": reciprocal, "MAP": reciprocal, "NDCG": gain}
        values |= {f"{name}@{cut}": value for name, value in of_cut.items()}
    return values


def mie_lab(preds: Array, target: Array) -> dict[str, float]:
    """Return the values of mie-lab/location-prediction: counts, and means in percent.

    Code: mie-lab/location-prediction at 3417149d, `utils/train.py`. Differs: `correct` and `acc`
    call `torch.topk` for each k, `rr`, `mrr` and `ndcg` (at 10) `torch.argsort`, so that ties fall
    in two ways. `f1`, weighted by the targets, is a fraction. The code sums in float32, so its last
    digits differ. Arguments and errors are as for `libcity`.

    Example:
        >>> import torch
        >>> scores = torch.tensor([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2]])
        >>> mie_lab(scores, torch.tensor([1, 1]))["mrr"]  # of 1 and 1/2, in percent
        75.0
    """
    preds, target = _read(preds, target)
    number, width = preds.shape
    topk = {k: partial(torch.topk, k=min(k, width), dim=1) for k in (1, 3, 5, 10)}
    right = {k: float((_rank(order, preds, target) > 0).sum()) for k, order in topk.items()}
    ranks = _rank(partial(torch.sort, dim=1, descending=True), preds, target)
    reciprocal, gain = _means(ranks)[1], _means(ranks, 10)[2]
    best = preds.topk(1).indices[:, 0]
    true, guessed, both = (
        torch.bincount(ids, minlength=width).double()
        for ids in (target, best, target[best == target])
    )
    return {
        **{f"correct@{k}": found for k, found in right.items()},
        "rr": reciprocal * number,
        "ndcg": 100 * gain,
        "f1": float((true / number * 2 * both / (true + guessed).clamp(min=1)).sum()),
        "total": float(number),
        **{f"acc@{k}": 100 * right[k] / number for k in (1, 5, 10)},
        "mrr": 100 * reciprocal,
    }


def recbole(preds: Array, target: Array, k: int | Sequence[int] = 10) -> dict[str, float]:
    """Return the values of RecBole's full ranking: `torch.topk` of max(k), four decimals.

    Code: RUCAIBox/RecBole at 7b02be5e, `recbole/trainer/trainer.py` and
    `recbole/evaluator/metrics.py`. Differs: id 0 is padding and no candidate. General models also
    leave out what the user visited, except the target: set those scores to -inf. Arguments and
    errors are as for `libcity`.

    Example:
        >>> import torch
        >>> scores = torch.tensor([[0.9, 0.7, 0.2], [0.5, 0.2, 0.3]])
        >>> recbole(scores, torch.tensor([1, 1]), k=2)["mrr@2"]  # ranks 1 and 2 without id 0
        0.75
    """
    cuts = cut_offs(k)
    preds, target = _read(preds, target, max(cuts))
    preds = preds.clone()
    preds[:, 0] = -torch.inf
    ranks = _rank(partial(torch.topk, k=max(cuts), dim=1), preds, target).numpy()[:, None]
    depth = np.arange(1, max(cuts) + 1)
    hit = ((ranks > 0) & (ranks <= depth)).astype(float)
    reciprocal, gain = hit / np.maximum(ranks, 1), hit / np.log2(np.maximum(ranks, 1) + 1)
    scores_by_name = {"recall": hit, "mrr": reciprocal, "ndcg": gain}
    scores_by_name |= {"hit": hit, "precision": hit / depth, "map": reciprocal}
    return {
        f"{name}@{cut}": float(np.round(scores.mean(0)[cut - 1], 4))
        for name, scores in scores_by_name.items()
        for cut in cuts
    }


def sasrec(
    preds: Array,
    target: Array,
    users: Array | None = None,
    seen: Array | None = None,
    *,
    seed: int = 0,
) -> dict[str, float]:
    """Return the values of SASRec: the last query of each user, among 100 sampled locations.

    Code: pmixer/SASRec.pytorch at fde8a9c0, `evaluate` of `python/utils.py`. Differs: users come in
    rising order, and NumPy draws 100 ids from 1 on with replacement, again where one is in `seen`;
    a drawn target ties with itself, and ties fall as `argsort().argsort()` has them. The code sets
    no seed; `seed` gives one possible value. Arguments and errors are as for `libcity`, and:

    Args:
        users: numbers or names `[N]`; the last row of each user counts. None counts every row.
        seen: ids `[N, E]` that the user visited in training, padded with -1.

    Raises:
        ValueError: a row of `users` or `seen` is missing, or `seen` leaves no id to draw.

    Example:
        >>> import torch
        >>> scores = torch.eye(300)[[3, 3, 3]]  # the best location is 3
        >>> sasrec(scores, torch.tensor([4, 3, 3]), users=["ann", "ann", "bob"])
        {'NDCG@10': 1.0, 'HR@10': 1.0}
    """
    preds, target = _read(preds, target)
    seen_rows = [] if seen is None else as_tensor("seen", seen).tolist()
    by_query: dict[str, Any] = {"users": users, "seen": seen}
    for name, values in by_query.items():
        if values is not None and len(values) != len(target):
            raise ValueError(
                f"`{name}` must have a row for each of the {len(target)} queries, got "
                f"{describe(values)}."
            )
    rows = np.arange(len(target))
    if users is not None:
        rows = len(target) - 1 - np.unique(np.asarray(users)[::-1], return_index=True)[1]
    draw, width = np.random.RandomState(seed), preds.shape[1]
    ids = target[rows, None].repeat(1, 101)
    for i, row in enumerate(rows):
        rated = set(seen_rows[row]) if seen_rows else set()
        if rated.issuperset(range(1, width)):
            raise ValueError(
                f"`seen` must leave an id to draw, got all {width - 1} in {as_row(row)}."
            )
        for column in range(1, 101):
            ids[i, column] = drawn = draw.randint(1, width)
            while drawn in rated:
                ids[i, column] = drawn = draw.randint(1, width)
    ranks = (-preds[rows].gather(1, ids)).argsort(dim=1).argsort(dim=1)[:, 0] + 1
    hit, _, gain = _means(ranks, 10)
    return {"NDCG@10": gain, "HR@10": hit}


def middle_rank(
    preds: Array, target: Array, k: int | Sequence[int] = (1, 3, 10)
) -> dict[str, float]:
    """Return the values of OGB, TGB and PyKEEN: a tied target has the middle of its ranks.

    Code: snap-stanford/ogb at 61e9784c, `_eval_mrr` of `ogb/linkproppred/evaluate.py`. Differs:
    with `A` candidates above and `e` tied, the target included, the rank is A + (e + 1) / 2. That
    is not the mean over the orders of ties: of two that are tied at the top, the rank is 1.5, so
    hits@1 is 0, and not 1/2. Arguments and errors are as for `libcity`.

    Example:
        >>> import torch
        >>> middle_rank(torch.tensor([[0.5, 0.5, 0.1]]), torch.tensor([0]), k=(1, 3))
        {'hits@1': 0.0, 'hits@3': 1.0, 'mrr': 0.6666666666666666}
    """
    cuts = cut_offs(k)
    preds, target = _read(preds, target)
    of_target = preds.gather(1, target[:, None])
    # NaN is not even equal to itself: `tied` may be 0
    above, tied = (preds > of_target).sum(1), (preds == of_target).sum(1)
    ranks = above + (tied.clamp(min=1).double() + 1) / 2
    return {f"hits@{cut}": _means(ranks, cut)[0] for cut in cuts} | {"mrr": _means(ranks)[1]}


def _read(preds: Array, target: Array, largest_k: int = 1) -> tuple[Tensor, Tensor]:
    """Return scores and targets as tensors on the CPU."""
    scores, ids = as_tensor("preds", preds).detach().cpu(), as_tensor("target", target).cpu()
    if scores.ndim != 2 or not scores.is_floating_point():
        remedy = "; a list of ids has no ties" if is_integer(scores) else ""
        raise ValueError(f"`preds` must be scores [N, C], got {describe(preds)}{remedy}.")
    number, width = scores.shape
    if ids.shape != (number,) or not number or not is_integer(ids):
        raise ValueError(f"`target` must be ids [{number}], at least one, got {describe(target)}.")
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= width:
        wrong = low if low < 0 else high
        raise ValueError(f"`target` must be ids of the {width} candidates, got {wrong}.")
    if largest_k > width:
        raise ValueError(f"`k` must be at most the {width} candidates, got {largest_k}.")
    return scores, ids.long()


def _rank(order: Callable[[Tensor], Any], preds: Tensor, target: Tensor) -> Tensor:
    """Return the rank of each target in the order of `topk` or `sort`; 0 if it is not there."""
    ranks = []
    for rows, ids in zip(torch.split(preds, _ROWS), torch.split(target, _ROWS), strict=True):
        is_target = order(rows).indices == ids[:, None]
        ranks.append(torch.where(is_target.any(1), is_target.byte().argmax(1) + 1, 0))
    return torch.cat(ranks)


def _means(ranks: Tensor, k: float = math.inf) -> tuple[float, float, float]:
    """Return the means of hits, 1 / rank and 1 / log2(rank + 1); 0 at rank 0 and beyond `k`."""
    hit = (ranks > 0) & (ranks <= k)
    rank = ranks.double().masked_fill(~hit, torch.inf)
    means = (hit.double().mean(), (1 / rank).mean(), (1 / (rank + 1).log2()).mean())
    return float(means[0]), float(means[1]), float(means[2])


#: the formula of a metric by its name in a codebase, in small letters
_FORMULAS: dict[str, Callable[[Ranking, Any], Tensor]] = {
    **dict.fromkeys(("recall", "acc", "hr", "hits"), scoring.accuracy),
    "mrr": scoring.reciprocal_rank,
    "ndcg": scoring.ndcg,
}

#: why a codebase prints other values
_REASONS = {
    "libcity": "ties by topk",
    "mie_lab": "ties by topk and argsort",
    "recbole": "without id 0, ties by topk, four decimals",
    "sasrec": "last of each user, 101 candidates",
    "middle_rank": "middle of the tied ranks",
}


@dataclass(repr=False)
class Audit(Result):
    """The result of `audit`; `print` shows its `table`, whose records are fractions."""

    title: ClassVar[str] = "Under the protocols of other codebases"

    table: Table


def audit(
    preds: Any,
    target: Array | None = None,
    users: Array | str | None = None,
    seen: Array | None = None,
    *,
    k: int | Sequence[int] = (1, 5, 10),
    seed: int = 0,
    key: str | None = None,
) -> Audit:
    """Evaluate scores as five codebases do, beside the exact values and the bounds of ties.

    The exact value is the mean over all queries, ranked among all candidates, expected over random
    orders of ties; `lowest` and `highest` are the least and the largest mean over these orders. A
    target scored NaN is a miss.

    Args:
        preds: as for `libcity`, as is `target`; or a dict with the scores of several models; or a
            [`Source`][nextloc_metrics.report.Source], or a dict of them, of the same queries.
        users: as for `sasrec`, as are `seen` and `seed`; beside sources, the column.
        k: the cut-offs; values with other cut-offs are left out.
        key: of sources, as for `compare`.

    Raises:
        ValueError: there is no model, shapes do not fit, or `k` is more than C.

    Example:
        >>> import torch
        >>> scores = -torch.arange(20.0).repeat(3, 1)  # the best location is 0
        >>> scores[:, 1] = 0  # or 1
        >>> records = audit(scores, torch.tensor([1, 2, 2]), k=1).table.records
        >>> found = {one["protocol"]: one["value"] for one in records if "@1" in one["metric"]}
        >>> found["recbole"], found["middle_rank"]  # the first target has the rank 1, or 1.5
        (0.3333, 0.0)
    """
    cuts = cut_offs(k)
    models = preds if isinstance(preds, Mapping) else {"": preds}
    if not models:
        raise ValueError("`preds` must hold at least one model, got none.")
    if any(isinstance(model, TableSource) for model in models.values()):
        check_sources(models, target=target, seen=seen)
        tables = read_same(models, [] if users is None else [str(users)], key)
        first = next(iter(tables.values()))
        models, target = {name: table.preds for name, table in tables.items()}, first.target
        users = None if users is None else first.groups[str(users)]
    if target is None:
        raise TypeError("`target` must be given with scores, got None.")
    records: list[dict[str, Any]] = []
    for model, model_scores in models.items():
        scores, ids = _read(model_scores, target, max(cuts))
        values = {
            "libcity": libcity(scores, ids, cuts),
            "mie_lab": mie_lab(scores, ids),
            "recbole": recbole(scores, ids, cuts),
            "sasrec": sasrec(scores, ids, users, seen, seed=seed),
            "middle_rank": middle_rank(scores, ids, cuts),
        }
        ranking = Ranking.from_scores(scores, ids)
        named = {"model": model} if len(models) > 1 else {}
        for protocol, of_protocol in values.items():
            for metric, value in of_protocol.items():
                if (compared := _compare(ranking, metric, value, protocol, cuts)) is not None:
                    records.append({**named, "protocol": protocol, "metric": metric, **compared})
    header = list(records[0])
    rows = [
        [f"{100 * record[x]:.2f}" if isinstance(record[x], float) else record[x] for x in header]
        for record in records
    ]
    return Audit(Table(header, rows, ["values in percent"], records))


def _compare(
    ranking: Ranking, metric: str, value: float, protocol: str, cuts: Sequence[int]
) -> dict[str, Any] | None:
    """Compare a value with the exact one; None if it is repeated or has no exact counterpart."""
    name, _, cut = metric.lower().partition("@")
    k = int(cut) if cut else 10 if name == "ndcg" else None
    formula = _FORMULAS.get(name)
    if formula is None or (k is not None and k not in cuts) or (k == 1 and name in ("mrr", "ndcg")):
        return None
    if protocol == "mie_lab":
        value /= 100
    exact, lowest, highest = (
        float(formula(ranking.break_ties(ties), k).mean())
        for ties in ("expected", "pessimistic", "optimistic")
    )
    why = _REASONS[protocol] if abs(value - exact) > 1e-9 else ""
    return {"value": value, "exact": exact, "lowest": lowest, "highest": highest, "why": why}
