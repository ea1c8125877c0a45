"""Tasks of lm-eval in files of a test's own, and a joint model over seven words whose texts can be enumerated."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from lm_eval.api.instance import Instance
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from lexergy.core.conditions import Conditions
from lexergy.core.enumeration import all_sequences
from lexergy.models.joint.model import ResidualEBM
from lexergy.testing import EnumerableLM, TableEnergy, joint_log_prob

WORDS = ("we", "the", "people", "of", "this", "union", "sing")


def table_of_lengths(tokens: Tensor) -> Tensor:  # (B, L) -> (B,)
    """A random energy for each text of each length."""
    return TableEnergy(length=tokens.shape[1], scale=1.5)(tokens)


def word_joint(trained_on: Conditions | None = None, **changes: Any) -> ResidualEBM:
    """Texts of seven words, which are tokens 0 to 6."""
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token=WORDS[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    lm = EnumerableLM(num_layers=1, **changes)
    lm.tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    return ResidualEBM(lm, table_of_lengths, trained_on)


def words(tokens: Sequence[int]) -> str:
    return " ".join(WORDS[token] for token in tokens)


def exact(joint: ResidualEBM, prefix: Sequence[int], continuation: Sequence[int]) -> float:
    """log P of a continuation among all of its length."""
    log_prob = joint_log_prob(joint.lm, table_of_lengths, torch.tensor(prefix), len(continuation))
    texts = all_sequences(len(WORDS), len(continuation))
    return float(log_prob[(texts == torch.tensor(continuation)).all(1)])


def request(*arguments: Any, kind: str = "loglikelihood", task: str = "task", item: int = 0) -> Instance:
    return Instance(kind, {}, arguments, 0, metadata=(task, item, 1))


def write_task(folder: Path, name: str, items: Sequence[dict[str, Any]], **settings: Any) -> Path:
    """A YAML file and its items, read from this machine alone."""
    data = folder / f"{name}.jsonl"
    data.write_text("".join(json.dumps(item) + "\n" for item in items))
    path = folder / f"{name}.yaml"
    source = {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(data)}}, "test_split": "test"}
    path.write_text(yaml.safe_dump({"task": name, **source, **settings}))
    return path


def metrics(*names: str) -> list[dict[str, Any]]:
    return [{"metric": name, "aggregation": "mean", "higher_is_better": True} for name in names]


CHOICE = {
    "output_type": "multiple_choice",
    "doc_to_text": "{{context}}",
    "doc_to_choice": "{{choices}}",
    "doc_to_target": "{{gold}}",
}
