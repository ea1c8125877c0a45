"""A detector that nobody trained: the score of a text by one frozen LM, or by two (`core.detection.zero_shot`)."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar, Self

import torch
from pydantic import TypeAdapter
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from lexergy.core.batches import batches_by_length
from lexergy.core.detection.assistant import ASSISTANT, AssistantScore
from lexergy.core.detection.machine import MACHINE, MachineScore
from lexergy.core.detection.sample import SAMPLE, SampleScore
from lexergy.core.detection.zero_shot import BITS_RATIO, SCORERS, TokenStatistics, bits_ratio, cross_moments
from lexergy.core.vocabulary import summarise
from lexergy.errors import LexergyError
from lexergy.files import atomic_write_json, read_json, reading
from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.log_probs import rows_at_once
from lexergy.models.causal.row_logits import whole_row_logits
from lexergy.models.causal.state_features import token_statistics
from lexergy.models.detection.readers import TokenisedText, tokenise, with_first
from lexergy.models.detection.wording import wording_of
from lexergy.models.loading.devices import tokens_at_once
from lexergy.recipes.sections.runtime import Precision

FittedScore = AssistantScore | SampleScore | MachineScore
FITTED: dict[str, type[FittedScore]] = {MACHINE: MachineScore, ASSISTANT: AssistantScore, SAMPLE: SampleScore}
"""Scores whose numbers were fitted to one LM."""
NAMES = (*FITTED, *SCORERS, BITS_RATIO)
_SCORER_FILE, _LM, _SECOND = "scorer.json", "lm", "second"


class ZeroShotReader:
    """Energies that are the terms of a zero-shot score.

    With a `second` LM of the same tokens, that is the sampling LM of `curvature` and the observer of `ratio`. One of
    other tokens is only of use to `bits-ratio`, which compares what both need for a character. Scores of FITTED are for
    one LM and its tokens, and come as `fitted`.
    """

    kind: ClassVar[str] = "zero-shot"
    tokens_together = 2**10

    def __init__(
        self, lm: CausalLM, scorer: str, second: CausalLM | None = None, fitted: FittedScore | None = None
    ) -> None:
        if scorer not in NAMES:
            raise LexergyError(f"the scorer is `{scorer}`; expected one of: {', '.join(NAMES)}.")
        if scorer in FITTED and (fitted is None or second is not None):
            raise LexergyError(
                f"`{scorer}` is fitted to the default LM alone; leave out `--lm`, or choose another scorer: "
                f"{', '.join(SCORERS)}."
            )
        if scorer == BITS_RATIO and second is None:
            raise LexergyError(f"`{BITS_RATIO}` compares two LMs; one is given; name a second.")
        if scorer != BITS_RATIO and second is not None and not _have_one_tokenizer(lm, second):
            raise LexergyError(
                f"the LMs {lm.source} and {second.source} have different tokens; `{scorer}` compares their predictions "
                f"token by token; give LMs of one tokenizer, or choose `{BITS_RATIO}`."
            )
        self.lm = lm
        self.scorer = scorer
        self.second = second
        self.fitted = fitted if scorer in FITTED else None

    @property
    def most_tokens(self) -> int | None:
        limits = [lm.max_length for lm in (self.lm, self.second) if lm is not None and lm.max_length is not None]
        return min(limits, default=None)

    def tokenise(self, text: str) -> TokenisedText:
        return tokenise(self.lm.need_tokenizer(), text)

    def token_energies(self, blocks: Sequence[Tensor]) -> Iterator[Tensor]:
        statistics = self.statistics(blocks)
        if self.scorer == BITS_RATIO:
            yield from map(with_first, self._bits_ratios(blocks, statistics))
            return
        if self.fitted is not None:
            tokenizer = self.lm.need_tokenizer()
            for block, own in zip(blocks, statistics, strict=True):
                yield with_first(self.fitted.terms(own, wording_of(tokenizer, block, self.fitted.common)))
            return
        yield from (with_first(SCORERS[self.scorer](own)) for own in statistics)

    @torch.inference_mode()
    def statistics(self, blocks: Sequence[Tensor]) -> list[TokenStatistics]:
        """Of blocks (L,), all that any score needs, from one pass of each LM over each."""
        lengths = [len(block) for block in blocks]
        by_place: dict[int, TokenStatistics] = {}
        for places in batches_by_length(lengths, tokens_at_once(self.lm.model)):
            # No token sees the padding behind it.
            rows = pad_sequence([blocks[place] for place in places], batch_first=True)  # (b, L)
            for place, own in zip(places, self._of_rows(rows), strict=True):
                by_place[place] = TokenStatistics(*own[: lengths[place] - 1].double().cpu().unbind(-1))
        return [by_place[place] for place in range(len(blocks))]

    def _of_rows(self, rows: Tensor) -> Tensor:  # (b, L) -> (b, L - 1, 4)
        """A few rows at a time: logits (b, L, V) of more would not fit into memory."""
        rows = self.lm.check_rows(rows, 1)
        length = rows.shape[1] - 1
        sampling = None if self.scorer == BITS_RATIO else self.second
        parts = []
        for few in rows.split(rows_at_once(length, self.lm.vocab_size)):
            logits = whole_row_logits(self.lm, few, length).logits.flatten(0, 1)  # (b C, V)
            log_prob, entropy, variance, log_rank = token_statistics(
                logits, few[:, 1:].flatten(), summarise(logits)
            ).unbind(-1)
            expected = -entropy
            if sampling is not None:
                given = whole_row_logits(sampling, few.to(sampling.device), length).logits.flatten(0, 1)
                expected, variance = cross_moments(logits, given.to(logits.device))
            columns = torch.stack((log_prob, expected, variance, log_rank), -1)  # (b C, 4)
            parts.append(columns.unflatten(0, (len(few), -1)))
        return torch.cat(parts)

    def _bits_ratios(self, blocks: Sequence[Tensor], statistics: Sequence[TokenStatistics]) -> Iterator[Tensor]:
        assert self.second is not None
        own, second = self.lm.need_tokenizer(), ZeroShotReader(self.second, "likelihood")
        for block, tokens in zip(blocks, statistics, strict=True):
            text = second.tokenise(str(own.decode(block)))
            if len(text.ids) < 2:  # nothing is predicted: neither LM is the better one
                yield -torch.ones_like(tokens.log_prob)
                continue
            text = text if second.most_tokens is None else text.first(second.most_tokens)
            (other,) = second.statistics([torch.tensor(text.ids)])
            predicted = len(text.text) - text.characters[0][1]
            yield bits_ratio(tokens, len(own.decode(block[1:])), other, predicted)

    def save_pretrained(self, folder: Path) -> None:
        for name, lm in ((_LM, self.lm), (_SECOND, self.second)):
            if lm is not None:
                (folder / name).mkdir(exist_ok=True, parents=True)
                lm.save_pretrained(folder / name)
        fitted = {} if self.fitted is None else {"fitted": asdict(self.fitted)}
        atomic_write_json(folder / _SCORER_FILE, {"scorer": self.scorer, "second": self.second is not None, **fitted})

    @classmethod
    def from_pretrained(cls, folder: Path, precision: Precision | None = None) -> Self:
        with reading(folder / _SCORER_FILE):
            record = read_json(folder / _SCORER_FILE, dict)
            scorer, has_second = record["scorer"], record["second"]
            fitted = TypeAdapter(FITTED[scorer]).validate_python(record["fitted"]) if scorer in FITTED else None
        second = CausalLM.from_pretrained(folder / _SECOND, precision=precision) if has_second else None
        return cls(CausalLM.from_pretrained(folder / _LM, precision=precision), scorer, second, fitted)


def _have_one_tokenizer(first: CausalLM, second: CausalLM) -> bool:
    vocabularies = [lm.need_tokenizer().get_vocab() for lm in (first, second)]
    return vocabularies[0] == vocabularies[1] and first.vocab_size == second.vocab_size
