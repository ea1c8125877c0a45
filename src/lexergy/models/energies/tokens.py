"""Energies trained from scratch on whole sequences of the LM's tokens: a bag of tokens, a bidirectional LSTM."""

from typing import Self

import torch
from torch import Tensor, nn

from lexergy.models.architectures.initialisation import initialised_from
from lexergy.models.causal.language_model import LanguageModel
from lexergy.models.energies.base import EnergyConfig, EnergyModel, check_vocabulary
from lexergy.models.energies.origins import Origins
from lexergy.models.energies.text import by_prefix, sequence_batches
from lexergy.recipes.sections.energies import BiLSTMEnergyRecipe, LinearEnergyRecipe


class LinearEnergyConfig(EnergyConfig):
    """How many tokens there are."""

    model_type = "lexergy_linear"

    vocab_size: int = 0


class LinearEnergy(EnergyModel):
    """E(x) = sum_i u_{x_i}, a learnt number for each token (Linear, Sec. 4.3, "Real or fake", 2020).

    The sum runs over prefix and continuation. u = 0 at the start, so that the joint model starts as the LM.

    Examples:
        >>> import torch
        >>> from lexergy import LinearEnergy
        >>> from lexergy.models.energies import LinearEnergyConfig
        >>> energy = LinearEnergy(LinearEnergyConfig(vocab_size=7))
        >>> energy.weights.weight.data[6] = 1.5  # what training would find out about token 6
        >>> energy.score(torch.tensor([[1, 6]]), torch.tensor([[[6, 6], [2, 3]]])).tolist()
        [[4.5, 1.5]]
    """

    config_class = LinearEnergyConfig

    def __init__(self, config: LinearEnergyConfig) -> None:
        super().__init__(config)
        self.weights = nn.Embedding.from_pretrained(torch.zeros(config.vocab_size, 1), freeze=False)

    def forward(self, prefix: Tensor, continuations: Tensor, features: Tensor | None = None) -> Tensor:
        batches = sequence_batches(prefix, continuations, self.rows_per_batch)
        return by_prefix([self.weights(tokens).sum((1, 2)) for tokens in batches], continuations)

    def attach(self, lm: LanguageModel) -> Self:
        check_vocabulary(self.config.vocab_size, lm)
        return super().attach(lm)


class BiLSTMEnergyConfig(EnergyConfig):
    """The shape of the network; `hidden_size` is that of each direction."""

    model_type = "lexergy_bilstm"

    vocab_size: int = 0
    embedding_size: int = 512
    hidden_size: int = 512
    num_layers: int = 4
    dropout: float = 0.0


class BiLSTMEnergy(EnergyModel):
    """E(x) = w . mean_i h_i(x) + b, h_i both directions' last states (BiLSTM, Sec. 4.3, "Real or fake", 2020).

    The mean runs over prefix and continuation. w = b = 0 at the start, so that the joint model starts as the LM.
    Dropout falls on the embeddings and between layers.

    Examples:
        >>> import torch
        >>> from lexergy import BiLSTMEnergy
        >>> from lexergy.models.energies import BiLSTMEnergyConfig
        >>> energy = BiLSTMEnergy(BiLSTMEnergyConfig(vocab_size=7, embedding_size=8, hidden_size=8, num_layers=1))
        >>> energy.score(torch.tensor([[1, 6]]), torch.tensor([[[6, 6], [2, 3]]])).tolist()  # untrained: 0
        [[0.0, 0.0]]
    """

    config_class = BiLSTMEnergyConfig

    def __init__(self, config: BiLSTMEnergyConfig, seed: int = 0) -> None:
        super().__init__(config)
        with initialised_from(seed):
            self.embedding = nn.Embedding(config.vocab_size, config.embedding_size)
            self.lstm = nn.LSTM(
                config.embedding_size,
                config.hidden_size,
                config.num_layers,
                batch_first=True,
                bidirectional=True,
                dropout=config.dropout if config.num_layers > 1 else 0.0,
            )
            self.head = nn.Linear(2 * config.hidden_size, 1)
        self.dropout = nn.Dropout(config.dropout)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, prefix: Tensor, continuations: Tensor, features: Tensor | None = None) -> Tensor:
        batches = sequence_batches(prefix, continuations, self.rows_per_batch)
        return by_prefix([self._energies(tokens) for tokens in batches], continuations)

    def _energies(self, tokens: Tensor) -> Tensor:  # (N, L) -> (N,)
        states, _ = self.lstm(self.dropout(self.embedding(tokens)))  # (N, L, 2 D)
        return self.head(states.mean(1)).squeeze(-1)

    def attach(self, lm: LanguageModel) -> Self:
        check_vocabulary(self.config.vocab_size, lm)
        return super().attach(lm)


def build_linear(recipe: LinearEnergyRecipe, origins: Origins, seed: int) -> LinearEnergy:
    """Over the LM's tokens, zero everywhere."""
    return LinearEnergy(LinearEnergyConfig(vocab_size=origins.lm.vocab_size))


def build_bilstm(recipe: BiLSTMEnergyRecipe, origins: Origins, seed: int) -> BiLSTMEnergy:
    """Over the LM's tokens, of the recipe's shape, zero everywhere."""
    shape = recipe.model_dump(include={"embedding_size", "hidden_size", "num_layers", "dropout"})
    return BiLSTMEnergy(BiLSTMEnergyConfig(vocab_size=origins.lm.vocab_size, **shape), seed)
