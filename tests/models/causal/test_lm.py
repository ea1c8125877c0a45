"""Sampling and scoring against the plain forward pass of many architectures."""

import itertools

import pytest
import torch
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    MambaConfig,
    MambaForCausalLM,
    OPTConfig,
    OPTForCausalLM,
)

from lexergy import CausalLM
from lexergy.core.decoding import Decoding, truncated_log_probs
from lexergy.core.enumeration import all_sequences
from lexergy.errors import LexergyError
from lexergy.models.architectures.scratch import build_causal_lm
from lexergy.models.causal.state_features import STATISTICS, StateFeatures
from lexergy.models.inference.linears import fast_linears
from lexergy.testing import EnumerableLM, assert_sampler_contract
from toys.language_models import tiny_gpt2, tiny_llama, tiny_sizes
from toys.local_residuals import corrected_log_probs, toy_residuals

VOCAB = 40
GROUPED_HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2}
NO_SPECIAL = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}


def gpt2():
    return tiny_gpt2(VOCAB, 32, **NO_SPECIAL)


def llama():
    return tiny_llama(VOCAB, 32, **GROUPED_HEADS, **NO_SPECIAL)


def openvino_llama():
    """The same, fed by OpenVINO."""
    return llama()


def gemma():
    """Has sliding windows: 12 tokens, so that a longer sequence must not share its prefix."""
    sizes = tiny_sizes(VOCAB, 32, **GROUPED_HEADS, num_hidden_layers=6, head_dim=4)
    return Gemma3ForCausalLM(Gemma3TextConfig(**sizes, sliding_window=12, **NO_SPECIAL))


def opt():
    config = OPTConfig(**tiny_sizes(VOCAB, 32), ffn_dim=32, word_embed_proj_dim=16, **NO_SPECIAL | {"pad_token_id": 1})
    return OPTForCausalLM(config)


def projected_opt():
    """Its embeddings are narrower than the model, and so are its last states."""
    return build_causal_lm(VOCAB, 16, 2, 2, 32, seed=0, architecture="opt", embedding_size=12)


def bloom():
    """Its position bias is not expressed through the attention interface: the prefix is repeated."""
    return BloomForCausalLM(BloomConfig(vocab_size=VOCAB, hidden_size=16, n_layer=2, n_head=2, **NO_SPECIAL))


def gated_conv():
    """Its memory is that of a few tokens."""
    return build_causal_lm(VOCAB, 16, 2, None, 32, seed=0, architecture="gated_conv", embedding_size=12, kernel_size=3)


def mamba():
    """Its memory is one state, whatever has been read."""
    sizes = {"vocab_size": VOCAB, "hidden_size": 16, "num_hidden_layers": 2, "state_size": 4}
    return MambaForCausalLM(MambaConfig(**sizes, **NO_SPECIAL))


def corrected_llama():
    return llama()


def corrected_openvino_llama():
    return llama()


def corrected_gemma():
    return gemma()


def corrected_bloom():
    return bloom()


def build(maker, **keywords) -> CausalLM:
    """The LM; one that is called corrected with local residuals of each kind."""
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = maker()
        for weight in model.parameters():
            weight.data.add_(torch.randn_like(weight) * 0.3)  # a skewed distribution: symmetry hides mistakes
    lm = CausalLM(model, runtime="openvino" if "openvino" in maker.__name__ else "torch", **keywords)
    return lm.corrected(toy_residuals(lm)) if "corrected" in maker.__name__ else lm


def prefixes(count=3, length=5):
    return torch.randint(2, VOCAB, (count, length), generator=torch.Generator().manual_seed(0))


def whole(prefix, tokens):
    """(B, P) and (B, K, C) -> (B K, P + C)."""
    return torch.cat((prefix.unsqueeze(1).expand(-1, tokens.shape[1], -1), tokens), -1).flatten(0, 1)


