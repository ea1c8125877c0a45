"""kill -9 at random moments of every long command: nothing is lost, nothing is doubled, nothing is changed.

make kills                               # 200 kills over all commands
python benchmarks/kills.py --seed 3 --kills 20 --only run

Each command is first run whole. Then it is begun again and again in another folder and killed after a random time,
until it ends by itself; all that both folders hold must be the same, bit for bit, but for how long things took.
"""

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))
os.environ.update({"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"})

TIMES = ("seconds", "attempts", "measuring_seconds", "train_seconds")
WITHOUT = re.compile(r"\.lock|report\.html|.*\.png|.*\.svg")  # pages say how long the stages took


def commands(folder: Path) -> dict[str, list[str]]:
    """Every long command on toys, without its `--out`."""
    import yaml

    from lexergy.testing import save_tiny_encoder, tiny_recipe, write_tiny_corpus
    from toys.commands import CLOZE_RECIPE
    from toys.recipes import TRAINING
    from toys.texts import MACHINE, PEOPLE, labelled_texts, written

    corpus = write_tiny_corpus(folder / "corpus")
    recipe = tiny_recipe(corpus).plain()
    (folder / "run.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
    save_tiny_encoder(folder / "encoder", sorted({*PEOPLE, *MACHINE}), num_layers=2)
    nbest = {"a": {"hyp_1": {"score": -1.0, "text": "zebras quietly juggle"}, "ref": "zebras quietly juggle"}}
    (folder / "nbest.json").write_text(json.dumps(nbest))
    training = TRAINING | {"learning_rate": 0.001, "max_steps": 4, "batch_size": 4, "evaluate_every": 2}
    cloze = CLOZE_RECIPE
    for name, value in {
        "CORPUS": corpus,
        "NBEST": folder / "nbest.json",
        "TRAINING": json.dumps(training | {"checkpoint_every": 2}),
        "ENCODER": folder / "encoder",
    }.items():
        cloze = cloze.replace(name, str(value))
    (folder / "cloze.yaml").write_text(cloze)
    for name, words in (("people", PEOPLE), ("machines", MACHINE)):
        rows = [json.dumps({"text": written(words, number)}) for number in range(40)]
        (folder / f"{name}.jsonl").write_text("\n".join(rows))
    labelled = [json.dumps(record) for record in labelled_texts(48, 0)]
    (folder / "labelled.jsonl").write_text("\n".join(labelled))
    (folder / "seq2seq.yaml").write_text(SEQ2SEQ)
    (folder / "tagged.conll").write_text(_tagged())
    encoder = ["--encoder", str(folder / "encoder")]
    return {
        "run": ["run", str(folder / "run.yaml")],
        "pretrain": ["pretrain", str(folder / "cloze.yaml")],
        "detect": [
            "detect", "train", "--human", str(folder / "people.jsonl"), "--machine", str(folder / "machines.jsonl"),
            *encoder, "--epochs", "1", "--block-tokens", "32",
        ],
        "finetune": [
            "finetune", "train", str(folder / "labelled.jsonl"), *encoder, "--epochs", "1", "--seeds", "2",
            "--batch-size", "16",
        ],
        "seq2seq": ["seq2seq", "train", str(folder / "tagged.conll"), "--recipe", str(folder / "seq2seq.yaml")],
    }  # fmt: skip


SEQ2SEQ = """
name: tiny-tagging
data: {kind: tagging, source: nowhere}
model: {features: {word: 8, suffix: 4}, symbol_size: 4, encoder_size: 16, decoder_size: 16, minimum: 1}
objectives:
  cross-entropy: {kind: cross-entropy, learning: {epochs: 3, learning_rate: 0.02, batch_size: 16}}
evaluation: {beams: [1, 3], validation_sentences: 20}
"""


def _tagged() -> str:
    from toys.seq2seq import toy_tagged

    sentences, labels = toy_tagged(150, 0)
    return "\n".join(
        "".join(f"{word}\t{label}\n" for word, label in zip(words, tags, strict=True))
        for words, tags in zip(sentences, labels, strict=True)
    )


def start(command: list[str], out: Path, log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "lexergy", *command, "--out", str(out)], stdout=file, stderr=file, cwd=out.parent
        )


def content(folder: Path) -> dict[str, str]:
    """A hash of each file, but for times; what is half-written must not be there."""
    hashes = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not WITHOUT.fullmatch(path.name):
            data = path.read_bytes()
            if path.suffix == ".json":
                data = json.dumps(_timeless(json.loads(data)), sort_keys=True).encode()
            name = str(path.relative_to(folder))
            hashes[name] = hashlib.sha256(data.replace(str(folder).encode(), b"FOLDER")).hexdigest()
    return hashes


def _timeless(value: object) -> object:
    if isinstance(value, dict):
        # A list of files has their sizes, and that of a file with times varies.
        return {key: _timeless(inner) for key, inner in value.items() if key not in (*TIMES, "files")}
    return [_timeless(inner) for inner in value] if isinstance(value, list) else value


def trial(command: list[str], folder: Path, whole: dict[str, str], seconds: float, draw: Callable[[], float]) -> int:
    """Kill the command until it ends by itself; how many kills that took."""
    out, log, kills = folder / "killed", folder / "log", 0
    shutil.rmtree(out, ignore_errors=True)
    log.unlink(missing_ok=True)
    while True:
        process = start(command, out, log)
        try:
            status = process.wait(seconds * draw())
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
            continue
        if status != 0:
            raise SystemExit(f"{' '.join(command)} failed after {kills} kills:\n{log.read_text()[-4000:]}")
        found = content(out)
        wrong = sorted(name for name in found.keys() | whole.keys() if found.get(name) != whole.get(name))
        if wrong:
            raise SystemExit(f"{' '.join(command)}: after {kills} kills these files differ: {', '.join(wrong[:20])}")
        return kills


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kills", type=int, default=200, help="over all commands")
    parser.add_argument("--only", help="one of the commands: run, pretrain, detect, finetune, seq2seq")
    options = parser.parse_args()
    chosen = random.Random(options.seed)
    os.environ["PYTHONPATH"] = str(ROOT / "src")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        os.environ["LEXERGY_CACHE"] = str(folder / "cache")
        todo = {name: own for name, own in commands(folder).items() if options.only in (None, name)}
        wholes, seconds = {}, {}
        for name, command in todo.items():
            started = time.monotonic()
            log = folder / "log"
            if start(command, folder / name, log).wait():
                raise SystemExit(f"{name} failed:\n{log.read_text()[-4000:]}")
            wholes[name], seconds[name] = content(folder / name), time.monotonic() - started
            print(f"{name}: {len(wholes[name])} files, {seconds[name]:.0f} s", flush=True)
        total, trials = 0, 0
        while total < options.kills:
            for name, command in todo.items():
                total += trial(command, folder, wholes[name], seconds[name], lambda: chosen.uniform(0.1, 1.2))
                trials += 1
                print(f"{total} kills over {trials} runs; {name} ended with the same files", flush=True)
    print(f"{total} kills over {trials} runs: nothing lost, nothing doubled, nothing changed")


if __name__ == "__main__":
    main()
