"""Runs the evaluation functions of other codebases, taken out of clones of their repositories.

The environment variable PROTOCOL_CLONES names a folder with a folder `owner+name` per repository.
Functions are found by `ast`, so that neither their imports nor their Python matter, and are run as
they stand; models, loaders and devices around them are stand-ins. No line of theirs is here.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import io
import json
import logging
import math
import os
import random
import re
import sys
import tempfile
import time
import types
import typing
import warnings
from collections import Counter, OrderedDict, defaultdict, deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

#: The commits that the facts and the lines are of.
COMMITS = {
    "LibCity+Bigscity-LibCity": "5a6391d4",
    "mie-lab+location-prediction": "3417149d",
    "songyangme+GETNext": "2714a57b",
    "ruiwenfan+ROTAN": "41d3b570",
    "icmpnorequest+SIGIR2024_DCHL": "307cadf4",
    "eXascaleInfolab+Flashback_code": "519a4461",
    "kevin-xuan+Graph-Flashback": "3489e9a5",
    "Yukayo+LoTNext": "fb4a8e07",
    "vonfeng+DeepMove": "6a969a43",
    "kang205+SASRec": "e3738967",
    "pmixer+SASRec.pytorch": "fde8a9c0",
    "RUCAIBox+RecBole": "7b02be5e",
    "yingtaoluo+Spatial-Temporal-Attention-Network-for-POI-Recommendation": "8b82f284",
    "NLPWM-WHU+LSTPM": "bce2384f",
    "urbanmobility+CSLSL": "d59c882b",
    "ant-research+Spatio-Temporal-Hypergraph-Model": "27b59584",
    "meta-recsys+generative-recommenders": "db1bf8f2",
    "libertyeagle+GeoSAN": "2eb5ef6a",
    "snap-stanford+ogb": "61e9784c",
    "neolifer+LLM4POI": "6145b45e",
    "poi-rec+HMT-GRN": "843a30df",
    "xlwang233+LLM-Mob": "9ace25f7",
    "tsinghua-fib-lab+AgentMove": "61a3e476",
    "cruiseresearchgroup+Massive-STEPS": "aeb73058",
    "w11wo+GenUP": "50452dcb",
    "liuzh368+GA-LLM": "360f5c3e",
    "zhuang999+Think2Go": "c88b46f0",
    "wds1996+TOOL4POI": "854284f0",
    "Wonderdch+CLSPRec": "4ad49a4b",
    "LKRcrocodile+RALLM-POI": "fe2ca0df",
    "LLMMove+LLMMove": "65a30fac",
}

Names = dict[str, Any]
Stub = types.SimpleNamespace


def clone(repository: str) -> Path:
    """Return the folder of a clone, or skip the test."""
    folder = os.environ.get("PROTOCOL_CLONES")
    if not folder:
        pytest.skip("needs PROTOCOL_CLONES, a folder of clones `owner+name`")
    path = Path(folder) / repository
    if not path.is_dir():
        pytest.skip(f"needs a clone of {repository.replace('+', '/')} in PROTOCOL_CLONES")
    return path


def parse(repository: str, path: str, *replace: tuple[str, str]) -> ast.Module:
    """Parse a file; `replace` makes Python 3 of it where it is older."""
    text = (clone(repository) / path).read_text(encoding="utf-8")
    for old, new in replace:
        text = text.replace(old, new)
    return ast.parse(text)


def find(node: ast.AST, name: str) -> Any:
    """Return a function or a class by its name."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    return next(one for one in ast.walk(node) if isinstance(one, kinds) and one.name == name)


def execute(nodes: list[Any], names: Names) -> Names:
    """Define nodes among names; decorators are left out."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            node.decorator_list = []
    module = ast.fix_missing_locations(ast.Module(body=nodes, type_ignores=[]))
    exec(compile(module, "<original>", "exec"), names)
    return names


def load(tree: ast.AST, wanted: list[str], names: Names | None = None) -> Names:
    """Define functions or classes of a tree."""
    names = {} if names is None else names
    names |= {"np": np, "torch": torch, "math": math} if "np" not in names else {"torch": torch}
    return execute([find(tree, name) for name in wanted], names)


def batches(number: int, size: int) -> list[slice]:
    """Rows of each batch; the last one may be short."""
    return [slice(start, min(start + size, number)) for start in range(0, number, size)]


def as_model(call: Any) -> Any:
    """A model that is a function, in any mode."""
    made: Any = functools.partial(call)
    made.eval = made.train = lambda *_: None
    made.device = "cpu"
    return made


def libcity(
    scores: Any, target: Any, k: tuple[int, ...], batch_size: int, sampled: bool = False
) -> Names:
    """The executor's `evaluate` with the evaluator; sampled, column 0 is the target."""
    repository = "LibCity+Bigscity-LibCity"
    kinds = ["Precision", "Recall", "F1", "MRR", "MAP", "NDCG"]
    names: Names = {
        "AbstractEvaluator": object, "getLogger": logging.getLogger, "defaultdict": defaultdict,
        "allowed_metrics": kinds, "os": os, "json": json, "time": time,
    }  # fmt: skip
    load(parse(repository, "libcity/evaluator/eval_funcs.py"), ["top_k"], names)
    path = "libcity/evaluator/traj_loc_pred_evaluator.py"
    load(parse(repository, path), ["TrajLocPredEvaluator"], names)
    executor = find(
        parse(repository, "libcity/executor/traj_loc_pred_executor.py"), "TrajLocPredExecutor"
    )
    load(executor, ["evaluate"], names)

    class Batch(dict):  # type: ignore[type-arg]
        def to_tensor(self, device: str) -> None:
            """It has tensors already."""

    loader = [
        Batch(uid=torch.zeros(len(target[rows])), target=torch.tensor(target[rows]),
              scores=torch.tensor(scores[rows]))
        for rows in batches(len(target), batch_size)
    ]  # fmt: skip
    config = {
        "metrics": kinds, "topk": list(k), "device": "cpu", "batch_size": batch_size,
        "evaluate_method": "sample" if sampled else "popularity",
    }  # fmt: skip
    model = Stub(train=lambda flag: None, predict=lambda batch: batch["scores"])
    me = Stub(model=model, config=config, evaluator=names["TrajLocPredEvaluator"](config))
    with tempfile.TemporaryDirectory() as folder:
        me.evaluate_res_dir = folder
        names["evaluate"](me, loader)
        return dict(json.loads(next(Path(folder).iterdir()).read_text(encoding="utf-8")))


