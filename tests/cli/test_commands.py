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
from cli.conftest import CLEAN
from deltaic.catalog.credentials.tokens import TokenStore
from deltaic_ops.cli import COMMANDS, app
from typer.main import get_command
from typer.testing import CliRunner

if TYPE_CHECKING:
    from cli.conftest import Deltaic


def test_shares_are_created_listed_updated_and_deleted(deltaic: Deltaic) -> None:
    result = deltaic.json(
        "share create Vaccine_Share --display-name Vaccines --property owner=lab --property note=a=b "
        "--comment 'Trial [bold]results[/bold]'"
    )
    assert result["name"] == "Vaccine_Share"
    assert result["displayName"] == "Vaccines"
    assert result["properties"] == {"owner": "lab", "note": "a=b"}
    assert deltaic.json("share show vaccine_share").items() >= result.items()
    assert deltaic.json("share list") == [result]
    listing = deltaic.done("share list")
    assert "Trial [bold]results[/bold]" in listing
    assert result["id"] not in listing
    assert result["id"] in deltaic.done("share list --ids")
    changed = deltaic.json("share update vaccine_share --comment x --property owner=me --remove-property note")
    assert changed == {**result, "comment": "x", "properties": {"owner": "me"}}
    assert deltaic.json("share update vaccine_share --comment ''")["comment"] == ""
    assert "deleted share 'Vaccine_Share'" in deltaic.done("share delete vaccine_share")
    assert deltaic.json("share list") == []


def test_schemas_are_created_listed_updated_and_deleted(filled: Deltaic) -> None:
    result = filled.json("schema create vaccine_share.Other --comment later")
    assert (result["name"], result["share"], result["comment"]) == ("Other", "vaccine_share", "later")
    assert filled.json("schema show VACCINE_SHARE.other") == result
    assert [schema["name"] for schema in filled.json("schema list vaccine_share")] == ["acme", "Other"]
    assert filled.json("schema update vaccine_share.other --comment now")["comment"] == "now"
    filled.done("schema delete vaccine_share.other")
    filled.done("schema delete vaccine_share.acme --force")
    assert "share 'vaccine_share' has no schemas yet" in filled.done("schema list vaccine_share")


