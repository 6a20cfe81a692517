"""A name loads what it needs, in a fresh process: no wing that it does not name."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from inner import places_of

LOADED = """
import json, sys
import torch, torchmetrics
before = set(sys.modules)
{statement}
print(json.dumps([name for name in sys.modules if name not in before]))
"""
OTHERS = ("trajectories", "analysis", "report", "files", "protocols")
OTHERS += ("plotting", "pages", "cli")


@pytest.mark.slow  # starts a process
@pytest.mark.parametrize("name", ["MRR", "next_location_metrics"])
def test_a_name_loads_what_it_needs(name: str) -> None:
    """No trajectories, analysis or report is loaded, and no matplotlib by us."""
    code = LOADED.format(statement=f"from nextloc_metrics import {name}")
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, encoding="utf-8"
    )
    names = json.loads(printed.stdout)
    assert "nextloc_metrics.metrics.at_k" in names
    parts = [x.split(".") for x in names]
    assert not [x for x in parts if x[0] == "matplotlib"]
    assert not [x for x in parts if x[0] == "nextloc_metrics" and set(x[1:2]) & set(OTHERS)]


@pytest.mark.parametrize("package", ["nextloc_metrics", "nextloc_metrics.report"])
def test_what_type_checkers_see_is_what_is_handed_on(package: str) -> None:
    """Each name of the contents, no more and no fewer, is the thing that its module has."""
    module = import_module(package)
    seen: dict[str, object] = {}
    exec(Path(str(module.__file__)).with_suffix(".pyi").read_text(encoding="utf-8"), seen)
    assert places_of(package).keys() == {x for x in seen if x[0] != "_"}
    assert set(module.__all__) == set(places_of(package))
    assert {*module.__all__, "__all__", "__doc__"} <= {*dir(module)}
    space: dict[str, object] = {}
    exec(f"from {package} import *", space)
    assert space.keys() - {"__builtins__"} == {*module.__all__}
    for name in places_of(package):
        assert getattr(module, name) is seen[name]
    with pytest.raises(AttributeError, match="has no attribute 'MRRR'"):
        module.MRRR  # noqa: B018 - the name is looked up
