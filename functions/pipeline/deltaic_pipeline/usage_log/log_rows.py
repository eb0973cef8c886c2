"""Parse two access logs with Spark: requests from the functions' log, downloads from S3's server access log.

Requests are JSON lines from CloudWatch: plain, after the time that an export adds, or in the envelope of a
subscription. Downloads are lines in the format of the Amazon S3 User Guide, "Amazon S3 server access log format".
Malformed lines are counted, and other lines of a log group are skipped. Only SQL expressions of Spark are used, no
Python functions. Secrets in a URL (its signature, its token) are never stored.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from deltaic_pipeline.spark.quoting import literal
from deltaic_pipeline.table.sources import spark_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENT: Final = """
    endpoint STRING, requestId STRING, time STRING, status INT, ended STRING, milliseconds DOUBLE, recipientId STRING,
    recipient STRING, tokenId STRING, sourceIp STRING, userAgent STRING, errorCode STRING, share STRING, schema STRING,
    table STRING, tableId STRING, tableLocations ARRAY<STRING>, names STRUCT<share: STRING, schema: STRING,
    table: STRING>, session STRING, signedAt STRING, signedUntil STRING, version BIGINT, endVersion BIGINT,
    format STRING, predicates STRING, limit BIGINT, maxFiles BIGINT, isPage BOOLEAN, isRange BOOLEAN, files BIGINT,
    bytes BIGINT, deletionVectors BIGINT, changeFiles BIGINT, removedFiles BIGINT, lines BIGINT
