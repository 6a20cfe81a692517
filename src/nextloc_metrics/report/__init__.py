"""An evaluation in one call, models side by side, the HTML page, the command line.

It imports `files`, `analysis`, `protocols` and `trajectories`. Begin with `evaluation.evaluate`.
"""

from nextloc_metrics.files.predictions import Predictions, read
from nextloc_metrics.report.comparing import Comparisons, compare
from nextloc_metrics.report.evaluation import Evaluation, merge
from nextloc_metrics.report.evaluator import Evaluator, evaluate
from nextloc_metrics.report.table_evaluation import evaluate_table
from nextloc_metrics.report.trajectories import TrajectoryEvaluation, evaluate_trajectories

__all__ = [
    "Comparisons",
    "Evaluation",
    "Evaluator",
    "Predictions",
    "TrajectoryEvaluation",
    "compare",
    "evaluate",
    "evaluate_table",
    "evaluate_trajectories",
    "merge",
    "read",
]
