"""A receipt: the text by which anyone who has the data can check an evaluation to the last bit.

Its sums of clusters are all that a paired comparison reads, without the rows.
"""

from __future__ import annotations

import hmac
import json
import math
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics import __version__
from nextloc_metrics.analysis.comparison import Pair
from nextloc_metrics.analysis.contrast import UserSums, contrast
from nextloc_metrics.arguments.batch import GroupLabels
from nextloc_metrics.arguments.checks import check_positive
from nextloc_metrics.arguments.messages import clip, short
from nextloc_metrics.base.collection import RankingCollection
from nextloc_metrics.base.grouped import Grouped
from nextloc_metrics.base.readings import readings_of
from nextloc_metrics.display.reading import Reading
from nextloc_metrics.files.columns import read_ids as read_column
from nextloc_metrics.files.tables import Names, has_column, source_of
from nextloc_metrics.means import exact
from nextloc_metrics.report.comparisons import Asked
from nextloc_metrics.report.counted import Counted, add_state
from nextloc_metrics.report.data import CONFIDENCE, EXEMPT, make_headline
from nextloc_metrics.report.digests import hash_names, read_ids, sums_of

_SCHEMA = "nextloc-metrics receipt 1"
_MOST_BYTES = 8192
# What stands outside the checksum.
_OUTSIDE = ("checksum", "note", "source")
# Bytes of a bucket.
_OF_BUCKET = 3
# A state of more integers is told by its hash.
_MOST_SUMS = 16
# What of a setting is no option of what is counted, or is elsewhere.
_NOT_OPTIONS = ("vocabulary", "known_locations", "num_ids", "has_ids")
_COUNTS = ("queries", "left_out", "without_target", "tied")
_MOST_IDS = 20
# Bytes of the hash of a cluster's name.
_OF_NAME = 8
# Options of which the values of two receipts depend.
_FORMULAS = ("k", "measures", "num_locations", "metrics", "exclude")


