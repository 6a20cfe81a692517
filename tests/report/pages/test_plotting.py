"""Pictures: every public metric has them, and they show the computed values, readable."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torchmetrics import MetricCollection

from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    BrierScore,
    DecileKForRecall,
    DecileNDCG,
    DecilePrecision,
    Distribution,
    Grouped,
    LocationF1,
    PerQueryScores,
    PopularityBins,
    RankingCollection,
    click_through_metrics,
    decile_metrics,
    libcity_metrics,
    next_location_metrics,
    plotting,
    probability_metrics,
    recommendation_metrics,
)
from nextloc_metrics.metrics.exposure import DecileCoverage, DecilePredictionShare
from strategies import CASES, LOCATIONS, Case, batch, updated

matplotlib = pytest.importorskip("matplotlib", reason="pictures need matplotlib")
matplotlib.use("Agg")
pyplot = pytest.importorskip("matplotlib.pyplot", reason="pictures need matplotlib")

BY_CLASS = pytest.mark.parametrize("case", {case.name: case for case in CASES}.values(), ids=str)
BINS = PopularityBins([1, 1, 2, 2, 3, 0], 3)
DECILE_METRICS = {
    "precision@2": DecilePrecision(BINS, k=2),
    "NDCG@2": DecileNDCG(BINS, k=2),
    "k for recall 50": DecileKForRecall(BINS, min_recall=0.5),
    "prediction share@2": DecilePredictionShare(BINS, k=2),
    "coverage@2": DecileCoverage(BINS, k=2),
}
LABELS = {"AccuracyAtK": "Accuracy", "NDCGAtK": "NDCG", "MAPAtK": "MAP", "F1AtK": "F1"}


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    pyplot.close("all")  # what examples in docstrings left open
    yield
    pyplot.close("all")


def drawn(picture: Any) -> tuple[Any, Any]:
    """The figure and axes, laid out: nothing is clipped, and no text overlaps another."""
    figure, axes = picture
    assert axes.figure is figure
    figure.draw_without_rendering()
    shown = figure.get_tightbbox().padded(-0.02)  # in inches; nothing is clipped
    assert shown.x0 >= 0, shown
    assert shown.y0 >= 0, shown
    assert shown.x1 <= figure.get_figwidth(), shown
    assert shown.y1 <= figure.get_figheight(), shown
    boxes = text_boxes(axes)
    for i, (text, box) in enumerate(boxes):
        for other, beside in boxes[:i]:
            assert not box.overlaps(beside), (text, other)
    return figure, axes


def text_boxes(axes: Any) -> list[tuple[str, Any]]:
    """Every text that is seen, with its box less half a pixel: labels, ticks, notes, legend."""
    texts = [axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts]
    for each in (axes, *axes.child_axes):
        for axis in (each.xaxis, each.yaxis):
            low, high = sorted(axis.get_view_interval())
            texts += [tick.label1 for tick in axis.get_major_ticks() if low <= tick._loc <= high]
            texts += [tick.label2 for tick in axis.get_major_ticks() if low <= tick._loc <= high]
        texts.append(each.xaxis.label)
    if axes.get_legend() is not None:
        texts += axes.get_legend().get_texts()
    seen = {id(text): text for text in texts if text.get_visible() and text.get_text()}
    seen = {key: text for key, text in seen.items() if text.get_rotation() % 90 == 0}
    return [(text.get_text(), text.get_window_extent().padded(-0.5)) for text in seen.values()]


def note(axes: Any) -> str:
    """The small text below the label of the x axis, in one line."""
    return " ".join(written(axes).split())


def dots(axes: Any) -> list[list[float]]:
    """The heights of every line, without the ends of intervals and the edges of bands."""
    return [[float(y) for y in line.get_ydata()] for line in lines(axes)]


def lines(axes: Any) -> list[Any]:
    """Every line, without the ends of intervals and the edges of bands."""
    return [
        line
        for line in axes.lines
        if line.get_marker() not in ("_", "|") and line.get_label() != "_edge"
    ]


def whiskers(bars: Any, at: int = 1) -> list[list[float]]:
    """The ends of the intervals of a container of whiskers, along an axis."""
    return [segment[:, at].tolist() for segment in bars.get_segments() if len(segment)]


def queries_above(axes: Any) -> list[str]:
    """The numbers of queries above the groups."""
    (top,) = axes.child_axes
    assert top.get_xlabel().startswith("number of queries")
    return [label.get_text() for label in top.get_xticklabels()]


def written(axes: Any) -> str:
    """All that is written within the axes."""
    return "\n".join(text.get_text() for text in axes.texts)


def close(one: Any, other: Any) -> bool:
    """Whether two lists of numbers are the same up to float32."""
    left, right = (torch.tensor(numbers, dtype=torch.float64) for numbers in (one, other))
    return left.shape == right.shape and bool(
        torch.allclose(left, right, atol=1e-6, rtol=0, equal_nan=True)
    )


# One metric --------------------------------------------------------------------------------------


#: one case of each class
LABELLED = {case.name: case for case in CASES if "." not in case.name}


@pytest.mark.parametrize("case", LABELLED.values(), ids=str)
def test_a_value_is_a_thin_row_with_a_sentence(case: Case) -> None:
    """The dot, its interval, and a sentence with both and the number of queries."""
    metric = updated(case.make(), *batch(n=40))
    value = float(metric.compute())
    figure, axes = drawn(metric.plot())
    assert figure.axes == [axes]
    assert figure.get_figheight() < 1  # no tall box around one dot
    of_probabilities = metric.label if metric.record is Distribution else None
    name = of_probabilities or LABELS.get(case.name, case.name.removesuffix("AtK"))
    k = case.options.get("k")
    is_of_decisions = case.name.startswith("Location")
    expected = f"{case.name[8:]}, {metric.average}" if is_of_decisions else name
    if case.name in ("RBP", "RankQuantile"):
        expected, k = metric.label, None
    assert axes.get_ylabel() == (expected if k is None else f"{name}@{k}")
    (dot,) = lines(axes)
    assert close(list(dot.get_xdata()), [value])
    if metric.plot_upper_bound != 1:  # visits, nats: not a fraction
        return
    assert axes.get_xlim() == (0, 1)
    assert axes.xaxis.get_major_formatter()(0.25) == "25 %"
    sentence = f"{100 * value:.2f} %"
    if metric._averages_scores:
        low, high = map(float, metric.interval())
        sentence += f", 95 % interval {100 * low:.2f} to {100 * high:.2f} %"
        (bars,) = axes.collections
        assert close(whiskers(bars, 0), [[low, high]])
    numbers = metric._numbers()[0]
    if numbers is not None:
        sentence += f", {int(numbers)} quer{'y' if int(numbers) == 1 else 'ies'}"
    assert " ".join(written(axes).split()) == sentence


@pytest.mark.slow  # draws each class
@BY_CLASS
def test_steps_are_a_line_on_the_axes_given(case: Case) -> None:
    """Values of several batches, as `forward` returns them."""
    metric = case.make()
    values = [metric(*batch()) for _ in range(3)]
    figure, given = pyplot.subplots()
    assert metric.plot(values, ax=given) == (figure, given)
    assert close(dots(given), [[float(value) for value in values]])
    assert given.get_xlabel() == "step"
    low, high = given.get_ylim()
    assert low <= min(map(float, values)) <= max(map(float, values)) <= high
    begins = f"begins at {100 * low:.6g} %" if metric.plot_upper_bound == 1 else "begins at"
    assert (begins in note(given)) == (low > 0)
    assert given.get_legend() is None
    assert len(pyplot.get_fignums()) == 1


def test_a_value_given_has_no_interval() -> None:
    """It may be of another evaluation than the state's."""
    metric = updated(AccuracyAtK(1), *batch())
    _, axes = drawn(metric.plot(torch.tensor(0.5)))
    assert written(axes) == "50.00 %"


