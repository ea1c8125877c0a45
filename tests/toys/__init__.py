"""Tiny models, recipes, texts and runs that tests share."""
