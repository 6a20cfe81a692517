"""What the members of a collection may be called: PyTorch keeps each as a module of this name."""

from collections.abc import Mapping
from typing import Any, ClassVar

from torchmetrics import MetricCollection

from nextloc_metrics.core.base.fixes import UNSCRIPTED, leave_out_of_scripts
from nextloc_metrics.core.queries.messages import short


class NamedMembers(MetricCollection):
    """A collection that checks the names of its members, and their prefix and postfix."""

    __jit_ignored_attributes__: ClassVar[Any] = UNSCRIPTED

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Leave the class out of scripts."""
        super().__init_subclass__(**kwargs)
        leave_out_of_scripts(cls)

    def add_metrics(self, metrics: Any, *additional_metrics: Any) -> None:
        """Add members, whose names are checked before torchmetrics sorts them."""
        for name, metric in metrics.items() if isinstance(metrics, Mapping) else ():
            if not isinstance(name, str):
                self.add_module(name, metric)  # this raises
        super().add_metrics(metrics, *additional_metrics)

    def add_module(self, name: Any, module: Any) -> None:
        """Add one member; whatever adds members calls this."""
        if not isinstance(name, str) or not name:
            rule, other = "be text that is not empty", "mrr"
        elif "." in name:
            rule, other = "have no dot", name.replace(".", "_")
        elif hasattr(self, name) and name not in self._modules:
            rule, other = f"be no attribute of a {type(self).__name__}", f"{name}_value"
        else:
            super().add_module(name, module)
            return
        raise ValueError(
            f"the name of a member must {rule}, got {short(name)}; choose another name, such as "
            f"{short(other)}."
        )

    @staticmethod
    def _check_arg(arg: Any, name: str) -> str | None:
        """Return the prefix or postfix, or raise if it is not text."""
        if arg is None or isinstance(arg, str):
            return arg
        raise ValueError(f"`{name}` must be None or text, got {short(arg)}.")