def test_without_data_there_is_a_word_and_no_dot() -> None:
    """A NaN is the text "no data"."""
    metric = updated(MRR(), *batch(), mask=torch.zeros(8, dtype=torch.bool))
    _, axes = drawn(metric.plot())
    assert written(axes) == "no data, 0 queries"
    _, axes = drawn(MRR().plot([torch.tensor(0.5), torch.tensor(math.nan)]))
    assert math.isnan(dots(axes)[0][1])


def grouped(num_groups: int, **options: Any) -> Grouped:
    """Accuracies of groups, the last of them without a query."""
    metric = Grouped(AccuracyAtK(2), num_groups, **options)
    metric.update(*batch(n=900), groups=torch.arange(900) % max(1, num_groups - 1))
    return metric


@pytest.mark.parametrize(("num_groups", "width"), [(2, 6.4), (12, 3.4), (24, 6.4), (30, 3.4)])
def test_few_groups_are_bars_in_order(num_groups: int, width: float) -> None:
    """A bar per group, its interval and number of queries, and a word where a group has no data."""
    metric = grouped(num_groups, by="hour")
    with plotting.style():
        given = pyplot.subplots(figsize=(width, 2.6), layout="constrained")[1]
    _, axes = drawn(metric.plot(ax=given))
    values = metric.compute()
    assert close([bar.get_height() for bar in axes.patches], values.nan_to_num(0).tolist())
    (bars,) = axes.collections
    limits = torch.stack(metric.interval(), 1)[~values.isnan()]
    assert close(whiskers(bars), limits.tolist())
    assert written(axes).count("no data") == int(values.isnan().sum()) == 1
    assert queries_above(axes) == [f"{number:,}" for number in metric.num_queries.tolist()]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("hour", "Accuracy@2")
    labels = [label.get_text() for label in axes.get_xticklabels()]
    every = int(labels[1])
    assert labels == [str(number) for number in range(0, num_groups, every)]
    assert every == 1 if width > 6 or num_groups <= 12 else every <= 5
    bottom, top = axes.get_ylim()
    assert bottom == 0  # a bar is a length
    assert float(limits.max()) <= top <= 1.5 * float(limits.max())
    assert "95 % intervals" in note(axes)


