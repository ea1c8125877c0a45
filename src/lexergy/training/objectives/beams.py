"""Objectives that know of the beam search that decodes the model: its relaxation, and what others minimise."""

from collections.abc import Callable

from torch import Tensor

from lexergy.core.search_aware.baselines import beam_crf_loss, beam_search_optimisation_loss
from lexergy.core.search_aware.sequence_costs import hamming_costs
from lexergy.core.soft_beam import direct_loss, soft_hinge_loss
from lexergy.models.seq2seq.decoder import BoundDecoder
from lexergy.models.seq2seq.pairs import SequencePairs
from lexergy.training.objectives.search_aware import Annealing, Draws, SequenceObjective, Validation

SoftLoss = Callable[..., Tensor]
LOSSES: dict[str, SoftLoss] = {"direct": direct_loss, "hinge": soft_hinge_loss}


class SoftBeamSearch(SequenceObjective):
    """The cost of what the relaxed beam search finds, or the soft structured hinge (4.3.3 and 4.4, Goyal 2021).

    `weights` (V,) are what each symbol costs where it is wrong.
    """

    def __init__(
        self,
        train: SequencePairs,
        validation: Validation,
        *,
        loss: str,
        beam: int,
        alpha: Annealing,
        candidates: int | None,
        weights: Tensor | None,
    ) -> None:
        super().__init__(train, validation)
        self.soft_loss = LOSSES[loss]
        self.beam = beam
        self.alpha = alpha
        self.candidates = candidates
        self.weights = weights

    def settings(self) -> dict[str, float]:
        return {"alpha": self.alpha.at(self.step)}

    def sentence_losses(self, decoder: BoundDecoder, gold: Tensor, draws: Draws) -> Tensor:
        weights = None if self.weights is None else self.weights.to(gold.device)
        costs = hamming_costs(decoder, gold, weights)
        alpha = self.alpha.at(self.step)
        return self.soft_loss(decoder, gold, self.beam, alpha, costs, candidates=self.candidates)


class BeamCrf(SequenceObjective):
    """A CRF normalised over the beam, with early updates (Andor et al. 2016)."""

    def __init__(self, train: SequencePairs, validation: Validation, beam: int) -> None:
        super().__init__(train, validation)
        self.beam = beam

    def sentence_losses(self, decoder: BoundDecoder, gold: Tensor, draws: Draws) -> Tensor:
        return beam_crf_loss(decoder, gold, self.beam)


class BeamSearchOptimisation(SequenceObjective):
    """Gold above the last of the beam by a margin, at every step (Wiseman & Rush 2016)."""

    def __init__(self, train: SequencePairs, validation: Validation, beam: int, margin: float) -> None:
        super().__init__(train, validation)
        self.beam = beam
        self.margin = margin

    def sentence_losses(self, decoder: BoundDecoder, gold: Tensor, draws: Draws) -> Tensor:
        return beam_search_optimisation_loss(decoder, gold, self.beam, self.margin)
