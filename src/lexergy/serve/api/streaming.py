"""Waiting for a job while its client may go away: whole answers, and server-sent events."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from lexergy.serve.api.desk import Answered, Desk, Done, Event, Failed, Job, Written
from lexergy.serve.api.errors import ApiError
from lexergy.serve.api.settings import ServerSettings

KEEP_ALIVE = ": keep-alive\n\n"
END = "data: [DONE]\n\n"
CLIENT_GONE = 499  # nobody reads it; it stands in the metrics


async def disconnected(receive: Callable[[], Awaitable[Message]]) -> None:
    """Returns when the client has gone away; its body has been read before."""
    while (await receive())["type"] != "http.disconnect":
        pass


def too_late(job: Job, settings: ServerSettings) -> ApiError:
    seconds = settings.timeout_seconds
    if not job.begun:
        return ApiError(
            429, f"it waited {seconds:g} s in the queue; ask again later.", code="queue_full", retry_after=30
        )
    return ApiError(408, f"it was not finished within {seconds:g} s; lower `max_tokens`, `n` or the candidates.")


async def finished(desk: Desk, job: Job, receive: Receive, settings: ServerSettings) -> list[Written | Answered]:
    """All that a job gave; it is dropped when its client goes away or its time is over."""
    leaving = asyncio.ensure_future(disconnected(receive))
    events: list[Written | Answered] = []
    try:
        async with asyncio.timeout(settings.timeout_seconds):
            while True:
                event = await _next_or_none(job, leaving, None)
                if event is None:
                    raise ApiError(CLIENT_GONE, "the client went away.")
                if isinstance(event, Failed):
                    raise event.error
                if isinstance(event, Done):
                    return events
                events.append(event)
    except TimeoutError:
        raise too_late(job, settings) from None
    finally:
        leaving.cancel()
        desk.cancel(job)


async def _next_or_none(job: Job, leaving: "asyncio.Future[None]", seconds: float | None) -> Event | None:
    """The next event; None when the client has gone, or so many seconds have passed."""
    getting = asyncio.ensure_future(job.events.get())
    try:
        waited: set[asyncio.Future[Any]] = {getting, leaving}
        await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return getting.result() if getting.done() and not leaving.done() else None
    finally:
        getting.cancel()


def sent(record: dict[str, Any]) -> str:
    return f"data: {json.dumps(record, allow_nan=False)}\n\n"


class EventStream(Response):
    """Server-sent events of a job: each chunk as it is written, comments while nothing is, `[DONE]` at the end."""

    media_type = "text/event-stream"

    def __init__(
        self,
        desk: Desk,
        job: Job,
        settings: ServerSettings,
        chunk: Callable[[Written], dict[str, Any]],
        last: Callable[[], dict[str, Any]],
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self.desk, self.job, self.settings = desk, job, settings
        self.chunk, self.last = chunk, last

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        leaving = asyncio.ensure_future(disconnected(receive))
        try:
            async for line in self._lines(leaving):
                await send({"type": "http.response.body", "body": line.encode("utf-8"), "more_body": True})
            if not leaving.done():
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except OSError:  # the connection broke while something was sent
            pass
        finally:
            leaving.cancel()
            self.desk.cancel(self.job)

    async def _lines(self, leaving: "asyncio.Future[None]") -> AsyncGenerator[str, None]:
        deadline = asyncio.get_running_loop().time() + self.settings.timeout_seconds
        while not leaving.done():
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                yield sent(too_late(self.job, self.settings).record())
                return
            event = await _next_or_none(self.job, leaving, min(left, self.settings.keep_alive_seconds))
            if event is None:
                yield KEEP_ALIVE
            elif isinstance(event, Failed):
                yield sent(event.error.record())
                return
            elif isinstance(event, Written):
                yield sent(self.chunk(event))
            elif isinstance(event, Done):
                yield sent(self.last())
                yield END
                return
