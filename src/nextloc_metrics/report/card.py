"""The counts of an evaluation for its card, and its notes on lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from nextloc_metrics.core import backends
from nextloc_metrics.core.base.ranking_metric import RankingMetric
from nextloc_metrics.core.display.reading import Reading, plural
from nextloc_metrics.core.means import exact, intervals
from nextloc_metrics.core.queries.batch import Batch
from nextloc_metrics.core.ranking.ranking import Ranking
from nextloc_metrics.report.internal_metrics import count_answers
from nextloc_metrics.report.setting import Setting

#: the length of lists with gaps: only some of their ranks are known, and none is the last
ENDLESS = 1 << 40


def count_rows(setting: Setting, batch: Batch, ranking: Ranking) -> tuple[dict[str, int], int]:
    """Return the counts of queries on the card, and the length of the longest list."""
    target, longest, counted = batch.target, 0, ranking.queries.counted
    above, ends = ranking.above, ranking.above + ranking.tied
    # a tied block with a relevant location begins within the first k, and ends after them
    across = torch.stack([(above < k) & (ends > k) for k in setting.k]).any(0).any(1)
    rows_by_name = {
        "queries": torch.ones_like(counted),
        "left_out": ~counted,
        "without_target": counted & (ranking.num_relevant == 0),
        "tied": (ranking.tied > 1).any(1) & counted,
        "tied_across_k": across & counted,
    }
    if (visits := setting.train_counts) is not None:
        has_visits = (target >= 0) & (target < len(visits))
        unseen = has_visits & (visits[target.clamp(0, len(visits) - 1)] == 0)
        unseen = unseen | (target >= len(visits))
        rows_by_name["unseen_targets"] = (unseen.any(1) if unseen.ndim == 2 else unseen) & counted
    if setting.candidates is not None:
        has_scores = counted if batch.absent is None else counted & ~batch.absent
        rows_by_name["rows_with_nan"] = batch.preds.isnan().any(1) & has_scores
        rows_by_name["constant_rows"] = (batch.preds == batch.preds[:, :1]).all(1) & has_scores
    else:
        lists_by_name, longest = _find_lists(setting, batch.preds, counted)
        rows_by_name |= lists_by_name
        if batch.scores is not None:
            same = ((batch.scores == batch.scores[:, :1]) | (batch.preds < 0)).all(1)
            rows_by_name["constant_rows"] = same & (batch.preds >= 0)[:, 1:2].any(1) & counted
    card = {name: int(rows.sum()) for name, rows in rows_by_name.items()}
    if setting.answers:
        asked = counted & (ranking.num_relevant > 0)
        card |= count_answers(ranking.queries.extra["answer"][asked])
    return card, longest


def _find_lists(setting: Setting, preds: Tensor, counted: Tensor) -> tuple[dict[str, Tensor], int]:
    """Return which lists the card counts, by name, and the length of the longest one."""
    in_order = backends.choose(preds).sort(preds)
    repeated = (in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0)
    lengths, has_gap = _lengths_of(preds, counted)
    rows_by_name = {
        "lists_with_repeats": repeated.any(1) & counted,
        "short_lists": (lengths < max(setting.k)) & counted & ~has_gap,
    }
    longest = int(lengths.max()) if len(lengths) else 0
    if has_gap.any():  # lists may go on after their last known rank
        longest = ENDLESS
    if (size := setting.num_locations) is not None:
        rows_by_name["lists_with_other_ids"] = (preds >= size).any(1) & counted
    return rows_by_name, longest


def _lengths_of(preds: Tensor, counted: Tensor) -> tuple[Tensor, Tensor]:
    """Return the length of each list, 0 if the query is left out, and which lists have gaps."""
    if preds.numel() and int(preds.min()) >= 0:  # this usual case then takes a tenth of the time
        return preds.shape[1] * counted.long(), torch.zeros_like(counted)
    listed = (preds >= 0) & counted[:, None]
    return listed.sum(1), (listed[:, 1:] & ~listed[:, :-1]).any(1)


def find_cuts(setting: Setting, card: Mapping[str, int], longest: int) -> list[int]:
    """Return the cut-offs above the length of the longest list."""
    is_list = setting.candidates is None and card["queries"] > card["left_out"]
    further_cuts = (getattr(metric, "k", None) for metric in setting.further_metrics.values())
    cuts = {*setting.k, *(k for k in further_cuts if isinstance(k, int))}
    return sorted(k for k in cuts if is_list and k > longest)


def note_lists(setting: Setting, card: Mapping[str, int], longest: int, names: Any) -> list[str]:
    """Return notes on the values that depend on the length of the lists; `names` are metrics."""
    if setting.candidates is not None:
        return []
    cuts = ", ".join(map(str, find_cuts(setting, card, longest)))
    notes = [f"k = {cuts}: no list has more than {longest} ids"] if cuts else []
    if "mrr" in names and longest < ENDLESS:
        notes.append(f"mrr: lists are cut at {longest}")
    return notes


def cut_by_lists(
    members: Iterable[tuple[str, Any]], setting: Setting, card: Mapping[str, int], longest: int
) -> dict[str, str]:
    """Return, by metric, why lists are shorter than the ranks that the metric reads."""
    cuts, reasons = find_cuts(setting, card, longest), dict[str, str]()
    are_cut = setting.candidates is None and longest < ENDLESS
    for name, metric in members:
        k = getattr(metric, "k", None)
        if k in cuts:
            reasons[name] = f"no list has more than {longest} ids"
        elif not are_cut or k is not None or not isinstance(metric, RankingMetric):
            continue
        elif metric.averages_ties and metric.needs.only_ranks:
            reasons[name] = f"lists are cut at {longest}"
    return reasons


def mark_cuts(
    columns: Mapping[str, Mapping[str, Reading]], cuts: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, Reading]]:
    """Add footnotes where lists of models end at different ranks, by `cut_by_lists` of each."""
    marked = {model: dict(readings) for model, readings in columns.items()}
    for key in next(iter(columns.values())):
        texts = {model: cuts[model].get(key, "") for model in columns}
        for model, text in texts.items() if len({*texts.values()}) > 1 else ():
            note = f"not the same measure as that of the others: {text}" if text else ""
            marked[model][key] = marked[model][key]._replace(footnote=note)
    return marked


def write_rarer(number: int, with_hit: int, with_miss: int, kind: str) -> str:
    """Write how many groups have a hit, or how many have a miss if these are fewer."""
    rarer = "hits" if with_hit < with_miss else "misses"
    return f"{rarer} in {min(with_hit, with_miss)} of {number} {plural(kind)}"


def few_hits(sums: Tensor, estimate: intervals.Estimate, kind: str) -> str:
    """Return a note if few groups have a hit or a miss, which says how the interval is computed.

    `sums` are by group, and `estimate` is the mean of all queries.
    """
    if not exact.is_bounded(sums):
        return ""
    means, _, sizes = exact.moments(sums)
    means = means[sizes > 0]
    number, hits, misses = len(means), int((means > 0).sum()), int((means < 1).sum())
    text = write_rarer(number, hits, misses, kind)
    if estimate.few and min(hits, misses) < number:
        ends = [("an upper end", hits), ("a lower end", misses)]
        certain_ends = [end for end, x in ends if x < intervals.FEWEST_GROUPS]
        only = "only " * (len(certain_ends) < 2)
        return f"{text}: {only}{' and '.join(certain_ends)}, from the exact interval of their share"
    return f"{text}: too few for this interval" * (0 < min(hits, misses) < min(10, number / 2))


def join_notes(notes: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the notes of all models; a note that only some have begins with their names."""
    joined = []
    for note in dict.fromkeys(x for texts in notes.values() for x in texts):
        models = [model for model, texts in notes.items() if note in texts]
        joined.append(note if len(models) == len(notes) else f"{', '.join(models)}: {note}")
    return joined


def join_cards(
    cards: Mapping[str, Mapping[str, Any]], shared: Sequence[str] = ()
) -> dict[str, Any]:
    """Join the cards of models; the name of a fact is followed by the name of the model.

    A text that all models share, and an equal number under a `shared` name, is there once.
    """
    facts: dict[str, Any] = {}
    for name in dict.fromkeys(x for card in cards.values() for x in card):
        values = {model: card[name] for model, card in cards.items() if card.get(name)}
        first = next(iter(values.values()), 0)
        is_text = isinstance(first, str) and len(values) == len(cards)
        if (is_text or name in shared) and all(x == first for x in values.values()):
            facts |= {name: first} if first else {}
        else:
            facts |= {f"{name} {model}": x for model, x in values.items()}
    return facts
