"""Machine texts where there are none: LMs go on from the first words of people's texts, by themselves or when asked."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa
import torch

from lexergy.core.conditions import describe
from lexergy.core.decoding import Decoding
from lexergy.data.corpora import load_corpus
from lexergy.data.detection.plain_text import plain_text
from lexergy.data.windows import Windows, make_windows
from lexergy.models.causal.chat import ChatLM
from lexergy.models.causal.language_model import LanguageModel
from lexergy.models.remote.opening import open_lm
from lexergy.runs.fingerprint import fingerprint
from lexergy.runs.shards import num_shards, shard_rows
from lexergy.runs.stages import Facts, Stage
from lexergy.runs.workspace import OpenStage, Workspace, stage_store
from lexergy.tasks.detection.examples import Example

PAIRS_PER_SHARD = 32  # prompts at once
ROWS = "rows"
REQUEST = "Go on with this text for about {words} words. Answer with the new words alone.\n\n{beginning}"
MIXTURE = (Decoding(), Decoding(temperature=0.7), Decoding(top_p=0.9), Decoding(top_k=40))
"""How LMs are decoded where they are in use, in equal shares: a detector of untruncated samples alone would not know
the others."""


@dataclass(frozen=True)
class GeneratedPairs:
    """Excerpts of people's documents, and for each what an LM writes from the same first tokens.

    Generators and decodings have equal shares of the pairs. Excerpts of one document are one group. Both texts of a
    pair come out of the LM's tokenizer and have as many tokens, so that neither encoding nor length tells them apart.
    With `chat`, LMs are asked to go on, each by its chat template, and may end sooner: assistants do not write as the
    LMs that they were made of.
    """

    sources: tuple[str, ...]  # corpora by people
    generators: tuple[str, ...]  # the LMs
    pairs: int  # at most
    text_field: str = "text"
    prompt_tokens: int = 32
    new_tokens: int = 96
    decodings: tuple[Decoding, ...] = MIXTURE
    chat: bool = False

    def stage(self, workspace: Workspace) -> Stage:
        """The stage `texts`, in shards that survive a kill; `read_pairs` reads them."""
        content = [fingerprint(source) for source in (*self.sources, *self.generators)]
        config = {**asdict(self), "content": content}
        if not self.chat:
            del config["chat"]  # texts written before there was a choice are still good

        def build(stage: OpenStage) -> Facts:
            shards = [self._write(stage, number, workspace.seed) for number in range(len(self.generators))]
            return {"shards": shards, "pairs": self.pairs}

        return workspace.stage("texts", config, [], build)

    def _write(self, stage: OpenStage, number: int, seed: int) -> int:
        """The shards of one generator: how many there are."""
        generator = self.generators[number]
        lm = open_lm(generator).without_special_tokens()
        chat = ChatLM(lm, f"the LM {generator}") if self.chat else None
        first, end = (self.pairs * count // len(self.generators) for count in (number, number + 1))
        windows = self._windows(lm, end - first, seed + number)
        decodings = in_equal_shares(self.decodings, len(windows), seed)

        def write(shard: int) -> pa.Table:
            rows = shard_rows(shard, len(windows), PAIRS_PER_SHARD)
            return self._written(lm, chat, windows, decodings, rows, seed).append_column(
                "generator", pa.array([generator] * len(rows))
            )

        shards = num_shards(len(windows), PAIRS_PER_SHARD)
        label = f"machine texts of {generator}"
        stage.store(f"{ROWS}-{number}").fill(shards, write, label, progress=stage.progress)
        return shards

    def _windows(self, lm: LanguageModel, pairs: int, seed: int) -> Windows:
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
        return windows.sample(min(pairs, len(windows)), seed)

    def _written(
        self,
        lm: LanguageModel,
        chat: ChatLM | None,
        windows: Windows,
        decodings: Sequence[Decoding],
        rows: range,
        seed: int,
    ) -> pa.Table:
        """What the LM writes in some rows, each with its own decoding."""
        chosen = windows.select(rows)
        beginnings = lm.decode(chosen.prefixes)
        prompts = list(chosen.prefixes) if chat is None else [chat.request(self._request(own)) for own in beginnings]
        machine = [""] * len(rows)
        alike = {(decodings[row], len(prompt)) for row, prompt in zip(rows, prompts, strict=True)}
        for decoding, length in sorted(alike, key=str):
            own = [
                place for place, row in enumerate(rows) if decodings[row] == decoding and len(prompts[place]) == length
            ]
            samples = (lm if chat is None else chat.lm).sample(
                torch.stack([prompts[place] for place in own]),
                num_samples=1,
                max_new_tokens=self.new_tokens,
                seed=seed,
                prefix_ids=[rows[place] for place in own],
                **asdict(decoding),
            )
            for place, tokens in zip(own, samples.tokens[:, 0], strict=True):
                if chat is None:
                    (machine[place],) = lm.decode(torch.cat((chosen.prefixes[place], tokens)))
                else:
                    machine[place] = f"{beginnings[place]} {chat.answer(tokens)}"
        return pa.table(
            {
                "people": lm.decode(chosen.tokens),
                "machine": machine,
                "group": chosen.document_ids,
                "decoding": [describe(decodings[row]) for row in rows],
            }
        )

    def _request(self, beginning: str) -> str:
        return REQUEST.format(words=self.new_tokens * 3 // 4, beginning=beginning)


def in_equal_shares(decodings: Sequence[Decoding], count: int, seed: int) -> list[Decoding]:
    """A decoding for each of `count` pairs, in an order by chance; no two differ by more than one pair."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed)).tolist()
    return [decodings[place % len(decodings)] for place in order]


def read_pairs(stage: Stage) -> list[Example]:
    """What the stage `texts` wrote, people's text before its pair."""
    return [
        example
        for number, shards in enumerate(stage.facts["shards"])
        for row in stage_store(stage, f"{ROWS}-{number}").table(shards).to_pylist()
        for example in (
            Example(row["people"], False, "people", row["group"]),
            Example(row["machine"], True, f"{row['generator']}, {row['decoding']}", row["group"]),
        )
    ]
