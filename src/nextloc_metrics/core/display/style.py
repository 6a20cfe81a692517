"""One style for all pictures: fonts, colours, markers, dashes, axes that fit the data, files."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from nextloc_metrics.core.display.reading import plural
from nextloc_metrics.core.outputs import new_file
from nextloc_metrics.core.queries.messages import describe, extra, short

# Their lightness differs by 9 % or more, so that they differ in grey and for the colour-blind.
COLORS = ("#004488", "#DDAA33", "#BB5566", "#000000", "#6699CC", "#117733")
MARKERS = "os^DvP"
DASHES: tuple[Any, ...] = (
    "-",
    (0, (6, 2)),
    (0, (1, 1.2)),
    (0, (6, 1.5, 1, 1.5)),
    (0, (3, 1.5)),
    (0, (6, 1.5, 1, 1.5, 1, 1.5)),
)

# Grey of grids, notes, and of the stripes that part rows.
_GRID, _NOTE, _STRIPE = "0.88", "0.35", "0.955"

_STYLE: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "0.3",
    "axes.grid": False,
    "axes.labelsize": 9,
    "axes.linewidth": 0.7,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 9,
    "errorbar.capsize": 2,
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans", "Arial", "Helvetica"],
    "font.size": 9,
    "grid.color": _GRID,
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "legend.fontsize": 8,
    "legend.framealpha": 0.9,
    "legend.title_fontsize": 8,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "text.parse_math": False,  # names from data are text
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
}
_TICKS = {"labelsize": 8, "color": "0.3", "width": 0.7, "length": 3}
# What files are written with: text stays text, and the same data make the same bytes.
FILES = {
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "nextloc-metrics",
}
_FORMATS: dict[str, dict[str, Any]] = {
    ".png": {"dpi": 200, "metadata": {"Software": None}, "pil_kwargs": {"optimize": True}},
    ".svg": {"metadata": {"Date": None}},
    ".pdf": {"metadata": {"CreationDate": None, "Creator": None, "Producer": None}},
}

# Axes start at their lowest value where the data take up more than this share of the rest.
_FROM_LOWEST = 0.4

# The width of a character of an axis, and of one inch, in points.
_CHARACTER, _INCH = 4.9, 72

# Legends inside the axes have at most this many lines; narrower axes have no legend at their side.
_INSIDE, _NARROW = 5, 300


@contextmanager
def style() -> Iterator[None]:
    """Make figures of your own look like those of this library, in a `with` block or a decorator.

    Example:
        >>> from matplotlib import pyplot
        >>> from nextloc_metrics import plotting
        >>> with plotting.style():
        ...     figure, axes = pyplot.subplots(figsize=(3.4, 2.4), layout="constrained")
        ...     line, *_ = axes.plot([1, 2, 3], [0.1, 0.2, 0.3])
        >>> line.get_color()
        '#004488'
        >>> pyplot.close(figure)
    """
    pyplot = import_pyplot()
    from cycler import cycler

    cycle = cycler(color=COLORS) + cycler(linestyle=DASHES)
    changed = {**_STYLE, "axes.prop_cycle": cycle}
    before = {name: pyplot.rcParams[name] for name in changed}
    # `rc_context` would restore all parameters, also those that a notebook's backend has set when
    # it made the first figure: later figures would not be shown.
    try:
        pyplot.rcParams.update(changed)
        yield
    finally:
        pyplot.rcParams.update(before)


def save(figure: Any, path: str | Path) -> None:
    """Write a figure for a paper: PNG with 200 dots per inch, SVG or PDF, by the suffix.

    A file there is replaced. Text in SVG and PDF stays text. Files hold no date, so the same figure
    makes the same bytes.

    Raises:
        ValueError: the suffix is another one.
        TypeError: `figure` is no figure.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from nextloc_metrics import AccuracyAtK, plotting
        >>> figure, axes = AccuracyAtK(1).plot(0.3)
        >>> with TemporaryDirectory() as folder:
        ...     plotting.save(figure, f"{folder}/accuracy.pdf")
    """
    pyplot = import_pyplot()
    if not hasattr(figure, "savefig"):
        raise TypeError(
            f"`figure` must be a figure of matplotlib, got {describe(figure)}; a function that "
            "draws returns the figure and its axes."
        )
    suffix = Path(path).suffix.lower()
    if suffix not in _FORMATS:
        raise ValueError(f"`path` must end in .png, .svg or .pdf, got {short(str(path))}.")
    with pyplot.rc_context(FILES), new_file(path) as file:
        figure.savefig(file, format=suffix[1:], **_FORMATS[suffix])


def import_pyplot() -> Any:
    """Return matplotlib's pyplot, or raise an error that names the package to install."""
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"pictures need matplotlib; {extra('plot')}.") from error
    return pyplot


