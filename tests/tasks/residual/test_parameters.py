"""The full-size recipes have the parameters of Table 1 and the settings of Table 4 (Deng et al. 2020)."""

import pytest

from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.product_lm import num_parameters
from lexergy.models.energies import EnergyModel
from lexergy.recipes.loader import load_recipe
from lexergy.recipes.residual import ResidualRecipe
from lexergy.tasks.residual.parameters import count_parameters
from toys.recipes import ENERGIES, TRAINING, TRANSFORMER, residual_recipe

MILLION = 1_000_000
TABLE_1 = {  # "LM+125M" as 125
    "lm": 203,
    "ralm": 203,
    "balm": 408,
    "unit": 203,
    "bit-base": 125,
    "bit-base-star": 125,
    "bit-med": 203,
    "bit-large-star": 355,
}
NEWS_ONLY = {"bit-base", "bit-med"}
TABLE_4 = {  # fp16, batch size, warm-up steps, max steps, max lr, max grad norm
    "12": {
        "lm": ("no", 32, 2000, 180_000, 1e-4, 10),
        "ralm": ("no", 64, 2000, 180_000, 1e-4, 10),
        "balm": ("no", 32, 2000, 180_000, 1e-4, 10),
        "unit": ("fp16", 64, 2000, 180_000, 3e-4, 10),
        "bit-base": ("no", 60, 2000, 90_000, 5e-5, 0.25),
        "bit-base-star": ("no", 60, 2000, 90_000, 5e-5, 0.25),
        "bit-large-star": ("fp16", 64, 2000, 90_000, 3e-4, 10),
    },
    "24": {
        "lm": ("no", 50, 2000, 90_000, 3e-4, 0.25),
        "ralm": ("no", 28, 1000, 90_000, 1.5e-4, 0.25),
        "balm": ("no", 28, 2000, 90_000, 3e-4, 0.25),
        "unit": ("fp16", 64, 2000, 180_000, 3e-4, 10),
        "bit-base": ("no", 60, 2000, 90_000, 5e-5, 0.25),
        "bit-base-star": ("no", 60, 2000, 90_000, 5e-5, 0.25),
        "bit-med": ("no", 32, 2000, 90_000, 5e-5, 0.25),
        "bit-large-star": ("no", 20, 2000, 90_000, 5e-5, 0.25),
    },
}


def recipes(corpus: str, layers: str) -> list[ResidualRecipe]:
    names = [f"paper/{corpus}-{layers}-layers"]
    if (corpus, layers) == ("cc-news", "24"):
        names.append("paper/cc-news-24-layers-bit-med")
    return [load_recipe(name, ResidualRecipe) for name in names]


def trainings(recipe: ResidualRecipe) -> dict:
    rows = {"lm": recipe.lm.train, **recipe.baselines, **recipe.energies}
    return {name: row.training for name, row in rows.items()}


@pytest.mark.parametrize("layers", ["12", "24"])
@pytest.mark.parametrize("corpus", ["cc-news", "book-corpus"])
def test_every_row_of_table_1_is_there_with_its_settings_and_size(corpus, layers):
    expected = TABLE_4[layers]
    if corpus == "book-corpus":
        expected = {row: settings for row, settings in expected.items() if row not in NEWS_ONLY}
    found = {}
    for recipe in recipes(corpus, layers):
        for row, training in trainings(recipe).items():
            found[row] = (
                training.mixed_precision,
                training.batch_size,
                training.warmup_steps,
                training.max_steps,
                training.learning_rate,
                training.max_grad_norm,
            )
            assert (training.schedule, training.weight_decay, training.gradient_accumulation) == ("cosine", 0, 1)
        for row, count in count_parameters(recipe).items():
            assert count == pytest.approx(TABLE_1[row] * MILLION, rel=0.01), row
        assert (recipe.windows.prefix, recipe.windows.continuation) == (120, 40)
        assert recipe.negatives.per_prefix == {"cc-news": 16, "book-corpus": 128}[corpus]
        assert recipe.negatives.top_k is recipe.negatives.top_p is None
        assert recipe.perplexity.samples == 100_000
        assert (recipe.generation.top_k, recipe.generation.candidates) == (10, 10_000)
        assert recipe.lm.train.vocab_size == 50_096
        assert recipe.lm.train.num_layers == int(layers)
    assert found == expected


def test_bit_med_reads_the_lm_and_the_negatives_of_the_other_recipe():
    one, other = recipes("cc-news", "24")
    for section in ("seed", "corpus", "windows", "lm", "negatives"):
        assert getattr(one, section) == getattr(other, section)


def test_the_balm_of_the_text_has_its_size_only_with_projected_embeddings():
    recipe = load_recipe("paper/cc-news-12-layers", ResidualRecipe)
    balm = recipe.baselines["balm"]
    assert (balm.num_layers, balm.num_heads, balm.hidden_size, balm.feed_forward_size) == (12, 16, 1568, 6272)
    wide = recipe.model_copy(update={"baselines": {"balm": balm.model_copy(update={"embedding_size": None})}})
    assert count_parameters(wide)["balm"] == pytest.approx(434 * MILLION, rel=0.01)


def test_what_is_counted_is_what_is_built(finished_run, tiny_recipe):
    counts = count_parameters(tiny_recipe)
    assert counts.pop("lm") == CausalLM.from_pretrained(finished_run / "lm").model.num_parameters()
    assert counts == {name: num_parameters(EnergyModel.from_pretrained(finished_run / name)) for name in ENERGIES}


def test_baselines_and_sums_are_counted(tiny_corpus):
    recipe = ResidualRecipe.model_validate(
        residual_recipe(
            tiny_corpus,
            energies=ENERGIES
            | {
                "both": {"kind": "sum", "of": ["unit", "bit"]},
                "again": {"kind": "refreshed", "of": "bit", "training": TRAINING},
            },
            baselines={
                "ralm": {"kind": "ralm", "training": TRAINING},
                "balm": {"kind": "balm", **TRANSFORMER, "ngram_tables": {"orders": [2], "buckets": 64, "width": 4}},
            },
        )
    )
    counts = count_parameters(recipe)
    assert counts["both"] == counts["unit"] + counts["bit"]
    assert counts["again"] == counts["bit"]
    assert counts["ralm"] == counts["lm"]
    # Tables, and two matrices that read them: to the embeddings and to the last states.
    assert counts["balm"] == counts["lm"] + 64 * 4 + 2 * 4 * 16
