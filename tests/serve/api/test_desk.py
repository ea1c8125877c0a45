"""The queue: bounded, shared in batches that change nothing, and emptied with care."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx
import openai
import pytest
from starlette.testclient import TestClient

from lexergy.errors import LexergyError
from lexergy.serve.api import desk as desk_module
from lexergy.serve.api.app import create_app
from lexergy.serve.api.server import run_app
from toys.served import SETTINGS, serving, until

BODY = {"prompt": "our union", "max_tokens": 8}


@pytest.fixture
def held(monkeypatch):
    """Chunks are written only while this is set; the sizes of their batches are kept."""
    gate, sizes = threading.Event(), []
    write_chunks = desk_module.write_chunks

    def gated(model, texts):
        sizes.append(len(texts))
        assert gate.wait(20)
        return write_chunks(model, texts)

    monkeypatch.setattr(desk_module, "write_chunks", gated)
    gate.sizes = sizes
    return gate


def test_waiting_requests_share_a_batch_and_get_the_same_text(tiny_catalogue, held, served):
    # Alone, each by the server that is not held.
    prompts = ["our union", "the state", "our state", "our nation"]
    asked = [
        {"model": served.joint, "prompt": prompt, "max_tokens": 8, "seed": seed}
        for prompt, seed in zip(prompts * 2, range(8), strict=True)
    ]
    held.set()
    alone = [served.post("/v1/completions", **body).json()["choices"] for body in asked]
    held.clear()
    held.sizes.clear()
    with serving(lambda: tiny_catalogue) as server, ThreadPoolExecutor(9) as pool:
        blocking = pool.submit(server.post, "/v1/completions", model=server.base, prompt="our", max_tokens=1)
        until(lambda: len(held.sizes) == 1)
        waiting = [pool.submit(server.post, "/v1/completions", **body) for body in asked]
        until(lambda: server.server.desk.used == 9)
        held.set()
        together = [future.result().json()["choices"] for future in waiting]
        blocking.result()
    for (own,), (shared,) in zip(alone, together, strict=True):
        assert shared["text"] == own["text"]
        assert shared["lexergy"]["energy"] == pytest.approx(own["lexergy"]["energy"], abs=1e-4)
        assert shared["lexergy"]["chunks"][0]["tokens"] == own["lexergy"]["chunks"][0]["tokens"]
    lengths = [len(served.catalogue.encode(prompt)) for prompt in prompts]
    assert sorted(held.sizes[1:]) == sorted(2 * lengths.count(length) for length in set(lengths))


def test_a_full_queue_says_when_to_come_back(tiny_catalogue, held):
    with serving(lambda: tiny_catalogue, replace(SETTINGS, queue=4)) as server, ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(server.post, "/v1/completions", model=server.base, **BODY, n=3)
        until(lambda: server.server.desk.used == 3)
        with (
            openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client,
            pytest.raises(openai.RateLimitError) as caught,
        ):
            client.completions.create(model=server.base, **BODY, n=2)
        assert int(caught.value.response.headers["Retry-After"]) >= 1
        assert caught.value.code == "queue_full"
        last = pool.submit(server.post, "/v1/completions", model=server.base, **BODY)
        held.set()
        assert waiting.result().status_code == last.result().status_code == 200
        assert server.server.desk.used == 0


def test_one_texts_mistake_is_not_the_others(tiny_catalogue, monkeypatch):
    write_chunks = desk_module.write_chunks

    def picky(model, texts):
        if any(text.seed == 13 for text in texts):
            raise LexergyError("13 is refused")
        return write_chunks(model, texts)

    with serving(lambda: tiny_catalogue) as server:
        monkeypatch.setattr(desk_module, "write_chunks", picky)
        with ThreadPoolExecutor(4) as pool:
            futures = [
                pool.submit(server.post, "/v1/completions", model=server.base, **BODY, seed=seed) for seed in (1, 13, 2)
            ]
            statuses = [future.result().status_code for future in futures]
        assert statuses == [200, 400, 200]
        until(lambda: server.server.desk.used == 0)


def test_a_bug_is_a_500_without_its_traceback(tiny_catalogue, monkeypatch, caplog):
    def broken(model, texts):
        raise RuntimeError("secret of the house")

    with serving(lambda: tiny_catalogue) as server:
        monkeypatch.setattr(desk_module, "write_chunks", broken)
        response = server.post("/v1/completions", model=server.base, **BODY)
        assert response.status_code == 500
        assert "secret" not in response.text
        assert "secret of the house" in caplog.text
        until(lambda: server.server.desk.used == 0)  # freed when the answer is on its way


@pytest.mark.parametrize("grace", [20.0, 0.3])
def test_shutdown_finishes_or_hands_back(tiny_catalogue, held, grace):
    answers: list[httpx.Response] = []
    with serving(lambda: tiny_catalogue, replace(SETTINGS, grace_seconds=grace)) as server:
        asking = threading.Thread(
            target=lambda: answers.append(server.post("/v1/completions", model=server.base, **BODY))
        )
        asking.start()
        until(lambda: server.server.desk.used == 1)
        server.server.should_exit = True
        until(lambda: server.server.desk._closed)
        if grace > 1:
            held.set()
        asking.join(20)
        held.set()
    (answer,) = answers
    assert answer.status_code == (200 if grace > 1 else 503)
    assert grace > 1 or "ask again" in answer.json()["error"]["message"]


def test_not_ready_while_loading(tiny_catalogue):
    loading = threading.Event()

    def load():
        assert loading.wait(20)
        return tiny_catalogue

    with TestClient(create_app(load, SETTINGS)) as client:
        assert client.get("/ready").status_code == 503
        early = client.post("/v1/completions", json={"model": "tiny-lm", **BODY})
        assert client.get("/health").status_code == 200
        loading.set()
        until(lambda: client.get("/ready").status_code == 200)
    assert (early.status_code, early.headers["Retry-After"]) == (503, "5")


def test_what_cannot_be_loaded_ends_the_server():
    def load():
        raise LexergyError("the weights are damaged")

    with pytest.raises(LexergyError, match="the weights are damaged"):
        run_app(load, SETTINGS, "127.0.0.1", 0)
