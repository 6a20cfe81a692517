"""Error messages stay short whatever was passed, and name the argument, the value and a remedy."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_golden_messages import every_option
from torchmetrics import Metric

import nextloc_metrics
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    Distribution,
    Grouped,
    LocationF1,
    Needs,
    PerQueryScores,
    Queries,
    Ranking,
    RankingCollection,
    RankingMetric,
    analysis,
    click_through_metrics,
    functional,
    geography,
    libcity_metrics,
    next_location_metrics,
    recommendation_metrics,
    report,
    trajectories,
)
from nextloc_metrics.trajectories import DTW
from strategies import named

LONGEST = 300
Wrong = (TypeError, ValueError)
LONG: dict[str, Any] = {
    "list": list(range(100_000)),
    "nested": [[0.5] * 300] * 300,
    "tuple": (True,) * 100_000,
    "string": "x" * 100_000,
    "array": np.linspace(0, 1, 100_000),
    "small array": np.arange(900.0),
    "dict": {f"name {i}": i for i in range(10_000)},
    "set": set(range(10_000)),
    "number": -(10**4000),
    "tensor": torch.zeros(100_000),
    "tensor of many dimensions": torch.zeros([1] * 60),
    "module": torch.nn.Sequential(*[torch.nn.Linear(1, 1) for _ in range(200)]),
    "metric": AccuracyAtK(1),
}
FEW = {x: LONG[x] for x in ("list", "nested", "string", "number", "tensor", "metric")}
SCORES = torch.tensor([[0.1, 0.9, 0.3], [0.2, 0.7, 0.1]])
TARGET, MASK = torch.tensor([1, 2]), torch.tensor([True, True])

by_value = pytest.mark.parametrize("value", LONG.values(), ids=LONG.keys())


def message_of(call: Callable[[], Any], name: str) -> str:
    """The message of the error that a call raises, short and with the argument's name."""
    with pytest.raises(Wrong) as raised:
        call()
    message = str(raised.value)
    assert len(message) <= LONGEST, (len(message), message[:400])
    assert (f"`{name}`" if name else "`") in message, message
    assert "\n" not in message
    return message


# Arguments of update -----------------------------------------------------------------------------

UPDATES: dict[str, Callable[..., Any]] = {
    "update": lambda **batch: AccuracyAtK(1).update(**batch),
    "forward": lambda **batch: MRR()(**batch),
    "LocationF1": lambda **batch: LocationF1(3).update(**batch),
    "collection": lambda **batch: next_location_metrics(3).update(**batch),
    "function": lambda **batch: functional.mrr(**batch),
    "from_scores": Ranking.from_scores,
    "from_lists": lambda preds, **batch: Ranking.from_lists(
        SCORES.argsort(descending=True) if preds is SCORES else preds, **batch
    ),
    "from_predictions": Ranking.from_predictions,
    "from_embeddings": lambda preds, **batch: Ranking.from_embeddings(preds, torch.eye(3), **batch),
    "from_sharded_scores": lambda preds, **batch: Ranking.from_sharded_scores(
        preds, offset=0, **batch
    ),
}


@pytest.mark.parametrize("way", UPDATES)
@pytest.mark.parametrize("name", ["preds", "target", "mask"])
def test_messages_on_batches_are_short(name: str, way: str) -> None:
    """Whatever stands in the place of a tensor, on every way to rank."""
    names = {"from_embeddings": "queries", "from_sharded_scores": "local_scores"}
    named = names.get(way, name) if name == "preds" else name
    for value in FEW.values():
        batch = {"preds": SCORES, "target": TARGET, "mask": MASK, name: value}
        # numbers of another shape do not fit the others, which the message may name instead
        either = "" if isinstance(value, torch.Tensor | np.ndarray | list | tuple) else named
        message_of(lambda batch=batch: UPDATES[way](**batch), either)


@by_value
def test_messages_on_groups_and_ids_are_short(value: Any) -> None:
    """`groups` and `query_ids` are tensors of integers, one a query."""
    batch = SCORES, TARGET
    message_of(lambda: Grouped(MRR(), 3).update(*batch, groups=value), "groups")
    message_of(lambda: Ranking.from_scores(*batch).with_groups(value), "groups")
    collection = RankingCollection({"by_user": Grouped(MRR(), 3)})
    message_of(lambda: collection.update(*batch, groups=value), "groups")
    message_of(lambda: PerQueryScores(MRR()).update(*batch, query_ids=value), "query_ids")


# Options -----------------------------------------------------------------------------------------

