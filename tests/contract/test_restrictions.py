"""Restricted recipients over HTTP: addresses, request limits, byte limits and cut-offs."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import httpx
import pyarrow as pa
import pytest
from contract.logs import TableLog, column
from contract.recipient import Recipient, Table
from deltaic.catalog.admin.storage_admin import AccessKeys
from deltaic_ops.checks.doctor.roles import check_denials
from deltaic_ops.cli import app
from deltaic_ops.deploy.sam_template import load_template
from deltaic_ops.local.resources import DATA_BUCKET
from deltaic_ops.local.routes import RouteTable
from deltaic_ops.rights.credential_denial import Denials
from filled_server import Entry, FilledServer
from typer.testing import CliRunner

if TYPE_CHECKING:
    from collections.abc import Iterator

PEOPLE = ("there", "often", "much", "cut", "free")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilledServer]:
    entries = [Entry("lent", "s", "orders", "", {"access_modes": ["url", "dir"], "history": True})]
    with FilledServer.running(
        tmp_path_factory.mktemp("restrictions"), entries, {name: ["lent"] for name in PEOPLE}
    ) as running:
        log = TableLog(running.client("s3"), DATA_BUCKET, "orders", pa.schema([column("id", pa.int64())]))
        log.create()
        log.commit(log.add([{"id": 1}, {"id": 2}]))
        running.client("s3").put_object(Bucket=DATA_BUCKET, Key="scans/one.pdf", Body=b"some bytes")
        running.admin.volumes.create("lent", "s", "scans", f"s3://{DATA_BUCKET}/scans")
        yield running


def orders(server: FilledServer, name: str) -> Table:
    return Table(server.recipient(name), "lent", "s", "orders")


CALLS = {
    "/shares": "GET",
    "/shares/lent": "GET",
    "/shares/lent/schemas": "GET",
    "/shares/lent/schemas/s/tables": "GET",
    "/shares/lent/all-tables": "GET",
    "/shares/absent/all-tables": "GET",
    "/shares/lent/schemas/s/tables/orders/version": "GET",
    "/shares/lent/schemas/s/tables/absent/version": "GET",
    "/shares/lent/schemas/s/tables/orders/metadata": "GET",
    "/shares/lent/schemas/s/tables/orders/changes?startingVersion=0": "GET",
    "/shares/lent/schemas/s/tables/orders/query": "POST",
    "/shares/lent/schemas/s/tables/orders/queries/x": "POST",
    "/shares/lent/schemas/s/tables/orders/temporary-table-credentials": "POST",
    "/shares/lent/schemas/s/tables/orders": "GET",
    "/shares/lent/all-volumes": "GET",
    "/shares/lent/schemas/s/volumes": "GET",
    "/shares/lent/schemas/s/volumes/scans": "GET",
    "/shares/lent/schemas/s/volumes/scans/files": "GET",
    "/shares/lent/schemas/s/volumes/scans/temporary-volume-credentials": "POST",
    "/shares/lent/schemas/s/models/absent/versions": "GET",
    "/shares/lent/schemas/s/models/absent/versions/1/files": "GET",
}


def test_the_requests_of_this_module_cover_every_endpoint() -> None:
    routes = load_template().routes
    table = RouteTable(routes)
    matches = [table.match(method, path.partition("?")[0]) for path, method in CALLS.items()]
    functions = {match.route.function for match in matches if match is not None}
    endpoints = {route.function for route in routes if not route.public} - {"GetContract"}
    assert endpoints <= functions, f"add to CALLS of this file a request to {endpoints - functions}"


def answers(recipient: Recipient) -> set[tuple[int, bytes]]:
    replies = [recipient.ask(method, path, b"{}" if method == "POST" else None) for path, method in CALLS.items()]
    return {(reply.status, reply.body) for reply in replies}


def test_from_a_denied_address_every_endpoint_returns_the_same_error(server: FilledServer) -> None:
    server.admin.recipients.update("there", add_addresses=["203.0.113.0/24"])
    value = server.recipient("there")
    [(status, body)] = answers(value)
    assert (status, b"PERMISSION_DENIED" in body) == (403, True)
    assert b"203.0.113" not in body
    assert b"127.0.0.1" not in body
    # What a client says of itself is nothing.
    headers = {"x_forwarded_for": "203.0.113.7", "forwarded": "for=203.0.113.7", "x_real_ip": "203.0.113.7"}
    assert answers(value.with_headers(**headers)) == {(status, body)}
    server.admin.recipients.update("there", add_addresses=["127.0.0.0/8"])
    assert value.get("/shares/lent").status == 200


def test_too_many_requests_get_the_time_to_retry(server: FilledServer) -> None:
    server.admin.recipients.update("often", requests_per_minute=3)
    replies = [server.recipient("often").get("/shares") for _ in range(9)]  # of two minutes, at the most
    refused = [reply for reply in replies if reply.status != 200]
    assert len(refused) >= 3
    for reply in refused:
        reply.refused(429, "RESOURCE_EXHAUSTED", "3 requests a minute")
        assert 1 <= int(reply.headers["retry-after"]) <= 60


def test_signed_bytes_are_counted_at_the_end_of_the_response(server: FilledServer) -> None:
    server.admin.recipients.update("much", bytes_per_day=1)
    table = orders(server, "much")
    first = table.query()
    assert len(first.only("file")) == 1
    reply = table.query()
    if reply.status == 200:  # midnight was in between
        reply = table.query()
    reply.refused(429, "RESOURCE_EXHAUSTED", "bytes")
    assert 1 <= int(reply.headers["retry-after"]) <= 86_400
    server.admin.recipients.update("much", bytes_per_day=0)
    assert table.query().status == 200


def test_signed_files_count_and_a_byte_limit_excludes_credentials(server: FilledServer) -> None:
    server.admin.recipients.create("careful")
    server.admin.recipients.update("careful", bytes_per_day=10)
    server.admin.grants.create("careful", "lent")
    value = Recipient(server.endpoint, server.admin.tokens.create(server.admin.recipients.get("careful")).secret)
    volume = "/shares/lent/schemas/s/volumes/scans"
    assert value.get(volume).json["accessModes"] == ["url"]
    value.post(f"{volume}/temporary-volume-credentials", {}).refused(400, "UNSUPPORTED_OPERATION", "URLs only")
    assert value.get(f"{volume}/files").status == 200
    assert value.post(f"{volume}/files", {"paths": ["one.pdf"]}).status == 200
    reply = value.post(f"{volume}/files", {"paths": ["one.pdf"]})
    if reply.status == 200:  # midnight was in between
        reply = value.post(f"{volume}/files", {"paths": ["one.pdf"]})
    reply.refused(429, "RESOURCE_EXHAUSTED", "bytes")


def command(server: FilledServer, line: str) -> str:
    environment: dict[str, str | None] = {"AWS_PROFILE": None, **server.environment}
    result = CliRunner().invoke(app, line.split(), env=environment, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_cut_off_invalidates_keys_and_a_restore_returns_access(server: FilledServer) -> None:
    table, free = orders(server, "cut"), orders(server, "free")
    urls = [each.query().only("file")[0]["url"] for each in (table, free)]
    files = [
        each.recipient.post("/shares/lent/schemas/s/volumes/scans/files", {"paths": ["one.pdf"]})
        for each in (table, free)
    ]
    urls += [reply.json["items"][0]["url"] for reply in files]
    assert [httpx.get(url).status_code for url in urls] == [200] * 4
    result = command(server, "recipient cut-off cut --yes")
    assert "denied" in result
    assert [httpx.get(url).status_code for url in urls] == [403, 200] * 2
    assert {status for status, _ in answers(server.recipient("cut"))} == {401}
    assert free.query().status == 200

    assert "stay revoked" in command(server, "recipient restore cut")
    assert [httpx.get(url).status_code for url in urls] == [200] * 4
    # The old token is revoked: the gateway forgets within a minute that it was live (tests/catalog/test_admission.py).
    assert {token.state() for token in server.admin.tokens.list(server.readers["cut"].id)} == {"revoked"}
    new = server.admin.tokens.create(server.admin.recipients.get("cut"))
    assert Recipient(server.endpoint, new.secret).get("/shares/lent").status == 200


def test_keys_that_cannot_be_revoked_are_listed_with_their_expiry(server: FilledServer) -> None:
    admin = server.admin
    admin.recipients.create("out")
    keys = AccessKeys("AKIDEXAMPLE", "secret")
    admin.storages.create("keyed", endpoint=server.environment["AWS_ENDPOINT_URL"], access_keys=keys)
    admin.storages.create("gone", role_arn="arn:aws:iam::000000000000:role/gone")
    try:
        result = command(server, "recipient cut-off out --yes --json")
    finally:
        for name in ("keyed", "gone"):
            admin.storages.delete(name)
    [role, sessions, static] = json.loads(result)["warnings"]
    assert role.startswith("could not change role arn:aws:iam::000000000000:role/gone: ")
    for line in (sessions, static):
        assert re.search(r"until \d{4}-\d\d-\d\d \d\d:\d\d UTC at the latest", line), line
    assert "keyed" in static


def test_the_doctor_finds_cut_offs_without_a_denial_and_denials_without_a_cut_off(server: FilledServer) -> None:
    iam: Any = server.client("iam")
    role = server.environment["SIGNING_ROLE_ARN"]
    marked, free = (server.admin.recipients.create(name) for name in ("marked", "unmarked"))

    def findings() -> list[tuple[str, str]]:
        people = [server.admin.recipients.get(recipient.name) for recipient in (marked, free)]
        return [(recipient.verdict, recipient.remedy) for recipient in check_denials(iam, role, [], people)]

    assert findings() == [("ok", "")]
    server.admin.cut_off("marked")
    assert findings() == [("warning", "deltaic recipient cut-off marked")]
    Denials(iam, role).update([marked.id])
    assert findings() == [("ok", "")]
    Denials(iam, role).update([free.id])
    assert findings() == [("warning", "deltaic recipient restore unmarked")]
    for recipient in (marked, free):
        Denials(iam, role).update([], recipient.id)


def test_a_missing_denial_is_added_again_with_the_next_cut_off(server: FilledServer) -> None:
    """Cover a stale response of IAM, which would be written back without the last Deny."""
    admin, iam, role = server.admin, server.client("iam"), server.environment["SIGNING_ROLE_ARN"]
    first, second = (admin.recipients.create(name) for name in ("first_cut", "second_cut"))
    try:
        admin.cut_off("first_cut")
        command(server, "recipient cut-off second_cut --yes")
        assert {first.id, second.id} <= Denials(iam, role).denied_tags()
        command(server, "recipient restore second_cut")
        assert Denials(iam, role).denied_tags() & {first.id, second.id} == {first.id}
    finally:
        command(server, "recipient restore first_cut")
        for name in ("first_cut", "second_cut"):
            admin.recipients.delete(name)
    assert first.id not in Denials(iam, role).denied_tags()


def test_one_policy_denies_all_cut_off_recipients_until_it_is_full(server: FilledServer) -> None:
    iam: Any = server.client("iam")
    iam.create_role(RoleName="narrow", AssumeRolePolicyDocument='{"Version": "2012-10-17", "Statement": []}')
    denials = Denials(iam, "arn:aws:iam::000000000000:role/narrow")
    assert denials.denied_tags() == set()
    for name in ("alice", "bob", "alice"):
        denials.update([name])
    assert denials.denied_tags() == {"alice", "bob"}
    denials.update([], "alice")
    assert denials.denied_tags() == {"bob"}
    denials.update([], "bob")
    assert iam.list_role_policies(RoleName="narrow")["PolicyNames"] == []