def test_labels_of_groups_are_on_the_axis() -> None:
    """Long names are turned and cut, and stay apart."""
    names = ["work", "leisure", "a very long name of a group of queries", *"abcdefgh"]
    metric = Grouped(AccuracyAtK(2), labels=names, by="purpose")
    metric.update(*batch(n=900), groups=torch.arange(900) % len(names))
    for width in (3.4, 6.4):
        with plotting.style():
            given = pyplot.subplots(figsize=(width, 3), layout="constrained")[1]
        _, axes = drawn(metric.plot(ax=given))
        labels = [label.get_text() for label in axes.get_xticklabels()]
        assert labels == [*names[:2], "a very long name of a g…", *names[3:]]
        assert axes.get_xlabel() == "purpose"


def test_zero_differs_from_no_data() -> None:
    """A group that never hits has the number 0, one without a query has the text "no data"."""
    metric = Grouped(AccuracyAtK(1), 3)
    metric.update(
        torch.tensor([[0, 1]]).expand(20, 2), [0] * 10 + [1] * 10, groups=[0] * 10 + [1] * 10
    )
    _, axes = drawn(metric.plot())
    assert metric.compute().nan_to_num(-1).tolist() == [1, 0, -1]
    at = {text.get_text(): text.xy[0] for text in axes.texts}
    assert (at["0"], at["no data"]) == (2, 3)  # counted from 1


