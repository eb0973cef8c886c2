"""Authentication and grants: bearer tokens, and ungranted entries that look like missing ones."""

import json
import re

import pytest
from contract.recipient import Recipient, Reply
from contract.server import Server

TABLE = "/shares/{share}/schemas/{schema}/tables/{table}"
CALLS = {
    "list shares": ("GET", "/shares"),
    "get share": ("GET", "/shares/share1"),
    "list schemas": ("GET", "/shares/share1/schemas"),
    "list tables": ("GET", "/shares/share1/schemas/default/tables"),
    "list all tables": ("GET", "/shares/share1/all-tables"),
    "version": ("GET", "/shares/share1/schemas/default/tables/table1/version"),
    "metadata": ("GET", "/shares/share1/schemas/default/tables/table1/metadata"),
    "query": ("POST", "/shares/share1/schemas/default/tables/table1/query"),
    "query result": ("POST", "/shares/share1/schemas/default/tables/table1/queries/x"),
    "changes": ("GET", "/shares/share1/schemas/default/tables/table1/changes?startingVersion=0"),
    "credentials": ("POST", "/shares/share1/schemas/default/tables/table1/temporary-table-credentials"),
}
calls = pytest.mark.parametrize(("method", "path"), CALLS.values(), ids=CALLS)


def ask(recipient: Recipient, method: str, path: str) -> Reply:
    return recipient.ask(method, path, b"{}" if method == "POST" else None)


@calls
@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer ", "Bearer wrong", "Bearer two words", "Basic YWxpY2U6cGFzcw==", "Bearer \xfc"],
)
def test_without_a_live_token_every_call_is_401_in_json(
    server: Server, method: str, path: str, authorization: str | None
) -> None:
    headers = {} if authorization is None else {"authorization": authorization}
    reply = ask(Recipient(server.stack.endpoint, None, headers), method, path)
    reply.refused(401, "UNAUTHENTICATED")


@pytest.mark.parametrize("state", ["expired", "revoked"])
def test_an_expired_or_revoked_token_is_401(server: Server, state: str) -> None:
    token = server.expired_token() if state == "expired" else server.revoked_token()
    Recipient(server.stack.endpoint, token).get("/shares").refused(401, "UNAUTHENTICATED")


