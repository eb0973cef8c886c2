"""`deltaic recipient federate`: an issuer is checked, and a policy is created."""

from __future__ import annotations

from collections.abc import Iterator
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
