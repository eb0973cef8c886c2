"""A command loads what it works with and no more: help nothing of AWS, lists nothing of boto3."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from delta_tables.handmade import lines, metadata, protocol

if TYPE_CHECKING:
    import boto3
    from cli.conftest import Deltaic
    from deltaic_ops.local.embedded import EmbeddedAws

PROGRAM = """
import json, sys
from contextlib import redirect_stdout
from io import StringIO
from deltaic_ops.cli import app
try:
    with redirect_stdout(StringIO()) as output:
        code = app(sys.argv[1:], standalone_mode=False)
except SystemExit as end:  # as the help of a job's own parser ends
    code = end.code
print(json.dumps({"code": code, "output": output.getvalue(), "modules": sorted(sys.modules)}))
"""

HEAVY = {"boto3", "botocore", "pydantic", "pyarrow", "pandas", "numpy", "deltalake", "pyspark", "sqlglot", "asyncio"}
HEAVY |= {"markdown_it", "rich.markdown", "ministack", "yaml"}
"""Each of these takes longer to import than a list to answer."""
OF_COMMANDS = {"rich", "http.client", "deltaic.catalog", "deltaic_ops.cli.operator"}
"""What help has no use for either."""


def loaded(*arguments: str, **variables: str) -> tuple[str, set[str]]:
    """Return a command's output, and the modules that it imported."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "DELTAIC_"))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env={**clean, **variables},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    answer = json.loads(done.stdout)
    assert answer["code"] in {0, None}
    return answer["output"], set(answer["modules"])


def test_help_imports_no_command() -> None:
    output, modules = loaded("--help")
    assert "recipient" in output
    assert modules & (HEAVY | OF_COMMANDS) == set()


@pytest.mark.parametrize("command", ["pipeline --help", "pipeline maintain --help", "pipeline check --help"])
def test_help_of_jobs_imports_neither_spark_nor_aws_libraries(command: str) -> None:
    output, modules = loaded(*command.split())
    assert "usage: " in output.lower()
    assert modules & HEAVY <= {"yaml", "pydantic"}  # Typer's own


@pytest.mark.parametrize(
    "command",
    ["share list", "schema list here", "table list here", "recipient list", "grant list", "token list", "storage list"],
)
def test_listing_commands_do_not_import_boto3(deltaic: Deltaic, command: str) -> None:
    deltaic.done("share create here")
    output, modules = loaded(*command.split(), "--json", **deltaic.variables)
    assert isinstance(json.loads(output), list)
    assert modules & HEAVY <= {"pydantic"}  # Typer's own
    assert "http.client" in modules


def test_table_show_does_not_import_boto3(
    deltaic: Deltaic, aws_session: boto3.Session, embedded_aws: EmbeddedAws
) -> None:
    s3 = aws_session.client("s3", endpoint_url=embedded_aws.endpoint)
    s3.create_bucket(Bucket="light-lake")
    s3.put_object(Bucket="light-lake", Key=f"t/_delta_log/{0:020d}.json", Body=lines([protocol(), metadata()]))
    deltaic.done("share create here")
    deltaic.done("schema create here.s")
    line = "table create here.s.t --location s3://light-lake/t --json"
    output, modules = loaded(*line.split(), **deltaic.variables)
    assert json.loads(output)["location"] == "s3://light-lake/t"
    assert modules & {"boto3", "botocore"} == set()
