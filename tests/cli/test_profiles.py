"""The profile file: what the client needs, for one pair of eyes, and never over another file by accident."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from delta_sharing.protocol import DeltaSharingProfile

if TYPE_CHECKING:
    from cli.conftest import Deltaic
    from deltaic.catalog.tokens import TokenStore

FILE = Path("alice.share")


def test_the_file_is_what_the_protocol_says_and_the_client_reads(filled: Deltaic, tokens: TokenStore) -> None:
    output = filled.done(f"token create alice --profile {FILE} --expires 2d")
    known = json.loads(FILE.read_text())
    token = tokens.authenticate(known["bearerToken"])
    assert known == {
        "shareCredentialsVersion": 1,
        "endpoint": "https://shares.test/delta-sharing",
        "bearerToken": known["bearerToken"],
        "expirationTime": token.expires_at.strftime("%Y-%m-%dT%H:%M:%S.0Z"),
    }
    assert timedelta(days=1.99) < token.expires_at - datetime.now(UTC) <= timedelta(days=2)
    assert FILE.stat().st_mode & 0o777 == 0o600
    assert output.count(known["bearerToken"]) == 1
    profile = DeltaSharingProfile.read_from_file(str(FILE))
    assert (profile.bearer_token, profile.endpoint) == (known["bearerToken"], known["endpoint"])


def test_a_file_that_is_there_is_replaced_by_force_only(filled: Deltaic, tokens: TokenStore) -> None:
    FILE.write_text("precious")
    FILE.chmod(0o644)
    refused = filled(f"token create alice --profile {FILE}")
    assert refused.exit_code == 1
    assert "--force" in refused.stderr
    assert FILE.read_text() == "precious"
    assert filled.json("token list") == []
    answer = filled.json(f"token create alice --profile {FILE} --force")
    assert answer["profile"] == str(FILE)
    assert tokens.authenticate(json.loads(FILE.read_text())["bearerToken"]).id == answer["id"]
    assert FILE.stat().st_mode & 0o777 == 0o600
    rotated = filled.json(f"token rotate alice --profile {FILE} --force")
    assert json.loads(FILE.read_text())["bearerToken"] == rotated["bearerToken"]


@pytest.mark.parametrize(
    ("arguments", "variables", "remedy"),
    [
        pytest.param("--profile no/such/folder/a.share", {}, "a folder that is there", id="folder"),
        pytest.param("--profile .", {}, "a folder that is there", id="not-a-file"),
        pytest.param("--profile a.share", {"DELTAIC_ENDPOINT": ""}, "--endpoint", id="no-endpoint"),
        pytest.param("--profile a.share --endpoint shares.test", {}, "https://", id="no-scheme"),
        pytest.param("--expires 400d", {}, "365 days", id="too-long"),
    ],
)
def test_what_cannot_be_handed_over_is_not_issued(
    filled: Deltaic, arguments: str, variables: dict[str, str], remedy: str
) -> None:
    refused = filled(f"token create alice {arguments}", **variables)
    assert refused.exit_code == 1
    assert remedy in refused.stderr
    assert filled.json("token list") == []


def test_an_endpoint_of_ones_own_comes_first(filled: Deltaic) -> None:
    filled.done(f"token create alice --profile {FILE} --endpoint http://127.0.0.1:8000/x/")
    assert json.loads(FILE.read_text())["endpoint"] == "http://127.0.0.1:8000/x"
