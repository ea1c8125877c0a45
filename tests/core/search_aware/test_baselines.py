from dataclasses import replace
from functools import cache

import pytest
import torch

from lexergy.core.search_aware.baselines import beam_crf_loss, beam_search_optimisation_loss
from lexergy.core.search_aware.beam_search import all_sequences_scored, beam_search, exact_search, gold_survival
from lexergy.core.search_aware.step_decoder import PADDING, score_sequences
from toys.decoders import toy_decoder

DECODERS = {
    "tagging": toy_decoder((4, 2, 3), normalised=False),
    "with an end": toy_decoder((4, 4, 3), end=1, seed=2),
}
GOLDS = [torch.randint(3, (3, 4), generator=torch.Generator().manual_seed(seed)) for seed in range(4)]


@pytest.fixture(params=DECODERS)
def decoder(request):
    return DECODERS[request.param]


def prefix_score(decoder, sentence: int, symbols: list[int]) -> float:
    padded = [*symbols, *[PADDING] * (decoder.inputs.shape[1] - len(symbols))]
    return float(score_sequences(decoder.of(sentence), torch.tensor([padded])))


def gold_symbols(decoder, gold: torch.Tensor, sentence: int) -> list[int]:
    symbols = gold[sentence, : decoder.lengths[sentence]].tolist()
    return symbols[: symbols.index(decoder.end) + 1] if decoder.end in symbols else symbols


@pytest.mark.parametrize("gold", GOLDS)
def test_a_beam_as_wide_as_the_space_gives_the_global_likelihood(decoder, gold):
    log_z = all_sequences_scored(decoder).scores.logsumexp(-1)
    assert torch.allclose(beam_crf_loss(decoder, gold, 3**4), log_z - score_sequences(decoder, gold))


@pytest.mark.parametrize("beam", [1, 2, 4])
@pytest.mark.parametrize("gold", GOLDS)
def test_the_likelihood_is_updated_where_gold_falls_off(decoder, gold, beam):
    losses, survival = beam_crf_loss(decoder, gold, beam), gold_survival(decoder, gold, beam)
    for sentence, length in enumerate(decoder.lengths.tolist()):
        steps = min(int(survival[sentence]) + 1, length)
        on_beam = beam_search(decoder.of(sentence), beam, max_steps=steps)
        prefix = gold_symbols(decoder, gold, sentence)[:steps]
        score = prefix_score(decoder, sentence, prefix)
        rivals = [
            float(rival)
            for symbols, rival in zip(on_beam.symbols[0].tolist(), on_beam.scores[0], strict=True)
            if [symbol for symbol in symbols if symbol != PADDING] != prefix
        ]
        expected = torch.tensor([*rivals, score], dtype=torch.double).logsumexp(0) - score
        assert float(losses[sentence]) == pytest.approx(float(expected))


def plain_optimisation(decoder, sentence: int, gold: list[int], beam: int, margin: float) -> float:
    """Wiseman & Rush's loss in lists, each prefix scored from its beginning."""

    @cache
    def score(*symbols: int) -> float:
        return prefix_score(decoder, sentence, list(symbols))

    hypotheses, loss = [[]], 0.0
    for step in range(len(gold)):
        longer = [
            continued
            for symbols in hypotheses
            for continued in ([symbols] if decoder.end in symbols else [[*symbols, symbol] for symbol in range(3)])
        ]
        longer.sort(key=lambda symbols: -score(*symbols))
        prefix = gold[: step + 1]
        rivals = [symbols for symbols in longer if symbols != prefix]
        rank = 0 if step + 1 == len(gold) else beam - 1
        violation = 0.0
        if rank < len(rivals):
            violation = max(0.0, margin - score(*prefix) + score(*rivals[rank]))
        loss += violation
        hypotheses = [prefix] if violation > 0 else longer[: beam + 1]
    return loss


@pytest.mark.parametrize("beam", [1, 2, 4])
def test_beam_search_optimisation_by_lists(decoder, beam):
    violated = 0
    for gold in [*GOLDS, exact_search(decoder).symbols[:, 0], beam_search(decoder, 1).symbols[:, 0]]:
        losses = beam_search_optimisation_loss(decoder, gold, beam, margin=0.05)
        for sentence in range(3):
            symbols = [symbol for symbol in gold_symbols(decoder, gold, sentence) if symbol != PADDING]
            expected = plain_optimisation(decoder, sentence, symbols, beam, 0.05)
            assert float(losses[sentence]) == pytest.approx(expected)
            violated += expected > 0
    assert violated > 0
    assert violated < 18 or beam == 1


@pytest.mark.parametrize("loss", [beam_crf_loss, beam_search_optimisation_loss])
def test_gradients_are_those_of_finite_differences(decoder, loss):
    def of_weights(output: torch.Tensor, embeddings: torch.Tensor) -> torch.Tensor:
        return loss(replace(decoder, output=output, embeddings=embeddings), GOLDS[0], 2)

    weights = (decoder.output.clone().requires_grad_(), decoder.embeddings.clone().requires_grad_())
    assert torch.autograd.gradcheck(of_weights, weights, fast_mode=True)
