"""Hypotheses and candidates as lists, to be rescored or reranked."""
