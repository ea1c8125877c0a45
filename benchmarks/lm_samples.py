"""Samples of LMs that are no assistants, and the score `sample` fitted on them, for `detector_mixture.py`.

    python benchmarks/public_texts.py --clones clones --out runs/public
    python benchmarks/lm_samples.py write --folder $LEXERGY_DATA --brown package --public runs/public \\
        --out samples.jsonl
    python benchmarks/lm_samples.py read --folder $LEXERGY_DATA --samples samples.jsonl --cache smollm2.safetensors

Excerpts of people's texts of many sources, and of each what an LM at temperature 1 writes from the same first tokens:
half of the samples untruncated, a quarter each with top-k 40 and top-p .9. Of the untruncated, which are harder to
predict than people's texts, the people's side alone is fitted on. News of the BBC is not among the sources,
since $LEXERGY_DATA/detect has samples of such: the first 250 pairs of OPT-2.7B are fitted on, too. No text is taken
that others are asked about or calibrated on. SmolLM2 reads all of them.
"""

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from assistant_wording import Text, people_of, public_texts
from left_out import ONE_SOURCE, same_people
from read_texts import Known
from sklearn.linear_model import LogisticRegression
from zero_shot import keep

from lexergy.core.conditions import describe
from lexergy.core.decoding import Decoding
from lexergy.core.detection.sample import SampleScore, measures
from lexergy.core.detection.zero_shot import TokenStatistics
from lexergy.data.detection.plain_text import plain_text
from lexergy.files import hash_of
from lexergy.models.detection.default import LM
from lexergy.models.remote.opening import open_lm
from lexergy.progress import progress_bar

DECODINGS = (Decoding(), Decoding(top_k=40), Decoding(), Decoding(top_p=0.9))
PROMPT_TOKENS, NEW_TOKENS = 32, 140
AT_ONCE = 16
BBC, OPT = "bbc", "opt-2.7b"
FITTED_PAIRS = 250  # of OPT-2.7B
PENALTY = 1.0
GENERATOR = "gemma3-270m"  # not the LM that reads, which would know its own samples better than others'
PER_SOURCE = 12


@dataclass(frozen=True)
class Sample:
    """A person's text and an LM's of the same first tokens."""

    source: str
    generator: str
    decoding: str
    human: str
    machine: str

    @property
    def is_fitted_on(self) -> bool:
        """Untruncated samples of a small LM are harder to predict than people's texts: they would teach the reverse."""
        return self.generator == OPT or self.decoding != describe(Decoding())


def people_by_source(folder: Path, brown: Path, public: Path) -> dict[str, list[str]]:
    """Texts of each source but the BBC's, in a random order."""
    by_source: dict[str, list[str]] = {}
    for own in (*people_of(folder, brown, spared=True), *public_texts(public)[0]):
        if not own.group.startswith(ONE_SOURCE[0]):
            by_source.setdefault(own.group.removesuffix("-people"), []).append(own.text)
    for source, texts in by_source.items():
        random.Random(source).shuffle(texts)
    return by_source


def samples(generator: str, texts: Sequence[Text]) -> Iterator[Sample]:
    """Of each text that is long enough; decodings by turns."""
    lm = open_lm(generator).without_special_tokens()
    rows = [(own.group, lm.encode(plain_text(own.text))[: PROMPT_TOKENS + NEW_TOKENS]) for own in texts]
    rows = [(source, row) for source, row in rows if len(row) == PROMPT_TOKENS + NEW_TOKENS]
    with progress_bar(f"samples of {generator}", len(rows)) as bar:
        for number, decoding in enumerate(DECODINGS):
            own = list(enumerate(rows))[number :: len(DECODINGS)]
            for few in (own[start : start + AT_ONCE] for start in range(0, len(own), AT_ONCE)):
                prefixes = torch.stack([row[:PROMPT_TOKENS] for _, (_, row) in few])
                drawn = lm.sample(
                    prefixes,
                    num_samples=1,
                    max_new_tokens=NEW_TOKENS,
                    seed=0,
                    prefix_ids=[place for place, _ in few],
                    **asdict(decoding),
                )
                machine = lm.decode(torch.cat((prefixes, drawn.tokens[:, 0]), 1))
                human = lm.decode(torch.stack([row for _, (_, row) in few]))
                for (_, (source, _)), person, sample in zip(few, human, machine, strict=True):
                    yield Sample(source, generator, describe(decoding), person, sample)
                bar.advance(len(few))


