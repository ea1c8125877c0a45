"""The papers' tables and figures, each a short file: what it measures, and what the paper found."""

CATALOGUE = {
    "table-1": "perplexity of base LM, RALM, BALM and joint models",
    "table-1-deep": "the same on a deeper base LM, and with a pre-trained encoder",
    "figure-1": "perplexity gain by position with both bounds, exact at the last",
    "figure-2-left": "bounds on the perplexity against the number of samples",
    "figure-2-right": "unique n-grams in the text of people, joint model and base LM",
    "figure-3": "log-probabilities of people's text and of a model's own samples",
    "table-3": "next-token probabilities where the LM repeats a word",
    "tables-5-6": "continuations of the lowest and the highest energy beside people's",
    "long-text": "long texts written chunk by chunk, by the joint model and by the LM (Section 6)",
    "dynamic-nce": "negatives refreshed from the joint model itself (Section 6)",
}
