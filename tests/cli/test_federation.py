"""`deltaic recipient federate`: an issuer is checked, a policy is created, and a profile of version 2 is written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from identity.issuer import Issuer, running

if TYPE_CHECKING:
    from cli.conftest import Deltaic


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with running() as started:
        yield started


def test_a_policy_is_created_listed_and_removed(filled: Deltaic, issuer: Issuer) -> None:
    line = f"recipient federate alice --issuer {issuer.url} --audience deltaic --subject 7f3c"
    policy = filled.json(f"{line} --subject-claim azp --comment login")
    assert policy == policy | {
        "recipient": "alice",
        "issuer": issuer.url,
        "audience": "deltaic",
        "subjectClaim": "azp",
        "subject": "7f3c",
        "comment": "login",
    }
    assert filled.json("recipient policies alice") == filled.json("recipient policies") == [policy]
    assert filled(f"{line} --subject-claim azp").exit_code == 1
    assert filled.json(f"recipient unfederate alice {policy['id']}") == policy
    assert filled.json("recipient policies") == []
    assert "has no policy" in filled(f"recipient unfederate alice {policy['id']}").stderr


def test_an_issuer_that_does_not_respond_is_a_warning(filled: Deltaic) -> None:
    line = "recipient federate alice --issuer http://127.0.0.1:9 --audience deltaic --subject 7f3c"
    assert "until it does" in filled.json(line)["warnings"][0]
    assert len(filled.json("recipient policies")) == 1


@pytest.mark.parametrize("issuer", ["login.example.org", "http://login.example.org", "https://a:b@login.example.org"])
def test_an_invalid_issuer_is_refused_before_any_write(filled: Deltaic, issuer: str) -> None:
    assert filled(f"recipient federate alice --issuer {issuer} --audience deltaic --subject 7f3c").exit_code == 1
    assert filled.json("recipient policies") == []


def test_a_profile_contains_the_issuers_token_endpoint(filled: Deltaic, issuer: Issuer) -> None:
    line = f"recipient federate alice --issuer {issuer.url} --audience deltaic --subject reports"
    filled.done(f"{line} --profile-file alice.share --client-id reports --scope deltaic.read")
    profile = Path("alice.share")
    assert profile.stat().st_mode & 0o777 == 0o600
    assert json.loads(profile.read_text()) == {
        "shareCredentialsVersion": 2,
        "type": "oauth_client_credentials",
        "endpoint": "https://shares.test/delta-sharing",
        "tokenEndpoint": f"{issuer.url}/token",
        "clientId": "reports",
        "clientSecret": "<client secret>",
        "scope": "deltaic.read",
    }
    repeated = filled(f"{line}2 --profile-file alice.share --client-id reports")
    assert "already exists" in repeated.stderr
    assert len(filled.json("recipient policies")) == 1


def test_a_profile_can_contain_the_recipients_own_key(filled: Deltaic, issuer: Issuer) -> None:
    filled.done(
        f"recipient federate alice --issuer {issuer.url} --audience deltaic --subject reports --profile-file "
        "alice.share --client-id reports --private-key-file /keys/alice.pem --key-id k1"
    )
    assert json.loads(Path("alice.share").read_text()) == {
        "shareCredentialsVersion": 2,
        "type": "oauth_jwt_bearer_private_key_jwt",
        "endpoint": "https://shares.test/delta-sharing",
        "auth": {
            "tokenEndpoint": f"{issuer.url}/token",
            "clientId": "reports",
            "issuer": issuer.url,
            "audience": "deltaic",
            "privateKey": {"privateKeyFile": "/keys/alice.pem", "keyId": "k1", "algorithm": "RS256"},
        },
    }


def test_no_policy_is_created_if_its_profile_cannot_be_written(filled: Deltaic, issuer: Issuer) -> None:
    line = f"recipient federate alice --issuer {issuer.url} --audience deltaic --subject reports"
    assert "--client-id" in filled(f"{line} --profile-file alice.share").stderr
    assert filled(f"{line} --profile-file missing/alice.share --client-id reports").exit_code == 1
    result = filled(f"{line} --profile-file alice.share --client-id reports".replace(issuer.url, "http://127.0.0.1:9"))
    assert "token endpoint" in result.stderr
    assert filled.json("recipient policies") == []
    assert not list(Path().iterdir())
