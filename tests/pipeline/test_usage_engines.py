"""Test that the usage table has the same rows whether Spark or this machine alone collects the logs."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pytest
from deltaic_ops.local.embedded import EmbeddedAws
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.table.catalog_entry import JobCatalog
from deltaic_pipeline.usage_log.collection import CatalogFacts, UsageJob, UsageSummary, collect
from deltaic_pipeline.usage_log.local_collection import collect_locally
from deltaic_terminal.progress import silent
from pipeline.place import Place
from pipeline.test_usage import event, line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROLE = "arn:aws:sts::123456789012:assumed-role/Signing"
FACTS = CatalogFacts(
    [("alice-session", "id-alice", "alice"), ("bob-session", "id-bob", "bob")],
    [
        ("s3://lake/orders", "s", "d", "orders", "t-1"),
        ("s3://lake/orders", "other", "d", "orders", "t-2"),
        ("s3://lake/people", "s", "d", "people", "t-3"),
    ],
)
DAY = "20261122T0758"


def signed(number: int, **more: object) -> dict[str, object]:
    """Return the event of a request that signed URLs in alice's session."""
    fields: dict[str, object] = {
        "recipientId": "id-alice", "recipient": "alice", "tokenId": "token", "session": "alice-session",
        "share": "s", "schema": "d", "table": "orders", "tableId": "t-1", "tableLocations": ["s3a://lake/orders/"],
        "signedAt": f"{DAY}{number:02}Z", "signedUntil": "20261122T085800Z", "files": 3, "bytes": 900,
        "milliseconds": 4.5, "isPage": False, "limit": 10, "predicates": "id =", "userAgent": "delta-sharing",
    }  # fmt: skip
    return event(number, **fields | more)


def fetched(name: str, at: str = "", session: str = "alice-session", key: str = "orders/a.parquet", **more: str) -> str:
    query = f"X-Amz-Date={at}&X-Amz-Signature=ab" if at else "x=1"
    fields = {
        "id": name, "key": key, "uri": f'"GET /{key}?{query} HTTP/1.1"',
        "requester": f"{ROLE}/{session}" if session else "-",
    }  # fmt: skip
    return line(**fields | more)


REQUESTS = [
    signed(1), signed(2), signed(2, requestId="q-2b", table="people", tableId="t-3"), signed(3, status=403),
    signed(4, endpoint="create_table_credentials", signedAt=None),
    signed(5, session="bob-session", recipientId="", recipient=None, tableLocations=["s3://lake/people", None]),
    event(6), event(7, names=None), event(8, table="t", version=3, endVersion=9, ended="refused", errorCode="X"),
]  # fmt: skip
ODD_REQUESTS = [
    "START RequestId: 1", "{", "null", '{"endpoint": "x", "requestId": ""}', json.dumps(event(9, time="yesterday")),
    json.dumps(event(10, status="200")), json.dumps(event(11, files=1 << 70)), json.dumps(event(12, time=None)),
    f"2026-11-22T07:58:02.000Z {json.dumps(event(13))}\r", "\u2028",
    json.dumps(event(14, recipient="a\u2028b\x85c\x00")),
    json.dumps(event(15, time="2026-11-22T09:00:00+05:30", signedUntil="soon", names={"share": "only"})),
]  # fmt: skip
FETCHES = [
    fetched("F1", f"{DAY}01Z"), fetched("F2", f"{DAY}02Z"), fetched("F3", f"{DAY}03Z"), fetched("F4"),
    fetched("F5", f"{DAY}05Z", "bob-session", "people/x.parquet"), fetched("F6", f"{DAY}09Z", key="nowhere/x"),
    fetched("F7", f"{DAY}01Z", "unknown-session"), fetched("F8", "", ""), fetched("F9", key="people/y"),
    fetched("F10", time="[22/Nov/2026:09:58:18 +0000]"), fetched("F11", time="[22/Nov/2026:08:58:59 +0000]"),
    fetched("F12", f"{DAY}02Z", key="orders2/a"), fetched("F13", f"{DAY}01Z", status="403", error="AccessDenied"),
    fetched("F14", time="[20/Nov/2026:23:59:59 -0100]"), fetched("F15", "", "deltaic-reader"),
]  # fmt: skip
ODD_FETCHES = [
    "", "  ", "no such line", line(time="[yesterday]"), fetched("G1", key="-", uri='"GET /?prefix=orders%2F HTTP/1.1"'),
    fetched("G2", sent="99999999999999999999", size="-"), fetched("G3", agent='"a\x01b\x85c"'), fetched("G4", uri="-"),
    fetched("G5", key="orders/50%zz%2525", uri='"GET /orders/50%zz%25 HTTP/1.1"'), fetched("G6", agent='""') + "\r",
]  # fmt: skip


