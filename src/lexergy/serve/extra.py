"""What serving needs beyond Lexergy itself."""

from importlib.util import find_spec

from lexergy.errors import LexergyError

PACKAGES = ("fastapi", "uvicorn", "prometheus_client")


def need_extra() -> None:
    """Say at once which packages are missing, and how to get them."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise LexergyError(f"serving needs {', '.join(missing)}; run `pip install 'lexergy[serve]'`.")
