"""Machine or human: energies that read raw texts, block by block."""

from lexergy.models.detection.detector import Detection, Detector, Sentence, Span

__all__ = ["Detection", "Detector", "Sentence", "Span"]
