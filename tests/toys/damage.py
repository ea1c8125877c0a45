"""Values and bytes that nobody would write on purpose."""

import copy
import random
from typing import Any, NamedTuple

NUMBERS = ["0", "1", "2", "-1", "3.5", "nan", "inf", "-inf", "1e400", "99999999999999999999", "9" * 5000, "ten", ""]
TEXTS = ["", " ", "our union", "-", "--", "[MASK]", "\udcff", "é🎉\u202e", "<script>alert(1)</script>", "x" * 9999]
VALUES: list[Any] = [
    *(None, True, 0, -1, 10**30, 1e308, float("inf"), float("nan"), "", "../../x", "a\0b"),
    *([], {}, [[]], {"a": 1}),
]
KEYS = ["", "name", "unknown", "kind", "auto_map", "__class__"]


class Damage(NamedTuple):
    """What becomes of a file (None: it is gone), and whether whoever reads it must notice."""

    content: bytes | None
    is_plain: bool
    said: str


def damaged(content: bytes, chosen: random.Random) -> Damage:
    """A file that is gone, cut short, or has other bytes in it."""
    place = chosen.randrange(len(content) + 1)
    nonsense = chosen.choice(TEXTS + NUMBERS).encode("utf-8", "surrogateescape")
    return chosen.choice(
        [
            Damage(None, True, "deleted"),
            Damage(content[: place // 2], True, "cut short"),
            Damage(b"", True, "emptied"),
            Damage(b"[" * 5000 + content, False, "preceded by brackets"),
            Damage(content[place:], False, "without its beginning"),
            Damage(content[:place] + chosen.randbytes(8) + content[place + 8 :], False, "changed"),
            Damage(content[:place] + nonsense + content[place:], False, "longer"),
            Damage(content + content[place:], False, "doubled"),
            Damage(content.replace(b"\n", b"\r\n"), False, "with other line ends"),
        ]
    )


def change(content: Any, chosen: random.Random) -> None:
    """Another value, a missing or a new one, somewhere in nested lists and mappings."""
    while isinstance(content, dict | list) and content:
        key = chosen.choice(sorted(content, key=str) if isinstance(content, dict) else range(len(content)))
        if isinstance(content[key], dict | list) and content[key] and chosen.random() < 0.8:
            content = content[key]
            continue
        kind = chosen.random()
        if kind < 0.2:
            del content[key]
        elif kind < 0.3 and isinstance(content, dict):
            content[chosen.choice(KEYS)] = copy.deepcopy(chosen.choice(VALUES))
        else:
            content[key] = copy.deepcopy(chosen.choice(VALUES))
        return
