"""Train, validation and test, split by document: no window's neighbour lies on the other side."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from lexergy.data.corpora import Document
from lexergy.errors import LexergyError


@dataclass(frozen=True)
class Splits:
    """Three lists of documents that share no group and no text, each in the order of the ids."""

    train: list[Document]
    validation: list[Document]
    test: list[Document]


def split_documents(
    documents: Sequence[Document], *, validation: float = 0.1, test: float = 0.1, seed: int = 0
) -> Splits:
    """Split documents group by group; `validation` and `test` are shares of the groups, at least one each.

    Groups are taken in the order of a hash of seed and group, so the order in which the documents come does
    not matter. Of documents with the same text only the one with the smallest id is kept.
    """
    _check_shares(validation, test)
    kept = _without_duplicates(documents)
    groups = sorted({document.group for document in kept}, key=lambda group: _rank(group, seed))
    num_validation = max(1, round(validation * len(groups)))
    num_test = max(1, round(test * len(groups)))
    if num_validation + num_test >= len(groups):
        raise LexergyError(
            f"The corpus has {len(groups)} groups of documents; expected at least "
            f"{num_validation + num_test + 1} for a validation share of {validation} and a test share of "
            f"{test}: add documents or lower the shares."
        )
    test_groups = set(groups[:num_test])
    validation_groups = set(groups[num_test : num_test + num_validation])
    held_out = test_groups | validation_groups
    return Splits(
        train=[document for document in kept if document.group not in held_out],
        validation=[document for document in kept if document.group in validation_groups],
        test=[document for document in kept if document.group in test_groups],
    )


def _check_shares(validation: float, test: float) -> None:
    for name, share in (("validation", validation), ("test", test)):
        if not 0 < share < 1:
            raise LexergyError(f"`{name}` is {share}; expected a share of the corpus between 0 and 1, such as 0.1.")
    if validation + test >= 1:
        raise LexergyError(
            f"`validation` + `test` is {validation + test}; expected less than 1, to leave some for training."
        )


def _without_duplicates(documents: Sequence[Document]) -> list[Document]:
    by_id = {document.id: document for document in documents}
    if len(by_id) < len(documents):
        raise LexergyError(
            f"{len(documents)} documents have only {len(by_id)} different ids; give each an id of its own."
        )
    by_text: dict[str, Document] = {}
    for id in sorted(by_id):
        by_text.setdefault(by_id[id].text, by_id[id])
    return list(by_text.values())


def _rank(group: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}:{group}".encode()).digest()
