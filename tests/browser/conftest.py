"""Fixtures of the browser tests: Chromium, a server with golden tables, and pages."""

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
"""Debian's package, so that the driver does not download a browser."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return a headless Chromium; its driver runs an event loop in this thread, unlike other tests."""
    program = shutil.which(PROGRAM)
    if program is None:
        message = f"{PROGRAM} is not installed (apt-get install chromium)"
        pytest.fail(message) if "CI" in os.environ else pytest.skip(message)
    with sync_playwright() as playwright:
        # In a container, Chromium runs as root and cannot create the namespaces of its sandbox.
        running = playwright.chromium.launch(executable_path=program, chromium_sandbox=False)
        yield running
        running.close()


@pytest.fixture(scope="session")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    with provide(tmp_path_factory.mktemp("browser")) as running:
        yield running


@pytest.fixture(scope="session")
def shared(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Shared]:
    """Return a function that shares a golden table, once for all tests."""
    folder = tmp_path_factory.mktemp("golden")
    shares: dict[str, Shared] = {}

    def get(name: str) -> Shared:
        if name not in shares:
            shares[name] = share(provider, load(name), folder / name)
        return shares[name]

    return get


@contextmanager
def open_page(browser: Browser, address: str, **options: Any) -> Iterator[Page]:
    """Open a page in its own context; fails after script errors and violations of its security policy."""
    with browser.new_context(**options) as context:
        page = context.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda line: errors.append(line.text) if "Content Security Policy" in line.text else None)
        page.goto(address)
        yield page
        assert errors == []


def broken_rules(page: Page) -> list[tuple[str, list[str]]]:
    """Return the violations of WCAG 2.2 AA and best practices that axe finds, with their elements."""
    page.evaluate(AXE_FILE_PATH.read_text(encoding="utf-8"))
    rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    report = page.evaluate("rules => axe.run({runOnly: rules})", rules)
    return [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in report["violations"]]


@pytest.fixture
def page(browser: Browser, provider: Provider) -> Iterator[Page]:
    """Return the page at /explore before sign-in."""
    with open_page(browser, f"{provider.endpoint}/explore") as page:
        yield page
