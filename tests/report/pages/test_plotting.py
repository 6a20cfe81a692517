"""Pictures: `pictures.txt` has what each says; its dots are the computed values; it is readable.

After a change of what pictures say, write the file again:
`PYTHONPATH=src:tests:. python tests/report/pages/test_plotting.py`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from metric_entries import CASES
from metric_tester import LOCATIONS
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    BrierScore,
    DecileKForRecall,
    DecileNDCG,
    DecilePrecision,
    Grouped,
    LocationF1,
    PopularityBins,
    RankingCollection,
    decile_metrics,
    libcity_metrics,
    next_location_metrics,
    plotting,
    probability_metrics,
    recommendation_metrics,
)
from nextloc_metrics.geography import Locations
from nextloc_metrics.metrics.exposure import DecileCoverage, DecilePredictionShare
from strategies import updated

matplotlib = pytest.importorskip("matplotlib", reason="pictures need matplotlib")
matplotlib.use("Agg")
pyplot = pytest.importorskip("matplotlib.pyplot", reason="pictures need matplotlib")

pytestmark = pytest.mark.slow  # draws

GOLDEN = Path(__file__).with_name("pictures.txt")
BINS = PopularityBins([1, 1, 2, 2, 3, 0], 3)
NAMES = ["work", "leisure", "a very long name of a group of queries", *"abcdefgh"]


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    pyplot.close("all")  # what examples in docstrings left open
    yield
    pyplot.close("all")


# What is drawn -----------------------------------------------------------------------------------


def batch(n: int = 40, locations: int = LOCATIONS) -> tuple[Tensor, Tensor]:
    """Scores with ties and targets, the same with any version of PyTorch."""
    rows, columns = torch.arange(n)[:, None], torch.arange(locations)
    return ((7 * rows + 5 * columns + rows * columns) % 11).float(), (rows[:, 0] ** 2) % locations


def grouped(num_groups: int, n: int = 900, **options: Any) -> Grouped:
    """Accuracies of groups, the last of them without a query."""
    metric = Grouped(AccuracyAtK(2), num_groups, **options)
    metric.update(*batch(n), groups=torch.arange(n) % max(1, num_groups - 1))
    return metric


def collection(n: int = 60, **options: Any) -> RankingCollection:
    """The usual metrics of a batch."""
    return updated(next_location_metrics(LOCATIONS, k=(1, 2), **options), *batch(n))


def every_k(last: int = 50, n: int = 90) -> RankingCollection:
    """Accuracies in no particular order, and a metric that is none."""
    members = {f"acc_at_{k}": AccuracyAtK(k) for k in range(last, 0, -1)}
    return updated(RankingCollection({**members, "mrr": MRR()}, prefix="val/"), *batch(n, 60))


def by_user(n: int = 9) -> RankingCollection:
    """Means with intervals by user."""
    metrics = RankingCollection({"mrr": MRR(), "hit": AccuracyAtK(1)}).clustered(4)
    metrics.update(*batch(n), groups={"user": torch.arange(n) % 3})
    return metrics


def narrow() -> Any:
    """Axes of a narrow figure."""
    with plotting.style():
        return pyplot.subplots(figsize=(3.4, 3), layout="constrained")[1]


def by_purpose() -> Grouped:
    """Groups with names, one of them long."""
    metric = Grouped(AccuracyAtK(2), labels=NAMES, by="purpose")
    metric.update(*batch(900), groups=torch.arange(900) % len(NAMES))
    return metric


def zeros() -> Grouped:
    """A group that always hits, one that never does, and one without a query."""
    metric = Grouped(AccuracyAtK(1), 3)
    half = [0] * 10 + [1] * 10
    metric.update(torch.tensor([[0, 1]]).expand(20, 2), half, groups=half)
    return metric


def models(make: Callable[..., Any], *sizes: Any, **options: Any) -> dict[str, Any]:
    """Two models."""
    return {name: make(size, **options) for name, size in zip("ab", sizes, strict=True)}


def deciles(kind: Any, **options: Any) -> Any:
    """A decile metric after a batch."""
    return updated(kind(BINS, **options), *batch())


def mixed(n: int = 60) -> RankingCollection:
    """Members with values of their own, of groups, and of deciles, under odd names."""
    members = {"ndcg": DecileNDCG(BINS, 2), "users": Grouped(AccuracyAtK(2), 40)}
    members["optimistic"] = DecileNDCG(BINS, 2, ties="optimistic")
    metrics = RankingCollection(members, prefix="val/", postfix="_all")
    metrics.update(*batch(n), groups=torch.arange(n) % 39)
    return metrics


DECILE_METRICS = {
    DecilePrecision: {"k": 2},
    DecileNDCG: {"k": 2},
    DecileKForRecall: {"min_recall": 0.5},
    DecilePredictionShare: {"k": 2},
    DecileCoverage: {"k": 2},
}
#: what `plotting` draws, by what it is called in the file
SHOWN: dict[str, Callable[[], Any]] = {
    f"deciles, {kind.__name__}": lambda kind=kind, given=given: deciles(kind, **given)
    for kind, given in DECILE_METRICS.items()
}
SHOWN |= {
    "12 groups": lambda: grouped(12, by="hour"),
    "12 groups, narrow": lambda: grouped(12, by="hour"),
    "30 groups, narrow": lambda: grouped(30, by="hour"),
    "names": by_purpose,
    "names, narrow": by_purpose,
    "no hit, no data": zeros,
    "F1 of locations": lambda: updated(LocationF1(LOCATIONS + 1, average=None), *batch()),
    "groups of models": lambda: models(grouped, 12, 12, by="hour"),
    "other queries": lambda: {
        "a": grouped(4),
        "b": updated(grouped(4), *batch(10), groups=[3] * 10),
    },
    "deciles of models": lambda: {x: deciles(DecileNDCG, k=k) for x, k in (("a", 2), ("b", 1))},
    "a collection": lambda: collection(prefix="val/"),
    "clustered": by_user,
    "decile preset": lambda: updated(decile_metrics(BINS, k=2), *batch()),
    "recommendation": lambda: updated(recommendation_metrics(k=(1, 2)), *batch()),
    "LibCity": lambda: updated(libcity_metrics(k=2), *batch()),
    "side by side": lambda: {
        "first": collection(prefix="a/"),
        "second": updated(RankingCollection({"mrr": MRR(), "new": AccuracyAtK(3)}), *batch(8)),
    },
    "within k": lambda: {"a": every_k(), "b": every_k(5, 60)},
    "within 3 of one": lambda: every_k(3),
}
#: how it is drawn, if not at 95 % alone
DRAWN: dict[str, Callable[[Any], Any]] = {
    "groups of models": lambda x: plotting.by_group(x, confidence_level=0.9),
    "other queries": plotting.by_group,
    "deciles of models": lambda x: plotting.by_group(x, confidence_level=0.5),
    "side by side": lambda x: plotting.side_by_side(x, confidence_level=0.9),
    "within k": lambda x: plotting.accuracy_within_k(x, confidence_level=0.8),
    "within 3 of one": plotting.accuracy_within_k,
}


def draw(name: str, shown: Any) -> Any:
    """The figure and axes of a picture."""
    if name in DRAWN:
        return DRAWN[name](shown)
    if isinstance(shown, RankingCollection):
        return plotting.side_by_side(shown)
    return plotting.by_group(shown, ax=narrow() if "narrow" in name else None)


#: pictures that show no single value of `compute`
OTHERS: dict[str, Callable[[], Any]] = {
    "31 groups": lambda: plotting.by_group(grouped(31, by="city")),
    "many groups": lambda: plotting.by_group(grouped(5_000, 2000, by="city")),
    "many groups of models": lambda: plotting.by_group(models(grouped, 500, 500, by="user")),
    "thirteen models": lambda: plotting.side_by_side({f"m{x}": collection() for x in range(13)}),
}


# What is seen ------------------------------------------------------------------------------------


def drawn(picture: Any) -> Any:
    """The axes, laid out: nothing is clipped, and no text overlaps another."""
    figure, axes = picture
    assert axes.figure is figure
    figure.draw_without_rendering()
    shown = figure.get_tightbbox().padded(-0.02)  # in inches; nothing is clipped
    assert min(shown.x0, shown.y0) >= 0, shown
    assert shown.x1 <= figure.get_figwidth(), shown
    assert shown.y1 <= figure.get_figheight(), shown
    boxes = text_boxes(axes)
    for i, (text, box) in enumerate(boxes):
        for other, beside in boxes[:i]:
            assert not box.overlaps(beside), (text, other)
    return axes


def text_boxes(axes: Any) -> list[tuple[str, Any]]:
    """Every text that is seen, with its box less half a pixel: labels, ticks, notes, legend."""
    texts = [axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts]
    for axis in (axes.xaxis, axes.yaxis):
        low, high = sorted(axis.get_view_interval())
        texts += [tick.label1 for tick in axis.get_major_ticks() if low <= tick._loc <= high]
    if axes.get_legend() is not None:
        texts += axes.get_legend().get_texts()
    seen = {id(text): text for text in texts if text.get_visible() and text.get_text()}
    seen = {key: text for key, text in seen.items() if text.get_rotation() % 90 == 0}
    return [(text.get_text(), text.get_window_extent().padded(-0.5)) for text in seen.values()]


def rows(axes: Any) -> Iterator[tuple[str, list[float]]]:
    """The numbers of each line, whisker, band and bar, with what draws them."""
    for line in axes.lines:
        if line.get_marker() not in ("_", "|"):
            yield f"line {line.get_marker()} x", [float(x) for x in line.get_xdata()]
            yield f"line {line.get_marker()} y", [float(y) for y in line.get_ydata()]
    for drawn in axes.collections:
        if hasattr(drawn, "get_segments"):
            ends = [segment for segment in drawn.get_segments() if len(segment)]
            yield "whiskers x", [float(x) for segment in ends for x in segment[:, 0]]
            yield "whiskers y", [float(y) for segment in ends for y in segment[:, 1]]
        elif drawn.get_paths():
            yield "band", sorted({float(y) for y in drawn.get_paths()[0].vertices[:, 1]})
    for bars in (one for one in axes.containers if hasattr(one, "patches")):
        yield "bars from", [float(axes.get_ylim()[0])]
        yield "bars", [float(bar.get_height()) for bar in bars]
    for image in axes.images:
        yield "shades", image.get_array().filled(math.nan).ravel().tolist()


def says(axes: Any) -> str:
    """All words of a picture, and the first numbers of each line."""
    said = [f"{axes.get_title()} / {axes.get_xlabel()} / {axes.get_ylabel()}"]
    for axis in (axes.xaxis, axes.yaxis):
        if isinstance(axis.get_major_locator(), matplotlib.ticker.FixedLocator):
            labels = [label.get_text() for label in axis.get_ticklabels()]
            said += [f"ticks: {' | '.join(labels)}"] * any(labels)
        elif isinstance(write := axis.get_major_formatter(), matplotlib.ticker.FuncFormatter):
            said.append(f"0.25 is {write(0.25)}")
    if (legend := axes.get_legend()) is not None:
        texts = [legend.get_title(), *legend.get_texts()]
        said.append(f"legend: {' | '.join(text.get_text() for text in texts)}")
    said += [f"text, {text.get_color()}: {text.get_text()}" for text in axes.texts]
    for kind, numbers in rows(axes):
        shown = " ".join(f"{x + 0.0:.4g}" for x in numbers[:12])
        said += [f"{kind}, {len(numbers)}: {shown}"] * any(numbers)
    return "\n".join(f"    {' '.join(line.split())}" for line in said)


def golden() -> dict[str, str]:
    """What each picture says, as it is in the file."""
    parts = GOLDEN.read_text(encoding="utf-8").strip().split("\n\n")
    return dict(part.split("\n", 1) for part in parts)


#: the level of pictures that have another than 95 %, and members that they do not show
LEVELS = {"groups of models": 0.9, "deciles of models": 0.5, "side by side": 0.9}
LEVELS |= {"within k": 0.8}
UNSHOWN = {"within k": "val/mrr", "within 3 of one": "val/mrr"}


def numbers_of(shown: Any, name: str) -> list[float]:
    """All values and bounds of what a picture shows; NaN is left out."""
    if isinstance(shown, dict | RankingCollection):
        members = (one for key, one in shown.items() if key != UNSHOWN.get(name))
        return [x for one in members for x in numbers_of(one, name)]
    level = LEVELS.get(name, 0.95)
    values, bounds = shown.compute(), shown.interval(level) if shown.has_interval else []
    found: list[float] = []
    for one in (values, *(bounds.values() if isinstance(bounds, dict) else bounds)):
        for x in one.values() if isinstance(one, dict) else [one]:
            found += torch.stack(x).tolist() if isinstance(x, tuple) else x.flatten().tolist()
    return [x for x in found if not math.isnan(x)]


@pytest.mark.parametrize("name", SHOWN)
def test_a_picture_says_its_values(name: str) -> None:
    """Every value and bound of its metrics is drawn, none upon another, and all is readable."""
    shown = SHOWN[name]()
    axes = drawn(draw(name, shown))
    assert says(axes) == golden()[name]
    there = torch.tensor([x for _, numbers in rows(axes) for x in numbers], dtype=torch.float64)
    written = " ".join(text.get_text() for text in axes.texts)
    for x in numbers_of(shown, name):
        assert f"{x:.4g}" in written or bool(((there - x).abs() < 1e-6).any()), x


@pytest.mark.parametrize("name", OTHERS)
def test_what_other_pictures_say(name: str) -> None:
    """Histograms of many groups, which count all that have data, and many models."""
    axes = drawn(OTHERS[name]())
    assert says(axes) == golden()[name]


# What else is drawn ------------------------------------------------------------------------------


def dots(axes: Any) -> list[float]:
    """The numbers of all lines of a picture, but those at its bounds."""
    return [float(y) for line in axes.lines for y in line.get_ydata()]


@pytest.mark.parametrize("case", CASES, ids=lambda x: x.name)
def test_plot_is_that_of_torchmetrics(case: Any) -> None:
    """Every value is a dot, of steps a line, above our label."""
    if "." in case.name:
        pytest.skip("it reads other batches")
    metric = updated(case.make(), *batch())
    value = metric.compute()
    known = torch.stack([*value.values()]) if isinstance(value, dict) else value.reshape(-1)
    _, axes = metric.plot()
    assert axes.get_ylabel() == metric.label
    assert dots(axes) == pytest.approx(known.tolist(), nan_ok=True)
    assert len(axes.lines) == len(known)
    _, axes = metric.plot([value, value], ax=pyplot.subplots()[1])
    assert dots(axes) == pytest.approx(known.repeat_interleave(2).tolist(), nan_ok=True)


@pytest.mark.parametrize("metrics", [collection(prefix="val/"), mixed()], ids=["usual", "mixed"])
def test_a_collection_draws_every_member(metrics: RankingCollection) -> None:
    """A list of pictures, on axes that are given, or one of all."""
    values = metrics.compute()
    axes = list(pyplot.subplots(1, len(metrics))[1])
    for pictures in (metrics.plot(), metrics.plot(values), metrics.plot(ax=axes)):
        for (_, ax), member in zip(pictures, metrics.values(), strict=True):
            value = member.compute()
            known = torch.stack([*value.values()]) if isinstance(value, dict) else value
            assert dots(ax) == pytest.approx(known.reshape(-1).tolist(), nan_ok=True)
    assert [ax for _, ax in metrics.plot([values] * 2, ax=axes)] == axes
    every = torch.cat([one.reshape(-1) for one in values.values()]).tolist()
    assert dots(metrics.plot(together=True)[1]) == pytest.approx(every, nan_ok=True)


def test_reliability_draws_several_models() -> None:
    """Dots of each bin with queries, of a dict of metrics or of collections, or of one of them."""
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
        (diagonal,) = (x for x in axes.lines if x.get_linestyle() == ":")
        assert diagonal.get_xydata().tolist() == [[0, 0], [1, 1]]
    for one in (errors["sure"], found["sure"], {"": errors["sure"]}):
        _, axes = plotting.reliability(one)
        assert axes.containers[0].lines[0].get_xydata().tolist() == dots["sure"]
        assert [text.get_text() for text in axes.texts] == ["4"]


def test_a_histogram_goes_up_to_the_highest_value() -> None:
    """No group with a value is left out of its 25 bars."""
    metric = grouped(31, 400, by="city")
    values = metric.compute()
    _, axes = plotting.by_group(metric)
    across, number = axes.patches[0].get_xy().T
    assert (across.min(), across.max()) == pytest.approx((0, float(values.nan_to_num().max())))
    assert number[1:50:2].sum() == 30


@pytest.mark.parametrize(
    ("names", "turned"),
    [("abcdef", 0), ([*"abcde", "a long name"], 0), ([*"abcdefghijklmno", "a long name"], 90)],
)
def test_a_long_name_of_a_group_turns_the_names(names: Sequence[str], turned: int) -> None:
    """Where one does not fit beside the others."""
    names, number = [*names], len(names)
    metric = Grouped(AccuracyAtK(1), labels=names, by="city")
    metric.update(
        torch.zeros(number, 1, dtype=torch.long),
        torch.zeros(number, dtype=torch.long),
        groups=names,
    )
    _, axes = plotting.by_group(metric)
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {turned}


def calibrated() -> dict[str, Any]:
    """Confidences of two models."""
    scores, target = batch()
    made = {name: probability_metrics(given="logits") for name in ("most visited", "Markov")}
    for slope, metrics in enumerate(made.values(), 1):
        metrics.update(slope * scores, target)
    return made


def located(ax: Any) -> Any:
    """A map of a few locations."""
    metric = Grouped(AccuracyAtK(1), LOCATIONS)
    metric.update(*batch(), groups=batch()[1])
    return plotting.error_map(metric, Locations([*range(LOCATIONS)], [*range(LOCATIONS)]), ax=ax)


#: the five pictures of two models
FIVE: dict[str, Callable[[Any], Any]] = {
    "side_by_side": lambda ax: plotting.side_by_side(models(collection, 60, 30), ax=ax),
    "within k": lambda ax: plotting.accuracy_within_k(models(every_k, 9, 9), ax=ax),
    "deciles": lambda ax: plotting.by_group(
        {"most visited": deciles(DecileNDCG, k=2), "Markov": deciles(DecileNDCG, k=1)}, ax=ax
    ),
    "users": lambda ax: plotting.by_group(models(grouped, 99, 99, by="user"), ax=ax),
    "reliability": lambda ax: plotting.reliability(calibrated(), ax=ax),
    "map": located,
}


@pytest.mark.parametrize("theme", ["default", "dark_background"])
@pytest.mark.parametrize("size", [None, (3.4, 3), (10, 3.6)], ids=["own", "narrow", "wide"])
@pytest.mark.parametrize("name", FIVE)
def test_pictures_fit_in_every_form(name: str, size: Any, theme: str) -> None:
    """Nothing is cut, no text overlaps another, and each colour is seen on the background."""
    with pyplot.style.context(theme):
        ax = None
        if size is not None:
            with plotting.style():
                ax = pyplot.subplots(figsize=size, layout="constrained")[1]
        axes = drawn(FIVE[name](ax))
    seen = [text.get_color() for text in axes.texts] + [line.get_color() for line in axes.lines]
    for color in {*seen}:
        assert abs(lightness(color) - lightness(axes.get_facecolor())) > 0.28, color


@pytest.mark.parametrize("parts", [False, True], ids=["panels", "parts of a figure"])
def test_panels_share_the_width_of_a_figure(parts: bool) -> None:
    """Long notes and legends of one panel leave room for the other."""
    figure = pyplot.figure(figsize=(9, 3.6), layout="constrained")
    both = [part.subplots() for part in figure.subfigures(1, 2)] if parts else figure.subplots(1, 2)
    for ax in both:
        FIVE["deciles"](ax)
    figure.draw_without_rendering()
    shares = [ax.get_window_extent().width / figure.bbox.width for ax in both]
    assert shares[0] == pytest.approx(shares[1], abs=0.03)
    assert min(shares) > 0.25


def lightness(color: Any) -> float:
    """How light a colour is, from 0 to 1."""
    red, green, blue = matplotlib.colors.to_rgb(color)
    return float(0.299 * red + 0.587 * green + 0.114 * blue)


def none() -> RankingCollection:
    """A collection without a member that curves draw."""
    return updated(RankingCollection({"mrr": MRR(), "brier": BrierScore(given="logits")}), *batch())


def twice() -> RankingCollection:
    """A collection with two members for one k."""
    members = {"one": AccuracyAtK(2), "two": AccuracyAtK(2, ties="optimistic")}
    return updated(RankingCollection(members), *batch())


WRONG: dict[str, Callable[[], Any]] = {
    "by_group of none": lambda: plotting.by_group({}),
    "by_group of one value": lambda: plotting.by_group(
        {"a": grouped(3), "b": updated(MRR(), *batch())}
    ),
    "by_group of a mean": lambda: plotting.by_group(grouped(3, average="groups")),
    "by_group of other groups": lambda: plotting.by_group({"a": grouped(3), "b": grouped(4)}),
    "by_group at 95": lambda: plotting.by_group(grouped(3), confidence_level=95),
    "by_group of a collection": lambda: plotting.by_group({"a": next_location_metrics(4)}),
    "no step": lambda: MRR().plot([]),
    "side_by_side of none": lambda: plotting.side_by_side({}),
    "side_by_side at 95": lambda: plotting.side_by_side(collection(), confidence_level=95),
    "accuracy_within_k of others": lambda: plotting.accuracy_within_k(none()),
    "accuracy_within_k of GRU": lambda: plotting.accuracy_within_k({"GRU": none()}),
    "reliability of GRU": lambda: plotting.reliability({"GRU": none()}),
    "accuracy_within_k of 2 twice": lambda: plotting.accuracy_within_k({"GRU": twice()}),
    "side_by_side of 7": lambda: plotting.side_by_side({"gru": 7}),  # type: ignore[dict-item]
    "a file of another ending": lambda: plotting.save(pyplot.figure(), "picture.gif"),
    "a file of figure and axes": lambda: plotting.save((1, 2), "a.pdf"),  # type: ignore[arg-type]
}


def errors() -> str:
    """What is said where nothing can be drawn."""
    said = []
    for name, call in WRONG.items():
        with pytest.raises((TypeError, ValueError)) as raised:
            call()
        said.append(f"    {name}: {raised.value}")
    return "\n".join(said)


def test_errors_say_what_is_wrong() -> None:
    """Which model, members or axes, and how they are made."""
    assert errors() == golden()["errors"]


def test_every_picture_has_the_same_style() -> None:
    """Sizes of text and spines, in a figure of one's own as well."""
    own = pyplot.subplots()[1]
    pictures = [
        plotting.side_by_side(collection(), ax=own),
        *(draw(name, SHOWN[name]()) for name in ("12 groups", "within k")),
        OTHERS["many groups"](),
    ]
    for figure, axes in pictures:
        figure.draw_without_rendering()
        ticks = [*axes.get_xticklabels(), *axes.get_yticklabels()]
        assert {tick.get_fontsize() for tick in ticks} == {8}
        assert axes is own or not axes.spines["top"].get_visible()


