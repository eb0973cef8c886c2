"""Fixtures of the browser tests: a Chromium for each file, one server with golden tables, a page that is let in."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from axe_playwright_python.base import AXE_FILE_PATH
from client.golden_shares import Shared, share
from client.provider import Provider, provide
from golden.library import load
from playwright.sync_api import Browser, Page, sync_playwright

PROGRAM = "chromium"
"""Debian's package: the wheel's driver then fetches none."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return a headless Chromium; while its driver runs, the thread has an event loop, which other tests have not."""
    program = shutil.which(PROGRAM)
    if program is None:
        told = f"{PROGRAM} is not installed (apt-get install chromium)"
        pytest.fail(told) if "CI" in os.environ else pytest.skip(told)
    with sync_playwright() as playwright:
        # In a container Chromium may not make the namespaces of its own sandbox, and runs as root.
        running = playwright.chromium.launch(executable_path=program, chromium_sandbox=False)
        yield running
        running.close()


@pytest.fixture(scope="session")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    with provide(tmp_path_factory.mktemp("browser")) as running:
        yield running


@pytest.fixture(scope="session")
def shared(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Shared]:
    """Return a function that shares a golden table, once a session."""
    folder = tmp_path_factory.mktemp("golden")
    known: dict[str, Shared] = {}

    def get(name: str) -> Shared:
        if name not in known:
            known[name] = share(provider, load(name), folder / name)
        return known[name]

    return get


@contextmanager
def opened(browser: Browser, address: str, **options: Any) -> Iterator[Page]:
    """Open a page in a context of its own; fails where it has thrown, or its policy has kept it from something."""
    with browser.new_context(**options) as context:
        page = context.new_page()
        said: list[str] = []
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("console", lambda line: said.append(line.text) if "Content Security Policy" in line.text else None)
        page.goto(address)
        yield page
        assert said == []


def broken_rules(page: Page) -> list[tuple[str, list[str]]]:
    """Return the rules of WCAG 2.2 AA, and of good practice, that a page breaks by axe, and where."""
    page.evaluate(AXE_FILE_PATH.read_text(encoding="utf-8"))
    rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    found = page.evaluate("rules => axe.run({runOnly: rules})", rules)
    return [(one["id"], [node["html"] for node in one["nodes"]]) for one in found["violations"]]


@pytest.fixture
def page(browser: Browser, provider: Provider) -> Iterator[Page]:
    """Return the page at /explore, before anybody has been let in."""
    with opened(browser, f"{provider.endpoint}/explore") as page:
        yield page
