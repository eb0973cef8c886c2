"""Test the pages of usage, views and findings."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cli.test_usage import written
from console.conftest import HOSTILE, Visitor, open_visitor, run_console
from filled_server import FilledServer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def usage_console(server: FilledServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    """Return a visitor of a console with a usage table."""
    with run_console(
        server.environment, "--usage", write_usage_table(server, tmp_path_factory.mktemp("usage"))
    ) as link:
        visitor = open_visitor(link)
        with visitor.http:
            visitor.sign_in()
            yield visitor


def write_usage_table(server: FilledServer, folder: Path) -> str:
    """Write requests and downloads of alice, refused requests, and a download of a hostile name."""
    now = datetime.now(UTC)
    alice = server.readers["alice"]

    def row(kind: str, **more: Any) -> dict[str, Any]:
        caller = {"recipient": "alice", "recipient_id": alice.id, "token_id": alice.issued.token.id}
        table = {"share": "sales", "schema": "europe", "table": "orders"}
        return {"kind": kind, **caller, **table, "day": now.date(), "time": now, "status": 200, **more}

    rows = [
        row("request", files_signed=3, bytes_signed=900),
        row("fetch", bytes_sent=5_000, explained_by=1),
        row("request", status=404, share="SALES", schema="EUROPE", table="ORDERS"),
        row("request", status=404, table=HOSTILE),
        row("fetch", recipient=HOSTILE, recipient_id="x", token_id="x", bytes_sent=70, explained_by=0),
    ]
    return written(folder, rows)


def plots_of(page: str) -> list[str]:
    return re.findall("<svg.*?</svg>", page, re.DOTALL)


def test_usage_page_has_plots_by_day_recipient_and_table(usage_console: Visitor) -> None:
    page = usage_console.get("/usage", days="7")
    for plot in ("Requests, by day", "Bytes sent, by day", "Bytes sent, by recipient", "Bytes sent, by table"):
        assert f'aria-label="{plot}"' in page
    assert HOSTILE not in page
    # A recipient has the same color in both plots.
    legends = [
        re.findall(r'width="12" height="12" fill="([^"]+)"/><text[^>]*>([^<]+)<', figure) for figure in plots_of(page)
    ]
    assert len(legends[0]) == 2
    assert legends[0] == legends[1]
    assert "3 requests, 5.1 kB sent" in page
    assert "<td>sales.europe.(unknown)</td>" in page
    filtered = usage_console.get("/usage", days="7", recipient="alice")
    assert "3 requests, 5.0 kB sent" in filtered
    assert "img src=x" not in filtered


def test_recipient_page_shows_the_last_use_of_a_token(usage_console: Visitor) -> None:
    today = datetime.now(UTC).date()
    page = usage_console.get("/recipient", recipient="alice")
    assert page.partition("<h2>Tokens</h2>")[2].count(str(today)) >= 2  # created, and last used


def test_missing_usage_table_is_reported(console: Visitor) -> None:
    assert "there is no usage table" in console.get("/usage")
    assert "The last uses are not available: there is no usage table" in console.get("/recipient", recipient="alice")


def test_views_page_shows_freshness_and_failures(console: Visitor, server: FilledServer) -> None:
    server.admin.shares.create("views")
    server.admin.schemas.create("views", "mine")
    location = "s3://deltaic-lake/orders-views/mine"
    source = "sales.europe.orders"
    server.admin.views.create("views", "mine", "v", location, source=source, sql="SELECT * FROM source", properties=[])
    assert "never refreshed" in console.get("/views")
    server.admin.views.record_failure(server.admin.views.get("views", "mine", "v"), HOSTILE)
    assert "failed: &lt;img" in console.get("/views")
    assert "No share follows." in console.get("/views", after="zzz")


def test_doctor_runs_on_request(console: Visitor) -> None:
    assert "<tbody>" not in console.get("/findings")
    console.post("/findings", 303)
    page = console.get("/findings")
    assert "reads the logs of shared tables" in page
    assert '<td class="good">ok</td>' in page
