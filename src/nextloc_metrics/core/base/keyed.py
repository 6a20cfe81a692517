"""Metrics whose state grows with the keys that occur, such as pairs of a group and a user."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from nextloc_metrics.core.base.mean import RecordMetric
from nextloc_metrics.core.means.exact import KeyedSums


class KeyedMetric(RecordMetric):
    """A metric whose state is a list of one int64 tensor `[E, K + V]`, sums by key.

    `empty_tally` has no entries. `tally` returns `KeyedSums`.
    """

    _num_keys: ClassVar[int] = 1
    _sums_by_key: ClassVar[type[KeyedSums]] = KeyedSums

    def add_state(
        self, name: str, default: Any, dist_reduce_fx: Any = None, persistent: bool = False
    ) -> None:
        super().add_state(name, [], "cat", persistent)

    def _sync_dist(self, *args: Any, **kwargs: Any) -> None:
        """Gather the entries; a process without any would send no entry, or one of floats."""
        setattr(self, self._state_name, [self.state])
        super()._sync_dist(*args, **kwargs)

    @property
    def state(self) -> Tensor:
        found: Tensor | list[Tensor] = vars(self)[self._state_name]
        if isinstance(found, list) and len(found) == 1:
            return found[0]
        parts = [found] if isinstance(found, Tensor) else found
        entries = [x.to(self.device) for x in (self.empty_tally(), *parts)]
        merged = self._sums_by_key(entries, self._num_keys).merge()
        if isinstance(found, list):
            found[:] = [merged]  # the same sums, for all that share the list
        return merged

    @property
    def _state_device(self) -> torch.device:
        return self.device  # the entries are merged when their sums are read, not in each update

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        self.state  # noqa: B018  # merges what is saved
        return super().state_dict(*args, **kwargs)

    def _reduce_states(self, incoming_state: dict[str, Any]) -> None:
        """Add up two states, of `forward` or `merge_state`."""
        own = self._summand(self.state)
        super()._reduce_states(incoming_state)
        setattr(self, self._state_name, incoming_state[self._state_name] + own)

    def _summand(self, state: Tensor) -> Any:
        return self._sums_by_key([state.to(self.device)], self._num_keys)

    def _fits(self, saved: Any) -> bool:
        """Return whether a saved state is a list of entries."""
        width = self.empty_tally().shape[1:]
        return isinstance(saved, list) and all(
            isinstance(x, Tensor) and x.dtype == torch.int64 and x.shape[1:] == width for x in saved
        )

    def _state_form(self) -> str:
        return f"a list of int64 [E, {self.empty_tally().shape[1]}]"

    def _copy_of(self, saved: Any) -> Any:
        return [x.to(self.device, copy=True) for x in saved]
