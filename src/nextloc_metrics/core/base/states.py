"""The two forms of a state: integers of a fixed shape, and sums by key, which grow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from nextloc_metrics.core.base.annotated_options import describe_option
from nextloc_metrics.core.means.keyed_sums import KeyedSums
from nextloc_metrics.core.queries.keys import join_names
from nextloc_metrics.core.queries.messages import clip, describe, short


class DenseState:
    """An int64 tensor of a fixed shape: two states are added element by element."""

    reduction = "sum"

    def add(self, held: Tensor, state: Tensor, device: torch.device) -> Tensor:
        """Return the sum of the state that a metric holds and another state."""
        return held + state.to(device)

    def refuse(self, saved: Any, held: Tensor) -> str | None:
        """Return how a saved state must look, or None if it does."""
        fits = saved.dtype == torch.int64 and saved.shape == held.shape
        return None if fits else describe(held)

    def copy(self, saved: Tensor, device: torch.device) -> Any:
        """Return a copy of a saved state for a metric to hold."""
        return saved.to(device, copy=True)


DENSE = DenseState()


class KeyedState:
    """A list of entries int64 `[E, K + V]`, the numbers of a key and its sums: see `KeyedSums`."""

    reduction = "cat"

    def __init__(self, empty: KeyedSums) -> None:
        self.sums_of, self.num_keys = type(empty), empty.num_keys
        self.empty = empty.entries[0]

    def read(self, held: Tensor | list[Tensor], device: torch.device) -> Tensor:
        """Return the entries that a metric holds as one tensor, each key once, in rising order."""
        if isinstance(held, list) and len(held) == 1:
            return held[0]
        parts = [held] if isinstance(held, Tensor) else held
        entries = [x.to(device) for x in (self.empty, *parts)]
        merged = self.sums_of(entries, self.num_keys).merge()
        if isinstance(held, list):
            held[:] = [merged]  # the metrics that share the list share the merged entries
        return merged

    def add(self, held: list[Tensor], state: Tensor, device: torch.device) -> list[Tensor]:
        """Return the sum of the state that a metric holds and another state."""
        return self.sums_of([state.to(device)], self.num_keys).append_to(held)

    def refuse(self, saved: Any, held: Any) -> str | None:
        """Return how a saved state must look, or None if it does."""
        width = self.empty.shape[1:]
        fits = isinstance(saved, list) and all(
            isinstance(x, Tensor) and x.dtype == torch.int64 and x.shape[1:] == width for x in saved
        )
        return None if fits else f"a list of int64 [E, {self.empty.shape[1]}]"

    def copy(self, saved: list[Tensor], device: torch.device) -> Any:
        """Return a copy of a saved state for a metric to hold."""
        return [x.to(device, copy=True) for x in (self.empty, *saved)]  # merged when read


def check_same_state(metric: Any, incoming: Any) -> None:
    """Raise if another metric, or a dict of states, lacks the state of a metric."""
    held = getattr(incoming, "_defaults", incoming)
    if not isinstance(held, Mapping) or metric._state_name in held:
        return
    differing = [
        f"`{name}`, {short(metric._options[name])} and {short(incoming._options[name])}"
        for name in metric._read_by_update
        if isinstance(incoming, type(metric)) and name in metric._options
        if describe_option(metric._options[name]) != describe_option(incoming._options[name])
    ]
    others = differing or [f"states {clip(metric._state_name)} and {short([*held])}"]
    raise ValueError(
        f"`incoming_state` must be that of an equal metric, got different {others[0]}; make both "
        "with the same options."
    )


def names_key(metric: Any) -> str:
    """Return the name under which a checkpoint has the texts of a metric's keys."""
    return f"{metric._state_name} names"


def load_state(
    metric: Any, state_dict: dict[str, Any], prefix: str, missing_keys: list[str]
) -> str | None:
    """Move a metric's state from `state_dict` into the metric; return an error, or None.

    A state that is missing is added to `missing_keys`.
    """
    key = prefix + metric._state_name
    saved, names = state_dict.pop(key, None), state_dict.pop(prefix + names_key(metric), {})
    if saved is None:
        if metric._persistent[metric._state_name]:
            missing_keys.append(key)
        return None
    wanted = metric._form.refuse(saved, vars(metric)[metric._state_name])
    if wanted is not None:
        return f"the state `{clip(key)}` must be {wanted}, got {describe(saved)}."
    setattr(metric, metric._state_name, metric._form.copy(saved, metric.device))
    metric.key_names = join_names(metric.key_names, names)
    metric._computed = None
    metric._update_count = max(1, metric._update_count)  # else `compute` warns
    return None
