"""Sentences in other words, by an instruction-tuned LM."""

import numpy as np

from lexergy.data.detection.attacks import Attack
from lexergy.data.detection.attacks.places import chosen
from lexergy.data.detection.sentences import sentences
from lexergy.models.causal.chat import ChatLM
from lexergy.models.causal.language_model import LanguageModel

REQUEST = "Rewrite this sentence in other words and keep its meaning. Answer with the new sentence alone.\n\n{}"
TEMPERATURE, TOP_P = 0.7, 0.9
MOST_TOKENS = 128  # of an answer


def paraphrased(lm: LanguageModel) -> Attack:
    """An attack that has an LM rewrite sentences, each asked for on its own by the LM's chat template.

    An answer is taken up to its first line's end; an empty one leaves the sentence, and so does one too long for the
    LM. The strength is a share of the sentences.
    """
    chat = ChatLM(lm, "the paraphraser")

    def apply(text: str, strength: float, seed: int) -> str:
        places = sentences(text)
        parts, end = [], 0
        for number in chosen(len(places), strength, np.random.default_rng(seed)):
            first, last = places[number]
            parts += [text[end:first], rewritten(text[first:last], seed, number) or text[first:last]]
            end = last
        return "".join([*parts, text[end:]])

    def rewritten(sentence: str, seed: int, number: int) -> str:
        writer, prefix = chat.lm, chat.request(REQUEST.format(sentence))
        most = min(MOST_TOKENS, 2 * len(writer.encode(sentence)) + 8)
        if writer.max_length is not None and len(prefix) + most > writer.max_length:
            return ""
        samples = writer.sample(
            prefix[None],
            num_samples=1,
            max_new_tokens=most,
            temperature=TEMPERATURE,
            top_p=TOP_P,
            seed=seed,
            stop=["\n"],
            prefix_ids=[number],
        )
        return chat.answer(samples.tokens[0, 0]).partition("\n")[0].strip()

    return apply
