"""Attribute downloads from S3 to requests, in one table with a row for each request and each download.

A URL is signed in an AWS session for one recipient and contains the time of signing. Recipient, time and folder
identify the request, or a few requests within the same second. Credentials for directory access contain no time, so
such a download is attributed to the request whose credentials were valid, if there is only one. A download without a
request still has a recipient, from the session's name, and a table, from its location in the catalog (decision 60).

The SQL runs in Spark and, with small replacements, in DuckDB.
"""

# ruff: noqa: S608 -- the SQL has names of columns, and literals of days and roles
import re
from collections.abc import Sequence
from typing import Final

from deltaic.storage.sessions import READER_SESSION

from deltaic_pipeline.spark.quoting import literal
from deltaic_pipeline.usage_log.log_lines import COLUMNS, FETCH_COLUMNS, REQUEST_COLUMNS

COMMENTS: Final = {
    "kind": "request: a request to the server; fetch: a request to S3 for an object or a listing",
    "request_id": "The request; for a fetch, the request that signed it, if only one is possible",
    "explained_by": "Number of requests that can have signed a fetch; 0: none is known",
    "operation": "The server's endpoint, or the operation by its name in S3",
    "ended": "How the answer ended: whole, refused, failed (broken off by the server), abandoned (by the reader)",
    "bytes_sent": "Bytes that S3 sent for this fetch",
    "files_signed": "Number of files with URLs in the response",
    "bytes_signed": "Total size of these files",
    "predicates": "Columns and operators of the request's filters, without values",
    "session": "The session that signed, as in S3's requester",
    "locations": "Locations of the table at the time of the request",
}

CREDENTIAL_ENDPOINTS: Final = (
    "'create_table_credentials', 'load_iceberg_table', 'create_volume_credentials', 'create_skill_credentials', "
    "'create_model_credentials'"
)
SKEW: Final = "INTERVAL '1' MINUTE"
"""Maximum difference between the clocks of S3 and of the Lambda functions."""


COUNTS: Final = (
    "count(CASE WHEN kind = 'request' THEN 1 END) AS requests",
    "count(CASE WHEN kind = 'fetch' THEN 1 END) AS fetches",
    "count(CASE WHEN kind = 'fetch' AND request_id IS NOT NULL THEN 1 END) AS explained",
    "count(CASE WHEN kind = 'fetch' AND explained_by = 0 THEN 1 END) AS unexplained",
    "coalesce(sum(bytes_sent), 0) AS bytes_sent",
    "count(DISTINCT recipient_id) AS recipients",
)
"""SQL for the counts of a summary, over the usage table's rows."""

READ_OFTEN: Final = frozenset({"known_requests", "downloads", "usage_rows"})
"""Views that are read several times, so that engines should compute them once."""

_ROLE: Final = re.compile(r"[\w+=,.@-]+")
_REQUEST: Final = tuple(f"`{name}`" for name in REQUEST_COLUMNS)
_FETCH: Final = tuple(f"`{name}`" for name in FETCH_COLUMNS if name != "role")
_TABLE: Final = ("share", "schema", "table", "table_id")
_CAUSE: Final = ("token_id", *_TABLE, "recipient")
"""Columns that a download gets from its request."""


