"""Test the parser of both access logs, the functions' and S3's."""

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltaic_pipeline.usage_log.log_lines import FETCH_COLUMNS, UNDERSTOOD, fetch_rows
from deltaic_pipeline.usage_log.log_rows import count_lines, fetches, requests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

OWNER = "79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be"
SESSION = "arn:aws:sts::123456789012:assumed-role/deltaic-SigningRole/94a26bdf-eb59-451f-9385-cbb00a46a948"
SIGNED = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date=20261122T075816Z&X-Amz-Expires=3600&X-Amz-Signature=ab12"


def line(**changed: str) -> str:
    """Return a log line with the fields in the order of the user guide."""
    fields = {
        "owner": OWNER,
        "bucket": "lake",
        "time": "[22/Nov/2026:07:58:18 +0000]",
        "ip": "192.0.2.3",
        "requester": SESSION,
        "id": "3E57427F3EXAMPLE",
        "operation": "REST.GET.OBJECT",
        "key": "orders/day%253D1/part-0.parquet",
        "uri": f'"GET /orders/day%3D1/part-0.parquet?{SIGNED} HTTP/1.1"',
        "status": "206",
        "error": "-",
        "sent": "3081",
        "size": "9000",
        "total": "7",
        "turnaround": "5",
        "referer": '"-"',
        "agent": '"Python/3.11 aiohttp/3.13.4"',
        "version": "-",
        "host": "s9lzHYrFp76ZVxRcpX9+5cjAnEH2ROuNkd2BHfIa6UkFVdtjf5mKR3/eTPFvsiP/XV/VLi31234=",
        "signature": "SigV4",
        "cipher": "ECDHE-RSA-AES128-GCM-SHA256",
        "auth": "QueryString",
        "header": "lake.s3.us-west-1.amazonaws.com",
        "tls": "TLSv1.2",
        "point": "-",
        "acl": "-",
    } | changed
    return " ".join(fields.values())


CASES = [
    pytest.param({}, {"bytes_sent": 3081, "object_bytes": 9000, "status": 206, "error_code": None}, id="whole"),
    pytest.param({}, {"session": SESSION[-36:], "role": "deltaic-SigningRole"}, id="session"),
    pytest.param({}, {"signed_at": "20261122T075816Z", "key": "orders/day=1/part-0.parquet"}, id="signed"),
    pytest.param({"requester": "-"}, {"session": None, "role": None}, id="anonymous"),
    pytest.param({"requester": OWNER}, {"session": None}, id="canonical id"),
    pytest.param({"requester": "arn:aws:iam::123456789012:user/eve"}, {"session": None}, id="user"),
    pytest.param({"sent": "-", "size": "-", "total": "-", "turnaround": "-"}, {"bytes_sent": 0}, id="hyphens"),
    pytest.param({"status": "403", "error": "AccessDenied"}, {"error_code": "AccessDenied"}, id="refused"),
    pytest.param({"uri": "-", "key": "-", "operation": "S3.EXPIRE.OBJECT"}, {"signed_at": None}, id="no uri"),
    pytest.param({"uri": '"-"'}, {"key": "orders/day=1/part-0.parquet"}, id="quoted hyphen"),
    pytest.param(
        {"key": "t/a%252Bb%2520c%2525d", "uri": '"GET /lake/t/a%2Bb%20c%25d HTTP/1.1"'},
        {"key": "t/a+b c%d"},
        id="twice encoded",
    ),
    pytest.param(
        {"key": "t/50%2525/a%25b", "uri": '"GET /t/50%2525/a%25b HTTP/1.1"'}, {"key": "t/50%25/a%b"}, id="once"
    ),
    pytest.param({"key": "t/%25E6%25BC%25A2", "uri": '"GET /t/%E6%BC%A2 HTTP/1.1"'}, {"key": "t/漢"}, id="utf-8"),
    pytest.param(
        {"key": "-", "operation": "REST.GET.BUCKET", "uri": '"GET /?list-type=2&prefix=orders%2F_log HTTP/1.1"'},
        {"key": "orders/_log", "signed_at": None},
        id="listing",
    ),
    pytest.param({"agent": '"Mozilla/5.0 (X; "quoted") like"'}, {"bytes_sent": 3081}, id="quotes in the agent"),
    pytest.param({"agent": '"x" 200 - 1 1 1 1 "-" "y"'}, {"bytes_sent": 3081, "status": 206}, id="an agent that lies"),
    pytest.param({"uri": '"GET /k?x="-"200 HTTP/1.1"'}, {"bytes_sent": 3081, "status": 206}, id="a target with quotes"),
    pytest.param({"acl": "- us-east-1 a-field-of-tomorrow"}, {"bytes_sent": 3081}, id="more fields"),
    pytest.param({"agent": '"Spark 4.1 (delta)"'}, {"user_agent": "Spark 4.1 (delta)"}, id="agent"),
    *(
        pytest.param({"agent": f'"a{end}b"'}, {"bytes_sent": 3081, "user_agent": f"a{end}b"}, id=ascii(end))
        for end in ("\x85", "\u2028", "\u2029", "\x0b", "\x0c", "\x1c", "\x1e")
    ),
]


