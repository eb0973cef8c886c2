"""What the operator is told of a recipient's rights is what the server answers to that recipient."""

from datetime import UTC, datetime
from itertools import product

import pytest
from contract.server import RECIPIENTS, Server
from contract.tables import ENTRIES
from deltaic.catalog.reader import CatalogReader
from deltaic.sharing.caller import RequestedTable
from deltaic_ops.rights.access_report import Asked, access_of
from deltaic_ops.rights.recipient_view import SeenTable, seen
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


def test_access_says_yes_where_the_server_answers(server: Server, reader: CatalogReader) -> None:
    told: list[bool] = []
    for person, name in product(RECIPIENTS, NAMES):
        asked = Asked(server.admin.recipients.get(person), name, datetime.now(UTC))
        found = access_of(server.admin, reader, asked)
        answer = server.recipient(person).get(f"/shares/{name.share}/schemas/{name.schema}/tables/{name.table}")
        assert (answer.status == 200) == found.allowed, (person, name, found.rule)
        if found.allowed:
            assert list(found.access_modes) == answer.json["accessModes"]
        told.append(found.allowed)
    assert {*told} == {True, False}


@pytest.mark.parametrize("person", RECIPIENTS)
def test_the_tables_that_are_shown_are_those_that_are_listed(
    server: Server, reader: CatalogReader, person: str
) -> None:
    listed = []
    for share in server.recipient(person).get("/shares").json["items"]:
        token = ""
        while True:
            page = server.recipient(person).get(f"/shares/{share['name']}/all-tables?maxResults=50{token}").json
            listed += [(one["share"], one["schema"], one["name"], one["accessModes"]) for one in page["items"]]
            if not page.get("nextPageToken"):
                break
            token = f"&pageToken={page['nextPageToken']}"
    found = [
        (one.table.share, one.table.schema_name, one.table.name, list(one.table.access_modes))
        for one in seen(server.admin, reader, server.admin.recipients.get(person))
        if isinstance(one, SeenTable)
    ]
    assert sorted(found) == sorted(listed)
    assert bool(found) == bool(RECIPIENTS[person])
