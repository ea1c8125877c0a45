"""The page at `/`: one file, nothing from other hosts."""

from functools import cache
from importlib.resources import files

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@cache
def page() -> str:
    return files(__name__).joinpath("index.html").read_text(encoding="utf-8")