@dataclass(frozen=True)
class Receipt:
    """What says which test set was answered how, and what was counted; `str` is its text.

    `docs/receipts.md` says what each entry is. It finds accidents and exchanged files, and not an
    author who wants to deceive.

    Attributes:
        content: the entries by name.
        is_canonical: whether the text that was read is the one that was written, byte for byte.

    Example:
        >>> from nextloc_metrics import report
        >>> e = report.evaluate([[3, 5], [4, 2]], [3, 2], k=1, num_locations=9, ids=["a", "b"])
        >>> receipt = e.receipt(note="Table 2")
        >>> receipt.content["sums"]["acc_at_1"]  # 1 of 2, and of squares, in 2^-32
        ['4294967296', '4294967296', '2']
        >>> print(report.verify(receipt, e))
        equal
    """

    content: Mapping[str, Any]
    is_canonical: bool = True

    @classmethod
    def read(cls, source: str | PathLike[str]) -> Receipt:
        """Read a file, or a text that begins with `{`.

        Raises:
            OSError: the file cannot be opened.
            ValueError: it is no receipt.
        """
        is_text = isinstance(source, str) and source.lstrip()[:1] == "{"
        text = str(source) if is_text else Path(source).read_bytes().decode("utf-8", "replace")
        try:
            content = json.loads(text, parse_float=_refuse, parse_constant=_refuse)
            found = cls(content, text == _canonical(content))
            found._check()
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            name = "the text" if is_text else str(source)
            raise ValueError(
                f"{name} must be a receipt of nextloc-metrics, and is not: {clip(str(error))}."
            ) from error
        return found

    def _check(self) -> None:
        """Raise if an entry that is read is missing, or of another kind."""
        if self.content["schema"] != _SCHEMA:
            return
        names = ["options", "sums", "values", "counts", "groups", "test_set", "predictions"]
        kinds: dict[str, Any] = {**dict.fromkeys(names, dict), "num_asked": int, "version": str}
        kinds |= {"checksum": str} | ({"clusters": dict} if "clusters" in self.content else {})
        for name, kind in kinds.items():
            if type(self.content[name]) is not kind:
                raise TypeError(f"{name!r} is {short(self.content[name])}")
        for name in ("test_set", "predictions"):
            if len(b64decode(self.content[name]["buckets"], validate=True)) != _OF_BUCKET * 256:
                raise ValueError(f"{name!r} has other buckets than 256")
        self.arguments()

    @property
    def id(self) -> str:
        """The first six digits of the checksum."""
        return str(self.content["checksum"])[:6]

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `evaluate_table` that the options are."""
        options = self.content["options"]
        given = options["probabilities"]
        found = {x: options[x] for x in ("cluster", "num_locations", "k", "measures")}
        found |= {x: float(options[x]) for x in ("confidence_level", "km")}
        found["groups"] = tuple(options["groups"])
        found["given"] = None if given in ("", CONFIDENCE) else given
        found["exempt_target"] = options["exclude"] == EXEMPT
        return found | {"about": options["about"] or None}

    def to_latex(self) -> str:
        """Return a footnote."""
        groups = self.content["groups"]
        numbers = [f"{self.content['num_asked']:,} queries"]
        numbers += [f"{number:,} {kind}s".replace("_", r"\_") for kind, number in groups.items()]
        made = f"nextloc-metrics {self.content['version']}"
        return rf"\footnote{{Receipt \texttt{{{self.id}}}, {', '.join(numbers)}, {made}.}}"

    def __str__(self) -> str:
        return _canonical(self.content)

    def _repr_html_(self) -> str:
        link = "data:application/json;base64," + b64encode(str(self).encode()).decode()
        return f'<p><a download="receipt-{self.id}.json" href="{link}">receipt {self.id}</a></p>'


def _refuse(text: str) -> Any:
    raise ValueError(f"it holds the number {text}")


def _canonical(content: Any) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False) + "\n"


def _checksum(content: Mapping[str, Any]) -> str:
    inside = {name: x for name, x in content.items() if name not in _OUTSIDE}
    return sha256(_canonical(inside).encode()).hexdigest()


def receipt_of(
    counted: Counted,
    values: Mapping[str, float],
    salt: str | None = None,
    note: str | None = None,
    source: str | None = None,
    clusters: Mapping[str, Any] | None = None,
) -> Receipt:
    """Make the receipt of counts; `clusters` are the sums by cluster."""
    setting, key = counted.setting, (salt or "").encode()
    options = {x: _plain(y) for x, y in vars(setting).items() if x not in _NOT_OPTIONS}
    options["num_locations"] = setting.known_locations  # that of the data is no option
    content: dict[str, Any] = {
        "schema": _SCHEMA,
        "version": __version__,
        "options": options,
        "num_asked": counted.card["queries"] - counted.card["left_out"],
        "counts": {name: x for name, x in counted.card.items() if name in _COUNTS},
        "groups": {kind: len(counted.names_of(kind)) for kind in setting.groups},
        "sums": {name: _sums(member.state) for name, member in counted.rows()},
        "values": {name: repr(float(value)) for name, value in values.items()},
        "ids": "given" if setting.has_ids else "none",
        "salted": bool(salt),
        "test_set": _digest(counted.digests[0], key),
        "predictions": _digest(counted.digests[1], key)
        | {"of": "lists" if setting.candidates is None else "ranks"},
    }
    content |= {x: y for x, y in (("note", note), ("source", source)) if y is not None}
    if (size := len(_canonical(content)) + 79) > _MOST_BYTES:  # with the checksum
        raise ValueError(
            f"a receipt must have at most {_MOST_BYTES:,} bytes, got {size:,}; leave out `note`, "
            "`source` and `about`, or count fewer metrics."
        )
    content |= {} if clusters is None else {"clusters": clusters}
    return Receipt({**content, "checksum": _checksum(content)})


def _plain(value: Any) -> Any:
    """Return an option as JSON; a fraction as text."""
    if isinstance(value, tuple):
        return [_plain(x) for x in value]
    return repr(value) if isinstance(value, float) else value


def _sums(state: Tensor) -> Any:
    """Return integers as texts; of many, the hash of their texts."""
    texts = [str(x) for x in state.flatten().tolist()]
    if len(texts) > _MOST_SUMS:
        return "sha256:" + sha256(",".join(texts).encode()).hexdigest()
    return texts


def _digest(sums: Tensor, key: bytes) -> dict[str, Any]:
    """Return the root of 128 bits and the buckets of 24 bits."""
    parts = [x.to_bytes(16, "little") + n.to_bytes(8, "little") for x, n in sums_of(sums)]
    marks = [hmac.digest(key, bytes([i]) + x, "sha256")[:_OF_BUCKET] for i, x in enumerate(parts)]
    root = hmac.digest(key, b"".join(parts), "sha256")[:16].hex()
    return {"root": root, "buckets": b64encode(b"".join(marks)).decode()}


@dataclass(frozen=True)
class Verification:
    """What differs between a receipt and an evaluation; `print` shows it.

    Attributes:
        differences: the differences, the first cause first; empty if they are equal.
        notes: what does not matter, such as another form of the text.
    """

    differences: list[str]
    notes: list[str] = field(default_factory=list)
    _buckets: Sequence[int] = ()  # that differ

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not self.differences

    def __str__(self) -> str:
        return "\n".join([*(self.differences or ["equal"]), *self.notes])


def differences(receipt: Receipt, found: Receipt, counted: Counted) -> Verification:
    """Compare a receipt with that of the rows at hand, of these counts."""
    old, new = receipt.content, found.content
    notes = [] if receipt.is_canonical else ["note: the text has other spaces or line ends"]
    if old["schema"] != _SCHEMA:
        return Verification([f"another schema: {short(old['schema'])}, not {_SCHEMA!r}"], notes)
    lines, wrong = [], list[int]()
    if old["salted"] != new["salted"]:
        lines.append("another salt: the receipt " + ("has" if old["salted"] else "has none"))
    for what, said in (("test_set", "another test set"), ("predictions", "answers differ")):
        if lines or old[what] == new[what]:
            continue
        pair = [np.frombuffer(b64decode(x[what]["buckets"]), np.uint8) for x in (old, new)]
        wrong = np.flatnonzero((pair[0] != pair[1]).reshape(256, _OF_BUCKET).any(1)).tolist()
        among = sum(sums_of(counted.digests[1])[i][1] for i in wrong)
        listed = ", ".join(f"0x{i:02x}" for i in wrong[:8]) + (", ..." if len(wrong) > 8 else "")
        lines.append(
            f"{said}, in {len(wrong)} of 256 buckets ({listed}): at least {len(wrong)} of "
            f"{new['num_asked']:,} rows, among {among:,}; the receipt has {old['num_asked']:,} rows"
        )
    for name in sorted(old["options"].keys() | new["options"].keys()):
        a, b = (x["options"].get(name) for x in (old, new))
        if a != b:
            lines.append(f"another option: {name} is {short(b)}, in the receipt {short(a)}")
    changed = [
        name if what != "values" else f"value of {name}"
        for what in ("sums", "values", "counts")
        for name in sorted(old[what].keys() | new[what].keys())
        if old[what].get(name) != new[what].get(name)
    ]
    changed += [x for x in ("num_asked", "clusters") if old.get(x) != new.get(x)]
    if changed and not lines:
        same = old["version"] == new["version"]
        made = f"another version's formula ({old['version']}, not {new['version']})"
        lines.append(f"{'the sums were changed' if same else made}: {', '.join(changed)}")
    if old["checksum"] != _checksum(old):
        lines.append("the text was changed after it was written: its checksum is another")
    return Verification(lines, notes, wrong)


def ids_in(rows: Any, key: str | None, buckets: Sequence[int]) -> str:
    """Return the ids of the rows of some buckets, as text; "" where ids cannot be read."""
    key = "id" if key is None and has_column(rows, "id") else key
    is_table = isinstance(rows, str | PathLike) or hasattr(rows, "__arrow_c_stream__")
    if not key or not buckets or not is_table:
        return ""
    wanted, found = set(buckets), []
    for part in source_of(rows, Names(key, key), "raise").parts([key]):
        names = read_column(part, key)
        hashes = (read_ids(names) & 255).tolist() if len(names) else []
        found += [str(x) for x, i in zip(names, hashes, strict=True) if i in wanted]
    more = ", ..." if len(found) > _MOST_IDS else ""
    return f"ids of these rows: {', '.join(found[:_MOST_IDS])}{more}"


def clusters_of(counted: Counted, kind: str, least: int, key: bytes) -> dict[str, Any]:
    """Return the sums of scores and the numbers of queries of each cluster, by metric.

    Clusters with fewer than `least` queries are merged into one, the last; `key` is the secret with
    which names are hashed, or empty.
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
        headline = make_headline(number, options["k"], options["measures"], {})
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
