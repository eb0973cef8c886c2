"""Token endpoint of the server: responses as in RFC 6749, revocation, and attacks."""

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


def request_token(server: FilledServer, form: Any, headers: dict[str, str] | None = None) -> httpx.Response:
    return httpx.post(f"{server.endpoint}/oauth/token", data=form, headers=headers, timeout=30)


def token_of(server: FilledServer, client: IssuedClient) -> str:
    answer = request_token(server, GRANT, basic(client.client.id, client.secret))
    assert answer.status_code == 200, answer.text
    return str(answer.json()["access_token"])


def list_status(server: FilledServer, token: str) -> int:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.get(f"{server.endpoint}/shares", headers=headers, timeout=30).status_code


def test_published_client_reads(server: FilledServer, client: IssuedClient, tmp_path: Path) -> None:
    profile = tmp_path / "alice.share"
    endpoint = server.endpoint
    text = client_profile(endpoint, f"{endpoint}/oauth/token", client.client.id, client.secret, "deltaic.read")
    profile.write_text(text)
    assert len(delta_sharing.load_as_pandas(f"{profile}#sales.s.orders")) == 7


def test_token_is_a_short_lived_jwt_as_published(server: FilledServer, client: IssuedClient) -> None:
    for answer in (
        request_token(server, {**GRANT, "scope": "deltaic.read x"}, basic(client.client.id, client.secret)),
        request_token(server, {**GRANT, "client_id": client.client.id, "client_secret": client.secret}),
    ):
        assert answer.status_code == 200
        assert (answer.headers["cache-control"], answer.headers["pragma"]) == ("no-store", "no-cache")
        body = answer.json()
        assert (body["token_type"], body["expires_in"]) == ("Bearer", 1800)
    assert "scope" not in body
    well_known = f"{server.endpoint}/.well-known"
    metadata = httpx.get(f"{well_known}/oauth-authorization-server").json()
    assert (metadata["issuer"], metadata["token_endpoint"]) == (server.endpoint, f"{server.endpoint}/oauth/token")
    [key] = httpx.get(metadata["jwks_uri"]).json()["keys"]
    assert set(key) == {"kty", "crv", "x", "y", "kid", "use", "alg"}
    token = body["access_token"]
    assert jwt.get_unverified_header(token) == {"alg": "ES256", "typ": "at+jwt", "kid": key["kid"]}
    claims = jwt.decode(token, jwt.PyJWK(key), algorithms=["ES256"], audience=server.endpoint, issuer=server.endpoint)
    assert claims["exp"] - claims["iat"] == 1800
    assert claims["sub"] == claims["client_id"] == client.client.id
    assert httpx.get(f"{well_known}/other").status_code == 404


def test_scope_is_returned(server: FilledServer, client: IssuedClient) -> None:
    answer = request_token(server, {**GRANT, "scope": "deltaic.read"}, basic(client.client.id, client.secret))
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
def test_invalid_request_has_the_error_code_of_the_standard(
    server: FilledServer, client: IssuedClient, case: str
) -> None:
    form, status, error = WRONG[case]
    headers = basic(client.client.id, client.secret)
    if isinstance(form, dict):
        answer = request_token(server, form, headers)
    else:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        answer = httpx.post(f"{server.endpoint}/oauth/token", content=form, headers=headers, timeout=30)
    assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert answer.headers["cache-control"] == "no-store"
    assert client.secret not in answer.text


def test_every_unknown_client_gets_the_same_response(server: FilledServer, client: IssuedClient) -> None:
    other = server.admin.clients.create(server.readers["bob"].account)
    client_id = client.client.id
    answers = [
        request_token(server, GRANT, basic(client_id, other.secret)),
        request_token(server, GRANT, basic("dlc_" + "0" * 24, client.secret)),
        request_token(server, GRANT, basic("x", "y")),
        request_token(server, GRANT, basic("", "")),
        request_token(server, GRANT, {"Authorization": "Basic %%%"}),
        request_token(server, {**GRANT, "client_id": client_id, "client_secret": ""}),
        request_token(server, {**GRANT, "client_id": client_id}),
        request_token(server, GRANT),
    ]
    assert {(answer.status_code, answer.json()["error"]) for answer in answers} == {(401, "invalid_client")}
    assert len({answer.text for answer in answers}) == 1
    assert (
        list_status(server, request_token(server, GRANT, basic(other.client.id, other.secret)).json()["access_token"])
        == 200
    )


def test_revoked_client_loses_its_tokens(server: FilledServer) -> None:
    account = server.readers["alice"].account
    revoked, remaining = server.admin.clients.create(account), server.admin.clients.create(account)
    unused = token_of(server, revoked)
    assert list_status(server, token_of(server, revoked)) == 200
    server.admin.clients.revoke(account, revoked.client.id)
    assert list_status(server, unused) == 401
    assert request_token(server, GRANT, basic(revoked.client.id, revoked.secret)).status_code == 401
    assert list_status(server, token_of(server, remaining)) == 200
    server.admin.clients.revoke(account, remaining.client.id)


def test_deleted_recipient_loses_its_clients(server: FilledServer) -> None:
    issued = server.admin.clients.create(server.admin.recipients.create("erin"))
    token = token_of(server, issued)
    server.admin.recipients.delete("erin")
    assert list_status(server, token) == 401
    assert request_token(server, GRANT, basic(issued.client.id, issued.secret)).status_code == 401


def test_forged_tokens_are_refused(server: FilledServer, client: IssuedClient) -> None:
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
    assert [list_status(server, token) for token in attacks] == [401] * len(attacks)
    assert list_status(server, good) == 200
    assert list_status(server, token_of(server, client)) == 200
