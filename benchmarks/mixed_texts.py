"""Which sentences of a mixed text are a machine's: fitted for the default detector, and tested on other writers.

    python benchmarks/public_texts.py --clones clones --out runs/public
    python benchmarks/mixed_texts.py --public runs/public --texts 20 [--scorer assistant] [--write]

Texts of each pair of files, people's and an assistant's, are spliced at known places, with none, a quarter, a half or
three quarters of the sentences the other's. What a sentence is worth and the chain of two writers are fitted on some
assistants and people and tested on others; with `--write` they are kept with the score's numbers. Only texts that the
words were not fitted on are taken.
"""

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path

from assistant_wording import SPARED, in_random_order
from zero_shot import write_numbers

from lexergy.data.detection.plain_text import plain_text, whole_sentences
from lexergy.models import detection
from lexergy.models.detection.default import SCORER, numbers_file, zero_shot_detector
from lexergy.models.detection.detector import Detector
from lexergy.models.detection.zero_shot import FITTED
from lexergy.report.pages.stress import reliability_table, right_table
from lexergy.tasks.detection.attribution import attribution, attribution_row
from lexergy.tasks.detection.splicing import (
    SentenceTruth,
    WrittenText,
    fit_sentences,
    judge_splices,
    splices,
)

FIT = {
    "glimpse-news-people": "imbd-news-gpt-4o",
    "glimpse-stories-people": "slop-stories-kimi",
    "l2r-essays-people": "slop-essays-deepseek",
    "l2r-reviews-people": "l2r-reviews-gemini-1.5",
}
TEST = {
    "ghostbuster-news-people": "ghostbuster-news-claude",
    "ghostbuster-stories-people": "slop-stories-claude",
    "ghostbuster-essays-people": "slop-essays-gpt",
}


def spliced(detector: Detector, public: Path, pairs: dict[str, str], count: int) -> list[SentenceTruth]:
    texts = [
        WrittenText(whole_sentences(plain_text(record["text"])), is_machine, f"{people} {place}")
        for people, machines in pairs.items()
        for place, both in enumerate(zip(*(_texts(public, name, count) for name in (people, machines)), strict=True))
        for record, is_machine in zip(both, (False, True), strict=True)
    ]
    return judge_splices(detector, splices(texts, seed=0))


def _texts(public: Path, name: str, count: int) -> list[dict[str, str]]:
    return in_random_order(public / f"{name}.jsonl")[: min(SPARED, count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--public", type=Path, required=True)
    parser.add_argument("--texts", type=int, default=20, help="of each file")
    parser.add_argument("--scorer", choices=FITTED, default=SCORER)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    detector = zero_shot_detector(scorer=options.scorer)
    sentence, writers = fit_sentences(spliced(detector, options.public, FIT, options.texts))
    print(sentence, writers, flush=True)
    fitted = Detector(detector.reader, replace(detector.settings, sentence=sentence, writers=writers))
    truths = spliced(fitted, options.public, TEST, options.texts)
    found = attribution([attribution_row(fitted, own) for own in truths])
    print(f"{found.texts} texts, {found.sentences} sentences; AUC {found.auc}; error {found.calibration_error}")
    for table in (right_table(found), reliability_table(found)):
        print("\n".join(" | ".join(row) for row in (table.columns, *table.texts)))
    if options.write and sentence is not None and writers is not None:
        path = Path(detection.__file__).parent / numbers_file(options.scorer)
        record = json.loads(path.read_text()) | {"sentence": asdict(sentence), "writers": asdict(writers)}
        write_numbers(path, record)


if __name__ == "__main__":
    main()
