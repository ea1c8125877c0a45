"""Numbers for words and what their spelling tells, and for labels: one JSON file beside a model."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path

from lexergy.errors import LexergyError
from lexergy.files import atomic_write_json, read_json, reading

UNKNOWN, END, PADDING = "<unk>", "</s>", "<pad>"
NO_SYMBOL = -1
"""The number of a symbol that a vocabulary without `<unk>` does not have: it equals no other."""
FILE = "vocabulary.json"


@dataclass(frozen=True)
class Vocabulary:
    """Symbols in the order of their numbers, with how often each was met in training."""

    counts: dict[str, int]

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        return tuple(self.counts)

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {symbol: number for number, symbol in enumerate(self.counts)}

    def __len__(self) -> int:
        return len(self.counts)

    def encode(self, symbols: Iterable[str]) -> list[int]:
        """Numbers of symbols; one that is not here has that of `<unk>`, or -1 where there is none."""
        unknown = self.numbers.get(UNKNOWN, NO_SYMBOL)
        return [self.numbers.get(symbol, unknown) for symbol in symbols]

    def decode(self, numbers: Iterable[int]) -> list[str]:
        """Symbols of numbers, up to the first `</s>`; negative numbers are padding."""
        symbols = [self.symbols[number] for number in numbers if number >= 0]
        return symbols[: symbols.index(END)] if END in symbols else symbols


def build_vocabulary(symbols: Iterable[str], *, specials: Sequence[str] = (), minimum: int = 1) -> Vocabulary:
    """`specials` first, then what occurs `minimum` times, the most frequent first; the rest counts as `<unk>`."""
    if minimum > 1 and UNKNOWN not in specials:
        raise LexergyError(f"`minimum` is {minimum} and nothing stands for rarer symbols; expected 1, or `{UNKNOWN}`.")
    met = Counter(symbols)
    counts = {special: met.pop(special, 0) for special in specials}
    ranked = sorted(met.items(), key=lambda entry: (-entry[1], entry[0]))
    kept = {symbol: count for symbol, count in ranked if count >= minimum}
    if UNKNOWN in counts:
        counts[UNKNOWN] += met.total() - sum(kept.values())
    return Vocabulary(counts | kept)


def suffix(word: str) -> str:
    """The last three characters, in lower case."""
    return word[-3:].lower()


def shape(word: str) -> str:
    """Capitals as X, other letters as x, digits as d, and the rest as it is, each run once: `Xx-d` of `Boeing-747`."""
    kinds = ("d" if char.isdigit() else "X" if char.isupper() else "x" if char.isalpha() else char for char in word)
    return "".join(kind for kind, _ in groupby(kinds))


FEATURES: dict[str, Callable[[str], str]] = {"word": str, "lower": str.lower, "suffix": suffix, "shape": shape}
"""What a model may know of a word, each in a vocabulary of its own."""


@dataclass(frozen=True)
class SequenceVocabulary:
    """What a sequence-to-sequence model reads (features and characters of words) and what it writes."""

    features: dict[str, Vocabulary]
    characters: Vocabulary | None
    outputs: Vocabulary

    def feature_numbers(self, words: Sequence[str]) -> list[list[int]]:
        """A row for each word, with a number for each feature."""
        columns = [
            vocabulary.encode(FEATURES[name](word) for word in words) for name, vocabulary in self.features.items()
        ]
        return [list(row) for row in zip(*columns, strict=True)]

    def character_numbers(self, words: Sequence[str]) -> list[list[int]]:
        """The numbers of each word's characters; 0 is left for padding."""
        assert self.characters is not None
        return [self.characters.encode(word) for word in words]

    def save(self, folder: str | Path) -> None:
        """Write `vocabulary.json`: each vocabulary an object from symbol to count, in the order of the numbers."""
        content = {
            "features": {name: vocabulary.counts for name, vocabulary in self.features.items()},
            "characters": None if self.characters is None else self.characters.counts,
            "outputs": self.outputs.counts,
        }
        atomic_write_json(Path(folder) / FILE, content)

    @classmethod
    def load(cls, folder: str | Path) -> "SequenceVocabulary":
        path = Path(folder) / FILE
        remedy = "expected the vocabularies of a sequence-to-sequence model; copy the folder again or train again"
        with reading(path, remedy):
            content = read_json(path, dict, remedy)
            features = {name: Vocabulary(counts) for name, counts in content["features"].items()}
            characters = None if content["characters"] is None else Vocabulary(content["characters"])
            return cls(features, characters, Vocabulary(content["outputs"]))


def build_sequence_vocabulary(
    inputs: Iterable[Sequence[str]],
    outputs: Iterable[Sequence[str]],
    *,
    features: Sequence[str] = ("word", "suffix", "shape"),
    spelled: bool = False,
    ends: bool = False,
    minimum: int = 2,
) -> SequenceVocabulary:
    """Vocabularies of training sentences.

    Features (keys of `FEATURES`) and characters that occur less than `minimum` times are `<unk>`, so that this is met
    in training too. Outputs are either labels, all of them; or, where `ends`, the words of a text that ends with
    `</s>`, of which rare ones are `<unk>` as well.
    """
    unknown = sorted(set(features) - set(FEATURES))
    if unknown or not features:
        raise LexergyError(f"the features are {', '.join(features) or 'none'}; expected some of {', '.join(FEATURES)}.")
    words = [word for sentence in inputs for word in sentence]
    written = [symbol for sentence in outputs for symbol in sentence]
    vocabularies = {
        name: build_vocabulary(map(FEATURES[name], words), specials=[UNKNOWN], minimum=minimum) for name in features
    }
    characters = (char for word in words for char in word)
    return SequenceVocabulary(
        vocabularies,
        build_vocabulary(characters, specials=[PADDING, UNKNOWN], minimum=minimum) if spelled else None,
        build_vocabulary(written, specials=[UNKNOWN, END], minimum=minimum) if ends else build_vocabulary(written),
    )
