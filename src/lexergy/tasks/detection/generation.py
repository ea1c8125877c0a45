"""Machine texts where there are none: an LM goes on from the first words of people's texts."""

from collections.abc import Sequence

import torch

from lexergy.data.corpora import load_corpus
from lexergy.data.plain_text import plain_text
from lexergy.data.windows import make_windows
from lexergy.models.causal.lm import CausalLM
from lexergy.progress import progress_bar
from lexergy.tasks.detection.examples import Example
from lexergy.tasks.residual.base_models import without_special_tokens

PROMPT_TOKENS, NEW_TOKENS = 32, 96
PROMPTS_AT_ONCE = 32


def generated_pairs(
    sources: Sequence[str],
    generator: str,
    *,
    pairs: int,
    seed: int,
    text_field: str = "text",
    progress: bool = True,
    prompt_tokens: int = PROMPT_TOKENS,
    new_tokens: int = NEW_TOKENS,
) -> list[Example]:
    """Excerpts of people's documents, and for each what the LM writes from the same first tokens, untruncated.

    Excerpts of one document are one group. Both texts of a pair come out of the LM's tokenizer and have as many
    tokens, so that neither encoding nor length tells them apart.
    """
    lm = without_special_tokens(CausalLM.from_pretrained(generator))
    documents = [(source, document) for source in sources for document in load_corpus(source, text_field=text_field)]
    windows = make_windows(
        [lm.encode(plain_text(document.text)) for _, document in documents],
        [f"{source} {document.group}" for source, document in documents],
        prefix_length=prompt_tokens,
        continuation_length=new_tokens,
        stride=prompt_tokens + new_tokens,
    )
    windows = windows.sample(min(pairs, len(windows)), seed)
    examples = []
    with progress_bar("machine texts", len(windows), progress) as bar:
        for rows in torch.arange(len(windows)).split(PROMPTS_AT_ONCE):
            prompts = windows.prefixes[rows]
            written = lm.sample(
                prompts, num_samples=1, max_new_tokens=new_tokens, seed=seed, prefix_ids=rows.tolist()
            ).tokens[:, 0]
            people, machine = lm.decode(windows.tokens[rows]), lm.decode(torch.cat((prompts, written), 1))
            for row, own, generated in zip(rows.tolist(), people, machine, strict=True):
                group = windows.document_ids[row]
                examples += [Example(own, False, "people", group), Example(generated, True, generator, group)]
            bar.advance(len(rows))
    return examples
