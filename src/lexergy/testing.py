"""Exact distributions on a tiny vocabulary, and assertions that users can run on their own classes.

lm, energy = EnumerableLM(), TableEnergy()                      # vocabulary 7, sequences of 4
exact = log_partition(lm, energy, torch.tensor([1]), 3)         # one prefix token, three to come
assert_energy_contract(my_energy, prefix, continuations)
assert_sampler_contract(my_lm, prefix, length=3, top_k=4)
"""

import random
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from torch import Tensor
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from lexergy.core.ends import inside
from lexergy.core.enumeration import all_sequences, sequence_numbers
from lexergy.models.architectures.initialisation import initialised_from
from lexergy.models.causal.language_model import LanguageModel
from lexergy.models.causal.lm import CausalLM, weights_of
from lexergy.models.loading.bars import without_bars
from lexergy.models.masked.lm import MaskedLM
from lexergy.recipes.residual import ResidualRecipe

_ROWS = 4096  # sequences enumerated at once


class EnumerableLM(CausalLM):
    """A random tiny GPT-2 or Llama whose every continuation can be written down.

    Its output layer is multiplied by `sharpness` until the distribution is skewed, because symmetry hides sign bugs.
    """

    def __init__(
        self,
        vocab_size: int = 7,
        *,
        architecture: Literal["gpt2", "llama"] = "gpt2",
        max_length: int = 16,
        hidden_size: int = 16,
        num_layers: int = 2,
        sharpness: float = 12.0,
        seed: int = 0,
        forbidden_tokens: tuple[int, ...] = (),
        tokenizer: PreTrainedTokenizerBase | None = None,
    ) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = _tiny_model(architecture, vocab_size, max_length, hidden_size, num_layers)
            torch.nn.init.normal_(model.get_output_embeddings().weight, std=sharpness / hidden_size)
        super().__init__(model, tokenizer, forbidden_tokens=forbidden_tokens)


class EnumerableMaskedLM(MaskedLM):
    """A random tiny BERT over a few words, whose every sentence of some length can be written down.

    Its special tokens are numbers 0 to 4 ([PAD], [UNK], [CLS], [SEP], [MASK]), the words follow; its embeddings have
    one row more than there are words, as padded ones do.
    """

    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

    def __init__(
        self,
        words: tuple[str, ...] = ("the", "state", "of", "union", "is", "strong"),
        *,
        max_length: int = 32,
        hidden_size: int = 16,
        num_layers: int = 2,
        seed: int = 0,
    ) -> None:
        config = BertConfig(
            vocab_size=len(self.special) + len(words) + 1,
            hidden_size=hidden_size,
            num_hidden_layers=num_layers,
            num_attention_heads=2,
            intermediate_size=2 * hidden_size,
            max_position_embeddings=max_length,
            initializer_range=0.4,
        )
        with initialised_from(seed):
            super().__init__(BertForMaskedLM(config), word_tokenizer((*self.special, *words)))

    @without_bars()
    def save_pretrained(self, folder: str | Path) -> None:
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


class TableEnergy:
    """A random energy for each whole sequence: a callable from token ids (B, L) to (B,)."""

    def __init__(self, vocab_size: int = 7, length: int = 4, *, scale: float = 1.0, seed: int = 0) -> None:
        self.vocab_size = vocab_size
        self.length = length
        generator = torch.Generator().manual_seed(seed)
        self.table = scale * torch.randn(vocab_size**length, generator=generator, dtype=torch.double)

    def __call__(self, tokens: Tensor) -> Tensor:  # (B, L) -> (B,)
        assert tokens.shape[1] == self.length, f"{tokens.shape[1]} tokens given to a table over {self.length}"
        return self.table[sequence_numbers(tokens.cpu(), self.vocab_size)].to(tokens.device)


