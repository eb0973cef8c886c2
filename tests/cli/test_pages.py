"""Commands on pages exist, and the commands of the README and of the pages on sharing and on leaks work."""

import hashlib
import json
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import deltalake
import pyarrow as pa
import pytest
import typer.main
import xlsxwriter  # type: ignore[import-untyped]
from cli.conftest import CLEAN, Deltaic
from deltaic.catalog.credentials.tokens import TokenStore
from deltaic.errors import Unauthenticated
from deltaic_ops.cli import app
from deltaic_ops.deploy.sam_template import ROOT
from deltaic_ops.local.embedded import EmbeddedAws
from deltaic_ops.local.resources import DATA_BUCKET
from typer.testing import CliRunner

PAGES = ["README.md", "CONTRIBUTING.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))]
SHARING = ("docs/share.md", "docs/follow.md", "docs/limits.md", "docs/check.md", "docs/row-filters.md")
NOUNS = ("share", "schema", "table", "recipient", "grant", "token")
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")


def commands(page: str) -> list[str]:
    """Return what a page's blocks run of `deltaic`, each line once, without that name and without its comment."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    typed = "".join(block for language, block in blocks if not language).replace("\\\n", " ")
    lines = re.findall(r"^(?:\$ )?(?:.* && )?(?:uv run )?deltaic (.*)$", typed, re.MULTILINE)
    return list(dict.fromkeys(re.sub(r"\s+# .*", "", line) for line in lines))


@cache
def explained(*command: str) -> set[str]:
    """Return the options that a command's help names."""
    result = CliRunner().invoke(
        app, [*command, "--help"], env={**dict.fromkeys(CLEAN), "COLUMNS": "200", "TERM": "dumb"}
    )
    assert result.exit_code == 0, result.output
    return set(OPTION.findall(result.output))


@pytest.mark.parametrize("page", PAGES)
def test_a_command_of_a_page_exists_with_its_options(page: str) -> None:
    inline = re.findall(r"(?<!`)`deltaic ([a-z-][^`]*)`", (ROOT / page).read_text(encoding="utf-8"))
    for line in [*commands(page), *inline]:
        arguments = shlex.split(line)
        if arguments[0] == "--stack":
            del arguments[:2]
        command: Any = typer.main.get_command(app)
        called: list[str] = []
        while arguments and hasattr(command, "get_command") and arguments[0] != "...":
            called.append(arguments.pop(0))
            command = command.get_command(None, called[-1])
            assert command is not None, f"there is no `deltaic {line}`"
        used = {argument.partition("=")[0] for argument in arguments if OPTION.match(argument)}
        assert used <= explained() | explained(*called), line


@pytest.fixture
def bucket(aws_session: boto3.Session, embedded_aws: EmbeddedAws) -> str:
    """Return a new bucket for that of the pages, because `follow` would also share tables of other tests."""
    name = f"{DATA_BUCKET}-{uuid4().hex}"
    aws_session.client("s3", endpoint_url=embedded_aws.endpoint).create_bucket(Bucket=name)
    return name


@pytest.fixture
def orders(bucket: str, embedded_aws: EmbeddedAws) -> str:
    """Return the location of a table with one row, whose partition columns the pages use in filters."""
    location, reached = f"s3://{bucket}/orders", {**embedded_aws.environment, "AWS_ALLOW_HTTP": "true"}
    rows = pa.table({"region": ["EU"], "year": [2024], "team": ["north"], "amount": [1]})
    deltalake.write_deltalake(location, rows, partition_by=["region", "year", "team"], storage_options=reached)
    return location


def test_the_commands_of_the_readme_share_a_file_or_a_table(
    deltaic: Deltaic, tmp_path: Path, bucket: str, orders: str
) -> None:
    with xlsxwriter.Workbook(str(tmp_path / "orders.xlsx")) as book:
        page = book.add_worksheet()
        page.write_row(0, 0, ["region", "amount"])
        page.write_row(1, 0, ["EU", 1])
    load, *others = (line for line in commands("README.md") if line.startswith(NOUNS))
    assert [line.split()[:2] for line in (load, *others)] == [
        ["table", "load"],
        *([noun, "create"] for noun in ("recipient", "token", "share", "schema", "table")),
    ]
    deltaic.done(f"{load} --to s3://{bucket}/loaded --yes")
    for line in others[:2]:
        deltaic.done(line)
    assert json.loads((tmp_path / "alice.share").read_text())["bearerToken"]
    for line in others[2:]:
        deltaic.done(line.replace("sales_share", "other_share").replace("s3://bucket/orders", orders))
    assert [table["history"] for table in deltaic.json("table list other_share")] == [True]
    assert [table["location"] for table in deltaic.json("table list sales_share")] == [f"s3://{bucket}/loaded"]


@pytest.mark.usefixtures("orders")
def test_the_commands_that_share_a_table_share_it(deltaic: Deltaic, tmp_path: Path, bucket: str) -> None:
    lines = [line for page in SHARING for line in commands(page) if line.startswith(NOUNS)]
    lines = [line for line in lines if not line.startswith("table load")]
    assert [line.split()[:2] for line in lines[:6]] == [
        [noun, "create"] for noun in ("share", "schema", "table", "recipient", "grant", "token")
    ]
    for line in (line.replace(DATA_BUCKET, bucket) for line in lines):
        if "regoin" in line:
            assert "the table has no column regoin" in deltaic(line).output
        else:
            deltaic.done(line)
    assert deltaic.json("table list sales_share")[0]["history"]
    assert json.loads((tmp_path / "alice.share").read_text())["bearerToken"]
    assert {grant["recipient"]: grant["partitionFilter"] for grant in deltaic.json("grant list")} == {
        "alice": "",
        "bob": "team = 'north'",
    }


def test_every_command_on_leaks_works_as_described(deltaic: Deltaic, tokens: TokenStore, tmp_path: Path) -> None:
    for line in (
        "share create sales_share",
        "recipient create alice --property regions=EU",
        "grant create alice sales_share",
        "storage create vault --access-key-id AKIDOLD --secret-access-key-stdin",
        f"token create alice --profile {tmp_path}/leaked.share",
        f"token create alice --profile {tmp_path}/alice.share",
        "recipient federate alice --issuer http://127.0.0.1:9 --audience deltaic --subject reports",
    ):
        deltaic.done(line, stdin="hush\n")
    leaked, second = (
        json.loads((tmp_path / f"{name}.share").read_text())["bearerToken"] for name in ("leaked", "alice")
    )
    # The page's own way from a token that was found to its id.
    digest = hashlib.sha256(leaked.encode()).hexdigest()[:12]
    lines = commands("docs/leaks.md")
    assert len(lines) == 15
    [policy] = deltaic.json("recipient policies alice")
    invited = deltaic.json("recipient invite alice")
    client = deltaic.json("recipient client alice")
    ids = {"TOKEN_ID": digest, "POLICY_ID": policy["id"], "INVITATION_ID": invited["id"], "CLIENT_ID": client["id"]}
    for line in sorted(lines, key=lambda line: line.startswith("recipient delete")):
        deltaic.done(" ".join(ids.get(argument, argument) for argument in line.split(" ")), stdin="hush\n")
        if "--cancel" in line:
            assert deltaic.json("recipient invites alice")[0]["cancelled"]
        if line.startswith("token revoke"):
            with pytest.raises(Unauthenticated):
                tokens.authenticate(leaked)
            assert tokens.authenticate(second).recipient == "alice"
        if line.startswith("token rotate"):
            with pytest.raises(Unauthenticated):
                tokens.authenticate(second)
        if line.startswith("recipient revoke-client"):
            assert deltaic.json("recipient clients") == []
        if line.startswith("recipient unfederate"):
            assert deltaic.json("recipient policies") == []
        if line.startswith("grant revoke"):
            assert deltaic.json("grant list") == []
        if line.startswith(("recipient cut-off", "recipient restore")):
            assert (deltaic.json("recipient show alice")["cutOffAt"] is None) == ("restore" in line)
    assert deltaic.json("recipient list") == []
