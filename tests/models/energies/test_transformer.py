"""UniT, BiT and BiT*: what each position sees, what is pooled, what is trained, what is shared."""

import time
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from lexergy.errors import LexergyError
from lexergy.models.architectures.scratch import build_causal_lm, build_masked_lm
from lexergy.models.causal.lm import CausalLM
from lexergy.models.energies import Lora, NgramTables, TransformerEnergy, as_energy
from lexergy.models.energies.text import token_rows
from toys.energies import wake
from toys.language_models import BYTE_LM, random_tokens, tiny_gpt2

TABLES = NgramTables(orders=(2, 3), buckets=64, width=4)


def gpt2(attention: str = "sdpa") -> PreTrainedModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        return tiny_gpt2(257, 64, initializer_range=0.5, attn_implementation=attention)


def opt() -> PreTrainedModel:
    """Its embeddings are narrower than the model, and so are its last states."""
    model = build_causal_lm(**BYTE_LM, seed=1, architecture="opt", embedding_size=12)
    for weight in model.parameters():
        weight.data.mul_(15 if weight.ndim == 2 else 1)  # a distribution that depends on the tokens, as after training
    return model


def roberta() -> PreTrainedModel:
    return build_masked_lm(**BYTE_LM, seed=2, architecture="roberta", pad_token=256)


def hidden_states(energy: TransformerEnergy, prefix: Tensor, continuations: Tensor) -> Tensor:
    with torch.no_grad():
        rows = token_rows(prefix, continuations)
        ngrams = None if energy.ngrams is None else energy.ngrams(rows.tokens)
        return energy._hidden_states(rows, ngrams)


def sees_later(energy: TransformerEnergy) -> bool:
    """Whether another last token changes the state at an earlier position."""
    prefix, continuations = random_tokens(1, 3), random_tokens(1, 1, 5, seed=1)
    changed = continuations.clone()
    changed[..., -1] = (changed[..., -1] + 1) % 256
    one, other = hidden_states(energy, prefix, continuations), hidden_states(energy, prefix, changed)
    assert not torch.allclose(one[:, -1], other[:, -1])
    return not torch.equal(one[:, :-1], other[:, :-1])


@pytest.mark.parametrize("tables", [None, TABLES])
def test_unit_does_not_see_later_tokens(byte_lm: CausalLM, tables: NgramTables | None) -> None:
    assert not sees_later(wake(TransformerEnergy.from_causal_lm(byte_lm, ngram_tables=tables)))


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_bit_from_the_lm_without_its_mask_sees_all_tokens(attention: str, kind: str) -> None:
    model = build_causal_lm(**BYTE_LM, seed=1) if kind == "llama" else gpt2()
    model.set_attn_implementation(attention)
    assert sees_later(TransformerEnergy.from_causal_lm(model, causal=False).eval())


def test_bit_from_a_masked_lm_sees_all_tokens(byte_masked_lm_folder: Path) -> None:
    assert sees_later(TransformerEnergy.from_masked_lm(byte_masked_lm_folder).eval())


@pytest.mark.parametrize("tables", [None, TABLES])
def test_unit_from_an_opt_and_bit_from_a_roberta(tmp_path: Path, tables: NgramTables | None) -> None:
    unit = wake(TransformerEnergy.from_causal_lm(opt(), ngram_tables=tables))
    bit = wake(TransformerEnergy.from_masked_lm(roberta(), ngram_tables=tables))
    assert not sees_later(unit)
    assert sees_later(bit)
    prefix, continuations = random_tokens(2, 3), random_tokens(2, 2, 4)
    for energy in (unit, bit):
        energy.save_pretrained(tmp_path)
        with torch.no_grad():
            scores = energy.score(prefix, continuations)
            assert torch.equal(TransformerEnergy.from_pretrained(tmp_path).score(prefix, continuations), scores)
        assert scores.std() > 0.01


