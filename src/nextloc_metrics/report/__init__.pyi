"""The public names: type checkers read them, and one that is asked for is imported from here."""

from nextloc_metrics.core.display.page import Result as Result
from nextloc_metrics.core.queries.answers import Answers as Answers
from nextloc_metrics.core.queries.scored_lists import ScoredLists as ScoredLists
from nextloc_metrics.report.compare_models import compare as compare
from nextloc_metrics.report.comparisons import Comparisons as Comparisons
from nextloc_metrics.report.evaluate_rows import evaluate as evaluate
from nextloc_metrics.report.evaluation import Evaluation as Evaluation
from nextloc_metrics.report.evaluation import merge as merge
from nextloc_metrics.report.evaluator import Evaluator as Evaluator
from nextloc_metrics.report.files.answer_texts import read_answers as read_answers
from nextloc_metrics.report.files.predictions import Predictions as Predictions
from nextloc_metrics.report.files.predictions import read as read
from nextloc_metrics.report.options import Options as Options
from nextloc_metrics.report.part import Part as Part
from nextloc_metrics.report.source import Source as Source
from nextloc_metrics.report.trajectories import TrajectoryEvaluation as TrajectoryEvaluation
from nextloc_metrics.report.trajectories import evaluate_trajectories as evaluate_trajectories