def mie_lab(scores: Any, target: Any, batch_size: int = 32) -> Names:
    """`test` and `get_performance_dict`."""
    from sklearn.metrics import f1_score

    wanted = [
        "get_performance_dict", "send_to_device", "calculate_correct_total_prediction", "get_mrr",
        "get_ndcg", "test",
    ]  # fmt: skip
    tree = parse("mie-lab+location-prediction", "utils/train.py")
    names = load(tree, wanted, {"f1_score": f1_score, "timer": lambda: 0.0})
    config = Stub(networkName="transformer", verbose=True, total_user_num=2)
    loader = [
        (torch.tensor(scores[rows]), torch.tensor(target[rows]),
         {"user": torch.ones(len(target[rows]), dtype=torch.int64)})
        for rows in batches(len(target), batch_size)
    ]  # fmt: skip
    with contextlib.redirect_stdout(io.StringIO()):
        result, _ = names["test"](config, as_model(lambda x, *_: x), loader, "cpu")
    return dict(names["get_performance_dict"](result))


def getnext(scores: Any, target: Any, batch_size: int, rotan: bool = False) -> Names:
    """The statements of the validation loop and of the means; one step per trajectory."""
    repository = "ruiwenfan+ROTAN" if rotan else "songyangme+GETNext"
    train = "old_train.py" if rotan else "train.py"
    keys = {"top1_acc": "acc@1", "top5_acc": "acc@5", "top10_acc": "acc@10", "top20_acc": "acc@20",
            "mAP20": "mAP@20", "mrr": "mrr"}  # fmt: skip
    functions = [
        "top_k_acc_last_timestep", "mAP_metric_last_timestep", "MRR_metric_last_timestep",
    ]  # fmt: skip
    names = load(parse(repository, "utils.py"), functions)
    tree = parse(repository, train)

    def assigned(node: ast.AST) -> str | None:
        is_name = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        return node.targets[0].id if is_name else None  # type: ignore[attr-defined]

    loop = next(
        one for one in ast.walk(tree)
        if isinstance(one, ast.For) and ast.unparse(one.target).startswith("(vb_idx")
    )  # fmt: skip
    first = next(i for i, one in enumerate(loop.body) if assigned(one) == "top1_acc")
    last = next(
        i for i, one in enumerate(loop.body)
        if ast.unparse(one).startswith("val_batches_mrr_list.append")
    )  # fmt: skip
    means = [one for one in ast.walk(tree) if assigned(one) in {f"epoch_val_{key}" for key in keys}]
    names |= {f"val_batches_{key}_list": [] for key in keys}
    for rows in batches(len(target), batch_size):
        number = len(target[rows])
        predicted = "y_pred_poi" if rotan else "y_pred_poi_adjusted"
        names[predicted] = torch.tensor(scores[rows])[:, None]
        names["y_poi"] = torch.tensor(target[rows])[:, None]
        names |= {"y_pred_time": torch.zeros(1), "y_pred_cat": torch.zeros(1)}
        names["batch_seq_lens"] = [1] * number
        execute(loop.body[first : last + 1], names)
    execute(means, names)
    return {ours: float(names[f"epoch_val_{key}"]) for key, ours in keys.items()}


def dchl(scores: Any, target: Any, batch_size: int) -> Names:
    """`batch_performance`, and the loop over the cut-offs."""
    repository, cuts = "icmpnorequest+SIGIR2024_DCHL", [1, 5, 10, 20]
    names = load(parse(repository, "metrics.py"), ["hit_k", "ndcg_k", "batch_performance"])
    loop = next(
        one for one in ast.walk(parse(repository, "run.py"))
        if isinstance(one, ast.For) and "test_recall_array[idx, col_idx]" in ast.unparse(one)
        and ast.unparse(one.iter) == "Ks_list"
    )  # fmt: skip
    rows_of = batches(len(target), batch_size)
    names |= {"Ks_list": cuts, "test_recall_array": np.zeros((len(rows_of), 4))}
    names["test_ndcg_array"] = np.zeros((len(rows_of), 4))
    for names["idx"], rows in enumerate(rows_of):
        names["predictions"] = torch.tensor(scores[rows])
        names["batch"] = {"label": torch.tensor(target[rows])}
        execute([copy.deepcopy(loop)], names)
    recall, ndcg = names["test_recall_array"].mean(0), names["test_ndcg_array"].mean(0)
    found = {f"Recall@{k}": round(float(x), 4) for k, x in zip(cuts, recall, strict=True)}
    return found | {f"NDCG@{k}": round(float(x), 4) for k, x in zip(cuts, ndcg, strict=True)}


