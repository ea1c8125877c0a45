"""Machine or human: energies that read raw texts, block by block."""

from lexergy.models.detection.detector import Detection, Detector, Span

__all__ = ["Detection", "Detector", "Span"]
