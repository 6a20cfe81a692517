"""Reports for people: an evaluation in one call, tables, pictures."""

from nextloc_metrics.report.comparing import Comparisons, compare
from nextloc_metrics.report.evaluation import Evaluation, evaluate, merge
from nextloc_metrics.report.files import Predictions, read

__all__ = ["Comparisons", "Evaluation", "Predictions", "compare", "evaluate", "merge", "read"]
