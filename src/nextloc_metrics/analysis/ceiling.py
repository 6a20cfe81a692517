"""How predictable users are: the limit of Song et al., from the entropy rate of their visits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.display.page import Result
from nextloc_metrics.core.display.reading import Reading
from nextloc_metrics.core.display.table import Table, of_readings
from nextloc_metrics.core.means import exact, intervals
from nextloc_metrics.core.queries.arrays import Array, as_tensor, begins
from nextloc_metrics.core.queries.checks import as_number, check_bool, check_positive, is_integer
from nextloc_metrics.core.queries.messages import describe, short
from nextloc_metrics.metrics.visits import read_check_ins

# An interval shorter than 1 is at most 2^-50 long after this many halvings.
_STEPS = 50


class MeanLimit(NamedTuple):
    """A mean over users, `value`, with its confidence interval from `low` to `high`."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, repr=False)
class Predictability(Result):
    """The limits of predictability of users; see `predictability`.

    Attributes:
        limit: the limit by the entropy rate, float64 `[U]`.
        entropy: the entropy rate in bits per visit, float64 `[U]`.
        shuffled: the mean limit of the user's visits in random orders, float64 `[U]`. Without
            errors of the estimate it would be `uncorrelated`.
        random: the limit if all locations were equally likely, 1/N, float64 `[U]`.
        uncorrelated: the limit by the entropy of the user's shares of visits, without their order,
            float64 `[U]`.
        num_visits: the number of visits, int64 `[U]`.
        num_locations: the number of different locations, int64 `[U]`.
        users: the users in rising order.
        few_visits: whether the user has fewer than `min_visits` visits, bool `[U]`.
    """

    title: ClassVar[str] = "Predictability"

    limit: Tensor
    entropy: Tensor
    shuffled: Tensor
    random: Tensor
    uncorrelated: Tensor
    num_visits: Tensor
    num_locations: Tensor
    users: list[Any]
    few_visits: Tensor

    def means(self, confidence_level: float = 0.95) -> dict[str, MeanLimit]:
        """Return the mean of each limit over the users who are not flagged, with its interval.

        The interval is that of a metric that is averaged over users; NaN if all are flagged.
        """
        intervals.check_confidence_level(confidence_level)
        means = {}
        for name in ("limit", "shuffled", "random", "uncorrelated"):
            values = getattr(self, name)[~self.few_visits]
            all_count = torch.ones_like(values).bool()
            estimate = intervals.of_queries(exact.tally(values[None], all_count)[0])
            low, high = estimate.interval(confidence_level)
            means[name] = MeanLimit(float(estimate.mean), float(low), float(high))
        return means

    @property
    def table(self) -> Table:
        """The means over users as fractions, with their 95 % intervals."""
        left_out = int(self.few_visits.sum())
        note = f"mean over {len(self.users) - left_out:,} users, {left_out:,} left out"
        means = self.means().items()
        readings = {name: Reading(one.value, (one.low, one.high), True) for name, one in means}
        return of_readings({"value": readings}, 0.95, [note], percent=False)


