"""Attribute downloads from S3 to requests, in one table with a row for each request and each download.

A URL is signed in an AWS session for one recipient and contains the time of signing. Recipient, time and folder
identify the request, or a few requests within the same second. Credentials for directory access contain no time, so
such a download is attributed to the request whose credentials were valid, if there is only one. A download without a
request still has a recipient, from the session's name, and a table, from its location in the catalog (decision 60).
"""

from typing import TYPE_CHECKING, Final

from deltaic.storage.sessions import READER_SESSION

from deltaic_pipeline.spark.quoting import column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS: Final = {
    "day": "DATE", "time": "TIMESTAMP", "kind": "STRING", "id": "STRING", "recipient_id": "STRING",
    "recipient": "STRING", "token_id": "STRING", "request_id": "STRING", "explained_by": "INT", "operation": "STRING",
    "share": "STRING", "schema": "STRING", "table": "STRING", "table_id": "STRING", "bucket": "STRING",
    "key": "STRING", "status": "INT", "error_code": "STRING", "ended": "STRING", "bytes_sent": "BIGINT",
    "object_bytes": "BIGINT", "files_signed": "BIGINT", "bytes_signed": "BIGINT", "deletion_vectors": "BIGINT",
    "change_files": "BIGINT", "removed_files": "BIGINT", "lines": "BIGINT", "version": "BIGINT",
    "end_version": "BIGINT", "response_format": "STRING", "predicates": "STRING", "row_limit": "BIGINT",
    "max_files": "BIGINT", "is_page": "BOOLEAN", "duration_ms": "DOUBLE", "source_ip": "STRING",
    "user_agent": "STRING", "session": "STRING", "signed_at": "STRING", "signed_until": "TIMESTAMP",
    "locations": "ARRAY<STRING>",
}  # fmt: skip

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
SKEW: Final = "INTERVAL 1 MINUTE"
"""Maximum difference between the clocks of S3 and of the Lambda functions."""


def recipient_fetches(fetches: "DataFrame", recipients: "DataFrame", roles: list[str]) -> "DataFrame":
    """Return the downloads whose AWS session belongs to a known recipient or to a signing role.

    `recipients` has the columns `session`, `recipient_id` and `recipient`, with one row for each session.
    """
    from pyspark.sql import functions

    by_session = recipients.withColumnRenamed("session", "recipient_session")
    matches = fetches.join(
        functions.broadcast(by_session), fetches["session"] == by_session["recipient_session"], "left"
    )
    matches = matches.where(
        functions.col("recipient_session").isNotNull()
        | (functions.col("role").isin(roles) & (functions.col("session") != READER_SESSION))
    )
    return matches.withColumn("recipient_id", functions.expr("coalesce(recipient_id, session)")).drop(
        "recipient_session", "role"
    )


def transform(
    requests: "DataFrame", known_requests: "DataFrame", fetches: "DataFrame", tables: "DataFrame"
) -> "DataFrame":
    """Return the usage table's rows for requests and downloads; each row has a unique id.

    `known_requests` are all candidates for an attribution: the new requests, and earlier ones in the table. `fetches`
    are the downloads by recipients. `tables` has `location`, `share`, `schema`, `table` and `table_id` of the catalog.
    """
    request_rows = _complete(requests.selectExpr("*", "'request' AS kind"))
    return request_rows.unionByName(_attribute(known_requests, fetches, tables))


def _attribute(requests: "DataFrame", fetches: "DataFrame", tables: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions

    located = fetches.withColumn("object_url", functions.expr("concat('s3://', bucket, '/', key)")).alias("f")
    signing = requests.where("session IS NOT NULL AND status = 200").selectExpr(
        "*", "explode(array_distinct(locations)) AS location"
    )
    signing = signing.alias("r")
    same = "f.session = r.session AND startswith(f.object_url, concat(r.location, '/'))"
    by_url = located.join(signing, functions.expr(f"{same} AND f.signed_at = r.signed_at"))
    by_keys = located.where("signed_at IS NULL").alias("f")
    by_keys = by_keys.join(
        signing.where(f"operation IN ({CREDENTIAL_ENDPOINTS})").alias("r"),
        functions.expr(f"{same} AND f.time BETWEEN r.time - {SKEW} AND r.signed_until + {SKEW}"),
    )
    request_columns = ("request_id", "token_id", "share", "schema", "table", "table_id", "recipient")
    pairs = by_url.selectExpr("f.id", *(f"r.{name}" for name in request_columns)).unionByName(
        by_keys.selectExpr("f.id", *(f"r.{name}" for name in request_columns))
    )
    explained = _agreed(pairs, request_columns).withColumnRenamed("id", "explained_id")
    by_location = located.join(
        functions.broadcast(tables.alias("t")), functions.expr("startswith(f.object_url, concat(t.location, '/'))")
    )
    table_columns = ("share", "schema", "table", "table_id")
    by_location = _agreed(
        by_location.selectExpr("f.id", *(f"t.{name}" for name in table_columns), "t.table_id AS request_id"),
        table_columns,
    )
    by_location = by_location.selectExpr("id AS location_id", *(f"{name} AS location_{name}" for name in table_columns))
    rows = located.join(explained.alias("e"), functions.expr("f.id = e.explained_id"), "left")
    rows = rows.join(by_location.alias("l"), functions.expr("f.id = l.location_id"), "left")
    fetch_columns = [name for name in fetches.columns if name not in request_columns and name != "explained_by"]
    return _complete(
        rows.selectExpr(
            *(f"f.{name}" for name in fetch_columns),
            "'fetch' AS kind",
            "coalesce(f.recipient, e.recipient) AS recipient",
            "coalesce(e.explained_by, 0) AS explained_by",
            *(f"e.{name}" for name in ("request_id", "token_id")),
            # With several candidate requests, only the columns that all agree on are set.
            *(
                f"CASE WHEN e.explained_id IS NULL THEN l.location_{name} ELSE e.{name} END AS `{name}`"
                for name in table_columns
            ),
        )
    )


def _agreed(pairs: "DataFrame", names: tuple[str, ...]) -> "DataFrame":
    """Return for each download the values that all its candidate requests have in common, else null."""
    agreed = [column(f"CASE WHEN min(`{name}`) = max(`{name}`) THEN max(`{name}`) END").alias(name) for name in names]
    count = column("size(collect_set(request_id))").alias("explained_by")
    return pairs.groupBy("id").agg(count, *agreed)


def _complete(rows: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions

    existing = {*rows.columns, "day"}
    rows = rows.withColumn("day", functions.expr("CAST(time AS DATE)"))
    return rows.select(*(
        (functions.col(name) if name in existing else functions.lit(None))
        .cast(kind)
        .alias(name, metadata={"comment": COMMENTS[name]} if name in COMMENTS else {})
        for name, kind in COLUMNS.items()
    ))  # fmt: skip
