"""What one server serves: a run's base LM, a joint model per energy, a detector and a scorer."""

import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch

import lexergy
from lexergy.errors import LexergyError
from lexergy.files import hash_of
from lexergy.models.causal.language_model import LanguageModel
from lexergy.models.causal.lm import CausalLM
from lexergy.models.detection.detector import Detector
from lexergy.models.joint.model import ResidualEBM
from lexergy.models.joint.weights import WeighedLM
from lexergy.models.scoring.causal import causal_scorer
from lexergy.models.scoring.kinds import load_scorer
from lexergy.models.scoring.remote import remote_scorer
from lexergy.models.scoring.scorer import TextScorer
from lexergy.recipes.residual import ResidualRecipe
from lexergy.recipes.sections.base_models import LMRecipe
from lexergy.recipes.sections.packaged import PACKAGED_LMS
from lexergy.recipes.sections.remote import REMOTE
from lexergy.runs.records import load_run
from lexergy.serve.api.answers import ModelCard, ModelFacts
from lexergy.serve.api.errors import ApiError, invalid
from lexergy.tasks.residual.context import RunContext


@dataclass(frozen=True)
class Source:
    """Where the models of a server are read from."""

    run: Path
    detector: Path | None = None
    scorer: str | None = None


@dataclass(frozen=True)
class ServedModel:
    """A name that texts can be asked of; `joint` is None for the base LM alone."""

    id: str
    facts: ModelFacts
    lm: LanguageModel
    joint: WeighedLM | None = None
    _variants: dict[bool | None, WeighedLM] = field(default_factory=dict)

    def stopping(self, at_end: bool | None) -> WeighedLM:
        """The joint model, or the LM with an energy of nothing, whose texts end at end-of-text or never."""
        if at_end not in self._variants:
            joint = self.joint if self.joint is not None else WeighedLM(self.lm, _no_energy)
            self._variants[at_end] = joint.stopping(at_end)
        return self._variants[at_end]


@dataclass(frozen=True)
class Catalogue:
    """Everything loaded. The worker's thread runs the models; `tokenizer` is a copy for the thread of requests."""

    models: dict[str, ServedModel]
    scorers: dict[str, TextScorer]
    detector: Detector | None
    tokenizer: Any
    fingerprint: str
    cards: tuple[ModelCard, ...]

    @property
    def lm(self) -> LanguageModel:
        return next(iter(self.models.values())).lm

    @property
    def has_chat(self) -> bool:
        return getattr(self.tokenizer, "chat_template", None) is not None

    def model(self, name: str) -> ServedModel:
        """The model that texts are asked of."""
        if name in self.models:
            return self.models[name]
        if name in self.scorers:
            raise invalid(f"`model` is {name}, which only scores texts; ask {', '.join(self.models)}.", "model")
        raise ApiError(
            404, f"no model `{name}`; expected one of {', '.join(self.models)}.", param="model", code="model_not_found"
        )

    def scorer(self, name: str) -> TextScorer:
        if name in self.scorers:
            return self.scorers[name]
        if name in self.models:
            raise invalid(
                f"`model` is {name}, a joint model, whose log-scores are of continuations; ask `/v1/rerank` for those, "
                f"or one of {', '.join(self.scorers)}.",
                "model",
            )
        raise ApiError(
            404, f"no model `{name}`; expected one of {', '.join(self.scorers)}.", param="model", code="model_not_found"
        )

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, without special tokens, as the LM itself would encode it."""
        if self.tokenizer is None:
            raise invalid("this LM has no tokenizer; expected token ids for a prompt.", "prompt")
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]


def load_catalogue(source: Source) -> Catalogue:
    """Read all models of a run, and the detector and the scorer that were asked for."""
    result = load_run(source.run)
    context = RunContext(result.recipe, result.folder)
    joints = {name: context.joint(name) for name in result.energies}
    detector = None if source.detector is None else _trained_detector(source.detector)
    scorers = {} if source.scorer is None else {Path(source.scorer).name: load_scorer(source.scorer)}
    return catalogue_of(result.recipe, context.lm, joints, detector, scorers)


def _trained_detector(folder: str | Path) -> Detector:
    detector = Detector.from_pretrained(folder)
    if detector.settings.text is None:
        raise LexergyError(
            f"the detector in `{folder}` was not trained and gives no probabilities; expected one of `lexergy detect "
            "train`, which does."
        )
    return detector


def catalogue_of(
    recipe: ResidualRecipe,
    lm: LanguageModel,
    joints: dict[str, ResidualEBM],
    detector: Detector | None = None,
    scorers: dict[str, TextScorer] | None = None,
) -> Catalogue:
    base = base_name(recipe.lm, recipe.name)
    models = {model.id: model for model in _models(base, recipe, lm, joints)}
    all_scorers = _base_scorers(base, lm) | (scorers or {})
    created = int(time.time())
    facts = {name: model.facts for name, model in models.items()}
    for name, scorer in all_scorers.items():
        facts.setdefault(name, ModelFacts(kind="scorer", description=scorer.kind))
    return Catalogue(
        models=models,
        scorers=all_scorers,
        detector=detector,
        tokenizer=copy.deepcopy(lm.tokenizer),
        fingerprint=f"lexergy-{lexergy.__version__}-{hash_of([recipe.model_dump(mode='json'), lm.fingerprint()])[:8]}",
        cards=tuple(ModelCard(id=name, created=created, lexergy=fact) for name, fact in facts.items()),
    )


def _base_scorers(base: str, lm: LanguageModel) -> dict[str, TextScorer]:
    if lm.tokenizer is None or lm.unscored is not None:
        return {}
    return {base: causal_scorer(lm) if isinstance(lm, CausalLM) else remote_scorer(lm)}


def base_name(recipe: LMRecipe, run: str) -> str:
    """The base LM by what it is: of a packaged one model and bits, `SmolLM2-135M-Instruct-Q4_1`."""
    if recipe.source is None:
        return f"{run}-lm-corrected" if recipe.residual else f"{run}-lm"
    if recipe.is_remote:
        return Path(recipe.model or urlsplit(recipe.source.removeprefix(REMOTE)).netloc).name
    about = PACKAGED_LMS.get(recipe.source)
    name = Path(recipe.source).name if about is None else f"{about.split(',')[0]}-{about.rsplit(' ', 1)[1]}"
    name = name if recipe.finetune is None else f"{name}-finetuned"
    return f"{name}-corrected" if recipe.residual else name


def _models(
    base: str, recipe: ResidualRecipe, lm: LanguageModel, joints: dict[str, ResidualEBM]
) -> Iterator[ServedModel]:
    chat = lm.tokenizer is not None and getattr(lm.tokenizer, "chat_template", None) is not None
    facts = ModelFacts(kind="base LM", description=recipe.lm.description, chat=chat)
    yield ServedModel(base, facts, lm)
    for name, joint in joints.items():
        about = {
            "kind": "joint model",
            "energy": name,
            "prefix_tokens": recipe.windows.prefix,
            "continuation_tokens": recipe.windows.continuation,
        }
        yield ServedModel(f"{base}+{name}", facts.model_copy(update=about), lm, joint)


def _no_energy(tokens: torch.Tensor) -> torch.Tensor:  # (B, L) -> (B,)
    return torch.zeros(len(tokens))
