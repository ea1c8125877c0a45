"""An encoder with a task's head: classify texts or pairs, estimate a number, find an answer."""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from lexergy.core.batches import batches_by_length
from lexergy.errors import LexergyError
from lexergy.models.architectures.initialisation import initialised_from
from lexergy.models.cloze.bodies import make_body
from lexergy.models.energies.backbones import Backbone, state_width
from lexergy.models.finetuned.heads import SequenceHead, SpanHead
from lexergy.models.finetuned.rows import Batch, Row, RowWriter
from lexergy.models.inference.ragged import encoder_states
from lexergy.models.loading.bars import without_bars
from lexergy.models.loading.devices import default_device, device_of
from lexergy.models.loading.sources import model_type_of
from lexergy.models.loading.tokenizer import load_tokenizer
from lexergy.models.loading.weights import load_weights
from lexergy.recipes.finetuning import Task

TOKENS_AT_ONCE = 2**11  # in prediction: bounds the memory, changes no result
NUM_STARTS = 20  # of a span that are tried, as in ELECTRA
LONGEST = 512  # for encoders that name no limit


class FinetunedConfig(PreTrainedConfig):
    """The encoder's own configuration, the task, and how texts become rows.

    A regression's head answers (y - `mean`) / `scale`. `has_null`: some training questions had no answer.
    """

    model_type = "lexergy_finetuned"

    encoder: dict | None = None
    task: str = "classification"
    label_names: list | None = None
    mean: float = 0.0
    scale: float = 1.0
    pooling: str = "mean"
    max_length: int = LONGEST
    stride: int = 128
    max_answer_tokens: int = 30
    has_null: bool = False


class FinetunedEncoder(PreTrainedModel):
    """The states of an encoder under a `SequenceHead` or a `SpanHead`."""

    config_class = FinetunedConfig
    base_model_prefix = ""

    def __init__(self, config: FinetunedConfig) -> None:
        super().__init__(config)
        self.encoder = make_body(config.encoder)
        width = state_width(self.encoder)
        self.head: nn.Module
        if config.task == "span":
            self.head = SpanHead(width)
        else:
            self.head = SequenceHead(width, len(config.label_names or [0]), config.pooling)
        self.post_init()

    @classmethod
    def from_backbone(cls, backbone: Backbone, config: FinetunedConfig, seed: int) -> Self:
        """The backbone itself, not a copy, under a head that depends on the seed."""
        config.encoder = backbone.model.config.to_dict()
        with initialised_from(seed):
            model = cls(config)
        model.encoder = backbone.model
        return model

    def states(self, batch: Batch) -> Tensor:  # (B, L, D)
        has_segments = getattr(self.encoder.config, "type_vocab_size", 0) > 1 and _takes_segments(self.encoder)
        return encoder_states(self.encoder, batch.tokens, batch.attended, batch.segments if has_segments else None)

    def forward(self, batch: Batch) -> Tensor:  # (B, n): logits of labels, or the standardised estimate
        assert isinstance(self.head, SequenceHead)
        return self.head(self.states(batch), batch)

    def losses(self, batch: Batch, targets: Tensor) -> Tensor:  # (B,) or (B, 2) -> (B,)
        """Cross-entropy of labels, squared error of standardised numbers, or the span's negative log-likelihood."""
        if isinstance(self.head, SpanHead):
            return self.head.loss(self.states(batch), batch, targets)
        outputs = self(batch).float()
        if self.config.task == "regression":
            return (outputs.squeeze(1) - (targets - self.config.mean) / self.config.scale) ** 2
        return nn.functional.cross_entropy(outputs, targets, reduction="none")


class Classified(NamedTuple):
    label: str
    probabilities: dict[str, float]


@dataclass(frozen=True)
class Answer:
    """The characters start .. start + len(text) - 1 of a context; an empty text: there is no answer."""

    text: str
    start: int
    log_prob: float


