"""What needs somebody's care: usage with plots, last uses, views that are not fresh, endings, the doctor's findings."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cli.test_usage import written
from console.conftest import HOSTILE, Visitor, command, visitor
from filled_server import FilledServer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def used(server: FilledServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    """Return a visitor of a console that has a usage table."""
    with command(server.environment, "--usage", table(server, tmp_path_factory.mktemp("usage"))) as link:
        found = visitor(link)
        with found.http:
            found.enter()
            yield found


def table(server: FilledServer, folder: Path) -> str:
    """Write what alice asked and fetched, what was refused her, and a fetch of somebody with a hostile name."""
    now = datetime.now(UTC)
    alice = server.readers["alice"]

    def row(kind: str, **more: Any) -> dict[str, Any]:
        known = {"recipient": "alice", "recipient_id": alice.id, "token_id": alice.issued.token.id}
        named = {"share": "sales", "schema": "europe", "table": "orders"}
        return {"kind": kind, **known, **named, "day": now.date(), "time": now, "status": 200, **more}

    rows = [
        row("request", files_signed=3, bytes_signed=900),
        row("fetch", bytes_sent=5_000, explained_by=1),
        row("request", status=404, share="SALES", schema="EUROPE", table="ORDERS"),
        row("request", status=404, table=HOSTILE),
        row("fetch", recipient=HOSTILE, recipient_id="x", token_id="x", bytes_sent=70, explained_by=0),
    ]
    return written(folder, rows)


def figures(page: str) -> list[str]:
    return re.findall("<svg.*?</svg>", page, re.DOTALL)


def test_usage_is_told_with_plots_by_day_recipient_and_table(used: Visitor) -> None:
    page = used.get("/usage", days="7")
    for plot in ("Requests, by day", "Bytes sent, by day", "Bytes sent, by recipient", "Bytes sent, by table"):
        assert f'aria-label="{plot}"' in page
    assert HOSTILE not in page
    # Who has a colour in one plot has it in the other.
    legends = [re.findall(r'width="12" height="12" fill="([^"]+)"/><text[^>]*>([^<]+)<', one) for one in figures(page)]
    assert len(legends[0]) == 2
    assert legends[0] == legends[1]
    assert "3 requests, 5.1 kB sent" in page
    assert "<td>sales.europe.(unknown)</td>" in page
    only = used.get("/usage", days="7", recipient="alice")
    assert "3 requests, 5.0 kB sent" in only
    assert "img src=x" not in only
    assert used.post("/usage", 303, days="7", recipient="alice") == ""


def test_a_token_is_told_with_its_last_use(used: Visitor) -> None:
    today = datetime.now(UTC).date()
    page = used.get("/recipient", recipient="alice")
    assert page.partition("<h2>Tokens</h2>")[2].count(str(today)) >= 2  # made, and used


def test_where_there_is_no_usage_table_that_is_told(console: Visitor) -> None:
    assert "there is no usage table" in console.get("/usage")
    assert "Last uses are not told" in console.get("/recipient", recipient="alice")


def test_views_are_told_with_their_freshness(console: Visitor, server: FilledServer) -> None:
    server.admin.shares.create("views")
    server.admin.schemas.create("views", "mine")
    place = "s3://deltaic-lake/orders-views/mine"
    source = "sales.europe.orders"
    server.admin.views.create("views", "mine", "v", place, source=source, sql="SELECT * FROM source", properties=[])
    assert "never refreshed" in console.get("/views")
    server.admin.views.record_failure(server.admin.views.get("views", "mine", "v"), HOSTILE)
    assert "failed: &lt;img" in console.get("/views")
    assert "has a view" in console.get("/views", begins="sales")


def test_what_ends_soon_is_looked_for_when_it_is_asked_for(console: Visitor, server: FilledServer) -> None:
    made = server.admin.recipients.create("dave")
    short = server.admin.tokens.create(made, timedelta(days=2))
    assert short.token.id not in console.get("/ends")
    console.post("/ends", 303)
    assert short.token.id in console.get("/ends")


def test_the_doctor_looks_when_it_is_asked_to(console: Visitor) -> None:
    assert "<tbody>" not in console.get("/findings")
    console.post("/findings", 303)
    page = console.get("/findings")
    assert "reads the logs of shared tables" in page
    assert '<td class="good">ok</td>' in page
