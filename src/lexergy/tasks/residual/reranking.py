"""Lists of candidates, weighed by the joint model one after the other."""

from collections.abc import Iterator, Sequence

from lexergy.data.lists.candidates import CandidateList
from lexergy.errors import LexergyError
from lexergy.models.joint.reranking import Reranked, WeighedBy, rerank
from lexergy.models.joint.weights import WeighedLM
from lexergy.progress import progress_bar


def rerank_lists(
    joint: WeighedLM, lists: Sequence[CandidateList], *, weigh_by: WeighedBy = "energy", seed: int = 0
) -> Iterator[Reranked]:
    """The candidates of each list, weighed; the draw of a list depends on the seed and its number alone."""
    with progress_bar("prompts", len(lists), enabled=len(lists) > 1) as bar:
        for number, given in enumerate(lists):
            try:
                yield rerank(joint, given.prompt, given.candidates, weigh_by=weigh_by, seed=seed, stream=number)
            except LexergyError as error:
                raise LexergyError(f"{given.place}: {error}") from error
            bar.advance(1)