def test_saved_files_are_the_same_bytes_and_keep_text(tmp_path: Path) -> None:
    """PNG with 200 dots per inch; SVG and PDF hold text, and no date."""
    written_twice = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        figure, _ = plotting.side_by_side({"a $x$ model": collection()})
        for suffix in ("png", "svg", "pdf"):
            plotting.save(figure, folder / f"picture.{suffix}")
        written_twice.append([path.read_bytes() for path in sorted(folder.iterdir())])
    pdf, png, svg = written_twice[0]
    assert written_twice[1] == [pdf, png, svg]
    assert int.from_bytes(png[16:20], "big") == 200 * figure.get_figwidth()
    assert b">a $x$ model<" in svg
    assert b"<dc:date>" not in svg
    assert b"CreationDate" not in pdf
    assert b"/FontType 42" in pdf or b"/CIDFontType2" in pdf


def test_absent_matplotlib_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install, from every way to a picture."""
    metrics, groups = collection(), grouped(3)
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for draw in (
        metrics["mrr"].plot,
        metrics.plot,
        lambda: metrics.plot(together=True),
        lambda: metrics.plot([metrics.compute()], together=True),
        lambda: plotting.side_by_side({"GRU": metrics}),
        lambda: plotting.accuracy_within_k(metrics),
        lambda: plotting.by_group(groups),
        lambda: plotting.style().__enter__(),
        lambda: plotting.save(None, "picture.png"),
        deciles(DecileNDCG, k=2).plot,
    ):
        with pytest.raises(ModuleNotFoundError, match="matplotlib; install the extra `plot`"):
            draw()


if __name__ == "__main__":
    parts = {name: says(drawn(draw(name, make()))) for name, make in SHOWN.items()}
    parts |= {name: says(drawn(make())) for name, make in OTHERS.items()}
    parts["errors"] = errors()
    GOLDEN.write_text("\n".join(f"{name}\n{part}\n" for name, part in parts.items()), "utf-8")
