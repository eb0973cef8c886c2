"""Leads what S3 saw being fetched back to who asked for it: one table of requests and fetches, a row each.

A URL is signed in a recipient's session and says when: recipient, moment and folder name the request, or the few that
were answered within one second. Credentials for directory access do not say when they were given: what was fetched by
them is led back to the request for the only ones that were valid then. What no request explains keeps what is known:
the recipient by the session's name, the table by its place in the catalog (decision 60).
"""

from typing import TYPE_CHECKING, Final

from deltaic.storage.sessions import READER_SESSION

from deltaic_pipeline.spark.quoting import column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS: Final = {
    "day": "DATE",
    "time": "TIMESTAMP",
    "kind": "STRING",
    "id": "STRING",
    "recipient_id": "STRING",
    "recipient": "STRING",
    "token_id": "STRING",
    "request_id": "STRING",
    "explained_by": "INT",
    "operation": "STRING",
    "share": "STRING",
    "schema": "STRING",
    "table": "STRING",
    "table_id": "STRING",
    "bucket": "STRING",
    "key": "STRING",
    "status": "INT",
    "error_code": "STRING",
    "ended": "STRING",
    "bytes_sent": "BIGINT",
    "object_bytes": "BIGINT",
    "files_signed": "BIGINT",
    "bytes_signed": "BIGINT",
    "deletion_vectors": "BIGINT",
    "change_files": "BIGINT",
    "removed_files": "BIGINT",
    "lines": "BIGINT",
    "version": "BIGINT",
    "end_version": "BIGINT",
    "response_format": "STRING",
    "predicates": "STRING",
    "row_limit": "BIGINT",
    "max_files": "BIGINT",
    "is_page": "BOOLEAN",
    "duration_ms": "DOUBLE",
    "source_ip": "STRING",
    "user_agent": "STRING",
    "session": "STRING",
    "signed_at": "STRING",
    "signed_until": "TIMESTAMP",
    "locations": "ARRAY<STRING>",
}

COMMENTS: Final = {
    "kind": "request: somebody asked the server; fetch: S3 was asked for an object or a listing",
    "request_id": "The request; of a fetch the one that signed for it, where only one can have",
    "explained_by": "How many requests can have signed for a fetch; 0: none is known",
    "operation": "The endpoint that was asked, or the operation as S3 names it",
    "ended": "How the answer ended: whole, refused, failed (broken off by the server), abandoned (by the reader)",
    "bytes_sent": "What left S3 for this fetch",
    "files_signed": "For how many files the answer had URLs",
    "bytes_signed": "The sizes of those files together",
    "predicates": "Columns and operators that were asked with; no values",
    "session": "The session that signed, as S3 names the requester",
    "locations": "Where the table lay when it was asked for",
}

GIVING_KEYS: Final = (
    "'create_table_credentials', 'load_iceberg_table', 'create_volume_credentials', 'create_skill_credentials', "
    "'create_model_credentials'"
)
SKEW: Final = "INTERVAL 1 MINUTE"
"""Between the clocks of S3 and of the functions."""


def of_recipients(fetches: "DataFrame", recipients: "DataFrame", roles: list[str]) -> "DataFrame":
    """Return the fetches of sessions that sign: those with a known recipient's name, or of a signing role.

    `recipients` has `session`, `recipient_id` and `recipient`, each session once.
    """
    from pyspark.sql import functions

    known = recipients.withColumnRenamed("session", "of_session")
    found = fetches.join(functions.broadcast(known), fetches["session"] == known["of_session"], "left")
    found = found.where(
        functions.col("of_session").isNotNull()
        | (functions.col("role").isin(roles) & (functions.col("session") != READER_SESSION))
    )
    return found.withColumn("recipient_id", functions.expr("coalesce(recipient_id, session)")).drop(
        "of_session", "role"
    )