@pytest.mark.parametrize(("changed", "expected"), CASES)
def test_line_of_the_access_log_is_parsed(changed: dict[str, str], expected: dict[str, Any]) -> None:
    [(verdict, _, *values)] = fetch_rows(line(**changed), "log")
    row = dict(zip(FETCH_COLUMNS, values, strict=True))
    assert (verdict, {name: row[name] for name in expected}) == (UNDERSTOOD, expected)
    assert "ab12" not in str(row)


@pytest.mark.spark
def test_carriage_return_does_not_start_a_line(spark: "SparkSession", tmp_path: Path) -> None:
    agent = f'"a\r{line(id="FORGED")}"'
    (tmp_path / "log").write_text(line(agent=agent) + "\n", newline="")
    assert [row["id"].split("/")[1] for row in fetches(spark, [str(tmp_path)]).collect()] == ["3E57427F3EXAMPLE"]


@pytest.mark.spark
def test_malformed_lines_are_counted_with_their_file(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "one").write_text("\n".join([line(), "", "no such line", line(time="[yesterday]"), line(id="B")]))
    (tmp_path / "two.gz").write_bytes(gzip.compress(line(id="C").encode()))
    counts = count_lines(fetches(spark, [str(tmp_path)]))
    assert (counts.understood, counts.malformed, counts.others, counts.first) == (3, 2, 0, "2026-11-22")
    assert counts.malformed_in.endswith("/one")


def event(number: int, **changed: object) -> dict[str, object]:
    fields = {
        "level": "INFO",
        "message": "request",
        "endpoint": "query_table",
        "requestId": f"q-{number}",
        "time": f"2026-11-22T07:58:{number:02}.500+00:00",
        "status": 200,
        "names": {"share": "s", "schema": "d", "table": "t"},
    }
    return fields | changed


@pytest.mark.spark
def test_requests_are_parsed_plain_exported_and_from_a_subscription(spark: "SparkSession", tmp_path: Path) -> None:
    plain_line = json.dumps(event(1))
    (tmp_path / "bare.json").write_text(
        f'{plain_line}\n{plain_line}\nSTART RequestId: 1 Version: 2\n{{"_aws": {{}}}}\n'
    )
    exported = f"2026-11-22T07:58:02.000Z {json.dumps(event(2))}\n2026-11-22T07:58:02.000Z END RequestId: 1\n"
    (tmp_path / "000000.gz").write_bytes(gzip.compress(exported.encode()))
    envelopes = [
        {"messageType": "DATA_MESSAGE", "logEvents": [{"id": "1", "timestamp": 1, "message": json.dumps(event(n))}]}
        for n in (3, 4)
    ]
    (tmp_path / "delivered").write_text("".join(map(json.dumps, envelopes)))
    (tmp_path / "cut.json").write_text(
        plain_line[: len(plain_line) // 2] + ', "requestId"\n' + json.dumps(event(5, time="now"))
    )
    rows = requests(spark, [str(tmp_path)])
    counts = count_lines(rows)
    assert (counts.understood, counts.malformed, counts.others) == (5, 2, 3)
    assert counts.malformed_in.endswith("/cut.json")
    understood = {tuple(row[name] for name in ("request_id", "share", "time")) for row in rows.collect()}
    parsed = [(name, share, str(at)) for name, share, at in understood if name]
    assert sorted(parsed) == [(f"q-{n}", "s", f"2026-11-22 07:58:0{n}.500000") for n in (1, 2, 3, 4)]
