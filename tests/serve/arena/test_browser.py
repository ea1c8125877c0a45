"""The arena's page in a real browser: a whole study, going back, resuming, a lost connection, the file."""

import contextlib
import os
import socket
import threading

import numpy as np
import pytest

pytest.importorskip("fastapi")
import uvicorn

from lexergy.serve.arena.app import create_app
from lexergy.serve.arena.page import write_file
from lexergy.tasks.arena.results import analyse
from lexergy.tasks.arena.sessions import Sessions
from lexergy.tasks.arena.study import Rules
from lexergy.tasks.arena.votes import judged_votes
from toys.arena import answer, write_study
from toys.browser import in_a_browser, opened

pytestmark = in_a_browser
PHONE = {"viewport": {"width": 390, "height": 700}, "has_touch": True, "is_mobile": True}


@contextlib.contextmanager
def serving(folder):
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(Sessions(folder)), log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()


def until(tab, selector, text):
    """Wait until what stands there begins like this."""
    condition = "([selector, text]) => document.querySelector(selector)?.textContent.startsWith(text)"
    tab.wait_for_function(condition, arg=[selector, text])


def shown(tab):
    """The comparisons on the page, as a judge reads them."""
    words = tab.locator(".words").all_inner_texts()
    texts = [text.strip("… ") for text in words]
    return [{"first": first, "second": second} for first, second in zip(texts[::2], texts[1::2], strict=True)]


def judge(tab, study, generator, rate, use_keys=True):
    """All pages to the end; returns the completion code."""
    tab.click("#agree")
    while True:
        tab.wait_for_selector("fieldset, #code")
        if tab.locator("#code").count():
            return tab.inner_text("#code")
        number = tab.inner_text("#number")
        for slot, texts in enumerate(shown(tab)):
            choice = answer(generator, texts, study, rate, skill=1.0, first=0.0)
            if use_keys:
                tab.keyboard.press({"first": "1", "second": "2"}[choice])
            else:
                tab.locator(f"#slot-{slot} label.text").nth(int(choice == "second")).tap()
        if use_keys:
            tab.keyboard.press("Enter")
        else:
            tab.locator("#next").tap()
        tab.wait_for_function(
            "before => document.querySelector('#number')?.textContent !== before || document.querySelector('#code')",
            arg=number,
        )


def test_a_study_played_in_the_browser_recovers_the_preference(browser, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    rules = Rules(bar=0.75, pages=3, repeat_every=3, code="DONE")
    folder = write_study(tmp_path / "study", pairs=16, qualifying=4, rules=rules)
    generator, rate = np.random.default_rng(0), 0.8
    with serving(folder) as url:
        for number in range(4):
            context = browser.new_context(**(PHONE if number == 0 else {}))
            tab, failures = opened(context, f"{url}?PROLIFIC_PID=person-{number}")
            assert judge(tab, folder.read(), generator, rate, use_keys=number > 0) == "DONE"
            assert "cc=DONE" in tab.get_attribute("a.button", "href")
            context.close()
            assert failures == []
    result = analyse(folder.read(), judged_votes(folder))
    [pair] = result.pairs
    assert pair.num_votes == 4 * (3 * 3 - 1)
    assert pair.preference.low <= rate <= pair.preference.high
    assert pair.preference.low > 0.5
    assert [person.annotator for person in result.annotators] == [f"person-{number}" for number in range(4)]
    assert all(person.checks == person.checks_passed == 3 for person in result.annotators)


def test_going_back_resuming_and_a_lost_connection(browser, tmp_path):
    folder = write_study(tmp_path / "study", qualifying=0, rules=Rules(pages=3))
    with serving(folder) as url:
        context = browser.new_context(color_scheme="dark")
        tab, failures = opened(context, url)
        tab.click("#agree")
        tab.wait_for_selector("fieldset")
        assert "annotator=" in tab.url
        for key in "1231":
            tab.keyboard.press(key)
        tab.keyboard.press("Enter")
        until(tab, "#number", "Page 2")
        tab.keyboard.press("2")
        tab.keyboard.press("b")
        until(tab, "#number", "Page 1")
        assert checked(tab) == ["first", "second", "tie", "first"]
        context.set_offline(True)
        tab.locator("#slot-3 label.tie").click()
        until(tab, "#saving", "Not saved yet")
        context.set_offline(False)
        until(tab, "#saving", "Saved")
        tab.reload()
        tab.wait_for_selector("fieldset")
        assert tab.inner_text("#number") == "Page 2 of 3"
        assert checked(tab) == ["second"]
        context.close()
        assert failures == []
    rows = {(row["page"], row["slot"]): row["choice"] for row in folder.votes.rows()}
    assert rows == {(1, 0): "first", (1, 1): "second", (1, 2): "tie", (1, 3): "tie", (2, 0): "second"}


def checked(tab):
    return tab.eval_on_selector_all("input:checked", "boxes => boxes.map(box => box.value)")


def test_the_file_needs_no_server(browser, tmp_path):
    folder = write_study(tmp_path / "study", qualifying=0, rules=Rules(pages=2, ties=False))
    path = tmp_path / "anna.html"
    assert write_file(folder, "anna", path) == 2
    context = browser.new_context(accept_downloads=True)
    tab, failures = opened(context, path.as_uri())
    tab.click("#agree")
    for number in (1, 2):
        until(tab, "#number", f"Page {number}")
        assert tab.locator("label.tie").count() == 0
        for texts in shown(tab):
            tab.keyboard.press("1" if texts["first"].endswith(("by people", "by strong")) else "2")
        if number == 1:
            tab.reload()  # what is answered is kept in the browser
            until(tab, "#number", "Page 2")
    tab.keyboard.press("Enter")
    with tab.expect_download() as download:
        tab.click("#save")
    votes = tmp_path / download.value.suggested_filename
    download.value.save_as(votes)
    context.close()
    assert failures == []
    assert votes.name == "votes-anna.jsonl"
    [pair] = analyse(folder.read(), judged_votes(folder, [votes])).pairs
    assert pair.num_votes == 6
    assert pair.preference.value == 1
