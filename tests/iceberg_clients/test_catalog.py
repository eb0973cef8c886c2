"""Iceberg's REST catalog, but for the tables themselves: what is listed, and how what is not there is told."""

import json
from collections.abc import Callable
from urllib.parse import quote

import httpx
import pytest
from filled_server import FilledServer
from iceberg_clients.catalog import Catalog, refused

Catalogs = Callable[..., Catalog]


def test_a_share_is_a_warehouse_with_a_prefix_of_its_own(catalog: Catalogs) -> None:
    reply = catalog().recipient.get("/v1/config?warehouse=LENT")
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    found = json.loads(reply.body)
    assert (found["defaults"], found["overrides"]) == ({}, {"prefix": "shares/lent"})
    assert "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}" in found["endpoints"]
    assert not [one for one in found["endpoints"] if not one.startswith(("GET ", "HEAD "))]


@pytest.mark.parametrize("share", ["p%2Fx", "q?x=1", "\u00fc"])
def test_a_prefix_leads_to_its_share_as_it_stands(catalog: Catalogs, server: FilledServer, share: str) -> None:
    server.admin.shares.create(share)
    server.admin.schemas.create(share, "s")
    server.admin.grants.create("alice", share)
    try:
        asked = catalog().recipient
        config = json.loads(asked.get(f"/v1/config?warehouse={quote(share, safe='')}").body)
        reply = asked.get(f"/v1/{config['overrides']['prefix']}/namespaces")
        assert (reply.status, json.loads(reply.body)) == (200, {"namespaces": [["s"]]})
    finally:
        server.admin.shares.delete(share, force=True)


@pytest.mark.parametrize("name", ["alice", "carol"])
@pytest.mark.parametrize("query", ["", "?warehouse=", "?warehouse=secret"])
def test_a_warehouse_that_is_not_granted_is_not_there(catalog: Catalogs, name: str, query: str) -> None:
    refused(catalog(name).recipient.get(f"/v1/config{query}"), 404, "NoSuchWarehouseException")


def test_schemas_are_namespaces_of_one_level(catalog: Catalogs) -> None:
    asked = catalog()
    listed = json.loads(asked.recipient.get(asked.namespaces).body)
    assert listed == {"namespaces": [["default"], ["empty"]]}
    assert json.loads(asked.recipient.get(f"{asked.namespaces}?parent=default").body) == {"namespaces": []}
    assert catalog("carol").recipient.get(f"{asked.namespaces}?parent=default").status == 404
    refused(asked.recipient.get(f"{asked.namespaces}?parent=nope"), 404, "NoSuchNamespaceException")
    assert json.loads(asked.recipient.get(f"{asked.namespaces}/default").body)["namespace"] == ["default"]
    assert asked.recipient.ask("HEAD", f"{asked.namespaces}/default").status == 204
    assert asked.recipient.ask("HEAD", f"{asked.namespaces}/other").status == 404
    refused(asked.recipient.get(f"{asked.namespaces}/other"), 404, "NoSuchNamespaceException")
    refused(asked.recipient.get(f"{asked.namespaces}/default%1Forders"), 404, "NoSuchNamespaceException")


def test_namespace_has_no_views(catalog: Catalogs) -> None:
    asked = catalog()
    reply = asked.recipient.get(f"{asked.namespaces}/default/views")
    assert (reply.status, json.loads(reply.body)) == (200, {"identifiers": []})
    assert asked.recipient.get(f"{asked.namespaces}/nope/views").status == 404
    assert catalog("carol").recipient.get(f"{asked.namespaces}/default/views").status == 404


def test_path_without_a_share_is_refused_with_the_remedy(catalog: Catalogs) -> None:
    for path in ("/v1/namespaces", "/v1/namespaces/default/tables"):
        refused(catalog().recipient.get(path), 404, "NoSuchWarehouseException", "Set the client's warehouse")


