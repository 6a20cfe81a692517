"""Public names of 0.5 that are retired, and what to use instead; `docs/retired.md` says more."""

from __future__ import annotations

#: what to use instead, by the retired names, which a blank separates
INSTEAD: dict[str, str] = {
    "rank_models RankedModels MeanDifference": "use the package autorank.",
    "generated evaluate_mobility MobilityEvaluation": "use scikit-mobility and `jensenshannon` of "
    "SciPy, as docs/retired.md shows",
    "verify Verification": "evaluate again, and compare the values, which are equal bit for bit.",
    "flows evaluate_flows FlowEvaluation": "use `skmob.measures.evaluation` of scikit-mobility, or "
    "NumPy as docs/retired.md shows",
}


def instead_of(name: str) -> str | None:
    """Return what to use instead of a retired name, None for any other name."""
    return next((text for names, text in INSTEAD.items() if name in names.split()), None)
