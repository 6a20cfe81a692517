"""Ranking metrics as scorers for scikit-learn classifiers, whose classes are the locations."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.metric.collection import RankingCollection
from nextloc_metrics.core.metric.mean import RecordMetric
from nextloc_metrics.core.queries.arrays import Array, as_tensor
from nextloc_metrics.core.queries.messages import describe, short

Score = float | dict[str, float]


def score(
    y_true: Any,
    y_score: Array,
    *,
    metric: RankingCollection | RecordMetric,
    labels: Sequence[Any],
    threshold: float = 0.5,
) -> Score:
    """Rank the labels by a classifier's scores, and return the metric of the true labels.

    Pass the function to `sklearn.metrics.make_scorer`, with the labels of the columns. If they
    differ between folds, use
    [`RankingScorer`][nextloc_metrics.integrations.scikit_learn.RankingScorer].

    A true label that is not among `labels` is a miss, as the classifier cannot predict it. It gets
    the id `len(labels)`, so `LocationF1` needs `num_locations=len(labels) + 1`.

    Args:
        y_true: the true labels `[N]`, numbers or text.
        y_score: a score for each label, `[N, C]`; or, for two labels, of the second label `[N]`.
        metric: a metric or, for a dict of values, a `RankingCollection`. It updates a copy.
        labels: the labels of the columns, such as `classifier.classes_`.
        threshold: for scores `[N]`, the score above which the second label ranks first: 0.5 for
            `predict_proba`, 0 for `decision_function`.

    Example:
        >>> from sklearn.metrics import make_scorer
        >>> from nextloc_metrics import MRR
        >>> probabilities = [[0.5, 0.2, 0.3], [0.5, 0.2, 0.3]]
        >>> score([20, 99], probabilities, metric=MRR(), labels=[3, 7, 20])  # rank 2, and a miss
        0.25
        >>> scorer = make_scorer(
        ...     score, response_method="predict_proba", metric=MRR(), labels=[3, 7, 20]
        ... )
    """
    scores = as_tensor("y_score", y_score)
    scores = scores if scores.is_floating_point() else scores.double()
    if scores.ndim == 1:
        scores = torch.stack([torch.full_like(scores, threshold), scores], 1)
    known = np.asarray(labels).tolist()
    column = {label: number for number, label in enumerate(known)}
    if len(column) != len(known):
        raise ValueError(f"`labels` must be distinct, got {short(known)}.")
    if scores.ndim != 2 or scores.shape[1] != len(known):
        raise ValueError(
            f"`y_score` must have a column for each of the {len(known)} labels, got "
            f"{describe(scores)}; if labels differ between folds, use RankingScorer."
        )
    unknown = len(known)  # the id of an extra column scored -inf: always a miss
    target = [column.get(label, unknown) for label in np.asarray(y_true).tolist()]
    never = scores.new_full((len(scores), 1), -torch.inf)
    fresh = metric.clone()
    fresh.reset()
    fresh.update(torch.cat([scores, never], 1), torch.tensor(target, dtype=torch.int64))
    value: Tensor | dict[str, Tensor] = fresh.compute()
    if isinstance(value, dict):
        return {name: _single(name, one) for name, one in value.items()}
    return _single("metric", value)


def _single(name: str, value: Tensor) -> float:
    """Return one value; raise for a metric with several values."""
    if value.ndim:
        raise TypeError(
            f"`{name}` must have one value, as scikit-learn compares values, got {len(value)}; "
            "pass `average` to the metric."
        )
    return float(value)


@dataclass(frozen=True, eq=False)
class RankingScorer:
    """A scorer for `cross_val_score`, `cross_validate` and `GridSearchCV`: pass it as `scoring`.

    It ranks `estimator.classes_` by `predict_proba` or, if the estimator has none, by
    `decision_function`. A true label of the test fold that is not in the training fold is a miss,
    not an error. For a collection it returns a dict of values, which `cross_validate` and, with
    `refit="mrr"`, `GridSearchCV` accept. Each call updates a copy of `metric`. Higher values must
    be better, because scikit-learn maximizes.

    Example:
        >>> from sklearn.dummy import DummyClassifier
        >>> from nextloc_metrics import MRR
        >>> visits = ["home", "home", "home", "work", "work", "gym"]
        >>> model = DummyClassifier(strategy="prior").fit([[0]] * 6, visits)
        >>> scorer = RankingScorer(MRR())
        >>> scorer(model, [[0], [0], [0]], ["home", "work", "zoo"])  # ranks 1 and 2, and a miss
        0.5
    """

    metric: RankingCollection | RecordMetric

    def __post_init__(self) -> None:
        """Raise for a metric that a search would maximize although smaller is better."""
        members: list[RecordMetric] = [self.metric]  # type: ignore[list-item]
        if isinstance(self.metric, RankingCollection):
            members = [member for _, member in self.metric.named_members()]
        for member in members:
            if member.higher_is_better is False:
                raise ValueError(
                    f"`metric` must be better where it is higher, got {short(member)}; use "
                    "`make_scorer(score, greater_is_better=False, metric=..., labels=...)`."
                )

    def __call__(self, estimator: Any, features: Any, y_true: Any) -> Score:
        """Return the metric of a fitted classifier, or a pipeline that ends in one.

        `decision_function` must have one column per class, unlike
        `SVC(decision_function_shape="ovo")`.
        """
        scores_of = getattr(estimator, "predict_proba", None) or estimator.decision_function
        return score(
            y_true,
            scores_of(features),
            metric=self.metric,
            labels=estimator.classes_,
            threshold=0.0,  # for two classes, `decision_function` returns one score per sample
        )
