"""Parts of tests of several models: corrected p-values, letters, and the tails of two tests."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch

from nextloc_metrics.core.means.intervals import t_tail

# Stars by p-value.
MARKS = {0.001: "***", 0.01: "**", 0.05: "*"}

# Up to this many trials, binomial tails are quotients of whole numbers.
_MOST_WHOLE = 2000


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for several tests by Holm's method; NaN stays NaN and is no test.

    Of m tests, the i-th smallest p-value becomes the largest of (m - j + 1) times the j-th
    smallest for all j up to i, at most 1. The probability that any test of equal models has a
    corrected p-value of at most 0.05 is then at most 0.05, also if tests depend on each other.

    Source: S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian
    Journal of Statistics 6, 1979.
    """
    corrected = list(p_values)
    order = sorted((p, i) for i, p in enumerate(p_values) if not math.isnan(p))
    highest = 0.0
    for rank, (p, i) in enumerate(order):
        highest = max(highest, (len(order) - rank) * p)
        corrected[i] = min(1.0, highest)
    return corrected


def level_of(confidence_level: float) -> float:
    """Return the level of a test, 0.05 for 95 %."""
    return round(1 - confidence_level, 12)


def stars(p_value: float) -> str:
    """Return the stars of a p-value, as papers print them."""
    return next((mark for level, mark in MARKS.items() if p_value < level), "")


def maximal_cliques(size: int, joined: Callable[[int, int], bool]) -> list[list[int]]:
    """Return all maximal cliques of a graph of the nodes 0 to `size` - 1, in ascending order.

    Source: C. Bron and J. Kerbosch, "Algorithm 457: finding all cliques of an undirected graph",
    Communications of the ACM 16, 1973; with the pivot of Tomita, Tanaka and Takahashi, 2006.
    """
    near: list[set[int]] = [set() for _ in range(size)]
    for a, b in itertools.combinations(range(size), 2):
        if joined(a, b):
            near[a].add(b)
            near[b].add(a)

    def extend(clique: list[int], others: set[int], done: set[int]) -> Iterator[list[int]]:
        if not others and not done:
            yield sorted(clique)
            return
        pivot = max(others | done, key=lambda node: len(near[node] & others))
        for node in others - near[pivot]:
            yield from extend([*clique, node], others & near[node], done & near[node])
            others, done = others - {node}, done | {node}

    return sorted(extend([], set(range(size)), set())) if size else []


def letters(names: Sequence[str], separated: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Give models letters: two share one exactly where no test separates them.

    A letter is a maximal clique of the models that are not separated. The letters a to z, aa, ab
    go by the best member of each; from aa on, commas stand between the letters of a model. `names`
    begins with the best model; the pairs in `separated` may have any order.

    Example:
        >>> letters(["gru", "llm", "counts", "markov"], [("gru", "counts"), ("markov", "llm")])
        {'gru': 'ab', 'llm': 'ac', 'counts': 'cd', 'markov': 'bd'}

    Source: H.-P. Piepho, "An algorithm for a letter-based representation of all-pairwise
    comparisons", Journal of Computational and Graphical Statistics 13, 2004.
    """
    apart = {frozenset(pair) for pair in separated}
    cliques = maximal_cliques(len(names), lambda a, b: {names[a], names[b]} not in apart)
    separator = "," if len(cliques) > 26 else ""
    marks = {
        name: [_letter(number) for number, clique in enumerate(cliques) if node in clique]
        for node, name in enumerate(names)
    }
    return {name: separator.join(letters_of) for name, letters_of in marks.items()}


def _letter(number: int) -> str:
    """Return a to z for 0 to 25, then aa, ab."""
    text = ""
    while number >= 0:
        text, number = chr(ord("a") + number % 26) + text, number // 26 - 1
    return text


def satterthwaite(parts: Iterable[tuple[float, float]]) -> float:
    """Return the degrees of freedom of a sum of variances, each with its own; 0 without variance.

    Source: F. E. Satterthwaite, "An approximate distribution of estimates of variance components",
    Biometrics Bulletin 2, 1946.
    """
    varying = [(variance, freedom) for variance, freedom in parts if variance]
    if not varying or any(freedom <= 0 for _, freedom in varying):
        return 0.0
    total = sum(variance for variance, _ in varying)
    return 1 / sum((variance / total) ** 2 / freedom for variance, freedom in varying)


def mcnemar(wins: int, losses: int) -> float:
    """Return the exact two-sided p-value of McNemar's test, whose null hypothesis is a fair coin.

    Example:
        >>> mcnemar(1, 4)  # 2 (1 + 5) / 2^5
        0.375

    Source: Q. McNemar, "Note on the sampling error of the difference between correlated
    proportions or percentages", Psychometrika 12, 1947.
    """
    n, fewer = wins + losses, min(wins, losses)
    if n <= _MOST_WHOLE:
        first = math.comb(n, fewer) / (1 << n)
    else:
        logs = math.lgamma(n + 1) - math.lgamma(fewer + 1) - math.lgamma(n - fewer + 1)
        first = math.exp(logs - n * math.log(2))
    share = rest = 1.0
    for i in range(fewer, 0, -1):
        rest *= i / (n - i + 1)
        share += rest
        if rest < 1e-17 * share:
            break
    return min(1.0, 2 * share * first)


def t_test(t: float, freedom: float) -> float:
    """Return the two-sided p-value of Student's t, P(|T| >= `t`); NaN for 0 degrees of freedom."""
    if math.isnan(t) or not freedom > 0:
        return math.nan
    if math.isinf(freedom):
        return math.erfc(abs(t) / math.sqrt(2))
    return float(t_tail(*torch.tensor([abs(t), freedom], dtype=torch.float64)))
