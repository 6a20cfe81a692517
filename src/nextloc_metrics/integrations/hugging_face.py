"""Ranking metrics as `compute_metrics` of the Hugging Face Trainer."""

from collections.abc import Iterator
from copy import deepcopy
from importlib import import_module
from typing import Any, Protocol

from torch import Tensor
from torch.nn import Module

from nextloc_metrics.core.base.collection import RankingCollection
from nextloc_metrics.core.base.metric import RecordMetric
from nextloc_metrics.core.queries.arrays import as_tensor
from nextloc_metrics.core.queries.checks import check_bool, is_integer, or_none
from nextloc_metrics.core.queries.messages import describe

#: the Trainer pads labels, logits and ids with this value, and losses ignore it
PADDING = -100


class EvalPrediction(Protocol):
    """The Trainer's argument: `transformers.EvalPrediction`, or an object with its attributes."""

    @property
    def predictions(self) -> Any:
        """The logits, or lists of ids."""

    @property
    def label_ids(self) -> Any:
        """The targets."""


class TrainerMetrics:
    """A `compute_metrics` function for `transformers.Trainer`, for one call or batch by batch.

    Without `batch_eval_metrics` the Trainer keeps all logits of an evaluation in memory and calls
    the object once. With `TrainingArguments(batch_eval_metrics=True)` the Trainer calls it for each
    batch, with `compute_result=True` for the last one. Values of ranks have the same bits. One
    object serves any number of evaluations in turn, with a copy of the metrics.

    Labels of -100 are left out: labels that the model sets, and the Trainer's padding. Of a tuple
    of predictions, such as logits and hidden states, the first is ranked.

    Args:
        metrics: a collection or one metric.
        model: the Trainer's model, from which `causal` is read if it is one of transformers'; a
            `causal` that contradicts it is an error.
        causal: whether the logits of a step predict the label of the next step, as in a causal
            language model: the logits of the last step and the label of the first are left out.
            None is an error for logits `[N, T, C]` if the model does not tell.

    Example:
        >>> from types import SimpleNamespace
        >>> from torch import tensor
        >>> from nextloc_metrics import MRR
        >>> compute_metrics = TrainerMetrics(MRR())
        >>> logits = tensor([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1], [0.0, 0.0, 0.0]])
        >>> labels = tensor([1, 1, -100])  # ranks 1 and 2, and a query that is left out
        >>> compute_metrics(SimpleNamespace(predictions=logits, label_ids=labels))
        {'MRR': 0.75}
    """

    def __init__(
        self,
        metrics: RankingCollection | RecordMetric,
        model: Any = None,
        *,
        causal: bool | None = None,
    ) -> None:
        if not isinstance(metrics, RankingCollection | RecordMetric):
            raise TypeError(
                "`metrics` must be a RankingCollection or a metric of nextloc_metrics, got "
                f"{describe(metrics)}."
            )
        if isinstance(metrics, RecordMetric):
            metrics = RankingCollection({type(metrics).__name__: metrics})
        self.metrics = deepcopy(metrics)
        self.metrics.reset()
        if not isinstance(model, Module | None):
            raise TypeError(
                "`model` must be None or the Trainer's model, a torch.nn.Module, got "
                f"{describe(model)}; give `causal` by name."
            )
        or_none(check_bool)("causal", causal)
        is_causal = _is_causal(model)
        if is_causal is not None and causal is not None and causal != is_causal:
            raise ValueError(
                f"`causal` must be {is_causal} for a {type(model).__name__}, or None, got {causal}."
            )
        self.causal = is_causal if causal is None else causal
        self._remedy = (
            "pass the Trainer's `model` to TrainerMetrics, or"
            if model is None
            else f"a model of class {type(model).__name__} does not tell it, so pass"
        )
        for _, member in self.metrics.named_members():  # the Trainer itself gathers predictions
            member.sync_on_compute = member._to_sync = False

    def __call__(self, prediction: EvalPrediction, compute_result: bool = True) -> dict[str, Any]:
        """Add a batch; return the values, floats or lists of floats, if it is the last one, or {}.

        `predictions` are logits `[N, C]` or `[N, T, C]`, or lists of ids `[N, K]`; `label_ids` one
        id per query `[N]` or `[N, T]`, or several `[N, M]`. Both are NumPy arrays, tensors, or
        lists of batches (from `eval_do_concat_batches=False`).
        """
        is_over = True
        try:
            for preds, labels in _batches(prediction):
                self._update(preds, labels)
            is_over = compute_result
            if not compute_result:
                return {}
            return {name: value.tolist() for name, value in self.metrics.compute().items()}
        finally:
            if is_over:
                self.metrics.reset()

    def _update(self, preds: Tensor, labels: Tensor) -> None:
        _, member = self.metrics.named_members()[0]
        if member.device != preds.device:
            self.metrics.to(preds.device)
        labels = labels.to(preds.device)
        if self.causal is None and labels.ndim > 1 and labels.ndim == preds.ndim - 1:
            raise ValueError(
                f"`causal` must be given for predictions of steps, {describe(preds)}: "
                f"{self._remedy} `causal=True` if the logits of a step predict the label of the "
                "next one, else `causal=False`."
            )
        if self.causal:
            preds, labels = preds[:, :-1], labels[:, 1:]
        if is_integer(preds):
            preds = preds.masked_fill(preds == PADDING, -1)
        if labels.ndim == preds.ndim - 1:
            self.metrics.update(preds, labels, mask=labels != PADDING)
        elif is_integer(labels):  # there are several ids per query
            self.metrics.update(preds, labels.masked_fill(labels == PADDING, -1))
        else:
            self.metrics.update(preds, labels)


def _is_causal(model: Any) -> bool | None:
    """Return whether a model shifts its labels; None for a model that does not tell."""
    if hasattr(model, "get_base_model"):  # it is a model of PEFT
        model = model.get_base_model()
    kinds = [kind for kind in type(model).__mro__ if kind.__module__.startswith("transformers.")]
    if not kinds:
        return None
    auto = import_module("transformers.models.auto.modeling_auto")
    if {kind.__name__ for kind in kinds} & set(auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()):
        return True
    if not type(model).__module__.startswith("transformers."):
        return None  # the loss of the user's own class may shift
    return False if model.config.is_encoder_decoder or not model.can_generate() else None


def _batches(prediction: EvalPrediction) -> Iterator[tuple[Tensor, Tensor]]:
    preds, labels = prediction.predictions, prediction.label_ids
    batches = zip(preds, labels, strict=True) if isinstance(preds, list) else [(preds, labels)]
    for batch in batches:
        first, ids = (values[0] if isinstance(values, tuple) else values for values in batch)
        yield as_tensor("predictions", first), as_tensor("label_ids", ids)
