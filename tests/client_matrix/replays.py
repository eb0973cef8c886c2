"""Clients that cannot run here: their requests, from public source or documentation, sent as they send them.

A replay shows that the server answers in the shape that the client reads, and not what the client makes of it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from client_matrix.abilities import ABILITIES, NO, NOT_TRIED, YES
from client_matrix.tables import READER, SCHEMA, SHARE, Lender
from contract.recipient import Recipient, Reply

DELTA: Final = "responseformat=delta;readerfeatures=deletionvectors,columnmapping"
R: Final[Mapping[str, str]] = {
    "accept": "application/x-ndjson",
    "delta-sharing-capabilities": (
        "responseformat=delta,parquet;readerfeatures=columnmapping,timestampntz;includeendstreamaction=true"
    ),
    "fileidhash": "delta",
}
ROWS: Final = ("protocol", "metaData", "file")


@dataclass(frozen=True)
class Request:
    """A request, and the shape that the client needs of its answer."""

    ability: str
    target: str
    """Path after the endpoint; `{table}` stands for the path of the table that is named after it."""

    table: str = ""
    method: str = "GET"
    body: Mapping[str, Any] | None = None
    lines: tuple[str, ...] = ()
    """Kinds of the first lines."""

    last: str = ""
    """Kind of the last line."""

    fields: tuple[str, ...] = ()
    """Names in the only JSON document, or in the first item of its list."""

    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers of the answer; an empty value stands for any."""


@dataclass(frozen=True)
class Replay:
    """The requests of a client."""

    name: str
    title: str
    source: str
    """Where the requests were read."""

    requests: tuple[Request, ...]
    settings: str
    language: str = "text"
    sends: Mapping[str, str] = field(default_factory=dict)
    """Headers of each request."""

    lacks: Mapping[str, str] = field(default_factory=dict)
    """Abilities that it does not have, and why."""

    unknown: Mapping[str, str] = field(default_factory=dict)
    """Abilities that a replay cannot show, and why."""

    untried: str = "no public source shows its requests"
    """Why other abilities are not tried."""


def _query(ability: str, table: str, body: Mapping[str, Any] | None = None, **shape: Any) -> Request:
    shape.setdefault("lines", ROWS)
    return Request(ability, "{table}/query", table, "POST", body or {}, **shape)


def _lists(*names: str) -> tuple[Request, ...]:
    targets = {
        "shares": "/shares",
        "schemas": f"/shares/{SHARE}/schemas",
        "tables": f"/shares/{SHARE}/schemas/{SCHEMA}/tables",
        "all-tables": f"/shares/{SHARE}/all-tables",
    }
    return tuple(Request("plain", targets[name], fields=("name",)) for name in names)


