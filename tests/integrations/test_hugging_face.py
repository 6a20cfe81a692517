"""The Hugging Face Trainer: users and sequences, several sets, two processes, and errors."""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    next_location_metrics,
    recommendation_metrics,
)
from nextloc_metrics.integrations.hugging_face import TrainerMetrics
from page_code import defined_on
from strategies import floats_of, updated

C = 12  # locations


Rows = Sequence[dict[str, Tensor]]


@pytest.fixture(scope="module")
def transformers() -> ModuleType:
    """The library, which takes seconds to import."""
    for name in ("transformers", "accelerate"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}, of the extra `integrations`")
    return importlib.import_module("transformers")


class Model(nn.Module):
    """A table of scores, `[N, C]` of a user or `[N, T, C]` of a sequence of locations."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Embedding(50, C)

    def forward(self, inputs: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return what models of transformers return, with hidden states beside the logits."""
        logits = self.scores(inputs)
        loss = nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten())
        return {"loss": loss, "logits": logits, "hidden_states": logits * 0}


class Causal(Model):
    """The logits alone, and a loss that shifts them against the labels."""

    def forward(self, inputs: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return the logits for the next step."""
        logits = self.scores(inputs)
        loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return {"loss": loss, "logits": logits}


def users(number: int) -> Rows:
    """One query per row; every seventh is to be left out."""
    labels = torch.randint(C, (number,))
    labels[::7] = -100
    return [{"inputs": torch.randint(50, ()), "labels": label} for label in labels]


def sequences(number: int) -> Rows:
    """Sequences of 2 to 9 locations."""
    lengths = torch.randint(2, 10, (number,)).tolist()
    return [{name: torch.randint(C, (n,)) for name in ("inputs", "labels")} for n in lengths]


def padded(rows: Rows) -> dict[str, Tensor]:
    """A batch as wide as its longest sequence."""
    padding = {"inputs": 0, "labels": -100}
    return {
        name: nn.utils.rnn.pad_sequence(
            [row[name] for row in rows], batch_first=True, padding_value=value
        )
        for name, value in padding.items()
    }


def make_trainer(
    transformers: ModuleType,
    folder: Path,
    model: nn.Module,
    rows: Any,
    metrics: Any,
    **options: Any,
) -> Any:
    """Make a Trainer of little output whose last batch is smaller."""
    collate = options.pop("data_collator", None)
    arguments = transformers.TrainingArguments(
        str(folder), per_device_eval_batch_size=8, report_to=[], use_cpu=True, disable_tqdm=True,
        **options,
    )  # fmt: skip
    return transformers.Trainer(
        model,
        arguments,
        data_collator=collate,
        train_dataset=rows if isinstance(rows, list) else None,
        eval_dataset=rows,
        compute_metrics=metrics,
    )


def metrics_of(evaluated: dict[str, Any], names: Any) -> dict[str, float]:
    """The values of this library among the results of the Trainer."""
    return {name: evaluated[f"eval_{name}"] for name in names}


@pytest.mark.parametrize(
    "options", [{}, {"batch_eval_metrics": True}, {"eval_do_concat_batches": False}]
)
def test_trainer_of_users(
    transformers: ModuleType, tmp_path: Path, options: dict[str, Any]
) -> None:
    """Values of the Trainer are those of all data at once, and a second evaluation is the same."""
    rows, model, metrics = users(29), Model(), next_location_metrics(C, k=(1, 3))
    trainer = make_trainer(transformers, tmp_path, model, rows, TrainerMetrics(metrics), **options)
    expected = floats_of(metrics, *scored(model, rows))
    for _ in range(2):
        evaluated = trainer.evaluate()
        assert metrics_of(evaluated, expected) == expected
        assert all(type(evaluated[f"eval_{name}"]) is float for name in expected)
    assert trainer.predict(rows).metrics["test_mrr"] == expected["mrr"]


@pytest.mark.parametrize("in_batches", [False, True])
@pytest.mark.parametrize("options", [{}, {"eval_accumulation_steps": 2}])
@pytest.mark.parametrize("causal", [False, True])
def test_trainer_of_sequences(
    transformers: ModuleType,
    tmp_path: Path,
    in_batches: bool,
    options: dict[str, Any],
    causal: bool,
) -> None:
    """Batches of different widths, which the Trainer pads, count only their own steps."""
    rows, model = sequences(21), Causal() if causal else Model()
    compute = TrainerMetrics(metrics := next_location_metrics(C), causal=causal)
    trainer = make_trainer(
        transformers, tmp_path, model, rows, compute, data_collator=padded,
        batch_eval_metrics=in_batches, **options,
    )  # fmt: skip
    steps = slice(0, -1) if causal else slice(None)
    logits = torch.cat([model.scores(row["inputs"])[steps] for row in rows]).detach()
    labels = torch.cat([row["labels"][1:] if causal else row["labels"] for row in rows])
    expected = floats_of(metrics, logits, labels)
    for _ in range(2):
        assert metrics_of(trainer.evaluate(), expected) == expected


def scored(model: Model, rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
    """The scores, labels and mask of users."""
    inputs, labels = (torch.stack([row[x] for row in rows]) for x in ("inputs", "labels"))
    return model.scores(inputs).detach(), labels, labels >= 0


@pytest.mark.parametrize("in_batches", [False, True])
def test_trainer_of_several_sets_while_training(
    transformers: ModuleType, tmp_path: Path, in_batches: bool
) -> None:
    """Each set and each epoch has its own values, and the last are those of the last model."""
    rows = users(20)
    sets = {"a": rows[:9], "b": rows[9:]}
    model, metrics = Model(), next_location_metrics(C)
    trainer = make_trainer(
        transformers, tmp_path, model, rows, TrainerMetrics(metrics),
        num_train_epochs=2, learning_rate=1.0, eval_strategy="epoch", save_strategy="no",
        batch_eval_metrics=in_batches,
    )  # fmt: skip
    trainer.eval_dataset = sets
    trainer.train()
    history = [entry for entry in trainer.state.log_history if "eval_a_mrr" in entry]
    assert len(history) == 2
    for name, own in sets.items():
        expected = floats_of(metrics, *scored(model, own))
        (entry,) = [
            e for e in trainer.state.log_history[-4:] if f"eval_{name}_mrr" in e and e["epoch"] == 2
        ]
        assert {key: entry[f"eval_{name}_{key}"] for key in expected} == expected


def test_trainer_of_the_page(transformers: ModuleType, tmp_path: Path, repository: Path) -> None:
    """The function that the page shows gives the same in both modes."""
    evaluate = defined_on(repository / "docs/tasks.md")["evaluate"]
    rows, model = users(23), Model()
    expected = float(MRR()(*scored(model, rows)))
    for in_batches in (True, False):
        assert evaluate(model, rows, C, str(tmp_path), in_batches) == expected


TWO_PROCESSES = """
import json, sys, torch, transformers
from nextloc_metrics import next_location_metrics
from nextloc_metrics.integrations.hugging_face import TrainerMetrics

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, scores, labels):
        return {"loss": scores.sum(), "logits": scores * self.scale}

