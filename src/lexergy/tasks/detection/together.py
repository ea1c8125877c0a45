"""An encoder's energy beside that of LMs: which of the two says how much, by texts that neither was trained on."""

import torch
from torch import Tensor

from lexergy.core.fitting.combination import fit_combination
from lexergy.models.detection.combined import SumReader
from lexergy.models.detection.detector import Detector
from lexergy.models.detection.readers import EncoderReader, StatesReader
from lexergy.tasks.detection.prepared import PreparedTexts, TextEnergies
from lexergy.tasks.detection.states import lms_of

LMS, ENCODER = "LMs alone", "encoder alone"


def beside_encoder(
    detector: Detector, encoder: EncoderReader, held_out: PreparedTexts, test: PreparedTexts, energies: TextEnergies
) -> tuple[Detector, TextEnergies]:
    """c_1 E_LMs + c_2 E_encoder, and what it says of the test texts, beside each alone.

    The coefficients are those of `core.fitting.combination` on texts `held_out`: an encoder is far too sure of
    those that it was trained on. What is calibrated afterwards must not be calibrated on the same texts.
    """
    members: list[StatesReader | EncoderReader] = [*lms_of(detector), encoder]
    alone = [
        Detector(SumReader(members, [*[float(lms)] * (len(members) - 1), 1.0 - lms]), detector.settings)
        for lms in (True, False)
    ]
    judged = _energies(alone, held_out)  # (N, 2)
    fitted = fit_combination(judged[~held_out.is_machine], judged[held_out.is_machine]).coefficients
    of_lms, of_encoder = fitted.tolist()
    reader = SumReader(members, [*[of_lms] * (len(members) - 1), of_encoder])
    parts = _energies(alone, test)
    baselines = {LMS: parts[:, 0], ENCODER: parts[:, 1], **energies.baselines}
    return Detector(reader, detector.settings), TextEnergies(parts @ fitted, baselines)


def halves(texts: PreparedTexts) -> tuple[PreparedTexts, PreparedTexts]:
    """Every other document, and the rest."""
    order = {group: number for number, group in enumerate(dict.fromkeys(texts.groups))}
    even = [order[group] % 2 == 0 for group in texts.groups]
    return texts.chosen(even), texts.chosen([not own for own in even])


def _energies(detectors: list[Detector], texts: PreparedTexts) -> Tensor:  # (N, detectors)
    columns = [[judged.energy for judged in detector.judge(texts.texts)] for detector in detectors]
    return torch.tensor(columns, dtype=torch.double).T
