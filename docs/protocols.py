"""Compute the tables of protocols.md and evidence.md.

    python docs/protocols.py          # writes the tables, draws and prints the audit of New York
    python docs/protocols.py --check  # exits with an error if a table differs

Needs `pip install -e '.[test,peers]'`. The audits need real data next to the project. Without the
data, their table and picture stay unchanged. `--check` leaves the audit of New York out, because
the order of ties differs between machines.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from sklearn import metrics as sklearn_metrics
from torchmetrics import Metric
from torchmetrics.classification import MulticlassAccuracy
from torchmetrics.retrieval import RetrievalHitRate, RetrievalMRR, RetrievalNormalizedDCG

from nextloc_metrics import MRR, AccuracyAtK, NDCGAtK, plotting, protocols, report
from nextloc_metrics.report.protocols import Protocol
from nextloc_metrics.report.protocols.operations import NAMES

DOCS = Path(__file__).parent
DATA = DOCS.parents[1] / "shared" / "data"

CODES = [
    protocols.libcity(),
    protocols.libcity(sampled=True),
    protocols.mie_lab(),
    protocols.getnext(),
    protocols.rotan(),
    protocols.dchl(),
    protocols.flashback(),
    protocols.graph_flashback(),
    protocols.deepmove(),
    protocols.sasrec(),
    protocols.geosan(),
    protocols.middle_rank(),
    protocols.recbole(),
    protocols.recbole(sampled=True),
    protocols.stan(),
    protocols.lstpm(),
    protocols.cslsl(),
    protocols.sthgcn(),
    protocols.hstu(),
    protocols.llm_mob(),
    protocols.hmt_grn(),
    protocols.hmt_grn(novel=True),
    protocols.llm4poi(),
    protocols.agentmove(),
    protocols.massive_steps(),
    protocols.genup(),
    protocols.ga_llm(),
    protocols.think2go(),
    protocols.tool4poi(),
    protocols.tool4poi("in"),
    protocols.tool4poi("out"),
    protocols.clsprec(),
    protocols.rallm_poi(),
    protocols.llmmove(),
]


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Write a table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def fenced(found: object) -> str:
    """Write text as it is printed."""
    text = "\n".join(line.rstrip() for line in str(found).splitlines())
    return f"```text\n{text}\n```"


# The protocols -----------------------------------------------------------------------------------


def codes() -> str:
    """List the queries, candidates, orders, averages and repository of every protocol."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for one in CODES:
        orders = dict.fromkeys(NAMES[metric.order][0] for metric in one.metrics)
        order = ", ".join(f"`{name}`" if "(" in name else name for name in orders)
        link = f"[`{one.name}`](https://github.com/{one.source.code.partition('@')[0]})"
        choices = _queries(one), _candidates(one), order, _average(one)
        rows.setdefault(choices, []).append(link)
    listed = [[", ".join(links), *choices] for choices, links in rows.items()]
    return table(["", "queries", "candidates", "order", "mean over"], listed)


def _queries(one: Protocol) -> str:
    reason = one.own.reason if one.own is not None and one.own.choose is not None else ""
    text = one.queries.replace("of each", "per")
    if reason.startswith("the first"):
        return f"{text}, {reason.split()[-1]} users"
    return f"{text}, full batches" if reason else text


def _candidates(one: Protocol) -> str:
    if one.reads_lists:
        return "the list" if one.num_negatives is None else f"the list, of {one.num_negatives + 1}"
    if one.num_negatives is not None:
        drawn = "given" if one.drawn == "given" else "sampled"
        return f"{one.num_negatives + 1}, {drawn}"
    return "all but id 0" if one.own is not None and "id 0" in one.own.reason else "all"


def _average(one: Protocol) -> str:
    if one.average == "full batches":
        return f"batches times {one.batch_size}"
    if one.average == "batches":
        return f"batches of {one.batch_size}"
    return one.average


# Audits ------------------------------------------------------------------------------------------


def stored_predictions() -> str | None:
    """Audit LLM-Mob's answers for Foursquare users in New York: the rows with a difference."""
    path = DATA / "llm_mob" / "foursquare_top10.npz"
    if not path.exists():
        return None
    found = report.read(path, preds="preds", target="targets", groups=["users"], padding=[-100, -5])
    text = str(protocols.audit(found.preds, found.target, found.groups["users"], k=1, seed=0))
    kept = (x for x in text.splitlines() if " +0.00" not in x and not re.match("without|for ", x))
    return fenced("\n".join(kept))


