"""Batches for an `Evaluator`: of one kind, or with one that is odd, and what is in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from hostile_plain import Meaning, Query
from hypothesis import strategies as st

from nextloc_metrics.core.queries.batch import Batch

Draw = Callable[[st.SearchStrategy[Any]], Any]

LOCATIONS = 5
GROUPS = ["a", "b", "a\0", "\x000", "\x001", "1", "01", "", "nan", "é"]


#: how many numbers of arrays an evaluator reads at once in these tests
CHUNK = 1 << 8


@dataclass(frozen=True)
class Kind:
    """What a batch has: lists or scores of so many candidates, several targets, and options."""

    width: int | None
    several: bool
    mask: bool
    exclude: bool
    groups: tuple[str, ...]

    @property
    def meaning(self) -> Meaning:
        """Return how its rows are to be read."""
        return Meaning("typed", candidates=self.width, groups=self.groups)


@dataclass(frozen=True)
class Part:
    """A batch, as it was meant and as it is passed."""

    kind: Kind
    queries: tuple[Query, ...]
    batch: Batch
    is_wrong: bool


@dataclass(frozen=True)
class Work:
    """Batches for one evaluator, its options, and what is odd about one of the batches."""

    parts: tuple[Part, ...]
    options: dict[str, Any]
    odd: str


ODD = ["candidates", "form", "exclude", "groups", "confidence", "floats"]
ODD += ["several", "target", "late target"]


@st.composite
def works(draw: Draw, odd: Sequence[str] = ("", "", *ODD), names: Sequence[str] = GROUPS) -> Work:
    """Draw batches of one kind, and in most cases change one of them."""
    kind = draw(kinds())
    chosen = draw(st.sampled_from(odd))
    if chosen == "late target":
        kind = replace(kind, groups=(), exclude=False)
    number = draw(st.integers(2, 4))
    at = draw(st.integers(0, number - 1))
    parts = [draw(_parts(kind, chosen if i == at else "", names)) for i in range(number)]
    options = {"k": (1, 3), "num_locations": LOCATIONS if kind.width is None else None}
    if kind.groups and draw(st.booleans()):
        options["cluster"] = kind.groups[0]
    if kind.width is None and chosen == "form":
        options["num_locations"] = LOCATIONS
    return Work(tuple(parts), options, chosen)


@st.composite
def kinds(draw: Draw) -> Kind:
    """Draw what all batches have."""
    width = draw(st.sampled_from([None, LOCATIONS]))
    names = draw(st.sampled_from([(), ("user",), ("user", "hour")]))
    flag = draw(st.sampled_from(["", "", "mask", "exclude"]))
    return Kind(width, draw(st.booleans()), flag == "mask", flag == "exclude", names)


def _changed(kind: Kind, odd: str) -> Kind:
    """Return the kind of the odd batch."""
    values: dict[str, Any] = dict(vars(kind))
    if odd == "candidates" and kind.width:
        values["width"] = kind.width + 2
    elif odd in ("form", "floats"):
        values["width"] = None if kind.width else LOCATIONS
    elif odd == "groups":
        values["groups"] = () if kind.groups else ("user",)
    elif odd in ("exclude", "several"):
        values[odd] = not values[odd]
    return Kind(**values)


@st.composite
def _parts(draw: Draw, kind: Kind, odd: str, names: Sequence[str]) -> Part:
    kind = _changed(kind, odd)
    size = draw(st.integers(0 if not odd else 1, 4))
    queries = [draw(_queries(kind, names)) for _ in range(size)]
    preds: Any = [list(x.answer or ()) for x in queries]
    longest = max([1, *map(len, preds)])
    if kind.width is None:
        preds = np.array([[*x, *[-1] * (longest - len(x))] for x in preds], "i8").reshape(
            -1, longest
        )
    else:
        preds = np.array(preds, "f4").reshape(-1, kind.width)
    target = _targets(kind, queries)
    is_wrong = odd in ("target", "late target")
    if is_wrong:
        target.reshape(-1)[-1] = -5
        queries[-1] = replace(queries[-1], counted=True)
    given: dict[str, Any] = {}
    if kind.mask:
        given["mask"] = np.array([x.counted for x in queries], bool)
    if kind.exclude:
        lists = [[*x.exclude, *[-1] * (2 - len(x.exclude))] for x in queries]
        given["exclude"] = np.array(lists, "i8").reshape(-1, 2)
    if kind.groups:
        columns = {x: [dict(q.groups)[x] for q in queries] for x in kind.groups}
        given["groups"] = {x: np.array(y, object) if y else [] for x, y in columns.items()}
    if odd == "confidence":
        given["confidence"] = np.full(len(queries), 0.5)
    if odd == "late target":  # in the second of the parts that are read
        times = CHUNK // preds.size + 1
        last = target[-1:].copy()
        target[-1:] = target[:1] if len(target) > 1 else abs(last) % LOCATIONS
        preds, target = _repeated(preds, times), _repeated(target, times)
        target[-1:] = last
        given = {name: _repeated(np.asarray(x), times) for name, x in given.items()}
    form: Any = draw(st.sampled_from([torch.as_tensor, np.asarray, np.asfortranarray]))
    batch = Batch(form(preds), torch.as_tensor(target), **given)
    return Part(kind, tuple(queries), batch, is_wrong)


def _repeated(rows: Any, times: int) -> Any:
    """Return the rows again and again."""
    return np.tile(rows, (times, *[1] * (rows.ndim - 1)))


def _targets(kind: Kind, queries: Sequence[Query]) -> Any:
    if not kind.several:
        return np.array([x.target[0] for x in queries], "i8")
    rows = [[*x.target, *[-1] * (2 - len(x.target))] for x in queries]
    return np.array(rows, "i8").reshape(-1, 2)


@st.composite
def _queries(draw: Draw, kind: Kind, names: Sequence[str]) -> Query:
    ids = st.integers(0, LOCATIONS - 1)
    answer: Any = draw(st.lists(ids, max_size=4))
    if kind.width:
        score = st.sampled_from([0.0, 0.25, 0.5, 1.0, float("nan"), -float("inf")])
        answer = draw(st.lists(score, min_size=kind.width, max_size=kind.width))
    most = 2 if kind.several else 1
    target = draw(st.lists(ids, min_size=1 - kind.several, max_size=most, unique=True))
    free = [x for x in range(LOCATIONS) if x not in target]
    exclude = draw(st.sets(st.sampled_from(free), max_size=2)) if kind.exclude else set()
    return Query(
        tuple(answer),
        tuple(target),
        draw(st.booleans()) if kind.mask else True,
        frozenset(exclude),
        tuple((name, draw(st.sampled_from(names))) for name in kind.groups),
    )
