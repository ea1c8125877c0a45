"""The page at `/` in a real browser."""

import re
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from lexergy.serve.page import page
from toys.browser import in_a_browser
from toys.detectors import make_states_detector
from toys.served import SETTINGS, Served, serving
from toys.texts import MACHINE, written


def test_nothing_is_fetched_from_elsewhere(served):
    addresses = set(re.findall(r"""(?:https?:)?//[\w.-]+\.\w+[^\s"'`]*""", page()))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert "default-src 'none'" in served.get("/").headers["Content-Security-Policy"]


@pytest.fixture(scope="module")
def server(tiny_catalogue, word_lm) -> Iterator[Served]:
    detector = make_states_detector(word_lm)
    with serving(lambda: replace(tiny_catalogue, detector=detector), replace(SETTINGS, keys=("key",))) as own:
        yield own


@pytest.fixture
def tab(browser, server) -> Iterator:
    """The page with its key, on which no script may fail and nothing may be asked of other hosts."""
    context = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme="dark")
    own = context.new_page()
    failures: list[str] = []
    own.on("pageerror", lambda error: failures.append(str(error)))
    own.on("request", lambda sent: None if sent.url.startswith((server.url, "data:")) else failures.append(sent.url))
    own.goto(server.url)
    own.get_by_label("This server asks for a key").fill("key")
    own.get_by_role("button", name="Use it").click()
    own.locator("#model option").nth(1).wait_for(state="attached")
    yield own
    context.close()
    assert failures == []


@in_a_browser
def test_both_models_write_side_by_side(tab, server):
    tab.get_by_label("Prompt").fill("our union")
    tab.locator("#tokens").fill("24")
    tab.locator("#candidates").fill("12")
    tab.get_by_label("Seed").fill("5")
    tab.get_by_label("Prompt").press("Control+Enter")
    tab.locator("#joint-facts", has_text="24 tokens").wait_for()
    tab.locator("#base-facts", has_text="24 tokens").wait_for()
    asked = {"prompt": "our union", "max_tokens": 24, "seed": 5, "lexergy": {"chunk_tokens": 12}}
    texts = {}
    for kind, extension in ((server.base, {}), (server.joint, {"candidates": 12})):
        body = asked | {"model": kind, "lexergy": {"chunk_tokens": 12, **extension}}
        answer = httpx.post(f"{server.url}/v1/completions", json=body, headers={"Authorization": "Bearer key"}).json()
        texts[kind] = "our union" + answer["choices"][0]["text"]
    read = "id => document.getElementById(id).textContent"
    assert tab.evaluate(read, "base-text") == texts[server.base]
    assert tab.evaluate(read, "joint-text") == texts[server.joint]
    assert tab.locator("#candidates-list tr").count() == 12
    weights = [float(cell) for cell in tab.locator("#candidates-list td:first-child").all_inner_texts()]
    assert weights == sorted(weights, reverse=True)
    assert tab.locator("#picture rect").count() == 12
    assert tab.locator("#picture rect.chosen").count() == tab.locator("tr.chosen").count() == 1
    tab.locator(".list").press("ArrowDown")
    assert tab.locator("tr.here").count() == tab.locator("rect.here").count() == 1
    assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@in_a_browser
def test_a_mistake_is_told_in_words(tab):
    tab.get_by_label("Prompt").fill("")
    tab.get_by_role("button", name="Write").click()
    tab.get_by_text("the prompt is empty; expected at least one token").wait_for()


@in_a_browser
def test_tabs_for_the_detector_and_for_odd_words(tab):
    tab.get_by_role("tab", name="Write").press("ArrowRight")
    text = f"😀 {written(MACHINE, 3)}"
    tab.get_by_label("Text: machine or human?").fill(text)
    tab.get_by_role("button", name="Judge").click()
    tab.get_by_text("P(machine) 0.").wait_for()
    shown = tab.evaluate("document.getElementById('heat-map').textContent")
    assert shown.split()[:5] == text.split()[:5]
    assert tab.locator("#heat-map span[title]").count() >= 2
    tab.get_by_role("tab", name="Detect").press("ArrowRight")
    tab.get_by_label("Text: which words are odd?").fill("our union is  the state 😀")
    tab.get_by_role("button", name="Score").click()
    tab.get_by_text("log-likelihood -").wait_for()
    assert tab.evaluate("document.getElementById('odd-words').textContent") == "our union is  the state 😀"
