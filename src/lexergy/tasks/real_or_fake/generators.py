"""The generators of a laboratory: LMs trained on its corpora, in both directions, and LMs found elsewhere."""

from functools import partial

from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM
from lexergy.recipes.sections.shapes import Direction
from lexergy.runs.fingerprint import fingerprint
from lexergy.runs.stages import Facts, Stage
from lexergy.runs.workspace import OpenStage
from lexergy.tasks.real_or_fake.corpora import Corpora
from lexergy.tasks.real_or_fake.text_sets import Side, Split, Writer, load_writer
from lexergy.tasks.residual.base_models import train_lm

DIRECTIONS: dict[Side, Direction] = {"prefix": "left_to_right", "suffix": "right_to_left"}


class Generators:
    """LMs by their name, the corpus they learnt from, and the side of a window that they are given.

    That of test texts differs from that of training and validation texts by its seed (Sec. 4.4).
    """

    def __init__(self, corpora: Corpora) -> None:
        self.recipe = corpora.recipe
        self.corpora = corpora
        self.workspace = corpora.workspace

    def load(self, name: str, corpus: str, side: Side, split: Split) -> Writer:
        """The LM that writes after a prefix or before a suffix."""
        return load_writer(self.stage(name, corpus, side, split).folder, side)

    def stage(self, name: str, corpus: str, side: Side, split: Split) -> Stage:
        if name in self.recipe.found_generators:
            return self._found_stage(name, side)
        if name not in self.recipe.generators:
            known = [*self.recipe.generators, *self.recipe.found_generators]
            raise LexergyError(f"no generator `{name}`; expected one of {', '.join(known)}.")
        direction, use = DIRECTIONS[side], "test" if split == "test" else "train"
        return self.workspace.stage(
            f"generators/{corpus}--{name}--{direction.replace('_', '-')}--{use}",
            {
                "corpus": self.corpora.source(corpus),
                "model": self.recipe.plain()["generators"][name],
                "direction": direction,
            },
            [self.corpora.tokenizer_stage()],
            partial(train_lm, self.corpora.context(corpus, self.recipe.generators[name], direction)),
            together=True,
        )

    def _found_stage(self, name: str, side: Side) -> Stage:
        source = self.recipe.found_generators[name].source
        if side == "suffix":
            raise LexergyError(
                f"the generator `{name}` is {source}, which writes left to right; expected texts that follow a prefix."
            )

        def build(stage: OpenStage) -> Facts:
            lm = CausalLM.from_pretrained(source).without_special_tokens()
            lm.save_pretrained(stage.folder)
            return {"parameters": lm.model.num_parameters()}

        config = {"source": source, "content": fingerprint(source)}
        return self.workspace.stage(f"generators/{name}", config, [], build)