@torch.no_grad()
def plain_log_prob(lm, rows, prefix_length, decoding=None):
    decoding = decoding or Decoding()
    logits = corrected_log_probs(lm, rows)[:, prefix_length - 1 : -1]
    distribution = truncated_log_probs(logits.flatten(0, 1), decoding).view(logits.shape)
    return distribution.gather(-1, rows[:, prefix_length:, None]).squeeze(-1).sum(-1)


CORRECTED = [corrected_llama, corrected_openvino_llama, corrected_gemma, corrected_bloom]
ARCHITECTURES = [gpt2, llama, openvino_llama, gemma, opt, bloom, gated_conv, mamba, *CORRECTED]
DISTRIBUTIONS = [
    {},
    {"top_k": 4},
    {"top_p": 0.6},
    {"temperature": 0.7},
    {"top_k": 6, "top_p": 0.9, "temperature": 1.4},
]


@pytest.mark.parametrize("maker", [*ARCHITECTURES, projected_opt])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_log_prob_is_that_of_the_law_drawn_from(maker, distribution):
    lm = build(maker, forbidden_tokens=(0, 3))
    prefix = prefixes()
    samples = lm.sample(prefix, num_samples=4, max_new_tokens=6, seed=1, **distribution)
    expected = plain_log_prob(lm, whole(prefix, samples.tokens), 5, Decoding(**distribution)).view(3, 4)
    assert torch.allclose(samples.log_prob, expected, atol=1e-4)
    assert not torch.isin(samples.tokens, torch.tensor([0, 3])).any()


@pytest.mark.parametrize("maker", ARCHITECTURES)
def test_scores_and_features_equal_the_plain_forward_pass(maker):
    lm = build(maker, forbidden_tokens=(2,))
    features = StateFeatures((0, 2))
    prefix = prefixes(2)
    for length in (1, 9):
        samples = lm.sample(prefix, num_samples=3, max_new_tokens=length, features=features)
        rows = whole(prefix, samples.tokens)
        assert torch.allclose(lm.log_prob(rows, prefix_length=5), plain_log_prob(lm, rows, 5), atol=1e-4)
        with torch.no_grad():
            states = lm.model(rows, output_hidden_states=True).hidden_states
        means = torch.cat([states[layer][:, 5:].mean(1) for layer in features.layers], -1)
        handed_on = samples.features.flatten(0, 1)
        assert torch.allclose(handed_on[:, : -len(STATISTICS)], means, atol=1e-3)
        assert torch.allclose(lm.state_features(rows, prefix_length=5, features=features), handed_on, atol=1e-3)


class Shuffled:
    """Lets samples go on from others of their prefix, by lot, after every token."""

    def __init__(self, num_prefixes: int, num_samples: int) -> None:
        self.shape = (num_prefixes, num_samples)
        self.generator = torch.Generator().manual_seed(8)
        self.beginnings = []

    def proposal(self, step, logits, summary):
        """Nothing else is proposed."""

    def after(self, length, written, pool):
        own = torch.randint(self.shape[1], self.shape, generator=self.generator)
        index = (own + torch.arange(self.shape[0])[:, None] * self.shape[1]).flatten()
        assert len(index.unique()) < len(index)
        self.beginnings.append(written.tokens[index, :length].clone())
        return index


@pytest.mark.parametrize("num_samples", [6, 40])
@pytest.mark.parametrize("maker", ARCHITECTURES)
def test_samples_go_on_from_others(maker, num_samples):
    """Whatever a sample has of its own goes with it: memory, logits, tokens, log-probability, features, its end."""
    lm = build(maker, forbidden_tokens=(2,), end_token=7)
    features, prefix = StateFeatures((0, 2)), prefixes(2)
    for length in (4, 10):
        resampler = Shuffled(2, num_samples)
        options = {"num_samples": num_samples, "max_new_tokens": length, "features": features, "seed": 2}
        samples = lm.sample(prefix, **options, resampler=resampler)
        rows = whole(prefix, samples.tokens)
        assert torch.allclose(lm.log_prob(rows, prefix_length=5), samples.log_prob.flatten(), atol=1e-4)
        expected = lm.state_features(rows, prefix_length=5, features=features)
        assert torch.allclose(expected, samples.features.flatten(0, 1), atol=1e-3)
        assert torch.equal(lm.lengths(samples.tokens), samples.lengths)
        assert torch.equal(rows[:, 5 : 4 + length], resampler.beginnings[-1][:, : length - 1])
        assert not torch.equal(samples.tokens, lm.sample(prefix, **options).tokens)


