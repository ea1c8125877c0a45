"""Sequence-to-sequence models whose decoders search can walk."""

from lexergy.models.seq2seq.encoder import Sources
from lexergy.models.seq2seq.model import Seq2SeqConfig, Seq2SeqModel
from lexergy.models.seq2seq.pairs import SequencePairs
from lexergy.models.seq2seq.predictor import Seq2Seq

__all__ = ["Seq2Seq", "Seq2SeqConfig", "Seq2SeqModel", "SequencePairs", "Sources"]
