"""Servers in a thread of the test, on models that answer at once."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from lexergy.models.joint.model import ResidualEBM
from lexergy.serve.api.app import create_app
from lexergy.serve.api.catalogue import Catalogue, Source, catalogue_of, load_catalogue
from lexergy.serve.api.server import GracefulServer, server_of
from lexergy.serve.api.settings import ServerSettings
from lexergy.testing import EnumerableLM, TableEnergy
from lexergy.testing import tiny_recipe as tiny_residual_recipe

SETTINGS = ServerSettings(
    max_chunk_tokens=8000, max_tokens=40, max_candidates=300, default_candidates=8, keep_alive_seconds=0.2, queue=32
)
CHAT_TEMPLATE = "{% for message in messages %}{{ message.content }} {% endfor %}the"


@dataclass(frozen=True)
class Served:
    url: str
    server: GracefulServer
    catalogue: Catalogue

    @property
    def base(self) -> str:
        return next(iter(self.catalogue.models))

    @property
    def joint(self) -> str:
        return list(self.catalogue.models)[1]

    def post(self, path: str, **body) -> httpx.Response:
        return httpx.post(f"{self.url}{path}", json=body, timeout=60)

    def get(self, path: str, **options) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", timeout=60, **options)


@contextlib.contextmanager
def serving(load: Callable[[], Catalogue], settings: ServerSettings = SETTINGS) -> Iterator[Served]:
    """A server on a free port, ready; it is shut down at the end."""
    server = server_of(create_app(load, settings), settings)
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    desk = server.desk
    try:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        until(lambda: server.started and (desk.catalogue is not None or desk.failure is not None))
        assert desk.catalogue is not None, desk.failure
        yield Served(url, server, desk.catalogue)
    finally:
        server.should_exit = True
        thread.join(30)
    assert not thread.is_alive()


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Wait for something that another thread does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture(scope="session")
def tiny_catalogue(tiny_run) -> Catalogue:
    """A run of two energies, whose LM is taken for one that chats."""
    catalogue = load_catalogue(Source(Path(tiny_run)))
    catalogue.tokenizer.chat_template = CHAT_TEMPLATE
    return catalogue


@pytest.fixture(scope="session")
def served(tiny_catalogue) -> Iterator[Served]:
    with serving(lambda: tiny_catalogue) as server:
        yield server


@pytest.fixture(scope="session")
def exact_joint() -> ResidualEBM:
    """Two tokens after one, of seven: 49 texts, whose exact distribution can be written down."""
    return ResidualEBM(EnumerableLM(num_layers=1), TableEnergy(length=3, scale=1.5))


@pytest.fixture(scope="session")
def served_exact(exact_joint) -> Iterator[Served]:
    catalogue = catalogue_of(tiny_residual_recipe("texts"), exact_joint.lm, {"table": exact_joint})
    with serving(lambda: catalogue, ServerSettings(queue=256)) as server:
        yield server