class OfTheEnded(Shuffled):
    """Lets every sample go on from one that has ended, as soon as there is one of each prefix."""

    def after(self, length, written, pool):
        ended = ~written.alive.view(self.shape)
        if not ended.any(1).all():
            return None
        return (ended.int().argmax(1) + torch.arange(self.shape[0]) * self.shape[1]).repeat_interleave(self.shape[1])


@pytest.mark.parametrize("maker", ARCHITECTURES)
@pytest.mark.parametrize("features", [StateFeatures((0, 2)), StateFeatures(()), None])
def test_samples_that_all_go_on_from_ended_ones_have_ended(maker, features):
    lm = build(maker, forbidden_tokens=range(6, VOCAB)).ending(4)
    prefix, options = prefixes(2), {"num_samples": 20, "max_new_tokens": 8, "features": features}
    samples = lm.sample(prefix, **options, resampler=OfTheEnded(2, 20))
    assert (samples.tokens == samples.tokens[:, :1]).all()
    assert (samples.lengths < 8).all()
    assert torch.equal(lm.lengths(samples.tokens), samples.lengths)
    rows = whole(prefix, samples.tokens)
    assert torch.allclose(lm.log_prob(rows, prefix_length=5), samples.log_prob.flatten(), atol=1e-4)
    if features is not None:
        expected = lm.state_features(rows, prefix_length=5, features=features)
        assert torch.allclose(expected, samples.features.flatten(0, 1), atol=1e-3)


@pytest.mark.parametrize("maker", ARCHITECTURES)
def test_samples_with_the_same_beginning_are_fed_once(maker):
    """They part by and by, some end, and each has its own numbers all the same."""
    lm = build(maker, forbidden_tokens=range(6, VOCAB)).ending(4)
    features, prefix = StateFeatures((0, 2)), prefixes(3)
    alone = [lm.sample(prefix, num_samples=50, max_new_tokens=7, features=features, rows_per_batch=3)]
    numbers = []
    lm.model.get_input_embeddings().register_forward_hook(lambda module, given, output: numbers.append(len(given[0])))
    together = lm.sample(prefix, num_samples=50, max_new_tokens=7, features=features)
    assert torch.equal(together.tokens, alone[0].tokens)
    assert torch.allclose(together.log_prob, alone[0].log_prob, atol=1e-4)
    assert torch.allclose(together.features, alone[0].features, atol=1e-3)
    begun = together.tokens[:, :, 0]
    assert max(len(own.unique()) for own in begun) <= 6  # of 6 tokens
    fed = numbers[-7:]
    assert 18 == fed[0] < fed[1] <= max(fed) <= 150


def test_samples_stop_at_a_string_whatever_rows_they_share(byte_lm):
    """Of four bytes two stop: most samples share a row with others, and fewer rows are fed from step to step."""
    lm = CausalLM(byte_lm.model, byte_lm.tokenizer, forbidden_tokens=set(range(257)) - {68, 69, 70, 71})
    prefix, features = prefixes(3), StateFeatures((0, 2))
    strings = lm.tokenizer.batch_decode([[69, 70], [71]])
    options = {"num_samples": 50, "max_new_tokens": 8, "features": features, "stop": strings, "seed": 3}
    together, alone = lm.sample(prefix, **options), lm.sample(prefix, **options, rows_per_batch=1)
    assert torch.equal(together.tokens, alone.tokens)
    assert torch.equal(together.lengths, alone.lengths)
    assert len(together.lengths.unique()) > 5
    assert torch.allclose(together.log_prob, alone.log_prob, atol=1e-4)
    assert torch.allclose(together.features, alone.features, atol=1e-3)


