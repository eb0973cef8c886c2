"""Checks of the read-only Iceberg REST catalog, in which each share is a warehouse."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any
from urllib.parse import quote

import httpx

from delta_sharing_conformance import expect
from delta_sharing_conformance.catalog import Catalog
from delta_sharing_conformance.check import CheckFailed, CheckSkipped, check
from delta_sharing_conformance.client import Reply, SharingClient
from delta_sharing_conformance.listings import ABSENT

SECTION = "OpenSharing, Access Iceberg Tables"
_SEPARATOR = "\x1f"
"""Separator of a namespace's levels in a URL path (Iceberg REST catalog, "namespace-separator")."""

_READ_ENDPOINTS = (
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
)
_METADATA: expect.Keys = {
    "format-version": int,
    "table-uuid": str,
    "location": str,
    "schemas": list,
    "current-schema-id": int,
    "partition-specs": list,
    "default-spec-id": int,
}

Namespace = Sequence[str]


@check(SECTION, id="configures a catalog of each share")
def every_share_is_a_warehouse(catalog: Catalog) -> str:
    """Respond to GET {icebergEndpoint}/v1/config?warehouse={share} with defaults, endpoints, and overrides.prefix."""
    for share in _shares(catalog):
        endpoints = _configuration(catalog, share)["endpoints"]
        missing = [endpoint for endpoint in _READ_ENDPOINTS if endpoint not in endpoints]
        expect.that(not missing, f"the configuration of {share} has no endpoint {missing[:1]}")
    return f"{len(catalog.shares)} shares"


@check(SECTION, id="a share that does not exist is no warehouse")
def missing_warehouse_returns_404(catalog: Catalog) -> str:
    """Return 404 in the Iceberg error format for an unknown warehouse."""
    _shares(catalog)
    _check_error(_client(catalog).get("/v1/config", warehouse=ABSENT), 404)
    return "1 request"


@check(SECTION)
def namespaces_are_schemas(catalog: Catalog) -> str:
    """List schemas of the share as namespaces with one level, and return each by its name."""
    count = 0
    for share in _shares(catalog):
        prefix, schemas = _prefix(catalog, share), {schema for owner, schema in catalog.schemas if owner == share}
        for namespace in _namespaces(catalog, share):
            expect.that(len(namespace) == 1, f"{share} has a namespace of {len(namespace)} levels")
            expect.that(namespace[0] in schemas, f"{share} has a namespace that is not a schema: {namespace[0]}")
            entry = _fields(_client(catalog).get(_path(prefix, namespace)), {"namespace": list})
            expect.that(entry["namespace"] == [*namespace], f"GET of the namespace {namespace[0]} returns another one")
            count += 1
    if not count:
        raise CheckSkipped("no share has a namespace")
    return f"{count} namespaces"


@check(SECTION, id="lists tables by their identifiers")
def table_identifiers_are_unique(catalog: Catalog) -> str:
    """List each table of a namespace once, by namespace and name."""
    tables = _tables(catalog)
    names = [(share, *namespace, name) for share, namespace, name in tables]
    expect.that(len({*names}) == len(names), "a table is listed twice")
    return f"{len(tables)} tables"


@check(SECTION, id="loads tables with their metadata")
def table_metadata_is_complete(catalog: Catalog) -> str:
    """Return metadata of format version 1, 2 or 3 that includes the current schema, partition spec and snapshot."""
    for share, namespace, name in (tables := _tables(catalog)):
        response = _fields(_client(catalog).get(_table_path(catalog, share, namespace, name)), {"metadata": dict})
        metadata = expect.fields("metadata", response["metadata"], _METADATA)
        label = f"the metadata of {namespace[0]}.{name}"
        expect.that(metadata["format-version"] in {1, 2, 3}, f"{label} has an unknown format version")
        schemas = [schema.get("schema-id") for schema in metadata["schemas"]]
        expect.that(metadata["current-schema-id"] in schemas, f"{label} lacks the current schema")
        specs = [spec.get("spec-id") for spec in metadata["partition-specs"]]
        expect.that(metadata["default-spec-id"] in specs, f"{label} lacks the default partition spec")
        current = metadata.get("current-snapshot-id")
        snapshots = [snapshot.get("snapshot-id") for snapshot in metadata.get("snapshots", [])]
        expect.that(current in (None, -1) or current in snapshots, f"{label} lacks the current snapshot")
    return f"{len(tables)} tables"


