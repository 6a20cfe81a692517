"""The ranking metrics. Each class declares its options and the formula of its score."""

from nextloc_metrics.core import scoring
from nextloc_metrics.core.base.annotated_options import Positive
from nextloc_metrics.core.base.ranking_metric import RankingMetric
from nextloc_metrics.core.scoring.formulas import Denominator, Divisor, Gain, Ideal, Normalizer


class AccuracyAtK(RankingMetric):
    r"""Accuracy within the first k ranks, also called hit rate or Acc@k.

    The share of queries with at least one relevant location among the first `k` candidates; for one
    relevant location, recall at k. An unretrieved location (not in the list, or scored NaN or -inf)
    is a miss for every `k`. `k` is a positive integer, and may exceed the number of candidates.

    Expectation under ties, for one relevant location: m / e, where `e` candidates are tied (the
    location included) and `m` ranks of this tied block lie within the first `k`.

    Example:
        >>> from torch import tensor
        >>> accuracy = AccuracyAtK(k=2)
        >>> accuracy.update(tensor([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1]]), tensor([2, 2]))
        >>> accuracy.compute()  # ranks 2 and 3
        tensor(0.5000)
    """

    label = "Acc@{k}"
    k: Positive

    @property
    def formula(self) -> scoring.Formula | None:
        return scoring.Formula("count", self.k, of="first", over="1")


class MRR(RankingMetric):
    r"""Mean reciprocal rank.

    The mean of 1 / rank of the first relevant location; with `k`, 0 where the rank is beyond `k`.

    Expectation under ties, for one relevant location: (H(A + m) - H(A)) / e with
    H(x) = 1 + 1/2 + ... + 1/x. `A` candidates are above, and `e` and `m` are as for
    [`AccuracyAtK`][nextloc_metrics.AccuracyAtK]; without `k`, m = e.

    Args:
        k: the last rank that counts, a positive integer; None for all ranks.

    Example:
        >>> from torch import tensor
        >>> mrr = MRR()
        >>> mrr.update(tensor([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1]]), tensor([2, 2]))
        >>> mrr.compute()  # (1/2 + 1/3) / 2
        tensor(0.4167)

    Source: E. M. Voorhees, "The TREC-8 Question Answering Track Report", TREC 1999.
    """

    k: Positive | None = None

    @property
    def formula(self) -> scoring.Formula | None:
        return scoring.Formula("harmonic", self.k, of="first", over="1")


class NDCGAtK(RankingMetric):
    r"""Normalized discounted cumulative gain of the first k ranks.

    DCG@k sums gain / log2(rank + 1) over the relevant locations within the first `k` ranks; NDCG
    divides by the DCG of the best order. The gain is 1, or the graded relevance if `target` is
    floating `[..., C]`. For one relevant location NDCG is 1 / log2(rank + 1), and 0 beyond `k`.
    Expectation under ties: the discount of a tied location is the mean over the ranks of its tied
    block, as in scikit-learn's `ndcg_score`.

    Args:
        gain: `"linear"`, the relevance; `"exponential"`, 2^relevance - 1. Both are equal for
            relevance 0 and 1.
        ideal: the divisor. `"truncated"`: the DCG of the min(n, k) highest gains, of n relevant
            locations. `"full"`: the DCG of all n gains; a perfect list scores below 1 if n > k.

    Example:
        >>> from torch import tensor
        >>> ndcg = NDCGAtK(k=3)
        >>> ndcg.update(tensor([[0.9, 0.1, 0.2, 0.8]]), tensor([3]))
        >>> ndcg.compute()  # 1 / log2(3)
        tensor(0.6309)

    Source: K. Järvelin and J. Kekäläinen, "Cumulated gain-based evaluation of IR techniques", ACM
    TOIS 20(4), 2002; exponential gain: C. Burges et al., "Learning to rank using gradient
    descent", ICML 2005.
    """

    k: Positive
    gain: Gain = "linear"
    ideal: Ideal = "truncated"

    @property
    def formula(self) -> scoring.Formula | None:
        best: Divisor = "ideal" if self.ideal == "truncated" else "full ideal"
        return scoring.Formula("discount", self.k, of="all", over=best, gain=self.gain)


