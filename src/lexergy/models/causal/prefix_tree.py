"""Texts that begin alike, read once: trees of tokens, in which each token sees its own beginning only.

The hypotheses of a recogniser differ in a few words. Laid out as a tree, a beginning that many of them share is one row
of nodes, and a mask lets a node see no other branch, so that its scores are those of the text read alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from lexergy.core.local_residuals.contexts import NOTHING
from lexergy.models.inference.linears import fast_linears

NODES_AT_ONCE = 384
NO_PARENT = -1
_PROBE_TOLERANCE = 1e-3


@dataclass
class PrefixTree:
    """Nodes in the order in which they were met, parents before children; a text is a path of them."""

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    paths: dict[int, list[int]] = field(default_factory=dict)  # by the text's place
    _children: dict[tuple[int, int], int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.tokens)

    def num_new(self, text: Sequence[int]) -> int:
        """How many nodes the text would add."""
        node = NO_PARENT
        for depth, token in enumerate(text):
            if (node, token) not in self._children:
                return len(text) - depth
            node = self._children[node, token]
        return 0

    def add(self, place: int, text: Sequence[int]) -> None:
        path: list[int] = []
        for token in text:
            parent = path[-1] if path else NO_PARENT
            if (parent, token) not in self._children:
                self._children[parent, token] = len(self.tokens)
                self.tokens.append(token)
                self.parents.append(parent)
            path.append(self._children[parent, token])
        self.paths[place] = path

    def inner_nodes(self) -> list[int]:
        """Those that something follows. What comes after the others is not asked, so that they need not be read."""
        return sorted(set(self.parents) - {NO_PARENT})

    def contexts(self, nodes: Sequence[int], width: int) -> Tensor:  # (n, width)
        """The last tokens up to each of the nodes, its own included; NOTHING before a text begins."""
        tokens, parents = torch.tensor([*self.tokens, NOTHING]), torch.tensor([*self.parents, NO_PARENT])
        columns: list[Tensor] = []
        places = torch.tensor(nodes)
        for _ in range(width):
            columns.insert(0, tokens[places])
            places = parents[places]  # NO_PARENT is the last place, whose parent it is too
        return torch.stack(columns, 1) if columns else torch.empty(len(nodes), 0, dtype=torch.long)

    def depths_and_mask(self) -> tuple[Tensor, Tensor]:  # (N,), (N, N) bool
        """How many tokens stand before a node, and which nodes it sees: those, and itself."""
        sees = torch.zeros(len(self), len(self), dtype=torch.bool)
        parents = torch.tensor(self.parents)
        nodes = seen = torch.arange(len(self))
        while len(nodes):
            sees[nodes, seen] = True
            has_parent = parents[seen] != NO_PARENT
            nodes, seen = nodes[has_parent], parents[seen[has_parent]]
        return sees.sum(1) - 1, sees


def prefix_trees(texts: Sequence[Sequence[int]], max_nodes: int = NODES_AT_ONCE) -> Iterator[PrefixTree]:
    """All texts in trees of at most `max_nodes` nodes; a longer text has a tree of its own."""
    tree = PrefixTree()
    for place in sorted(range(len(texts)), key=lambda place: tuple(texts[place])):
        if len(tree) and len(tree) + tree.num_new(texts[place]) > max_nodes:
            yield tree
            tree = PrefixTree()
        tree.add(place, texts[place])
    if tree.paths:
        yield tree


def tree_logits(model: Any, tree: PrefixTree, nodes: Sequence[int], device: torch.device) -> Tensor:  # (n, V)
    """What a causal LM of transformers expects after each of the nodes, which are closed under parents."""
    depths, sees = tree.depths_and_mask()
    chosen = torch.tensor(nodes)
    sees = sees[chosen][:, chosen]
    dtype = next(model.parameters()).dtype
    mask = torch.zeros(sees.shape, dtype=dtype).masked_fill(~sees, torch.finfo(dtype).min)
    with fast_linears(model):
        return model(
            input_ids=torch.tensor([tree.tokens])[:, chosen].to(device),
            position_ids=depths[None, chosen].to(device),
            attention_mask=mask[None, None].to(device),
            use_cache=False,
        ).logits[0]


def longest_in_trees(model: Any) -> int | None:
    """How long a text may be: where layers see a window of it only, no longer than that, since in a tree they see all.

    None: any.
    """
    return getattr(model.config.get_text_config(), "sliding_window", None)


@torch.no_grad()
def reads_trees(model: Any, device: torch.device) -> bool:
    """Whether a model heeds positions and masks as trees need them, seen on two texts that begin alike.

    Texts of at most `longest_in_trees` tokens, that is.
    """
    texts = [[0, 1, 2, 3], [0, 1, 3, 2]]
    tree = PrefixTree()
    for place, text in enumerate(texts):
        tree.add(place, text)
    try:
        read_together = tree_logits(model, tree, range(len(tree)), device)
        alone = [model(input_ids=torch.tensor([text], device=device), use_cache=False).logits[0] for text in texts]
    except (TypeError, ValueError, RuntimeError, IndexError):
        return False
    return all(
        torch.allclose(read_together[tree.paths[place]], logits, rtol=_PROBE_TOLERANCE, atol=_PROBE_TOLERANCE)
        for place, logits in enumerate(alone)
    )
