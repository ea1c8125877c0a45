"""Texts by people and by several assistants from public collections, made alike, for `assistant_wording.py` and tables.

    git clone https://github.com/vivek3141/ghostbuster-data clones/ghostbuster-data
    git clone https://github.com/baoguangsheng/glimpse clones/glimpse
    git clone https://github.com/Jiaqi-Chen-00/ImBD clones/ImBD
    git clone https://github.com/sam-paech/slop-score clones/slop-score
    git clone https://github.com/ranhli/l2r_data clones/l2r_data
    git clone https://github.com/lechmazur/writing clones/writing
    git clone https://github.com/lechmazur/debate clones/debate
    python benchmarks/public_texts.py --clones clones --out runs/public

One file for each collection, kind and writer: `ghostbuster-essays-people.jsonl`, `glimpse-stories-gpt-4.jsonl`. In
`asked/` are some texts of each, which nothing is fitted on. None of the texts goes into the project.

- Ghostbuster (Verma et al. 2024, CC BY 3.0): essays of students, news of Reuters, stories of Reddit; ChatGPT (`gpt`)
  and Claude (`claude`), and learners of English, who are people alone.
- Glimpse (Bao et al. 2025, MIT): BBC news and stories of Reddit; what GPT-3.5, GPT-4, Claude 3 and Gemini 1.5 wrote
  from the first words.
- ImBD (Chen et al. 2025, Apache-2.0): BBC news; GPT-4o, Llama 3, Mistral, Qwen 2, DeepSeek from the first words, and
  GPT-4o asked to polish or rewrite people's.
- Slop Score (Paech 2025, MIT): essays from summaries and stories from prompts of Reddit's by assistants of 2025, those
  of one maker together; no people's.
- L2R (Hao et al. 2025, CC BY 3.0): news, essays, stories, reviews, answers, judgements and reports of people, and what
  GPT-4o, GPT-3.5, Gemini 1.5 and Llama 3 made of them when asked to rewrite them.
- `today`: stories and openings of debates by assistants of 2026 (the repositories lechmazur/writing and /debate,
  which name no licence), those of one maker together. The latter are essays that argue for something.

What would tell the sides apart without saying who wrote a text is taken from both: titles, prompts, lists, markup and
ends that break off; sources in brackets; the first words that two texts of a pair share. A text is its first 165
words.
"""

import argparse
import json
import random
import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

from lexergy.data.detection.plain_text import whole_sentences

WORDS, FEWEST_WORDS = 165, 80
_PARAGRAPH = 12  # words that are more than a title
_END = re.compile(r"[.!?][\"'”’)\]]*$")
_HEADER = re.compile(r"(prompt|essay|title|story|headline|article|introduction)\b[^.]{0,40}:", re.IGNORECASE)
_PREAMBLE = re.compile(r"(here is|here's|here are|sure|certainly|i apologi[sz]e|unfortunately, i)\b", re.IGNORECASE)
_LIST = re.compile(r"[#*\-•]|\d+[.)]")
_SOURCE = re.compile(r"\s*[(\[][^()\[\]]*(\b(1[5-9]|20)\d\d|\bp\. ?\d|^\d+$)[^()\[\]]*[)\]]|\s*\[\d+\]")
_TAG = re.compile(r"<[^<>]{1,20}>")
_GLIMPSE = {"gpt-3.5-turbo": "gpt-3.5-turbo", "gpt-4": "gpt-4", "gemini-1.5-pro": "gemini-1.5"} | {
    f"claude-3-{name}-20240229": f"claude-3-{name}" for name in ("opus", "sonnet")
}
_IMBD = ("gpt-4o", "Llama-3-8B", "Mistral-7B", "Qwen2-7B", "Deepseek-7b")
_L2R = {
    **{"NewsArticle": "news", "EducationMaterial": "essays", "LiteratureCreativeWriting": "stories"},
    **{"Entertainment": "reviews", "Finance": "answers", "LegalDocument": "judgements", "Environmental": "reports"},
}
_L2R_WRITERS = {"GPT-4o": "gpt-4o", "GPT-3-Turbo": "gpt-3.5", "Gemini-1.5-Pro": "gemini-1.5", "Llama-3-70B": "llama-3"}
_MAKER = {"chatgpt": "gpt", "o3": "gpt", "openrouter_polaris": "gpt", "gemma": "gemini", "Mistral": "mistral"}
_LEARNERS = ("toefl91", "ets", "lang8", "pelic")

