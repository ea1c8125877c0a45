"""An LM in bfloat16 or int8: another LM than in float32, and one and the same however its tokens are fed."""

import json

import pytest
import torch

from lexergy import CausalLM
from lexergy.errors import LexergyError
from lexergy.models.causal.local_residuals import AdapterResidual, UnigramResidual
from lexergy.models.causal.positions import Positions, last_states, position_log_probs
from lexergy.models.causal.product_lm import ProductLM, frozen_logits
from lexergy.models.causal.runtimes import choice
from lexergy.models.causal.runtimes.openvino_steps import compiled, computes_in
from lexergy.models.causal.state_features import StateFeatures
from lexergy.recipes.sections.base_models import LMRecipe
from toys.language_models import random_tokens, tiny_gpt2, tiny_llama

VOCAB = 40
FEATURES = StateFeatures(layers=(1, 2))
PRECISIONS = ("bfloat16", "int8")


def llama():
    """A Llama whose every weight matters."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = tiny_llama(VOCAB, 160, hidden_size=64, num_attention_heads=4, num_key_value_heads=2)
        for weight in model.parameters():
            weight.data.add_(torch.randn_like(weight) * 0.2)
    return model.eval().requires_grad_(False)


@pytest.fixture(scope="module", params=PRECISIONS)
def precision(request) -> str:
    if not computes_in(request.param):
        pytest.skip(f"the processor has no products of {request.param}")
    return request.param


@pytest.fixture(scope="module")
def lm(precision) -> CausalLM:
    return CausalLM(llama(), precision=precision, source="a llama")


@pytest.fixture(scope="module")
def prefix():
    return random_tokens(2, 45, vocab_size=VOCAB)  # more than a block, and a rest


@pytest.fixture(scope="module")
def samples(lm, prefix):
    return lm.sample(prefix, num_samples=3, max_new_tokens=30, seed=5, features=FEATURES)


def rows_of(prefix, samples):
    return torch.cat((prefix.repeat_interleave(3, 0), samples.tokens.flatten(0, 1)), 1)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_logits_and_states_do_not_depend_on_how_tokens_are_fed(precision, threads):
    """Bit for bit: one by one, several or all at once, alone or beside others, fewer rows than threads or more."""
    model, tokens = llama(), random_tokens(6, 70, vocab_size=VOCAB)
    expected = compiled(model, 1, precision, [1]).read(tokens, with_states=True)
    assert list(expected.hidden_states) == [0, 1, 2]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        steps = compiled(model, 1, precision, [1])
        for rows, lengths in ((6, [1] * 25), (1, [1] * 25), (2, [3, 1, 7, 14]), (4, [25])):
            fed = steps.rows(steps.prefill(tokens[:rows, :45]).shared, rows, 25)
            place = 45
            for part in tokens[:rows, 45:].split(lengths, 1):
                given = fed.feed(part, output_hidden_states=True)
                own = (slice(None, rows), slice(place, place + part.shape[1]))
                assert torch.equal(given.logits, expected.logits[own])
                for layer, states in given.hidden_states.items():
                    assert torch.equal(states, expected.hidden_states[layer][own])
                place += part.shape[1]
    finally:
        torch.set_num_threads(before)


def test_which_states_a_graph_shows_does_not_change_them(precision):
    model, tokens = llama(), random_tokens(6, 70, vocab_size=VOCAB)
    first = compiled(model, 1, precision).read(tokens, with_states=True)
    plain = {layer: states.clone() for layer, states in first.hidden_states.items()} | {"logits": first.logits.clone()}
    shown = compiled(model, 1, precision, [1]).read(tokens, with_states=True)
    assert torch.equal(shown.logits, plain["logits"])
    assert list(plain) == [0, 2, "logits"]
    assert torch.equal(shown.hidden_states[2], plain[2])


def test_it_is_near_the_lm_in_float32_and_not_the_same(lm, prefix):
    usual = CausalLM(lm.model, runtime="torch").next_log_prob(prefix)
    difference = (lm.next_log_prob(prefix) - usual).abs().max()
    assert 1e-4 < difference < 0.5


def test_what_is_drawn_has_the_log_probability_that_scoring_gives(lm, prefix, samples):
    rows = rows_of(prefix, samples)
    scored = lm.log_prob(rows, prefix_length=45)
    assert torch.allclose(scored, samples.log_prob.flatten(), atol=1e-5, rtol=0)
    usual = CausalLM(lm.model, runtime="torch").log_prob(rows, prefix_length=45)
    assert (usual - scored).abs().max() > 1e-3  # so that the test can fail


def test_the_chain_rule_holds_wherever_a_prefix_ends(lm, samples, prefix):
    rows = rows_of(prefix, samples)
    whole = lm.token_log_prob(rows, prefix_length=10)
    assert torch.allclose(whole[:, 35:], lm.token_log_prob(rows, prefix_length=45), atol=1e-6, rtol=0)
    by_step = torch.stack([lm.next_log_prob(rows[:, :place])[range(6), rows[:, place]] for place in (45, 60, 74)], 1)
    assert torch.allclose(whole[:, [35, 50, 64]], by_step, atol=1e-6, rtol=0)


def test_states_reach_energies_as_they_are_read_again(lm, prefix, samples):
    rows = rows_of(prefix, samples)
    read = lm.state_features(rows, prefix_length=45, features=FEATURES)
    assert torch.allclose(read, samples.features.flatten(0, 1), atol=1e-4)
    moments = StateFeatures(layers=(1, 2), statistics="moments")
    whole = lm.state_features(rows, prefix_length=1, features=moments)
    for by_token in (lm.token_features(rows, features=moments), lm.token_features_of(list(rows), features=moments)):
        assert torch.allclose(torch.stack(list(by_token)).mean(1), whole, atol=1e-4)


@pytest.mark.parametrize("rows_per_batch", [1, 2, 5])
def test_the_same_seed_gives_the_same_samples_in_any_batches(lm, prefix, samples, rows_per_batch):
    options = {"num_samples": 3, "max_new_tokens": 30, "seed": 5}
    batched = lm.sample(prefix, **options, rows_per_batch=rows_per_batch)
    assert torch.equal(batched.tokens, samples.tokens)
    assert torch.allclose(batched.log_prob, samples.log_prob, atol=1e-9)
    chunks = list(lm.sample_chunks(prefix, **options, chunk_size=2))
    assert torch.equal(torch.cat([chunk.tokens for chunk in chunks], 1), samples.tokens)


def test_residuals_correct_it(lm, prefix):
    generator = torch.Generator().manual_seed(0)
    unigram = UnigramResidual(torch.randn(VOCAB, generator=generator), 0.5)
    adapter = AdapterResidual(torch.randn(VOCAB, 2, generator=generator), torch.randn(2, 64, generator=generator) * 0.1)
    for residuals in ([unigram], [adapter], [unigram, adapter]):
        corrected = lm.corrected(residuals)
        assert f"in {lm.precision}, corrected by" in corrected.name
        drawn = corrected.sample(prefix, num_samples=3, max_new_tokens=12, seed=2)
        rows = rows_of(prefix, drawn)
        scored = corrected.token_log_prob(rows, prefix_length=45)
        assert torch.allclose(scored.sum(-1), drawn.log_prob.flatten(), atol=1e-5, rtol=0)
        assert (scored.sum(-1) - lm.log_prob(rows, prefix_length=45)).abs().max() > 0.1
        states = last_states(corrected, rows, 12)
        positions = Positions(rows, states, torch.ones(6, 12, dtype=torch.bool))
        assert torch.allclose(position_log_probs(corrected, positions), scored, atol=1e-5, rtol=0)


def test_a_product_with_another_lm_multiplies_this_one(lm):
    tokens, other = random_tokens(2, 20, vocab_size=VOCAB), tiny_gpt2(VOCAB, 32)
    product = ProductLM(frozen_logits(lm), other).eval()
    with torch.no_grad():
        expected = lm.reader().read(tokens).logits + other(input_ids=tokens).logits
        assert torch.allclose(product(tokens).logits, expected, atol=1e-5)


def test_its_name_its_folder_and_its_fingerprint_say_so(lm, precision, tmp_path):
    assert lm.name == f"a llama, in {precision}"
    own = CausalLM(lm.model, precision=precision)
    own.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "lexergy_lm.json").read_text())["precision"] == precision
    opened = CausalLM.from_pretrained(tmp_path)
    assert opened.precision == precision
    usual = CausalLM.from_pretrained(tmp_path, precision="float32")
    assert usual.precision == CausalLM.from_pretrained(f"{tmp_path}#precision=float32").precision == "float32"
    assert opened.fingerprint() != usual.fingerprint() == CausalLM(lm.model).fingerprint()
    usual.save_pretrained(tmp_path)
    assert "precision" not in json.loads((tmp_path / "lexergy_lm.json").read_text())
    assert CausalLM.from_pretrained(f"{tmp_path}#precision={precision}").precision == precision


def test_what_cannot_be_computed_in_a_precision_is_refused(monkeypatch):
    with pytest.raises(LexergyError, match=r"expected one of float32, bfloat16, int8"):
        CausalLM.from_pretrained("smollm2-135m#precision=float16")
    for precision, processors in (("bfloat16", "AVX-512 BF16 or AMX"), ("int8", "AVX-512 VNNI or AVX-VNNI")):
        with pytest.raises(LexergyError, match=r"`runtime` torch; expected openvino"):
            CausalLM(llama(), precision=precision, runtime="torch")
        with pytest.raises(LexergyError, match=r"GPT2LMHeadModel .* expected a Llama .* leave the precision out"):
            CausalLM(tiny_gpt2(VOCAB, 16), precision=precision)
        with monkeypatch.context() as other:
            other.setattr("lexergy.models.causal.runtimes.openvino_steps.computes_in", lambda precision: False)
            with pytest.raises(LexergyError, match=rf"this processor has no products; expected one with {processors}"):
                CausalLM(llama(), precision=precision)
            other.setattr(choice, "find_spec", lambda name: None)
            with pytest.raises(LexergyError, match=r"needs OpenVINO; run `pip install"):
                CausalLM(llama(), precision=precision)


def test_the_recipes_key_is_written_only_where_it_is_another():
    usual, other = LMRecipe(source="smollm2-135m"), LMRecipe(source="smollm2-135m", precision="bfloat16")
    assert "precision" not in usual.model_dump()
    assert other.model_dump()["precision"] == "bfloat16"
    assert other.origin == "smollm2-135m, in bfloat16"
    assert "in bfloat16" in other.description
    assert "bfloat16" not in usual.origin + usual.description
    with pytest.raises(ValueError, match="runs elsewhere"):
        LMRecipe(source="openai:http://127.0.0.1:1", tokenizer="smollm2-135m", precision="bfloat16")
    with pytest.raises(ValueError, match="a key of its own here; write `precision: bfloat16`"):
        LMRecipe(source="smollm2-135m#precision=bfloat16")
