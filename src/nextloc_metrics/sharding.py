"""What processes that each hold a slice of the candidates must tell one another."""

from typing import Any

import torch
import torch.distributed
from torch import Tensor
from torch.nn.functional import pad

from nextloc_metrics.counting import highest, survey
from nextloc_metrics.first_places import Highest, merge
from nextloc_metrics.messages import short


def sum_over_processes(counts: Tensor, process_group: Any) -> Tensor:
    """Sum integers over the processes."""
    if _is_distributed():
        torch.distributed.all_reduce(counts, group=process_group)
    return counts


def exchange_scores(
    scores: Tensor, num_local: int, ids: Tensor, offset: int, top: int, process_group: Any
) -> tuple[Tensor, Tensor, int, Highest | None]:
    """Find the scores of the relevant locations, and the best candidates, in one collective.

    Args:
        scores: floating `[N, C_local]`, at least one column.
        num_local: how many of the columns are candidates.
        ids: int64 `[N, M]`, the relevant ids among all candidates, -1 for padding.
        offset: the id of the first column.
        top: how many of the first places to keep; 0 for none.
        process_group: the processes.

    Returns:
        The relevant locations' scores `[N, M]`, which of them any process has bool `[N, M]`, the
        number of all candidates, and the best of all candidates.
    """
    local = ids - offset
    is_here = (local >= 0) & (local < num_local)
    own = scores.gather(1, local.clamp(0, scores.shape[1] - 1)).masked_fill(~is_here, 0)
    columns = [own, is_here]
    if top:
        _, _, best_here = survey(scores, scores[:, :0], find_best=True)
        assert best_here is not None  # asked for
        best, first = highest(scores, best_here, top).numbered_from(offset)
        columns += [part[:, None] for part in best]
        if first is not None:
            missing = (0, top + 1 - first[0].shape[1])
            columns += [pad(first[0], missing, value=-torch.inf), pad(first[1], missing)]
    # float64 holds every score and id exactly, and one message carries them all; its last rows, the
    # first id and the number of candidates
    message = pad(torch.cat([column.double() for column in columns], 1), (0, 0, 0, 2))
    message[-2], message[-1] = offset, num_local
    gathered = _all_gather(message, process_group)
    num_candidates = _check_slices(gathered[:, -2:, 0].long().tolist())
    slices = torch.split(gathered[:, :-2], [column.shape[1] for column in columns], 2)
    found = None
    if top:
        # [S, N, T] -> [N, S * T]
        side_by_side = [part.transpose(0, 1).flatten(1) for part in slices[2:]]
        pairs = [
            (values.to(scores.dtype), numbers.long())
            for values, numbers in zip(side_by_side[::2], side_by_side[1::2], strict=True)
        ]
        first = pairs[1] if len(pairs) > 1 else None
        found = merge(pairs[0], first, min(top, num_candidates - 1))
    return slices[0].sum(0).to(scores.dtype), slices[1].sum(0) > 0, num_candidates, found


def _check_slices(slices: list[list[int]]) -> int:
    """Return the number of all candidates, or raise where slices overlap or leave a gap."""
    end = 0
    for offset, number in sorted((offset, number) for offset, number in slices if number):
        if offset != end:
            raise ValueError(
                "`offset` must be the number of candidates on the processes before, so that each "
                f"has one place, got a slice from {offset} on where {end} is due; slices are "
                f"(offset, candidates) {short(slices)}."
            )
        end += number
    return end


def _all_gather(message: Tensor, process_group: Any) -> Tensor:
    if not _is_distributed():
        return message[None]
    slices = [
        torch.empty_like(message)
        for _ in range(torch.distributed.get_world_size(group=process_group))
    ]
    torch.distributed.all_gather(slices, message, group=process_group)
    return torch.stack(slices)


def _is_distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()
