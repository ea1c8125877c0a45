"""What a sequence-to-sequence model writes, by greedy, beam or continuous beam search."""

from collections.abc import Iterator

import torch
from torch import Tensor

from lexergy.core.batches import batches_by_length
from lexergy.core.search_aware.beam_search import BeamResult, beam_search, gold_survival
from lexergy.core.search_aware.step_decoder import PADDING, written
from lexergy.core.soft_beam import soft_beam_decode
from lexergy.models.loading.devices import device_of
from lexergy.models.seq2seq.encoder import Sources
from lexergy.models.seq2seq.model import Seq2SeqModel
from lexergy.models.seq2seq.pairs import SequencePairs
from lexergy.recipes.search_aware import SearchRecipe

HYPOTHESES_AT_ONCE = 2**11  # words times beam: bounds the memory, changes no result


@torch.inference_mode()
def decode(model: Seq2SeqModel, sources: Sources, search: SearchRecipe) -> list[list[int]]:
    """The best sequence of symbols for each sentence, without the end symbol."""
    outputs: list[list[int]] = [[] for _ in range(len(sources.lengths))]
    for rows in _batches(sources.lengths, search.beam):
        best = _searched(model, sources.select(rows).to(device_of(model)), search).symbols[:, 0]
        for row, symbols in zip(rows.tolist(), best.tolist(), strict=True):
            outputs[row] = [symbol for symbol in symbols if symbol not in (PADDING, model.config.end_symbol)]
    return outputs


@torch.inference_mode()
def survival(model: Seq2SeqModel, pairs: SequencePairs, search: SearchRecipe) -> Tensor:  # -> (N,)
    """The step at which the gold prefix of each sentence falls off the hard beam; its length where it never does."""
    steps = torch.empty(len(pairs), dtype=torch.long)
    for rows in _batches(pairs.sources.lengths, search.beam):
        few = pairs.select(rows).to(device_of(model))
        decoder = model.decoder(few.sources, max_symbols=few.lengths, normalised=normalised(search))
        steps[rows] = gold_survival(decoder, few.gold, search.beam).cpu()
    return steps


@torch.inference_mode()
def log_normalisers(model: Seq2SeqModel, pairs: SequencePairs) -> Tensor:  # -> (N, 3)
    """Sum over a sentence's steps of log Z_t of raw scores along gold, sum of its squares, number of steps."""
    sums = torch.zeros(len(pairs), 3, dtype=torch.double)
    for rows in _batches(pairs.lengths, 1):
        few = pairs.select(rows).to(device_of(model))
        decoder = model.decoder(few.sources, max_symbols=few.lengths, normalised=False)
        steps = written(decoder, few.gold)
        log_z = torch.where(steps, decoder.teacher_forced(few.gold).double().logsumexp(-1), 0)  # (B, T)
        sums[rows] = torch.stack([log_z, log_z.square(), steps.double()]).sum(-1).T.cpu()
    return sums


def normalised(search: SearchRecipe) -> bool | None:
    """Whether scores are log-probabilities; None: as the model was trained."""
    return None if search.normalisation is None else search.normalisation == "local"


def _searched(model: Seq2SeqModel, sources: Sources, search: SearchRecipe) -> BeamResult:
    decoder = model.decoder(sources, normalised=normalised(search))
    if search.alpha is not None:
        return soft_beam_decode(decoder, search.beam, search.alpha)
    return beam_search(decoder, search.beam, length_penalty=search.length_penalty)


def _batches(lengths: Tensor, beam: int) -> Iterator[Tensor]:
    """Rows of similar length."""
    return map(torch.tensor, batches_by_length(lengths.tolist(), HYPOTHESES_AT_ONCE // beam))
