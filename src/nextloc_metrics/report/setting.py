"""The setting of an evaluation: its options, checked, and the form of its batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from hashlib import blake2b
from os import PathLike
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torchmetrics import MetricCollection

from nextloc_metrics.core.base.collection import RankingCollection
from nextloc_metrics.core.base.metric import RecordMetric
from nextloc_metrics.core.distribution.given import Given
from nextloc_metrics.core.queries.answers import Answers
from nextloc_metrics.core.queries.arrays import as_tensor
from nextloc_metrics.core.queries.batch import ArrayRows, read_grouping
from nextloc_metrics.core.queries.checks import (
    Check,
    check_choice,
    check_named,
    check_positive,
    check_share,
    cut_offs,
    or_none,
)
from nextloc_metrics.core.queries.messages import describe, short
from nextloc_metrics.geography import Locations
from nextloc_metrics.geography.locations import check_locations
from nextloc_metrics.metrics.bins import PopularityBins
from nextloc_metrics.metrics.location_f1 import LocationF1
from nextloc_metrics.metrics.measures import cut_offs_of, parse_measures
from nextloc_metrics.metrics.presets import next_location_metrics, recommendation_metrics
from nextloc_metrics.report.options import Options
from nextloc_metrics.report.part import Part

#: The metrics and parts that the user passes, by name.
OwnMetrics: TypeAlias = Mapping[str, RecordMetric | Part]


def digest(*values: Any) -> str:
    """Return a short hash of values; a tensor is hashed as the list of its numbers."""
    hashed = blake2b(digest_size=8)
    for value in values:
        hashed.update(repr(value.tolist() if isinstance(value, Tensor) else value).encode())
    return hashed.hexdigest()


#: the types that name a column or a file
NAME = str | PathLike  # type: ignore[type-arg]


def _as_it_is(_name: str, value: Any) -> Any:
    return value


def check_cluster(cluster: str | None, groups: Sequence[str]) -> None:
    """Raise if `cluster` is not a key of `groups`."""
    if cluster is not None and cluster not in groups:
        raise ValueError(
            f"`cluster` must be None or one of `groups`, {short(list(groups))}, got "
            f"{short(cluster)}."
        )


def check_kinds(arguments: Mapping[str, Any], is_table: bool) -> None:
    """Raise for an array beside a table, and for the name of a column without one."""
    rule = "be an array, as predictions are arrays"
    rule = "name columns where predictions are a table" if is_table else rule
    for name, value in arguments.items():
        is_name = isinstance(value, NAME)
        if name == "groups":  # beside arrays, groups are a dict, which is checked later
            is_name = is_table and not hasattr(value, "items")
        if value is not None and is_name != is_table:
            raise TypeError(f"`{name}` must {rule}, got {describe(value)}.")


def with_users(users: Any, groups: Any, cluster: str | None) -> tuple[Any, str | None]:
    """Return `groups` and `cluster`, where `users` is short for both."""
    if users is None:
        return groups, cluster
    if groups is not None:
        check_named("groups", groups, '{"length": lengths}')
    if cluster is not None or "user" in (groups or {}):
        raise ValueError(
            '`users` must be None with `cluster` or `groups["user"]`, got both: it is short for '
            '`groups={"user": users}, cluster="user"`.'
        )
    return {**(groups or {}), "user": read_grouping("users", users)}, "user"


def cluster_of_table(users: Any, cluster: str | None) -> str | None:
    """Return the column of the cluster, which `users` is short for beside a table."""
    if users is None:
        return cluster
    with_users(None if cluster is None else users, None, cluster)  # raises if both are given
    return str(users)


def make_headline(
    num_locations: int | None,
    has_several: bool,
    k: int | Sequence[int],
    measures: Sequence[str],
    metrics: Mapping[str, RecordMetric],
    if_one_target: str = "keep",
    **options: Any,
) -> RankingCollection:
    """Make the preset for one relevant location per query or several, or metrics of `measures`.

    Copies of `metrics` follow. `if_one_target` is what F1 does if all targets are one location, and
    `options` are further options of `next_location_metrics`.
    """
    if measures:
        headline = RankingCollection(dict(parse_measures(measures)))
    elif has_several:
        headline = recommendation_metrics(k=k)
    else:
        headline = next_location_metrics(num_locations, k, **options)
    check_free(headline, metrics)
    headline.add_metrics({name: metric.clone() for name, metric in metrics.items()})
    for member in headline.members():
        if isinstance(member, LocationF1):
            member.if_one_target = if_one_target
    return headline


def check_free(rows: Iterable[Any], metrics: Mapping[str, RecordMetric]) -> None:
    """Raise if a further metric has the name of a row."""
    if taken := sorted({str(name) for name in rows} & metrics.keys()):
        raise ValueError(
            f"`metrics` must have other names than the rows of the evaluation, got {short(taken)}."
        )


#: the text of the card if excluded ids stay candidates where they are the target
EXEMPT = "given ids, but not the targets"
#: the kind of probabilities where lists have a confidence
CONFIDENCE = "confidence"

# The arguments that are given in all batches, or in none.
_PER_QUERY = ("exclude", "confidence")


class Form(NamedTuple):
    """What all batches of an evaluation have in common."""

    candidates: int | None  #: the number of scores per row; None for lists
    has_several: bool  #: whether several locations may be relevant
    groups: tuple[str, ...]  #: the names of the groups, such as "user"
    exclude: bool
    confidence: bool
    answers: str = ""  #: how answers of a language model were read; "" for other predictions
    num_ids: int | None = None  #: the number of ids of these answers

    @classmethod
    def of(cls, rows: ArrayRows) -> Form:
        """Return the form of rows."""
        has_columns: Any = {name: getattr(rows, name) is not None for name in _PER_QUERY}
        if isinstance(rows.preds, Answers):
            has_columns |= {"answers": rows.preds.rule, "num_ids": rows.preds.num_ids}
        return cls(rows.num_candidates, rows.has_several, rows.groups, **has_columns)

    def check(self, other: Form) -> None:
        """Raise if a batch is of another form than those before."""
        if other.groups != self.groups:
            raise ValueError(
                f"`groups` must be {short(self.groups)} in every batch, got {short(other.groups)}."
            )
        for name in _PER_QUERY:
            if getattr(other, name) != getattr(self, name):
                raise ValueError(f"`{name}` must be given in every batch, or in none.")
        if other != self:
            raise ValueError(
                f"a batch must have {self.describe()}, as those before, got {other.describe()}."
            )

    def describe(self) -> str:
        """Return a text that says what predictions and targets are."""
        preds = "lists of ids" if self.candidates is None else f"scores of {self.candidates} ids"
        preds = f"answers read by {self.answers}" if self.answers else preds
        return f"{preds} and {'several ids' if self.has_several else 'one id'} as `target`"


# The function that reads and checks an option; other options are taken as they are.
_CHECKS: dict[str, Check] = {
    "measures": lambda _, names: tuple(str(name).strip() for name in names),
    "metrics": lambda _, metrics: check_metrics(metrics),
    "num_locations": or_none(check_positive),
    "confidence_level": partial(check_share, example=0.95),
    "train_counts": or_none(as_tensor),
    "locations": or_none(check_locations),
    "given": or_none(partial(check_choice, choices=Given)),
}


@dataclass(frozen=True, eq=False)
class Setting(Options):
    """Options, checked, with the form of rows. Counts of equal settings add up."""

    k: tuple[int, ...] = ()
    metrics: OwnMetrics = field(default_factory=dict)  #: the metrics and parts, by name
    train_counts: Tensor | None = None
    vocabulary: str = ""  #: the digest of the vocabulary; "" if there is none
    form: Form | None = None  #: None before the first batch
    #: whether deciles have the accuracy in full lists, which files of 0.6.0 lack
    has_decile_accuracy: bool = True

    @classmethod
    def read(cls, options: Options, vocabulary: Sequence[Any] | None = None) -> Setting:
        """Check options; `vocabulary` has the text of each id, if ids are its positions."""
        values = {x.name: getattr(options, x.name) for x in fields(Options)}
        read = {name: _CHECKS.get(name, _as_it_is)(name, value) for name, value in values.items()}
        measures = values["measures"]
        read["k"] = tuple(cut_offs(cut_offs_of(measures) if measures else read["k"]))
        if read["bins"] is None and read["train_counts"] is not None:
            read["bins"] = PopularityBins.from_counts(read["train_counts"])
        words = "" if vocabulary is None else digest(*map(str, vocabulary))
        return cls(**read, vocabulary=words)

    def of_form(self, form: Form) -> Setting:
        """Return the setting of batches of a form, or raise if the options do not allow it."""
        setting, is_scores = replace(self, form=form), form.candidates is not None
        if self.locations is not None and form.has_several:
            raise ValueError(
                "`locations` must be None if a query may have several relevant locations, got "
                "`target` [N, M]; `geography.AccuracyWithin` accepts several."
            )
        number = self.num_locations or form.candidates or form.num_ids
        if form.num_ids not in (None, number):
            raise ValueError(
                f"`num_locations` must be {form.num_ids}, the number of ids of the answers, got "
                f"{number}."
            )
        check_cluster(self.cluster, form.groups)
        is_other = form.confidence if is_scores else self.given
        if is_other or (setting.probabilities and form.has_several):
            raise ValueError(
                "`target` must be one id per query for metrics of probabilities, with `given` for "
                f"scores or `confidence` for lists of ids, got {form.describe()}."
            )
        return setting

    @property
    def parts(self) -> dict[str, Part]:
        """The parts that the user passes."""
        return {name: part for name, part in self.metrics.items() if isinstance(part, Part)}

    @property
    def further_metrics(self) -> dict[str, RecordMetric]:
        """The metrics that the user passes, without parts."""
        return {name: x for name, x in self.metrics.items() if not isinstance(x, Part)}

    @property
    def num_ids(self) -> int | None:
        """The number of ids for F1; None for lists of any ids."""
        number = self.num_locations or self.candidates
        return number or (self.form.num_ids if self.form else None)

    @property
    def has_several(self) -> bool:
        """Whether several locations may be relevant."""
        return self.form is not None and self.form.has_several

    @property
    def candidates(self) -> int | None:
        """The number of scores per row; None for lists."""
        return self.form.candidates if self.form else None

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups, such as "user"."""
        return self.form.groups if self.form else ()

    @property
    def answers(self) -> str:
        """How answers of a language model were read; "" for other predictions."""
        return self.form.answers if self.form else ""

    @property
    def probabilities(self) -> str:
        """What scores are, as in `given`; "confidence" for lists with confidences, or ""."""
        return CONFIDENCE if self.form and self.form.confidence else self.given or ""

    @property
    def exclude(self) -> str:
        """The text of the card that says which candidates are excluded."""
        if self.form is None or not self.form.exclude:
            return "none"
        return EXEMPT if self.exempt_target else "given ids"

    @property
    def chance_varies(self) -> bool:
        """Whether queries differ in their number of candidates or relevant locations."""
        return self.exclude != "none" or self.has_several

    @cached_property
    def header(self) -> dict[str, Any]:
        """The setting as JSON; arrays are digests. Settings with equal headers are equal."""
        keys: dict[str, Any] = {"train_counts": self.train_counts}
        for name, holder in {"bins": self.bins, "locations": self.locations}.items():
            keys[name] = None if holder is None else holder.state_key()
        written = {x.name: getattr(self, x.name) for x in fields(self) if x.name != "form"}
        written |= {name: "" if key is None else digest(key) for name, key in keys.items()}
        return {
            **written,
            "num_locations": self.num_ids,
            "given": self.given or "",
            "has_decile_accuracy": self.has_decile_accuracy or self.bins is None,
            "metrics": names_of(self.metrics),
            **(self.form._asdict() if self.form else {}),
        }

    def arrays(self) -> dict[str, Tensor]:
        """Return the arrays of a file of counts."""
        arrays = {"train_counts": self.train_counts}
        if self.bins is not None:
            arrays |= {"bin_of": self.bins.bin_of, "num_bins": torch.tensor(self.bins.num_bins)}
        if self.locations is not None:
            arrays["points"] = self.locations.points.contiguous()
        return {name: array for name, array in arrays.items() if array is not None}

    @classmethod
    def from_header(
        cls, header: Mapping[str, Any], arrays: dict[str, Tensor], metrics: OwnMetrics
    ) -> Setting:
        """Read a header; the arrays of the setting are removed from `arrays`, those of the file."""
        read: dict[str, Any] = {
            x: tuple(y) if isinstance(y, list) else y for x, y in header.items()
        }
        bin_of, counts, points = (arrays.pop(x, None) for x in ("bin_of", "train_counts", "points"))
        bins = None if bin_of is None else PopularityBins(bin_of, int(arrays.pop("num_bins")))
        places = None if points is None else Locations.from_points(points)
        read |= {"bins": bins, "train_counts": counts, "locations": places, "metrics": metrics}
        read["given"] = read["given"] or None
        if "known_locations" in read:  # the name in 0.6.0, where `num_locations` had all rows
            read["num_locations"] = read.pop("known_locations")
        read.setdefault("has_decile_accuracy", bins is None)
        form = {name: read.pop(name) for name in Form._fields if name in read}
        return cls(**read, form=Form(**form) if form else None)


