"""Pictures: every public metric has them, and what they show is what was computed."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torchmetrics import Metric, MetricCollection

import nextloc_metrics
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    DecileKForRecall,
    DecileNDCG,
    DecilePrecision,
    Grouped,
    LocationF1,
    PerQueryScores,
    PopularityBins,
    RankingCollection,
    RankingMetric,
    click_through_metrics,
    decile_metrics,
    libcity_metrics,
    next_location_metrics,
    plotting,
    recommendation_metrics,
)
from nextloc_metrics.families.exposure import DecileCoverage, DecilePredictionShare
from strategies import CASES, LOCATIONS, Case, batch, updated

matplotlib = pytest.importorskip("matplotlib", reason="pictures need matplotlib")
matplotlib.use("Agg")
pyplot = pytest.importorskip("matplotlib.pyplot", reason="pictures need matplotlib")

BY_CASE = pytest.mark.parametrize("case", CASES, ids=str)
BINS = PopularityBins([1, 1, 2, 2, 3, 0], 3)
DECILE_METRICS = {
    "precision at 2": DecilePrecision(BINS, k=2),
    "ndcg at 2": DecileNDCG(BINS, k=2),
    "k for recall 50": DecileKForRecall(BINS, min_recall=0.5),
    "prediction share at 2": DecilePredictionShare(BINS, k=2),
    "coverage at 2": DecileCoverage(BINS, k=2),
}
LABELS = {"AccuracyAtK": "Accuracy", "NDCGAtK": "NDCG", "MAPAtK": "MAP", "F1AtK": "F1"}


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    pyplot.close("all")  # what examples in docstrings left open
    yield
    pyplot.close("all")


def drawn(picture: Any) -> tuple[Any, Any]:
    """The figure and axes, after every label was laid out; a layout that fails warns."""
    figure, axes = picture
    assert axes.figure is figure
    figure.draw_without_rendering()
    shown = figure.get_tightbbox().padded(-0.02)  # in inches; nothing is clipped
    assert shown.x0 >= 0, shown
    assert shown.y0 >= 0, shown
    assert shown.x1 <= figure.get_figwidth(), shown
    assert shown.y1 <= figure.get_figheight(), shown
    return figure, axes


def dots(axes: Any) -> list[list[float]]:
    """The heights of every line that has markers or dashes, without the bars of intervals."""
    lines = [line for line in axes.lines if line.get_marker() not in ("_", "|")]
    return [[float(y) for y in line.get_ydata()] for line in lines]


def written(axes: Any) -> str:
    """All that is written within the axes."""
    return "\n".join(text.get_text() for text in axes.texts)


def close(one: Any, other: Any) -> bool:
    """Whether two lists of numbers are the same up to float32."""
    left, right = (torch.tensor(numbers, dtype=torch.float64) for numbers in (one, other))
    return left.shape == right.shape and bool(
        torch.allclose(left, right, atol=1e-6, rtol=0, equal_nan=True)
    )


def test_every_public_metric_is_drawn_here() -> None:
    """A metric class that is exported must be listed to be drawn."""
    listed = {type(case.make()).__name__ for case in CASES} | {"Grouped", "PerQueryScores"}
    listed |= {"SequenceAccuracy"}  # in test_sequences.py
    listed |= {type(metric).__name__ for metric in DECILE_METRICS.values()}
    for name in nextloc_metrics.__all__:
        thing = getattr(nextloc_metrics, name)
        if isinstance(thing, type) and issubclass(thing, Metric) and thing is not RankingMetric:
            assert thing.__name__ in listed, name


# One metric --------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [case for case in CASES if "." not in case.name], ids=str)
def test_a_value_is_a_dot_with_its_interval(case: Case) -> None:
    """The label, the limits, the value, and the interval where the metric has one."""
    metric = updated(case.make(), *batch(n=40))
    value = float(metric.compute())
    figure, axes = drawn(metric.plot())
    assert figure.axes == [axes]
    name, k = LABELS.get(case.name, case.name.removesuffix("AtK")), case.options.get("k")
    is_of_decisions = case.name.startswith("Location")
    expected = f"{case.name[8:]}, {metric.average}" if is_of_decisions else name
    assert axes.get_ylabel() == (expected if k is None else f"{name}@{k}")
    assert close(dots(axes), [[value]])
    if case.name == "AveragePopularity":  # visits, and no fraction
        return
    assert axes.get_ylim() == (0, 1)
    assert axes.yaxis.get_major_formatter()(0.25) == "25 %"
    assert f"{100 * value:.2f} %" in written(axes)
    if metric.averages_scores:
        low, high = map(float, metric.interval())
        assert f"{100 * low:.2f} % to {100 * high:.2f} %" in written(axes)
        ((segment,),) = (bars.get_segments() for bars in axes.collections)
        assert close(segment[:, 1].tolist(), [low, high])
    else:
        assert "interval" not in written(axes)


@BY_CASE
def test_steps_are_a_line_on_the_axes_given(case: Case) -> None:
    """Values of several batches, as `forward` returns them."""
    metric = case.make()
    values = [metric(*batch()) for _ in range(3)]
    figure, given = pyplot.subplots()
    assert metric.plot(values, ax=given) == (figure, given)
    assert close(dots(given), [[float(value) for value in values]])
    assert given.get_xlabel() == "Step"
    if metric.plot_upper_bound == 1:
        assert given.get_ylim() == (0, 1)
    assert given.get_legend() is None
    assert len(pyplot.get_fignums()) == 1


def test_a_value_given_has_no_interval() -> None:
    """It may be of another evaluation than the state's."""
    metric = updated(AccuracyAtK(1), *batch())
    _, axes = drawn(metric.plot(torch.tensor(0.5)))
    assert written(axes) == "50.00 %"


