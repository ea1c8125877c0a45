"""Local tasks through lm-eval itself: what it makes of the answers, and intervals over items."""

import random
import tomllib
from pathlib import Path

import numpy as np
import pytest
from lm_eval.api.registry import get_model, model_registry

from lexergy.core.conditions import Conditions
from lexergy.errors import LexergyError
from lexergy.tasks.harness.evaluation import MODELS, evaluate, paired_estimates
from lexergy.tasks.harness.joint_lm import JointLM
from lexergy.tasks.harness.run_lm import HarnessSettings
from lexergy.tasks.harness.task_list import check_joint_can, load_tasks
from lexergy.tasks.harness.treatment import Kind
from toys.harness import CHOICE, exact, metrics, word_joint, words, write_task

GREEDY = {"until": ["."], "do_sample": False, "max_gen_toks": 3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Items of two choices, the first of which is right."""
    folder, generator = tmp_path_factory.mktemp("tasks"), random.Random(0)
    pairs = [[[generator.randrange(7) for _ in range(2)] for _ in range(2)] for _ in range(14)]
    items = [
        {"context": "people of", "choices": [words(choice) for choice in pair], "gold": 0, "text": words(pair[0] * 2)}
        for pair in pairs
    ]
    write_task(folder, "pairs", items, **CHOICE, metric_list=metrics("acc"))
    write_task(folder, "norm", items, **CHOICE, metric_list=metrics("acc", "acc_norm"))
    write_task(folder, "greedy", items, **CHOICE, metric_list=metrics("exact_match"))
    write_task(folder, "rolling", items, output_type="loglikelihood_rolling", doc_to_text="", doc_to_target="{{text}}")
    texts = {"output_type": "generate_until", "doc_to_text": "{{context}}", "doc_to_target": "{{text}}"}
    write_task(folder, "texts", items, **texts, generation_kwargs=GREEDY, metric_list=metrics("exact_match"))
    return folder, pairs


def evaluated(folder, name, **settings):
    loaded = load_tasks([name], folder)
    how = HarnessSettings(num_samples=30, num_candidates=8, compared=loaded.compared)
    joint = word_joint(Conditions(prefix=3, continuation=2))
    joint.lm.tokenizer.eos_token = "we"
    return evaluate({name: kind(joint, how) for name, kind in MODELS.items()}, loaded, **settings), joint


def test_accuracy_is_that_of_the_exact_joint_model(folder):
    (result, joint), pairs = evaluated(folder[0], "pairs"), folder[1]
    truth = [exact(joint, (2, 3), pair[0]) >= exact(joint, (2, 3), pair[1]) for pair in pairs]
    (accuracy,) = result.metrics
    assert (accuracy.task, accuracy.metric, accuracy.num_items) == ("pairs", "acc", 14)
    assert accuracy.joint.value == pytest.approx(np.mean(truth))
    assert 0 < accuracy.joint.value < 1
    assert accuracy.difference.value == pytest.approx(accuracy.joint.value - accuracy.base.value)
    assert accuracy.difference.low < accuracy.difference.value < accuracy.difference.high
    assert [treatment.kind for treatment in result.treatments] == [Kind.CANCELS]


def test_a_metric_that_divides_by_lengths_needs_log_z(folder):
    result, _ = evaluated(folder[0], "norm", limit=4)
    assert [treatment.kind for treatment in result.treatments] == [Kind.ESTIMATED]
    assert {row.metric: row.num_items for row in result.metrics} == {"acc": 4, "acc_norm": 4}


def test_perplexities_of_texts_are_those_of_the_bound(folder):
    result, _ = evaluated(folder[0], "rolling", limit=3)
    by_name = {row.metric: row for row in result.metrics}
    assert set(by_name) == {"word_perplexity", "byte_perplexity", "bits_per_byte"}
    assert by_name["word_perplexity"].higher_is_better is False
    assert by_name["word_perplexity"].base.value != by_name["word_perplexity"].joint.value
    assert result.treatments[0].kind is Kind.BOUND


def test_texts_are_written_by_both(folder):
    asked = {"do_sample": True, "temperature": 1.0}
    result, _ = evaluated(folder[0], "texts", limit=2, generation_kwargs=asked)
    assert result.treatments[0].kind is Kind.RESAMPLED


def test_what_the_joint_model_cannot_compute_is_refused_before_anything_is_read(folder):
    with pytest.raises(LexergyError, match="exact_match of task greedy asks whether greedy"):
        check_joint_can(load_tasks(["greedy"], folder[0]).tasks, {})
    tasks = load_tasks(["texts"], folder[0]).tasks
    with pytest.raises(LexergyError, match="texts: the task asks for greedy decoding"):
        check_joint_can(tasks, {})
    check_joint_can(tasks, {"do_sample": True, "temperature": 1})
    check_joint_can(load_tasks(["norm"], folder[0]).tasks, {})


def test_a_file_is_a_task_and_missing_data_are_told(folder, tmp_path):
    assert load_tasks([str(folder[0] / "pairs.yaml")]).compared == {"pairs"}
    path = write_task(tmp_path, "lost", [{}], **CHOICE, metric_list=metrics("acc"))
    (tmp_path / "lost.jsonl").unlink()
    with pytest.raises(LexergyError, match="could not be loaded"):
        load_tasks([str(path)])
    with pytest.raises(LexergyError, match="expected a folder"):
        load_tasks(["pairs"], tmp_path / "nowhere")


def test_differences_are_paired_by_item():
    """Two models that are right on the same items, but for one: far surer than two independent shares."""
    base = [0.0, 1.0] * 50
    estimates = paired_estimates({"base": base, "joint": [1.0, *base[1:]]}, lambda items: float(np.mean(items)))
    assert estimates["difference"].value == pytest.approx(0.01)
    assert 0 <= estimates["difference"].low < 0.01 < estimates["difference"].high < 0.05
    assert estimates["base"].high - estimates["base"].low == pytest.approx(2 * 1.96 * 0.05, rel=0.15)
    alike = paired_estimates({"base": [1.0] * 6, "joint": [1.0] * 6}, lambda items: float(np.mean(items)))
    assert alike["joint"].low == pytest.approx(0.025 ** (1 / 6))
    assert alike["difference"] == pytest.approx((0, 0.025 ** (1 / 6) - 1, 1 - 0.025 ** (1 / 6)))


def test_plug_ins_find_the_models_by_entry_point(tiny_run):
    """As a release of lm-eval does that knows entry points: name and target, loaded when asked for."""
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    targets = project["entry-points"]["lm_eval.models"]
    assert {*targets} == {"lexergy", "lexergy-base"}
    for name, target in targets.items():
        model_registry.register(name, target=target)
    model = get_model("lexergy").create_from_arg_string(f"run={tiny_run},samples=40,log_z=cancel", {"batch_size": 1})
    assert isinstance(model, JointLM)
    assert (model.settings.num_samples, model.settings.compared) == (40, None)
    assert get_model("lexergy-base") is MODELS["base"]
    for arguments in ("energy=first", f"run={tiny_run},log_z=maybe"):
        with pytest.raises(LexergyError, match="expected `run=FOLDER`"):
            get_model("lexergy").create_from_arg_string(arguments)
    with pytest.raises(LexergyError, match="CUDA_VISIBLE_DEVICES"):
        get_model("lexergy").create_from_arg_string(f"run={tiny_run}", {"device": "cuda:1"})