def check_alike(first_name: str, first: Setting, name: str, other: Setting) -> None:
    """Raise if two shards have different settings."""
    for option, a in first.header.items():
        if a != (b := other.header[option]):
            remedy = ""
            if option in ("num_locations", "metrics", "vocabulary"):
                remedy = f"; pass the same `{option}` to all of them"
            elif option == "has_decile_accuracy":
                remedy = "; evaluate again what 0.6.0 saved"
            raise ValueError(
                f"shards must agree on `{option}`, got {short(a)} in {first_name} and "
                f"{short(b)} in {name}{remedy}."
            )


# Names that JSON has beside those of metrics.
_TAKEN = ("card", "groups", "deciles")


def check_metrics(metrics: Any) -> dict[str, RecordMetric | Part]:
    """Return copies of metrics by name, without counts, or raise if one cannot have a row."""
    if metrics is None:
        return {}
    if isinstance(metrics, MetricCollection):
        metrics = dict(metrics._modules)
    check_named("metrics", metrics, '{"mine": MyMetric()}')
    return {name: _copy_of(name, metric) for name, metric in metrics.items()}


def _copy_of(name: Any, metric: Any) -> RecordMetric | Part:
    is_name = isinstance(name, str) and name and not set(name) & set("./\0")
    if not is_name or name in _TAKEN or hasattr(RankingCollection({}), name):
        raise ValueError(
            "`metrics` must have names without a dot or a slash that are no attribute of a "
            f"collection and not {', '.join(_TAKEN[:-1])} or {_TAKEN[-1]}, got {short(name)}."
        )
    if isinstance(metric, Part):
        return deepcopy(metric)
    if not isinstance(metric, RecordMetric):
        raise TypeError(
            "`metrics` must hold metrics of nextloc_metrics, or subclasses of such as "
            f"`RankingMetric`, got {short(metric)} as {short(name)}"
            f"{'; make an object of the class' if isinstance(metric, type) else ''}."
        )
    if reason := _why_not(metric):
        raise ValueError(f"`metrics` must hold no metric that {reason}, got {short(metric)}.")
    copy = deepcopy(metric)
    copy.reset()
    value = type(copy).compute(copy)  # `copy.compute` of TorchMetrics would warn
    if not isinstance(value, int | float) and not (isinstance(value, Tensor) and not value.ndim):
        raise ValueError(
            f"`metrics` must hold metrics with one value each, got {short(metric)}; choose one by "
            "its `average`, `group` or `decile`."
        )
    return copy


def _why_not(metric: RecordMetric) -> str:
    """Return why a metric cannot be counted beside those of an evaluation; "" if it can."""
    reasons = {
        "overrides `update`; define `score` or `tally`": (
            type(metric).update is not RecordMetric.update
        ),
        "has a state of its own beside that of `tally`": len(metric.metric_state) > 1,
        "reads groups; pass `groups`": metric.group_kind is not None,
        "has an `ignore_index`; use `mask`": metric.ignore_index is not None,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def names_of(metrics: OwnMetrics) -> tuple[str, ...]:
    """Return a text of each metric, with its options and the name of its state."""
    return tuple(
        f"{name}: {', '.join(dict.fromkeys([repr(x), getattr(x, '_state_name', repr(x))]))}"
        for name, x in sorted(metrics.items())
    )
