"""The sums of each cluster in a receipt: all that a paired comparison reads, without the rows."""

from __future__ import annotations

import hmac
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from nextloc_metrics.analysis.comparison import Pair
from nextloc_metrics.analysis.contrast import UserSums, contrast
from nextloc_metrics.arguments.batch import GroupLabels
from nextloc_metrics.arguments.checks import check_positive
from nextloc_metrics.arguments.messages import short
from nextloc_metrics.base.collection import RankingCollection
from nextloc_metrics.base.grouped import Grouped
from nextloc_metrics.base.readings import readings_of
from nextloc_metrics.display.reading import Reading
from nextloc_metrics.means import exact
from nextloc_metrics.report.counted import Counted, add_state
from nextloc_metrics.report.data import make_headline
from nextloc_metrics.report.digests import hash_names
from nextloc_metrics.report.families import Asked
from nextloc_metrics.report.receipts import Receipt

# Bytes of the hash of a cluster's name.
_OF_NAME = 8
# Options of which the values of two receipts depend.
_FORMULAS = ("k", "measures", "num_locations", "metrics", "exclude")


def clusters_of(counted: Counted, kind: str, least: int, key: bytes) -> dict[str, Any]:
    """Return the sums of scores and the numbers of queries of each cluster, by metric.

    Args:
        counted: the counts, with groups of this kind.
        kind: the kind of groups.
        least: clusters with fewer queries are merged into one, the last.
        key: the secret with which names are hashed, or empty.
    """
    check_positive("min_queries", least)
    if kind not in counted.setting.groups or counted.setting.is_weighted:
        raise ValueError(
            f"`sums_by` must be one of `groups`, {short(list(counted.setting.groups))}, of queries "
            f"without weights, got {short(kind)}."
        )
    labels, part = counted.labels[kind].names, counted.parts.get(f"by {kind}")
    members: dict[str, Any] = {} if part is None else dict(part.named_members())
    of_all = {x: y._sums[:, [0, 2]].numpy() for x, y in members.items() if y.metric._is_bounded}
    sizes = np.max([x[:, 1] for x in of_all.values()], axis=0) if of_all else np.zeros(len(labels))
    hashes = [x.to_bytes(8, "little") for x in hash_names(labels).tolist()]
    names = [hmac.digest(key, x, "sha256")[:_OF_NAME].hex() for x in hashes]
    order = sorted(np.flatnonzero(sizes >= least).tolist(), key=names.__getitem__)
    small = (sizes > 0) & (sizes < least)
    sums: dict[str, list[str]] = {}
    for name, of in of_all.items():
        rows = [*of[order].tolist(), *([of[small].sum(0).tolist()] if small.any() else [])]
        sums[name] = [" ".join(map(str, column)) for column in zip(*rows, strict=True)]
    found = {"by": kind, "min_queries": least, "merged": int(small.sum()), "sums": sums}
    return {**found, "names": " ".join(names[i] for i in order)}


