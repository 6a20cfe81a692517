"""How large is the sampling error? Chance level, intervals, and a comparison of two models.

    python uncertainty.py                # simulated check-ins
    python uncertainty.py check_ins.csv  # or a folder, as for next_location.py

The program evaluates three baselines on the test part and prints two intervals per value. The
first treats all queries as independent. The second is clustered by user, because queries of one
user depend on each other.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from check_ins import FIRST_LOCATION, CheckIns, read_or_simulate, score_test_part
from models import Markov, MostFrequent, MostVisited
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    Grouped,
    PerQueryScores,
    Ranking,
    RankingCollection,
    analysis,
    report,
)

METRICS = {"Acc@1": AccuracyAtK(1), "Acc@10": AccuracyAtK(10), "MRR": MRR()}


@dataclass
class Evaluation:
    """The metrics of one model: by query, clustered by user, mean over users, and per query."""

    by_query: RankingCollection
    by_user: RankingCollection
    mean_over_users: RankingCollection
    kept: PerQueryScores
    users: Tensor  # one per query


def evaluate(model: nn.Module, data: CheckIns) -> Evaluation:
    """Rank the test part once, for all metrics."""
    found = Evaluation(
        RankingCollection({name: metric.clone() for name, metric in METRICS.items()}),
        *(
            RankingCollection(
                {
                    name: Grouped(metric, data.num_users, average=average)
                    for name, metric in METRICS.items()
                }
            )
            for average in ("queries", "groups")
        ),
        PerQueryScores(MRR()),
        data.user[data.queries(2)],
    )
    for rows, batch, scores in score_test_part(model, data):
        ranking = Ranking.from_scores(scores, batch["targets"][:, -1]).with_groups(batch["user"])
        for metrics in (found.by_query, found.by_user, found.mean_over_users):
            metrics.update(ranking)
        found.kept.update(ranking, query_ids=rows)
    return found


def format_table(found: Evaluation, num_candidates: int) -> str:
    """Lay out a row for every metric, in percent."""
    chance = analysis.chance(found.by_query, num_candidates)
    skill = analysis.skill(found.by_query.compute(), chance)
    lines = [
        f"{'':6}  {'value':>6}  {'chance':>6}  {'skill':>6}  {'by query':>13}  {'by user':>13}  "
        f"{'wider':>5}  {'mean over users':>15}"
    ]
    for name in METRICS:
        value, *plain = _percent(found.by_query, name)
        _, *clustered = _percent(found.by_user, name)
        users, *of_users = _percent(found.mean_over_users, name)
        wider = (clustered[1] - clustered[0]) / (plain[1] - plain[0])
        lines.append(
            f"{name:6}  {value:6.2f}  {100 * chance[name]:6.3f}  {100 * float(skill[name]):6.2f}  "
            f"{plain[0]:5.2f} - {plain[1]:5.2f}  {clustered[0]:5.2f} - {clustered[1]:5.2f}  "
            f"{wider:5.1f}  {users:.2f} ({of_users[0]:.2f} - {of_users[1]:.2f})"
        )
    return "\n".join(lines)


def _percent(metrics: RankingCollection, name: str) -> list[float]:
    values = metrics.compute_with_intervals()
    return [100 * float(values[name + end]) for end in ("", "_low", "_high")]


def main(arguments: list[str] | None = None) -> dict[str, Evaluation]:
    """Print the tables and the comparisons."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("--limit", type=int, help="use only this number of users")
    options = parser.parse_args(arguments)
    data = read_or_simulate(options.data, options.limit)
    num_candidates = data.num_locations - FIRST_LOCATION
    models = {
        "most frequent": MostFrequent(data),
        "most visited": MostVisited(data),
        "Markov": Markov(data),
    }
    evaluations = {}
    for name, model in models.items():
        found = evaluations[name] = evaluate(model, data)
        queries, users = len(found.users), len(found.users.unique())
        print(f"\n{name}: {queries} queries of {users} users, percent")
        print(format_table(found, num_candidates), flush=True)
    markov, visited = evaluations["Markov"], evaluations["most visited"]
    print("\nMRR, Markov less most visited")
    both = {"visited": visited.kept, "Markov": markov.kept}
    by_user = {"groups": {"user": markov.users}, "cluster": "user"}
    print("  by query", report.compare(both).comparisons["Markov"]["score"])
    print("  by user ", report.compare(both, **by_user).comparisons["Markov"]["score"])
    return evaluations


if __name__ == "__main__":
    main()