@pytest.mark.parametrize("num_samples", [5, 40])  # 40 share rows
@pytest.mark.parametrize("end_token", [None, 7])
def test_a_kept_sample_is_not_drawn(end_token, num_samples):
    lm, features = build(gpt2, end_token=end_token), StateFeatures((1,))
    prefix, kept = prefixes(3), torch.tensor([[4, 9, 1, 3], [8, 7, 7, 7], [20, 30, 6, 7]])
    options = {"num_samples": num_samples, "max_new_tokens": 4, "features": features, "seed": 1}
    samples, free = lm.sample(prefix, **options, kept=kept), lm.sample(prefix, **options)
    assert torch.equal(samples.tokens[:, 0], kept)
    assert torch.equal(samples.tokens[:, 1:], free.tokens[:, 1:])
    rows = whole(prefix, samples.tokens)
    assert torch.allclose(lm.log_prob(rows, prefix_length=5), samples.log_prob.flatten())
    expected = lm.state_features(rows, prefix_length=5, features=features)
    assert torch.allclose(expected, samples.features.flatten(0, 1), atol=1e-3)
    assert samples.lengths[:, 0].tolist() == ([4, 2, 4] if end_token else [4, 4, 4])


def test_projected_states_are_refused_where_they_are_narrower():
    lm = build(projected_opt)
    samples = lm.sample(prefixes(), num_samples=2, max_new_tokens=3, features=StateFeatures((0, 1)))
    assert samples.features.shape == (3, 2, 2 * 16 + len(STATISTICS))
    with pytest.raises(LexergyError, match=r"some of 0 .. 1, the last layer of the LM whose states"):
        lm.sample(prefixes(), num_samples=2, max_new_tokens=3, features=StateFeatures((2,)))


def test_statistics_by_hand():
    lm = build(llama)
    rows = prefixes(2, 9)
    statistics = lm.state_features(rows, prefix_length=5, features=StateFeatures((1,)))[:, -len(STATISTICS) :]
    with torch.no_grad():
        log_probs = lm.model(rows).logits[:, 4:-1].double().log_softmax(-1)
    picked = log_probs.gather(-1, rows[:, 5:, None]).squeeze(-1)
    entropy = -(log_probs.exp() * log_probs).sum(-1)
    variance = (log_probs.exp() * log_probs**2).sum(-1) - entropy**2
    rank = (log_probs > picked.unsqueeze(-1)).sum(-1)
    expected = [
        picked.mean(-1),
        picked.std(-1, correction=0),
        picked.amin(-1),
        entropy.mean(-1),
        entropy.std(-1, correction=0),
        rank.log1p().mean(-1),
        (rank == 0).double().mean(-1),
        (picked + entropy).sum(-1) / variance.sum(-1).sqrt(),
    ]
    assert torch.allclose(statistics.double(), torch.stack(expected, -1), atol=1e-3)


@pytest.mark.parametrize("maker", [gpt2, llama, openvino_llama, bloom, corrected_llama, corrected_openvino_llama])
def test_batch_and_chunk_sizes_never_change_samples(maker):
    lm, prefix = build(maker), prefixes()
    reference = lm.sample(prefix, num_samples=7, max_new_tokens=5, seed=9)
    for rows in (1, 3, 8, 100):
        assert torch.equal(
            lm.sample(prefix, num_samples=7, max_new_tokens=5, seed=9, rows_per_batch=rows).tokens,
            reference.tokens,
        )
    chunks = list(lm.sample_chunks(prefix, num_samples=7, chunk_size=3, max_new_tokens=5, seed=9))
    assert torch.equal(torch.cat([chunk.tokens for chunk in chunks], 1), reference.tokens)
    alone = lm.sample(prefix[1:2], num_samples=7, max_new_tokens=5, seed=9, prefix_ids=[1])
    assert torch.equal(alone.tokens[0], reference.tokens[1])
    assert not torch.equal(lm.sample(prefix, num_samples=7, max_new_tokens=5, seed=8).tokens, reference.tokens)


