"""Iceberg's REST catalog: listings, and errors for missing shares, namespaces and tables."""

import json
from collections.abc import Callable
from urllib.parse import quote

import httpx
import pytest
from filled_server import FilledServer
from iceberg_clients.catalog import Catalog, refused

Catalogs = Callable[..., Catalog]


def test_share_is_a_warehouse_with_a_prefix(catalog: Catalogs) -> None:
    reply = catalog().recipient.get("/v1/config?warehouse=LENT")
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    config = json.loads(reply.body)
    assert (config["defaults"], config["overrides"]) == ({}, {"prefix": "shares/lent"})
    assert "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}" in config["endpoints"]
    assert not [route for route in config["endpoints"] if not route.startswith(("GET ", "HEAD "))]


@pytest.mark.parametrize("share", ["p%2Fx", "q?x=1", "\u00fc"])
def test_prefix_leads_to_its_share(catalog: Catalogs, server: FilledServer, share: str) -> None:
    server.admin.shares.create(share)
    server.admin.schemas.create(share, "s")
    server.admin.grants.create("alice", share)
    try:
        client = catalog().recipient
        config = json.loads(client.get(f"/v1/config?warehouse={quote(share, safe='')}").body)
        reply = client.get(f"/v1/{config['overrides']['prefix']}/namespaces")
        assert (reply.status, json.loads(reply.body)) == (200, {"namespaces": [["s"]]})
    finally:
        server.admin.shares.delete(share, force=True)


@pytest.mark.parametrize("name", ["alice", "carol"])
@pytest.mark.parametrize("query", ["", "?warehouse=", "?warehouse=secret"])
def test_warehouse_without_grant_is_not_found(catalog: Catalogs, name: str, query: str) -> None:
    refused(catalog(name).recipient.get(f"/v1/config{query}"), 404, "NoSuchWarehouseException")


def test_schemas_are_namespaces_of_one_level(catalog: Catalogs) -> None:
    client = catalog()
    namespaces = json.loads(client.recipient.get(client.namespaces).body)
    assert namespaces == {"namespaces": [["default"], ["empty"]]}
    assert json.loads(client.recipient.get(f"{client.namespaces}?parent=default").body) == {"namespaces": []}
    assert catalog("carol").recipient.get(f"{client.namespaces}?parent=default").status == 404
    refused(client.recipient.get(f"{client.namespaces}?parent=nope"), 404, "NoSuchNamespaceException")
    assert json.loads(client.recipient.get(f"{client.namespaces}/default").body)["namespace"] == ["default"]
    assert client.recipient.ask("HEAD", f"{client.namespaces}/default").status == 204
    assert client.recipient.ask("HEAD", f"{client.namespaces}/other").status == 404
    refused(client.recipient.get(f"{client.namespaces}/other"), 404, "NoSuchNamespaceException")
    refused(client.recipient.get(f"{client.namespaces}/default%1Forders"), 404, "NoSuchNamespaceException")


def test_namespace_has_no_views(catalog: Catalogs) -> None:
    client = catalog()
    reply = client.recipient.get(f"{client.namespaces}/default/views")
    assert (reply.status, json.loads(reply.body)) == (200, {"identifiers": []})
    assert client.recipient.get(f"{client.namespaces}/nope/views").status == 404
    assert catalog("carol").recipient.get(f"{client.namespaces}/default/views").status == 404


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
        ("DELETE", "namespaces/default/tables/signed", 400),
    ],
)
def test_prefix_with_an_encoded_slash_is_redirected(
    catalog: Catalogs, slash: str, method: str, path: str, status: int
) -> None:
    """Some clients encode the prefix as one segment of the path. They follow the redirect."""
    client = catalog()
    endpoint, token = client.recipient.endpoint, client.recipient.token
    replies = [
        httpx.request(
            method, f"{endpoint}/v1/{prefix}/{path}", headers={"Authorization": f"Bearer {token}"}, trust_env=False,
            follow_redirects=True,
        )
        for prefix in ("shares/lent", f"shares{slash}lent")
    ]  # fmt: skip
    assert [reply.status_code for reply in replies] == [status] * 2
    assert replies[0].url == replies[1].url
    assert [redirect.status_code for redirect in replies[1].history] == [308]


def test_open_tables_are_listed(catalog: Catalogs) -> None:
    client = catalog()
    identifiers = json.loads(client.recipient.get(f"{client.namespaces}/default/tables").body)["identifiers"]
    assert {table["name"] for table in identifiers} == {
        "vended", "signed", "with_history", "with_late_history", "of_country", "without_country",
    }  # fmt: skip
    assert {tuple(table["namespace"]) for table in identifiers} == {("default",)}
    assert client.recipient.ask("HEAD", client.table("signed")).status == 204
    assert client.recipient.ask("HEAD", client.table("closed")).status == 404


@pytest.mark.parametrize("name", ["closed", "unknown"])
def test_closed_table_is_not_found(catalog: Catalogs, name: str) -> None:
    refused(catalog().recipient.get(catalog().table(name)), 404, "NoSuchTableException")


def test_unknown_namespace_in_a_table_path_is_no_such_table(catalog: Catalogs) -> None:
    """Spark requests `schema%1Ftable` before it tries the name as one of a table's metadata tables."""
    client = catalog()
    for path in (f"{client.namespaces}/default%1Fsigned/tables/files", "/v1/shares/x/namespaces/y/tables/z"):
        refused(client.recipient.get(path), 404, "NoSuchTableException")


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
def test_writes_are_unsupported_operations(catalog: Catalogs, method: str, path: str) -> None:
    client = catalog()
    reply = client.recipient.ask(method, f"{client.namespaces}{path}", b"{}" if method != "GET" else None)
    refused(reply, 400, "IllegalArgumentException", "read only")


def test_transactions_and_renames_are_refused_too(catalog: Catalogs) -> None:
    for path in ("/v1/shares/lent/tables/rename", "/v1/shares/lent/transactions/commit", "/v1/oauth/tokens"):
        refused(catalog().recipient.post(path, {}), 400, "IllegalArgumentException")


def test_metrics_are_accepted_and_ignored(catalog: Catalogs) -> None:
    client = catalog()
    assert client.recipient.post(f"{client.table('signed')}/metrics", {}).status == 204


def test_missing_or_unknown_token_is_unauthorized(catalog: Catalogs) -> None:
    client = catalog()
    for token in (None, "nobody"):
        reply = Catalog(type(client.recipient)(client.recipient.endpoint, token), "lent").recipient.get(
            client.namespaces
        )
        assert reply.status == 401


@pytest.mark.parametrize(
    ("name", "formats"), [("signed", "delta,iceberg"), ("vended", "delta,iceberg"), ("closed", "delta")]
)
def test_delta_sharing_lists_the_formats_of_a_table(server: FilledServer, name: str, formats: str) -> None:
    reply = server.recipient("alice").get(f"/shares/lent/schemas/default/tables/{name}")
    assert reply.json["format"] == formats
