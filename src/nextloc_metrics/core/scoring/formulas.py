"""The formulas of scores, and their evaluation; the package `scoring` has the symbols."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.backends.reference import UNRETRIEVED
from nextloc_metrics.core.queries.arrays import must_not_sync, row_product, row_sum
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.core.ranking.needs import Needs
from nextloc_metrics.core.ranking.ranking import Ranking
from nextloc_metrics.core.scoring.weights import (
    SUMMED_RANKS,
    TABLE_LENGTH,
    Weight,
    between,
    discounts,
    first_of_several,
    row_start,
    table_of_sums,
)

Gain = Literal["linear", "exponential"]
Ideal = Literal["truncated", "full"]
Normalizer = Literal["min", "relevant"]
Denominator = Literal["k", "retrieved"]
SumOver = Literal["first", "all", "precision"]
Divisor = Literal[
    "1",
    "k",
    "n",
    "min(n, k)",
    "(n + k) / 2",
    "retrieved",
    "ideal",
    "full ideal",
    "gains",
    "best gains",
]

# The divisors of scores whose weights are multiplied by gains.
_OF_GAINS = ("ideal", "full ideal", "gains", "best gains")

# The most float64 numbers of a temporary tensor: half a megabyte on the CPU; enough for a device.
_NUMBERS, _NUMBERS_ON_DEVICES = 1 << 16, 1 << 22

# A bound on the number of candidates, where reading it would wait for the device.
_MOST_CANDIDATES = 1 << 31

# The text of each part of a formula.
_NAMES = {
    "count": "1",
    "harmonic": "1 / rank",
    "discount": "1 / log2(rank + 1)",
    "first": "the first relevant one",
    "all": "each relevant one, summed",
    "precision": "each relevant one x the relevant ones up to it, summed",
    "ideal": "the DCG of the best min(n, k)",
    "full ideal": "the DCG of the best n",
    "gains": "the gains of all n",
    "best gains": "the gains of the best min(n, k)",
    "retrieved": "min(k, list length)",
}


class Formula(NamedTuple):
    """The formula of a query's score: a weight per rank, a sum over locations, and a divisor.

    A rank has the weight 1 (`"count"`), 1 / rank (`"harmonic"`) or 1 / log2(rank + 1)
    (`"discount"`), and 0 beyond rank `k`. A relevant location has the mean weight of its tied
    block's ranks. The score is the weight of the first location, the sum over all locations, or
    the sum of each weight times the number of relevant locations up to its rank (`"precision"`);
    divided by `over`. `"precision"` is for the weight `"harmonic"` only.

    Attributes:
        weight: the weight of a rank.
        k: the last rank that counts; None for no cut-off.
        of: the relevant locations that count.
        over: the divisor; with an ideal or gains, each weight is multiplied by the location's gain.
        gain: the gain of a grade.
    """

    weight: Weight
    k: int | None
    of: SumOver
    over: Divisor
    gain: Gain = "linear"

    def __str__(self) -> str:
        """Return the mathematics in one line."""
        weight, locations = _NAMES[self.weight], _NAMES[self.of]
        cut = "" if self.k is None else f", 0 beyond rank {self.k}"
        gain = "gain" if self.gain == "linear" else "(2^gain - 1)"
        if self.over in _OF_GAINS:
            weight = weight.replace("1", gain, 1)
        over = "" if self.over == "1" else f", divided by {_NAMES.get(self.over, self.over)}"
        weight += " for" if weight == "1" else " of"
        return f"{weight} {locations}{cut}{over}; ties: mean over orders"

    @property
    def needs(self) -> Needs:
        """The parts of a ranking that the score reads."""
        first = self.k if self.k is not None and self.over == "retrieved" else 0
        return Needs(top=first, depth=self.k)


def evaluate(ranking: Ranking, formulas: Sequence[Formula]) -> Tensor:
    """Score every query with several formulas, float64 `[len(formulas), N]`."""
    width = max(ranking.above.shape[1], _most_relevant(ranking))
    numbers = _NUMBERS_ON_DEVICES if must_not_sync(ranking.above) else _NUMBERS
    rows = max(1, numbers // 4 // width)
    number = len(ranking.above)
    if number <= rows:
        return _evaluate(ranking, formulas)
    parts = (ranking[row : row + rows] for row in range(0, number, rows))
    return torch.cat([_evaluate(part, formulas) for part in parts], 1)


def _evaluate(ranking: Ranking, formulas: Sequence[Formula]) -> Tensor:
    """Evaluate formulas for few queries; intermediate tensors are shared between formulas."""
    if max(ranking.above.shape[1], _most_relevant(ranking)) == 1 and ranking.grades is None:
        scores_of_one = _evaluate_one(ranking, tuple(formulas))
        if scores_of_one is not None:
            return scores_of_one
    blocks = _retrieved(ranking)
    tied = blocks.tied.double()
    results: dict[Any, Any] = {}

    def once(key: Any, make: Callable[[], Any]) -> Any:
        if key not in results:
            results[key] = make()
        return results[key]

    scores = []
    for formula in formulas:
        _check_weight(formula)
        last = _last(formula.k, ranking.num_candidates)
        ends = once(last, partial(_ends, blocks, last))
        start, end = ends
        weights = end - start
        if formula.weight != "count":
            of_ranks = partial(between, formula.weight, start, end, last)
            weights = once((formula.weight, last), of_ranks)
        if formula.of == "first":
            score = weights[:, 0] / tied[:, 0]
            if blocks.above.shape[1] > 1:
                score = _of_first_block(blocks, ends, last, formula.weight, score)
        elif formula.of == "precision" and blocks.above.shape[1] > 1:
            slope = (blocks.relevant_tied - 1).double() / (blocks.tied - 1).clamp(min=1)
            value = (blocks.relevant_above + 1 - slope * (blocks.above + 1)) * weights
            score = row_sum((value + slope * (end - start)) / tied)
        else:
            value = weights / tied
            if ranking.grades is not None and formula.over in _OF_GAINS:
                gains = once(formula.gain, partial(_gains, ranking, formula.gain))
                value = gains[:, : value.shape[1]] * value
            score = row_sum(value)
        key = formula.over, formula.k, formula.gain
        divisor = once(key, partial(_divisor, ranking, formula))
        scores.append(score if divisor is None else score / divisor)
    return torch.stack(scores)


def _evaluate_one(ranking: Ranking, formulas: tuple[Formula, ...]) -> Tensor | None:
    """Evaluate all formulas at once where a query has at most one relevant location."""
    constants = _constants(formulas, ranking.num_candidates, ranking.above.device)
    if constants is None:
        return None
    table, last, start, divisor = constants
    above, tied = ranking.above.T, ranking.tied.T
    begin, end = above.minimum(last) + start, (above + tied).minimum(last) + start
    return (table.take(end) - table.take(begin)) / tied / divisor


@lru_cache
def _constants(
    formulas: tuple[Formula, ...], num_candidates: int | None, device: torch.device
) -> list[Tensor] | None:
    """Return the constants of `for_one_relevant` on a device; columns have a row per formula."""
    constants = for_one_relevant(formulas, num_candidates)
    if constants is None:
        return None
    _, *columns = (torch.from_numpy(x).to(device)[:, None] for x in constants)
    return [table_of_sums(device), *columns]


def _check_weight(formula: Formula) -> None:
    """Raise for a sum of precisions with a weight for which no mean over orders is known."""
    if formula.of == "precision" and formula.weight != "harmonic":
        raise ValueError(
            f"`weight` must be 'harmonic' for `of='precision'`, got {short(formula.weight)}."
        )


def _divisor(ranking: Ranking, formula: Formula) -> Tensor | float | None:
    """Return the divisor of a formula for every query, or a number for all; None for 1."""
    over, k, number = formula.over, formula.k, ranking.num_relevant
    if over == "n":
        return number.clamp(min=1)
    if over == "1" or k is None:
        return None
    if over == "k":
        return float(k)
    if over == "min(n, k)":
        return number.clamp(min=1, max=min(k, UNRETRIEVED))
    if over == "(n + k) / 2":
        return (number.double() + float(k)) / 2
    if over == "retrieved":
        return ranking.top_candidates(k).retrieved.clamp(min=1, max=min(k, UNRETRIEVED))
    bound = _most_relevant(ranking)
    cut = min(k, bound) if over in ("ideal", "best gains") else bound
    if ranking.grades is None:
        gains = (torch.arange(cut, device=number.device) < number[:, None]).double()
    else:
        gains = _gains(ranking, formula.gain).sort(dim=1, descending=True).values[:, :cut]
    if over in ("ideal", "full ideal"):
        gains = gains * discounts(gains.shape[1], gains.device)
    best = row_sum(gains)
    return best.masked_fill(best == 0, 1)


@lru_cache
def for_one_relevant(
    formulas: tuple[Formula, ...], num_candidates: int | None
) -> tuple[Any, Any, Any, Any] | None:
    """Return the constants of formulas for one relevant location per query, as NumPy arrays.

    These are the table of summed weights, and for each formula the last rank, the start of its
    weight in the table, and the divisor. None if the table is too short, or a divisor varies.
    """
    for formula in formulas:
        _check_weight(formula)
    last = [_last(formula.k, num_candidates) for formula in formulas]
    varies = any(formula.over == "retrieved" for formula in formulas)
    if varies or max(last, default=0) > TABLE_LENGTH:
        return None
    start = [row_start(formula.weight) for formula in formulas]
    of_k = {"k": lambda k: float(k), "(n + k) / 2": lambda k: (1 + float(k)) / 2}
    divisor = [of_k[f.over](f.k) if f.over in of_k else 1.0 for f in formulas]
    table = table_of_sums(torch.device("cpu")).numpy()
    return table, np.array(last), np.array(start), np.array(divisor)


@lru_cache
def for_lists(formulas: tuple[Formula, ...], width: int) -> tuple[Any, Any, Any] | None:
    """Return the constants of formulas for lists, as NumPy arrays; see `Reference.tally_lists`.

    `width` is the largest number of relevant locations. None if a divisor depends on the lists.
    """
    if any(formula.over == "retrieved" for formula in formulas):
        return None
    kinds, numbers = get_args(SumOver), torch.arange(width + 1)
    ranking = replace(Ranking.from_ranks(numbers), num_relevant=numbers, most_relevant=width)
    rows, divisors = [], torch.ones(len(formulas), width + 1, dtype=torch.float64)
    for formula, row in zip(formulas, divisors, strict=True):
        _check_weight(formula)
        last = _last(formula.k, TABLE_LENGTH)
        rows.append((row_start(formula.weight), last, kinds.index(formula.of)))
        divisor = _divisor(ranking, formula)
        if divisor is not None:
            row.copy_(torch.as_tensor(divisor))
    table = table_of_sums(torch.device("cpu")).numpy()
    return table, np.array(rows), divisors.numpy()


def hits(ranking: Ranking, k: int) -> Tensor:
    """Count the relevant locations within the first k ranks: the sum over them of m / e.

    Unlike other scores it is not a fraction but a number of locations, at most `min(n, k)`.
    """
    return evaluate(ranking, [Formula("count", k, "all", "1")])[0]


def accuracy(ranking: Ranking, k: int) -> Tensor:
    """Score 1 if any relevant location is within the first k ranks (hit rate).

    The probability that none of the `r` relevant ones of the first block is on its first `m`
    ranks is C(e - r, m) / C(e, m), a product of `r` fractions.
    """
    return evaluate(ranking, [Formula("count", k, "first", "1")])[0]


def reciprocal_rank(ranking: Ranking, k: int | None = None) -> Tensor:
    """Invert the rank of the first relevant location: 1 / rank, 0 beyond rank k.

    For one relevant location in the first block it is (H(A + m) - H(A)) / e; for several, the sum
    over q = 1..m of C(e - q, r - 1) / C(e, r) / (A + q).
    """
    return evaluate(ranking, [Formula("harmonic", k, "first", "1")])[0]


def ndcg(ranking: Ranking, k: int, gain: Gain = "linear", ideal: Ideal = "truncated") -> Tensor:
    """Discount each gain by 1 / log2(rank + 1), and divide by the ideal DCG.

    DCG@k is the sum over the relevant ones of g (L(min(A + e, k)) - L(min(A, k))) / e. The ideal
    DCG has the best min(n, k) gains on the first ranks (`ideal="full"`: all n).
    """
    over: Divisor = "ideal" if ideal == "truncated" else "full ideal"
    return evaluate(ranking, [Formula("discount", k, "all", over, gain)])[0]


def average_precision(ranking: Ranking, k: int, normalizer: Normalizer = "min") -> Tensor:
    """Average the precision at each relevant location's rank, over the first k ranks.

    The sum over the relevant ones of ((R + 1 - c (A + 1)) (H(A + m) - H(A)) + c m) / e with
    c = (r - 1) / (e - 1), divided by min(n, k) (`normalizer="relevant"`: by n).
    """
    over: Divisor = "min(n, k)" if normalizer == "min" else "n"
    return evaluate(ranking, [Formula("harmonic", k, "precision", over)])[0]


def precision(ranking: Ranking, k: int, denominator: Denominator = "k") -> Tensor:
    """Divide the hits within the first k ranks by k (`"retrieved"`: by min(k, list length))."""
    return evaluate(ranking, [Formula("count", k, "all", denominator)])[0]


def recall(ranking: Ranking, k: int, normalized: bool = False, weighted: bool = False) -> Tensor:
    """Divide the hits within the first k ranks by n (normalized: by min(n, k)).

    Weighted: divide the gains of the hits by those of all n (normalized: of the best min(n, k)).
    """
    over: Divisor = "min(n, k)" if normalized else "n"
    if weighted:
        over = "best gains" if normalized else "gains"
    return evaluate(ranking, [Formula("count", k, "all", over)])[0]


def f1(ranking: Ranking, k: int) -> Tensor:
    """Take the harmonic mean of precision and recall at k: 2 hits / (k + n)."""
    return evaluate(ranking, [Formula("count", k, "all", "(n + k) / 2")])[0]


def _gains(ranking: Ranking, gain: Gain) -> Tensor:
    """Return the gains of graded locations, by column, float64."""
    assert ranking.grades is not None
    # an unchecked grade may be infinite; in a Ranking made by hand, it may be NaN or negative
    grades = gains = ranking.grades.double().nan_to_num(nan=0.0).clamp(min=0)
    if gain == "exponential":  # 2^grade - 1, divided by a power of two, so that it stays finite
        scale = grades.amax(1, keepdim=True).floor()
        large = torch.exp2(grades - scale) - torch.exp2(-scale)
        # below 1 the difference loses digits; below 2^-53 it loses all of them
        small = torch.expm1(grades * math.log(2)) * torch.exp2(-scale)
        gains = torch.where(grades < 1, small, large)
    # a division by a power of two per query cancels exactly in the score, and no sum overflows
    highest = gains.amax(1, keepdim=True)
    mantissa, _ = torch.frexp(highest)
    return torch.where(highest > 0, gains / (highest / (2 * mantissa)), gains)


def _most_relevant(ranking: Ranking) -> int:
    """Return a bound on the number of relevant locations per query, with dropped columns."""
    bound = ranking.most_relevant
    return ranking.above.shape[1] if bound is None else bound


def _retrieved(ranking: Ranking) -> Ranking:
    """Drop the columns in which no query has a retrieved location: they score 0."""
    if ranking.above.shape[1] == 1 or not len(ranking.above) or must_not_sync(ranking.above):
        return ranking
    width = max(1, int((ranking.above.amin(0) < UNRETRIEVED).sum()))
    names = ["above", "tied", "relevant_above", "relevant_tied", "relevant"]
    names += [] if ranking.grades is None else ["grades"]
    return replace(ranking, **{name: getattr(ranking, name)[:, :width] for name in names})


def _last(k: int | None, num_candidates: int | None) -> int:
    """Return the last rank that counts: k, or the rank of the last candidate."""
    return min(rank for rank in (k, num_candidates, UNRETRIEVED) if rank is not None)


def _ends(ranking: Ranking, last: int) -> tuple[Tensor, Tensor]:
    """Return the number of ranks before each tied block, and up to its end, both at most `last`."""
    return ranking.above.clamp(max=last), (ranking.above + ranking.tied).clamp(max=last)


def _of_first_block(
    blocks: Ranking, ends: tuple[Tensor, Tensor], last: int, weight: Weight, score: Tensor
) -> Tensor:
    """Replace scores of the first relevant location where it is tied with other relevant ones."""
    tied, relevant, above = (x[:, 0] for x in (blocks.tied, blocks.relevant_tied, blocks.above))
    first = tied, relevant, (ends[1] - ends[0])[:, 0], above
    if weight == "count":
        width = blocks.above.shape[1]  # temporary elements per query
        of_several = partial(_any_of_several, max_relevant=width)
    else:
        width, of_several = SUMMED_RANKS, partial(_first_weight, last=last, weight=weight)
    if must_not_sync(score):
        rows, numbers = torch.arange(len(score), device=score.device), _NUMBERS_ON_DEVICES
    else:
        rows, numbers = (relevant > 1).nonzero()[:, 0], _NUMBERS
        if not len(rows):
            return score
    parts = torch.split(rows, max(1, numbers // width))
    new = torch.cat([of_several(*(x[part] for x in first)) for part in parts])
    return torch.where(relevant > 1, score.index_copy(0, rows, new), score)


def _any_of_several(
    tied: Tensor, relevant: Tensor, within: Tensor, _above: Tensor, max_relevant: int
) -> Tensor:
    """Return the probability that one of several relevant ones is on the first ranks."""
    number = max_relevant if must_not_sync(tied) else int(relevant.max())
    step = torch.arange(number, device=tied.device)
    missed = (tied - within).double()[:, None].sub(step).clamp_(min=0)
    missed.div_(tied.double()[:, None].sub(step).clamp_(min=1))
    return 1 - row_product(missed.masked_fill_(step >= relevant[:, None], 1))


def _first_weight(
    tied: Tensor, relevant: Tensor, within: Tensor, above: Tensor, last: int, weight: Weight
) -> Tensor:
    """Return the expected weight of the rank of the first of several relevant ones."""
    longest = min(last, _MOST_CANDIDATES)
    if not must_not_sync(tied):
        longest = int(torch.minimum(within, tied - relevant + 1).max())
    above, tied, relevant, within = (x.double() for x in (above, tied, relevant, within))
    return first_of_several(above, tied, relevant, within, longest, weight)
