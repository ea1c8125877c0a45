"""A decoder of one's own: a few lines of the protocol, and every search and loss works on it."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lexergy.core.search_aware.baselines import beam_crf_loss
from lexergy.core.search_aware.beam_search import beam_search, exact_search
from lexergy.core.search_aware.step_decoder import PADDING, States
from lexergy.core.soft_beam import direct_loss, soft_hinge_loss

NUM_WORDS, NUM_LABELS, SIZE = 5, 3, 12


class GruTagger(nn.Module):
    """A GRU that reads a word and the label before it."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(NUM_WORDS, SIZE)
        self.labels = nn.Embedding(NUM_LABELS, SIZE)
        self.cell = nn.GRUCell(2 * SIZE, SIZE)
        self.output = nn.Linear(SIZE, NUM_LABELS)

    def decoder(self, words: Tensor, lengths: Tensor) -> "GruDecoder":
        return GruDecoder(self, words, lengths)


@dataclass(frozen=True)
class GruDecoder:
    module: GruTagger
    words: Tensor  # (B, T)
    lengths: Tensor  # (B,)
    end: int | None = None

    @property
    def embeddings(self) -> Tensor:
        return self.module.labels.weight

    def start(self) -> tuple[States, Tensor]:
        zeros = torch.zeros(len(self.words), 1, SIZE)
        return (zeros,), zeros

    def step(self, position: int, states: States, inputs: Tensor) -> tuple[Tensor, States]:
        (hidden,) = states
        word = self.module.words(self.words[:, position]).unsqueeze(1).expand_as(inputs)
        new = self.module.cell(torch.cat([word, inputs], -1).flatten(0, 1), hidden.flatten(0, 1)).view_as(hidden)
        return self.module.output(new).log_softmax(-1), (new,)


def data():
    """The label of a word is its number modulo 3, plus that of the word before it."""
    generator = torch.Generator().manual_seed(0)
    words, lengths = (
        torch.randint(NUM_WORDS, (48, 4), generator=generator),
        torch.randint(1, 5, (48,), generator=generator),
    )
    labels = (words + torch.cat([torch.zeros_like(words[:, :1]), words[:, :-1]], dim=1)) % NUM_LABELS
    return words, lengths, labels.masked_fill(torch.arange(4) >= lengths[:, None], PADDING)


def test_a_decoder_of_one_s_own_is_searched_and_trained():
    torch.manual_seed(0)
    words, lengths, gold = data()
    tagger = GruTagger()
    optimizer = torch.optim.Adam(tagger.parameters(), 0.02)
    losses = []
    for _ in range(60):
        loss = direct_loss(tagger.decoder(words, lengths), gold, beam=2, alpha=1.0).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]
    decoder = tagger.decoder(words, lengths)
    best = beam_search(decoder, beam=3**4)
    assert torch.equal(best.symbols[:, 0], exact_search(decoder).symbols[:, 0])
    assert (best.symbols[:, 0] == gold).float().mean() > 0.85
    for other_loss in (soft_hinge_loss(decoder, gold, 2, 5.0), beam_crf_loss(decoder, gold, 2)):
        assert other_loss.shape == (48,)
        assert other_loss.isfinite().all()
