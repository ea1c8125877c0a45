"""Pages of the site that lie at the top of the repository, where readers look for them first."""

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, page in PAGES.items():
        text = (Path(config.docs_dir).parent / source).read_text(encoding="utf-8").replace("](docs/", "](")
        for name, target in PAGES.items():
            text = text.replace(f"]({name}", f"]({target}")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, **kwargs: Any) -> str:
    """Links to files at the top lead to their pages, which stand one folder deeper."""
    for name, target in PAGES.items():
        markdown = markdown.replace(f"../{name}", target)
    return markdown
