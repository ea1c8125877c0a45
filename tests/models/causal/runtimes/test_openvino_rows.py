"""OpenVINO's steps against those of torch, and when they are taken."""

import gc
import itertools

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from lexergy import CausalLM
from lexergy.errors import LexergyError
from lexergy.models.causal.runtimes import choice as runtime
from lexergy.models.causal.runtimes import openvino_steps, openvino_weights
from lexergy.models.causal.runtimes.choice import TorchSteps, uses_openvino
from lexergy.models.causal.runtimes.llama_rows import LlamaContinuations
from lexergy.models.causal.runtimes.openvino_steps import (
    _KEPT,
    Form,
    OpenVinoSteps,
    compiled,
    computes_in,
    many_rows,
    product_in_eight_bits,
)
from lexergy.models.causal.runtimes.openvino_weights import _rounded, eight_bits, numbered
from lexergy.models.causal.runtimes.shared_prefix import TOKENS_AT_ONCE, Continuations, prefill, prefill_in_groups
from lexergy.models.causal.state_features import StateFeatures
from toys.language_models import random_tokens, tiny_gpt2, tiny_llama

VOCAB = 40
HEADS = [(2, 2), (4, 2), (6, 1)]  # of queries, of keys and values


def skewed(**settings) -> LlamaForCausalLM:
    """A Llama whose every weight matters."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = tiny_llama(VOCAB, 64, **settings)
        for weight in model.parameters():
            weight.data.add_(torch.randn_like(weight) * 0.3)
    return model.eval().requires_grad_(False)


def every_layer(model) -> range:
    """Of which there are states, the embeddings among them."""
    return range(model.config.num_hidden_layers + 1)


def _difference(states, same):
    """In parts of the largest: rounding is no more, however large the states of a layer are."""
    return (states - same).abs().max() / states.abs().max()


def compared(model, prefix, num_samples, length):
    """The largest differences of logits, and of states in parts of the largest, between both runtimes, step by step."""
    num_rows = len(prefix) * num_samples
    tokens = random_tokens(num_rows, length, vocab_size=VOCAB, seed=1)
    with torch.inference_mode():
        _, shared = prefill(model, prefix)
        here = LlamaContinuations(model, shared, num_rows, length)
        there = compiled(model, 1, layers=every_layer(model)).rows(shared, num_rows, length)
        for token in tokens.split(1, 1):
            expected, given = (rows.feed(token, output_hidden_states=True) for rows in (here, there))
            assert list(expected.hidden_states) == list(given.hidden_states) == list(every_layer(model))
            states = (_difference(own, given.hidden_states[layer]) for layer, own in expected.hidden_states.items())
            yield (expected.logits - given.logits).abs().max(), max(states)


@pytest.mark.parametrize(("heads", "kv_heads"), HEADS)
@pytest.mark.parametrize(("prefixes", "samples"), [(1, 5), (3, 1), (3, 4)])
def test_logits_and_states_are_those_of_torch(heads, kv_heads, prefixes, samples):
    """Over 40 steps, which begin in the first block of keys and values and end in the second."""
    model = skewed(hidden_size=24, num_attention_heads=heads, num_key_value_heads=kv_heads)
    prefix = random_tokens(prefixes, 7, vocab_size=VOCAB)
    for logits, states in compared(model, prefix, samples, 40):
        assert logits < 1e-4
        assert states < 1e-5


@pytest.mark.parametrize(("heads", "kv_heads"), HEADS)
def test_several_tokens_at_once_are_those_of_torch(heads, kv_heads):
    """Fed 3, 1, 7 and 2 tokens, so that there are own ones before them, and room must be made for several."""
    model = skewed(hidden_size=24, num_attention_heads=heads, num_key_value_heads=kv_heads)
    with torch.inference_mode():
        _, shared = prefill(model, random_tokens(3, 5, vocab_size=VOCAB))
        here = Continuations(model, shared, 6, 13)
        there = compiled(model, 1, layers=every_layer(model)).rows(shared, 6, 13)
        for tokens in random_tokens(6, 13, vocab_size=VOCAB, seed=2).split((3, 1, 7, 2), 1):
            expected, given = (rows.feed(tokens, output_hidden_states=True) for rows in (here, there))
            assert torch.allclose(expected.logits, given.logits, atol=1e-4)
            for layer, states in enumerate(expected.hidden_states):
                assert torch.allclose(states, given.hidden_states[layer], atol=1e-4)


def test_prefixes_are_those_of_torch_however_they_are_grouped():
    model, length = skewed(**{"num_attention_heads": 4, "num_key_value_heads": 2}), 40
    prefix = random_tokens(TOKENS_AT_ONCE // length + 3, length, vocab_size=VOCAB)  # two groups
    with torch.inference_mode():
        whole = TorchSteps(model).prefill(prefix)
        for steps in (TorchSteps(model), compiled(model, 1)):
            given = prefill_in_groups(prefix, steps.prefill)
            assert torch.allclose(given.logits, whole.logits, atol=1e-4)
            for memories, same in ((whole.shared.keys, given.shared.keys), (whole.shared.values, given.shared.values)):
                assert torch.allclose(torch.stack(memories), torch.stack(same), atol=1e-4)


def test_scaled_rotary_positions_are_followed():
    rope = {"rope_type": "llama3", "rope_theta": 100.0, "factor": 4.0, "low_freq_factor": 1.0}
    scaling = rope | {"high_freq_factor": 4.0, "original_max_position_embeddings": 16}
    model = skewed(rope_parameters=scaling, head_dim=12)
    for logits, states in compared(model, random_tokens(2, 9, vocab_size=VOCAB), 2, 5):
        assert logits < 1e-4
        assert states < 1e-5


def test_the_base_model_leaves_the_head_out():
    model, prefix = skewed(), random_tokens(1, 4, vocab_size=VOCAB)
    with torch.inference_mode():
        rows = compiled(model, 1, layers=[1]).rows(prefill(model, prefix)[1], 2, 3)
        step = rows.feed(torch.tensor([[1], [2]]), model=model.model, output_hidden_states=True)
    assert step.logits is None
    assert list(step.hidden_states) == list(every_layer(model))


def test_layers_are_compiled_for_one_number_of_few_rows_when_it_comes_again_and_again(monkeypatch):
    monkeypatch.setattr(openvino_steps, "WORTH_FIXING", 100)
    model = skewed()
    steps = compiled(model, 1)
    prefix = steps.prefill(random_tokens(1, 5, vocab_size=VOCAB)).shared

    def fixed_to(num_rows, length):
        steps.rows(prefix, num_rows, length)
        return None if steps._fixed is None else steps._fixed.num_rows

    assert [fixed_to(rows, 30) for rows in (2, 3, 2, 2, openvino_steps.FEW_ROWS + 1)] == [None] * 5
    assert fixed_to(2, 10) == 2  # 100 steps of 2 rows
    assert steps._fixed.layers is not None
    assert [fixed_to(3, 90), fixed_to(3, 10)] == [2, 3]  # and of 3 since then: one graph at a time
    reading = steps.reading(prefix, 3, 4)
    assert reading._fixed is None


def test_layers_for_one_number_of_rows_are_not_taken_where_they_give_other_bits(monkeypatch):
    monkeypatch.setattr(openvino_steps, "WORTH_FIXING", 0)
    model, prefix = skewed(), random_tokens(1, 5, vocab_size=VOCAB)
    steps = compiled(model, 1)
    with torch.no_grad():
        model.model.layers[0].mlp.down_proj.weight.mul_(1.001)  # in what is compiled from now on
        shared = steps.prefill(prefix).shared
        rows = steps.rows(shared, 2, 3)
    assert steps._fixed.layers is None
    assert rows._fixed is None


def test_layers_that_cannot_be_compiled_for_one_number_of_rows_are_those_for_any(monkeypatch):
    def broken(*given):
        raise RuntimeError("no shape is found")

    monkeypatch.setattr(openvino_steps, "WORTH_FIXING", 0)
    monkeypatch.setattr(openvino_steps, "for_rows", broken)
    model, prefix = skewed(), random_tokens(1, 5, vocab_size=VOCAB)
    steps = compiled(model, 1)
    with torch.inference_mode():
        logits = steps.rows(steps.prefill(prefix).shared, 2, 3).feed(torch.tensor([[1], [2]])).logits
        expected = model(input_ids=torch.cat((prefix, torch.tensor([[1]])), 1)).logits[0, -1]
    assert steps._fixed.layers is None
    assert torch.allclose(logits[0, -1], expected, atol=1e-4)


def test_two_sets_of_rows_do_not_disturb_each_other():
    model = skewed()
    with torch.inference_mode():
        shared = [prefill(model, random_tokens(1, 5, vocab_size=VOCAB, seed=seed))[1] for seed in (1, 2)]
        tokens = random_tokens(2, 4, vocab_size=VOCAB)
        alone = []
        for prefix, row in zip(shared, tokens, strict=True):
            rows = compiled(model, 1).rows(prefix, 1, 4)
            alone.append([rows.feed(token.view(1, 1)).logits.clone() for token in row])
        together = [compiled(model, 1).rows(prefix, 1, 4) for prefix in shared]
        for step, which in itertools.product(range(4), range(2)):
            given = together[which].feed(tokens[which, step].view(1, 1)).logits
            assert torch.equal(given, alone[which][step])


def test_compiled_once_and_again_for_other_weights_or_threads():
    model = skewed()
    first = compiled(model, 1)
    assert compiled(model, 1) is first
    with torch.no_grad():
        model.model.norm.weight.mul_(2)
    second = compiled(model, 1)
    assert second is not first
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        assert compiled(model, 1) is not second
    finally:
        torch.set_num_threads(threads)
    kept = len(_KEPT)
    del model, first, second
    gc.collect()
    assert len(_KEPT) == kept - 1


def test_graphs_show_the_layers_that_were_ever_asked_for():
    model = skewed(num_hidden_layers=4)
    plain = compiled(model, 1)
    assert compiled(model, 1, layers=[0, 4]) is plain  # embeddings and last states are there anyway
    assert compiled(model, 1, layers=[2]).shown == {2}
    wider = compiled(model, 1, layers=[1, 4])
    assert wider.shown == {1, 2}
    assert len(wider.layers.outputs) == 3
    assert compiled(model, 1, layers=[2]) is compiled(model, 1) is wider
    assert list(_KEPT[model].steps.values()) == [wider]


def test_plain_samples_need_no_states_and_features_only_their_own():
    lm = CausalLM(skewed(num_hidden_layers=4), runtime="openvino")
    prefix, wanted = random_tokens(2, 5, vocab_size=VOCAB), {"num_samples": 2, "max_new_tokens": 3}
    lm.sample(prefix, **wanted)
    (steps,) = _KEPT[lm.model].steps.values()
    assert not steps.shown
    features = StateFeatures(layers=(3, 4))
    expected = CausalLM(lm.model, runtime="torch").sample(prefix, **wanted, features=features).features
    for _ in range(2):
        assert torch.allclose(lm.sample(prefix, **wanted, features=features).features, expected, atol=1e-4)
        lm.sample(prefix, **wanted)
        (steps,) = _KEPT[lm.model].steps.values()
        assert steps.shown == {3}


def numbered_weights(model, seed=0) -> None:
    """As a file of 4 bits, whose embeddings have 8, would have them (Q4_1, Q8_0): blocks of 32."""
    generator = torch.Generator().manual_seed(seed)
    for weight in model.parameters():
        if weight.dim() < 2:
            continue
        blocks = weight.data.unflatten(1, (-1, 32))
        embeds = weight is model.model.embed_tokens.weight
        scale = (torch.rand(*blocks.shape[:2], 1, generator=generator) * 0.05 + 0.01).half().float()
        numbers = torch.randint(-127, 128, blocks.shape, generator=generator) if embeds else None
        if numbers is None:
            numbers = torch.randint(0, 16, blocks.shape, generator=generator)
            numbers[..., :2] = torch.tensor([0, 15])
            offset = (torch.randn(scale.shape, generator=generator) * 0.2 - 8 * scale).half().float()
        else:
            numbers[..., 0], scale, offset = -127, scale / 16, torch.zeros_like(scale)
        weight.data.copy_((numbers * scale + offset).flatten(1))


def test_whole_numbers_behind_weights_are_found_and_are_equal():
    model = skewed(hidden_size=64, intermediate_size=96, tie_word_embeddings=True)
    down, embeddings = model.model.layers[0].mlp.down_proj.weight, model.model.embed_tokens.weight
    assert numbered(down) is None
    numbered_weights(model)
    for weight, kind in ((down, torch.uint8), (embeddings, torch.int8)):
        found = numbered(weight)
        assert found.numbers.dtype == kind
        assert torch.allclose(found.weights(), weight, rtol=0, atol=1e-6)
    down.data[5, 40] += 1e-4
    assert numbered(down) is None


def test_eight_bits_are_the_files_own_or_the_nearest_with_a_whole_zero():
    model = skewed(hidden_size=64, intermediate_size=96, tie_word_embeddings=True)
    down, embeddings = model.model.layers[0].mlp.down_proj.weight, model.model.embed_tokens.weight
    rounded = eight_bits(down)
    step = rounded.scale.expand(-1, -1, 32).flatten(1)
    assert ((rounded.weights() - down).abs() <= 0.5001 * step).all()
    numbered_weights(model)
    assert torch.allclose(eight_bits(embeddings).weights(), embeddings, rtol=0, atol=1e-6)
    spread, levels = eight_bits(down), numbered(down)
    assert spread.numbers.dtype == spread.zero.dtype == torch.uint8
    blocks = down.unflatten(1, (-1, 32))
    error = (spread.weights() - down).abs().view_as(blocks) / levels.scale
    around = error[((levels.zero >= 0) & (levels.zero <= 15)).squeeze(-1)]  # blocks with weights of both signs
    assert around.max() < 1 / 18 + 1e-3  # of a level, where a rounded offset would be half a level away
    assert around.mean() < 0.7 * (_rounded(blocks).weights() - down).abs().mean() / levels.scale.mean()
    assert error.max() < 0.5
    assert eight_bits(torch.ones(4, 40)) is None


def test_numbers_are_the_same_however_many_rows_are_read_at_once(monkeypatch):
    """Of a file with a whole zero, of one with offsets, and of neither."""
    model = skewed(hidden_size=64, intermediate_size=96, tie_word_embeddings=True)
    rounded = model.model.layers[1].mlp.down_proj.weight.clone()
    numbered_weights(model)
    weights = (model.model.embed_tokens.weight, model.model.layers[0].mlp.down_proj.weight, rounded)
    whole = [(numbered(weight), eight_bits(weight)) for weight in weights]
    monkeypatch.setattr(openvino_weights, "_ROWS", 7)
    for weight, (as_in_file, nearest) in zip(weights, whole, strict=True):
        found = numbered(weight)
        assert (found is None) == (as_in_file is None) == (weight is rounded)
        assert found is None or all(map(torch.equal, found, as_in_file))
        assert all(map(torch.equal, eight_bits(weight), nearest))
    weights[0].data[30, 5] += 1e-4  # not in the first part
    assert numbered(weights[0]) is None


@pytest.mark.skipif(not torch.cpu._is_vnni_supported(), reason="the processor has no AVX-512 VNNI")
def test_a_processor_with_such_products_computes_in_eight_bits():
    """Else all that is tested in eight bits would be left out without a word."""
    assert computes_in("int8")


@pytest.mark.skipif(not computes_in("int8"), reason="the processor has no products of int8")
@pytest.mark.parametrize("rows", [1, 5, 70])
def test_products_in_eight_bits_are_those_of_rounded_states(rows):
    """By hand: each 32 numbers of a state are rounded to 127 steps of their largest."""
    generator = torch.Generator().manual_seed(0)
    weight, states = (torch.randn(size, 96, generator=generator) for size in (64, rows))
    blocks = states.unflatten(1, (-1, 32))
    step = blocks.abs().amax(-1, keepdim=True) / 127
    expected = ((blocks / step).round() * step).flatten(1) @ eight_bits(weight).weights().T
    product = product_in_eight_bits(states, weight)
    assert torch.allclose(product, expected, rtol=0, atol=1e-3)
    assert (product - states @ weight.T).abs().max() > 1e-2


def test_few_rows_read_whole_numbers_to_the_same_logits():
    model = skewed(hidden_size=64, intermediate_size=96, num_key_value_heads=1, tie_word_embeddings=True)
    assert compiled(model, 1).name == "openvino"
    numbered_weights(model)
    with torch.no_grad():
        model.model.norm.weight.mul_(1)  # what was written past torch is known by its version
    assert compiled(model, 1).name == "openvino, as numbers"
    assert compiled(model, 1) is compiled(model, many_rows() - 1)
    assert compiled(model, many_rows()).name == "openvino"
    for logits, states in compared(model, random_tokens(2, 9, vocab_size=VOCAB), 3, 5):
        assert logits < 1e-4
        assert states < 1e-5


def test_batches_and_chunks_are_computed_as_the_whole_call_is():
    model = skewed(hidden_size=64, intermediate_size=96, tie_word_embeddings=True)
    numbered_weights(model)
    lm, prefix = CausalLM(model, runtime="openvino"), random_tokens(1, 5, vocab_size=VOCAB)
    wanted = {"num_samples": many_rows(), "max_new_tokens": 3}
    lm.sample(prefix, **wanted, rows_per_batch=3)
    list(lm.sample_chunks(prefix, **wanted, chunk_size=2))
    assert list(_KEPT[model].steps) == [Form("float32", False)]
    lm.sample(prefix, num_samples=many_rows() - 1, max_new_tokens=3)
    assert sorted(_KEPT[model].steps) == [Form("float32", False), Form("float32", True)]


def test_on_one_runtime_prefixes_are_run_once_for_samples_and_given_texts(monkeypatch):
    lm = CausalLM(skewed(hidden_size=24, num_attention_heads=4), runtime="openvino")
    features = StateFeatures(layers=(1,), statistics="moments")
    tokens = random_tokens(3, 12, vocab_size=VOCAB)
    compiled(lm.model, 3, layers=features.layers)  # which tries the graph on a few tokens
    runs = []
    monkeypatch.setattr(
        OpenVinoSteps, "prefill", lambda own, rows, run=OpenVinoSteps.prefill: runs.append(1) or run(own, rows)
    )
    monkeypatch.setattr(TorchSteps, "prefill", lambda own, rows: pytest.fail("torch has run a prefix"))
    one = lm.on_one_runtime(3)
    samples = one.sample(tokens[:, :7], num_samples=1, max_new_tokens=5, features=features)
    found = one.state_features(tokens, prefix_length=7, features=features)
    again = one.state_features(torch.cat((tokens[:, :7], samples.tokens[:, 0]), 1), prefix_length=7, features=features)
    log_prob = one.log_prob(tokens, prefix_length=7)
    assert len(runs) == 1
    monkeypatch.undo()
    assert torch.allclose(again, samples.features[:, 0], atol=1e-4)
    assert torch.allclose(found, lm.state_features(tokens, prefix_length=7, features=features), atol=1e-4)
    assert torch.allclose(log_prob, lm.log_prob(tokens, prefix_length=7), atol=1e-4)


def test_auto_takes_openvino_for_llamas_that_are_worth_it(monkeypatch):
    model = skewed()
    assert not uses_openvino(model, "auto")
    monkeypatch.setattr(runtime, "WORTH_COMPILING", 1000)
    assert uses_openvino(model, "auto")
    assert not uses_openvino(model, "torch")
    assert not uses_openvino(tiny_gpt2(VOCAB, 16), "auto")
    assert not uses_openvino(tiny_llama(VOCAB, 16).double(), "auto")
    monkeypatch.setattr(runtime, "find_spec", lambda name: None)
    assert not uses_openvino(model, "auto")


def test_torch_steps_in_where_the_graph_cannot_be_built(monkeypatch, caplog):
    """As with a version of OpenVINO whose attention has other inputs."""

    def broken(*given):
        raise RuntimeError("Node validation failed\nPagedAttentionExtension expects 29 inputs")

    monkeypatch.setattr(openvino_steps, "layers_graph", broken)
    monkeypatch.setattr(runtime, "WORTH_COMPILING", 1000)
    model, prefix = skewed(), random_tokens(1, 5, vocab_size=VOCAB)
    wanted = {"num_samples": 4, "max_new_tokens": 6}
    samples = CausalLM(model).sample(prefix, **wanted)
    assert torch.equal(samples.tokens, CausalLM(model, runtime="torch").sample(prefix, **wanted).tokens)
    (message,) = (record.getMessage() for record in caplog.records if "OpenVINO" in record.getMessage())
    assert "expects 29 inputs" in message
    assert "torch computes its steps" in message
    with pytest.raises(LexergyError, match=r"could not compile the LM .* 29 inputs"):
        CausalLM(model, runtime="openvino").sample(prefix, **wanted)


def test_torch_steps_in_where_the_graph_computes_something_else(monkeypatch, caplog):
    """As with a version of OpenVINO whose attention takes its scale otherwise."""
    from lexergy.models.causal.runtimes import openvino_graph

    paged = openvino_graph._paged
    monkeypatch.setattr(openvino_graph, "_paged", lambda *given: paged(*given[:5], 2 * given[5], *given[6:]))
    monkeypatch.setattr(runtime, "WORTH_COMPILING", 1000)
    model, prefix = skewed(), random_tokens(1, 5, vocab_size=VOCAB)
    wanted = {"num_samples": 4, "max_new_tokens": 6}
    samples = CausalLM(model).sample(prefix, **wanted)
    assert torch.equal(samples.tokens, CausalLM(model, runtime="torch").sample(prefix, **wanted).tokens)
    assert any("logits deviate from the model's" in record.getMessage() for record in caplog.records)


def test_what_openvino_cannot_run_is_refused(monkeypatch):
    biased = LlamaForCausalLM(LlamaConfig(**skewed().config.to_diff_dict() | {"attention_bias": True}))
    for model in (tiny_gpt2(VOCAB, 16), tiny_llama(VOCAB, 16).half(), biased):
        with pytest.raises(LexergyError, match=r"`runtime` is openvino .* expected a Llama without biases in float32"):
            CausalLM(model, runtime="openvino")
    monkeypatch.setattr(runtime, "find_spec", lambda name: None)
    with pytest.raises(LexergyError, match=r"pip install 'lexergy\[openvino\]'"):
        CausalLM(skewed(), runtime="openvino")
