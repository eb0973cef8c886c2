"""Checks of what OpenSharing adds to tables: an endpoint for one table, and the field `format`."""

from delta_sharing_conformance import expect
from delta_sharing_conformance.catalog import Catalog, ListedTable
from delta_sharing_conformance.check import CheckSkipped, check, check_each_table
from delta_sharing_conformance.client import Reply, segments
from delta_sharing_conformance.listings import ABSENT, listing_page
from delta_sharing_conformance.versions import NOT_OFFERED

SECTION = "OpenSharing, Get Table"
IS_LISTED = "is listed"


@check_each_table(SECTION, IS_LISTED, tables=lambda catalog: catalog.tables)
def gets_a_table_by_its_name(table: ListedTable) -> None:
    """Respond to GET .../tables/{table} with the same content as in the listing."""
    entry = expect.fields("the response", listing_page(_get_table(table)), {"name": str, "schema": str, "share": str})
    for field in ("name", "schema", "share", "shareId", "id"):
        expect.that(entry.get(field) == table.entry.get(field), f"GET {table.path} has another {field} than listed")


@check_each_table(SECTION, IS_LISTED, tables=lambda catalog: catalog.tables, id="tells the formats of a table")
def table_formats_are_valid(table: ListedTable) -> None:
    """Set format to delta, iceberg, or both with a comma between them."""
    text = expect.fields("the response", listing_page(_get_table(table)), {"format": str})["format"]
    formats = text.split(",")
    is_valid = {*formats} <= {"delta", "iceberg"} and len({*formats}) == len(formats)
    expect.that(is_valid, f"GET {table.path} has a format that is not delta, iceberg or both")
    if "url" in table.access_modes and table.full_replies:
        expect.that("delta" in formats, f"GET {table.path} has format {text}, but the table can be queried")


@check(SECTION, id="tables that do not exist are not found")
def missing_tables_return_404(catalog: Catalog) -> str:
    """Respond to GET .../tables/{table} with 404 and an error body for an unknown table."""
    if not catalog.tables:
        raise CheckSkipped("no shared tables")
    first = catalog.tables[0]
    _get_table(first)
    expect.error(catalog.client.get(segments(first.share, first.schema, ABSENT)), 404)
    return "1 request"


def _get_table(table: ListedTable) -> Reply:
    reply = table.client.get(table.path)
    if reply.status in NOT_OFFERED or not reply.body:  # in Delta Sharing, this path only has the version header
        raise CheckSkipped(f"the server does not support this endpoint: {reply}")
    return reply