@check(SECTION, id="what is in no catalog is not found")
def missing_namespaces_and_tables_return_404(catalog: Catalog) -> str:
    """Return 404 with the Iceberg error types for unknown namespaces and tables."""
    share, namespace, _ = _tables(catalog)[0]
    prefix, client = _prefix(catalog, share), _client(catalog)
    _check_error(client.get(_path(prefix, [ABSENT])), 404, "NoSuchNamespaceException")
    for parent in (namespace, [ABSENT]):
        _check_error(client.get(f"{_path(prefix, parent)}/tables/{ABSENT}"), 404, "NoSuchTableException")
    return "3 requests"


@check(SECTION, id="refuses commits")
def commits_are_rejected(catalog: Catalog) -> str:
    """Return 4xx for a commit to a table, because the catalog is read-only. The check sends an empty commit."""
    path = _table_path(catalog, *_tables(catalog)[0])
    reply = _client(catalog).ask("POST", path, body={"requirements": [], "updates": []})
    expect.that(httpx.codes.is_client_error(reply.status), f"{reply}, not 4xx")
    return "1 request"


@check(SECTION, id="its 401 is of Icebergs shape")
def a_401_response_has_the_Iceberg_error_format(catalog: Catalog) -> str:  # noqa: N802 -- a name
    """Return 401 in the Iceberg error format for a missing or unknown bearer token."""
    share = _shares(catalog)[0]
    for header in ({"Authorization": ""}, {"Authorization": f"Bearer {ABSENT}"}):
        _check_error(_client(catalog).ask("GET", "/v1/config", parameters={"warehouse": share}, headers=header), 401)
    return "2 requests"


def _client(catalog: Catalog) -> SharingClient:
    return replace(catalog.client, endpoint=catalog.client.iceberg)


def _shares(catalog: Catalog) -> list[str]:
    if not catalog.client.iceberg:
        raise CheckSkipped("the profile has no icebergEndpoint, or URL is another endpoint than that of the profile")
    if not catalog.shares:
        raise CheckSkipped("no shares")
    return catalog.shares


@lru_cache(maxsize=128)  # every request needs the prefix
def _configuration(catalog: Catalog, share: str) -> Mapping[str, Any]:
    reply = _client(catalog).get("/v1/config", warehouse=share)
    configuration = _fields(reply, {"defaults": dict, "overrides": dict, "endpoints": list})
    expect.fields("overrides", configuration["overrides"], {"prefix": str})
    return configuration


def _prefix(catalog: Catalog, share: str) -> str:
    return str(_configuration(catalog, share)["overrides"]["prefix"])


def _path(prefix: str, namespace: Namespace) -> str:
    return f"/v1/{quote(prefix)}/namespaces/{quote(_SEPARATOR.join(namespace), safe='')}"


def _table_path(catalog: Catalog, share: str, namespace: Namespace, name: str) -> str:
    return f"{_path(_prefix(catalog, share), namespace)}/tables/{quote(name, safe='')}"


def _namespaces(catalog: Catalog, share: str) -> list[Namespace]:
    reply = _client(catalog).get(f"/v1/{quote(_prefix(catalog, share))}/namespaces")
    namespaces = _fields(reply, {"namespaces": list})["namespaces"]
    for namespace in namespaces:
        if not isinstance(namespace, list) or not all(isinstance(level, str) for level in namespace):
            raise CheckFailed(f"{reply} with a namespace that is not a list of names")
    return list(namespaces)


def _tables(catalog: Catalog) -> list[tuple[str, Namespace, str]]:
    tables = []
    for share in _shares(catalog):
        for namespace in _namespaces(catalog, share):
            reply = _client(catalog).get(f"{_path(_prefix(catalog, share), namespace)}/tables")
            for item in _fields(reply, {"identifiers": list})["identifiers"]:
                table = expect.fields("an identifier", item, {"namespace": list, "name": str})
                expect.that(table["namespace"] == namespace, f"{reply} with a table of another namespace")
                tables.append((share, namespace, table["name"]))
    if not tables:
        raise CheckSkipped("no shared table is available to Iceberg clients")
    return tables


def _fields(reply: Reply, keys: expect.Keys) -> Mapping[str, Any]:
    expect.ok(reply)
    expect.that(reply.media.startswith(expect.JSON), f"{reply} with Content-Type {reply.media or 'none'}")
    return expect.fields("the response", reply.json, keys)


def _check_error(reply: Reply, status: int, kind: str = "") -> None:
    """Expect a response with this status and an error object of the Iceberg REST catalog ("ErrorModel")."""
    expect.that(reply.status == status, f"{reply}, not {status}")
    error = expect.fields("the response", reply.json, {"error": dict})["error"]
    expect.fields("the error", error, {"message": str, "type": str, "code": int})
    expect.that(error["code"] == status, f"{reply} with error code {error['code']}")
    expect.that(error["type"] == kind or not kind, f"{reply} with error type {error['type'][:60]}, not {kind}")
