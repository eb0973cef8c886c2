"""A defect for each check of OpenSharing."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
from conformance.defects import Defect, Exchange, Line, document, item, status, when, without
from delta_sharing_conformance.listings import ABSENT


def on(pattern: str, **query: str) -> Callable[[Exchange], bool]:
    """Return a condition on the path, as a pattern, and on query parameters."""
    return lambda exchange: bool(re.fullmatch(pattern, exchange.path)) and query.items() <= exchange.query.items()


def with_fields(**fields: Any) -> Callable[[Line], Line]:
    """Return a function that sets fields."""
    return lambda entry: {**entry, **fields}


def without_first_item(page: Line) -> Line:
    return {**page, "items": page["items"][1:]}


def iceberg_error(change: Callable[[Line], Line]) -> Defect:
    """Change the error object of an Iceberg response."""
    return lambda exchange: replace(
        exchange, content=json.dumps({"error": change(json.loads(exchange.content)["error"])}).encode()
    )


def is_about_missing_item(exchange: Exchange) -> bool:
    return ABSENT in exchange.path


NESTED: Defect = document(lambda fields: {"credentials": fields})
SHARE_LISTING, LISTING = "/shares/[^/]+/all-{0}s", "/shares/[^/]+/schemas/[^/]+/{0}s"
ITEM = LISTING + "/[^/]+"
ICEBERG = "/iceberg/v1/shares/first/namespaces"


def _asset_defects(kind: str, credentials: str) -> dict[str, Defect]:
    return {
        f"lists {kind}s": when(on(SHARE_LISTING.format(kind)), item(without("schema"))),
        f"pages of {kind}s are the listing": when(
            on(LISTING.format(kind), maxResults="1"), document(without("nextPageToken"))
        ),
        f"all {kind}s are those of the schemas": when(on(LISTING.format(kind)), document(without_first_item)),
        f"gets a {kind} by its name": when(on(ITEM.format(kind)), document(lambda fields: {kind: fields})),
        f"{kind}s that do not exist are not found": when(
            lambda exchange: is_about_missing_item(exchange) and exchange.path.endswith(credentials), status(403)
        ),
    }


OPENSHARING_DEFECTS: dict[str, Defect] = {
    "gets a table by its name": when(on(ITEM.format("table")), document(lambda fields: {"table": fields})),
    "tells the formats of a table": when(on(ITEM.format("table")), document(with_fields(format="parquet"))),
    "tables that do not exist are not found": when(
        lambda exchange: on(ITEM.format("table"))(exchange) and is_about_missing_item(exchange), status(200)
    ),
    **_asset_defects("volume", "temporary-volume-credentials"),
    "credentials of volumes are given": when(lambda exchange: exchange.path.endswith("volume-credentials"), NESTED),
    **_asset_defects("skill", "temporary-skill-credentials"),
    "skills are named as their folders": when(
        on(SHARE_LISTING.format("skill")),
        item(lambda fields: {**fields, "storageLocation": f"{fields['storageLocation']}/files"}),
    ),
    "skills tell of themselves in texts": when(
        on(SHARE_LISTING.format("skill")), item(with_fields(description="x" * 1025))
    ),
    "credentials of skills are given": when(
        lambda exchange: exchange.path.endswith("skill-credentials"), document(with_fields(expirationTime=1_000))
    ),
    **_asset_defects("model", "temporary-model-version-credentials"),
    "lists versions that are ready": when(
        on(ITEM.format("model") + "/versions"), item(with_fields(status="PENDING_REGISTRATION"))
    ),
    "pages of versions are the listing": when(
        on(ITEM.format("model") + "/versions", maxResults="0"),
        lambda exchange: replace(exchange, content=b'{"items": [{}]}'),
    ),
    "gets a version by its number": when(on(ITEM.format("model") + "/versions/1"), document(with_fields(version=2))),
    "versions that do not exist are not found": when(
        lambda exchange: "/versions/9" in exchange.path and exchange.method == "GET", status(200)
    ),
    "credentials of versions are given": when(
        lambda exchange: exchange.path.endswith("version-credentials"), document(without("awsTempCredentials"))
    ),
    "configures a catalog of each share": when(
        on("/iceberg/v1/config"), document(lambda fields: {**fields, "endpoints": fields["endpoints"][:1]})
    ),
    "a share that does not exist is no warehouse": when(
        lambda exchange: exchange.query.get("warehouse") == ABSENT,
        lambda exchange: replace(exchange, content=b'{"errorCode": "X"}'),
    ),
    "namespaces are schemas": when(on(ICEBERG), document(with_fields(namespaces=[["plain", "below"]]))),
    "lists tables by their identifiers": when(
        on(ICEBERG + "/[^/]+/tables"), document(lambda fields: {"identifiers": fields["identifiers"] * 2})
    ),
    "loads tables with their metadata": when(
        on(ICEBERG + "/[^/]+/tables/[^/]+"),
        document(lambda fields: {**fields, "metadata": {**fields["metadata"], "current-snapshot-id": 17}}),
    ),
    "what is in no catalog is not found": when(
        lambda exchange: is_about_missing_item(exchange) and "/namespaces/" in exchange.path,
        iceberg_error(with_fields(type="NoSuchNamespaceException")),
    ),
    "refuses commits": when(
        lambda exchange: exchange.method == "POST" and on(ICEBERG + "/[^/]+/tables/[^/]+")(exchange), status(200)
    ),
    "its 401 is of Icebergs shape": when(
        lambda exchange: exchange.path.startswith("/iceberg") and exchange.status == httpx.codes.UNAUTHORIZED,
        iceberg_error(without("type")),
    ),
}
