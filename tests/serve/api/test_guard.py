"""Keys, sizes and origins."""

from dataclasses import replace

import httpx
import openai
import pytest

from lexergy.serve.api.guard import is_known
from lexergy.serve.api.server import warn_if_open
from lexergy.serve.api.settings import ServerSettings
from toys.served import SETTINGS, Served, serving

BODY = {"prompt": "our union", "max_tokens": 2}


@pytest.fixture(scope="module")
def guarded(tiny_catalogue) -> Served:
    settings = replace(
        SETTINGS, keys=("first", "zweiter-schlüssel"), max_body_bytes=2000, allowed_origins=("https://a.test",)
    )
    with serving(lambda: tiny_catalogue, settings) as server:
        yield server


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer second"}, 401),
        ({"Authorization": "Bearer firs"}, 401),
        ({"Authorization": "first"}, 401),
        ({"Authorization": "Basic first"}, 401),
        ({"Authorization": "Bearer first"}, 200),
        ({"Authorization": b"bearer zweiter-schl\xc3\xbcssel"}, 401),  # headers are Latin-1
    ],
)
def test_keys(guarded, header, status):
    response = httpx.get(f"{guarded.url}/v1/models", headers=header)
    assert response.status_code == status
    if status == 401:
        assert response.json()["error"]["code"] == "invalid_api_key"


def test_every_key_is_compared():
    assert is_known("b", ["a", "b", "c"])
    assert not is_known("", ["a"])
    assert not is_known("a", [])


def test_clients_without_a_key(guarded):
    with (
        openai.OpenAI(base_url=f"{guarded.url}/v1", api_key="wrong", max_retries=0) as client,
        pytest.raises(openai.AuthenticationError),
    ):
        client.completions.create(model=guarded.base, **BODY)
    for path, status in {"/": 200, "/health": 200, "/ready": 200, "/metrics": 401, "/openapi.json": 401}.items():
        assert guarded.get(path).status_code == status


def test_bodies_are_bounded_whether_they_say_their_length_or_not(guarded):
    headers = {"Authorization": "Bearer first", "Content-Type": "application/json"}
    body = b'{"model": "' + b"a" * 5000 + b'"}'
    said = httpx.post(f"{guarded.url}/v1/completions", content=body, headers=headers)
    streamed = httpx.post(f"{guarded.url}/v1/completions", content=iter([body[:1500], body[1500:]]), headers=headers)
    assert (said.status_code, streamed.status_code) == (413, 413)
    assert said.json()["error"]["type"] == streamed.json()["error"]["type"] == "invalid_request_error"


def test_other_pages_may_ask_only_where_they_were_allowed(guarded, served):
    asked = {"Origin": "https://a.test", "Access-Control-Request-Method": "POST"}
    allowed = httpx.options(f"{guarded.url}/v1/completions", headers=asked)
    assert allowed.headers["access-control-allow-origin"] == "https://a.test"
    stranger = httpx.get(f"{guarded.url}/health", headers={"Origin": "https://b.test"})
    assert "access-control-allow-origin" not in stranger.headers
    usual = served.get("/health", headers={"Origin": "https://a.test"})
    assert "access-control-allow-origin" not in usual.headers


def test_requests_are_counted(served):
    served.get("/v1/nothing/here")
    served.post("/v1/completions", model=served.base, **BODY)
    counts = served.get("/metrics").text
    assert 'lexergy_requests_total{path="elsewhere",status="404"}' in counts
    assert 'lexergy_requests_total{path="/v1/completions",status="200"}' in counts
    assert "lexergy_texts 0.0" in counts


@pytest.mark.parametrize(
    ("host", "keys", "warned"), [("127.0.0.1", (), False), ("0.0.0.0", (), True), ("0.0.0.0", ("key",), False)]
)
def test_an_open_door_is_warned_of(host, keys, warned, capsys):
    warn_if_open(host, ServerSettings(keys=keys))
    assert ("without a key" in capsys.readouterr().err) == warned
