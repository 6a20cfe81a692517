"""The command that reads a table, from the names of its columns."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from nextloc_metrics.report.files.nested import read_json_object
from nextloc_metrics.report.files.relation import columns_of

# What the columns of frameworks are called, the usual ones first.
_ITEM = r"(item|location|poi|venue|product|document|doc|article|place)(_?id)?$"
_SCORE = r"(score|prediction|probability|prob|rating)s?$"
_QUERY = r"(query|q|user|customer|session|uid|qid)(_?id)?$"
_RANK = r"(rank|position)$"
_WIDE = r"(.*\D)\d+$"


def propose_form(path: str, reading: Mapping[str, Any]) -> str:
    """Return the command for a table that lacks the columns of lists, or "" if none is known."""
    with suppress(OSError, ValueError, StopIteration):
        return _propose(path, reading)
    return ""


def _propose(path: str, reading: Mapping[str, Any]) -> str:
    have = columns_of(path)
    target = reading["target"]
    truth = target if Path(target).is_file() else reading["truth"]
    words = ["nextloc-metrics", "score", path]
    if read_json_object(path) is not path:  # dicts of ranx
        return shlex.join([*words, "--truth", truth or "FILE"])
    there = [] if truth is None else columns_of(truth)

    def first(pattern: str) -> str | None:
        return next((x for x in have if re.match(pattern, x, re.IGNORECASE)), None)

    item, score, rank = first(_ITEM), first(_SCORE), first(_RANK)
    stems = [found[1] for x in have if (found := re.match(_WIDE, x))]
    stem = next((x for x in stems if stems.count(x) > 1), None)
    if item is not None and (score or rank):
        ordered = ["--score", score] if score else ["--rank", rank]
        preds = ["--item", item, *map(str, ordered)]
    elif stem is not None and reading["preds"] not in have:
        preds = ["--preds", f"{stem}*"]
    elif truth is not None and reading["preds"] in have:
        preds = ["--preds", reading["preds"]] if reading["preds"] != "preds" else []
    else:
        return ""
    if stem is None or truth is not None:
        both = [x for x in have if x in there and x not in preds]
        query = next((x for x in both if re.match(_QUERY, x, re.IGNORECASE)), None)
        query = query or (both[0] if both else first(_QUERY)) or "COLUMN"
        words += ["--truth", truth or "FILE", "--query", query]
        rest = [x for x in there if x != query]
        if truth is not None and "target" not in rest and item not in rest and rest:
            preds += ["--target", rest[0]]
    elif target not in have:
        return ""
    return shlex.join([*words, *preds])
