"""Revoked access applies to the next request: pages, polls and refresh tokens included."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from contract.logs import TableLog
from contract.recipient import Reply, Table
from contract.server import Server
from contract.tables import NAMES

SHARE = "gates_between_pages"
FEED = {"delta.enableChangeDataFeed": "true"}
Next = Callable[[], Reply]


@dataclass
class Shared:
    """A table of versions 0 to 3, shared from version 1 on."""

    server: Server
    log: TableLog
    table: Table

    def update(self, **changed: Any) -> None:
        self.server.admin.tables.update(SHARE, "d", "t", **changed)


@pytest.fixture
def shared(server: Server) -> Iterator[Shared]:
    log = server.shelf.log(f"between_pages_{uuid4().hex}", NAMES, configuration=FEED)
    log.create()
    for version in range(3):
        log.commit(*[log.add([{"name": f"{version}{part}"}]) for part in range(3)])
    admin = server.admin
    admin.shares.create(SHARE)
    admin.schemas.create(SHARE, "d")
    admin.tables.create(SHARE, "d", "t", log.location, history=True, start_version=1)
    admin.grants.create("alice", SHARE)
    yield Shared(server, log, Table(server.alice, SHARE, "d", "t"))
    admin.shares.delete(SHARE, force=True)


def token(reply: Reply) -> str:
    assert reply.status == 200
    token_ = reply.end["nextPageToken"]
    assert isinstance(token_, str)
    return token_


def changes(table: Table, parameters: str) -> Next:
    parameters_ = f"?{parameters}&maxFiles=1"
    following = token(table.changes(parameters_))
    return lambda: table.changes(f"{parameters_}&pageToken={following}")


def pages(table: Table, **body: Any) -> Next:
    following = token(table.query(**body, maxFiles=1))
    return lambda: table.query(**body, maxFiles=1, pageToken=following)


def submitted(table: Table, **body: Any) -> tuple[Next, Next]:
    """Return requests that repeat a submitted query and read its next page."""
    reply = table.with_capabilities("responseformat=parquet;asyncquery=true").query({**body, "idempotencyKey": "k"})
    (status,) = reply.only("queryStatus")
    path = f"{table.path}/queries/{status['queryId']}"
    following = token(table.recipient.post(path, {"maxFiles": 1}))
    return (
        lambda: table.recipient.post(path, {}),
        lambda: table.recipient.post(path, {"maxFiles": 1, "pageToken": following}),
    )


def refreshed(table: Table) -> Next:
    refresh = table.query(includeRefreshToken=True).end["refreshToken"]
    return lambda: table.query(refreshToken=refresh)


HISTORICAL: dict[str, Callable[[Table], Next]] = {
    "changes": lambda table: changes(table, "startingVersion=1"),
    "changes_with_historical_metadata": lambda table: changes(
        table, "startingVersion=1&includeHistoricalMetadata=true"
    ),
    "range": lambda table: pages(table, startingVersion=1),
    "version": lambda table: pages(table, version=2),
    "submitted_range": lambda table: submitted(table, startingVersion=1)[0],
    "submitted_range_page": lambda table: submitted(table, startingVersion=1)[1],
    "submitted_version": lambda table: submitted(table, version=2)[0],
    "submitted_version_page": lambda table: submitted(table, version=2)[1],
}
LATEST: dict[str, Callable[[Table], Next]] = {
    "latest": pages,
    "refresh_token": refreshed,
    "submitted_latest": lambda table: submitted(table)[0],
    "submitted_latest_page": lambda table: submitted(table)[1],
}
"""What needs no history: taking it away takes nothing from these."""


@pytest.mark.parametrize("kind", [*HISTORICAL, *LATEST])
def test_every_page_is_authorized_again(shared: Shared, kind: str) -> None:
    following = (HISTORICAL | LATEST)[kind](shared.table)
    assert following().status == 200
    # The first page saw version 3: commits go on, and the share starts behind what was paged.
    shared.log.commit(shared.log.add([{"name": "later"}]))
    shared.update(start_version=4)
    following().refused(400, "INVALID_PARAMETER_VALUE", "since version 4")
    shared.update(start_version=1)
    assert following().status == 200
    shared.update(history=False)
    assert following().status == (400 if kind in HISTORICAL else 200)
    shared.server.admin.grants.revoke("alice", SHARE)
    following().refused(404, "RESOURCE_DOES_NOT_EXIST")
