"""What texts are judged by, none of which the energy has seen: an encoder, an LM, and people in the arena."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from lexergy.files import atomic_write_text
from lexergy.models.energies.embeddings import TextEmbedder
from lexergy.models.scoring.kinds import load_scorer
from lexergy.models.scoring.scorer import TextScore, TextScorer
from lexergy.recipes.residual import ResidualRecipe
from lexergy.runs.columns import to_column

_PREFIX = "prefix_text"
_TEXT = "_text"


@dataclass(frozen=True)
class Judges:
    """Read a shard of texts: the encoder embeds them, the judge tells their log-probabilities after their prefixes."""

    judge: str
    encoder: str

    @cached_property
    def _scorer(self) -> TextScorer:
        return load_scorer(self.judge)

    @cached_property
    def _embedder(self) -> TextEmbedder:
        return TextEmbedder(self.encoder)

    def __call__(self, texts: pa.Table) -> pa.Table:
        prefixes, columns = texts.column(_PREFIX).to_pylist(), {}
        written = {writer: texts.column(f"{writer}{_TEXT}").to_pylist() for writer in writers_of(texts)}
        everything = [text for own in written.values() for text in own]
        # All at once: the judge reads texts that begin alike as a tree.
        scores = iter(log_probs_after(self._scorer, prefixes * len(written), everything))
        for writer, own in written.items():
            columns[f"{writer}_embedding"] = to_column(self._embedder.embed(own).numpy())  # (B, D)
            columns[f"{writer}_judged"] = pa.array([next(scores) for _ in own], pa.float64())
            columns[f"{writer}_characters"] = pa.array([len(text) for text in own], pa.int64())
        return pa.table(columns)

    def doubts(self, recipe: ResidualRecipe, energy: str) -> tuple[str | None, str | None]:
        """Why the judge's numbers and the encoder's decide nothing about this energy, where it has seen them."""
        seen = {recipe.lm.source, *_sources(recipe, energy)}
        return (
            f"the judge, {self.judge}, is the LM or what the energy is made of" if self.judge in seen else None,
            f"the energy is made of the encoder, {self.encoder}" if self.encoder in seen else None,
        )


def _sources(recipe: ResidualRecipe, energy: str) -> set[str | None]:
    """Where the weights of an energy, and of those it is made of, come from."""
    own = recipe.energies[energy]
    return {own.outside_source}.union(*(_sources(recipe, part) for part in own.starts_from if part in recipe.energies))


def writers_of(texts: pa.Table) -> list[str]:
    """Whose texts are in a table."""
    names = [name for name in texts.column_names if name.endswith(_TEXT) and name != _PREFIX]
    return [name.removesuffix(_TEXT) for name in names]


def log_probs_after(scorer: TextScorer, prefixes: Sequence[str], texts: Sequence[str]) -> list[float]:
    """log P(text | prefix) in the scorer's own tokens; one that has a character of the text counts as the text's."""
    scores = scorer.score([prefix + text for prefix, text in zip(prefixes, texts, strict=True)])
    return [_after(score, len(prefix)) for score, prefix in zip(scores, prefixes, strict=True)]


def _after(score: TextScore, start: int) -> float:
    return sum(value for value, (_, end) in zip(score.log_scores, score.spans, strict=True) if end > start)


def write_arena_files(texts: pa.Table, folder: Path) -> int:
    """A JSONL file for each writer, as `lexergy arena make --files` reads them; how many prompts are in each.

    Prompts that come twice, and those after which somebody wrote nothing to be seen, are left out.
    """
    prompts = texts.column(_PREFIX).to_pylist()
    columns = {writer: texts.column(f"{writer}{_TEXT}").to_pylist() for writer in writers_of(texts)}
    first = {prompt: place for place, prompt in reversed(list(enumerate(prompts))) if prompt.strip()}
    places = sorted(place for place in first.values() if all(written[place].strip() for written in columns.values()))
    for writer, written in columns.items():
        lines = [json.dumps({"prompt": prompts[place], "text": written[place]}) + "\n" for place in places]
        atomic_write_text(folder / f"{writer}.jsonl", "".join(lines))
    return len(places)
