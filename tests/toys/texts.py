"""Words and texts from which other toys are made."""

import random

UNION = "the state of our union is strong and we will build a better future for all people in this nation"
UNION_WORDS = UNION.split()

# What people write, what a machine writes, and what both do.
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

COLOURS = {"red": "warm", "blue": "cold"}


def written(words: list[str], seed: int) -> str:
    """Sentences of 60 words, some shared, most of the writer's own."""
    generator = random.Random(seed)
    drawn = [generator.choice(words if generator.random() < 0.7 else SHARED) for _ in range(60)]
    return " ".join(f"{word}." if index % 12 == 11 else word for index, word in enumerate(drawn))


def labelled_texts(count: int, seed: int) -> list[dict]:
    """A colour among other words; its label, a number that grows with its label, and the colour's place."""
    generator = random.Random(seed)
    records = []
    for _ in range(count):
        words = [generator.choice(UNION_WORDS) for _ in range(5)]
        colour = generator.choice(sorted(COLOURS))
        words.insert(generator.randint(0, 5), colour)
        text = " ".join(words)
        records.append(
            {
                "text": text,
                "label": COLOURS[colour],
                "year": 1800 if colour == "red" else 2000,
                "context": text,
                "question": "which colour",
                "answers": [{"text": colour, "answer_start": text.index(colour)}],
            }
        )
    return records
