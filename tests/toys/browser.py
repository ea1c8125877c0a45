"""A real browser, where there is one."""

import shutil
from collections.abc import Iterator

import pytest

CHROMIUM = next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None)
in_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: pages are not tested")


@pytest.fixture(scope="module")
def browser() -> Iterator:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def opened(context, url: str):
    """A new tab at an address; the failures of its scripts, and what it asks of other hosts, are listed."""
    tab, failures = context.new_page(), []
    tab.on("pageerror", lambda error: failures.append(str(error)))
    origin = url.split("?")[0].rsplit("/", 1)[0]
    tab.on(
        "request", lambda sent: None if sent.url.startswith((origin, "data:", "blob:")) else failures.append(sent.url)
    )
    tab.goto(url)
    return tab, failures
