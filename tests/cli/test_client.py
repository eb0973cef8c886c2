"""`deltaic recipient client`: an id and a secret, shown once or written into a profile of version 2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cli.conftest import Deltaic
    from deltaic.catalog.admin.catalog_admin import CatalogAdmin


def test_a_client_is_created_listed_and_revoked(filled: Deltaic) -> None:
    client_ = filled.json("recipient client alice --comment nightly")
    secret = client_.pop("clientSecret")
    assert secret.startswith("dls_")
    assert (client_["recipient"], client_["comment"]) == ("alice", "nightly")
    assert filled.json("recipient clients alice") == filled.json("recipient clients") == [client_]
    assert filled.json(f"recipient revoke-client alice {client_['id']}") == client_
    assert filled.json("recipient clients") == []
    output = filled.done("recipient client alice")
    assert "shown only once" in output
    assert output.splitlines()[-1].startswith("dls_")


def test_a_profile_contains_the_secret_and_the_token_endpoint(filled: Deltaic) -> None:
    output = filled.done("recipient client alice --profile-file alice.share --scope deltaic.read")
    profile = Path("alice.share")
    assert profile.stat().st_mode & 0o777 == 0o600
    written = json.loads(profile.read_text())
    secret = written.pop("clientSecret")
    assert secret not in output
    [client] = filled.json("recipient clients")
    assert written == {
        "shareCredentialsVersion": 2,
        "type": "oauth_client_credentials",
        "endpoint": "https://shares.test/delta-sharing",
        "tokenEndpoint": "https://shares.test/delta-sharing/oauth/token",
        "clientId": client["id"],
        "scope": "deltaic.read",
    }


def test_no_client_is_created_if_its_profile_cannot_be_written(filled: Deltaic, admin: CatalogAdmin) -> None:
    Path("there.share").write_text("mine")
    for file in ("there.share", "missing/alice.share"):
        assert filled(f"recipient client alice --profile-file {file}").exit_code == 1
    assert "not found" in filled("recipient client bob").stderr
    assert Path("there.share").read_text() == "mine"
    assert list(admin.clients.list(admin.recipients.get("alice").id)) == []
