"""Recipes of runs: what is read, and that a mistake is told in a line or two that names file, key and remedy."""

import pytest
import yaml

from lexergy.errors import LexergyError
from lexergy.files import hash_of
from lexergy.recipes.loader import load_recipe
from lexergy.recipes.residual import ResidualRecipe
from lexergy.recipes.sections.energies import ENERGY_KINDS
from toys.recipes import SHAPE, TRAINING, TRANSFORMER


def recipe(**changes):
    content = {
        "name": "tiny",
        "corpus": {"source": "texts"},
        "windows": {"prefix": 4, "continuation": 4},
        "lm": {"source": "somewhere"},
        "energies": {"energy": {"kind": "states", "layers": [0, 1], "training": TRAINING}},
    }
    return content | changes


def mistake(tmp_path, **changes) -> str:
    path = tmp_path / "bad.yaml"
    path.write_text(yaml.safe_dump(recipe(**changes)))
    with pytest.raises(LexergyError) as raised:
        load_recipe(path, ResidualRecipe)
    message = str(raised.value)
    assert message.startswith(f"{path}: ")
    assert message.count("\n") <= 1
    return message.removeprefix(f"{path}: ")


def test_plain_data_reads_back_as_the_same_recipe():
    loaded = load_recipe("from-scratch", ResidualRecipe)
    assert ResidualRecipe.model_validate(loaded.plain()) == loaded
    assert loaded.plain()["energies"]["bit"]["from"] == "masked_lm"


def test_defaults_are_untruncated_negatives_and_the_lm_as_origin(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(recipe(energies={"e": {"kind": "bit", "training": TRAINING}})))
    loaded = load_recipe(path, ResidualRecipe)
    assert (loaded.negatives.top_k, loaded.negatives.top_p, loaded.negatives.temperature) == (None, None, 1.0)
    assert loaded.energies["e"].origin == "lm"
    assert loaded.generation is None


def test_another_runtime_makes_no_stage_again(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(recipe(lm={"source": "somewhere", "runtime": "torch"})))
    loaded = load_recipe(path, ResidualRecipe)
    assert loaded.lm.runtime == "torch"
    assert "runtime" not in loaded.plain()["lm"]


