"""Checks of what OpenSharing's tables have beside Delta Sharing's: an endpoint of their own, and formats."""

from delta_sharing_conformance import expect
from delta_sharing_conformance.check import NotTried, check, check_each_table
from delta_sharing_conformance.client import Reply, segments
from delta_sharing_conformance.listings import ABSENT, page
from delta_sharing_conformance.shared import ListedTable, Shared
from delta_sharing_conformance.versions import NOT_OFFERED

SECTION = "OpenSharing, Get Table"
LISTED = "is listed"


@check_each_table(SECTION, LISTED, of=lambda shared: shared.tables)
def gets_a_table_by_its_name(table: ListedTable) -> None:
    """Answer GET .../tables/{table} with the table itself, which tells what the listing tells of it."""
    told = expect.typed("the answer", page(_table(table)), {"name": str, "schema": str, "share": str})
    for field in ("name", "schema", "share", "shareId", "id"):
        expect.that(told.get(field) == table.entry.get(field), f"GET {table.path} tells another {field} than its list")


@check_each_table(SECTION, LISTED, of=lambda shared: shared.tables)
def tells_the_formats_of_a_table(table: ListedTable) -> None:
    """Say in format how a table is read: delta, iceberg, or both with a comma between."""
    told = expect.typed("the answer", page(_table(table)), {"format": str})["format"]
    formats = told.split(",")
    known = {*formats} <= {"delta", "iceberg"} and len({*formats}) == len(formats)
    expect.that(known, f"GET {table.path} tells a format that is not delta, iceberg or both")
    if "url" in table.modes and table.whole:
        expect.that("delta" in formats, f"GET {table.path} tells {told}, and its files are given in delta's ways")


@check(SECTION)
def tables_that_do_not_exist_are_not_found(shared: Shared) -> str:
    """Answer GET .../tables/{table} with 404 and an error body for a table that is not there."""
    if not shared.tables:
        raise NotTried("the profile sees no table")
    first = shared.tables[0]
    _table(first)
    expect.refused(shared.client.get(segments(first.share, first.schema, ABSENT)), 404)
    return "1 request"


def _table(table: ListedTable) -> Reply:
    reply = table.client.get(table.path)
    if reply.status in NOT_OFFERED or not reply.body:  # Delta Sharing has only the version there, in a header
        raise NotTried(f"the server does not tell of one table: {reply}")
    return reply