def test_bit_without_mask_runs_in_mixed_precision(byte_lm: CausalLM) -> None:
    energy = wake(TransformerEnergy.from_causal_lm(byte_lm, causal=False))
    prefix, continuations = random_tokens(2, 3), random_tokens(2, 2, 4)
    with torch.no_grad():
        full = energy.score(prefix, continuations)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            half = energy.score(prefix, continuations)
    torch.testing.assert_close(half.float(), full, atol=0.1, rtol=0.1)


@pytest.mark.parametrize("pooling", ["continuation", "sequence"])
@pytest.mark.parametrize("causal", [True, False])
def test_energy_is_the_head_on_the_mean_over_exactly_the_pooled_positions(
    byte_lm: CausalLM, causal: bool, pooling: str
) -> None:
    energy = wake(TransformerEnergy.from_causal_lm(byte_lm, causal=causal, pooling=pooling))
    prefix, continuations = random_tokens(2, 5), random_tokens(2, 3, 4, seed=1)
    states = hidden_states(energy, prefix, continuations)  # (6, 9, D)
    first = 5 if pooling == "continuation" else 0
    expected = states[:, first:].mean(1) @ energy.head.weight[0] + energy.head.bias
    with torch.no_grad():
        torch.testing.assert_close(energy.score(prefix, continuations), expected.view(2, 3).detach())


def test_bit_may_read_the_first_position(
    byte_lm: CausalLM, byte_masked_lm_folder: Path, syllable_encoder_folder: Path
) -> None:
    energy = wake(TransformerEnergy.from_masked_lm(byte_masked_lm_folder, pooling="first"))
    prefix, continuations = random_tokens(2, 3), random_tokens(2, 3, 4, seed=1)
    states = hidden_states(energy, prefix, continuations)  # (6, 7, D)
    expected = states[:, 0] @ energy.head.weight[0] + energy.head.bias
    with torch.no_grad():
        torch.testing.assert_close(energy.score(prefix, continuations), expected.view(2, 3).detach())
        encoder = as_energy(wake(TransformerEnergy.from_encoder(syllable_encoder_folder, pooling="first")), byte_lm)
        rows = encoder._rows(prefix, continuations)
        assert rows.tokens[:, 0].eq(2).all()  # [CLS]
        states = encoder._hidden_states(rows, None)[:, 0]
        expected = states @ encoder.head.weight[0] + encoder.head.bias
        torch.testing.assert_close(encoder.score(prefix, continuations), expected.view(2, 3))
    with pytest.raises(LexergyError, match="'first' and the energy is causal"):
        TransformerEnergy.from_causal_lm(byte_lm, pooling="first")


