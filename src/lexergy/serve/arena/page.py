"""The one HTML page, for the server or with all that a judge needs inside."""

import json
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

from lexergy.files import atomic_write_text
from lexergy.runs.workspace import open_workspace
from lexergy.tasks.arena.sessions import Sessions
from lexergy.tasks.arena.study import Study, StudyFolder

SHOWN = ("question", "consent", "ties")
PLACE = "STUDY"


def server_page(study: Study) -> str:
    """The page that asks the server for comparisons."""
    return _page(study, {})


def write_file(folder: StudyFolder, annotator: str, path: Path) -> int:
    """Write the page of one annotator, which needs no server; what it shows counts as handed out. How many pages.

    The file has the texts and no names of systems. Its votes are downloaded from it, and read by the report.
    """
    with open_workspace(folder.folder, 0):
        sessions = Sessions(folder)
        pages = sessions.hand_out_all(annotator)
    atomic_write_text(path, _page(sessions.study, {"annotator": annotator, "pages": pages}))
    return len(pages)


def _page(study: Study, more: dict[str, Any]) -> str:
    rules = asdict(study.rules)
    content = {"id": study.id, **{name: rules[name] for name in SHOWN}, **more}
    # Within a script element nothing but `<` could end it.
    text = json.dumps(content, ensure_ascii=False).replace("<", "\\u003c")
    template = files("lexergy.serve.arena").joinpath("page.html").read_text(encoding="utf-8")
    head, _, tail = template.partition(f">{PLACE}<")
    return f"{head}>{text}<{tail}"