@pytest.mark.parametrize("maker", [llama, openvino_llama, corrected_llama, corrected_openvino_llama])
def test_samples_follow_the_exact_law(maker):
    """Chi-square of 4,000 samples of two tokens against all 36 enumerated; fails by chance once in 1,000."""
    lm = build(maker, forbidden_tokens=range(6, VOCAB))
    prefix = prefixes(1)
    pairs = torch.tensor(list(itertools.product(range(6), repeat=2)))
    distribution = plain_log_prob(lm, whole(prefix, pairs.unsqueeze(0)), 5).exp()
    assert distribution.sum() == pytest.approx(1, abs=1e-6)
    tokens = lm.sample(prefix, num_samples=4000, max_new_tokens=2, seed=2).tokens[0]
    observed = torch.bincount(tokens[:, 0] * 6 + tokens[:, 1], minlength=36)
    chi_square = ((observed - 4000 * distribution) ** 2 / (4000 * distribution)).sum()
    assert chi_square < 66.6  # 35 degrees of freedom


@pytest.mark.parametrize("maker", [llama, openvino_llama])
def test_sampling_stops_at_the_end_token(maker):
    lm = build(maker, forbidden_tokens=(4,)).ending(4)
    prefix, features = prefixes(2), StateFeatures((2,))
    samples = lm.sample(prefix, num_samples=20, max_new_tokens=8, features=features)
    assert (samples.lengths < 8).any()
    assert (samples.lengths == 8).any()
    for row, length, log_prob, handed_on in zip(
        whole(prefix, samples.tokens),
        samples.lengths.flatten(),
        samples.log_prob.flatten(),
        samples.features.flatten(0, 1),
        strict=True,
    ):
        assert (row[5 + length - 1] == 4) == bool((row[5:] == 4).any())
        assert (row[5 + length :] == 4).all()
        for cut in (row[None, : 5 + length], row[None]):
            assert lm.log_prob(cut, prefix_length=5).item() == pytest.approx(log_prob.item(), abs=1e-4)
            assert torch.allclose(lm.state_features(cut, prefix_length=5, features=features)[0], handed_on, atol=1e-3)


def test_texts_that_end_have_a_distribution_of_their_own():
    lm = EnumerableLM(sharpness=4.0, forbidden_tokens=(0, 2)).ending(2)
    rows = all_sequences(7, 3)
    ends = rows.eq(2).int()
    after = ends.cumsum(1) > ends  # the end
    texts = rows[~(after & rows.ne(2)).any(1)]  # padded with it
    log_prob = lm.log_prob(torch.cat([torch.ones(len(texts), 1, dtype=torch.long), texts], 1), prefix_length=1)
    assert log_prob.exp().sum().item() == pytest.approx(1, abs=1e-5)
    assert_sampler_contract(lm, torch.tensor([[1], [5]]), 3)
    assert_sampler_contract(lm, torch.tensor([[1]]), 3, top_k=4)


def test_an_lm_with_an_end_is_saved_and_ends_or_goes_on(tmp_path, byte_lm):
    lm = byte_lm.endless()
    assert (lm.may_end, byte_lm.may_end, byte_lm.end_token) == (False, True, None)
    ending = lm.ending()
    assert (ending.end_token, ending.forbidden_tokens, lm.forbidden_tokens) == (256, (), (256,))
    ending.save_pretrained(tmp_path)
    again = CausalLM.from_pretrained(tmp_path)
    assert again.end_token == 256
    assert again.fingerprint() == ending.fingerprint() != lm.fingerprint()
    assert ending.endless().forbidden_tokens == (256,)


