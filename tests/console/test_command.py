"""The command: how it opens a browser, where it listens, and how it ends."""

import html
import time
from pathlib import Path

import pytest
from console.conftest import command, visitor
from filled_server import FilledServer

pytestmark = pytest.mark.slow


def test_a_browser_is_opened_by_a_file_and_not_by_its_arguments(server: FilledServer, tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\ncp "${{1#file://}}" {tmp_path}/page\necho "$@" > {tmp_path}/arguments\n')
    browser.chmod(0o755)
    with command({**server.environment, "BROWSER": f"{browser} %s", "DISPLAY": ":0"}, "--open") as link:
        end = time.monotonic() + 20
        while not (tmp_path / "arguments").exists():
            assert time.monotonic() < end
            time.sleep(0.05)
        arguments = (tmp_path / "arguments").read_text()
        assert link in html.unescape((tmp_path / "page").read_text())
        assert link.partition("#")[2] not in arguments
        assert Path(arguments.strip().removeprefix("file://")).parent.stat().st_mode & 0o077 == 0
    assert not Path(arguments.strip().removeprefix("file://")).exists()


def test_it_ends_at_once_whatever_it_is_about(server: FilledServer) -> None:
    with command(server.environment) as link:
        found = visitor(link)
        with found.http:
            found.enter()
            found.http.post("/findings", data={"token": token_of(found.http.get("/findings").text)})


def token_of(page: str) -> str:
    return page.partition('name="token" value="')[2].partition('"')[0]


def test_a_plan_names_the_options_that_the_console_was_started_with(server: FilledServer) -> None:
    with command(server.environment, "--region", "us-east-1") as link:
        found = visitor(link)
        with found.http:
            found.enter()
            page = found.get("/action", action="cut-off", recipient="alice")
            assert "deltaic --region us-east-1 recipient cut-off --yes -- alice" in page