def transform(
    requests: "DataFrame", known_requests: "DataFrame", fetches: "DataFrame", tables: "DataFrame"
) -> "DataFrame":
    """Return the usage table's rows for some requests and fetches, whose ids are unique.

    `known_requests` are those that may explain a fetch: these, and such as the table has already. `fetches` are those
    of recipients; `tables` is the catalog: `location`, `share`, `schema`, `table`, `table_id`.
    """
    asked = _complete(requests.selectExpr("*", "'request' AS kind"))
    return asked.unionByName(_traced(known_requests, fetches, tables))


def _traced(requests: "DataFrame", fetches: "DataFrame", tables: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions

    placed = fetches.withColumn("place", functions.expr("concat('s3://', bucket, '/', key)")).alias("f")
    signing = requests.where("session IS NOT NULL AND status = 200").selectExpr(
        "*", "explode(array_distinct(locations)) AS location"
    )
    signing = signing.alias("r")
    same = "f.session = r.session AND startswith(f.place, concat(r.location, '/'))"
    by_url = placed.join(signing, functions.expr(f"{same} AND f.signed_at = r.signed_at"))
    by_keys = placed.where("signed_at IS NULL").alias("f")
    by_keys = by_keys.join(
        signing.where(f"operation IN ({GIVING_KEYS})").alias("r"),
        functions.expr(f"{same} AND f.time BETWEEN r.time - {SKEW} AND r.signed_until + {SKEW}"),
    )
    taken = ("request_id", "token_id", "share", "schema", "table", "table_id", "recipient")
    pairs = by_url.selectExpr("f.id", *(f"r.{name}" for name in taken)).unionByName(
        by_keys.selectExpr("f.id", *(f"r.{name}" for name in taken))
    )
    explained = _only(pairs, taken).withColumnRenamed("id", "explained_id")
    lying = placed.join(
        functions.broadcast(tables.alias("t")), functions.expr("startswith(f.place, concat(t.location, '/'))")
    )
    named = ("share", "schema", "table", "table_id")
    lying = _only(lying.selectExpr("f.id", *(f"t.{name}" for name in named), "t.table_id AS request_id"), named)
    lying = lying.selectExpr("id AS lying_id", *(f"{name} AS lying_{name}" for name in named))
    found = placed.join(explained.alias("e"), functions.expr("f.id = e.explained_id"), "left")
    found = found.join(lying.alias("l"), functions.expr("f.id = l.lying_id"), "left")
    own = [name for name in fetches.columns if name not in taken and name != "explained_by"]
    return _complete(
        found.selectExpr(
            *(f"f.{name}" for name in own),
            "'fetch' AS kind",
            "coalesce(f.recipient, e.recipient) AS recipient",
            "coalesce(e.explained_by, 0) AS explained_by",
            *(f"e.{name}" for name in ("request_id", "token_id")),
            # Several requests for several tables at one place: nobody can tell for which one it was.
            *(f"CASE WHEN e.explained_id IS NULL THEN l.lying_{name} ELSE e.{name} END AS `{name}`" for name in named),
        )
    )


def _only(pairs: "DataFrame", names: tuple[str, ...]) -> "DataFrame":
    """Return for each fetch what all its candidates agree on; null where they do not."""
    agreed = [column(f"CASE WHEN min(`{name}`) = max(`{name}`) THEN max(`{name}`) END").alias(name) for name in names]
    count = column("size(collect_set(request_id))").alias("explained_by")
    return pairs.groupBy("id").agg(count, *agreed)


def _complete(rows: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions

    there = {*rows.columns, "day"}
    rows = rows.withColumn("day", functions.expr("CAST(time AS DATE)"))
    return rows.select(*(
        (functions.col(name) if name in there else functions.lit(None))
        .cast(kind)
        .alias(name, metadata={"comment": COMMENTS[name]} if name in COMMENTS else {})
        for name, kind in COLUMNS.items()
    ))  # fmt: skip