def exact_log_prob(
    lm: CausalLM,
    prefix: Tensor,  # (P,)
    length: int,
    *,
    top_k: int | None = None,
    top_p: float | None = None,
    temperature: float = 1.0,
) -> Tensor:  # (V ** C,)
    """log P_LM of all continuations, from logits in float64; -inf where truncation cuts off.

    Of an LM with an end token, each text counts once: as the row that is padded with it.
    """
    continuations = all_sequences(lm.vocab_size, length)
    counted = inside(lm.lengths(continuations), length)  # (V ** C, C)
    padded = (counted | (continuations == lm.end_token)).all(1) if lm.end_token is not None else counted.all(1)
    whole = torch.cat([prefix.expand(len(continuations), -1), continuations], dim=1).to(lm.device)
    log_prob = torch.zeros(len(whole), dtype=torch.double)
    with torch.no_grad():
        for rows, text, total in zip(whole.split(_ROWS), counted.split(_ROWS), log_prob.split(_ROWS), strict=True):
            logits = lm.model(input_ids=rows).logits.double()[:, len(prefix) - 1 : -1]  # (b, C, V)
            logits = lm.correct(logits, lm.contexts(rows)[:, len(prefix) : -1]).cpu()
            logits[..., list(lm.forbidden_tokens)] = -torch.inf
            truncated = _truncate((logits / temperature).log_softmax(-1), top_k, top_p)
            own = truncated.gather(-1, rows[:, len(prefix) :, None].cpu()).squeeze(-1)  # (b, C)
            total += own.masked_fill(~text, 0).sum(1)
    return log_prob.masked_fill(~padded, -torch.inf)


def log_partition(
    lm: CausalLM, energy: Callable[[Tensor], Tensor], prefix: Tensor, length: int, **truncation: Any
) -> Tensor:  # ()
    """log Z = log sum_x P_LM(x | prefix) exp(-E(prefix, x)), over all continuations."""
    return torch.logsumexp(_log_score(lm, energy, prefix, length, truncation), dim=0)


def joint_log_prob(
    lm: CausalLM, energy: Callable[[Tensor], Tensor], prefix: Tensor, length: int, **truncation: Any
) -> Tensor:  # (V ** C,)
    """log P(x | prefix) = log P_LM(x | prefix) - E(prefix, x) - log Z of all continuations (Eq. 2)."""
    return _log_score(lm, energy, prefix, length, truncation).log_softmax(dim=0)


def chi_square_p_value(counts: Tensor, probabilities: Tensor, *, least_expected: float = 5.0) -> float:  # (M,), (M,)
    """How likely counts this far from their expectations are if the probabilities are right (Pearson 1900).

    Outcomes expected fewer than `least_expected` times are pooled. 0 when something impossible was counted.
    """
    counts, expected = counts.double(), probabilities.double() * counts.sum()
    if (counts[expected == 0] > 0).any():
        return 0.0
    rare = expected < least_expected
    counts = torch.cat([counts[~rare], counts[rare].sum()[None]])
    expected = torch.cat([expected[~rare], expected[rare].sum()[None]])
    counts, expected = counts[expected > 0], expected[expected > 0]
    statistic = ((counts - expected) ** 2 / expected).sum()
    degrees = torch.tensor((len(counts) - 1) / 2, dtype=torch.double)
    return float(torch.special.gammaincc(degrees, statistic / 2))


def assert_energy_contract(
    energy: Any,
    prefix: Tensor,  # (B, P)
    continuations: Tensor,  # (B, K, C)
    features: Tensor | None = None,  # (B, K, F)
    *,
    tolerance: float = 1e-5,
) -> None:
    """Assert what every energy promises: `score` gives finite (B, K), each as if it had been scored alone."""
    with torch.no_grad():
        together = energy.score(prefix, continuations, features)
        expected = tuple(continuations.shape[:2])
        assert tuple(together.shape) == expected, f"score has shape {tuple(together.shape)}, expected {expected}"
        assert together.isfinite().all(), "score is not finite"
        for row in range(expected[0]):
            for place in range(expected[1]):
                own = slice(row, row + 1), slice(place, place + 1)
                alone = energy.score(prefix[own[0]], continuations[own], None if features is None else features[own])
                gap = float((together[own] - alone).abs())
                assert gap <= tolerance, f"sample {place} of prefix {row} scored alone differs by {gap}"