def test_without_data_there_is_a_word_and_no_dot() -> None:
    """NaN is said."""
    metric = updated(MRR(), *batch(), mask=torch.zeros(8, dtype=torch.bool))
    _, axes = drawn(metric.plot())
    assert written(axes) == "no data"
    _, axes = drawn(MRR().plot([torch.tensor(0.5), torch.tensor(math.nan)]))
    assert math.isnan(dots(axes)[0][1])


def grouped(num_groups: int, **options: Any) -> Grouped:
    """Accuracies of groups, the last of them without a query."""
    metric = Grouped(AccuracyAtK(2), num_groups, **options)
    metric.update(*batch(n=900), groups=torch.arange(900) % max(1, num_groups - 1))
    return metric


@pytest.mark.parametrize("num_groups", [1, 2, 12, 24, 30])
def test_few_groups_are_bars_in_order(num_groups: int) -> None:
    """A bar a group, its interval, and a word where a group has no data."""
    metric = grouped(num_groups)
    _, axes = drawn(metric.plot())
    values = metric.compute()
    assert close([bar.get_height() for bar in axes.patches], values.nan_to_num(0).tolist())
    (bars,) = axes.collections
    low, high = metric.interval()
    ends = [segment[:, 1].tolist() for segment in bars.get_segments() if len(segment)]
    assert close(ends, torch.stack([low, high], 1)[~values.isnan()].tolist())
    assert written(axes).count("no data") == int(values.isnan().sum())
    assert axes.get_ylabel() == "Accuracy@2"
    assert axes.get_xlabel() == "group"
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert labels == [str(number) for number in range(0, num_groups, 1 if num_groups < 15 else 5)]


@pytest.mark.parametrize("num_groups", [31, 500, 100_000])
def test_many_groups_are_a_histogram(num_groups: int) -> None:
    """However many, there are 25 bars that count all groups with data."""
    metric = grouped(num_groups)
    values = metric.compute()
    known = values[~values.isnan()]
    _, axes = drawn(metric.plot())
    assert len(axes.patches) == 25
    assert sum(bar.get_height() for bar in axes.patches) == len(known)
    assert axes.get_xlim() == (0, 1)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Accuracy@2", "number of groups")
    title = axes.get_legend().get_title().get_text()
    assert title == f"{len(known)} groups, {num_groups - len(known):,} without data"
    median = f"median {100 * float(known.double().quantile(0.5)):.2f} %"
    mean = f"mean {100 * float(known.double().mean()):.2f} %"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [median, mean]


