"""Archives that others published on PyPI: fetched, and checked to be what they were."""

import hashlib
import urllib.error
import urllib.request

from lexergy.errors import LexergyError


def fetch_archive(address: str, sha256: str, what: str) -> bytes:
    """The content of an archive, whose SHA-256 must be the given one; `what` names it in errors."""
    try:
        with urllib.request.urlopen(address, timeout=60) as response:
            content: bytes = response.read()
    except (urllib.error.URLError, OSError) as error:
        raise LexergyError(f"{what} could not be fetched from {address} ({error}); try again.") from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != sha256:
        raise LexergyError(f"{address} has the SHA-256 {digest}; expected {sha256}; fetch it again.")
    return content
