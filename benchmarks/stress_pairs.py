"""Pairs of a person's and an assistant's text for `lexergy detect stress`, none of which the default was fitted on.

    python benchmarks/public_texts.py --clones clones --out runs/public
    python benchmarks/stress_pairs.py --public runs/public --pairs 60 --out pairs.jsonl
    lexergy detect stress pairs.jsonl --human-field human --machine-field machine --out runs/stress

Essays, news and stories by turns: students, Reuters and Reddit of Ghostbuster, and of each kind a text of each
assistant in turn, those of Ghostbuster, Slop Score and `today`.
"""

import argparse
import json
from pathlib import Path

from zero_shot import records

KINDS = ("essays", "news", "stories")
COLLECTIONS = ("ghostbuster", "slop", "today")


def assistants_of(asked: Path, kind: str, count: int) -> list[tuple[str, str]]:
    """The name of a file and a text, the first of each file before the second of any."""
    paths = sorted(path for name in COLLECTIONS for path in asked.glob(f"{name}-{kind}-*.jsonl"))
    paths = [path for path in paths if not path.stem.endswith("-people")]
    texts = [[record["text"] for record in records([path])] for path in paths]
    longest = max(map(len, texts))
    turns = [
        (path.stem, own[turn])
        for turn in range(longest)
        for path, own in zip(paths, texts, strict=True)
        if turn < len(own)
    ]
    return turns[:count]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--public", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    asked, count = options.public / "asked", options.pairs // len(KINDS)
    people = {kind: records([asked / f"ghostbuster-{kind}-people.jsonl"])[:count] for kind in KINDS}
    machines = {kind: assistants_of(asked, kind, count) for kind in KINDS}
    rows = [
        {
            "human": people[kind][place]["text"],
            "machine": machines[kind][place][1],
            "generator": machines[kind][place][0].split("-")[2],
            "domain": kind,
        }
        for place in range(count)
        for kind in KINDS
    ]
    options.out.write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
