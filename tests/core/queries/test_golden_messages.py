"""The error messages of the public interface, collected in `messages.txt` to be read in one go.

After a change of messages, write the file again:
`PYTHONPATH=tests python tests/core/queries/test_golden_messages.py`.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from test_input_errors import BAD

import nextloc_metrics as nm
from nextloc_metrics import analysis, geography, report, trajectories

GOLDEN = Path(__file__).with_name("messages.txt")
SCORES, TARGET = torch.tensor([[0.1, 0.9, 0.3], [0.2, 0.7, 0.1]]), torch.tensor([1, 2])
LISTS = torch.tensor([[1, 2], [0, -1]])
WRONG: list[Any] = [-3, 1.5, "x", [], None, [[0.5], [1.0, 2.0]]]
COMMON = ("ignore_index", "validate_args", "ties", "empty_target_action")
NEEDED: dict[str, Any] = {
    "k": 2,
    "q": 0.5,
    "num_locations": 3,
    "bins": nm.PopularityBins([1, 2, 1]),
    "min_recall": 0.5,
    "bin_of": [1, 2],
    "train_counts": [1, 2],
    "metric": nm.MRR(),
    "num_groups": 3,
    "coverage": 0.5,
    "threshold": 0.5,
    "step": 1,
    "locations": geography.Locations.from_plane([0, 1, 2], [0, 1, 2]),
    "km": 1.0,
    "user": ["a"],
    "location": [0],
    "labels": ["a", "b", "c"],
}
# the value in a message, and messages of Python on signatures
VALUE = re.compile(r", got .*?(?=;|\.?$)")
PYTHON = re.compile(r"__init__\(\) missing|unexpected keyword argument")
ROOMS: dict[str, Any] = {"": nm, "geography.": geography, "trajectories.": trajectories}


def every_option(rooms: dict[str, Any]) -> Iterator[tuple[str, Any, str, dict[str, Any]]]:
    """Each option of constructors and presets: name, callable, option, and what else is needed."""
    for room, module in rooms.items():
        for name in module.__all__:
            made = getattr(module, name)
            if not (inspect.isclass(made) or name.endswith("_metrics")) or inspect.isabstract(made):
                continue
            signature = inspect.signature(made).parameters
            options = [x.name for x in signature.values() if x.kind is not x.VAR_KEYWORD]
            if inspect.isclass(made) and issubclass(made, nm.RankingMetric):
                options += COMMON
            needed = {
                option: NEEDED[option]
                for option, x in signature.items()
                if option in NEEDED and x.default is x.empty
            }
            for option in dict.fromkeys(options):
                if option not in ("prefix", "postfix"):  # torchmetrics checks them
                    yield f"{room}{name}", made, option, needed


def constructors() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Constructors and presets with a wrong value of each option."""
    for name, made, option, needed in every_option(ROOMS):
        for value in WRONG:
            given = needed | {option: value}
            yield f"{name}({option}={value!r})", lambda m=made, g=given: m(**g)


def updates() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Wrong batches."""
    for name, (preds, target, more, _) in BAD.items():
        batch = {"preds": preds, "target": target, **more}
        yield f"MRR().update: {name}", lambda b=batch: nm.MRR().update(**b)
        yield f"report.evaluate: {name}", lambda b=batch: report.evaluate(**b)
    groups = torch.tensor([0, 3])
    yield "LocationF1 with several targets", lambda: nm.LocationF1(3).update(SCORES, LISTS)
    yield "Grouped without groups", lambda: nm.Grouped(nm.MRR(), 3).update(SCORES, TARGET)
    yield (
        "Grouped with a group beyond",
        lambda: nm.Grouped(nm.MRR(), 3).update(SCORES, TARGET, groups=groups),
    )
    nan = SCORES.clone()
    nan[0, 0] = torch.nan
    yield "NaN scores", lambda: nm.MRR(validate_args=True).update(nan, TARGET)


def calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Functions of analysis and report with a wrong value of each option."""
    for value in WRONG:
        for option in (
            "k",
            "groups",
            "cluster",
            "num_locations",
            "confidence_level",
            "train_counts",
        ):
            given = {option: value}
            yield (
                f"report.evaluate({option}={value!r})",
                lambda g=given: report.evaluate(SCORES, TARGET, **g),
            )
        for option in ("groups", "confidence_level", "seed"):
            given = {option: value}
            yield (
                f"analysis.compare({option}={value!r})",
                lambda g=given: analysis.compare(SCORES[0], SCORES[1], **g),
            )
        yield f"report.compare(models={value!r})", lambda v=value: report.compare(v, TARGET)
        yield f"analysis.chance(metric={value!r})", lambda v=value: analysis.chance(v, 3)
        yield f"MRR().interval({value!r})", lambda v=value: nm.MRR().interval(v)


def collect() -> str:
    """The messages of all errors, each rule once, under the first call that breaks it."""
    lines: dict[str, str] = {}
    state = np.random.get_state(), torch.get_rng_state()
    for source in (constructors(), updates(), calls()):
        for call, run in source:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    run()
                except Exception as error:
                    if PYTHON.search(str(error)):
                        continue
                    message = f"{type(error).__name__}: {error}"
                    lines.setdefault(VALUE.sub("", message), f"{call}\n    {message}\n")
    np.random.set_state(state[0])
    torch.set_rng_state(state[1])
    return "".join(lines.values())


def test_the_messages_are_those_that_were_read() -> None:
    """A message that changes is read again, in the difference of `messages.txt`."""
    assert collect() == GOLDEN.read_text(encoding="utf-8")


if __name__ == "__main__":
    GOLDEN.write_text(collect(), encoding="utf-8")