class ReceiptSums:
    """The sums of one receipt: by metric those of clusters, int64 `[U]`, and their sizes."""

    text = ""

    def __init__(self, name: str, receipt: Receipt) -> None:
        self.content = receipt.content
        if "clusters" not in self.content:
            raise ValueError(
                f"the receipt {short(name)} must have the sums of clusters, to be compared; write "
                'it with `receipt(sums_by="user")`.'
            )
        try:
            self.cluster, self.names = (self.content["clusters"][x] for x in ("by", "names"))
            self.merged = self.content["clusters"]["merged"]
            self.sums = {
                str(key): [np.array(x.split(), np.int64) for x in columns]
                for key, columns in self.content["clusters"]["sums"].items()
            }
            for key, (sums, sizes) in self.sums.items():
                total = [str(sums.sum()), str(sizes.sum())]
                if sums.shape != sizes.shape or total != self.content["sums"][key][::2]:
                    raise ValueError(f"those of {key} do not add up")
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"the sums by cluster of {short(name)} are wrong: {error}.") from error
        options = self.content["options"]
        # a number that was read from the rows is no option; the preset of one relevant one has F1
        number = options["num_locations"] or (1 if "f1" in self.content["values"] else None)
        headline = make_headline(number, options["k"], measures=options["measures"])
        self.members = headline.named_members()
        self.sums = {key: self.sums[key] for key, _ in self.members if key in self.sums}
        most = max((int(sizes.sum()) for _, sizes in self.sums.values()), default=0)
        self.sizes = most, len(self.names.split()) + int(self.merged > 0)

    @property
    def notes(self) -> list[str]:
        """What a comparison says of the receipts: merged clusters, and values without tests."""
        found = [f"{self.merged} groups with few queries are one"] if self.merged else []
        others = sorted(self.content["values"].keys() - self.sums.keys())
        return [*found, *([f"not tested: {', '.join(others)}"] if others else [])]

    def pair(self, first: Any) -> dict[str, Pair]:
        """Pair the sums of another receipt with those of this one, by metric."""
        pairs = {}
        for key, (sums, sizes) in self.sums.items():
            others, other_sizes = first.sums[key]
            if not np.array_equal(sizes, other_sizes):
                raise ValueError(f"{key} must be of the same queries in all receipts.")
            both = [UserSums(x[None]) for x in (sums, others)]
            found, number = contrast(both, sizes, 1 / exact.ONE), int(sizes.sum())
            slack = 2 * number * found.per_score
            pairs[key] = Pair(found, False, slack, number, math.nan, 0, 0)
        return pairs

    def read(self, confidence_level: float) -> dict[str, Reading]:
        """Return the values with their intervals; what is no mean has the receipt's value alone."""
        labels = GroupLabels(self.names.split() + ["merged"] * (self.merged > 0))
        members: dict[str, Any] = dict(self.members)
        for key, (sums, sizes) in self.sums.items():
            state = torch.from_numpy(np.stack([sums, np.zeros_like(sums), sizes], 1))
            by: Any = {"by": self.cluster, "labels": labels}
            members[key] = Grouped(members[key], average="queries", **by)
            add_state(members[key], state)
        for key in members.keys() - self.sums.keys():
            add_state(members[key], members[key].empty_tally())
        found = readings_of(RankingCollection(members), confidence_level)
        for key in members.keys() - self.sums.keys():
            found[key] = found[key]._replace(value=float(self.content["values"][key]))
        return found


def read_sums(
    models: Mapping[str, Any], given: Mapping[str, Any], asked: Asked
) -> dict[str, ReceiptSums]:
    """Read receipts of one test set, or raise if they, or arguments, cannot be compared."""
    if others := [name for name, x in models.items() if not isinstance(x, Receipt)]:
        raise TypeError(f"`models` must all be receipts, or none, got {short(others)}.")
    if wrong := [name for name, x in given.items() if x is not None]:
        raise ValueError(f"`{wrong[0]}` must not be given for receipts, which have no rows.")
    if asked.average != "queries":
        raise ValueError(f"`average` of receipts must be 'queries', got {short(asked.average)}.")
    found = {str(name): ReceiptSums(str(name), x) for name, x in models.items()}
    (first_name, first), *rest = found.items()
    if not rest or asked.cluster not in (None, first.cluster):
        raise ValueError(
            f"`models` must hold at least two receipts with sums by "
            f"{asked.cluster or first.cluster}, got {len(found)} by {first.cluster}."
        )
    for name, one in rest:
        names = f"{first_name!r} and {name!r}"
        a, b = ({**x.content, **x.content["options"]} for x in (first, one))
        if a["test_set"]["root"] != b["test_set"]["root"]:
            roots = f"{a['test_set']['root']} and {b['test_set']['root']}"
            raise ValueError(f"`models` must have one test set, got {roots} in {names}.")
        for key in ("version", *_FORMULAS):
            if a[key] != b[key]:
                texts = f"{short(a[key])} and {short(b[key])}"
                raise ValueError(f"`models` must agree on `{key}`, got {texts} in {names}.")
        clusters = [(x.cluster, x.names, x.merged, x.sums.keys()) for x in (first, one)]
        if clusters[0] != clusters[1]:
            raise ValueError(f"`models` must have the same clusters, metrics and salt in {names}.")
    return found
