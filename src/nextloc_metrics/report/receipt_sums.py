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
from nextloc_metrics.arguments.checks import check_positive
from nextloc_metrics.arguments.messages import short
from nextloc_metrics.means import exact
from nextloc_metrics.report.counted import Counted
from nextloc_metrics.report.digests import hash_names
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
    found: dict[str, Any] = {
        "by": kind,
        "min_queries": least,
        "merged": int(small.sum()),
        "sums": sums,
    }
    return {**found, "names": " ".join(names[i] for i in order)}


class ReceiptSums:
    """The sums of one receipt: by metric those of clusters, int64 `[U]`, and their sizes."""

    num_runs, text = 1, ""

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

    @property
    def num_clusters(self) -> int:
        """The number of clusters, of which merged ones are one."""
        return len(self.names.split()) + int(self.merged > 0)

    @property
    def num_queries(self) -> int:
        """The number of queries of the metric that has most."""
        return max((int(sizes.sum()) for _, sizes in self.sums.values()), default=0)

    def pair(self, first: ReceiptSums) -> dict[str, Pair]:
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


def read_sums(models: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, ReceiptSums]:
    """Read receipts of one test set, or raise if they, or arguments, cannot be compared."""
    if others := [name for name, x in models.items() if not isinstance(x, Receipt)]:
        raise TypeError(f"`models` must all be receipts, or none, got {short(others)}.")
    if wrong := [name for name, x in given.items() if x is not None]:
        raise ValueError(f"`{wrong[0]}` must not be given for receipts, which have no rows.")
    found = {name: ReceiptSums(name, x) for name, x in models.items()}
    (first_name, first), *rest = found.items()
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


def states_of(sums: ReceiptSums, key: str) -> tuple[Any, Any]:
    """Return the states of one metric, and of the clustered one, whose squares are not read."""
    whole = [int(x) for x in sums.content["sums"][key]]
    each, sizes = sums.sums[key]
    clustered = np.stack([each, np.zeros_like(each), sizes], 1)
    return torch.tensor(whole), torch.from_numpy(clustered)