URLS_ONLY: Final = {
    "Iceberg vended": "it is a client of Delta Sharing",
    "Iceberg signed": "it is a client of Delta Sharing",
    "directory access": "it reads by URL",
}
BY_NAMES: Final = {
    **URLS_ONLY,
    "deletion vectors": "it announces nothing, and the server then refuses such tables by name",
    "column mapping": "it announces nothing, and the server then refuses such tables by name",
}
REPLAYS: Final = (
    Replay(
        "replay_r",
        "R: delta.sharing",
        "github.com/zacdav-db/delta-sharing-r, `R/snapshot-planning.R` and `R/capabilities.R`",
        (
            *_lists("shares", "schemas", "tables"),
            *(
                _query(
                    ability,
                    table,
                    {"maxFiles": 100000, "includeRefreshToken": True},
                    last="endStreamAction",
                    headers={"fileidhash": "delta", "delta-table-version": "", "content-type": "application/x-ndjson"},
                )
                for ability, table in (
                    ("plain", "plain"),
                    ("partitions", "partitioned"),
                    ("column mapping", "column_mapping_name"),
                    ("filters", "of_country"),
                    ("views", "of_each"),
                )
            ),
            _query("time travel", "plain", {"version": 1, "maxFiles": 100000}, headers={"fileidhash": "delta"}),
        ),
        'sharing_client("alice.share")',
        "r",
        R,
        {
            **URLS_ONLY,
            "deletion vectors": "it does not announce them, and the server then refuses such tables by name",
        },
        untried="its requests were not read",
    ),
    Replay(
        "replay_java",
        "Java: delta-sharing-java-connector",
        "github.com/databrickslabs/delta-sharing-java-connector, `DeltaSharing.java`",
        (
            *_lists("shares", "all-tables"),
            Request("plain", "{table}/metadata", "plain", lines=("protocol", "metaData")),
            _query("plain", "plain", {"predicateHints": []}),
            _query("filters", "of_country", {"predicateHints": []}),
            _query("views", "of_each", {"predicateHints": []}),
        ),
        "new DeltaSharing(profileJson, checkpointLocation).getAllRecords(table)",
        "java",
        {},
        {
            **BY_NAMES,
            "time travel": "it has no versions",
            "change feed": "it has no function for it",
            "OAuth profile": "it reads only profiles with a token",
        },
        {"partitions": "by its source, rows lack partition columns (`TableReader.java`)"},
    ),
    Replay(
        "replay_tableau",
        "Tableau: Databricks' connector",
        "github.com/eric-wang-1990/tableau-delta-sharing-connector-oauth, `connector/handlers/MyFetcher.ts`; "
        "that version reads only tables of one file",
        (
            *_lists("shares", "schemas", "tables"),
            _query("plain", "plain", {"limitHint": 1000}),
            _query("filters", "of_country", {"predicateHints": ["country = 'FI'"], "limitHint": 1000}),
            _query("views", "of_each", {"limitHint": 1000}),
        ),
        "endpoint and token of alice.share",
        "text",
        {},
        {**BY_NAMES, "time travel": "it has no versions", "change feed": "it has no function for it"},
        {"partitions": "by its source, rows lack partition columns"},
    ),
    Replay(
        "replay_duckdb",
        "DuckDB: extension of prequel-co",
        "github.com/prequel-co/duckdb-delta-sharing, `src/delta_sharing_client.cpp`",
        (
            *_lists("shares", "schemas", "tables", "all-tables"),
            Request("plain", f"/shares/{SHARE}", fields=("share",)),
            *(
                request
                for ability, table in (
                    ("plain", "plain"),
                    ("partitions", "partitioned"),
                    ("deletion vectors", "deletion_vectors"),
                    ("deletion vectors", "deletion_vectors_inline"),
                    ("column mapping", "column_mapping_name"),
                    ("filters", "of_country"),
                    ("views", "of_each"),
                )
                for request in (
                    Request(ability, "{table}", table, "HEAD", headers={"delta-table-version": ""}),
                    Request(ability, "{table}/metadata", table, lines=("protocol", "metaData")),
                    _query(ability, table),
                )
            ),
        ),
        "SET delta_sharing_endpoint = '...';\nSET delta_sharing_bearer_token = '...';",
        "sql",
        {"accept": "application/x-ndjson,application/json", "delta-sharing-capabilities": DELTA},
        {
            "Iceberg vended": "it is a client of Delta Sharing",
            "Iceberg signed": "it is a client of Delta Sharing",
            "directory access": "it refuses tables without URLs",
            "OAuth profile": "it takes a token only",
        },
        untried="its requests were not read",
    ),
    Replay(
        "replay_snowflake",
        "Snowflake: `CATALOG_SOURCE = DELTA_SHARING`",
        "docs.snowflake.com, `CREATE CATALOG INTEGRATION (Delta Sharing)`; the paths are those of the protocol",
        (
            *_lists("schemas", "tables"),
            Request(
                "directory access", "{table}/temporary-table-credentials", "plain", "POST", {}, fields=("credentials",)
            ),
            Request("plain", "{table}/temporary-table-credentials", "plain", "POST", {}, fields=("credentials",)),
        ),
        "CREATE CATALOG INTEGRATION sales CATALOG_SOURCE = DELTA_SHARING TABLE_FORMAT = DELTA ENABLED = TRUE\n"
        "  REST_CONFIG = (CATALOG_URI = '{endpoint}' CATALOG_NAME = 'shares/sales_share'\n"
        "    ACCESS_DELEGATION_MODE = VENDED_CREDENTIALS)\n"
        "  REST_AUTHENTICATION = (TYPE = BEARER BEARER_TOKEN = '...');",
        "sql",
        {},
        {
            "filters": "it reads by directory access, which filtered recipients do not get",
            "views": "it reads by directory access, which views do not have",
            "Iceberg vended": "it is another integration of Snowflake",
            "Iceberg signed": "it takes credentials only",
            "change feed": "it has no function for it",
        },
        untried="Snowflake reads the files itself",
    ),
    *(
        Replay(name, title, "none was found", (), settings)
        for name, title, settings in (
            ("replay_power_bi", "Power BI", "Get data, Delta Sharing: endpoint and token of alice.share"),
            ("replay_excel", "Excel", "endpoint and token of alice.share"),
            ("replay_bigquery", "BigQuery", "endpoint and token of alice.share"),
            ("replay_databricks", "Databricks as recipient", "Catalog Explorer, Import data: alice.share"),
        )
    ),
)


def replay(client: Replay, lender: Lender) -> dict[str, Any]:
    """Send the requests of a client; return its results."""
    recipient = Recipient(lender.server.endpoint, lender.server.readers[READER].token, client.sends)
    faults: dict[str, list[str]] = {}
    for request in client.requests:
        path = f"/shares/{SHARE}/schemas/{SCHEMA}/tables/{request.table}"
        target = request.target.replace("{table}", path)
        body = request.body
        reply = recipient.ask(request.method, target) if body is None else recipient.post(target, body)
        faults.setdefault(request.ability, []).extend(check(request, reply))
    abilities = {}
    for ability in ABILITIES:
        if ability in faults:
            abilities[ability] = {"outcome": NO if faults[ability] else YES, "reasons": faults[ability]}
        elif ability in client.lacks:
            abilities[ability] = {"outcome": NO, "reasons": [client.lacks[ability]]}
        else:
            abilities[ability] = {"outcome": NOT_TRIED, "reasons": [client.unknown.get(ability, client.untried)]}
    return {"version": "by replay" if client.requests else "not tried", "abilities": abilities}


def check(request: Request, reply: Reply) -> list[str]:
    """Return how an answer differs from what the client needs."""
    if reply.status != 200:
        return [f"{request.method} {request.target} of {request.table}: {reply.status}"]
    faults = [
        f"{request.target}: header {name}"
        for name, value in request.headers.items()
        if not reply.headers.get(name, "").startswith(value) or name not in reply.headers
    ]
    if request.lines:
        kinds = [next(iter(line)) for line in reply.lines]
        if tuple(kinds[: len(request.lines)]) != request.lines or (request.last and kinds[-1] != request.last):
            faults.append(f"{request.target}: lines {kinds}")
    if request.fields:
        document = json.loads(reply.body)
        first = document["items"][0] if "items" in document else document
        faults += [f"{request.target}: without {name}" for name in request.fields if name not in first]
    return faults
