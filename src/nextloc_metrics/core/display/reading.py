"""One value with what a table or a picture shows beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Reading(NamedTuple):
    """One value with what a table or a picture shows beside it."""

    value: float
    bounds: tuple[float, float] | None  #: the ends of the interval, if there is one
    is_fraction: bool  #: whether it is in [0, 1] and shown in percent
    note: str = ""  #: which summary of several values it is, such as `median of 200 users`
    number: int | None = None  #: the number of queries of a group
    higher_is_better: bool | None = True
    unit: str = ""  #: the unit of a value that is not a fraction
    footnote: str = ""  #: what a dagger after the value says; "" for none

    @classmethod
    def of(
        cls, value: Tensor, bounds: tuple[Tensor, Tensor] | None, is_fraction: bool, group: str = ""
    ) -> Reading:
        """Read one value, or the median of the values that are not NaN."""
        if value.ndim == 0:
            ends = None if bounds is None else (float(bounds[0]), float(bounds[1]))
            return cls(float(value), ends, is_fraction)
        present = value[~value.isnan()]
        (median,) = quantiles(present, [0.5])
        return cls(median, None, is_fraction, f"median of {len(present)} {group}".rstrip())

    @property
    def lacks_interval(self) -> bool:
        """Whether the value is known but its interval could not be computed."""
        return self.bounds is not None and math.isnan(self.bounds[0]) and not math.isnan(self.value)

    @property
    def dagger(self) -> str:
        """The mark of the footnote; nothing without one, or without a value."""
        return "†" if self.footnote and self.value == self.value else ""

    def title(self, name: str) -> str:
        """Return the name of the value, with the note."""
        return f"{name}, {self.note}" if self.note else name


#: The readings of models, by the name of the model and of the value.
Models = Mapping[str, Mapping[str, Reading]]


def footnotes_of(readings: Iterable[Reading]) -> list[str]:
    """Return a note for each different footnote, with its dagger."""
    notes = (f"{one.dagger} {one.footnote}" for one in readings if one.dagger)
    return list(dict.fromkeys(notes))


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
