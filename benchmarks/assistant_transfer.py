"""How far the score `assistant` carries: to collections, assistants and people that it was not fitted on.

    python benchmarks/public_texts.py --clones clones --out runs/public
    python benchmarks/zero_shot.py sets --folder $LEXERGY_DATA --brown package --out runs/zero-shot
    python benchmarks/zero_shot.py read --texts runs/public/asked/*.jsonl runs/zero-shot/*.jsonl \\
        --cache smollm2.safetensors
    python benchmarks/assistant_transfer.py --folder $LEXERGY_DATA --brown package --public runs/public \\
        --sets runs/zero-shot/sets.json --cache smollm2.safetensors

A row is people's texts and an assistant's, all cut to as many tokens. `unseen`: for each row words and habits are
fitted anew, without the collection, without all assistants of the maker, and without the people's source wherever it
comes from; of ours, without the kind and the people's corpus. TF-IDF is fitted without collection and people's source,
but with the maker's other texts. `shipped` is the score as it is, which has seen other texts of these collections but
`today`. Intervals are by bootstrap over texts, those of a file drawn alike in all rows that it is in.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from assistant_words import (
    FLOOR,
    SHARE,
    TOKENS,
    Text,
    fit_habits,
    fit_words,
    ids,
    machines_of,
    own_habits,
    people_of,
    public_texts,
    scale,
    tokenizer,
)
from safetensors.torch import load_file
from zero_shot import records

from lexergy import CausalLM
from lexergy.core.detection.assistant import AssistantScore
from lexergy.core.detection.zero_shot import SCORERS, TokenStatistics
from lexergy.files import hash_of
from lexergy.models.detection.default import LM, assistant_score
from lexergy.tasks.detection.baselines import tf_idf_energies

PER_GROUP = 100  # texts of a public file that are fitted on
BOOTSTRAP = 1000
FEWEST = 10  # texts of either side in a row
ONE_SOURCE = (
    ("bbc", "glimpse-news", "imbd-news", "l2r-news"),
    ("ghostbuster-stories", "glimpse-stories", "l2r-stories"),
    ("brown",),
)
MAKERS = ("claude", "gpt", "gemini", "deepseek", "grok", "kimi", "llama", "mistral", "qwen", "glm", "ling")
BESIDE = {"slop": "ghostbuster", "today": "ghostbuster", "imbd": "glimpse"}  # whose people's texts a collection has
PLAIN = ("likelihood", "log-rank", "curvature", "ratio", "tail-varentropy")


@dataclass(frozen=True)
class Row:
    people: Path
    machines: Path

    @property
    def collection(self) -> str:
        return collection(self.machines.stem)


def collection(name: str) -> str:
    found = name.split("-")[0]
    if name.startswith("later-"):
        return "later"
    return (
        {"imbd": "glimpse"}.get(found, found)
        if found in ("ghostbuster", "glimpse", "imbd", "slop", "l2r", "today")
        else "ours"
    )


def rows_of(asked: Path, sets: Path) -> list[Row]:
    rows = []
    for path in sorted(asked.glob("*.jsonl")):
        if not path.stem.endswith("-people"):
            found, kind, *_ = path.stem.split("-")
            rows.append(Row(asked / f"{BESIDE.get(found, found)}-{kind}-people.jsonl", path))
    ours = [
        Row(*(Path(own[side][0]) for side in ("people", "machines"))) for own in json.loads(sets.read_text()).values()
    ]
    return rows + [row for row in ours if row.machines.stem.startswith(("assistant", "later"))]


def same_people(group: str, asked: str) -> bool:
    """Whether people's texts are of the source that is asked about; a collection's are all of one."""
    asked = asked.removeprefix("later-")
    if collection(asked) != "ours" and collection(group) == collection(asked):
        return True
    return group.split("-")[0] == asked.split("-")[0] or any(
        group.startswith(source) and asked.startswith(source) for source in ONE_SOURCE
    )


def same_machines(group: str, asked: str) -> bool:
    """Whether an assistant's texts are of the collection or the maker asked about; of ours, of the kind."""
    if collection(asked) in ("ours", "later"):
        return f"assistant-{group}" == asked
    return collection(group) == collection(asked) or (maker(group) == maker(asked) and collection(group) != "ours")


def maker(name: str) -> str:
    return next((own for own in MAKERS if own in name), name)


@dataclass(frozen=True)
class Fitting:
    people: Sequence[Text]
    machines: Sequence[Text]

    def without(self, row: Row, makers: bool = True) -> "Fitting":
        asked = row.machines.stem
        same: Callable[[str], bool] = lambda group: same_machines(group, asked)  # noqa: E731
        if not makers and collection(asked) not in ("ours", "later"):
            same = lambda group: collection(group) == collection(asked)  # noqa: E731
        return Fitting(
            tuple(own for own in self.people if not same_people(own.group, row.people.stem)),
            tuple(own for own in self.machines if not same(own.group)),
        )


@cache
def fitted(people: tuple[Text, ...], machines: tuple[Text, ...]) -> AssistantScore:
    means, deviations = (tuple(own.values()) for own in scale())
    words, habits = fit_words(people, machines), fit_habits(people, machines)
    return AssistantScore(means, deviations, words, SHARE, FLOOR, habits)


