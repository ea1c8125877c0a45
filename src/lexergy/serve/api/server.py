"""uvicorn around the app, with an end that loses nothing."""

import asyncio
import logging
import socket
import sys
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI

from lexergy.errors import LexergyError
from lexergy.serve.api.app import create_app
from lexergy.serve.api.catalogue import Catalogue, Source, load_catalogue
from lexergy.serve.api.desk import Desk
from lexergy.serve.api.settings import ServerSettings
from lexergy.serve.listening import LOOPBACK, address_of, listen

KEEP_CONNECTION = 75  # seconds: longer than clients and proxies keep an idle one, so that none is cut as it is used
AFTER_GRACE = 5  # seconds in which clients hear that they are handed back


class GracefulServer(uvicorn.Server):
    """On the first signal takes nothing in; finishes what it has within the grace, and hands the rest back."""

    def __init__(self, config: uvicorn.Config, desk: Desk, grace_seconds: float) -> None:
        super().__init__(config)
        self.desk, self.grace_seconds = desk, grace_seconds

    async def main_loop(self) -> None:
        watching = asyncio.ensure_future(self._watch_loading())
        try:
            await super().main_loop()
        finally:
            watching.cancel()

    async def _watch_loading(self) -> None:
        while self.desk.catalogue is None:
            if self.desk.failure is not None:
                self.should_exit = True
                return
            await asyncio.sleep(0.2)
        logging.getLogger("lexergy.serve").info("ready")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.desk.close()
        asyncio.get_running_loop().call_later(self.grace_seconds, self.desk.hand_back)
        await super().shutdown(sockets)


def serve(source: Source, settings: ServerSettings, host: str, port: int) -> None:
    """Serve until a signal; a mistake in what is to be loaded is raised."""
    warn_if_open(host, settings)
    run_app(lambda: load_catalogue(source), settings, host, port)


def run_app(load: Callable[[], Catalogue], settings: ServerSettings, host: str, port: int) -> None:
    app = create_app(load, settings)
    listening = listen(host, port)
    server = server_of(app, settings)
    print(f"{address_of(host, listening)} (loading the models)", file=sys.stderr, flush=True)
    server.run(sockets=[listening])
    failure = app.state.desk.failure
    if failure is not None:
        raise (
            failure if isinstance(failure, LexergyError) else LexergyError("the models could not be loaded.")
        ) from failure


def server_of(app: FastAPI, settings: ServerSettings) -> GracefulServer:
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_CONNECTION,
        timeout_graceful_shutdown=int(settings.grace_seconds) + AFTER_GRACE,
    )
    return GracefulServer(config, app.state.desk, settings.grace_seconds)


def warn_if_open(host: str, settings: ServerSettings) -> None:
    if host not in LOOPBACK and not settings.keys:
        print(
            f"warning: the server listens on {host} without a key: whoever reaches this machine can use it; set "
            "LEXERGY_API_KEY, or bind it to 127.0.0.1",
            file=sys.stderr,
        )
