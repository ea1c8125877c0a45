"""Sections of the models that a run begins with: the base LM, finished or trained here, and a masked LM."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from lexergy.recipes.sections.energies import LoraRecipe
from lexergy.recipes.sections.local_residuals import (
    AnyLocalResidualRecipe,
    LocalResidualRecipe,
    ResidualFitRecipe,
    ResidualKind,
    in_order,
    residual_folder,
)
from lexergy.recipes.sections.packaged import PACKAGED_LMS
from lexergy.recipes.sections.remote import REMOTE, full_source, is_remote
from lexergy.recipes.sections.runtime import Precision, Runtime, in_precision, split_precision
from lexergy.recipes.sections.section import PositiveInt, Section
from lexergy.recipes.sections.shapes import CausalShapeRecipe, Direction, ShapeRecipe
from lexergy.recipes.sections.training import TrainingRecipe


class MaskedLMRecipe(ShapeRecipe):
    """A masked LM trained from scratch: the Llama without its causal mask (EuroBERT), or a RoBERTa."""

    added_later = ShapeRecipe.added_later | {"architecture"}

    architecture: Literal["eurobert", "roberta"] = "eurobert"
    max_length: PositiveInt
    training: TrainingRecipe


class TrainedLMRecipe(CausalShapeRecipe):
    """A causal LM trained from scratch, with its tokenizer; `right_to_left` on reversed text, to write prefixes."""

    added_later = CausalShapeRecipe.added_later | {"direction"}

    direction: Direction = "left_to_right"
    max_length: PositiveInt
    training: TrainingRecipe
    vocab_size: Annotated[int, Field(ge=260)]  # 256 bytes and the special tokens


class FinetuneRecipe(Section):
    """A finished LM trained further on the training documents, by adapters that are merged into its weights.

    Blocks of `max_length` tokens; each evaluation reads `validation_blocks` of the validation documents, spread
    evenly (null: all).
    """

    lora: LoraRecipe = LoraRecipe()
    max_length: PositiveInt
    validation_blocks: PositiveInt | None = None
    training: TrainingRecipe


class LMRecipe(Section):
    """The base LM: `source` names a finished one, `train` describes one to train here.

    `finetune` adapts the one from a source to the corpus first.

    `forbid_special_tokens` (for a source; by default true) gives chat markers and the like probability
    zero; an LM trained here always goes without.

    An LM that runs elsewhere has its address as `source` (`openai:http://127.0.0.1:8080`), `tokenizer` names the
    tokenizer of its model, and `model` which of the server's models is meant, where it has several.

    `residual` corrects it token by token, by parts fitted on the corpus as `residual_fit` says, and leaves its weights
    as they are. The corrected LM is the base LM of all that follows.

    `runtime` computes the sampler's steps of an LM that runs here: torch, openvino, or auto, which takes OpenVINO where
    it is installed and can. No stage is redone for another one, whose numbers differ by rounding. In the `precision`
    bfloat16 or int8 it is another LM, sampled and scored by OpenVINO on a processor that has such products; a training
    stays in float32.
    """

    added_later = frozenset({"finetune", "tokenizer", "model", "residual", "residual_fit", "precision"})

    source: str | None = None
    tokenizer: str | None = None
    model: str | None = None
    forbid_special_tokens: bool | None = None
    finetune: FinetuneRecipe | None = None
    train: TrainedLMRecipe | None = None
    residual: Annotated[tuple[AnyLocalResidualRecipe, ...], AfterValidator(in_order)] = ()
    residual_fit: ResidualFitRecipe = ResidualFitRecipe()
    runtime: Runtime = Field(default="auto", exclude=True)
    precision: Precision = "float32"

    @model_validator(mode="after")
    def _one_origin(self) -> "LMRecipe":
        if (self.source is None) == (self.train is None):
            given = "neither" if self.source is None else "both"
            raise ValueError(f"{given} of `source` and `train` given; expected exactly one of them")
        if self.train is not None and self.forbid_special_tokens is not None:
            raise ValueError("`forbid_special_tokens` is for an LM from a `source`; leave it out with `train`")
        if self.train is not None and self.finetune is not None:
            raise ValueError(
                "`finetune` is for an LM from a `source`; leave it out with `train`, which trains it whole"
            )
        if self.train is not None and self.precision != "float32":
            raise ValueError("`precision` is for an LM from a `source`; leave it out with `train`")
        named = split_precision(self.source or "")[1]
        if named is not None:
            raise ValueError(f"`source` names a precision, which is a key of its own here; write `precision: {named}`")
        if self.is_remote:
            self._check_remote()
        elif self.tokenizer is not None or self.model is not None:
            key = "model" if self.tokenizer is None else "tokenizer"
            raise ValueError(f"`{key}` is for an LM behind an address, `source: {REMOTE}http://...`; leave it out")
        return self

    def _check_remote(self) -> None:
        if self.tokenizer is None:
            raise ValueError(
                f"the LM is {self.source} and no `tokenizer` is named; expected that of its model: a folder, a Hub "
                "name, or smollm2-135m"
            )
        if self.finetune is not None:
            raise ValueError(f"`finetune` trains weights, and those of {self.source} are elsewhere; leave it out")
        if self.residual:
            raise ValueError(f"`residual` changes logits, and those of {self.source} are elsewhere; leave it out")
        if self.precision != "float32":
            raise ValueError(f"`precision` is for an LM that runs here, and {self.source} runs elsewhere; leave it out")
        if self.runtime != "auto":
            raise ValueError(f"`runtime` is for an LM that runs here, and {self.source} runs elsewhere; leave it out")

    @property
    def is_remote(self) -> bool:
        """Whether the LM runs elsewhere."""
        return is_remote(self.source)

    @property
    def full_source(self) -> str:
        """The source in one word, with the tokenizer and the model of an LM that runs elsewhere."""
        source = str(self.source)
        return full_source(source, tokenizer=self.tokenizer, model=self.model) if self.is_remote else source

    @property
    def origin(self) -> str:
        """Where the LM comes from; negatives are stored under these words."""
        return self._corrected(self._uncorrected)

    @property
    def _uncorrected(self) -> str:
        if self.source is None:
            return "trained in this run"
        return self.source if self.finetune is None else f"{self.source}, fine-tuned in this run"

    def _corrected(self, name: str) -> str:
        name = in_precision(name, self.precision)
        kinds = ", ".join(residual.kind for residual in self.residual)
        return f"{name}, corrected by {kinds}" if kinds else name

    @property
    def folder(self) -> str:
        """The stage that holds the LM as it is used."""
        return residual_folder(self.residual[-1].kind) if self.residual else "lm"

    def residual_of(self, kind: ResidualKind) -> LocalResidualRecipe:
        """The section of a residual that there is."""
        return next(residual for residual in self.residual if residual.kind == kind)

    @property
    def description(self) -> str:
        """Which LM this is, in a few words; of a packaged one also whether it is tuned to chat, and its bits."""
        about = PACKAGED_LMS.get(self.source or "")
        return self._corrected(self._uncorrected if about is None else f"{self._uncorrected} ({about})")
