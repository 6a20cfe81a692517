"""What `evaluate` and `compare` know before they count: data, setting and further metrics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torchmetrics import MetricCollection

from nextloc_metrics.core.metric.collection import RankingCollection
from nextloc_metrics.core.metric.mean import RecordMetric
from nextloc_metrics.core.queries.answers import Answers
from nextloc_metrics.core.queries.batch import ArrayRows
from nextloc_metrics.core.queries.checks import check_named
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.geography import Locations
from nextloc_metrics.geography.locations import check_locations
from nextloc_metrics.metrics.bins import PopularityBins
from nextloc_metrics.metrics.location_f1 import LocationF1
from nextloc_metrics.metrics.measures import parse_measures
from nextloc_metrics.metrics.presets import next_location_metrics, recommendation_metrics
from nextloc_metrics.report.part import Part

#: Metrics and parts of the user's own, by name.
OwnMetrics: TypeAlias = Mapping[str, RecordMetric | Part]


@dataclass(frozen=True, eq=False)
class Data:
    """What an evaluation knows of locations and users besides its queries."""

    bins: PopularityBins | None = None
    train_counts: Tensor | None = None  #: the visits of each location
    locations: Locations | None = None
    metrics: Mapping[str, RecordMetric] = field(default_factory=dict)  #: the further ones by name
    parts: Mapping[str, Part] = field(default_factory=dict)  #: those of the user

    def digests(self) -> dict[str, Any]:
        """Return the digests by the attribute of `Setting`; "" for what is not there."""
        bins, counts = self.bins, self.train_counts
        points = None if self.locations is None else check_locations("locations", self.locations)
        return {
            "bins": "" if bins is None else digest(bins.state_key()),
            "train_counts": "" if counts is None else digest(counts),
            "locations": "" if points is None else digest(points.state_key()),
            "metrics": names_of(self.own),
        }

    @property
    def own(self) -> OwnMetrics:
        """The metrics and the parts of the user, by name."""
        return {**self.metrics, **self.parts}

    def arrays(self) -> dict[str, Tensor]:
        """Return the arrays of a file of counts."""
        found = {"train_counts": self.train_counts}
        if self.bins is not None:
            found |= {"bin_of": self.bins.bin_of, "num_bins": torch.tensor(self.bins.num_bins)}
        if self.locations is not None:
            found["points"] = self.locations.points.contiguous()
        return {name: array for name, array in found.items() if array is not None}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Tensor], own: OwnMetrics) -> Data:
        """Take what `arrays` wrote out of the arrays of a file, which has no metrics."""
        bin_of, counts, points = (arrays.pop(x, None) for x in ("bin_of", "train_counts", "points"))
        bins = None if bin_of is None else PopularityBins(bin_of, int(arrays.pop("num_bins")))
        locations = None if points is None else Locations.from_points(points)
        return cls(bins, counts, locations, *split(own))


def split(own: OwnMetrics) -> tuple[dict[str, RecordMetric], dict[str, Part]]:
    """Return the metrics, and the parts."""
    metrics = {name: one for name, one in own.items() if not isinstance(one, Part)}
    return metrics, {name: one for name, one in own.items() if isinstance(one, Part)}


def digest(*values: Any) -> str:
    """Return a short hash of the values; of a tensor by its numbers."""
    found = blake2b(digest_size=8)
    for value in values:
        found.update(repr(value.tolist() if isinstance(value, Tensor) else value).encode())
    return found.hexdigest()


def check_cluster(cluster: str | None, groups: Sequence[str]) -> None:
    """Raise if `cluster` is not a key of `groups`."""
    if cluster is not None and cluster not in groups:
        raise ValueError(
            f"`cluster` must be one of `groups`, {short(list(groups))}, got {short(cluster)}."
        )


def count_locations(rows: ArrayRows, given: int | None, train_counts: Tensor | None) -> int | None:
    """Return the number of ids for F1; None if several locations may be relevant."""
    if rows.has_several or given is not None:
        return None if rows.has_several else given
    if rows.num_candidates is not None:
        return rows.num_candidates
    if isinstance(rows.preds, Answers):
        return rows.preds.num_ids
    known = [] if train_counts is None else [len(train_counts)]
    largest = [int(rows.target.max()) + 1] if len(rows.target) else []
    return max([1, *known, *largest])


def make_headline(
    num_locations: int | None,
    k: int | Sequence[int],
    measures: Sequence[str],
    metrics: Mapping[str, RecordMetric],
    if_one_target: str = "keep",
    **options: Any,
) -> RankingCollection:
    """Make the preset for one relevant location per query, or for several, or `measures`.

    Copies of `metrics` follow. `if_one_target` is what F1 does if all targets are one location, and
    `options` are further ones of `next_location_metrics`.
    """
    if measures:
        headline = RankingCollection(dict(parse_measures(measures)))
    elif num_locations is None:
        headline = recommendation_metrics(k=k)
    else:
        headline = next_location_metrics(num_locations, k, **options)
    check_free(headline, metrics)
    headline.add_metrics({name: metric.clone() for name, metric in metrics.items()})
    for member in headline.members():
        if isinstance(member, LocationF1):
            member._if_one_target = if_one_target
    return headline


def check_free(rows: Iterable[Any], metrics: Mapping[str, RecordMetric]) -> None:
    """Raise if a further metric has the name of a row."""
    if taken := sorted({str(name) for name in rows} & metrics.keys()):
        raise ValueError(
            f"`metrics` must have other names than the rows of the evaluation, got {short(taken)}."
        )


def write_about(about: Any) -> str:
    """Return what made predictions as one text; "" for None."""
    texts = about if isinstance(about, Mapping) else {"": "" if about is None else about}
    if not all(isinstance(x, str) for pair in texts.items() for x in pair):
        raise TypeError(
            '`about` must be text, or texts by name such as {"decoding": "free"}, got '
            f"{short(about)}."
        )
    return "; ".join(f"{name}: {text}" if name else text for name, text in texts.items())


def decoding_in(about: str) -> str:
    """Return how a model was decoded, as `write_about` wrote it; "" if it is not said."""
    found = re.search(r"(?:^|; )decoding: ([^;]+)", about)
    return "" if found is None else found[1].strip()


# How a setting names excluded candidates that leave the targets, and confidences of lists.
EXEMPT = "given ids, but not the targets"
CONFIDENCE = "confidence"

# What all batches give, or none.
_PER_QUERY = ("exclude", "confidence")


class Form(NamedTuple):
    """Which kind of batch is counted; `Setting` says what each field is."""

    candidates: int | None
    has_several: bool
    groups: tuple[str, ...]
    exclude: bool
    confidence: bool
    answers: str = ""
    num_ids: int | None = None

    @classmethod
    def of(cls, rows: ArrayRows) -> Form:
        """Return the form of rows."""
        given: Any = {name: getattr(rows, name) is not None for name in _PER_QUERY}
        if isinstance(rows.preds, Answers):
            given |= {"answers": rows.preds.rule, "num_ids": rows.preds.num_ids}
        return cls(rows.num_candidates, rows.has_several, rows.groups, **given)

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
        """Return what predictions and targets are, as text."""
        preds = "lists of ids" if self.candidates is None else f"scores of {self.candidates} ids"
        preds = f"answers read by {self.answers}" if self.answers else preds
        return f"{preds} and {'several ids' if self.has_several else 'one id'} as `target`"


@dataclass(frozen=True)
class Setting:
    """The options of an evaluation, as in `Options` where nothing is said.

    Counts with equal settings add up. `bins`, `train_counts`, `vocabulary` and `locations` are
    digests, "" for none.
    """

    k: tuple[int, ...]
    num_locations: int | None  #: of ids for F1; None if several locations may be relevant
    known_locations: int | None  #: of ids, if the user passed it
    candidates: int | None  #: the number of scores per row; None for lists
    groups: tuple[str, ...]  #: the names of the groups, such as "user"
    cluster: str | None
    confidence_level: float
    exclude: str  #: "none", "given ids" or "given ids, but not the targets"
    bins: str
    train_counts: str
    vocabulary: str
    locations: str
    km: float
    probabilities: str = ""  #: what scores are; "confidence" for lists with that of each answer
    measures: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()  #: names, with those of the states
    answers: str = ""  #: how answers of a language model were read; "" for other predictions
    num_ids: int | None = None  #: of these answers
    about: str = ""

    @classmethod
    def of(cls, options: Mapping[str, Any], form: Form) -> Setting:
        """Return the setting of batches of a form, or raise if the options do not allow it."""
        options, is_scores = dict(options), form.candidates is not None
        exempts, number = options.pop("exempt_target"), options.pop("num_locations")
        number = number or form.candidates or form.num_ids
        if options["locations"] and form.has_several:
            raise ValueError(
                "`locations` must be None if a query may have several relevant locations, got "
                "`target` [N, M]; `geography.AccuracyWithin` accepts several."
            )
        if form.num_ids not in (None, number):
            raise ValueError(
                f"`num_locations` must be {form.num_ids}, the number of ids of the answers, got "
                f"{number}."
            )
        if number is None and not form.has_several:
            raise ValueError(
                "`num_locations` must be given for lists of ids, got None: F1 counts each location."
            )
        check_cluster(options["cluster"], form.groups)
        for_scores, for_lists = bool(options["probabilities"]), form.confidence
        is_other = for_lists if is_scores else for_scores
        if is_other or ((for_scores or for_lists) and form.has_several):
            raise ValueError(
                "`target` must be one id per query for metrics of probabilities, with `given` for "
                f"scores or `confidence` for lists of ids, got {form.describe()}."
            )
        if for_lists:
            options["probabilities"] = CONFIDENCE
        return cls(
            **options,
            num_locations=None if form.has_several else number,
            candidates=form.candidates,
            groups=form.groups,
            exclude=(EXEMPT if exempts else "given ids") if form.exclude else "none",
            answers=form.answers,
            num_ids=form.num_ids,
        )

    @property
    def form(self) -> Form:
        """The kind of batch that has this setting."""
        several, excluded = self.num_locations is None, self.exclude != "none"
        confidence = self.probabilities == CONFIDENCE
        given = excluded, confidence, self.answers, self.num_ids
        return Form(self.candidates, several, self.groups, *given)

    @property
    def chance_varies(self) -> bool:
        """Whether queries differ in their number of candidates or relevant locations."""
        return self.exclude != "none" or self.num_locations is None


def check_alike(
    first_name: str, first: Mapping[str, Any], name: str, other: Mapping[str, Any]
) -> None:
    """Raise if two shards have different settings."""
    for option, a in first.items():
        if a != (b := other[option]):
            remedy = ""
            if option in ("num_locations", "metrics"):
                remedy = f"; pass the same `{option}` to all of them"
            if option == "vocabulary":
                remedy = "; read all of them with the same `vocabulary`"
            raise ValueError(
                f"shards must agree on `{option}`, got {short(a)} in {first_name} and "
                f"{short(b)} in {name}{remedy}."
            )


# Names that stand beside those of metrics in JSON.
_TAKEN = ("card", "groups")


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
            f"collection and not {' or '.join(_TAKEN)}, got {short(name)}."
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
    value = type(copy).compute(copy)  # not that of TorchMetrics, which warns without an update
    if not isinstance(value, int | float) and not (isinstance(value, Tensor) and not value.ndim):
        raise ValueError(
            f"`metrics` must hold metrics with one value each, got {short(metric)}; choose one by "
            "its `average`, `group` or `decile`."
        )
    return copy


def _why_not(metric: RecordMetric) -> str:
    """Return why a metric cannot be counted beside those of an evaluation; "" if it can."""
    reasons = {
        "overrides `update`; define `score` or `tally`": metric._has_own_update,
        "has a state of its own beside that of `tally`": set(metric._defaults)
        != {metric._state_name},
        "reads groups; pass `groups`": metric._is_ours and metric._reads_groups,
        "has an `ignore_index`; use `mask`": metric.ignore_index is not None,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def names_of(own: OwnMetrics) -> tuple[str, ...]:
    """Return the names with options and states, by which equal metrics are known."""
    return tuple(
        f"{name}: {', '.join(dict.fromkeys([repr(one), getattr(one, '_state_name', repr(one))]))}"
        for name, one in sorted(own.items())
    )
