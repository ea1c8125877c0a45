"""Texts that an LM has read (`zero_shot.py read`), as the detector's scores see them."""

from dataclasses import dataclass
from pathlib import Path

import torch
from assistant_wording import ids, tokenizer
from zero_shot import records

from lexergy.core.detection.wording import Wording
from lexergy.core.detection.zero_shot import TokenStatistics
from lexergy.files import hash_of
from lexergy.models.detection.wording import wording_of
from lexergy.models.detection.zero_shot import FittedScore

Known = dict[str, torch.Tensor]  # statistics of tokens (L - 1, 4) by a text's hash


@dataclass(frozen=True)
class ReadText:
    ids: torch.Tensor  # (L,)
    tokens: TokenStatistics

    def first(self, count: int) -> "ReadText":
        return ReadText(self.ids[:count], TokenStatistics(*(own[: count - 1] for own in self.tokens)))

    def wording(self, score: FittedScore) -> Wording:
        return wording_of(tokenizer(), self.ids, score.common)

    def score(self, score: FittedScore) -> float:
        return float(score.terms(self.tokens, self.wording(score)).mean())


def read_text(text: str, known: Known) -> ReadText:
    statistics = known[hash_of(text)].double()
    return ReadText(torch.tensor(ids(text)[: len(statistics) + 1]), TokenStatistics(*statistics.T))


def texts_of(path: Path, known: Known) -> list[str]:
    """Those that were read."""
    return [record["text"] for record in records([path]) if hash_of(record["text"]) in known]
