"""Which warnings turn a test red: our own, and no other package's."""

from __future__ import annotations

import warnings

import pytest

OURS = ["nextloc_metrics.core.base.mean", __name__, "oracles.sequences", "__main__"]
FOREIGN = ["numpy.lib.test_utils", "strategies_of_others", "nextloc_metrics_2"]
CASES = [(module, kind, True) for module in OURS for kind in (UserWarning, EncodingWarning)]
CASES += [(module, kind, False) for module in FOREIGN for kind in (UserWarning, FutureWarning)]
CASES += [(OURS[0], DeprecationWarning, True), ("__main__", DeprecationWarning, False)]


@pytest.mark.parametrize(("module", "category", "is_error"), CASES)
def test_warnings_of_our_own_are_errors(
    module: str, category: type[Warning], is_error: bool, pytestconfig: pytest.Config
) -> None:
    """Whichever of our files a warning names, and of no other package, unless by `-W error`."""
    code = "import warnings\nwarnings.warn('a warning of no meaning', category)"
    space = {"__name__": module, "category": category}
    if is_error:
        with pytest.raises(category, match="of no meaning"):
            exec(code, space)
    elif not pytestconfig.getoption("pythonwarnings"):
        with warnings.catch_warnings(record=True):
            exec(code, space)
