"""A study from its material: pairs of systems on each prompt, checks with a poor text, the qualifying round."""

import secrets
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from lexergy.errors import LexergyError
from lexergy.runs.stages import stage_seed
from lexergy.tasks.arena.continuations import Continued, Material
from lexergy.tasks.arena.study import Comparison, Kind, Rules, Study

SHUFFLED = "shuffled"
CODE_BYTES = 4


def make_study(name: str, material: Material, rules: Rules, seed: int) -> Study:
    """Every two systems on every prompt; texts that are alike to the letter cannot be compared and are left out."""
    pairs = [
        comparison
        for entry in material.pairs
        for systems in combinations(material.systems, 2)
        for comparison in [_comparison("pair", entry, systems)]
    ]
    different = [pair for pair in pairs if pair.texts[0].strip() != pair.texts[1].strip()]
    if not different:
        raise LexergyError(f"{', '.join(material.systems)} wrote the same texts; expected some that differ.")
    comparisons = [
        *different,
        *(_comparison("qualifying", entry, tuple(entry.texts)) for entry in material.qualifying),
        *_checks(material.checks, stage_seed(seed, "shuffled words")),
    ]
    return Study(
        name=name,
        seed=seed,
        systems=material.systems,
        rules=replace(rules, code=rules.code or _code(), qualifying_code=rules.qualifying_code or _code()),
        comparisons=tuple(replace(entry, id=f"{number:04d}") for number, entry in enumerate(comparisons)),
        facts={**material.facts, "left_out_as_alike": len(pairs) - len(different)},
    )


def _comparison(kind: Kind, entry: Continued, systems: Sequence[str]) -> Comparison:
    first, second = systems
    return Comparison("", kind, entry.prompt, (first, second), (entry.texts[first], entry.texts[second]), entry.group)


def _checks(entries: Sequence[Continued], seed: int) -> list[Comparison]:
    """A text against its own words in another order: poor by any measure, and no energy's opinion is in it."""
    generator = np.random.default_rng(seed)
    checks = []
    for entry in entries:
        [(system, text)] = entry.texts.items()
        words = text.split()
        poor = " ".join(words[place] for place in generator.permutation(len(words)).tolist())
        if poor != " ".join(words):
            texts = {system: text, SHUFFLED: poor}
            checks.append(_comparison("check", Continued(entry.prompt, entry.group, texts), tuple(texts)))
    return checks


def _code() -> str:
    return secrets.token_hex(CODE_BYTES).upper()
