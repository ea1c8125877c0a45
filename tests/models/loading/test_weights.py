"""All of a model's weights or an error; and no code that lies beside them."""

import io
import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM
from lexergy.models.energies import LinearEnergy
from lexergy.models.energies.backbones import encoder_backbone, masked_backbone
from lexergy.models.energies.tokens import LinearEnergyConfig
from lexergy.models.loading.tokenizer import load_tokenizer
from lexergy.models.loading.weights import load_config, untrained_causal_lm
from lexergy.models.scoring.kinds import load_scorer
from lexergy.testing import save_tiny_encoder

WORDS = ["warm", "cold", "red", "blue"]


def change_config(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


def change_weights(folder, change):
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.fixture
def causal(word_lm_folder, tmp_path):
    return shutil.copytree(word_lm_folder, tmp_path / "causal")


@pytest.fixture
def masked(byte_masked_lm_folder, tmp_path):
    return shutil.copytree(byte_masked_lm_folder, tmp_path / "masked")


@pytest.fixture
def encoder(tmp_path):
    save_tiny_encoder(tmp_path / "encoder", WORDS, num_layers=2)
    return tmp_path / "encoder"


LOADERS = {"causal": CausalLM.from_pretrained, "masked": masked_backbone, "encoder": encoder_backbone}


def drop_a_layer_weight(weights):
    del weights[next(name for name in weights if ".1." in name)]


def add_a_layer(weights):
    weights |= {name.replace(".1.", ".2."): weight.clone() for name, weight in weights.items() if ".1." in name}


def reshape(weights):
    name = next(name for name in weights if ".1." in name)
    weights[name] = weights[name][..., :4].contiguous()


def spoil(value):
    def change(weights):
        weights[next(name for name in weights if ".1." in name)].view(-1)[3] = value

    return change


@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (drop_a_layer_weight, r"do not fit its config.json: \S+\.1\.\S+ is missing"),
        (add_a_layer, r"do not fit its config.json: \S+\.2\.\S+ is not of this model, and \d+ more"),
        (reshape, r"do not fit its config.json: \S+\.1\.\S+ has another shape"),
        (spoil(torch.nan), r"\.1\.\S+ holds NaN or infinity"),
        (spoil(-torch.inf), r"\.1\.\S+ holds NaN or infinity"),
    ],
    ids=["missing", "unexpected", "another-shape", "nan", "infinity"],
)
def test_weights_that_do_not_fit_are_refused(kind, change, message, request):
    folder = request.getfixturevalue(kind)
    LOADERS[kind](folder)
    change_weights(folder, change)
    with pytest.raises(LexergyError, match=message):
        LOADERS[kind](folder)


@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden_layers": 3}, "is missing"),
        ({"num_hidden_layers": 1000}, "`num_hidden_layers` is 1000; expected at most"),
        ({"num_hidden_layers": 10**12}, r"`num_hidden_layers` is 10+; expected at most"),
        ({"hidden_size": 10**9}, r"`hidden_size` is 10+; expected a width that some tensor has"),
        ({"vocab_size": 10**9}, r"`vocab_size` is 10+; expected a width that some tensor has"),
        ({"num_attention_heads": 0}, "cannot be read"),
        ({"hidden_act": 3}, "cannot be read"),
        ({"model_type": "gpt_neox"}, "do not fit|cannot be read"),
        ({"model_type": "roberta"}, "do not fit|cannot be read|was saved as a BertModel"),
        ({"model_type": "nonsense"}, "cannot be read"),
        ({"model_type": 7}, "cannot be read"),
    ],
    ids=lambda value: "-".join(map(str, *value.items())) if isinstance(value, dict) else "",
)
def test_configurations_that_do_not_fit_are_refused(kind, changes, message, request):
    folder = request.getfixturevalue(kind)
    change_config(folder, **changes)
    with pytest.raises(LexergyError, match=message):
        LOADERS[kind](folder)


def test_a_head_may_lie_beside_an_encoder(masked, encoder):
    assert load_file(masked / "model.safetensors").keys() != load_file(encoder / "model.safetensors").keys()
    shutil.copy(encoder / "tokenizer.json", masked)
    shutil.copy(encoder / "tokenizer_config.json", masked)
    body = encoder_backbone(masked).model
    whole = masked_backbone(masked).model
    assert all(torch.equal(body.state_dict()[name], weight) for name, weight in whole.state_dict().items())


def test_energies_of_nan_are_refused(tmp_path):
    energy = LinearEnergy(LinearEnergyConfig(vocab_size=7))
    energy.weights.weight.data[3] = torch.nan
    energy.save_pretrained(tmp_path)
    with pytest.raises(LexergyError, match=r"weights\.weight holds NaN or infinity"):
        LinearEnergy.from_pretrained(tmp_path)


def test_adapters_that_name_another_model_are_refused(causal):
    (causal / "adapter_config.json").write_text('{"base_model_name_or_path": "someone/else"}')
    with pytest.raises(LexergyError, match="holds adapters of peft"):
        CausalLM.from_pretrained(causal)


@pytest.mark.parametrize("model_type", ["llama", "of_its_own"])
def test_code_beside_a_model_is_never_run(model_type, causal, tmp_path, monkeypatch):
    """transformers asks on stdin whether to run it, and here somebody says yes to everything."""
    evil = tmp_path / "evil"
    classes = {name: f"code.{name}" for name in ("AutoConfig", "AutoModel", "AutoModelForCausalLM")}
    change_config(causal, model_type=model_type, auto_map=classes)
    settings = json.loads((causal / "tokenizer_config.json").read_text())
    tokenizer = {"tokenizer_class": "Evil", "auto_map": {"AutoTokenizer": ["code.AutoConfig", "code.AutoConfig"]}}
    (causal / "tokenizer_config.json").write_text(json.dumps(settings | tokenizer))
    (causal / "code.py").write_text(f"open({str(evil)!r}, 'w').close()\nclass AutoConfig: pass\n")
    (causal / "custom_generate").mkdir()
    shutil.copy(causal / "code.py", causal / "custom_generate" / "generate.py")

    asked = io.StringIO("y\n" * 20)
    monkeypatch.setattr("sys.stdin", asked)
    for load in (CausalLM.from_pretrained, encoder_backbone, load_config, load_tokenizer, load_scorer):
        try:
            load(causal)
        except LexergyError:
            continue
    try:
        untrained_causal_lm(str(causal))
    except LexergyError:
        assert model_type == "of_its_own"
    assert asked.tell() == 0  # nobody was asked
    assert not evil.exists()


def test_loading_a_model_shows_no_bar(causal, capsys):
    CausalLM.from_pretrained(causal)
    assert capsys.readouterr().err == ""
