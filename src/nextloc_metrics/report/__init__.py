"""What people look at: an evaluation in one call, tables, pictures."""

from nextloc_metrics.report.evaluation import Evaluation, evaluate
from nextloc_metrics.report.files import Predictions, read

__all__ = ["Evaluation", "Predictions", "evaluate", "read"]