def flashback(scores: Any, target: Any, users: Any, heir: str = "") -> Names:
    """`Evaluation.evaluate`, one user per batch; what it prints is read."""
    repository = heir or "eXascaleInfolab+Flashback_code"
    logged: list[str] = []
    tree = parse(repository, "evaluation.py")
    names: Names = {"log_string": lambda log, text: logged.append(text)}
    helpers = ["update_dict_based_on_flag"] if "LoTNext" in heir else []
    load(tree, [*helpers, "Evaluation"], names)
    of_user = [np.flatnonzero(users == user) for user in dict.fromkeys(users.tolist())]
    now = {"user": 0}

    def late(tensor: Any) -> Any:
        return Stub(squeeze=lambda: tensor)

    def loader() -> Any:
        nothing = late(torch.zeros(1))
        for user, rows in enumerate(of_user):
            now["user"] = user
            targets, active = late(torch.tensor(target[rows])[:, None]), late(torch.tensor([user]))
            if not heir:
                yield nothing, nothing, nothing, targets, nothing, nothing, [True], active
            else:
                start = [nothing] * 4 + [targets] + [nothing] * 3 + [[True], active]
                more = [nothing, late(torch.ones(len(rows), 1))] if "LoTNext" in heir else []
                yield (*start, *more)

    hidden = Stub(on_init=lambda *_: torch.zeros(1, 1), on_reset_test=lambda *_: 0.0)
    trainer = Stub(
        evaluate=lambda *_: (torch.tensor(scores[of_user[now["user"]]])[None], torch.zeros(1, 1))
    )
    data = Stub(freq=[1000] * scores.shape[1], reset=lambda: None)
    setting = Stub(batch_size=1, device="cpu", is_lstm=False, report_user=-1)
    arguments = [data, loader(), len(of_user), hidden, trainer, setting, *([None] if heir else [])]
    evaluation = names["Evaluation"](*arguments)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        evaluation.evaluate(*((None, data, 0) if "LoTNext" in heir else ()))
    text = "\n".join([printed.getvalue(), *logged])
    found = re.findall(r"^(recall@\d+|MAP):? ([\d.]+)$", text, re.MULTILINE)
    return {key: float(value) for key, value in found}


def deepmove(scores: Any, target: Any, users: Any) -> Names:
    """`run_simple`, which reports acc@1 alone."""
    names = load(
        parse("vonfeng+DeepMove", "codes/train.py"),
        ["generate_queue", "get_acc", "run_simple"],
        {"deque": deque, "Variable": lambda x: Stub(cuda=lambda: x)},
    )

    def on(value: Any) -> Any:
        return Stub(cuda=lambda: value)

    data = {
        user: {
            0: {"loc": on(user), "tim": on(0), "target": on(torch.tensor(target[users == user]))}
        }
        for user in dict.fromkeys(users.tolist())
    }
    sessions = {user: [0] for user in data}
    of_user = as_model(lambda user, _: torch.tensor(scores[users == user]))
    optimizer = Stub(zero_grad=lambda: None)
    _, accuracy, _ = names["run_simple"](
        data, sessions, "test", 0, 0, of_user, optimizer, lambda *_: torch.zeros(1), "simple"
    )
    return {"acc@1": float(accuracy)}


def sasrec(scores: Any, target: Any, seed: int, seen: Any, pytorch: bool) -> Names:
    """`evaluate`; row i is user i + 1, and its training items are `seen[i]`."""
    repository = "pmixer+SASRec.pytorch" if pytorch else "kang205+SASRec"
    newer = ("print '.',", "print('.', end='')")
    tree = parse(repository, "python/utils.py" if pytorch else "util.py", newer)
    names = load(tree, ["evaluate"], {"copy": copy, "random": random, "sys": sys, "xrange": range})
    number, width = scores.shape
    train = {user: sorted(seen[user - 1]) for user in range(1, number + 1)}
    valid = {user: [1] for user in train}
    test = {user: [int(target[user - 1])] for user in train}

    def predict(*arguments: Any) -> Any:
        user, _, items = arguments[-3:]
        row = scores[int(user[0]) - 1][np.array(items)][None]
        return torch.tensor(row) if pytorch else row

    np.random.seed(seed)
    arguments = [Stub(predict=predict), [train, valid, test, number, width - 1], Stub(maxlen=5)]
    with contextlib.redirect_stdout(io.StringIO()):
        ndcg, hits = names["evaluate"](*arguments, *([] if pytorch else [None]))
    return {"NDCG@10": float(ndcg), "HR@10": float(hits)}


