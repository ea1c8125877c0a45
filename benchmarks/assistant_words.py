"""The score `assistant`: its words, fitted on people's texts and an assistant's, and how far it carries to others.

    python benchmarks/assistant_words.py fit --folder $LEXERGY_DATA --brown package
    python benchmarks/zero_shot.py people --folder $LEXERGY_DATA --brown package --cache people.safetensors
    python benchmarks/assistant_words.py transfer --folder $LEXERGY_DATA --brown package \\
        --sets runs/zero-shot/sets.json --cache runs/zero-shot/smollm2.safetensors --tokens 200

`fit` writes assistant.json, with which no LM is run: means and deviations of the LM's measures are those of
people.json, words are of excerpts of the Brown corpus, the BBC's news, the web and recent speeches, and of
assistant_texts.jsonl. Documents that false positives are calibrated on are left out. `transfer` prints the AUC of
every scorer on sets that zero_shot.py has written and read. For each set the words are fitted anew, without the
people's corpus that is scored and without the assistant's texts of its kind (of later texts, without the corpus);
TF-IDF likewise. All texts are cut to so many tokens: a longer one is told more easily, and the assistant's are longer.
"""

import argparse
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from zero_shot import assistant_texts, brown_texts, cell, first_words, people_documents, records, web_texts

from lexergy import CausalLM
from lexergy.core.detection.assistant import ASSISTANT, MEASURES, AssistantScore, WordWeights
from lexergy.core.detection.classification import classification_metrics
from lexergy.core.detection.zero_shot import SCORERS, TokenStatistics
from lexergy.data.corpora import load_corpus
from lexergy.data.detection.plain_text import plain_text, whole_sentences
from lexergy.files import atomic_write_json, hash_of
from lexergy.models import detection
from lexergy.models.detection.default import ASSISTANT_FILE, LM, PEOPLE_FILE
from lexergy.tasks.detection.baselines import tf_idf_energies

TOKENS = 200  # of a text, in fitting
WORDS, EXCERPTS = 170, 4  # of an excerpt; of a long document
RECENT = 75  # speeches
FEWEST, FEWEST_MACHINE = 10, 3  # texts that a word is in
RIDGE = 0.015
SHARE = 0.5  # of the words in the score
LONG = 120  # tokens of people's texts from which means and deviations are taken
_WORD = re.compile(
    r"Ġ[a-z']+|Ġ?[,.;:()?!]+"
)  # no names and dates, which are the subject; no quotes and dashes, house style
_BOOTSTRAP = 1000


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
    weights = [1 / share for part in (people, machines) for share in group_sizes(part)]
    regression = LogisticRegression(C=1 / RIDGE, max_iter=3000, tol=1e-6)
    regression.fit(present, [False] * len(people) + [True] * len(machines), sample_weight=np.array(weights) / 2)
    return WordWeights(
        tuple(vocabulary),
        tuple(round(float(value), 4) for value in regression.coef_[0]),
        tuple(float(f"{value:.4g}") for value in rates(people, present[: len(people)])),
    )


def presence(rows: Sequence[set[int]], vocabulary: Sequence[int]) -> csr_array:  # (N, V)
    column = {token: place for place, token in enumerate(vocabulary)}
    places = [(row, column[token]) for row, own in enumerate(rows) for token in own if token in column]
    return csr_array((np.ones(len(places)), tuple(zip(*places, strict=True))), shape=(len(rows), len(vocabulary)))


def group_sizes(texts: Sequence[Text]) -> list[int]:
    """Of each text: how many are of its group, times how many groups there are."""
    sizes = Counter(own.group for own in texts)
    return [sizes[own.group] * len(sizes) for own in texts]


def rates(people: Sequence[Text], present: csr_array) -> np.ndarray:  # (V,)
    """f with 1 - (1 - f)^n = the share of people's texts with the token, n tokens each: a mean over corpora."""
    groups = np.array([own.group for own in people])
    lengths = np.array([min(TOKENS, len(ids(own.text))) - 1 for own in people])
    found = []
    for group in dict.fromkeys(groups):
        share = present[groups == group].mean(0).clip(1e-4, 1 - 1e-3)
        found.append(1 - (1 - share) ** (1 / lengths[groups == group].mean()))
    return np.mean(found, 0)


def scale() -> tuple[dict[str, float], dict[str, float]]:
    """Means and deviations of MEASURES over the longer of people's texts that false positives are calibrated on."""
    record = json.loads((Path(detection.__file__).parent / PEOPLE_FILE).read_text())
    energies = {name: np.array(own) for name, own in record["energies"].items()}
    varentropy = 10 * (energies["tail-varentropy"] - energies["rank-tail"])  # minus it
    long = np.array(record["tokens"]) >= LONG
    own = {"likelihood": energies["likelihood"], "rank-tail": energies["rank-tail"], "varentropy": varentropy}
    return tuple({name: round(float(of(own[name][long])), 4) for name in MEASURES} for of in (np.mean, np.std))


