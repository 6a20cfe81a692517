"""Conversion of `target`, in any of its forms, to padded ids of the relevant locations."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core import backends
from nextloc_metrics.core.queries.arrays import as_tensor, must_not_sync, per_query
from nextloc_metrics.core.queries.batch import Batch
from nextloc_metrics.core.queries.checks import from_one
from nextloc_metrics.core.queries.messages import describe, got, short


@dataclass(eq=False)
class Relevant:
    """The relevant locations of a batch of N queries, at most M each."""

    ids: Tensor  #: int64 `[N, M]`, -1 for padding
    grades: Tensor | None  #: floating `[N, M]`, 0 for padding; None without grades
    counted: Tensor  #: bool `[N]`, False for skipped queries

    @property
    def number(self) -> Tensor:
        """The number of relevant locations per query, int64 `[N]`."""
        return (self.ids >= 0).sum(1)

    @property
    def max_number(self) -> int:
        """M, a bound on the number of relevant locations per query."""
        return self.ids.shape[1]


def read_target(batch: Batch, num_candidates: int | None) -> Relevant:
    """Convert any form of `target` to ids; `Ranking.from_scores` lists the forms."""
    preds, target, mask = batch.preds, batch.target, batch.mask
    ignore_index, validate_args = batch.ignore_index, batch.validate_args
    _check_form(batch, num_candidates)
    has_ids, queries = batch.has_ids, preds.shape[:-1]
    counted = counted_by(mask, queries, target.device)
    grades = None
    if has_ids:
        padded = target.shape != queries
        ids = target.reshape(queries.numel(), target.shape[-1] if padded else 1).long()
        if ids.shape[1] == 0:
            ids = torch.full_like(counted[:, None], -1, dtype=torch.int64)
        if mask is not None:
            ids = torch.where(counted[:, None], ids, -1)
        if batch.grades is not None:
            ids, grades = _with_grades(ids, as_tensor("grades", batch.grades), batch, counted)
    else:
        relevance = target.detach().reshape(queries.numel(), target.shape[-1])
        if validate_args and target.is_floating_point():
            _check_relevance(relevance, counted)
        ids, grades = positive_columns(relevance, None if mask is None else counted)
        padded = True
    # bool and floating targets have no ids of their own: -1 is padding there, not `ignore_index`
    if ignore_index is not None and (ignore_index >= 0 or has_ids):
        ignored = ids == ignore_index
        ids = ids.masked_fill(ignored, -1)
        counted = counted & ((ids != -1).any(1) | ~ignored.any(1))
        grades = None if grades is None else grades.masked_fill(ignored, 0)
    if validate_args:
        if has_ids:
            _check_not_relevance(ids, num_candidates)
        _check_range(ids, counted, num_candidates, padded)
    in_order = not has_ids and ignore_index is None
    if grades is None and not in_order:
        ids = _sort_ids(ids) if ids.shape[1] > 1 else ids.clone()
    return Relevant(ids, grades, counted)


def _with_grades(
    ids: Tensor, grades: Tensor, batch: Batch, counted: Tensor
) -> tuple[Tensor, Tensor]:
    """Sort ids and their grades by id; an id becomes -1 if its grade is 0 or it is a repeat."""
    if grades.shape != batch.target.shape or grades.is_complex():
        raise ValueError(
            "`grades` must be numbers in the shape of `target`, got "
            f"{describe(grades)} for {describe(batch.target)}."
        )
    grades = grades.detach().reshape(ids.shape).to(gain_dtype(ids.device))
    grades = grades.masked_fill(ids < 0, 0)
    if batch.validate_args:
        _check_relevance(grades, counted)
    ids, order = ids.masked_fill(~(grades > 0), -1).sort(dim=1, stable=True)
    repeated = torch.zeros_like(ids, dtype=torch.bool)
    repeated[:, 1:] = ids[:, 1:] == ids[:, :-1]
    ids = ids.masked_fill(repeated, -1)
    return ids, grades.gather(1, order).masked_fill(ids < 0, 0)


def slots_of_sizes(sizes: Tensor) -> Tensor:
    """Return bool `[N, M]`: true for the first `sizes[i]` of row i; M is the largest size, or 1."""
    longest = max(1, int(sizes.max())) if len(sizes) else 1
    return torch.arange(longest, device=sizes.device) < sizes[:, None]


def fill_slots(slots: Tensor, values: Tensor, padding: int) -> Tensor:
    """Write values `[L]` row by row to the L True slots `[N, M]`, and padding to the others."""
    rows = torch.full(slots.shape, padding, dtype=values.dtype, device=values.device)
    return rows.masked_scatter_(slots, values)


def _sort_ids(ids: Tensor) -> Tensor:
    """Sort ids `[N, M]` within their rows; repeats become -1. On the CPU, drop empty columns."""
    in_order = backends.choose(ids).sort(ids)
    if must_not_sync(ids):
        in_order[:, 1:].masked_fill_(in_order[:, 1:] == in_order[:, :-1], -1)
        return in_order
    array = in_order.numpy()
    if len(array) and array[:, 0].max() < 0:
        padding = np.count_nonzero((array < 0).all(0))
        array = array[:, min(padding, array.shape[1] - 1) :]
    np.copyto(array[:, 1:], -1, where=array[:, 1:] == array[:, :-1])
    return torch.from_numpy(array)


def counted_by(mask: Tensor | None, queries: torch.Size, device: torch.device) -> Tensor:
    """Return which queries count, bool `[N]`."""
    if mask is None:
        return torch.ones(queries.numel(), dtype=torch.bool, device=device)
    is_mask = isinstance(mask, Tensor) and mask.dtype == torch.bool
    flat = per_query("mask", mask, queries, "a bool tensor", is_mask)
    if mask.device != device:
        raise ValueError(f"`mask` must be on the device of `target`, {device}, got {mask.device}.")
    return flat.clone()


def counted_labels(batch: Batch) -> Tensor:
    """Return which queries count, bool `[N]`, where each query has one label."""
    counted = counted_by(batch.mask, batch.preds.shape, batch.preds.device)
    ignored = batch.ignore_index
    return counted if ignored is None else counted & (batch.target.flatten() != ignored)


def positive_columns(relevance: Tensor, counted: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Return the columns of values above 0, padded with -1, and these values if they are grades."""
    graded = relevance.is_floating_point()
    num_queries, num_candidates = relevance.shape
    positive = relevance > 0 if graded else relevance
    index = backends.choose(positive).find_true(positive)
    begins = num_candidates * torch.arange(num_queries + 1, device=index.device)
    sizes = torch.searchsorted(index, begins).diff()
    if counted is not None:
        index = index[counted.repeat_interleave(sizes, output_size=len(index))]
        sizes = sizes * counted
    ids = index - begins[:-1].repeat_interleave(sizes, output_size=len(index))
    slots = slots_of_sizes(sizes)
    if not graded:
        return fill_slots(slots, ids, -1), None
    grades = relevance.take(index).to(gain_dtype(index.device))
    return fill_slots(slots, ids, -1), fill_slots(slots, grades, 0)