@pytest.mark.parametrize("kind", ["unit", "bit", "encoder"])
def test_whole_windows_may_be_given_without_a_prefix(
    kind: str, byte_lm: CausalLM, byte_masked_lm_folder: Path, syllable_encoder_folder: Path
) -> None:
    sources = {
        "unit": lambda: TransformerEnergy.from_causal_lm(byte_lm, pooling="sequence"),
        "bit": lambda: TransformerEnergy.from_masked_lm(byte_masked_lm_folder, pooling="sequence"),
        "encoder": lambda: TransformerEnergy.from_encoder(syllable_encoder_folder, pooling="sequence"),
    }
    energy, windows = as_energy(wake(sources[kind]()), byte_lm), random_tokens(3, 2, 9)
    with torch.no_grad():
        whole = energy.score(windows[:, 0, :0], windows)
        cut = energy.score(windows[:, 0, :4], windows[:, :1, 4:])
    torch.testing.assert_close(whole[:, :1], cut, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("pooling", ["continuation", "sequence"])
@pytest.mark.parametrize("tables", [None, TABLES])
@pytest.mark.parametrize("kind", ["llama", "gpt2", "opt", "lora"])
@pytest.mark.parametrize("prefix_length", [1, 7])
def test_sharing_the_prefix_equals_whole_sequences(
    byte_lm: CausalLM, kind: str, tables: NgramTables | None, pooling: str, prefix_length: int
) -> None:
    source = {"gpt2": gpt2, "opt": opt}.get(kind, lambda: byte_lm)()
    lora = Lora(rank=2) if kind == "lora" else None
    energy = wake(
        TransformerEnergy.from_causal_lm(source, lora=lora, ngram_tables=tables, pooling=pooling)  # type: ignore[arg-type]
    )
    prefix, continuations = random_tokens(3, prefix_length), random_tokens(3, 4, 5, seed=1)
    whole = energy.score(prefix, continuations).detach()  # gradients are on: whole sequences
    with torch.no_grad():
        shared = energy.score(prefix, continuations)
    assert energy._sharing._possible
    assert whole.std() > 0.1
    torch.testing.assert_close(shared, whole, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("causal", [True, False])
def test_batches_and_chunks_do_not_change_results(byte_lm: CausalLM, causal: bool) -> None:
    energy = wake(TransformerEnergy.from_causal_lm(byte_lm, causal=causal, ngram_tables=TABLES))
    prefix, continuations = random_tokens(3, 6), random_tokens(3, 7, 4, seed=1)
    with torch.no_grad():
        together = energy.score(prefix, continuations)
        for rows in (1, 3, 10):
            energy.rows_per_batch = rows
            torch.testing.assert_close(energy.score(prefix, continuations), together, atol=1e-5, rtol=1e-5)
        single = [
            [energy.score(prefix[b : b + 1], continuations[b : b + 1, k : k + 1]) for k in range(7)] for b in range(3)
        ]
    torch.testing.assert_close(torch.tensor(single), together, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("rows", [1, 5, 8])
def test_never_more_rows_than_asked_for(byte_lm: CausalLM, causal: bool, rows: int) -> None:
    energy = TransformerEnergy.from_causal_lm(byte_lm, causal=causal).eval()
    energy._sharing._possible = causal
    energy.rows_per_batch = rows
    seen: list[int] = []
    energy.backbone.register_forward_pre_hook(
        lambda module, arguments, named: seen.append(len(named["input_ids"])), with_kwargs=True
    )
    with torch.no_grad():
        energy.score(random_tokens(5, 3), random_tokens(5, 4, 2))
    assert max(seen) <= rows


def test_sharing_the_prefix_is_faster_than_whole_sequences() -> None:
    sizes = {"vocab_size": 257, "hidden_size": 128, "num_layers": 2, "num_heads": 4, "max_length": 256}
    energy = TransformerEnergy.from_causal_lm(build_causal_lm(**sizes, seed=1)).eval()
    prefix, continuations = random_tokens(1, 120), random_tokens(1, 64, 40)
    energy.rows_per_batch = 64

    def seconds() -> float:
        start = time.process_time()
        energy.score(prefix, continuations)
        return time.process_time() - start

    with torch.no_grad():
        shared = min(seconds() for _ in range(4))
        energy._sharing._possible = False
        whole = min(seconds() for _ in range(4))
    # Some 4 times on a quiet machine; this bound only tells sharing from not sharing on a busy one.
    assert whole > 1.8 * shared


def test_energy_starts_at_zero_and_the_lm_is_not_touched(byte_lm: CausalLM) -> None:
    before = {name: value.clone() for name, value in byte_lm.model.state_dict().items()}
    energy = TransformerEnergy.from_causal_lm(byte_lm, ngram_tables=TABLES)
    scores = energy.score(random_tokens(2, 3), random_tokens(2, 2, 4))
    assert torch.equal(scores, torch.zeros(2, 2))
    with torch.no_grad():
        for parameter in energy.parameters():
            parameter.add_(1)
    assert all(torch.equal(value, before[name]) for name, value in byte_lm.model.state_dict().items())
    assert not any(parameter.requires_grad for parameter in byte_lm.model.parameters())


@pytest.mark.parametrize("lora", [None, Lora(rank=2)])
@pytest.mark.parametrize("kind", ["unit", "bit", "encoder"])
def test_gradients_reach_exactly_the_trainable_parameters(
    byte_lm: CausalLM, byte_masked_lm_folder: Path, syllable_encoder_folder: Path, kind: str, lora: Lora | None
) -> None:
    if kind == "unit":
        energy = TransformerEnergy.from_causal_lm(byte_lm, lora=lora, ngram_tables=TABLES)
    elif kind == "bit":
        energy = TransformerEnergy.from_masked_lm(byte_masked_lm_folder, lora=lora, ngram_tables=TABLES)
    else:
        energy = TransformerEnergy.from_encoder(syllable_encoder_folder, lora=lora)
    as_energy(wake(energy), byte_lm)
    (energy.score(random_tokens(4, 6, seed=1), random_tokens(4, 2, 9)) ** 2).sum().backward()
    for name, parameter in energy.named_parameters():
        assert parameter.requires_grad == (lora is None or "lora_" in name or not name.startswith("backbone."))
        reached = parameter.grad is not None and bool(parameter.grad.any())
        assert reached == parameter.requires_grad, name


def test_dropout_is_off_in_eval_and_on_in_training(syllable_encoder_folder: Path, byte_lm: CausalLM) -> None:
    energy = wake(TransformerEnergy.from_encoder(syllable_encoder_folder)).bind(byte_lm.tokenizer)
    prefix, continuations = random_tokens(1, 6), random_tokens(1, 2, 6, seed=1)
    assert torch.equal(energy.score(prefix, continuations), energy.score(prefix, continuations))
    energy.train()
    assert not torch.equal(energy.score(prefix, continuations), energy.score(prefix, continuations))


def test_start_token_of_the_lm_is_read_too(byte_lm: CausalLM) -> None:
    started = CausalLM(build_causal_lm(**BYTE_LM, seed=1), start_token=256)
    energy = wake(TransformerEnergy.from_causal_lm(started))
    plain = wake(TransformerEnergy.from_causal_lm(byte_lm))
    prefix, continuations = random_tokens(2, 3), random_tokens(2, 2, 4)
    with_start = torch.cat((torch.full((2, 1), 256), prefix), 1)
    with torch.no_grad():
        torch.testing.assert_close(energy.score(prefix, continuations), plain.score(with_start, continuations))


def test_seed_alone_decides_the_initial_weights(byte_lm: CausalLM) -> None:
    state = torch.random.get_rng_state()
    one, same, other = (
        TransformerEnergy.from_causal_lm(byte_lm, lora=Lora(rank=2), ngram_tables=TABLES, seed=seed).state_dict()
        for seed in (5, 5, 6)
    )
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(value, same[name]) for name, value in one.items())
    drawn = [name for name in one if "lora_A" in name or "tables" in name]
    assert drawn
    assert not any(torch.equal(one[name], other[name]) for name in drawn)


def test_wrong_inputs_are_explained(byte_lm: CausalLM) -> None:
    energy = TransformerEnergy.from_causal_lm(byte_lm)
    with pytest.raises(LexergyError, match=r"\(2, 3\) and continuations \(2, 4\); expected \(B, P\)"):
        energy.score(random_tokens(2, 3), random_tokens(2, 4))
    with pytest.raises(LexergyError, match="`pooling` is 'max'"):
        TransformerEnergy.from_causal_lm(byte_lm, pooling="max")  # type: ignore[arg-type]
    with pytest.raises(LexergyError, match="no name to find it by"):
        TransformerEnergy.from_causal_lm(build_causal_lm(**BYTE_LM, seed=1), lora=Lora())
    with pytest.raises(LexergyError, match="LoRA `rank` is 0"):
        Lora(rank=0)
    with pytest.raises(LexergyError, match=r"some of .*q_proj"):
        TransformerEnergy.from_causal_lm(byte_lm, lora=Lora(target_modules=("query",)))
    wider = CausalLM(build_causal_lm(**{**BYTE_LM, "vocab_size": 300}, seed=1))
    with pytest.raises(LexergyError, match="knows 257 tokens and the LM writes 300"):
        as_energy(energy, wider)