def test_a_live_token_with_one_character_changed_is_401(alice: Recipient) -> None:
    token = alice.token or ""
    for at in (0, len(token) // 2, len(token) - 1):
        changed = token[:at] + ("b" if token[at] == "a" else "a") + token[at + 1 :]
        Recipient(alice.endpoint, changed).get("/shares").refused(401, "UNAUTHENTICATED")


@pytest.mark.parametrize("scheme", ["bearer", "Bearer"])
def test_the_scheme_of_the_header_is_case_insensitive(alice: Recipient, scheme: str) -> None:
    value = Recipient(alice.endpoint, None, {"authorization": f"{scheme} {alice.token}"})
    assert value.get("/shares").status == 200


def test_a_401_names_the_scheme(server: Server) -> None:
    """RFC 6750, section 3: a 401 names what would be accepted."""
    reply = Recipient(server.stack.endpoint, None).get("/shares")
    remapped = reply.headers.get("x-amzn-remapped-www-authenticate")
    assert reply.headers.get("www-authenticate", remapped) == "Bearer"


def test_each_recipient_sees_its_own_grants(server: Server) -> None:
    for name, shares in {"bob": ["secret_share", "share2"], "carol": []}.items():
        items = server.recipient(name).get("/shares").json["items"]
        assert [item["name"] for item in items] == shares


POSTED = ["/query", "/queries/x", "/temporary-table-credentials"]
CALLS_ON_A_TABLE = ["", "/version", "/version?startingTimestamp=abc", "/metadata", "/changes", *POSTED]


def on_table(recipient: Recipient, call: str, share: str, schema: str = "default", table: str = "table1") -> Reply:
    method = "POST" if call in POSTED else "GET" if call else "HEAD"
    return ask(recipient, method, TABLE.format(share=share, schema=schema, table=table) + call)


@pytest.mark.parametrize("call", CALLS_ON_A_TABLE[1:])
@pytest.mark.parametrize(
    ("share", "schema", "table"),
    [
        ("nope", "default", "table1"),
        ("share1", "nope", "table1"),
        ("share1", "default", "nope"),
        ("share1", "default", "table2"),
        ("secret_share", "default", "table1"),
        ("Nope", "x.y", "z%20z"),
    ],
    ids=["no share", "no schema", "no table", "another share's table", "not granted", "odd names"],
)
def test_a_missing_table_is_404(alice: Recipient, call: str, share: str, schema: str, table: str) -> None:
    reply = on_table(alice, call, share, schema, table)
    reply.refused(404, "RESOURCE_DOES_NOT_EXIST")
    name = f"{share}/{schema}/{table.replace('%20', ' ')}"
    assert reply.json["message"] == (
        f"[Share/Schema/Table] '{name}' does not exist, please contact your share provider for further information."
    )


def test_head_of_a_missing_table_is_404_without_a_body(alice: Recipient) -> None:
    reply = on_table(alice, "", "nope")
    assert (reply.status, reply.body) == (404, b"")


def unnamed(reply: Reply, name: str) -> tuple[int, bytes, set[tuple[str, str]]]:
    """Return the content of a response without the requested name, request ids and length."""
    headers = {
        (key, value) for key, value in reply.headers.items() if not re.match(r"x-amzn-|content-length|date", key)
    }
    return reply.status, reply.body.replace(name.encode(), b"NAME"), headers


@pytest.mark.parametrize("call", CALLS_ON_A_TABLE)
def test_an_ungranted_table_looks_like_a_missing_table(alice: Recipient, server: Server, call: str) -> None:
    granted = on_table(server.recipient("bob"), call, "secret_share")
    assert granted.status in {200, 400} or b"The query is unknown" in granted.body
    absent, hidden = on_table(alice, call, "absent_share"), on_table(alice, call, "secret_share")
    assert absent.status == 404
    assert unnamed(absent, "absent_share") == unnamed(hidden, "secret_share")


@pytest.mark.parametrize("path", ["", "/schemas", "/all-tables", "/schemas/default/tables", "/schemas/nope/tables"])
def test_an_ungranted_share_looks_like_a_missing_share(alice: Recipient, server: Server, path: str) -> None:
    if "nope" not in path:
        assert server.recipient("bob").get(f"/shares/secret_share{path}").status == 200
    absent, hidden = alice.get(f"/shares/absent_share{path}"), alice.get(f"/shares/secret_share{path}")
    absent.refused(404, "RESOURCE_DOES_NOT_EXIST", "share 'absent_share' not found")
    assert unnamed(absent, "absent_share") == unnamed(hidden, "secret_share")


def test_a_refused_parameter_does_not_reveal_an_ungranted_share(alice: Recipient) -> None:
    token = alice.get("/shares/share7/all-tables?maxResults=1").json["nextPageToken"]
    for query in ("maxResults=-1", f"pageToken={token}", "pageToken=x"):
        absent, hidden = (alice.get(f"/shares/{name}/all-tables?{query}") for name in ("absent_share", "secret_share"))
        assert unnamed(absent, "absent_share") == unnamed(hidden, "secret_share")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/nothing"),
        ("POST", "/shares"),
        ("DELETE", "/shares/share1"),
        ("GET", "/shares/share1/schemas/default"),
        ("GET", "/shares/share1/schemas/default/tables/table1/query"),
        ("GET", "/shares//schemas"),
    ],
)
def test_an_unknown_route_is_404_in_json(alice: Recipient, method: str, path: str) -> None:
    alice.ask(method, path).refused(404, "RESOURCE_DOES_NOT_EXIST")


def test_no_response_repeats_the_token(alice: Recipient) -> None:
    for _, path in CALLS.values():
        reply = alice.get(path)
        assert (alice.token or "").encode() not in reply.body + json.dumps(dict(reply.headers)).encode()