def views(roles: Sequence[str], since: str) -> dict[str, str]:
    """Return SQL of the views whose last, `usage_rows`, has the usage table's rows for requests and downloads.

    The views read `request_lines` and `fetch_lines`, which are the parsed logs, `recipients` with one row for each
    `session`, `tables` with each `location` of the catalog, and `usage`, the table's earlier rows, of which those from
    the day `since` are candidates. Each row has a unique id. `roles` are names of IAM roles that sign URLs.
    """
    signers = ", ".join(literal(role) for role in roles if _ROLE.fullmatch(role)) or "''"
    same = "f.session = r.session AND startswith(f.object_url, r.location || '/')"
    until = f"r.time - {SKEW} AND r.signed_until + {SKEW}"
    cause = ", ".join(f"r.`{name}`" for name in ("request_id", *_CAUSE))
    place = ", ".join(f"t.`{name}`" for name in _TABLE)
    columns = ", ".join(f"`{name}`" for name in COLUMNS)
    return {
        "stored": f"SELECT {columns} FROM usage WHERE day >= DATE'{since}'",
        "requests": _without_duplicates("request_lines", ", ".join(_REQUEST)),
        "known_requests": f"""
            SELECT {", ".join(_REQUEST)} FROM requests
            UNION ALL SELECT {", ".join(f"u.{name}" for name in _REQUEST)}
            FROM (SELECT * FROM stored WHERE kind = 'request') AS u ANTI JOIN requests AS r ON u.id = r.id""",
        "sessions": """
            SELECT session, max(recipient_id) AS recipient_id, max(recipient) AS recipient
            FROM (SELECT session, recipient_id, recipient FROM known_requests WHERE session IS NOT NULL
                  UNION ALL SELECT session, recipient_id, recipient FROM recipients) AS s
            GROUP BY session""",
        "signing": f"""
            SELECT {", ".join(_REQUEST)}, explode(array_distinct(locations)) AS location
            FROM known_requests WHERE session IS NOT NULL AND status = 200""",
        "fetches": _without_duplicates("fetch_lines", ", ".join((*_FETCH, "role"))),
        # Downloads by recipients: their session belongs to a known recipient or to a signing role.
        "new_downloads": f"""
            SELECT {", ".join(f"f.{name}" for name in _FETCH)},
                coalesce(s.recipient_id, f.session) AS recipient_id, s.recipient
            FROM fetches AS f LEFT JOIN sessions AS s ON f.session = s.session
            WHERE s.session IS NOT NULL OR (f.role IN ({signers}) AND f.session <> {literal(READER_SESSION)})""",
        "downloads": f"""
            SELECT *, 's3://' || bucket || '/' || `key` AS object_url FROM (
                SELECT * FROM new_downloads
                UNION ALL SELECT {", ".join(f"u.{name}" for name in _FETCH)}, u.recipient_id, u.recipient
                FROM (SELECT * FROM stored WHERE kind = 'fetch' AND request_id IS NULL) AS u
                ANTI JOIN new_downloads AS d ON u.id = d.id) AS f""",
        # With several candidate requests, only the columns that all agree on are set.
        "explained": f"""
            SELECT id, CAST(count(DISTINCT request_id) AS INT) AS explained_by, {_agreed("request_id", *_CAUSE)} FROM (
                SELECT f.id, {cause} FROM downloads AS f JOIN signing AS r
                ON {same} AND f.signed_at = r.signed_at
                UNION ALL SELECT f.id, {cause} FROM downloads AS f JOIN signing AS r
                ON {same} AND f.signed_at IS NULL AND r.operation IN ({CREDENTIAL_ENDPOINTS}) AND f.time BETWEEN {until}
            ) AS p GROUP BY id""",
        "located": f"""
            SELECT id, {_agreed(*_TABLE)} FROM (
                SELECT f.id, {place} FROM (SELECT d.* FROM downloads AS d ANTI JOIN explained AS e ON d.id = e.id)
                AS f JOIN tables AS t ON startswith(f.object_url, t.location || '/')) AS p GROUP BY id""",
        "usage_rows": f"""
            SELECT {_complete({name: f"r.`{name}`" for name in REQUEST_COLUMNS} | {"kind": "'request'"}, "r")}
            FROM requests AS r
            UNION ALL SELECT {_complete(_DOWNLOAD, "f")}
            FROM downloads AS f LEFT JOIN explained AS e ON f.id = e.id LEFT JOIN located AS l ON f.id = l.id""",
    }


_DOWNLOAD: Final = {
    **{name: f"f.`{name}`" for name in (*FETCH_COLUMNS, "recipient_id") if name != "role"},
    **{name: f"CASE WHEN e.id IS NULL THEN l.`{name}` ELSE e.`{name}` END" for name in _TABLE},
    "kind": "'fetch'",
    "recipient": "coalesce(f.recipient, e.recipient)",
    "explained_by": "coalesce(e.explained_by, 0)",
    "request_id": "e.request_id",
    "token_id": "e.token_id",
}


def _without_duplicates(lines: str, columns: str) -> str:
    numbered = f"SELECT *, row_number() OVER (PARTITION BY id ORDER BY file) AS number FROM {lines}"
    return f"SELECT {columns} FROM ({numbered} WHERE verdict = 'understood') AS l WHERE number = 1"


def _agreed(*names: str) -> str:
    """Return SQL for the values that all candidates have in common, else null."""
    return ", ".join(f"CASE WHEN min(`{name}`) = max(`{name}`) THEN max(`{name}`) END AS `{name}`" for name in names)


def _complete(expressions: dict[str, str], alias: str) -> str:
    values = {**expressions, "day": f"CAST({alias}.time AS DATE)"}
    # The union gives a null time its type; a cast in DuckDB would remove the time zone.
    casts = {name: "{}" if kind == "TIMESTAMP" else f"CAST({{}} AS {kind})" for name, kind in COLUMNS.items()}
    return ", ".join(f"{cast.format(values.get(name, 'NULL'))} AS `{name}`" for name, cast in casts.items())