def test_tables_are_created_listed_updated_and_deleted(filled: Deltaic) -> None:
    result = filled.json(
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
    assert result | expected == result
    assert result["shareId"] == filled.json("share show vaccine_share")["id"]
    assert filled.json("table show vaccine_share.acme.doses").items() >= result.items()
    for name in ("vaccine_share", "vaccine_share.acme"):
        assert [table["name"] for table in filled.json(f"table list {name}")] == ["Doses", "patients"]
    listing = filled.done("table list vaccine_share").splitlines()
    assert [line.split()[-1] for line in listing if line] == ["CHECKPOINTS", "yes", "no"]
    assert "from 3" in listing[1]
    assert result["id"] not in listing[1]
    assert result["id"] in filled.done("table list vaccine_share --ids")
    changed = filled.json(
        "table update vaccine_share.acme.doses --no-history --start-version 0 --location s3://new/place "
        "--access-mode url --no-auxiliary --storage '' --no-checkpoint --unchecked",
    )
    assert changed == {
        **result,
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


def test_a_share_name_can_contain_periods(deltaic: Deltaic) -> None:
    for share in ("a.b", "a"):
        deltaic.done(f"share create {share}")
        deltaic.done(f"schema create {share}.b")
        deltaic.done(f"table create {share}.b.in_{share.replace('.', '_')} --location s3://bucket/x --unchecked")
    assert [table["name"] for table in deltaic.json("table list a.b")] == ["in_a_b"]
    assert [table["name"] for table in deltaic.json("table list a.b.b")] == ["in_a_b"]
    assert [table["name"] for table in deltaic.json("table list a")] == ["in_a"]


def test_storages_are_created_listed_updated_and_deleted(deltaic: Deltaic, secrets_manager: Any) -> None:
    storage = deltaic.json(
        "storage create store --endpoint http://minio:9000 --public-endpoint https://s3.test "
        "--region eu-west-1 --path-style --access-key-id AKIDEXAMPLE --secret-access-key-stdin",
        stdin="very-secret-key\n",
    )
    assert storage["secret"] == f"deltaic/storage/{deltaic.variables['CATALOG_TABLE']}/store"
    assert "very-secret-key" not in str(storage)
    secret = json.loads(secrets_manager.get_secret_value(SecretId=storage["secret"])["SecretString"])
    assert secret == {"accessKeyId": "AKIDEXAMPLE", "secretAccessKey": "very-secret-key"}
    assert deltaic.json("storage show STORE") == storage
    assert deltaic.json("storage list") == [storage]
    changed = deltaic.json(
        "storage update store --no-path-style --role arn:aws:iam::123456789012:role/r --region us-east-1"
    )
    assert (changed["pathStyle"], changed["roleArn"]) == (False, "arn:aws:iam::123456789012:role/r")
    deltaic.done("storage delete store")
    assert "no storages" in deltaic.done("storage list")


def test_recipients_are_created_listed_updated_and_deleted(deltaic: Deltaic) -> None:
    recipient = deltaic.json("recipient create Alice --comment reader --property country=de")
    assert deltaic.json("recipient show alice").items() >= recipient.items()
    assert deltaic.json("recipient list") == [recipient]
    changed = deltaic.json("recipient update alice --property country=fr")
    assert changed == {**recipient, "properties": {"country": "fr"}}
    assert "country=fr" in deltaic.done("recipient list")
    for unasked in ("recipient delete alice", "recipient delete alice --json"):
        refused = deltaic(unasked)
        assert (refused.exit_code, "cannot ask for confirmation here: use --yes" in refused.stderr) == (1, True)
    assert len(deltaic.json("recipient list")) == 1
    assert deltaic.json("recipient delete alice --yes")["name"] == "Alice"
    assert "no recipients yet" in deltaic.done("recipient list")


@pytest.mark.parametrize(("answer", "remaining"), [("n", ["alice"]), ("y", [])])
def test_on_a_terminal_a_recipient_is_deleted_after_confirmation(
    filled: Deltaic, answer: str, remaining: list[str]
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
    assert done.returncode == len(remaining)
    assert [each["name"] for each in filled.json("recipient list")] == remaining


def test_grants_are_created_listed_updated_and_deleted(filled: Deltaic) -> None:
    filled.done("share create other")
    filled.done("recipient create bob")
    created = filled.json("grant create BOB Other")
    assert (created["recipient"], created["share"]) == ("bob", "other")
    assert filled.json("grant show bob other") == created
    assert len(filled.json("grant list")) == 2
    assert filled.json("grant list --recipient bob") == [created]
    assert [grant["recipient"] for grant in filled.json("grant list --share vaccine_share")] == ["alice"]
    filled.done("grant revoke bob other")
    filled.done("grant delete alice vaccine_share")
    assert filled.json("grant list") == []


def test_tokens_are_created_listed_and_revoked(filled: Deltaic, tokens: TokenStore) -> None:
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
def test_a_global_option_can_appear_anywhere_in_the_line(filled: Deltaic, line: str) -> None:
    table = filled.variables.pop("CATALOG_TABLE")
    assert [each["name"] for each in filled.json(line.format(table))] == ["vaccine_share"]


def test_options_and_values_of_a_command_are_not_read_as_global_options(filled: Deltaic) -> None:
    storage = filled.json("storage create other --endpoint http://other:9000 --region eu-west-1")
    assert storage["region"] == "eu-west-1"
    assert filled.json("share create own --comment --stack")["comment"] == "--stack"
    assert filled.json("token create alice --profile own.share")["profile"] == "own.share"


def test_the_version_is_printed() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.output) == (0, f"deltaic {version('deltaic')}\n")


ONE_LINE = {
    "share create s": "created share 's'; next: deltaic schema create s.<schema>",
    "share update vaccine_share --comment x --property a=b": (
        "updated share 'vaccine_share': comment x, properties a=b"
    ),
    "share update vaccine_share --comment ''": "share 'vaccine_share' has these values already",
    "schema update vaccine_share.acme --comment 'a\nb'": "updated schema 'vaccine_share.acme': comment",
    "recipient create bob": (
        "created recipient 'bob': no limits, tokens last 90 days; next: deltaic grant create bob <share>"
    ),
    "recipient create carol --grant vaccine_share": (
        "created recipient 'carol': vaccine_share granted, no limits, tokens last 90 days; "
        "next: deltaic token create carol"
    ),
    "recipient update alice --address 10.0.0.0/8 --bytes-per-day 50GB --ends 2099-01-01": (
        "updated recipient 'alice': addresses 10.0.0.0/8, bytes per day 50,000,000,000, ends at 2099-01-01 00:00"
    ),
    "table create vaccine_share.acme.t --location s3://bucket/t --history --unchecked": (
        "shared table 'vaccine_share.acme.t': versions from 0, all rows; "
        "next: deltaic grant create <recipient> vaccine_share"
    ),
    "table update vaccine_share.acme.patients --checkpoint": (
        "updated table 'vaccine_share.acme.patients': checkpoint yes"
    ),
    "grant update alice vaccine_share --ends 2099-01-01": (
        "updated the grant of 'vaccine_share' to 'alice': ends at 2099-01-01 00:00"
    ),
    "storage update minio --no-path-style": "updated storage 'minio': path style no",
}


@pytest.mark.parametrize("line", ONE_LINE)
def test_create_and_update_commands_print_one_line(filled: Deltaic, line: str) -> None:
    done = filled(line)
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", f"{ONE_LINE[line]}\n")


def test_a_new_token_is_the_only_output_for_scripts(filled: Deltaic, tokens: TokenStore) -> None:
    created = filled("token create alice --expires 12h")
    token = tokens.authenticate(created.stdout.strip())
    assert created.stderr.startswith(f"created token {token.id} for 'alice', valid until ")
    written = filled("token create alice --profile alice.share")
    assert (written.stdout, written.stderr.count("\n")) == ("", 1)


def verbs() -> list[list[str]]:
    """Return every command as it is typed."""
    group: Any = get_command(app)
    commands: list[list[str]] = []
    for noun in COMMANDS:
        command = group.get_command(None, noun)
        below = getattr(command, "commands", None)
        commands += [[noun, verb] for verb, each in below.items() if not each.hidden] if below else [[noun]]
    return commands


@pytest.mark.parametrize("command", verbs(), ids=" ".join)
def test_the_help_of_every_command_has_a_sentence_and_an_example_and_fits_100_columns(command: list[str]) -> None:
    result = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "100", "TERM": "dumb"})
    page = result.output.replace("uv run deltaic", "deltaic")
    called = f"deltaic {' '.join(command)}"
    _, sentence, rest = page.split("\n\n", 2)
    assert (result.exit_code, re.match(r" *[A-Z][^\0]*\.$", sentence) is not None) == (0, True), page
    assert page.startswith(f"Usage: {called} [OPTIONS]")
    examples = re.split("\n(?:Arguments|Options):\n", rest)[0]
    assert called in examples, f"the docstring has no example, a line behind \\b: {called} ..."
    assert [line for line in page.splitlines() if len(line) > 100] == []


