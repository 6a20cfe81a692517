"""Metrics by the names of ir-measures and trec_eval, such as `nDCG@10`."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from torch import Tensor

from nextloc_metrics.core.metric.annotated_options import PositiveNumber
from nextloc_metrics.core.metric.ranking_metric import RankingMetric
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.core.ranking.needs import Needs
from nextloc_metrics.core.ranking.ranking import Ranking
from nextloc_metrics.metrics.at_k import MRR, AccuracyAtK, MAPAtK, NDCGAtK, PrecisionAtK, RecallAtK
from nextloc_metrics.metrics.ranks import RBP, ERRAtK, RPrecision

# The cut-off of a measure without one: more than any candidates.
_ALL_RANKS = (1 << 31) - 1

# gdeval's highest grade, which ir-measures does not let one choose.
_GDEVAL_GRADE = 4.0

_FORM = re.compile(r"(?P<name>[A-Za-z]+)(\((?P<options>[^()]*)\))?(@(?P<k>\d+))?")

_GAINS = {"log2": "linear", "exp-log2": "exponential"}


def _last(k: int | None) -> int:
    return _ALL_RANKS if k is None else k


def _ndcg(k: int | None, dcg: str = "log2") -> RankingMetric:
    if dcg not in _GAINS:
        raise ValueError(f"`dcg` must be one of {tuple(_GAINS)}, got {short(dcg)}.")
    return NDCGAtK(_last(k), gain=_GAINS[dcg])  # type: ignore[arg-type]


def _cut(name: str, kind: Callable[[int], RankingMetric]) -> Callable[[int | None], RankingMetric]:
    def make(k: int | None) -> RankingMetric:
        if k is None:
            raise ValueError(f"`{name}` needs a cut-off, such as `{name}@10`.")
        return kind(k)

    return make


def _rprec(k: int | None) -> RankingMetric:
    if k is not None:
        raise ValueError("`Rprec` has no cut-off: it is the number of relevant locations.")
    return RPrecision()


_MEASURES: dict[str, Callable[..., RankingMetric]] = {
    "nDCG": _ndcg,
    "RR": lambda k: MRR(k),
    "AP": lambda k: MAPAtK(_last(k), normalizer="relevant"),
    "P": _cut("P", PrecisionAtK),
    "R": _cut("R", RecallAtK),
    "Success": _cut("Success", AccuracyAtK),
    "Rprec": _rprec,
    "RBP": lambda k, p=0.8: RBP(float(p), k),
    "ERR": lambda k: ERRAtK(_last(k), max_grade=_GDEVAL_GRADE),
}
# Measures of the grades themselves, which have no relevance level.
_GRADED = ("nDCG", "ERR")
_OTHER_NAMES = {
    "NDCG": "nDCG", "MRR": "RR", "MAP": "AP", "Precision": "P", "Recall": "R", "RPrec": "Rprec",
}  # fmt: skip

# Names of other libraries, in lower case and without `_`, for which a message proposes a measure.
_FOREIGN = {
    **dict.fromkeys(("acc", "accuracy", "hit", "hits", "hitrate", "hitratio", "hr"), "Success"),
    **dict.fromkeys(("reciprocalrank", "meanreciprocalrank", "reciprank"), "RR"),
    **dict.fromkeys(("ndcgcut", "normalizeddcg"), "nDCG"),
}
_CUT = re.compile(r"(.*?)(?:(?:_at_|@|_)(\d+))?")


class RelevantFrom(RankingMetric):
    """A measure for which a location is relevant from a grade on, `rel` in its notation.

    A query whose grades are all below it scores 0, as in trec_eval.

    Args:
        measure: a measure without `rel`, as for `parse_measure`.
        rel: the lowest grade of a relevant location, a positive number.

    Example:
        >>> from torch import tensor
        >>> metric = RelevantFrom("RR", 2)
        >>> metric(tensor([[0, 1, 2]]), tensor([[0.0, 1.0, 2.0]]))  # location 2 at rank 3
        tensor(0.3333)
    """

    measure: str
    rel: PositiveNumber

    @cached_property
    def _metric(self) -> RankingMetric:
        return parse_measure(self.measure)

    @property
    def needs(self) -> Needs:
        return replace(self._metric.needs, depth=None)

    def score(self, ranking: Ranking) -> Tensor:
        return self._metric.score(ranking.relevant_from(self.rel))


def parse_measure(measure: Any) -> RankingMetric:
    """Return the metric of a measure in ir-measures' notation: a name, options, a cut-off.

    | measure | metric |
    |---|---|
    | `nDCG`, `nDCG@10`, `nDCG(dcg='exp-log2')@10` | `NDCGAtK`; exponential gains with `exp-log2` |
    | `RR`, `RR@10` | `MRR` |
    | `AP`, `AP@100` | `MAPAtK(normalizer="relevant")` |
    | `P@5`, `R@5`, `Success@5` | `PrecisionAtK`, `RecallAtK`, `AccuracyAtK` |
    | `Rprec` | `RPrecision` |
    | `RBP(p=0.8)`, `RBP(p=0.8)@10` | `RBP` |
    | `ERR@20` | `ERRAtK(max_grade=4)`, as gdeval |

    `NDCG`, `MRR`, `MAP`, `Precision`, `Recall` and `RPrec` are other names. The values differ from
    trec_eval's where candidates are tied: there, the id decides. A location is relevant if its
    grade is above 0, or at least `rel`: `AP(rel=2)@100`; `nDCG` and `ERR` have no `rel`.

    Args:
        measure: text, or a measure of the package ir-measures.

    Raises:
        ValueError: the text is not of that form, or the name or an option is unknown.

    Example:
        >>> parse_measure("nDCG@10"), parse_measure("RBP(p=0.5)")
        (NDCGAtK(k=10), RBP(p=0.5))
    """
    found = _FORM.fullmatch(str(measure).strip())
    name = "" if found is None else _OTHER_NAMES.get(found["name"], found["name"])
    if found is None or name not in _MEASURES:
        near = _nearest(str(measure).strip())
        hint = f"; use `{near}`" if near else ""
        if "," in str(measure).partition("(")[0]:
            hint = ", which are several: name each alone"
        raise ValueError(
            f"a measure must be one of {', '.join(_MEASURES)}, with a cut-off such as `nDCG@10`, "
            f"got {short(str(measure))}{hint}."
        )
    options = _read_options(str(measure), found["options"] or "")
    rel = 1 if name in _GRADED else options.pop("rel", 1)
    try:
        metric = _MEASURES[name](None if found["k"] is None else int(found["k"]), **options)
    except TypeError as error:
        raise ValueError(f"{measure} has an unknown option, got {short(options)}.") from error
    if rel == 1:
        return metric
    others = ", ".join(f"{option}={value!r}" for option, value in options.items())
    cut = "" if found["k"] is None else f"@{found['k']}"
    return RelevantFrom(f"{name}({others}){cut}" if others else name + cut, rel)


def _nearest(measure: str) -> str:
    """Return the measure that is meant, of other libraries' names and of similar ones; or none."""
    found = _CUT.fullmatch(measure)
    name, k = ("", None) if found is None else found.groups()
    known = {one.lower(): one for one in _MEASURES}
    known |= {other.lower(): one for other, one in _OTHER_NAMES.items()} | _FOREIGN
    close = difflib.get_close_matches(name.replace("_", "").lower(), known, 1, 0.7)
    near = known[close[0]] if close else ""
    return f"{near}@{k}" if near and k else near


