"""The detector that needs no training, with what is known of people's texts under it."""

from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from pydantic import TypeAdapter

from lexergy.core.detection.assistant import ASSISTANT, MEASURES, AssistantScore
from lexergy.core.detection.calibration import Calibration
from lexergy.core.detection.machine import KINDS, MACHINE, MachineScore
from lexergy.core.detection.sample import MEASURES as SAMPLE_MEASURES
from lexergy.core.detection.sample import SAMPLE, SampleScore
from lexergy.core.detection.two_writers import TwoWriters
from lexergy.core.detection.wording import WordingWeights
from lexergy.core.detection.zero_shot import BITS_RATIO
from lexergy.data.detection.habits import Habits
from lexergy.errors import LexergyError
from lexergy.files import hash_of, read_json
from lexergy.models.causal.lm import CausalLM
from lexergy.models.detection.detector import Detector, DetectorSettings
from lexergy.models.detection.people import PeopleTexts
from lexergy.models.detection.zero_shot import FITTED, FittedScore, ZeroShotReader
from lexergy.recipes.sections.runtime import split_precision

LM = "smollm2-135m"
SCORER = MACHINE
ANY_LM = "tail-varentropy"  # the default for another LM, to which nothing is fitted
PEOPLE_FILE = "people.json"  # energies of texts by people, by scorer; written by `benchmarks/zero_shot.py people`
BLOCK_TOKENS = 512


def is_default(lms: Sequence[str]) -> bool:
    """Whether they are the LM that scores were fitted to, in float32 or in bfloat16, which hardly moves an energy."""
    return len(lms) == 1 and split_precision(lms[0]) in ((LM, None), (LM, "float32"), (LM, "bfloat16"))


def default_scorer(lms: Sequence[str] = (LM,)) -> str:
    """The scorer where nobody names one."""
    return SCORER if is_default(lms) else ANY_LM


def zero_shot_detector(lms: Sequence[str] = (LM,), scorer: str | None = None) -> Detector:
    """A detector of one LM, or of two: the scoring LM first, then the sampling LM (`models.detection.zero_shot`).

    For the default LM alone there are texts of people that false positives are calibrated on, and scores that are
    fitted to it.
    """
    if not 1 <= len(lms) <= 2:
        raise LexergyError(f"{len(lms)} LMs are given; expected one, or two.")
    scorer = scorer or default_scorer(lms)
    first, *rest = (CausalLM.from_pretrained(lm) for lm in lms)
    fitted = fitted_score(scorer) if scorer in FITTED and is_default(lms) else None
    reader = ZeroShotReader(first, scorer, rest[0] if rest else None, fitted)
    most = reader.most_tokens
    return Detector(
        reader,
        DetectorSettings(
            block_tokens=BLOCK_TOKENS if most is None else min(BLOCK_TOKENS, most),
            text=None,
            span=None,
            people=known_people(scorer) if is_default(lms) and scorer != BITS_RATIO else None,
            **(_sentences(scorer) if fitted is not None else {}),
        ),
    )


def known_people(scorer: str) -> PeopleTexts:
    """Texts of people under the default LM."""
    record = _people()
    return TypeAdapter(PeopleTexts).validate_python(
        {**{name: record[name] for name in ("tokens", "domains", "styles")}, "energies": record["energies"][scorer]}
    )


def fitted_score(scorer: str) -> FittedScore:
    """What was fitted to the default LM."""
    by_name: dict[str, Callable[[], FittedScore]] = {
        ASSISTANT: assistant_score,
        SAMPLE: sample_score,
        MACHINE: machine_score,
    }
    return by_name[scorer]()


def machine_score() -> MachineScore:
    record = _fitted(MACHINE)
    ratios = [TypeAdapter(Calibration).validate_python(record["ratios"][kind]) for kind in KINDS]
    shares = [record["shares"][kind] for kind in KINDS]
    return MachineScore(assistant_score(), sample_score(), (ratios[0], ratios[1]), (shares[0], shares[1]))


def sample_score() -> SampleScore:
    return SampleScore(tuple(_fitted(SAMPLE)["weights"][name] for name in SAMPLE_MEASURES))


def assistant_score() -> AssistantScore:
    record = _fitted(ASSISTANT)
    wording = record["wording"]
    weights, rarities = zip(*wording["phrases"].values(), strict=True)
    return AssistantScore(
        means=tuple(record["means"][name] for name in MEASURES),
        deviations=tuple(record["deviations"][name] for name in MEASURES),
        wording=WordingWeights(
            phrases=tuple(wording["phrases"]),
            weights=weights,
            rarities=rarities,
            habits=tuple(wording["habits"][name] for name in Habits._fields),
            mean=wording["mean"],
            deviation=wording["deviation"],
        ),
        share=record["share"],
        floor=record["floor"],
    )


def _sentences(scorer: str) -> dict[str, Any]:
    """What a sentence of a mixed text is worth under a fitted score, and how such sentences follow."""
    record = _fitted(scorer)
    return {
        "sentence": TypeAdapter(Calibration | None).validate_python(record.get("sentence")),
        "writers": TypeAdapter(TwoWriters | None).validate_python(record.get("writers")),
    }


def tells_sentences(scorer: str) -> bool:
    """Whether a score says which sentences of a mixed text are a machine's."""
    return scorer in FITTED and "sentence" in _fitted(scorer)


def fitted_to(scorer: str) -> str | None:
    """A fingerprint of the numbers that a score was fitted with, where it was: others give other energies."""
    parts = (MACHINE, *KINDS) if scorer == MACHINE else (scorer,)
    return hash_of([_fitted(part) for part in parts]) if scorer in FITTED else None


def numbers_file(scorer: str) -> str:
    """What a score was fitted with.

    `benchmarks/assistant_wording.py` writes assistant.json, `benchmarks/detector_mixture.py` the other two.
    """
    return f"{scorer}.json"


@cache
def _fitted(scorer: str) -> dict[str, Any]:
    return read_json(files("lexergy.models.detection") / numbers_file(scorer), dict)  # type: ignore[arg-type]


@cache
def _people() -> dict[str, Any]:
    return read_json(files("lexergy.models.detection") / PEOPLE_FILE, dict)  # type: ignore[arg-type]
