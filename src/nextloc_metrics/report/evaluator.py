"""An evaluation in parts: batches are added, parts are merged, and the result is the same."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import count, islice
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.distribution.distribution import Given
from nextloc_metrics.core.means.intervals import check_confidence_level
from nextloc_metrics.core.queries.answers import Answers
from nextloc_metrics.core.queries.arrays import as_tensor
from nextloc_metrics.core.queries.batch import ArrayRows, Batch, Grouping, GroupLabels, read_rows
from nextloc_metrics.core.queries.checks import as_number, check_choice, check_positive, cut_offs
from nextloc_metrics.core.queries.hashing import Hashes, bits, hash_text, mix
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.core.ranking.ranking import Ranking
from nextloc_metrics.metrics.bins import PopularityBins
from nextloc_metrics.metrics.notation import cut_offs_of
from nextloc_metrics.report import saved
from nextloc_metrics.report.evaluation import Evaluation, evaluation_of
from nextloc_metrics.report.evaluation_counts import Counted, add_up
from nextloc_metrics.report.evaluation_options import Options, with_options
from nextloc_metrics.report.history import limits_of
from nextloc_metrics.report.setting import (
    CONFIDENCE,
    EXEMPT,
    Data,
    Form,
    OwnMetrics,
    Setting,
    check_alike,
    check_cluster,
    check_metrics,
    digest,
    split,
    write_about,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

# What all batches give, or none.
_PER_QUERY = ("exclude", "confidence", "weights")


# Any odd number of 62 bits.
_SALT = 0x2545F4914F6CDD1D


class Evaluator:
    """The counts of `evaluate`, for predictions that come in parts.

    Add batches in any order, merge evaluators of other batches, and read the result. The value is
    the same bit for bit for any split into batches and evaluators. Groups are numbered as they
    appear. Memory grows with locations and groups, not with queries. The arguments are those of
    [`Options`][nextloc_metrics.report.Options].

    The first batch fixes what all batches hold: scores of so many candidates or lists of ids, one
    or several relevant ids, the groups, and whether `exclude`, `confidence` and `weights` are
    given. An evaluator is merged once: not with itself, nor again into one that it or a copy of it
    was merged into. Evaluators of `from_bytes` count as new ones.

    Raises:
        ValueError: an option is out of range; in `add`, a batch does not fit; in `merge`, the
            options or the kinds of batches differ, or the other was merged before.

    Example:
        >>> from nextloc_metrics import report
        >>> from nextloc_metrics.core.queries.batch import Batch
        >>> first, other = (report.Evaluator(k=1, num_locations=9) for _ in range(2))
        >>> first.add(Batch([[3, 5]], [3], groups={"user": ["bob"]}))  # lists of two ids
        >>> other.add(Batch([[4, 2]], [2], groups={"user": ["ann"]}))
        >>> both = report.Evaluator.from_bytes(first.to_bytes()).merge(other)
        >>> both.result().values["mrr"]  # (1 + 1/2) / 2
        0.75
    """

    @with_options(Options)
    def __init__(self, **options: Unpack[Options]) -> None:
        check_confidence_level(options["confidence_level"])
        if options["given"] is not None:
            check_choice("given", options["given"], Given)
        measures, bins, counts = options["measures"], options["bins"], options["train_counts"]
        names = tuple(str(measure).strip() for measure in measures)
        counts = None if counts is None else as_tensor("train_counts", counts)
        if bins is None and counts is not None:
            bins = PopularityBins.from_counts(counts)
        if (number := options["num_locations"]) is not None:
            number = check_positive("num_locations", number)
        self.known_locations = self.num_locations = number
        own, visits = check_metrics(options["metrics"]), options["history"]
        limits = None if visits is None else limits_of(visits)
        words = options["vocabulary"]
        self._data = Data(bins, counts, options["locations"], limits, *split(own))
        self._exempt_target = options["exempt_target"]
        self._options: dict[str, Any] = {
            "k": tuple(cut_offs(cut_offs_of(measures) if measures else options["k"])),
            "cluster": options["cluster"],
            "confidence_level": options["confidence_level"],
            "vocabulary": "" if words is None else digest(*map(str, words)),
            "km": options["km"],
            "probabilities": options["given"] or "",
            "measures": names,
            "about": write_about(options["about"]),
            **self._data.digests(),
        }
        self._counted: Counted | None = None
        self._names: dict[str, GroupNames] = {}
        self._merged: set[UUID] = set()  # the evaluators whose batches are counted here
        self._lent: Counted | None = None  # the counts that a result has, which stay as they are

    def add(self, batch: Batch) -> None:
        """Count the queries of a batch of arrays as for `evaluate`, or raise and change nothing."""
        rows = read_rows(batch)
        form = _form_of(rows)
        if self._counted is not None:
            _check_form(self._counted.setting.form, form)
        setting = self._setting_of(form) if self._counted is None else self._counted.setting
        kinds = () if batch.groups is None else batch.groups.items()  # type: ignore[union-attr]
        are_tensors = isinstance(batch.preds, Tensor | Answers) and isinstance(batch.target, Tensor)
        is_chunk = are_tensors and all(isinstance(kind, Grouping) for _, kind in kinds)
        if is_chunk or len(rows.target) <= rows.step:
            self._count(setting, rows.chunk(slice(None)))
            return
        part = copy(self)  # without counts: an error in a later chunk changes nothing
        part._counted, part._names = None, {}
        for chunk in rows.chunks():
            part._count(setting, chunk)
        self._add_up(part)

    def _count(self, setting: Setting, batch: Batch) -> None:
        """Count the queries of a chunk of rows, or raise and change nothing."""
        kinds: Mapping[str, Grouping] = batch.groups  # type: ignore[assignment]  # a chunk has them
        named = {kind: self._names.get(kind, GroupNames(())) for kind in kinds}
        found = {kind: named[kind].number(values) for kind, values in kinds.items()}
        numbers = {kind: of for kind, (of, _) in found.items()}
        new = {kind: names for kind, (_, names) in found.items()}
        counted = self._with_room(setting, named, new)
        given = replace(batch, groups=None, exempt_target=self._exempt_target).read()
        tallied = counted.tally(given, numbers)
        hashes = [named[x].hashes_with(new[x])[of.numpy()] for x, of in sorted(numbers.items())]
        fingerprint = fingerprint_of(given, tallied.ranking, hashes)
        counted.add(tallied)
        counted.fingerprint = (counted.fingerprint + fingerprint) % (1 << 64)
        for kind, names in named.items():
            names.add(new[kind])
            counted.names[kind] = names.names
        self._counted, self._names = counted, named
        self._merged = self._merged or {uuid4()}

    def merge(self, other: Evaluator) -> Evaluator:
        """Add the counts of another evaluator, with equal options, and return this one."""
        if self._merged & other._merged:
            raise ValueError(
                "an evaluator must be merged once, got one whose batches are counted here; add "
                "other batches to a new `Evaluator`."
            )
        known = [one._counted.setting.form for one in (self, other) if one._counted is not None]
        form = known[0] if known else None
        check_alike("this evaluator", self._agreed(form), "the other", other._agreed(form))
        self._add_up(other)
        return self

    def _agreed(self, form: Form | None) -> dict[str, Any]:
        """Return the setting, which a batch of this kind would fix; without one, the options."""
        if self._counted is not None:
            return vars(self._counted.setting)
        return self._all_options() if form is None else vars(self._setting_of(form))

    def _all_options(self) -> dict[str, Any]:
        return {
            **self._options,
            "known_locations": self.known_locations,
            "num_locations": self.num_locations,
            "exempt_target": self._exempt_target,
        }

    def _add_up(self, other: Evaluator) -> None:
        parts = [one._counted for one in (self, other) if one._counted is not None]
        if other._counted is not None:
            self._take(add_up(parts))
            self._merged = self._merged | other._merged

    def to_bytes(self) -> bytes:
        """Return the counts, or the options if no batch was added, with a checksum."""
        file = io.BytesIO()
        if self._counted is None:
            header = {"options": self._all_options(), "users": self._data.users}
            saved.write(file, header, self._data.arrays())
        else:
            self._finished().save(file)
        return file.getvalue()

    @property
    def metrics(self) -> OwnMetrics:
        """Copies of the further metrics and parts, without counts."""
        return self._data.own

    @classmethod
    def from_bytes(cls, data: bytes, metrics: Any = None) -> Evaluator:
        """Read what `to_bytes` returned, of an evaluator with the same `metrics`.

        A `ValueError` if it is cut, changed or something else.
        """
        evaluator, own = cls(), check_metrics(metrics)
        file = io.BytesIO(data)
        header, arrays = saved.read(file)
        saved.check_metrics(file, header, own)
        with saved.refused(file):
            if "options" in header:
                options = header["options"]
                evaluator._data = Data.from_arrays(arrays, header["users"], own)
            else:
                counted = Counted.of_saved(header, arrays, own)
                options, evaluator._data = counted.setting.options(), counted.data
                evaluator._take(counted)
                evaluator._merged = {uuid4()}
            evaluator.known_locations = options["known_locations"]
            evaluator.num_locations = options["num_locations"]
            evaluator._exempt_target = options["exempt_target"]
            tuples = {x: tuple(options[x]) for x in ("measures", "metrics")}
            tuples["k"] = tuple(cut_offs(options["k"]))
            evaluator._options = {x: {**options, **tuples}[x] for x in evaluator._options}
        return evaluator

    def result(self, missed: int | None = None) -> Evaluation:
        """Return the evaluation of all queries that were added.

        `missed` is as for `evaluate`; without a batch, a `ValueError` is raised.
        """
        if self._counted is None:
            raise ValueError(
                "`add` must be called before `result`, with a batch of 0 or more rows."
            )
        counted = self._finished()
        if missed is not None:
            counted.card["broken_answers"] = as_number(missed)
        unread, asked = (counted.card.get(x, 0) for x in ("unreadable", "num_asked"))
        if 2 * unread > asked:
            warnings.warn(
                f"{unread:,} of {asked:,} answers are unreadable; with `form` set to 'auto', it is "
                "printed how many answers each form reads.",
                stacklevel=2,
            )
        elif cuts := counted.cuts_beyond_lists():
            name = "a cut-off of `measures`" if counted.setting.measures else "`k`"
            warnings.warn(
                f"{name} should be at most {counted.longest}, the length of the longest list in "
                f"`preds`, got {short(cuts)}: what the lists do not hold counts as a miss; pass "
                "longer lists.",
                stacklevel=2,
            )
        return evaluation_of(counted)

    def _finished(self) -> Counted:
        """Return the counts with groups in order, and the name of the shard."""
        assert self._counted is not None  # its callers have checked
        old = self._counted
        if old.labels == {x: GroupLabels.sorted(old.names_of(x)) for x in old.labels}:
            self._lent, counted = old, copy(old)  # groups are in order, without room for more
            counted.card, counted.names = counted.card.copy(), {}
        else:
            counted = add_up([old])
        has_rows = counted.card["queries"] > counted.card["left_out"]
        counted.shards = (f"{counted.fingerprint:016x}",) if has_rows else ()
        return counted

    def _take(self, counted: Counted) -> None:
        self._counted = counted
        self._names = {kind: GroupNames(names.names) for kind, names in counted.labels.items()}

    def _setting_of(self, form: Form) -> Setting:
        """Return the setting of batches of this kind, or raise if the options do not allow it."""
        if self._data.locations is not None and form.has_several:
            raise ValueError(
                "`locations` must be None if a query may have several relevant locations, got "
                "`target` [N, M]; `geography.AccuracyWithin` accepts several."
            )
        is_scores, options = form.candidates is not None, dict(self._options)
        number = self.num_locations or form.candidates or form.num_ids
        if form.num_ids not in (None, number):
            raise ValueError(
                f"`num_locations` must be {form.num_ids}, the number of ids of the answers, got "
                f"{number}."
            )
        if number is None and not form.has_several:
            raise ValueError(
                "`num_locations` must be given for lists of ids, got None: F1 counts each location."
            )
        check_cluster(options["cluster"], form.groups)
        for_scores, for_lists = bool(options["probabilities"]), form.confidence
        is_other = for_lists if is_scores else for_scores
        if is_other or ((for_scores or for_lists) and form.has_several):
            raise ValueError(
                "`target` must be one id per query for metrics of probabilities, with `given` for "
                f"scores or `confidence` for lists of ids, got {form.describe()}."
            )
        if form.confidence:
            options["probabilities"] = CONFIDENCE
        excluded = EXEMPT if self._exempt_target else "given ids"
        setting = Setting(
            **options,
            num_locations=None if form.has_several else number,
            known_locations=self.known_locations,
            candidates=form.candidates,
            groups=form.groups,
            exclude=excluded if form.exclude else "none",
            is_weighted=form.weights,
            answers=form.answers,
            num_ids=form.num_ids,
        )
        if self._data.limits is not None and setting.by_user not in form.groups:
            raise ValueError(
                f"`groups` must have the key {setting.by_user!r} if there is a `history`, got "
                f"{list(form.groups)}; pass `groups={{{setting.by_user!r}: users}}`."
            )
        return setting

    def _with_room(
        self, setting: Setting, named: Mapping[str, GroupNames], new: Mapping[str, Sequence[str]]
    ) -> Counted:
        """Return the counts, or a copy with room for more groups: twice as many."""
        old = self._counted
        names = {kind: [*named[kind].names, *new[kind]] for kind in named}
        if (
            old is not None
            and old is not self._lent
            and all(len(x) <= len(old.labels[kind]) for kind, x in names.items())
        ):
            return old
        labels = {}
        for kind, of_kind in names.items():
            free = 0 if old is None else max(0, 2 * len(old.labels[kind]) - len(of_kind))
            taken = set(of_kind)
            unused = (name for i in count() if (name := f"\0{i}") not in taken)
            labels[kind] = GroupLabels([*of_kind, *islice(unused, free)])
        grown = Counted(setting, labels, self._data)
        if old is not None:
            grown.add_states(old, {x: torch.arange(len(of)) for x, of in old.labels.items()})
            grown.names = dict(old.names)
        return grown


def _form_of(rows: ArrayRows) -> Form:
    given: Any = {x: getattr(rows, x) is not None for x in _PER_QUERY}
    form = Form(rows.num_candidates, rows.has_several, rows.groups, **given)
    if not isinstance(rows.preds, Answers):
        return form
    return form._replace(answers=rows.preds.rule, num_ids=rows.preds.num_ids)


def _check_form(first: Form, form: Form) -> None:
    """Raise if a batch is of another kind than those before."""
    if form.groups != first.groups:
        raise ValueError(
            f"`groups` must be {short(first.groups)} in every batch, got {short(form.groups)}."
        )
    for name in _PER_QUERY:
        if getattr(form, name) != getattr(first, name):
            raise ValueError(f"`{name}` must be given in every batch, or in none.")
    if form != first:
        raise ValueError(
            f"a batch must have {first.describe()}, as those before, got {form.describe()}."
        )


def fingerprint_of(batch: Batch, ranking: Ranking, groups: Sequence[Hashes]) -> int:
    """Return the sum of hashes of the queries: groups, targets, their ranks, and the answers.

    It is the same for any order of queries, and tells one set of queries from another.
    """
    # padding is 0, so neither its number nor where it stands matters
    kept = ranking.relevant >= 0
    each = (ranking.relevant + 1) * (3 * ranking.above + 5 * ranking.tied + _SALT)
    if ranking.num_candidates is None:
        ids = batch.preds + 1
        parts = [batch.preds[:, :1], (ids * (ids ^ _SALT)).sum(1, keepdim=True)]
    else:
        own = batch.preds.gather(1, ranking.relevant.clamp(min=0))
        each, parts = each + 7 * torch.from_numpy(bits(own.numpy())), []
    parts.append(each.masked_fill(~kept, 0).sum(1, keepdim=True))
    columns = [*groups, *(x for part in parts for x in part.numpy().T)]
    factors = mix(np.arange(len(columns))) | np.uint64(1)
    found = np.zeros(len(kept), np.uint64)
    for factor, column in zip(factors, columns, strict=True):
        found += bits(column).view(np.uint64) * factor
    return int(mix(found)[ranking.queries.counted.numpy()].sum())


class GroupNames:
    """Names of groups, numbered as they appear, with a hash of each."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names: list[str] = []
        self.hashes = np.zeros(0, np.uint64)
        self._numbers: dict[str, int] = {}
        self._last: tuple[GroupLabels, Tensor] | None = None
        self.add(names)

    def add(self, names: Sequence[str]) -> None:
        """Number further names."""
        hashes = self.hashes_with(names)
        self._numbers.update((name, len(self.names) + i) for i, name in enumerate(names))
        self.names += names
        self.hashes = hashes

    def hashes_with(self, names: Sequence[str]) -> Hashes:
        """Return the hash of each name, and of further names."""
        return np.concatenate([self.hashes, hash_text([*names])]) if len(names) else self.hashes

    def number(self, kind: Grouping) -> tuple[Tensor, list[str]]:
        """Return the number of each query's group, and the names that are new."""
        if self._last is not None and self._last[0] is kind.labels:
            return self._last[1][kind.numbers], []
        if not self.names:
            return kind.numbers.long(), [*kind.labels.names]
        new = [name for name in kind.labels.names if name not in self._numbers]
        numbers = {name: len(self.names) + i for i, name in enumerate(new)}
        known = self._numbers
        table = torch.tensor([known[x] if x in known else numbers[x] for x in kind.labels.names])
        if not new:
            self._last = kind.labels, table.long()
        return table.long()[kind.numbers], new
