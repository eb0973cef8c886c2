"""Test the pages of recipients, and previews of rows through the endpoint."""

import re
from datetime import timedelta

import pytest
from console.conftest import HOSTILE, Visitor
from filled_server import FilledServer

pytestmark = pytest.mark.slow

ORDERS = "sales.europe.orders"


def cells(page: str) -> list[list[str]]:
    """Return the cells of the last table of a page, by row."""
    body = page.rpartition("<tbody>")[2].partition("</tbody>")[0]
    return [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in body.split("</tr>") if "<td" in row]


def test_recipients_page_shows_when_tokens_expire(console: Visitor, server: FilledServer) -> None:
    expiry = server.readers["alice"].issued.token.expires_at
    assert f"{expiry:%Y-%m-%d %H:%M} UTC" in console.get("/recipients")


def test_recipient_page_shows_grants_and_keys(console: Visitor, server: FilledServer) -> None:
    recipient = server.admin.recipients.create("carol", comment=HOSTILE, properties={"site": HOSTILE})
    server.admin.grants.create("carol", "sales")
    token = server.admin.tokens.create(recipient, timedelta(days=3), comment=HOSTILE)
    link = server.admin.invitations.create(recipient, server.endpoint)
    page = console.get("/recipient", recipient="CAROL")
    assert HOSTILE not in page
    assert "in 2 days" in page
    assert f'{token.token.id}</td><td class="good">live' in page
    assert f'{link.invitation.id}</td><td class="good">open' in page
    assert link.secret not in page
    assert token.secret not in page
    assert "all shared rows" in page
    server.admin.cut_off("carol")
    assert "cut off since" in console.get("/recipient", recipient="carol")
    assert "cut off since" in console.get("/recipients")


def test_visible_tables_are_those_in_the_recipients_listings(console: Visitor) -> None:
    page = console.get("/seen", recipient="alice")
    assert "region = &#39;EU&#39;" in page
    assert f"/preview?table={ORDERS}&amp;recipient=alice" in page
    assert "This recipient sees no table." in console.get("/seen", recipient="bob")


def test_preview_shows_the_rows_that_the_recipient_gets(console: Visitor, server: FilledServer) -> None:
    assert "/preview?table=sales.europe.orders&amp;recipient=alice" in console.get("/preview", table=ORDERS)
    before = console.get("/preview", table=ORDERS, recipient="alice")
    assert "rows that match the filters" in before
    assert "<tbody>" not in before
    response = console.post(f"/preview?table={ORDERS}", 303, recipient="alice")
    assert response == ""
    page = console.get("/preview", table=ORDERS, recipient="alice")
    assert sorted(row[0] for row in cells(page)) == ["1", "3", "5"]
    assert {row[1] for row in cells(page)} == {"EU"}
    assert HOSTILE not in page
    assert [token.id for token in server.admin.tokens.list(server.readers["alice"].id)] == [
        server.readers["alice"].issued.token.id
    ]


def test_preview_without_grant_shows_the_reason(console: Visitor) -> None:
    before = console.get("/preview", table=ORDERS, recipient="bob")
    assert "has no grant of share" in before
    console.post(f"/preview?table={ORDERS}", 303, recipient="bob")
    page = console.get("/preview", table=ORDERS, recipient="bob")
    assert 'role="alert"' in page
    assert "404" in page
    assert "<tbody>" not in page