def make_axes(ax: Any, width: float = 6.4, height: float = 3.6) -> Any:
    """Return the figure and the axes to draw on."""
    if ax is None:
        _, ax = import_pyplot().subplots(figsize=(width, height), layout="constrained")
    ax.tick_params(**_TICKS)
    return ax.figure, ax


class Look(NamedTuple):
    """How the lines, dots and bars of one name look."""

    color: str
    marker: str
    dash: Any
    shift: float  #: from the middle of what several names share, between -1/2 and 1/2

    def draw_dots(
        self, axes: Any, x: Any, y: Any, label: str, bounds: Any, which: str, **options: Any
    ) -> None:
        """Draw a dot for every value, with the bounds of its interval along the axis `which`."""
        whiskers = None if bounds is None else errors(x if which == "x" else y, bounds)
        options = {f"{which}err": whiskers, "clip_on": False, "elinewidth": 1.2} | options
        axes.errorbar(x, y, fmt=self.marker, color=self.color, label=label or None, **options)


def looks(names: Collection[str]) -> dict[str, Look]:
    """Return a look for each of several names; neighbours differ in colour, marker and dash."""
    size = len(COLORS)
    found = {}
    for i, name in enumerate(names):
        other = (i + i // size) % size  # another marker and dash in every round of colours
        shift = (i + 0.5) / len(names) - 0.5
        found[name] = Look(COLORS[i % size], MARKERS[other], DASHES[other], shift)
    return found


class Scale(NamedTuple):
    """What an axis of values shows."""

    name: str
    lower: float | None
    upper: float | None

    def label(self, axis: Any) -> None:
        """Name an axis, and write its fractions as percent."""
        axis.set_label_text(self.name)
        if self.upper == 1:
            axis.set_major_formatter(lambda value, _place: f"{100 * value:.6g} %")

    def write(self, value: float) -> str:
        """Write a value with the unit of the axis."""
        return f"{100 * value:.2f} %" if self.upper == 1 else f"{value:.4g}"

    def fit(self, axes: Any, which: str = "y", from_lowest: bool = False) -> str:
        """Fit an axis to what is drawn on it, from tick to tick; return a note where it zooms.

        `which` is `"x"` or `"y"`; `from_lowest` begins at the lowest possible value, as bars do.
        """
        from matplotlib.ticker import MaxNLocator

        low, high = sorted(float(end) for end in getattr(axes.dataLim, f"interval{which}"))
        if not -1e300 < low <= high < 1e300:  # nothing is drawn
            low, high = self.lower or 0.0, 1.0 if self.upper is None else self.upper
        lowest = self.lower
        if lowest is not None and (from_lowest or high - low > _FROM_LOWEST * (high - lowest)):
            low = lowest
        if high == low:
            low = low - abs(low) / 10 if lowest is None else lowest
        if high == low:
            high = low + 0.1
        axis = getattr(axes, f"{which}axis")
        steps = [1, 2, 2.5, 5, 10]
        ticks = MaxNLocator(nbins=6, steps=steps).tick_values(low, high)
        axis.set_major_locator(MaxNLocator(nbins=7, steps=steps))  # one more, against rounding
        first = max(tick for tick in ticks if tick <= low + 1e-12)
        last = min(tick for tick in ticks if tick >= high - 1e-12)
        first = first if lowest is None else max(first, lowest)
        last = last if self.upper is None else min(last, self.upper)
        getattr(axes, f"set_{which}lim")(first, last)
        if lowest is None or first == lowest:
            return ""
        text = f"{100 * first:.6g} %" if self.upper == 1 else f"{first:.6g}"
        return f"the axis begins at {text}"

    def finish(
        self, axes: Any, which: str, *notes: str, grid: str = "", from_lowest: bool = False
    ) -> None:
        """Name and fit an axis after the drawing, and add its grid and the notes."""
        self.label(getattr(axes, f"{which}axis"))
        add_note(axes, *notes, self.fit(axes, which, from_lowest))
        add_grid(axes, grid or which)


def add_note(axes: Any, *parts: str) -> None:
    """Write what the picture does not show below the label of the x axis, in small grey letters."""
    text = "; ".join(part for part in parts if part)
    if not text:
        return
    labels = text_width([label.get_text() for label in axes.get_yticklabels()])
    width = int((points_across(axes) - max(0, labels - 50)) / (0.85 * _CHARACTER))
    wrapped = "\n".join(textwrap.wrap(text, max(width, 20)))
    look = {"textcoords": "offset points", "ha": "center", "va": "top", "fontsize": 7}
    axes.annotate(wrapped, (0.5, 0), (0, -3), xycoords=axes.xaxis.label, color=_NOTE, **look)


def add_grid(axes: Any, which: str) -> None:
    """Draw lines at the ticks of values."""
    axes.grid(axis=which, color=_GRID, linewidth=0.6)


def add_stripes(span: Callable[..., Any], places: Sequence[int]) -> None:
    """Shade every second row or column, by `axhspan` or `axvspan` of the axes."""
    for place in places[1::2]:
        span(place - 0.5, place + 0.5, color=_STRIPE, zorder=0, linewidth=0)


def add_legend(
    axes: Any,
    title: str = "",
    where: Literal["inside", "beside", "above"] = "inside",
    order: Sequence[int] | None = None,
    offset: float = 0,
) -> None:
    """Name the lines, inside the axes only where there are few.

    `"above"`, `offset` points above the axes, hides no dot in any picture; on narrow axes, and for
    long names, `"beside"` is `"above"`. `order` is that of the lines, such as by their heights.
    """
    handles, labels = axes.get_legend_handles_labels()
    if not labels:
        return
    if order is not None and len(order) == len(labels):
        handles, labels = ([of[i] for i in order] for of in (handles, labels))
    across = points_across(axes)
    labels = [textwrap.fill(label, int(across / _CHARACTER) - 8) for label in labels]
    has_no_side = across < _NARROW or text_width(labels) > across / 2
    has_lines = any(hasattr(handle, "get_linestyle") for handle in handles)
    options: dict[str, Any] = {"title": title, "handlelength": 3.2 if has_lines else 1.5}
    if where == "inside" and len(labels) <= _INSIDE:
        axes.legend(handles, labels, loc="best", **options)
    elif where == "above" or has_no_side:
        from matplotlib.transforms import ScaledTranslation

        up = ScaledTranslation(0, offset / _INCH, axes.figure.dpi_scale_trans)
        options |= {"loc": "lower center", "bbox_to_anchor": (0.5, 1), "frameon": False}
        options |= {"bbox_transform": axes.transAxes + up, "borderaxespad": 0.3}
        columns = int(across // (text_width(labels) + 8 * options["handlelength"] + 18))
        axes.legend(handles, labels, ncols=max(1, min(columns, len(labels))), **options)
    else:
        options |= {"loc": "center left", "bbox_to_anchor": (1.0, 0.5), "frameon": False}
        axes.legend(handles, labels, ncols=-(-len(labels) // 20), **options)


def points_across(axes: Any) -> float:
    """Return about how wide axes are, in points, before they are laid out."""
    share = axes.get_position().width / 0.775  # of the figure, for one of several axes
    return float(axes.figure.get_figwidth() * _INCH * 0.85 * share)


def text_width(labels: Sequence[str], size: float = 8) -> float:
    """Return about how wide the widest of several labels is, in points."""
    lines = [line for label in labels for line in label.splitlines()]
    return max(map(len, lines), default=0) * _CHARACTER * size / 8


def count(number: int, noun: str) -> str:
    """Write a number of things."""
    return f"{number:,} {noun if number == 1 else plural(noun)}"


def number_by_integers(axis: Any, ticks: Sequence[int] = ()) -> None:
    """Put ticks at integers only."""
    from matplotlib.ticker import MaxNLocator

    if ticks:
        axis.set_ticks(ticks)
    else:
        axis.set_major_locator(MaxNLocator(integer=True))


def errors(values: Sequence[float], bounds: Sequence[Sequence[float]]) -> Any:
    """Return the distances of the bounds from the values, below and above."""
    ends = torch.tensor(bounds, dtype=torch.float64).reshape(-1, 2).T
    middle = torch.tensor(values, dtype=torch.float64)
    return torch.stack([middle - ends[0], ends[1] - middle]).clamp(min=0).numpy()
