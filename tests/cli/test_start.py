"""A command loads what it works with and no more: help nothing of AWS, lists neither boto3 nor pydantic."""

import json
import os
import subprocess
import sys

import pytest
from cli.conftest import Deltaic

PROGRAM = """
import json, sys
from contextlib import redirect_stdout
from io import StringIO
from deltaic_ops.cli import app
with redirect_stdout(StringIO()) as said:
    code = app(sys.argv[1:], standalone_mode=False)
print(json.dumps({"code": code, "said": said.getvalue(), "modules": sorted(sys.modules)}))
"""

HEAVY = {"boto3", "botocore", "pydantic", "pyarrow", "pandas", "numpy", "deltalake", "pyspark", "sqlglot", "asyncio"}
HEAVY |= {"markdown_it", "rich.markdown", "ministack", "yaml"}
"""Each of these takes longer to import than a list to answer."""
OF_COMMANDS = {"rich", "http.client", "deltaic.catalog", "deltaic_ops.cli.operator"}
"""What help has no use for either."""


def loaded(*words: str, **variables: str) -> tuple[str, set[str]]:
    """Return what a command said, and which modules it had in the end."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "DELTAIC_"))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        env={**clean, **variables},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    answer = json.loads(done.stdout)
    assert answer["code"] in {0, None}
    return answer["said"], set(answer["modules"])


def test_help_loads_no_command() -> None:
    said, modules = loaded("--help")
    assert "recipient" in said
    assert modules & (HEAVY | OF_COMMANDS) == set()


@pytest.mark.parametrize("words", ["pipeline --help", "pipeline maintain --help", "pipeline check --help"])
def test_help_of_jobs_loads_nothing_that_they_work_with(words: str) -> None:
    said, modules = loaded(*words.split())
    assert "Usage: " in said
    assert modules & HEAVY <= {"yaml"}


@pytest.mark.parametrize(
    "words",
    ["share list", "schema list here", "table list here", "recipient list", "grant list", "token list", "storage list"],
)
def test_a_list_asks_dynamodb_and_loads_no_library_of_aws(deltaic: Deltaic, words: str) -> None:
    deltaic.done("share create here")
    said, modules = loaded(*words.split(), "--json", **deltaic.variables)
    assert isinstance(json.loads(said), list)
    assert modules & HEAVY == set()
    assert "http.client" in modules
