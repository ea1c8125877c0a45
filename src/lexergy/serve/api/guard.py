"""What every request passes: its key, the size of its body, and a count of how it ended."""

import hmac
import time
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lexergy.serve.api.errors import ApiError
from lexergy.serve.api.metrics import Metrics
from lexergy.serve.api.settings import ServerSettings

OPEN_PATHS = ("/", "/health", "/ready")  # the page asks for the key itself


def is_known(given: str, keys: Sequence[str]) -> bool:
    """Whether a key is one of those known, in a time that does not depend on where it differs."""
    matches = [hmac.compare_digest(given.encode("utf-8"), key.encode("utf-8")) for key in keys]
    return any(matches)


class Guard:
    """Middleware that leaves streams alone."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, metrics: Metrics, paths: frozenset[str]) -> None:
        self.app, self.settings, self.metrics, self.paths = app, settings, metrics, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = scope["path"] if scope["path"] in self.paths else "elsewhere"
        started, status = time.monotonic(), 500

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            refusal = self._refusal(scope)
            if refusal is not None:
                await refusal.response()(scope, receive, counted)
            else:
                await self.app(scope, self._limited(receive), counted)
        finally:
            self.metrics.requests.labels(path, str(status)).inc()
            self.metrics.seconds.labels(path).observe(time.monotonic() - started)

    def _refusal(self, scope: Scope) -> ApiError | None:
        headers, limit = Headers(scope=scope), self.settings.max_body_bytes
        if self.settings.keys and scope["path"] not in OPEN_PATHS:
            kind, _, key = headers.get("authorization", "").partition(" ")
            if kind.lower() != "bearer" or not is_known(key.strip(), self.settings.keys):
                return ApiError(
                    401,
                    "no key, or not one of this server's; send `Authorization: Bearer KEY`.",
                    code="invalid_api_key",
                )
        length = headers.get("content-length", "0")
        if length.isdecimal() and float(length) > limit:
            return ApiError(413, f"the body has {length} bytes; expected at most {limit} on this server.")
        return None

    def _limited(self, receive: Receive) -> Receive:
        """A body that does not say how long it is may not grow for ever."""
        received, limit = 0, self.settings.max_body_bytes

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise HTTPException(413, f"the body has more than the {limit} bytes allowed on this server.")
            return message

        return counted