REMOTE = {"source": "openai:http://127.0.0.1:8080", "tokenizer": "smollm2-135m"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"lm": {"source": "openai:http://127.0.0.1:8080"}},
            "`lm`: the LM is openai:http://127.0.0.1:8080 and no `tokenizer` is named; expected that of its model: a "
            "folder, a Hub name, or smollm2-135m.",
        ),
        (
            {"lm": {"source": "somewhere", "model": "x"}},
            "`lm`: `model` is for an LM behind an address, `source: openai:http://...`; leave it out.",
        ),
        (
            {"lm": REMOTE | {"runtime": "openvino"}},
            "`lm`: `runtime` is for an LM that runs here, and openai:http://127.0.0.1:8080 runs elsewhere; leave it "
            "out.",
        ),
        (
            {"lm": {"source": "somewhere", "runtime": "onnx"}},
            "`lm.runtime` is 'onnx'; input should be 'auto', 'torch' or 'openvino'.",
        ),
        (
            {"lm": REMOTE},
            "the energy `energy` of kind `states` is made from the LM's weights or states, and the LM is "
            "openai:http://127.0.0.1:8080; expected kind fitted_reader, fitted_encoder, encoder, linear or bilstm.",
        ),
        (
            {"lm": REMOTE, "energies": {"energy": {"kind": "unit", "training": TRAINING}}},
            "the energy `energy` of kind `unit` is made from the LM's weights or states, and the LM is "
            "openai:http://127.0.0.1:8080; expected kind fitted_reader, fitted_encoder, encoder, linear or bilstm.",
        ),
        ({"negatives": {"per_prefx": 2}}, "unknown key `negatives.per_prefx`; did you mean `per_prefix`?"),
        (
            {"negatives": {"budget": "soon"}},
            "`negatives.budget`: 'soon' is no duration; expected a time above 0 in seconds, minutes or hours, as in "
            "90s, 60m or 2h.",
        ),
        (
            {"negatives": {"budget": "60m"}},
            "the budget of negatives is 60m and no energy is fitted, whose learning curve would say when to stop; "
            "expected one of kind fitted_states, fitted_reader or fitted_encoder; or leave the budget out.",
        ),
        (
            {
                "negatives": {"budget": "60m"},
                "energies": {"head": {"kind": "fitted_states", "layers": [1], "pairs": 20}},
            },
            "the budget of negatives is 60m and the energy `head` asks for 20 pairs; expected one of the two, since a "
            "budget decides how many there are.",
        ),
        ({"sed": 1}, "unknown key `sed`; did you mean `seed`?"),
        (
            {"energies": {"energy": {"kind": "states", "layerz": [1], "training": TRAINING}}},
            "unknown key `energies.energy.layerz`; did you mean `layers`? (1 more mistake after this one)",
        ),
        (
            {"energies": {"energy": {"kind": "bit", "form": "lm", "training": TRAINING}}},
            "unknown key `energies.energy.form`; did you mean `from`?",
        ),
        (
            {"energies": {"e": {"kind": "bit", "training": TRAINING | {"learning_rat": 1}}}},
            "unknown key `energies.e.training.learning_rat`; did you mean `learning_rate`?",
        ),
        (
            {"lm": {"train": TRANSFORMER | {"vocab_size": 300, "zzz": 1}}},
            "unknown key `lm.train.zzz`; expected one of hidden_size, num_layers, num_heads, feed_forward_size, "
            "architecture, embedding_size, kernel_size, direction, max_length, training, vocab_size.",
        ),
        ({"energies": {"e": {"kind": "statez"}}}, "`energies.e.kind` is statez; did you mean `states`?"),
        (
            {"energies": {"e": {"layers": [1]}}},
            f"`energies.e.kind` is missing; expected one of {', '.join(ENERGY_KINDS)}.",
        ),
        ({"windows": {"prefix": 4}}, "the key `windows.continuation` is missing."),
        (
            {"windows": {"prefix": 0, "continuation": 4}},
            "`windows.prefix` is 0; input should be greater than or equal to 1.",
        ),
        (
            {"negatives": {"top_k": 0}},
            "`negatives.top_k` is 0; input should be greater than or equal to 1.",
        ),
        (
            {"lm": {}},
            "`lm`: neither of `source` and `train` given; expected exactly one of them.",
        ),
        (
            {"lm": {"train": TRANSFORMER | {"vocab_size": 300, "num_heads": 3}}},
            "`lm.train`: `hidden_size` is 16 and `num_heads` 3; expected a width that the number of heads divides.",
        ),
        (
            {"lm": {"train": {"preset": "transf-bigger", "vocab_size": 300, "max_length": 9, "training": TRAINING}}},
            "`lm.train`: `preset` is transf-bigger; expected one of conv, transf-small, transf-big, transf-huge, "
            "conv-cpu, transf-small-cpu, transf-big-cpu, transf-huge-cpu.",
        ),
        (
            {"lm": {"train": TRANSFORMER | {"vocab_size": 300, "num_heads": None}}},
            "`lm.train`: the key `num_heads` is missing; expected one, since a llama has heads.",
        ),
        (
            {"lm": {"train": TRANSFORMER | {"vocab_size": 300, "architecture": "gated_conv"}}},
            "`lm.train`: `num_heads` is 2; leave it out, since gated convolutions have none.",
        ),
        (
            {"lm": {"train": TRANSFORMER | {"vocab_size": 300, "kernel_size": 3}}},
            "`lm.train`: `kernel_size` is 3 and `architecture` llama; expected gated_conv, or no `kernel_size`.",
        ),
        (
            {"lm": {"train": TRANSFORMER | {"vocab_size": 300, "direction": "backwards"}}},
            "`lm.train.direction` is 'backwards'; input should be 'left_to_right' or 'right_to_left'.",
        ),
        (
            {"lm": {"train": TRANSFORMER | {"vocab_size": 300, "max_length": 7}}},
            "`lm.train.max_length` is 7; expected at least 8, the prefix and the continuation of a window.",
        ),
        (
            {"energies": {"e": {"kind": "bit", "from": "masked_lm", "training": TRAINING}}},
            "the energy `e` is made from masked_lm; expected a section `masked_lm`.",
        ),
        (
            {"energies": {"e": {"kind": "unit", "from": "masked_lm", "training": TRAINING}}},
            "`energies.e`: `from` is masked_lm; expected lm, since a `unit` energy reads left to right.",
        ),
        (
            {"energies": {"e": {"kind": "unit", "pooling": "first", "training": TRAINING}}},
            "`energies.e`: `pooling` is first; expected continuation or sequence, since a `unit` reads left to right.",
        ),
        (
            {"energies": {"e": {"kind": "bilstm", "embedding_size": 4, "num_layers": 1, "training": TRAINING}}},
            "the key `energies.e.hidden_size` is missing.",
        ),
        (
            {"energies": {"e": {"kind": "bit", "objective": {"mining": "hard"}, "training": TRAINING}}},
            "`energies.e.objective.mining` is 'hard'; input should be 'random', 'hardest' or 'all'.",
        ),
        (
            {"energies": {"e": {"kind": "bit", "objective": {"margin": 0.1}, "training": TRAINING}}},
            "`energies.e.objective`: `margin` is 0.1 and `loss` nce; expected `loss: ranking`, or no margin.",
        ),
        (
            {
                "energies": {
                    "e": {"kind": "bit", "training": TRAINING},
                    "f": {"kind": "refreshed", "of": "e", "objective": {"loss": "ranking"}, "training": TRAINING},
                }
            },
            "`energies.f`: `objective.loss` is ranking; expected nce, which knows how the new negatives were drawn.",
        ),
        (
            {"perplexity": {"runs": 4}},
            "`perplexity`: `runs` is 4 and `method` is importance; expected `method: smc`.",
        ),
        (
            {"perplexity": {"method": "mcmc"}},
            "`perplexity.method` is 'mcmc'; input should be 'importance' or 'smc'.",
        ),
        (
            {
                "energies": {
                    "e": {"kind": "bit", "training": TRAINING},
                    "f": {"kind": "sum", "of": ["e"]},
                },
                "generation": {"prompts": ["a"], "method": "smc"},
            },
            "`generation.method` is smc and the energy `e` of kind `bit` reads whole texts only; expected energies on "
            "the LM's states (kind states or fitted_states); or leave `method` out.",
        ),
    ],
)
def test_a_mistake_names_its_key_and_the_remedy(tmp_path, changes, message):
    assert mistake(tmp_path, **changes) == message


