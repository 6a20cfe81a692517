"""Which warnings turn a test red: our own, and no other package's."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

FOREIGN = ["numpy.lib.test_utils", "torch.jit._script", "strategies_of_others", "nextloc_metrics_2"]
OURS = ["nextloc_metrics", "nextloc_metrics.core.metric.mean", __name__, "strategies", "__main__"]
OURS += ["trajectories.trajectory_oracle", "next_location"]


def warn(module: str, category: type[Warning]) -> None:
    """Warn as a line of a module does, or as a function does that names its caller's line."""
    code = "import warnings\nwarnings.warn('a warning of no meaning', category)"
    exec(code, {"__name__": module, "category": category})


@pytest.mark.parametrize(
    ("module", "category"),
    [
        *((module, UserWarning) for module in OURS),
        *((module, EncodingWarning) for module in OURS),
        ("nextloc_metrics.core.metric.mean", DeprecationWarning),
        ("other", pytest.PytestUnhandledThreadExceptionWarning),
    ],
)
def test_a_warning_of_our_own_is_an_error(module: str, category: Any) -> None:
    """Whichever of our files it names: the library, a test, a helper, an example, a page."""
    with pytest.raises(category, match="of no meaning"):
        warn(module, category)


@pytest.mark.parametrize(
    ("module", "category"),
    [
        *((module, UserWarning) for module in FOREIGN),
        *((module, FutureWarning) for module in FOREIGN),
        (__name__, FutureWarning),
        ("__main__", DeprecationWarning),
    ],
)
def test_a_warning_of_another_package_is_no_error(
    module: str, category: Any, pytestconfig: pytest.Config
) -> None:
    """Nor are its deprecations, which may name the test that uses it; `-W error` shows them."""
    if pytestconfig.getoption("pythonwarnings"):
        pytest.skip("`-W` has another answer")
    with warnings.catch_warnings(record=True):
        warn(module, category)
