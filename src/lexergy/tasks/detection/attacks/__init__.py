"""Attacks for which a model is needed: words that an LM proposes, paraphrases, the gradient of a detector."""
