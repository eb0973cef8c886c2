"""Test the pages of shares, schemas and tables, and that all text is escaped."""

import html

import pytest
from console.conftest import HOSTILE, Visitor
from filled_server import FilledServer

pytestmark = pytest.mark.slow

ORDERS = "sales.europe.orders"


def test_links_lead_from_shares_to_tables(console: Visitor) -> None:
    assert "/share?share=sales" in console.get("/shares")
    page = console.get("/share", share="SALES")
    assert "/schema?share=sales&amp;schema=europe" in page
    assert f"/table?table={ORDERS}" in console.get("/schema", share="sales", schema="europe")
    assert "No skill" in console.get("/schema", share="sales", schema="europe", kind="skill")
    assert "region = &#39;EU&#39;" in console.get("/holders", share="sales")


def test_lists_have_pages(console: Visitor, server: FilledServer) -> None:
    for number in range(60):
        server.admin.shares.create(f"many_{number:02}")
    first = console.get("/shares", after="many_")
    assert "many_49" in first
    assert "many_50" not in first
    assert "/shares?after=many_49" in first
    second = console.get("/shares", after="many_49")
    assert "many_50" in second
    assert "many_59" in second
    assert "after=" not in second


def test_table_pages_show_entry_columns_versions_and_partitions(console: Visitor) -> None:
    page = console.get("/table", table=ORDERS)
    assert "s3://deltaic-lake/orders" in page
    assert "partitioned by" in page
    assert page.count('<td class="mono">string</td>') == 2
    page = console.get("/versions", table=ORDERS)
    assert [f'<td class="n">{number}</td>' in page for number in (0, 1, 2)] == [True] * 3
    assert "version 2, " in page  # a tooltip of the plot
    assert 'aria-label="Size"' in page
    page = console.get("/partitions", table=ORDERS)
    assert "<td>EU</td>" in page
    assert "<td>US</td>" in page


def test_hidden_table_shows_the_reason(console: Visitor, server: FilledServer) -> None:
    admin, reason = server.admin, f"its log has a gap {HOSTILE}"
    admin.schemas.create("sales", "followed")
    hidden = admin.tables.create("sales", "followed", "left", "s3://deltaic-lake/orders", followed=True)
    assert "hidden from recipients" not in console.get("/table", table="sales.followed.left")
    assert ">hidden<" not in console.get("/schema", share="sales", schema="followed")
    admin.tables.set_listed(hidden, reason)
    page = console.get("/table", table="sales.followed.left")
    assert "This table is hidden from recipients: its log has a gap" in page
    assert HOSTILE not in page
    assert ">hidden<" in console.get("/schema", share="sales", schema="followed")


def test_iceberg_table_has_no_log(console: Visitor, server: FilledServer) -> None:
    names = ("sales", "europe", "iced", "s3://deltaic-lake/iced")
    server.admin.tables.create(*names, format="iceberg", iceberg="signed", access_modes=["dir"], history=True)
    try:
        page = console.get("/table", table="sales.europe.iced")
    finally:
        server.admin.tables.delete("sales", "europe", "iced")
    assert "Iceberg (signed)" in page
    assert "no Delta log" not in page
    assert "/versions" not in page


def test_hostile_text_is_escaped(console: Visitor) -> None:
    for page in (
        console.get("/shares"),
        console.get("/share", share="hostile"),
        console.get("/table", table=ORDERS),
        console.get("/share", 404, share=HOSTILE),
        console.get("/shares", begins=HOSTILE),
    ):
        assert HOSTILE not in page
        assert html.escape(HOSTILE).replace("&quot;", "&#34;") in page


@pytest.mark.parametrize(
    ("path", "parameters", "status"),
    [
        ("/share", {"share": "nobody's"}, 404),
        ("/table", {"table": "nothing"}, 400),
        ("/table", {}, 400),
        ("/nowhere", {}, 404),
    ],
)
def test_missing_entry_is_reported(console: Visitor, path: str, parameters: dict[str, str], status: int) -> None:
    assert 'role="alert"' in console.get(path, status, **parameters)
