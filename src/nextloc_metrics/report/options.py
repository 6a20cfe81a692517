"""The options of an evaluation, for Python and for the command line; importing needs no PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from nextloc_metrics.core.described_fields import described, with_field_texts
from nextloc_metrics.core.distribution.given import Given
from nextloc_metrics.core.suggestions import nearest
from nextloc_metrics.report.files.table_source import TableSource

if TYPE_CHECKING:
    from torchmetrics import MetricCollection

    from nextloc_metrics.core.base.metric import RecordMetric
    from nextloc_metrics.core.queries.arrays import Array
    from nextloc_metrics.geography import Locations
    from nextloc_metrics.metrics.bins import PopularityBins
    from nextloc_metrics.report.part import Part

    Metrics: TypeAlias = Mapping[str, RecordMetric | Part] | MetricCollection

Function = TypeVar("Function", bound=Callable[..., Any])


@with_field_texts
@dataclass(frozen=True, eq=False)
class Options:
    """The options of `evaluate` and `Evaluator`; `compare` has the first seven.

    `report.setting.Setting` checks them. They are saved with the counts, and evaluations with equal
    options can be merged.
    """

    k: int | Sequence[int] = described(
        "The cut-offs. Those of `measures` replace them.", (1, 5, 10)
    )
    measures: Sequence[Any] = described(
        "Metrics by name, such as `ndcg@10`, instead of the preset: `acc`, `hit_rate`, "
        "`precision`, `recall`, `f1`, `map`, `ndcg` and `mrr`, which needs no cut-off.",
        (),
    )
    metrics: Metrics | None = described(
        "Further metrics, such as your own. They are a dict or a `RankingCollection`; each has its "
        "row after those of the preset or of `measures`, by its name, with all that a row of its "
        "kind has: interval, chance, baseline, groups. Bounds over ties are for metrics of this "
        "library, chance and baseline for those of ranks. Each has one value, and no "
        "`ignore_index`; `compare` takes fractions only. A `Part` of your own adds other values.",
        None,
    )
    num_locations: int | None = described(
        "The number of location ids. None takes C for scores, and any ids for lists. Weighted F1 "
        "does not depend on it. Ids of text without a vocabulary need none.",
        None,
    )
    cluster: str | None = described(
        "The groups whose queries are not independent, such as `user`. It is one of the names of "
        "`groups`, or a column of a table; all intervals but those of each of its groups take "
        "groups as independent.",
        None,
    )
    exempt_target: bool = described(
        "Rank a target that is excluded. Otherwise it is an error.", False
    )
    confidence_level: float = described("The level of the intervals.", 0.95)
    bins: PopularityBins | None = described(
        "The popularity bin of each location, for the decile metrics. None makes ten from "
        "`train_counts`, if given.",
        None,
    )
    train_counts: Array | None = described(
        "The training visits of each location. They are integers `[C]`, for the decile metrics and "
        "the baseline.",
        None,
    )
    locations: Locations | None = described(
        "The coordinates of each location. They add the distance metrics and a map. A hit is at "
        "most 1 km away; `metrics` may have an `AccuracyWithin` of another radius. Not with "
        "`target` `[N, M]`.",
        None,
    )
    given: Given | None = described(
        "What scores are; adds the metrics of probabilities. These are those of "
        "`probability_metrics`, beside chance and the training frequencies (each count plus one). "
        "None adds none.",
        None,
    )


# The arguments of `evaluate` that name columns of a table.
_BESIDE = ("groups", "users", "mask", "exclude", "confidence", "grade")


def _right_place(name: str, options: Sequence[str]) -> str | None:
    """Return where else in a call the value of an unknown option belongs; None if nowhere."""
    if name in ("user", "users") and "cluster" in options and "groups" not in options:
        return 'pass `cluster="user"`, and `groups={"user": users}` with each batch'
    if name == "km" and "locations" in options:
        return "`metrics` takes an `AccuracyWithin(locations, km)`"
    if "rows" in options and name in (*_BESIDE, *(x.name for x in fields(Options))):
        return f"pass `{name}` to what takes the `Source`"
    if name in ("separator", "padding"):
        return f'pass `report.Source(rows, answers={{"{name}": ...}})`'
    if name in {x.name for x in fields(TableSource)} - {"rows"}:
        return f"it is of a table: pass `report.Source(rows, {name}=...)`"
    if name == "indexes" and "mask" in options:
        return "a row of `preds` is a query: `from_flat` in docs/coming-from.md makes such rows"
    if name == "ignore_index" and "mask" in options:
        return "pass `mask=target != -100`, or the id that stands for no target"
    return None


def refuses_unknown(function: Function) -> Function:
    """Make a function raise an error for an unknown argument that names the right one."""
    names = [x for x in signature(function).parameters if x != "self"]
    title = function.__qualname__.removesuffix(".__init__")

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if unknown := next((name for name in options if name not in names), None):
            near = nearest(unknown, names)
            listed = "its options are " + ", ".join(f"`{x}`" for x in names)
            remedy = _right_place(unknown, names) or (f"use `{near}`" if near else listed)
            raise TypeError(f"{title} has no option `{unknown}`; {remedy}.")
        return function(*args, **options)

    return call  # type: ignore[return-value]
