"""Requests that falter are made again, many go at once, and what a server says is passed on."""

import socket
import threading
import time

import pytest

from lexergy.errors import LexergyError
from lexergy.models.remote.client import Client, ServerRefusal
from toys.answering import Reply, answering


def told(*replies: Reply):
    """Answers one after the other, the last for ever."""
    left = list(replies)
    return lambda path, body: left.pop(0) if len(left) > 1 else left[0]


@pytest.fixture
def waits() -> list[float]:
    return []


OK = Reply({"fine": True})


def test_a_busy_server_is_asked_again_when_it_says(waits):
    busy = Reply({"error": {"message": "full"}}, 429, (("Retry-After", "3"),))
    with answering(told(busy, busy, OK)) as url:
        assert Client(url, wait=waits.append).post("/v1/completions", {}) == {"fine": True}
    assert waits == [3.0, 3.0]


def test_a_server_that_fails_is_asked_again_after_longer_and_longer(waits, caplog):
    broken = Reply({"detail": "oops"}, 500)
    with answering(told(broken, Reply(b"gone", 503), broken, OK)) as url:
        assert Client(url, wait=waits.append).get("/x") == {"fine": True}
    assert waits == [0.5, 1.0, 2.0]
    assert "oops" in caplog.text
    assert "gone" in caplog.text


def test_nobody_there_is_told_after_all_tries(waits):
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(LexergyError, match=rf"{url}/v1/models did not answer in 3 tries .*the same command again"):
        Client(url, tries=3, wait=waits.append).get("/v1/models")
    assert waits == [0.5, 1.0]


def test_a_server_that_says_nothing_is_timed_out(waits):
    with answering(lambda path, body: time.sleep(0.5) or OK) as url, pytest.raises(LexergyError, match="timed out"):
        Client(url, tries=2, timeout=0.1, wait=waits.append).get("/x")
    assert waits == [0.5]


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply({"error": {"message": "prompt is too long"}}, 400), "prompt is too long"),
        (Reply({"detail": "no key"}, 401), "LEXERGY_LM_KEY"),
        (Reply(b"<html>", 200), "not JSON"),
    ],
)
def test_refusals_are_passed_on_and_not_repeated(waits, reply, words):
    with answering(told(reply)) as url, pytest.raises(LexergyError, match=words):
        Client(url, wait=waits.append).post("/v1/completions", {})
    assert waits == []


def test_an_address_that_is_none():
    with pytest.raises(LexergyError, match=r"`ftp://x` is no address; expected one as http://127\.0\.0\.1:8080"):
        Client("ftp://x").get("/v1/models")


def test_many_go_at_once_but_no_more_than_allowed_and_answers_keep_their_order():
    lock, flying, most = threading.Lock(), [0], [0]

    def respond(path, body):
        with lock:
            flying[0] += 1
            most[0] = max(most[0], flying[0])
        time.sleep(0.01 * (body["number"] % 3))
        with lock:
            flying[0] -= 1
        return Reply(body)

    with answering(respond) as url:
        answers = Client(url, concurrency=3).post_all("/", [{"number": number} for number in range(20)])
    assert [answer["number"] for answer in answers] == list(range(20))
    assert 2 <= most[0] <= 3


def test_the_rest_is_not_asked_when_one_is_refused():
    asked = []

    def respond(path, body):
        asked.append(body["number"])
        return Reply({"error": {"message": "no"}}, 400)

    with answering(respond) as url, pytest.raises(ServerRefusal):
        Client(url, concurrency=1).post_all("/", [{"number": number} for number in range(200)])
    assert len(asked) < 200
