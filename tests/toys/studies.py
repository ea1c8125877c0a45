"""Every study on one tiny recipe, whose runs are made once."""

import dataclasses
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from lexergy.models.architectures.scratch import build_causal_lm
from lexergy.models.loading.tokenizer import train_tokenizer
from lexergy.report.pages.study import StudyPage
from lexergy.studies.reproduce import load_study, reproduce
from lexergy.studies.study import Size, Study
from lexergy.testing import save_tiny_encoder
from toys.corpora import write_corpus
from toys.recipes import ENERGIES, TRAINING, TRANSFORMER, residual_recipe

LANGUAGE_MODEL = {**TRANSFORMER, "vocab_size": 400, "training": {**TRAINING, "max_steps": 60}}
TINY = "tiny"
SMALL = {"energy": "bit", "windows": 9, "samples": 8, "candidates": 12, "token_by_token": 2}
FURTHER = {"kind": "refreshed", "of": "unit", "candidates": 4, "training": TRAINING}


class ToyStudies(NamedTuple):
    recipe: Path
    dynamic_recipe: Path  # with refreshed energies beside
    runs: Path
    judges: Path  # an LM and an encoder that no run has seen

    def study(self, name: str) -> Study:
        """The study on the tiny recipe, with less of everything."""
        study = load_study(name)
        size = study.sizes["cpu"]
        small = {**SMALL, **{name: str(self.judges / name) for name in ("judge", "encoder")}}
        settings = {key: small.get(key, value) for key, value in size.settings.items()}
        recipe = self.dynamic_recipe if name == "dynamic-nce" else self.recipe
        return dataclasses.replace(study, sizes={"cpu": Size(str(recipe), settings)})

    def reproduce(self, name: str, **options) -> StudyPage:
        return reproduce(name, self.study(name), runs=self.runs, progress=False, **options)

    def copy(self, runs: Path) -> Path:
        """The first seed's run without any study's rows, in another folder of runs."""
        name = f"{TINY}-seed0"
        shutil.copytree(self.runs / name, runs / name, ignore=shutil.ignore_patterns("studies"))
        return runs


@pytest.fixture(scope="session")
def toy_studies(tmp_path_factory) -> ToyStudies:
    folder = tmp_path_factory.mktemp("studies")
    recipe = residual_recipe(
        write_corpus(folder / "texts"),
        name=TINY,
        windows={"prefix": 8, "continuation": 6, "train": 70, "validation": 20, "test": 12},
        lm={"train": LANGUAGE_MODEL},
        energies={name: ENERGIES[name] for name in ("unit", "bit")},
        baselines={
            "ralm": {"kind": "ralm", "training": TRAINING},
            "balm": {"kind": "balm", **TRANSFORMER, "hidden_size": 24},
        },
        generation=None,
    )
    refreshed = {"refreshed": FURTHER, "continued": {**FURTHER, "noise": "lm"}}
    dynamic = {**recipe, "name": f"{TINY}-dynamic", "energies": recipe["energies"] | refreshed, "baselines": {}}
    paths = [folder / f"{content['name']}.yaml" for content in (recipe, dynamic)]
    for path, content in zip(paths, (recipe, dynamic), strict=True):
        path.write_text(yaml.safe_dump(content, sort_keys=False))
    return ToyStudies(*paths, folder / "runs", save_judges(folder / "judges"))


def save_judges(folder: Path) -> Path:
    """Tiny untrained ones, as `judge` and `encoder`."""
    tokenizer = train_tokenizer(["the people shall defend our union. " * 9], 280, folder / "judge")
    build_causal_lm(len(tokenizer), 16, 1, 2, 256, seed=9).save_pretrained(folder / "judge")
    save_tiny_encoder(folder / "encoder", ["the", "people", "union", "debt", "shall"])
    return folder