def draw_new_york() -> None:
    """Draw the audit of two models of counts on the check-ins that LLM-Mob distributes."""
    folder = DATA / "foursquare_nyc"
    if not folder.exists():
        return
    parts = {name: _read(folder / f"foursquare_{name}.csv.gz") for name in ("train", "test")}
    user, place, day = (parts["train"][name] for name in ("user_id", "location_id", "start_day"))
    width = int(place.max()) + 1
    visits = torch.zeros(int(user.max()) + 1, width)
    visits.index_put_((user, place), torch.ones(len(user)), accumulate=True)
    follows = torch.zeros(width, width)
    same = user[1:] == user[:-1]
    pair = place[:-1][same], place[1:][same]
    follows.index_put_(pair, torch.ones(len(pair[0])), accumulate=True)
    user, place, day = (parts["test"][name] for name in ("user_id", "location_id", "start_day"))
    kept = torch.cat([torch.tensor([False]), user[1:] == user[:-1]]).nonzero()[:, 0]
    models = {"user's visits": visits[user[kept]], "transitions": follows[place[kept - 1]]}
    days = user * (int(day.max()) + 1) + day
    given = {"sequences": days[kept], "train_counts": visits.sum(0)}
    found = protocols.audit(models, place[kept], user[kept], k=1, seed=0, **given)
    figure, _ = found.plot()
    plotting.save(figure, DOCS / "pictures" / "audit.png")
    print(found)


def _read(path: Path) -> dict[str, torch.Tensor]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = ("user_id", "location_id", "start_day")
    return {name: torch.tensor([int(float(row[name])) for row in rows]) for name in names}


# Models that have learnt nothing -----------------------------------------------------------------

# 1,000 queries, 200 locations; location i has about twice the visits of 2 i. Id 0 is padding.
LOCATIONS = 201
_share = 1 / torch.arange(1, LOCATIONS).double()
TARGET = 1 + torch.multinomial(_share, 1000, True, generator=torch.Generator().manual_seed(0))
USERS = torch.arange(1000) // 10
MODELS = {
    "constant": torch.full((1000, LOCATIONS), 0.5),
    "NaN": torch.full((1000, LOCATIONS), math.nan),
    "lowest id first": (-torch.arange(LOCATIONS) % LOCATIONS).float().repeat(1000, 1),
}


def by_protocol() -> str:
    """Compute the range of values under each protocol over the orders of ties and of NaN."""
    chosen = [
        (protocols.libcity(k=10), ["Recall@10", "MRR@10"]),
        (protocols.mie_lab(), ["acc@10", "mrr"]),
        (protocols.getnext(), ["acc@10", "mrr"]),
        (protocols.dchl(), ["Recall@10"]),
        (protocols.flashback(), ["recall@10", "MAP"]),
        (protocols.deepmove(), ["acc@1"]),
        (protocols.recbole(), ["recall@10", "mrr@10"]),
        (protocols.lstpm(), ["Acc@10"]),
        (protocols.cslsl(seed=0), ["Rec-l@10"]),
        (protocols.sthgcn(), ["Recall@10", "MRR"]),
        (protocols.hstu(), ["hr@10", "mrr"]),
        (protocols.sasrec(seed=0), ["HR@10"]),
    ]
    codes: dict[tuple[str, ...], list[str]] = {}
    for one, keys in chosen:
        models = [MODELS["constant"], MODELS["NaN"]]
        found = [one.bounds(x, TARGET, USERS) for x in models]
        for key in keys:
            scale = next(metric.scale for metric in one.metrics if metric.key == key)
            cells = tuple(_range(bounds[key], scale) for bounds in found)
            codes.setdefault(cells, []).append(f"`{one.name}` {key}")
    rows = [[", ".join(names), *cells] for cells, names in codes.items()]
    return table(["", "constant", "NaN"], rows)


def _range(bounds: tuple[float, float], scale: float) -> str:
    low, high = (_percent(end / scale) for end in bounds)
    return low if low == high else f"{low} to {high}"


