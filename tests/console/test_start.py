"""Test the start page and the search over names and columns."""

from datetime import timedelta

import pytest
from console.conftest import Visitor, open_visitor, run_console
from console.test_looks import usage_console
from filled_server import FilledServer

pytestmark = pytest.mark.slow

__all__ = ["usage_console"]


def test_start_page_shows_counts_expirations_reads_and_next_steps(usage_console: Visitor, server: FilledServer) -> None:
    token = server.admin.tokens.create(server.admin.recipients.create("dave"), timedelta(days=2))
    page = usage_console.get("/start")
    assert f'dave</a></td><td>token</td><td class="mono">{token.token.id}' in page
    shares = len(list(server.admin.shares.list()))
    assert f"<strong>{shares}</strong> shares" in page
    assert "read sales.europe.orders" in page
    assert "action=create-recipient" in page
    assert page.count("button primary") == 1
    assert "<h2>Findings</h2>" in page


def test_start_page_without_usage_table_says_so(console: Visitor) -> None:
    page = console.get("/start")
    assert "there is no usage table at s3://deltaic-lake/usage, so no usage is known: collect it with" in page
    assert "in the last 30 days" not in page


def test_start_page_with_an_empty_location_of_usage_says_how_to_collect_it(server: FilledServer) -> None:
    with run_console(server.environment, "--usage", "") as link, open_visitor(link).http as client:
        visitor = Visitor(link, client)
        visitor.sign_in()
        page = visitor.get("/start")
        assert "no usage table is set, so no usage is known: collect it with `deltaic usage collect`" in page
        assert "in the last 30 days" not in page
        assert "no usage table is set" in visitor.get("/usage")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("RDER", "/table?table=sales.europe.orders"),
        ("regio", "region in sales.europe.orders"),
        ("lic", "recipient=alice"),
    ],
)
def test_search_finds_parts_of_names_and_columns(console: Visitor, text: str, found: str) -> None:
    assert found in console.get("/search", q=text)


def test_search_says_when_nothing_matches(console: Visitor) -> None:
    page = console.get("/search", q="<b>")
    assert "No name or column contains &lt;b&gt;." in page
    assert "<tbody>" not in console.get("/search", q="")