@pytest.mark.parametrize("name", ["windows", "../escape", "a/b", ""])
def test_an_energy_cannot_take_another_folder(tmp_path, name):
    states = recipe()["energies"]["energy"]
    assert "names its folder" in mistake(tmp_path, energies={name: states})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"baselines": {"b": {"kind": "ralm", "training": TRAINING}}},
            "the key `baselines.b.max_length` is missing; expected the length of the blocks to train on, since the "
            "LM is somewhere and not trained here.",
        ),
        (
            {"baselines": {"b": {"kind": "ralm", "max_length": 7, "training": TRAINING}}},
            "`baselines.b.max_length` is 7; expected at least 8, the prefix and the continuation of a window.",
        ),
        (
            {"baselines": {"b": {"kind": "ralm", "max_length": 8, "shape": SHAPE, "training": TRAINING}}},
            "`baselines.b`: `shape` is given and `from` is lm, whose shape it has; expected `from: scratch`.",
        ),
        (
            {"baselines": {"energy": {"kind": "balm", **TRANSFORMER}}},
            "`energy` is the name of an energy and of a baseline; expected two names, since each names a folder.",
        ),
        (
            {"baselines": {"b": {"kind": "balm", **TRANSFORMER, "embedding_size": 8}}},
            "`baselines.b`: `embedding_size` is 8 and `architecture` llama; expected opt or gated_conv, which project "
            "their embeddings to the width of the model; or leave `embedding_size` out.",
        ),
        ({"baselines": {"b": {"kind": "balmy"}}}, "`baselines.b.kind` is balmy; did you mean `balm`?"),
    ],
)
def test_a_mistake_in_a_baseline_is_told(tmp_path, changes, message):
    assert mistake(tmp_path, **changes) == message


@pytest.mark.parametrize("name", ["windows", "baselines", "a/b"])
def test_a_baseline_cannot_take_another_folder(tmp_path, name):
    assert "the baseline's name" in mistake(tmp_path, baselines={name: {"kind": "balm", **TRANSFORMER}})


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("energy-alone", "f0cd3f1ba50f74b0"),
        ("from-scratch", "62108b47892ab7ed"),
        ("smollm2-bit", "a5c92b33316156c8"),
    ],
)
def test_keys_added_to_recipes_later_leave_finished_runs_finished(name, digest):
    """The keys of stages hash what `plain` writes; these hashes are of before `baselines` and `split_seed`."""
    names = {"energy-alone": "quickstart"}  # as it was called then
    recipe = load_recipe(name, ResidualRecipe)
    assert hash_of(recipe.plain() | {"name": names.get(name, name)}) == digest