@pytest.mark.parametrize("num_groups", [31, 100_000])
def test_many_groups_are_a_histogram(num_groups: int) -> None:
    """However many groups, 25 bars count all of them that have data."""
    metric = grouped(num_groups, by="city")
    values = metric.compute()
    known = values[~values.isnan()]
    _, axes = drawn(metric.plot())
    assert len(axes.patches) == 25
    assert sum(bar.get_height() for bar in axes.patches) == len(known)
    assert axes.get_xlim()[0] == 0
    assert float(known.max()) <= axes.get_xlim()[1] <= 1
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Accuracy@2", "number of cities")
    title = axes.get_legend().get_title().get_text()
    assert title == f"{len(known)} cities, {num_groups - len(known):,} without data"
    median = f"median {100 * float(known.double().quantile(0.5)):.2f} %"
    mean = f"mean {100 * float(known.double().mean()):.2f} %"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [median, mean]


# Groups of several models ------------------------------------------------------------------------


def test_groups_of_models_are_dots_in_one_panel() -> None:
    """A dot with its interval per model and group, none upon another, in the order of models."""
    models = {"first": grouped(12, by="hour"), "second": grouped(12, by="hour")}
    figure, axes = drawn(plotting.by_group(models, confidence_level=0.9))
    assert figure.axes == [axes]
    places = []
    for metric, line, bars in zip(models.values(), lines(axes), axes.collections, strict=True):
        values = metric.compute()
        assert close(list(line.get_ydata()), values.tolist())
        assert close(whiskers(bars), torch.stack(metric.interval(0.9), 1)[:-1].tolist())
        places += list(line.get_xdata())
        assert [round(x) for x in line.get_xdata()] == list(range(1, 13))
    assert len(set(places)) == 24
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(models)
    assert queries_above(axes) == [str(number) for number in models["first"].num_queries.tolist()]
    assert axes.get_xlabel() == "hour"
    assert "90 % intervals" in note(axes)
    assert written(axes).count("no data") == 1  # neither model has any in the last group


def test_queries_of_models_that_differ() -> None:
    """A row of numbers for each model; "no data" in the colour of the model that lacks them."""
    models = {"first": grouped(4), "second": grouped(4)}
    models["second"].update(*batch(n=10), groups=torch.full((10,), 3))
    _, axes = drawn(plotting.by_group(models))
    both = zip(*(metric.num_queries.tolist() for metric in models.values()), strict=True)
    assert queries_above(axes) == [f"{one}\n{other}" for one, other in both]
    (absent,) = (text for text in axes.texts if text.get_text() == "no data")
    assert absent.get_color() == lines(axes)[0].get_color()


def test_many_groups_of_models_are_outlines() -> None:
    """A histogram for each model on the same bins."""
    models = {"first": grouped(500, by="user"), "second": grouped(500, by="user")}
    _, axes = drawn(plotting.by_group(models))
    assert axes.get_ylabel() == "number of users"
    for metric, text in zip(models.values(), axes.get_legend().get_texts(), strict=True):
        median = float(metric.compute().nanmedian())
        assert f"median {100 * median:.0f}" in text.get_text()
    one, other = (patch.get_xy()[:, 0] for patch in axes.patches)
    assert (one == other).all()


def test_deciles_of_models_have_their_intervals() -> None:
    """Bounds and numbers of queries by the keys of `compute`, in the order of the bins."""
    metric = updated(DecileNDCG(BINS, 2), *batch())
    models = {"first": metric, "second": metric.clone()}
    _, axes = drawn(plotting.by_group(models, confidence_level=0.5))
    names = [text.get_text() for text in axes.get_xticklabels()]
    assert names == ["1", "2", "3", "unmapped"]
    keys = [metric.key(name if name == "unmapped" else int(name)) for name in names]
    values, bounds = metric.compute(), metric.interval(0.5)
    assert close(dots(axes)[0], [float(values[key]) for key in keys])
    known = [[float(end) for end in bounds[key]] for key in keys if not values[key].isnan()]
    assert close(whiskers(axes.collections[0]), known)
    numbers = dict(zip(values, metric.num_queries.tolist(), strict=True))
    assert queries_above(axes) == [str(numbers[key]) for key in keys]


