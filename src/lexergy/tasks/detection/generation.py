"""Machine texts where there are none: an LM goes on from the first words of people's texts."""

from dataclasses import asdict, dataclass

import pyarrow as pa
import torch

from lexergy.data.corpora import load_corpus
from lexergy.data.plain_text import plain_text
from lexergy.data.windows import Windows, make_windows
from lexergy.models.causal.lm import CausalLM
from lexergy.runs.fingerprint import fingerprint
from lexergy.runs.shards import num_shards, shard_rows
from lexergy.runs.stages import Facts, Stage
from lexergy.runs.workspace import OpenStage, Workspace, stage_store
from lexergy.tasks.detection.examples import Example
from lexergy.tasks.residual.base_models import without_special_tokens

PAIRS_PER_SHARD = 32  # prompts at once
ROWS = "rows"


@dataclass(frozen=True)
class GeneratedPairs:
    """Excerpts of people's documents, and for each what the LM writes from the same first tokens, untruncated.

    Excerpts of one document are one group. Both texts of a pair come out of the LM's tokenizer and have as many
    tokens, so that neither encoding nor length tells them apart.
    """

    sources: tuple[str, ...]  # corpora by people
    generator: str  # the LM
    pairs: int  # at most
    text_field: str = "text"
    prompt_tokens: int = 32
    new_tokens: int = 96

    def stage(self, workspace: Workspace) -> Stage:
        """The stage `texts`, in shards that survive a kill; `read_pairs` reads them."""
        content = [fingerprint(source) for source in (*self.sources, self.generator)]
        config = {**asdict(self), "sources": list(self.sources), "content": content}

        def build(stage: OpenStage) -> Facts:
            lm = without_special_tokens(CausalLM.from_pretrained(self.generator))
            windows = self._windows(lm, workspace.seed)

            def write(shard: int) -> pa.Table:
                return self._written(lm, windows, shard_rows(shard, len(windows), PAIRS_PER_SHARD), workspace.seed)

            shards = num_shards(len(windows), PAIRS_PER_SHARD)
            stage.store(ROWS).fill(shards, write, "machine texts", progress=stage.progress)
            return {"shards": shards, "pairs": len(windows)}

        return workspace.stage("texts", config, [], build)

    def _windows(self, lm: CausalLM, seed: int) -> Windows:
        documents = [
            (source, document)
            for source in self.sources
            for document in load_corpus(source, text_field=self.text_field)
        ]
        windows = make_windows(
            [lm.encode(plain_text(document.text)) for _, document in documents],
            [f"{source} {document.group}" for source, document in documents],
            prefix_length=self.prompt_tokens,
            continuation_length=self.new_tokens,
            stride=self.prompt_tokens + self.new_tokens,
        )
        return windows.sample(min(self.pairs, len(windows)), seed)

    def _written(self, lm: CausalLM, windows: Windows, ids: range, seed: int) -> pa.Table:
        rows = windows.select(list(ids))
        written = lm.sample(
            rows.prefixes, num_samples=1, max_new_tokens=self.new_tokens, seed=seed, prefix_ids=ids
        ).tokens[:, 0]
        return pa.table(
            {
                "people": lm.decode(rows.tokens),
                "machine": lm.decode(torch.cat((rows.prefixes, written), 1)),
                "group": rows.document_ids,
                "generator": [self.generator] * len(ids),
            }
        )


def read_pairs(stage: Stage) -> list[Example]:
    """What the stage `texts` wrote, people's text before its pair."""
    return [
        example
        for row in stage_store(stage, ROWS).table(stage.facts["shards"]).to_pylist()
        for example in (
            Example(row["people"], False, "people", row["group"]),
            Example(row["machine"], True, row["generator"], row["group"]),
        )
    ]
