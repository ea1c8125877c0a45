"""What the HTML pages share: their templates, and colours between two ends."""

from typing import Any, TypeAlias

from jinja2 import Environment, PackageLoader, StrictUndefined

Colour: TypeAlias = tuple[int, int, int]
"""Red, green and blue in 0 .. 255."""


def render(template: str, **content: Any) -> str:
    """A page from a template of this folder. Autoescape is on: whatever a text says stays text."""
    environment = Environment(
        loader=PackageLoader("lexergy", "report/pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**content)


def blend(first: Colour, second: Colour, weight: float) -> Colour:
    """From the first colour (0) to the second (1)."""
    red, green, blue = (round(low + weight * (high - low)) for low, high in zip(first, second, strict=True))
    return red, green, blue