@pytest.mark.parametrize("slash", ["%2F", "%2f"])
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "namespaces", 200),
        ("GET", "namespaces?parent=nope", 404),
        ("HEAD", "namespaces/default/tables/signed", 204),
        ("GET", "namespaces/default/tables/signed", 200),
        ("GET", "namespaces/default/tables/signed?snapshots=all", 200),
        ("GET", "namespaces/default/views", 200),
        ("POST", "namespaces/default/tables/signed/sign?set=x%2By", 400),
        ("DELETE", "namespaces/default/tables/signed", 406),
    ],
)
def test_prefix_with_an_encoded_slash_leads_to_the_same(
    catalog: Catalogs, slash: str, method: str, path: str, status: int
) -> None:
    """As clients send it that encode the prefix as one segment of the path; they follow the redirect themselves."""
    asked = catalog()
    place, token = asked.recipient.endpoint, asked.recipient.token
    replies = [
        httpx.request(
            method, f"{place}/v1/{prefix}/{path}", headers={"Authorization": f"Bearer {token}"}, trust_env=False,
            follow_redirects=True,
        )
        for prefix in ("shares/lent", f"shares{slash}lent")
    ]  # fmt: skip
    assert [reply.status_code for reply in replies] == [status] * 2
    assert replies[0].url == replies[1].url
    assert [one.status_code for one in replies[1].history] == [308]


def test_tables_that_are_open_are_listed(catalog: Catalogs) -> None:
    asked = catalog()
    listed = json.loads(asked.recipient.get(f"{asked.namespaces}/default/tables").body)["identifiers"]
    assert {one["name"] for one in listed} == {
        "vended", "signed", "with_history", "with_late_history", "of_country", "without_country",
    }  # fmt: skip
    assert {tuple(one["namespace"]) for one in listed} == {("default",)}
    assert asked.recipient.ask("HEAD", asked.table("signed")).status == 204
    assert asked.recipient.ask("HEAD", asked.table("closed")).status == 404


@pytest.mark.parametrize("name", ["closed", "unknown"])
def test_a_table_that_is_not_open_is_not_there(catalog: Catalogs, name: str) -> None:
    refused(catalog().recipient.get(catalog().table(name)), 404, "NoSuchTableException")


def test_whatever_of_a_tables_name_is_unknown_it_is_the_table_that_is_told(catalog: Catalogs) -> None:
    """Spark asks for `schema%1Ftable` before it takes a table's name for a name of its metadata."""
    asked = catalog()
    for path in (f"{asked.namespaces}/default%1Fsigned/tables/files", "/v1/shares/x/namespaces/y/tables/z"):
        refused(asked.recipient.get(path), 404, "NoSuchTableException")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("POST", "", id="create_namespace"),
        pytest.param("DELETE", "/default", id="drop_namespace"),
        pytest.param("POST", "/default/properties", id="namespace_properties"),
        pytest.param("POST", "/default/tables", id="create_table"),
        pytest.param("POST", "/default/register", id="register_table"),
        pytest.param("POST", "/default/tables/signed", id="commit"),
        pytest.param("DELETE", "/default/tables/signed", id="drop_table"),
        pytest.param("POST", "/default/tables/signed/plan", id="plan"),
        pytest.param("PUT", "/default/tables/signed/sign", id="method_of_sign"),
        pytest.param("POST", "/default/tables/signed/credentials", id="method_of_credentials"),
        pytest.param("POST", "/default/views", id="create_view"),
    ],
)
def test_all_else_is_refused_as_what_cannot_be_done(catalog: Catalogs, method: str, path: str) -> None:
    asked = catalog()
    reply = asked.recipient.ask(method, f"{asked.namespaces}{path}", b"{}" if method != "GET" else None)
    refused(reply, 406, "UnsupportedOperationException", "read only")


def test_transactions_and_renames_are_refused_too(catalog: Catalogs) -> None:
    for path in ("/v1/shares/lent/tables/rename", "/v1/shares/lent/transactions/commit", "/v1/oauth/tokens"):
        refused(catalog().recipient.post(path, {}), 406, "UnsupportedOperationException")


def test_metrics_are_taken_and_dropped(catalog: Catalogs) -> None:
    asked = catalog()
    assert asked.recipient.post(f"{asked.table('signed')}/metrics", {}).status == 204


def test_nobody_is_answered_without_a_token(catalog: Catalogs) -> None:
    asked = catalog()
    for token in (None, "nobody"):
        reply = Catalog(type(asked.recipient)(asked.recipient.endpoint, token), "lent").recipient.get(asked.namespaces)
        assert reply.status == 401


@pytest.mark.parametrize(
    ("name", "told"), [("signed", "delta,iceberg"), ("vended", "delta,iceberg"), ("closed", "delta")]
)
def test_delta_sharing_tells_in_which_formats_a_table_may_be_read(server: FilledServer, name: str, told: str) -> None:
    reply = server.recipient("alice").get(f"/shares/lent/schemas/default/tables/{name}")
    assert reply.json["format"] == told
