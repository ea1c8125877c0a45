"""What the server allows."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ServerSettings:
    """Limits of one server; `queue` counts texts (n of each prompt), waiting and being written."""

    keys: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    queue: int = 64
    max_body_bytes: int = 2**20
    max_prompt_tokens: int = 8192  # fewer where the LM reads fewer
    max_tokens: int = 1024
    max_candidates: int = 1024
    default_candidates: int = 64
    max_chunk_tokens: int = 2**16  # of all candidates of a chunk, after which a client that has gone is noticed
    timeout_seconds: float = 300.0
    keep_alive_seconds: float = 10.0
    grace_seconds: float = 30.0
