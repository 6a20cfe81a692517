"""The check of a backend at its first use in a process, so that it may be slow but never wrong.

The backend answers a small fixed batch: ties, NaN, -0.0 and infinities, in four dtypes. If an
answer differs from that of `reference`, or raises, the process uses `reference` instead.

There is no lock, which a forked process would inherit: threads that meet here all make the check.
"""

import platform
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.backends.reference import UNRETRIEVED, Reference

#: pairs of a name and of what a backend answers
Proofs = Iterator[tuple[str, Sequence[Any]]]

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)

#: the reasons why backends are disabled in this process, by name
disabled: dict[str, str] = {}

# More columns than one block of any backend, and not a multiple of one.
_COLUMNS = 523


def passes(backend: Reference) -> bool:
    """Return whether a backend answers the batch as `reference` does; else warn and disable it."""
    if backend.name in disabled:
        return False
    try:
        wrong = _difference(backend)
    except Exception as error:  # a library, a compiler or a driver may raise anything
        wrong = f"raises {error!r}"
    backend.is_proven = wrong is None
    if wrong is not None:
        disable(backend.name, wrong)
    return backend.is_proven


def disable(name: str, reason: str) -> None:
    """Disable a backend in this process, and warn once."""
    reason = f"{reason} on {platform.system()} {platform.machine()}"
    if disabled.setdefault(name, reason) is reason:  # in one of two threads that meet here
        warnings.warn(
            f"the backend {name!r} {reason}. It is disabled in this process: `reference` replaces "
            "it, with the same results but slower. Reinstall nextloc-metrics (for 'cpu') or "
            "PyTorch (for 'cuda') for this machine, or set NEXTLOC_BACKEND=reference.",
            stacklevel=2,
        )


def make_scores() -> Tensor:
    """Return the scores of the batch, float64 `[N, C]`; every dtype holds the same numbers."""
    row, column = np.arange(8)[:, None], np.arange(_COLUMNS)
    scores = ((row * 41 + column * 97) % 61 - 30) / 4
    scores[1, 3::100] = np.nan
    scores[1, 5::200] = -np.nan
    scores[2, ::2], scores[2, 1::4] = -0.0, 0.0
    scores[3, ::7], scores[3, 3::7] = -np.inf, np.inf
    scores[4], scores[5] = -np.inf, 1.0
    scores[6, 8::9] = 8.0
    scores[7, 20] = np.nan
    return torch.from_numpy(scores)  # unlike `torch.tensor`, never on a default device


def _difference(backend: Reference) -> str | None:
    """Return where a backend first differs from `reference`, or None."""
    with torch.no_grad():
        both = zip(_answers(backend), _answers(Reference()), strict=True)
        for (name, answer), (_, wanted) in both:
            if not _are_equal(answer, wanted):
                return f"differs from `reference` in {name}"
    return None


def _are_equal(found: Sequence[Any], expected: Sequence[Any]) -> bool:
    return len(found) == len(expected) and all(map(torch.equal, found, expected))


def _answers(backend: Reference) -> Proofs:
    """Yield the answers for scores and integers, with infinity for NaN, which equals nothing."""
    for dtype in DTYPES:
        scores = _rows(make_scores(), dtype)
        relevant = scores.gather(1, _RELEVANT)
        several = backend.survey(scores, relevant, True)
        single = backend.survey(scores, relevant[:, :1], True)
        counts = backend.survey(scores, relevant, False)[:2]  # other loops do not find the best
        yield f"`survey` of {dtype}", (*several, *single, *counts)
        values, ids = backend.first(scores, 9)
        yield f"`first` of {dtype}", (values.double().nan_to_num(torch.inf, torch.inf), ids)
        bins = torch.from_numpy(np.arange(_COLUMNS) % 7)
        of_rows = (_TARGET % 7).where(relevant[:, 0] > -torch.inf, -1)
        for most in (0, 4):
            answer = backend.survey_bins(scores, relevant[:, 0], (bins, of_rows), 30, most)
            yield f"`survey_bins` of {dtype}", answer
        tally = backend.tally_scores if backend.tallies_scores else _tally
        arguments = scores, _TARGET, _IGNORED, _FORMULAS, _COLUMNS
        yield f"`tally_scores` of {dtype}", tally(*arguments) or ()
    for name, arguments in _INTEGERS:
        answer = getattr(backend, name)(*arguments)
        every = answer if isinstance(answer, tuple) else (answer,)
        yield f"`{name}`", tuple(x for x in every if x is not None)


