"""Sequence-to-sequence models whose decoders search can walk."""

from lexergy.models.seq2seq.encoder import Sources
from lexergy.models.seq2seq.model import Seq2SeqConfig, Seq2SeqModel

__all__ = ["Seq2SeqConfig", "Seq2SeqModel", "Sources"]