Named = Iterator[tuple[str, list[tuple[str, str]]]]  # a file's name, documents and their texts


def prose(text: str) -> str:
    """Whole paragraphs of prose: no titles, prompts, preambles, lists, sources or markup."""
    lines = [whole_sentences(line.strip()) for line in _TAG.sub(" ", text).splitlines()]
    kept = [
        line
        for line in lines
        if len(line.split()) >= _PARAGRAPH
        and _END.search(line)
        and not (_HEADER.match(line) or _PREAMBLE.match(line) or _LIST.match(line))
    ]
    return " ".join(_SOURCE.sub("", " ".join(kept)).split()[:WORDS])


def ghostbuster(folder: Path) -> Named:
    for kind, name in (("essay", "essays"), ("reuter", "news"), ("wp", "stories")):
        for writer in ("human", "gpt", "claude"):
            paths = sorted((folder / kind / writer).rglob("*.txt"))
            yield f"ghostbuster-{name}-{'people' if writer == 'human' else writer}", texts_of(kind, paths)
    for name in _LEARNERS:
        yield f"ghostbuster-{name}-people", texts_of(name, sorted((folder / "other" / name).glob("*.txt")))


def texts_of(kind: str, paths: list[Path]) -> list[tuple[str, str]]:
    wanted = [path for path in paths if path.stem.isdigit()]
    return [(f"{kind} {path.parent.name} {path.stem}", path.read_text(errors="replace")) for path in wanted]


def glimpse(folder: Path) -> Named:
    for kind, name in (("xsum", "news"), ("writing", "stories")):
        people: dict[str, str] = {}
        for lm, writer in _GLIMPSE.items():
            pairs = pairs_of(folder / f"exp_main/data/{kind}_{lm}.raw_data.json")
            yield f"glimpse-{name}-{writer}", [(_document(one), other) for one, other in pairs]
            people |= {_document(one): one for one, _ in pairs}
        yield f"glimpse-{name}-people", list(people.items())


def imbd(folder: Path) -> Named:
    people: dict[str, str] = {}
    for lm in _IMBD:
        pairs = pairs_of(folder / f"data/generation/{lm}/xsum_generation_{lm}.raw_data.json")
        yield f"imbd-news-{lm.lower()}", [(_document(one), other) for one, other in pairs]
        people |= {_document(one): one for one, _ in pairs}
    yield "imbd-news-people", list(people.items())
    for task in ("polish", "rewrite"):
        path = folder / f"data/{task}/gpt-4o/xsum_{task}_gpt-4o.raw_data.json"
        yield f"imbd-news-{task}-gpt-4o", [(_document(one), other) for one, other in pairs_of(path, shared=False)]


def today(folder: Path) -> Named:
    """Stories, numbered sentence by sentence there, and essays: how the first speaker of a debate opens it."""
    stories: dict[str, list[tuple[str, str]]] = {}
    for path in sorted((folder / "writing/stories_wc").rglob("*.txt")):
        text = path.read_text().partition("<story>")[2].partition("</story>")[0]
        lines = re.sub(r"\s*\[\d+\]", "", text)
        stories.setdefault(maker(path.parent.name), []).append(
            (f"{path.parent.name} {path.stem}", " ".join(lines.split()))
        )
    essays: dict[str, list[tuple[str, str]]] = {}
    for path in sorted((folder / "debate/transcripts").glob("*.md")):
        opening = path.read_text().partition("## Turn 1: PRO Opening")[2].partition("## Turn 2")[0]
        paragraphs = re.findall(r"^\[P1\.\d+\] *(.*)$", opening, re.MULTILINE)
        writer = path.stem.split("__")[1]
        essays.setdefault(maker(writer), []).append((f"{writer} {path.stem}", " ".join(paragraphs)))
    for kind, by_maker in (("stories", stories), ("essays", essays)):
        yield from ((f"today-{kind}-{name}", own) for name, own in by_maker.items())


