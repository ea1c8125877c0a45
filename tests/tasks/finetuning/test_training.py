import json

import pytest
import torch

from lexergy.data.labelled import Fields, LabelledText, load_labelled, load_questions
from lexergy.errors import LexergyError
from lexergy.models.energies.backbones import encoder_backbone
from lexergy.models.finetuned import Finetuned, FinetunedConfig, FinetunedEncoder
from lexergy.models.finetuned.rows import RowWriter
from lexergy.recipes.finetuning import FinetuningRecipe
from lexergy.recipes.sections.training import TrainingRecipe
from lexergy.tasks.finetuning.examples import FinetuneData, hold_out
from lexergy.tasks.finetuning.metrics import answer_metrics, label_metrics, number_metrics
from lexergy.tasks.finetuning.training import finetune, load_finetuned, span_rows
from lexergy.training.loop import train
from lexergy.training.objectives.finetuning import Finetuning, LabelledRows, layer_rate_factors

SETTINGS = {"epochs": 16, "learning_rate": 1e-2, "batch_size": 16, "num_seeds": 1, "layer_decay": 0.9}


def model_of(folder) -> FinetunedEncoder:
    config = FinetunedConfig(label_names=["a", "b"], max_length=24)
    return FinetunedEncoder.from_backbone(encoder_backbone(folder), config, seed=0)


@pytest.mark.parametrize(("kind", "layers"), [("electric", "layers"), ("electric-bert", "encoder.layer")])
def test_layer_l_of_L_learns_at_d_to_the_L_minus_l(pretrained_encoders, kind, layers):
    model = model_of(pretrained_encoders / kind)
    assert set(layer_rate_factors(model, 1.0).values()) == {1.0}
    factors = layer_rate_factors(model, 0.5)
    for name, _ in model.encoder.named_parameters():
        if name.startswith(f"{layers}."):
            expected = 0.5 ** (1 - int(name.removeprefix(f"{layers}.").split(".")[0]))
        else:
            expected = 0.25 if "embed" in name else 1.0
        assert factors[f"encoder.{name}"] == expected, name
    assert sorted(set(factors.values()))[:2] == [0.25, 0.5]
    assert not any(name.startswith("head") for name in factors)


def test_adam_s_first_step_is_as_long_as_the_layer_s_rate(pretrained_encoders, tmp_path):
    """Its size is the learning rate itself, whatever the gradient."""
    model = model_of(pretrained_encoders / "electric")
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    writer = Finetuned(model, encoder_backbone(pretrained_encoders / "electric").tokenizer).writer
    rows = LabelledRows([writer.row("red"), writer.row("the blue nation")], torch.tensor([0, 1]))
    config = TrainingRecipe(
        learning_rate=1e-3, max_steps=1, batch_size=2, schedule="constant", adam_epsilon=1e-12, evaluate_every=10
    )

    class Unevaluated(Finetuning):
        def evaluate(self, model):
            return {}

    factors = layer_rate_factors(model, 0.5)
    train(model, Unevaluated(rows, rows, writer), config, tmp_path, progress=False, rate_factors=factors)
    moved = {name: float((value.detach() - before[name]).abs().max()) for name, value in model.named_parameters()}
    assert moved["head.output.weight"] == pytest.approx(1e-3, rel=1e-2)
    assert moved["encoder.layers.1.mlp.down_proj.weight"] == pytest.approx(1e-3, rel=1e-2)
    assert moved["encoder.layers.0.mlp.down_proj.weight"] == pytest.approx(0.5e-3, rel=1e-2)
    assert moved["encoder.embed_tokens.weight"] == pytest.approx(0.25e-3, rel=1e-2)


@pytest.mark.parametrize(
    ("task", "fields", "metric", "least"),
    [
        ("classification", Fields(), "accuracy", 0.9),
        ("regression", Fields(label="year"), "pearson", 0.8),
        ("span", None, "exact_match", 0.8),
    ],
    ids=["classification", "regression", "span"],
)
def test_a_tiny_model_learns_what_can_be_learnt(
    pretrained_encoders, labelled_files, tmp_path, task, fields, metric, least
):
    parts = [
        load_questions(str(labelled_files / name))
        if fields is None
        else load_labelled(str(labelled_files / name), fields)
        for name in ("train.jsonl", "test.jsonl")
    ]
    settings = FinetuningRecipe(encoder=str(pretrained_encoders / "electric"), task=task, **SETTINGS)
    report = finetune(FinetuneData(parts[0], parts[1]), settings, tmp_path, progress=False)
    assert report.metrics[metric].median >= least
    assert report.judged_on == "validation"
    if task == "regression":
        assert report.metrics["rmse"].median < 60  # of 1800 and 2000: the answer is on the labels' scale
    again = finetune(FinetuneData(parts[0], parts[1]), settings, tmp_path, progress=False)
    assert again == report  # nothing is trained twice
    assert load_finetuned(tmp_path).task == task