def geosan(scores: Any) -> Names:
    """`evaluate`, on scores of the target, in column 0, and 100 others."""

    def predict(user: Any, *_: Any, **__: Any) -> Any:
        return torch.tensor(scores[user.numpy()]).T

    def loader(data: Any, batch_size: int, **_: Any) -> Any:
        for rows in batches(len(scores), batch_size):
            one = torch.arange(len(scores))[rows]
            yield (*[one] * 8, [1] * len(one))

    tree = parse("libertyeagle+GeoSAN", "quadkey_train.py")
    stubs = {
        "reset_random_seed": lambda seed: None, "DataLoader": loader, "Counter": Counter,
        "pad_sequence": lambda *_, **__: None, "generate_square_mask": lambda *_: None,
    }  # fmt: skip
    names = load(tree, ["evaluate"], stubs | {"np": np})
    hits, gains = names["evaluate"](as_model(predict), *[None] * 4, "cpu", 19, neg_given=True)
    found = {f"HR@{k + 1}": float(one) for k, one in enumerate(hits)}
    return found | {f"NDCG@{k + 1}": float(one) for k, one in enumerate(gains)}


def hmt_grn(scores: Any, cells: Any, target: Any, users: Any, seen: Any, novel: bool) -> Names:
    """`evaluate`, with beams of one: location i is in cell i % 2 of the finest grid.

    Args:
        scores: probabilities of the locations, which the code numbers from 1.
        cells: probabilities of the two finest cells, for each query.
        seen: the training locations of each user.
    """
    width = scores.shape[1]
    names = ["only", "even", "odd"]  # index 0 is padding
    arg: Names = {"dataFolder": "", "novelEval": novel, "beamSize": 1}
    arg["beamSearchHashDict"] = {f"{n}_{n + 1}": {"only": ["only"]} for n in (2, 3, 4)}
    arg["beamSearchHashDict"]["5_6"] = {"only": ["even", "odd"]}
    locations = range(1, width + 1)
    for n in range(2, 7):
        cell_of = {one: names[1 + (one - 1) % 2] if n == 6 else "only" for one in locations}
        index = {"even": 1, "odd": 2} if n == 6 else {"only": 1}
        arg[f"poi2geohash_{n}"], arg[f"geohash2Index_{n}"] = cell_of, index
        arg[f"index2geoHash_{n}"] = {number: name for name, number in index.items()}
    arg["geohash2poi_6"] = {
        name: [one for one in locations if arg["poi2geohash_6"][one] == name] for name in names[1:]
    }
    rows_of = [np.flatnonzero(users == user) for user in np.unique(users)]
    queries = iter([row for rows in rows_of for row in rows])
    if novel:
        queries = iter([row for row in queries if target[row] not in seen[users[row]]])

    def predict(*_: Any) -> Any:
        row = next(queries)
        one, finest = torch.tensor([0.0, 1.0]), torch.tensor([0.0, *cells[row]])
        whole = torch.tensor([0.0, *scores[row]])
        return whole, one[None, None], one, one, one, finest

    tests = [[1, *(target[rows] + 1).tolist()] for rows in rows_of]
    train = [[int(one) + 1 for one in seen[user]] for user in np.unique(users)]
    loaded = [(tests, None, None), (train, None, None),
              (None, [[1 + i] * len(one) for i, one in enumerate(tests)])]  # fmt: skip
    read = Stub(load=lambda file: loaded.pop(0))
    names_of: Names = {
        "t": torch, "np": np, "tqdm": lambda found: found, "pickle": read, "cPickle": read,
        "open": lambda *_: contextlib.nullcontext(),
    }  # fmt: skip
    load(parse("poi-rec+HMT-GRN", "utils/func.py"), ["evaluate"], names_of)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        names_of["evaluate"](as_model(predict), "gowalla", arg)
    values = next(line for line in printed.getvalue().splitlines() if "," in line).split(",")
    keys = ["Acc@1", "Acc@5", "Acc@10", "Acc@20", "MAP"]
    return dict(zip(keys, map(float, values), strict=True))


def ogb(scores: Any, target: Any) -> Names:
    """The evaluator of its links, the target's score beside those of all other locations."""
    tree = find(parse("snap-stanford+ogb", "ogb/linkproppred/evaluate.py"), "Evaluator")
    names = load(tree, ["_eval_mrr"])
    rows = np.arange(len(target))
    others = np.ones(scores.shape, dtype=bool)
    others[rows, target] = False
    negatives = torch.tensor(scores[others].reshape(len(rows), -1))
    of_each = names["_eval_mrr"](Stub(), torch.tensor(scores[rows, target]), negatives, "torch")
    return {key.removesuffix("_list"): float(x.double().mean()) for key, x in of_each.items()}


