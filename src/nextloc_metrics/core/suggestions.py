"""What an unknown name was meant to be; it needs no PyTorch."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

# Options, arguments and metrics of other libraries and of papers, in lower case, by what they are
# here.
OTHERS = {"top_k": "k", "topk": "k", "num_classes": "num_locations", "num_items": "num_locations"}
OTHERS |= {"y_true": "target", "y_pred": "preds"}
OTHERS |= {"f1": "LocationF1", "weightedf1": "LocationF1", "auroc": "AUC"}
OTHERS |= {"hitrate": "AccuracyAtK", "hitrateatk": "AccuracyAtK", "hitratio": "AccuracyAtK"}
OTHERS |= dict.fromkeys(("hit", "hits", "hr", "success"), "AccuracyAtK")
OTHERS |= {"f1beta": "F1AtK", "linkpredf1": "F1AtK", "normalizeddcg": "NDCGAtK"}
OTHERS |= {"averageprecision": "MAPAtK", "meanaverageprecision": "MAPAtK", "reciprocalrank": "MRR"}
OTHERS |= {"mrratk": "MRR(k)", "linkpredmrr": "MRR(k)", "meanreciprocalrank": "MRR"}
OTHERS |= {"catalogcoverage": "Coverage", "itemcoverage": "Coverage", "giniindex": "Gini"}
OTHERS |= {"shannonentropy": "Entropy", "meaninvuserfreq": "Novelty", "tailpercentage": "TailShare"}


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return what `name` is called here, one that begins so, or the most similar, if any is near.

    Case does not matter, and of a dotted name, such as `report.compare`, the last part counts.
    """
    asked, names = name.lower(), [*known]
    bare = asked.removeprefix("retrieval").removeprefix("linkpred")  # of TorchMetrics, and of PyG
    for other in (asked, bare):
        if OTHERS.get(other, "").partition("(")[0] in names:
            return OTHERS[other]
    asked = bare or asked
    by_word = {x.rpartition(".")[2].lower(): x for x in names}
    longer = sorted((x for x in by_word if x.startswith(asked)), key=len)
    near = longer or get_close_matches(asked, by_word, 1, 0.7)
    return by_word[near[0]] if near else None
