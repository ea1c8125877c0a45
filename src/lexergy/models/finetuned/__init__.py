"""Encoders fine-tuned for a task: classification, regression, spans."""

from lexergy.models.finetuned.model import Answer, Classified, Finetuned, FinetunedConfig, FinetunedEncoder

__all__ = ["Answer", "Classified", "Finetuned", "FinetunedConfig", "FinetunedEncoder"]
