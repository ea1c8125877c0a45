"""The paper's family of cloze models."""

from lexergy.recipes.cloze import PretrainingRecipe
from lexergy.recipes.loader import load_recipe


def test_the_paper_s_models_have_the_steps_of_equal_compute():
    """Table 3 of Electric; Table 6 of ELECTRA: 1M for BERT-Base, 766K for ELECTRA-Base."""
    models = load_recipe("paper/electric", PretrainingRecipe).models
    steps = {name: model.training.max_steps // 1000 for name, model in models.items()}
    assert steps == {"electric": 700, "electra-tt": 700, "electra": 766, "two-tower": 1000, "bert": 1000}
    assert (models["electric"].noise_scale, round(models["electra"].noise_scale, 2)) == (0.25, 0.33)
    assert models["two-tower"].hidden_size * 3 == models["bert"].hidden_size * 2
