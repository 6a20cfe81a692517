"""What tests know of a public metric class, and what its updates take.

`metric_entries.py` is the table of all classes, where a new metric is one entry: the options that
are tried, the definition in plain Python (`oracles`), the direction and the bound.
`tests/metrics/test_every_metric.py` runs each class against its definition and checks what all
promise; the laws, backends, processes and hostile tests read the same table. What is special to a
class is tested in the file that has the name of its own.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
import torch
from torch import Tensor
from torchmetrics import Metric

import nextloc_metrics
from nextloc_metrics import PopularityBins
from nextloc_metrics.geography import Locations

Options = dict[str, Any]

#: candidates of a query, and locations of the tables below
LOCATIONS = 6
GROUPS = 4
PLACES = Locations.from_plane([0, 400, 1000, 1000, 3000, 9000], [0, 0, 0, 50, 0, 0])
BINS = PopularityBins([3, 2, 2, 1, 1, 0])

#: what an update takes: `arguments_of` makes it
Reads = Literal[
    "ranks",  # scores or lists, with any number of relevant ids
    "decisions",  # scores or lists, with one relevant id
    "logits",  # scores of all candidates, with one relevant id
    "bins",  # as ranks; the value is a dict
    "groups",  # as ranks, with `groups`
    "query_ids",  # as ranks, with `query_ids`
    "steps",  # scores `[N, T, C]`
    "days",  # points `[N, T, 2]`
]


@dataclass(frozen=True)
class Entry:
    """A public metric class.

    Attributes:
        name: in `nextloc_metrics`.
        options: to try, all of which share one shape of the state and have one number as value.
        definition: of a batch and the options, in plain Python; None where the class has tests of
            its own alone.
        also: more options, of another shape of state or value.
        higher_is_better: None if neither is.
        bound: the largest value; None if it depends on the data.
        reads: what an update takes.
        state: what classes call a state that they share.
        computed: the options that `compute` alone reads, so that metrics share a state whatever
            their value.
        within: how far the value may be from the definition, as a share of it.
        step: the value is a multiple of it, and the definition is rounded to it.
        numbers: how many integers the state has at most.
        waits: whether an update reads a value on the device: how grades differ, or coordinates or
            visits of the first candidates, whose table is on the CPU.
    """

    name: str
    options: list[Options]
    definition: Callable[..., Any] | None
    also: list[Options] = field(default_factory=list)
    higher_is_better: bool | None = True
    bound: float | None = 1.0
    reads: Reads = "ranks"
    state: str = ""
    computed: tuple[str, ...] = ()
    within: float = 1e-6
    step: float = 0.0
    numbers: int = 4 * LOCATIONS + 4
    waits: bool = False

    def __str__(self) -> str:
        """The test id."""
        return self.name

    @property
    def kind(self) -> type[Metric]:
        """The class."""
        found: type[Metric] = operator.attrgetter(self.name)(nextloc_metrics)
        return found

    @property
    def is_scalar(self) -> bool:
        """Whether it takes `preds` and `target` of queries, and its value is one number."""
        return self.reads in ("ranks", "decisions", "logits")

    @property
    def cases(self) -> list[Case]:
        """Each set of options."""
        return [Case(self, options) for options in self.options]

    @property
    def all_cases(self) -> list[Case]:
        """And of those with another shape."""
        return [*self.cases, *(Case(self, options) for options in self.also)]


@dataclass(frozen=True)
class Case:
    """A metric class with its options."""

    entry: Entry
    options: Options = field(default_factory=dict)

    def __str__(self) -> str:
        """The test id."""
        written = ",".join(f"{name}={_short(value)}" for name, value in self.options.items())
        return f"{self.name}({written})"

    @property
    def name(self) -> str:
        """The name of the class."""
        return self.entry.name

    def make(self, **more: Any) -> Metric:
        """A fresh instance."""
        return self.entry.kind(**{**self.options, **more})

    def defined(self, *batch: Any) -> Any:
        """The value of a batch by the definition."""
        assert self.entry.definition is not None
        return self.entry.definition(*batch, **self.options)

    def near(self, expected: Any) -> Any:
        """What is as near to a defined value as the class promises."""
        if self.entry.step and not math.isnan(expected):
            expected = round(expected / self.entry.step) * self.entry.step
        return pytest.approx(expected, rel=self.entry.within, abs=1e-6, nan_ok=True)


def _short(value: Any) -> str:
    return "bins" if isinstance(value, PopularityBins) else str(value)


# What an update takes ----------------------------------------------------------------------------


def _scores(n: int, *shape: int) -> Tensor:
    """Scores with ties, NaN and -inf; a row that is all NaN, and one that rules everything out."""
    scores = torch.randint(4, (n, *shape)).float()
    scores[torch.rand(n, *shape) < 0.03] = math.nan
    scores[torch.rand(n, *shape) < 0.05] = -math.inf
    scores[1], scores[2] = math.nan, -math.inf
    return scores


def _targets(n: int) -> dict[str, Tensor]:
    """Several relevant ids, or none, in each form; ignored ids, and more than there are ranks."""
    relevant = torch.rand(n, LOCATIONS) < 0.3
    width = int(relevant.sum(1).max())
    ids = torch.where(relevant, torch.arange(LOCATIONS), -1).sort(1, descending=True).values
    grades = relevant * torch.randint(1, 4, (n, LOCATIONS)).float()
    return {"padded": ids[:, :width], "bool": relevant, "graded": grades}


def _walks(n: int, steps: int) -> tuple[Tensor, Tensor]:
    """Pairs of equally many points on a grid, so with ties, padded with NaN."""
    both = torch.randint(-1, 2, (2, n, steps, 2)).double().cumsum(2)
    lengths = torch.randint(1, steps + 1, (n, 1))
    both[:, torch.arange(steps) >= lengths] = math.nan
    return both[0], both[1]


def arguments_of(reads: Reads, n: int = 16) -> dict[str, dict[str, Tensor]]:
    """The arguments of an update in each form that such a metric takes."""
    if reads == "days":
        preds, target = _walks(n, 5)
        return {"days": {"preds": preds, "target": target}}
    mask = torch.rand(n) < 0.8
    mask[1:3] = True  # the rows that have nothing but NaN or -inf
    one = {"preds": _scores(n, LOCATIONS), "target": torch.randint(LOCATIONS, (n,)), "mask": mask}
    if reads == "logits":
        return {"scores": one}
    if reads == "steps":
        steps = {"preds": _scores(n, 3, LOCATIONS), "target": torch.randint(LOCATIONS, (n, 3))}
        return {"scores": {**steps, "mask": torch.rand(n, 3) < 0.8}}
    lists = torch.rand(n, LOCATIONS).argsort(1)[:, :5]
    lists[3], lists[4, 2:], lists[5, 1] = -1, -1, lists[5, 0]
    forms = {"scores": one, "lists": {**one, "preds": lists}}
    if reads != "decisions":
        targets = _targets(n)
        forms |= {name: {**one, "target": target} for name, target in targets.items()}
        forms["lists, padded"] = {**one, "preds": lists, "target": targets["padded"]}
    if reads == "groups":
        return {"scores": {**one, "groups": torch.randint(GROUPS, (n,))}}
    if reads == "query_ids":
        return {"scores": {**one, "query_ids": torch.arange(n)}}
    return forms
