"""Who may read what, as the pages tell it; and rows as each recipient gets them, through the endpoint that answers."""

import re
from datetime import timedelta

import pytest
from console.conftest import HOSTILE, Visitor
from filled_server import FilledServer

pytestmark = pytest.mark.slow

ORDERS = "sales.europe.orders"


def cells(page: str) -> list[list[str]]:
    """Return the cells of a page's last table, row by row."""
    body = page.rpartition("<tbody>")[2].partition("</tbody>")[0]
    return [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in body.split("</tr>") if "<td" in row]


def test_recipients_are_listed_with_the_ends_of_their_tokens(console: Visitor, server: FilledServer) -> None:
    ends = server.readers["alice"].issued.token.expires_at
    assert f"{ends:%Y-%m-%d %H:%M}" in console.get("/recipients", begins="AL")
    assert "bob" not in console.get("/recipients", begins="al").partition("<tbody>")[2]


def test_a_recipient_is_told_with_its_grants_and_keys(console: Visitor, server: FilledServer) -> None:
    made = server.admin.recipients.create("carol", comment=HOSTILE, properties={"site": HOSTILE})
    server.admin.grants.create("carol", "sales")
    short = server.admin.tokens.create(made, timedelta(days=3), comment=HOSTILE)
    link = server.admin.invitations.create(made, server.endpoint)
    page = console.get("/recipient", recipient="CAROL")
    assert HOSTILE not in page
    assert "in 2 days" in page
    assert f'{short.token.id}</td><td class="good">live' in page
    assert f'{link.invitation.id}</td><td class="good">open' in page
    assert link.secret not in page
    assert short.secret not in page
    assert "all that are shared" in page
    server.admin.cut_off("carol")
    assert "cut off since" in console.get("/recipient", recipient="carol")
    assert "cut off since" in console.get("/recipients", begins="carol")


def test_what_somebody_sees_is_what_its_listings_have(console: Visitor) -> None:
    page = console.get("/seen", recipient="alice")
    assert "region = &#39;EU&#39;" in page
    assert f"/preview?table={ORDERS}&amp;recipient=alice" in page
    assert "No table." in console.get("/seen", recipient="bob")


def test_rows_are_those_that_the_recipient_gets(console: Visitor, server: FilledServer) -> None:
    assert "/preview?table=sales.europe.orders&amp;recipient=alice" in console.get("/preview", table=ORDERS)
    before = console.get("/preview", table=ORDERS, recipient="alice")
    assert "rows that match the filters" in before
    assert "<tbody>" not in before
    asked = console.post(f"/preview?table={ORDERS}", 303, recipient="alice")
    assert asked == ""
    page = console.get("/preview", table=ORDERS, recipient="alice")
    assert sorted(row[0] for row in cells(page)) == ["1", "3", "5"]
    assert {row[1] for row in cells(page)} == {"EU"}
    assert HOSTILE not in page
    assert [token.id for token in server.admin.tokens.list(server.readers["alice"].id)] == [
        server.readers["alice"].issued.token.id
    ]


def test_who_may_not_read_is_told_why(console: Visitor) -> None:
    before = console.get("/preview", table=ORDERS, recipient="bob")
    assert "has no grant of share" in before
    console.post(f"/preview?table={ORDERS}", 303, recipient="bob")
    page = console.get("/preview", table=ORDERS, recipient="bob")
    assert 'role="alert"' in page
    assert "404" in page
    assert "<tbody>" not in page
