"""The values of a collection as tables and pictures show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from nextloc_metrics.core.display.reading import Reading, plural
from nextloc_metrics.core.display.style import count
from nextloc_metrics.core.queries.messages import short

# More groups than this are summarized by their median.
MOST_ROWS = 100

Member = TypeVar("Member")


class Results(NamedTuple):
    """The values of a collection over all processes, with intervals and numbers of queries."""

    values: dict[str, Any]  #: as `compute` returns them
    intervals: dict[str, tuple[Tensor, Tensor]]  #: by the members' names
    numbers: dict[str, Any]  #: counted queries, in total or per group, by the members' names
    undecided: int  #: the number of queries without a decision
    sample: str = ""  #: how many groups the intervals are based on; empty for queries


def count_queries(member: Any) -> tuple[Any, int]:
    """Return the number of counted and of undecided queries of a metric, over all processes.

    The first is an int64 tensor for groups, and None if the metric does not count queries, or
    counts them for each bin.
    """

    def count() -> tuple[Any, int]:
        number = member.num_queries
        by_bin = isinstance(number, Tensor) and member.group_kind is None
        return None if by_bin else number, getattr(member, "num_undecided", 0)

    return member._of_all_processes(count)  # type: ignore[no-any-return]


def named(models: Any) -> Mapping[str, Any]:
    """Return collections by the names of models; one collection has the name ""."""
    collections = models if isinstance(models, Mapping) else {"": models}
    for model in collections.values():
        if not hasattr(model, "update"):
            raise TypeError(
                "`models` must be a collection, or a dict with names as keys and collections as "
                f"values, got {short(model)}."
            )
    return collections


def members_of(
    model: str, members: Iterable[tuple[str, Any]], kind: type[Member], remedy: str
) -> dict[str, Member]:
    """Return the members of a model that are of a class, by name; raise if there is none.

    `remedy` says how to make such a member.
    """
    chosen = {key: member for key, member in members if isinstance(member, kind)}
    if not chosen:
        raise ValueError(
            f"`models` must have members {kind.__name__}, and {model or 'the collection'} "
            f"has none; {remedy}."
        )
    return chosen


def readings_of(collection: Any, confidence_level: float | None = None) -> dict[str, Reading]:
    """Compute a collection's values, under the keys of its `compute`."""
    results = collection.results(confidence_level, count=False)
    return read_results(collection, results, keep_base=False, by_group=False)


def read_counted(
    collection: Any, confidence_level: float | None = None, keep_base: bool = False
) -> tuple[dict[str, Reading], str]:
    """Return what `readings_of` does, and a text that says how many queries were counted.

    With `keep_base` the collection's own prefix and postfix are left out of the keys.
    """
    results = collection.results(confidence_level)
    readings = read_results(collection, results, keep_base, by_group=False)
    return readings, ", ".join(filter(None, [_write_number(results), results.sample]))


def write_sample(numbers: Iterable[tuple[Any, Any]]) -> str:
    """Write on how many groups with data intervals are based; nothing if on queries.

    `numbers` are the members, with the number of queries of each group.
    """
    sizes_of: dict[str, set[int]] = {}
    for member, counts in numbers:
        if cluster := getattr(member, "cluster", ""):
            sizes_of.setdefault(cluster, set()).add(int((counts > 0).sum()))
    if not sizes_of:
        return ""
    kinds = [
        (f"{min(sizes):,} to " if len(sizes) > 1 else "") + count(max(sizes), kind)
        for kind, sizes in sorted(sizes_of.items())
    ]
    return f"intervals by {' and '.join(kinds)}"


def _write_number(results: Results) -> str:
    """Write how many queries the members counted; nothing if none counts queries."""
    totals = sorted({int(torch.as_tensor(number).sum()) for number in results.numbers.values()})
    if not totals:
        return ""
    most = " to ".join(f"{number:,}" for number in dict.fromkeys([totals[0], totals[-1]]))
    return f"{most} {'query' if totals[-1] == 1 else 'queries'}"


def read_results(
    collection: Any, results: Results, keep_base: bool, by_group: bool
) -> dict[str, Reading]:
    """Return readings of results by key; with `by_group` one for each of up to 100 groups."""
    groups = _read_groups(collection, results) if by_group else {}
    readings: dict[str, Reading] = {}
    for key, reading in read_values(collection, results.values, results.intervals).items():
        readings |= groups.get(key, {key: reading})
    if not keep_base:
        return readings
    ends = collection.prefix or "", collection.postfix or ""
    return {key.removeprefix(ends[0]).removesuffix(ends[1]): x for key, x in readings.items()}