class MAPAtK(RankingMetric):
    r"""Mean average precision of the first k ranks.

    Each relevant location within the first `k` ranks adds the precision at its rank: the number of
    relevant locations up to this rank, divided by the rank. The sum is divided by min(n, k), for n
    relevant locations. For one it equals the reciprocal rank, and 0 beyond rank `k`.

    Args:
        normalizer: `"min"` divides by min(n, k), so that a perfect list scores 1; `"relevant"`
            divides by n, as trec_eval, ranx and rax do.

    Example:
        >>> from torch import tensor
        >>> mean_average_precision = MAPAtK(k=3)
        >>> mean_average_precision.update(tensor([[5, 7, 6]]), tensor([[5, 6]]))
        >>> mean_average_precision.compute()  # (1/1 + 2/3) / 2
        tensor(0.8333)

    Source: C. Buckley and E. M. Voorhees, "Evaluating evaluation measure stability", SIGIR 2000.
    """

    k: Positive
    normalizer: Normalizer = "min"

    @property
    def formula(self) -> scoring.Formula | None:
        over: Divisor = "min(n, k)" if self.normalizer == "min" else "n"
        return scoring.Formula("harmonic", self.k, of="precision", over=over)


class PrecisionAtK(RankingMetric):
    r"""Precision within the first k ranks: hits / k.

    The `denominator` is `"k"`, even if a list is shorter, or `"retrieved"`, min(k, list length):
    the length is the number of ids without padding, or of scores above -inf.

    Example:
        >>> from torch import tensor
        >>> precision = PrecisionAtK(k=3)
        >>> precision.update(tensor([[5, 7, 6, 8]]), tensor([[5, 6]]))
        >>> precision.compute()  # 2 / 3
        tensor(0.6667)
    """

    k: Positive
    denominator: Denominator = "k"

    @property
    def formula(self) -> scoring.Formula | None:
        over: Divisor = "k" if self.denominator == "k" else "retrieved"
        return scoring.Formula("count", self.k, of="all", over=over)


class RecallAtK(RankingMetric):
    r"""Recall within the first k ranks: hits / n, for n relevant locations.

    Args:
        normalized: whether to divide by min(n, k), so that a perfect list scores 1 if n > k.
        weighted: whether a relevant location counts as much as its gain, the graded relevance of
            a floating `target` `[..., C]`: the gains of the hits / the gains of all n
            (`normalized`: of the best min(n, k)).

    Example:
        >>> from torch import tensor
        >>> recall = RecallAtK(k=2)
        >>> recall.update(tensor([[5, 7, 6, 8]]), tensor([[5, 6]]))
        >>> recall.compute()  # 1 / 2
        tensor(0.5000)
        >>> weighted = RecallAtK(k=1, weighted=True)
        >>> weighted(tensor([[0.9, 0.1, 0.2]]), tensor([[3.0, 0.0, 1.0]]))  # 3 / (3 + 1)
        tensor(0.7500)
    """

    k: Positive
    normalized: bool = False
    weighted: bool = False

    @property
    def formula(self) -> scoring.Formula | None:
        over: Divisor = "min(n, k)" if self.normalized else "n"
        if self.weighted:
            over = "best gains" if self.normalized else "gains"
        return scoring.Formula("count", self.k, of="all", over=over)


class F1AtK(RankingMetric):
    r"""F1 within the first k ranks: 2 hits / (k + n), for n relevant locations.

    Next-location papers report another F1, the mean over locations:
    [`LocationF1`][nextloc_metrics.LocationF1].

    Example:
        >>> from torch import tensor
        >>> f1 = F1AtK(k=2)
        >>> f1.update(tensor([[5, 7, 6, 8]]), tensor([[5, 6, 9]]))
        >>> f1.compute()  # 2 * 1 / (2 + 3)
        tensor(0.4000)
    """

    k: Positive

    @property
    def formula(self) -> scoring.Formula | None:
        return scoring.Formula("count", self.k, of="all", over="(n + k) / 2")
