"""A causal model that is only run: start token put in, forbidden tokens left out, its last prefixes remembered.

Where logits of the model become those of the LM is one place, `FrozenModel.correct`.
"""

import copy
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lexergy.core.local_residuals.contexts import contexts
from lexergy.core.vocabulary import NEVER
from lexergy.models.causal.language_model import LanguageModel
from lexergy.models.causal.local_residuals import LocalResidual
from lexergy.models.causal.runtimes.choice import Rows, Steps, TorchSteps, steps_of, uses_openvino
from lexergy.models.causal.runtimes.shared_prefix import Prefilled, PrefixSharing, RepeatedPrefix, prefill_in_groups
from lexergy.recipes.sections.runtime import Precision, Runtime


class _Remembered(NamedTuple):
    key: tuple[Any, ...]
    prefix: Tensor
    value: Any


class FrozenModel(LanguageModel):
    """What scoring, sampling and reading states have in common; tensors are on the model's device."""

    def __init__(
        self,
        model: PreTrainedModel,
        forbidden_tokens: Sequence[int],
        start_token: int | None,
        end_token: int | None = None,
        runtime: Runtime = "auto",
        precision: Precision = "float32",
    ) -> None:
        self.model = model.eval().requires_grad_(False)
        self.forbidden_tokens = tuple(sorted(set(forbidden_tokens) - {end_token}))
        self.start_token = start_token
        self.end_token = end_token
        self.runtime = runtime
        self.precision = precision
        uses_openvino(model, runtime, precision)  # refused now rather than at the first sample
        self._sharing = PrefixSharing(model)
        self._last: dict[str, _Remembered] = {}
        self._rows_of_call: int | None = None
        self._reads_as_it_samples = precision != "float32"
        self.residuals: tuple[LocalResidual, ...] = ()

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def vocab_size(self) -> int:
        return self.model.get_output_embeddings().weight.shape[0]

    @property
    def hidden_size(self) -> int:
        return self.model.config.get_text_config().hidden_size

    @property
    def num_layers(self) -> int:
        return self.model.config.get_text_config().num_hidden_layers

    @property
    def last_state_layer(self) -> int:
        """The last layer whose states are `hidden_size` wide: OPT may project its last to its embeddings' width."""
        width = getattr(self.model.config.get_text_config(), "word_embed_proj_dim", self.hidden_size)
        return self.num_layers if width == self.hidden_size else self.num_layers - 1

    @property
    def max_length(self) -> int | None:
        """The most tokens the model reads, its start token apart."""
        limit = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        return limit if limit is None or self.start_token is None else limit - 1

    def _with_end(self, end_token: int | None, forbidden_tokens: Collection[int]) -> Self:
        lm = super()._with_end(end_token, forbidden_tokens)
        lm._last = {}  # statistics of prefixes depend on what is forbidden
        return lm

    def correct(self, logits: Tensor, before: Tensor) -> Tensor:  # (..., V), (..., n) of `contexts` -> (..., V)
        """The model's logits after the tokens `before` as this LM's: without what is forbidden, with its residuals.

        Sampling, scoring and whatever else reads a distribution calls this. It may change the logits it is given.
        """
        self.forbid_(logits)
        if not self.residuals:
            return logits
        rows = logits.flatten(0, -2)  # (N, V)
        for residual in self.residuals:
            residual.correct_(rows, before.flatten(0, -2))
        return self.forbid_(rows).view(logits.shape)

    def contexts(self, rows: Tensor) -> Tensor:  # (B, L) -> (B, L + 1, n)
        """What `correct` reads before each place of rows, and before the one after their end."""
        return contexts(rows, self.context_length)

    @property
    def context_length(self) -> int:
        """How many of the tokens before a place its residuals read."""
        return max((residual.context_length for residual in self.residuals), default=0)

    def forbid_(self, logits: Tensor) -> Tensor:
        """Change logits (..., V) so that the forbidden tokens cannot be drawn."""
        return logits.index_fill_(-1, self.forbidden_index(), NEVER) if self.forbidden_tokens else logits

    def forbidden_index(self) -> Tensor:
        return torch.tensor(self.forbidden_tokens, dtype=torch.long, device=self.device)

    def reader(self, layers: Collection[int] = ()) -> Steps:
        """Who computes what is scored and not sampled: torch, which need not be compiled, or the sampler's runtime.

        The states of these layers can be had from it. Of an LM in bfloat16 or int8 only the sampler's own graph gives
        the numbers that the sampler sees.
        """
        return self._steps(1, layers) if self._reads_as_it_samples else TorchSteps(self.model)

    def _steps(self, num_rows: int, layers: Collection[int] = ()) -> Steps:
        return steps_of(self.model, self.runtime, self._rows_of_call or num_rows, self.precision, layers)

    def prefill(self, prefix: Tensor) -> Prefilled:  # (B, P)
        """Run the prefixes once, to score what follows."""
        return self._prefill(prefix, self.reader())

    def _prefill(self, prefix: Tensor, steps: Steps) -> Prefilled:
        def run() -> Prefilled:
            return prefill_in_groups(self.with_start(prefix), steps.prefill)

        return self.remember("prefix", (steps.name,), prefix, run)

    def continuations(
        self, prefix: Tensor, num_samples: int, max_length: int, layers: Collection[int] = ()
    ) -> tuple[Tensor, Rows]:
        """The logits (B, V) after each prefix, and K rows per prefix that can be fed token by token.

        Of what is fed the states of these layers can be had.
        """
        if not self.shares_prefix(prefix.shape[1] + max_length):
            return self.prefill(prefix).logits, RepeatedPrefix(self.model, self.with_start(prefix), num_samples)
        num_rows = len(prefix) * num_samples
        steps = self._steps(num_rows, layers)
        prefilled = self._prefill(prefix, steps)
        return prefilled.logits, steps.rows(prefilled.shared, num_rows, max_length)

    def within_call(self, num_rows: int) -> Self:
        lm = copy.copy(self)
        lm._rows_of_call = self._rows_of_call or num_rows
        return lm

    def on_one_runtime(self, num_rows: int) -> Self:
        lm = self.within_call(num_rows)
        lm._reads_as_it_samples = True
        return lm

    def shares_prefix(self, total_length: int) -> bool:
        """Whether sequences of this length may be split into prefix and continuation."""
        if self.precision != "float32":
            return True  # a plain Llama, whose attention is all split
        return self._sharing.allows(total_length + (self.start_token is not None))

    def remember(self, what: str, settings: tuple[Any, ...], prefix: Tensor, compute: Callable[[], Any]) -> Any:
        """What was computed of the last prefixes (B, P), since they are often continued again."""
        # Training the weights in place raises their version, and so forgets what was computed with them.
        key = (*settings, prefix.shape, sum(weight._version for weight in self.model.parameters()))
        known = self._last.get(what)
        if known is None or known.key != key or not torch.equal(known.prefix, prefix):
            self._last.pop(what, None)  # before new keys and values are made
            known = None
            self._last[what] = known = _Remembered(key, prefix, compute())
        return known.value

    def forget_prefix(self) -> None:
        """Free the keys, values and states of the last prefixes run."""
        self._last.clear()