def write(folder: Path, brown: Path, public: Path, out: Path) -> None:
    by_source = people_by_source(folder, brown, public)
    texts = [Text(source, text) for source, own in by_source.items() for text in own[:PER_SOURCE]]
    with out.open("w") as file:
        for sample in samples(GENERATOR, texts):
            file.write(json.dumps(asdict(sample)) + "\n")
            file.flush()


def read_samples(folder: Path, samples: Path) -> list[Sample]:
    """Those written here, and OPT-2.7B's."""
    lines = (folder / f"detect/xsum_{OPT}.jsonl").read_text().splitlines()[:FITTED_PAIRS]
    opt = [Sample(source=BBC, generator=OPT, decoding="", **json.loads(line)) for line in lines]
    return [*(Sample(**json.loads(line)) for line in samples.read_text().splitlines()), *opt]


def known_samples(folder: Path, samples: Path, known: Known) -> list[Sample]:
    """Those that were read."""
    return [
        own for own in read_samples(folder, samples) if all(hash_of(text) in known for text in (own.human, own.machine))
    ]


def read(folder: Path, samples: Path, cache: Path, lm: str, pairs: int) -> None:
    own = read_samples(folder, samples)
    of_opt = [sample for sample in own if sample.generator == OPT][:pairs]
    wanted = [sample for sample in own if sample.generator != OPT] + of_opt
    keep([text for sample in wanted for text in (sample.human, sample.machine)], lm, cache)


def fit_sample(samples: Sequence[Sample], known: Known, penalty: float = PENALTY) -> SampleScore:
    """A logistic regression on measures in deviations; the two sides weigh alike, and in each of them generators."""
    fitted = [own for own in samples if own.is_fitted_on]
    rows = np.array(
        [_measures(own.human, known) for own in samples] + [_measures(own.machine, known) for own in fitted]
    )
    weights = np.concatenate([_weights(samples), _weights(fitted)])
    deviations = rows.std(0)
    regression = LogisticRegression(C=1 / penalty, max_iter=5000)
    labels = [False] * len(samples) + [True] * len(fitted)
    regression.fit(rows / deviations, labels, len(rows) * weights / 2)
    return SampleScore(tuple((regression.coef_[0] / deviations).tolist()))


def _weights(samples: Sequence[Sample]) -> np.ndarray:  # (N,), of sum 1
    sizes = Counter(own.generator for own in samples)
    return np.array([1 / len(sizes) / sizes[own.generator] for own in samples])


def _measures(text: str, known: Known) -> np.ndarray:  # (5,)
    return measures(TokenStatistics(*known[hash_of(text)].double().T)).mean(0).numpy()


def sample_without(samples: Sequence[Sample], known: Known, source: str) -> SampleScore:
    """Fitted without a source of people's texts, wherever it comes from."""
    return fit_sample([own for own in samples if not same_people(own.source, source)], known)


def folds(samples: Sequence[Sample]) -> Iterator[tuple[list[Sample], list[Sample]]]:
    """Those asked about, and those fitted on: each source by the others, and each half of OPT-2.7B's by all else."""
    for source in dict.fromkeys(own.source for own in samples if own.source != BBC):
        asked = [own for own in samples if own.source == source]
        yield asked, [own for own in samples if not same_people(own.source, source)]
    opt = [own for own in samples if own.source == BBC]
    for half in (0, 1):
        yield opt[half::2], [own for own in samples if own not in opt[half::2]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    needed = {write: ("folder", "brown", "public", "out"), read: ("folder", "samples", "cache")}
    for command, names in needed.items():
        own = commands.add_parser(command.__name__)
        for name in names:
            own.add_argument(f"--{name}", type=Path, required=True)
    commands.choices["read"].add_argument("--lm", default=LM, help="or the same in another precision")
    commands.choices["read"].add_argument("--pairs", type=int, default=FITTED_PAIRS, help="of OPT-2.7B")
    options = vars(parser.parse_args())
    {"write": write, "read": read}[options.pop("command")](**options)


if __name__ == "__main__":
    main()