def write(folder: Path, name: str, lines: list[str], extra: bytes = b"") -> str:
    path = folder / name
    content = "\n".join(lines).encode() + b"\n" + extra
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return str(path)


def runs(folder: Path, *, brief: bool) -> list[tuple[list[str], list[str]]]:
    """Return the logs of four runs: without requests, with all, with duplicates again, and only the oldest.

    In brief, there are two runs: without requests, and with all logs of the others.
    """
    requests, fetches = [json.dumps(each) for each in REQUESTS], [*FETCHES, *FETCHES[:3]]
    none = write(folder, "none", ["START"])
    late = write(folder, "requests", [*requests, *requests[:2], *ODD_REQUESTS], b'{"endpoint": "\xff", "requestId"\n')
    subscribed = {"messageType": "DATA_MESSAGE", "logEvents": [{"message": text} for text in requests[:4]]}
    record = write(folder, "record.gz", [json.dumps(subscribed) * 2, json.dumps({"messageType": "CONTROL_MESSAGE"})])
    first, more = write(folder, "fetches-1.gz", fetches), write(folder, "fetches-2", ODD_FETCHES, b"\xff\xfe\n")
    write(folder, "_hidden", ["not a line"])
    glob = f"{folder}/fetches-*"
    if brief:
        return [([none], [first]), ([late, record], [glob, more])]
    return [([none], [first]), ([late, record], [glob]), ([late], [glob, more]), ([record], [first])]


def rows_of(location: str, environment: dict[str, str]) -> list[dict[str, Any]]:
    table = deltalake.DeltaTable(location, storage_options=S3Access.from_environment(environment).deltalake())
    return sorted(table.to_pyarrow_table().to_pylist(), key=lambda row: row["id"])


def seen(summary: UsageSummary) -> tuple[object, ...]:
    """Return what a summary says except for versions and time; two commits can replace one."""
    metrics = summary.metrics or {}
    lines = [
        (counts.understood, counts.malformed, counts.others, counts.first, counts.malformed_in.rpartition("/")[2])
        for counts in (summary.request_lines, summary.fetch_lines)
        if counts is not None
    ]
    names = ("requests", "fetches", "explained", "unexplained", "bytes_sent", "recipients", "repeated")
    changed = (
        metrics.get("numTargetRowsInserted", summary.requests + summary.fetches),
        metrics.get("numTargetRowsUpdated", 0),
    )
    return (*(getattr(summary, name) for name in names), *lines, *changed)


@pytest.fixture
def at_embedded_aws(embedded_aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name, value in embedded_aws.environment.items():
        monkeypatch.setenv(name, value)
    return dict(embedded_aws.environment)


@pytest.mark.parametrize("brief", [True, pytest.param(False, marks=pytest.mark.long)])
@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_both_engines_write_the_same_rows_and_continue_each_other(
    spark: "SparkSession",
    catalog: JobCatalog,
    place: Place,
    at_embedded_aws: dict[str, str],
    brief: bool,
) -> None:
    logs = runs(place.folder, brief=brief)
    here, there = f"{place.location}/here", f"{place.location}/spark"
    for number, (requests, fetches) in enumerate(logs):
        job = UsageJob(requests, fetches, there, f"run-{number}", roles=["Signing", "o'brien"])
        by_spark = collect(spark, job, catalog, FACTS, silent)
        mine = UsageJob(requests, fetches, here, f"run-{number}", roles=["Signing", "o'brien"])
        by_itself = collect_locally(mine, catalog, FACTS, silent)
        assert rows_of(here, at_embedded_aws) == rows_of(there, at_embedded_aws)
        assert seen(by_itself) == seen(by_spark)
    before = rows_of(here, at_embedded_aws)
    swapped = UsageJob(*logs[1], here, "swapped")
    assert collect(spark, swapped, catalog, FACTS, silent).version == by_itself.version
    # A run that committed nothing, like the last ones, is not recorded.
    committed = UsageJob(*logs[1], here, "run-1")
    assert collect(spark, committed, catalog, FACTS, silent).repeated
    other = UsageJob(*logs[1], there, "swapped", roles=["Signing"])
    assert collect_locally(other, catalog, FACTS, silent).version == by_spark.version
    assert collect_locally(replace(committed, target=there), catalog, FACTS, silent).repeated
    assert rows_of(here, at_embedded_aws) == rows_of(there, at_embedded_aws) == before
