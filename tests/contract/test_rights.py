"""Access reports for the operator equal the server's answers to the recipient."""

from datetime import UTC, datetime
from itertools import product

import pytest
from contract.server import RECIPIENTS, Server
from contract.tables import ENTRIES
from deltaic.catalog.reader import CatalogReader
from deltaic.sharing.caller import RequestedTable
from deltaic_ops.rights.access_report import AccessRequest, access_of
from deltaic_ops.rights.recipient_view import VisibleTable, visible_entries
from filled_server import dynamo_of

pytestmark = pytest.mark.slow

NAMES = sorted(
    {RequestedTable(entry.share, entry.schema, entry.table) for entry in ENTRIES if entry.table}
    | {
        RequestedTable("share1", "default", "no_such_table"),
        RequestedTable("share1", "none", "t"),
        RequestedTable("no", "a", "t"),
    },
    key=str,
)


@pytest.fixture
def reader(server: Server) -> CatalogReader:
    return CatalogReader(server.environment["CATALOG_TABLE"], dynamo_of(server.environment))


def test_access_allows_exactly_what_the_server_returns(server: Server, reader: CatalogReader) -> None:
    decisions: list[bool] = []
    for recipient, name in product(RECIPIENTS, NAMES):
        request = AccessRequest(server.admin.recipients.get(recipient), name, datetime.now(UTC))
        access = access_of(server.admin, reader, request)
        answer = server.recipient(recipient).get(f"/shares/{name.share}/schemas/{name.schema}/tables/{name.table}")
        assert (answer.status == 200) == access.allowed, (recipient, name, access.rule)
        if access.allowed:
            assert list(access.access_modes) == answer.json["accessModes"]
        decisions.append(access.allowed)
    assert {*decisions} == {True, False}


@pytest.mark.parametrize("recipient", RECIPIENTS)
def test_access_lists_the_same_tables_as_the_server(server: Server, reader: CatalogReader, recipient: str) -> None:
    tables = []
    for share in server.recipient(recipient).get("/shares").json["items"]:
        token = ""
        while True:
            page = server.recipient(recipient).get(f"/shares/{share['name']}/all-tables?maxResults=50{token}").json
            tables += [
                (table["share"], table["schema"], table["name"], table["accessModes"]) for table in page["items"]
            ]
            if not page.get("nextPageToken"):
                break
            token = f"&pageToken={page['nextPageToken']}"
    visible = [
        (table.table.share, table.table.schema_name, table.table.name, list(table.table.access_modes))
        for table in visible_entries(server.admin, reader, server.admin.recipients.get(recipient))
        if isinstance(table, VisibleTable)
    ]
    assert sorted(visible) == sorted(tables)
    assert bool(visible) == bool(RECIPIENTS[recipient])