def recbole(
    scores: Any, target: Any, k: tuple[int, ...], seen: Any = None, negatives: Any = None
) -> Names:
    """The masks of `_full_sort_batch_eval`, the collector, the metrics and the evaluator.

    With `negatives`, the scores are those of `_neg_sample_batch_eval`.
    """
    repository = "RUCAIBox+RecBole"
    kinds = {"hit": "Hit", "mrr": "MRR", "map": "MAP", "recall": "Recall", "ndcg": "NDCG",
             "precision": "Precision"}  # fmt: skip
    old = types.SimpleNamespace(**{**vars(np), "float": float})
    ranking = Stub(RANKING=1, VALUE=2)
    names: Names = {"np": old, "OrderedDict": OrderedDict, "EvaluatorType": ranking}
    folder = "recbole/evaluator"
    load(parse(repository, f"{folder}/base_metric.py"), ["AbstractMetric", "TopkMetric"], names)
    load(parse(repository, f"{folder}/metrics.py"), list(kinds.values()), names)
    collector = parse(repository, f"{folder}/collector.py")
    load(collector, ["DataStruct"], names)
    load(find(collector, "Collector"), ["eval_batch_collect"], names)
    trainer = find(parse(repository, "recbole/trainer/trainer.py"), "Trainer")
    load(trainer, ["_full_sort_batch_eval", "_neg_sample_batch_eval"], names)
    load(find(parse(repository, f"{folder}/evaluator.py"), "Evaluator"), ["evaluate"], names)
    register = Stub(need=lambda key: key == "rec.topk")
    collects = Stub(
        register=register, topk=list(k), data_struct=names["DataStruct"](), device="cpu"
    )

    class Interaction(dict):  # type: ignore[type-arg]
        length = 1

        def to(self, device: str) -> Any:
            return self

    model = Stub(
        full_sort_predict=lambda one: one["scores"].clone(), predict=lambda one: one["scores"]
    )
    trains = Stub(
        device="cpu", tot_item_num=scores.shape[1], test_batch_size=1 << 30, model=model,
        config={"eval_type": 1, "ITEM_ID_FIELD": "item"},
    )  # fmt: skip
    for rows in batches(len(target), 20):
        users = torch.arange(len(target[rows]))
        history = None
        if seen is not None:
            pairs = [
                (i, one)
                for i, ids in enumerate(seen[rows])
                for one in ids
                if one != target[rows][i]  # its loader leaves positives out of the history
            ]
            history = tuple(torch.tensor(pairs).T)
        batch = (Interaction(scores=torch.tensor(scores[rows])), history, users,
                 torch.tensor(target[rows]))  # fmt: skip
        call = "_full_sort_batch_eval"
        if negatives is not None:  # the target and its negatives, one user after the other
            call = "_neg_sample_batch_eval"
            ids = torch.cat([batch[3][:, None], torch.tensor(negatives[rows])], 1)
            own = torch.tensor(scores[rows]).gather(1, ids).flatten()
            index = users.repeat_interleave(ids.shape[1])
            batch = (Interaction(scores=own, item=ids.flatten()), index, users, batch[3])
        _, found, positive_u, positive_i = names[call](trains, batch)
        names["eval_batch_collect"](collects, found, None, positive_u, positive_i)
    config = {"metric_decimal_place": 4, "topk": list(k)}
    classes = {kind: names[name](config) for kind, name in kinds.items()}
    evaluator = Stub(metrics=list(kinds), metric_class=classes)
    return dict(names["evaluate"](evaluator, collects.data_struct))


def stan(scores: Any, target: Any, first: int) -> Names:
    """`calculate_acc` for each user."""
    repository = "yingtaoluo+Spatial-Temporal-Attention-Network-for-POI-Recommendation"
    to_npy = {"to_npy": lambda x: x.numpy()}
    names = load(parse(repository, "train.py"), ["calculate_acc"], to_npy)
    rows = [
        names["calculate_acc"](torch.tensor(row)[None], torch.tensor([one]))
        for row, one in zip(scores[:first], target[:first], strict=True)
    ]
    return dict(zip([f"Recall@{k}" for k in (1, 5, 10, 20)], np.mean(rows, 0), strict=True))


def lstpm(scores: Any, target: Any, users: Any) -> Names:
    """`evaluate`; one session per user."""
    of_user = {user: np.flatnonzero(users == user) for user in dict.fromkeys(users.tolist())}

    def detail(batch: Any) -> Any:
        sessions = [[1, *target[of_user[user]].tolist()] for user, _ in batch]
        rest = [[0]] * len(batch)
        lengths = [len(one) for one in sessions]
        return [user for user, _ in batch], [0] * len(batch), sessions, lengths, rest, rest

    def predict(ids: Any, sequence: Any, *_: Any) -> Any:
        found = torch.full((len(ids), sequence.shape[1], scores.shape[1]), -9.0)
        for own, user in zip(found, ids.tolist(), strict=True):
            own[: len(of_user[user])] = torch.tensor(scores[of_user[user]])
        return found

    names: Names = {
        "Variable": lambda x: x, "device": "cpu", "data_neural": of_user,
        "poi_distance_matrix": None, "generate_detailed_batch_data": detail,
        "generate_input_long_history": lambda *_, **__: (None, {user: [0] for user in of_user}),
    }  # fmt: skip
    wanted = ["minibatch", "pad_batch_of_lists_masks", "generate_queue", "get_acc", "evaluate"]
    load(parse("NLPWM-WHU+LSTPM", "train/train.py"), wanted, names)
    keys = [f"{name}@{k}" for name in ("Acc", "NDCG") for k in (1, 5, 10)]
    return dict(zip(keys, names["evaluate"](as_model(predict), 1), strict=True))


def cslsl(scores: Any, target: Any, users: Any, batch_size: int, seed: int) -> Names:
    """`evaluate`, which shuffles and batches; one session per user."""
    names: Names = {"random": random, "pad_sequence": torch.nn.utils.rnn.pad_sequence}
    repository = "urbanmobility+CSLSL"
    load(parse(repository, "utils.py"), ["generate_batch_data", "calculate_recall"], names)
    load(parse(repository, "train_test.py"), ["evaluate"], names)
    data = {}
    for user in dict.fromkeys(users.tolist()):
        rows = np.flatnonzero(users == user)
        none = [0] * len(rows)
        data[user] = {0: {
            "target_l": target[rows].tolist(), "target_th": none, "target_c": none,
            "loc": [[1], (rows + 1).tolist()], "tim": [[[0, 0]], [[0, 0]] * len(rows)],
        }}  # fmt: skip

    def predict(batch: Any, mask: Any) -> Any:
        rows = batch[2].max(1).values - 1  # the last location names the row
        return torch.zeros(len(rows), 1, 1), 0, torch.tensor(scores)[rows][:, None], len(rows)

    setting = Stub(device="cpu", cat_contained=False, batch_size=batch_size)
    random.seed(seed)
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the loss, which is no part of the evaluation
        found, *_ = names["evaluate"](
            as_model(predict), data, {user: [0] for user in data}, setting
        )
    return dict(zip(["Rec-l@1", "Rec-l@5", "Rec-l@10"], found, strict=True))


