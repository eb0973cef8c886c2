"""Exit codes and messages: 1 and what to do, 2 and what was not understood; JSON where JSON was asked for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from deltaic_ops.local.embedded import free_port

if TYPE_CHECKING:
    from cli.conftest import Deltaic


@pytest.mark.parametrize(
    ("line", "code"),
    [
        pytest.param("share create VACCINE_share", "RESOURCE_ALREADY_EXISTS", id="exists"),
        pytest.param("share create a/b", "INVALID_PARAMETER_VALUE", id="name"),
        pytest.param("share show nothing", "RESOURCE_DOES_NOT_EXIST", id="absent"),
        pytest.param("share delete vaccine_share", "CONFLICT", id="children"),
        pytest.param("schema delete vaccine_share.acme", "CONFLICT", id="schema-children"),
        pytest.param("table create vaccine_share.acme.t --location /tmp/x", "INVALID_PARAMETER_VALUE", id="location"),
        pytest.param("table list vaccine_share.none", "RESOURCE_DOES_NOT_EXIST", id="schema"),
        pytest.param("grant create bob vaccine_share", "RESOURCE_DOES_NOT_EXIST", id="recipient"),
        pytest.param("grant revoke alice other", "RESOURCE_DOES_NOT_EXIST", id="grant"),
        pytest.param("token revoke alice none", "RESOURCE_DOES_NOT_EXIST", id="token"),
        pytest.param("storage delete none", "RESOURCE_DOES_NOT_EXIST", id="storage"),
    ],
)
def test_a_refusal_is_exit_code_1_with_a_message(filled: Deltaic, line: str, code: str) -> None:
    people = filled(line)
    assert (people.exit_code, people.stdout) == (1, "")
    assert people.stderr.startswith("refused: ")
    scripts = filled(f"{line} --json")
    assert (scripts.exit_code, scripts.stdout) == (1, "")
    body = json.loads(scripts.stderr)
    assert body["errorCode"] == code
    assert f"refused: {body['message']}\n" == people.stderr


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("shares list", id="noun"),
        pytest.param("share make x", id="verb"),
        pytest.param("share create", id="argument"),
        pytest.param("share create x --colour red", id="option"),
        pytest.param("share create x --property owner", id="property"),
        pytest.param("schema create vaccine_share", id="schema"),
        pytest.param("schema create .acme", id="schema-share"),
        pytest.param("table create acme.patients --location s3://bucket/x", id="table"),
        pytest.param("table create s.d.t", id="location"),
        pytest.param("table create s.d.t --location s3://bucket/x --start-version -1", id="version"),
        pytest.param("table update s.d.t --auxiliary s3://bucket/x --no-auxiliary", id="auxiliary"),
        pytest.param("token create alice --expires soon", id="duration"),
        pytest.param("token create alice --expires 90", id="unit"),
        pytest.param("token rotate alice --overlap=-1d", id="overlap"),
        pytest.param("storage create m --access-key-id AKIDEXAMPLE", id="half-a-key"),
        pytest.param("storage create m --secret-access-key-stdin", id="other-half"),
        pytest.param("grant list --recipient a --share b", id="both"),
    ],
)
def test_what_is_not_understood_is_exit_code_2_before_aws_is_asked(nowhere: Deltaic, line: str) -> None:
    result = nowhere(line)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Usage: " in result.stderr


def test_no_server_is_a_line_and_not_a_stack_trace(deltaic: Deltaic) -> None:
    result = deltaic("share list", AWS_ENDPOINT_URL=f"http://127.0.0.1:{free_port()}")
    assert result.exit_code == 1
    assert result.stderr.startswith("refused: AWS cannot be reached")
    assert len(result.stderr.splitlines()) == 1


def test_no_tables_is_a_line_and_not_a_stack_trace(deltaic: Deltaic) -> None:
    result = deltaic("share list --json", CATALOG_TABLE="no-such-table")
    assert result.exit_code == 1
    assert json.loads(result.stderr)["errorCode"] == "RESOURCE_DOES_NOT_EXIST"


def test_an_unknown_aws_profile_is_a_line_and_not_a_stack_trace(deltaic: Deltaic) -> None:
    result = deltaic("--profile no-such-profile share list")
    assert result.exit_code == 1
    assert "no-such-profile" in result.stderr
