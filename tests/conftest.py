"""Fixtures live beside the toys that they are made of."""

import pytest

pytest.register_assert_rewrite("toys")
pytest_plugins = [
    "toys.browser",
    "toys.cache",
    "toys.commands",
    "toys.corpora",
    "toys.detectors",
    "toys.encoders",
    "toys.laboratory",
    "toys.language_models",
    "toys.places",
    "toys.recipes",
    "toys.runs",
    "toys.served",
    "toys.studies",
]