def test_groups_over_steps() -> None:
    """A line a group where they are few; the range of the groups where they are many."""
    few, many = grouped(3).compute(), grouped(500).compute()
    _, axes = drawn(Grouped(MRR(), 3).plot([few, few / 2]))
    assert close(dots(axes), torch.stack([few, few / 2], 1).tolist())
    assert axes.get_legend().get_title().get_text() == "group"
    _, axes = drawn(Grouped(MRR(), 500).plot([many, many / 2]))
    median = float(many[~many.isnan()].double().quantile(0.5))
    assert close(dots(axes), [[median, median / 2]])
    assert len(axes.collections) == 2


@pytest.mark.parametrize(
    ("options", "label"),
    [
        ({"average": "queries"}, "Accuracy@2, mean over queries"),
        ({"average": "groups"}, "Accuracy@2, mean over groups"),
        ({"group": 1}, "Accuracy@2, group 1"),
    ],
)
def test_scalars_of_groups_say_of_what(options: dict[str, Any], label: str) -> None:
    """The label tells which mean, or which group."""
    _, axes = drawn(grouped(20, **options).plot())
    assert axes.get_ylabel() == label
    assert "95 % interval" in written(axes)


def test_f1_of_every_location() -> None:
    """Few locations are bars, and a location that does not occur has no data."""
    metric = updated(LocationF1(LOCATIONS + 1, average=None), *batch())
    _, axes = drawn(metric.plot())
    assert close([bar.get_height() for bar in axes.patches], metric.compute().nan_to_num().tolist())
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("location", "F1")


@pytest.mark.parametrize("label", DECILE_METRICS)
def test_deciles_are_bars_from_the_rarest_on(label: str) -> None:
    """A bar a bin, then what is no bin, apart and hatched; lines over steps."""
    metric = updated(DECILE_METRICS[label].clone(), *batch())
    values = metric.compute()
    _, axes = drawn(metric.plot())
    names = [text.get_text() for text in axes.get_xticklabels()]
    assert names == ["1", "2", "3", *(["overall"] * ("coverage_at_2" in values)), "unmapped"]
    keys = [metric.key(int(name) if name.isdecimal() else name) for name in names]
    heights = [float(values[key].nan_to_num()) for key in keys]
    assert close([bar.get_height() for bar in axes.patches], heights)
    assert [bool(bar.get_hatch()) for bar in axes.patches] == [not n.isdecimal() for n in names]
    assert axes.get_ylabel() == label
    assert axes.get_ylim()[0] == 0
    if metric.plot_upper_bound == 1:
        assert axes.get_ylim()[1] == 1
    _, axes = drawn(metric.plot([values, values]))
    assert close(dots(axes), [[float(values[key])] * 2 for key in keys])


def test_a_single_decile_is_a_dot() -> None:
    """The label names the bin."""
    metric = updated(DecileNDCG(BINS, 2, decile=3), *batch())
    _, axes = drawn(metric.plot())
    assert axes.get_ylabel() == "ndcg at 2 decile 3"
    assert close(dots(axes), [[float(metric.compute())]])


def test_scores_of_queries_are_a_histogram() -> None:
    """However few queries there are: their ids are no places on an axis."""
    metric = updated(PerQueryScores(MRR()), *batch(), query_ids=torch.arange(8))
    _, axes = drawn(metric.plot())
    assert sum(bar.get_height() for bar in axes.patches) == 8
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("MRR", "number of queries")
    _, axes = drawn(metric.plot([metric.compute()] * 2))
    assert close(dots(axes), [[float(metric.compute().scores.quantile(0.5))] * 2])


def test_a_metric_of_ones_own_is_drawn_like_the_others() -> None:
    """The class' name is its label."""

    class Inverse(RankingMetric):
        def score(self, ranking: Any) -> Tensor:
            return 1 / (ranking.break_ties("pessimistic").above[:, 0] + 1).double()

    _, axes = drawn(updated(Inverse(), *batch()).plot())
    assert axes.get_ylabel() == "Inverse"


