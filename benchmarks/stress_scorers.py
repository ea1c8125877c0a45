"""Every untrained score under the attacks of `lexergy detect stress`, of which each text is read once.

    python benchmarks/public_texts.py --clones clones --out runs/public
    python benchmarks/stress_pairs.py --public runs/public --pairs 60 --out pairs.jsonl
    python benchmarks/stress_scorers.py --pairs pairs.jsonl --cache attacked.safetensors --replacer smollm2-135m

Machine texts are attacked, people's are not. Of each attack and score there is the AUC as an attacked text is read, and
with disguises undone; of the default also what the attack costs, and the recall where at most 5 % of people's texts are
accused. Intervals are by bootstrap over documents. Of each text the first 512 tokens are read. What the LM says of them
is kept in the cache: the command goes on where it was stopped.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from read_texts import ReadText, read_text
from zero_shot import keep

from lexergy.core.detection.attack_cost import UnderAttack, under_attack
from lexergy.core.detection.classification import Metric
from lexergy.core.detection.zero_shot import SCORERS
from lexergy.core.estimation.findings import Estimate
from lexergy.data.detection.attacks import TEXT_ATTACKS
from lexergy.data.detection.normalisation import normalise
from lexergy.data.detection.plain_text import plain_text, whole_sentences
from lexergy.models.detection.default import LM, SCORER, fitted_score, zero_shot_detector
from lexergy.models.detection.zero_shot import FITTED
from lexergy.tasks.detection.attacks.table import MIXED, WORDS, AttackChoice, guests_of

Scores = dict[str, float]  # by text


def attacked(machines: Sequence[str], people: Sequence[str], replacer: str | None) -> dict[str, list[str]]:
    """The machine texts after each attack at its usual strength; each text has random numbers of its own."""
    choice = AttackChoice(replacer=replacer)
    numbered = [[(text, str(place)) for place, text in enumerate(own)] for own in (machines, people)]
    guests, detector = guests_of(*numbered), zero_shot_detector()
    names = (*TEXT_ATTACKS, MIXED, *((WORDS,) if replacer else ()))
    attacks = {name: choice.attack(name, detector, guests) for name in names}
    return {
        name: [attack(text, choice.strength_of(name), seed) for seed, text in enumerate(machines)]
        for name, attack in attacks.items()
    }


def as_read(texts: Sequence[str]) -> list[str]:
    """As a detector sees them: all blanks are alike."""
    return [whole_sentences(plain_text(text)) for text in texts]


def undone(texts: Sequence[str]) -> list[str]:
    return as_read([normalise(text).text for text in texts])


def costs(people: Sequence[str], machines: Sequence[str], after: Sequence[str], scores: Scores) -> UnderAttack:
    before, unattacked, attacked = (
        torch.tensor([scores[text] for text in texts]) for texts in (people, machines, after)
    )
    documents = range(len(people))  # a pair shares one
    return under_attack(before, unattacked, attacked, documents, documents)


def short(number: Metric | Estimate) -> str:
    return f"{number.value:.2f} ({number.low:.2f} to {number.high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--replacer", help="LM that proposes words, for the attack `words`")
    parser.add_argument("--limit", type=int, help="of pairs, the first ones")
    options = parser.parse_args()
    pairs = [json.loads(line) for line in options.pairs.read_text().splitlines()][: options.limit]
    people, machines = (as_read([pair[side] for pair in pairs]) for side in ("human", "machine"))
    texts_after = {"none": machines} | attacked(machines, people, options.replacer)
    by_attack = {name: (as_read(own), undone(own)) for name, own in texts_after.items()}
    of_pair = zip(people, *(own for both in by_attack.values() for own in both), strict=True)
    texts = dict.fromkeys(text for own in of_pair for text in own)
    known = keep([*texts], LM, options.cache)
    fitted = {name: fitted_score(name) for name in FITTED}
    by_name: dict[str, Callable[[ReadText], float]] = {
        **{name: lambda text, own=own: text.score(own) for name, own in fitted.items()},
        **{name: lambda text, own=own: float(own(text.tokens).mean()) for name, own in SCORERS.items()},
    }
    read = {text: read_text(text, known) for text in texts}
    scores = {name: {text: by(own) for text, own in read.items()} for name, by in by_name.items()}
    print(f"| attack | {' | '.join(by_name)} |\n|---|{'---:|' * len(by_name)}")
    recalls = []
    for attack, (after, restored) in by_attack.items():
        for how, own in ((attack, after), *(((f"{attack}, undone", restored),) if restored != after else ())):
            found = {name: costs(people, machines, own, by_text) for name, by_text in scores.items()}
            print(f"| {how} | {' | '.join(short(cost.auc) for cost in found.values())} |", flush=True)
            default = found[SCORER]
            recalls.append(f"| {how} | {short(default.auc)} | {short(default.auc_cost)} | {short(default.recall)} |")
    print("\n".join(("", "| attack on the default | AUC | lost | recall |\n|---|---:|---:|---:|", *recalls)))


if __name__ == "__main__":
    main()
