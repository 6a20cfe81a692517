"""The options of an evaluation, for Python and for the command line; it needs no PyTorch."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, cleandoc, signature
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypedDict, TypeVar

from nextloc_metrics.core.suggestions import nearest

if TYPE_CHECKING:
    from torchmetrics import MetricCollection

    from nextloc_metrics.core.base.metric import RecordMetric
    from nextloc_metrics.core.queries.arrays import Array
    from nextloc_metrics.geography import Locations
    from nextloc_metrics.metrics.bins import PopularityBins

    Metrics: TypeAlias = Mapping[str, RecordMetric] | MetricCollection

Function = TypeVar("Function", bound=Callable[..., Any])


# A field is a type and a default. The command line shows the first sentence of its documentation.


class SharedOptions(TypedDict, total=False):
    """The options of `evaluate`, `Evaluator` and `compare`.

    Attributes:
        k: the cut-offs. Those of `measures` replace them.
        measures: metrics by name, such as `ndcg@10`, instead of the preset: `acc`, `hit_rate`,
            `precision`, `recall`, `f1`, `map`, `ndcg` and `mrr`, which needs no cut-off.
        metrics: further metrics, such as your own. They are a dict or a `RankingCollection`; each
            has its row after those of the preset or of `measures`, by its name, with all that a row
            of its kind has: interval, chance, baseline, groups. Bounds over ties are for metrics of
            this library, chance and baseline for those of ranks. Each has one value, and no
            `ignore_index`; `compare` takes fractions only. A `Part` of your own adds other values.
        num_locations: the number of location ids. None takes C for scores, and any ids for lists.
            Weighted F1 does not depend on it. Ids of text without `vocabulary` need none.
        cluster: the groups whose queries are not independent, such as `user`. It is one of the
            names of `groups`; all intervals but those of each of its groups take groups as
            independent.
        exempt_target: rank a target that is excluded. Otherwise it is an error.
        confidence_level: the level of the intervals.
    """

    k: Annotated[int | Sequence[int], (1, 5, 10)]
    measures: Annotated[Sequence[Any], ()]
    metrics: Annotated["Metrics | None", None]
    num_locations: Annotated[int | None, None]
    cluster: Annotated[str | None, None]
    exempt_target: Annotated[bool, False]
    confidence_level: Annotated[float, 0.95]


class Options(SharedOptions, total=False):
    """The options of `evaluate` and `Evaluator`, beside `SharedOptions`.

    Attributes:
        bins: the popularity bin of each location, for the decile metrics. None makes ten from
            `train_counts`, if given.
        train_counts: the training visits of each location. They are integers `[C]`, for the decile
            metrics and the baseline.
        vocabulary: the text of each id. Evaluations with different vocabularies cannot be merged.
        locations: the coordinates of each location. They add the distance metrics and a map. A hit
            is at most 1 km away; `metrics` may have an `AccuracyWithin` of another radius. Not
            with `target` `[N, M]`.
        given: what scores are; adds the metrics of probabilities. These are those of
            `probability_metrics`, beside chance and the training frequencies (each count plus
            one). None adds none.
    """

    bins: Annotated["PopularityBins | None", None]
    train_counts: Annotated["Array | None", None]
    vocabulary: Annotated[Sequence[str | int] | None, None]
    locations: Annotated["Locations | None", None]
    given: Annotated[Literal["logits", "log_probabilities", "probabilities"] | None, None]


def parameters_of(options: Any) -> dict[str, Parameter]:
    """Return the keyword arguments that a group of options stands for."""
    return {
        name: Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=field.__metadata__[0],
            annotation=getattr(field.__origin__, "__forward_arg__", field.__origin__),
        )
        for name, field in options.__annotations__.items()
    }


def summaries() -> dict[str, str]:
    """Return the first sentence on each option, for the command line."""
    docs = "\n".join(cleandoc(kind.__doc__ or "") for kind in (SharedOptions, Options))
    found = re.findall(r"^    (\w+): (.+?)\.(?=\s|$)", docs, re.MULTILINE | re.DOTALL)
    return {
        name: " ".join(re.sub("`", "", text[0].upper() + text[1:]).split()) for name, text in found
    }


def _of_place(name: str, options: list[str]) -> str | None:
    """Return where the value of an unknown option has its place in the call, if it has one."""
    if name in ("user", "users") and "cluster" in options and "groups" not in options:
        return 'pass `cluster="user"`, and `groups={"user": users}` with each batch'
    if name == "km" and "locations" in options:
        return "`metrics` takes an `AccuracyWithin(locations, km)`"
    if name in ("separator", "padding") and "answers" in options:
        return f'pass `answers={{"{name}": ...}}`'
    if name == "indexes" and "mask" in options:
        return "a row of `preds` is a query: `from_flat` in docs/coming-from.md makes such rows"
    if name == "ignore_index" and "mask" in options:
        return "pass `mask=target != -100`, or the id that stands for no target"
    return None


def with_options(options: Any) -> Callable[[Function], Function]:
    """Let a function of `**options` show each in its signature, have its default, refuse others."""
    added = parameters_of(options)
    defaults = {name: one.default for name, one in added.items()}

    def decorate(function: Function) -> Function:
        own = signature(function)
        *first, _ = own.parameters.values()
        known = [*first, *added.values()]
        names = [one.name for one in known if one.name != "self"]
        title = function.__qualname__.removesuffix(".__init__")

        @wraps(function)
        def call(*args: Any, **given: Any) -> Any:
            if unknown := next((name for name in given if name not in names), None):
                near = nearest(unknown, names)
                listed = "its options are " + ", ".join(f"`{x}`" for x in names)
                remedy = _of_place(unknown, names) or (f"use `{near}`" if near else listed)
                raise TypeError(f"{title} has no option `{unknown}`; {remedy}.")
            return function(*args, **{**defaults, **given})

        call.__signature__ = own.replace(parameters=known)  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return decorate
