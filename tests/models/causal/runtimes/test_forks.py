"""Rows that go on from others, fewer or more of them, in every runtime."""

import random

import pytest
import torch

from lexergy.models.causal.runtimes import openvino_steps
from lexergy.models.causal.runtimes.llama_rows import LlamaContinuations
from lexergy.models.causal.runtimes.openvino_steps import compiled, computes_in
from lexergy.models.causal.runtimes.shared_prefix import Continuations, RepeatedPrefix, prefill
from toys.language_models import random_tokens, tiny_llama

VOCAB, PREFIXES, MOST = 40, 3, 6
PRECISIONS = ("bfloat16", "int8")
# Nothing, a part of a block, a block, and more than one of 32 tokens.
LENGTHS = (1, 20, 32, 45)


def llama():
    """A Llama whose every weight matters."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = tiny_llama(VOCAB, 160, hidden_size=64, num_attention_heads=4, num_key_value_heads=2)
        for weight in model.parameters():
            weight.data.add_(torch.randn_like(weight) * 0.2)
    return model.eval().requires_grad_(False)


def forked(rows, prefix, steps, seed):
    """Rows fed one token after another; of each step the texts so far, and the logits and states of their last token.

    Before a token, the first one too, they may go on from others of their prefix: fewer rows, more, or as many.
    """
    generator = random.Random(seed)
    texts = prefix.repeat_interleave(MOST, 0)
    for _ in range(steps):
        if generator.random() < 0.6:
            before, width = len(texts) // PREFIXES, generator.randint(1, MOST)
            own = [[generator.randrange(before) for _ in range(width)] for _ in range(PREFIXES)]
            parents = torch.tensor([place * before + row for place in range(PREFIXES) for row in own[place]])
            rows.fork(parents)
            texts = texts[parents]
        tokens = torch.tensor([generator.randrange(VOCAB) for _ in texts])[:, None]
        texts = torch.cat((texts, tokens), 1)
        output = rows.feed(tokens, output_hidden_states=True)
        yield texts, output.logits[:, -1], output.hidden_states[1][:, -1]


def on_torch(kind):
    def rows(model, prefix, steps):
        if kind is RepeatedPrefix:
            return RepeatedPrefix(model, prefix, MOST)
        return kind(model, prefill(model, prefix)[1], len(prefix) * MOST, steps)

    return rows


def on_openvino(model, prefix, steps):
    runtime = compiled(model, len(prefix) * MOST, layers=[1])
    return runtime.rows(runtime.prefill(prefix).shared, len(prefix) * MOST, steps)


RUNTIMES = {kind.__name__: on_torch(kind) for kind in (LlamaContinuations, Continuations, RepeatedPrefix)}


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("make", [*RUNTIMES.values(), on_openvino], ids=[*RUNTIMES, "OpenVinoContinuations"])
def test_a_row_has_read_what_its_parents_were_fed(make, length):
    model, prefix = llama(), random_tokens(PREFIXES, length, vocab_size=VOCAB)
    with torch.inference_mode():
        for texts, logits, states in forked(make(model, prefix, 45), prefix, 45, seed=length):
            whole = model(input_ids=texts, output_hidden_states=True)
            assert torch.allclose(logits, whole.logits[:, -1], atol=2e-4)
            assert torch.allclose(states, whole.hidden_states[1][:, -1], atol=2e-4)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_in_few_bits_it_is_bit_for_bit_what_rows_of_their_own_are(precision, length):
    """However many rows there are at each step: else what is drawn and what is scored would be two LMs."""
    if not computes_in(precision):
        pytest.skip(f"the processor has no products of {precision}")
    model, prefix = llama(), random_tokens(PREFIXES, length, vocab_size=VOCAB)
    steps = compiled(model, PREFIXES * MOST, precision, layers=[1])
    with torch.inference_mode():
        rows = steps.rows(steps.prefill(prefix).shared, PREFIXES * MOST, 45)
        seen = [
            (texts, logits.clone(), states.clone()) for texts, logits, states in forked(rows, prefix, 45, seed=length)
        ]
        for texts, logits, states in seen:
            whole = steps.read(texts, with_states=True)
            assert torch.equal(logits, whole.logits[:, -1])
            assert torch.equal(states, whole.hidden_states[1][:, -1])


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("precision", ["float32", *PRECISIONS])
def test_layers_for_one_number_of_rows_give_the_bits_of_those_for_any(precision, length, monkeypatch):
    """Rows fork between steps, so that the two graphs take turns over the same keys and values."""
    if not computes_in(precision):
        pytest.skip(f"the processor has no products of {precision}")
    model, prefix = llama(), random_tokens(PREFIXES, length, vocab_size=VOCAB)
    seen = []
    for worth in (10**6, 0):
        monkeypatch.setattr(openvino_steps, "WORTH_FIXING", worth)
        steps = compiled(model, PREFIXES * MOST, precision, layers=[1])
        with torch.inference_mode():
            rows = steps.rows(steps.prefill(prefix).shared, PREFIXES * MOST, 45)
            used, outputs = set(), []
            for _, logits, states in forked(rows, prefix, 45, seed=length):
                used.add(rows._last)
                outputs.append((logits.clone(), states.clone()))
        assert len(used) == (1 if worth else 2)
        seen.append(outputs)
    for (logits, states), (same, same_states) in zip(*seen, strict=True):
        assert torch.equal(logits, same)
        assert torch.equal(states, same_states)
