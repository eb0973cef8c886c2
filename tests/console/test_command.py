"""Test `deltaic console`: how it opens a browser, and how it stops."""

import html
import time
from pathlib import Path

import pytest
from console.conftest import open_visitor, run_console
from filled_server import FilledServer

pytestmark = pytest.mark.slow


def test_browser_gets_the_link_in_a_file_and_not_as_argument(server: FilledServer, tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\ncp "${{1#file://}}" {tmp_path}/page\necho "$@" > {tmp_path}/arguments\n')
    browser.chmod(0o755)
    with run_console({**server.environment, "BROWSER": f"{browser} %s", "DISPLAY": ":0"}, "--open") as link:
        deadline = time.monotonic() + 20
        while not (tmp_path / "arguments").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        arguments = (tmp_path / "arguments").read_text()
        assert link in html.unescape((tmp_path / "page").read_text())
        assert link.partition("#")[2] not in arguments
        assert Path(arguments.strip().removeprefix("file://")).parent.stat().st_mode & 0o077 == 0
    assert not Path(arguments.strip().removeprefix("file://")).exists()


def test_command_stops_at_once_while_a_job_runs(server: FilledServer) -> None:
    with run_console(server.environment) as link:
        visitor = open_visitor(link)
        with visitor.http:
            visitor.sign_in()
            assert visitor.http.post("/findings").status_code == 303


def test_plan_has_the_global_options_of_the_console(server: FilledServer) -> None:
    with run_console(server.environment, "--region", "us-east-1") as link:
        visitor = open_visitor(link)
        with visitor.http:
            visitor.sign_in()
            page = visitor.get("/action", action="cut-off", recipient="alice")
            assert "deltaic --region us-east-1 recipient cut-off --yes -- alice" in page
