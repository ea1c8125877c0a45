"""Texts chunk by chunk, as server-sent events; a client that goes away leaves its place."""

import json
import socket
import time

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from lexergy.serve.api.writing import _settled
from toys.served import SETTINGS, serving, until

BODY = {"prompt": "our union", "max_tokens": 24, "seed": 3}


def events(url: str, path: str, **body) -> list[str]:
    with httpx.stream("POST", f"{url}{path}", json=body, timeout=60) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        return [line for line in response.iter_lines() if line]


def records(lines: list[str]) -> list[dict]:
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]


def metric(url: str, name: str) -> float:
    families = text_string_to_metric_families(httpx.get(f"{url}/metrics").text)
    return sum(sample.value for family in families for sample in family.samples if sample.name == name)


def test_a_stream_grows_into_the_same_text(served):
    whole = served.post("/v1/completions", model=served.joint, **BODY, n=2).json()
    lines = events(served.url, "/v1/completions", model=served.joint, **BODY, n=2, stream=True)
    assert lines[-1] == "data: [DONE]"
    chunks = [chunk for record in records(lines) for chunk in record["choices"]]
    for choice in whole["choices"]:
        own = [chunk for chunk in chunks if chunk["index"] == choice["index"]]
        assert "".join(chunk["text"] for chunk in own) == choice["text"]
        assert [chunk["finish_reason"] for chunk in own] == [None, None, "length"]
        assert [chunk["lexergy"] for chunk in own] == choice["lexergy"]["chunks"]
    last = records(lines)[-1]
    assert last["lexergy"] == whole["lexergy"]
    assert last["usage"] is None
    usage = events(
        served.url, "/v1/completions", model=served.joint, **BODY, stream=True, stream_options={"include_usage": True}
    )
    assert records(usage)[-1]["usage"]["completion_tokens"] == 24


def test_stop_strings_across_chunks_are_never_shown(served):
    body = {**BODY, "max_tokens": 40, "lexergy": {"chunk_tokens": 1}}
    text = served.post("/v1/completions", model=served.base, **body).json()["choices"][0]["text"]
    place = next(place for place in range(6, len(text)) if text[place : place + 3].isascii())
    stop = text[place : place + 3]
    lines = events(served.url, "/v1/completions", model=served.base, **body, stop=stop, stream=True)
    chunks = [chunk for record in records(lines) for chunk in record["choices"]]
    assert "".join(chunk["text"] for chunk in chunks) == text[: text.index(stop)]
    assert chunks[-1]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("text", "stop", "settled"),
    [
        ("hello\ufffd", [], "hello"),
        ("hello E", ["END", "xyz"], "hello "),
        ("hello EN", ["END"], "hello "),
        ("hello aEa", ["aEaEb"], "hello "),
        ("hello", ["END"], "hello"),
        ("", ["END"], ""),
    ],
)
def test_what_may_still_change_is_held_back(text, stop, settled):
    assert _settled(text, stop) == settled


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_frees_its_place_within_a_chunk(tiny_catalogue, monkeypatch, stream):
    from lexergy.serve.api import desk as desk_module

    started: list[int] = []
    write_chunks = desk_module.write_chunks

    def slow(model, texts):
        started.append(len(texts))
        time.sleep(0.4)
        return write_chunks(model, texts)

    monkeypatch.setattr(desk_module, "write_chunks", slow)
    with serving(lambda: tiny_catalogue) as server:
        desk = server.server.desk
        body = json.dumps({"model": server.base, **BODY, "stream": stream, "lexergy": {"chunk_tokens": 1}}).encode()
        head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1]))) as connection:
            connection.sendall(head.encode() + body)
            until(lambda: len(started) == 2)
            assert desk.used == 1
        left = time.monotonic()
        until(lambda: desk.used == 0)
        assert time.monotonic() - left < 1.0
        assert len(started) <= 3
        assert metric(server.url, "lexergy_cancelled_total") == 1


def test_comments_keep_a_stream_alive_and_time_ends_it(tiny_catalogue, monkeypatch):
    from lexergy.serve.api import desk as desk_module

    write_chunks = desk_module.write_chunks

    def slow(model, texts):
        time.sleep(0.5)
        return write_chunks(model, texts)

    monkeypatch.setattr(desk_module, "write_chunks", slow)
    settings = type(SETTINGS)(**{**vars(SETTINGS), "timeout_seconds": 0.8, "keep_alive_seconds": 0.1})
    with serving(lambda: tiny_catalogue, settings) as server:
        lines = events(server.url, "/v1/completions", model=server.base, **BODY, stream=True)
        assert lines.count(": keep-alive") >= 4
        assert records(lines)[0]["choices"][0]["text"]
        assert records(lines)[-1]["error"]["type"] == "timeout_error"
        whole = server.post("/v1/completions", model=server.base, **BODY)
        assert (whole.status_code, whole.json()["error"]["type"]) == (408, "timeout_error")
        until(lambda: server.server.desk.used == 0)
