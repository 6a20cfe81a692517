"""The counts of `evaluate`: integers that add up over chunks of a file and over files."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nextloc_metrics.analysis.f1_intervals import is_few
from nextloc_metrics.core.base.collection import has_bounds
from nextloc_metrics.core.base.fixes import unrounded
from nextloc_metrics.core.base.grouped import ClusteredGroups, Grouped
from nextloc_metrics.core.base.metric import RecordMetric
from nextloc_metrics.core.base.plan import Plan
from nextloc_metrics.core.means import intervals
from nextloc_metrics.core.means.keyed_sums import KeyedSums
from nextloc_metrics.core.queries.answers import UNSEEN
from nextloc_metrics.core.queries.batch import Batch, GroupLabels
from nextloc_metrics.core.queries.checks import from_one
from nextloc_metrics.core.queries.keys import Grouping, join_names
from nextloc_metrics.core.ranking.needs import Needs
from nextloc_metrics.core.ranking.ranking import Ranking
from nextloc_metrics.core.results.results import Results
from nextloc_metrics.metrics.location_f1 import LocationF1
from nextloc_metrics.report import saved
from nextloc_metrics.report.card import count_rows, few_hits, find_cuts, note_lists, write_rarer
from nextloc_metrics.report.internal_metrics import FewSums, LocationAnswers
from nextloc_metrics.report.numbered_groups import join_refused, read_numbered
from nextloc_metrics.report.part import Feed, Parts
from nextloc_metrics.report.parts import (
    LEFT_OUT,
    TARGET,
    make_beside,
    make_references,
    make_table,
    rows_of,
)
from nextloc_metrics.report.setting import EXEMPT, OwnMetrics, Setting, check_free

# In files, an array of the keys of groups has this prefix, before the name of the kind.
_GROUPS = "groups of "

# Fewer groups do not tell whether intervals by query are too narrow. The ratio of variances must be
# so many standard errors above 1 that at most 2 % of evaluations without an effect get a note.
_FEWEST_GROUPS, _BEYOND_NOISE = 20, 6


class Counted:
    """The states of all metrics of an evaluation, and the counts of its card.

    A group is known by its key; `names` has the text of each key that is a hash.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.names: dict[str, Mapping[int, str]] = {kind: {} for kind in setting.groups}
        none = torch.zeros(0, 1, dtype=torch.int64)
        self._keys = {kind: [none] for kind in setting.groups}  # the groups of all rows
        self.card = Counter[str]()
        self.longest = 0  # the length of the longest list
        self.ids: frozenset[str] = frozenset()  # one for each evaluation that was merged
        self.parts: Parts = {}  # all collections of metrics by name
        self._rows: list[tuple[str, Any]] = []  # name and metric of each row of the first table
        self.user_parts: dict[str, Parts] = {}  # the collections of each `Part` of the user
        self._members: dict[str, Any] = {}  # the metrics of all collections, by state in a file
        self._plans: dict[Feed | None, Plan] = {}  # by feed; None for the model's predictions
        if setting.form is not None:
            self._make_parts(setting)

    def _make_parts(self, setting: Setting) -> None:
        """Make all collections, those of the first table before the others."""
        table = make_table(setting)
        self._rows = rows_of(table)
        names = Counter(name for name, _ in self._rows)
        check_free([name for name, number in names.items() if number > 1], setting.further_metrics)
        parts_by_feed: list[tuple[Feed | None, Parts]] = [(None, table)]
        parts_by_feed += [(None, make_beside(setting, table)), *make_references(setting, table)]
        for prefix, part in setting.parts.items():
            if collections := part.make(setting, table):
                self.user_parts[prefix] = collections
                prefixed = {f"{prefix}/{name}": x for name, x in collections.items()}
                parts_by_feed.append((part.feed(setting), prefixed))
        members: dict[Feed | None, list[RecordMetric]] = {}
        for feed, parts in parts_by_feed:
            self.parts |= parts
            for name, collection in parts.items():
                named = {f"{name}/{x}": y for x, y in collection.named_members()}
                self._members |= named
                members.setdefault(feed, []).extend(named.values())
        self._plans = {feed: Plan(of_feed) for feed, of_feed in members.items() if of_feed}
        # the card needs all ranks, even if the metrics need only the first ones
        self._plans[None].needs[Ranking] |= Needs()
        self.headline = table[""]

    def add(self, chunks: Iterable[Batch], counts: Mapping[str, int] | None = None) -> None:
        """Count the queries of chunks, or raise and change nothing; add `counts` to the card."""
        card, longest = self.card.copy(), self.longest
        states = [(member, member.held()) for member in self._members.values()]
        names, keys = dict(self.names), dict(self._keys)
        try:
            for chunk in chunks:
                self._count(chunk)
            self.card.update(counts or {})
        except BaseException:
            self.card, self.longest, self.names, self._keys = card, longest, names, keys
            for member, state in states:
                member.restore(state)
            raise

    def _count(self, chunk: Batch) -> None:
        """Count the queries of one chunk; if this raises, some states have changed."""
        kinds: Mapping[str, Grouping] = chunk.groups  # type: ignore[assignment]  # not None here
        self._add_keys(kinds)
        groups: dict[str, Any] = {kind: Grouping(x.keys, {}) for kind, x in kinds.items()}
        exempts = self.setting.exclude == EXEMPT
        batch = replace(chunk, groups=None, exempt_target=exempts).read()
        if "map" in self.parts:
            groups[TARGET] = batch.target
        for name in self.user_parts:
            groups |= self.setting.parts[name].groups(batch)
        batch = replace(batch, groups=groups or None)
        records = self._plans[None].read(batch)
        for feed, plan in self._plans.items():
            read = records if feed is None else plan.read(feed(batch, records))
            plan.add(plan.tally_read(read), count=True)
        ranking: Ranking = records[Ranking]
        number, target = self.setting.num_locations, batch.target[ranking.queries.counted]
        # F1 checks this too, but it may read no target
        if number is not None and target.numel() and (highest := int(target.max())) >= number:
            raise ValueError(
                f"`target` must be below `num_locations`, {number}, got {highest}"
                f"{from_one(target, number)}."
            )
        card, longest = count_rows(self.setting, batch, ranking)
        self.card.update(card)
        self.longest = max(self.longest, longest)

    def _add_keys(self, kinds: Mapping[str, Grouping]) -> None:
        """Note the groups of all rows, even of masked ones, and the names of groups."""
        for kind, (keys, names) in kinds.items():
            self.names[kind] = join_names(self.names[kind], names)
            self._keys[kind] = KeyedSums([keys[:, None]], 1).append_to(self._keys[kind])

    def name_groups(self) -> None:
        """Give the metrics of groups the names of their groups, for pictures."""
        for member in self._members.values():
            if isinstance(member, Grouped) and member.by in self.names:
                member.key_names = self.names[member.by]

    def keys_of(self, kind: str) -> Tensor:
        """Return the keys of the groups of one kind, int64 `[G]`, rising."""
        merged = KeyedSums(self._keys[kind], 1).merge()
        self._keys[kind] = [merged]
        return merged[:, 0]

    def groups_of(self, kind: str) -> tuple[list[str], Tensor]:
        """Return the names and keys of groups, in the order of numbers if all are, or of text."""
        keys, texts = self.keys_of(kind), self.names[kind]
        if not texts:
            return [*map(str, keys.tolist())], keys
        key_of_name = {texts.get(key, str(key)): key for key in keys.tolist()}
        names = [*GroupLabels.sorted(key_of_name).names]
        return names, torch.tensor([key_of_name[name] for name in names])

    def results_of(self, kind: str) -> tuple[list[str], Results]:
        """Return the names of groups of one kind, and the values of its metrics in their order."""
        collection, (names, keys) = self.parts[f"by {kind}"], self.groups_of(kind)
        results = collection.results(self.setting.confidence_level)
        members: list[tuple[str, Any]] = collection.named_members()
        positions = {name: _positions_of(member.groups, keys) for name, member in members}

        def align(name: str, values: Tensor, missing: float = math.nan) -> Tensor:
            aligned = values.new_full((len(keys),), missing)
            return aligned.index_copy(0, positions[name], values)

        return names, results._replace(
            values={x: align(x, y) for x, y in results.values.items()},
            intervals={
                x: (align(x, low), align(x, high)) for x, (low, high) in results.intervals.items()
            },
            numbers={x: align(x, y, 0) for x, y in results.numbers.items()},
        )

    def clusters_of(self, kind: str, member: ClusteredGroups) -> dict[str, int]:
        """Return the number of clusters, such as users, in each group, by name of the group."""
        names, keys = self.groups_of(kind)
        positions = _positions_of(member.groups, keys)
        sizes = torch.zeros_like(keys).index_copy(0, positions, member.clusters_by_group)
        return dict(zip(names, sizes.tolist(), strict=True))

    def describe(self) -> dict[str, Any]:
        """Return the protocol card."""
        setting = self.setting
        unseen = "missing" if UNSEEN in setting.answers else ""
        counts = {x: number for x, number in self.card.items() if x not in ("queries", unseen)}
        if not counts.get("tied_across_k"):
            counts.pop("tied_across_k", None)
        excluded = {} if setting.exclude == "none" else {"excluded": setting.exclude}
        sample = "queries independent"
        if setting.cluster is not None:
            sample = f"clustered by {setting.cluster}"
        return {
            "queries": self.card["queries"],
            "candidates": setting.candidates,
            **excluded,
            **({"answers": setting.answers} if setting.answers else {}),
            **counts,
            "averaged_over": "queries",
            "intervals": f"{100 * setting.confidence_level:g} %, {sample}",
            **self.doubts(),
            "ties": "expected value over random orders",
        }

    def doubts(self) -> dict[str, str]:
        """Return notes on missing or doubtful values and intervals, by name of the note."""
        doubts = self._doubts_of_f1()
        if cluster := self.cluster:
            for name, row in self._rows:
                if row.has_interval and name not in self.parts["cluster"]:
                    doubts[f"interval_of_{name}"] = f"none by {cluster}: it is no mean of scores"
            doubts |= self._doubts_of_few_hits(cluster)
        for kind in self.kinds if self.setting.cluster is None else ():
            doubts |= self._doubt_of_queries(kind)
        return doubts

    def _doubts_of_f1(self) -> dict[str, str]:
        """Say why values of F1, or their intervals, are missing."""
        cluster, most = self.setting.cluster, f"{FewSums.most:,} different answers"
        doubts = {
            f"value_of_{name}": "none: all targets are one id, as where candidates are sampled and "
            "the target has one column; rank all locations"
            for name in self._of_one_target()
        }
        for name in self.answers_of_f1(is_full=True):
            doubts[f"interval_of_{name}"] = f"none: more than {most} by {cluster or 'query'}"
        for name, answers in self.answers_of_f1().items():
            if cluster and is_few(*(numbers := answers.clusters)):
                doubts[f"interval_of_{name}"] = f"none: {write_rarer(*numbers, kind=cluster)}"
        return doubts

    def _doubts_of_few_hits(self, cluster: str) -> dict[str, str]:
        """Note the values of which too few clusters have hits, or misses, for an interval."""
        doubts = {}
        for name, grouped in self.parts[f"by {cluster}"].named_members():
            sums = _sums_of(grouped)
            if text := few_hits(sums, intervals.of_clusters(sums), cluster):
                doubts[f"interval_of_{name}"] = text
        return doubts

    def _doubt_of_queries(self, kind: str) -> dict[str, str]:
        """Note the first value whose interval is too narrow if groups of a kind are clusters."""
        rows, members = dict[str, Any](self._rows), self.parts[f"by {kind}"].named_members()
        for name, grouped in members:
            sums = _sums_of(grouped)
            if len(sums) < _FEWEST_GROUPS:
                continue
            by_group, by_query = intervals.of_clusters(sums), rows[name].estimate()
            wide, narrow = (x.standard_error * grouped.score_factor for x in (by_group, by_query))
            noise = (2 / by_group.degrees_of_freedom).sqrt()  # the error of the ratio of variances
            if wide > 1.1 * narrow > 0 and (wide / narrow) ** 2 > 1 + _BEYOND_NOISE * noise:
                text = (
                    f"{name} has the standard error {float(narrow):.2g} by query, "
                    f"{float(wide):.2g} by {kind}: its interval is {float(wide / narrow):.1f} "
                    f"times too narrow for other {kind}s; name {kind} as the cluster"
                )
                return {f"interval_by_{kind}": text}
        return {}

    @property
    def kinds(self) -> list[str]:
        """The kinds that have groups."""
        return [kind for kind, keys in self._keys.items() if any(map(len, keys))]

    @property
    def cluster(self) -> str:
        """The kind of groups that intervals take as independent; "" if it is queries."""
        return next((kind for kind in self.kinds if kind == self.setting.cluster), "")

    def rows(self) -> list[tuple[str, Any]]:
        """Return name and metric of each row of the table of all queries."""
        return self._rows

    def intervals(self) -> dict[str, tuple[float, float]]:
        """Compute the intervals of the rows of the first table, by cluster if there is one."""
        level, members = self.setting.confidence_level, self._rows
        if self.cluster:
            members = self.parts["cluster"].named_members()
        with unrounded():
            bounds = {name: x.interval(level) for name, x in members if has_bounds(x)}
        empty = self._of_one_target()
        of_f1 = {name: x for name, x in self.answers_of_f1().items() if name not in empty}
        bounds |= {name: x.estimate().interval(level) for name, x in of_f1.items()}
        return {name: (float(low), float(high)) for name, (low, high) in bounds.items()}

    def columns_of(self, kind: str) -> Iterator[list[list[Any]]]:
        """Yield the columns of each metric of groups; none if there is no group.

        They are kinds, groups, metrics, values, low and high ends, and numbers of queries.
        """
        if kind not in self.kinds:
            return
        groups, results = self.results_of(kind)
        size = len(groups)
        for name in results.numbers:
            bounds = [x.tolist() for x in results.intervals.get(name, ())]
            bounds = bounds or [[math.nan] * size] * 2
            values, numbers = results.values[name].tolist(), results.numbers[name].tolist()
            yield [[kind] * size, groups, [name] * size, values, *bounds, numbers]

    def answers_of_f1(self, is_full: bool = False) -> dict[str, LocationAnswers]:
        """Return the counts of answers for the intervals of F1; `is_full`: those with too many."""
        is_empty = self.setting.cluster not in (None, *self.kinds)
        members: Any = () if is_empty else self.parts[LEFT_OUT].named_members()
        return {name: x for name, x in members if x.is_full == is_full}

    def _of_one_target(self) -> set[str]:
        """Return the names of rows of F1 without a value, because all targets are one location."""
        return {x for x, row in self.rows() if isinstance(row, LocationF1) and row.has_one_target}

    def cuts_beyond_lists(self) -> list[int]:
        """Return the cut-offs above the length of the longest list."""
        return find_cuts(self.setting, self.card, self.longest)

    def note_lists(self) -> list[str]:
        """Return a note on the values that depend on the length of the lists."""
        return note_lists(self.setting, self.card, self.longest, self.headline)

    def note_intervals(self, kind: str = "") -> list[str]:
        """Return a note that says which queries intervals of groups take as independent."""
        if self.setting.cluster is None:
            return []
        if kind == self.setting.cluster:
            return [f"intervals of one {kind}: queries independent"]
        return [f"intervals: clustered by {self.setting.cluster}"]

    def save(self, path: Path | BytesIO, force: bool = False, ids: Iterable[str] = ()) -> None:
        """Write the counts to a file; see `saved`. `ids` name the evaluations in it."""
        header = {
            "setting": self.setting.header,
            "names": {kind: dict(sorted(names.items())) for kind, names in self.names.items()},
            "card": self.card,
            "longest": self.longest,
            "ids": sorted(ids),
        }
        arrays = {name: member.state for name, member in self._members.items()}
        arrays |= {f"{_GROUPS}{kind}": self.keys_of(kind) for kind in self._keys}
        saved.write(path, header, {**arrays, **self.setting.arrays()}, force)

    @classmethod
    def load(cls, path: Path | BytesIO, metrics: OwnMetrics) -> Counted:
        """Read a file that `save` wrote, of an evaluation with these further metrics."""
        header, arrays = saved.read(path)
        saved.check_metrics(path, header, metrics)
        with saved.refused(path):
            counted = cls(Setting.from_header(header["setting"], arrays, metrics))
            names, card = header["names"], Counter[str](header["card"])
            if header["version"] == saved.NUMBERED:
                join_refused(card, arrays)
                groups, arrays = read_numbered(
                    names, counted._members, arrays, header["setting"].get("num_locations")
                )
            else:
                groups = {
                    x: Grouping(arrays[f"{_GROUPS}{x}"], {int(key): y for key, y in of.items()})
                    for x, of in names.items()
                }
            counted._add_keys(groups)
            counted.card, counted.longest = card, header["longest"]
            counted.ids = frozenset(header["ids"])
            for name, member in counted._members.items():
                saved.check_state(name, member, arrays[name])
                member.restore([arrays[name]] if member.is_keyed else arrays[name])
            return counted

    def merge(self, other: Counted) -> None:
        """Add the counts of other queries with the same setting; groups with one key are one."""
        self._add_keys({x: Grouping(other.keys_of(x), other.names[x]) for x in other._keys})
        self.card.update(other.card)
        self.longest = max(self.longest, other.longest)
        self.ids |= other.ids
        for member, added in zip(self._members.values(), other._members.values(), strict=True):
            member.merge_state(added)


def _sums_of(grouped: Any) -> Tensor:
    """Return the sums of the groups that have queries."""
    sums: Tensor = grouped.group_sums
    return sums[sums[:, 2] > 0]


def _positions_of(groups: Tensor, keys: Tensor) -> Tensor:
    """Return the position in `keys` of each group; `keys` has all groups."""
    rising, order = keys.sort()
    return order[torch.searchsorted(rising, groups)]