def predictability(
    visits: Array,
    users: Array,
    *,
    stays: bool = True,
    min_visits: int = 100,
    num_shuffles: int = 20,
    seed: int = 0,
) -> Predictability:
    r"""Estimate the highest accuracy that any model can have, for each user.

    The entropy rate S of the user's visits by Lempel-Ziv
    ([`entropy_rate`][nextloc_metrics.analysis.entropy_rate]) gives the limit by Fano's inequality
    ([`fano_limit`][nextloc_metrics.analysis.fano_limit]), with the number of the user's different
    locations; `fano_limit(found.entropy, N)` is the limit for another N.

    **The limit is too high for short histories**, because the entropy rate is too low. So report it
    beside `shuffled`, the mean limit of random orders of the same visits. In a random order there
    is nothing to learn but the shares of visits, whose limit is `uncorrelated`; the difference
    between the two is the error. Users with fewer than `min_visits` visits are flagged and not in
    `means`. Models have exceeded published limits (Kulkarni et al., 2019).

    The values of a user depend on this user's visits and on `seed` only.

    Args:
        visits: the location of each visit, integers `[V]`; each user's in the order of time.
        users: the user of each visit, integers or text `[V]`.
        stays: whether consecutive visits to one location count each; False counts them as one.
            Predicting whether a user stays is easier than predicting where the user goes.
        min_visits: the fewest visits of a user who is not flagged, counted after `stays`.
        num_shuffles: the number of random orders per user.
        seed: the seed of the random orders.

    Raises:
        TypeError: `visits` or `users` has another type.
        ValueError: an option is out of range, or there is no visit.

    Example:
        >>> ann, bob = [0, 1, 2] * 40, [0, 1] * 5  # ann's next visit is known, bob has 10 visits
        >>> predictability(ann + bob, ["ann"] * 120 + ["bob"] * 10)
        fraction       value    95 % interval
        limit         0.9697  0.0000 - 1.0000
        shuffled      0.3614  0.0000 - 1.0000
        random        0.3333  0.0000 - 1.0000
        uncorrelated  0.3333  0.0000 - 1.0000
        mean over 1 users, 1 left out

    The visits of ann in a random order have a limit of 36 % instead of 33 %: this is the error.

    Sources: C. Song, Z. Qu, N. Blumm and A.-L. Barabási, "Limits of predictability in human
    mobility", Science 327, 2010; V. Kulkarni, A. Mahalunkar, B. Garbinato and J. D. Kelleher,
    "Examining the limits of predictability of human mobility", Entropy 21, 2019.
    """
    check_bool("stays", stays)
    min_visits = check_positive("min_visits", min_visits)
    num_shuffles, seed = check_positive("num_shuffles", num_shuffles), as_number(seed)
    if type(seed) is not int or not 0 <= seed < 2**63:
        raise ValueError(f"`seed` must be an integer from 0 to 2^63 - 1, got {short(seed)}.")
    names, locations = read_check_ins(users, visits, ("users", "visits"))
    if not len(locations):
        raise ValueError("`visits` must hold at least one visit, got none.")
    distinct, inverse = np.unique(names, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    histories = np.split(locations[order], np.cumsum(np.bincount(inverse))[:-1])
    if not stays:
        histories = [history[begins(history)] for history in histories]
    counts = [np.unique(history, return_counts=True)[1] for history in histories]
    rates = []
    for history in histories:
        copies = np.tile(history, (num_shuffles + 1, 1))
        copies[1:] = np.random.default_rng(seed).permuted(copies[1:], axis=1)
        rates.append(entropy_rates(copies))
    bits = torch.from_numpy(np.array(rates))
    num_visits = torch.tensor([len(one) for one in histories])
    num_locations = torch.tensor([len(one) for one in counts])
    shares = [torch.from_numpy(one / one.sum()) for one in counts]
    by_share = torch.stack([torch.special.entr(one).sum() for one in shares]) / math.log(2)
    return Predictability(
        limit=fano_limit(bits[:, 0], num_locations),
        entropy=bits[:, 0],
        shuffled=fano_limit(bits[:, 1:], num_locations[:, None]).mean(1),
        random=fano_limit(num_locations.double().log2(), num_locations),
        uncorrelated=fano_limit(by_share, num_locations),
        num_visits=num_visits,
        num_locations=num_locations,
        users=distinct.tolist(),
        few_visits=num_visits < min_visits,
    )


def entropy_rate(visits: Array) -> float:
    r"""Estimate the entropy rate of a sequence of visits by Lempel-Ziv, in bits per visit.

    S = n log2(n) / (L_1 + ... + L_n). L_i is the length of the shortest sequence of visits that
    begins at visit i and does not occur among the visits before it; it is k + 1 if the longest
    one that does occur has k visits, also if these are all visits from i on. The earlier
    occurrence ends before visit i. A single visit has S = 0. The estimate converges to the entropy
    rate for long sequences, and is far too low for short ones.

    Args:
        visits: the locations in the order of time, integers `[n]`.

    Example:
        >>> round(entropy_rate([0, 1, 2, 3, 4]), 3)  # all L_i are 1: S = log2(5)
        2.322

    Source: I. Kontoyiannis, P. H. Algoet, Y. M. Suhov and A. J. Wyner, "Nonparametric entropy
    estimation for stationary processes and random fields, with applications to English text", IEEE
    Transactions on Information Theory 44, 1998.
    """
    ids = as_tensor("visits", visits)
    if not is_integer(ids) or ids.ndim != 1 or not len(ids):
        raise ValueError(
            f"`visits` must be one row of integers, at least one, got {describe(ids)}."
        )
    return float(entropy_rates(ids.cpu().numpy()[None])[0])


def fano_limit(entropy: Array | float, num_locations: Array | int) -> Tensor:
    r"""Return the highest possible accuracy for an entropy, by Fano's inequality.

    It is the p in [1/N, 1] with S = H(p) + (1 - p) log2(N - 1), where H(p) is the entropy of p and
    1 - p in bits. No method predicts more than this share of the visits of a process with entropy
    rate S and N locations. It is 1/N for S >= log2(N), and 1 for S <= 0 or N = 1. The error is
    below 1e-12 for S up to log2(N) - 1e-8, and below 1e-8 beyond: the limit falls there as the
    square root of the difference, so that the rounding of S shows.

    Args:
        entropy: S in bits, a number or floating `[U]`.
        num_locations: N, an integer or integers `[U]`.

    Returns:
        float64 of the shape of `entropy`; NaN where it is NaN.

    Example:
        >>> fano_limit(1.0, 2), fano_limit(0.0, 2)
        (tensor(0.5000, dtype=torch.float64), tensor(1., dtype=torch.float64))

    Source: C. Song, Z. Qu, N. Blumm and A.-L. Barabási, "Limits of predictability in human
    mobility", Science 327, 2010.
    """
    bits = torch.as_tensor(entropy, dtype=torch.float64)
    size = torch.as_tensor(num_locations, dtype=torch.float64)
    if not bool((size >= 1).all()):
        raise ValueError(
            f"`num_locations` must be at least 1, got {float(size.min()):g}; without a location "
            "there is no limit."
        )
    low, high = 1 / size + 0 * bits, torch.ones_like(bits)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        of_hit = torch.special.entr(middle) + torch.special.entr(1 - middle)
        highest = of_hit / math.log(2) + torch.special.xlogy(1 - middle, size - 1) / math.log(2)
        is_below = highest > bits  # the entropy that allows p falls as p rises
        low, high = torch.where(is_below, middle, low), torch.where(is_below, high, middle)
    limit = torch.where(bits >= size.log2(), 1 / size, (low + high) / 2)
    limit = torch.where((bits <= 0) | (size == 1), 1.0, limit)
    return limit.masked_fill(bits.isnan(), math.nan)


def entropy_rates(rows: Any) -> Any:
    """Return the entropy rates, float64 `[B]`, of sequences of equal length, integers `[B, n]`."""
    num_visits = rows.shape[1]
    return num_visits * math.log2(num_visits) / (longest_matches(rows) + 1).sum(1)


def longest_matches(rows: Any) -> Any:
    """Return for each visit the length of the longest string from it that occurs before it.

    The lengths are int64 `[B, n]`. The strings of 1, 2, ... visits from all positions are compared
    in turn. The class of a string is the first position where it occurs, so equal strings have
    equal classes, and a string that is one visit longer is a pair of a class and an id. A position
    whose string matches no other is left out of longer strings: the work is the sum of lengths.
    """
    num_rows, size = rows.shape
    names, numbers = np.unique(rows, return_inverse=True)
    width = size + 1
    ids = np.full((num_rows, width), len(names))  # an id behind each row ends matches
    ids[:, :size] = numbers.reshape(num_rows, size)
    ids = ids.reshape(-1)
    matches = np.zeros(ids.size, dtype=np.int64)
    position = np.arange(ids.size)
    kind, length = position - position % width, 0
    is_needed = np.zeros(ids.size, dtype=bool)
    while len(position):
        length += 1
        pairs = kind * (len(names) + 1) + ids.take(position + (length - 1))
        _, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
        kind = position.take(first[inverse])
        matched = np.flatnonzero(kind + length <= position)
        matches[position.take(matched)] = length
        is_needed[kind] = False
        is_needed[kind.take(matched)] = True
        stays = np.flatnonzero(is_needed.take(kind))
        position, kind = position.take(stays), kind.take(stays)
    return matches.reshape(num_rows, width)[:, :size]
