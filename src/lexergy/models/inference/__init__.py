"""How a model is run fast: its linear layers, rows without padding, batches side by side."""
