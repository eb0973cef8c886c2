"""Cold starts: reading and signing must not import slow modules."""

import subprocess
import sys

import pytest

SIGN = """
import os
os.environ.update(AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b", AWS_SESSION_TOKEN="c")
from datetime import timedelta
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.locations import TableLocations
from deltaic.storage.sessions import SigningSessions
from deltaic.storage.table_urls import TableUrls
credentials = SigningSessions().credentials("alice", StorageConfig())
locations = TableLocations.parse("s3://bucket/table")
assert "X-Amz-Signature" in TableUrls(locations, StorageConfig(), credentials, ttl=timedelta(hours=1)).url("x")
"""
READ = """
from deltaic.storage.locations import TableLocations
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.objects import ObjectTableStore
ObjectTableStore(TableLocations.parse("s3://bucket/table"), StorageConfig())
"""
VEND = "import deltaic.storage.vending"
LOCATE = "import deltaic.storage.locations"


@pytest.mark.parametrize(
    ("program", "absent"),
    [
        pytest.param(SIGN, {"boto3", "botocore", "obstore", "pyarrow", "asyncio", "ssl", "pydantic"}, id="sign"),
        pytest.param(READ, {"boto3", "botocore", "obstore", "pyarrow", "pydantic"}, id="read"),
        pytest.param(VEND, {"boto3", "botocore", "obstore", "pyarrow", "asyncio", "ssl", "pydantic"}, id="vend"),
        pytest.param(LOCATE, {"boto3", "botocore", "obstore", "pyarrow", "asyncio", "ssl", "pydantic"}, id="locate"),
    ],
)
def test_slow_modules_are_not_imported(program: str, absent: set[str]) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert not absent & set(answer.stdout.split())