def test_windows_without_the_answer_have_the_first_token_as_target(pretrained_encoders, labelled_files):
    questions = load_questions(str(labelled_files / "train.jsonl"))[:8]
    data = span_rows(questions, RowWriter(encoder_backbone(pretrained_encoders / "electric").tokenizer, 9, 2))
    assert len(data.rows) > len(questions)
    for row, (first, last) in zip(data.rows, data.targets.tolist(), strict=True):
        assert (first == 0) == (last == 0)
        assert first == 0 or row.context_start <= first <= last < row.context_start + len(row.characters)
    assert 0 < int((data.targets[:, 0] == 0).sum()) < len(data.rows)


def test_labels_are_checked_before_anything_is_trained(pretrained_encoders, tmp_path):
    def texts(*labels):
        return [LabelledText(f"file:{n}", f"text {n}", None, label) for n, label in enumerate(labels)]

    settings = FinetuningRecipe(encoder=str(pretrained_encoders / "electric"), task="classification", **SETTINGS)
    with pytest.raises(LexergyError, match="at least two different labels"):
        finetune(FinetuneData(texts("a", "a"), texts("a")), settings, tmp_path, progress=False)
    with pytest.raises(LexergyError, match="file:1: the label 'c' is not among"):
        finetune(FinetuneData(texts("a", "b"), texts("a", "c")), settings, tmp_path, progress=False)
    regression = FinetuningRecipe(encoder=str(pretrained_encoders / "electric"), task="regression", **SETTINGS)
    with pytest.raises(LexergyError, match="file:1: the label is 'much'; expected a number"):
        finetune(FinetuneData(texts("1", "2"), texts("1", "much")), regression, tmp_path, progress=False)


def test_equal_texts_are_held_out_together():
    examples = [LabelledText(str(n), f"text {n % 10}", None, "a") for n in range(40)]
    kept, held = hold_out(examples, 0.2, seed=0)
    assert len(held) == 8
    assert not {example.text for example in kept} & {example.text for example in held}
    assert hold_out(examples, 0.2, seed=0) == (kept, held)


def test_metrics_by_hand():
    found = label_metrics(["a", "a", "b", "b"], ["a", "b", "b", "b"])
    assert found == pytest.approx({"accuracy": 3 / 4, "f1": (2 / 3 + 4 / 5) / 2, "matthews": 1 / 3**0.5})
    assert number_metrics([1, 2, 4], [10, 20, 30])["spearman"] == pytest.approx(1)
    assert number_metrics([1, 2, 4], [1, 2, 1])["rmse"] == pytest.approx(3**0.5)
    assert number_metrics([5, 5], [1, 2])["pearson"] == 0
    answers = answer_metrics(["The red house!", "blue", "", "x"], [["red house"], ["a blue sky", "green"], [], []])
    assert answers == pytest.approx({"exact_match": 2 / 4, "f1": (1 + 2 / 3 + 1 + 0) / 4})


def test_a_changed_file_is_trained_again(pretrained_encoders, labelled_files, tmp_path):
    texts = load_labelled(str(labelled_files / "train.jsonl"), Fields())[:8]
    settings = FinetuningRecipe(
        encoder=str(pretrained_encoders / "electric"), task="classification", num_seeds=2, epochs=1
    )
    finetune(FinetuneData(texts[:6], texts), settings, tmp_path, progress=False)
    first = json.loads((tmp_path / "seed-0" / "stage.json").read_text())
    finetune(FinetuneData(texts[:7], texts), settings, tmp_path, progress=False)
    assert json.loads((tmp_path / "seed-0" / "stage.json").read_text())["key"] != first["key"]
    seeds = [json.loads((tmp_path / f"seed-{n}" / "stage.json").read_text())["seed"] for n in (0, 1)]
    assert seeds[0] != seeds[1]