def test_errors_of_groups_name_the_model() -> None:
    """Metrics of other groups, of one value, or none at all."""
    with pytest.raises(ValueError, match="must hold a metric, got none"):
        plotting.by_group({})
    with pytest.raises(ValueError, match=r"a value for every group, got one value of MRR.* for b"):
        plotting.by_group({"a": grouped(3), "b": updated(MRR(), *batch())})
    with pytest.raises(ValueError, match="one value of Grouped"):
        plotting.by_group(grouped(3, average="groups"))
    with pytest.raises(ValueError, match=r"the same groups, got .* in b"):
        plotting.by_group({"a": grouped(3), "b": grouped(4)})
    with pytest.raises(ValueError, match="`confidence_level` must be between"):
        plotting.by_group(grouped(3), confidence_level=95)
    with pytest.raises(TypeError, match="`models` must hold metrics, got a collection for a"):
        plotting.by_group({"a": next_location_metrics(4)})


def test_clustered_intervals_say_so() -> None:
    """In one picture, and in that of each member."""
    metrics = RankingCollection({"mrr": MRR(), "hit": AccuracyAtK(1)}).clustered(4)
    metrics.update(*batch(n=9), groups={"user": torch.arange(9) % 3})
    _, axes = drawn(metrics.plot(together=True))
    assert "9 queries, intervals by 3 users" in note(axes)
    for figure_and_axes in metrics.plot():
        assert "intervals by 3 users" in note(drawn(figure_and_axes)[1])


def test_groups_over_steps() -> None:
    """A line a group where they are few; the range of the groups where they are many."""
    few, many = grouped(3).compute(), torch.rand(500)
    many[450:] = math.nan
    _, axes = drawn(Grouped(MRR(), 3).plot([few, few / 2]))
    assert close(dots(axes), torch.stack([few, few / 2], 1).tolist())
    assert axes.get_legend().get_title().get_text() == "group"
    _, axes = drawn(Grouped(MRR(), 500).plot([many, many / 2]))
    shares = torch.tensor([0.05, 0.95, 0.25, 0.75, 0.5], dtype=torch.float64)
    *ends, median = many[~many.isnan()].double().quantile(shares).tolist()
    assert close(dots(axes), [[median, median / 2]])
    edges = [band.get_paths()[0].vertices for band in axes.collections]
    first = [band[band[:, 0] == 0][:, 1] for band in edges]
    assert close([end for band in first for end in (band.min(), band.max())], ends)


@pytest.mark.parametrize(
    ("make", "label"),
    [
        (lambda: grouped(20, average="queries"), "Accuracy@2, mean over queries"),
        (lambda: grouped(20, average="groups"), "Accuracy@2, mean over groups"),
        (lambda: grouped(20, group=1), "Accuracy@2, group 1"),
        (lambda: updated(DecileNDCG(BINS, 2, decile=3), *batch()), "NDCG@2 decile 3"),
    ],
)
def test_scalars_of_groups_say_of_what(make: Any, label: str) -> None:
    """The label tells which mean, or which group or bin."""
    _, axes = drawn(make().plot())
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
    """A bar per bin, then those that are not bins, apart and hatched; lines over steps."""
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
    assert axes.get_ylim()[1] >= max(heights)
    _, axes = drawn(metric.plot([values, values]))
    assert close(dots(axes), [[float(values[key])] * 2 for key in keys])


def test_scores_of_queries_are_a_histogram() -> None:
    """However few queries there are: their ids are no places on an axis."""
    metric = updated(PerQueryScores(MRR()), *batch(), query_ids=torch.arange(8))
    _, axes = drawn(metric.plot())
    assert sum(bar.get_height() for bar in axes.patches) == 8
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("MRR", "number of queries")
    _, axes = drawn(metric.plot([metric.compute()] * 2))
    assert close(dots(axes), [[float(metric.compute().scores.quantile(0.5))] * 2])


