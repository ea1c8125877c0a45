"""Several readers as one: LMs whose features one head reads, an encoder's energy beside them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from lexergy.errors import LexergyError
from lexergy.files import atomic_write_json, read_json, reading
from lexergy.models.detection.readers import EncoderReader, StatesReader, TokenisedText
from lexergy.recipes.sections.runtime import Precision

_FILE = "sum.json"
_KINDS: dict[str, type[StatesReader] | type[EncoderReader]] = {own.kind: own for own in (StatesReader, EncoderReader)}
_FEWEST = 2  # tokens that say something


class Placed(NamedTuple):
    """The text of a block, and the character at which each of its tokens ends: (L,)."""

    text: str
    ends: np.ndarray


class SumReader:
    """E(x) = sum_i c_i E_i(x), E_i by a reader of its own.

    Blocks and tokens are those of the first reader, an LM. Each other one reads the text of a block in tokens of its
    own, of a very long one the beginning, and says nothing where it has fewer than two. What it says of its tokens
    goes to those of the first that stand at the same place, and the mean over the block stays what it is.
    """

    kind: ClassVar[str] = "sum"

    def __init__(
        self, members: Sequence[StatesReader | EncoderReader], coefficients: Sequence[float] | None = None
    ) -> None:
        if len(members) < 2 or not isinstance(members[0], StatesReader):
            raise LexergyError(
                f"{len(members)} readers to combine ({', '.join(own.kind for own in members)}); expected two or more, "
                "an LM first."
            )
        self.members = tuple(members)
        self.coefficients = tuple(coefficients or [1.0] * len(members))
        self.tokens_together = min(member.tokens_together for member in members)

    @property
    def lms(self) -> tuple[StatesReader, ...]:
        return tuple(member for member in self.members if isinstance(member, StatesReader))

    @property
    def most_tokens(self) -> int | None:
        return self.members[0].most_tokens

    def tokenise(self, text: str) -> TokenisedText:
        return self.members[0].tokenise(text)

    def mean_features(self, block: Tensor) -> Tensor:  # (L,) -> (F,)
        """What the heads of the LMs read of a block, one after the other."""
        text = self._placed(block).text
        means = [self.lms[0].mean_features(block)]
        for member in self.lms[1:]:
            read = _read(member, text)
            if len(read.ids) < _FEWEST:
                raise LexergyError(f"a text is too short for one of the LMs ({text[:40]!r}); leave it out.")
            means.append(member.mean_features(torch.tensor(read.ids)))
        return torch.cat(means)

    def token_energies(self, blocks: Sequence[Tensor]) -> Iterator[Tensor]:
        total = [torch.zeros(len(block), dtype=torch.double) for block in blocks]
        placed = [self._placed(block) for block in blocks]
        for number, (member, coefficient) in enumerate(zip(self.members, self.coefficients, strict=True)):
            if coefficient:
                energies = member.token_energies(blocks) if number == 0 else self._carried(member, placed)
                for own, values in zip(total, energies, strict=True):
                    own += coefficient * values
        yield from total

    def _carried(self, member: StatesReader | EncoderReader, placed: Sequence[Placed]) -> Iterator[Tensor]:
        """What another reader says of the texts of blocks, at the first one's tokens."""
        texts = [_read(member, own.text) for own in placed]
        energies = member.token_energies([torch.tensor(own.ids) for own in texts if len(own.ids) >= _FEWEST])
        for read, own in zip(texts, placed, strict=True):
            yield carried(next(energies), read, own) if len(read.ids) >= _FEWEST else torch.zeros(len(own.ends))

    def _placed(self, block: Tensor) -> Placed:
        text = str(self.lms[0].lm.need_tokenizer().decode(block))
        again = self.tokenise(text)
        if again.ids == block.tolist():
            return Placed(text, np.array([last for _, last in again.characters]))
        # A block that begins within a word is not always cut to the same tokens again.
        return Placed(text, np.linspace(0, len(text), len(block) + 1)[1:].round().astype(int))

    def save_pretrained(self, folder: Path) -> None:
        for number, member in enumerate(self.members):
            (folder / str(number)).mkdir(parents=True, exist_ok=True)
            member.save_pretrained(folder / str(number))
        kinds = [member.kind for member in self.members]
        atomic_write_json(folder / _FILE, {"members": kinds, "coefficients": self.coefficients})

    @classmethod
    def from_pretrained(cls, folder: Path, precision: Precision | None = None) -> Self:
        with reading(folder / _FILE):
            record = read_json(folder / _FILE, dict)
            kinds, coefficients = [_KINDS[kind] for kind in record["members"]], record["coefficients"]
        members = [kind.from_pretrained(folder / str(number), precision) for number, kind in enumerate(kinds)]
        return cls(members, coefficients)


def carried(energies: Tensor, read: TokenisedText, placed: Placed) -> Tensor:  # (M,) -> (L,)
    """Energies of tokens as those of other tokens of the same text, of the same mean.

    A token has the mean over its characters of what the tokens that they lie in have; all are then shifted alike.
    """
    values, ends = energies.double().cpu().numpy(), [last for _, last in read.characters]
    characters = np.arange(max(1, len(placed.text)))
    own = values[np.searchsorted(ends, characters, side="right").clip(max=len(values) - 1)]  # of each character
    sums = np.concatenate(([0.0], own.cumsum()))
    starts = np.concatenate(([0], placed.ends[:-1])).clip(max=len(own) - 1)
    stops = np.maximum(placed.ends, starts + 1).clip(max=len(own))
    means = (sums[stops] - sums[starts]) / (stops - starts)  # (L,)
    return torch.from_numpy(means + values.mean() - means.mean())


def _read(member: StatesReader | EncoderReader, text: str) -> TokenisedText:
    read = member.tokenise(text)
    return read if member.most_tokens is None else read.first(member.most_tokens)
