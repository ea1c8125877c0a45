"""The papers' tables and figures, each a short file: what it measures, and what the paper found."""

from typing import NamedTuple

from lexergy.errors import LexergyError


class Entry(NamedTuple):
    """Where a study lives in this room, and what it shows."""

    module: str
    shows: str


CATALOGUE = {
    "table-1": Entry("residual.table_1", "perplexity of base LM, RALM, BALM and joint models"),
    "table-1-deep": Entry("residual.table_1_deep", "the same on a deeper base LM, and with a pre-trained encoder"),
    "figure-1": Entry("residual.figure_1", "perplexity gain by position with both bounds, exact at the last"),
    "figure-2-left": Entry("residual.figure_2_left", "bounds on the perplexity against the number of samples"),
    "figure-2-right": Entry("residual.figure_2_right", "unique n-grams in the text of people, joint model and base LM"),
    "figure-3": Entry("residual.figure_3", "log-probabilities of people's text and of a model's own samples"),
    "table-3": Entry("residual.table_3", "next-token probabilities where the LM repeats a word"),
    "tables-5-6": Entry("residual.tables_5_6", "continuations of the lowest and the highest energy beside people's"),
    "long-text": Entry(
        "residual.long_text", "long texts written chunk by chunk, by the joint model and by the LM (Section 6)"
    ),
    "text-quality": Entry(
        "residual.text_quality",
        "whose text is nearest to people's: the LM's, the joint model's, the best of n",
    ),
    "dynamic-nce": Entry("residual.dynamic_nce", "negatives refreshed from the joint model itself (Section 6)"),
    "detect-table-2": Entry("real_or_fake.table_2", "which energies tell machine text from people's, in-domain"),
    "detect-table-3": Entry("real_or_fake.table_3", "the same with texts of a generator of another architecture"),
    "detect-table-4": Entry("real_or_fake.table_4", "the same on other corpora, and trained on unions of them"),
    "detect-table-5": Entry("real_or_fake.table_5", "a generator that was trained elsewhere, SmolLM2-135M-Instruct"),
    "detect-table-6": Entry("real_or_fake.table_6", "whole documents from blocks, written without any context"),
    "detect-table-7": Entry("real_or_fake.table_7", "one random negative, three, or the worst of three"),
    "detect-figure-1": Entry("real_or_fake.figure_1", "accuracy by the length of the prefix"),
    "detect-figure-2": Entry(
        "real_or_fake.figure_2", "energy and likelihood of text with a changed token, by position"
    ),
    "detect-figure-3": Entry(
        "real_or_fake.figure_3", "score differences between people's text and its machine-written twin"
    ),
    "detect-attack": Entry(
        "real_or_fake.attack", "tokens replaced by the energy's gradient until it is fooled (Appendix F)"
    ),
    "detect-ranking": Entry("real_or_fake.ranking", "the ranking loss in place of binary cross-entropy (Appendix C)"),
    "electric-table-5": Entry(
        "cloze.table_5",
        "word error rates after rescoring 100-best lists, models alone and together",
    ),
    "table-6.1": Entry(
        "masked.table_6_1",
        "one energy trained by MLM, pseudo-likelihood and likelihood, on distributions that are known (Goyal 2021)",
    ),
    "table-6.1-phonemes": Entry(
        "masked.table_6_1_phonemes", "the same on phonemes, log Z summed over 3.6 billion sequences"
    ),
    "figure-6.1": Entry("masked.figure_6_1", "a masked LM of much data, projected to an energy on little"),
    "table-6.2": Entry(
        "masked.table_6_2",
        "translations sampled under hot and cold proposals: Metropolis-Hastings and degenerate Gibbs",
    ),
    "table-6.3": Entry("masked.table_6_3", "the same with proposals from a nucleus"),
    "table-6.4": Entry("masked.table_6_4", "the same by blocks of positions"),
    "table-6.5": Entry("masked.table_6_5", "targets cooled faster and slower"),
    "table-6.6": Entry("masked.table_6_6", "translations from around the modes, beside Mask-Predict"),
    "figure-6.2": Entry("masked.figure_6_2", "energy and BLEU of sampled translations, sweep by sweep"),
    "figure-6.3": Entry("masked.figure_6_3", "acceptance while blocks get smaller"),
    "figure-6.4": Entry("masked.figure_6_4", "both energies as cooled targets, sweep by sweep"),
    "table-3.1": Entry("search_aware.table_3_1", "scheduled sampling, hard and relaxed, of entities"),
    "table-3.1-translation": Entry("search_aware.table_3_1_translation", "the same of translations"),
    "table-3.2": Entry("search_aware.table_3_2", "gentle and harsh schedules of scheduled sampling"),
    "table-4.1": Entry("search_aware.table_4_1", "a tagger trained on what its beam search finds"),
    "table-4.2": Entry("search_aware.table_4_2", "the same of entities"),
    "table-5.1": Entry("search_aware.table_5_1", "log-normalisers of taggers, plain and self-normalised"),
    "table-5.1-translation": Entry("search_aware.table_5_1_translation", "the same of translators"),
    "table-5.2": Entry(
        "search_aware.table_5_2",
        "local and global search-aware taggers, with partial and whole input, from cross-entropy",
    ),
    "table-5.3": Entry("search_aware.table_5_3", "the same from a self-normalised start"),
    "table-5.4": Entry("search_aware.table_5_4", "local and global search-aware translators, from both starts"),
    "table-5.5": Entry("search_aware.table_5_5", "n-gram precisions and lengths of their translations"),
    "table-5.6": Entry("search_aware.table_5_6", "their BLEU by the length of the source"),
    "figure-3.1": Entry(
        "search_aware.figure_3_1",
        "the discontinuous objective of scheduled sampling along a line, and relaxations of it",
    ),
    "figure-5.1": Entry("search_aware.figure_5_1", "label bias on an example, exactly"),
}


def check_name(name: str) -> None:
    """Without importing the study itself."""
    if name not in CATALOGUE:
        raise LexergyError(f"no study `{name}`; expected one of {', '.join(CATALOGUE)}.")
