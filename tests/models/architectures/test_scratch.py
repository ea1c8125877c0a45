from functools import partial

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

from lexergy.errors import LexergyError
from lexergy.models.architectures.scratch import build_causal_lm, build_masked_lm

SHAPE = {"vocab_size": 13, "hidden_size": 16, "num_layers": 2, "num_heads": 4, "max_length": 12}
OPT = partial(build_causal_lm, architecture="opt", embedding_size=12, feed_forward_size=20)
ROBERTA = partial(build_masked_lm, architecture="roberta", pad_token=11, feed_forward_size=20)
BUILDERS = [
    pytest.param(build_causal_lm, AutoModelForCausalLM, id="llama"),
    pytest.param(OPT, AutoModelForCausalLM, id="opt"),
    pytest.param(build_masked_lm, AutoModelForMaskedLM, id="eurobert"),
    pytest.param(ROBERTA, AutoModelForMaskedLM, id="roberta"),
]


def tokens():
    return torch.arange(10)[None] % 13


@pytest.mark.parametrize(("build", "auto"), BUILDERS)
def test_weights_depend_on_the_seed_alone(build, auto):
    before = torch.get_rng_state()
    first, again, other = (build(**SHAPE, seed=seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first if first[name].dim() == 2)


@pytest.mark.parametrize(("build", "auto"), BUILDERS)
def test_saved_and_loaded_it_is_the_same(build, auto, tmp_path):
    model = build(**SHAPE, seed=0).eval()
    model.save_pretrained(tmp_path)
    loaded = auto.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        assert torch.equal(model(input_ids=tokens()).logits, loaded(input_ids=tokens()).logits)
    assert loaded.get_output_embeddings().weight is loaded.get_input_embeddings().weight
    assert [path.name for path in tmp_path.glob("*.safetensors")] == ["model.safetensors"]


@pytest.mark.parametrize(
    ("build", "reads_ahead"),
    [(build_causal_lm, False), (OPT, False), (build_masked_lm, True), (ROBERTA, True)],
    ids=["llama", "opt", "eurobert", "roberta"],
)
def test_only_the_masked_lm_reads_ahead(build, reads_ahead):
    model = build(**SHAPE, seed=0).eval()
    changed = tokens()
    changed[0, -1] = 12
    with torch.no_grad():
        difference = (model(input_ids=tokens()).logits - model(input_ids=changed).logits)[0, :-1]
    assert bool(difference.abs().amax(dim=-1).gt(1e-6).all()) == reads_ahead
    assert bool(difference.abs().amax(dim=-1).lt(1e-6).all()) != reads_ahead


def test_the_causal_and_the_masked_llama_have_the_same_size():
    causal, bidirectional = build_causal_lm(**SHAPE, seed=0), build_masked_lm(**SHAPE, seed=0)
    assert causal.num_parameters() == bidirectional.num_parameters()


@pytest.mark.parametrize("build", [build_causal_lm, OPT, build_masked_lm])
def test_every_token_has_its_embedding_trained(build):
    model = build(**SHAPE | {"max_length": 13}, seed=0)
    model(input_ids=torch.arange(13)[None]).logits.square().sum().backward()
    assert model.get_input_embeddings().weight.grad.abs().sum(dim=1).gt(0).all()


def test_embeddings_and_feed_forward_have_the_widths_asked_for():
    opt, llama = OPT(**SHAPE, seed=0), build_causal_lm(**SHAPE, seed=0, feed_forward_size=20)
    assert opt.get_input_embeddings().weight.shape == (13, 12)
    assert opt.model.decoder.layers[0].fc1.weight.shape == (20, 16)
    assert llama.model.layers[0].mlp.up_proj.weight.shape == (20, 16)
    assert ROBERTA(**SHAPE, seed=0).roberta.encoder.layer[0].intermediate.dense.weight.shape == (20, 16)
    assert build_causal_lm(**SHAPE, seed=0, architecture="opt").model.decoder.layers[0].fc1.weight.shape == (64, 16)


def test_roberta_has_a_position_for_every_token_of_its_longest_text():
    model = ROBERTA(**SHAPE, seed=0)
    assert model(input_ids=torch.zeros(1, 12, dtype=torch.long)).logits.shape == (1, 12, 13)
    with pytest.raises(RuntimeError, match="out of bounds"):
        model(input_ids=torch.zeros(1, 13, dtype=torch.long))


def test_dropout_is_on_in_training_only():
    model = build_causal_lm(**SHAPE, seed=0, dropout=0.5)
    with torch.no_grad(), torch.random.fork_rng():
        assert not torch.equal(model.train()(input_ids=tokens()).logits, model(input_ids=tokens()).logits)
        assert torch.equal(model.eval()(input_ids=tokens()).logits, model(input_ids=tokens()).logits)


@pytest.mark.parametrize("num_heads", [5, 16])
def test_heads_that_do_not_fit_are_refused(num_heads):
    with pytest.raises(LexergyError, match="hidden_size"):
        build_causal_lm(**{**SHAPE, "num_heads": num_heads}, seed=0)