@pytest.mark.parametrize("noun", sorted({command[0] for command in verbs() if len(command) > 1}))
def test_the_help_of_a_group_has_an_example_and_cuts_no_summary(noun: str) -> None:
    env = {"COLUMNS": "60", "TERM": "dumb", **dict.fromkeys(CLEAN)}
    page = CliRunner().invoke(app, [noun, "--help"], env=env, terminal_width=60).output
    _, sentence, example, _ = page.split("\n\n", 3)
    assert re.fullmatch(r"  [A-Z][^.]*\.(?:md\.)?", sentence), page
    assert example.startswith(f"  deltaic {noun} ")
    assert "..." not in page.partition("Commands:")[2]


def test_a_command_imports_only_its_own_module() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from deltaic_ops.cli import app; "
        "assert CliRunner().invoke(app, ['share', '--help']).exit_code == 0; "
        "print(sorted(n for n in sys.modules if n.startswith('deltaic_ops.cli.')), 'pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "deltaic_ops.cli.catalog.share" in done.stdout
    assert "deltaic_ops.cli.recipients.token" not in done.stdout
    assert "deltaic_ops.cli.local.demo" not in done.stdout


def test_creating_a_share_with_a_period_in_its_name_prints_a_warning(deltaic: Deltaic) -> None:
    assert "warnings" not in deltaic.json("share create plain_share")
    [warning] = deltaic.json("share create acme.share")["warnings"]
    assert "its name contains a period" in warning
    refused = deltaic("share create 'a#b'")
    assert (refused.exit_code, "no client can write the share name" in refused.stderr) == (1, True)