def names_of_groups(member: Any) -> list[str]:
    """Return the names of a metric's groups, in the order of its value; none without groups."""
    kind = member.group_kind
    if kind is None or kind.number is not None:
        return kind.names if kind else []
    return [member.key_names.get(key, str(key)) for key in member.groups.tolist()]


def in_order(member: Any, rows: Iterable[Member]) -> list[Member]:
    """Return rows of a metric's groups in order: integers by number, then text by letters."""
    if not member.key_names:
        return list(rows)
    keyed = zip(member.groups.tolist(), names_of_groups(member), rows, strict=True)
    by_text = lambda x: (x[0] in member.key_names, x[1] if x[0] in member.key_names else x[0])  # noqa: E731
    return [row for *_, row in sorted(keyed, key=by_text)]


def _read_groups(collection: Any, results: Results) -> dict[str, dict[str, Reading]]:
    """Return for each member's key the readings of its groups, by this key with the group."""
    readings = {}
    for name, member in collection.named_members():
        key, names = collection._set_name(name), names_of_groups(member)
        value = results.values.get(key)
        if isinstance(value, Tensor) and value.ndim and 0 < len(names) <= MOST_ROWS:
            bounds: list[Any] = [None] * len(names)
            if name in results.intervals:
                bounds = list(torch.stack(results.intervals[name], -1).tolist())
            numbers = results.numbers[name].tolist()
            rows = in_order(member, zip(names, value.tolist(), bounds, numbers, strict=True))
            readings[key] = {
                f"{key}, {group}": Reading(
                    x,
                    ends and tuple(ends),
                    member.plot_upper_bound == 1,
                    number=number,
                    higher_is_better=member.higher_is_better,
                    unit=member.unit,
                    footnote=member.footnotes.get("", ""),
                )
                for group, x, ends, number in rows
            }
    return readings


def read_values(
    collection: Any,
    values: Mapping[str, Any],
    intervals: Mapping[str, tuple[Tensor, Tensor]] | None = None,
) -> dict[str, Reading]:
    """Read what `compute` returned, with the intervals by the members' names."""
    readings = {}
    for name, member in collection.named_members():
        bounds = (intervals or {}).get(name)
        by = member.group_kind and member.group_kind.by
        groups = plural(by) if by else ""
        for own_key, key in keys_of(collection, name, member, values).items():
            reading = Reading.of(values[key], bounds, member.plot_upper_bound == 1, groups)
            readings[key] = reading._replace(
                higher_is_better=member.higher_is_better,
                unit=member.unit,
                footnote=member.footnotes.get(own_key, ""),
            )
    return readings


def keys_of(collection: Any, name: str, member: Any, values: Mapping[str, Any]) -> dict[str, str]:
    """Return each value's key in `values` by the key in the member's dict, or by ""."""
    set_name = collection._set_name
    if not member.key_labels:
        return {"": set_name(name)}
    nested = hasattr(member, "_from_collection")
    ends = [getattr(member, end, None) or "" for end in ("prefix", "postfix")] * nested
    prefix, postfix = ends or ("", "")
    alone = {key: set_name(f"{prefix}{key}{postfix}") for key in member.key_labels}
    if all(key in values for key in alone.values()):
        return alone
    # MetricCollection puts the member's name in front of keys that two members share
    member_name = name.replace(prefix, "").replace(postfix, "")
    return {key: set_name(f"{prefix}{member_name}_{key}{postfix}") for key in member.key_labels}


def count_notes(results_by_model: Mapping[str, Results]) -> list[str]:
    """Return notes with the number of queries, for each model if models differ."""
    notes = {}
    for model, results in results_by_model.items():
        if queries := _write_number(results):
            notes[model] = f"{queries} counted"
            if results.undecided:
                notes[model] += f", {results.undecided:,} of them undecided (F1)"
    lines = list(dict.fromkeys(notes.values()))
    if len(lines) > 1:
        lines = [f"{model}: {note}" for model, note in notes.items()]
    return lines + sorted({results.sample for results in results_by_model.values()} - {""})
