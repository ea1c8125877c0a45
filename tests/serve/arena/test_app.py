"""The server: what it answers, what it refuses, and that a kill loses no vote."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

pytest.importorskip("fastapi")
from fastapi.testclient import TestClient

from lexergy.serve.arena.app import create_app
from lexergy.serve.arena.page import server_page, write_file
from lexergy.tasks.arena.sessions import Sessions
from lexergy.tasks.arena.study import Rules
from toys.arena import write_study


@pytest.fixture
def folder(tmp_path):
    return write_study(tmp_path / "study", rules=Rules(bar=0.5, pages=2, code="DONE", qualifying_code="HALF"))


@pytest.fixture
def client(folder):
    return TestClient(create_app(Sessions(folder)))


def judge(client, annotator, right=True):
    """All pages, as the page does it: by what the server answers alone."""
    client.post("/api/consent", json={"annotator": annotator})
    while (session := client.get("/api/session", params={"annotator": annotator}).json())["standing"] == "judging":
        page = client.get(f"/api/pages/{session['pages']}", params={"annotator": annotator}).json()
        for slot, shown in enumerate(page["comparisons"]):
            known = shown["first"].endswith("by people")
            vote = {"page": session["pages"], "slot": slot, "choice": "first" if known is right else "second"}
            assert client.post("/api/votes", json={"annotator": annotator, **vote, "seconds": 2}).status_code == 200
    return session


def test_a_session(client, folder):
    assert client.get("/api/session", params={"annotator": "anna"}).json()["standing"] == "consent"
    assert judge(client, "anna") == {"standing": "finished", "pages": 4, "of": 4, "code": "DONE"}
    assert judge(client, "dora", right=False)["code"] == "HALF"
    assert len(folder.votes.rows()) == 4 * 4 + 2 * 4


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"annotator": "anna", "page": 1, "slot": 0, "choice": "both"}, "choice"),
        ({"annotator": "anna", "page": 1, "slot": 0, "choice": "first", "more": 1}, "more"),
        ({"annotator": "anna", "page": 1, "slot": 0, "choice": "first", "seconds": -1}, "seconds"),
        ({"annotator": "anna", "page": 99, "slot": 0, "choice": "first"}, "no page 99"),
        ({"annotator": "nobody", "page": 1, "slot": 0, "choice": "first"}, "no page 1"),
    ],
)
def test_mistakes_are_told_in_a_sentence(client, folder, body, told):
    client.post("/api/consent", json={"annotator": "anna"})
    client.get("/api/session", params={"annotator": "anna"})
    response = client.post("/api/votes", json=body)
    assert response.status_code == 400
    assert told in response.json()["error"]
    assert folder.votes.rows() == []


def test_large_bodies_and_wild_names_are_refused(client):
    assert client.post("/api/votes", content=b"x" * 5000).status_code == 413
    assert client.post("/api/consent", json={"annotator": "<script>"}).status_code == 400
    assert client.get("/api/session", params={"annotator": "a" * 70}).status_code == 400


def test_the_page_has_nothing_from_elsewhere_and_no_names_of_systems(folder):
    hostile = Rules(question="</script><script>alert(1)</script>", bar=0.5)
    study = write_study(folder.folder.parent / "hostile", rules=hostile).read()
    page = server_page(study)
    assert "</script><script>alert" not in page
    assert "\\u003c/script>" in page
    for start in ("src=", "@import", "url("):
        assert start not in page
    path = folder.folder.parent / "anna.html"
    assert write_file(folder, "anna", path) == 4
    text = path.read_text()
    content = json.loads(text.split('type="application/json">')[1].split("</script>")[0])
    assert set(content) == {"id", "question", "consent", "ties", "annotator", "pages"}
    assert [len(entry["comparisons"]) for entry in content["pages"]] == [4, 4, 4, 4]
    assert {key for entry in content["pages"] for shown in entry["comparisons"] for key in shown} == {
        "prompt",
        "first",
        "second",
    }


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def call(address, body=None):
    request = urllib.request.Request(address, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, None if body is None else json.dumps(body).encode(), timeout=20) as response:
        return json.load(response)


def started(folder, port):
    command = [sys.executable, "-m", "lexergy", "arena", "serve", str(folder), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and process.poll() is None:
        try:
            call(f"http://127.0.0.1:{port}/health")
            return process
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the server did not start")


def test_a_kill_loses_no_vote(folder):
    """kill -9 right after a confirmation; the votes are there, and the session goes on where it was."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    process = started(folder.folder, port)
    try:
        call(f"{address}/api/consent", {"annotator": "anna"})
        call(f"{address}/api/session?annotator=anna")
        for slot in range(3):
            vote = {"annotator": "anna", "page": 1, "slot": slot, "choice": "second"}
            assert call(f"{address}/api/votes", vote) == {"saved": True}
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert [row["slot"] for row in folder.votes.rows()] == [0, 1, 2]
        process = started(folder.folder, port)
        assert call(f"{address}/api/session?annotator=anna")["standing"] == "judging"
        shown = call(f"{address}/api/pages/1?annotator=anna")
        assert shown["choices"] == ["second", "second", "second", None]
    finally:
        process.kill()
        process.wait()
