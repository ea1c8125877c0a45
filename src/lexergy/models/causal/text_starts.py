"""What stands before the first token of a text that has no context."""

from lexergy.errors import LexergyError
from lexergy.models.causal.language_model import LanguageModel
from lexergy.models.loading.tokenizer import END_OF_TEXT


def start_of_text(lm: LanguageModel) -> int:
    """The LM's start token; of one that has none, its end-of-text token, after which texts began in its training."""
    tokenizer = lm.need_tokenizer()
    known = tokenizer.get_vocab().get(END_OF_TEXT)
    candidates = (lm.start_token, known, tokenizer.bos_token_id, tokenizer.eos_token_id)
    start = next((token for token in candidates if token is not None), None)
    if start is None:
        raise LexergyError(f"the LM {lm.source} has no token to start a text with; give a `start_token`.")
    return start