def sthgcn(scores: Any, target: Any) -> Names:
    """`test_step`."""
    repository = "ant-research+Spatio-Temporal-Hypergraph-Model"
    names: Names = {"tqdm": lambda x: x, "logging": logging}
    load(parse(repository, "metric/rank_metric.py"), ["recall", "ndcg", "map_k", "mrr"], names)
    load(parse(repository, "utils/pipeline_util.py"), ["test_step"], names)

    class Rows(Stub):
        def to(self, device: str) -> Any:
            return self

    graph = Rows(storage=Rows(row=lambda: torch.zeros(1, dtype=torch.int64)))
    rest = dict.fromkeys(["edge_attrs", "edge_delta_ts", "edge_delta_ss", "edge_types"], 0)
    loader = [
        Rows(adjs_t=[graph, graph], x=torch.tensor(scores[rows]),
             y=torch.tensor(target[rows])[:, None], **rest)
        for rows in batches(len(target), 20)
    ]  # fmt: skip
    predict = as_model(lambda data, *_, **__: (data["x"], torch.zeros(1)))
    *cut, mrr, _ = names["test_step"](predict, loader)
    titles = zip(("Recall", "NDCG", "MAP"), cut, strict=True)
    return {f"{name}@{k}": float(x) for name, of in titles for k, x in of.items()} | {
        "MRR": float(mrr)
    }


def hstu(scores: Any, target: Any, seen: Any) -> Names:
    """`eval_metrics_v2_from_tensors`, `get_top_k_outputs` and `_avg`; column j is id j + 1."""
    repository, folder = "meta-recsys+generative-recommenders", "generative_recommenders/research"
    names = {**vars(typing)}
    for kind in ("EvalState", "SimilarityModule", "SequentialFeatures", "TopKModule"):
        names[kind] = Stub
    tree = parse(repository, f"{folder}/data/eval.py")
    load(tree, ["eval_metrics_v2_from_tensors", "_avg"], names)
    index = find(parse(repository, f"{folder}/indexing/candidate_index.py"), "CandidateIndex")
    load(index, ["get_top_k_outputs"], names)
    ids = torch.arange(1, scores.shape[1] + 1)[None]
    candidates = Stub(ids=ids, num_objects=scores.shape[1])
    candidates.get_top_k_outputs = lambda **given: names["get_top_k_outputs"](candidates, **given)

    def top_k(query_embeddings: Any, k: int) -> Any:
        values, columns = torch.topk(query_embeddings, dim=1, k=k, sorted=True, largest=True)
        return values, ids[0][columns]

    state = Stub(all_item_ids=set(ids[0].tolist()), candidate_index=candidates, top_k_module=top_k)
    found: dict[str, list[Any]] = {}
    for rows in batches(len(target), 20):
        past = torch.tensor(seen[rows] + 1)
        features = Stub(past_lengths=None, past_payloads=None, past_ids=past)
        own = torch.tensor(scores[rows])
        model = Stub(get_item_embeddings=lambda x: x, encode=lambda own=own, **_: own)
        of_batch = names["eval_metrics_v2_from_tensors"](
            state, model, features, target_ids=torch.tensor(target[rows] + 1)[:, None]
        )
        for key, value in of_batch.items():
            found.setdefault(key, []).append(value)
    return {key: float(names["_avg"](torch.cat(x, -1), 1)) for key, x in found.items()}


def llm_mob(lists: Any, target: Any) -> Names:
    """The cell for ten ids, on a frame in place of the files."""
    import pandas as pd
    from sklearn.metrics import f1_score

    cells = json.loads((clone("xlwang233+LLM-Mob") / "metrics.ipynb").read_text(encoding="utf-8"))[
        "cells"
    ]
    names: Names = {"pd": pd, "f1_score": f1_score}
    helpers = ["get_is_correct10", "first_nonzero", "get_ndcg"]
    load(ast.parse("".join(cells[2]["source"])), helpers, names)
    tops = {"top10": list(map(list, lists)), "top5": [list(one[:5]) for one in lists]}
    names["df"] = pd.DataFrame({"ground_truth": target, **tops, "top1": [one[0] for one in lists]})
    body = ast.parse("".join(cells[4]["source"])).body
    start = next(i for i, one in enumerate(body) if "func=get_is_correct10" in ast.unparse(one))
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        execute(body[start:], names)
    pairs = (line.split(":") for line in printed.getvalue().splitlines())
    return {key: float(value) for key, value in pairs}


