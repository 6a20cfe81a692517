"""Whether rows at hand are those of a receipt, with the same answers, options and sums."""

from __future__ import annotations

from os import PathLike
from typing import Any

from nextloc_metrics.report.evaluation import Evaluation
from nextloc_metrics.report.receipts import Receipt, Verification, differences, ids_in
from nextloc_metrics.report.table_evaluation import evaluate_table


def verify(
    receipt: Receipt | str | PathLike[str], rows: Any, *, salt: str | None = None, **reading: Any
) -> Verification:
    """Count rows again with the options of a receipt, and say what differs, the cause first.

    Args:
        receipt: the receipt, its text or its file.
        rows: a table as for `evaluate_table`, or an `Evaluation`.
        salt: the secret that the receipt was made with.
        reading: the arguments of `evaluate_table` that are not in a receipt, such as `preds`,
            `train_counts` or `vocabulary`; or an option in place of that of the receipt.

    Returns:
        what differs; `print` shows "equal" if nothing does.

    Raises:
        ValueError: the receipt is none, or the rows cannot be counted.
    """
    known = receipt if isinstance(receipt, Receipt) else Receipt.read(receipt)
    if isinstance(rows, Evaluation):
        return compared(known, rows, salt)
    key = reading.get("key")
    if known.content.get("ids") == "none":
        key = reading["key"] = ""
    options = known.arguments() if "options" in known.content else {}
    return compared(known, evaluate_table(rows, **{**options, **reading}), salt, rows, key)


def compared(
    receipt: Receipt,
    evaluation: Evaluation,
    salt: str | None = None,
    rows: Any = None,
    key: str | None = None,
) -> Verification:
    """Compare a receipt with an evaluation, of rows whose column `key` has their ids."""
    clusters = receipt.content.get("clusters") or {}
    by, least = clusters.get("by"), clusters.get("min_queries", 5)
    found = evaluation.receipt(salt, sums_by=by, min_queries=least)
    result = differences(receipt, found, evaluation._counted)
    if found.content["ids"] == "given" and (said := ids_in(rows, key, result._buckets)):
        result.notes.insert(0, said)
    return result
