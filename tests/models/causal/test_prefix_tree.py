"""Trees of prefixes: what is in them, and that a causal LM gives the same scores in a tree as for a text alone."""

import pytest
import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, MistralConfig, MistralForCausalLM

from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.prefix_tree import prefix_trees, reads_trees, tree_logits
from lexergy.models.scoring import scorer as scoring
from lexergy.models.scoring.causal import causal_scorer
from toys.language_models import tiny_gpt2, tiny_llama, tiny_sizes

CPU = torch.device("cpu")
VOCAB = 270
ROWS = [[0, 5, 6, 7], [0, 5, 6, 8, 9], [0, 5, 6, 7], [0, 4], [1, 5, 6, 7], [0]]
TEXTS = ["it was a dark night", "it was a dark knight", "it was a bark", "", "it was", "a night it was"]


def small_model(kind, window=2):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if kind == "gpt2":
            return tiny_gpt2(VOCAB, 64).eval()
        if kind == "mistral":
            config = MistralConfig(**tiny_sizes(VOCAB, 64), num_key_value_heads=2, sliding_window=window)
            return MistralForCausalLM(config).eval()
        if kind == "gemma3":
            sizes = tiny_sizes(VOCAB, 64)
            config = Gemma3TextConfig(**sizes, num_key_value_heads=2, head_dim=16, sliding_window=window)
            return Gemma3ForCausalLM(config).eval()
        return tiny_llama(VOCAB, 64).eval()


class Deaf(torch.nn.Module):
    """A model that reads tokens in the order in which they come, whatever the mask says."""

    def __init__(self):
        super().__init__()
        self.inner = small_model("gpt2")
        self.config = self.inner.config

    def forward(self, input_ids, position_ids=None, attention_mask=None, use_cache=False):
        return self.inner(input_ids=input_ids, use_cache=use_cache)


def test_a_shared_beginning_is_one_row_of_nodes():
    (tree,) = prefix_trees(ROWS)
    assert len(tree) == 11  # 0 5 6 7, 8 9, 4, and 1 5 6 7
    for place, row in enumerate(ROWS):
        assert [tree.tokens[node] for node in tree.paths[place]] == row
    depths, sees = tree.depths_and_mask()
    for path in tree.paths.values():
        assert depths[path].tolist() == list(range(len(path)))
        assert sees[path[-1]].nonzero().flatten().tolist() == sorted(path)


@pytest.mark.parametrize("max_nodes", [1, 5, 6, 8])
def test_trees_are_bounded_and_hold_every_text_once(max_nodes):
    trees = list(prefix_trees(ROWS, max_nodes))
    assert sorted(place for tree in trees for place in tree.paths) == list(range(len(ROWS)))
    assert all(len(tree) <= max(max_nodes, 5) for tree in trees)
    assert len(trees) > 1


@pytest.mark.parametrize("kind", ["gpt2", "llama", "mistral", "gemma3"])
def test_a_tree_gives_what_each_text_gives_alone(kind):
    model = small_model(kind, window=5)
    assert reads_trees(model, CPU)
    (tree,) = prefix_trees(ROWS)
    with torch.no_grad():
        logits = tree_logits(model, tree, range(len(tree)), CPU)
        for place, row in enumerate(ROWS):
            torch.testing.assert_close(logits[tree.paths[place]], model(torch.tensor([row])).logits[0])


def test_nodes_that_nothing_follows_are_not_read(night_tokenizer, monkeypatch):
    """What an LM expects after the last token of a text is not asked."""
    monkeypatch.setattr(scoring, "SHARED_ENOUGH", 0.0)
    model = small_model("gpt2")
    scorer = causal_scorer(CausalLM(model, tokenizer=night_tokenizer))
    read = []
    model.register_forward_pre_hook(lambda _, __, inputs: read.append(inputs["input_ids"]), with_kwargs=True)
    scorer.score(["a dark night", "a dark storm"])
    tokens = [night_tokenizer(text)["input_ids"] for text in ("a dark night", "a dark storm")]
    beginnings = {tuple(ids[:end]) for ids in tokens for end in range(len(ids))}  # the empty one is the start token
    assert [part.numel() for part in read] == [len(beginnings)]


@pytest.mark.parametrize(("window", "trees"), [(32, 1), (4, 0)])
def test_texts_longer_than_what_layers_see_are_in_no_tree(window, trees, night_tokenizer, monkeypatch):
    monkeypatch.setattr(scoring, "SHARED_ENOUGH", 0.0)
    scorer = causal_scorer(CausalLM(small_model("gemma3", window), tokenizer=night_tokenizer))
    texts = ["it was a dark", "it was a night"]
    read = []
    tree_scores = scorer._tree_scores
    monkeypatch.setattr(scorer, "_tree_scores", lambda tree: (read.append(tree), tree_scores(tree))[1])
    scorer.score(texts)
    assert len(read) == trees


def test_models_that_would_not_heed_the_mask_are_found_out():
    assert not reads_trees(Deaf(), CPU)
    assert not reads_trees(small_model("mistral"), CPU)


@pytest.mark.parametrize(
    ("kind", "window"), [("gpt2", 0), ("llama", 0), ("mistral", 2), ("mistral", 32), ("gemma3", 4), ("gemma3", 32)]
)
def test_a_scorer_gives_the_same_with_trees_and_without(kind, window, night_tokenizer, monkeypatch):
    scorer = causal_scorer(CausalLM(small_model(kind, window), tokenizer=night_tokenizer))
    scores = []
    for enough in (0.0, float("inf")):
        monkeypatch.setattr(scoring, "SHARED_ENOUGH", enough)
        scores.append(scorer.score(TEXTS))
    for with_trees, without in zip(*scores, strict=True):
        assert with_trees.log_scores == pytest.approx(without.log_scores, abs=1e-5)
        assert with_trees.spans == without.spans
