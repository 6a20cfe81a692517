"""A callback for Lightning's Trainer that warns if an evaluation does not read each row once."""

import sys
import warnings
from contextlib import ExitStack, suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_flatten
from torch.utils.data import DataLoader
from torchmetrics import Metric

from nextloc_metrics.distributed import PaddedDataset, count_surplus

#: Both packages hold the same classes, and a Trainer of one accepts a callback of the other.
_PACKAGES = ("pytorch_lightning", "lightning.pytorch")


def _package() -> str:
    # The package of the user's Trainer is imported already; importing the other takes seconds.
    imported = [package for package in _PACKAGES if package in sys.modules]
    installed = imported or [package for package in _PACKAGES if find_spec(package.split(".")[0])]
    if not installed:
        raise ModuleNotFoundError(
            "`nextloc_metrics.integrations.lightning` needs `lightning` or `pytorch-lightning`."
        )
    return installed[0]


Callback: Any = import_module(_package()).Callback


class CheckEachRowOnce(Callback):  # type: ignore[misc]
    """A Lightning callback that warns if validation or test rows are repeated or left out.

    Lightning's `DistributedSampler` repeats rows if the processes cannot get equally many. Each
    validation and test loader is checked by `nextloc_metrics.distributed.check_each_row_once`, with
    its limits, unless `limit_val_batches` or `limit_test_batches` cuts it short: in
    `trainer.validate` and `trainer.test`, where Lightning's warning of any such sampler is hidden,
    and in the validation during `trainer.fit` and its sanity check. Each warning appears once per
    call of the Trainer.

    The callback also warns if a step does not pass `is_real` of a `PaddedDataset` to a metric, so
    that the metric counts padding. It checks metrics that are attributes of the LightningModule.

    Example:
        >>> from pytorch_lightning import Trainer
        >>> trainer = Trainer(callbacks=[CheckEachRowOnce()], accelerator="cpu", logger=False)
    """

    def __init__(self) -> None:
        self._warned: set[str] = set()
        self._hidden = ExitStack()
        self._counts: dict[str, int] = {}

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Hide Lightning's general warning until the loaders are made."""
        self._warned = set()
        if stage in ("validate", "test"):
            self._hidden.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", "Using `DistributedSampler` with the dataloaders")

    def teardown(self, *_: Any, **_stage: Any) -> None:
        """Show Lightning's general warning again."""
        self._hidden.close()

    on_exception = teardown

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Check the validation or test loaders."""
        self._hidden.close()
        stage = "Test" if trainer.testing else "Validation"
        for index, loader in enumerate(_loaders(trainer)):
            is_whole = isinstance(loader, DataLoader)
            with suppress(TypeError):  # some loaders have no length
                is_whole = is_whole and _num_batches(trainer, index) >= len(loader)
            _, message = count_surplus(loader, f"{stage} loader {index}") if is_whole else (0, "")
            if message:
                self._warn(message)

    on_test_start = on_validation_start

    def on_validation_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Before a batch with padding, keep how many queries the metrics have counted."""
        is_padded = _num_padded(trainer, batch, batch_idx, dataloader_idx) > 0
        self._counts = _num_queries(pl_module) if is_padded else {}

    def on_validation_batch_end(
        self,
        trainer: Any,
        pl_module: Any,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Check that the metrics have not counted padding."""
        after = _num_queries(pl_module) if self._counts else {}
        for name, before in self._counts.items():
            counted, num_rows = after[name] - before, len(batch[1])
            if counted == num_rows:
                padded = _num_padded(trainer, batch, batch_idx, dataloader_idx)
                self._warn(
                    f"`{name}` counted {counted} queries in a batch of {num_rows} rows, and "
                    f"{padded} of these rows are padding of a PaddedDataset. Pass `mask=is_real` to"
                    " `update`."
                )
                break
        self._counts = {}

    on_test_batch_start = on_validation_batch_start
    on_test_batch_end = on_validation_batch_end

    def _warn(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            warnings.warn(message, stacklevel=3)


def _loaders(trainer: Any) -> list[Any]:
    loaders = trainer.test_dataloaders if trainer.testing else trainer.val_dataloaders
    return tree_flatten(loaders)[0]  # one loader, or a list or dict of loaders


def _num_batches(trainer: Any, index: int) -> float:
    numbers = trainer.num_test_batches if trainer.testing else trainer.num_val_batches
    return float(numbers[index])


def _num_padded(trainer: Any, batch: Any, batch_idx: int, index: int) -> int:
    # Reading `is_real` may wait for a GPU. Without shuffling, padding is in the last batch alone.
    if batch_idx + 1 != _num_batches(trainer, index):
        return 0
    if not isinstance(getattr(_loaders(trainer)[index], "dataset", None), PaddedDataset):
        return 0
    is_real = batch[1] if isinstance(batch, list | tuple) and len(batch) == 2 else None
    return int((~is_real).sum()) if isinstance(is_real, Tensor) else 0


def _num_queries(module: Any) -> dict[str, int]:
    metrics = {name: part for name, part in module.named_modules() if isinstance(part, Metric)}
    counts = {name: getattr(metric, "num_queries", None) for name, metric in metrics.items()}
    return {name: count for name, count in counts.items() if isinstance(count, int)}