def cut_offs_of(measures: Iterable[Any]) -> list[int]:
    """Return the cut-offs of measures in rising order, 1 if none has one."""
    cuts: set[Any] = {getattr(metric, "k", None) for metric in parse_measures(measures).values()}
    return sorted(k for k in cuts if k not in (None, _ALL_RANKS)) or [1]


def _read_options(measure: str, text: str) -> dict[str, Any]:
    """Read `name=value` pairs, the values as Python literals."""
    options = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = pair.partition("=")
        try:
            options[name.strip()] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError) as error:
            raise ValueError(
                f"options must be `name=value`, such as `p=0.8`, got {pair} in {measure}."
            ) from error
    return options


def parse_measures(measures: Iterable[Any]) -> Mapping[str, RankingMetric]:
    """Return the metrics of several measures, by name; a dot in a name becomes `_`."""
    if isinstance(measures, str):
        raise TypeError(f"`measures` must be a list, got {short(measures)}; use [{measures!r}].")
    found = {}
    for measure in measures:
        name = str(measure).strip().replace(".", "_")  # PyTorch splits names at dots
        if name in found:
            raise ValueError(f"`measures` must be different, got {short(name)} twice.")
        found[name] = parse_measure(measure)
    if not found:
        raise ValueError("`measures` must hold at least one measure, got none.")
    return found
