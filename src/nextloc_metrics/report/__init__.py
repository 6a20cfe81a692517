"""An evaluation in one call, models side by side, the HTML page, the command line.

It imports `files`, `analysis`, `protocols` and `trajectories`. Begin with `evaluation.evaluate`.
"""

from nextloc_metrics.files.predictions import Predictions, read
from nextloc_metrics.report.ceiling import Ceiling
from nextloc_metrics.report.comparing import Comparisons, compare
from nextloc_metrics.report.evaluation import Evaluation
from nextloc_metrics.report.evaluator import Evaluator, evaluate
from nextloc_metrics.report.generated import MobilityEvaluation, evaluate_tables
from nextloc_metrics.report.results import merge
from nextloc_metrics.report.table_evaluation import evaluate_table
from nextloc_metrics.report.trajectories import TrajectoryEvaluation, evaluate_trajectories

__all__ = [
    "Ceiling",
    "Comparisons",
    "Evaluation",
    "Evaluator",
    "MobilityEvaluation",
    "Predictions",
    "TrajectoryEvaluation",
    "compare",
    "evaluate",
    "evaluate_table",
    "evaluate_tables",
    "evaluate_trajectories",
    "merge",
    "read",
]
