"""Scores that no `Formula` can write, as closed forms on tied blocks; `scoring` has the symbols.

`L` is the length of a ranking, the number of its candidates.
"""

import math

import torch
from torch import Tensor

from nextloc_metrics.core.backends.reference import UNRETRIEVED
from nextloc_metrics.core.queries.arrays import row_sum
from nextloc_metrics.core.ranking.ranking import Ranking
from nextloc_metrics.core.scoring.weights import between


def first_rank(ranking: Ranking) -> Tensor:
    """Return the expected rank of the first relevant location: A + (e + 1) / (r + 1).

    It is L + 1 if no relevant location is retrieved, and infinite then if L is not known.
    """
    above, tied, relevant = (x[:, 0] for x in (ranking.above, ranking.tied, ranking.relevant_tied))
    rank = above.double() + (tied + 1).double() / (relevant + 1)
    beyond = ranking.lengths.double() + 1 if ranking.has_lengths else torch.inf
    return torch.where(above < UNRETRIEVED, rank, beyond)


def r_precision(ranking: Ranking) -> Tensor:
    """Divide the hits within the first n ranks by n: the sum of min(max(n - A, 0), e) / e, by n."""
    number = ranking.num_relevant.clamp(min=1)
    within = (number[:, None] - ranking.above).clamp(min=0).minimum(ranking.tied)
    return row_sum(within.double() / ranking.tied) / number


def rank_biased_precision(ranking: Ranking, p: float, k: int | None = None) -> Tensor:
    """Sum (1 - p) p^(rank - 1) over the relevant ones: p^A (1 - p^m) / e."""
    last = UNRETRIEVED if k is None else min(k, UNRETRIEVED)
    within = (last - ranking.above).clamp(min=0).minimum(ranking.tied).double()
    logarithm = math.log(p)
    weight = (ranking.above.double() * logarithm).exp() * -torch.expm1(within * logarithm)
    return row_sum(weight / ranking.tied)


def auc(ranking: Ranking, others: Tensor) -> Tensor:
    """Return the share of pairs, relevant and other, in the right order; ties count half.

    Of J `others`, int64 `[N]`, A - R are above a relevant one, and e - r are tied with it. A
    relevant one that is not retrieved is below all others.
    """
    above, tied = ranking.above - ranking.relevant_above, ranking.tied - ranking.relevant_tied
    right = ((others[:, None] - above).double() - tied.double() / 2).clamp(min=0)
    right = row_sum(right.masked_fill(ranking.above == UNRETRIEVED, 0))
    return right / (ranking.num_relevant * others).clamp(min=1)


def expected_reciprocal_rank(ranking: Ranking, k: int, max_grade: float = 1.0) -> Tensor:
    """Sum P(stop at rank) / rank over the first k ranks, for a user who reads down the ranking.

    A candidate of grade g stops the user with probability s = (2^g - 1) / 2^G, with G =
    `max_grade`. In a tied block the order is random. The number t of relevant ones on the first q
    of its e ranks is hypergeometric; if it is t, the user goes on with the mean probability over
    all choices of t of the block's relevant ones, each the product of their 1 - s.
    """
    last = min(k, max(1, ranking.num_candidates or k))
    grades = ranking.gains.double().nan_to_num(nan=0.0).clamp(0, max_grade)
    stops = torch.expm1(grades * math.log(2)) * 2.0**-max_grade
    total = torch.zeros(len(ranking), dtype=torch.float64, device=ranking.device)
    reaches = torch.ones_like(total)  # the probability that the user reaches the block
    onward = torch.ones_like(total)  # and that of going on after the block's relevant ones so far
    # column t has the mean product over all choices of t of the block's 1 - s
    products = torch.zeros(len(ranking), last + 1, dtype=torch.float64, device=ranking.device)
    products[:, 0] = 1
    chosen = torch.arange(last + 1, device=ranking.device).double()
    ranks = ranking.above, ranking.tied, ranking.relevant_above, ranking.relevant_tied
    for column in range(ranking.above.shape[1]):
        above, tied, before, number = (x[:, column] for x in ranks)
        retrieved = above < UNRETRIEVED
        go_on = 1 - stops[:, column]
        inside = (column - before + 1).clamp(min=1).double()  # how many of the block are added
        onward = onward * torch.where(retrieved, go_on, 1.0)
        with_this_one = torch.nn.functional.pad(products[:, :-1], (1, 0)) * go_on[:, None]
        share = (chosen / inside[:, None]).clamp(max=1)  # the share of choices with this one
        products = (1 - share) * products + share * with_this_one
        ends = retrieved & (column - before + 1 == number)
        # a block with one relevant location adds s (H(A + m) - H(A)) / e
        start, end = above.clamp(max=last), (above + tied).clamp(max=last)
        score = stops[:, column] * between("harmonic", start, end, last) / tied
        several = (ends & (number > 1) & (above < last)).nonzero()[:, 0]
        if len(several):
            block = (x[several] for x in (above, tied, number, products))
            score = score.index_copy(0, several, _of_several(last, *block))
        total = total + torch.where(ends, reaches * score, 0.0)
        reaches = torch.where(ends, reaches * onward, reaches)
        onward = torch.where(ends, 1.0, onward)
        of_new_block = torch.zeros_like(products)
        of_new_block[:, 0] = 1
        products = torch.where(ends[:, None], of_new_block, products)
    return total


def _of_several(last: int, above: Tensor, tied: Tensor, number: Tensor, products: Tensor) -> Tensor:
    """Return the sum that a block with several relevant locations adds, if the user reaches it."""
    above, tied, number = (x.double()[:, None] for x in (above, tied, number))
    drawn = torch.zeros_like(products)  # the probability of t relevant ones on the first q ranks
    drawn[:, 0] = 1
    seen = torch.arange(products.shape[1], device=products.device).double()
    reaches, total = torch.ones_like(above[:, 0]), torch.zeros_like(above[:, 0])
    for q in range(1, last + 1):
        left = (tied - q + 1).clamp(min=1)
        is_relevant = ((number - seen).clamp(min=0) / left).clamp(max=1)  # probability at rank q
        moved = torch.nn.functional.pad((drawn * is_relevant)[:, :-1], (1, 0))
        drawn = drawn * (1 - is_relevant) + moved
        goes_on = row_sum(drawn * products)
        counts = (q <= tied[:, 0]) & (above[:, 0] + q <= last)
        total = total + torch.where(counts, (reaches - goes_on) / (above[:, 0] + q), 0.0)
        reaches = goes_on
    return total
