import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

from lexergy.errors import LexergyError
from lexergy.models.scratch import build_causal_lm, build_masked_lm

SHAPE = {"vocab_size": 13, "hidden_size": 16, "num_layers": 2, "num_heads": 4, "max_length": 12}
BUILDERS = [(build_causal_lm, AutoModelForCausalLM), (build_masked_lm, AutoModelForMaskedLM)]


def tokens():
    return torch.arange(10)[None] % 13


@pytest.mark.parametrize(("build", "auto"), BUILDERS)
def test_weights_depend_on_the_seed_alone(build, auto):
    before = torch.get_rng_state()
    first, again, other = (build(**SHAPE, seed=seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    name = "model.layers.1.mlp.up_proj.weight"
    assert not torch.equal(first[name], other[name])


@pytest.mark.parametrize(("build", "auto"), BUILDERS)
def test_saved_and_loaded_it_is_the_same(build, auto, tmp_path):
    model = build(**SHAPE, seed=0).eval()
    model.save_pretrained(tmp_path)
    loaded = auto.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        assert torch.equal(model(input_ids=tokens()).logits, loaded(input_ids=tokens()).logits)
    assert loaded.get_output_embeddings().weight is loaded.get_input_embeddings().weight
    assert [path.name for path in tmp_path.glob("*.safetensors")] == ["model.safetensors"]


@pytest.mark.parametrize(("build", "reads_ahead"), [(build_causal_lm, False), (build_masked_lm, True)])
def test_only_the_masked_lm_reads_ahead(build, reads_ahead):
    model = build(**SHAPE, seed=0).eval()
    changed = tokens()
    changed[0, -1] = 12
    with torch.no_grad():
        difference = (model(input_ids=tokens()).logits - model(input_ids=changed).logits)[0, :-1]
    assert bool(difference.abs().amax(dim=-1).gt(1e-6).all()) == reads_ahead
    assert bool(difference.abs().amax(dim=-1).lt(1e-6).all()) != reads_ahead


def test_both_have_the_same_size_and_every_token_its_embedding_trained():
    causal, bidirectional = build_causal_lm(**SHAPE, seed=0), build_masked_lm(**SHAPE, seed=0)
    assert causal.num_parameters() == bidirectional.num_parameters()
    for model in (causal, bidirectional):
        model(input_ids=torch.arange(13)[None]).logits.square().sum().backward()
        assert model.get_input_embeddings().weight.grad.abs().sum(dim=1).gt(0).all()


def test_dropout_is_on_in_training_only():
    model = build_causal_lm(**SHAPE, seed=0, dropout=0.5)
    with torch.no_grad(), torch.random.fork_rng():
        assert not torch.equal(model.train()(input_ids=tokens()).logits, model(input_ids=tokens()).logits)
        assert torch.equal(model.eval()(input_ids=tokens()).logits, model(input_ids=tokens()).logits)


@pytest.mark.parametrize("num_heads", [5, 16])
def test_heads_that_do_not_fit_are_refused(num_heads):
    with pytest.raises(LexergyError, match="hidden_size"):
        build_causal_lm(**{**SHAPE, "num_heads": num_heads}, seed=0)