def test_values_of_another_shape_are_an_error() -> None:
    """A matrix is none, and its shape is said; a list of lists is several steps of groups."""
    with pytest.raises(ValueError, match=r"got the shape \(2, 3\)"):
        MRR().plot(torch.zeros(2, 3))
    assert len(dots(Grouped(MRR(), 3).plot(torch.zeros(2, 3).tolist())[1])) == 3


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


@pytest.mark.slow
def test_a_collection_draws_every_member() -> None:
    """By torchmetrics' convention: a list of pictures, titled with the keys."""
    metrics = collection(prefix="val/")
    values = metrics.compute()
    pictures = metrics.plot()
    assert [axes.get_title() for _, axes in pictures] == list(values)
    for (figure, axes), value in zip(pictures, values.values(), strict=True):
        drawn((figure, axes))
        (dot,) = lines(axes)
        assert close(list(dot.get_xdata()), [float(value)])
    steps = metrics.plot([values, values])
    assert close([dots(axes)[0] for _, axes in steps], [[float(v)] * 2 for v in values.values()])
    given = pyplot.subplots(1, len(metrics))[1]
    for axes in (given, list(given)):
        assert [ax for _, ax in metrics.plot(values, ax=axes)] == list(given)


@pytest.mark.slow
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
    assert "60 queries" in note(axes)
    assert "no interval for val/f1: the value is not a mean over queries" in note(axes)
    given = pyplot.subplots()[1]
    assert metrics.plot(values, ax=given, together=True) == (given.figure, given)
    assert given.get_xlabel() == "value"
    assert "interval" not in note(given)
    _, axes = drawn(metrics.plot([values, values], together=True))
    assert close(dots(axes), [[float(value)] * 2 for value in values.values()])
    falling = sorted(values, key=lambda name: -float(values[name]))  # as the lines end
    assert [text.get_text() for text in axes.get_legend().get_texts()] == falling


@pytest.mark.parametrize(("nested", "clash"), [(False, True), (True, False)])
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
                heights = [float(member.compute()[key].nan_to_num()) for key in member._labels]
                assert close([bar.get_height() for bar in by_title[name].patches], heights)
    _, axes = drawn(metrics.plot(together=True))
    assert len(axes.get_yticklabels()) == len(values)
    assert "val/users_all, median of 499" in [text.get_text() for text in axes.get_yticklabels()]


@pytest.mark.slow
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
    _, axes = drawn(plotting.side_by_side(models, confidence_level=0.9))
    rows = [text.get_text() for text in axes.get_yticklabels()]
    assert rows == ["acc_at_1", "acc_at_2", "mrr", "ndcg_at_2", "f1", "new"]
    assert axes.get_xlabel() == "value and 90 % interval"
    dotted = lines(axes)
    assert [line.get_marker() for line in dotted] == ["o", "s"]
    low, high = (float(bound) for bound in models["second"]["new"].interval(0.9))
    (segment,) = (axes.collections[1].get_segments()[1:],)
    assert close(segment[0][:, 0].tolist(), [low, high])
    for model, line in zip(models.values(), dotted, strict=True):
        values = {name.removeprefix("a/"): float(v) for name, v in model.compute().items()}
        assert close(list(line.get_xdata()), list(values.values()))
        assert [rows[round(y)] for y in line.get_ydata()] == list(values)
    heights = [float(y) for line in dotted for y in line.get_ydata()]
    assert "first: 60 queries, second: 8 queries" in note(axes)
    assert len(set(heights)) == len(heights)  # none upon another
    with pytest.raises(ValueError, match="must hold a collection"):
        plotting.side_by_side({})
    with pytest.raises(ValueError, match="`confidence_level` must be between"):
        plotting.side_by_side(models, confidence_level=95)