def assert_sampler_contract(
    lm: LanguageModel,
    prefix: Tensor,  # (B, P)
    length: int,
    *,
    num_samples: int = 2000,
    seed: int = 0,
    failure_rate: float = 1e-4,
    tolerance: float = 1e-4,
    exact_lm: CausalLM | None = None,
    **truncation: Any,
) -> None:
    """Assert what a sampler promises, on an LM whose continuations can be enumerated.

    Each sample's `log_prob` is its exact one; the samples follow the exact distribution (chi-square, which a right
    sampler fails with probability `failure_rate` per prefix); chunks and batches change nothing. Of an LM that runs
    elsewhere, `exact_lm` is the same one in this process.
    """
    exact_lm = weights_of(lm) if exact_lm is None else exact_lm
    options: dict[str, Any] = {"max_new_tokens": length, "seed": seed, **truncation}
    samples = lm.sample(prefix, num_samples=num_samples, **options)
    for row, drawn, log_prob in zip(prefix, samples.tokens.cpu(), samples.log_prob.cpu(), strict=True):
        exact = exact_log_prob(exact_lm, row, length, **truncation)  # (V ** C,)
        indices = sequence_numbers(drawn, lm.vocab_size)  # (K,)
        gap = float((log_prob - exact[indices]).abs().max())
        assert gap <= tolerance, f"a sample's log_prob is {gap} from its exact one"
        counts = indices.bincount(minlength=len(exact))
        p_value = chi_square_p_value(counts, exact.exp())
        assert p_value > failure_rate, f"the samples do not follow the distribution (chi-square p = {p_value:.2g})"
    few = min(num_samples, 25)
    chunks = list(lm.sample_chunks(prefix, num_samples=few, chunk_size=7, rows_per_batch=5, **options))
    tokens = torch.cat([chunk.tokens for chunk in chunks], dim=1)
    assert torch.equal(tokens, samples.tokens[:, :few]), "chunks changed the samples"
    for i in range(len(prefix)):
        alone = lm.sample(prefix[i : i + 1], num_samples=few, prefix_ids=[i], **options)
        assert torch.equal(alone.tokens[0], samples.tokens[i, :few]), "a prefix drawn alone has other samples"


def write_tiny_corpus(folder: str | Path, *, documents: int = 12, sentences: int = 20) -> Path:
    """A folder of short texts, always the same, on which small models learn something within seconds."""
    subjects = ("the people", "our union", "this congress", "every state")
    verbs = ("shall defend", "has paid", "will remember", "may increase")
    objects = ("the public debt", "its duty", "our commerce", "peace abroad")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(documents):
        chosen = random.Random(number)
        text = [f"{chosen.choice(subjects)} {chosen.choice(verbs)} {chosen.choice(objects)}." for _ in range(sentences)]
        (folder / f"{number:02d}.txt").write_text(" ".join(text), encoding="utf-8")
    return folder


def tiny_recipe(corpus: str | Path) -> ResidualRecipe:
    """A recipe that trains an LM and a head on its states, on the texts of `write_tiny_corpus`, within seconds."""
    training = {"learning_rate": 0.01, "max_steps": 5, "batch_size": 8, "evaluate_every": 5}
    lm = {"vocab_size": 300, "hidden_size": 16, "num_layers": 1, "num_heads": 2, "max_length": 16}
    return ResidualRecipe.model_validate(
        {
            "name": "tiny",
            "corpus": {"source": str(corpus), "validation": 0.2, "test": 0.2},
            "windows": {"prefix": 6, "continuation": 5, "train": 40, "validation": 10, "test": 6},
            "lm": {"train": {**lm, "training": training}},
            "energies": {"states": {"kind": "states", "layers": [1], "training": training}},
            "perplexity": {"samples": 8},
            "generation": {"prompts": ["our union"], "candidates": 8, "max_new_tokens": 4},
        }
    )