def agentmove(lists: Any, target: Any, answered: Any) -> Names:
    """`compute_combined_top_accuracies`, written as it is printed."""
    names: Names = {"re": re, "json": json, "os": os, "ast": ast}
    tree = parse("tsinghua-fib-lab+AgentMove", "evaluate/evaluations.py")
    kind = load(tree, ["PredictionEvaluator"], names)["PredictionEvaluator"]
    evaluator = kind.__new__(kind)
    evaluator.mode, evaluator.use_int_venue, evaluator.prompt_type = "rule", True, "agentmove"
    evaluator.combined_data = {
        str(i): {"prediction": one.tolist(), "true": int(t), **({"output": {}} if known else {})}
        for i, (one, t, known) in enumerate(zip(lists, target, answered, strict=True))
    }
    found = evaluator.compute_combined_top_accuracies()
    keys = [f"{name} Accuracy" for name in ("Top-1", "Top-3", "Top-5", "MRR", "MAP", "NDCG")]
    return {key: float(f"{100 * x:.2f}") for key, x in zip(keys, found, strict=True)}


def massive_steps(lists: Any, target: Any) -> Names:
    """`calculate_metrics`, on lists of five ids as text."""
    tree = parse("cruiseresearchgroup+Massive-STEPS", "src/run_next_poi_llm.py")
    names = load(tree, ["calculate_metrics"])
    rows = [
        {"prediction": [str(x) for x in one[:5]], "ground_truth": str(t)}
        for one, t in zip(lists, target, strict=True)
    ]
    return dict(names["calculate_metrics"](rows))


class Written:
    """A tokenizer and a model whose answer to the prompt of row i is the i-th text."""

    eos_token_id = pad_token_id = 0
    eos_token = "</s>"

    def __init__(self, texts: list[str], answered: Any = None) -> None:
        self.texts, self.answered = texts, answered

    def __call__(self, prompt: str, **_: Any) -> Any:
        class Prompt(dict):  # type: ignore[type-arg]
            input_ids = torch.full((1, 3), int(prompt.split("row ")[1].split(";")[0]))

            def to(self, device: str) -> Any:
                return self

        return Prompt(number=Prompt.input_ids[0, 0])

    def tokenize(self, prompt: str) -> Any:
        return range(10 if self.answered[int(self(prompt)["number"])] else 40_000)

    def decode(self, tokens: Any, **_: Any) -> str:
        return self.texts[int(tokens[0])]

    def eval(self) -> None:
        """There is nothing to do."""

    def generate(self, number: Any = 0, prompt_token_ids: Any = None, **_: Any) -> Any:
        if prompt_token_ids is not None:  # as vLLM
            return [Stub(outputs=[Stub(token_ids=prompt_token_ids[0])])]
        return torch.tensor([[0, 0, 0, int(number)]])


def in_main(repository: str, path: str, first: str, names: Names) -> str:
    """Run the statements of `main` from the first with a text on, and return what they print."""
    body = find(parse(repository, path), "main").body
    start = next(i for i, node in enumerate(body) if first in ast.unparse(node))
    kept = [node for node in body[start:] if not isinstance(node, ast.With)]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        execute(kept, {"re": re, "tqdm": lambda found, **_: found, "torch": torch, **names})
    return printed.getvalue()


def genup(texts: list[str], target: Any) -> Names:
    """The loop of `main` over prompts, and scikit-learn's accuracy of texts."""
    from sklearn.metrics import accuracy_score

    lines = [f"<s>[INST] row {i}; POI id {one}. </s>" for i, one in enumerate(target.tolist())]
    model, written = Stub(device="cpu", generate=Written(texts).generate), {"json": json}
    saved = io.StringIO()
    body = find(parse("w11wo+GenUP", "src/eval_next_poi.py"), "main").body
    start = next(i for i, node in enumerate(body) if "predictions, targets" in ast.unparse(node))
    execute(body[start:], {
        "re": re, "torch": torch, "tqdm": lambda x: x, "accuracy_score": accuracy_score, **written,
        "dataset": {"test": {"llama_prompt": lines}}, "tokenizer": Written(texts), "model": model,
        "generation_config": None, "args": Stub(model_checkpoint="a/b", dataset_id="c/d"),
        "open": lambda *_: contextlib.nullcontext(saved),
    })  # fmt: skip
    return {"accuracy": json.loads(saved.getvalue())["accuracy"]}


def ga_llm(
    texts: list[str], target: Any, answered: Any,
    repository: str = "liuzh368+GA-LLM", path: str = "eval_new.py",
) -> Names:  # fmt: skip
    """The loop of `main` over lines; a long prompt is one that is not answered."""
    written = Written(texts, answered)
    lines = [
        f"<question>: row {i}; at 2012-04-03 18:00:00, Which POI id will user 7 visit?"
        f"<answer>: user 7 will visit POI id {one}."
        for i, one in enumerate(target.tolist())
    ]
    printed = in_main(repository, path, "def evaluate_prediction_accuracy", {
        "lines": lines, "tokenizer": written, "model": written, "generation_config": None,
        "args": Stub(dataset_name="", test_file=""),
        "transformers": Stub(GenerationConfig=lambda **_: None),
    })  # fmt: skip
    return {"ACC@1": float(printed.partition("ACC@1:")[2].splitlines()[0])}


def llm4poi(lists: Any, target: Any, answered: Any) -> Names:
    """The same of the lists' first ids."""
    texts = [f" {one[0]}." for one in lists]
    return ga_llm(texts, target, answered, "neolifer+LLM4POI", "eval_next_poi.py")