def _check_form(batch: Batch, num_candidates: int | None) -> None:
    """Raise if `target` has a wrong type, device or shape."""
    preds, target = batch.preds, batch.target
    if not isinstance(target, Tensor) or target.is_complex():
        raise TypeError(
            f"`target` must be an integer, bool or floating tensor, {got('target', target)}."
        )
    if target.device != preds.device:
        raise ValueError(
            "`preds` and `target` must be on the same device, "
            f"got {preds.device} and {target.device}."
        )
    queries = preds.shape[:-1]
    if batch.has_ids:
        if target.shape != queries and (target.ndim != preds.ndim or target.shape[:-1] != queries):
            raise ValueError(
                "an integer `target` must have the shape of the queries, "
                f"{short(queries)}, or one more dimension for several ids per query, got "
                f"{describe(target)} for `preds` {describe(preds)}."
            )
    elif (
        target.ndim != preds.ndim
        or target.shape[:-1] != queries
        or num_candidates not in (None, target.shape[-1])
    ):
        width = "C" if num_candidates is None else num_candidates
        shape = short((*queries, width)).replace("'", "")
        raise ValueError(
            "a bool or floating `target` is the relevance of every candidate and must have shape "
            f"{shape}, got {describe(target)}; pass ids as integers."
        )


def _check_not_relevance(ids: Tensor, num_candidates: int | None) -> None:
    """Raise if ids are only 0 and 1 and as many as candidates: such integers are relevance."""
    if num_candidates != ids.shape[1] or num_candidates == 1:
        return
    wrong_rows = ((ids == 0) | (ids == 1)).all(1).nonzero()
    if wrong_rows.numel():
        raise ValueError(
            f"an integer `target` must hold ids, got {num_candidates} zeros and ones for the "
            f"{num_candidates} candidates of query {int(wrong_rows[0])}; pass relevance of "
            "candidates as `.bool()`, or pad ids with -1."
        )


def _check_relevance(relevance: Tensor, counted: Tensor) -> None:
    if not counted.all():
        relevance = relevance[counted]
    if not relevance.numel():
        return
    lowest, highest = (float(bound) for bound in relevance.aminmax())
    if not (lowest >= 0 and highest < torch.inf):  # a NaN is both bounds and compares false
        raise ValueError(
            "grades, such as a floating `target`, must be finite and at least 0, "
            f"got {lowest if lowest < 0 else highest}."
        )


def _check_range(ids: Tensor, counted: Tensor, num_candidates: int | None, padded: bool) -> None:
    if not ids.numel():
        return
    lowest, highest = (int(bound) for bound in ids.aminmax())
    if lowest == -1:  # padding, or a skipped query
        lowest = 0 if padded else int(ids.masked_fill(~counted[:, None], 0).amin())
    if lowest < 0 or (num_candidates is not None and highest >= num_candidates):
        bound = "" if num_candidates is None else f" and below the {num_candidates} candidates"
        padding = " (-1 pads)" if padded else ""
        is_form_odd = num_candidates is not None and lowest >= 0
        form = "; floating `preds` are scores, not lists of ids" if is_form_odd else ""
        remedy = _remedy(ids, lowest, num_candidates)
        raise ValueError(
            f"`target` must hold ids of at least 0{padding}{bound}, got "
            f"{lowest if lowest < 0 else highest}{remedy}{form}."
        )


def _remedy(ids: Tensor, lowest: int, num_candidates: int | None) -> str:
    """Return what to do about ids that are out of range; `lowest` is the lowest id that counts."""
    column = "`torch.nn.functional.pad(scores, (0, 1), value=-torch.inf)`"
    if lowest >= 0:
        unseen = f"; count locations that training never saw as misses: {column} adds one id for "
        return from_one(ids, num_candidates or 0) or f"{unseen}them all"
    miss = "name a location that is never retrieved"
    if num_candidates is not None:
        miss = f"add a column, {column}, and write its number, {num_candidates}"
    return (
        "; exclude queries without a location with `ignore_index` or `mask`; to count one as a "
        f"miss, {miss}"
    )


def gain_dtype(device: torch.device) -> torch.dtype:
    """Return the widest floating dtype of a device."""
    return torch.float32 if device.type == "mps" else torch.float64
