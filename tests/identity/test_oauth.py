"""The token endpoint of ours: what RFC 6749 wants, tokens that end with their client, and attacks on both."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import delta_sharing
import httpx
import jwt
import pytest
from deltaic.catalog.credentials.oauth_clients import IssuedClient
from deltaic_ops.rights.profile_file import client_profile
from filled_server import FilledServer
from identity.issuer import Issuer, private_key

pytestmark = pytest.mark.slow
GRANT = {"grant_type": "client_credentials"}


@pytest.fixture(scope="module")
def client(server: FilledServer) -> IssuedClient:
    return server.admin.clients.create(server.readers["alice"].account)


def basic(client_id: str, secret: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()}


def ask(server: FilledServer, form: Any, headers: dict[str, str] | None = None) -> httpx.Response:
    return httpx.post(f"{server.endpoint}/oauth/token", data=form, headers=headers, timeout=30)


def token_of(server: FilledServer, client: IssuedClient) -> str:
    answer = ask(server, GRANT, basic(client.client.id, client.secret))
    assert answer.status_code == 200, answer.text
    return str(answer.json()["access_token"])


def listed(server: FilledServer, token: str) -> int:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.get(f"{server.endpoint}/shares", headers=headers, timeout=30).status_code


def test_the_published_client_reads(server: FilledServer, client: IssuedClient, tmp_path: Path) -> None:
    profile = tmp_path / "alice.share"
    endpoint = server.endpoint
    text = client_profile(endpoint, f"{endpoint}/oauth/token", client.client.id, client.secret, "deltaic.read")
    profile.write_text(text)
    assert len(delta_sharing.load_as_pandas(f"{profile}#sales.s.orders")) == 7


def test_a_token_is_a_jwt_of_minutes_that_the_documents_explain(server: FilledServer, client: IssuedClient) -> None:
    for answer in (
        ask(server, {**GRANT, "scope": "deltaic.read x"}, basic(client.client.id, client.secret)),
        ask(server, {**GRANT, "client_id": client.client.id, "client_secret": client.secret}),
    ):
        assert answer.status_code == 200
        assert (answer.headers["cache-control"], answer.headers["pragma"]) == ("no-store", "no-cache")
        said = answer.json()
        assert (said["token_type"], said["expires_in"]) == ("Bearer", 1800)
    assert "scope" not in said
    well_known = f"{server.endpoint}/.well-known"
    described = httpx.get(f"{well_known}/oauth-authorization-server").json()
    assert (described["issuer"], described["token_endpoint"]) == (server.endpoint, f"{server.endpoint}/oauth/token")
    [key] = httpx.get(described["jwks_uri"]).json()["keys"]
    assert set(key) == {"kty", "crv", "x", "y", "kid", "use", "alg"}
    token = said["access_token"]
    assert jwt.get_unverified_header(token) == {"alg": "ES256", "typ": "at+jwt", "kid": key["kid"]}
    claims = jwt.decode(token, jwt.PyJWK(key), algorithms=["ES256"], audience=server.endpoint, issuer=server.endpoint)
    assert claims["exp"] - claims["iat"] == 1800
    assert claims["sub"] == claims["client_id"] == client.client.id
    assert httpx.get(f"{well_known}/other").status_code == 404


def test_the_scope_is_echoed(server: FilledServer, client: IssuedClient) -> None:
    answer = ask(server, {**GRANT, "scope": "deltaic.read"}, basic(client.client.id, client.secret))
    assert answer.json()["scope"] == "deltaic.read"


WRONG: dict[str, tuple[Any, int, str]] = {
    "no grant": ({}, 400, "invalid_request"),
    "another grant": ({"grant_type": "password"}, 400, "unsupported_grant_type"),
    "a scope of control characters": ({**GRANT, "scope": "a\x00b"}, 400, "invalid_scope"),
    "a long scope": ({**GRANT, "scope": "a" * 501}, 400, "invalid_scope"),
    "two ways": ({**GRANT, "client_secret": "x"}, 400, "invalid_request"),
    "a long form": ({**GRANT, "x": "y" * 8192}, 400, "invalid_request"),
    "many fields": ({**GRANT, **{f"x{number}": "y" for number in range(30)}}, 400, "invalid_request"),
    "repeated": ("grant_type=client_credentials&grant_type=client_credentials", 400, "invalid_request"),
    "not ASCII": (b"grant_type=\xff", 400, "invalid_request"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_request_is_told_in_the_words_of_the_standard(
    server: FilledServer, client: IssuedClient, case: str
) -> None:
    form, status, error = WRONG[case]
    headers = basic(client.client.id, client.secret)
    if isinstance(form, dict):
        answer = ask(server, form, headers)
    else:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        answer = httpx.post(f"{server.endpoint}/oauth/token", content=form, headers=headers, timeout=30)
    assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert answer.headers["cache-control"] == "no-store"
    assert client.secret not in answer.text


def test_every_stranger_hears_the_same(server: FilledServer, client: IssuedClient) -> None:
    other = server.admin.clients.create(server.readers["bob"].account)
    known = client.client.id
    answers = [
        ask(server, GRANT, basic(known, other.secret)),
        ask(server, GRANT, basic("dlc_" + "0" * 24, client.secret)),
        ask(server, GRANT, basic("x", "y")),
        ask(server, GRANT, basic("", "")),
        ask(server, GRANT, {"Authorization": "Basic %%%"}),
        ask(server, {**GRANT, "client_id": known, "client_secret": ""}),
        ask(server, {**GRANT, "client_id": known}),
        ask(server, GRANT),
    ]
    assert {(answer.status_code, answer.json()["error"]) for answer in answers} == {(401, "invalid_client")}
    assert len({answer.text for answer in answers}) == 1
    assert listed(server, ask(server, GRANT, basic(other.client.id, other.secret)).json()["access_token"]) == 200


def test_a_revoked_client_ends_with_its_tokens(server: FilledServer) -> None:
    account = server.readers["alice"].account
    gone, kept = server.admin.clients.create(account), server.admin.clients.create(account)
    unused = token_of(server, gone)
    assert listed(server, token_of(server, gone)) == 200
    server.admin.clients.revoke(account, gone.client.id)
    assert listed(server, unused) == 401
    assert ask(server, GRANT, basic(gone.client.id, gone.secret)).status_code == 401
    assert listed(server, token_of(server, kept)) == 200
    server.admin.clients.revoke(account, kept.client.id)


def test_a_deleted_recipients_clients_end(server: FilledServer) -> None:
    issued = server.admin.clients.create(server.admin.recipients.create("erin"))
    token = token_of(server, issued)
    server.admin.recipients.delete("erin")
    assert listed(server, token) == 401
    assert ask(server, GRANT, basic(issued.client.id, issued.secret)).status_code == 401


def test_nobody_else_signs_tokens_of_ours(server: FilledServer, client: IssuedClient) -> None:
    good = token_of(server, client)
    header, claims = jwt.get_unverified_header(good), jwt.decode(good, options={"verify_signature": False})
    forger = Issuer(server.endpoint, {header["kid"]: ("ES256", private_key("ES256"))})
    bob = server.admin.clients.create(server.readers["bob"].account).client.id
    head, body, signature = good.split(".")

    def part(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    attacks = [
        forger.token(**claims),
        f"{head}.{part({**claims, 'client_id': bob})}.{signature}",
        f"{head}.{part({**claims, 'exp': claims['exp'] + 9999})}.{signature}",
        f"{part({**header, 'alg': 'none'})}.{body}.",
        f"{part({**header, 'kid': 'deltaic-other'})}.{body}.{signature}",
        f"{head}.{body}.",
        f"{head}.{body}.{'A' * 86}",
        f"{head}.{part({**claims, 'exp': int(time.time()) - 61})}.{signature}",
    ]
    assert [listed(server, token) for token in attacks] == [401] * len(attacks)
    assert listed(server, good) == 200
    assert listed(server, token_of(server, client)) == 200
