"""One or several models under every protocol that applies, next to the exact values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch

import nextloc_metrics.report.protocols.reported as reported
from nextloc_metrics.core.display.lines import draw_audit
from nextloc_metrics.core.display.page import Result, show_picture, show_table
from nextloc_metrics.core.display.reading import Reading
from nextloc_metrics.core.display.table import Table
from nextloc_metrics.core.queries.arrays import Array
from nextloc_metrics.core.queries.batch import track
from nextloc_metrics.core.queries.checks import cut_offs
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.core.ranking.ranking import Ranking
from nextloc_metrics.report.protocols.answered import of_answers
from nextloc_metrics.report.protocols.codebases import every_protocol
from nextloc_metrics.report.protocols.operations import NAMES
from nextloc_metrics.report.protocols.protocol import Protocol
from nextloc_metrics.report.protocols.reported import Metric
from nextloc_metrics.report.protocols.rows import Maybe, ProtocolInput

# Smaller differences are rounding: float64 sums depend on their order.
_EQUAL = 1e-9


@dataclass(frozen=True)
class Finding:
    """One value of one model under one protocol.

    Attributes:
        model: the name of the model; "" if there is only one.
        protocol: the name of the protocol.
        metric: the metric of the codebase.
        value: the value that the code would print, as a fraction.
        exact: the exact mean over all queries, ranked among all candidates.
        bounds: the lowest and highest value over the orders that the code leaves open.
        why: the causes of the difference, in a few words.
    """

    model: str
    protocol: str
    metric: Metric
    value: float
    exact: float
    bounds: tuple[float, float]
    why: str

    @property
    def difference(self) -> float:
        """The value minus the exact value; 0 if they differ only by the rounding of sums."""
        difference = self.value - self.exact
        return 0.0 if abs(difference) < _EQUAL else difference


@dataclass(repr=False)
class Audit(Result):
    """The result of `audit`; `print` shows it as a table.

    `findings` has one per value, and `notes` missing arguments and protocols that do not apply.
    """

    title: ClassVar[str] = "Under the protocols of other codebases"

    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    @property
    def table(self) -> Table:
        """The findings as a `tables.Table`, in percent; its records are fractions."""
        several = any(one.model for one in self.findings)
        names = ["model"] * several
        names += ["protocol", "metric", "value", "exact", "difference", "why"]
        width = max([len(one.why) for one in self.findings], default=0)
        rows, records = [], []
        for one in self.findings:
            head = [one.model] * several + [one.protocol, one.metric.key]
            numbers = [one.value, one.exact, one.difference]
            value, exact, difference = (100 * number for number in numbers)
            text = [f"{value:.2f}", f"{exact:.2f}", f"{difference:+.2f}", one.why.ljust(width)]
            rows.append([*head, *text])
            records.append(dict(zip(names, [*head, *numbers, one.why], strict=True)))
        return Table(names, rows, ["values in percent", *self.notes], records)

    def to_pandas(self) -> Any:
        """Return the findings as a `pandas.DataFrame`: the columns of `table`, as fractions."""
        import pandas

        table = self.table
        return pandas.DataFrame(table.records, columns=list(table.header))

    def sections(self) -> dict[str, str]:
        shown = show_table(self.table)
        cuts = [one.metric.k for one in self.findings if one.metric.kind == "hit" and one.metric.k]
        if cuts:
            caption = f"Accuracy@{min(cuts)} under each protocol; the line is the exact value"
            shown = show_picture(caption, self.plot, min(cuts)) + shown
        return {"Result": shown}

    def plot(self, k: int = 1, ax: Any = None) -> Any:
        """Draw the accuracy at `k`: a dot per protocol, a line for `exact`; raise if there is none.

        A thin line shows the range that ties leave open. `ax` is as for `plotting.by_group`.
        """
        kept = [one for one in self.findings if (one.metric.kind, one.metric.k) == ("hit", k)]
        if not kept:
            raise ValueError(f"`k` must be a cut-off of an accuracy in the audit, got {k}.")
        models: dict[str, dict[str, Reading]] = {}
        for one in kept:
            models.setdefault(one.model, {})[one.protocol] = Reading(one.value, one.bounds, True)
        return draw_audit(models, {one.model: one.exact for one in kept}, k, ax)


def audit(
    preds: Array | Mapping[str, Array],
    target: Array,
    users: Maybe = None,
    times: Maybe = None,
    *,
    k: int | Sequence[int] = (1, 5, 10),
    seed: int | None = None,
    protocols: Sequence[Protocol] | None = None,
    **given: Maybe,
) -> Audit:
    """Evaluate predictions under every protocol that applies, next to the exact values.

    The exact value of a metric is the mean over all queries, ranked among all candidates, expected
    over random orders of ties; a target scored NaN is a miss. With tqdm, a terminal shows progress.

    Args:
        preds: as for `Protocol.evaluate`, as are `target`, `users`, `times` and the other
            arguments of some protocols; or a dict with the predictions of several models.
        k: the cut-offs; metrics with other cut-offs are left out.
        seed: for protocols that draw candidates or shuffle.
        protocols: the protocols; None for all protocols here that differ from each other.

    Raises:
        ValueError: there is no model, or shapes do not fit.

    Example:
        >>> import torch
        >>> from nextloc_metrics import protocols
        >>> scores = torch.eye(20)[[3, 3, 3]]  # the best location is 3
        >>> target, users = torch.tensor([3, 4, 3]), [1, 1, 2]
        >>> chosen = [protocols.deepmove(), protocols.dchl()]
        >>> protocols.audit(scores, target, users, k=1, protocols=chosen)
        protocol    metric  value  exact  difference                why
        deepmove     acc@1  75.00  66.67       +8.33  mean over users
        dchl      Recall@1  50.00  66.67      -16.67  last of each user
        values in percent
    """
    cuts = tuple(cut_offs(k))
    chosen = [*every_protocol(cuts, seed), *of_answers()] if protocols is None else protocols
    models = preds if isinstance(preds, Mapping) else {"": preds}
    if not models:
        raise ValueError("`preds` must hold at least one model, got none.")
    findings: list[Finding] = []
    notes: dict[str, None] = {}
    for model, own in models.items():
        read = ProtocolInput.read(own, target, users=users, times=times, **given)
        exact = _Exact(read)
        for protocol in track(chosen, len(chosen), "protocol"):
            if protocol.reads_lists and not read.is_list:
                continue
            try:
                found = _findings(model, protocol, read, exact, cuts)
                why = "it reports nothing at these k"
            except ValueError as error:
                found, why = [], str(error)
            findings += found
            if not found:
                notes[f"without {protocol.name}: {why}"] = None
        notes |= dict.fromkeys(_notes(chosen, read))
    return Audit(tuple(findings), tuple(notes))


class _Exact:
    """The exact values: all queries, all candidates, expected over random orders of ties."""

    def __init__(self, given: ProtocolInput) -> None:
        self.target = given.target
        self.ranking = Ranking.from_predictions(given.preds, given.target, best=True)
        self.has_ties = bool((self.ranking.tied > 1).any())
        self.has_nan = not given.is_list and bool(given.preds.isnan().any())
        self.has_inf = not given.is_list and bool(given.preds.isneginf().any())

    def value(self, metric: Metric) -> float:
        if metric.kind == "weighted f1":
            return reported.weighted_f1(self.ranking.best, self.target)
        return float(reported.score(replace(metric, missed=None), self.ranking, None).mean())


def _findings(
    model: str, protocol: Protocol, given: ProtocolInput, exact: _Exact, cuts: Sequence[int]
) -> list[Finding]:
    """Evaluate one model under one protocol; list a value that it reports twice only once."""
    arguments: dict[str, Any] = dict(vars(given))
    values, bounds = protocol.evaluate(**arguments), protocol.bounds(**arguments)
    reasons = _reasons(protocol, given)
    is_uniform = protocol.num_negatives is not None and protocol.drawn == "uniform"
    corrected = protocol.corrected(**arguments) if is_uniform else {}
    shown = set()
    found = []
    for metric in sorted(protocol.metrics, key=lambda one: one.kind != "hit"):
        # at k = 1 all kinds of metrics are equal
        value_of = "hit" if metric.k == 1 else metric.kind, metric.k, metric.order
        is_cut = metric.k is None or metric.k in cuts
        if metric.key not in values or metric.summed or not is_cut or value_of in shown:
            continue
        shown.add(value_of)
        value, low, high = (x / metric.scale for x in (values[metric.key], *bounds[metric.key]))
        known = model, protocol.name, metric, value, exact.value(metric), (low, high)
        finding = Finding(*known, why="")
        why = [*reasons, *_order_reasons(finding, exact)] if finding.difference else []
        if why and metric.key in corrected:
            why.append(f"corrected: {100 * corrected[metric.key] / metric.scale:.2f}")
        unit = 0.0 if protocol.decimals is None else 0.51 * 10.0**-protocol.decimals / metric.scale
        if abs(finding.difference) <= unit:
            why = [f"rounded to {protocol.decimals} decimals"] if finding.difference else []
        found.append(replace(finding, why=", ".join(why)))
    return found


def _reasons(protocol: Protocol, given: ProtocolInput) -> list[str]:
    """Name the queries, candidates and average that differ from those of the exact value."""
    rows, reasons, own = protocol.choose(given), list[str](), protocol.own
    if len(rows) < len(given.target):
        reasons.append(own.reason if own and own.choose else protocol.queries)
    if protocol.num_negatives is not None:
        reasons.append(f"{protocol.num_negatives + 1} candidates")
    if own and own.change and own.reason and (given.codes is not None or not given.is_list):
        reasons.append(own.reason)
    if protocol.masks_seen != "no":
        reasons.append("visited locations masked")
    if protocol.zero != "a location" and bool((given.target == 0).any()):
        reasons.append(f"a target 0 {protocol.zero}".replace("0 never", "0 is never"))
    remainder = protocol.batch_size is not None and len(rows) % protocol.batch_size
    users = rows if given.users is None else given.users
    _, sizes = torch.unique(users, return_counts=True)
    if protocol.average == "users" and bool((sizes != sizes[0]).any()):
        reasons.append("mean over users")
    if protocol.average == "batches" and remainder and len(rows) > (protocol.batch_size or 0):
        reasons.append("means of batch means")
    if protocol.average == "full batches" and remainder:
        reasons.append("divided by whole batches")
    return reasons


def _order_reasons(finding: Finding, exact: _Exact) -> list[str]:
    order, (low, high) = finding.metric.order, finding.bounds
    name, position_of_nan = NAMES[order]
    is_open, missed = high - low > _EQUAL, finding.metric.missed or 0
    last = int((exact.ranking.above + exact.ranking.tied).max())
    reasons = {
        f"ties by {name}: {100 * low:.1f} to {100 * high:.1f}": is_open,
        "tied candidates never above": order == "above" and exact.has_ties and not is_open,
        "middle of the tied ranks": order == "middle" and exact.has_ties,
        f"NaN {position_of_nan}": exact.has_nan,
        "-inf is a score": exact.has_inf,
        f"ranks beyond count as {missed:,}": missed and last >= missed,
        "repeats of the target count again": finding.metric.repeats and finding.difference > 1e-6,
        "divided by answered queries": finding.metric.over == "answered",
    }
    return [reason for reason, is_one in reasons.items() if is_one]


def _notes(chosen: Sequence[Protocol], given: ProtocolInput) -> list[str]:
    notes = []
    for name, queries in (("users", "last of each user"), ("sequences", "last of each sequence")):
        names = [one.name for one in chosen if one.queries == queries]
        if names and getattr(given, name) is None:
            notes.append(f"without `{name}`, every row counts for {', '.join(names)}")
    if given.is_list:
        notes.append("for lists, metrics with ranks beyond the list length are left out")
    return [short(note) if len(note) > 300 else note for note in notes]