@pytest.mark.parametrize("val", [torch.zeros(2, 3), torch.zeros(2, 3).tolist()])
def test_values_of_another_shape_are_an_error(val: Any) -> None:
    """A matrix is none, and its shape is said; a list of lists is several steps of groups."""
    if isinstance(val, Tensor):
        with pytest.raises(ValueError, match=r"got the shape \(2, 3\)"):
            MRR().plot(val)
    else:
        assert len(dots(Grouped(MRR(), 3).plot(val)[1])) == 3


def test_no_step_is_an_error() -> None:
    """An empty list is a mistake, in a metric and in a collection."""
    with pytest.raises(ValueError, match="at least one step, got none"):
        MRR().plot([])
    with pytest.raises(ValueError, match="at least one step, got none"):
        RankingCollection({"mrr": MRR()}).plot([], together=True)


# Collections -------------------------------------------------------------------------------------


def collection(n: int = 60, **options: Any) -> RankingCollection:
    """The usual metrics of a random batch."""
    return updated(next_location_metrics(LOCATIONS, k=(1, 2), **options), *batch(n=n))


def test_a_collection_draws_every_member() -> None:
    """By torchmetrics' convention: a list of pictures, titled with the keys."""
    metrics = collection(prefix="val/")
    values = metrics.compute()
    pictures = metrics.plot()
    assert [axes.get_title() for _, axes in pictures] == list(values)
    for (figure, axes), value in zip(pictures, values.values(), strict=True):
        drawn((figure, axes))
        assert close(dots(axes), [[float(value)]])
    steps = metrics.plot([values, values])
    assert close([dots(axes)[0] for _, axes in steps], [[float(v)] * 2 for v in values.values()])
    given = pyplot.subplots(1, len(metrics))[1]
    for axes in (given, list(given)):
        assert [ax for _, ax in metrics.plot(values, ax=axes)] == list(given)


def test_a_collection_as_one_picture() -> None:
    """A row a member: the dot, and the interval where there is one."""
    metrics = collection(prefix="val/")
    values = metrics.compute()
    found = metrics.compute_with_intervals()
    _, axes = drawn(metrics.plot(together=True))
    assert [text.get_text() for text in axes.get_yticklabels()] == list(values)
    (line,) = (line for line in axes.lines if line.get_marker() == "o")
    assert close(list(line.get_xdata()), [float(value) for value in values.values()])
    assert list(line.get_ydata()) == list(range(len(values)))
    (bars,) = axes.collections
    for segment, name in zip(bars.get_segments(), values, strict=True):
        low = float(found.get(f"{name}_low", values[name]))
        high = float(found.get(f"{name}_high", values[name]))
        assert close(segment[:, 0].tolist(), [low, high])
    given = pyplot.subplots()[1]
    assert metrics.plot(values, ax=given, together=True) == (given.figure, given)
    assert given.get_xlabel() == "value"
    _, axes = drawn(metrics.plot([values, values], together=True))
    assert close(dots(axes), [[float(value)] * 2 for value in values.values()])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(values)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("clash", [False, True])
def test_members_with_several_values(nested: bool, clash: bool) -> None:
    """The values of a dict go to the member they are of, whatever MetricCollection calls them."""
    members = {"ndcg": DecileNDCG(BINS, 2), "users": grouped(500)}
    if clash:
        members["optimistic"] = DecileNDCG(BINS, 2, ties="optimistic")
    metrics = RankingCollection(members, prefix="val/", postfix="_all")
    if nested:
        metrics = RankingCollection([metrics, RankingCollection({"mrr": MRR()})])
    metrics.update(*batch(n=900), groups=torch.arange(900) % 499)
    values = metrics.compute()
    assert len(metrics.table().rows) == len(values)
    for pictures in (metrics.plot(), metrics.plot(values)):
        by_title = {axes.get_title(): axes for _, axes in pictures}
        for name, member in metrics.items(copy_state=False):
            if isinstance(member, DecileNDCG):
                heights = [float(member.compute()[key].nan_to_num()) for key in member.plot_labels]
                assert close([bar.get_height() for bar in by_title[name].patches], heights)
    _, axes = drawn(metrics.plot(together=True))
    assert len(axes.get_yticklabels()) == len(values)
    assert "val/users_all, median of 499" in [text.get_text() for text in axes.get_yticklabels()]