def every_k(last: int = 50, wrap: Any = lambda metric: metric) -> RankingCollection:
    """Accuracies in no particular order, and a metric that is none."""
    cuts = range(last, 0, -1)
    members = {f"acc_at_{k}": wrap(AccuracyAtK(k)) for k in cuts}
    metrics = RankingCollection({**members, "mrr": MRR()}, prefix="val/")
    target = torch.randint(60, (90,))
    groups = torch.arange(90) % 30 if isinstance(wrap(MRR()), Grouped) else None
    metrics.update(torch.randn(90, 60), target, groups=groups)
    return metrics


def test_accuracy_within_every_k_has_its_band() -> None:
    """Lines and bands in the order of k, of the very values."""
    models = {"first": every_k(), "second": every_k(5)}
    _, axes = drawn(plotting.accuracy_within_k(models, confidence_level=0.8))
    assert axes.get_ylabel() == "accuracy within k"
    assert "80 % intervals" in note(axes)
    ends = {name: max(map(float, model.compute().values())) for name, model in models.items()}
    falling = sorted(ends, key=lambda name: -ends[name])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == falling
    edges = [line for line in axes.lines if line.get_label() == "_edge"]
    assert len(edges) == 4  # both ends of each band
    for model, line, band in zip(models.values(), lines(axes), axes.collections, strict=True):
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
    for member, groups in ((MRR(), None), (Grouped(AccuracyAtK(2), 3), torch.arange(8) % 3)):
        none = RankingCollection({"none": member})
        none.update(*batch(), groups=groups)
        with pytest.raises(ValueError, match="must have members AccuracyAtK, and the collection"):
            plotting.accuracy_within_k(none)
    twice = RankingCollection({"one": AccuracyAtK(2), "two": AccuracyAtK(2, ties="optimistic")})
    twice.update(*batch())
    with pytest.raises(ValueError, match="several within 2 in GRU"):
        plotting.accuracy_within_k({"GRU": twice})


@pytest.mark.parametrize(
    ("draw", "members", "make"),
    [
        (plotting.accuracy_within_k, "AccuracyAtK", "next_location_metrics(num_locations, k="),
        (plotting.accuracy_within_km, "AccuracyWithin of k=1 and", "AccuracyWithin(locations, "),
        (plotting.distance_errors, "DistanceError", "next_location_metrics(num_locations, loc"),
        (plotting.risk_coverage, "AURC", "probability_metrics(given="),
    ],
)
def test_what_a_picture_does_not_find(draw: Any, members: str, make: str) -> None:
    """One form of message says which members a picture draws, and how to make them."""
    none = RankingCollection({"mrr": MRR(), "brier": BrierScore(given="logits")})
    none.update(*batch())
    for model, name in ((none, "the collection"), ({"GRU": none}, "GRU")):
        with pytest.raises(ValueError, match="`models` must have members") as error:
            draw(model)
        assert f"members {members}" in str(error.value)
        assert f", and {name} has none; " in str(error.value)
        assert f"`{make}" in str(error.value)


