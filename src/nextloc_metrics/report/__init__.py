"""What people look at: an evaluation in one call, tables, pictures."""

from nextloc_metrics.report.evaluation import Evaluation, evaluate

__all__ = ["Evaluation", "evaluate"]
