"""The presets have the parameters of Tables 9 and 10 of "Real or fake" (2020), to the printed digit."""

from types import SimpleNamespace

import pytest
import torch

from lexergy.models.architectures.scratch import build_causal_lm
from lexergy.models.causal.product_lm import num_parameters
from lexergy.recipes.residual import ResidualRecipe
from lexergy.recipes.sections.energies import ENERGY_KINDS
from lexergy.recipes.sections.presets import BILSTMS, GENERATORS, PAPER_VOCABULARY
from lexergy.recipes.sections.shapes import CausalShapeRecipe
from lexergy.tasks.residual.energies import make_energy
from lexergy.tasks.residual.parameters import count_parameters
from toys.recipes import TRAINING

TABLE_9 = {"conv": (13, 164, 176), "transf-small": (26, 19, 45), "transf-big": (51, 151, 203)}
TABLE_9 |= {"transf-huge": (77, 1360, 1437)}
TABLE_10 = {"bilstm-small": (26, 23, 49), "bilstm-big": (39, 90, 129)}
UNI_TRANSF, BI_TRANSF = (51, 151, 203), (51, 304, 355)
POSITIONS = 512 + 2  # those of our OPTs, learnt and not counted


def millions(embeddings: int, total: int) -> tuple[int, int, int]:
    return tuple(round(count / 1e6) for count in (embeddings, total - embeddings, total))


def generator(preset: str, vocab_size: int = PAPER_VOCABULARY, **changes):
    shape = CausalShapeRecipe.model_validate({"preset": preset} | changes)
    with torch.device("meta"):
        return build_causal_lm(vocab_size, **shape.model_dump(), max_length=512, seed=0)


def size(model, positions: int = 0) -> tuple[int, int, int]:
    embeddings = model.get_input_embeddings().weight.numel()
    return millions(embeddings, num_parameters(model) - positions)


@pytest.mark.parametrize("preset", TABLE_9)
def test_generators_have_the_sizes_of_table_9(preset):
    model = generator(preset)
    assert size(model, 0 if preset == "conv" else POSITIONS * model.config.hidden_size) == TABLE_9[preset]


@pytest.mark.parametrize("vocab_size", [50_096, 50_400])
def test_the_counts_tell_the_vocabulary(vocab_size):
    """Of the vocabulary of Deng et al. (2020), TransfBig would have 202 M; of one somewhat larger, embeddings of 52."""
    assert size(generator("transf-big", vocab_size), POSITIONS * 1024) != TABLE_9["transf-big"]


def energy_over(vocab_size: int, kind: str, **keys):
    recipe = ENERGY_KINDS[kind].recipe.model_validate({"kind": kind, "training": TRAINING} | keys)
    with torch.device("meta"):
        return make_energy(recipe, SimpleNamespace(lm=SimpleNamespace(vocab_size=vocab_size)), seed=0)


def bilstm(**keys):
    energy = energy_over(PAPER_VOCABULARY, "bilstm", **keys)
    return millions(energy.embedding.weight.numel(), num_parameters(energy))


@pytest.mark.parametrize("preset", TABLE_10)
def test_bilstms_have_the_sizes_of_table_10(preset):
    assert bilstm(preset=preset) == TABLE_10[preset]


def test_the_widths_of_the_text_do_not_give_the_big_bilstm():
    assert bilstm(preset="bilstm-big", embedding_size=758)[0] == 38
    assert bilstm(preset="bilstm-big", hidden_size=2014)[1] == 337


def test_the_other_energies_have_the_sizes_of_table_10():
    recipe = ResidualRecipe.model_validate(
        {
            "name": "paper",
            "corpus": {"source": "texts"},
            "windows": {"prefix": 120, "continuation": 40},
            "lm": {
                "train": {
                    "preset": "transf-big",
                    "vocab_size": PAPER_VOCABULARY,
                    "max_length": 512,
                    "training": TRAINING,
                }
            },
            "energies": {
                "linear": {"kind": "linear", "training": TRAINING},
                "uni-transf": {"kind": "unit", "pooling": "sequence", "training": TRAINING},
                "bi-transf": {
                    "kind": "encoder",
                    "source": "FacebookAI/roberta-large",
                    "pooling": "first",
                    "training": TRAINING,
                },
            },
        }
    )
    counts = count_parameters(recipe)
    assert counts["linear"] == PAPER_VOCABULARY
    embeddings = PAPER_VOCABULARY * 1024
    assert millions(embeddings, counts["uni-transf"] - POSITIONS * 1024) == UNI_TRANSF
    pooling_layer = 1024 * 1024 + 1024
    assert millions(50265 * 1024, counts["bi-transf"] + pooling_layer) == BI_TRANSF


def test_small_ones_keep_the_order_of_the_large():
    def beside_embeddings(preset):
        model = generator(preset, 512)
        embeddings = {model.get_input_embeddings().weight, model.get_output_embeddings().weight}
        return num_parameters(model) - sum(weight.numel() for weight in embeddings)

    small, conv, big, huge = (
        beside_embeddings(f"{name}-cpu") for name in ("transf-small", "conv", "transf-big", "transf-huge")
    )
    assert small < conv < big < huge < 10e6
    assert big / small == pytest.approx(8, rel=0.1)  # as 151 to 19


@pytest.mark.parametrize("preset", [name for name in (*GENERATORS, *BILSTMS) if name.endswith("-cpu")])
def test_every_small_preset_has_its_large_one(preset):
    assert preset.removesuffix("-cpu") in GENERATORS | BILSTMS


def test_keys_beside_a_preset_count_and_it_is_written_out():
    shape = CausalShapeRecipe.model_validate({"preset": "transf-small-cpu", "num_layers": 3})
    assert (shape.hidden_size, shape.num_layers, shape.num_heads) == (64, 3, 4)
    assert shape == CausalShapeRecipe(hidden_size=64, num_layers=3, num_heads=4)
    assert "preset" not in shape.model_dump()


@pytest.mark.parametrize("preset", ["transf-tiny", {}, [], None])
def test_no_such_preset(preset):
    with pytest.raises(ValueError, match="expected one of"):
        CausalShapeRecipe.model_validate({"preset": preset})


def test_linear_needs_no_shape():
    assert num_parameters(energy_over(300, "linear")) == 300