@without_bars()
def save_tiny_encoder(folder: str | Path, words: Sequence[str], *, num_layers: int = 1, seed: int = 3) -> None:
    """A random BERT of 40 positions that reads text: wordpieces are the words, the full stop and the letters."""
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    whole_words = [word for word in dict.fromkeys(words) if word not in letters]
    pieces = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *whole_words,
        ".",
        *letters,
        *(f"##{letter}" for letter in letters),
    ]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    edges = (vocabulary["[SEP]"], vocabulary["[CLS]"])
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", edges[0]), ("[CLS]", edges[1]))
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep")}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=num_layers,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=40,
    )
    with initialised_from(seed):
        BertModel(config).save_pretrained(folder)


def letter_tokenizer(letters: str = "abcdefg") -> PreTrainedTokenizerFast:
    """A token per letter; whatever is none of them is read as the first, and texts are taken to follow it."""
    known = {letter: number for number, letter in enumerate(letters)}
    tokenizer = Tokenizer(models.WordLevel(known, unk_token=letters[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=letters[0])


@contextmanager
def served_lm(lm: LanguageModel) -> Iterator[str]:
    """A server of Lexergy's for this LM, for as long as the block lasts: its address. Needs the extra `serve`."""
    from lexergy.serve.api.app import create_app
    from lexergy.serve.api.catalogue import catalogue_of
    from lexergy.serve.api.server import server_of
    from lexergy.serve.api.settings import ServerSettings

    settings = ServerSettings()
    server = server_of(create_app(lambda: catalogue_of(tiny_recipe("texts"), lm, {}), settings), settings)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        while server.desk.catalogue is None and server.desk.failure is None:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def word_tokenizer(words: tuple[str, ...]) -> PreTrainedTokenizerFast:
    """A token per word, between [CLS] and [SEP]."""
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    edges = [(name, words.index(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=edges)
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def _tiny_model(
    architecture: str, vocab_size: int, max_length: int, hidden_size: int, num_layers: int
) -> PreTrainedModel:
    shared: dict[str, Any] = {"vocab_size": vocab_size, "bos_token_id": None, "eos_token_id": None}
    if architecture == "gpt2":
        gpt2_config = GPT2Config(
            **shared,
            initializer_range=0.3,
            n_positions=max_length,
            n_embd=hidden_size,
            n_layer=num_layers,
            n_head=2,
            tie_word_embeddings=False,
        )
        return GPT2LMHeadModel(gpt2_config)
    llama_config = LlamaConfig(
        **shared,
        initializer_range=0.3,
        max_position_embeddings=max_length,
        hidden_size=hidden_size,
        intermediate_size=2 * hidden_size,
        num_hidden_layers=num_layers,
        num_attention_heads=2,
    )
    return LlamaForCausalLM(llama_config)


def _log_score(
    lm: CausalLM, energy: Callable[[Tensor], Tensor], prefix: Tensor, length: int, truncation: dict[str, Any]
) -> Tensor:  # (V ** C,)
    continuations = all_sequences(lm.vocab_size, length)
    whole = torch.cat([prefix.expand(len(continuations), -1), continuations], dim=1)
    energies = torch.cat([energy(rows) for rows in whole.split(_ROWS)]).double().cpu()
    return exact_log_prob(lm, prefix, length, **truncation) - energies


def _truncate(log_prob: Tensor, top_k: int | None, top_p: float | None) -> Tensor:  # (..., V) -> (..., V)
    """The distribution restricted to its k likeliest tokens, then to the fewest whose mass reaches p."""
    order = log_prob.argsort(dim=-1, descending=True)
    ranks = order.argsort(dim=-1)
    if top_k is not None:
        log_prob = log_prob.masked_fill(ranks >= top_k, -torch.inf).log_softmax(-1)
    if top_p is not None:
        ordered = log_prob.gather(-1, order).exp()
        mass_before = (ordered.cumsum(-1) - ordered).gather(-1, ranks)
        log_prob = log_prob.masked_fill(mass_before >= top_p, -torch.inf).log_softmax(-1)
    return log_prob
