"""A Hugging Face masked LM as proposals and as energies: its conditionals at masked positions, many at a time.

Special tokens are no values: they have probability zero, are never scored, and mark where a sequence cannot change.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lexergy.core.mcmc.metropolis import Energy
from lexergy.core.mcmc.remembered import RememberedRows
from lexergy.core.vocabulary import NEVER
from lexergy.errors import LexergyError
from lexergy.models.inference.linears import fast_linears
from lexergy.models.loading.devices import default_device, device_of, tokens_at_once
from lexergy.models.loading.weights import load_masked_lm
from lexergy.storage import fetched_source

MASK_IN_PROMPT = "[MASK]"  # however the tokenizer spells its own
LOGITS_AT_ONCE = 2**24
ENERGIES_REMEMBERED = 2**20
BYTES_REMEMBERED = 2**29  # of logits

EnergyKind: TypeAlias = Literal["raw", "local"]


class MaskedLM:
    """Conditionals p_mlm(y_i | y outside the masked positions) of a model with a mask token, and two energies.

    Examples:
        >>> from lexergy.testing import EnumerableMaskedLM  # a random BERT over six words
        >>> lm = EnumerableMaskedLM()
        >>> rows = lm.pad([lm.encode("the state of union is [MASK]")])
        >>> lm.conditionals(rows, rows == lm.mask_token).shape  # one masked position, logits of 12 tokens
        torch.Size([1, 12])
        >>> whole = lm.pad([lm.encode("the state is strong")])
        >>> bool(lm.local_energy(whole) > 0)  # -PLL
        True
    """

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        if tokenizer.mask_token_id is None:
            raise LexergyError(
                f"the tokenizer of {type(model).__name__} has no mask token; expected one, as masked LMs are trained "
                "with; choose a masked LM."
            )
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.mask_token: int = tokenizer.mask_token_id
        # Where rows differ in length: anything that attention does not see. Without a pad token none is needed.
        self.pad_token: int = self.mask_token if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        self.vocab_size: int = model.config.vocab_size
        self.special_tokens = torch.tensor(
            [*sorted(set(tokenizer.all_special_ids)), *range(len(tokenizer), self.vocab_size)]
        )
        self._energies: Callable[[Tensor], Tensor] = self._computed_energies
        self._contexts: RememberedRows | None = None

    @classmethod
    def from_pretrained(cls, source: str | Path) -> "MaskedLM":
        """A folder or Hub name of a masked LM, or a run of Lexergy with a stage `masked_lm`."""
        source = fetched_source(source)
        stage = Path(source).expanduser() / "masked_lm"
        loaded = load_masked_lm(str(stage if stage.is_dir() else source))
        if loaded.tokenizer is None:
            raise LexergyError(f"the masked LM {source} has no tokenizer; expected one beside its weights.")
        return cls(loaded.model.to(default_device()), loaded.tokenizer)  # type: ignore[arg-type]

    @property
    def edges(self) -> tuple[list[int], list[int]]:
        """What the tokenizer puts before and after a text: [CLS] and [SEP], for instance, or nothing."""
        empty = self.tokenizer.encode("")
        before = len(empty) // 2 if len(empty) > 1 else len(empty)
        return empty[:before], empty[before:]

    def blank(self, length: int) -> list[int]:
        """A sequence of `length` masks between the edges that the tokenizer puts around a text."""
        return self._between_edges([self.mask_token] * length)

    def encode(self, prompt: str) -> list[int]:
        """A text with [MASK] for each token to be filled in, between the tokenizer's edges."""
        spelt = str(self.tokenizer.mask_token)
        text = prompt.replace(MASK_IN_PROMPT, spelt)
        if self.tokenizer.encode(" ", add_special_tokens=False):  # words carry the blank before them, so masks do
            text = re.sub(rf"\s+(?={re.escape(spelt)})", "", text)
        return self._between_edges(self.tokenizer.encode(text, add_special_tokens=False))

    def decode(self, tokens: Tensor) -> str:  # (L,)
        """The text of a row, without its special tokens."""
        return str(self.tokenizer.decode(tokens, skip_special_tokens=True)).strip()

    def pad(self, rows: Sequence[Sequence[int]]) -> Tensor:  # -> (N, L)
        """Rows of different lengths as one tensor."""
        longest = max(map(len, rows))
        if self.pad_token == self.mask_token and min(map(len, rows)) < longest:
            raise LexergyError(
                "the tokenizer has no padding token and the sequences differ in length; expected one length; "
                "run the lengths apart."
            )
        return torch.tensor([[*row, *[self.pad_token] * (longest - len(row))] for row in rows])

    def conditionals(self, tokens: Tensor, block: Tensor) -> Tensor:  # (N, L), (N, L) bool -> (M, V)
        """Logits at the positions of each row's block, all of them masked: `core.metropolis.Conditionals`."""
        masked = tokens.masked_fill(block, self.mask_token)
        if self._contexts is not None and int(block.sum(dim=1).max()) == 1:
            return self._contexts(masked.cpu())
        return self._logits_of_many(masked, block)

    def energy(self, kind: EnergyKind) -> Energy:
        """`raw_energy` or `local_energy`, by name."""
        return {"raw": self.raw_energy, "local": self.local_energy}[kind]

    def raw_energy(self, tokens: Tensor) -> Tensor:  # (N, L) -> (N,) float64
        """E_raw(y) = -sum_t f(y_t, h(y_\\t)): masked logits, not normalised (Section 6.2.1, Goyal 2021)."""
        return self._energies(tokens)[:, 0]

    def local_energy(self, tokens: Tensor) -> Tensor:  # (N, L) -> (N,) float64
        """E_local(y) = -sum_t log p_mlm(y_t | y_\\t) (Section 6.2.4; Salazar et al. 2020)."""
        return self._energies(tokens)[:, 1]

    def remember_energies(self) -> None:
        """From now on keep the energies of rows seen: chains often propose what they proposed before.

        And the logits of the contexts with one mask that were read last: the energy of a proposal reads what the next
        proposal in the same place is drawn from.
        """
        self._energies = RememberedRows(self._energies, ENERGIES_REMEMBERED)
        limit = BYTES_REMEMBERED // (4 * self.vocab_size)
        self._contexts = RememberedRows(lambda rows: self._logits_of_many(rows, rows == self.mask_token), limit)

    def forget(self) -> None:
        """Forget what is remembered, so that what follows is the same to the last digit whatever came before."""
        for remembered in (self._energies, self._contexts):
            if isinstance(remembered, RememberedRows):
                remembered.forget()

    def token_log_prob(self, tokens: Tensor) -> Tensor:  # (N, L) -> (N, L) float64
        """log p_mlm(y_t | y_\\t) of each token, masked in turn; 0 for special tokens, which are not scored."""
        tokens = tokens.cpu()
        rows, places, scores = self._scores(tokens)
        log_prob = torch.zeros(tokens.shape, dtype=torch.double)
        log_prob[rows, places] = scores[:, 1]
        return log_prob

    def _computed_energies(self, tokens: Tensor) -> Tensor:  # (N, L) -> (N, 2) float64, raw and local
        rows, _, scores = self._scores(tokens.cpu())
        return torch.zeros(len(tokens), 2, dtype=torch.double).index_add_(0, rows, -scores)

    def _scores(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # (N, L) -> (M,), (M,), (M, 2) float64
        """Rows and places of the scored tokens, and of each its logit and its log-probability where it is masked.

        Each of them is masked in a row of its own.
        """
        rows, places = self._scored(tokens).nonzero(as_tuple=True)
        masked = torch.zeros(len(rows), tokens.shape[1], dtype=torch.bool)
        masked[torch.arange(len(rows)), places] = True
        scores = torch.empty(len(rows), 2, dtype=torch.double)
        for few in self._chunks(masked, 1):
            chosen, originals = masked[few], tokens[rows[few]]
            logits = self.conditionals(originals, chosen)
            raw = logits.gather(1, originals[chosen][:, None]).squeeze(1).double()
            scores[few] = torch.stack([raw, raw - logits.logsumexp(-1).double()], dim=1)
        return rows, places, scores

    def _scored(self, tokens: Tensor) -> Tensor:  # (N, L) -> (N, L) bool
        """The positions whose tokens have an energy."""
        return ~torch.isin(tokens, self.special_tokens)

    def _logits_of_many(self, inputs: Tensor, chosen: Tensor) -> Tensor:  # (N, L), (N, L) bool -> (M, V)
        """Rows of about one length are read together, so that little of what is read is padding."""
        counts = chosen.sum(dim=1)
        order = self._lengths(inputs).argsort(stable=True)  # (N,)
        chunks = self._chunks(inputs, int(counts.max()))
        logits = torch.cat([self._logits(inputs[order[few]], chosen[order[few]]) for few in chunks])
        rows = order.repeat_interleave(counts[order])  # (M,), that the logits belong to
        return logits[rows.argsort(stable=True).cpu()]

    def _lengths(self, inputs: Tensor) -> Tensor:  # (N, L) -> (N,)
        return (inputs != self.pad_token).sum(dim=1)

    def _logits(self, inputs: Tensor, chosen: Tensor) -> Tensor:  # (N, L), (N, L) bool -> (M, V)
        attended = self._attended(inputs)
        longest = int(attended.any(dim=0).nonzero().max()) + 1
        inputs, attended, chosen = (part[:, :longest] for part in (inputs, attended, chosen))
        return logits_at(self.model, inputs, chosen, attended).index_fill(1, self.special_tokens, NEVER)

    def _attended(self, inputs: Tensor) -> Tensor:  # (N, L) -> (N, L) bool
        if self.pad_token == self.mask_token:
            return torch.ones_like(inputs, dtype=torch.bool)
        return inputs != self.pad_token

    def _chunks(self, rows: Tensor, logits_per_row: int) -> Iterator[slice]:
        """Rows (N, L) a few at a time, so that memory does not grow with their number."""
        by_tokens = tokens_at_once(self.model) // rows.shape[1]
        by_logits = LOGITS_AT_ONCE // (self.vocab_size * max(logits_per_row, 1))
        size = max(1, min(by_tokens, by_logits))
        return (slice(first, first + size) for first in range(0, len(rows), size))

    def _between_edges(self, tokens: list[int]) -> list[int]:
        before, after = self.edges
        return [*before, *tokens, *after]


def logits_at(
    model: PreTrainedModel,
    inputs: Tensor,  # (N, L)
    chosen: Tensor,  # (N, L) bool
    attended: Tensor | None = None,  # (N, L) bool, None: all
) -> Tensor:  # (M, V) float32, on the CPU
    """Logits at the chosen positions.

    The output layer, the dearest of a large vocabulary, sees no others, nor does the last layer after its attention.
    """
    device = device_of(model)
    chosen = chosen.to(device)
    mask = None if attended is None else attended.long().to(device)

    def choose(layer: nn.Module, states: tuple[Tensor]) -> tuple[Tensor]:  # (N, L, D) -> (M, D)
        return (states[0][chosen],)

    def put_back(layer: nn.Module, states: object, output: Tensor) -> Tensor:  # (M, D) -> (N, L, D)
        return output.new_zeros(*chosen.shape, output.shape[-1]).masked_scatter(chosen.unsqueeze(-1), output)

    hooks = [model.get_output_embeddings().register_forward_pre_hook(choose)]
    for layer in _feed_forward_layers(model)[-1:]:
        hooks += [layer.register_forward_pre_hook(choose), layer.register_forward_hook(put_back)]
    try:
        with torch.no_grad(), fast_linears(model):
            logits = model(input_ids=inputs.to(device), attention_mask=mask).logits  # (M, V)
    finally:
        for hook in hooks:
            hook.remove()
    return logits.float().cpu()


def _feed_forward_layers(model: nn.Module) -> list[nn.Module]:
    """Those that are modules of their own: EuroBERT's and ModernBERT's, not BERT's."""
    return [module for name, module in model.named_modules() if name.endswith(".mlp")]
