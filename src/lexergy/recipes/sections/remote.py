"""Language models behind an address, as sources name them: `openai:http://127.0.0.1:8080`."""

from urllib.parse import urlencode

REMOTE = "openai:"


def is_remote(source: str | None) -> bool:
    """Whether a source is an address of OpenAI's API, and no folder, file or name."""
    return source is not None and source.startswith(REMOTE)


def full_source(source: str, **settings: str | None) -> str:
    """The address with what belongs to it, in one word: `openai:http://127.0.0.1:8080#tokenizer=smollm2-135m`."""
    return f"{source}#{urlencode({key: value for key, value in settings.items() if value is not None}, safe='/')}"
