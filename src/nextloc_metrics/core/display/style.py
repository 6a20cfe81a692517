"""One style for all pictures: colours, markers, dashes, axes of values, notes, legends, files."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

from nextloc_metrics.core.display.reading import plural
from nextloc_metrics.core.new_file import new_file
from nextloc_metrics.core.queries.messages import describe, extra, short

# The colours differ in lightness by 9 % or more, so they differ in grey and for the colour-blind;
# on black, the blues are exchanged, and white is in the place of black.
_ON_WHITE = ("#004488", "#DDAA33", "#BB5566", "#000000", "#6699CC", "#117733")
_ON_BLACK = ("#6699CC", "#DDAA33", "#BB5566", "#FFFFFF", "#004488", "#117733")
MARKERS = "os^DvP"
DASHES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (8, 3)), (0, (6, 1.5, 1, 1.5, 1, 1.5)))

_SIZE = 8  # the size of all text
_STYLE: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "errorbar.capsize": 2,
    "font.size": _SIZE,
    "grid.alpha": 0.3,  # is seen on white and on black
    "grid.color": "0.5",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.markersize": 4.5,
    "text.parse_math": False,  # names from data are text
}
# Options for files: text stays text, and the same data make the same bytes.
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


def palette() -> tuple[str, ...]:
    """Return the colours that are seen on the background that matplotlib is set to."""
    from matplotlib.colors import to_rgb

    return _ON_BLACK if max(to_rgb(import_pyplot().rcParams["axes.facecolor"])) < 0.5 else _ON_WHITE


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

    cycle = cycler(color=palette()) + cycler(linestyle=DASHES)
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
    ax.tick_params(labelsize=_SIZE)
    return ax.figure, ax


class Look(NamedTuple):
    """How the lines, dots and bars of one name look."""

    color: str
    marker: str
    dash: Any
    shift: float  #: how far from the middle of a group it is, between -1/2 and 1/2

    def draw_dots(self, axes: Any, x: Any, y: Any, label: str, bounds: Any, which: str) -> None:
        """Draw a dot for every value, with the bounds of its interval along the axis `which`."""
        options: Any = {"fmt": self.marker, "color": self.color, "elinewidth": 1.2}
        if bounds is not None:
            low, high = torch.tensor(bounds, dtype=torch.float64).reshape(-1, 2).T
            middle = torch.tensor(x if which == "x" else y, dtype=torch.float64)
            both = torch.stack([middle - low, high - middle])
            options[f"{which}err"] = both.clamp(min=0).numpy()
        axes.errorbar(x, y, label=label or None, clip_on=False, **options)


def looks(names: Collection[str]) -> dict[str, Look]:
    """Return a look for each of several names; neighbours differ in colour, marker and dash."""
    colors = palette()
    size = len(colors)
    chosen = {}
    for i, name in enumerate(names):
        other = (i + i // size) % size  # another marker and dash in every round of colours
        shift = (i + 0.5) / len(names) - 0.5
        chosen[name] = Look(colors[i % size], MARKERS[other], DASHES[other], shift)
    return chosen


class Scale(NamedTuple):
    """What an axis of values shows."""

    name: str
    lower: float | None
    upper: float | None

    def label(self, axis: Any) -> None:
        """Name an axis, and write its fractions as percent."""
        axis.set_label_text(self.name, wrap=True)
        if self.upper == 1:
            axis.set_major_formatter(lambda value, _place: f"{100 * value:.6g} %")

    def write(self, value: float) -> str:
        """Write a value with the unit of the axis."""
        return f"{100 * value:.2f} %" if self.upper == 1 else f"{value:.4g}"

    def finish(self, axes: Any, which: str, *notes: str, from_lowest: bool = False) -> None:
        """Name an axis after the drawing, keep it within the possible values, and add notes.

        `which` is `"x"` or `"y"`; `from_lowest` begins at the lowest possible value, as bars do.
        """
        self.label(getattr(axes, f"{which}axis"))
        low, high = getattr(axes, f"get_{which}lim")()
        if math.isinf(getattr(axes.dataLim, f"{which}0")):  # nothing is drawn
            low, high = self.lower or 0, self.upper or 1
        if self.lower is not None:
            low = self.lower if from_lowest else max(low, self.lower)
        high = high if self.upper is None else min(high, self.upper)
        getattr(axes, f"set_{which}lim")(low, high)
        axes.grid(axis="both" if which == "x" else which)
        axes.figure.figure.draw_without_rendering()  # gives axes and labels their widths
        add_note(axes, *notes)


def add_note(axes: Any, *parts: str) -> None:
    """Write what the picture does not show below the label of the x axis, as wide as the axes."""
    text = "; ".join(filter(None, parts)).replace(" %", "\N{NO-BREAK SPACE}%")
    below = axes.xaxis.label if axes.xaxis.get_visible() else "axes fraction"
    look: Any = {"textcoords": "offset points", "ha": "center", "va": "top", "color": "0.45"}
    if text:
        note = axes.annotate(text, (0.5, 0), (0, -3), xycoords=("axes fraction", below), **look)
        # Some lines have wider characters, and the label of the y axis may become two lines.
        room = 0.9 * axes.bbox.width / note.get_window_extent().width
        note.set_text(textwrap.fill(text, max(20, int(room * len(text)))))


def add_legend(axes: Any, named: Any = None, title: str = "") -> None:
    """Name what is drawn where it hides nothing: beside the axes, in narrow figures above them."""
    handles, labels = named or axes.get_legend_handles_labels()
    longest, place = 24, {"loc": "upper left", "bbox_to_anchor": (1, 1), "ncols": 1}
    if axes.figure.bbox.width < 5 * axes.figure.dpi:  # five inches
        longest, place = 14, {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": 2}
    if labels:
        labels = [textwrap.fill(label, longest) for label in labels]
        axes.legend(handles, labels, title=title, **place)


def count(number: int, noun: str) -> str:
    """Write a number of things."""
    return f"{number:,} {noun if number == 1 else plural(noun)}"
