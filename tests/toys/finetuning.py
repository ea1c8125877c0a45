"""Texts whose label is told by a word."""

import random

TEXT = "the state of our union is strong and we will build a better future for all people in this nation"
WORDS = TEXT.split()
COLOURS = {"red": "warm", "blue": "cold"}


def labelled_texts(count: int, seed: int) -> list[dict]:
    """A colour among other words; its label, a number that grows with its label, and the colour's place."""
    generator = random.Random(seed)
    records = []
    for _ in range(count):
        words = [generator.choice(WORDS) for _ in range(5)]
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
