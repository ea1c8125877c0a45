"""An energy that is only a head on the frozen LM's own hidden states."""

from typing import Self

from torch import Tensor

from lexergy.errors import LexergyError
from lexergy.models.causal.language_model import LanguageModel
from lexergy.models.causal.lm import CausalLM, weights_of
from lexergy.models.causal.state_features import StateFeatures, Statistics
from lexergy.models.energies.base import EnergyConfig
from lexergy.models.energies.feature_heads import FeatureEnergy
from lexergy.models.energies.origins import Origins
from lexergy.recipes.sections.energies import StatesEnergyRecipe
from lexergy.recipes.sections.fitted_energies import FittedStatesEnergyRecipe


class StatesEnergyConfig(EnergyConfig):
    """Which states of which LM are read, and the head on them (`hidden_units` None: linear)."""

    model_type = "lexergy_states"

    layers: tuple[int, ...] | list[int] = ()
    hidden_size: int = 0
    lm_source: str | None = None
    hidden_units: int | None = None
    dropout: float = 0.0
    statistics: str = "summary"


class StatesEnergy(FeatureEnergy):
    """E(x) = head((f(x) - mean) / std), f the LM's pooled states and likelihood statistics.

    The sampler has computed those states when a sample is drawn and hands them on, so that scoring costs
    next to nothing; the LM stays frozen. The energy starts at 0, where the joint model is the LM.

    Examples:
        >>> import torch
        >>> from lexergy import ResidualEBM, StatesEnergy
        >>> from lexergy.testing import EnumerableLM
        >>> lm = EnumerableLM()
        >>> energy = StatesEnergy.for_lm(lm, layers=(1, 2))
        >>> samples = lm.sample(
        ...     torch.tensor([[1, 2]]), num_samples=3, max_new_tokens=4, seed=0, features=energy.features
        ... )
        >>> energy.score(torch.tensor([[1, 2]]), samples.tokens, samples.features).tolist()  # untrained: 0
        [[0.0, 0.0, 0.0]]
    """

    config_class = StatesEnergyConfig

    def __init__(self, config: StatesEnergyConfig, seed: int = 0) -> None:
        super().__init__(config)
        states, num_statistics = len(config.layers) * config.hidden_size, self.features.num_statistics
        self.add_head({"states": states, "statistics": num_statistics}, config.hidden_units, config.dropout, seed=seed)

    @classmethod
    def for_lm(
        cls,
        lm: CausalLM,
        layers: tuple[int, ...],
        *,
        hidden_units: int | None = None,
        dropout: float = 0.0,
        statistics: Statistics = "summary",
        seed: int = 0,
    ) -> Self:
        """A head on the given layers of this LM (0 = embeddings, `lm.num_layers` = last)."""
        StateFeatures(tuple(layers)).check(lm.last_state_layer)
        config = StatesEnergyConfig(
            layers=list(layers),
            hidden_size=lm.hidden_size,
            lm_source=None if lm.source is None else lm.name,
            hidden_units=hidden_units,
            dropout=dropout,
            statistics=statistics,
        )
        return cls(config, seed)

    @property
    def features(self) -> StateFeatures:
        return StateFeatures(tuple(self.config.layers), self.config.statistics)

    @property
    def is_mean_over_tokens(self) -> bool:
        """Whether E(x) = 1/|x| sum_t e_t(x): a linear head on what is a mean over tokens itself."""
        return self.config.hidden_units is None and self.config.statistics == "moments"

    def fit_standardisation(self, features: Tensor) -> None:
        self._check_size(features)
        super().fit_standardisation(features)

    def forward(self, prefix: Tensor, continuations: Tensor, features: Tensor | None = None) -> Tensor:
        if features is None:
            raise LexergyError(
                "this energy reads the LM's states and got none; expected `features` (B, K, F): sample with "
                "`lm.sample(..., features=energy.features)`, or compute them with `lm.state_features`."
            )
        self._check_size(features)
        if features.shape[:-1] != continuations.shape[:2]:
            raise LexergyError(
                f"`features` has shape {tuple(features.shape)}; expected {tuple(continuations.shape[:2])} + "
                "(F,), one vector per continuation."
            )
        return self.of_features(features)  # (B, K)

    def attach(self, lm: LanguageModel) -> Self:
        lm = weights_of(lm)
        if lm.hidden_size != self.config.hidden_size or max(self.config.layers, default=0) > lm.num_layers:
            raise LexergyError(
                f"this energy reads layers {list(self.config.layers)} of width {self.config.hidden_size} of "
                f"{self.config.lm_source or 'another LM'}; the LM given has {lm.num_layers} layers of width "
                f"{lm.hidden_size}; use the LM that the energy was trained on."
            )
        return super().attach(lm)

    def _check_size(self, features: Tensor) -> None:
        if features.shape[-1] != self.mean.shape[0]:
            raise LexergyError(
                f"`features` has {features.shape[-1]} numbers per continuation; expected "
                f"{self.mean.shape[0]} (layers {list(self.config.layers)} of "
                f"{self.config.lm_source or 'the LM'} and its statistics); use the LM and the layers "
                "that the energy was trained on."
            )


def build_states(recipe: StatesEnergyRecipe, origins: Origins, seed: int) -> StatesEnergy:
    """As the recipe describes it, zero everywhere."""
    return StatesEnergy.for_lm(
        weights_of(origins.lm),
        recipe.layers,
        hidden_units=recipe.hidden_units,
        dropout=recipe.dropout,
        statistics=recipe.statistics,
        seed=seed,
    )


def build_fitted_states(recipe: FittedStatesEnergyRecipe, origins: Origins, seed: int) -> StatesEnergy:
    """As the recipe describes it, zero everywhere; linear, so that there is nothing to draw."""
    del seed
    return StatesEnergy.for_lm(weights_of(origins.lm), recipe.layers, statistics=recipe.statistics)