#: the options that take some of these values; all others refuse them, with their name
ODD = {
    "-3": -3,
    "0": 0,
    "1.5": 1.5,
    "True": True,
    "nan": math.nan,
    "x": "x",
    "[]": [],
    "None": None,
}
TAKEN = {
    "aligned": "True", "average": "None", "F1AtK.average": "",
    "base": "1.5 None", "beta": "1.5", "bin_of": "list",
    "by": "x None string", "decile": "None", "exhausted": "None 1.5", "first": "None",
    "floor": "None", "free_start": "True", "given": "None", "group": "0 None",
    "ignore_index": "-3 0 None", "trajectories.ignore_index": "None",
    "MRR.k": "None", "RBP.k": "None", "km": "0 1.5",
    "locations": "None", "geography.locations": "", "max_grade": "1.5",
    "ndcg_k": "None", "normalized": "True", "weighted": "True",
    "num_candidates": "None",
    "scale": "1.5", "separator": "x string", "step": "-3",
    "train_counts": "list", "steps": "[]", "temperature": "1.5",
    "metric": "metric",
    "click_through_metrics.thresholds": "[] None tensor", "total": "None", "validate_args": "True",
    "visits": "None", "window": "0 None", "within": "0 1.5",
}  # fmt: skip


@pytest.mark.slow
def test_every_option_of_every_metric_is_checked() -> None:
    """What is no value of an option, of whatever length, is a short error that names it."""
    checked = 0
    rooms = {f"{x.__name__.split('.')[-1]}.": x
             for x in (nextloc_metrics, geography, trajectories)}  # fmt: skip
    for path, made, option, needed in every_option(rooms):
        room, name = path.split(".")
        is_metric = not inspect.isclass(made) or issubclass(made, Metric)
        is_other = not is_metric and room != "nextloc_metrics"
        if is_other or made in (Distribution, Queries, Ranking, RankingMetric, RankingCollection):
            continue  # records, and classes with tests of their own
        given, values = dict(needed), FEW | (ODD if is_metric and option != "labels" else {})
        if name == "Grouped":
            given["num_groups"] = 3
        if "mass" in inspect.signature(made).parameters and option != "threshold":
            given["mass"] = 0.5
        keys = (f"{name}.{option}", f"{room}.{option}", option)
        taken = next((TAKEN[x] for x in keys if x in TAKEN), "").split()
        for text, value in values.items():
            checked += 1
            with named(f"{path}({option}={text})"):
                call = partial(made, **{**given, option: value})
                if text in taken:
                    call()
                else:
                    message_of(call, "" if option == "steps" else option)
    assert checked > 3000


@by_value
def test_messages_of_functions_are_short(value: Any) -> None:
    """Analysis, tables and collections name what they cannot use."""
    batch = SCORES, TARGET
    message_of(lambda: functional.mrr(*batch, reduction=value), "reduction")
    message_of(lambda: functional.accuracy_at_k(*batch, k=value), "k")
    ranking = Ranking.from_scores(*batch, top=1)
    message_of(lambda: ranking.break_ties(value), "ties")
    for name in ("top", "depth", "best"):
        message_of(lambda name=name: Ranking.from_scores(*batch, **{name: value}), name)
    if not isinstance(value, torch.Tensor):
        message_of(lambda: ranking.look_up(value, 0.0), "table")
        message_of(lambda: Ranking.from_embeddings(SCORES, value, TARGET), "table")
    message_of(lambda: Ranking.from_embeddings(SCORES, torch.eye(3), TARGET, bias=value), "bias")
    message_of(
        lambda: Ranking.from_embeddings(SCORES, torch.eye(3), TARGET, chunk_size=value),
        "chunk_size",
    )
    message_of(lambda: MRR().interval(value), "confidence_level")
    message_of(lambda: analysis.chance(MRR(), num_candidates=value), "num_candidates")
    message_of(lambda: analysis.most_frequent([1, 2], value), "num_queries")
    if not isinstance(value, torch.Tensor) or value.ndim != 1:
        message_of(lambda: analysis.compare(value, value), "a")
    message_of(lambda: analysis.compare(SCORES[0], SCORES[1], groups=value), "groups")
    message_of(lambda: nextloc_metrics.distributed.padding_mask(value, 2, 0), "num_rows")
    message_of(lambda: nextloc_metrics.distributed.padding_mask(2, 2, value), "rank")


@by_value
def test_messages_of_collections_are_short(value: Any) -> None:
    """A member that is no metric is named shortly."""
    if isinstance(value, AccuracyAtK):
        return
    with pytest.raises(TypeError, match="RankingCollection") as raised:
        RankingCollection({"a": value})
    assert len(str(raised.value)) <= LONGEST


