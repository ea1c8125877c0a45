"""A sequence-to-sequence model of LSTMs: it reads a batch of sentences and becomes a decoder that search can walk."""

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel, initialization

from lexergy.models.architectures.initialisation import initialised_from
from lexergy.models.seq2seq.decoder import BoundDecoder, Decoder, Masks
from lexergy.models.seq2seq.encoder import Encoder, Encoding, Sources, WordVectors

EMBEDDING_STD = 0.5


class Seq2SeqConfig(PreTrainedConfig):
    """Sizes of vocabularies and layers, and what scores are.

    `attention` is "fixed" (tagging: symbol i is written looking at word i, as many symbols as words) or "additive"
    (translation: `end_symbol` ends a sentence of at most `max_symbols`). With `normalisation` "local" a score is a
    log-probability, with "global" it is any number (Chapter 5, Goyal 2021).
    """

    model_type = "lexergy_seq2seq"

    vocab_sizes: list | None = None  # of the features of a word
    feature_sizes: list | None = None  # the widths of their embeddings
    num_characters: int = 0  # 0: words are not spelt
    character_size: int = 32
    num_symbols: int = 2
    symbol_size: int = 64
    encoder_size: int = 128  # of each direction
    decoder_size: int = 128
    bidirectional: bool = True
    attention: str = "fixed"
    normalisation: str = "local"
    end_symbol: int | None = None
    max_symbols: int = 40
    dropout: float = 0.0
    layout: dict | None = None  # how files of tagged sentences are read, as in training


class Seq2SeqModel(PreTrainedModel):
    """Word vectors, an encoder and a decoder.

    Examples:
        >>> import torch
        >>> from lexergy.core.search_aware.beam_search import beam_search
        >>> from lexergy.models.seq2seq import Seq2SeqConfig, Seq2SeqModel, Sources
        >>> config = Seq2SeqConfig(vocab_sizes=[9], feature_sizes=[4], num_symbols=5, encoder_size=8, decoder_size=8)
        >>> model = Seq2SeqModel.from_config(config, seed=0)
        >>> sources = Sources(torch.tensor([[[3], [1], [4]], [[1], [5], [0]]]), lengths=torch.tensor([3, 2]))
        >>> with torch.inference_mode():
        ...     beam_search(model.decoder(sources), beam=2).lengths[:, 0]
        tensor([3, 2])
    """

    config: Seq2SeqConfig
    config_class = Seq2SeqConfig
    base_model_prefix = ""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__(config)
        self.vectors = WordVectors(
            config.vocab_sizes or [], config.feature_sizes or [], config.num_characters, config.character_size
        )
        self.encoder = Encoder(self.vectors.size, config.encoder_size, config.bidirectional)
        attends = config.attention == "additive"
        self.writer = Decoder(
            config.num_symbols, config.symbol_size, self.encoder.size, config.decoder_size, attends=attends
        )
        self.post_init()

    @classmethod
    def from_config(cls, config: Seq2SeqConfig, seed: int) -> "Seq2SeqModel":
        """An untrained one; its weights depend on the seed alone."""
        with initialised_from(seed):
            return cls(config)

    @property
    def num_dropped(self) -> int:
        """How many uniform numbers decide the dropout of a sentence."""
        return sum(self._mask_sizes)

    def decoder(
        self,
        sources: Sources,
        *,
        max_symbols: Tensor | None = None,  # (B,)
        normalised: bool | None = None,
        uniforms: Tensor | None = None,  # (B, num_dropped)
    ) -> BoundDecoder:
        """The decoder of these sentences, which writes as many symbols as there are words, or at most `max_symbols`.

        Scores are log-probabilities where `normalised`, as the configuration says if it is not given. There is dropout
        only where `uniforms` say which units it takes: one mask for gold, greedy and beam.
        """
        masks = None if uniforms is None else self._masks(uniforms)
        if normalised is None:
            normalised = self.config.normalisation == "local"
        if max_symbols is None:
            end = self.config.end_symbol
            max_symbols = sources.lengths if end is None else torch.full_like(sources.lengths, self.config.max_symbols)
        return BoundDecoder(
            self.writer, self._encode(sources, masks), max_symbols, self.config.end_symbol, normalised, masks
        )

    def _encode(self, sources: Sources, masks: Masks | None) -> Encoding:
        vectors = self.vectors(sources)
        encoding = self.encoder(vectors if masks is None else vectors * masks.words, sources.lengths)
        return encoding if masks is None else encoding._replace(states=encoding.states * masks.encoded)

    @property
    def _mask_sizes(self) -> tuple[int, int, int, int]:
        return self.vectors.size, self.encoder.size, self.writer.symbol_size, self.config.decoder_size

    def _masks(self, uniforms: Tensor) -> Masks:  # (B, num_dropped)
        kept = 1 - self.config.dropout
        scaled = (uniforms < kept).to(self.dtype).unsqueeze(1) / kept
        return Masks(*scaled.split(self._mask_sizes, dim=-1))

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """As torch initialises such layers, embeddings apart; transformers would make LSTMs start too faint."""
        if isinstance(module, nn.Embedding):
            initialization.normal_(module.weight, 0.0, EMBEDDING_STD)
        elif isinstance(module, nn.Linear | nn.Conv1d | nn.LSTM):
            fan = module.hidden_size if isinstance(module, nn.LSTM) else module.weight[0].numel()
            for weight in module.parameters():
                initialization.uniform_(weight, -(fan**-0.5), fan**-0.5)
