"""Can one score see assistants and samples of LMs alike? The default with `rank-tail` or `curvature` beside it.

    python benchmarks/zero_shot.py read --texts runs/public/asked/*.jsonl --cache public.safetensors
    python benchmarks/zero_shot_news.py read --folder $LEXERGY_DATA --cache news.safetensors
    python benchmarks/assistants_and_samples.py --folder $LEXERGY_DATA --brown package --public runs/public \\
        --sets runs/zero-shot/sets.json --cache public.safetensors --news news.safetensors

All scores are in deviations of people's texts of 120 tokens or more that the default is calibrated on. Rows, and what
the words and habits of each are fitted without, are those of `assistant_transfer.py`; samples are those of
`zero_shot_news.py`, with a default fitted without news of the BBC. For each combination: mean AUC of the rows, the
least, and the difference of the mean to the default's (95 %, by bootstrap over texts).
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from assistant_transfer import FEWEST, PER_GROUP, TOKENS, Fitting, auc, drawn, fitted, rows_of, texts_of
from assistant_words import LONG, ids, machines_of, own_habits, people_of, public_texts
from safetensors.torch import load_file
from zero_shot_news import FIRST, GENERATORS, LM, Read, pairs_of, without_news

from lexergy import CausalLM
from lexergy.core.detection.assistant import ASSISTANT, AssistantScore
from lexergy.core.detection.zero_shot import SCORERS, TokenStatistics
from lexergy.files import hash_of
from lexergy.models.detection.default import assistant_score, known_people

Scores = Mapping[str, np.ndarray]
TAIL, CURVATURE = "rank-tail", "curvature"
COMBINED: dict[str, Callable[[Scores], np.ndarray]] = {
    "the default": lambda own: own[ASSISTANT],
    TAIL: lambda own: own[TAIL],
    CURVATURE: lambda own: own[CURVATURE],
    "larger, rank-tail": lambda own: np.maximum(own[ASSISTANT], own[TAIL]),
    "larger, rank-tail - .5": lambda own: np.maximum(own[ASSISTANT], own[TAIL] - 0.5),
    "larger, rank-tail - 1": lambda own: np.maximum(own[ASSISTANT], own[TAIL] - 1),
    "larger, curvature": lambda own: np.maximum(own[ASSISTANT], own[CURVATURE]),
    "larger, curvature - .5": lambda own: np.maximum(own[ASSISTANT], own[CURVATURE] - 0.5),
    "larger, their mean": lambda own: np.maximum(own[ASSISTANT], (own[TAIL] + own[CURVATURE]) / 2),
    "larger, their smaller": lambda own: np.maximum(own[ASSISTANT], np.minimum(own[TAIL], own[CURVATURE])),
    "plus .5 rank-tail": lambda own: own[ASSISTANT] + 0.5 * own[TAIL].clip(0),
    "plus .5 curvature": lambda own: own[ASSISTANT] + 0.5 * own[CURVATURE].clip(0),
    "plus their smaller": lambda own: own[ASSISTANT] + np.minimum(own[TAIL], own[CURVATURE]).clip(0),
}


def in_deviations(name: str, values: Sequence[float]) -> np.ndarray:  # (N,)
    people = known_people(name)
    known = np.array(people.energies)[np.array(people.tokens) >= LONG]
    return (np.array(values) - known.mean()) / known.std()


def scores(texts: Sequence[str], known: Mapping[str, torch.Tensor], score: AssistantScore) -> Scores:
    """Of the first TOKENS of each text, (N,) by scorer."""
    found: dict[str, list[float]] = {TAIL: [], CURVATURE: [], ASSISTANT: []}
    for text in texts:
        statistics = TokenStatistics(*known[hash_of(text)].double()[: TOKENS - 1].T)
        for name in (TAIL, CURVATURE):
            found[name].append(float(SCORERS[name](statistics).mean()))
        terms = score.terms(torch.tensor(ids(text)[:TOKENS]), statistics, own_habits(text))
        found[ASSISTANT].append(float(terms.mean()))
    return {name: in_deviations(name, own) for name, own in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("folder", "brown", "public", "sets", "cache", "news"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--shipped", action="store_true", help="the default as it is, fitted anew for no row")
    options = parser.parse_args()
    shipped = assistant_score(CausalLM.from_pretrained(LM)) if options.shipped else None
    known = load_file(options.cache)
    values: dict[str, dict[str, list[tuple[float, np.ndarray]]]] = {}

    def add(collection: str, sides: Sequence[Scores], names: Sequence[Path]) -> None:
        for name, combine in COMBINED.items():
            people, machines = (combine(own) for own in sides)
            resampled = auc(*(drawn(own, path) for own, path in zip((people, machines), names, strict=True)))
            own = values.setdefault(collection, {}).setdefault(name, [])
            own.append((float(auc(people, machines)), resampled))

    people, machines = public_texts(options.public, PER_GROUP)
    fitting = Fitting([*people_of(options.folder, options.brown, spared=False), *people], [*machines_of(), *machines])
    for row in rows_of(options.public / "asked", options.sets):
        both = (row.people, row.machines)
        if min(len(texts_of(path, known)) for path in both) >= FEWEST:
            unseen = fitting.without(row)
            score = shipped or fitted(tuple(unseen.people), tuple(unseen.machines))
            add(row.collection, [scores(texts_of(path, known), known, score) for path in both], both)
    score = shipped or without_news(options.folder, options.brown, options.public)
    news = Read(options.news, LM)
    for name in GENERATORS:
        texts = news.of_those(pairs_of(options.folder, name, FIRST, None)).texts
        half = len(texts) // 2  # an article's two texts are drawn together
        add(name, [scores(own, news.known, score) for own in (texts[:half], texts[half:])], [Path(name)] * 2)
    for collection, by_name in values.items():
        print(f"\n{collection}, {len(by_name['the default'])} rows")
        reference = np.mean([drawn_auc for _, drawn_auc in by_name["the default"]], 0)
        for name, own in by_name.items():
            found = [value for value, _ in own]
            low, high = np.quantile(np.mean([drawn_auc for _, drawn_auc in own], 0) - reference, (0.025, 0.975))
            print(f"{name}: {np.mean(found):.3f}, {min(found):.2f}; {low:+.3f} to {high:+.3f}")


if __name__ == "__main__":
    main()
