"""What others minimise to train for beam search: losses per sentence with the interface of `direct_loss`.

Both follow the gold prefix on a hard beam, whose choices pass no gradient; scores and states do.
"""

import torch
import torch.nn.functional as functional
from torch import Tensor

from lexergy.core.decoding import pick
from lexergy.core.search_aware.beam_search import BeamStep, advance, chosen, gold_places
from lexergy.core.search_aware.step_decoder import PADDING, StepDecoder, score_steps, written


def beam_crf_loss(decoder: StepDecoder, gold: Tensor, beam: int) -> Tensor:  # (B, T) -> (B,)
    """-s(y*_{1:j}) + log sum_{y in B_j} exp s(y), a CRF normalised over the beam with gold (Andor et al. 2016).

    j is the step at which the gold prefix falls off the beam (early update, Collins & Roark 2004), or the last one.
    With a beam as wide as the space it is the negative log-likelihood of the globally normalised model.
    """
    gold_scores = score_steps(decoder, gold).cumsum(-1)  # (B, T)
    loss = gold_scores.new_zeros(len(gold))
    followed = torch.ones_like(loss, dtype=torch.bool)
    for position, (step, on_beam) in enumerate(gold_places(decoder, gold, beam)):
        gold_score = gold_scores[:, min(position, gold.shape[1] - 1), None]
        others = step.scores.masked_fill(on_beam, -torch.inf)
        so_far = torch.cat([others, gold_score], -1).logsumexp(-1) - gold_score.squeeze(-1)
        loss = torch.where(followed & (position < decoder.lengths), so_far, loss)
        followed = followed & on_beam.any(-1)
        if not followed.any():
            break
    return loss


def beam_search_optimisation_loss(
    decoder: StepDecoder,
    gold: Tensor,  # (B, T)
    beam: int,
    margin: float = 1.0,
) -> Tensor:  # (B,)
    """sum_t max(0, margin - s(y*_{1:t}) + s(y^_{1:t})), y^ the rival that pushes gold off (Wiseman & Rush 2016).

    The rival is the `beam`-th best prefix that is not gold's, at the last step the best. After a violation the search
    starts again from the gold prefix alone (LaSO, Daume & Marcu 2005), so that gold is always on the beam. Every
    violation counts alike; the paper weighs them by a cost, sentence BLEU in translation.
    """
    gold = gold.masked_fill(~written(decoder, gold), PADDING)
    lengths = (gold != PADDING).sum(-1)  # (B,)
    states, inputs = decoder.start()
    states, inputs = tuple(state.expand(-1, 2, *state.shape[2:]) for state in states), inputs.expand(-1, 2, -1)
    gold_score = inputs.new_zeros(len(gold))
    scores, loss = gold_score.unsqueeze(-1), gold_score
    on_beam, over = torch.ones_like(scores, dtype=torch.bool), torch.zeros_like(scores, dtype=torch.bool)
    for position in range(int(lengths.max())):
        symbol, going = gold[:, position, None], position < lengths  # (B, 1), (B,)
        step_scores, states = decoder.step(position, states, inputs)  # (B, K + 1, V), gold the last hypothesis
        gold_score = gold_score + torch.where(going, pick(step_scores[:, -1], symbol[:, 0].clamp_min(0)), 0)
        step = advance(scores, step_scores[:, :-1], over, beam + 1)
        on_beam = on_beam.gather(1, step.parents) & (step.symbols == symbol) & step.scores.isfinite()
        rivals = step.scores.masked_fill(on_beam, -torch.inf).sort(-1, descending=True).values
        rank = torch.where(lengths == position + 1, 0, min(beam, rivals.shape[1]) - 1)
        violation = (margin - gold_score + pick(rivals, rank)).relu()
        loss = loss + torch.where(going, violation, 0)
        over = over.gather(1, step.parents) | (step.symbols == (PADDING if decoder.end is None else decoder.end))
        again = (violation > 0).unsqueeze(-1)  # (B, 1): from gold alone, which takes the first place
        step, on_beam = _restarted(step, on_beam, again, gold_score, symbol, step_scores.shape[1] - 1)
        scores, over = step.scores, over & ~again
        parents = functional.pad(step.parents, (0, 1), value=step_scores.shape[1] - 1)
        states = tuple(chosen(state, parents) for state in states)
        inputs = decoder.embeddings[torch.cat([step.symbols, symbol], 1).clamp_min(0)]
    return loss


def _restarted(
    step: BeamStep,
    on_beam: Tensor,  # (B, K) bool
    again: Tensor,  # (B, 1) bool
    gold_score: Tensor,  # (B,)
    symbol: Tensor,  # (B, 1), gold's
    gold_place: int,
) -> tuple[BeamStep, Tensor]:
    """The beam, or gold alone in its first place where the search starts again; and where gold is on it."""
    first = torch.arange(on_beam.shape[1], device=on_beam.device) == 0  # (K,)
    alone = torch.where(first, gold_score.unsqueeze(-1), -torch.inf)
    return (
        BeamStep(
            torch.where(again, alone, step.scores),
            torch.where(again & first, gold_place, step.parents),
            torch.where(again & first, symbol, step.symbols),
        ),
        torch.where(again, first, on_beam),
    )
