"""Energies of blocks of text that are means over tokens: a head on a frozen LM's states, or on an encoder's."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol, Self

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from lexergy.core.batches import batches_by_length
from lexergy.errors import LexergyError
from lexergy.files import atomic_write_json, read_json
from lexergy.models.causal.lm import CausalLM
from lexergy.models.detection.blocks import Block
from lexergy.models.energies import StatesEnergy, TransformerEnergy
from lexergy.models.inference.linears import has_products_of_bfloat16, products_in
from lexergy.models.inference.ragged import reads_ragged
from lexergy.models.loading.devices import tokens_at_once
from lexergy.recipes.sections.runtime import Precision

_ENERGY, _LM, _PRECISION_FILE = "energy", "lm", "precision.json"


class TokenisedText(NamedTuple):
    """A text, its tokens, and the characters first .. last - 1 that each token stands for.

    Of a very long text there are the tokens of some `excerpts` only, one after the other.
    """

    text: str
    ids: list[int]
    characters: list[tuple[int, int]]
    excerpts: tuple[Block, ...] = ()

    def piece(self, block: Block) -> Tensor:
        """The block's tokens (L,)."""
        return torch.tensor(self.ids[block.start : block.end])

    def words(self, block: Block, count: int) -> Iterator[Block]:
        """The block cut before the first new word after each `count` tokens; after twice as many in any case."""
        start = block.start
        while start < block.end:
            end = min(start + count, block.end)
            while end < min(start + 2 * count, block.end) and not self._begins_word(end):
                end += 1
            yield Block(start, end)
            start = end

    def _begins_word(self, token: int) -> bool:
        start, before = self.characters[token][0], self.characters[token - 1][1]
        return start > before or self.text[start : start + 1].isspace()

    def first(self, count: int) -> "TokenisedText":
        """The text cut after so many tokens, or after the last whole excerpt of them."""
        whole = tuple(block for block in self.excerpts if block.end <= count)
        count = whole[-1].end if whole else count
        if count >= len(self.ids):
            return self
        end = self.characters[count - 1][1]
        return TokenisedText(self.text[:end], self.ids[:count], self.characters[:count], whole)

    def last(self, count: int) -> "TokenisedText":
        """The last so many tokens or some fewer, from the first word that begins among them, or whole excerpts."""
        first = len(self.ids) - count
        whole = [block for block in self.excerpts if block.start >= first]
        if whole:
            first = whole[0].start
        if first <= 0:
            return self
        while not whole and first < len(self.ids) - 1 and not self._begins_word(first):
            first += 1
        start = self.characters[first][0]
        return TokenisedText(
            self.text[start:],
            self.ids[first:],
            [(before - start, after - start) for before, after in self.characters[first:]],
            tuple(Block(block.start - first, block.end - first) for block in whole),
        )


class BlockReader(Protocol):
    """An energy of blocks that is a mean over their tokens: E(x) = 1/|x| sum_t e_t(x)."""

    kind: ClassVar[str]
    tokens_together: int  # of texts among which rows of similar length are looked for: seconds of work

    @property
    def most_tokens(self) -> int | None:
        """The longest block it reads."""
        ...

    def tokenise(self, text: str) -> TokenisedText: ...

    def token_energies(self, blocks: Sequence[Tensor]) -> Iterator[Tensor]:
        """Of blocks of token ids (L,), of any lengths: energies (L,) each, whose mean is the block's energy."""
        ...

    def save_pretrained(self, folder: Path) -> None: ...

    @classmethod
    def from_pretrained(cls, folder: Path, precision: Precision | None = None) -> Self:
        """Read it back; where a precision is named, the model computes in that and not in its own."""
        ...


