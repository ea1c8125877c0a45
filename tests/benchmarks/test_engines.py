"""The engines that sampling is timed against read the prompt once, and return what they are asked for."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from toys.language_models import random_tokens

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PREFIX, NEW, SAMPLES = 30, 2, 3


@pytest.fixture
def engines(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import engines

    monkeypatch.setattr(engines, "NEW", NEW)
    return engines


@pytest.mark.parametrize(
    ("name", "prompts"), [("Lexergy", 1), ("transformers, cache repeated", 1), ("transformers generate", SAMPLES)]
)
def test_how_often_the_model_is_fed_the_prompt(engines, byte_lm, name, prompts):
    prefix = random_tokens(1, PREFIX)
    sample = engines.ENGINES[name].build(byte_lm, prefix)
    sample(1, None)  # Lexergy tries once whether it can share
    fed: list[int] = []
    hook = byte_lm.model.base_model.register_forward_pre_hook(
        lambda module, arguments, named: fed.append((arguments or (named["input_ids"],))[0].numel()), with_kwargs=True
    )
    samples = sample(SAMPLES, None)
    hook.remove()
    assert samples.shape == (SAMPLES, NEW)
    # The prompt's last token may be read with the samples, whose own last one is not.
    assert prompts * (PREFIX - 1) <= sum(fed) <= prompts * (PREFIX - 1) + SAMPLES * NEW


def test_ctranslate2_is_given_one_prompt(engines, byte_lm, monkeypatch, tmp_path):
    asked: list[tuple[list[list[str]], dict[str, object]]] = []

    class Generator:
        def __init__(self, folder: str, **settings: object) -> None: ...

        def generate_batch(self, prompts: list[list[str]], **settings: int) -> list[SimpleNamespace]:
            asked.append((prompts, settings))
            hypotheses = settings.get("num_hypotheses", 1)
            return [SimpleNamespace(sequences_ids=[[1] * settings["max_length"]] * hypotheses) for _ in prompts]

    converter = SimpleNamespace(convert=lambda folder: None)
    converters = SimpleNamespace(TransformersConverter=lambda folder: converter)
    monkeypatch.setitem(sys.modules, "ctranslate2", SimpleNamespace(Generator=Generator, converters=converters))
    monkeypatch.setattr(engines, "resolve_causal_lm", lambda name: SimpleNamespace(folder=tmp_path))
    sample = engines.ENGINES["CTranslate2 int8"].build(byte_lm, random_tokens(1, PREFIX))
    assert sample(SAMPLES, None).shape == (SAMPLES, NEW)
    (prompts, settings), *more = asked
    assert not more
    assert [len(prompt) for prompt in prompts] == [PREFIX]
    assert settings["sampling_topk"] == 0  # the whole distribution; its default is the best token


def test_openvino_is_given_one_prompt(engines, byte_lm, monkeypatch, tmp_path):
    asked: list[tuple[torch.Tensor, SimpleNamespace]] = []

    class Pipeline:
        def __init__(self, path: str, device: str, **settings: object) -> None: ...

        def generate(self, prompts: object, config: SimpleNamespace) -> SimpleNamespace:
            asked.append((torch.as_tensor(prompts), config))
            return SimpleNamespace(tokens=[[1] * config.max_new_tokens] * len(prompts) * config.num_return_sequences)

    library = SimpleNamespace(
        LLMPipeline=Pipeline, SchedulerConfig=SimpleNamespace, GenerationConfig=lambda **given: SimpleNamespace(**given)
    )
    monkeypatch.setitem(sys.modules, "openvino_genai", library)
    monkeypatch.setitem(sys.modules, "openvino", SimpleNamespace(Tensor=lambda array: array))
    monkeypatch.setattr(engines, "packaged_gguf", lambda: tmp_path / "model.gguf")
    prefix = random_tokens(1, PREFIX)
    sample = engines.ENGINES["OpenVINO 4-bit"].build(byte_lm, prefix)
    assert sample(SAMPLES, None).shape == (SAMPLES, NEW)
    (prompts, config), *more = asked
    assert not more
    assert torch.equal(prompts, prefix)
    assert config.ignore_eos
    assert not config.apply_chat_template
    assert not hasattr(config, "top_k")


def test_work_tells_the_distribution_from_a_truncated_one(engines, byte_lm):
    import equal_work

    prefix = random_tokens(1, PREFIX)
    sample = engines.ENGINES["Lexergy"].build(byte_lm, prefix)
    whole, cut = (equal_work.work_of(byte_lm, prefix, sample(256, top_k), 10) for top_k in (None, 10))
    assert abs(whole.excess) < 4 * whole.standard_error
    assert abs(cut.excess) > 4 * cut.standard_error
    assert whole.outside > 0.5
    assert cut.outside == 0
