"""The values of a collection as tables and pictures show them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nextloc_metrics.collection import Results, SummedCollection
from nextloc_metrics.mean import RecordMetric

# More groups than this are summarized by their median.
_MOST_ROWS = 100


class Reading(NamedTuple):
    """One value with what a table or a picture shows beside it."""

    value: float
    bounds: tuple[float, float] | None  #: of the interval, if there is one
    is_fraction: bool  #: in [0, 1], and shown in percent
    note: str = ""  #: which summary of several values it is, such as `median of 200 users`
    number: int | None = None  #: of queries, for the value of a group
    higher_is_better: bool | None = True
    unit: str = ""  #: of a value that is not a fraction

    @classmethod
    def of(
        cls,
        value: Tensor,
        bounds: tuple[Tensor, Tensor] | None,
        is_fraction: bool,
        group: str = "",
    ) -> Reading:
        """Read one value, or the median of the values that are not NaN."""
        if value.ndim == 0:
            ends = None if bounds is None else (float(bounds[0]), float(bounds[1]))
            return cls(float(value), ends, is_fraction)
        known = value[~value.isnan()]
        (median,) = quantiles(known, [0.5])
        return cls(median, None, is_fraction, f"median of {len(known)} {group}".rstrip())

    def title(self, name: str) -> str:
        """Return the name of the value, with the note."""
        return f"{name}, {self.note}" if self.note else name


def read(
    collection: SummedCollection, confidence: float | None = None, keep_base: bool = False
) -> dict[str, Reading]:
    """Compute a collection's values, under the keys of its `compute`.

    Args:
        collection: the collection.
        confidence: of the intervals; None for no intervals.
        keep_base: leave the collection's own prefix and postfix out of the keys.
    """
    results = collection.results(confidence, count=False)
    return read_results(collection, results, keep_base, by_group=False)


def read_counted(
    collection: SummedCollection, confidence: float | None = None, keep_base: bool = False
) -> tuple[dict[str, Reading], str]:
    """Do what `read` does, and write how many queries were counted."""
    results = collection.results(confidence)
    totals = sorted({int(torch.as_tensor(number).sum()) for number in results.numbers.values()})
    if not totals:
        queries = ""
    else:
        most = " to ".join(f"{number:,}" for number in dict.fromkeys([totals[0], totals[-1]]))
        queries = f"{most} {'query' if totals[-1] == 1 else 'queries'}"
    return read_results(collection, results, keep_base, by_group=False), queries


def read_results(
    collection: SummedCollection, results: Results, keep_base: bool, by_group: bool
) -> dict[str, Reading]:
    """Read what was computed; with `by_group` the value of every group, of up to a hundred."""
    groups = _read_groups(collection, results) if by_group else {}
    readings: dict[str, Reading] = {}
    for key, reading in read_values(collection, results.values, results.intervals).items():
        readings |= groups.get(key, {key: reading})
    if not keep_base:
        return readings
    ends = collection.prefix or "", collection.postfix or ""
    return {key.removeprefix(ends[0]).removesuffix(ends[1]): one for key, one in readings.items()}


def _read_groups(collection: SummedCollection, results: Results) -> dict[str, dict[str, Reading]]:
    """Read the value of every group, by the key of the member; its own key adds the group."""
    found = {}
    for name, member in collection.named_members():
        key, names = collection._set_name(name), getattr(member, "group_names", [])
        value = results.values.get(key)
        if isinstance(value, Tensor) and value.ndim and 0 < len(names) <= _MOST_ROWS:
            bounds: list[Any] = [None] * len(names)
            if name in results.intervals:
                bounds = list(torch.stack(results.intervals[name], -1).tolist())
            rows = zip(names, value.tolist(), bounds, results.numbers[name].tolist(), strict=True)
            found[key] = {
                f"{key}, {group}": Reading(
                    x,
                    ends and tuple(ends),
                    member.plot_upper_bound == 1,
                    number=number,
                    higher_is_better=member.higher_is_better,
                    unit=member.unit,
                )
                for group, x, ends, number in rows
            }
    return found


def read_values(
    collection: SummedCollection,
    values: Mapping[str, Any],
    intervals: Mapping[str, tuple[Tensor, Tensor]] | None = None,
) -> dict[str, Reading]:
    """Read what `compute` returned, with the intervals by the members' names."""
    readings = {}
    for name, member in collection.named_members():
        bounds = (intervals or {}).get(name)
        by = getattr(member, "by", None)
        groups = plural(by) if by else ""
        for key in keys_of(collection, name, member, values).values():
            one = Reading.of(values[key], bounds, member.plot_upper_bound == 1, groups)
            readings[key] = one._replace(higher_is_better=member.higher_is_better, unit=member.unit)
    return readings


def keys_of(
    collection: SummedCollection, name: str, member: RecordMetric, values: Mapping[str, Any]
) -> dict[str, str]:
    """Return the key in `values` of each value of a member, by its own key, or "" for one value."""
    set_name = collection._set_name
    if not member.plot_labels:
        return {"": set_name(name)}
    nested = hasattr(member, "_from_collection")
    ends = [getattr(member, end, None) or "" for end in ("prefix", "postfix")] * nested
    prefix, postfix = ends or ("", "")
    alone = {key: set_name(f"{prefix}{key}{postfix}") for key in member.plot_labels}
    if all(key in values for key in alone.values()):
        return alone
    # MetricCollection puts the member's name in front of keys that two members share
    own = name.replace(prefix, "").replace(postfix, "")
    return {key: set_name(f"{prefix}{own}_{key}{postfix}") for key in member.plot_labels}


def quantiles(values: Tensor, shares: Sequence[float]) -> list[float]:
    """Return quantiles of the values that are not NaN; NaN if there are none."""
    values = values.detach().cpu().double()
    values = values[~values.isnan()].sort().values
    if not len(values):
        return [math.nan] * len(shares)
    place = torch.tensor(shares, dtype=torch.float64) * (len(values) - 1)
    low, high = values[place.floor().long()], values[place.ceil().long()]
    return (low + (high - low) * place.frac()).tolist()


def plural(noun: str) -> str:
    """Return the plural of a regular noun."""
    is_vowel = noun[-2:-1] in "aeiou"
    return noun[:-1] + "ies" if noun.endswith("y") and not is_vowel else f"{noun}s"
