"""Checks of the door for Iceberg's clients: a REST catalog that is read only, whose warehouses are the shares."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any
from urllib.parse import quote

import httpx

from delta_sharing_conformance import expect
from delta_sharing_conformance.check import Fails, NotTried, check
from delta_sharing_conformance.client import Reply, SharingClient
from delta_sharing_conformance.listings import ABSENT
from delta_sharing_conformance.shared import Shared

SECTION = "OpenSharing, Access Iceberg Tables"
_LEVEL = "\x1f"
"""Between the levels of a namespace in a path (Iceberg's REST catalog, "namespace-separator")."""

_READS = (
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


@check(SECTION)
def configures_a_catalog_of_each_share(shared: Shared) -> str:
    """Answer GET {icebergEndpoint}/v1/config?warehouse={share} with defaults, overrides that name prefix, endpoints."""
    for share in _shares(shared):
        told = _configuration(shared, share)
        lacks = [one for one in _READS if one not in told["endpoints"]]
        expect.that(not lacks, f"the configuration of {share} has no endpoint {lacks[:1]}")
    return f"{len(shared.shares)} shares"


@check(SECTION)
def a_share_that_does_not_exist_is_no_warehouse(shared: Shared) -> str:
    """Answer 404 in Iceberg's shape to a warehouse that no share is."""
    _shares(shared)
    _refused(_door(shared).get("/v1/config", warehouse=ABSENT), 404)
    return "1 request"


@check(SECTION)
def namespaces_are_schemas(shared: Shared) -> str:
    """List as namespaces schemas of the share, of one level each, and answer GET of each with itself."""
    count = 0
    for share in _shares(shared):
        prefix, schemas = _prefix(shared, share), {schema for place, schema in shared.schemas if place == share}
        for namespace in _namespaces(shared, share):
            expect.that(len(namespace) == 1, f"{share} has a namespace of {len(namespace)} levels")
            expect.that(namespace[0] in schemas, f"{share} has a namespace that is no schema: {namespace[0]}")
            told = _told(_door(shared).get(_path(prefix, namespace)), {"namespace": list})
            expect.that(told["namespace"] == [*namespace], f"GET of the namespace {namespace[0]} tells another")
            count += 1
    if not count:
        raise NotTried("no share that the profile sees has a namespace")
    return f"{count} namespaces"


@check(SECTION)
def lists_tables_by_their_identifiers(shared: Shared) -> str:
    """List in a namespace identifiers of a namespace and a name, each once."""
    found = _tables(shared)
    names = [(share, *namespace, name) for share, namespace, name in found]
    expect.that(len({*names}) == len(names), "a table is listed twice")
    return f"{len(found)} tables"


@check(SECTION)
def loads_tables_with_their_metadata(shared: Shared) -> str:
    """Answer GET of a listed table with metadata of format version 1, 2 or 3 whose schema and snapshot are in it."""
    for share, namespace, name in (found := _tables(shared)):
        told = _told(_door(shared).get(_table(shared, share, namespace, name)), {"metadata": dict})
        metadata = expect.typed("metadata", told["metadata"], _METADATA)
        what = f"the metadata of {namespace[0]}.{name}"
        expect.that(metadata["format-version"] in {1, 2, 3}, f"{what} are of no known format version")
        schemas = [one.get("schema-id") for one in metadata["schemas"]]
        expect.that(metadata["current-schema-id"] in schemas, f"{what} lack the current schema")
        specs = [one.get("spec-id") for one in metadata["partition-specs"]]
        expect.that(metadata["default-spec-id"] in specs, f"{what} lack the default partition spec")
        current = metadata.get("current-snapshot-id")
        known = [one.get("snapshot-id") for one in metadata.get("snapshots", [])]
        expect.that(current in (None, -1) or current in known, f"{what} lack the current snapshot")
    return f"{len(found)} tables"


@check(SECTION)
def what_is_in_no_catalog_is_not_found(shared: Shared) -> str:
    """Answer 404 with the types of Iceberg to namespaces and tables that are not there."""
    share, namespace, _ = _tables(shared)[0]
    prefix, door = _prefix(shared, share), _door(shared)
    _refused(door.get(_path(prefix, [ABSENT])), 404, "NoSuchNamespaceException")
    for place in (namespace, [ABSENT]):
        _refused(door.get(f"{_path(prefix, place)}/tables/{ABSENT}"), 404, "NoSuchTableException")
    return "3 requests"


@check(SECTION)
def refuses_commits(shared: Shared) -> str:
    """Answer 4xx to a commit of a table, here one that would change nothing: what is shared is read only."""
    path = _table(shared, *_tables(shared)[0])
    reply = _door(shared).ask("POST", path, body={"requirements": [], "updates": []})
    expect.that(httpx.codes.is_client_error(reply.status), f"{reply}, not 4xx")
    return "1 request"


@check(SECTION)
def its_401_is_of_Icebergs_shape(shared: Shared) -> str:  # noqa: N802 -- a name
    """Answer 401 in Iceberg's shape to who comes without a bearer token or with a wrong one."""
    share = _shares(shared)[0]
    for header in ({"Authorization": ""}, {"Authorization": f"Bearer {ABSENT}"}):
        _refused(_door(shared).ask("GET", "/v1/config", parameters={"warehouse": share}, headers=header), 401)
    return "2 requests"


def _door(shared: Shared) -> SharingClient:
    return replace(shared.client, endpoint=shared.client.iceberg)


def _shares(shared: Shared) -> list[str]:
    if not shared.client.iceberg:
        raise NotTried("the profile names no icebergEndpoint, or another endpoint than its own was asked")
    if not shared.shares:
        raise NotTried("the profile sees no share")
    return shared.shares


@lru_cache(maxsize=128)  # each request has its prefix
def _configuration(shared: Shared, share: str) -> Mapping[str, Any]:
    reply = _door(shared).get("/v1/config", warehouse=share)
    told = _told(reply, {"defaults": dict, "overrides": dict, "endpoints": list})
    expect.typed("overrides", told["overrides"], {"prefix": str})
    return told


def _prefix(shared: Shared, share: str) -> str:
    return str(_configuration(shared, share)["overrides"]["prefix"])


def _path(prefix: str, namespace: Namespace) -> str:
    return f"/v1/{quote(prefix)}/namespaces/{quote(_LEVEL.join(namespace), safe='')}"


def _table(shared: Shared, share: str, namespace: Namespace, name: str) -> str:
    return f"{_path(_prefix(shared, share), namespace)}/tables/{quote(name, safe='')}"


def _namespaces(shared: Shared, share: str) -> list[Namespace]:
    reply = _door(shared).get(f"/v1/{quote(_prefix(shared, share))}/namespaces")
    found = _told(reply, {"namespaces": list})["namespaces"]
    for one in found:
        if not isinstance(one, list) or not all(isinstance(level, str) for level in one):
            raise Fails(f"{reply} with a namespace that is no list of names")
    return list(found)


def _tables(shared: Shared) -> list[tuple[str, Namespace, str]]:
    found = []
    for share in _shares(shared):
        for namespace in _namespaces(shared, share):
            reply = _door(shared).get(f"{_path(_prefix(shared, share), namespace)}/tables")
            for item in _told(reply, {"identifiers": list})["identifiers"]:
                told = expect.typed("an identifier", item, {"namespace": list, "name": str})
                expect.that(told["namespace"] == namespace, f"{reply} with a table of another namespace")
                found.append((share, namespace, told["name"]))
    if not found:
        raise NotTried("no table that the profile sees is open to Iceberg's clients")
    return found


def _told(reply: Reply, keys: expect.Keys) -> Mapping[str, Any]:
    expect.answered(reply)
    expect.that(reply.media.startswith(expect.JSON), f"{reply} with Content-Type {reply.media or 'none'}")
    return expect.typed("the answer", reply.json, keys)


def _refused(reply: Reply, status: int, kind: str = "") -> None:
    """Expect Iceberg's error object (REST catalog, "ErrorModel")."""
    expect.that(reply.status == status, f"{reply}, not {status}")
    told = expect.typed("the answer", reply.json, {"error": dict})["error"]
    expect.typed("its error", told, {"message": str, "type": str, "code": int})
    expect.that(told["code"] == status, f"{reply} with an error of the code {told['code']}")
    expect.that(told["type"] == kind or not kind, f"{reply} with an error of the type {told['type'][:60]}, not {kind}")
