"""The base classes of metrics of probabilities."""

from __future__ import annotations

from dataclasses import KW_ONLY

from nextloc_metrics.core.base.annotated_options import PositiveNumber
from nextloc_metrics.core.base.mean import MeanMetric
from nextloc_metrics.core.base.metric import RecordMetric
from nextloc_metrics.core.distribution.distribution import Distribution, DistributionNeeds
from nextloc_metrics.core.distribution.given import Given


class DistributionMetric(RecordMetric):
    """Base class of metrics that read a `Distribution`.

    Probabilities are computed in the precision of the scores, at least float32, so values are equal
    up to its rounding for any batches, layout, threads and device.

    Args:
        given: what `preds` are: `"logits"`, any real numbers, of which the softmax is taken;
            `"log_probabilities"`; or `"probabilities"`, which are divided by their sum. None reads
            logits, but raises for a query whose scores are in [0, 1] and sum to 1 within 1e-4
            (and what rounding to the dtype adds).
        temperature: by which logits are divided before the softmax.
    """

    record = Distribution

    _: KW_ONLY
    given: Given | None = None
    temperature: PositiveNumber = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.given == "probabilities" and self.temperature != 1:
            raise ValueError(
                "`temperature` must be 1 with `given='probabilities'`, as it divides logits, got "
                f"{self.temperature}."
            )

    @property
    def needs(self) -> DistributionNeeds:
        return DistributionNeeds(self.given, self.temperature)


class DistributionMean(DistributionMetric, MeanMetric):
    """The mean of a number per query, which a subclass defines in `score`."""