class Finetuned:
    """A fine-tuned encoder with its tokenizer: `classify`, `estimate` or `answer`, whatever it was trained for.

    Examples:
        >>> import tempfile
        >>> from lexergy import Finetuned
        >>> from lexergy.models.energies.backbones import encoder_backbone
        >>> from lexergy.models.finetuned.model import FinetunedConfig, FinetunedEncoder
        >>> from lexergy.testing import save_tiny_encoder
        >>> encoder, folder = tempfile.mkdtemp(), tempfile.mkdtemp()
        >>> save_tiny_encoder(encoder, ["warm", "cold", "red", "blue"])
        >>> backbone = encoder_backbone(encoder)
        >>> config = FinetunedConfig(label_names=["warm", "cold"], max_length=40)
        >>> model = FinetunedEncoder.from_backbone(backbone, config, seed=0)  # `lexergy finetune train` would train it
        >>> Finetuned(model, backbone.tokenizer).save_pretrained(folder)
        >>> judged, = Finetuned.from_pretrained(folder).classify([("a red wall", None)])
        >>> sorted(judged.probabilities)
        ['cold', 'warm']
    """

    def __init__(self, model: FinetunedEncoder, tokenizer: PreTrainedTokenizerBase) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.writer = RowWriter(tokenizer, model.config.max_length, model.config.stride)

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Self:
        if model_type_of(folder) != FinetunedConfig.model_type:
            raise LexergyError(
                f"'{folder}' holds no fine-tuned model; expected a folder written by `lexergy finetune train`."
            )
        model = load_weights(FinetunedEncoder, Path(folder))
        return cls(model.to(default_device()).eval(), load_tokenizer(folder))

    @without_bars()
    def save_pretrained(self, folder: str | Path) -> None:
        """Write the model and its tokenizer to a folder."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    @property
    def task(self) -> Task:
        return self.model.config.task

    def classify(self, texts: Sequence[tuple[str, str | None]]) -> list[Classified]:
        """The likeliest label of each text or pair, and the probabilities of all."""
        names = self.model.config.label_names
        distributions = self._outputs(texts).softmax(-1).tolist()
        by_name = [dict(zip(names, distribution, strict=True)) for distribution in distributions]
        return [Classified(max(distribution, key=distribution.__getitem__), distribution) for distribution in by_name]

    def estimate(self, texts: Sequence[tuple[str, str | None]]) -> list[float]:
        """The number of each text or pair, on the scale of the training labels."""
        config = self.model.config
        return (self._outputs(texts).squeeze(1) * config.scale + config.mean).tolist()

    def answer(self, questions: Sequence[tuple[str, str]]) -> list[Answer]:
        """The best answer to each (question, context), over all windows of the context.

        A question has no answer if some were so in training and its least probability of "no answer" over the windows
        is above that of its best span.
        """
        rows = [
            (number, row)
            for number, (question, context) in enumerate(questions)
            for row in self.writer.windows(question, context)
        ]
        best: dict[int, Answer] = {}
        none: dict[int, float] = {}
        for places, spans in self._spans([row for _, row in rows]):
            for place, (start, end, log_prob, null) in zip(places, spans, strict=True):
                number, row = rows[place]
                none[number] = min(none.get(number, 0.0), null)
                if log_prob > (best[number].log_prob if number in best else -torch.inf):
                    first = row.characters[int(start) - row.context_start][0]
                    last = row.characters[int(end) - row.context_start][1]
                    best[number] = Answer(questions[number][1][first:last], first, log_prob)
        nothing = {number: Answer("", 0, value) for number, value in none.items()}
        if not self.model.config.has_null:
            none = dict.fromkeys(none, -torch.inf)
        return [
            best[number] if number in best and best[number].log_prob >= none[number] else nothing[number]
            for number in range(len(questions))
        ]

    @torch.inference_mode()
    def _outputs(self, texts: Sequence[tuple[str, str | None]]) -> Tensor:  # (N, n)
        rows = [self.writer.row(*text) for text in texts]
        outputs = torch.empty(len(rows), len(self.model.config.label_names or [0]))
        for places, batch in self._batches(rows):
            outputs[places] = self.model(batch).float().cpu()
        return outputs

    @torch.inference_mode()
    def _spans(self, rows: Sequence[Row]) -> Iterator[tuple[list[int], list[list[float]]]]:
        """Places of rows; the start, end and log-probability of the best span of each, and that of no answer."""
        assert isinstance(self.model.head, SpanHead)
        longest = self.model.config.max_answer_tokens
        for places, batch in self._batches(rows):
            spans, null = self.model.head.best(
                self.model.states(batch), batch, num_starts=NUM_STARTS, max_tokens=longest
            )
            yield places, torch.stack([*(part.double() for part in spans), null.double()], dim=1).tolist()

    def _batches(self, rows: Sequence[Row]) -> Iterator[tuple[list[int], Batch]]:
        self.model.eval()
        for places in batches_by_length([len(row.tokens) for row in rows], TOKENS_AT_ONCE):
            yield places, self.writer.batch([rows[place] for place in places]).to(device_of(self.model))


def longest_row(backbone: Backbone, asked: int | None = None) -> int:
    """How many tokens an encoder reads at once, or fewer where so `asked`."""
    assert backbone.tokenizer is not None
    named = getattr(backbone.model.config, "max_position_embeddings", None) or LONGEST
    limit = min(named, backbone.tokenizer.model_max_length, LONGEST if asked is None else named)
    if asked is not None and not 8 <= asked <= limit:
        raise LexergyError(f"`max_length` is {asked}; expected 8 .. {limit}, the most that the encoder reads at once.")
    return asked or limit


def _takes_segments(encoder: Any) -> bool:
    return "token_type_ids" in inspect.signature(encoder.forward).parameters