class WithTable(RankingMetric):
    """A metric with an option of any length."""

    def __init__(self, table: Any = None, **kwargs: Any) -> None:
        super().__init__(table=table, **kwargs)

    def score(self, ranking: Ranking) -> torch.Tensor:
        """Return what is no score."""
        return torch.full((len(ranking),), 2.0)


@pytest.mark.parametrize("table", [list(range(50_000)), {i: i for i in range(20_000)}])
def test_messages_that_name_a_metric_are_short(table: Any) -> None:
    """Its options may be long, and its `repr` and the name of its state with them."""
    metric = WithTable(table=table, ignore_index=0)
    ranking = Ranking.from_scores(SCORES, TARGET, ignore_index=1)
    calls: list[Callable[[], Any]] = [
        lambda: metric.update(SCORES, TARGET),
        lambda: metric.update(ranking),
        lambda: setattr(metric, "table", []),
        lambda: metric.update(Ranking.from_scores(SCORES, TARGET, ignore_index=0, depth=1)),
        lambda: RankingCollection({"a": WithTable(table), "b": MRR()}, compute_groups=[["a", "b"]]),
        lambda: analysis.chance(WithTopThree(table), num_candidates=3),
        lambda: Grouped(WithTopThree, 3),
        lambda: metric.load_state_dict({metric._state_name: torch.zeros(2)}),
    ]
    for call in calls:
        with pytest.raises((*Wrong, AttributeError, RuntimeError)) as raised:
            call()
        assert len(str(raised.value)) <= LONGEST, str(raised.value)[:400]


class WithTopThree(WithTable):
    """A metric that reads ids."""

    needs = Needs(top=3)


def test_thresholds_are_checked_by_name() -> None:
    """Of the curves and of decisions, before torchmetrics prints all of them."""
    for thresholds in ([0.5, 2.0] * 5000, torch.tensor([0.5, -1.0]), 1, "many", [[0.5]], True):
        message_of(lambda t=thresholds: click_through_metrics(thresholds=t), "thresholds")
    for threshold in (2.0, "x" * 1000, [0.5] * 1000):
        message_of(lambda t=threshold: click_through_metrics(threshold=t), "threshold")
    click_through_metrics(thresholds=[0.0, 0.5, 1.0], threshold=0.25)
    click_through_metrics(thresholds=torch.linspace(0, 1, 5))


@pytest.mark.parametrize("preset", [recommendation_metrics, libcity_metrics])
def test_a_long_list_of_k_is_shortened(preset: Any) -> None:
    """Where one of them is wrong, and where one is there twice."""
    message_of(lambda: preset(k=[*range(1, 50_000), 1]), "k")
    message_of(lambda: preset(k=[*range(50_000)]), "k")


def test_errors_of_calls_name_the_class_that_is_called() -> None:
    """Unknown options and arguments, missing and extra ones: never a base class."""
    public = {name: getattr(nextloc_metrics, name) for name in nextloc_metrics.__all__}
    metrics = {
        name: made
        for name, made in public.items()
        if inspect.isclass(made) and issubclass(made, Metric) and not inspect.isabstract(made)
    }
    del metrics["HitRateAtK"]  # another name of a class
    assert len(metrics) > 30
    for name, made in metrics.items():
        needed = inspect.signature(made).parameters.values()
        missing = any(x.default is x.empty and x.kind is x.POSITIONAL_OR_KEYWORD for x in needed)
        calls: list[tuple[tuple[int, ...], dict[str, int]]] = [((1,) * 20, {})]
        if missing:
            calls.append(((), {}))
        else:
            calls.append(((), {"unknown_option": 1}))
        wrong = rf"^{name}(\.__init__\(\)| has no option `unknown)"
        for arguments, options in calls:
            with named(name), pytest.raises(TypeError, match=wrong):
                made(*arguments, **options)


def test_errors_of_updates_name_the_class_that_is_called(tmp_path: Path) -> None:
    """Also of a class of one's own, and of a table whose options are those of an evaluation."""

    class Own(AccuracyAtK):
        """A metric of one's own."""

    for metric, name in ((Own(1), "Own"), (AccuracyAtK(1), "AccuracyAtK"), (DTW(), "DTW")):
        with pytest.raises(TypeError, match=rf"{name}\.update\(\) got an unexpected"):
            metric.update([[1]], [1], unknown=1)
        with pytest.raises(TypeError, match=rf"{name}\.read\(\) missing"):
            metric.read()
    assert not Own(1)._has_own_update
    with pytest.raises(
        TypeError, match=r"AccuracyAtK has no option `unknown`; its options are `k`"
    ):
        AccuracyAtK(1, unknown=2)
    with pytest.raises(TypeError, match="evaluate has no option `kk`; use `k`"):
        report.evaluate(tmp_path / "none.csv", kk=2)