@cache
def tf_idf(people: tuple[Text, ...], machines: tuple[Text, ...], asked: tuple[str, ...]) -> dict[str, float]:
    read = [_cut(own.text) for own in (*people, *machines)]
    is_machine = [number >= len(people) for number in range(len(read))]
    energies = tf_idf_energies(read, is_machine, [_cut(text) for text in asked])
    return dict(zip(asked, energies.tolist(), strict=True))


def _cut(text: str) -> str:
    return str(tokenizer().decode(list(ids(text)[:TOKENS])))


def scores(
    row: Row, fitting: Fitting, known: dict[str, torch.Tensor], shipped: AssistantScore, asked: tuple[str, ...]
) -> dict[str, list[np.ndarray]]:
    """Of people's and machines' texts (N,) each, by scorer."""
    score = fitted(*_pair(fitting.without(row)))
    sides = [texts_of(path, known) for path in (row.people, row.machines)]
    by_scorer: dict[str, list[np.ndarray]] = {}
    for texts in sides:
        statistics = [TokenStatistics(*known[hash_of(text)].double()[: TOKENS - 1].T) for text in texts]
        pairs = [
            (torch.tensor(ids(text)[:TOKENS]), own, own_habits(text))
            for text, own in zip(texts, statistics, strict=True)
        ]
        own = {name: [float(SCORERS[name](tokens).mean()) for tokens in statistics] for name in PLAIN}
        own["LM alone"] = [float(replace(score, share=0.0).terms(*pair).mean()) for pair in pairs]
        own["words"] = [float(score.words.terms(tokens[1:]).mean()) for tokens, *_ in pairs]
        own["habits"] = [score.habits.score(habits) for *_, habits in pairs]
        own["without habits"] = [float(replace(score, habits=None).terms(*pair).mean()) for pair in pairs]
        own["unseen"] = [float(score.terms(*pair).mean()) for pair in pairs]
        own["shipped"] = [float(shipped.terms(*pair).mean()) for pair in pairs]
        if asked:
            by_words = tf_idf(*_pair(fitting.without(row, makers=False)), asked)
            own["TF-IDF"] = [by_words[text] for text in texts]
        for name, values in own.items():
            by_scorer.setdefault(name, []).append(np.array(values))
    return by_scorer


def texts_of(path: Path, known: dict[str, torch.Tensor]) -> list[str]:
    """Those that were read."""
    return [record["text"] for record in records([path]) if hash_of(record["text"]) in known]


def _pair(fitting: Fitting) -> tuple[tuple[Text, ...], tuple[Text, ...]]:
    return tuple(fitting.people), tuple(fitting.machines)


def auc(people: np.ndarray, machines: np.ndarray) -> np.ndarray:  # (..., n), (..., m) -> (...)
    difference = machines[..., :, None] - people[..., None, :]
    return ((difference > 0) + 0.5 * (difference == 0)).mean((-1, -2))


def drawn(values: np.ndarray, path: Path) -> np.ndarray:  # (n,) -> (R, n)
    places = np.random.default_rng(list(path.stem.encode())).integers(len(values), size=(BOOTSTRAP, len(values)))
    return values[places]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--brown", type=Path, required=True)
    parser.add_argument("--public", type=Path, required=True)
    parser.add_argument("--sets", type=Path, required=True)
    parser.add_argument("--cache", type=Path, nargs="+", required=True)
    parser.add_argument("--tf-idf", action="store_true")
    options = parser.parse_args()
    known = {name: own for path in options.cache for name, own in load_file(path).items()}
    people, machines = public_texts(options.public, PER_GROUP)
    fitting = Fitting([*people_of(options.folder, options.brown, spared=False), *people], [*machines_of(), *machines])
    shipped = assistant_score(CausalLM.from_pretrained(LM))
    values: dict[str, dict[str, list[float]]] = {}
    resampled: dict[str, dict[str, list[np.ndarray]]] = {}
    rows = [
        row
        for row in rows_of(options.public / "asked", options.sets)
        if min(len(texts_of(path, known)) for path in (row.people, row.machines)) >= FEWEST
    ]
    texts = (text for row in rows for path in (row.people, row.machines) for text in texts_of(path, known))
    asked = tuple(dict.fromkeys(texts)) if options.tf_idf else ()
    for row in rows:
        found = scores(row, fitting, known, shipped, asked)
        print(f"{row.machines.stem} beside {row.people.stem}", end="")
        for name, (ours, theirs) in found.items():
            value = float(auc(ours, theirs))
            values.setdefault(row.collection, {}).setdefault(name, []).append(value)
            own = auc(drawn(ours, row.people), drawn(theirs, row.machines))
            resampled.setdefault(row.collection, {}).setdefault(name, []).append(own)
            print(f" | {name} {value:.3f}", end="", flush=True)
        print()
    for name, by_scorer in values.items():
        print(f"\n{name}, {len(by_scorer['unseen'])} rows: mean (95 %), least; unseen minus it (95 %)")
        for scorer, own in by_scorer.items():
            means, best = (np.mean(resampled[name][one], 0) for one in (scorer, "unseen"))
            low, high = np.quantile(means, (0.025, 0.975))
            less, more = np.quantile(best - means, (0.025, 0.975))
            print(f"{scorer}: {np.mean(own):.3f} ({low:.3f} to {high:.3f}), {min(own):.2f}; {less:+.3f} to {more:+.3f}")


if __name__ == "__main__":
    main()
