"""What every energy with parameters has in common: one call, one file format, errors that help."""

from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Self

from safetensors.torch import load_file
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.hub import cached_file

from lexergy.errors import LexergyError
from lexergy.files import read_json, reading
from lexergy.models.causal.language_model import LanguageModel
from lexergy.models.causal.state_features import StateFeatures
from lexergy.models.loading.bars import without_bars
from lexergy.models.loading.devices import default_device
from lexergy.models.loading.sizes import check_sizes
from lexergy.models.loading.weights import check_finite
from lexergy.recipes.sections.energies import ENERGY_KINDS

WEIGHTS = "model.safetensors"
AGAIN = "copy the folder again or train again"


class EnergyConfig(PreTrainedConfig):
    """What an energy is built from; each kind adds its own fields and its own `model_type`.

    Examples:
        >>> from lexergy import EnergyConfig
        >>> class LengthEnergyConfig(EnergyConfig):
        ...     model_type = "example_length"
        ...     per_token: float = 0.1
        >>> LengthEnergyConfig(per_token=0.5).to_dict()["per_token"]
        0.5
    """

    model_type = "lexergy_energy"


class EnergyModel(PreTrainedModel):
    """A scalar over sequences, low where text is likely: log p~(x) = log p_LM(x) - E(x).

    A subclass names its `config_class`, whose `model_type` tells `from_pretrained` which class a folder
    holds, and implements `forward(prefix, continuations, features)`.

    Examples:
        >>> import tempfile
        >>> import torch
        >>> from lexergy import EnergyModel, LinearEnergy
        >>> from lexergy.models.energies import LinearEnergyConfig
        >>> energy = LinearEnergy(LinearEnergyConfig(vocab_size=7))
        >>> energy.weights.weight.data[3] = 2.0
        >>> folder = tempfile.mkdtemp()
        >>> energy.save_pretrained(folder)
        >>> loaded = EnergyModel.from_pretrained(folder)  # whatever its kind
        >>> loaded.score(torch.tensor([[1, 2]]), torch.tensor([[[3, 3], [4, 5]]])).tolist()
        [[4.0, 0.0]]
    """

    config_class = EnergyConfig
    base_model_prefix = ""
    rows_per_batch: int = 128
    """Sequences scored at a time without gradients: bounds the memory, changes no result."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "config_class" in vars(cls):
            _KINDS[cls.config_class.model_type] = cls

    @property
    def features(self) -> StateFeatures | None:
        """What the sampler should hand on to `score`; None for an energy that reads tokens."""
        return None

    def score(
        self,
        prefix: Tensor,  # (B, P)
        continuations: Tensor,  # (B, K, C)
        features: Tensor | None = None,  # (B, K, F)
    ) -> Tensor:  # (B, K)
        """E(prefix, continuation) of K continuations of each prefix, on the energy's own device."""
        check_shapes(prefix, continuations)
        features = None if features is None else features.to(self.device)
        return self(prefix.to(self.device), continuations.to(self.device), features)

    def attach(self, lm: LanguageModel) -> Self:
        """Check that this energy fits the LM, and read text with the LM's tokenizer where text is read."""
        return self if lm.tokenizer is None else self.bind(lm.tokenizer)

    def fit_standardisation(self, features: Tensor) -> None:
        """See the training features (..., F) before the first step; only energies that read features need it."""

    def bind(self, lm_tokenizer: PreTrainedTokenizerBase) -> Self:
        """Take the tokenizer that turns the LM's tokens into text; only energies that read text need it."""
        return self

    def saved_state(self) -> dict[str, Tensor]:
        """The tensors that go into the file."""
        return self.state_dict()

    @classmethod
    def assemble(cls, config: Any, source: str) -> Self:
        """An energy of this configuration, about to be filled with the tensors of its file."""
        return cls(config)

    @without_bars()
    def save_pretrained(self, folder: str | Path, **kwargs: Any) -> None:  # type: ignore[override]
        """Write configuration and weights (safetensors) to a folder."""
        super().save_pretrained(folder, state_dict=self.saved_state(), save_original_format=False, **kwargs)

    @classmethod
    def from_pretrained(cls, source: str | Path) -> Self:  # type: ignore[override]
        """Load an energy of any kind from a folder (or a Hub name), ready to score, on a GPU where there is one."""
        source = str(source)
        values = _read_config(source)
        kind = _kind(str(values.get("model_type")))
        if kind is None or not issubclass(kind, cls):
            wanted = "an energy" if cls is EnergyModel else f"a {cls.__name__}"
            raise LexergyError(
                f"'{source}' holds a model of type {values.get('model_type')!r}; expected {wanted} written "
                "by `energy.save_pretrained`; check the path, or load it with `EnergyModel.from_pretrained`."
            )
        weights = _read_weights(source)
        backbone = values.get("backbone")
        if isinstance(backbone, dict) and not values.get("lora"):  # whose file has nothing of the backbone
            check_sizes(Path(source) / "config.json", backbone, [tuple(weight.shape) for weight in weights.values()])
        with reading(Path(source) / "config.json", AGAIN):
            energy = kind.assemble(kind.config_class.from_dict(values), source)
        energy._fill(weights, source)
        check_finite(energy, source)
        return energy.to(default_device()).eval()  # type: ignore[arg-type]

    def _fill(self, weights: dict[str, Tensor], source: str) -> None:
        expected = {name: tensor.shape for name, tensor in self.saved_state().items()}
        given = {name: tensor.shape for name, tensor in weights.items()}
        if expected != given:
            wrong = sorted(expected.items() ^ given.items())[0][0]
            raise LexergyError(
                f"the weights in '{source}' do not fit its config.json (first difference: {wrong}); "
                "expected the pair that `save_pretrained` wrote; copy the folder again or train again."
            )
        self.load_state_dict(weights, strict=False)


