"""Words replaced by others of nearly the same meaning that an LM finds likely in their place."""

import numpy as np
import torch
from torch import Tensor

from lexergy.data.detection.attacks import Attack
from lexergy.data.detection.attacks.places import chosen
from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.row_logits import whole_row_logits
from lexergy.models.detection.readers import TokenisedText, tokenise

NEIGHBOURS = 8
FEWEST_LETTERS = 4  # shorter words seldom have another of their meaning
_WORD_MARKS = ("Ġ", "▁")  # with which tokens of whole words begin, where tokenizers mark them


class _Vocabulary:
    """The tokens of an LM that are words in small letters, and the directions of their embeddings."""

    def __init__(self, lm: CausalLM) -> None:
        tokens = lm.need_tokenizer().convert_ids_to_tokens(list(range(lm.vocab_size)))
        is_marked = any(token is not None and token.startswith(_WORD_MARKS) for token in tokens)
        words = [
            place
            for place, token in enumerate(tokens)
            if token is not None and token.startswith(_WORD_MARKS) == is_marked and _is_word(token[is_marked:])
        ]
        if len(words) <= NEIGHBOURS:
            raise LexergyError(f"{lm.source} has {len(words)} words among its tokens; expected more; take another LM.")
        self.ids = torch.tensor(words)  # (W,)
        table = lm.model.get_input_embeddings().weight.detach().cpu().float()[self.ids]  # (W, D)
        self.directions = torch.nn.functional.normalize(table, dim=1)
        self.place = {token: place for place, token in enumerate(words)}

    def neighbours(self, token: int) -> Tensor:  # (NEIGHBOURS,)
        """The words whose embeddings point most nearly where this token's does, itself left out."""
        place = self.place[token]
        similarity = self.directions @ self.directions[place]  # (W,)
        similarity[place] = -torch.inf
        return self.ids[similarity.topk(NEIGHBOURS).indices]


def replaced_words(lm: CausalLM) -> Attack:
    """An attack that replaces words that are one token of an LM each, of four small letters or more.

    Of the tokens nearest in the LM's embeddings it takes the likeliest after the words before: as TextFooler (Jin et
    al. 2020), with the LM's own table in place of one of synonyms. The strength is a share of those words.
    """
    vocabulary = _Vocabulary(lm)
    tokenizer = lm.need_tokenizer()

    def apply(text: str, strength: float, seed: int) -> str:
        read = tokenise(tokenizer, text).first(lm.max_length or len(text))
        places = [place for place in range(1, len(read.ids)) if _may_replace(read, place, vocabulary)]
        numbers = chosen(len(places), strength, np.random.default_rng(seed))
        if not numbers:
            return text
        logits = _logits(lm, read)  # (L - 1, V)
        parts, end = [], 0
        for place in (places[number] for number in numbers):
            near = vocabulary.neighbours(read.ids[place])
            word = str(tokenizer.decode([int(near[logits[place - 1, near].argmax()])])).strip()
            first, last = _letters(read, place)
            parts += [text[end:first], word]
            end = last
        return "".join([*parts, text[end:]])

    return apply


@torch.inference_mode()
def _logits(lm: CausalLM, read: TokenisedText) -> Tensor:  # (L - 1, V)
    rows = lm.check_rows(torch.tensor([read.ids]), 1)
    return whole_row_logits(lm, rows, rows.shape[1] - 1).logits[0].cpu()


def _may_replace(read: TokenisedText, place: int, vocabulary: _Vocabulary) -> bool:
    first, last = _letters(read, place)
    follows = read.text[last : last + 1]
    return (
        read.ids[place] in vocabulary.place
        and _is_word(read.text[first:last])
        and not (follows.isalnum() or follows == "'")
    )


def _letters(read: TokenisedText, place: int) -> tuple[int, int]:
    """The characters of a token without the blank before them."""
    first, last = read.characters[place]
    return first + len(read.text[first:last]) - len(read.text[first:last].lstrip()), last


def _is_word(text: str) -> bool:
    return len(text) >= FEWEST_LETTERS and text.isascii() and text.isalpha() and text.islower()
