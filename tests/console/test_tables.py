"""What is shared, as its pages tell it: a level and a page at a time, and everything as text."""

import html

import pytest
from console.conftest import HOSTILE, Visitor
from filled_server import FilledServer

pytestmark = pytest.mark.slow

ORDERS = "sales.europe.orders"


def test_the_tree_leads_from_shares_to_tables(console: Visitor) -> None:
    assert "/share?share=sales" in console.get("/shares")
    page = console.get("/share", share="SALES")
    assert "/schema?share=sales&amp;schema=europe" in page
    assert f"/table?table={ORDERS}" in console.get("/schema", share="sales", schema="europe")
    assert "no skill" in console.get("/schema", share="sales", schema="europe", kind="skill")
    assert "region = &#39;EU&#39;" in console.get("/holders", share="sales")


def test_lists_are_shown_a_page_at_a_time_and_by_their_first_letters(console: Visitor, server: FilledServer) -> None:
    for number in range(60):
        server.admin.shares.create(f"many_{number:02}")
    first = console.get("/shares", begins="MANY_")
    assert "many_49" in first
    assert "many_50" not in first
    assert "sales" not in first.partition("<ul")[2]
    assert "/shares?begins=MANY_&amp;after=many_49" in first
    second = console.get("/shares", begins="MANY_", after="many_49")
    assert "many_50" in second
    assert "many_59" in second
    assert "after=" not in second


def test_a_table_tells_its_entry_its_columns_and_its_versions(console: Visitor) -> None:
    page = console.get("/table", table=ORDERS)
    assert "s3://deltaic-lake/orders" in page
    assert "partitioned by" in page
    assert page.count('<td class="mono">string</td>') == 2
    page = console.get("/versions", table=ORDERS)
    assert [f'<td class="n">{number}</td>' in page for number in (0, 1, 2)] == [True] * 3
    assert "version 2, " in page  # of the picture
    assert 'aria-label="Size"' in page
    page = console.get("/partitions", table=ORDERS)
    assert "<td>EU</td>" in page
    assert "<td>US</td>" in page


def test_a_table_that_has_left_the_listings_says_why(console: Visitor, server: FilledServer) -> None:
    admin, reason = server.admin, f"its log has a gap {HOSTILE}"
    admin.schemas.create("sales", "followed")
    left = admin.tables.create("sales", "followed", "left", "s3://deltaic-lake/orders", followed=True)
    assert "Recipients do not see it" not in console.get("/table", table="sales.followed.left")
    assert "not listed" not in console.get("/schema", share="sales", schema="followed")
    admin.tables.set_listed(left, reason)
    page = console.get("/table", table="sales.followed.left")
    assert "Recipients do not see it: its log has a gap" in page
    assert HOSTILE not in page
    assert "not listed" in console.get("/schema", share="sales", schema="followed")


def test_an_iceberg_table_has_no_log_to_show(console: Visitor, server: FilledServer) -> None:
    place = ("sales", "europe", "iced", "s3://deltaic-lake/iced")
    server.admin.tables.create(*place, format="iceberg", iceberg="signed", access_modes=["dir"], history=True)
    try:
        page = console.get("/table", table="sales.europe.iced")
    finally:
        server.admin.tables.delete("sales", "europe", "iced")
    assert "Iceberg (signed)" in page
    assert "no Delta log" not in page
    assert "/versions" not in page


def test_hostile_text_is_text(console: Visitor) -> None:
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
def test_what_is_not_there_is_told(console: Visitor, path: str, parameters: dict[str, str], status: int) -> None:
    assert 'role="alert"' in console.get(path, status, **parameters)
