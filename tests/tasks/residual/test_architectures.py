"""A whole run on the paper's architectures: an OPT with narrower embeddings, a RoBERTa, energies from both."""

import math

from transformers import OPTForCausalLM, RobertaForMaskedLM

from lexergy.recipes.residual import ResidualRecipe
from lexergy.tasks.residual.run import run
from toys.recipes import TRAINING, TRANSFORMER, residual_recipe


def test_a_run_on_an_opt_and_a_roberta(tiny_corpus, tmp_path):
    opt = {"architecture": "opt", "embedding_size": 12, "feed_forward_size": 24}
    recipe = ResidualRecipe.model_validate(
        residual_recipe(
            tiny_corpus,
            lm={"train": {"vocab_size": 300, **TRANSFORMER, **opt}},
            masked_lm={**TRANSFORMER, "architecture": "roberta"},
            energies={
                "unit": {"kind": "unit", "training": TRAINING},
                "bit": {"kind": "bit", "from": "masked_lm", "training": TRAINING},
            },
            baselines={"ralm": {"kind": "ralm", "from": "scratch", "training": TRAINING}},
            generation=None,
        )
    )
    result = run(recipe, tmp_path / "run", progress=False)
    lm = OPTForCausalLM.from_pretrained(tmp_path / "run" / "lm")
    assert (lm.config.word_embed_proj_dim, lm.config.hidden_size, lm.config.ffn_dim) == (12, 16, 24)
    RobertaForMaskedLM.from_pretrained(tmp_path / "run" / "masked_lm")
    for energy in result.energies.values():
        assert math.isfinite(energy.perplexity.upper)
        losses = [record["validation"]["loss"] for record in energy.history]
        assert min(losses[1:]) < losses[0]
    assert result.baselines["ralm"].parameters == 2 * lm.num_parameters()
    assert result.baselines["ralm"].perplexity < result.energies["unit"].perplexity.base
