"""Every long command on toys that take seconds: what is killed at random moments must end as if nothing had been."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import yaml

from lexergy.core.estimation import corpus
from lexergy.recipes import loader
from lexergy.recipes.loader import load_recipe
from lexergy.recipes.residual import ResidualRecipe
from lexergy.studies import reproduce as studies
from lexergy.tasks.residual.run import run
from lexergy.testing import save_tiny_encoder, tiny_recipe, write_tiny_corpus
from toys.commands import CLOZE_RECIPE
from toys.laboratory import laboratory_recipe
from toys.recipes import TRAINING
from toys.search_studies import toy_recipe
from toys.texts import MACHINE, PEOPLE, labelled_texts, written

SHORT = TRAINING | {"max_steps": 4, "batch_size": 4, "evaluate_every": 2, "checkpoint_every": 2}
SMALL = {"windows": 9, "samples": 8, "candidates": 12, "sentences": 4, "chains": 4, "sweeps": 4, "burn_in": 0}
PATCHED = ("quickstart", "figure-3", "table-6.2")  # with recipes and settings that only this process knows


def staged_commands(folder: Path) -> dict[str, list[str]]:
    """Their arguments; inputs are in `folder`, and all results in the working folder and the cache."""
    write_tiny_corpus(folder / "corpus")
    _write_texts(folder)
    _write_recipes(folder)
    run(load_recipe(folder / "run.yaml", ResidualRecipe), folder / "finished", progress=False)
    people, machines = f"{folder}/people.jsonl", f"{folder}/machines.jsonl"
    encoder, lm = ["--encoder", f"{folder}/encoder"], ["--lm", f"{folder}/finished/lm"]
    out = ["--out", "out", "--json"]
    return {
        "run": ["run", f"{folder}/run.yaml", *out],
        "quickstart": ["quickstart", *out],
        "pretrain": ["pretrain", f"{folder}/cloze.yaml", *out],
        "detect-encoder": [
            *("detect", "train", "--human", people, "--machine", machines, *encoder, "--epochs", "1"),
            *("--block-tokens", "32", *out),
        ],
        "detect-states": [
            *("detect", "train", "--human", people, "--generator", f"{folder}/finished/lm", *lm, "--pairs", "24"),
            *("--block-tokens", "16", "--validation", "0.2", *out),
        ],
        "finetune": [
            *("finetune", "train", f"{folder}/labelled.jsonl", *encoder, "--epochs", "1", "--num-seeds", "2"),
            *("--batch-size", "16", *out),
        ],
        "seq2seq": [
            *("seq2seq", "train", f"{folder}/tagging.txt", "--recipe", f"{folder}/toy-tagging.yaml"),
            *("--objective", "soft-beam", *out),
        ],
        "arena": [
            *("arena", "make", f"{folder}/finished", "--pairs", "5", "--candidates", "8", "--qualifying", "0"),
            *("--checks", "0", "--code", "x", *out),
        ],
        "perplexity": ["perplexity", f"{folder}/finished", "--samples", "64", "--json"],
        "score": ["score", f"{folder}/finished/lm", f"{folder}/lines.txt", "--json"],
        "rescore": [
            *("rescore", f"{folder}/lists.jsonl", "--model", f"{folder}/finished/lm", "--lambda", "0.5"),
            *("--out", "reranked.jsonl", "--json"),
        ],
        "figure-3": ["reproduce", "figure-3", "--recipe", f"{folder}/run.yaml", "--energy", "states", *out],
        "detect-table-7": ["reproduce", "detect-table-7", "--recipe", f"{folder}/laboratory.yaml", *out],
        "table-6.2": ["reproduce", "table-6.2", "--recipe", f"{folder}/translation.yaml", *out],
        "table-5.1": ["reproduce", "table-5.1", "--recipe", f"{folder}/toy-tagging.yaml", *out],
    }


def make_small(folder: Path) -> None:
    """Let `quickstart` be the tiny recipe, and studies be small, in this process and those forked from it."""
    packaged = loader.packaged_recipes() | {"quickstart": folder / "run.yaml"}
    loader.packaged_recipes = lambda: packaged
    whole = studies.load_study

    def small(name: str) -> Any:
        study = whole(name)
        sizes = {
            key: dataclasses.replace(
                size, settings={name: SMALL.get(name, value) for name, value in size.settings.items()}
            )
            for key, size in study.sizes.items()
        }
        return dataclasses.replace(study, sizes=sizes)

    studies.load_study = small
    corpus.NUM_RESAMPLES = 50


def _write_texts(folder: Path) -> None:
    save_tiny_encoder(folder / "encoder", sorted({*PEOPLE, *MACHINE}), num_layers=2)
    for name, words in (("people", PEOPLE), ("machines", MACHINE)):
        rows = [{"text": written(words, number)} for number in range(40)]
        _write_rows(folder / f"{name}.jsonl", rows)
    _write_rows(folder / "labelled.jsonl", labelled_texts(48, 0))
    lines = [written(PEOPLE, number) for number in range(600)]
    (folder / "lines.txt").write_text("\n".join(lines))
    hypotheses = [[{"text": " ".join(text.split()[:6]), "score": -1.0} for text in lines[n : n + 4]] for n in range(90)]
    lists = [{"id": str(n), "hypotheses": own, "reference": own[0]["text"]} for n, own in enumerate(hypotheses)]
    _write_rows(folder / "lists.jsonl", lists)


def _write_recipes(folder: Path) -> None:
    recipe = tiny_recipe(folder / "corpus").plain()
    recipe["lm"]["train"]["max_length"] = 160  # of the texts that detectors learn from
    _write_yaml(folder / "run.yaml", recipe)
    nbest = {"a": {"hyp_1": {"score": -1.0, "text": "zebras quietly juggle"}, "ref": "zebras quietly juggle"}}
    (folder / "nbest.json").write_text(json.dumps(nbest))
    cloze = CLOZE_RECIPE
    for name, value in {
        "CORPUS": folder / "corpus",
        "NBEST": folder / "nbest.json",
        "TRAINING": json.dumps(SHORT),
        "ENCODER": folder / "encoder",
    }.items():
        cloze = cloze.replace(name, str(value))
    (folder / "cloze.yaml").write_text(cloze)
    laboratory = laboratory_recipe(folder)
    laboratory["corpora"] = {"bible": laboratory["corpora"]["sotu"]}
    laboratory["tokenizer"]["corpora"] = ["bible"]
    _write_yaml(folder / "laboratory.yaml", laboratory)
    letters = "abcdefghij"
    pairs = [f"{first}{second}\t{second}{first}\n" for first in letters for second in letters if first != second]
    (folder / "pairs.tsv").write_text("".join(pairs))
    columns = {"path": str(folder / "pairs.tsv"), "source_column": 1, "target_column": 0}
    shares = {"vocab_size": 270, "max_tokens": 3, "validation": 0.1, "test": 0.2}
    model = {"hidden_size": 8, "num_layers": 1, "num_heads": 2, "training": SHORT}
    _write_yaml(folder / "translation.yaml", {"name": "toy", "pairs": columns | shares, "model": model})
    (folder / "tagging.txt").touch()
    toy_recipe("tagging", folder)


def _write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _write_yaml(path: Path, content: dict[str, Any]) -> None:
    path.write_text(yaml.safe_dump(content, sort_keys=False))