class StatesReader:
    """e_t = w . (phi_t - mean) / std + b, phi_t the states and moments of a frozen LM at token t."""

    kind: ClassVar[str] = "states"
    tokens_together = 2**12

    def __init__(self, lm: CausalLM, energy: StatesEnergy) -> None:
        if not energy.is_mean_over_tokens:
            raise LexergyError(
                "this energy is no mean over tokens; expected a linear head on `statistics='moments'`; "
                "train one with `lexergy detect train`."
            )
        self.lm = lm
        self.energy = energy.attach(lm).eval()

    @property
    def most_tokens(self) -> int | None:
        return self.lm.max_length

    def tokenise(self, text: str) -> TokenisedText:
        return tokenise(self.lm.need_tokenizer(), text)

    def features(self, block: Tensor) -> Tensor:
        """What the head reads of a block (L,): (L - 1, F)."""
        return self.lm.token_features(block[None], features=self.energy.features)[0]

    def mean_features(self, block: Tensor) -> Tensor:  # (L,) -> (F,)
        return self.features(block).mean(0)

    @torch.inference_mode()
    def token_energies(self, blocks: Sequence[Tensor]) -> Iterator[Tensor]:
        for features in self.lm.token_features_of(blocks, features=self.energy.features):
            yield with_first(self.energy.of_features(features).cpu())

    def save_pretrained(self, folder: Path) -> None:
        self.energy.save_pretrained(folder / _ENERGY)
        (folder / _LM).mkdir(exist_ok=True)
        self.lm.save_pretrained(folder / _LM)

    @classmethod
    def from_pretrained(cls, folder: Path, precision: Precision | None = None) -> Self:
        lm = CausalLM.from_pretrained(folder / _LM, precision=precision)
        return cls(lm, StatesEnergy.from_pretrained(folder / _ENERGY))


class EncoderReader:
    """e_t = w . h_t + b, h_t the last state of a fine-tuned encoder at its token t.

    In bfloat16 states and weights are rounded before each product of a linear layer; all else is in float32.
    """

    kind: ClassVar[str] = "encoder"
    tokens_together = 2**14

    def __init__(self, energy: TransformerEnergy, precision: Precision = "float32") -> None:
        self.tokenizer = energy.reader.tokenizer
        self.energy = energy.bind(self.tokenizer).eval()
        self.precision, self._products = precision, _dtype_of_products(precision)

    @property
    def most_tokens(self) -> int:
        return self.energy.reader.most_tokens

    def tokenise(self, text: str) -> TokenisedText:
        return tokenise(self.tokenizer, text)

    @torch.inference_mode()
    def token_energies(self, blocks: Sequence[Tensor]) -> Iterator[Tensor]:
        if reads_ragged(self.energy.backbone):
            yield from self._read(blocks)
            return
        by_place: dict[int, Tensor] = {}
        for places in batches_by_length([len(block) for block in blocks], tokens_at_once(self.energy)):
            by_place.update(zip(places, self._read([blocks[place] for place in places]), strict=True))
        yield from (by_place[place] for place in range(len(blocks)))

    def _read(self, blocks: Sequence[Tensor]) -> list[Tensor]:
        with products_in(self._products):
            return self.energy.token_energies(blocks)

    def save_pretrained(self, folder: Path) -> None:
        self.energy.save_pretrained(folder / _ENERGY)
        atomic_write_json(folder / _PRECISION_FILE, {"precision": self.precision})

    @classmethod
    def from_pretrained(cls, folder: Path, precision: Precision | None = None) -> Self:
        saved = folder / _PRECISION_FILE  # which older versions did not write
        if precision is None:
            precision = read_json(saved, dict)["precision"] if saved.exists() else "float32"
        return cls(TransformerEnergy.from_pretrained(folder / _ENERGY), precision)


def _dtype_of_products(precision: Precision) -> torch.dtype:
    if precision == "int8":
        raise LexergyError("an encoder was asked for in int8; expected float32 or bfloat16.")
    if precision == "bfloat16" and not has_products_of_bfloat16():
        raise LexergyError(
            "an encoder was asked for in bfloat16, of which this processor has no products; expected one with "
            "AVX-512 BF16 or AMX; leave the precision out, and it is float32."
        )
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


def with_first(energies: Tensor) -> Tensor:  # (L - 1,) -> (L,)
    """Nothing predicts the first token: it takes the mean of the others, which leaves the mean as it is."""
    return torch.cat((energies.mean().unsqueeze(0), energies))


def tokenise(tokenizer: PreTrainedTokenizerBase, text: str) -> TokenisedText:
    wanted = {"return_offsets_mapping": True, "return_attention_mask": False, "return_token_type_ids": False}
    encoded = tokenizer(text, add_special_tokens=False, verbose=False, **wanted)
    return TokenisedText(text, encoded["input_ids"], encoded["offset_mapping"])