def by_library() -> str:
    """Compute the values of this library, and of others with their defaults."""
    libraries: dict[str, Callable[[torch.Tensor], float]] = {
        "torchmetrics `MulticlassAccuracy(top_k=10)`": lambda x: _updated(
            MulticlassAccuracy(LOCATIONS, top_k=10, average="micro"), x, TARGET
        ),
        "torchmetrics `RetrievalHitRate(top_k=10)`": lambda x: _retrieval(
            RetrievalHitRate(top_k=10), x
        ),
        "torchmetrics `RetrievalMRR()`": lambda x: _retrieval(RetrievalMRR(), x),
        "torchmetrics `RetrievalMRR()` on `log_softmax` scores": lambda x: _retrieval(
            RetrievalMRR(), x.log_softmax(1)
        ),
        "torchmetrics `RetrievalNormalizedDCG(top_k=10)`": lambda x: _retrieval(
            RetrievalNormalizedDCG(top_k=10), x
        ),
        "scikit-learn `top_k_accuracy_score(k=10)`": lambda x: float(
            sklearn_metrics.top_k_accuracy_score(TARGET, x, k=10, labels=range(LOCATIONS))
        ),
        "scikit-learn `ndcg_score(k=10)`": lambda x: float(
            sklearn_metrics.ndcg_score(_relevant().numpy(), x.numpy(), k=10)
        ),
        "torcheval `HitRate(k=10)`": _torcheval,
        "PyG `LinkPredHitRatio(10)` on the ids of `torch.topk`": _geometric,
        "ranx `hit_rate@10`": _ranx,
    }
    rows = []
    for metric in (AccuracyAtK(10), MRR(), NDCGAtK(10)):
        values = []
        for scores in MODELS.values():
            metric.reset()
            values.append(_percent(_updated(metric, scores, TARGET)))
        rows.append([f"nextloc-metrics `{metric!r}`", *values])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # libraries warn of NaN and of targets not found
        for name, evaluate in libraries.items():
            rows.append([name, *(_or_error(evaluate, scores) for scores in MODELS.values())])
    return table(["", *MODELS], rows)


def _or_error(evaluate: Callable[[torch.Tensor], float], scores: torch.Tensor) -> str:
    try:
        return _percent(evaluate(scores))
    except (ValueError, RuntimeError, subprocess.CalledProcessError):
        return "an error"


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _relevant() -> torch.Tensor:
    return torch.nn.functional.one_hot(TARGET, LOCATIONS)


def _updated(metric: Metric, *arguments: Any, **named: Any) -> float:
    metric.update(*arguments, **named)
    return float(metric.compute())


def _retrieval(metric: Metric, scores: torch.Tensor) -> float:
    indexes = torch.arange(len(scores)).repeat_interleave(LOCATIONS)
    return _updated(metric, scores.flatten(), _relevant().flatten(), indexes=indexes)


def _torcheval(scores: torch.Tensor) -> float:
    from torcheval.metrics.functional import hit_rate

    return float(hit_rate(scores, TARGET, k=10).mean())


def _geometric(scores: torch.Tensor) -> float:
    from torch_geometric.metrics import LinkPredHitRatio

    edges = torch.stack([torch.arange(1000), TARGET])
    return _updated(LinkPredHitRatio(10), scores.topk(10).indices, edges)


RANX = """
import json, sys, ranx
qrels, run = json.load(sys.stdin)
print(ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), "hit_rate@10"))
"""


def _ranx(scores: torch.Tensor) -> float:
    """Run ranx in a separate process: its compiler and PyTorch cannot share threads."""
    qrels = {f"q{i}": {f"d{one}": 1} for i, one in enumerate(TARGET.tolist())}
    run = {
        f"q{i}": {f"d{j}": x for j, x in enumerate(row)} for i, row in enumerate(scores.tolist())
    }
    done = subprocess.run(
        [sys.executable, "-c", RANX],
        input=json.dumps([qrels, run]),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return float(done.stdout)


TABLES: dict[str, list[Callable[[], str | None]]] = {
    "protocols.md": [codes, stored_predictions],
    "evidence.md": [by_library, by_protocol],
}


def fill(page: str, tables: Sequence[Callable[[], str | None]]) -> str:
    """Put every table between its marks. A table without data stays unchanged."""
    for make in tables:
        text = make()
        if text is None:
            continue
        marks = re.compile(rf"(<!-- {make.__name__} -->\n).*?(\n<!-- end -->)", re.DOTALL)
        page, found = marks.subn(lambda match, text=text: f"{match[1]}\n{text}\n{match[2]}", page)
        if found != 1:
            raise ValueError(f"a page must have one mark for {make.__name__}, got {found}.")
    return page


def main() -> None:
    """Write the tables into the pages, or exit with an error where a page differs."""
    check = sys.argv[1:] == ["--check"]
    if not check:
        draw_new_york()
    for name, tables in TABLES.items():
        page = (DOCS / name).read_text(encoding="utf-8")
        filled = fill(page, tables)
        if not check:
            (DOCS / name).write_text(filled, encoding="utf-8")
        elif filled != page:
            lines = zip(page.splitlines(), filled.splitlines(), strict=False)
            differing = [f"- {old}\n+ {new}" for old, new in lines if old != new]
            sys.exit("\n".join([f"{name} differs; run python docs/protocols.py:", *differing]))


if __name__ == "__main__":
    main()
