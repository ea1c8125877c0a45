"""Pages of the site that are made: those that lie at the top of the repository, and the keys of recipes."""

import importlib
import inspect
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
KEYS = "::keys "


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, page in PAGES.items():
        text = (Path(config.docs_dir).parent / source).read_text(encoding="utf-8").replace("](docs/", "](")
        for name, target in PAGES.items():
            text = text.replace(f"]({name}", f"]({target}")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, **kwargs: Any) -> str:
    """Links to files at the top lead to their pages, one folder deeper; `::keys module` becomes its sections' keys."""
    for name, target in PAGES.items():
        markdown = markdown.replace(f"../{name}", target)
    lines = [sections(line.removeprefix(KEYS)) if line.startswith(KEYS) else line for line in markdown.split("\n")]
    return "\n".join(lines)


def sections(module_name: str) -> str:
    """Every section of recipes that a module defines: what it says of itself, and its keys."""
    module = importlib.import_module(module_name)
    own = [kind for kind in vars(module).values() if getattr(kind, "__module__", None) == module_name]
    return "\n\n".join(keys(kind) for kind in own if isinstance(kind, type) and getattr(kind, "model_fields", None))


def keys(section: Any) -> str:
    schema = section.model_json_schema(by_alias=True)
    required = schema.get("required", [])
    rows = [
        f"| `{key}` | {values(field)} | {'' if key in required else default(field)} |"
        for key, field in schema.get("properties", {}).items()
    ]
    text = inspect.cleandoc(section.__doc__ or "").split("\n\nExamples:")[0]
    return "\n".join([f"### {section.__name__}", "", text, "", "| Key | Value | Default |", "|---|---|---|", *rows])


def default(field: dict[str, Any]) -> str:
    given = field.get("default")
    return "its own defaults" if isinstance(given, dict) else f"`{'null' if given is None else given}`"


def values(field: dict[str, Any]) -> str:
    """What a key takes, in words."""
    choices = field.get("anyOf") or field.get("oneOf")
    if choices:
        return " or ".join(map(values, choices))
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{choice}`" for choice in field["enum"])
    if "prefixItems" in field:
        return "a list: " + ", ".join(map(values, field["prefixItems"]))
    if field.get("type") == "array":
        return f"a list: {values(field.get('items', {}))}"
    if field.get("type") == "object":
        return f"names, and under each {values(field.get('additionalProperties', {}))}"
    return {"integer": "a whole number", "number": "a number", "string": "text", "boolean": "true or false"}.get(
        field.get("type", ""), field.get("type", "anything")
    )
