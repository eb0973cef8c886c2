"""`deltaic status` shows every part of a server that it can reach, and names the others."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from cli.test_usage import row, written

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cli.conftest import Deltaic
    from deltaic.catalog.admin.catalog_admin import CatalogAdmin

SOON = datetime.now(UTC).replace(microsecond=0) + timedelta(days=20)


@contextmanager
def server(status: int) -> Iterator[str]:
    """Run a sharing server that responds to every request with one status; yield its endpoint."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, args=[0.01])
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_port}/delta-sharing"
        finally:
            http.shutdown()
            thread.join()


@pytest.fixture
def served(filled: Deltaic) -> Iterator[Deltaic]:
    """Return the command with a catalog and a server that refuses requests without a token."""
    with server(401) as endpoint:
        filled.variables["DELTAIC_ENDPOINT"] = endpoint
        yield filled


def test_every_part_is_on_one_screen(served: Deltaic, admin: CatalogAdmin) -> None:
    for number, name in enumerate(("alice", "bob", "carol")):
        if name != "alice":
            admin.recipients.create(name)
        served.done(f"token create {name} --expires {20 + number}d")
    lines = dict(line.split(maxsplit=1) for line in served.done("status").splitlines())
    assert lines["endpoint"].strip() == served.variables["DELTAIC_ENDPOINT"]
    assert lines["catalog"].strip() == "1 share, 1 table, 3 recipients"
    assert lines["expires"].startswith(f"token of alice on {SOON:%Y-%m-%d}; token of bob on")
    assert "; 1 more: deltaic expiring" in lines["expires"]
    assert lines["findings"].strip() == "0 open"
    assert served.variables["CATALOG_TABLE"] in lines["server"]


def test_an_empty_catalog_has_nothing_to_show(deltaic: Deltaic) -> None:
    with server(401) as endpoint:
        deltaic.variables["DELTAIC_ENDPOINT"] = endpoint
        result = deltaic.json("status")
    assert (result["shares"], result["tables"], result["recipients"]) == (0, 0, 0)
    assert (result["expires"], result["findings"], result["lastRead"], result["unreachable"]) == ([], [], None, {})


@pytest.mark.parametrize("responding", [pytest.param(False, id="stopped"), pytest.param(True, id="failing")])
def test_an_unreachable_endpoint_is_named_and_the_rest_is_shown(filled: Deltaic, *, responding: bool) -> None:
    with server(503) as endpoint:
        filled.variables["DELTAIC_ENDPOINT"] = endpoint if responding else "http://127.0.0.1:9/delta-sharing"
        result = filled("status --json")
    shown = json.loads(result.stdout)
    assert result.exit_code == 1
    assert (shown["endpoint"], shown["shares"], shown["tables"]) == (None, 1, 1)
    assert ("responds with status 503" if responding else "no response from") in shown["unreachable"]["endpoint"]


def test_missing_tables_are_named_and_the_rest_is_shown(served: Deltaic) -> None:
    served.variables["TOKENS_TABLE"] = "none"
    result = served("status")
    assert result.exit_code == 1
    assert "expires    unreachable: the DynamoDB tables of the catalog do not exist" in result.output
    assert "1 share, 1 table, 1 recipient" in result.output
    served.variables["CATALOG_TABLE"] = "none"
    shown = json.loads(served("status --json").stdout)
    assert shown["unreachable"].keys() == {"catalog", "expires"}
    assert (shown["findings"], shown["endpoint"]) == (None, served.variables["DELTAIC_ENDPOINT"])


def test_findings_are_those_of_doctor(served: Deltaic, admin: CatalogAdmin) -> None:
    admin.schemas.create("vaccine_share", "raw")
    follow = admin.follows.put("vaccine_share", "raw", "s3://bucket/raw")
    [finding] = served.json("status")["findings"]
    assert (finding["check"], finding["verdict"]) == ("follows s3://bucket/raw", "warning")
    admin.follows.record_check(follow, {}, {}, "s3://bucket/raw cannot be listed")
    result = served("status")
    assert result.exit_code == 1
    assert "FAILED follows s3://bucket/raw s3://bucket/raw cannot be listed" in result.output


def test_last_read_is_from_the_usage_table_without_checks_and_refusals(served: Deltaic, tmp_path: Path) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    requests: list[tuple[float, int, dict[str, Any]]] = [
        (0.1, 403, {}), (0.2, 200, {"token_id": "check-1"}), (0.3, 200, {"table": None}), (1.5, 200, {}), (3, 206, {}),
    ]  # fmt: skip
    rows = []
    for days, status, more in requests:
        time = now - timedelta(days)
        rows.append(row("request", "alice") | {"time": time, "day": time.date(), "status": status, **more})
    written(tmp_path / "usage", rows)
    at = f"{now - timedelta(1.5):%Y-%m-%dT%H:%M:%SZ}"
    shown = served.json(f"status --usage {tmp_path}/usage")
    assert shown["lastRead"] == {"at": at, "recipient": "alice", "table": "s.d.t"}
    assert "last read  unreachable: there is no usage table" in served(f"status --usage {tmp_path}/none").output


def test_a_local_server_has_the_last_read_in_its_log(served: Deltaic, tmp_path: Path) -> None:
    (tmp_path / ".deltaic" / "aws").mkdir(parents=True)
    log = tmp_path / ".deltaic" / "logs" / "requests.jsonl"
    log.parent.mkdir()
    event = {
        "status": 200, "tokenId": "t", "recipient": "alice", "share": "s", "schema": "d", "table": "t",
        "time": "2026-11-22T07:58:01.500+00:00",
    }  # fmt: skip
    others = [{**event, "tokenId": "check-1"}, {**event, "status": 404}, {"status": 200, "tokenId": "t"}]
    log.write_text("\n".join([*map(json.dumps, [event, *others]), '{"status": 20']))
    shown = served.json("status")
    assert shown["server"] == f"local, {tmp_path}/.deltaic"
    assert shown["lastRead"] == {"at": "2026-11-22T07:58:01Z", "recipient": "alice", "table": "s.d.t"}


def test_a_stack_that_does_not_exist_is_refused(served: Deltaic) -> None:
    result = served("--stack none status")
    assert result.exit_code == 1
    assert "there is no stack 'none'" in result.stderr
