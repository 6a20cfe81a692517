"""Error messages: those of the public interface are in two files, to be read in one go.

`messages.txt` has those of all options, `wrong_calls.txt` the calls that are written there.

After a change of messages, or with a new call, write the files again:
`PYTHONPATH=tests python tests/core/queries/test_golden_messages.py`.
"""

from __future__ import annotations

import inspect
import math
import re
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_input_errors import BAD, IDS, SCORES

import nextloc_metrics as nm
from inner import visits
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    Grouped,
    Ranking,
    analysis,
    distributed,
    functional,
    geography,
    report,
    trajectories,
)
from nextloc_metrics.distributed import padding_mask
from strategies import state_name, updated, with_case_in_error

GOLDEN = Path(__file__).with_name("messages.txt")
#: calls that no reader should write, each with its error below, and names that they use
WRONG_CALLS = Path(__file__).with_name("wrong_calls.txt")
COMMON = ("ignore_index", "validate_args", "ties", "empty_target_action")
NEEDED: dict[str, Any] = {
    "k": 2,
    "q": 0.5,
    "num_locations": 3,
    "bins": nm.PopularityBins([1, 2, 1]),
    "min_recall": 0.5,
    "bin_of": [1, 2],
    "train_counts": [1, 2],
    "metric": MRR(),
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
#: values that nothing takes but for options of any value
LONG: dict[str, Any] = {
    "a list": list(range(100_000)),
    "a nested list": [[0.5] * 300] * 300,
    "a string": "x" * 100_000,
    "a number": -(10**4000),
    "a tensor": torch.zeros(100_000),
    "a metric": AccuracyAtK(1),
    "a tuple": (True,) * 100_000,
    "an array": np.linspace(0, 1, 100_000),
    "a small array": np.arange(900.0),
    "a dict": {f"name {i}": i for i in range(10_000)},
    "a set": set(range(10_000)),
    "a tensor of many dimensions": torch.zeros([1] * 60),
    "a module": torch.nn.Sequential(*[torch.nn.Linear(1, 1) for _ in range(200)]),
}
#: values of options, each as it is written
WRONG = {repr(x): x for x in (-3, 0, 1.5, True, math.nan, "x", [], None, [[0.5], [1.0, 2.0]])}
WRONG |= dict([*LONG.items()][:6])
VALUE = re.compile(r", got .*?(?=;|\.?$)")  # in a message
#: the rule of an option that is one word or number
ONE_VALUE = re.compile(r"must be (?!at).*(one of (?!len)|integer\b|True|number\b|between|above)")
ROOMS: dict[str, Any] = {"": nm, "base.": nm.base, "geography.": geography}
ROOMS["trajectories."] = trajectories
RECORDS = {"Distribution", "Queries", "Ranking", "Locations", "Pairs", "TrajectoryPairs"}
RECORDS |= {
    "Estimate",
    "KeyedSums",
    "RankingMetric",
    "RankingCollection",
    "RecordMetric",
}  # which have tests of their own
#: calls whose message names something else that does not fit
OTHERWISE = {"Grouped(labels=[])", "evaluate(train_counts=a list)"}


def error_of(call: Callable[[], Any]) -> str:
    """The error that a call raises, short and in one line; "" if it raises none."""
    message = ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except (AttributeError, TypeError, ValueError) as error:
            message = f"{type(error).__name__}: {error}"
    assert len(message) <= 312, message[:400]
    assert "\n" not in message
    return message


def _with(made: Callable[..., Any], given: dict[str, Any], option: str, value: Any) -> Any:
    """Make it with an option."""
    return made(**given | {option: value})


def options() -> Iterator[tuple[str, str, Callable[[Any], Any]]]:
    """Each option of constructors, presets and functions: where, its name, what takes a value."""
    for room, module in ROOMS.items():
        for name in sorted({*module.__all__} - RECORDS):
            made = getattr(module, name)
            if not (inspect.isclass(made) or name.endswith("_metrics")) or inspect.isabstract(made):
                continue
            known = inspect.signature(made).parameters.values()
            taken = {x.name: x.default for x in known if x.kind is not x.VAR_KEYWORD}
            needed = {x: NEEDED[x] for x in taken if x in NEEDED and taken[x] is inspect._empty}
            if inspect.isclass(made) and issubclass(made, nm.RankingMetric):
                taken |= dict.fromkeys(COMMON)
            for option in sorted(taken):
                given = {"num_groups": 3} if name == "Grouped" and option != "labels" else {}
                yield f"{room}{name}", option, partial(_with, made, needed | given, option)
    for option in ("k", "groups", "cluster", "num_locations", "confidence_level", "train_counts"):
        yield "evaluate", option, lambda x, o=option: report.evaluate(SCORES, IDS, **{o: x})
    yield "report.compare", "models", lambda x: report.compare(x, IDS)
    yield "analysis.chance", "metrics", lambda x: analysis.chance(x, 3)
    for name, call in OTHERS.items():
        yield name, name.split()[0], call


RANKING = Ranking.from_scores(SCORES, IDS, top=1)
HITS = SCORES[:, 1]
WAYS: dict[str, Callable[..., Any]] = {
    "update": lambda **batch: AccuracyAtK(1).update(**batch),
    "forward": lambda **batch: MRR()(**batch),
    "LocationF1": lambda **batch: nm.LocationF1(6).update(**batch),
    "a collection": lambda **batch: nm.next_location_metrics(6).update(**batch),
    "a function": functional.mrr,
    "from_scores": Ranking.from_scores,
    "from_lists": lambda preds, **batch: Ranking.from_lists(
        IDS[:, None] if preds is SCORES else preds, **batch
    ),
}
#: what reads a tensor, by the argument that it is
TENSORS: dict[str, Callable[[Any], Any]] = {
    f"{name} of {way}": lambda x, name=name, call=call: call(
        **{"preds": SCORES, "target": IDS, name: x}
    )
    for name in ("preds", "target", "mask")
    for way, call in WAYS.items()
} | {
    "exclude": lambda x: MRR().update(SCORES, IDS, exclude=x),
    "groups": lambda x: Grouped(MRR(), 6).update(SCORES, IDS, groups=x),
    "groups of a ranking": RANKING.with_groups,
    "groups of a collection": lambda x: nm.RankingCollection({"by": Grouped(MRR(), 6)}).update(
        SCORES, IDS, groups=x
    ),
    "query_ids": lambda x: nm.PerQueryScores(MRR()).update(SCORES, IDS, query_ids=x),
    "ranks": Ranking.from_ranks,
    "local_scores": lambda x: Ranking.from_sharded_scores(x, IDS[:, None], 0),
    "queries": lambda x: Ranking.from_embeddings(x, SCORES, IDS),
    "table": lambda x: Ranking.from_embeddings(SCORES, x, IDS % 4),
}
#: what takes no tensor, by the argument that it is
OTHERS: dict[str, Callable[[Any], Any]] = {
    "reduction": lambda x: functional.mrr(SCORES, IDS, reduction=x),
    "k": lambda x: functional.accuracy_at_k(SCORES, IDS, k=x),
    "ties": RANKING.break_ties,
    "top": lambda x: Ranking.from_scores(SCORES, IDS, top=x),
    "depth": lambda x: Ranking.from_scores(SCORES, IDS, depth=x),
    "bias": lambda x: Ranking.from_embeddings(SCORES, SCORES, IDS % 4, bias=x),
    "chunk_size": lambda x: Ranking.from_embeddings(SCORES, SCORES, IDS % 4, chunk_size=x),
    "confidence_level": MRR().interval,
    "num_candidates": lambda x: analysis.chance(MRR(), num_candidates=x),
    "num_queries": lambda x: analysis.most_frequent([1, 2], x),
    "num_rows": lambda x: padding_mask(x, 2, 0),
    "rank": lambda x: padding_mask(2, 2, x),
    "seed": lambda x: report.compare({"a": HITS, "b": HITS}, seed=x),
}


#: names of other libraries, of another place, and of nothing here
NAMES = "compare evaluate NDCG HitRate mrr WeightedF1 RetrievalMRR Recal Needs zzz Retrieval "
NAMES += (
    "RetrievalNormalizedDCG LinkPredNDCG RetrievalAUROC LinkPredMRR Hit F1Beta MeanInvUserFreq "
)
NAMES += "CatalogCoverage GiniIndex AveragePrecision LinkPredF1 HR"
#: calls with an argument of another library, by the argument
ARGUMENTS: dict[str, list[Callable[..., Any]]] = {
    "num_classes": [nm.next_location_metrics, partial(nm.LocationF1, 3)],
    "top_k": [nm.recommendation_metrics, partial(nm.RecallAtK, 3)],
    "unknown": [partial(AccuracyAtK, 1)],
    "K": [partial(AccuracyAtK, 1)],
    "empty": [partial(AccuracyAtK, 1)],
    "indexes": [partial(MRR().update, 1, 2), partial(nm.RankingCollection([MRR()]), 1, 2)],
    "users": [report.Evaluator],
}
ARGUMENTS |= {
    name: [partial(report.evaluate, [[1]], [1]), *ARGUMENTS.get(name, [])]
    for name in ("top_k", "ignore_index", "km", "user", "clutser")
}


def label(value: Any) -> str:
    """A value in a line of the file."""
    text = " ".join(repr(value).split())
    return text if len(text) < 60 else f"{text[:57]}..."


def calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Wrong batches, and functions of analysis and report with a wrong value of each option."""
    for name, values in BAD.items():
        for value in values:
            batch = {"preds": SCORES, "target": IDS, name: value}
            for called, call in (("MRR().update", MRR().update), ("evaluate", report.evaluate)):
                yield f"{called}({name}={label(value)})", partial(call, **batch)
    for name in NAMES.split():
        yield f"nextloc_metrics.{name}", partial(getattr, nm, name)
    for name, made in ARGUMENTS.items():
        for number, call in enumerate(made, 1):
            yield f"call {number} with {name}=3", partial(call, **{name: 3})
    nested = torch.nested.nested_tensor([IDS, IDS[:2]], layout=torch.jagged)
    pairs = {"user": [["a", "b"], ["a", "b"]]}
    yield from {
        "preds and target of one dimension": lambda: MRR().update(IDS, SCORES[0] > 0.3),
        "evaluate(one answer per query)": lambda: report.evaluate(IDS, IDS, num_locations=6),
        "AnsweredShare()(one answer per query)": lambda: nm.AnsweredShare()(
            IDS, IDS, confidence=torch.ones(4)
        ),
        "a nested tensor": lambda: MRR().update(nested, IDS[:2]),
        "Ranking.from_scores(integers)": lambda: Ranking.from_scores(IDS[None], IDS[:1]),
        "Ranking.from_lists(scores)": lambda: Ranking.from_lists(SCORES, IDS),
        "evaluate(groups of two columns)": lambda: report.evaluate(SCORES, IDS, groups=pairs, k=1),
        "GroupLabels.from_values(text and numbers)": lambda: nm.GroupLabels.from_values(["a", 3]),
        "LocationF1(2**40 + 1)": lambda: nm.LocationF1(2**40 + 1),
        "Grouped(MRR(), 10**30)": lambda: Grouped(MRR(), 10**30),
        "MRR(ignore_index=10**30)": lambda: MRR(ignore_index=10**30),
        "recommendation_metrics(k=[2, 3, 2])": lambda: nm.recommendation_metrics(k=[2, 3, 2]),
        "click_through_metrics(thresholds=[0.5, 2])": lambda: nm.click_through_metrics(
            thresholds=[0.5, 2.0]
        ),
        "RankingCollection(-3)": lambda: nm.RankingCollection(-3),
        "RankingMetric(ignore_index=0)": lambda: nm.RankingMetric(ignore_index=0),
    }.items()


def collect() -> str:
    """The errors of options without the value and what is taken, and the errors of calls."""
    lines: dict[str, str] = {}
    taking: dict[str, list[str]] = {}
    for path, option, make in options():
        taken = []
        for written, value in WRONG.items():
            message = error_of(partial(make, value))
            if message:
                call = f"{path}({option}={written})"
                assert f"`{option.removesuffix('s')}" in message or call in OTHERWISE, message
                lines.setdefault(VALUE.sub("", message), f"{call}\n    {message}\n")
            else:
                taken.append(written)
        if taken:
            taking.setdefault(f"`{option}` may be {', '.join(taken)}:", []).append(path)
    lines |= {what: f"{what} {', '.join(paths)}\n" for what, paths in taking.items()}
    for call, run in calls():
        if message := error_of(run):
            lines.setdefault(message, f"{call}\n    {message}\n")
    return "".join(lines.values())


def states_of(metric: Any) -> list[torch.Tensor]:
    """The states of a metric, or of the members of a collection, which are lists for some."""
    members = metric.values() if isinstance(metric, nm.RankingCollection) else [metric]
    found = [x for one in members for x in one.metric_state.values()]
    return [x if isinstance(x, torch.Tensor) else torch.ones(len(x)) for x in found]


def of_wrong_calls() -> str:
    """Each line of the file of calls that is no error, with the error that it raises."""
    names: dict[str, Any] = {
        "np": np,
        "torch": torch,
        "math": math,
        "nan": math.nan,
        "inf": math.inf,
    }
    names |= {"pd": pytest.importorskip("pandas"), "pa": pytest.importorskip("pyarrow")}
    names["updated"] = updated
    for module in (nm, visits, distributed, geography, trajectories):
        names |= {name: getattr(module, name) for name in dir(module) if name[0] != "_"}
    said: list[str] = []
    for line in WRONG_CALLS.read_text(encoding="utf-8").splitlines():
        if not line.startswith(" "):
            message = error_of(partial(exec, line, names))
            metric, is_update, arguments = line.partition(".update(")
            if is_update:  # `forward` says the same, and neither changes a state
                names["metric"] = eval(metric, names)
                assert error_of(partial(exec, f"metric({arguments}", names)) == message, line
                error_of(partial(exec, f"metric.update({arguments}", names))
                assert not any(x.any() for x in states_of(names["metric"])), line
            said += [line, *([f"    {message}"] if message else [])]
    return "\n".join([*said, ""])


def test_the_messages_are_those_that_were_read() -> None:
    """A message that changes is read again, in the difference of the two files."""
    assert collect() == GOLDEN.read_text(encoding="utf-8")
    assert of_wrong_calls() == WRONG_CALLS.read_text(encoding="utf-8")


def test_errors_of_what_may_be_none_say_so() -> None:
    """An option that takes None names it beside the other values that it takes."""
    silent, read = [], 0
    for path, _, make in options():
        if path not in OTHERS and not error_of(partial(make, None)):
            messages = {VALUE.sub("", error_of(partial(make, value))) for value in WRONG.values()}
            rules = [x for x in messages if ONE_VALUE.search(x)]
            silent += [f"{path}: {x}" for x in rules if "None" not in x]
            read += len(rules)
    assert not silent, "\n".join(silent)
    assert read > 50


@pytest.mark.parametrize("name", [*TENSORS, *OTHERS])
def test_messages_are_short_whatever_was_passed(name: str) -> None:
    """They name the argument, unless numbers of another shape do not fit another one."""
    for written, value in LONG.items():
        message = error_of(partial((TENSORS | OTHERS)[name], value))
        is_numbers = isinstance(value, torch.Tensor | np.ndarray | list | tuple)
        with with_case_in_error(written):
            assert f"`{name.split()[0]}`" in message or (is_numbers and name in TENSORS)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
@pytest.mark.parametrize("name", TENSORS)
def test_sparse_tensors_are_refused(name: str) -> None:
    """Whatever argument they are, by its name and with the remedy."""
    argument = name.split()[0]
    says = f"`{argument}` must be a dense tensor, got layout torch.sparse"
    for of in (torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr):
        message = error_of(lambda of=of: TENSORS[name](of(SCORES)))
        assert says in message
        assert message.endswith(f"use `{argument}.to_dense()`.")


class WithTable(nm.RankingMetric):
    """A metric with an option of any length."""

    needs = nm.base.Needs(top=3)

    def __init__(self, table: Any = None, **kwargs: Any) -> None:
        super().__init__(table=table, **kwargs)

    def score(self, ranking: Ranking) -> torch.Tensor:
        """Return what is no score."""
        return torch.full((len(ranking),), 2.0)


@pytest.mark.parametrize("table", [list(range(50_000)), {i: i for i in range(20_000)}])
def test_messages_that_name_a_metric_are_short(table: Any) -> None:
    """Its options may be long, and its `repr` and the name of its state with them."""
    metric = WithTable(table=table, ignore_index=0)
    other = Ranking.from_scores(SCORES, IDS, ignore_index=1)
    calls: list[Callable[[], Any]] = [
        lambda: metric.update(SCORES, IDS),
        lambda: metric.update(other),
        lambda: setattr(metric, "table", []),
        lambda: metric.update(Ranking.from_scores(SCORES, IDS, ignore_index=0, depth=1)),
        lambda: nm.RankingCollection({"a": metric, "b": MRR()}, compute_groups=[["a", "b"]]),
        lambda: analysis.chance(WithTable(table), num_candidates=3),
        lambda: Grouped(WithTable, 3),
        lambda: metric.load_state_dict({state_name(metric): torch.zeros(2)}),
    ]
    for call in calls:
        with pytest.raises((TypeError, ValueError, AttributeError, RuntimeError)) as raised:
            call()
        assert len(str(raised.value)) <= 300, str(raised.value)[:400]


if __name__ == "__main__":
    GOLDEN.write_text(collect(), encoding="utf-8")
    WRONG_CALLS.write_text(of_wrong_calls(), encoding="utf-8")
