"""Words of people, of a machine, and of both."""

import random

PEOPLE = ["rain", "over", "hills", "sang", "softly", "while", "grandmother", "kept", "bees", "near", "old", "walls"]
MACHINE = [
    "overall",
    "it",
    "is",
    "important",
    "to",
    "note",
    "that",
    "these",
    "various",
    "factors",
    "play",
    "crucial",
    "roles",
]
SHARED = ["when", "we", "came", "home", "the", "day", "was", "long", "and"]


def written(words, seed):
    """Sentences of 60 words, some shared, most of the writer's own."""
    generator = random.Random(seed)
    drawn = [generator.choice(words if generator.random() < 0.7 else SHARED) for _ in range(60)]
    return " ".join(f"{word}." if index % 12 == 11 else word for index, word in enumerate(drawn))
