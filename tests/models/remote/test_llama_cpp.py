"""A real llama.cpp server, with the 4-bit SmolLM2 that Lexergy itself can run."""

import math

import pytest
import torch

from lexergy.core.decoding import Decoding, truncated_log_probs
from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM
from lexergy.models.joint.model import ResidualEBM
from lexergy.models.loading.sources import CAUSAL_LMS, packaged_paths
from lexergy.models.remote.lm import RemoteLM

xllamacpp = pytest.importorskip("xllamacpp", reason="llama.cpp's server is not installed: pip install xllamacpp")

PROMPT = "My fellow citizens, the greatest task before"


@pytest.fixture(scope="module")
def url():
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(packaged_paths(CAUSAL_LMS["smollm2-135m"])[0])
    parameters.n_parallel, parameters.n_ctx, parameters.port = 8, 2048, 0
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(parameters)
    yield server.listening_address
    del server


@pytest.fixture(scope="module")
def remote(url) -> RemoteLM:
    return RemoteLM(url, tokenizer="smollm2-135m").without_special_tokens()


@pytest.fixture(scope="module")
def local() -> CausalLM:
    return CausalLM.from_pretrained("smollm2-135m").without_special_tokens()


def test_it_is_known_for_what_it_is(remote):
    assert remote.server.dialect.name == "llama.cpp"
    assert remote.max_length == 256  # of each of its slots
    assert remote.vocab_size == 49152
    assert len(remote.forbidden_tokens) == 17


@pytest.mark.parametrize("decoding", [Decoding(), Decoding(0.7, 20, 0.8)])
def test_samples_have_the_log_probabilities_of_what_they_were_drawn_from(remote, local, decoding):
    # llama.cpp multiplies in 8 bits: tokens of probability 1e-3 and more differ by some hundredths.
    prefix = remote.encode(PROMPT)[None]
    samples = remote.sample(prefix, num_samples=4, max_new_tokens=6, seed=2, **vars(decoding))
    logits = torch.stack(
        [local.next_log_prob(torch.cat([prefix.expand(4, -1), samples.tokens[0, :, :place]], 1)) for place in range(6)],
        1,
    )  # (4, 6, V)
    here = truncated_log_probs(logits.flatten(0, 1), decoding).view(4, 6, -1)
    here = here.gather(-1, samples.tokens[0].unsqueeze(-1)).squeeze(-1).sum(1)  # (4,)
    assert (here - samples.log_prob[0]).abs().mean() < 0.5
    again = remote.sample(prefix, num_samples=2, first_sample=2, max_new_tokens=6, seed=2, **vars(decoding))
    assert (again.tokens[0] == samples.tokens[0, 2:]).double().mean() > 0.5  # but for rounding, the same


def test_nothing_of_its_own_truncates(remote, local):
    # Its defaults (top-k 40, top-p .95, min-p .05) would leave next to nothing of the tail. A right sampler fails with
    # probability 1e-4: 3.9 standard errors.
    prefix, count = remote.encode("The")[None], 60
    likely = local.next_log_prob(prefix)[0].topk(40)
    tail = 1 - float(likely.values.exp().sum())
    drawn = remote.sample(prefix, num_samples=count, max_new_tokens=1, seed=5).tokens.flatten()
    share = float((~torch.isin(drawn, likely.indices)).double().mean())
    assert tail > 0.1
    assert abs(share - tail) < 3.9 * math.sqrt(tail * (1 - tail) / count)


def test_tokens_that_end_in_the_middle_of_a_letter_are_all_told(remote, monkeypatch):
    dialect = remote.server.dialect
    letter = remote.tokenizer("\N{SNOWMAN}", add_special_tokens=False)["input_ids"]
    assert len(letter) > 1
    body, first = dialect.body, {"logit_bias": [[letter[0], 100.0]]}
    monkeypatch.setattr(dialect, "body", lambda draft: body(draft) | first)
    samples = remote.sample(remote.encode(PROMPT)[None], num_samples=1, max_new_tokens=3)
    assert samples.tokens.flatten().tolist() == [letter[0]] * 3
    assert samples.log_prob.isnan().all()


def test_texts_end_and_stop(remote):
    samples = remote.ending().sample(remote.encode("The end.")[None], num_samples=2, max_new_tokens=12, stop=["."])
    for row, length in zip(samples.tokens[0], samples.lengths[0].tolist(), strict=True):
        text = remote.decode(row[:length])[0]
        assert length == 12 or text.endswith("<|im_end|>") or "." in text


def test_joint_model_generates_and_reranks_but_has_no_perplexity(remote):
    joint = ResidualEBM(remote, lambda tokens: (tokens == 198).sum(-1).double())
    generation = joint.generate(PROMPT, num_candidates=4, max_new_tokens=5, top_k=10)
    assert all(math.isfinite(candidate.log_prob) for candidate in generation.candidates)
    ranked = joint.rerank(PROMPT, [" us is peace.", " us\n\n"])
    assert ranked.best == 0
    with pytest.raises(LexergyError, match=r"llama.cpp gives no log-probabilities of a prompt; .*`perplexity: null`"):
        joint.perplexity(remote.encode(PROMPT)[None], prefix_length=2, num_samples=2)