def test_a_key_added_later_is_written_where_it_is_used():
    used = recipe(
        corpus={"source": "texts", "split_seed": 0},
        baselines={"b": {"kind": "balm", **TRANSFORMER, "architecture": "opt", "embedding_size": 8}},
        energies={"e": {"kind": "bit", "objective": {"mining": "hardest"}, "training": TRAINING}},
    )
    plain = ResidualRecipe.model_validate(used).plain()
    assert plain["corpus"]["split_seed"] == 0
    assert (plain["baselines"]["b"]["architecture"], plain["baselines"]["b"]["embedding_size"]) == ("opt", 8)
    assert plain["energies"]["e"]["objective"]["mining"] == "hardest"
    assert ResidualRecipe.model_validate(plain) == ResidualRecipe.model_validate(used)


def test_smc_takes_energies_made_from_states():
    states = {"kind": "states", "layers": [0], "training": TRAINING}
    again, total = {"kind": "refreshed", "of": "e", "training": TRAINING}, {"kind": "sum", "of": ["e", "f"]}
    energies = {"e": states, "f": again, "g": total}
    used = recipe(energies=energies, perplexity={"method": "smc"}, generation={"prompts": ["a"], "method": "smc"})
    read = ResidualRecipe.model_validate(used)
    assert (read.perplexity.num_runs, read.plain()["generation"]["method"]) == (4, "smc")
    assert ResidualRecipe.model_validate(recipe()).perplexity.num_runs is None
    assert "method" not in ResidualRecipe.model_validate(recipe()).plain()["perplexity"]


def test_state_energies_read_layers_that_there_are(tmp_path):
    lm = {"train": TRANSFORMER | {"vocab_size": 300}}
    states = recipe()["energies"]["energy"] | {"layers": [0, 2]}
    message = mistake(tmp_path, lm=lm, energies={"a": states})
    assert message == (
        "an energy of kind `states` reads layer 2; expected 0 (embeddings) to 1, the last layer of `lm.train`."
    )


def test_state_energies_cannot_read_projected_states(tmp_path):
    lm = {"train": TRANSFORMER | {"vocab_size": 300, "architecture": "opt", "embedding_size": 8}}
    states = recipe()["energies"]["energy"] | {"layers": [1]}
    assert "expected 0 (embeddings) to 0" in mistake(tmp_path, lm=lm, energies={"a": states})
    conv = {key: value for key, value in lm["train"].items() if key != "num_heads"} | {"architecture": "gated_conv"}
    ResidualRecipe.model_validate(recipe(lm={"train": conv}, energies={"a": states}))  # projects behind its last states


def test_a_masked_lm_needs_a_tokenizer_with_a_mask(tmp_path):
    assert "no mask token" in mistake(tmp_path, masked_lm=TRANSFORMER)


def test_a_packaged_lm_is_named_in_full_and_stored_by_its_short_name():
    lm = load_recipe("energy-alone", ResidualRecipe).lm
    assert lm.description == "smollm2-135m (SmolLM2-135M-Instruct, tuned to chat, 4 bits: Q4_1)"
    assert lm.origin == "smollm2-135m"  # negatives that were stored before are found
    finetuned = load_recipe("smollm2-sotu-finetuned", ResidualRecipe).lm
    assert finetuned.description.startswith(f"{finetuned.origin} (SmolLM2-135M-Instruct")


def test_the_energy_on_gemma_changes_nothing_but_the_lm():
    usual, gemma = (load_recipe(name, ResidualRecipe).plain() for name in ("energy-alone", "quickstart-gemma"))
    layers = [plain["energies"]["energy"].pop("layers") for plain in (usual, gemma)]
    depths = [[layer / read[-1] for layer in read] for read in layers]
    assert depths[1] == pytest.approx(depths[0], abs=1 / 18)
    assert gemma["lm"].pop("source") == "gemma3-270m"
    assert usual["lm"].pop("source") == "smollm2-135m"
    assert usual | {"name": "quickstart-gemma"} == gemma