def lightness(color: Any) -> float:
    """How light a colour is in grey, from 0 to 1."""
    red, green, blue = matplotlib.colors.to_rgb(color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.slow
def test_styles_differ_in_grey() -> None:
    """Up to six models differ pairwise in marker and dash, and in how light they are."""
    models = {str(number): every_k(15) for number in range(6)}
    _, axes = drawn(plotting.accuracy_within_k(models))
    assert len({line.get_marker() for line in lines(axes)}) == 6
    assert len({str(line._dash_pattern) for line in lines(axes)}) == 6
    light = torch.tensor([lightness(line.get_color()) for line in lines(axes)]).sort().values
    assert bool((light.diff() > 0.05).all())
    assert light[-1] < 0.75  # seen on white
    many = {str(number): collection() for number in range(13)}
    _, axes = drawn(plotting.side_by_side(many))
    assert len({(line.get_marker(), line.get_color()) for line in lines(axes)}) == 13


@pytest.mark.slow
def test_every_picture_has_the_same_style() -> None:
    """Sizes of text and spines, in a figure of one's own as well."""
    metrics = collection()
    own = pyplot.subplots()[1]
    pictures = [
        metrics["mrr"].plot(),
        metrics.plot(together=True),
        metrics.plot(together=True, ax=own),
        grouped(5).plot(),
        grouped(500).plot(),
        plotting.accuracy_within_k(every_k()),
    ]
    for figure, axes in pictures:
        figure.draw_without_rendering()
        ticks = [*axes.get_xticklabels(), *axes.get_yticklabels()]
        assert {tick.get_fontsize() for tick in ticks} == {8}
        assert axes is own or not axes.spines["top"].get_visible()


# Files -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_saved_files_are_the_same_bytes_and_keep_text(tmp_path: Path) -> None:
    """PNG with 200 dots per inch; SVG and PDF hold text, and no date."""
    written_twice = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        torch.manual_seed(1)
        figure, _ = plotting.side_by_side({"a $x$ model": collection()})
        for suffix in ("png", "svg", "pdf"):
            plotting.save(figure, folder / f"picture.{suffix}")
        written_twice.append([path.read_bytes() for path in sorted(folder.iterdir())])
    pdf, png, svg = written_twice[0]
    assert written_twice[1] == [pdf, png, svg]
    width = int.from_bytes(png[16:20], "big")
    assert width == 200 * figure.get_figwidth()
    assert b">a $x$ model<" in svg
    assert b"<dc:date>" not in svg
    assert b"CreationDate" not in pdf
    assert b"/FontType 42" in pdf or b"/CIDFontType2" in pdf
    with pytest.raises(ValueError, match=r"must end in \.png, \.svg or \.pdf, got 'picture\.gif'"):
        plotting.save(figure, "picture.gif")


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
        lambda: plotting.by_group(grouped(3)),
        lambda: plotting.style().__enter__(),
        lambda: plotting.save(None, "picture.png"),
        lambda: updated(DecileNDCG(BINS, 2), *batch()).plot(),
    ):
        with pytest.raises(ModuleNotFoundError, match="matplotlib; install the extra `plot`"):
            draw()


def test_reliability_draws_several_models() -> None:
    """Dots of each bin with queries, of a dict of metrics or of collections; one model has bars."""
    found = {}
    for name, best in (("sure", 0.95), ("fair", 0.55)):
        found[name] = probability_metrics(given="probabilities", bins=10)
        found[name].update(torch.tensor([[best, 1 - best]] * 4), torch.tensor([0, 0, 0, 1]))
    errors = {name: one["ece"] for name, one in found.items()}
    for models in (found, errors):
        _, axes = plotting.reliability(models)
        dots = {box.get_label(): box.lines[0].get_xydata().tolist() for box in axes.containers}
        assert dots["sure"] == [pytest.approx([0.95, 0.75])]
        assert dots["fair"] == [pytest.approx([0.55, 0.75])]
        assert [text.get_text() for text in axes.get_legend().get_texts()] == ["sure", "fair"]
    for one in (errors["sure"], found["sure"], {"": errors["sure"]}):
        _, axes = plotting.reliability(one)
        assert [bar.get_height() for bar in axes.patches] == [0.75]
    with pytest.raises(ValueError, match="`models` must have members CalibrationError, and a has"):
        plotting.reliability({"a": RankingCollection({"mrr": MRR()})})


def test_what_is_no_collection_or_no_figure_is_named(tmp_path: Path) -> None:
    """An evaluation is no collection, and what a function returns is a figure with its axes."""
    metrics = RankingCollection({"acc": AccuracyAtK(1)})
    metrics.update(torch.tensor([[0.1, 0.9]]), torch.tensor([1]))
    for draw in (plotting.accuracy_within_k, plotting.side_by_side, plotting.risk_coverage):
        with pytest.raises(TypeError, match=r"`models` must be a collection, or a dict .* got 7"):
            draw({"gru": 7})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match=r"`figure` must be a figure .* the figure and its axes"):
        plotting.save(plotting.side_by_side(metrics), tmp_path / "a.pdf")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())
