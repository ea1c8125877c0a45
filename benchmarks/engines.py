"""Engines that continue one prompt n times, each as its documentation says is fastest; all read the prompt once.

`transformers generate`, which has no such way, reads it n times; `transformers, cache repeated` is what its guide to
caches makes of it.
"""

import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, get_args

import gguf
import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache

from lexergy import CausalLM
from lexergy.models.causal.runtimes.openvino_steps import computes_in
from lexergy.models.causal.state_features import StateFeatures
from lexergy.models.loading.sources import CAUSAL_LMS, packaged_paths, resolve_causal_lm
from lexergy.recipes.sections.runtime import Precision, Runtime

MODEL, NEW = "smollm2-135m", 40
STATES = StateFeatures(layers=(15, 30), statistics="moments")  # what a linear head reads
Sampler = Callable[[int, int | None], Tensor]  # number of samples, top-k (None: the whole distribution) -> (n, NEW)


class Engine(NamedTuple):
    precision: str
    package: str
    build: Callable[[CausalLM, Tensor], Sampler]


def lexergy_sampler(
    lm: CausalLM,
    prefix: Tensor,
    runtime: Runtime = "auto",
    precision: Precision = "float32",
    features: StateFeatures | None = None,
) -> Sampler:
    lm = CausalLM(lm.model, lm.tokenizer, runtime=runtime, precision=precision)
    for n in (2, 128):  # what is compiled for few rows, and for many
        lm.sample(prefix, num_samples=n, max_new_tokens=2)

    def sample(n: int, top_k: int | None) -> Tensor:
        lm.forget_prefix()  # each call pays for its own prefill
        return lm.sample(prefix, num_samples=n, max_new_tokens=NEW, top_k=top_k, features=features).tokens[0]

    return sample


def transformers_sampler(lm: CausalLM, prefix: Tensor) -> Sampler:
    @torch.inference_mode()
    def sample(n: int, top_k: int | None) -> Tensor:
        options = _generate_options(top_k)
        mask = torch.ones_like(prefix)
        rows = lm.model.generate(prefix, attention_mask=mask, num_return_sequences=n, **options)
        return rows[:, prefix.shape[1] :]

    return sample


def repeated_cache_sampler(lm: CausalLM, prefix: Tensor) -> Sampler:
    @torch.inference_mode()
    def sample(n: int, top_k: int | None) -> Tensor:
        cache = DynamicCache(config=lm.model.config)
        lm.model(prefix[:, :-1], past_key_values=cache, logits_to_keep=1)  # `generate` reads the last token itself
        cache.batch_repeat_interleave(n)
        rows = prefix.expand(n, -1)
        options = _generate_options(top_k)
        rows = lm.model.generate(rows, attention_mask=torch.ones_like(rows), past_key_values=cache, **options)
        return rows[:, prefix.shape[1] :]

    return sample


def _generate_options(top_k: int | None) -> dict[str, object]:
    lengths = {"max_new_tokens": NEW, "min_new_tokens": NEW, "pad_token_id": 0}
    return {**lengths, "do_sample": True, "temperature": 1.0, "top_p": 1.0, "top_k": top_k or 0}  # its default is 50


def ctranslate2_sampler(lm: CausalLM, prefix: Tensor, compute_type: str) -> Sampler:
    import ctranslate2

    folder = Path(tempfile.gettempdir()) / f"lexergy-ctranslate2-{MODEL}"
    if not folder.is_dir():
        ctranslate2.converters.TransformersConverter(str(resolve_causal_lm(MODEL).folder)).convert(str(folder))
    generator = ctranslate2.Generator(str(folder), compute_type=compute_type, intra_threads=torch.get_num_threads())
    tokens = lm.need_tokenizer().convert_ids_to_tokens(prefix[0].tolist())

    def sample(n: int, top_k: int | None) -> Tensor:
        (result,) = generator.generate_batch(
            [tokens],
            num_hypotheses=n,
            beam_size=1,
            max_length=NEW,
            min_length=NEW,
            sampling_topk=top_k or 0,
            include_prompt_in_result=False,
        )
        return torch.tensor(result.sequences_ids)

    return sample