def test_presets_are_drawn_together() -> None:
    """What is no fraction is written; many values over steps are shades, not lines."""
    metrics = updated(decile_metrics(BINS, k=2), *batch())
    values = metrics.compute()
    _, axes = drawn(metrics.plot(together=True))
    assert len(axes.get_yticklabels()) == len(values)
    assert written(axes).count("no data") == sum(bool(v.isnan()) for v in values.values())
    named = [v for name, v in values.items() if name.startswith("k_for") and not v.isnan()]
    assert written(axes).count("(no fraction)") == len(named)
    _, axes = drawn(metrics.plot([values, values], together=True))
    (image,) = axes.images
    assert image.get_array().shape == (len([n for n in values if not n.startswith("k_for")]), 2)
    ks = RankingCollection({"k": DecileKForRecall(BINS, 0.5, decile=1), "mrr": MRR()})
    ks.update(*batch())
    (name,) = dots(drawn(ks.plot([ks.compute()], together=True))[1])
    assert close(name, [float(ks.compute()["mrr"])])
    for preset in (recommendation_metrics(k=(1, 2)), libcity_metrics(k=2)):
        _, axes = drawn(updated(preset, *batch()).plot(together=True))
        assert len(axes.get_yticklabels()) == len(preset)
    pyplot.close("all")
    probabilities, clicks = torch.rand(30), torch.arange(30) % 2
    interactions = updated(click_through_metrics(), probabilities, clicks)
    assert len(interactions.plot()) == len(interactions)
    (loss, _), *_ = interactions.plot([interactions.compute()] * 2)
    assert loss.axes[0].get_ylabel() == "LogLoss"
    others = MetricCollection({"acc": AccuracyAtK(1), "mrr": MRR()})
    others.update(*batch())
    assert len(others.plot()) == 2


def test_wrong_axes_are_an_error() -> None:
    """One for all together, otherwise one for each."""
    metrics = collection()
    _, axes = pyplot.subplots(1, 2)
    for together, given in ((True, axes), (False, axes[0]), (False, axes), (False, list(axes))):
        with pytest.raises(ValueError, match="`ax` must be"):
            metrics.plot(ax=given, together=together)
    with pytest.raises(ValueError, match="`together` must be True or False, got 1"):
        metrics.plot(together=1)  # type: ignore[arg-type]


# Models ------------------------------------------------------------------------------------------


def test_models_side_by_side() -> None:
    """A row a metric and a marker a model, whatever the prefixes; a gap where one lacks it."""
    models = {
        "first": collection(prefix="a/"),
        "second": updated(RankingCollection({"mrr": MRR(), "new": AccuracyAtK(3)}), *batch()),
    }
    _, axes = drawn(plotting.side_by_side(models, confidence=0.9))
    rows = [text.get_text() for text in axes.get_yticklabels()]
    assert rows == ["acc_at_1", "acc_at_2", "mrr", "ndcg_at_2", "f1", "new"]
    assert axes.get_xlabel() == "value and 90 % interval"
    lines = [line for line in axes.lines if line.get_marker() in "os" and line.get_marker()]
    assert [line.get_marker() for line in lines] == ["o", "s"]
    low, high = (float(bound) for bound in models["second"]["new"].interval(0.9))
    (segment,) = (axes.collections[1].get_segments()[1:],)
    assert close(segment[0][:, 0].tolist(), [low, high])
    for model, line in zip(models.values(), lines, strict=True):
        values = {name.removeprefix("a/"): float(v) for name, v in model.compute().items()}
        assert close(list(line.get_xdata()), list(values.values()))
        assert [rows[round(y)] for y in line.get_ydata()] == list(values)
    heights = [float(y) for line in lines for y in line.get_ydata()]
    assert len(set(heights)) == len(heights)  # none upon another
    with pytest.raises(ValueError, match="must hold a collection"):
        plotting.side_by_side({})
    with pytest.raises(ValueError, match="`confidence` must be between"):
        plotting.side_by_side(models, confidence=95)