def slop(folder: Path) -> Named:
    """Essays asked for by a summary, and stories by anything else."""
    texts: dict[str, list[tuple[str, str]]] = {}
    for path in sorted((folder / "results").glob("*.json")):
        (record,) = json.loads(path.read_text()).values()
        for sample in record["samples"]:
            kind = "essays" if re.search(r"essay|summar", sample["prompt"]) else "stories"
            document = f"{path.stem} {sample['prompt_index']}"
            texts.setdefault(f"slop-{kind}-{maker(path.stem)}", []).append((document, sample["output"]))
    yield from texts.items()


def l2r(folder: Path) -> Named:
    for domain, kind in _L2R.items():
        for name, writer in ({"human": "people"} | _L2R_WRITERS).items():
            texts = json.loads((folder / domain / f"{name}.json").read_text())
            yield f"l2r-{kind}-{writer}", [(f"{domain} {place}", text) for place, text in enumerate(texts)]


def maker(model: str) -> str:
    """`claude` of `claude-opus-4-8-high`."""
    name = re.split(r"-|(?<=[a-z])\d", model)[0] if not model.startswith("o3") else "o3"
    return _MAKER.get(name, name)


def pairs_of(path: Path, shared: bool = True) -> list[tuple[str, str]]:
    """A person's text and a machine's, without the words that both begin with if they have been given (`shared`)."""
    record = json.loads(path.read_text())
    machine = record.get("sampled") or record["rewritten"]
    if not shared:
        return list(zip(record["original"], machine, strict=True))
    return [without_shared(*pair) for pair in zip(record["original"], machine, strict=True)]


def without_shared(one: str, other: str) -> tuple[str, str]:
    """From the first sentence of each that lies behind the words which both begin with."""
    words = [text.split() for text in (one, other)]
    count = len([*takewhile(lambda pair: pair[0] == pair[1], zip(*words, strict=False))])
    return tuple(_from_sentence(text, own, count) for text, own in zip((one, other), words, strict=True))  # type: ignore[return-value]


def _from_sentence(text: str, words: list[str], count: int) -> str:
    if count == 0:
        return text
    first = next((place + 1 for place in range(count - 1, len(words)) if _END.search(words[place])), count)
    return " ".join(words[first:])


def _document(text: str) -> str:
    return text[:80]


COLLECTIONS = {
    ghostbuster: "ghostbuster-data",
    glimpse: "glimpse",
    imbd: "ImBD",
    slop: "slop-score",
    l2r: "l2r_data",
    today: ".",
}
"""Folders of their clones."""
ASKED = {
    r"ghostbuster-(essays|news|stories)-people": 40,
    r"(glimpse|l2r)-(news|essays|stories|reviews|answers|judgements)-people": 30,
    r"ghostbuster-(lang8|pelic)-people": 25,
    r"slop-.*|ghostbuster-(essays|news|stories)-(gpt|claude)": 20,
    r"l2r-(news|essays|stories|reviews|answers|judgements)-(gpt-4o|gemini-1.5)": 15,
    r"glimpse-(news|stories)-(gpt-4|gemini-1.5|claude-3-opus|claude-3-sonnet)|imbd-news-(gpt-4o|llama-3-8b)": 15,
    r"today-(essays|stories)-(claude|gpt|gemini|deepseek|grok|kimi)": 15,
}
"""How many texts of which files are asked about, the first in a random order, which nothing is fitted on."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clones", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    (options.out / "asked").mkdir(parents=True, exist_ok=True)
    for collection, folder in COLLECTIONS.items():
        for name, documents in collection(options.clones / folder):
            texts = {document: prose(text) for document, text in documents}
            rows = [
                json.dumps({"text": text, "document": document})
                for document, text in texts.items()
                if len(text.split()) >= FEWEST_WORDS
            ]
            (options.out / f"{name}.jsonl").write_text("\n".join(rows))
            asked = next((count for names, count in ASKED.items() if re.fullmatch(names, name)), 0)
            if rows and asked:
                random.Random(f"{name} 0").shuffle(rows)
                (options.out / "asked" / f"{name}.jsonl").write_text("\n".join(rows[:asked]))
            print(f"{name}: {len(rows)} of {len(documents)}")


if __name__ == "__main__":
    main()
