"""Test that the provider's log has locations with the request's id, and that answers do not."""

import json
import subprocess
import sys

import pytest
from deltaic.errors import TableUnreadable
from deltaic.http.observability import error_fields

FILE = "part-00000-d5878dd9-44a7-4c1f-bd3a-2bd057c1ceae-c000.zstd.parquet"

PROGRAM = """
import asyncio
from deltaic.errors import UnsupportedOperation
from deltaic.http.edge import application
from deltaic.http.response import StreamedResponse

def late():
    yield b"one\\n"
    raise UnsupportedOperation("it lies elsewhere", "s3://lake/secret/x.parquet")

def refused(request):
    raise UnsupportedOperation("it lies elsewhere", "s3://lake/secret/x.parquet")

def broken_off(request):
    return StreamedResponse(headers={}, chunks=late(), failed=lambda error: error.message.encode())

async def receive():
    return {"type": "http.request", "body": b""}

async def send(message):
    print("SENT", message.get("body", b"").decode())

event = {"requestContext": {"requestId": "q-1", "authorizer": {"recipientId": "alice", "tokenId": "t"}}}
scope = {"type": "http", "method": "GET", "path": "/x", "query_string": b"", "headers": [], "aws.event": event}
for use_case in (refused, broken_off):
    try:
        asyncio.run(application("test", use_case, stream=True)(scope, receive, send))
    except UnsupportedOperation:
        pass
"""


def test_log_has_the_location_and_the_answer_does_not() -> None:
    """Use a separate process, because the logger writes to the stdout of its first use."""
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        env={"POWERTOOLS_METRICS_DISABLED": "true", "POWERTOOLS_SERVICE_NAME": "deltaic"},
    )
    lines = process.stdout.splitlines()
    answers = [line for line in lines if line.startswith("SENT")]
    assert "it lies elsewhere" in str(answers)
    assert "lake" not in str(answers)
    logged = [json.loads(line) for line in lines if line.startswith("{") and '"requestId"' in line]
    assert [(line["requestId"], line["detail"]) for line in logged] == [("q-1", "s3://lake/secret/x.parquet")] * 2


@pytest.mark.parametrize(
    ("detail", "logged"),
    [
        pytest.param(f"s3://lake/t/{FILE}", f"s3://lake/t/{FILE}", id="file"),
        pytest.param("https://store/x?sig=abc&se=1 lies", "https://store/x?... lies", id="signed"),
    ],
)
def test_details_are_logged_without_signatures(detail: str, logged: str) -> None:
    assert error_fields(TableUnreadable("it is gone", detail))["detail"] == logged


def test_error_without_detail_is_logged_without_detail() -> None:
    assert "detail" not in error_fields(TableUnreadable("it is gone"))
