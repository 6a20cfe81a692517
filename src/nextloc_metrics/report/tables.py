"""Values as a table for people: aligned text in a terminal, HTML in a notebook."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from itertools import chain

from nextloc_metrics.collection import RankingCollection
from nextloc_metrics.report.readings import Reading, read


class Table:
    """Rows of text under a header, aligned: `print` it, or let a notebook show it.

    Args:
        header: the columns' titles.
        rows: as many cells each.

    Example:
        >>> Table(["percent", "value"], [["acc_at_1", "22.58"], ["mrr", "-"]])
        percent   value
        acc_at_1  22.58
        mrr           -
    """

    def __init__(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.header = tuple(header)
        self.rows = tuple(tuple(row) for row in rows)

    def __str__(self) -> str:
        """Align the first column left and the others right."""
        lines = [self.header, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip()
            for line in lines
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        def line(tag: str, cells: tuple[str, ...]) -> str:
            sides = chain(["left"], ["right"] * (len(cells) - 1))
            return "".join(
                f'<{tag} style="text-align: {side}">{escape(cell)}</{tag}>'
                for side, cell in zip(sides, cells, strict=True)
            )

        body = "".join(f"<tr>{line('td', row)}</tr>" for row in self.rows)
        head = f"<tr>{line('th', self.header)}</tr>"
        return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"


def side_by_side(
    models: Mapping[str, RankingCollection],
    *,
    percent: bool = True,
    intervals: bool = False,
    confidence: float = 0.95,
) -> Table:
    """Lay out several models' collections, a column each.

    Values are summed over processes, as by `compute`: call it on all of them.

    Args:
        models: collections by the names of the models; members of one name share a row, whatever
            the prefix.
        percent: write fractions as percent.
        intervals: write the bounds of every mean of scores beside it.
        confidence: how often such intervals hold the true mean.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import MRR, AccuracyAtK, RankingCollection, tables
        >>> first = RankingCollection({"acc_at_1": AccuracyAtK(1), "mrr": MRR()})
        >>> second = first.clone()
        >>> first.update(tensor([[0, 1], [1, 0]]), tensor([0, 0]))  # ranks 1 and 2
        >>> second.update(tensor([[1, 0], [1, 0]]), tensor([0, 0]))  # rank 2, twice
        >>> tables.side_by_side({"first": first, "second": second})
        percent   first  second
        acc_at_1  50.00    0.00
        mrr       75.00   50.00
    """
    known = confidence if intervals else None
    readings = {name: read(model, known, keep_base=True) for name, model in models.items()}
    return _lay_out(readings, percent, known)


def of_collection(collection: RankingCollection, percent: bool, confidence: float | None) -> Table:
    """Lay out one collection's values; see `RankingCollection.table`."""
    return _lay_out({"value": read(collection, confidence)}, percent, confidence)


def _lay_out(
    models: Mapping[str, Mapping[str, Reading]], percent: bool, confidence: float | None
) -> Table:
    """Lay out readings, a row for every name and a column for every model."""
    names = list(dict.fromkeys(chain.from_iterable(models.values())))
    columns = [["percent" if percent else "fraction"]]
    for name in names:
        reading = next(readings[name] for readings in models.values() if name in readings)
        columns[0].append(reading.title(name) + _unit(reading, percent))
    for model, readings in models.items():
        found = [readings.get(name) for name in names]
        columns.append([model, *("" if x is None else _number(x, x.value, percent) for x in found)])
        if confidence is not None:
            title = f"{100 * confidence:g} % interval"
            columns.append([title, *_intervals(found, percent)])
    header, *rows = zip(*columns, strict=True)
    return Table(header, rows)


def _unit(reading: Reading, percent: bool) -> str:
    return " (not %)" if percent and not reading.is_fraction else ""


def _number(reading: Reading, value: float, percent: bool) -> str:
    if math.isnan(value):
        return "-"
    if not reading.is_fraction:
        return f"{value:.6g}"
    return f"{100 * value:.2f}" if percent else f"{value:.4f}"


def _intervals(readings: Sequence[Reading | None], percent: bool) -> list[str]:
    """Write bounds around a dash that stands at one place in all rows."""
    ends = [
        tuple(_number(reading, end, percent) for end in reading.bounds)
        if reading is not None and reading.bounds is not None
        else None
        for reading in readings
    ]
    width = max((len(end) for pair in ends if pair for end in pair), default=0)
    return ["" if pair is None else " - ".join(end.rjust(width) for end in pair) for pair in ends]
