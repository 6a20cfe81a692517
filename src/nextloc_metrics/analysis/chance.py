"""The chance level of metrics, the most frequent baseline, and the skill between them."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar, overload

import torch
from torch import Tensor

from nextloc_metrics.core.base.collection import RankingCollection
from nextloc_metrics.core.base.metric import NoChanceError, RecordMetric
from nextloc_metrics.core.base.ranking_metric import LARGEST_STATE
from nextloc_metrics.core.queries.arrays import Array, as_tensor
from nextloc_metrics.core.queries.checks import as_number, check_positive, is_integer
from nextloc_metrics.core.queries.messages import describe, read_row, short

Value = TypeVar("Value", float, Tensor)


@overload
def chance(metrics: RecordMetric, num_candidates: int, *, num_relevant: int = 1) -> float: ...
@overload
def chance(
    metrics: Mapping[str, RecordMetric] | RankingCollection,
    num_candidates: int,
    *,
    num_relevant: int = 1,
) -> dict[str, float]: ...
def chance(
    metrics: RecordMetric | Mapping[str, RecordMetric] | RankingCollection,
    num_candidates: int,
    *,
    num_relevant: int = 1,
) -> float | dict[str, float]:
    r"""Return the exact expected value of metrics for a random ranking.

    A random order of C candidates is one tied block of C, and the scores of this library are
    expectations over the orders of tied candidates. So Acc@k is k / C, and MRR is H(C) / C with
    H(C) = 1 + 1/2 + ... + 1/C. A `score` of your own metric is averaged over the C ranks of the
    relevant location, and `TailShare` and `Novelty` over random lists, if all their locations are
    candidates.

    The option `ties` is ignored. Metrics over locations, such as `LocationF1`, and the decile
    metrics have no chance level, because it depends on how often each location is visited; nor do
    metrics in km, because it depends on the coordinates, and scores that read groups. A dict or a
    collection omits them.

    Args:
        metrics: a metric, a dict of metrics, or a collection; they are not updated.
        num_candidates: C, the number of ranked candidates.
        num_relevant: the number of relevant candidates; 1 for a `score` of your own.

    Raises:
        TypeError: a single metric has no chance level.
        ValueError: a number is out of range.

    Example:
        >>> from nextloc_metrics import MRR
        >>> chance(MRR(), num_candidates=4)  # (1 + 1/2 + 1/3 + 1/4) / 4
        0.5208333333333333
    """
    num_candidates = check_positive("num_candidates", num_candidates, LARGEST_STATE)
    num_relevant = check_positive("num_relevant", num_relevant, LARGEST_STATE)
    if num_relevant > num_candidates:
        raise ValueError(
            f"`num_relevant` must be at most `num_candidates`, {num_candidates}, got "
            f"{num_relevant}."
        )
    if isinstance(metrics, RecordMetric):
        return metrics.chance(num_candidates, num_relevant)
    if isinstance(metrics, RankingCollection):
        metrics = dict(metrics.items(keep_base=False, copy_state=False))  # type: ignore[arg-type]
    members = metrics.values() if isinstance(metrics, Mapping) else [None]
    if not all(isinstance(x, RecordMetric) for x in members):
        raise TypeError(
            f"`metrics` must be a metric, a collection or a dict of them, got {short(metrics)}."
        )
    levels = {}
    for name, metric in metrics.items():
        with suppress(NoChanceError):
            levels[name] = metric.chance(num_candidates, num_relevant)
    return levels


@overload
def skill(value: Value, chance: float) -> Value: ...
@overload
def skill(value: Mapping[str, Value], chance: Mapping[str, float]) -> dict[str, Value]: ...
def skill(value: Any, chance: Any) -> Any:
    """Rescale values so that chance is 0 and perfect is 1.

    (value - chance) / (1 - chance), for metrics whose perfect value is 1. It is negative below
    chance, and NaN if the chance level is 1, such as for accuracy with k = C. Both are a number, a
    tensor, or dicts by name, as `compute` and `chance` return; names of only one are left out.

    Example:
        >>> skill(0.75, 0.5)
        0.5
        >>> skill({"acc_at_1": 0.75, "f1": 0.4}, {"acc_at_1": 0.5})
        {'acc_at_1': 0.5}
    """
    if isinstance(value, Mapping):
        skills = {name: skill(value[name], chance[name]) for name in value if name in chance}
        if not skills:
            raise ValueError(
                "`value` and `chance` must have names in common, got "
                f"{short(list(value))} and {short(list(chance))}."
            )
        return skills
    return (value - chance) / (1 - chance) if chance != 1 else value * math.nan


def last_location(previous: Array, num_locations: int) -> Tensor:
    """Score the previous location 1 and all others 0: the baseline of staying put.

    Of `num_locations` C, all others are tied. A query without a previous location, -1, ties all.
    The scores are float32 `[N, C]`; `previous` is one row `[N]` of integers from -1 to C - 1.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import AccuracyAtK
        >>> accuracy = AccuracyAtK(1)
        >>> accuracy(last_location([2, 0], num_locations=3), tensor([2, 1]))
        tensor(0.5000)

    Source: A. Cuttone, S. Lehmann and M. C. González, "Understanding predictability and exploration
    in human mobility", EPJ Data Science 7, 2018.
    """
    num_locations = check_positive("num_locations", num_locations, LARGEST_STATE)
    ids = as_tensor("previous", previous)
    if ids.ndim != 1 or not is_integer(ids):
        raise ValueError(f"`previous` must be one row of integers, [N], got {describe(ids)}.")
    ids = ids.long()
    wrong = ids[(ids < -1) | (ids >= num_locations)]
    if len(wrong):
        raise ValueError(
            f"`previous` must be below the {num_locations} locations, or -1, got {int(wrong[0])}."
        )
    scores = torch.zeros(len(ids), num_locations, dtype=torch.float32, device=ids.device)
    return scores.scatter_(1, ids.clamp(min=0)[:, None], (ids >= 0).float()[:, None])


def most_frequent(counts: Tensor | Sequence[int], num_queries: int) -> Tensor:
    """Score every location by its visits in the training data, equally for all queries.

    A model that is not better than this baseline has learnt only which locations are popular.
    Locations with equally many visits are tied; locations without a visit are last. `counts` are
    integer or floating `[C]`. The scores, float64 `[num_queries, C]` (float32 on MPS), are views of
    one row in memory.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import MRR
        >>> target = tensor([2, 1, 2])
        >>> mrr = MRR()
        >>> mrr(most_frequent([5, 20, 10], len(target)), target)  # (1/2 + 1 + 1/2) / 3
        tensor(0.6667)
    """
    scores = read_row("counts", counts)
    if scores.ndim != 1 or not scores.numel() or scores.is_complex():
        raise ValueError(f"`counts` must be one row of numbers, [C], got {describe(scores)}.")
    num_queries = as_number(num_queries)
    if type(num_queries) is not int or not 0 <= num_queries <= LARGEST_STATE:
        raise ValueError(
            f"`num_queries` must be an integer from 0 to 2^40, got {short(num_queries)}."
        )
    # float64 holds counts up to 2^53 exactly; MPS devices have no float64
    scores = scores.float() if scores.device.type == "mps" else scores.double()
    lowest, highest = (float(bound) for bound in scores.aminmax())
    if not (lowest >= 0 and highest < torch.inf):
        raise ValueError(
            "`counts` must hold finite numbers of at least 0, got "
            f"{lowest if lowest < 0 else highest}."
        )
    return scores.expand(num_queries, -1)