def fit(folder: Path, brown: Path) -> None:
    """Write assistant.json."""
    words = fit_words(people_of(folder, brown, spared=True), machines_of())
    means, deviations = scale()
    names = tokenizer().convert_ids_to_tokens(list(words.tokens))
    record = {
        "lm": LM,
        "means": means,
        "deviations": deviations,
        "share": SHARE,
        "words": {name: own for name, *own in zip(names, words.weights, words.rates, strict=True)},
    }
    atomic_write_json(Path(detection.__file__).parent / ASSISTANT_FILE, record)
    order = sorted(zip(words.weights, names, strict=True))
    print(f"{len(names)} words; people's: {order[:25]}; the assistant's: {order[:-26:-1]}")


def transfer(folder: Path, brown: Path, sets: Path, cache: Path, tokens: int) -> None:
    """The AUC of each scorer on each set, and the difference of the default and the others on the mean of all."""
    known, people, machines = load_file(cache), people_of(folder, brown, spared=False), machines_of()
    means, deviations = scale()
    resampled: dict[str, list[np.ndarray]] = {}
    values: dict[str, list[float]] = {}
    for name, files in json.loads(sets.read_text()).items():
        sides = [[*records(map(Path, files[side]))] for side in ("people", "machines")]
        corpus, kind = (Path(files[side][0]).stem for side in ("people", "machines"))
        spared = corpus.removeprefix("later-").split("-")[0]
        trained = (
            [own for own in people if own.group != spared],
            [own for own in machines if f"assistant-{own.group}" != kind],
        )
        words = fit_words(*trained)
        score = AssistantScore(tuple(means.values()), tuple(deviations.values()), words, SHARE)
        texts = [record["text"] for own in sides for record in own]
        statistics = [TokenStatistics(*known[hash_of(text)].double()[: tokens - 1].T) for text in texts]
        rows = [torch.tensor(ids(text)[:tokens]) for text in texts]
        energies = {name: [float(terms(own).mean()) for own in statistics] for name, terms in SCORERS.items()}
        energies["words"] = [float(words.terms(row[1:]).mean()) for row in rows]
        energies["TF-IDF"] = tf_idf(trained, rows)
        energies[ASSISTANT] = [float(score.terms(row, own).mean()) for row, own in zip(rows, statistics, strict=True)]
        is_machine = torch.tensor([False] * len(sides[0]) + [True] * len(sides[1]))
        documents = [record["document"] for own in sides for record in own]
        print(f"\n{name} ({len(sides[0])}, {len(sides[1])})", end="")
        for scorer, own in energies.items():
            metric = classification_metrics(torch.tensor(own), is_machine, documents).auc
            values.setdefault(scorer, []).append(metric.value)
            resampled.setdefault(scorer, []).append(bootstrap(own, files["people"] + files["machines"], sides))
            print(f" | {scorer} {cell(metric)}", end="", flush=True)
    print()
    for scorer, own in values.items():
        difference = np.mean(resampled[ASSISTANT], 0) - np.mean(resampled[scorer], 0)
        low, high = np.quantile(difference, (0.025, 0.975))
        print(
            f"{scorer}: mean {np.mean(own):.3f}, least {min(own):.3f}; {ASSISTANT} minus it {low:+.3f} to {high:+.3f}"
        )


def tf_idf(trained: tuple[Sequence[Text], Sequence[Text]], rows: Sequence[torch.Tensor]) -> list[float]:
    read = [tokenizer().decode(list(ids(own.text)[:TOKENS])) for part in trained for own in part]
    is_machine = [number >= len(trained[0]) for number in range(len(read))]
    return tf_idf_energies(read, is_machine, [tokenizer().decode(row.tolist()) for row in rows]).tolist()


def bootstrap(energies: Sequence[float], files: Sequence[str], sides: Sequence[Sequence[object]]) -> np.ndarray:
    """AUCs (R,) with texts drawn again; a file's are drawn alike in all sets that it is in."""
    parts = np.split(np.array(energies), [len(sides[0])])
    drawn = [
        own[np.random.default_rng(list(file.encode())).integers(len(own), size=(_BOOTSTRAP, len(own)))]
        for own, file in zip(parts, files, strict=True)
    ]
    wins = drawn[1][:, :, None] - drawn[0][:, None, :]  # (R, machines, people)
    return ((wins > 0) + 0.5 * (wins == 0)).mean((1, 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    fitting, asking = commands.add_parser("fit"), commands.add_parser("transfer")
    for command in (fitting, asking):
        command.add_argument("--folder", type=Path, required=True)
        command.add_argument("--brown", type=Path, required=True)
    asking.add_argument("--sets", type=Path, required=True)
    asking.add_argument("--cache", type=Path, required=True)
    asking.add_argument("--tokens", type=int, default=TOKENS)
    options = vars(parser.parse_args())
    {"fit": fit, "transfer": transfer}[options.pop("command")](**options)


if __name__ == "__main__":
    main()
