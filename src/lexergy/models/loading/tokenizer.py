"""Tokenizers: load one, train byte-level BPE on the user's own text, and what texts stand between."""

from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from lexergy.errors import LexergyError
from lexergy.files import atomic_path, reading

END_OF_TEXT, MASK, PAD = "<|endoftext|>", "<mask>", "<pad>"
SPECIAL_TOKENS = [END_OF_TEXT, MASK, PAD]
NUM_BYTES = 256


def load_tokenizer(folder: str | Path) -> PreTrainedTokenizerBase:
    """The tokenizer that `save_pretrained` wrote."""
    with reading(f"tokenizer in {folder}", "expected a tokenizer.json; fetch or save the model again"):
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        tokenizer.decode(tokenizer.encode("a text"), skip_special_tokens=True)  # a wrong setting shows when it is used
        return tokenizer


def train_tokenizer(
    texts: Iterable[str], vocab_size: int, folder: str | Path, *, spoken: bool = False
) -> PreTrainedTokenizerFast:
    """Train byte-level BPE (Sennrich et al. 2016; Radford et al. 2019), save it to `folder` and return it.

    Tokens 0, 1, 2 are `<|endoftext|>`, `<mask>` and `<pad>`; 256 are the bytes, so any text survives encoding
    and decoding; the rest are merges. Short texts give fewer merges: `len(tokenizer)` is the true size.

    A `spoken` one reads all text as transcripts of speech are written: lower-case letters and apostrophes, a blank
    before each word. The rule is saved with the tokenizer, so that whoever scores a text need not know of it.
    """
    smallest = NUM_BYTES + len(SPECIAL_TOKENS)
    if vocab_size < smallest:
        raise LexergyError(
            f"`vocab_size` is {vocab_size}; expected at least {smallest}: the bytes and the special tokens."
        )
    tokenizer = Tokenizer(BPE())
    if spoken:
        tokenizer.normalizer = _spoken_words()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=spoken)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return _save(tokenizer, Path(folder))


def _spoken_words() -> normalizers.Normalizer:
    """ "It’s naïve -- he said." becomes "it's naive he said"."""
    return normalizers.Sequence(
        [
            normalizers.NFKD(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
            normalizers.Replace("\u2019", "'"),
            normalizers.Replace(Regex("[^a-z']+"), " "),
            normalizers.Strip(),
        ]
    )


def _save(tokenizer: Tokenizer, folder: Path) -> PreTrainedTokenizerFast:
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END_OF_TEXT,
        mask_token=MASK,
        pad_token=PAD,
    )
    with atomic_path(folder) as partial:
        fast.save_pretrained(partial)
    return fast


def text_ends(tokenizer: PreTrainedTokenizerBase) -> tuple[int, int]:
    """What a text stands between: [CLS] and [SEP], or end-of-text on both sides."""
    start = tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.eos_token_id
    end = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
    if start is None or end is None:
        raise LexergyError("the tokenizer has neither [CLS] and [SEP] nor an end-of-text token; expected one of these.")
    return start, end