def think2go(texts: list[str], target: list[str]) -> Names:
    """The loop of `main` over lines, with vLLM's answers."""
    written = Written(texts)
    lines = [{"input": f"row {i};", "output": f"[{one}]"} for i, one in enumerate(target)]
    printed = in_main("zhuang999+Think2Go", "eval_vllm.py", "def evaluate_prediction_accuracy", {
        "lines": lines, "tokenizer": written, "vllm_model": written, "vllm_sampling_params": None,
        "format_chat_conversation": lambda user_content, **_: user_content.rpartition("\n")[2],
    })  # fmt: skip
    return {"ACC@1": float(printed.partition("ACC@1:")[2].splitlines()[0])}


def tool4poi(lists: list[list[int]], target: Any, seen: Any) -> dict[str, Names]:
    """`main` with `process_single_query`; a query without a list fails."""
    from concurrent.futures import ThreadPoolExecutor, as_completed

    rows = range(len(lists))
    history = [{"input": f"records: {seen[i].tolist()}", "target": int(target[i])} for i in rows]
    recent = [{"input": f"row {i};", "next_time": i, "target": int(target[i])} for i in rows]
    saved: dict[str, io.StringIO] = {}

    def rerank(recent: str, row: int, *_: Any) -> str:
        if not lists[row]:
            raise ValueError("no answer")
        return f"<re_rank>{lists[row]}</re_rank>"

    def opened(path: str, mode: str, **_: Any) -> Any:
        given = history if "history" in path else recent if "recent" in path else []
        if mode == "w":
            saved[path] = io.StringIO()
        return contextlib.nullcontext(
            saved[path] if mode == "w" else io.StringIO(json.dumps(given))
        )

    bar = contextlib.nullcontext(Stub(update=lambda _: None))
    names: Names = {
        "re": re, "json": json, "ThreadPoolExecutor": ThreadPoolExecutor, "open": opened,
        "as_completed": as_completed, "tqdm": lambda **_: bar, "model": "", "model_id": "",
        "ClientManager": lambda **_: None, "analyze_user": lambda *_: "likes",
        "retrieve_candidates": lambda *_: [0], "rerank_candidates": rerank,
    }  # fmt: skip
    wanted = ["acc_at_k", "jug_mrr", "process_single_query", "main"]
    load(parse("wds1996+TOOL4POI", "toolRec_multi.py"), wanted, names)
    with contextlib.redirect_stdout(io.StringIO()):
        names["main"]()
    parts = {"all": "_tool_metrics.json", "in": "_IH_metrics.json", "out": "_OOH_metrics.json"}
    return {
        part: next(json.loads(x.getvalue()) for path, x in saved.items() if path.endswith(end))
        for part, end in parts.items()
    }


def clsprec(lists: Any, target: Any) -> Names:
    """`test_model`, with a list and a label for each sample."""
    names: Names = {"generate_sample_to_device": lambda x: x, "settings": Stub(enable_ssl=False)}
    load(parse("Wonderdch+CLSPRec", "main.py"), ["test_model"], names)
    pairs = list(zip(torch.tensor(lists), torch.tensor(target), strict=True))
    with contextlib.redirect_stdout(io.StringIO()):
        found = names["test_model"](pairs, Stub(predict=lambda pair, _: pair))
    return {
        f"{name}@{k}": float(value)
        for name, values in zip(("Recall", "NDCG", "MAP"), found, strict=True)
        for k, value in values.items()
    }


def rallm_poi(lists: Any, target: Any, answered: Any) -> Names:
    """`test_model` from the stacked lists on; those of the run before are in the file only."""
    body = find(parse("LKRcrocodile+RALLM-POI", "main_rallm_poi.py"), "test_model").body
    start = next(i for i, node in enumerate(body) if "torch.stack(preds" in ast.unparse(node))
    kept = [node for node in body[:start] if isinstance(node, ast.FunctionDef)]
    kept += [node for node in body[start:] if not isinstance(node, ast.Return)]
    names = {
        "torch": torch, "ks": [1, 5, 10], "device": "cpu",
        "preds": list(torch.tensor(lists[answered])),
        "labels": list(torch.tensor(target[answered])),
    }  # fmt: skip
    with contextlib.redirect_stdout(io.StringIO()):
        execute(kept, names)
    pairs: Any = {"Recall": names["recalls"], "NDCG": names["NDCGs"], "MAP": names["MAPs"]}
    return {f"{name}@{k}": float(x) for name, of in pairs.items() for k, x in of.items()}


def llmmove(lists: list[list[int]], target: Any) -> Names:
    """`run`, with lists in place of answers; a query without a list fails."""
    names: Names = {
        "random": random, "tqdm": lambda x: x, "eval": int,
        "open": lambda *_: contextlib.nullcontext(io.StringIO()),
    }  # fmt: skip
    kind = load(parse("LLMMove+LLMMove", "models/LLMMove.py"), ["LLMMove"], names)["LLMMove"]

    def answer(trajectory: str, *_: Any) -> list[int]:
        if not lists[int(trajectory)]:
            raise ValueError("no answer")
        return lists[int(trajectory)]

    model = kind()
    model.runeach = answer
    targets = {str(i): (int(one), 0) for i, one in enumerate(target)}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        model.run(([], [], targets, dict.fromkeys(range(200)), {}), "nyc")
    pairs = (pair.split(": ") for pair in printed.getvalue().splitlines()[-1].split(", "))
    return {key: float(value) for key, value in pairs}