folder, rows = sys.argv[1], json.load(open(sys.argv[2], encoding="utf-8"))
rows = [{name: torch.tensor(value) for name, value in row.items()} for row in rows]
for in_batches in (False, True):
    trainer = transformers.Trainer(
        Model(),
        transformers.TrainingArguments(
            folder, per_device_eval_batch_size=4, batch_eval_metrics=in_batches, report_to=[],
            use_cpu=True, ddp_backend="gloo", disable_tqdm=True,
        ),
        eval_dataset=rows,
        compute_metrics=TrainerMetrics(next_location_metrics(12)),
    )
    values = trainer.evaluate()
    rank = torch.distributed.get_rank()
    with open(f"{folder}/{rank}-{in_batches}.json", "w", encoding="utf-8") as file:
        json.dump(values, file)
torch.distributed.destroy_process_group()
"""


def test_trainer_on_two_processes(transformers: ModuleType, tmp_path: Path) -> None:
    """Both processes have the values of all rows, and those that fill the last batch count once."""
    scores, labels = torch.randn(21, C), torch.randint(C, (21,))
    rows = [
        {"scores": row, "labels": label}
        for row, label in zip(scores.tolist(), labels.tolist(), strict=True)
    ]
    (tmp_path / "rows.json").write_text(json.dumps(rows), encoding="utf-8")
    (tmp_path / "script.py").write_text(TWO_PROCESSES, encoding="utf-8")
    script = [str(tmp_path / name) for name in ("script.py", "", "rows.json")]
    subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--nproc-per-node=2",
            "--standalone",
            *script,
        ],
        capture_output=True,
        check=True,
        timeout=900,
    )
    expected = floats_of(next_location_metrics(C), scores, labels)
    files = sorted(tmp_path.glob("[01]-*.json"))
    assert len(files) == 4
    for file in files:
        assert metrics_of(json.loads(file.read_text(encoding="utf-8")), expected) == expected


def test_trainer_metrics_after_an_error() -> None:
    """A batch that is refused leaves nothing behind for the next evaluation."""
    compute = TrainerMetrics(AccuracyAtK(1))
    wrong = SimpleNamespace(predictions=np.eye(3, dtype=np.float32), label_ids=np.array([1, 2, 0]))
    right = SimpleNamespace(predictions=np.eye(3, dtype=np.float32), label_ids=np.array([0, 1, 2]))
    assert compute(wrong, compute_result=False) == {}
    beyond = SimpleNamespace(predictions=np.eye(3), label_ids=np.array([0, 1, 3]))
    with pytest.raises(ValueError, match="target"):
        compute(beyond, compute_result=False)
    assert compute(right) == {"AccuracyAtK": 1.0}


def test_trainer_metrics_of_several_labels_and_of_lists() -> None:
    """-100 is padding like -1, among ids per query and in lists of ids."""
    logits = np.array([[0.4, 0.3, 0.2], [0.1, 0.2, 0.3]])
    labels = np.array([[1, 2], [2, -100]])
    expected = floats_of(recommendation_metrics(2), logits, [[1, 2], [2]])
    compute = TrainerMetrics(recommendation_metrics(2))
    assert compute(SimpleNamespace(predictions=logits, label_ids=labels)) == expected
    lists = np.array([[0, 1], [2, -100]])
    assert compute(SimpleNamespace(predictions=lists, label_ids=labels)) == expected
    grades = np.array([[0.0, 2.0, 1.0], [0.0, 0.0, 1.0]])
    graded = floats_of(recommendation_metrics(2), logits, grades)
    assert compute(SimpleNamespace(predictions=logits, label_ids=grades)) == graded


def test_trainer_metrics_leave_the_users_metric_alone() -> None:
    """What was passed keeps its own state, and the copy starts from none."""
    metric = updated(AccuracyAtK(1), torch.eye(2), torch.tensor([1, 0]))
    compute = TrainerMetrics(metric)
    batch = SimpleNamespace(predictions=torch.eye(2), label_ids=torch.tensor([0, 1]))
    assert compute(batch) == {"AccuracyAtK": 1.0}
    assert metric.compute() == 0.0
    assert all(not member.sync_on_compute for _, member in compute.metrics.named_members())


def small_models(transformers: ModuleType) -> dict[str, tuple[Any, bool | None]]:
    """Untrained models of few weights, and whether they are causal."""
    size = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    bert = transformers.BertConfig(vocab_size=C, intermediate_size=8, **size)
    gpt = transformers.GPT2Config(vocab_size=C, n_embd=8, n_layer=1, n_head=1)
    gpt.bos_token_id = gpt.eos_token_id = gpt.pad_token_id = 0
    t5 = transformers.T5Config(vocab_size=C, d_model=8, d_kv=8, d_ff=8, num_layers=1, num_heads=1)

    class Own(transformers.GPT2LMHeadModel):  # type: ignore[misc, name-defined]
        """A causal model with something of its own."""

    class Unknown(transformers.BertPreTrainedModel):  # type: ignore[misc, name-defined]
        """A model whose loss nobody knows."""

    return {
        "GPT2LMHeadModel": (transformers.GPT2LMHeadModel(gpt), True),
        "a subclass": (Own(gpt), True),
        "BertForMaskedLM": (transformers.BertForMaskedLM(bert), False),
        "BertForTokenClassification": (transformers.BertForTokenClassification(bert), False),
        "T5ForConditionalGeneration": (transformers.T5ForConditionalGeneration(t5), False),
        "an own model": (Unknown(bert), None),
        "no model of transformers": (Model(), None),
    }


def test_trainer_metrics_know_which_models_are_causal(transformers: ModuleType) -> None:
    """`causal` is that of the model, and one that contradicts it is refused."""
    for name, (model, causal) in small_models(transformers).items():
        assert TrainerMetrics(MRR(), model).causal is causal, name
        for given in (False, True):
            if causal in (None, given):
                assert TrainerMetrics(MRR(), model, causal=given).causal is given, name
                continue
            with pytest.raises(ValueError, match=f"^`causal` must be {causal} for .*, got {given}"):
                TrainerMetrics(MRR(), model, causal=given)


def test_trainer_metrics_ask_of_what_step_a_label_is() -> None:
    """Logits of steps have the same shape where labels are shifted and where they are not."""
    compute = TrainerMetrics(MRR())
    steps = SimpleNamespace(predictions=np.zeros((2, 3, 4)), label_ids=np.zeros((2, 3), dtype=int))
    with pytest.raises(ValueError, match=r"`causal` must be given .*\(2, 3, 4\).*pass .*`model`"):
        compute(steps)
    assert compute(SimpleNamespace(predictions=np.eye(2), label_ids=np.arange(2))) == {"MRR": 1.0}


def test_trainer_metrics_do_not_ask_again_for_a_model_that_was_passed() -> None:
    """A model that does not tell whether it is causal is named, and `causal` alone is asked for."""
    compute = TrainerMetrics(MRR(), torch.nn.Linear(2, 2))
    steps = SimpleNamespace(predictions=np.zeros((2, 3, 4)), label_ids=np.zeros((2, 3), dtype=int))
    with pytest.raises(
        ValueError, match=r"\): a model of class Linear does not tell it, so pass `c"
    ):
        compute(steps)
    for model in ("gpt2", True, SimpleNamespace()):
        with pytest.raises(
            TypeError, match=r"^`model` must be None or the Trainer's model, .* got"
        ):
            TrainerMetrics(MRR(), model)
    with pytest.raises(ValueError, match=r"^`causal` must be None or True or False, got 'no'\."):
        TrainerMetrics(MRR(), causal="no")  # type: ignore[arg-type]


def test_trainer_metrics_of_something_else() -> None:
    """A class or a name is an error when the object is made, not after an epoch."""
    with pytest.raises(TypeError, match=r"^`metrics` must be a RankingCollection or a metric"):
        TrainerMetrics("mrr")  # type: ignore[arg-type]
