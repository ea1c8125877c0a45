"""Where the studies of "Real or fake" work, and what they have in common with each other and not with the paper."""

from collections.abc import Mapping

from lexergy.recipes.real_or_fake import LaboratoryRecipe
from lexergy.studies.study import Opener, Size
from lexergy.tasks.real_or_fake.laboratory import open_laboratory

LABORATORY = Opener(LaboratoryRecipe, open_laboratory, "held-out documents")
PAPER = "Bakhtin et al. 2019, Real or Fake? Learning to Discriminate Machine from Human Generated Text"
PAPER_CORPORA = {"bible": "Books", "books": "Books", "sotu": "CCNews", "cc-news": "CCNews", "wikitext": "Wiki"}
SETTING = (
    "Windows, contexts, vocabulary and models are those of the recipe: at size cpu 64 tokens of which 32 or 48 are "
    "given (160 and 120 or 140 in the paper), 512 tokens in the vocabulary (50k), and models a thousandth of the "
    "paper's. A machine-written text shares its first or its last tokens with people's, with equal probability, and "
    "the rest is sampled from the 10 likeliest tokens. Energies read whole windows and are not told where the context "
    "ends. The generators of training and test texts differ by their seeds, splits are by document. Bible, "
    "State of the Union and WikiText-2 stand in for Books, CCNews and WikiText-103."
)


def sizes(**settings: Mapping[str, object]) -> dict[str, Size]:
    """`cpu` and `paper` on their recipes, with the settings of each."""
    recipes = {"cpu": "real-or-fake-cpu", "paper": "paper/real-or-fake"}
    return {size: Size(recipe, settings.get(size, {})) for size, recipe in recipes.items()}
