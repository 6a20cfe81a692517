"""What an unknown argument was meant to be; it needs no PyTorch."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

# Names of other libraries, by what they are here.
OTHERS = {"top_k": "k", "topk": "k", "num_classes": "num_locations", "num_items": "num_locations"}
OTHERS |= {"y_true": "target", "y_pred": "preds"}

# Metrics of papers and of other libraries, in lower case.
METRICS = {"f1": "LocationF1", "weightedf1": "LocationF1"}
METRICS |= {"hitrate": "AccuracyAtK", "hitrateatk": "AccuracyAtK"}
METRICS |= {"mrratk": "MRR(k)", "retrievalmrr": "MRR", "linkpredmrr": "MRR(k)", "auroc": "AUC"}
METRICS |= {"hitratio": "AccuracyAtK", "retrievalmap": "MAPAtK", "meanreciprocalrank": "MRR"}


def use(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return the remedy for an unknown argument: its name here, the nearest, or `otherwise`."""
    names = [*known]
    if name == "indexes":
        return "a row of `preds` is a query: `from_flat` in docs/coming-from.md makes such rows"
    if name in ("user", "users") and "cluster" in names and "groups" not in names:
        return 'pass `cluster="user"`, and `groups={"user": users}` with each batch'
    if name == "ignore_index" and "mask" in names:
        return "pass `mask=target != -100`, or the id that stands for no target"
    if name == "km" and "locations" in names:
        return "`metrics` takes an `AccuracyWithin(locations, km)`"
    if name in ("separator", "padding") and "answers" in names:
        return f'pass `answers={{"{name}": ...}}`'
    near = [x for x in [OTHERS.get(name)] if x in names] or get_close_matches(name, names, 1, 0.65)
    return f"use `{near[0]}`" if near else otherwise