def test_a_start_token_stands_before_every_prefix():
    lm, plain = build(llama, start_token=1), build(llama)
    rows = prefixes(2, 6)
    started = torch.cat((torch.ones(2, 1, dtype=torch.long), rows), 1)
    assert torch.allclose(lm.log_prob(rows, prefix_length=2), plain.log_prob(started, prefix_length=3), atol=1e-5)
    assert torch.allclose(lm.log_prob(rows, prefix_length=0), plain.log_prob(started, prefix_length=1), atol=1e-5)
    assert lm.max_length == 31


@pytest.mark.parametrize("maker", [llama, openvino_llama])
def test_training_in_place_forgets_the_prefix_it_ran(maker):
    lm, prefix = build(maker), prefixes(1)
    before, drawn = lm.next_log_prob(prefix), lm.sample(prefix, num_samples=3, max_new_tokens=4)
    with torch.no_grad():
        for weight in lm.model.parameters():
            weight.mul_(1.5)
    after = lm.next_log_prob(prefix)
    assert not torch.allclose(before, after)
    assert torch.allclose(after, CausalLM(lm.model).next_log_prob(prefix))
    again = lm.sample(prefix, num_samples=3, max_new_tokens=4)
    assert not torch.allclose(again.log_prob, drawn.log_prob)
    assert torch.allclose(again.log_prob[0], plain_log_prob(lm, whole(prefix, again.tokens), 5), atol=1e-4)


def test_fast_linears_leave_the_model_as_it_was():
    model = build(gpt2).model
    tokens = prefixes(2)
    with torch.no_grad():
        plain = model(tokens).logits
        with fast_linears(model):
            turned = model(tokens).logits
        assert torch.allclose(plain, turned, atol=1e-5)
        assert torch.equal(model(tokens).logits, plain)
    assert not any("forward" in vars(module) for module in model.modules())


def test_reference_finds_the_model_again(tmp_path):
    build(llama).model.save_pretrained(tmp_path / "model")
    lm = CausalLM.from_pretrained(tmp_path / "model", forbidden_tokens=[3, 1])
    (tmp_path / "run").mkdir()
    lm.save_pretrained(tmp_path / "run")
    again = CausalLM.from_pretrained(tmp_path / "run")
    assert again.forbidden_tokens == (1, 3)
    assert again.fingerprint() == lm.fingerprint()
    assert build(gpt2).fingerprint() != lm.fingerprint()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda lm: lm.sample(prefixes(1, 0), num_samples=2, max_new_tokens=2), "prefix is empty"),
        (lambda lm: lm.sample(prefixes(1, 30), num_samples=2, max_new_tokens=3), "more than the 32"),
        (lambda lm: lm.sample(prefixes(), num_samples=2, max_new_tokens=2, top_k=0), "`top_k` is 0"),
        (lambda lm: lm.sample(prefixes(), num_samples=0, max_new_tokens=2), "`num_samples` is 0"),
        (lambda lm: lm.sample(prefixes() + 30, num_samples=1, max_new_tokens=2), "another tokenizer"),
        (
            lambda lm: lm.sample(prefixes()[0], num_samples=1, max_new_tokens=2),
            "expected \\(prefixes, length\\)",
        ),
        (lambda lm: lm.log_prob(prefixes(), prefix_length=5), "`prefix_length` is 5"),
        (lambda lm: lm.encode("hello"), "no tokenizer"),
        (
            lambda lm: lm.state_features(prefixes(), prefix_length=2, features=StateFeatures((9,))),
            "`layers` is",
        ),
    ],
)
def test_mistakes_are_explained(call, message):
    with pytest.raises(LexergyError, match=message):
        call(build(llama))


def test_a_truncated_model_file_is_explained(tmp_path):
    build(llama).model.save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:500])
    with pytest.raises(LexergyError, match="safetensors"):
        CausalLM.from_pretrained(tmp_path)