def every_k(last: int = 50, wrap: Any = lambda metric: metric) -> RankingCollection:
    """Accuracies in no particular order, and a metric that is none."""
    cuts = range(last, 0, -1)
    members = {f"acc_at_{k}": wrap(AccuracyAtK(k)) for k in cuts}
    metrics = RankingCollection({**members, "mrr": MRR()}, prefix="val/")
    target = torch.randint(60, (90,))
    metrics.update(torch.randn(90, 60), target, groups=torch.arange(90) % 30)
    return metrics


def test_accuracy_within_every_k_has_its_band() -> None:
    """Lines and bands in the order of k, of the very values."""
    models = {"first": every_k(), "second": every_k(5)}
    _, axes = drawn(plotting.accuracy_within_k(models, confidence=0.8))
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(models)
    for model, line, band in zip(models.values(), axes.lines, axes.collections, strict=True):
        found = model.compute_with_intervals(0.8)
        ks = list(range(1, len(model)))
        assert list(line.get_xdata()) == ks
        assert close(list(line.get_ydata()), [float(found[f"val/acc_at_{k}"]) for k in ks])
        corners = band.get_paths()[0].vertices
        for k in ks:
            ends = corners[corners[:, 0] == k][:, 1]
            bounds = [float(found[f"val/acc_at_{k}_{end}"]) for end in ("low", "high")]
            assert close([ends.min(), ends.max()], bounds)
    assert axes.get_xlim() == (1, 50)
    assert axes.get_ylim()[0] == 0
    assert axes.get_ylim()[1] <= 1


def test_accuracy_within_k_of_groups_and_of_few() -> None:
    """The band of a mean over queries is that of the groups; single ks are marked."""

    def by_user(metric: AccuracyAtK) -> Grouped:
        return Grouped(metric, 30, average="queries")

    metrics = every_k(3, by_user)
    _, axes = drawn(plotting.accuracy_within_k(metrics))
    assert axes.get_legend() is None
    assert [int(tick) for tick in axes.get_xticks()] == [1, 2, 3]
    corners = axes.collections[0].get_paths()[0].vertices
    low = float(metrics["val/acc_at_2"].interval()[0])
    assert close(corners[corners[:, 0] == 2][:, 1].min(), low)
    for none in (MRR(), Grouped(AccuracyAtK(2), 3)):
        none = RankingCollection({"none": none})
        none.update(*batch(), groups=torch.arange(8) % 3)
        with pytest.raises(ValueError, match="must have members AccuracyAtK, and the collection"):
            plotting.accuracy_within_k(none)
    twice = RankingCollection({"one": AccuracyAtK(2), "two": AccuracyAtK(2, ties="optimistic")})
    twice.update(*batch())
    with pytest.raises(ValueError, match="several within 2 in GRU"):
        plotting.accuracy_within_k({"GRU": twice})


def test_styles_differ_in_grey() -> None:
    """Of up to six models every two differ in marker, and in how light they are."""
    models = {str(number): collection() for number in range(6)}
    _, axes = drawn(plotting.side_by_side(models))
    lines = [line for line in axes.lines if line.get_marker() not in ("|", "_", "None")]
    assert len({line.get_marker() for line in lines}) == 6
    red, green, blue = torch.tensor([line.get_color()[:3] for line in lines]).T
    light = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    assert bool((light.diff() > 0.05).all())


# Without matplotlib ------------------------------------------------------------------------------


def test_absent_matplotlib_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install, from every way to a picture."""
    metrics = collection()
    values = metrics.compute()
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for draw in (
        lambda: metrics["mrr"].plot(),
        lambda: MRR().plot([torch.tensor(0.5)]),
        lambda: metrics.plot(),
        lambda: metrics.plot(together=True),
        lambda: metrics.plot([values], together=True),
        lambda: plotting.side_by_side({"GRU": metrics}),
        lambda: plotting.accuracy_within_k(metrics),
        lambda: updated(DecileNDCG(BINS, 2), *batch()).plot(),
    ):
        with pytest.raises(ModuleNotFoundError, match=r"pip install 'nextloc-metrics\[plot\]'"):
            draw()