"""

ENVELOPE: Final = "messageType STRING, logEvents ARRAY<STRUCT<message: STRING>>"

STAMP: Final = "yyyyMMdd'T'HHmmssX"
"""Format of the signing time in a signed URL (`X-Amz-Date`)."""

MARK: Final = "\u0001"
"""Separator between the parsed fields; a line that contains it is malformed, because it could add fields."""

# Clients cannot forge the fields before the referer: a request's target can contain quotes, but no space. Without (?s),
# Java would end a line at U+0085 and U+2028.
LINE: Final = (
    r"(?s)^(\S+) (\S+) \[([^\]]+)\] (\S+) (\S+) (\S+) (\S+) (\S+) "
    r'(?:"(\S+) (\S+) (\S+)"|-|"-") (\d{3}|-) (\S+) (\d+|-) (\d+|-) (\d+|-) (\d+|-)( .*)?\z'
)
FIELDS: Final = (
    "owner", "bucket", "at", "source_ip", "requester", "s3_request", "operation", "logged_key", "method", "target",
    "http", "status", "error_code", "bytes_sent", "object_bytes", "duration_ms", "turnaround_ms", "rest",
)  # fmt: skip
SESSION: Final = r"^arn:[^:]*:sts::[^:]*:assumed-role/([^/]+)/([^/]+)$"

_REQUEST: Final = (
    "try_to_timestamp(event.time) AS time", "concat('request/', event.requestId) AS id",
    "event.requestId AS request_id", "nullif(event.recipientId, '') AS recipient_id",
    "nullif(event.recipient, '') AS recipient", "nullif(event.tokenId, '') AS token_id", "event.endpoint AS operation",
    "coalesce(event.share, event.names.share) AS share", "coalesce(event.schema, event.names.schema) AS schema",
    "coalesce(event.table, event.names.table) AS table", "event.tableId AS table_id",
    "transform(event.tableLocations, l -> rtrim('/', regexp_replace(l, '^s3[an]://', 's3://'))) AS locations",
    "event.session AS session", "event.signedAt AS signed_at",
    f"try_to_timestamp(event.signedUntil, {literal(STAMP)}) AS signed_until", "event.status AS status",
    "event.errorCode AS error_code", "event.ended AS ended", "event.version AS version",
    "event.endVersion AS end_version", "event.format AS response_format", "event.predicates AS predicates",
    "event.limit AS row_limit", "event.maxFiles AS max_files", "event.isPage AS is_page",
    "event.files AS files_signed", "event.bytes AS bytes_signed", "event.deletionVectors AS deletion_vectors",
    "event.changeFiles AS change_files", "event.removedFiles AS removed_files", "event.lines AS lines",
    "event.milliseconds AS duration_ms", "event.sourceIp AS source_ip", "event.userAgent AS user_agent",
)  # fmt: skip
"""SQL for the columns of a request. A rejected request has no table, but the names that the client requested.
Locations have the canonical form of the catalog."""


@dataclass(frozen=True, slots=True)
class LineCounts:
    """Numbers of parsed and malformed lines of a log, and of other (unrelated) lines."""

    understood: int
    malformed: int
    others: int
    first: str
    """Date of the oldest parsed line, such as `2026-11-22`; empty if there is none."""

    malformed_in: str


def requests(spark: "SparkSession", paths: Sequence[str]) -> "DataFrame":
    """Read the functions' logs; return each line's fields and `verdict`: understood, malformed or other (unrelated)."""
    # Records of a subscription can follow each other without a line break.
    parts = "explode(split(value, '(?<=[}])(?=[{]\"messageType\")'))"
    lines = _text(spark, paths).selectExpr(f"{parts} AS line", "file")
    lines = lines.selectExpr("substring(line, greatest(instr(line, '{'), 1)) AS line", "file")
    lines = lines.selectExpr("line", "file", f"from_json(line, {literal(ENVELOPE)}) AS envelope")
    messages = (
        "explode(CASE WHEN envelope.messageType IS NOT NULL "
        "THEN transform(coalesce(envelope.logEvents, array()), event -> event.message) ELSE array(line) END)"
    )
    events = lines.selectExpr(f"{messages} AS message", "file").selectExpr(
        "message",
        "file",
        f"from_json(substring(message, greatest(instr(message, '{{'), 1)), {literal(EVENT)}) AS event",
    )
    looks_like_event = "contains(message, '\"endpoint\"') AND contains(message, '\"requestId\"')"
    is_event = "nullif(event.requestId, '') IS NOT NULL AND try_to_timestamp(event.time) IS NOT NULL"
    verdict = f"CASE WHEN {is_event} THEN 'understood' WHEN {looks_like_event} THEN 'malformed' ELSE 'other' END"
    return events.selectExpr("file", f"{verdict} AS verdict", *_REQUEST)


def fetches(spark: "SparkSession", paths: Sequence[str]) -> "DataFrame":
    """Read S3's access logs, and return each line's fields and `verdict`: understood or malformed."""
    fields = len(FIELDS)
    joined = MARK.join(f"${number}" for number in range(1, fields + 1))
    marked = f"regexp_replace(value, {literal(LINE)}, {literal(joined)})"
    split = f"split(CASE WHEN contains(value, {literal(MARK)}) THEN '' ELSE {marked} END, {literal(MARK)}, {fields})"
    records = _text(spark, paths).where("trim(value) <> ''").selectExpr("file", f"{split} AS part")
    records = records.selectExpr("file", *(f"get(part, {number}) AS {name}" for number, name in enumerate(FIELDS)))
    records = records.selectExpr(
        "*",
        "try_to_timestamp(at, 'dd/MMM/yyyy:HH:mm:ss Z') AS time",
        f"nullif(regexp_extract(requester, {literal(SESSION)}, 1), '') AS role",
        f"nullif(regexp_extract(requester, {literal(SESSION)}, 2), '') AS session",
        f"{_decode('logged_key')} AS once",
        "split(target, '[?]', 2) AS url",
    )
    records = records.selectExpr(
        "*", f"{_decode('once')} AS twice", f"{_decode('url[0]')} AS path", "coalesce(get(url, 1), '') AS query"
    )
    # A listing has no key, but a prefix in its query.
    listing_prefix = f"coalesce({_decode(_parameter('prefix'))}, '')"
    return records.selectExpr(
        "file",
        "CASE WHEN rest IS NOT NULL AND time IS NOT NULL THEN 'understood' ELSE 'malformed' END AS verdict",
        "time",
        "concat('fetch/', s3_request, '/', operation, '/', logged_key) AS id",
        "operation",
        "role",
        "session",
        f"nullif({_parameter('X-Amz-Date')}, '') AS signed_at",
        "bucket",
        # The log usually encodes a key twice; if not, the target shows it.
        f"CASE WHEN logged_key = '-' THEN {listing_prefix} "
        "WHEN NOT endswith(path, twice) AND endswith(path, once) THEN once ELSE twice END AS key",
        "try_cast(status AS INT) AS status",
        "nullif(error_code, '-') AS error_code",
        "coalesce(try_cast(bytes_sent AS BIGINT), 0) AS bytes_sent",
        "try_cast(object_bytes AS BIGINT) AS object_bytes",
        "try_cast(duration_ms AS DOUBLE) AS duration_ms",
        "nullif(source_ip, '-') AS source_ip",
        r"""nullif(left(regexp_extract(rest, '(?s)^ "[^"]*" "(.*?)" \\S+ ', 1), 200), '') AS user_agent""",
    )


def count_lines(rows: "DataFrame") -> LineCounts:
    """Count the parsed, malformed and other (unrelated) lines of a log."""
    counts: Any = rows.selectExpr(
        "count_if(verdict = 'understood') AS understood",
        "count_if(verdict = 'malformed') AS malformed",
        "count_if(verdict = 'other') AS others",
        "coalesce(date_format(min(time) FILTER (WHERE verdict = 'understood'), 'yyyy-MM-dd'), '') AS first",
        "coalesce(min(file) FILTER (WHERE verdict = 'malformed'), '') AS malformed_in",
    ).first()
    return LineCounts(**counts.asDict())


def parsed_rows(rows: "DataFrame") -> "DataFrame":
    """Return the rows of parsed lines, without duplicate ids."""
    return rows.where("verdict = 'understood'").drop("verdict", "file").dropDuplicates(["id"])


def _text(spark: "SparkSession", paths: Sequence[str]) -> "DataFrame":
    lines = spark.read.text([spark_path(path) for path in paths], lineSep="\n")
    return lines.selectExpr("rtrim('\r', value) AS value", "input_file_name() AS file")


def _parameter(name: str) -> str:
    return f"regexp_extract(query, '(?:^|&){name}=([^&]*)', 1)"


def _decode(text: str) -> str:
    """Return SQL that decodes percent-encoding but not `+`; an invalid string stays unchanged."""
    return f"coalesce(try_url_decode(replace({text}, '+', '%2B')), {text})"
