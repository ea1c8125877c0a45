"""Fixtures live beside the toys that they are made of."""

pytest_plugins = [
    "toys.recipes",  # first: others are made of it
    "toys.commands",
    "toys.detectors",
    "toys.encoders",
    "toys.laboratory",
    "toys.studies",
]