def check_survey(
    survey: Callable[[Tensor, Tensor, bool], tuple[Tensor, Tensor]],
    device: torch.device,
    dtype: torch.dtype,
) -> None:
    """Raise if a kernel for one device and dtype answers the batch otherwise than `reference`.

    It returns `above` and `tied` in one tensor `[2, N, M]`, and `best`.
    """
    scores = make_scores()
    rows = _rows(scores, dtype, device)
    for width in (1, 3):
        relevant = scores.gather(1, _RELEVANT[:, :width])
        counts, best = survey(rows, relevant.to(device, dtype), True)
        answer = *counts.cpu().masked_fill(relevant.isnan(), 0), best.cpu()  # a NaN counts nothing
        above, tied, first = Reference().survey(scores, relevant, True)
        expected = above.masked_fill(relevant.isnan(), 0), tied, first
        if not _are_equal(answer, expected):
            raise RuntimeError(f"it differs from `reference` in {dtype}")


def _rows(scores: Tensor, dtype: torch.dtype, device: torch.device | str = "cpu") -> Tensor:
    """Return the scores in rows that are not adjacent in memory."""
    wide = torch.nn.functional.pad(scores, (1, 2), value=9.0)
    return wide.to(device, dtype)[:, 1:-2]


def _discounts() -> Any:
    """Return the sums of 1 / rank, and then of 1 / log2(rank + 1), over the first ranks."""
    rank = np.arange(1, _COLUMNS + 1)
    weights = 1 / rank, 1 / np.log2(rank + 1)
    return np.concatenate([np.concatenate([[0], np.cumsum(weight)]) for weight in weights])


# The table, the last rank of each formula, the start of its weight, and its divisor.
_FORMULAS = (
    _discounts(),
    np.array([_COLUMNS, 10, 300]),
    np.array([0, 0, _COLUMNS + 1]),
    np.array([1.0, 3.0, 77.0]),
)


def _tally(scores: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    """Return the answer of `tally_scores` by its definition."""
    kept = _TARGET != _IGNORED
    scores, target = scores[kept], _TARGET[kept]
    relevant_scores = scores.gather(1, target[:, None])
    above, tied, best = Reference().survey(scores, relevant_scores, True)
    assert best is not None
    lost = ~(relevant_scores > -torch.inf)
    above, tied = above.masked_fill(lost, UNRETRIEVED), tied.masked_fill(lost, 1)
    table, last, start, divisor = map(torch.from_numpy, _FORMULAS)
    first, end = above.minimum(last) + start, (above + tied).minimum(last) + start
    values = (table[end] - table[first]) / tied.double() / divisor
    fixed = [(one * 2**32 + 0.5).long().sum(0) for one in (values, values * values)]
    sums = torch.stack([*fixed, torch.full_like(fixed[0], len(values))], dim=1)
    decided = ~(scores.amax(1) == -torch.inf) & ~scores.isnan().any(1)
    kinds = best[decided & (best == target)], best[decided], target
    return sums, torch.stack([ids.bincount(minlength=_COLUMNS + 1) for ids in kinds])


def _ids(rows: int, columns: int) -> Tensor:
    return torch.from_numpy(np.arange(rows * columns).reshape(rows, columns) * 37 % 29 - 1)


#: relevant ids `[N, 3]`; the first id of the first query is in no other query
_RELEVANT = torch.from_numpy(
    np.array(
        [
            [511, 0, 522],
            [4, 303, 5],  # beside one NaN, and beside two
            [0, 1, 3],  # -0.0, 0.0 and another
            [7, 10, 12],  # -inf, inf and another
            [0, 1, 2],
            [1, 510, 522],
            [8, 9, 522],
            [20, 21, 22],  # a NaN
        ]
    )
)

_TARGET, _IGNORED = _RELEVANT[:, 0].contiguous(), int(_RELEVANT[0, 0])

_LISTS = torch.from_numpy(np.array([[4, 7, -1, 4, 0], [3, 2, 1, 0, 9], [5, -1, -1, -1, -1]]))
_ROWS = np.array([[0, _COLUMNS, 0], [_COLUMNS + 1, 4, 1], [0, 5, 2]])
_DIVISORS = np.arange(12.0).reshape(3, 4) + 0.7

#: the functions of integers, and their arguments
_INTEGERS: list[tuple[str, Any]] = [
    ("find", (_ids(5, 9), _ids(4, 5).T)),
    ("find_true", (_ids(5, 13) > 20,)),
    ("sort", (_ids(5, 40) << 31,)),
    ("argsort", (_ids(5, 40) + 1,)),
    ("histogram", (_ids(5, 40).flatten() + 1, 40)),
    (
        "tally_lists",
        (
            _LISTS,
            torch.from_numpy(np.array([[0, 4, 8], [-1, 2, -1], [6, -1, 7]])),
            (_discounts(), _ROWS, _DIVISORS),
        ),
    ),
    (
        "tally_lists",  # each has one relevant id; 3 and 5 are decisions for no location
        (
            _LISTS,
            torch.from_numpy(np.array([[0], [2], [1]])),
            (_discounts(), _ROWS, _DIVISORS[:, :2].copy()),
            3,
        ),
    ),
]
