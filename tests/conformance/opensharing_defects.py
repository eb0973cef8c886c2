"""How a server is wrong in one thing that OpenSharing says: a defect for each check of the kit's chapters on it."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
from conformance.wrong import Defect, Exchange, Line, item, said, status, when, without
from delta_sharing_conformance.listings import ABSENT


def on(pattern: str, **query: str) -> Callable[[Exchange], bool]:
    """Tell whether an exchange's whole path is as this pattern and has these parameters."""
    return lambda seen: bool(re.fullmatch(pattern, seen.path)) and query.items() <= seen.query.items()


def but(**fields: Any) -> Callable[[Line], Line]:
    """Return a function that gives keys other values."""
    return lambda told: {**told, **fields}


def fewer(told: Line) -> Line:
    return {**told, "items": told["items"][1:]}


def iceberg_error(change: Callable[[Line], Line]) -> Defect:
    """Change the error object of Iceberg's shape, whatever the status."""
    return lambda seen: replace(seen, content=json.dumps({"error": change(json.loads(seen.content)["error"])}).encode())


def missing(seen: Exchange) -> bool:
    return ABSENT in seen.path


NESTED: Defect = said(lambda told: {"credentials": told})
FLAT, LISTING = "/shares/[^/]+/all-{0}s", "/shares/[^/]+/schemas/[^/]+/{0}s"
ONE = LISTING + "/[^/]+"
ICEBERG = "/iceberg/v1/shares/first/namespaces"


def _of_asset(kind: str, credentials: str) -> dict[str, Defect]:
    return {
        f"lists {kind}s": when(on(FLAT.format(kind)), item(without("schema"))),
        f"pages of {kind}s are the listing": when(
            on(LISTING.format(kind), maxResults="1"), said(without("nextPageToken"))
        ),
        f"all {kind}s are those of the schemas": when(on(LISTING.format(kind)), said(fewer)),
        f"gets a {kind} by its name": when(on(ONE.format(kind)), said(lambda told: {kind: told})),
        f"{kind}s that do not exist are not found": when(
            lambda seen: missing(seen) and seen.path.endswith(credentials), status(403)
        ),
    }


OPENSHARING_DEFECTS: dict[str, Defect] = {
    "gets a table by its name": when(on(ONE.format("table")), said(lambda told: {"table": told})),
    "tells the formats of a table": when(on(ONE.format("table")), said(but(format="parquet"))),
    "tables that do not exist are not found": when(
        lambda seen: on(ONE.format("table"))(seen) and missing(seen), status(200)
    ),
    **_of_asset("volume", "temporary-volume-credentials"),
    "credentials of volumes are given": when(lambda seen: seen.path.endswith("volume-credentials"), NESTED),
    **_of_asset("skill", "temporary-skill-credentials"),
    "skills are named as their folders": when(
        on(FLAT.format("skill")), item(lambda told: {**told, "storageLocation": f"{told['storageLocation']}/files"})
    ),
    "skills tell of themselves in texts": when(on(FLAT.format("skill")), item(but(description="x" * 1025))),
    "credentials of skills are given": when(
        lambda seen: seen.path.endswith("skill-credentials"), said(but(expirationTime=1_000))
    ),
    **_of_asset("model", "temporary-model-version-credentials"),
    "lists versions that are ready": when(
        on(ONE.format("model") + "/versions"), item(but(status="PENDING_REGISTRATION"))
    ),
    "pages of versions are the listing": when(
        on(ONE.format("model") + "/versions", maxResults="0"), lambda seen: replace(seen, content=b'{"items": [{}]}')
    ),
    "gets a version by its number": when(on(ONE.format("model") + "/versions/1"), said(but(version=2))),
    "versions that do not exist are not found": when(
        lambda seen: "/versions/9" in seen.path and seen.method == "GET", status(200)
    ),
    "credentials of versions are given": when(
        lambda seen: seen.path.endswith("version-credentials"), said(without("awsTempCredentials"))
    ),
    "configures a catalog of each share": when(
        on("/iceberg/v1/config"), said(lambda told: {**told, "endpoints": told["endpoints"][:1]})
    ),
    "a share that does not exist is no warehouse": when(
        lambda seen: seen.query.get("warehouse") == ABSENT, lambda seen: replace(seen, content=b'{"errorCode": "X"}')
    ),
    "namespaces are schemas": when(on(ICEBERG), said(but(namespaces=[["plain", "below"]]))),
    "lists tables by their identifiers": when(
        on(ICEBERG + "/[^/]+/tables"), said(lambda told: {"identifiers": told["identifiers"] * 2})
    ),
    "loads tables with their metadata": when(
        on(ICEBERG + "/[^/]+/tables/[^/]+"),
        said(lambda told: {**told, "metadata": {**told["metadata"], "current-snapshot-id": 17}}),
    ),
    "what is in no catalog is not found": when(
        lambda seen: missing(seen) and "/namespaces/" in seen.path,
        iceberg_error(but(type="NoSuchNamespaceException")),
    ),
    "refuses commits": when(
        lambda seen: seen.method == "POST" and on(ICEBERG + "/[^/]+/tables/[^/]+")(seen), status(200)
    ),
    "its 401 is of Icebergs shape": when(
        lambda seen: seen.path.startswith("/iceberg") and seen.status == httpx.codes.UNAUTHORIZED,
        iceberg_error(without("type")),
    ),
}
