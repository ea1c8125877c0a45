import pytest
import torch

from lexergy.core.enumeration import all_sequences
from lexergy.core.search_aware.beam_search import all_sequences_scored, beam_search, exact_search, gold_survival
from lexergy.core.search_aware.step_decoder import PADDING, score_sequences
from lexergy.errors import LexergyError
from toys.decoders import toy_decoder

DECODERS = {
    "tagging": toy_decoder((4, 2, 3)),
    "raw scores": toy_decoder((4, 2, 3), normalised=False, seed=1),
    "with an end": toy_decoder((4, 4, 2), end=1, seed=2),
}


@pytest.fixture(params=DECODERS)
def decoder(request):
    return DECODERS[request.param]


def sequence(symbols: torch.Tensor) -> list[int]:
    return [symbol for symbol in symbols.tolist() if symbol != PADDING]


def plain_beam_search(decoder, sentence: int, beam: int) -> list[tuple[float, list[int]]]:
    """Alg. 1 as it is printed, with lists: a hypothesis that is over is carried along."""
    hypotheses = [(0.0, [])]
    limit = int(decoder.lengths[sentence])
    for _ in range(limit):
        continued = []
        for score, symbols in hypotheses:
            if decoder.end in symbols:
                continued.append((score, symbols))
                continue
            for symbol in range(len(decoder.embeddings)):
                longer = [*symbols, symbol]
                padded = torch.tensor([longer + [PADDING] * (limit - len(longer))])
                continued.append((float(score_sequences(decoder.of(sentence), padded)), longer))
        hypotheses = sorted(continued, key=lambda pair: -pair[0])[:beam]
    return hypotheses


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_beam_search_is_algorithm_1(decoder, beam):
    result = beam_search(decoder, beam)
    for sentence in range(3):
        expected = plain_beam_search(decoder, sentence, beam)
        assert [sequence(symbols) for symbols in result.symbols[sentence]] == [symbols for _, symbols in expected]
        assert result.scores[sentence].tolist() == pytest.approx([score for score, _ in expected])
        assert result.lengths[sentence].tolist() == [len(symbols) for _, symbols in expected]


def test_a_beam_as_wide_as_the_space_is_exact_search(decoder):
    """Some sentences have fewer sequences than the beam has places: those left over are empty."""
    found, exact = beam_search(decoder, 3**4), exact_search(decoder, 3**4)
    exists = exact.scores.isfinite()
    assert torch.equal(found.scores.isfinite(), exists)
    assert not exists.all()
    assert torch.allclose(found.scores[exists], exact.scores[exists])
    assert torch.equal(found.symbols, exact.symbols)
    assert torch.equal(found.lengths == 0, ~exists)


def test_enumeration_scores_every_sequence_once(decoder):
    every = all_sequences_scored(decoder)
    for sentence in range(3):
        length = int(decoder.lengths[sentence])
        candidates = all_sequences(3, length)
        if decoder.end is not None:
            after = (candidates == decoder.end).cumsum(-1) - (candidates == decoder.end).int() > 0
            candidates = candidates.masked_fill(after, PADDING).unique(dim=0)
        expected = {
            tuple(sequence(symbols)): float(score_sequences(decoder.of(sentence), symbols[None]))
            for symbols in candidates
        }
        exists = every.scores[sentence].isfinite()
        pairs = zip(every.symbols[sentence][exists], every.scores[sentence][exists], strict=True)
        scored = [(tuple(sequence(symbols)), float(score)) for symbols, score in pairs]
        assert len(scored) == len(expected)
        assert dict(scored) == pytest.approx(expected)


def test_a_sentence_finds_the_same_alone(decoder):
    together = beam_search(decoder, 3)
    for sentence in range(3):
        size = int(decoder.lengths[sentence])
        alone = beam_search(decoder.of(sentence, size), 3)
        assert torch.equal(alone.symbols[0], together.symbols[sentence, :, : alone.symbols.shape[-1]])
        assert torch.allclose(alone.scores[0], together.scores[sentence])


def test_a_length_penalty_orders_the_last_beam():
    decoder = toy_decoder((4, 4, 4, 4), end=1, seed=3)
    result = beam_search(decoder, 4, length_penalty=1.0)
    means = result.scores / result.lengths
    assert (means.diff() <= 0).all()
    assert (result.scores.diff() > 0).any()


def test_when_the_gold_prefix_falls_off_the_beam(decoder):
    """Against beams of prefixes: the beam after t steps is that of the same sentence cut off at t."""
    generator = torch.Generator().manual_seed(0)
    fallen = 0
    for beam in (1, 3, 8):
        gold = torch.randint(3, (3, 4), generator=generator)
        survival = gold_survival(decoder, gold, beam)
        for sentence, length in enumerate(decoder.lengths.tolist()):
            symbols = gold[sentence, :length].tolist()
            if decoder.end in symbols:
                symbols = symbols[: symbols.index(decoder.end) + 1]
            beams = [beam_search(decoder.of(sentence), beam, max_steps=step + 1).symbols[0] for step in range(length)]
            off = [step for step in range(length) if symbols[: step + 1] not in map(sequence, beams[step])]
            assert int(survival[sentence]) == min([*off, length])
            fallen += bool(off)
    assert 0 < fallen < 9


def test_bad_values_are_named(decoder):
    with pytest.raises(LexergyError, match="`beam` is 0"):
        beam_search(decoder, 0)
    with pytest.raises(LexergyError, match=r"3\^40 sequences"):
        exact_search(toy_decoder((40,)))
