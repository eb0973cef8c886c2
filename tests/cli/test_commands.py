"""Every command once, as people and as scripts see it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltaic.catalog.credentials.tokens import TokenStore
from deltaic_ops.cli import COMMANDS, app
from typer.main import get_command
from typer.testing import CliRunner

if TYPE_CHECKING:
    from cli.conftest import Deltaic


def test_shares(deltaic: Deltaic) -> None:
    made = deltaic.json(
        "share create Vaccine_Share --display-name Vaccines --property owner=lab --property note=a=b "
        "--comment 'Trial [bold]results[/bold]'"
    )
    assert made["name"] == "Vaccine_Share"
    assert made["displayName"] == "Vaccines"
    assert made["properties"] == {"owner": "lab", "note": "a=b"}
    assert deltaic.json("share show vaccine_share").items() >= made.items()
    assert deltaic.json("share list") == [made]
    listed = deltaic.done("share list")
    assert "Trial [bold]results[/bold]" in listed
    assert made["id"] not in listed
    assert made["id"] in deltaic.done("share list --ids")
    changed = deltaic.json("share update vaccine_share --comment x --property owner=me --remove-property note")
    assert changed == {**made, "comment": "x", "properties": {"owner": "me"}}
    assert deltaic.json("share update vaccine_share --comment ''")["comment"] == ""
    assert "deleted share 'Vaccine_Share'" in deltaic.done("share delete vaccine_share")
    assert deltaic.json("share list") == []


def test_schemas(filled: Deltaic) -> None:
    made = filled.json("schema create vaccine_share.Other --comment later")
    assert (made["name"], made["share"], made["comment"]) == ("Other", "vaccine_share", "later")
    assert filled.json("schema show VACCINE_SHARE.other") == made
    assert [schema["name"] for schema in filled.json("schema list vaccine_share")] == ["acme", "Other"]
    assert filled.json("schema update vaccine_share.other --comment now")["comment"] == "now"
    filled.done("schema delete vaccine_share.other")
    filled.done("schema delete vaccine_share.acme --force")
    assert "share 'vaccine_share' has no schemas yet" in filled.done("schema list vaccine_share")


def test_tables(filled: Deltaic) -> None:
    made = filled.json(
        "table create vaccine_share.acme.Doses --location s3a://bucket/doses/ --history --start-version 3 "
        "--access-mode url --access-mode dir --auxiliary s3://other/a --auxiliary s3://other/b --storage minio "
        "--checkpoint --unchecked"
    )
    expected = {
        "name": "Doses",
        "schema": "acme",
        "share": "vaccine_share",
        "location": "s3a://bucket/doses",
        "auxiliaryLocations": ["s3://other/a", "s3://other/b"],
        "accessModes": ["url", "dir"],
        "history": True,
        "startVersion": 3,
        "storage": "minio",
        "checkpoint": True,
    }
    assert made | expected == made
    assert made["shareId"] == filled.json("share show vaccine_share")["id"]
    assert filled.json("table show vaccine_share.acme.doses").items() >= made.items()
    for name in ("vaccine_share", "vaccine_share.acme"):
        assert [table["name"] for table in filled.json(f"table list {name}")] == ["Doses", "patients"]
    listed = filled.done("table list vaccine_share").splitlines()
    assert [line.split()[-1] for line in listed if line] == ["CHECKPOINTS", "yes", "no"]
    assert "from 3" in listed[1]
    assert made["id"] not in listed[1]
    assert made["id"] in filled.done("table list vaccine_share --ids")
    changed = filled.json(
        "table update vaccine_share.acme.doses --no-history --start-version 0 --location s3://new/place "
        "--access-mode url --no-auxiliary --storage '' --no-checkpoint --unchecked",
    )
    assert changed == {
        **made,
        "history": False,
        "startVersion": 0,
        "location": "s3://new/place",
        "accessModes": ["url"],
        "auxiliaryLocations": [],
        "storage": "",
        "checkpoint": False,
    }
    filled.done("table delete vaccine_share.acme.doses")
    assert [table["name"] for table in filled.json("table list vaccine_share")] == ["patients"]


def test_a_share_may_have_periods_in_its_name(deltaic: Deltaic) -> None:
    for share in ("a.b", "a"):
        deltaic.done(f"share create {share}")
        deltaic.done(f"schema create {share}.b")
        deltaic.done(f"table create {share}.b.in_{share.replace('.', '_')} --location s3://bucket/x --unchecked")
    assert [table["name"] for table in deltaic.json("table list a.b")] == ["in_a_b"]
    assert [table["name"] for table in deltaic.json("table list a.b.b")] == ["in_a_b"]
    assert [table["name"] for table in deltaic.json("table list a")] == ["in_a"]


def test_storages(deltaic: Deltaic, secrets_manager: Any) -> None:
    made = deltaic.json(
        "storage create store --endpoint http://minio:9000 --public-endpoint https://s3.test "
        "--region eu-west-1 --path-style --access-key-id AKIDEXAMPLE --secret-access-key-stdin",
        given="very-secret-key\n",
    )
    assert made["secret"] == f"deltaic/storage/{deltaic.variables['CATALOG_TABLE']}/store"
    assert "very-secret-key" not in str(made)
    kept = json.loads(secrets_manager.get_secret_value(SecretId=made["secret"])["SecretString"])
    assert kept == {"accessKeyId": "AKIDEXAMPLE", "secretAccessKey": "very-secret-key"}
    assert deltaic.json("storage show STORE") == made
    assert deltaic.json("storage list") == [made]
    changed = deltaic.json(
        "storage update store --no-path-style --role arn:aws:iam::123456789012:role/r --region us-east-1"
    )
    assert (changed["pathStyle"], changed["roleArn"]) == (False, "arn:aws:iam::123456789012:role/r")
    deltaic.done("storage delete store")
    assert "no storages" in deltaic.done("storage list")


def test_recipients(deltaic: Deltaic) -> None:
    made = deltaic.json("recipient create Alice --comment reader --property country=de")
    assert deltaic.json("recipient show alice").items() >= made.items()
    assert deltaic.json("recipient list") == [made]
    changed = deltaic.json("recipient update alice --property country=fr")
    assert changed == {**made, "properties": {"country": "fr"}}
    assert "country=fr" in deltaic.done("recipient list")
    for unasked in ("recipient delete alice", "recipient delete alice --json"):
        refused = deltaic(unasked)
        assert (refused.exit_code, "cannot ask for confirmation here: use --yes" in refused.stderr) == (1, True)
    assert len(deltaic.json("recipient list")) == 1
    assert deltaic.json("recipient delete alice --yes")["name"] == "Alice"
    assert "no recipients yet" in deltaic.done("recipient list")


@pytest.mark.parametrize(("answer", "left"), [("n", ["alice"]), ("y", [])])
def test_on_a_terminal_a_recipient_is_deleted_when_that_is_confirmed(
    filled: Deltaic, answer: str, left: list[str]
) -> None:
    ours, theirs = os.openpty()
    os.write(ours, f"{answer}\n".encode())
    done = subprocess.run(
        [Path(sys.executable).with_name("deltaic"), "recipient", "delete", "alice"],
        env=os.environ | filled.variables,
        stdin=theirs,
        capture_output=True,
        check=False,
    )
    os.close(theirs)
    os.close(ours)
    assert done.returncode == len(left)
    assert [each["name"] for each in filled.json("recipient list")] == left


def test_grants(filled: Deltaic) -> None:
    filled.done("share create other")
    filled.done("recipient create bob")
    made = filled.json("grant create BOB Other")
    assert (made["recipient"], made["share"]) == ("bob", "other")
    assert filled.json("grant show bob other") == made
    assert len(filled.json("grant list")) == 2
    assert filled.json("grant list --recipient bob") == [made]
    assert [grant["recipient"] for grant in filled.json("grant list --share vaccine_share")] == ["alice"]
    filled.done("grant revoke bob other")
    filled.done("grant delete alice vaccine_share")
    assert filled.json("grant list") == []


def test_tokens(filled: Deltaic, tokens: TokenStore) -> None:
    first = filled.json("token create alice --expires 12h --comment laptop")
    secret = first.pop("bearerToken")
    assert tokens.authenticate(secret).id == first["id"]
    assert (first["recipient"], first["state"], first["comment"]) == ("alice", "live", "laptop")
    assert filled.json(f"token show alice {first['id']}") == first
    output = filled.done("token rotate alice --overlap 0 --expires 2w")
    (line,) = [line for line in output.splitlines() if line.startswith("dlt_")]
    second = tokens.authenticate(line)
    assert {token["id"]: token["state"] for token in filled.json("token list alice")} == {
        first["id"]: "revoked",
        second.id: "live",
    }
    assert line not in filled.done("token list")
    assert filled.json(f"token revoke alice {second.id}")["state"] == "revoked"
    filled.done(f"token delete alice {second.id}")


@pytest.mark.parametrize(
    "line", ["share list --catalog {}", "share --catalog={} list", "--catalog x share list --catalog {}"]
)
def test_a_global_option_is_taken_anywhere_in_the_line(filled: Deltaic, line: str) -> None:
    table = filled.variables.pop("CATALOG_TABLE")
    assert [each["name"] for each in filled.json(line.format(table))] == ["vaccine_share"]


def test_an_option_of_the_command_and_a_value_are_not_taken_for_global_options(filled: Deltaic) -> None:
    made = filled.json("storage create other --endpoint http://other:9000 --region eu-west-1")
    assert made["region"] == "eu-west-1"
    assert filled.json("share create own --comment --stack")["comment"] == "--stack"
    assert filled.json("token create alice --profile own.share")["profile"] == "own.share"


def test_the_version_is_told() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.output) == (0, f"deltaic {version('deltaic')}\n")


def verbs() -> list[list[str]]:
    """Return every command as it is typed."""
    group: Any = get_command(app)
    found: list[list[str]] = []
    for noun in COMMANDS:
        command = group.get_command(None, noun)
        below = getattr(command, "commands", None)
        found += [[noun, verb] for verb, each in below.items() if not each.hidden] if below else [[noun]]
    return found


@pytest.mark.parametrize("command", verbs(), ids=" ".join)
def test_every_command_explains_itself_by_example(command: list[str]) -> None:
    result = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "120", "TERM": "dumb"})
    assert result.exit_code == 0
    _, explained = re.split("[Uu]sage:", result.output.split("\nOptions", 1)[0], maxsplit=1)
    called = f"deltaic {' '.join(command)}"
    assert called in explained.partition("\n")[2], f"the docstring has no example, a line behind \\b: {called} ..."


@pytest.mark.parametrize("command", verbs(), ids=" ".join)
def test_help_fits_a_terminal_of_100_columns(command: list[str]) -> None:
    page = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "100", "TERM": "dumb"}).output
    assert [line for line in page.replace("uv run deltaic", "deltaic").splitlines() if len(line) > 100] == []


def test_a_command_loads_only_its_own_noun() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from deltaic_ops.cli import app; "
        "assert CliRunner().invoke(app, ['share', '--help']).exit_code == 0; "
        "print(sorted(n for n in sys.modules if n.startswith('deltaic_ops.cli.')), 'pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "deltaic_ops.cli.catalog.share" in done.stdout
    assert "deltaic_ops.cli.recipients.token" not in done.stdout
    assert "deltaic_ops.cli.local.demo" not in done.stdout


def test_a_share_whose_name_has_a_period_is_made_with_a_warning(deltaic: Deltaic) -> None:
    assert "warnings" not in deltaic.json("share create plain_share")
    [warning] = deltaic.json("share create acme.share")["warnings"]
    assert "its name contains a period" in warning
    refused = deltaic("share create 'a#b'")
    assert (refused.exit_code, "no client can write the share name" in refused.stderr) == (1, True)