_KINDS: dict[str, type[EnergyModel]] = {}


def _kind(model_type: str) -> type[EnergyModel] | None:
    """The class of a file's energy: one that is imported already, or one of the kinds of recipes."""
    if model_type not in _KINDS:
        for kind in ENERGY_KINDS.values():
            if kind.builder is not None:
                resolve_name(kind.builder)
    return _KINDS.get(model_type)


def check_shapes(prefix: Tensor, continuations: Tensor) -> None:
    """Refuse anything but prefixes (B, P) with continuations (B, K, C)."""
    if prefix.ndim != 2 or continuations.ndim != 3 or prefix.shape[0] != continuations.shape[0]:
        raise LexergyError(
            f"prefix has shape {tuple(prefix.shape)} and continuations {tuple(continuations.shape)}; "
            "expected (B, P) and (B, K, C) with the same B."
        )


def check_vocabulary(known: int, lm: LanguageModel) -> None:
    """Refuse an LM that writes tokens which an energy over tokens does not know."""
    if known < lm.vocab_size:
        raise LexergyError(
            f"this energy knows {known} tokens and the LM writes {lm.vocab_size}; expected an energy "
            "over the LM's own tokens; use the LM it was trained on, or an encoder that reads text."
        )


def _read_config(source: str) -> dict[str, Any]:
    path = _file(source, "config.json")
    return read_json(path, dict, AGAIN)


def _read_weights(source: str) -> dict[str, Tensor]:
    path = _file(source, WEIGHTS)
    with reading(path, AGAIN):
        return load_file(path)


def _file(source: str, name: str) -> Path:
    if Path(source).is_dir():
        path = Path(source) / name
        location = str(path) if path.is_file() else None
    elif Path(source).is_absolute() or source.startswith(".") or source.count("/") > 1:
        location = None
    else:
        location = _from_hub(source, name)
    if location is None:
        raise LexergyError(
            f"no energy at '{source}': {name} not found; expected a folder written by "
            "`energy.save_pretrained`; check the path."
        )
    return Path(location)


def _from_hub(source: str, name: str) -> str | None:
    try:
        return cached_file(source, name)
    except OSError:
        return None