def openvino_sampler(lm: CausalLM, prefix: Tensor, path: Path, precision: str | None = None) -> Sampler:
    """`precision` None: its own choice, which is bfloat16 where the processor has it."""
    import openvino
    import openvino_genai

    scheduler = openvino_genai.SchedulerConfig()
    scheduler.cache_size = 4  # GiB; left out, it grows while the samples are written
    scheduler.max_num_batched_tokens = scheduler.max_num_seqs = (
        4096  # 256 each otherwise: more samples would be dropped
    )
    threads = torch.get_num_threads()
    settings = {} if precision is None else {"INFERENCE_PRECISION_HINT": precision}
    pipeline = openvino_genai.LLMPipeline(
        str(path), "CPU", scheduler_config=scheduler, INFERENCE_NUM_THREADS=threads, **settings
    )

    def sample(n: int, top_k: int | None) -> Tensor:
        config = openvino_genai.GenerationConfig(
            max_new_tokens=NEW, ignore_eos=True, do_sample=True, num_return_sequences=n, apply_chat_template=False
        )
        if top_k is not None:
            config.top_k = top_k
        return torch.tensor(pipeline.generate(openvino.Tensor(prefix.numpy()), config).tokens)

    return sample


def packaged_gguf() -> Path:
    return packaged_paths(CAUSAL_LMS[MODEL])[0]


def float16_gguf() -> Path:
    """The packaged file with its 4-bit tensors written out as float16.

    OpenVINO rounds the offsets of Q4_1 to whole steps as it reads them: another model.
    """
    path = Path(tempfile.gettempdir()) / f"lexergy-{MODEL}-float16.gguf"
    if not path.exists():
        reader = gguf.GGUFReader(packaged_gguf())
        writer = gguf.GGUFWriter(path, reader.fields["general.architecture"].contents())
        for field in reader.fields.values():
            if not field.name.startswith("GGUF.") and field.name not in ("general.architecture", "general.file_type"):
                writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=field.types[-1])
        writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
        for tensor in reader.tensors:
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            exact = tensor.tensor_type == gguf.GGMLQuantizationType.F32
            writer.add_tensor(tensor.name, values if exact else values.astype(np.float16))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return path


def lexergy_in(precision: Precision) -> dict[str, Engine]:
    """Lexergy in another precision, without and with states."""

    def engine(says: str, features: StateFeatures | None) -> Engine:
        return Engine(
            f"{precision}{says}",
            "lexergy",
            lambda lm, prefix: lexergy_sampler(lm, prefix, precision=precision, features=features),
        )

    states = engine(", states and statistics handed on", STATES)
    return {f"Lexergy {precision}": engine("", None), f"Lexergy {precision}, states": states}


ENGINES = {
    "Lexergy": Engine("float32; the file's numbers with few rows", "lexergy", lexergy_sampler),
    "Lexergy on torch": Engine("float32", "lexergy", lambda lm, prefix: lexergy_sampler(lm, prefix, "torch")),
    "Lexergy, states": Engine(
        "float32, states and statistics handed on",
        "lexergy",
        lambda lm, prefix: lexergy_sampler(lm, prefix, features=STATES),
    ),
    **lexergy_in("bfloat16"),
    **lexergy_in("int8"),
    "transformers generate": Engine("float32", "transformers", transformers_sampler),
    "transformers, cache repeated": Engine("float32", "transformers", repeated_cache_sampler),
    "CTranslate2 float32": Engine(
        "float32", "ctranslate2", lambda lm, prefix: ctranslate2_sampler(lm, prefix, "float32")
    ),
    "CTranslate2 int8": Engine(
        "int8 weights and products", "ctranslate2", lambda lm, prefix: ctranslate2_sampler(lm, prefix, "int8")
    ),
    "OpenVINO float32": Engine(
        "float16 weights, float32 products, 8-bit cache",
        "openvino_genai",
        lambda lm, prefix: openvino_sampler(lm, prefix, float16_gguf(), "f32"),
    ),
    "OpenVINO float16": Engine(
        "float16 weights, bfloat16 products where the processor has them, 8-bit cache",
        "openvino_genai",
        lambda lm, prefix: openvino_sampler(lm, prefix, float16_gguf()),
    ),
    "OpenVINO 4-bit": Engine(
        "4-bit weights, offsets rounded; 8-bit cache",
        "openvino_genai",
        lambda lm, prefix: openvino_sampler(lm, prefix, packaged_gguf()),
    ),
}


def installed() -> list[str]:
    """Those whose package is here and whose precision the processor has."""
    lacking = [f"Lexergy {precision}" for precision in get_args(Precision) if not computes_in(precision)]
    found = [name for name, engine in ENGINES.items() if importlib.util.find_spec(engine.package)]
    return [name for name in found if not name.startswith(tuple(lacking))]
